"""Jobs in gaps make way for who is first in line: see module `lent`."""

from ganger.streams.kernel.session import Session


def run(session: Session) -> None:
    """Let them, if allocate has left somebody first in line or anybody is suspended."""
    if session.make_way is not None:
        session.make_way()

"""The command line: one group, one module per verb."""

import sys

import click

from ganger import __version__
from ganger.services.cli.errors import WRONG_CALL, Failure, GuardedGroup
from ganger.services.cli.log import log
from ganger.services.cli.simulate import simulate
from ganger.services.cli.state import state
from ganger.services.cli.verify import verify
from ganger.services.cli.why import why


@click.group(cls=GuardedGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ganger")
def main() -> None:
    """Schedule GPU clusters from a ledger, and prove every decision by replaying it."""
    if sys.flags.optimize:
        raise Failure(
            "python -O: it leaves out the checks that keep a ledger right. Call ganger without it, "
            "and unset PYTHONOPTIMIZE.",
            WRONG_CALL,
        )


for _verb in (simulate, verify, log, state, why):
    main.add_command(_verb)

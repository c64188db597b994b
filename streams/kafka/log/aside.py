"""Bytes that take long to make, made aside: a forked process has the state as it is now.

The process goes on meanwhile, and changes its state as it likes. The fork shares all memory until
either side writes to it, so it costs little but its time on another core; while it works, what
the process changes is there twice. The bytes come through memory, so that no disk has to have room.
"""

import gc
import os
import signal
import traceback
from collections.abc import Callable
from typing import NoReturn

from ganger.streams.closing import Closing

_STDERR = 2
_FIRST_FILE = 3  # behind standard input, output and error


class AsideFailed(Exception):
    """The forked process ended without the bytes."""


class Aside(Closing):
    """What a forked process makes. Close it in any case: the process ends with it."""

    def __init__(self, make: Callable[[], bytes]) -> None:
        """Fork.

        Args:
            make: called in the forked process. It must neither wait for other threads, of which
                there are none there, nor use files or connections of this process.

        Raises:
            AsideFailed: there can be no process.
        """
        self._pid = 0
        # Each has its own: a forked process may outlive one that is killed, and must not write into
        # what the next one makes.
        try:
            self._file = open(os.memfd_create("ganger-aside"), "r+b")  # noqa: SIM115  # see `close`
        except OSError as error:
            raise AsideFailed(f"no memory can be had for it: {error}") from error
        try:
            self._pid = os.fork()
        except OSError as error:
            self._file.close()
            raise AsideFailed(f"no process can be made ({error}): is there memory?") from error
        if not self._pid:
            _work(make, self._file.fileno())

    def poll(self) -> bytes | None:
        """The bytes, once they are there.

        Raises:
            AsideFailed: they will not be.
        """
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if not pid:
            return None
        self._pid = 0
        if status:
            code = os.waitstatus_to_exitcode(status)
            raise AsideFailed(
                f"the forked process ended with {code}: is there memory? Its standard error says "
                "more"
            )
        self._file.seek(0)
        return self._file.read()

    def close(self) -> None:
        """End the process if it works still."""
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0
        self._file.close()


def _work(make: Callable[[], bytes], file: int) -> NoReturn:
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        # A lock must not be held here when its owner is dead.
        os.closerange(_FIRST_FILE, file)
        os.closerange(file + 1, os.sysconf("SC_OPEN_MAX"))
        gc.disable()  # it would write to all memory
        with open(file, "wb", closefd=False) as stream:
            stream.write(make())
        status = 0
    except BaseException:
        os.write(_STDERR, traceback.format_exc().encode())
    finally:
        os._exit(status)

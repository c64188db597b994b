"""Bytes that take long to make, made aside: a forked process has the state as it is now.

The process goes on meanwhile, and changes its state as it likes. The fork shares all memory until
either side writes to it, so it costs little but its time on another core; while it works, what
the process changes is there twice.
"""

import gc
import os
import signal
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from ganger.streams.closing import Closing

_STDERR = 2
_FIRST_FILE = 3  # behind standard input, output and error


class AsideFailed(Exception):
    """The forked process ended without the bytes."""


class Aside(Closing):
    """What a forked process makes. Close it in any case: the process ends with it."""

    def __init__(self, make: Callable[[], bytes], path: Path) -> None:
        """Fork.

        Args:
            make: called in the forked process. It must neither wait for other threads, of which
                there are none there, nor use files or connections of this process.
            path: file for the bytes; deleted at the end.
        """
        self._path = path
        self._pid = os.fork()
        if not self._pid:
            _work(make, path)

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
                f"the process that writes {self._path} ended with {code}: is there memory and "
                "room on the disk? Its standard error says more"
            )
        return self._path.read_bytes()

    def close(self) -> None:
        """End the process if it works still."""
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0
        self._path.unlink(missing_ok=True)


def _work(make: Callable[[], bytes], path: Path) -> NoReturn:
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        # A lock must not be held here when its owner is dead.
        os.closerange(_FIRST_FILE, os.sysconf("SC_OPEN_MAX"))
        gc.disable()  # it would write to all memory
        path.write_bytes(make())
        status = 0
    except BaseException:
        os.write(_STDERR, traceback.format_exc().encode())
    finally:
        os._exit(status)

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
from tempfile import TemporaryFile
from typing import NoReturn

from ganger.streams.closing import Closing

_STDERR = 2
_FIRST_FILE = 3  # behind standard input, output and error


class AsideFailed(Exception):
    """The forked process ended without the bytes."""


class Aside(Closing):
    """What a forked process makes. Close it in any case: the process ends with it."""

    def __init__(self, make: Callable[[], bytes], folder: Path) -> None:
        """Fork.

        Args:
            make: called in the forked process. It must neither wait for other threads, of which
                there are none there, nor use files or connections of this process.
            folder: where the bytes are kept, in a file without a name. A forked process may outlive
                one that is killed; so it cannot write into what the next one makes.

        Raises:
            AsideFailed: there can be no file.
        """
        self._folder = folder
        self._pid = 0
        try:
            self._file = TemporaryFile(dir=folder)  # noqa: SIM115  # closed by `close`
        except OSError as error:
            raise AsideFailed(f"no file can be made in {folder} ({error}); see to it") from error
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
                f"the process that writes into {self._folder} ended with {code}: is there memory "
                "and room on the disk? Its standard error says more"
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

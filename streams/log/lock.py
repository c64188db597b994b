"""One writer per ledger: a lock on a file, which the system releases when its holder ends."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from ganger.streams.log.errors import LedgerBusy

LOCK_FILE = "LOCK"


class WriterLock:
    """The lock of one ledger, held from construction until `release`."""

    def __init__(self, folder: Path) -> None:
        """Take the lock of the ledger in `folder`, at once or not at all.

        Raises:
            LedgerBusy: another process, or another part of this one, holds it.
            OSError: the lock file cannot be made.
        """
        self._fd = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            digits = os.pread(self._fd, 20, 0).strip()
            self.release()
            raise LedgerBusy(folder, int(digits) if digits.isdigit() else None) from None
        # The pid only serves the message above; on a full disk the lock is as good without it.
        with suppress(OSError):
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Give the lock up. Releasing twice is no error."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

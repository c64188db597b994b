"""The few system calls that a log's safety rests on, each written once."""

import os
from pathlib import Path


def write_at(fd: int, data: bytes, offset: int) -> None:
    """Write all of `data` at `offset`. A call may write less than asked; then go on.

    Raises:
        OSError: a part may have been written.
    """
    written = os.pwrite(fd, data, offset)
    while written < len(data):
        written += os.pwrite(fd, memoryview(data)[written:], offset + written)


def sync_data(fd: int) -> None:
    """Return when the file's bytes and its size are on disk.

    Raises:
        OSError: what is on disk is unknown; never call it again for the same bytes.
    """
    os.fdatasync(fd)


def sync_folder(folder: Path) -> None:
    """Return when the names in `folder` are on disk: files made, renamed and removed.

    Raises:
        OSError: which names are on disk is unknown.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def create_file(path: Path, data: bytes) -> None:
    """Make a file that must not exist, and sync its bytes. Its name needs `sync_folder`.

    Raises:
        OSError: the file may exist in part.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        write_at(fd, data, 0)
        os.fsync(fd)
    finally:
        os.close(fd)

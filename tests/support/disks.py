"""Disks that are small, and full."""

import errno
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(mount: Path, size_mib: int) -> Iterator[None]:
    """A tmpfs of that size at a folder; where none can be mounted the test is skipped."""
    options = ["-t", "tmpfs", "-o", f"size={size_mib}m", "none", str(mount)]
    try:
        done = subprocess.run(["mount", *options], check=False, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("a small disk needs the mount command")
    if done.returncode:
        pytest.skip(f"a small disk needs the right to mount one ({done.stderr.strip()})")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)


def fill(path: Path) -> None:
    """Write a file until the disk takes no more."""
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise

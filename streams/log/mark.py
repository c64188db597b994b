"""The mark file of one log: two slots, written in turn, so that one is always whole."""

from dataclasses import dataclass
from pathlib import Path

from ganger.streams.log.errors import LogCorrupt
from ganger.streams.log.files import create_file, sync_data, write_at
from ganger.streams.log.layout import (
    MARK_SLOT_BYTES,
    MARK_SLOTS,
    Mark,
    Stream,
    pack_mark,
    unpack_mark,
)

MARK_FILE = "mark"

# A reader beside a live writer can catch a slot half written. Reading again ends that; a slot
# that is still bad after so many readings is bad on disk.
_READINGS_MAX = 16


@dataclass(frozen=True, slots=True)
class MarkReading:
    """What the mark file says.

    Attributes:
        mark: the newest mark that checks.
        is_whole: False if the other slot does not check. That slot may have held a newer mark,
            so whole frames beyond `mark` must be taken for acknowledged.
    """

    mark: Mark
    is_whole: bool


def read_mark(folder: Path, stream: Stream) -> MarkReading:
    """The newest mark of the log in `folder`.

    Raises:
        LogCorrupt: the file is missing, or neither slot checks.
    """
    path = folder / MARK_FILE
    marks: list[Mark] = []
    for _ in range(_READINGS_MAX):
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise LogCorrupt(path, 0, 0, "the mark file is missing") from None
        slots = (
            unpack_mark(stream, slot, data[slot * MARK_SLOT_BYTES :][:MARK_SLOT_BYTES])
            for slot in range(MARK_SLOTS)
        )
        marks = [mark for mark in slots if mark is not None]
        if len(marks) == MARK_SLOTS:
            break
    if not marks:
        raise LogCorrupt(
            path,
            0,
            0,
            f"neither slot of the {stream.folder} mark checks, so nobody can tell how many "
            "records were acknowledged",
            "Restore the mark file from a copy no older than the last record.",
        )
    return MarkReading(max(marks, key=lambda mark: mark.counter), len(marks) == MARK_SLOTS)


def create_mark(folder: Path, stream: Stream, mark: Mark) -> None:
    """Write a mark file in which both slots say the same; `mark.counter` is the older one's."""
    newer = Mark(mark.counter + 1, mark.first_seq, mark.position)
    slots = sorted((mark, newer), key=lambda each: each.counter % MARK_SLOTS)
    create_file(folder / MARK_FILE, b"".join(pack_mark(stream, each) for each in slots))


def write_mark(fd: int, stream: Stream, mark: Mark) -> None:
    """Put a mark into its slot and sync it.

    Raises:
        OSError: it may or may not be on disk.
    """
    write_at(fd, pack_mark(stream, mark), mark.counter % MARK_SLOTS * MARK_SLOT_BYTES)
    sync_data(fd)

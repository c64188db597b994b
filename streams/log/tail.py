"""What lies beyond the mark of a log: frames that a crash left whole, and one that it tore."""

from dataclasses import dataclass
from pathlib import Path

from ganger.streams.log.cursor import SegmentCursor, list_segments
from ganger.streams.log.errors import TornFrame
from ganger.streams.log.layout import LogIdentity, Position
from ganger.streams.log.mark import MARK_FILE, MarkReading


@dataclass(frozen=True, slots=True)
class Tail:
    """Beyond the mark.

    Attributes:
        end: after the last whole frame that continues the log.
        size: bytes of the file that `end` is in; what is between is to be cut.
        frame_count: frames beyond the mark in that file.
        what: why those bytes are no record; empty if there are none.
    """

    end: Position
    size: int
    frame_count: int
    what: str


def scan_tail(folder: Path, identity: LogIdentity, reading: MarkReading) -> Tail:
    """Find where the log really ends.

    Whole frames that continue the sequence count, whoever was to be told of them. Bytes that are
    no whole frame end the log if nothing comes after them and both slots of the mark check. Where
    a slot does not check they are refused: a slot is written only after its frame was synced, so
    a crash leaves a torn slot or a torn frame, never both.

    Raises:
        LogCorrupt: the file ends before the mark, a whole frame does not continue the sequence,
            something comes after what is torn, or a slot and a frame are torn.
    """
    goal = reading.mark.position
    beyond = [seq for seq in list_segments(folder) if seq > goal.segment]
    before: Position | None = None
    segment = goal.segment
    while True:
        with SegmentCursor(folder, segment, identity) as cursor:
            cursor.check_follows(before)
            if before is None:
                cursor.check_holds(goal)
                cursor.seek(goal)
            end, frame_count, torn, is_sealed = _scan_segment(cursor)
        what = torn.what if torn else "a seal with no successor" if is_sealed and not beyond else ""
        if what and not reading.is_whole:
            raise cursor.corrupt(
                f"{what}, and a slot of {MARK_FILE} does not check, so that this may have been "
                "acknowledged"
            )
        if not beyond:
            return Tail(end, cursor.size, frame_count, what)
        if not is_sealed:
            raise cursor.corrupt(
                f"no seal, yet a segment follows that begins at seq {beyond[0]}"
                + (f": {what}" if what else "")
            )
        before = end
        segment = beyond.pop(0)


def _scan_segment(cursor: SegmentCursor) -> tuple[Position, int, TornFrame | None, bool]:
    """Before the seal or after the last whole frame; frames; what is torn there; is it sealed."""
    frame_count = 0
    while True:
        end = cursor.position
        if cursor.offset == cursor.size:
            return end, frame_count, None, False
        try:
            if cursor.next_group(cursor.size) is None:
                return end, frame_count, None, True
        except TornFrame as torn:
            return end, frame_count, torn, False
        frame_count += 1

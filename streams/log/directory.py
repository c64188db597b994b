"""A ledger's directory: the lock and the two streams of one cell.

```
DIR/LOCK        held by the writer
DIR/ledger/     input records: segments and mark
DIR/decisions/  decision records: segments and mark
```

What else lies in DIR (tables, snapshots) is nobody's business here.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ganger.streams.closing import Closing
from ganger.streams.log.errors import LedgerExists, LogCorrupt, NotALedger
from ganger.streams.log.files import sync_folder
from ganger.streams.log.layout import LogIdentity, Stream
from ganger.streams.log.lock import WriterLock
from ganger.streams.log.reader import SegmentReader
from ganger.streams.log.segments import SEGMENT_BYTES_DEFAULT, SegmentLog

_UNFINISHED_SUFFIX = ".tmp"

# The ledger's folder comes last, and with it the whole: where it is, nothing is missing.
_CREATION_ORDER = (Stream.DECISIONS, Stream.LEDGER)


@dataclass(frozen=True, slots=True)
class LedgerReaders:
    """Both streams of a ledger, read. Takes no lock and may be used beside a live writer."""

    ledger: SegmentReader
    decisions: SegmentReader


class LedgerDirectory(Closing):
    """Both streams of a ledger, open for writing under one lock.

    Attributes:
        ledger: input records; seq is dense from 0.
        decisions: decision records; position is dense from 0.
    """

    def __init__(
        self, path: Path, lock: WriterLock, ledger: SegmentLog, decisions: SegmentLog
    ) -> None:
        """Use `create` or `open`."""
        self.path = path
        self.ledger = ledger
        self.decisions = decisions
        self._lock = lock

    @classmethod
    def create(
        cls,
        path: Path,
        cell: str,
        *,
        arguments: bytes = b"",
        fingerprint: bytes = b"",
        segment_bytes: int = SEGMENT_BYTES_DEFAULT,
    ) -> Self:
        """Make an empty ledger and open it. A creation that was cut off is begun again.

        Args:
            path: the directory; made if missing. What else it holds is left alone.
            cell: name of the cell.
            arguments: a run's arguments, canonical; they become part of the chains.
            fingerprint: the schema ids in use, canonical; they become part of the chains.
            segment_bytes: size at which segments are sealed.

        Raises:
            LedgerExists: there is one.
            LedgerBusy: another process is at it.
            LogCorrupt: decisions are there, but the ledger that caused them is not.
            ValueError: cell, arguments and fingerprint are too large.
            OSError: the ledger was not created; it may be tried again.
        """
        _make_folder(path)
        lock = WriterLock(path)
        try:
            if (path / Stream.LEDGER.folder).exists():
                raise LedgerExists(path)
            _remove_unfinished(path)
            for stream in _CREATION_ORDER:
                _create_stream(path, LogIdentity(stream, cell, fingerprint, arguments))
            return cls._open_locked(path, lock, segment_bytes)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        segment_bytes: int = SEGMENT_BYTES_DEFAULT,
        check_from_seq: int | None = None,
        check_from_position: int | None = None,
    ) -> Self:
        """Open a ledger for writing: take the lock, check and recover both streams.

        Args:
            path: the directory.
            segment_bytes: size at which segments are sealed from now on.
            check_from_seq: as for `SegmentLog`, in the ledger; by default all is checked.
            check_from_position: the same in the decisions.

        Raises:
            NotALedger: the directory holds none.
            LedgerBusy: it has a writer.
            LogCorrupt: a stream does not check, or the two do not belong together.
            LedgerFailed: what a crash left could not be settled.
        """
        _check_ledger(path)
        lock = WriterLock(path)
        try:
            return cls._open_locked(path, lock, segment_bytes, check_from_seq, check_from_position)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def _open_locked(
        cls,
        path: Path,
        lock: WriterLock,
        segment_bytes: int,
        check_from_seq: int | None = None,
        check_from_position: int | None = None,
    ) -> Self:
        ledger = SegmentLog(
            path / Stream.LEDGER.folder,
            Stream.LEDGER,
            segment_bytes=segment_bytes,
            check_from_seq=check_from_seq,
        )
        try:
            decisions = SegmentLog(
                path / Stream.DECISIONS.folder,
                Stream.DECISIONS,
                segment_bytes=segment_bytes,
                check_from_seq=check_from_position,
            )
        except BaseException:
            ledger.close()
            raise
        directory = cls(path, lock, ledger, decisions)
        try:
            _check_pair(path, ledger.identity, decisions.identity)
        except LogCorrupt:
            directory.close()
            raise
        return directory

    @staticmethod
    def open_reader(path: Path) -> LedgerReaders:
        """Open a ledger for reading.

        Raises:
            NotALedger: the directory holds none.
            LogCorrupt: a mark or a first segment does not check, or the streams do not belong
                together. What else is wrong is found by reading.
        """
        _check_ledger(path)
        ledger, decisions = (
            SegmentReader(path / stream.folder, stream)
            for stream in (Stream.LEDGER, Stream.DECISIONS)
        )
        _check_pair(path, ledger.identity, decisions.identity)
        return LedgerReaders(ledger, decisions)

    @property
    def is_full(self) -> bool:
        """Whether a stream refuses groups until `resume`."""
        return self.ledger.is_full or self.decisions.is_full

    def resume(self) -> None:
        """Take groups again after `LedgerFull`, if there is room now.

        Raises:
            LedgerFull: there is not; nothing has changed.
            LedgerFailed: the system refuses in another way.
        """
        self.ledger.resume()
        self.decisions.resume()

    def close(self) -> None:
        """Close both streams and give up the lock."""
        self.ledger.close()
        self.decisions.close()
        self._lock.release()


def _make_folder(path: Path) -> None:
    """Make a directory and what is missing above it, so that a power cut takes none of it back."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        sync_folder(folder.parent)


def _create_stream(path: Path, identity: LogIdentity) -> None:
    """Make one stream's folder under a name of no meaning, then give it its own."""
    folder = path / identity.stream.folder
    unfinished = folder.with_suffix(_UNFINISHED_SUFFIX)
    unfinished.mkdir()
    SegmentLog.create(unfinished, identity)
    unfinished.rename(folder)
    sync_folder(path)


def _remove_unfinished(path: Path) -> None:
    """Remove what a creation that was cut off left: folders without a record."""
    for stream in _CREATION_ORDER:
        folder = path / stream.folder
        unfinished = folder.with_suffix(_UNFINISHED_SUFFIX)
        if folder.exists():
            if SegmentReader(folder, stream).end() > 0:
                raise _part_missing(path, Stream.LEDGER)
            shutil.rmtree(unfinished, ignore_errors=True)
            # Never half a folder under the name of a whole one, even if this is cut off too.
            folder.rename(unfinished)
        if unfinished.exists():
            shutil.rmtree(unfinished)


def _check_ledger(path: Path) -> None:
    """Check that `path` holds a ledger, whole or damaged."""
    if not path.is_dir():
        what = "this is no directory" if path.exists() else "there is no such directory"
        raise NotALedger(path, what, "Name a ledger, or create one there.")
    found = [stream for stream in Stream if (path / stream.folder).is_dir()]
    if Stream.LEDGER in found:
        if Stream.DECISIONS not in found:
            raise _part_missing(path, Stream.DECISIONS)
        return
    leftovers = [stream.folder + _UNFINISHED_SUFFIX for stream in Stream]
    if found or any((path / name).exists() for name in leftovers):
        if found and SegmentReader(path / found[0].folder, found[0]).end() > 0:
            raise _part_missing(path, Stream.LEDGER)
        raise NotALedger(
            path, "a ledger was being created here and is not finished", "Create it again."
        )
    raise NotALedger(
        path,
        f"there is no ledger here: no folder {Stream.LEDGER.folder}",
        "Name the directory that contains it, or create a ledger.",
    )


def _check_pair(path: Path, ledger: LogIdentity, decisions: LogIdentity) -> None:
    for field in ("cell", "fingerprint", "arguments"):
        wanted, found = getattr(ledger, field), getattr(decisions, field)
        if wanted != found:
            raise LogCorrupt(
                path / decisions.stream.folder,
                0,
                0,
                f"{field} {found!r} differs from the ledger's {wanted!r}",
                "Restore both folders from the same copy.",
            )


def _part_missing(path: Path, stream: Stream) -> LogCorrupt:
    return LogCorrupt(
        path / stream.folder,
        0,
        0,
        "the folder is missing",
        "Restore it from a copy of the ledger.",
    )

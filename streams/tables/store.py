"""What a ledger's folder keeps for speed, in RocksDB: it may be deleted at any time.

```
STORE/LOCK        held by the process that has the store open
STORE/sealed-N/   a checkpoint of RocksDB with its seal (module `seal`); the newest counts
STORE/live/       RocksDB's own files while the store is open; never trusted afterwards
```

Opening checks the newest sealed checkpoint byte by byte, links it into a fresh `live` and opens
that. On any doubt (seal, format, another ledger, a watermark beyond the ledger's end, an error of
RocksDB) everything is deleted and the store begins empty: whoever asks it must be able to work out
again what it does not find. `seal` makes what was written so far survive a `kill -9`; the
write-ahead log is off, since nothing between two seals would be believed anyway.
"""

import fcntl
import os
import shutil
import struct
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from rocksdict import (
    BlockBasedOptions,
    Cache,
    Checkpoint,
    Options,
    Rdict,
    WriteBatch,
    WriteOptions,
)

from ganger.streams.closing import Closing
from ganger.streams.log.protocol import LogReader
from ganger.streams.tables.seal import SealedFile, check_seal, write_seal

STORE_FOLDER = "store"
"""Name of a ledger's store inside the ledger's directory."""

STORE_FORMAT = 1
"""Number of the layout of keys and values; another one found means: rebuild."""

BLOCK_CACHE_BYTES = 8 << 20
WRITE_BUFFER_BYTES = 4 << 20

_LOCK_FILE = "LOCK"
_LIVE = "live"
_SEALED = "sealed-"
_UNFINISHED = "sealing"
_HEAD_KEY = b"\0head"

Item = tuple[bytes, bytes | None]
"""A key and its new value; none deletes the key."""


class StoreBusy(Exception):
    """Another process has the store open. Work without it, or try again when it is done."""


class StoreFailed(Exception):
    """RocksDB or the disk refused: no room, no permission, an error in a file. Work without it."""


class _Head(Struct, frozen=True):
    """First row of a store: whose it is and how far it goes."""

    format: int
    identity: bytes
    seq: int  # records below it are covered by what the store holds


def ledger_identity(log: LogReader) -> bytes:
    """32 bytes that tell a ledger from others: over cell, schema ids and a run's arguments."""
    parts = (log.cell.encode(), log.fingerprint, log.arguments)
    return sha256(b"".join(struct.pack("<I", len(part)) + part for part in parts)).digest()


class Store(Closing):
    """An ordered map of bytes that belongs to one ledger. One process at a time has it open.

    Attributes:
        rebuilt: why what was found was deleted; empty if nothing was.
    """

    def __init__(self, folder: Path, log: LogReader) -> None:
        """Open the store of a ledger, empty if there is none or none that can be trusted.

        Args:
            folder: the store's own; made if missing.
            log: the ledger that it belongs to.

        Raises:
            StoreBusy: another process has it open.
            StoreFailed: it cannot be opened or made.
        """
        self._folder = folder
        with _failing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._lock_fd = _lock(folder)
        self.rebuilt = ""
        self._files: dict[str, SealedFile] = {}
        self._generation = 0
        self._is_changed = False
        self._db: Rdict | None = None
        wanted, end = _Head(STORE_FORMAT, ledger_identity(log), 0), log.end()
        try:
            with _failing(folder):
                self._head = self._open(wanted, end)
        except BaseException:
            self.close()
            raise

    @property
    def seq(self) -> int:
        """Records of the ledger below this are covered by some of what the store holds."""
        return self._head.seq

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, or none.

        Raises:
            StoreFailed: it cannot be read.
        """
        rocks = self._rocks()
        with _failing(self._folder):
            value: bytes | None = rocks.get(key)
        return value

    def write(self, seq: int, items: Iterable[Item]) -> None:
        """Write all items in one batch, which states that it rests on the records below `seq`.

        Raises:
            StoreFailed: they were not written.
        """
        batch = WriteBatch(raw_mode=True)
        for key, value in items:
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        if seq > self._head.seq:
            self._head = msgspec.structs.replace(self._head, seq=seq)
        batch.put(_HEAD_KEY, msgspec.msgpack.encode(self._head))
        rocks = self._rocks()
        with _failing(self._folder):
            rocks.write(batch)
        self._is_changed = True

    @contextmanager
    def scan(self, prefix: bytes, start: bytes = b"") -> Iterator[Iterator[tuple[bytes, bytes]]]:
        """Yield an iterator over the keys that begin with `prefix`, ascending, with values.

        Args:
            prefix: what the keys begin with.
            start: first key wanted, without the prefix.

        RocksDB's iterator is given up when the context ends: while one lives, its lock stays.

        Raises:
            StoreFailed: not all of it can be read.
        """
        found = _rows(self._folder, self._rocks().iter(), prefix, prefix + start)
        try:
            yield found
        finally:
            found.close()

    def seal(self) -> None:
        """Make a sealed checkpoint of all that was written; older ones are deleted.

        Cost: reads what is new since the last one.

        Raises:
            StoreFailed: there is none; the one before may be gone as well.
        """
        if self._is_changed:
            rocks = self._rocks()
            with _failing(self._folder):
                self._seal(rocks)

    def _seal(self, rocks: Rdict) -> None:
        rocks.flush(True)
        unfinished = self._folder / _UNFINISHED
        shutil.rmtree(unfinished, ignore_errors=True)
        Checkpoint(rocks).create_checkpoint(str(unfinished))
        # Tables never change once written; all other files do.
        known = {name: file for name, file in self._files.items() if name.endswith(".sst")}
        self._files = write_seal(unfinished, known)
        before = self._generation
        self._generation += 1
        unfinished.rename(self._sealed(self._generation))
        shutil.rmtree(self._sealed(before), ignore_errors=True)
        self._is_changed = False

    def clear(self, why: str) -> None:
        """Delete everything and go on empty."""
        self.rebuilt = why
        with _failing(self._folder):
            self._head = self._begin_empty(msgspec.structs.replace(self._head, seq=0))

    def close(self) -> None:
        """Seal what was written and give the store up.

        Raises:
            StoreFailed: it is given up, but what was written since the last seal is lost.
        """
        try:
            if self._db is not None:
                self.seal()
        finally:
            self._close_rocks()
            if self._lock_fd >= 0:
                shutil.rmtree(self._folder / _LIVE, ignore_errors=True)
                os.close(self._lock_fd)
            self._lock_fd = -1

    def _open(self, wanted: _Head, end: int) -> _Head:
        shutil.rmtree(self._folder / _LIVE, ignore_errors=True)
        shutil.rmtree(self._folder / _UNFINISHED, ignore_errors=True)
        generations = _generations(self._folder)
        if not generations:
            return self._begin_empty(wanted)
        self._generation = generations[-1]
        files = check_seal(self._sealed(self._generation))
        if isinstance(files, str):
            return self._rebuild(wanted, files)
        self._files = files
        live = self._folder / _LIVE
        live.mkdir()
        for name in files:
            _take(self._sealed(self._generation) / name, live / name)
        try:
            self._db = _open_rocks(live)
            raw = self.get(_HEAD_KEY)
            head = msgspec.msgpack.decode(raw or b"", type=_Head)
        # RocksDB's errors come as bare `Exception`.
        except Exception as error:
            return self._rebuild(wanted, f"it does not open: {error}")
        if (head.format, head.identity) != (wanted.format, wanted.identity):
            return self._rebuild(wanted, "it is of another format or another ledger")
        if head.seq > end:
            return self._rebuild(wanted, f"it knows {head.seq} records, the ledger {end}")
        return head

    def _rebuild(self, head: _Head, why: str) -> _Head:
        self.rebuilt = why
        return self._begin_empty(head)

    def _begin_empty(self, head: _Head) -> _Head:
        self._close_rocks()
        for path in list(self._folder.iterdir()):
            if path.is_dir():
                shutil.rmtree(path)
        self._files = {}
        live = self._folder / _LIVE
        live.mkdir()
        self._db = _open_rocks(live)
        self._is_changed = False
        return head

    def _rocks(self) -> Rdict:
        if self._db is None:
            raise ValueError(f"{self._folder}: the store is closed. Open it anew.")
        return self._db

    def _close_rocks(self) -> None:
        rocks, self._db = self._db, None
        if rocks is not None:
            # It first writes what it has, for nobody. Where the disk refuses that, it is closed as
            # nobody refers to it any more.
            with suppress(Exception):
                rocks.close()

    def _sealed(self, generation: int) -> Path:
        return self._folder / f"{_SEALED}{generation:08d}"


@contextmanager
def _failing(folder: Path) -> Iterator[None]:
    """Turn what RocksDB or the system raises into `StoreFailed`."""
    try:
        yield
    except StoreBusy:
        raise
    # RocksDB's errors come as bare `Exception`.
    except Exception as error:
        raise StoreFailed(
            f"{folder}: the store failed: {error}. Delete it, if it stays."
        ) from error


def _lock(folder: Path) -> int:
    fd = os.open(folder / _LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise StoreBusy(
            f"{folder}: another process has the store open. Work without it, or try again later."
        ) from None
    return fd


def _generations(folder: Path) -> list[int]:
    """Numbers of the sealed checkpoints, ascending."""
    found = []
    for path in folder.iterdir():
        digits = path.name.removeprefix(_SEALED)
        if path.name.startswith(_SEALED) and digits.isascii() and digits.isdigit():
            found.append(int(digits))
    return sorted(found)


def _take(source: Path, target: Path) -> None:
    """Link a table, which never changes, or copy any other file."""
    if source.suffix == ".sst":
        with suppress(OSError):
            os.link(source, target)
            return
    shutil.copyfile(source, target)


def _open_rocks(folder: Path) -> Rdict:
    blocks = BlockBasedOptions()
    blocks.set_block_cache(Cache(BLOCK_CACHE_BYTES))
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(blocks)
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_max_background_jobs(2)
    options.set_keep_log_file_num(1)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    rocks = Rdict(str(folder), options)
    write_options: Any = WriteOptions()  # typed as if its settings were methods
    write_options.disable_wal = True
    rocks.set_write_options(write_options)
    return rocks


def _rows(
    folder: Path, rows: Any, prefix: bytes, start: bytes
) -> Generator[tuple[bytes, bytes], None, None]:
    rows.seek(start)
    while rows.valid():
        key = rows.key()
        if not key.startswith(prefix):
            return
        yield key, rows.value()
        rows.next()
    # An iterator also ends where a block cannot be read; this raises then.
    with _failing(folder):
        rows.status()

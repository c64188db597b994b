"""The store: what it keeps, and that anything doubtful is deleted before RocksDB meets it."""

import random
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from ganger.streams.log.layout import LogIdentity, Stream
from ganger.streams.log.memory import MemoryLog
from ganger.streams.tables.seal import SEAL_FILE, check_seal, write_seal
from ganger.streams.tables.store import Store, StoreBusy, StoreFailed, ledger_identity

FLIP_STEP = 67
OPENINGS_SECONDS_MAX = 120

# Flips every FLIP_STEP-th byte of each file in turn; each opening must find it and empty the store.
# In a process of its own, since a hang or a crash is what it looks for.
_OPEN_DAMAGED = """
import sys
from pathlib import Path
from ganger.streams.log.layout import LogIdentity, Stream
from ganger.streams.log.memory import MemoryLog
from ganger.streams.tables.store import Store

origin, folder, step = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
log = MemoryLog(LogIdentity(Stream.LEDGER, "lab"))
log.append([b"x"] * 10)
sealed = [path for path in sorted(origin.rglob("*")) if path.is_file()]
count = 0
for path in sealed:
    for place in range(0, path.stat().st_size, step):
        for other in sealed:
            copy = folder / other.relative_to(origin)
            copy.parent.mkdir(parents=True, exist_ok=True)
            data = bytearray(other.read_bytes())
            if other == path:
                data[place] ^= 1 << (place % 8)
            copy.unlink(missing_ok=True)
            copy.write_bytes(data)
        with Store(folder, log) as store:
            assert store.rebuilt, (path, place)
            with store.scan(b"") as rows:
                assert not list(rows)
        count += 1
print(count)
"""

_WRITE_AND_DIE = """
import os, sys
from pathlib import Path
from ganger.streams.log.layout import LogIdentity, Stream
from ganger.streams.log.memory import MemoryLog
from ganger.streams.tables.store import Store

log = MemoryLog(LogIdentity(Stream.LEDGER, "lab"))
log.append([b"x"] * 10)
store = Store(Path(sys.argv[1]), log)
store.write(9, [(b"k100", b"late")])
if sys.argv[2] == "True":
    store.seal()
os._exit(9)
"""


def memory_log(cell: str = "lab", count: int = 10) -> MemoryLog:
    log = MemoryLog(LogIdentity(Stream.LEDGER, cell))
    log.append([b"x"] * count)
    return log


def filled(folder: Path) -> Path:
    with Store(folder, memory_log()) as store:
        store.write(7, [(b"k%03d" % n, b"value %d" % n) for n in range(100)])
    return folder


def keys(store: Store, prefix: bytes = b"k") -> list[bytes]:
    with store.scan(prefix) as rows:
        return [key for key, _ in rows]


def test_what_was_written_is_there_after_closing(tmp_path: Path) -> None:
    with Store(filled(tmp_path), memory_log()) as store:
        assert store.rebuilt == ""
        assert store.seq == 7
        assert store.get(b"k042") == b"value 42"
        assert store.get(b"k100") is None
        assert keys(store) == [b"k%03d" % n for n in range(100)]
        assert keys(store, b"k01") == [b"k%03d" % n for n in range(10, 20)]
        with store.scan(b"k", b"098") as rows:
            assert list(rows) == [(b"k098", b"value 98"), (b"k099", b"value 99")]
        store.write(3, [(b"k042", None), (b"k043", b"new")])
        assert store.seq == 7
    with Store(tmp_path, memory_log()) as store:
        assert store.get(b"k042") is None
        assert store.get(b"k043") == b"new"


def test_only_one_sealed_checkpoint_remains(tmp_path: Path) -> None:
    with Store(filled(tmp_path), memory_log()) as store:
        for n in range(5):
            store.write(8, [(b"n", b"%d" % n)])
            store.seal()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["LOCK", "sealed-00000006"]


def test_one_process_at_a_time(tmp_path: Path) -> None:
    filled(tmp_path)
    with Store(tmp_path, memory_log()), pytest.raises(StoreBusy, match="another process"):
        Store(tmp_path, memory_log())
    with Store(tmp_path, memory_log()) as store:
        assert store.get(b"k001") == b"value 1"


def test_a_scan_that_was_left_keeps_no_lock(tmp_path: Path) -> None:
    with Store(filled(tmp_path), memory_log()) as store, store.scan(b"k") as rows:
        assert next(rows)[0] == b"k000"
    with Store(tmp_path, memory_log()) as store:
        assert len(keys(store)) == 100
    assert next(rows, None) is None


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = Store(tmp_path, memory_log())
    store.close()
    store.close()
    with pytest.raises(ValueError, match="closed"):
        store.get(b"k")


@pytest.mark.parametrize(
    ("log", "why"),
    [
        (memory_log("other"), "another ledger"),
        (memory_log(count=6), "knows 7 records, the ledger 6"),
    ],
)
def test_a_store_that_does_not_belong_is_emptied(tmp_path: Path, log: MemoryLog, why: str) -> None:
    with Store(filled(tmp_path), log) as store:
        assert why in store.rebuilt
        assert keys(store) == []
        assert store.seq == 0
    with Store(tmp_path, memory_log()) as store:
        assert store.rebuilt == ""
        assert keys(store) == []


def test_identity_tells_ledgers_apart() -> None:
    identities = [
        LogIdentity(Stream.LEDGER, "lab"),
        LogIdentity(Stream.LEDGER, "la", b"b"),
        LogIdentity(Stream.LEDGER, "lab", b"", b"run"),
        LogIdentity(Stream.LEDGER, "lab", b"run"),
    ]
    assert len({ledger_identity(MemoryLog(identity)) for identity in identities}) == 4


@pytest.mark.parametrize("is_sealed", [True, False])
def test_a_killed_process_loses_only_what_it_did_not_seal(tmp_path: Path, is_sealed: bool) -> None:
    filled(tmp_path)
    command = [sys.executable, "-c", _WRITE_AND_DIE, str(tmp_path), str(is_sealed)]
    assert subprocess.run(command, timeout=OPENINGS_SECONDS_MAX, check=False).returncode == 9
    with Store(tmp_path, memory_log()) as store:
        assert store.rebuilt == ""
        assert len(keys(store)) == (101 if is_sealed else 100)
        assert store.seq == (9 if is_sealed else 7)


def test_every_flipped_byte_is_seen_by_the_seal(tmp_path: Path) -> None:
    filled(tmp_path)
    (sealed,) = tmp_path.glob("sealed-*")
    assert isinstance(check_seal(sealed), dict)
    for path in sorted(sealed.iterdir()):
        data = path.read_bytes()
        path.unlink()  # tables are linked from elsewhere
        for place in range(len(data)):
            path.write_bytes(data[:place] + bytes((data[place] ^ 0x10,)) + data[place + 1 :])
            assert isinstance(check_seal(sealed), str), (path.name, place)
        path.write_bytes(data)
    assert isinstance(check_seal(sealed), dict)


@pytest.mark.parametrize("change", ["cut", "grow", "remove", "add", "unseal"])
def test_changed_files_are_seen_by_the_seal(tmp_path: Path, change: str) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(name.encode() * 50)
    write_seal(tmp_path, {})
    target = tmp_path / "b"
    if change == "cut":
        target.write_bytes(b"b" * 49)
    elif change == "grow":
        target.write_bytes(b"b" * 51)
    elif change == "remove":
        target.unlink()
    elif change == "add":
        (tmp_path / "c").write_bytes(b"")
    else:
        (tmp_path / SEAL_FILE).unlink()
    assert isinstance(check_seal(tmp_path), str)


def test_damaged_files_never_reach_rocksdb(tmp_path: Path) -> None:
    origin = filled(tmp_path / "origin")
    (origin / "LOCK").unlink()
    folder = tmp_path / "damaged"
    command = [sys.executable, "-c", _OPEN_DAMAGED, str(origin), str(folder), str(FLIP_STEP)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=OPENINGS_SECONDS_MAX, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100


def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    filled(tmp_path)
    for name in ("live", "sealing"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "CURRENT").write_bytes(b"rubbish")
    with Store(tmp_path, memory_log()) as store:
        assert store.rebuilt == ""
        assert len(keys(store)) == 100


def test_a_store_whose_disk_refuses_is_given_up_all_the_same(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    store = Store(tmp_path / "s", memory_log())
    store.write(1, [(b"k", random.Random(1).randbytes(1 << 20))])
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, hard))
    try:
        with pytest.raises(StoreFailed):
            store.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    with Store(tmp_path / "s", memory_log()) as again:
        assert again.get(b"k") is None

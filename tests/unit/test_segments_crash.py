"""Kill and power loss at every system call of a small workload.

`Disk` stands between the log and the system. It remembers, for each file and folder, what was
synced last, and before every call makes pictures of what a crash at this moment could leave:

* killed: everything written so far, as the page cache keeps it;
* torn: the same, with only half of the write that is under way;
* power loss: only what was synced;
* power loss with names: contents as synced, names as they are now, and the other way round.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ganger.streams.log.directory import LedgerDirectory
from ganger.streams.log.errors import NotALedger
from ganger.streams.log.layout import Stream, pack_frame
from ganger.streams.log.mark import read_mark
from ganger.streams.log.protocol import LogReader

# A picture: relative path -> bytes of a file, or None for a folder.
Picture = dict[str, bytes | None]


class Disk:
    """Records calls and pictures of everything below `root`."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.pictures: list[tuple[str, int, Picture]] = []
        self.acknowledged = 0
        self._contents: dict[int, bytes] = {}
        self._names: dict[int, dict[str, int]] = {}
        self._is_folder: dict[int, bool] = {}
        self._note(root)
        self._sync_folder(root)
        for name in ("pwrite", "ftruncate", "fsync", "fdatasync", "rename"):
            monkeypatch.setattr(os, name, self._wrap(name, getattr(os, name)))

    def _wrap(self, name: str, call: Callable[..., object]) -> Callable[..., object]:
        def wrapped(*args: object) -> object:
            self.take(f"before {name}")
            if name == "pwrite":
                fd, data, offset = args
                call(fd, data[: len(data) // 2], offset)
                self.take("amid pwrite")
            answer = call(*args)
            if name in ("fsync", "fdatasync"):
                self._sync(Path(os.readlink(f"/proc/self/fd/{args[0]}")))
            return answer

        return wrapped

    def take(self, moment: str) -> None:
        """Add the pictures of this moment."""
        current = self._current()
        synced = self._synced(self._inode(self.root), "")
        kept = {
            name: None if data is None else self._contents.get(self._inode(self.root / name), b"")
            for name, data in current.items()
        }
        late = {
            name: data if data is None or name not in current else current[name]
            for name, data in synced.items()
        }
        for kind, picture in (
            ("killed", current),
            ("power loss", synced),
            ("names kept", kept),
            ("bytes kept", late),
        ):
            self.pictures.append((f"{kind}, {moment}", self.acknowledged, picture))

    def _current(self) -> Picture:
        picture: Picture = {}
        for path in sorted(self.root.rglob("*")):
            self._note(path)
            name = str(path.relative_to(self.root))
            picture[name] = None if path.is_dir() else path.read_bytes()
        return picture

    def _synced(self, folder: int, prefix: str) -> Picture:
        picture: Picture = {}
        for name, inode in sorted(self._names.get(folder, {}).items()):
            if self._is_folder[inode]:
                picture[prefix + name] = None
                picture |= self._synced(inode, f"{prefix}{name}/")
            else:
                picture[prefix + name] = self._contents.get(inode, b"")
        return picture

    def _sync(self, path: Path) -> None:
        if path.is_dir():
            self._sync_folder(path)
        else:
            self._contents[self._inode(path)] = path.read_bytes()

    def _sync_folder(self, path: Path) -> None:
        children = list(path.iterdir())
        for child in children:
            self._note(child)
        self._names[self._inode(path)] = {child.name: self._inode(child) for child in children}

    def _note(self, path: Path) -> None:
        self._is_folder[self._inode(path)] = path.is_dir()

    @staticmethod
    def _inode(path: Path) -> int:
        return path.stat().st_ino


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    root = tmp_path / "disk"
    root.mkdir()
    with monkeypatch.context() as patch:
        yield Disk(root, patch)


def restore(picture: Picture, path: Path) -> Path:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    for name, data in picture.items():
        if data is None:
            (path / name).mkdir()
        else:
            (path / name).write_bytes(data)
    return path


def records_of(log: LogReader) -> list[bytes]:
    return [record for _, group in log.read_groups() for record in group]


def test_a_crash_while_creating_leaves_a_ledger_or_nothing(disk: Disk, tmp_path: Path) -> None:
    LedgerDirectory.create(disk.root / "new", "cell", arguments=b"{}").close()
    disk.take("at the end")
    pictures, whole = list(disk.pictures), 0
    for moment, _, picture in pictures:
        path = restore(picture, tmp_path / "copy") / "new"
        try:
            directory = LedgerDirectory.open(path)
            whole += 1
        except NotALedger:
            directory = LedgerDirectory.create(path, "cell", arguments=b"{}")
        with directory:
            assert directory.ledger.end() == directory.decisions.end() == 0, moment
            assert directory.ledger.append([b"a"]) == directory.decisions.append([b"a"]) == 0
            assert directory.ledger.arguments == b"{}"
    assert 4 <= whole < len(pictures) - 20


def test_a_crash_while_appending_loses_nothing_acknowledged(disk: Disk, tmp_path: Path) -> None:
    groups = [
        [f"{number}.{index}".encode() * 6 for index in range(number % 3 + 1)] for number in range(9)
    ]
    written = [record for group in groups for record in group]
    with LedgerDirectory.create(disk.root / "led", "cell", segment_bytes=300) as directory:
        disk.pictures.clear()
        for group in groups:
            directory.ledger.append(group)
            disk.acknowledged = directory.ledger.end()
        disk.take("at the end")
        assert len(list((disk.root / "led/ledger").glob("*.seg"))) >= 3
    kept = 0
    for moment, acknowledged, picture in list(disk.pictures):
        path = restore(picture, tmp_path / "copy") / "led"
        # The mark alone proves it: no frame beyond it need be believed.
        marked = read_mark(path / "ledger", Stream.LEDGER).mark.position.seq
        assert marked >= acknowledged, moment
        with LedgerDirectory.open(path, segment_bytes=300) as directory:
            found = records_of(directory.ledger)
            assert found == written[: len(found)], moment
            assert len(found) >= acknowledged, moment
            kept += len(found) > acknowledged
            directory.ledger.append([b"after"])
        assert records_of(LedgerDirectory.open_reader(path).ledger) == [*found, b"after"], moment
    assert kept > 0


def test_a_crash_while_recovering_loses_nothing(disk: Disk, tmp_path: Path) -> None:
    path = disk.root / "led"
    with LedgerDirectory.create(path, "cell", segment_bytes=300) as directory:
        for number in range(6):
            directory.ledger.append([f"{number}".encode() * 9])
    # A process was killed after it wrote a frame and half of another, and before any sync.
    with sorted((path / "ledger").glob("*.seg"))[-1].open("ab") as file:
        file.write(pack_frame(6, [b"never acknowledged"]) + pack_frame(7, [b"torn"])[:-1])
    disk.pictures.clear()
    disk.acknowledged = 6
    with LedgerDirectory.open(path) as directory:
        disk.acknowledged = directory.ledger.end()
        disk.take("at the end")
    assert disk.acknowledged == 7
    for moment, acknowledged, picture in list(disk.pictures):
        with LedgerDirectory.open(restore(picture, tmp_path / "copy") / "led") as directory:
            assert acknowledged <= directory.ledger.end() <= 7, moment

"""A worker's folder belongs to one Kafka; what it holds of another is deleted."""

from pathlib import Path

import pytest

from ganger.streams.kafka.worker.folder import CELLS_FOLDER, TABLES_FOLDER, keep_for

IDS = {"ganger.ledger": "a", "ganger.rows": "b"}


def filled(folder: Path) -> Path:
    for name in (CELLS_FOLDER, TABLES_FOLDER):
        (folder / name / "lab").mkdir(parents=True)
    (folder / "LOCK").touch()
    return folder


def test_what_is_of_the_same_topics_stays(tmp_path: Path) -> None:
    folder = filled(tmp_path)
    for ids in (IDS, dict(reversed(IDS.items()))):
        keep_for(folder, ids)
        assert (folder / CELLS_FOLDER / "lab").exists()
        assert (folder / TABLES_FOLDER / "lab").exists()


@pytest.mark.parametrize(
    "others", [{**IDS, "ganger.rows": "c"}, {**IDS, "ganger.jobs": "d"}, {"ganger.ledger": "a"}]
)
def test_what_is_of_other_topics_goes_once(
    others: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = filled(tmp_path)
    keep_for(folder, IDS)
    keep_for(folder, others)
    assert sorted(path.name for path in folder.iterdir()) == ["LOCK", "TOPICS"]
    assert "data_deleted" in caplog.text
    (folder / CELLS_FOLDER / "lab").mkdir(parents=True)
    keep_for(folder, others)
    assert (folder / CELLS_FOLDER / "lab").exists()


def test_a_mark_that_is_damaged_is_another(tmp_path: Path) -> None:
    folder = filled(tmp_path)
    (folder / "TOPICS").write_bytes(b"\xff\x00")
    keep_for(folder, IDS)
    assert not (folder / TABLES_FOLDER).exists()

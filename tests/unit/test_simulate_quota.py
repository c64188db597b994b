"""The preset of quota admission from a trace to a ledger that proves itself."""

from pathlib import Path

from ganger.replay.cluster import parse_nodes
from ganger.replay.simulate import run
from ganger.replay.verify import verify
from ganger.schemas.enums import DecisionKind
from ganger.streams.log.directory import LedgerDirectory
from ganger.streams.presets.loader import load_policy
from support.small_runs import decisions_of, random_trace

NODES = parse_nodes("3x4,2x2")


def test_a_trace_runs_under_the_preset_and_its_ledger_verifies(tmp_path: Path) -> None:
    jobs = random_trace(40, 7)
    summary = run(jobs, NODES, load_policy("kueue"), tmp_path / "kueue")
    default = run(jobs, NODES, load_policy(), tmp_path / "default")
    assert summary.ended == default.ended
    made = decisions_of(tmp_path / "kueue")
    admitted = [one.job for one in made if one.kind is DecisionKind.ADMIT]
    kinds = (DecisionKind.ALLOCATE, DecisionKind.BACKFILL)
    placed = [one.job for one in made if one.kind in kinds]
    assert sorted(admitted) == sorted(dict.fromkeys(placed))
    assert verify(LedgerDirectory.open_reader(tmp_path / "kueue")).is_equal

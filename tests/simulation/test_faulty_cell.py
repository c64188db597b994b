"""Seeded cells in which nearly everything goes wrong: the kernel's invariants hold after every
moment,
and when the faults are over every job ends."""

import os
import random

import pytest

from ganger.replay.assumptions import Assumptions
from ganger.replay.cell import VirtualCell
from ganger.replay.cluster import ClusterSpec, parse_nodes
from ganger.replay.faults import CardFault, Cordon, Faults, NodeFault
from ganger.replay.machines import Machines
from ganger.replay.simulate import CELL, run
from ganger.replay.traces.model import Trace
from ganger.schemas.records import OwnerClaimed
from ganger.streams.engine import Engine
from ganger.streams.intake import Intake
from ganger.streams.kernel import invariants
from ganger.streams.log.layout import LogIdentity, Stream
from ganger.streams.log.memory import MemoryLog
from ganger.streams.presets.loader import load_policy
from support.small_runs import random_trace

SEEDS = range(int(os.environ.get("GANGER_SEED", "0")), int(os.environ.get("GANGER_SEED", "0")) + 6)
CLUSTER = parse_nodes("4x4,4x2")
SPAN_S = 600


def random_faults(seed: int, cluster: ClusterSpec) -> Faults:
    """Faults of every kind, all of which end."""
    source = random.Random(seed)
    nodes = [name for name, _ in cluster.expand()]

    def when() -> tuple[int, int]:
        return source.randrange(SPAN_S), source.choice((1, 20, 39, 41, 100, 300))

    absences = []
    for node in source.sample(nodes, 5):
        at_s, for_s = when()
        absences.append(NodeFault(node, at_s, for_s, source.random() < 0.5))
        absences.append(NodeFault(node, at_s + for_s + 50, 60, source.random() < 0.5))
    return Faults(
        pod_failure_milli=source.choice((0, 50, 100)),
        duplicate_milli=source.choice((0, 200)),
        late_milli=source.choice((0, 200)),
        late_max_s=source.choice((1, 60, 500)),
        shuffle=source.random() < 0.7,
        release_s=source.choice((0, 0, 3, 60)),
        nodes=tuple(absences),
        cards=tuple(CardFault(node, source.randrange(2), *when()) for node in nodes[:4]),
        cordons=tuple(
            Cordon(node, *when(), drain=source.random() < 0.5) for node in source.sample(nodes, 3)
        ),
    )


def cell_of(workload: Trace, faults: Faults, seed: int) -> tuple[VirtualCell, Engine]:
    """A cell over logs in memory, to be driven by hand."""
    logs = (MemoryLog(LogIdentity(stream, CELL, b"", b"")) for stream in Stream)
    ledger, decisions = logs
    engine = Engine.create(ledger, decisions)
    intake = Intake(CELL, CELL, pause_ns=None)
    cell = VirtualCell(
        engine,
        intake,
        Machines(CLUSTER),
        workload.jobs,
        seed=seed,
        faults=faults,
        assumptions=Assumptions(),
        watch=None,
    )
    return cell, engine


@pytest.mark.parametrize("seed", SEEDS)
def test_invariants_hold_and_every_job_ends(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = 0

    advance = VirtualCell.advance

    def advance_and_check(cell: VirtualCell) -> bool:
        nonlocal checked
        goes_on = advance(cell)
        invariants.check(cell._state)
        checked += 1
        return goes_on

    monkeypatch.setattr(VirtualCell, "advance", advance_and_check)
    workload = random_trace(80, seed)
    faults = random_faults(seed, CLUSTER)
    summary = run(workload, CLUSTER, load_policy(), seed=seed, faults=faults)
    assert checked > 80
    again = f"GANGER_SEED={seed} pytest {__file__} -k 'ends and {seed}'"
    ended = sum(summary.ended.get(name, 0) for name in ("ALL_PODS_SUCCEEDED", "RETRY_LIMIT"))
    assert ended == 80, f"{ended} of 80 jobs ended: {summary.ended}; again: {again}"


def test_a_cell_can_be_driven_by_hand() -> None:
    workload = random_trace(3, seed=1)
    cell, engine = cell_of(workload, Faults(), seed=0)
    cell.take(OwnerClaimed(cell.now_ns, "", None, "me"))
    cell.beat()
    assert cell.advance()
    assert engine.state.clock_ns == workload.jobs[0].submit_ns
    assert cell.submitted_count >= 1

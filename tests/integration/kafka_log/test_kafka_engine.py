"""An engine over Kafka: killed at any place, taken over, and always the same cell."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from ganger.replay.cluster import parse_nodes
from ganger.replay.simulate import run
from ganger.schemas.encoding import decision_payload
from ganger.schemas.records import Record
from ganger.streams.engine import Engine
from ganger.streams.kafka.cluster.cells import Placement
from ganger.streams.kafka.cluster.topics import DECISIONS
from ganger.streams.kafka.log.ledger import KafkaDecisions
from ganger.streams.kafka.log.logs import DecisionLog, LiveDecisionLog
from ganger.streams.kafka.log.snapshots import LayeredSnapshots
from ganger.streams.kernel.digest import seal
from ganger.streams.kernel.state import State
from ganger.streams.kernel.step import step
from ganger.streams.log.errors import LedgerLost
from ganger.streams.presets.loader import load_policy
from ganger.streams.seed import chain_seed
from support.kafka_cells import KafkaCell
from support.small_runs import ledger_of, random_trace

JOBS = 400


class Killed(Exception):
    """What a process that is killed does not live to see."""


class DyingLog(DecisionLog):
    """Ends its process when so many decisions are published, in the middle of a group."""

    left = 1 << 60

    def append(self, payloads: Sequence[bytes]) -> int:
        if len(payloads) > self.left:
            super().append(payloads[: self.left])
            raise Killed
        self.left -= len(payloads)
        return super().append(payloads)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    path = tmp_path_factory.mktemp("run") / "ledger"
    run(random_trace(JOBS, seed=7), parse_nodes("4x4"), load_policy(), path)
    return ledger_of(path)


def folded(placement: Placement, records: Sequence[Record]) -> tuple[State, list[bytes]]:
    """What an uninterrupted fold gives."""
    seed = chain_seed(placement.cell, placement.fingerprint, placement.arguments)
    state = State(placement.cell, seed)
    decisions = [d for seq, record in enumerate(records) for d in step(state, seq, record)]
    return state, [decision_payload(decision) for decision in decisions]


def follow(engine: Engine, cell: KafkaCell) -> None:
    with cell.ledger() as ledger:
        for first, group in ledger.read_groups(engine.state.next_seq):
            for begin in range(0, len(group), 100):
                engine.follow(first + begin, group[begin : begin + 100])


def published(cell: KafkaCell) -> list[bytes]:
    with cell.decisions() as log:
        return [payload for _, group in log.read_groups() for payload in group]


def check(engine: Engine, cell: KafkaCell, records: Sequence[Record]) -> None:
    state, decisions = folded(cell.placement, records)
    assert seal(engine.state) == seal(state)
    assert engine.state.chain == state.chain
    assert engine.decision_count == len(decisions)
    assert published(cell) == decisions  # none missing, none twice under another id


@pytest.mark.parametrize("share", [0, 1, 37, 99])
@pytest.mark.parametrize("kind", [DecisionLog, LiveDecisionLog])
def test_an_engine_killed_while_publishing_is_taken_over(
    cell: KafkaCell, records: list[Record], share: int, kind: type[DecisionLog]
) -> None:
    half = len(records) // 2
    cell.feed(records[:half])
    dying = DyingLog(cell.settings, cell.placement, cell.new_publisher())
    engine = Engine.recover(cell.ledger_log(), dying, None)
    check(engine, cell, records[:half])
    cell.feed(records[half:])
    dying.left = share * len(folded(cell.placement, records)[1]) // 200
    with pytest.raises(Killed):
        follow(engine, cell)
    log = kind(cell.settings, cell.placement, cell.publisher)
    engine = Engine.recover(cell.ledger_log(), log, None)
    log.settle()
    check(engine, cell, records)
    with KafkaDecisions(cell.settings, cell.placement) as stored:
        assert stored.partition.watermarks()[1] == log.end()  # not even a copy


def test_two_owners_at_once_are_one_cell(cell: KafkaCell, records: list[Record]) -> None:
    logs = [
        DecisionLog(cell.settings, cell.placement, cell.new_publisher()),
        LiveDecisionLog(cell.settings, cell.placement, cell.new_publisher()),
    ]
    engines = [Engine.recover(cell.ledger_log(), log, None) for log in logs]
    steps = [records[begin : begin + 150] for begin in range(0, len(records), 150)]
    for number, group in enumerate(steps):
        cell.feed(group)
        follow(engines[number % 2], cell)  # the other one is behind, and repeats it all
        logs[number % 2].settle()
    for engine, log in zip(engines, logs, strict=True):
        follow(engine, cell)
        log.settle()
        check(engine, cell, records)
        assert log.end() == engine.decision_count
    later = Engine.recover(cell.ledger_log(), cell.decision_log(), None)
    check(later, cell, records)


@pytest.mark.parametrize("with_copies", [False, True])
@pytest.mark.parametrize("is_local", [True, False])
def test_a_snapshot_with_its_bookmark_is_a_shortcut(
    cell: KafkaCell,
    records: list[Record],
    tmp_path: Path,
    is_local: bool,
    with_copies: bool,
) -> None:
    half = len(records) // 2
    cell.feed(records[:half])
    log = cell.decision_log()
    with LayeredSnapshots(
        tmp_path / "a", cell.ledger(), log, cell.publisher, cell.snapshots()
    ) as snapshots:
        engine = Engine.recover(cell.ledger_log(), log, snapshots)
        engine.save_checkpoint()
    saved = engine.decision_count
    cell.write(DECISIONS, folded(cell.placement, records)[1][saved : saved + 10])
    if with_copies:
        cell.write(DECISIONS, published(cell)[-40:])
    cell.feed(records[half:])
    folder = tmp_path / ("a" if is_local else "b")
    log = cell.decision_log()
    with LayeredSnapshots(
        folder, cell.ledger(), log, cell.publisher, cell.snapshots()
    ) as snapshots:
        counted: list[int] = []
        log.resume = _noting(log, counted)  # type: ignore[method-assign]
        engine = Engine.recover(cell.ledger_log(), log, snapshots)
        assert counted == [saved - 1]
        check(engine, cell, records)
        assert log.end() == engine.decision_count
        engine.save_checkpoint()


def _noting(log: DecisionLog, counted: list[int]):  # type: ignore[no-untyped-def]
    resume = log.resume

    def noting(bookmark):  # type: ignore[no-untyped-def]
        counted.append(bookmark.position)
        resume(bookmark)

    return noting


def test_a_ledger_that_lost_its_tail_is_refused_with_both_numbers(
    cell: KafkaCell, records: list[Record], tmp_path: Path
) -> None:
    cell.feed(records[:100])
    log = cell.decision_log()
    with LayeredSnapshots(
        tmp_path, cell.ledger(), log, cell.publisher, cell.snapshots()
    ) as snapshots:
        Engine.recover(cell.ledger_log(), log, snapshots).save_checkpoint()
        snapshots.save(120, b"made when there were more")
    for folder in (tmp_path, tmp_path / "other"):  # known by the disk, and by the topic
        with (
            LayeredSnapshots(
                folder, cell.ledger(), log, cell.publisher, cell.snapshots()
            ) as snapshots,
            pytest.raises(LedgerLost, match=r"ends at 100.* made at 120.* 20 records") as caught,
        ):
            Engine.recover(cell.ledger_log(), log, snapshots)
        assert (caught.value.known, caught.value.end) == (120, 100)

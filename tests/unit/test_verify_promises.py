"""A kernel that breaks its word is found out by `verify`, though every decision is equal."""

from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from ganger.replay.reader import initial_state
from ganger.replay.verify import Verification, verify
from ganger.replay.windows import WindowCheck
from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.encoding import decision_payload, encode_record
from ganger.schemas.enums import DecisionKind
from ganger.services.cli.verify import _violation_text
from ganger.streams.kernel.actions import backfill
from ganger.streams.kernel.backfill.gaps import Gaps
from ganger.streams.kernel.nodes import placement
from ganger.streams.kernel.step import step
from ganger.streams.log.layout import LogIdentity, Stream
from ganger.streams.log.memory import MemoryLog
from ganger.streams.presets.loader import load_policy
from support import builders as b

START = b.GENESIS
S = b.SECOND


class Pair(NamedTuple):
    ledger: MemoryLog
    decisions: MemoryLog


def written(records: list[r.Record]) -> Pair:
    """The streams of a cell that the kernel, as it is now, would write."""
    logs = Pair(*[MemoryLog(LogIdentity(stream, "lab", b"")) for stream in list(Stream)[:2]])
    state = initial_state(logs.ledger)
    for seq, record in enumerate(records):
        decisions = step(state, seq, record)
        logs.ledger.append([encode_record(record)])
        if decisions:
            logs.decisions.append([decision_payload(decision) for decision in decisions])
    return logs


def begun(preset: str, *more: r.Record) -> list[r.Record]:
    claims = (r.OwnerClaimed(START, "", None, "o"), r.IntakeClaimed(START, "", None, "i"))
    rules = replace(load_policy(preset), time_ns=START)
    return [*claims, rules, b.queue("q"), b.node("n"), *more]


def job(name: str, cards: int, run_s: int, **more: Any) -> r.JobSubmitRequested:
    made = b.submission(name, b.role(cards=cards), time_ns=START, **more)
    return replace(made, runtime_estimate_ns=run_s * S)


def tick(at_s: int) -> r.Tick:
    return r.Tick(START + at_s * S, "", None, 0, True)


def window(from_s: int, to_s: int, **more: Any) -> r.ReservationRequested:
    span = START + from_s * S, START + to_s * S
    made = r.ReservationRequested(START, "", None, "upkeep", "me", ("n",), 0, *span, False)
    return replace(made, **more)


def found_by(records: list[r.Record]) -> Verification:
    found = verify(written(records))
    assert found.first_mismatch is None  # what was recorded is what such a kernel decides
    return found


CASES = [
    (window(20, 50), job("j", 1, 21), 1, "upkeep, which is not for it, begins in 19s"),
    (window(0, 50), job("j", 1, 21), 1, "inside the reservation upkeep, which is not for it"),
    (window(20, 50), job("j", 1, 0), 1, "with no estimate, though the reservation upkeep"),
    (window(0, 50, cards=8), job("j", 1, 5), 1, "was placed on n, inside the reservation upkeep"),
    (window(20, 50), job("j", 1, 19), 0, ""),
    (window(0, 50, users=("u",)), job("j", 1, 500), 0, ""),
    (window(0, 50, cards=7), job("j", 1, 5), 0, ""),
]


@pytest.mark.interpreted
@pytest.mark.parametrize(("kept", "asks", "count", "text"), CASES)
@pytest.mark.parametrize("preset", ["default", "hpc-easy"])
def test_who_is_placed_on_what_is_kept_is_named(
    preset: str,
    kept: r.ReservationRequested,
    asks: r.JobSubmitRequested,
    count: int,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records = begun(preset, tick(0), kept, asks, tick(1))
    assert found_by(records).is_equal
    for module in (placement, backfill):
        monkeypatch.setattr(module, "bars_of", lambda *_: None)
    if kept.from_ns <= START and not kept.cards:
        records[-3] = kept = replace(kept, users=("v", *kept.users))  # else the node is closed
    if kept.cards == 7 or not count:
        monkeypatch.undo()
    found = found_by(records)
    assert found.violations == found.mismatches == count
    if count:
        first = found.first_violation
        assert first is not None
        assert (first.job, first.by, first.node) == ("upkeep", "j", "n")
        assert text in _violation_text(first)


@pytest.mark.interpreted
def test_who_delays_a_reservation_from_a_gap_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    records = begun(
        "hpc-easy",
        job("runs", 6, 10),
        tick(0),
        r.PodStarted(START, "", None, "runs", 0, 1, "", START),
        job("head", 8, 5),
        job("long", 2, 100),
        tick(1),
    )
    assert found_by(records).is_equal
    monkeypatch.setattr(Gaps, "_left_beside", lambda self, held: 2)
    records[-2] = replace(job("long", 2, 100), roles=(b.role(cards=2, cpu=1),))  # asked of nodes
    found = found_by(records)
    first = found.first_violation
    assert first is not None and found.violations == 1
    assert (first.job, first.by, first.node) == ("head", "long", "")
    assert "delays the reservation of head" in _violation_text(first)


def test_given_back_and_over_reservations_bind_nobody() -> None:
    cell = b.Cell().start(b.node("n"))
    proof = WindowCheck()

    def told(record: r.Record, *decisions: Decision) -> None:
        cell.put(record)
        proof.check(cell.state, record, decisions)

    cell.submit("j")
    (placed,) = [d for d in cell.tick() if d.kind is DecisionKind.ALLOCATE]
    told(window(0, 50))
    told(replace(window(0, 50), cancelled=True))
    proof.check(cell.state, tick(1), [placed])
    assert (proof.violations, proof.is_active) == (0, False)
    told(window(0, 50))
    late = replace(placed, time_ns=START + 50 * S)
    proof.check(cell.state, tick(50), [late])
    assert (proof.violations, proof.is_active) == (0, False)
    told(window(0, 50))
    proof.check(cell.state, tick(1), [placed])
    assert proof.violations == 1

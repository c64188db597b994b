"""What `ganger why` says of jobs in gaps, of whom they make way for, and of those who rest."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.enums import BackfillPreference, DecisionKind
from ganger.schemas.reasons import Reason
from ganger.schemas.registry import fingerprint
from ganger.services.cli import main
from ganger.streams.engine import Engine
from ganger.streams.kernel.backfill.outlooks import Missed, Rest, missed, outlook, rest
from ganger.streams.log.directory import LedgerDirectory
from support import builders as b
from support.decision_lines import job_of
from support.lent_cells import lent_policy
from support.timed_cells import STARTS

S = b.SECOND


def lent_cell() -> b.Cell:
    """`long` runs beside `gap`, which can be suspended; `head` waits for both nodes' cards; `far`
    is in a gap on a node of which `head` needs nothing.
    """
    cell = b.Cell()
    cell.start(b.node("n0", 8), b.node("n1", 4), rules=lent_policy())
    for job, cards, run_s, stops in (
        ("long", 6, 1000, False),
        ("other", 3, 9000, False),
        ("head", 8, 50, False),
        ("gap", 2, 5000, True),
        ("far", 1, 100, False),
    ):
        made = b.submission(job, b.role(cards=cards), time_ns=cell.now_ns)
        cell.put(
            replace(
                made,
                runtime_estimate_ns=run_s * S,
                can_checkpoint=stops,
                accepts_suspend=stops,
            )
        )
        for d in cell.tick(1):
            if d.kind in STARTS:
                cell.started(d.job)
    return cell


def rested() -> b.Cell:
    """`gap` has been suspended for `head`, which runs."""
    cell = lent_cell()
    cell.succeeded("long")
    cell.tick(1)
    now_ns = cell.now_ns
    cell.put(r.PodSuspended(now_ns, "", None, "gap", 0, 1, 500, now_ns))
    assert [d.job for d in cell.tick(1) if d.kind is DecisionKind.ALLOCATE] == ["head"]
    return cell


def lines(cell: b.Cell, job: str, path: Path) -> list[str]:
    """What the command prints of a job at the end of a cell's ledger."""
    with LedgerDirectory.create(path, cell.state.cell, fingerprint=fingerprint()) as directory:
        Engine.create(directory.ledger, directory.decisions).apply(cell.records)
    result = CliRunner().invoke(main, ["why", str(path), job])
    assert result.exit_code == 0, result.output
    plain = CliRunner().invoke(main, ["why", str(path), job, "--json"])
    assert json.loads(plain.output)["job"] == job
    return result.output.splitlines()


def test_until_it_starts_its_cards_are_lent(tmp_path: Path) -> None:
    """Those of the nodes that are reserved, and no others."""
    cell = lent_cell()
    found = outlook(cell.state, job_of(cell, "head"))
    assert found is not None and found.lent == ("gap",) and found.late_ns == 0
    (line,) = [one for one in lines(cell, "head", tmp_path) if "starts at about" in one]
    assert line.endswith(
        "when job long ends; its cards are reserved from then on, and lent to job gap until then"
    )


def test_who_is_in_a_gap_is_told_what_to_expect(tmp_path: Path) -> None:
    (line,) = [one for one in lines(lent_cell(), "gap", tmp_path) if "BACKFILL" in one]
    text = " ".join(line.split())
    assert "until head: will be suspended when the reserved job needs the cards" in text
    assert "loses them with a probability of 50%" in text


def test_who_rests_is_told_until_when(tmp_path: Path) -> None:
    cell = rested()
    (pod,) = (job_of(cell, "gap").pods or {}).values()
    week_ns = 7 * 24 * 3600 * S
    assert rest(cell.state, job_of(cell, "gap")) == Rest(
        pod.suspended_ns, pod.suspended_ns + week_ns
    )
    assert rest(cell.state, job_of(cell, "head")) is None
    text = "\n".join(lines(cell, "gap", tmp_path))
    assert "gap is suspended in queue q" in text
    assert "goes on as soon as cards are free for it" in text
    assert "waits in line like others if none are until" in text


@pytest.mark.parametrize(
    ("run_s", "more", "found"),
    [
        (2000, {}, Missed(Reason.GAP_TOO_SHORT, 2000 * S, 996 * S)),
        (0, {}, Missed(Reason.NO_ESTIMATE)),
        (100, {"backfill": BackfillPreference.REFUSE}, Missed(Reason.BACKFILL_REFUSED)),
        (
            100,
            {"backfill": BackfillPreference.LOW_RISK_ONLY, "backfill_risk_milli": 5},
            Missed(Reason.RISK_TOO_HIGH, 20, 5),
        ),
        (
            2000,
            {
                "backfill": BackfillPreference.LOW_RISK_ONLY,
                "backfill_risk_milli": 100,
                "can_checkpoint": True,
                "accepts_suspend": True,
            },
            Missed(Reason.RISK_TOO_HIGH, 500, 100),
        ),
        (2000, {"can_checkpoint": True, "accepts_suspend": True}, None),  # only cards lack
        (500, {}, Missed(Reason.OVER_MAX_RUNTIME, 500 * S, 400 * S)),
        (300, {}, None),
    ],
)
def test_why_no_gap_is_given(run_s: int, more: dict[str, object], found: Missed | None) -> None:
    cell = lent_cell()
    rules = lent_policy(tune={"runtime_least_ns": "400s", "runtime_max_ns": "400s"})
    cell.put(replace(rules, time_ns=cell.now_ns))
    made = b.submission("asks", b.role(cards=1), time_ns=cell.now_ns)
    cell.put(replace(made, runtime_estimate_ns=run_s * S, **more))
    cell.tick(0)
    assert missed(cell.state, job_of(cell, "asks")) == found


def test_a_claim_on_late_cards_says_who_is_late(tmp_path: Path) -> None:
    cell = b.Cell()
    cell.start(b.node("n0", 8), rules=lent_policy())
    for job in ("a", "b"):
        made = b.submission(job, b.role(cards=8), time_ns=cell.now_ns)
        cell.put(replace(made, runtime_estimate_ns=10 * S))
        for d in cell.tick(0):
            if d.kind in STARTS:
                cell.started(d.job)
    cell.tick(10)
    cell.tick(7)
    (line,) = [one for one in lines(cell, "b", tmp_path) if "UNCLAIM" in one]
    assert "has run 17s, not the 10s estimated" in line

"""What a run made of idle cards, and how its promises fared."""

from typing import Any

import pytest

from ganger.replay.attempts import Stretch
from ganger.replay.etas import Promises
from ganger.replay.gauges import Integral
from ganger.replay.lending import Lending
from ganger.replay.summary import Meter
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, Tier
from ganger.schemas.reasons import Reason
from ganger.schemas.records import CardSpan
from support.small_runs import trace_job

K = DecisionKind
SECOND = 10**9
GAP = Reason.SAFE_IN_GAP


def say(
    kind: DecisionKind,
    job: str = "a",
    reason: Reason = GAP,
    *,
    pod: int = 0,
    attempt: int = 1,
    cause: int = 0,
    at_s: int = 0,
    **more: Any,
) -> Decision:
    tier = Tier.BACKFILL if kind is K.BACKFILL else Tier.MAIN
    return Decision(
        "cell", cause, 0, at_s * SECOND, kind, job, "r", pod, attempt, "n", (CardSpan(0, 2),), 0, 0,
        tier, 0, "", reason, 0, 0, 0, b"", 0, 0, 0, b"", **more,
    )  # fmt: skip


def told(*decisions: Decision) -> Lending:
    """Counts after these, through the meter as in a run."""
    meter = Meter([trace_job(name, 0, 10, (2, 2)) for name in "abc"])
    meter.observe([], decisions)
    return meter.lending


def counts(lending: Lending) -> tuple[int, int, int, int]:
    return lending.started, lending.completed, lending.evicted, lending.suspended


WELL = say(K.FINISH, reason=Reason.ALL_PODS_SUCCEEDED)
BEGUN = [say(K.BACKFILL, pod=0), say(K.BACKFILL, pod=1)]

STORIES: dict[str, tuple[list[Decision], tuple[int, int, int, int]]] = {
    "a job of two pods is one run": (BEGUN, (1, 0, 0, 0)),
    "it ends well": ([*BEGUN, WELL], (1, 1, 0, 0)),
    "in turn is no gap": ([say(K.ALLOCATE), WELL], (0, 0, 0, 0)),
    "what asks for nothing needs no gap": (
        [say(K.BACKFILL, reason=Reason.PLACED_WITHOUT_RESOURCES), WELL],
        (0, 0, 0, 0),
    ),
    "it gives way": (
        [
            *BEGUN,
            say(K.EVICT, reason=Reason.MAIN_NEEDS_CARDS),
            say(K.EVICT, reason=Reason.MAIN_NEEDS_CARDS, pod=1),
        ],
        (1, 0, 1, 0),
    ),
    "it gives way, comes back in turn and ends": (
        [
            *BEGUN,
            say(K.EVICT, reason=Reason.MAIN_NEEDS_CARDS),
            say(K.ALLOCATE, attempt=2),
            WELL,
        ],
        (1, 0, 1, 0),
    ),
    "it gives way twice": (
        [
            *BEGUN,
            say(K.EVICT, reason=Reason.MAIN_NEEDS_CARDS),
            say(K.BACKFILL, attempt=2),
            say(K.EVICT, reason=Reason.MAIN_NEEDS_CARDS, attempt=2),
        ],
        (2, 0, 2, 0),
    ),
    "it is moved by others": ([*BEGUN, say(K.MOVE, reason=Reason.MOVED)], (1, 0, 1, 0)),
    "it is cancelled": (
        [
            *BEGUN,
            say(K.EVICT, reason=Reason.CANCEL_REQUESTED),
            say(K.FINISH, reason=Reason.CANCEL_REQUESTED),
        ],
        (1, 0, 0, 0),
    ),
    "it stops and goes on, all pods together": (
        [
            *BEGUN,
            say(K.SUSPEND, cause=5),
            say(K.SUSPEND, pod=1, cause=5),
            say(K.RESUME, cause=7),
            say(K.RESUME, pod=1, cause=7),
            say(K.SUSPEND, cause=9),
            say(K.RESUME, cause=11),
            WELL,
        ],
        (1, 1, 0, 2),
    ),
    "while it stands it is taken elsewhere": (
        [
            say(K.BACKFILL),
            say(K.SUSPEND, cause=5),
            say(K.EVICT, reason=Reason.RESUMED),
            say(K.BACKFILL, attempt=2, reason=Reason.RESUMED),
            WELL,
        ],
        (1, 1, 0, 1),
    ),
    "it stood, went on, and gives way then": (
        [
            say(K.BACKFILL),
            say(K.SUSPEND, cause=5),
            say(K.RESUME, cause=6),
            say(K.EVICT, reason=Reason.MAIN_NEEDS_CARDS),
        ],
        (1, 0, 1, 1),
    ),
    "it fails": ([*BEGUN, say(K.FINISH, reason=Reason.RETRY_LIMIT)], (1, 0, 0, 0)),
    "others do not matter": ([say(K.EVICT, "b"), say(K.SUSPEND, "b"), *BEGUN], (1, 0, 0, 0)),
}


@pytest.mark.parametrize("name", STORIES)
def test_runs_in_gaps_are_counted(name: str) -> None:
    decisions, expected = STORIES[name]
    assert counts(told(*decisions)) == expected


def test_card_time_is_that_of_gaps_and_lost_is_what_evictions_of_others_undid() -> None:
    lending = Lending()
    gap, turn = say(K.BACKFILL), say(K.ALLOCATE)
    lending.ran(Stretch(turn, 0, 50, 50, Reason.PREEMPTED))
    lending.ran(Stretch(gap, 10, 30, 0, Reason.UNKNOWN))
    lending.ran(Stretch(gap, 40, 45, 25, Reason.MAIN_NEEDS_CARDS))
    lending.ran(Stretch(gap, 60, 61, 1, Reason.TIME_LIMIT))
    assert (lending.used, lending.lost) == (2000 * 26, 2000 * 25)


def test_an_integral_holds_its_last_count() -> None:
    integral = Integral(5)
    integral.set(7, 3)
    integral.set(10, 1)
    integral.set(8, 2)  # time does not go back
    integral.set(12, 0)
    assert integral.sum == 3 * 3 + 2 * 2


# --- promises -------------------------------------------------------------------------------------


def promised(job: str, median_s: int, late_s: int) -> Decision:
    return say(
        K.ADMIT,
        job,
        Reason.WITHIN_LIMITS,
        start_ns=median_s * SECOND,
        start_late_ns=late_s * SECOND,
    )


def test_no_promise_no_share() -> None:
    promises = Promises()
    promises.admitted(say(K.ADMIT))
    assert promises.coverage({"a": 5}, 10) == (None, None)


def test_the_first_promise_of_a_job_counts() -> None:
    promises = Promises()
    for one in (promised("a", 10, 20), promised("a", 90, 99), promised("b", 10, 20)):
        promises.admitted(one)
    starts_ns = {"a": 20 * SECOND, "b": 10 * SECOND}
    assert promises.coverage(starts_ns, 100 * SECOND) == (0.5, 1.0)


def test_who_never_started_broke_what_is_over_and_nothing_else() -> None:
    promises = Promises()
    for one in (promised("a", 10, 200), promised("b", 10, 20)):
        promises.admitted(one)
    assert promises.coverage({"b": 15 * SECOND}, 100 * SECOND) == (0.0, 1.0)


def test_the_meter_holds_promises_against_starts() -> None:
    meter = Meter([trace_job("a", 0, 10), trace_job("b", 0, 10)])
    meter.observe([], [promised("a", 3, 9), promised("b", 3, 4)])
    meter.observe([], [say(K.ALLOCATE, "a", at_s=5), say(K.BACKFILL, "b", at_s=5)])
    assert meter.coverage(9 * SECOND) == (0.0, 0.5)

"""Assumptions of a run: estimates that a trace lacks, and who may be suspended."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from ganger.replay.assumptions import (
    AS_TRACED,
    MILLION,
    Assumptions,
    Guess,
    estimate_ns,
    is_drawn,
    parse_estimates,
    parse_share,
    settled,
)
from ganger.replay.cluster import parse_nodes
from ganger.replay.simulate import run
from ganger.replay.traces.model import TraceJob
from ganger.replay.traces.source import InputError
from ganger.replay.workload import Submissions
from ganger.schemas.records import ActionConfig, Argument, PolicyConfigured
from ganger.streams.kernel.policies.registry import build
from ganger.streams.presets.loader import load_policy, parse_policy
from support.small_runs import ledger_of, trace, trace_job

EXACT = 'policy = "p"\nactions = [{ action = "allocate" }]\nsettings = { estimates = "exact" }'


def declared(job: TraceJob, estimate_s: int) -> TraceJob:
    return replace(job, estimate_ns=estimate_s * 10**9)


JOB = declared(trace_job("a", 0, 10), 60)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("exact", (Guess.EXACT, 1000)),
        ("predict", (Guess.PREDICT, 1000)),
        ("factor:2", (Guess.FACTOR, 2000)),
        ("factor:1.5", (Guess.FACTOR, 1500)),
        ("factor:0.001", (Guess.FACTOR, 1)),
    ],
)
def test_estimates_are_read_from_text(text: str, found: tuple[Guess, int]) -> None:
    assert parse_estimates(text) == found


@pytest.mark.parametrize(
    "text", ["", "trace", "factor", "factor:", "factor:0", "factor:-1", "factor:x", "exact:2"]
)
def test_others_are_refused_with_a_remedy(text: str) -> None:
    with pytest.raises(InputError, match=r"--estimates.*give exact, predict, or factor:F"):
        parse_estimates(text)


def test_shares_are_read_from_text() -> None:
    assert [parse_share(text, "x") for text in ("0", "0.3", "1", "0.000001")] == [
        0,
        300_000,
        MILLION,
        1,
    ]
    for text in ("1.1", "-0.1", "a", ""):
        with pytest.raises(InputError, match="give a share from 0 to 1"):
            parse_share(text, "--suspendable")


@pytest.mark.parametrize(
    ("guess", "factor_milli", "estimate_s"),
    [
        (Guess.TRACE, 1000, 60),
        (Guess.PREDICT, 1000, 60),
        (Guess.EXACT, 1000, 10),
        (Guess.FACTOR, 2500, 25),
    ],
)
def test_what_a_job_declares(guess: Guess, factor_milli: int, estimate_s: int) -> None:
    request = Submissions(Assumptions(guess, factor_milli)).request(JOB)
    assert request.runtime_estimate_ns == estimate_s * 10**9
    assert request.time_limit_ns == 0


def test_no_run_time_is_declared_as_a_nanosecond_and_no_end_as_nothing() -> None:
    exact = Assumptions(Guess.EXACT)
    assert estimate_ns(exact, trace_job("a", 0, 0)) == 1
    assert estimate_ns(exact, trace_job("a", 0, -1)) == 0


def test_what_no_job_may_declare_is_declared_as_the_most_it_may() -> None:
    unlimited = declared(trace_job("a", 0, 5), 4294967295)
    assert estimate_ns(Assumptions(), unlimited) == 1 << 61


def test_a_share_is_drawn_by_seed_and_id_and_grows_with_the_share() -> None:
    names = [f"job-{number}" for number in range(2000)]
    drawn = [
        [name for name in names if is_drawn(seed, name, share)]
        for seed, share in ((0, 300_000), (1, 300_000), (0, 600_000), (0, 0), (0, MILLION))
    ]
    first, other, more, none, every = drawn
    assert 500 < len(first) < 700
    assert first != other
    assert set(first) < set(more)
    assert (none, every) == ([], names)
    # written down, so that a change of the draw is noticed: it would change recorded runs
    assert first[:4] == FIRST_DRAWN


FIRST_DRAWN = ["job-2", "job-3", "job-6", "job-7"]


def test_those_drawn_can_checkpoint_and_accept_to_be_suspended() -> None:
    for share, is_able in ((0, False), (MILLION, True)):
        request = Submissions(Assumptions(suspendable_millionths=share), 3).request(JOB)
        assert (request.can_checkpoint, request.accepts_suspend) == (is_able, is_able)


def settle(
    guess: Guess, jobs: Sequence[TraceJob], policy: PolicyConfigured, *, is_timed: bool
) -> tuple[Guess, str]:
    """The guess in force, and the setting of the policy."""
    if is_timed:
        stops = ActionConfig("allocate", (Argument("beyond", "stop"),))
        policy = replace(policy, actions=(stops,))
    found, made = settled(Assumptions(guess), policy, build(policy), jobs)
    settings = {argument.key: argument.value for argument in made.settings}
    return found.guess, settings.get("estimates", "")


BARE = trace_job("a", 0, 10)


@pytest.mark.parametrize(
    ("guess", "job", "is_timed", "found"),
    [
        (Guess.TRACE, JOB, True, (Guess.TRACE, "")),
        (Guess.TRACE, BARE, True, (Guess.PREDICT, "predicted")),
        (Guess.TRACE, BARE, False, (Guess.PREDICT, "")),
        (Guess.PREDICT, JOB, True, (Guess.PREDICT, "predicted")),
        (Guess.FACTOR, BARE, True, (Guess.FACTOR, "")),
    ],
)
def test_a_policy_that_plans_predicts_what_nobody_declares(
    guess: Guess, job: TraceJob, is_timed: bool, found: tuple[Guess, str]
) -> None:
    assert settle(guess, [job], load_policy(), is_timed=is_timed) == found


def test_settings_stay_in_order_and_a_declared_source_is_replaced() -> None:
    policy = replace(
        load_policy("hpc-easy"),
        settings=(Argument("estimates", "declared"), Argument("ttl_ns", "0")),
    )
    _, made = settled(AS_TRACED, policy, build(policy), [BARE])
    assert made.settings == (Argument("estimates", "predicted"), Argument("ttl_ns", "0"))


def test_a_policy_that_wants_to_know_is_told_the_run_times(tmp_path: Path) -> None:
    policy = parse_policy(EXACT, "p")
    for guess in (Guess.TRACE, Guess.FACTOR, Guess.PREDICT):
        assert settle(guess, [JOB], policy, is_timed=True) == (Guess.EXACT, "exact")
    jobs = trace(JOB, trace_job("b", 1, 7))
    run(jobs, parse_nodes("1x2"), policy, tmp_path / "l")
    told = [
        (record.job, record.runtime_estimate_ns)
        for record in ledger_of(tmp_path / "l")
        if type(record).__name__ == "JobSubmitRequested"
    ]
    assert told == [("a", 10 * 10**9), ("b", 7 * 10**9)]

"""How long jobs are expected to run: as they declare, or as the last runs of their kind took.

The *limit* of a job is what it may run, or says it needs; its *estimate* is what it is expected to
need. Both are 0 where nothing is known. Which of them counts is the policy's to say: for a job that
waits (`judge` of backfill) and for one that runs (`expect`).
"""

from typing import NamedTuple

from ganger.schemas.enums import Estimates, LimitAction, Tier
from ganger.streams.kernel.backfill import memory
from ganger.streams.kernel.backfill.futures import (
    IS_EVICTED,
    LEAVES,
    STOPS,
    Futures,
    Lanes,
    stops,
)
from ganger.streams.kernel.entities import Claim, Job, Pod
from ganger.streams.kernel.foresight import margins, runs
from ganger.streams.kernel.horizon.steps import FOREVER
from ganger.streams.kernel.jobs.gangs import is_pending
from ganger.streams.kernel.settings import FREED, STIRRED, Timing
from ganger.streams.kernel.state import State
from ganger.streams.kernel.timers import Wake

MARGIN_SHARE_MILLI = 900
"""With a learnt margin so many of a thousand runs end in time."""

MARGIN_UNKNOWN_MILLI = 500
"""Margin, in thousandths of the estimate, while too few runs are known to learn from."""

# bound once: looking a member up on its Enum class costs more than what is done with it
_MAIN = Tier.MAIN
_SPOT = Tier.SPOT
_DECLARED = Estimates.DECLARED

_SOURCES = {"declared": Estimates.DECLARED, "exact": Estimates.EXACT}


class Estimate(NamedTuple):
    """What is expected of a run."""

    ns: int  # 0 = nothing is known
    margin_ns: int  # to be added before the run is called safe
    source: Estimates


NOTHING = Estimate(0, 0, Estimates.UNKNOWN)


def limit_ns(job: Job) -> int:
    """How long the job may run, or says it needs; 0 = it does not say."""
    request = job.request
    return request.time_limit_ns or request.runtime_estimate_ns


def declared_ns(job: Job) -> int:
    """How long the job says it needs, or may run; 0 = it does not say."""
    request = job.request
    return request.runtime_estimate_ns or request.time_limit_ns


def of(state: State, job: Job) -> Estimate:
    """What is expected of a run of the job, as far as is known now."""
    settings = state.policy.settings
    if settings.estimates != "predicted":
        ns = declared_ns(job)
        if not ns:
            return NOTHING
        margin_ns = _margin_ns(state, rows_of(state, job), ns, _most_ns(state, job))
        return Estimate(ns, margin_ns, _SOURCES[settings.estimates])
    names = rows_of(state, job)
    row = runs.first_known(memory.get(state, name) for name in names)
    limit = limit_ns(job)
    if row:
        ns = runs.predict(row, limit or FOREVER)
        margin_ns = _margin_ns(state, names, ns, _most_ns(state, job))
        return Estimate(ns, margin_ns, Estimates.PREDICTED)
    return Estimate(limit, 0, Estimates.DECLARED) if limit else NOTHING


def is_bound(state: State, job: Job) -> bool:
    """Whether no run of the job, if it has a limit, counts as longer: plans count by the limit, or
    the job is ended there.
    """
    return state.policy.settings.expect == "limit" or _is_ended(state, job)


def _most_ns(state: State, job: Job) -> int:
    return limit_ns(job) or FOREVER if is_bound(state, job) else FOREVER


def _margin_ns(state: State, names: tuple[str, ...], estimate_ns: int, most_ns: int) -> int:
    """What to add, as long as the sum is no more than `most_ns`. `names`: see `rows_of`."""
    if state.policy.settings.margin == "off":
        return 0
    rows = (memory.get(state, f"margin/{name}") for name in names)
    row = runs.first_known(rows, margins.RATIOS_LEAST)
    margin_ns = margins.margin_ns(row, estimate_ns, MARGIN_SHARE_MILLI, MARGIN_UNKNOWN_MILLI)
    return min(margin_ns, max(0, most_ns - estimate_ns))


def lanes(state: State, job: Job) -> Lanes:
    """What a waiting job is judged by in a gap: as a rule, and once the head has waited too long.

    The second only where the policy has such a guard.
    """
    timing = state.policy.timing
    assert timing is not None
    limit = limit_ns(job)
    judged = limit
    if timing.by_estimate or not limit:
        estimate = of(state, job)
        judged = estimate.ns + estimate.margin_ns
    return _lanes(timing, judged, limit)


def is_learnt(state: State) -> bool:
    """Whether jobs' lanes are made of what is known of such jobs, and of their limits."""
    return state.policy.settings.estimates == "predicted"


def learnt_lanes(state: State, names: tuple[str, ...], limit: int, bound: bool) -> Lanes:
    """The same of all such jobs with a limit, as `limit_ns` gives it; where lanes are learnt.

    `names`: as `rows_of` gives them; `bound`: see `is_bound`.
    """
    timing = state.policy.timing
    assert timing is not None
    judged = limit
    if timing.by_estimate or not limit:
        row = runs.first_known(memory.get(state, name) for name in names)
        if row:
            ns = runs.predict(row, limit or FOREVER)
            most_ns = limit or FOREVER if bound else FOREVER
            judged = ns + _margin_ns(state, names, ns, most_ns)
    return _lanes(timing, judged, limit)


def _lanes(timing: Timing, judged: int, limit: int) -> Lanes:
    if not timing.guard_ns:
        return (judged or FOREVER,)
    return (judged or FOREVER, limit or judged or FOREVER)


def judged(state: State, job: Job, judged_ns: int, lane: int) -> Estimate:
    """What a lane consists of. `judged_ns`: the lane; 0 = nothing is known."""
    timing = state.policy.timing
    assert timing is not None
    if not judged_ns:
        return NOTHING
    if lane or not timing.by_estimate:
        limit = limit_ns(job)
        if limit:
            source = _SOURCES.get(state.policy.settings.estimates, _DECLARED)
            return Estimate(limit, 0, source)
    return of(state, job)


def lane_count(state: State) -> int:
    """Lanes of a job under the policy."""
    timing = state.policy.timing
    return 2 if timing is not None and timing.guard_ns else 1


def expected_ns(state: State, job: Job) -> int:
    """Run time to expect of the job's pods once they run; `FOREVER` where nothing is known."""
    request = job.request
    if state.policy.settings.expect == "limit":
        return request.time_limit_ns or request.runtime_estimate_ns or job.estimate_ns or FOREVER
    return job.estimate_ns or request.runtime_estimate_ns or request.time_limit_ns or FOREVER


def expected_end(state: State, job: Job, pod: Pod) -> int:
    """When a live attempt is expected to end; `FOREVER` where nothing is known."""
    if pod.expect_ns:
        return pod.expect_ns
    run_ns = expected_ns(state, job)
    if run_ns >= FOREVER:
        return FOREVER
    return (pod.started_ns or pod.allocated_ns) + max(1, run_ns - pod.ran_ns)


def of_run(state: State, job: Job) -> Estimate:
    """What is expected of the job if it starts now: when reservations count on its end."""
    settings = state.policy.settings
    if settings.expect == "limit":
        request = job.request
        limit = request.time_limit_ns or request.runtime_estimate_ns
        if limit:
            return Estimate(limit, 0, _SOURCES.get(settings.estimates, _DECLARED))
    return of(state, job)


def as_booked(state: State, job: Job, duration_ns: int) -> Estimate:
    """The same of a job that is booked: for so long, whatever was learnt since; `FOREVER` where
    nothing was known.
    """
    return of_run(state, job)._replace(ns=duration_ns if duration_ns < FOREVER else 0)


def settle(state: State, job: Job, run_ns: int = 0) -> None:
    """Keep what is expected of a job that starts now, if only history says it. `run_ns`: what was
    counted on when its cards were chosen; 0: what is expected now.
    """
    settings = state.policy.settings
    if settings.estimates != "predicted":
        return
    counts = settings.expect != "limit" or not limit_ns(job)  # else margins alone are learnt by it
    if counts or settings.margin == "learnt":
        estimate = of(state, job)
        ns = run_ns if run_ns and counts else estimate.ns
        if job.estimate_ns != ns:
            job.estimate_ns, job.estimate_source = ns, estimate.source
            state.touch(job)


def note_pods(state: State, futures: Futures, job: Job) -> None:
    """Some pods of the job have just been placed."""
    pods, timing = job.pods, state.policy.timing
    assert pods is not None and timing is not None, job.seq
    if len(pods) == 1 and timing.yields is None:  # as below, in fewer steps
        (pod,) = pods.values()
        end_ns = min(FOREVER, state.now_ns + expected_ns(state, job))
        _expect(state, futures, pod, end_ns)
        if futures.prospect is not None:
            futures.touched[pod.node] = None
        return
    for pod in pods.values():
        if pod.allocated_seq == state.cause:
            note(state, futures, job, pod)


# ---- learning -----------------------------------------------------------------------------------


def rows_of(state: State, job: Job) -> tuple[str, ...]:
    """Names of what is known of such jobs, the narrowest kind first."""
    request = job.request
    cards = job.shape.min_needs[0][0]
    queue = request.queue
    user = f"{request.tenant}/{request.user}" if request.user else ""
    if state.policy.settings.alike == "user":
        return (f"runs/user/{user}",) if user else (f"runs/queue/{queue}/{cards}",)
    wide = (f"runs/queue/{queue}/{cards}", f"runs/cards/{cards}", "runs/all")
    if not user:
        return wide
    return (f"runs/kind/{queue}/{cards}/{user}", f"runs/user/{user}", *wide)


def learns(state: State) -> bool:
    """Whether runs are remembered under the policy."""
    settings = state.policy.settings
    return settings.estimates == "predicted" or settings.margin == "learnt"


def depended_on(state: State, names: tuple[str, ...]) -> tuple[str, ...]:
    """Rows, of those that tell of a job, that its lanes depend on: down to the first known one,
    and where margins are learnt to the first whose margin is known.
    """
    needs_margin = state.policy.settings.margin == "learnt"
    needs_run = True
    for place, name in enumerate(names):
        needs_run = needs_run and name not in state.memory
        if needs_margin:
            row = memory.get(state, f"margin/{name}")
            needs_margin = len(row) < margins.RATIOS_LEAST
        if not (needs_run or needs_margin):
            return names[: place + 1]
    return names


def learn(state: State, job: Job, run_ns: int) -> None:
    """A job has ended well after running so long."""
    run_ns = max(1, run_ns)
    futures = state.indexes.futures
    estimate_ns = job.estimate_ns or declared_ns(job)
    learns_margin = state.policy.settings.margin == "learnt" and estimate_ns
    for name in rows_of(state, job):
        memory.put(state, name, runs.learn(memory.get(state, name), run_ns))
        if learns_margin:
            ratios = memory.get(state, f"margin/{name}")
            memory.put(state, f"margin/{name}", margins.learn(ratios, estimate_ns, run_ns))
        if futures is not None:
            futures.learnt(name)


# ---- running pods -------------------------------------------------------------------------------


def note(state: State, futures: Futures, job: Job, pod: Pod) -> None:
    """A pod holds cards from now on, or is expected to end at another time than before."""
    holder = (pod.job, pod.index, pod.attempt)
    before = futures.forget(holder)
    if futures.prospect is not None:
        futures.touched[pod.node] = None
    if not pod.mask and job.shape.shapes[pod.index % len(job.roles)].cards_milli:
        futures.resting[holder] = None  # suspended: it holds no cards
        return
    timing = state.policy.timing
    if pod.tier is not _MAIN and timing is not None and timing.yields is not None:
        way = IS_EVICTED
        if stops(timing.routes, job):
            way = STOPS
        elif pod.tier is _SPOT:
            way = LEAVES
        futures.lend(pod, way)
    end_ns = expected_end(state, job, pod)
    if before is not None and before[0] != end_ns:
        futures.book = None  # to be made anew
    _expect(state, futures, pod, end_ns)


def _expect(state: State, futures: Futures, pod: Pod, end_ns: int) -> None:
    """A pod that holds cards is expected to end then."""
    holder = (pod.job, pod.index, pod.attempt)
    cards = 0
    if pod.card_milli:
        futures.shares[holder] = None
    else:
        cards = (pod.mask & ~state.nodes[pod.node].claimed_whole).bit_count()
    futures.expect(holder, end_ns, cards)


def rests(state: State, futures: Futures, job: Job, pod: Pod) -> None:
    """An attempt was suspended at `suspended_ns`: its end stands still until it goes on."""
    end_ns = expected_end(state, job, pod)
    pod.expect_ns = 0 if end_ns >= FOREVER else max(end_ns, state.now_ns + 1)
    note(state, futures, job, pod)
    state.stirred |= STIRRED | FREED


def left_ns(pod: Pod) -> int:
    """How long a suspended attempt is expected to run yet; 0: nobody knows."""
    return max(1, pod.expect_ns - pod.suspended_ns) if pod.expect_ns else 0


def goes_on(state: State, futures: Futures, job: Job, pod: Pod, run_ns: int) -> None:
    """An attempt holds cards from now on and is expected to run so long yet; 0: nobody knows."""
    pod.expect_ns = state.now_ns + run_ns if run_ns else 0
    note(state, futures, job, pod)


def note_claim(state: State, futures: Futures, job: Job) -> None:
    """A job claims cards: it is expected to run from now on, on those that others leave to it; once
    that time is over without its having begun, from when the claim would be given up.
    """
    claim = state.claims[job.seq]
    cards = sum(entry.mask.bit_count() for entry in claim.entries if not entry.card_milli)
    run_ns = expected_ns(state, job)
    end_ns = FOREVER
    if run_ns < FOREVER:
        end_ns = claim.since_ns + run_ns
        if end_ns < state.clock_ns:
            end_ns = claim.until_ns + run_ns
    holder = (job.seq, -1, 0)
    if any(entry.card_milli for entry in claim.entries):
        futures.shares[holder] = None
    futures.expect(holder, end_ns, cards)
    _touch(futures, claim)


def claim_made(state: State, futures: Futures, job: Job) -> None:
    """The same for a claim made just now: what others leave to it they leave to nobody else."""
    note_claim(state, futures, job)
    recount_nodes(state, futures, state.claims[job.seq])


def claim_ended(state: State, futures: Futures, claim: Claim) -> None:
    """A claim was met or given up."""
    futures.forget((claim.job, -1, 0))
    futures.book = None
    _touch(futures, claim)
    recount_nodes(state, futures, claim)


def _touch(futures: Futures, claim: Claim) -> None:
    """The nodes of a claim are to be looked at anew."""
    if futures.prospect is not None:
        for entry in claim.entries:
            futures.touched[entry.node] = None


def recount_nodes(state: State, futures: Futures, claim: Claim) -> None:
    """Note anew what pods on the nodes of a claim leave to others than the claim."""
    for index in dict.fromkeys([entry.node for entry in claim.entries]):
        for pod in state.nodes[index].pods.values():
            note(state, futures, state.jobs[pod.job], pod)


def ended(state: State, futures: Futures, job: Job, pod: Pod, has_succeeded: bool) -> None:
    """An attempt has ended; its job has given it up."""
    state.stirred |= STIRRED | FREED
    found = futures.forget((pod.job, pod.index, pod.attempt))
    if futures.prospect is not None:
        futures.touched[pod.node] = None
    if pod.card_milli:
        futures.book = None  # it counts whole cards: what a share leaves is counted anew
    elif futures.book is not None and found is not None:
        futures.book.release(pod.mask.bit_count(), state.now_ns, found[0])
    if has_succeeded and not job.pods and learns(state) and not is_pending(job):
        ran_ns = state.now_ns - (pod.started_ns or pod.allocated_ns)
        learn(state, job, pod.earlier_ns + pod.ran_ns + ran_ns)


class Late(NamedTuple):
    """A job whose claim waits for somebody who has not left when it was expected to."""

    job: Job
    ran_ns: int  # so far, by the other
    estimate_ns: int  # of that run


def outlived(state: State, futures: Futures) -> list[Late]:
    """Attempts that run longer than was expected are expected to end later, and claims that have
    waited for longer than their jobs run to end with their time. Returns the claims, one by one,
    that wait for such an attempt, which was not told to leave for them.
    """
    releases = futures.ends.releases
    if not releases or releases[0][0] >= state.clock_ns:
        return []
    late: dict[int, Late] = {}
    limits = state.policy.settings.overrun == "limit"
    now_ns = state.clock_ns
    while (holder := futures.overdue(now_ns)) is not None:
        state.stirred |= STIRRED
        job = state.jobs[holder[0]]
        if holder[1] < 0:
            futures.forget(holder)
            note_claim(state, futures, job)
            continue
        pod = job.pods.get(holder[1]) if job.pods else None
        if pod is None or pod.attempt != holder[2]:
            pod = state.indexes.ghosts[holder]
        before = futures.expected(holder)
        assert before is not None
        since_ns = pod.started_ns or pod.allocated_ns
        limit = limit_ns(job) if limits else 0
        pod.expect_ns = runs.outlive(since_ns, now_ns, limit)
        state.touch_pod(job, pod)
        note(state, futures, job, pod)
        for seq, claim in state.claims.items():
            if seq in late or holder in claim.victims:
                continue
            if any(e.node == pod.node and e.mask & pod.mask for e in claim.entries):
                ran_ns, estimate_ns = now_ns - since_ns, before[0] - since_ns
                late[seq] = Late(state.jobs[seq], pod.ran_ns + ran_ns, pod.ran_ns + estimate_ns)
    return [late[seq] for seq in sorted(late)]


def over_ns(state: State, job: Job, pod: Pod) -> int:
    """When an attempt that runs is to be ended for its time limit; 0: it is let run."""
    if not _is_ended(state, job) or not pod.started_ns or pod.suspended_ns:
        return 0
    return max(1, pod.started_ns + job.request.time_limit_ns - pod.ran_ns)


def _is_ended(state: State, job: Job) -> bool:
    """Whether the job has a time limit and is ended there."""
    wish = job.request.on_limit
    if not job.request.time_limit_ns or wish is LimitAction.LET_RUN:
        return False
    return wish is not LimitAction.UNKNOWN or state.policy.settings.end_at_limit


def watch_limits(state: State, job: Job) -> None:
    """See that the attempts of a job are ended when their time is over, if they are to be."""
    for pod in (job.pods or {}).values():
        at_ns = over_ns(state, job, pod)
        if at_ns:
            state.indexes.timers.at(at_ns, Wake.TIME_LIMIT, pod.job, pod.index, pod.attempt)


def renewed(state: State, job: Job) -> None:
    """The job says otherwise how long it runs, or may run."""
    watch_limits(state, job)
    futures = state.indexes.futures
    if futures is not None:
        for pod in (job.pods or {}).values():
            note(state, futures, job, pod)
        if job.seq in state.claims:
            futures.forget((job.seq, -1, 0))
            note_claim(state, futures, job)


def rebuild(state: State) -> None:
    """What is expected of all that run and all claims, made anew; nobody stands in line yet."""
    if not state.policy.is_timed:
        state.indexes.futures = None
        return
    futures = state.indexes.futures = Futures(lane_count(state), state.policy.settings.promises)
    for node in state.nodes:
        for pod in node.pods.values():
            note(state, futures, state.jobs[pod.job], pod)
    for seq in state.claims:
        note_claim(state, futures, state.jobs[seq])

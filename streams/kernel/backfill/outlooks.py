"""What a waiting job can expect of time: when it will start, and why no gap is given to it now.

Worked out from the state when asked, for any moment of the past too, and only under policies that
plan with run times. The start is that of the job's reservation, else its place in a plan in which
all who wait before it are booked in turn, by count of cards. O(waiting jobs x steps), of which at
most `AHEAD_MAX` are looked at.
"""

import msgspec

from ganger.schemas.enums import IdleClass, Phase, Tier
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.backfill import estimates, manners, promised, promising, tuning
from ganger.streams.kernel.backfill.futures import Futures
from ganger.streams.kernel.entities import Booking, Job
from ganger.streams.kernel.foresight.standing import Told
from ganger.streams.kernel.horizon.steps import FOREVER, Steps
from ganger.streams.kernel.jobs.lifecycle import WAITING
from ganger.streams.kernel.limits import TIME_MAX
from ganger.streams.kernel.queues.capacity import never_fits
from ganger.streams.kernel.resources import CARD_MILLI, CARDS
from ganger.streams.kernel.state import State

AHEAD_MAX = 1000

EXAMPLES = 5
"""Jobs named in each list."""

_End = tuple[int, int]
"""When a job ends, and its seq."""

_LENT = (Tier.BACKFILL, Tier.SPOT)


class Outlook(msgspec.Struct, frozen=True, gc=False):
    """When a waiting job starts, as far as can be said. Times in ns; 0: that cannot be said.

    Attributes:
        start_ns: when, by what is expected of all jobs.
        late_ns: by then with a probability of nine in ten.
        is_reserved: cards are held for it from `start_ns` on.
        told_ns: what it was told in its first cycle, as likely as not.
        told_late_ns: the same, with a probability of nine in ten.
        ends: jobs that are expected to end last before it starts, on the nodes where cards are
            reserved for it. Those that wait before it are among them, if they will have run.
        lent: jobs that run in gaps until then, on the nodes where cards are reserved for it.
    """

    start_ns: int
    late_ns: int
    is_reserved: bool
    told_ns: int
    told_late_ns: int
    ends: tuple[str, ...]
    lent: tuple[str, ...]


def outlook(state: State, job: Job) -> Outlook | None:
    """What a job that waits can expect; none of others, of those that no empty cell could hold, and
    where the policy does not plan.
    """
    futures = state.indexes.futures
    if futures is None or job.key is None or job.phase not in WAITING:
        return None
    if never_fits(state, job.shape) is not None:
        return None
    ahead = _ahead(state, job)
    booking = state.bookings.get(job.seq)
    if booking is None:
        start, runs = _planned(state, futures, job, ahead)
    else:
        start, runs = booking.start_ns, _booked(state, booking)
    start_ns = 0 if start is None or start >= FOREVER else start
    nodes = [] if booking is None else [node for node, _ in booking.entries]
    told = Told(*job.promise) if job.promise else None
    return Outlook(
        start_ns=start_ns,
        late_ns=_late(state, job, ahead, start_ns) if start_ns else 0,
        is_reserved=booking is not None,
        told_ns=0 if told is None else told.by_ns(0),
        told_late_ns=0 if told is None else told.by_ns(1),
        ends=_ending(state, _running(state, futures, nodes) + runs, start_ns),
        lent=() if booking is None else _lent(state, nodes),
    )


def _ahead(state: State, job: Job) -> list[Job]:
    """Who stands before a job in line, in order."""
    assert job.key is not None
    keys = sorted(
        other.key
        for other in state.jobs.values()
        if other.key is not None and other.key < job.key and other.phase in WAITING
    )
    return [state.jobs[key[-1]] for key in keys[:AHEAD_MAX]]


def _cards(job: Job) -> int:
    return -(-job.shape.min_needs[0][0] // CARD_MILLI)


def _planned(
    state: State, futures: Futures, job: Job, ahead: list[Job]
) -> tuple[int | None, list[_End]]:
    """The earliest start of a job behind all of these, none if that cannot be said; and when each
    of them will have run.
    """
    runs: list[_End] = []
    now_ns = state.clock_ns
    changes: dict[int, int] = {}
    for end_ns, _, _, cards in futures.ends.releases:
        changes[end_ns] = changes.get(end_ns, 0) + cards
    free = max(0, state.total[CARDS] - state.used[CARDS]) // CARD_MILLI
    plan = Steps.changing(now_ns, free, changes)
    for other in ahead:
        booking = state.bookings.get(other.seq)
        if booking is not None:
            plan.add(booking.start_ns, booking.until_ns, -booking.cards)
            runs.append((booking.until_ns, other.seq))
    for other in (*(one for one in ahead if one.seq not in state.bookings), job):
        duration_ns = estimates.of_run(state, other).ns or FOREVER
        start = plan.earliest(_cards(other), duration_ns, now_ns)
        if other is job:
            return start, runs
        if start is not None:
            end_ns = min(FOREVER, start + duration_ns)
            plan.add(start, end_ns, -_cards(other))
            runs.append((end_ns, other.seq))
    return None, runs


def _booked(state: State, booking: Booking) -> list[_End]:
    """When those who have other reservations on the nodes of one will have run."""
    nodes = {node for node, _ in booking.entries}
    return [
        (other.until_ns, other.job)
        for other in state.bookings.values()
        if other is not booking and (not nodes or any(node in nodes for node, _ in other.entries))
    ]


def _late(state: State, job: Job, ahead: list[Job], start_ns: int) -> int:
    """By when it starts with a probability of nine in ten; 0 where nothing was learnt of that."""
    if state.indexes.promised is None:
        return 0
    work = sum(_cards(other) * estimates.of(state, other).ns for other in ahead)
    unit_ns = promising.unit(state, work)
    waits = promised.work_out(state, job.shape.min_needs[0][0], len(ahead), unit_ns)
    late_ns = max(start_ns, state.clock_ns + waits.late_ns)
    return late_ns if late_ns <= TIME_MAX else 0


def _running(state: State, futures: Futures, nodes: list[int]) -> list[_End]:
    """When those who run on some nodes are expected to end; without any, in the cell."""
    return [
        (end_ns, seq)
        for end_ns, seq, _, _ in futures.ends.releases
        if not nodes or any(pod.node in nodes for pod in (state.jobs[seq].pods or {}).values())
    ]


def _ending(state: State, ends: list[_End], start_ns: int) -> tuple[str, ...]:
    """Which of these jobs end last by a moment, in order."""
    names = [
        state.jobs[seq].request.job
        for end_ns, seq in sorted(ends)
        if state.clock_ns <= end_ns <= start_ns
    ]
    return tuple(dict.fromkeys(reversed(names)))[:EXAMPLES][::-1]


def _lent(state: State, nodes: list[int]) -> tuple[str, ...]:
    """Jobs in gaps on some nodes; without any, in the cell."""
    seqs = {
        pod.job: None
        for node in (state.nodes[index] for index in nodes or range(len(state.nodes)))
        for pod in node.pods.values()
        if pod.tier in _LENT and pod.phase is not Phase.SUSPENDED
    }
    return tuple([state.jobs[seq].request.job for seq in sorted(seqs)[:EXAMPLES]])


class Rest(msgspec.Struct, frozen=True, gc=False):
    """What a suspended job can expect.

    Attributes:
        since_ns: when the first of its pods was suspended.
        line_ns: if no cards are free for it until then it waits in line like others; 0: never.
    """

    since_ns: int
    line_ns: int


def rest(state: State, job: Job) -> Rest | None:
    """What a job can expect all of whose pods are suspended; none of others."""
    timing, pods = state.policy.timing, (job.pods or {}).values()
    if not pods or any(pod.phase is not Phase.SUSPENDED for pod in pods):
        return None
    since_ns = min(pod.suspended_ns for pod in pods)
    most_ns = 0 if timing is None or timing.yields is None else timing.yields.suspend_max_ns
    return Rest(since_ns, since_ns + most_ns if most_ns else 0)


class Missed(msgspec.Struct, frozen=True, gc=False):
    """Why a job gets no gap, with the numbers of the reason."""

    reason: Reason
    asked: int = 0
    limit: int = 0


def missed(state: State, job: Job) -> Missed | None:
    """Why a job that stands behind others is not run in a gap; none where that is not the matter:
    it stands first, has a reservation itself, or would end in time and only lacks cards.
    """
    timing = state.policy.timing
    if timing is None or job.key is None or job.seq in state.bookings or not _ahead(state, job):
        return None
    if not timing.scans:
        return Missed(Reason.BLOCKED_HEAD) if timing.stops or timing.reserve else None
    if not manners.takes_part(state, job):
        return Missed(Reason.BACKFILL_REFUSED)
    starts = [booking.start_ns for booking in state.bookings.values()]
    if not starts:
        return None
    judged_ns = estimates.lanes(state, job)[0]
    gap_ns = max(0, min(starts) - state.clock_ns)
    if timing.yields is None:
        return _too_long(judged_ns, gap_ns)
    manner = manners.manner(state, job)
    reason = Reason.SAFE_IN_GAP
    if manner & manners.SPOT:
        reason = Reason.SPOT_FILL
    elif judged_ns > gap_ns and manner & manners.SUSPENDABLE:
        reason = Reason.SUSPENDABLE
    expected = manners.terms(state, job, reason, min(judged_ns, FOREVER), IdleClass.UNKNOWN, None)
    if manners.is_too_risky(job, expected):
        limit = job.request.backfill_risk_milli
        return Missed(Reason.RISK_TOO_HIGH, expected.risk_milli, limit)
    if manner & (manners.SPOT | manners.SUSPENDABLE):
        return None
    most_ns = tuning.knobs_of(state).runtime_max_ns
    if judged_ns < FOREVER and most_ns < judged_ns <= gap_ns:
        return Missed(Reason.OVER_MAX_RUNTIME, judged_ns, most_ns)
    return _too_long(judged_ns, gap_ns)


def _too_long(judged_ns: int, gap_ns: int) -> Missed | None:
    if judged_ns >= FOREVER:
        return Missed(Reason.NO_ESTIMATE)
    return Missed(Reason.GAP_TOO_SHORT, judged_ns, gap_ns) if judged_ns > gap_ns else None

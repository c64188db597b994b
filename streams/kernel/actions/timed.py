"""Allocation and backfill that plan with run times.

A pass has two parts. `allocate` walks the line in order: who fits starts; the first that does not
gets a reservation, and so do those behind it, as many as the policy gives. `scan` then offers the
gaps before and beside the reservations to all the others.

Cards whose holder is expected to end now, and has not yet, count as free: whoever starts on them
claims them and is allocated when they are released, in the same second if the estimate was right.
So a pass sees what the published schedulers of the field see.

Where cards are all alike counts decide (module `pool`), else placement does (module `gaps`).
"""

from collections.abc import Callable, Sequence

from ganger.schemas.enums import DecisionKind, Phase, Tier
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.backfill import bookings, estimates
from ganger.streams.kernel.backfill.futures import Futures, HolderKey
from ganger.streams.kernel.backfill.gaps import Gaps
from ganger.streams.kernel.backfill.lookahead import Moments, cards_placed
from ganger.streams.kernel.backfill.manners import SPOT, manner, takes_part
from ganger.streams.kernel.backfill.pool import Pool
from ganger.streams.kernel.backfill.several import Several, Take
from ganger.streams.kernel.decide import Foreseen
from ganger.streams.kernel.entities import ClaimEntry, Job, Key, Pod
from ganger.streams.kernel.horizon.gather import Held
from ganger.streams.kernel.horizon.steps import FOREVER
from ganger.streams.kernel.jobs.lifecycle import move_job
from ganger.streams.kernel.jobs.lines import line_up, look_of
from ganger.streams.kernel.jobs.starts import in_turn, placed
from ganger.streams.kernel.jobs.waiting import TimedWaiting
from ganger.streams.kernel.nodes.placement import place_counts, place_job
from ganger.streams.kernel.nodes.statement import Statement, give_back
from ganger.streams.kernel.nodes.windows import Window
from ganger.streams.kernel.preemption import claims_book
from ganger.streams.kernel.refusals import Refusal
from ganger.streams.kernel.session import Session
from ganger.streams.kernel.settings import FREED, RESERVE_ALL, Timing
from ganger.streams.kernel.state import State
from ganger.streams.kernel.topology import choose_cards

# bound once: looking a member up on its Enum class costs more than what is done with it
_ALLOCATE = DecisionKind.ALLOCATE
_CLAIM_MADE = Reason.CLAIM_MADE
_MAIN = Tier.MAIN
_IN_GAP = Tier.BACKFILL


Books = Callable[[State, Timing, Statement, Take], Several]
"""Makes who plans where several jobs are booked on nodes, by the statement that `Take` commits."""


class Starts:
    """Places and starts jobs in one cycle."""

    __slots__ = ("futures", "session", "state", "statement", "windows")

    def __init__(self, session: Session, futures: Futures, windows: Sequence[Window]) -> None:
        self.session = session
        self.state = session.state
        self.futures = futures
        self.statement = Statement(session.state)
        self.windows = windows

    # ---- counts have decided: see `pool.Starter` ------------------------------------------------

    def start(
        self, job: Job, kind: DecisionKind, foreseen: Foreseen, claims: bool, run_ns: int
    ) -> bool:
        """Start a job; `claims`: on cards some of whose holders are about to end, when they have;
        `run_ns`: it counts as to run so long; 0: as long as is expected of it.

        Returns whether nothing kept it.
        """
        if (claims or not self._seat(job)) and self.place(job, claims) is not None:
            return False
        self.take(job, kind, foreseen, claims, run_ns)
        return True

    def _seat(self, job: Job) -> bool:
        """Place a job of one pod that asks for cards alone on the only node; whether it could.

        What placement would come to, in fewer steps.
        """
        state, node, shape = self.state, self.state.nodes[0], job.shape
        if not (shape.is_single and state.policy.is_plain) or job.avoid or node.bucket is None:
            return False
        pod = shape.shapes[0]
        if state.queues[job.queue].is_capped or node.free_cpu < 0 or node.free_memory < 0:
            return False
        for kind, mask, _ in state.indexes.nodes.eligible(pod):
            if kind is node.kind:
                chosen = choose_cards(node.free & mask, pod.cards, kind.islands, False)
                if chosen:
                    self.statement.hold(0, pod, node, (chosen,))
                    return True
        return False

    # ---- placement decides: see `gaps.Hand` -----------------------------------------------------

    def place(self, job: Job, claims: bool = False) -> Refusal | None:
        """Place a job; why not. `claims`: cards that are due are free."""
        state, statement = self.state, self.statement
        if claims:
            for holder in self.futures.due(state.now_ns):
                give_back(statement, holder)
        refusal = place_job(state, statement, job)
        if refusal is not None:
            statement.discard()
        return refusal

    def held(self) -> Held:
        """Cards of what is placed now."""
        return cards_placed(self.statement)

    def undo(self) -> None:
        """Place nothing."""
        self.statement.discard()

    def take(
        self,
        job: Job,
        kind: DecisionKind,
        foreseen: Foreseen,
        claims: bool = False,
        run_ns: int = 0,
    ) -> None:
        """Start the job that is placed now. `run_ns`: expected of it; 0: what is known now."""
        state, statement = self.state, self.statement
        estimates.settle(state, job, run_ns)
        if claims:
            entries = statement.take_entries()
            self._leave(job)
            reason = _CLAIM_MADE
            if kind is not _ALLOCATE:  # what it was judged by is said when it starts
                reason = foreseen.reason
                job.estimate_ns = foreseen.estimate_ns + foreseen.margin_ns
                job.estimate_source = foreseen.estimate_source
                state.touch(job)
            claims_book.make(state, job, entries, reason=reason)
            return
        self._leave(job)
        tier = _MAIN if kind is _ALLOCATE else _gap_tier(state, job)
        self.session.started += statement.commit(job, kind, tier, foreseen)
        if tier is _MAIN:
            timing = state.policy.timing
            if timing is not None and timing.yields is not None:
                in_turn(state, job)
        placed(state, job, tier)

    # ---- others make way: see `session.Host` ----------------------------------------------------

    def make_room(self, job: Job, pods: Sequence[Pod]) -> tuple[ClaimEntry, ...] | None:
        """Where a job would start if attempts, and who is due, had left; none: nowhere."""
        state, statement = self.state, self.statement
        for pod in pods:
            statement.give_back(pod)
        for holder in self.futures.due(state.now_ns):
            if (holder not in self.futures.lent) or state.indexes.lifted.get(holder) is None:
                give_back(statement, holder)
        refusal = place_job(state, statement, job, False)
        if refusal is not None:
            statement.discard()
            return None
        return statement.take_entries()

    def claim(
        self,
        job: Job,
        entries: tuple[ClaimEntry, ...],
        victims: tuple[HolderKey, ...],
        grace_ns: int,
    ) -> None:
        """Let a job start there once they have; they may take so long."""
        state = self.state
        estimates.settle(state, job)
        self._leave(job)
        until_ns = state.now_ns + state.policy.settings.claim_ns + grace_ns
        claims_book.make(state, job, entries, victims, until_ns, rule="yielding")

    def fits_again(self, job: Job) -> bool:
        """Whether all pods of a suspended job would find a place elsewhere."""
        state, statement = self.state, self.statement
        if not state.policy.is_plain or job.shape.is_guided:
            return False
        counts = [0] * len(job.roles)
        for index in job.pods or ():
            counts[index % len(counts)] += 1
        refusal = place_counts(state, statement, job, counts)
        statement.discard()
        return refusal

    def start_again(self, job: Job, slept_ns: int) -> None:
        """Place and start what is pending of the job, in a gap; it was suspended for so long."""
        state, statement = self.state, self.statement
        move_job(state, job, Phase.INQUEUE)
        job.look = look_of(job)
        if place_job(state, statement, job) is not None:
            statement.discard()
            line_up(state, job)
            return
        tier = _gap_tier(state, job)
        told = bookings.foreseen(state, job, Reason.RESUMED)._replace(asked=slept_ns)
        self.session.started += statement.commit(job, DecisionKind.BACKFILL, tier, told)
        placed(state, job, tier)

    def lookahead(self) -> Moments:
        """The cell at moments ahead, beside what is placed now."""
        return Moments(self.state, self.futures, self.windows, place_job)

    def _leave(self, job: Job) -> None:
        """The job stands in line no more, nor is anything reserved for it."""
        session, state = self.session, self.state
        if job is session.lone:
            session.lone = None
        else:
            waiting = state.indexes.inqueue
            assert isinstance(waiting, TimedWaiting)
            waiting.remove(job)
            self.futures.leave(waiting.left.pop())
        if state.bookings:
            bookings.drop(state, job.seq)


def _gap_tier(state: State, job: Job) -> Tier:
    return Tier.SPOT if manner(state, job) & SPOT else _IN_GAP


def allocate(session: Session, lends: type[Gaps], books: Books) -> None:
    """Start who is first in line, and reserve for those who cannot start.

    `lends`: plans where those in gaps make way; `books`: where several jobs are booked on nodes.
    """
    state = session.state
    futures, timing = state.indexes.futures, state.policy.timing
    waiting = state.indexes.inqueue
    assert futures is not None and timing is not None and isinstance(waiting, TimedWaiting)
    session.offer_gaps = session.make_way = None
    is_fitting = state.policy.settings.passes == "fitting"
    lone = session.lone
    if is_fitting and timing.reserve >= RESERVE_ALL:
        _void(state, futures)  # who has left calls for a pass
    if lone is None:
        if not (state.stirred or waiting.left) and (is_fitting or _rests(state, futures)):
            return
    elif futures.outcome is not None:
        if not (state.stirred or waiting.left) and _offer(session, futures, timing, lone):
            return
        futures.outcome = None
    is_pool = len(state.nodes) == 1 and state.indexes.windows is None and timing.yields is None
    if waiting.came or waiting.left or not (is_pool and _is_settled(futures, timing)):
        settle(state, futures, is_pool)
    counts = is_pool and not futures.odd_count and (lone is None or cards_of(lone) >= 0)
    planner: Pool | Gaps | Several
    if counts:
        planner = _pool(session, futures, timing)
    else:
        planner = _planner(session, timing, lends, books)
    is_called = True
    if lone is not None:
        fits = planner.fits(lone)
        if fits and timing.reserve < RESERVE_ALL and not (futures.lines or futures.resting):
            if planner.start_lone(lone):
                return
        _line_lone(session)
        is_called = fits
    if is_fitting and not state.stirred:
        if lone is None or not is_called:
            return
    if waiting.came:
        settle(state, futures, is_pool)
    if is_pool and futures.odd_count and isinstance(planner, Pool):
        planner = _planner(session, timing, lends, books)
    if not isinstance(planner, Pool):
        futures.book = futures.outcome = None  # they are kept by the other alone
    if futures.lines or futures.resting or state.bookings:
        planner.walk()
        if isinstance(planner, lends):
            session.make_way = planner.make_way
            session.host = Starts(session, futures, windows_of(state))
        session.offer_gaps = planner.scan
    state.stirred = 0
    if not timing.scans:
        _rest(session, futures, timing)


def _rest(session: Session, futures: Futures, timing: Timing) -> None:
    """After a pass: if nothing has changed in this cycle nobody can start before something does, or
    before one of a few moments; until then no cycle need look again.
    """
    state = session.state
    now_ns, bookings_now = state.now_ns, state.bookings.values()
    if state.dirty or session.started or state.claims or timing.yields is not None:
        return
    if state.indexes.windows is not None or timing.order == "slowdown":
        return  # what time alone brings about there is not foreseen here
    moments = [booking.start_ns for booking in bookings_now]
    if futures.ends.releases:
        moments.append(futures.ends.releases[0][0])
    if min(moments, default=FOREVER) <= now_ns:
        return
    if timing.guard_ns:
        if not bookings_now:
            return
        for booking in bookings_now:
            moments.append(state.jobs[booking.job].submitted_ns + timing.guard_ns)
    until_ns = min([at_ns for at_ns in moments if at_ns > now_ns], default=FOREVER)
    futures.rests = (state.digest, until_ns)


def _rests(state: State, futures: Futures) -> bool:
    """Whether nobody can start yet, as was found by the last pass."""
    if futures.rests is None or state.dirty or state.indexes.windows is not None:
        return False
    digest, until_ns = futures.rests
    return state.digest == digest and state.now_ns < until_ns


def _planner(session: Session, timing: Timing, lends: type[Gaps], books: Books) -> Gaps | Several:
    """Who plans this pass where placement decides."""
    state = session.state
    futures = state.indexes.futures
    assert futures is not None
    starts = Starts(session, futures, windows_of(state))
    if timing.yields is None and timing.reserve > 1:
        return books(state, timing, starts.statement, starts.take)
    if futures.prospect is not None:
        futures.prospect = None  # kept by those alone
        futures.touched.clear()
    return (Gaps if timing.yields is None else lends)(
        state, futures, timing, starts, starts.windows
    )


def _pool(session: Session, futures: Futures, timing: Timing) -> Pool:
    """Who plans this pass where counts decide: the same as in the last one."""
    if futures.prospect is not None:
        futures.prospect = None  # kept by those of `_planner` alone
        futures.touched.clear()
    pool, starts = futures.planner, futures.starter
    if not (isinstance(pool, Pool) and isinstance(starts, Starts)):
        starts = futures.starter = Starts(session, futures, ())
        pool = futures.planner = Pool(session.state, futures, timing, starts)
    starts.session = session
    pool.begin()
    return pool


def _offer(session: Session, futures: Futures, timing: Timing, lone: Job) -> bool:
    """Offer what the last pass left to the lone job, if it stands behind all others; it stands in
    line if it may not start. Whether that is all there is to do: nobody else could start then, and
    nothing but who came has changed since.
    """
    state, outcome = session.state, futures.outcome
    assert outcome is not None
    node = state.nodes[0]
    if node.free_count != outcome.free or not node.is_open or session.lone_key < outcome.head:
        return False
    if len(state.nodes) > 1 or state.indexes.windows or futures.ends.has_due(state.now_ns):
        return False
    cards = cards_of(lone)
    if cards < 0:
        return False
    if cards <= outcome.free and takes_part(state, lone):
        guard_ns = timing.guard_ns
        if guard_ns:
            head = state.jobs[outcome.head[-1]]
            if (state.now_ns - head.submitted_ns >= guard_ns) is not (outcome.lane > 0):
                return False
        if _pool(session, futures, timing).start_beside(lone, cards, outcome):
            return True
    _line_lone(session)
    return True


def _line_lone(session: Session) -> None:
    """Let the lone job stand in line, which is no news."""
    stirred = session.state.stirred
    session.line_lone()
    session.state.stirred = stirred


def scan(session: Session) -> None:
    """Offer the gaps to those behind."""
    state = session.state
    timing, futures = state.policy.timing, state.indexes.futures
    if session.offer_gaps is not None and timing is not None and timing.scans:
        assert futures is not None
        settle(state, futures, None)  # some got pods that ask for nothing, and stand elsewhere
        session.offer_gaps()
        if not state.dirty:
            _rest(session, futures, timing)


def windows_of(state: State) -> Sequence[Window]:
    """What is reserved by request, now or later."""
    windows = state.indexes.windows
    return () if windows is None else windows.windows


def _is_settled(futures: Futures, timing: Timing) -> bool:
    """Whether there is nothing to settle where counts decide, if nobody came or left."""
    odd = futures.stale or futures.odd_count or futures.by_kind
    return not odd and timing.reserve < RESERVE_ALL


def settle(state: State, futures: Futures, is_pool: bool | None) -> None:
    """Let who came stand in line and who left leave it, and look again at what was learnt.

    `is_pool`: counts of cards decide, if nobody asks for more than cards; none: amid a pass, where
    it stays as it is.
    """
    waiting, timing = state.indexes.inqueue, state.policy.timing
    assert isinstance(waiting, TimedWaiting) and timing is not None
    books = timing.reserve >= RESERVE_ALL
    by_kind = _by_kind(futures, is_pool)
    has_left = bool(waiting.left)
    if not (waiting.came or has_left or futures.stale or books):
        if by_kind is futures.by_kind:
            return
    for key in waiting.left:
        futures.leave(key)
    waiting.left.clear()
    newcomers = list(waiting.came)
    for key, job in waiting.came.items():
        futures.stand(job, job.queue if state.policy.queue_order else 0, cards_of(job))
        if books and job.seq not in state.bookings:
            futures.unbooked[key] = None
    waiting.came.clear()
    by_kind = _by_kind(futures, is_pool)
    if timing.scans:
        if by_kind is not futures.by_kind:
            futures.clear_bench(estimates.lane_count(state), by_kind)
            newcomers = futures.places()
        for key in newcomers:
            job = state.jobs[key[-1]]
            if takes_part(state, job):
                _seat(state, futures, job, key)
        for who in futures.take_stale() if futures.stale else ():
            if isinstance(who, int):
                _price(state, futures, who)
            else:
                _seat(state, futures, state.jobs[who[-1]], who)
    if books and (has_left or (futures.book is None and futures.prospect is None)):
        _void(state, futures)


def _by_kind(futures: Futures, is_pool: bool | None) -> bool:
    """Whether those who wait are to be offered gaps kind by kind."""
    if is_pool is None:
        return futures.by_kind
    return not is_pool or futures.odd_count > 0


def _void(state: State, futures: Futures) -> None:
    """Give up what is reserved for jobs that stand in line no more."""
    kept = [seq for seq in state.bookings if is_standing(state, seq)]
    if len(kept) < len(state.bookings):
        bookings.keep_only(state, kept)
        futures.book = None
        state.stirred |= FREED


def _seat(state: State, futures: Futures, job: Job, key: Key) -> None:
    """Let a job be offered gaps, as it is judged now."""
    learns = estimates.learns(state)
    names = estimates.rows_of(state, job) if learns else ()
    if not futures.by_kind:
        row_of = futures.cards_of(key)
    else:
        way = manner(state, job)
        if estimates.is_learnt(state) and not futures.has_own_lanes(key):
            is_bound = estimates.is_bound(state, job)
            kind = (job.shape, job.look, names, way, is_bound, estimates.limit_ns(job))
            number = futures.limited_kind_of(kind) if kind[-1] else futures.kind_of(kind)
            if number is not None:
                if not futures.has_price(number):
                    _price(state, futures, number)
                futures.sit(key, number, (), ())
                return
        row_of = futures.kind_of((job.shape, job.look, (), way, False, 0))
    rows = estimates.depended_on(state, names) if learns else ()
    futures.sit(key, row_of, estimates.lanes(state, job), rows)


def _price(state: State, futures: Futures, kind: int) -> None:
    """Make the lanes of a kind of jobs anew."""
    names = futures.names_of(kind)
    limit, is_bound = futures.limit_of(kind), futures.is_bound(kind)
    lanes = estimates.learnt_lanes(state, names, limit, is_bound)
    futures.price(kind, lanes, estimates.depended_on(state, names))


def is_standing(state: State, seq: int) -> bool:
    """Whether a job is known and stands in line."""
    job = state.jobs.get(seq)
    return job is not None and job.key is not None


def cards_of(job: Job) -> int:
    """Cards that a waiting job asks for, if it asks for nothing else and starts whole; else -1."""
    shape = job.shape
    if shape.is_single:  # as below, in fewer steps: its only pod is pending
        pod = shape.shapes[0]
        return pod.cards if pod.is_plain and not (pod.cpu or pod.memory) and pod.cards else -1
    if shape.is_guided:
        return -1
    cards = 0
    for role, one in zip(job.roles, shape.shapes, strict=True):
        if not one.cards or one.cpu or one.memory or not one.is_plain:
            return -1
        cards += one.cards * role.pending()
    return cards if shape.fresh_total >= sum(role.replicas for role in job.roles) else -1

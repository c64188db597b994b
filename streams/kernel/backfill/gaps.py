"""A pass over time on many nodes: where a job fits is asked of the placement there is.

The plain meaning: the first job that does not fit starts when it would fit if the pods that run now
ended when they are expected to; the cards where it would go are held for it from then on. Another
job may start now if it ends by then, or if the first one still starts then beside it.

What departs from it: for a job that asks for cards alone the start is found by counting nodes
(`horizon.gather`), and what a job beside it leaves is read from the plan, which is made anew only
where it takes what the plan holds.

There is one reservation here. Where the policy gives several they are planned by counting (module
`pool`) or card by card (`several`); but where those in gaps make way (`lent`) there is one.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from ganger.schemas.enums import DecisionKind
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.backfill import bookings, estimates
from ganger.streams.kernel.backfill.bookings import Room
from ganger.streams.kernel.backfill.estimates import Estimate
from ganger.streams.kernel.backfill.futures import Futures, HolderKey
from ganger.streams.kernel.decide import Foreseen
from ganger.streams.kernel.entities import Job, Key
from ganger.streams.kernel.horizon.bench import Verdict
from ganger.streams.kernel.horizon.easy import Candidate
from ganger.streams.kernel.horizon.gather import Freed, Gang, Held, Plan, gather, gather_at
from ganger.streams.kernel.horizon.orders import ORDERS, Ask
from ganger.streams.kernel.horizon.steps import FOREVER
from ganger.streams.kernel.jobs.waiting import GROWING
from ganger.streams.kernel.nodes.node_index import MEMORY_SHIFT, NodeIndex
from ganger.streams.kernel.nodes.windows import Window
from ganger.streams.kernel.queues.capacity import never_fits
from ganger.streams.kernel.refusals import Refusal
from ganger.streams.kernel.resources import CARD_MILLI, CARDS, Shape
from ganger.streams.kernel.session import Turns, Way
from ganger.streams.kernel.settings import Timing
from ganger.streams.kernel.state import State
from ganger.streams.kernel.topology import NodeClass

# bound once: looking a member up on its Enum class costs more than what is done with it
_ALLOCATE = DecisionKind.ALLOCATE
_BACKFILL = DecisionKind.BACKFILL
_BESIDE = Reason.BESIDE_RESERVATION
_IN_TURN = Reason.PLACED_IN_TURN
_SAFE = Reason.SAFE_IN_GAP
_NOT_NEEDED = Reason.NOT_NEEDED
_NODE = (1 << MEMORY_SHIFT) - 1


class Lookahead(Protocol):
    """The cell at moments ahead. Until it is left nobody else may place anything."""

    def __enter__(self) -> "Lookahead": ...

    def __exit__(self, *_: object) -> None: ...

    def held(self, job: Job, at_ns: int) -> Held | None:
        """Cards that a job would hold at a moment, beside what is placed now; none: it would not
        fit.
        """
        ...


class Hand(Protocol):
    """Tries placements, and starts what was placed last."""

    def place(self, job: Job, claims: bool = False) -> Refusal | None:
        """Place a job; why not. `claims`: cards that are due are free."""
        ...

    def held(self) -> Held:
        """Cards of what is placed now."""
        ...

    def undo(self) -> None:
        """Place nothing."""
        ...

    def take(self, job: Job, kind: DecisionKind, foreseen: Foreseen, claims: bool = False) -> None:
        """Start the job that is placed now."""
        ...

    def lookahead(self) -> Lookahead:
        """The cell at moments ahead, beside what is placed now."""
        ...


class Head(NamedTuple):
    """The job that waits for its turn.

    Attributes:
        plan: when it starts and what is held for it; none: it is not expected to start at all.
        counted: whether the plan was found by counting nodes. It is not where some hold shares of
            cards: counts do not tell when such a card comes free.
    """

    job: Job
    plan: Plan | None
    counted: bool


class Gaps:
    """One pass.

    Attributes:
        head: who could not start and has the reservation.
    """

    __slots__ = ("_futures", "_hand", "_left", "_state", "_timing", "_windows", "head")

    def __init__(
        self,
        state: State,
        futures: Futures,
        timing: Timing,
        hand: Hand,
        windows: Sequence[Window],
    ) -> None:
        """`windows`: what is reserved by request, now or later."""
        self._windows = windows
        self.head: Head | None = None
        self._state = state
        self._futures = futures
        self._timing = timing
        self._hand = hand
        self._left = timing.scan_max

    def fits(self, job: Job) -> bool:
        """Whether it may start now, by the cards of its pods alone. Never wrongly no."""
        return may_fit(self._state, job) or bool(self._futures.due(self._state.now_ns))

    def start_lone(self, job: Job) -> bool:
        """Start a job where nobody else waits; whether it could."""
        return self._start_in_turn(job) is None

    # ---- in turn --------------------------------------------------------------------------------

    def make_way(self, way: Way) -> None:
        """Let others make way for who is first in line: here nobody in a gap does."""

    def walk(self) -> None:
        """Start who is first while it fits; reserve for the first that does not."""
        state, timing = self._state, self._timing
        turns = Turns(state, self._futures.lines)
        while (key := turns.key()) is not None:
            job = state.jobs[key[-1]]
            refusal = self._start_in_turn(job)
            if refusal is None:
                turns.started()
                continue
            # whoever runs and only grows waits for nothing
            if refusal.queue < 0 and job.look != GROWING and never_fits(state, job.shape) is None:
                if timing.reserve:
                    self._reserve(job)
                    break
                if timing.stops:
                    break
            turns.passed()
        if state.bookings:
            bookings.keep_only(state, [] if self.head is None else [self.head.job.seq])

    def _start_in_turn(self, job: Job) -> Refusal | None:
        """Start a job, on cards that are due if need be; why not."""
        refusal = self._hand.place(job)
        claims = False
        if refusal is not None and refusal.queue < 0 and self._futures.due(self._state.now_ns):
            claims = True
            if self._hand.place(job, claims=True) is None:
                refusal = None
        if refusal is None:
            told = bookings.foreseen(self._state, job, _IN_TURN)
            self._hand.take(job, _ALLOCATE, told, claims)
        return refusal

    def _reserve(self, job: Job) -> None:
        """Find the start of the head and hold its cards."""
        state = self._state
        estimate = estimates.of_run(state, job)
        gang = gang_of(job)
        suits = state.indexes.nodes.eligible(job.shape.shapes[0])
        counted = gang is not None and not self._windows and all(whole for _, _, whole in suits)
        counted = counted and not self._futures.shares
        if gang is not None and counted:
            plan = self._gather(job, gang)
        else:
            plan = self._look_ahead(job)
        self.head = Head(job, plan, counted)
        if plan is not None:
            self._book(job, plan, estimate)
        elif job.seq in state.bookings:
            bookings.give_up(state, job.seq, _NOT_NEEDED)

    def _book(self, job: Job, plan: Plan, estimate: Estimate) -> None:
        state = self._state
        entries = tuple(sorted(plan.held.items()))
        cards = sum(plan.held.values())
        free = max(0, state.total[CARDS] - state.used[CARDS]) // CARD_MILLI
        then = cards + sum(plan.spare.values())
        bookings.reserve(state, job, plan.start_ns, cards, estimate, Room(free, then), entries)

    def _gather(self, job: Job, gang: Gang) -> Plan | None:
        state = self._state
        levels = OpenNodes(state.indexes.nodes, job.shape.shapes[0])
        return gather(gang, levels, self._freed(levels), state.now_ns)

    def _freed(self, levels: "OpenNodes") -> Iterator[Freed]:
        """What nodes are expected to get back, ascending by time; at once what is due."""
        state, futures = self._state, self._futures
        now_ns = state.now_ns
        for end_ns, holder, cards in futures.releases():
            at_ns = max(end_ns, now_ns)
            for node, count in holdings(state, holder, cards):
                if levels.has(node):
                    yield Freed(at_ns, node, count)

    def _look_ahead(self, job: Job) -> Plan | None:
        """The same for any job, by placing it: at the first moment at which it fits.

        Without windows ahead, what fits once fits later too, so moments are bisected.
        """
        moments = self._moments()
        with self._hand.lookahead() as lookahead:
            if self._windows:
                moments = moments[: self._timing.scan_max]
                plans = (_plan_at(lookahead, job, at_ns) for at_ns in moments)
                return next((plan for plan in plans if plan is not None), None)
            return self._bisect(lookahead, job, moments)

    def _bisect(self, lookahead: Lookahead, job: Job, moments: Sequence[int]) -> Plan | None:
        low, place = 0, 0
        plan = _plan_at(lookahead, job, moments[0])
        while plan is None:
            if place == len(moments) - 1:
                return None
            low, place = place + 1, min(2 * place + 1, len(moments) - 1)
            plan = _plan_at(lookahead, job, moments[place])
        while low < place:
            middle = (low + place) // 2
            earlier = _plan_at(lookahead, job, moments[middle])
            if earlier is None:
                low = middle + 1
            else:
                place, plan = middle, earlier
        return plan

    def _moments(self) -> list[int]:
        """When anything is expected to change, ascending; now is the first."""
        now_ns = self._state.now_ns
        moments = {now_ns: None}
        for end_ns, _, _ in self._futures.releases():
            if end_ns > now_ns:
                moments[end_ns] = None
        for window in self._windows:
            if window.record.to_ns > now_ns:
                moments[window.record.to_ns] = None
        return sorted(moments)

    # ---- in gaps --------------------------------------------------------------------------------

    def scan(self) -> None:
        """Offer the gaps before and beside the reservation to all that wait behind."""
        head, state, timing = self.head, self._state, self._timing
        if head is None:
            return
        now_ns = state.now_ns
        has_waited = timing.guard_ns and now_ns - head.job.submitted_ns >= timing.guard_ns
        lane = 1 if has_waited else 0
        start_ns = FOREVER if head.plan is None else head.plan.start_ns
        longest_ns = self._longest_ns(start_ns)
        bench = self._futures.bench
        for place in self._first_offered():
            first = bench.find(place, lane)
            if first is not None:
                self._judge(first, longest_ns, lane)
        kinds = [kind for kind in bench.kinds() if self._may_start(kind)]
        if timing.order in ("arrival", "shortest"):
            bench.offer_each(
                kinds,
                longest_ns,
                lambda candidate: self._judge(candidate, longest_ns, lane),
                lane=lane,
                is_shortest=timing.order == "shortest",
            )
            return
        open_kinds = dict.fromkeys(kinds, False)  # to whether only short ones can start
        for candidate in self._candidates(lane):
            is_short = open_kinds.get(candidate.cards)
            if is_short is None or (is_short and candidate.estimate_ns > longest_ns):
                continue
            verdict = self._judge(candidate, longest_ns, lane)
            if verdict is Verdict.FULL:
                del open_kinds[candidate.cards]
            elif verdict is Verdict.TOO_LONG:
                open_kinds[candidate.cards] = True

    def _first_offered(self) -> list[Key]:
        """Who is offered the gaps before all others."""
        return []

    def _longest_ns(self, start_ns: int) -> int:
        """How long a job may run that is to end before the reservation."""
        return start_ns - self._state.now_ns if "safe" in self._timing.routes else 0

    def _candidates(self, lane: int) -> list[Candidate]:
        """Whoever takes part, in the order of the policy."""
        state = self._state
        key_of = ORDERS[self._timing.order]

        def key(candidate: Candidate) -> tuple[int, ...]:
            job = state.jobs[candidate.place[-1]]
            cards = job.shape.min_needs[0][0] // CARD_MILLI
            wait_ns = state.now_ns - job.submitted_ns
            return key_of(Ask(candidate.place, cards, candidate.estimate_ns, wait_ns))

        return sorted(self._futures.bench.all(lane), key=key)

    def _may_start(self, kind: int) -> bool:
        """Whether one of a kind of jobs might fit now, by cards alone."""
        shape = self._futures.shape_of(kind)
        if self._futures.due(self._state.now_ns):
            return True
        index = self._state.indexes.nodes
        needs = shape.fresh_needs if any(shape.fresh_needs) else (1,) * len(shape.shapes)
        return all(
            not need or index.room(one, need) >= need
            for one, need in zip(shape.shapes, needs, strict=True)
        )

    def _judge(self, candidate: Candidate, longest_ns: int, lane: int) -> Verdict:
        """Start a job in a gap if it delays nobody."""
        state, hand = self._state, self._hand
        job = state.jobs[candidate.place[-1]]
        assert self.head is not None
        if job is self.head.job:
            return Verdict.SKIPPED
        if not self._left:
            return Verdict.FULL
        self._left -= 1
        judged_ns = candidate.estimate_ns
        is_safe = judged_ns < FOREVER and judged_ns <= longest_ns
        if not is_safe and ("beside" not in self._timing.routes or self.head.plan is None):
            return Verdict.TOO_LONG
        claims = False
        refusal = hand.place(job)
        if refusal is not None and refusal.queue < 0 and self._futures.due(state.now_ns):
            claims = True
            refusal = hand.place(job, claims=True)
        if refusal is not None:
            # what is kept from this one by a reservation need not be kept from its like
            is_own = refusal.queue >= 0 or bool(self._windows)
            return Verdict.SKIPPED if is_own else Verdict.FULL
        left, held = 0, hand.held()
        if not is_safe:
            # cards that are due count in the plan already, so nothing is known of the rest
            left = -1 if claims else self._left_beside(held)
            if left < 0:
                hand.undo()
                return Verdict.TOO_LONG
        estimate = estimates.judged(state, job, judged_ns if judged_ns < FOREVER else 0, lane)
        hand.take(job, _BACKFILL, self._told(is_safe, judged_ns, left, estimate), claims)
        if not self._counts_no_more() and is_safe:
            self._count_back(held, claims)
        return Verdict.TAKEN

    def _counts_no_more(self) -> bool:
        """Look ahead from now on if shares were given to the first just now; whether they were."""
        head = self.head
        if head is None or not head.counted or not self._futures.shares:
            return False
        self.head = head._replace(counted=False)
        return True

    def _count_back(self, held: Held, claims: bool) -> None:
        """What was started now is given back before the head starts."""
        head = self.head
        assert head is not None
        if head.plan is None or not head.counted:
            return
        if claims:
            gang = gang_of(head.job)
            assert gang is not None
            self.head = head._replace(plan=self._gather(head.job, gang) or head.plan)
            return
        for node, count in held.items():
            head.plan.back[node] = head.plan.back.get(node, 0) + count

    def _told(self, is_safe: bool, judged_ns: int, left: int, estimate: Estimate) -> Foreseen:
        """What is said of a job that starts in a gap; `left`: cards that the head leaves it."""
        parts = (estimate.ns, estimate.source, estimate.margin_ns)
        if not is_safe:
            return Foreseen(_BESIDE, 0, left * CARD_MILLI, 0, 0, *parts)
        assert self.head is not None
        start_ns = FOREVER if self.head.plan is None else self.head.plan.start_ns
        gap_ns = min(start_ns, FOREVER - 1) - self._state.now_ns
        return Foreseen(_SAFE, judged_ns, 0, gap_ns, start_ns if start_ns < FOREVER else 0, *parts)

    def _left_beside(self, held: Held) -> int:
        """Cards of its nodes that the head leaves to what is placed now, if the head still starts
        as planned beside it; else -1.
        """
        head = self.head
        assert head is not None and head.plan is not None
        plan = head.plan
        if head.counted:
            free = {node: plan.spare.get(node, count) for node, count in held.items()}
            if all(free[node] >= count for node, count in held.items()):
                for node, count in held.items():
                    if node in plan.spare:
                        plan.spare[node] -= count
                return sum(free.values())
            gang = gang_of(head.job)
            assert gang is not None
            levels = OpenNodes(self._state.indexes.nodes, head.job.shape.shapes[0])
            again = gather_at(gang, levels, plan)
        else:
            with self._hand.lookahead() as lookahead:
                then = lookahead.held(head.job, plan.start_ns)
            again = None if then is None else Plan(plan.start_ns, then, {}, {})
        if again is None:
            return -1
        self.head = head._replace(plan=again)
        if again.held != plan.held:
            self._book(head.job, again, estimates.of_run(self._state, head.job))
        return sum(held.values())


def _plan_at(lookahead: Lookahead, job: Job, at_ns: int) -> Plan | None:
    """Where a job would be placed at a moment; none: it would not fit."""
    held = lookahead.held(job, at_ns)
    return None if held is None else Plan(at_ns, held, {}, {})


class OpenNodes:
    """Nodes that take pods and suit a shape, by their free cards; read from the index, not kept."""

    __slots__ = ("_index", "_kinds", "_suits")

    def __init__(self, index: NodeIndex, shape: Shape) -> None:
        self._index = index
        self._kinds = [kind for kind, _, _ in index.eligible(shape)]
        self._suits: dict[tuple[object, ...], bool] = {kind.order: True for kind in self._kinds}

    def has(self, node: int) -> bool:
        """Whether a node is one of them."""
        found = self._index.nodes[node]
        return (
            found.bucket is not None and found.kind is not None and found.kind.order in self._suits
        )

    def counts(self) -> dict[int, int]:
        """Nodes by their free cards."""
        counts: dict[int, int] = {}
        for kind in self._kinds:
            for free, listed in _levels(kind):
                counts[free] = counts.get(free, 0) + len(listed)
        return counts

    def free(self, node: int) -> int:
        """Cards free on a node."""
        return self._index.nodes[node].free_count

    def with_free(self, free: int) -> Sequence[int]:
        """Nodes with so many cards free, ascending."""
        return sorted(
            -key & _NODE
            for kind in self._kinds
            for count, listed in _levels(kind)
            if count == free
            for key in listed
        )


def _levels(kind: NodeClass) -> Iterator[tuple[int, list[int]]]:
    """Counts of free cards, each with the keys of the nodes that have so many."""
    for count, bucket in kind.buckets.items():
        if bucket.by_memory:
            yield count, bucket.by_memory


def gang_of(job: Job) -> Gang | None:
    """Cards and count of pods, role by role, of a job that asks for cards alone and for whichever
    there are; else none.
    """
    shape = job.shape
    first = shape.shapes[0].request
    gang = []
    if shape.is_guided or job.avoid:
        return None
    if shape.fresh_total < sum(role.replicas for role in job.roles):
        return None
    for role, one in zip(job.roles, shape.shapes, strict=True):
        asks = one.request
        if not one.cards or one.cpu or one.memory or not one.is_plain:
            return None
        alike = (asks.models, asks.min_card_memory_mib, asks.tolerations)
        if alike != (first.models, first.min_card_memory_mib, first.tolerations):
            return None
        if role.pending():
            gang.append((one.cards, role.pending()))
    return tuple(gang) or None


def may_fit(state: State, job: Job) -> bool:
    """Whether each role's pods that are needed at once fit now, by cards alone."""
    index = state.indexes.nodes
    return all(
        not need or index.room(shape, need) >= need
        for shape, need in zip(job.shape.shapes, job.shape.fresh_needs, strict=True)
    )


def holdings(state: State, holder: HolderKey, cards: int) -> Iterator[tuple[int, int]]:
    """Nodes of a holder, and the cards of each that it is expected to free."""
    seq, index, attempt = holder
    job = state.jobs[seq]
    if index < 0:
        for entry in state.claims[seq].entries:
            if not entry.card_milli:
                yield entry.node, entry.mask.bit_count()
        return
    pod = job.pods.get(index) if job.pods else None
    if pod is None or pod.attempt != attempt:
        pod = state.indexes.ghosts[holder]
    if cards:
        yield pod.node, cards

"""admit: give pending jobs quota by flavor and, where the policy says so, a place in the same pass.

The simple rule: of the first jobs of all queues take the one that borrows least (then the highest
priority, then the one that has waited longest) or, under fair sharing, the one whose branch of the
tree would have the least share; give it its quota, or have those evicted who must leave for it; go
on with the job behind it. A job that cannot have its quota is parked, and the next of its queue is
looked at; in a strict queue nobody passes it.

`heads=one_per_queue` looks at one job per queue, as a cycle of Kueue does, and begins anew in each.
`then=place`: quota is given only to a job that the nodes can hold, now or once its victims have
left; then it gets a claim on their cards. `then=quota_alone`: a job that others leave for waits in
line until they are gone.

Parked jobs are a memory, not a fact: they are looked at again as soon as anything has changed.
"""

from heapq import heappop, heappush

from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, Phase, Tier
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.decide import Cause, of_job, say
from ganger.streams.kernel.entities import ClaimEntry, Job, Pod, Queue
from ganger.streams.kernel.fairness.cohort import available, potential
from ganger.streams.kernel.fairness.cohort_rules import Entry, Rule, Why, entry_key
from ganger.streams.kernel.fairness.flavors import Mode
from ganger.streams.kernel.fairness.tournament import Head, winner
from ganger.streams.kernel.jobs import progress
from ganger.streams.kernel.jobs.lifecycle import move_job
from ganger.streams.kernel.jobs.lines import line_up, step_out, watch_admission
from ganger.streams.kernel.jobs.starts import placed
from ganger.streams.kernel.jobs.waiting import PARKED
from ganger.streams.kernel.nodes.placement import place_job
from ganger.streams.kernel.nodes.statement import Statement
from ganger.streams.kernel.preemption import claims_book, evictions
from ganger.streams.kernel.queues import admission, cohort_tree, held_quota, quota
from ganger.streams.kernel.queues.admission import Nomination, QuotaTree
from ganger.streams.kernel.resources import CARDS, NAMED
from ganger.streams.kernel.session import Session
from ganger.streams.kernel.state import State

RULE = "cohort"
"""Whose rules these are, as decisions say."""

_REASONS = {
    Why.SAME_QUEUE: Reason.SAME_QUEUE,
    Why.RECLAIM_IN_COHORT: Reason.RECLAIM_IN_COHORT,
    Why.RECLAIM_WHILE_BORROWING: Reason.RECLAIM_WHILE_BORROWING,
    Why.FAIR_SHARE: Reason.FAIR_SHARE,
}


def run(session: Session) -> None:
    """Admit until no job is left that can be."""
    state = session.state
    gate = state.indexes.gate
    one_head = state.policy.words["admit.heads"] == "one_per_queue"
    if state.indexes.gate_grew or one_head:
        state.indexes.gate_grew = False
        gate.relent(PARKED)
    if gate.open_count:
        _Pass(session, one_head).run()


class _Pass:
    """One pass over the pending jobs."""

    def __init__(self, session: Session, one_head: bool) -> None:
        self.session = session
        self.state = session.state
        words = self.state.policy.words
        self.manner = admission.manner_of(self.state.policy)
        self.one_head = one_head
        self.places = words["admit.then"] == "place"
        self.recomputes = words["admit.overlap"] == "recompute"
        self.trees: dict[int, QuotaTree] = {}  # by id of the top-level queue
        self.open: dict[int, bool] = {}  # queues whose first job is to be looked at
        self.heads: dict[int, Nomination] = {}  # by queue
        self.order: list[tuple[tuple[int, ...], int]] = []  # a heap of them, without fair sharing

    def run(self) -> None:
        """Admit until no queue has a job left to look at."""
        self.open = dict.fromkeys(self.state.indexes.gate.queues(), True)
        while True:
            for queue in sorted(self.open):
                self._look_at(queue)
            self.open.clear()
            if not self.heads:
                break
            self._take(self.heads.pop(self._next()))
        if any(tree.has_protected for tree in self.trees.values()):
            self.state.indexes.gate_grew = True  # time alone may let others leave

    # ---- whose turn it is ---------------------------------------------------------------------

    def _look_at(self, queue: int) -> None:
        """Nominate the first job of a queue."""
        state = self.state
        while (job := state.indexes.gate.first(queue)) is not None:
            tree = self._tree(state.queues[queue])
            one = admission.nominate(tree, job)
            # without a reserve, who cannot be had stands in nobody's way
            if one.can_be_had or self.one_head or cohort_tree.is_strict(state.queues[queue].config):
                self.heads[queue] = one
                if not self.manner.strategies:
                    heappush(self.order, (_key(one), queue))
                return
            state.indexes.gate.block_by(job, PARKED)

    def _tree(self, queue: Queue) -> QuotaTree:
        root = queue.chain[-1]
        tree = self.trees.get(root.index)
        if tree is None:
            tree = self.trees[root.index] = admission.tree_of(self.state, root, self.manner)
        return tree

    def _next(self) -> int:
        """The queue whose turn it is. Under fair sharing one tree is done before the next."""
        if not self.manner.strategies:
            return heappop(self.order)[1]
        root = self.state.queues[min(self.heads)].chain[-1].index
        nodes = self.trees[root].nodes
        heads = {
            one.node.name: Head(
                one.node,
                one.assignment.usage,
                cohort_tree.priority_of(one.job),
                cohort_tree.queued_at(one.job),
                one.job.seq,
            )
            for queue, one in self.heads.items()
            if queue in nodes
        }
        best = winner(nodes[root], heads)
        assert best is not None
        return self.state.jobs[best.order].queue

    # ---- what becomes of it -------------------------------------------------------------------

    def _take(self, one: Nomination) -> None:
        tree = self._tree(self.state.queues[one.job.queue])
        if not one.can_be_had:
            self._stay(tree, one)
            return
        if any(holder.order in tree.victims for holder, _ in one.targets):
            if not self.recomputes:
                return  # its victims leave for another: it has to see what they leave to it
            one = admission.nominate(tree, one.job, pinned=one)
            if not one.can_be_had:
                self._refuse(one)
                return
        usage = one.assignment.usage
        if not tree.fits_after(one.node, usage, one.targets):
            if one.version != tree.version and not self.one_head:
                self.open[one.job.queue] = True  # others came first: look again
        elif one.fits and tree.fits_now(one.node, usage):
            self._admit(tree, one)
        else:
            self._make_room(tree, one)

    def _stay(self, tree: QuotaTree, one: Nomination) -> None:
        """Nobody can make room for it now, so its queue keeps what is left of its own."""
        rules = cohort_tree.rules_of(self.state.queues[one.job.queue].config)
        if one.assignment.mode is not Mode.NO_FIT and rules.reclaim is not Rule.ANY:
            tree.keep(one.node, admission.reserve_of(tree, one))
        self._refuse(one)

    def _refuse(self, one: Nomination) -> None:
        """It waits: in a strict queue so do all behind it, else only its like."""
        if not cohort_tree.is_strict(self.state.queues[one.job.queue].config):
            self.state.indexes.gate.block_by(one.job, PARKED)
            self._go_on(one.job)

    def _go_on(self, job: Job) -> None:
        """The next job of its queue may be looked at, if more than one is."""
        if not self.one_head:
            self.open[job.queue] = True

    def _admit(self, tree: QuotaTree, one: Nomination) -> None:
        """The job gets its quota, and its place where places are given."""
        state, job = self.state, one.job
        statement = Statement(state)
        if self.places and not self._find_place(statement, one):
            self._refuse(one)
            return
        _say_admitted(state, one)
        self._let_in(one)
        tree.give(one, waits=False)
        if statement.operations:
            self.session.started += statement.commit(job, DecisionKind.ALLOCATE, Tier.MAIN)
            placed(state, job)
        else:
            line_up(state, job)
            watch_admission(state, job)
        self._go_on(job)

    def _find_place(self, statement: Statement, one: Nomination) -> bool:
        """Whether the nodes of its flavors can hold the job; if so, in the statement they do."""
        job = one.job
        job.flavors, job.admitted_counts = one.flavors(), one.admitted_counts()
        fits = job.shape.all_empty or place_job(self.state, statement, job) is None
        job.flavors, job.admitted_counts = (), ()
        return fits

    def _let_in(self, one: Nomination) -> None:
        state, job = self.state, one.job
        state.indexes.gate.remove(job)
        move_job(state, job, Phase.INQUEUE)
        job.flavors, job.admitted_counts = one.flavors(), one.admitted_counts()
        held_quota.recount(state, job)

    # ---- making room --------------------------------------------------------------------------

    def _make_room(self, tree: QuotaTree, one: Nomination) -> None:
        """Have the targets leave. The job waits for them: under a claim where places are given,
        else in line, and nobody behind it is looked at.
        """
        state, job = self.state, one.job
        gone = [holder for holder, _ in one.targets]
        if one.counts_on_victims:
            gone += tree.victims.values()
        pods = admission.leaving_pods(state, gone)
        entries: tuple[ClaimEntry, ...] = ()
        if self.places:
            lifts, statement = Statement(state), Statement(state)
            for _, pod in pods:
                lifts.give_back(pod)
            if not self._find_place(statement, one):
                lifts.discard()
                self._refuse(one)
                return
            entries = statement.take_entries()
            lifts.discard()
        longest_ns = max([evictions.leave_ns(state, *entry) for entry in pods], default=0)
        told = self._tell(tree, one)
        tree.give(one, waits=True)
        state.indexes.gate_grew = True
        if entries:
            _say_admitted(state, one)
            self._let_in(one)
            victims = tuple([(pod.job, pod.index, pod.attempt) for _, pod in pods])
            until = state.now_ns + longest_ns + state.policy.settings.claim_ns
            claims_book.make(state, job, entries, victims, until, rule=RULE)
            self._go_on(job)
        elif told:
            step_out(state, job)  # to what looks like it now: it has used up its right
            line_up(state, job)

    def _tell(self, tree: QuotaTree, one: Nomination) -> int:
        """Tell the targets to leave, those aside that leave already. Returns how many it told."""
        state, taker = self.state, one.job
        considered = sum(len(some) for some in tree.candidates(taker).values())
        told = 0
        for holder, why in one.targets:
            job = state.jobs[holder.order]
            if holder.is_leaving:
                continue
            told += 1
            cause = _cause(one, why, told, considered)
            progress.spend(state, job, by=taker)
            if job.pods:
                step_out(state, job)
                for index in sorted(job.pods):
                    self._tell_one(job, job.pods[index], cause)
                line_up(state, job)
            else:
                self._put_back(job, cause)
        if told:
            progress.spend(state, taker, by=taker)
        return told

    def _tell_one(self, job: Job, pod: Pod, cause: Cause) -> None:
        """Tell an attempt to leave, unless it does."""
        if pod.phase is not Phase.RELEASING and not pod.notice_until_ns:
            is_at_once = evictions.tell_to_leave(self.state, job, pod, cause)
            self.session.evicted += int(is_at_once)

    def _put_back(self, job: Job, cause: Cause) -> None:
        """A job that holds quota and has nothing running gives it back."""
        state = self.state
        step_out(state, job)
        quota.disclaim(state, job)
        held_quota.give_back(state, job)
        move_job(state, job, Phase.PENDING)
        line_up(state, job)
        decision = _of_job(state, DecisionKind.REQUEUE, job, cause.reason)
        decision.asked, decision.free, decision.limit = cause.asked, cause.free, cause.limit
        decision.for_job, decision.rule, decision.order = cause.for_job, RULE, cause.order
        say(state, decision)


def _cause(one: Nomination, why: Why, order: int, considered: int) -> Cause:
    """Why a holder has to leave, with numbers of the first thing of which too little is free."""
    key = one.assignment.contested()[0]
    own = one.node.quotas.get(key)
    limit = potential(one.node, key)
    if why is Why.RECLAIM_IN_COHORT:
        limit = own.nominal if own is not None else 0
    return Cause(
        _REASONS[why],
        asked=one.assignment.usage[key],
        free=max(0, available(one.node, key)),
        limit=limit,
        for_job=one.job.request.job,
        queue=one.node.name,
        rule=RULE,
        order=order,
        considered=considered,
    )


def _key(one: Nomination) -> tuple[int, ...]:
    job = one.job
    entry = Entry(
        one.assignment.level, cohort_tree.priority_of(job), cohort_tree.queued_at(job), job.seq
    )
    return entry_key(entry)


def _say_admitted(state: State, one: Nomination) -> None:
    """ADMIT with the flavors and the pods admitted. Numbers are of cards, if quota counts them."""
    decision = _of_job(state, DecisionKind.ADMIT, one.job, Reason.WITHIN_LIMITS)
    keys = [key for key in one.assignment.usage if key[1] == NAMED[CARDS]]
    decision.asked = sum(one.assignment.usage[key] for key in keys)
    decision.free = sum(max(0, available(one.node, key)) for key in keys)
    decision.limit = sum(potential(one.node, key) for key in keys)
    decision.count = sum(one.counts)
    decision.flavors = one.flavors()
    decision.rule = RULE
    say(state, decision)


def _of_job(state: State, kind: DecisionKind, job: Job, reason: Reason) -> Decision:
    decision = of_job(state, kind, job.request.job, reason)
    decision.queue = state.queues[job.queue].config.queue
    return decision

"""Jobs that take from others: which may, in which order, and what follows when they do."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from ganger.schemas.enums import Phase, Tri
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.decide import Cause
from ganger.streams.kernel.entities import Group, Job, Key, Queue, Taker
from ganger.streams.kernel.jobs import progress
from ganger.streams.kernel.jobs.gangs import counts_of, needed
from ganger.streams.kernel.jobs.lifecycle import move_job
from ganger.streams.kernel.jobs.lines import line_up, step_out
from ganger.streams.kernel.jobs.waiting import Waiting
from ganger.streams.kernel.nodes.statement import Place, Statement
from ganger.streams.kernel.preemption import claims_book
from ganger.streams.kernel.preemption.candidates import Hunt, Pool, Solution, is_starving, pool_of
from ganger.streams.kernel.preemption.evictions import leave_ns, tell_to_leave
from ganger.streams.kernel.queues.quota_tree import dues
from ganger.streams.kernel.refusals import Refusal
from ganger.streams.kernel.resources import CARDS
from ganger.streams.kernel.session import Session
from ganger.streams.kernel.state import State
from ganger.streams.kernel.timers import Wake

_NO = Tri.NO
_PENDING = Phase.PENDING
_MAY = Reason.UNKNOWN


class Solve(Protocol):
    """Finds the solution for a job, or none; changes nothing."""

    def __call__(
        self, state: State, taker: Taker, hunt: Hunt, pool: Pool, place: Place
    ) -> Solution | None: ...


@dataclass(slots=True)
class _Alikes:
    """Look-alikes of one queue that have not been tried, in order, listed as far as needed."""

    keys: list[Key]
    group: Group | None  # none: there are no more
    waiting: Waiting  # the lines they stand in
    last: Key = ()  # tried last

    def first(self) -> Key | None:
        """The first of them; none: all were tried."""
        if not self.keys and self.group is not None:
            self.keys = [key for key in self.waiting.members(self.group) if key > self.last]
            self.group = None
        return self.keys[0] if self.keys else None

    def close(self) -> None:
        """Try no more of them."""
        self.keys = []
        self.group = None


class Takers:
    """Waiting jobs that may take from others: queues by their order, jobs by theirs, look-alikes
    of one that found nobody left out. `depth` bounds the jobs per queue that are tried in vain.

    The first of those in a queue that wait for admission too, if it lacks nothing but idle room: it
    brings its own.
    """

    def __init__(self, session: Session, hunt: Hunt) -> None:
        self._state = session.state
        self._hunt = hunt
        indexes = self._state.indexes
        self._lines: dict[int, list[_Alikes]] = {}  # by queue
        for queue, key, group in indexes.inqueue.heads():
            self._lines.setdefault(queue, []).append(_Alikes([key], group, indexes.inqueue))
        firsts: dict[int, Key] = {}
        for queue, key, _ in indexes.gate.heads():
            firsts.setdefault(queue, key)
        for queue, key in firsts.items():
            self._lines.setdefault(queue, []).append(_Alikes([key], None, indexes.gate))
        self._tries = dict.fromkeys(self._lines, hunt.depth)
        self._keys: dict[int, tuple[tuple[int, ...], ...]] = {}  # places of queues
        self._current = _Alikes([], None, indexes.inqueue)
        self._queue = -1  # of the latest taker

    def __iter__(self) -> Iterator[Taker]:
        while self._lines:
            index = min(self._lines, key=self._queue_key)
            taker = self._next(self._state.queues[index])
            if taker is None:
                del self._lines[index]
            else:
                self._queue = index
                yield taker

    def pass_over(self) -> None:
        """The latest taker found nobody: nor will its look-alikes, none of which goes before it.
        One that looked among its own pods says nothing of others.
        """
        if not self._hunt.is_inside:
            self._current.close()
        self._tries[self._queue] -= 1

    def reorder(self) -> None:
        """The latest taker took: queues have other places now."""
        self._keys.clear()

    def _queue_key(self, index: int) -> tuple[tuple[int, ...], ...]:
        """Place of a queue in the order down the tree."""
        key = self._keys.get(index)
        if key is None:
            state = self._state
            levels = reversed(state.queues[index].chain)
            key = tuple([(*_key_of(state, level), level.index) for level in levels])
            self._keys[index] = key
        return key

    def _next(self, queue: Queue) -> Taker | None:
        """The first job of a queue that may take; none: no more."""
        state, hunt = self._state, self._hunt
        if hunt.is_across and any(
            isinstance(vote(state, queue), Refusal) for vote in state.policy.overused
        ):
            return None
        lines = self._lines[queue.index]
        while self._tries[queue.index] > 0:
            lines[:] = [line for line in lines if line.first() is not None]
            if not lines:
                return None
            line = min(lines, key=lambda line: line.keys[0])
            line.last = line.keys.pop(0)
            job = state.jobs[line.last[-1]]
            state.indexes.placing = []  # what was tried before is no more
            if hunt.patience_ns and self._is_early(job):
                line.close()  # nor may its look-alikes pass it
                continue
            if hunt.is_inside and not (job.pods and len(job.roles) > 1):
                line.close()  # nor have its look-alikes whom they could take from
                continue
            taker = Taker(job, needed(job))
            has_no_right = hunt.is_across and any(
                rule(state, queue, taker) for rule in state.policy.preemptive
            )
            if has_no_right and any(taker.counts):
                line.close()
                continue
            if why_not(state, job, hunt) is not _MAY or has_no_right:
                continue
            if job.phase is _PENDING and not lacks_room_alone(state, job):
                continue
            self._current = line
            return taker
        return None

    def _is_early(self, job: Job) -> bool:
        """Whether a job has to wait before it takes. It is looked at again when it has."""
        state = self._state
        until_ns = patient_until_ns(job, self._hunt.patience_ns)
        if until_ns <= state.clock_ns:
            return False
        if state.indexes.patient.get(job.seq) != until_ns:
            state.indexes.patient[job.seq] = until_ns
            state.indexes.timers.at(until_ns, Wake.PATIENCE, job.seq)
        return True


def patient_until_ns(job: Job, patience_ns: int) -> int:
    """When a job has waited for so long since it could last have started."""
    since_ns = max(job.submitted_ns, job.waiting_since_ns, job.not_before_ns)
    return since_ns + patience_ns


def may_any(state: State, hunt: Hunt) -> bool:
    """Whether any that wait may take: whoever preempts needs somebody of lower priority, who
    reclaims another queue. A quick no for cells that know no such thing.
    """
    priorities = state.indexes.priorities
    if hunt.is_across or not hunt.by_priority:
        return not hunt.is_across or len(priorities) > 1
    return any(found.differ for found in priorities.values())


def _key_of(state: State, queue: Queue) -> tuple[int, ...]:
    key: tuple[int, ...] = ()
    for hook in state.policy.queue_order:
        key += hook(state, queue, False)
    return key


def lacks_room_alone(state: State, job: Job) -> bool:
    """Whether a job is kept from being admitted, and by rules alone that want idle room for it."""
    votes = [vote(state, job) for vote in state.policy.job_enqueue]
    refusals = [vote for vote in votes if isinstance(vote, Refusal)]
    return bool(refusals) and all(refusal.lacks_room for refusal in refusals)


def why_not(state: State, job: Job, hunt: Hunt) -> Reason:
    """Why a waiting job may not take from others, its queue's due aside; `UNKNOWN`: it may."""
    request = job.request
    named = state.policy.classes.get(request.priority_class)
    if request.preempts is _NO or (named is not None and not named.preempts):
        return Reason.NEVER_PREEMPTS
    if hunt.by_priority and not hunt.is_across:
        if job.priority <= state.indexes.priorities[job.queue].least():
            return Reason.NOT_LOWER_PRIORITY  # nobody's is below its own
    if not is_starving(state, job):
        return Reason.NOT_STARVING
    counts = needed(job)
    if any(n and role.preempts is _NO for n, role in zip(counts, job.shape.roles, strict=True)):
        return Reason.NEVER_PREEMPTS
    counted = counts_of(job, state.claims.get(job.seq))
    if not all(test(state, job, counted) for test in state.policy.job_valid):
        return Reason.GANG_BELOW_MINIMUM
    return _MAY


def run_hunt(session: Session, hunt: Hunt, solve: Solve, place: Place) -> None:
    """Let waiting jobs take until none is left that finds victims. There must be some."""
    state = session.state
    if not may_any(state, hunt):
        return
    pool = pool_of(state, hunt)
    if hunt.is_across and hunt.by_priority and not (pool.leaving or pool.spares_any()):
        return
    tried = False
    gone = Statement(state)  # attempts that leave, for others or for whatever reason
    takers = Takers(session, hunt)
    for taker in takers:
        if not tried:
            for pod in pool.leaving:
                gone.give_back(pod)
        tried = True
        solution = solve(state, taker, hunt, pool, place)
        if solution is None:
            takers.pass_over()
            continue
        take(session, hunt, taker.job, solution)
        takers.reorder()
        for victim in solution.victims:
            gone.give_back(victim.pod)
            pool.leaving.append(victim.pod)
        for seq in dict.fromkeys([victim.job.seq for victim in solution.victims]):
            pool.renew(state.jobs[seq])
    gone.return_all()


def take(session: Session, hunt: Hunt, job: Job, solution: Solution) -> None:
    """Tell the victims to leave and claim their places. Spends the eviction rights of all."""
    state = session.state
    victims = solution.victims
    jobs: dict[int, Job] = {job.seq: job}
    for victim in victims:
        jobs[victim.job.seq] = victim.job
    for one in jobs.values():
        step_out(state, one)
    if job.phase is _PENDING:
        move_job(state, job, Phase.INQUEUE)
        session.admitted.append(job)
    until_ns = state.now_ns + _evict(state, hunt, job, solution)
    for one in jobs.values() if victims else ():
        progress.spend(state, one, by=job)
    keys = tuple([(v.pod.job, v.pod.index, v.pod.attempt) for v in victims])
    claims_book.make(state, job, solution.entries, keys, until_ns, rule=hunt.rule)
    for one in jobs.values():
        state.touch(one)
        line_up(state, one)
    session.evicted += len(victims)
    session.has_taken = True


def _due(state: State, job: Job) -> int:
    """Milli-cards that the queue of a job is due."""
    return dues(state).amounts.get(job.queue, {}).get(CARDS, 0)


def _evict(state: State, hunt: Hunt, job: Job, solution: Solution) -> int:
    """Say the evictions. Returns how long in ns the claim must be able to wait."""
    settings = state.policy.settings
    shapes = job.shape.shapes
    asked = sum([shapes[entry.role].cards_milli for entry in solution.entries])
    free = max(0, state.total[CARDS] - state.used[CARDS])
    longest_ns = 0
    for order, victim in enumerate(solution.victims, 1):
        cause = Cause(
            hunt.reason,
            asked,
            free,
            _due(state, victim.job) if hunt.is_across else 0,
            job.request.job,
            state.queues[job.queue].config.queue,
            hunt.rule,
            order,
            solution.considered,
        )
        longest_ns = max(longest_ns, leave_ns(state, victim.job, victim.pod))
        tell_to_leave(state, victim.job, victim.pod, cause)
    return max(settings.claim_ns, longest_ns + settings.start_timeout_ns)

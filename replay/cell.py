"""A cell in virtual time: intake, engine, executors and nodes, wired together by one clock.

`advance` is the whole rule of time: all that happens at the next moment at which anything does.

1. Submissions of the moment, in the trace's order; a Tick after each.
2. Ends of the moment, in order of starts, the pods of one job together; a Tick after each.
3. Mishaps of the moment; a Tick after them.
4. A Tick if the kernel asked to be woken and none of these was followed by one.

A start is reported at once and followed by no Tick.
"""

from collections.abc import Iterable, Sequence

from ganger.replay.assumptions import Assumptions, is_drawn
from ganger.replay.attempts import Watch
from ganger.replay.executor import Executor
from ganger.replay.faults import Disturbance, Faults, PodFailures
from ganger.replay.gauges import Gauge, Integral
from ganger.replay.machines import Machines, Mishap, timeline
from ganger.replay.traces.fields import NS_PER_S
from ganger.replay.traces.model import TraceJob
from ganger.replay.traces.source import InputError
from ganger.replay.workload import Submissions
from ganger.schemas.records import (
    NodeCordoned,
    NodeDrained,
    NodeUncordoned,
    PodCheckpointed,
    PodResumed,
    PodStarted,
    Record,
    Tick,
)
from ganger.streams.engine import Engine
from ganger.streams.intake import Intake
from ganger.streams.kernel.limits import TIME_MAX
from ganger.streams.kernel.resources import CARDS
from ganger.streams.kernel.step import next_wake

OPERATOR = "simulation"

_NEVER_NS = 1 << 63
"""Later than any time of a record."""

_QUIET = (PodStarted, PodResumed, PodCheckpointed)
"""Facts that make no room for others."""

_WAKES_MAX = 1000
"""Ticks in a row at one moment; a kernel that asks for more asks for ever."""

_IDLE_WAKES_MAX = 1000
"""Moments in a row at which nothing is under way and the kernel alone asks to be woken, as for the
end of each window of a controller. Whoever still waits after them waits for ever.
"""


class VirtualCell:
    """One simulated cell with its workload.

    Attributes:
        now_ns: virtual time.
        last_ns: time of the last submission or end.
        submitted_count: jobs submitted so far.
        held: milli-cards in use over time.
        idle: milli-cards that stand idle while a job waits or is suspended.
    """

    def __init__(
        self,
        engine: Engine,
        intake: Intake,
        machines: Machines,
        jobs: Sequence[TraceJob],
        *,
        seed: int,
        faults: Faults,
        assumptions: Assumptions,
        watch: Watch,
        watches_all: bool = False,
    ) -> None:
        """A cell in which nothing has happened yet.

        Args:
            engine: of an empty cell.
            intake: one that never pauses.
            machines: the nodes.
            jobs: at least one, in order of submission.
            seed: from which faults draw.
            faults: what goes wrong.
            assumptions: settled, of the jobs.
            watch: told of each stretch that a pod ran in a gap.
            watches_all: it is told of all pods.

        Raises:
            InputError: a fault names a node or card that is not there.
        """
        self.now_ns = self.last_ns = jobs[0].submit_ns
        self.submitted_count = 0
        self.held = Gauge(self.now_ns)
        self.idle = Integral(self.now_ns)
        self._engine = engine
        self._state = engine.state
        self._intake = intake
        self._machines = machines
        self._jobs = jobs
        self._submit_ns = self.now_ns  # of the next job
        self._wake_ns: int | None = None  # as the kernel said last
        self._idle_wakes = 0  # see `_IDLE_WAKES_MAX`
        self._submissions = Submissions(assumptions, seed)
        failing = PodFailures(seed, faults.pod_failure_milli) if faults.pod_failure_milli else None
        self._executor = Executor(
            {job.id: job.run_ns for job in jobs},
            grace_ns=faults.release_s * NS_PER_S,
            failing=failing,
            saves=_savers(jobs, seed, assumptions).__contains__,
            watch=watch,
            watches_all=watches_all,
        )
        self._disturbance = Disturbance(faults, seed) if faults.disturbs else None
        self._mishaps: list[Mishap] = timeline(faults, machines, self.now_ns)
        self._unheard: dict[str, bool] = {}  # nodes that are away and not yet found lost
        self._is_troubled = self._disturbance is not None or bool(self._mishaps)
        # bound once: asking for every input whether it can be held up would cost more
        self._deliver = self._accept if self._disturbance is None else self._send

    def take(self, record: Record) -> None:
        """One ledger record through the kernel, its decisions to those who carry them out."""
        decisions = self._engine.ahead(record)
        if decisions:
            starts = self._executor.observe(decisions, self.now_ns)
            if starts:
                self._deliver(starts)

    def tick(self) -> None:
        """Let the time be now, and a cycle run."""
        now_ns, state = self.now_ns, self._state
        self.take(Tick(now_ns, "", None, state.epoch, True))
        used = state.used[CARDS]
        if self._idle_wakes and used == self.held.value:
            return  # if it never changes again the run ended before
        self.held.set(now_ns, used)
        idle = 0
        if state.waiting_count or self._executor.suspended_count:
            idle = max(0, state.total[CARDS] - used)
        if idle or self.idle.value:
            self.idle.set(now_ns, idle)

    def close(self) -> None:
        """The run is over: what still runs has run until its last event."""
        self.idle.set(self.last_ns, 0)
        self._executor.stop_watching(max(self.last_ns, self.now_ns))

    def beat(self, nodes: Iterable[str] | None = None) -> None:
        """Heartbeats of these nodes, by default of all that are not away, in one frame."""
        if nodes is None:
            nodes = [node for node in self._machines.reports if not self._executor.is_away(node)]
        handled = {node: self._executor.handled_seq(node) for node in nodes}
        self._accept(
            [self._machines.heartbeat(self.now_ns, handled, self._executor.alive(), handled)]
        )

    def begin(self) -> None:
        """The end of the set-up: all nodes are heard, and a cycle runs."""
        self.beat()
        self.tick()
        self._wake()

    def advance(self) -> bool:
        """Go to the next moment and let all of it happen; False when nothing is left to happen.

        Raises:
            InputError: the next moment is later than the kernel's clock can say.
        """
        at_ns = self._next_ns()
        if at_ns is None:
            return False
        assert at_ns >= self.now_ns, (at_ns, self.now_ns)
        if at_ns > TIME_MAX:
            raise InputError(
                "the run",
                f"goes on beyond {TIME_MAX} ns, the year 2116",
                "give jobs, or faults, that begin earlier or end sooner",
            )
        self.now_ns = at_ns
        if self._submit_ns <= at_ns:
            self._submit()
        self._end()
        if self._is_troubled:
            self._arrive()
            self._befall()
        self._wake()
        return True

    # ---- when ------------------------------------------------------------------------------------

    def _next_ns(self) -> int | None:
        """The next moment at which anything happens; None: never, or nothing that matters."""
        next_ns = self._executor.due()
        submit_ns = self._submit_ns
        if submit_ns != _NEVER_NS and (next_ns is None or submit_ns < next_ns):
            next_ns = submit_ns
        if self._is_troubled:
            next_ns = self._next_trouble_ns(next_ns)
        if next_ns is not None:
            self._idle_wakes = 0
        elif not self._state.waiting_count or self._idle_wakes >= _IDLE_WAKES_MAX:
            return None
        else:
            self._idle_wakes += 1
        wake_ns = self._wake_ns
        if wake_ns is not None and (next_ns is None or wake_ns < next_ns):
            return wake_ns
        return next_ns

    def _next_trouble_ns(self, next_ns: int | None) -> int | None:
        """The same with all that goes wrong, which matters only while a job waits or runs."""
        if self._disturbance is not None:
            next_ns = _earlier(next_ns, self._disturbance.due())
        state = self._state
        if next_ns is None and not state.waiting_count and not any(state.used):
            return None
        if self._mishaps:
            next_ns = _earlier(next_ns, self._mishaps[-1].at_ns)
        if self._unheard:
            next_ns = _earlier(next_ns, self._intake.next_loss_ns())
        return next_ns

    # ---- what ------------------------------------------------------------------------------------

    def _submit(self) -> None:
        jobs, now_ns = self._jobs, self.now_ns
        while self._submit_ns <= now_ns:
            job = jobs[self.submitted_count]
            self.submitted_count = after = self.submitted_count + 1
            self._submit_ns = jobs[after].submit_ns if after < len(jobs) else _NEVER_NS
            self.last_ns = now_ns
            self._deliver([self._submissions.request(job)])
            self.tick()

    def _end(self) -> None:
        """Ends that are due, each followed by a Tick."""
        take, now_ns = self._executor.take, self.now_ns
        while (facts := take(now_ns)) is not None:
            self.last_ns = now_ns
            if facts and self._deliver(facts):
                self.tick()

    def _arrive(self) -> None:
        """Inputs that were under way; a Tick after each that could make room for others."""
        if self._disturbance is None:
            return
        for record in self._disturbance.take(self.now_ns):
            self._accept([record])
            if not isinstance(record, _QUIET):
                self.tick()

    def _accept(self, inputs: list[Record]) -> list[Record]:
        """Inputs that arrive now, one after the other; returns them."""
        accept, now_ns = self._intake.accept, self.now_ns
        for record in inputs:
            for accepted in accept(record, now_ns):
                self.take(accepted)
        return inputs

    def _send(self, inputs: list[Record]) -> list[Record]:
        """Inputs that may arrive late, twice or in another order; returns those that arrive now."""
        assert self._disturbance is not None
        return self._accept(self._disturbance.send(inputs, self.now_ns))

    def _wake(self) -> None:
        """Ticks for which the kernel asks now; when it wants the next one."""
        wake_ns = next_wake(self._state)
        if wake_ns is not None and wake_ns <= self.now_ns:
            wake_ns = self._wake_again()
        self._wake_ns = wake_ns

    def _wake_again(self) -> int | None:
        """Ticks until the kernel asks for none now; when it wants the next one."""
        for _ in range(_WAKES_MAX):
            self.tick()
            wake_ns = next_wake(self._state)
            if wake_ns is None or wake_ns > self.now_ns:
                return wake_ns
        raise RuntimeError(f"the kernel asks again and again to be woken at {self.now_ns} ns")

    def _befall(self) -> None:
        """Mishaps that are due, and nodes that are found silent; one Tick after all of them."""
        has_happened = False
        while self._mishaps and self._mishaps[-1].at_ns <= self.now_ns:
            mishap = self._mishaps.pop()
            _ACTS[mishap.kind](self, mishap)
            has_happened = True
        if self._unheard:
            loss_ns = self._intake.next_loss_ns()
            if loss_ns is not None and loss_ns <= self.now_ns:
                self.beat()
                for record in self._intake.silence(self.now_ns):
                    self.take(record)
                    self._unheard.pop(getattr(record, "node", ""), None)
                has_happened = True
        if has_happened:
            self.tick()

    def _leave(self, mishap: Mishap) -> None:
        self.beat()
        self._executor.leave(mishap.node, self.now_ns, is_powered_off=mishap.is_hard)
        self._unheard[mishap.node] = True

    def _come_back(self, mishap: Mishap) -> None:
        node = mishap.node
        self._unheard.pop(node, None)
        if mishap.is_hard:
            self._machines.reboot(node)
        alive = self._executor.alive()
        handled = {node: self._executor.handled_seq(node)}
        starts = self._executor.come_back(node, self.now_ns, is_rebooted=mishap.is_hard)
        self._accept([self._machines.heartbeat(self.now_ns, (node,), alive, handled)])
        self._deliver(starts)

    def _fail_card(self, mishap: Mishap) -> None:
        self._set_card(mishap, is_healthy=False)

    def _repair_card(self, mishap: Mishap) -> None:
        self._set_card(mishap, is_healthy=True)

    def _set_card(self, mishap: Mishap, *, is_healthy: bool) -> None:
        self._machines.set_card(mishap.node, mishap.card, is_healthy=is_healthy)
        if not self._executor.is_away(mishap.node):
            self.beat((mishap.node,))

    def _cordon(self, mishap: Mishap) -> None:
        event_id = f"{mishap.kind}/{mishap.order}"
        if mishap.is_hard:
            self._accept([NodeDrained(self.now_ns, event_id, None, mishap.node, OPERATOR, 0)])
        else:
            self._accept([NodeCordoned(self.now_ns, event_id, None, mishap.node, OPERATOR)])

    def _uncordon(self, mishap: Mishap) -> None:
        event_id = f"{mishap.kind}/{mishap.order}"
        self._accept([NodeUncordoned(self.now_ns, event_id, None, mishap.node, OPERATOR)])


def _savers(jobs: Sequence[TraceJob], seed: int, assumptions: Assumptions) -> frozenset[str]:
    """Ids of the jobs that can checkpoint."""
    share = assumptions.suspendable_millionths
    return frozenset([job.id for job in jobs if is_drawn(seed, job.id, share)])


def _earlier(one_ns: int | None, other_ns: int | None) -> int | None:
    """The earlier of two moments; none is later than any."""
    if one_ns is None:
        return other_ns
    return one_ns if other_ns is None or one_ns <= other_ns else other_ns


_ACTS = {
    "leave": VirtualCell._leave,
    "come_back": VirtualCell._come_back,
    "fail_card": VirtualCell._fail_card,
    "repair_card": VirtualCell._repair_card,
    "cordon": VirtualCell._cordon,
    "uncordon": VirtualCell._uncordon,
}

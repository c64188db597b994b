"""A virtual cluster with faults, from one seed: hosts run attempts, report them, fail and return.

Everything that happens is drawn from the seed: the same seed and number of steps give the same
records on any machine. Hosts carry out decisions and report facts, which arrive late, twice and in
another order; hosts fall silent, come back, reboot; cards fail; operators cordon, drain, hold,
scale, cancel and change queues and policy. After each record the auditor watches, and the kernel's
own invariants are checked.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, FailureKind, QueueState
from ganger.streams.kernel import invariants
from support import builders as b
from support.auditor import Auditor
from support.workshop import TEAM_TAINT, draw_job, draw_queues, draw_scale

CHAIN = sha256(b"chaos").digest()
"""What the decision chain of a chaos cell starts from."""

Ref = tuple[str, int, int]
Make = Callable[[], r.Record]


@dataclass(slots=True, eq=False)
class Run:
    """An attempt on a host."""

    starts_at: int  # step; -1: hangs and never starts
    ends_at: int
    fails: FailureKind  # UNKNOWN: it ends well
    stops_at: int = -1  # step at which an eviction is carried out
    is_running: bool = False


@dataclass(slots=True, eq=False)
class Host:
    """A machine with its agent."""

    name: str
    cards: int
    facts: dict[str, object]
    boot: int = 1
    is_up: bool = True
    is_known_lost: bool = False
    failed: list[int] = field(default_factory=list)
    runs: dict[Ref, Run] = field(default_factory=dict)
    unheard: list[Decision] = field(default_factory=list)  # decisions that it has not read yet
    unsent: list[Make] = field(default_factory=list)  # facts that it could not report yet
    handled: int = -1
    is_dirty: bool = False

    def report(self) -> r.NodeReport:
        return b.report(
            self.name,
            self.cards,
            failed=self.failed,
            boot=f"boot-{self.boot}",
            attempts=sorted(self.runs),
            handled=self.handled,
            **self.facts,  # type: ignore[arg-type]
        )


class Chaos:
    """One seeded cell under faults."""

    def __init__(self, seed: int, *, check_every: int = 1) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.check_every = check_every
        self.cell = b.Cell("chaos", checks=False)
        self.auditor = Auditor("chaos", CHAIN)
        self.step_number = 0
        self.jobs: list[str] = []
        self.events = 0
        self.is_calm = False
        self.inbox: list[tuple[int, Make]] = []  # (step at which it arrives, record)
        self.hosts = {host.name: host for host in self._draw_hosts()}
        self.queues = draw_queues(self.random)
        self._open()

    # ---- running --------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        """So many steps with faults."""
        for _ in range(steps):
            self._step()

    def calm(self, limit: int = 400) -> None:
        """Faults stop: every job must come to its end within `limit` steps."""
        self.is_calm = True
        for host in self.hosts.values():
            host.failed = []
            host.facts.update(cpu=64_000, slots=110)
            host.is_dirty = True
            if not host.is_up:
                self._return(host)
            self.put(r.NodeUncordoned(self._now, "", None, host.name, "ops"))
        for name in sorted(self.auditor.facts.reservations):
            self.put(r.ReservationRequested(self._now, "", None, name, "ops", (), 0, 0, 0, True))
        for config in self.queues:
            self.put(self._queue(config, capability=(), state=QueueState.OPEN))
        for job in self._unfinished():
            self.put(self._update(job, held=False))
        for _ in range(limit):
            if not self._unfinished():
                return
            self._step()
        # a job that avoids too many nodes waits for an operator
        for job in self._unfinished():
            if self.auditor.facts.jobs[job].avoid:
                self.put(r.JobCancelRequested(self._now, "", None, job, "ops"))
        for _ in range(20):
            self._step()
        left = {job: self.auditor.facts.jobs[job] for job in self._unfinished()}
        assert not left, f"jobs that never end after the faults stopped: {left}"

    def put(self, record: r.Record) -> list[Decision]:
        """Step one record; hosts hear of what it led to."""
        decisions = self.cell.put(record)
        self.auditor.watch(record, decisions)
        if len(self.cell.records) % self.check_every == 0:
            invariants.check(self.cell.state)
        for decision in decisions:
            if decision.node:
                self.hosts[decision.node].unheard.append(decision)
        return decisions

    @property
    def _now(self) -> int:
        return self.cell.now_ns

    def _unfinished(self) -> list[str]:
        jobs = self.auditor.facts.jobs
        return [job for job in self.jobs if job in jobs and not jobs[job].outcome]

    def _step(self) -> None:
        self.step_number += 1
        if not self.is_calm:
            for _ in range(self.random.choice((0, 1, 1, 2, 3))):
                self.random.choice(_ACTS)(self)
        for host in self.hosts.values():
            self._work(host)
        due = [make for at, make in self.inbox if at <= self.step_number]
        self.inbox = [entry for entry in self.inbox if entry[0] > self.step_number]
        self.random.shuffle(due)
        for make in due:
            self.put(make())
        self.cell.now_ns += self.random.choice((0, 1, 5, 20)) * b.SECOND
        cycle = self.is_calm or self.random.random() < 0.9
        self.put(r.Tick(self._now, "", None, self.cell.state.epoch, cycle))

    # ---- the beginning --------------------------------------------------------------------------

    def _draw_hosts(self) -> list[Host]:
        hosts = []
        for i in range(self.random.randint(2, 5)):
            facts: dict[str, object] = {
                "model": self.random.choice("AAB"),
                "island": self.random.choice((0, 2, 4)),
                "cpu": self.random.choice((8_000, 32_000)),
                "slots": self.random.choice((4, 6, 110)),
                "labels": (("zone", self.random.choice("xy")),),
                "resources": (("nic", 2),) if self.random.random() < 0.5 else (),
            }
            if self.random.random() < 0.2:
                facts["taints"] = (TEAM_TAINT,)
            hosts.append(Host(f"n{i}", self.random.choice((4, 8)), facts))
        hosts.append(Host("roomy", 8, {"cpu": 64_000, "resources": (("nic", 8),)}))
        return hosts

    def _open(self) -> None:
        self.put(r.OwnerClaimed(self._now, "", None, "o"))
        self.put(r.IntakeClaimed(self._now, "", None, "i"))
        self.put(self._draw_policy())
        for config in self.queues:
            self.put(config)
        for host in self.hosts.values():
            self.put(r.NodeChanged(self._now, "", None, host.report()))

    def _draw_policy(self) -> r.PolicyConfigured:
        rules = [*b.DEFAULT_RULES[:-1], self.random.choice(("pack", "pack", "spread"))]
        timeout = self.random.choice((60, 60, 120, 600)) * b.SECOND
        ttl = self.random.choice((30, 100, 1000)) * b.SECOND
        settings = {"start_timeout_ns": str(timeout), "ttl_ns": str(ttl)}
        return b.policy(*rules, settings=settings, time_ns=self._now)

    # ---- hosts ----------------------------------------------------------------------------------

    def _work(self, host: Host) -> None:
        """One step of a host: hear, run, report."""
        if host.is_up:
            for decision in host.unheard:
                self._hear(host, decision)
            host.unheard.clear()
        for ref, run in sorted(host.runs.items()):
            self._advance(host, ref, run)
        if not host.is_up:
            return
        for make in host.unsent:
            self._deliver(make)
        host.unsent.clear()
        if host.is_dirty and (self.is_calm or self.random.random() < 0.5):
            host.is_dirty = False
            report = host.report()
            self.inbox.append((0, lambda: r.NodeChanged(self._now, "", None, report)))

    def _hear(self, host: Host, decision: Decision) -> None:
        ref = (decision.job, decision.pod, decision.attempt)
        host.handled = decision.cause_seq
        host.is_dirty = True
        if decision.kind is DecisionKind.EVICT:
            if ref in host.runs and host.runs[ref].stops_at < 0:
                host.runs[ref].stops_at = self.step_number + self.random.choice((0, 1, 3))
            return
        at = self.step_number + self.random.choice((0, 1, 2))
        fate = self.random.random()
        failure = FailureKind.UNKNOWN
        if not self.is_calm and fate < 0.2:
            failure = self.random.choice((FailureKind.ERROR, FailureKind.START_FAILED))
        starts = at
        if failure is FailureKind.START_FAILED or (not self.is_calm and fate > 0.97):
            starts = -1
        hangs = starts < 0 and failure is FailureKind.UNKNOWN
        ends = 1 << 30 if hangs else at + self.random.choice((0, 1, 3, 10))
        host.runs[ref] = Run(starts, ends, failure)

    def _advance(self, host: Host, ref: Ref, run: Run) -> None:
        job, pod, attempt = ref
        now = self.step_number
        if not run.is_running and 0 <= run.starts_at <= now:
            run.is_running = True
            host.unsent.append(
                lambda: r.PodStarted(self._now, "", None, job, pod, attempt, host.name, self._now)
            )
        if run.ends_at <= now:
            del host.runs[ref]
            host.is_dirty = True
            host.unsent.append(lambda: self._ended(ref, run.fails))
        elif 0 <= run.stops_at <= now:
            del host.runs[ref]
            host.is_dirty = True
            host.unsent.append(
                lambda: r.PodReleased(self._now, "", None, job, pod, attempt, self._now)
            )

    def _ended(self, ref: Ref, failure: FailureKind) -> r.Record:
        if failure is FailureKind.UNKNOWN:
            return r.PodSucceeded(self._now, "", None, *ref, self._now)
        return r.PodFailed(self._now, "", None, *ref, failure, 1, "", self._now)

    def _deliver(self, make: Make) -> None:
        """Send a fact: late at times, twice at times."""
        delay = 0 if self.is_calm else self.random.choice((0, 0, 0, 1, 2, 6))
        self.inbox.append((self.step_number + delay, make))
        if not self.is_calm and self.random.random() < 0.15:
            self.inbox.append((self.step_number + delay + self.random.choice((0, 1, 9)), make))

    # ---- acts -----------------------------------------------------------------------------------

    def _host(self) -> Host:
        return self.hosts[self.random.choice(sorted(self.hosts))]

    def _job(self) -> str | None:
        left = self._unfinished()
        return self.random.choice(left) if left else None

    def _event_id(self) -> str:
        self.events += 1
        return f"event-{self.events}"

    def _twice(self, record: r.Record) -> None:
        """A request, which may come again."""
        self.put(record)
        if self.random.random() < 0.1:
            delay = self.random.choice((1, 5))
            self.inbox.append((self.step_number + delay, lambda: record))

    def act_submit(self) -> None:
        key = f"job-{self.random.randint(0, 60)}" if self.random.random() < 0.3 else None
        key = key or f"job-{len(self.jobs)}"
        queue = self.random.choice([q.queue for q in self.queues if q.queue != "top"])
        record = draw_job(self.random, key, queue, self._unfinished(), self._event_id(), self._now)
        self._twice(record)
        if key not in self.jobs:
            self.jobs.append(key)

    def act_cancel(self) -> None:
        job = self._job()
        if job and self.random.random() < 0.5:
            self._twice(r.JobCancelRequested(self._now, self._event_id(), None, job, "u"))

    def act_update(self) -> None:
        job = self._job()
        if job is None:
            return
        kind = self.random.choice(("hold", "release", "priority", "scale"))
        if kind == "scale":
            scale = draw_scale(self.random, self.auditor.facts.jobs[job].roles)
            self._twice(self._update(job, scale=scale))
        elif kind == "priority":
            self._twice(self._update(job, priority=self.random.randint(-1, 3)))
        else:
            self._twice(self._update(job, held=kind == "hold"))

    def _update(
        self,
        job: str,
        *,
        priority: int | None = None,
        held: bool | None = None,
        scale: tuple[r.RoleScale, ...] = (),
    ) -> r.JobUpdateRequested:
        event = self._event_id()
        return r.JobUpdateRequested(self._now, event, None, job, "u", priority, held, scale)

    def act_silence(self) -> None:
        host = self._host()
        if host.is_up and self.random.random() < 0.6:
            host.is_up = False
            at = self.step_number + self.random.choice((1, 3))
            self.inbox.append((at, lambda: self._lost(host)))

    def _lost(self, host: Host) -> r.Record:
        claim = self.cell.state.claim
        if host.is_up or self.random.random() < 0.1:
            claim -= 1  # of an intake that is no more
        else:
            host.is_known_lost = True
        return r.NodeLost(self._now, "", None, host.name, claim, 30 * b.SECOND)

    def act_return(self) -> None:
        for host in self.hosts.values():
            if not host.is_up and self.random.random() < 0.5:
                self._return(host)

    def _return(self, host: Host) -> None:
        host.is_up = True
        if self.random.random() < 0.5:
            host.boot += 1
            host.runs.clear()
            host.unsent.clear()
            for decision in host.unheard:
                host.handled = decision.cause_seq
            host.unheard.clear()
        kind = r.NodeReturned if host.is_known_lost else r.NodeChanged
        host.is_known_lost = False
        self.put(kind(self._now, "", None, host.report()))

    def act_card(self) -> None:
        host = self._host()
        if host.failed and self.random.random() < 0.6:
            host.failed = []
        else:
            host.failed = [self.random.randrange(host.cards)]
        host.is_dirty = True

    def act_shrink(self) -> None:
        """A host reports fewer resources, or all again."""
        host = self._host()
        host.facts["slots"] = self.random.choice((0, 2, 6, 110))
        host.facts["cpu"] = self.random.choice((4_000, 32_000, 64_000))
        host.is_dirty = True

    def act_node(self) -> None:
        host = self._host()
        kind = self.random.choice(("cordon", "drain", "open", "open"))
        if kind == "cordon":
            self.put(r.NodeCordoned(self._now, self._event_id(), None, host.name, "ops"))
        elif kind == "drain":
            self.put(r.NodeDrained(self._now, self._event_id(), None, host.name, "ops", 0))
        else:
            self.put(r.NodeUncordoned(self._now, self._event_id(), None, host.name, "ops"))

    def act_reserve(self) -> None:
        since = self._now + self.random.choice((-10, 0, 30)) * b.SECOND
        until = since + self.random.choice((20, 100)) * b.SECOND
        name = f"keep-{self.random.randint(0, 2)}"
        nodes = (self._host().name,)
        gone = self.random.random() < 0.3
        event = self._event_id()
        self.put(
            r.ReservationRequested(
                self._now, event, None, name, "ops", nodes, 0, since, until, gone
            )
        )

    def act_queue(self) -> None:
        config = self.random.choice(self.queues)
        limits = self.random.choice(
            ((), (("cards_milli", 4000),), (("cpu_milli", 6000), ("pods", 3)))
        )
        capability = tuple(r.Amount(name, count) for name, count in limits)
        state = self.random.choice((QueueState.OPEN, QueueState.OPEN, QueueState.CLOSED))
        if config.queue != "top" and self.random.random() < 0.2:
            state = QueueState.DRAINING
        self.put(self._queue(config, capability=capability, state=state))

    def _queue(
        self, config: r.QueueConfigured, capability: tuple[r.Amount, ...], state: QueueState
    ) -> r.QueueConfigured:
        weight = self.random.randint(1, 4)
        return r.QueueConfigured(
            self._now,
            self._event_id(),
            None,
            config.queue,
            config.parent,
            weight,
            config.priority,
            config.guarantee,
            config.deserved,
            capability,
            (),
            (),
            True,
            state,
            False,
        )

    def act_policy(self) -> None:
        if self.random.random() < 0.4:
            self.put(self._draw_policy())

    def act_claim(self) -> None:
        """Another owner or intake; what the former says counts no more."""
        if self.random.random() < 0.5:
            former = self.cell.state.epoch
            self.put(r.OwnerClaimed(self._now, "", None, "o2"))
            self.put(r.Tick(self._now + b.SECOND, "", None, former, True))
        else:
            self.put(r.IntakeClaimed(self._now, "", None, "i2"))
            for host in self.hosts.values():
                host.is_dirty = True

    def act_stray(self) -> None:
        """A fact of an attempt that never was, and a Tick of the past."""
        key = self.random.choice(self.jobs) if self.jobs else "nobody"
        self.put(r.PodSucceeded(self._now, "", None, key, self.random.randint(0, 9), 77, self._now))
        self.put(r.Tick(self._now - 5 * b.SECOND, "", None, self.cell.state.epoch, True))


_ACTS: tuple[Callable[[Chaos], None], ...] = (
    *[Chaos.act_submit] * 6,
    Chaos.act_cancel,
    *[Chaos.act_update] * 2,
    *[Chaos.act_silence] * 2,
    *[Chaos.act_return] * 2,
    Chaos.act_card,
    Chaos.act_shrink,
    Chaos.act_node,
    Chaos.act_reserve,
    Chaos.act_queue,
    Chaos.act_policy,
    Chaos.act_claim,
    Chaos.act_stray,
)


class ChaosFailed(AssertionError):
    """A seed under which a promise was broken, with the command that repeats it."""


def run_seed(seed: int, steps: int, *, check_every: int = 1) -> Chaos:
    """One whole simulation, faults and calm.

    Raises:
        ChaosFailed: names the seed, the record and how to repeat it.
    """
    chaos = Chaos(seed, check_every=check_every)
    try:
        chaos.run(steps)
        chaos.calm()
    except (AssertionError, LookupError, ArithmeticError) as error:
        seq = len(chaos.cell.records) - 1
        raise ChaosFailed(
            f"seed {seed}, step {chaos.step_number}, record {seq}: "
            f"{type(error).__name__}: {error}\n"
            f"repeat it: python tests/simulation/chaos.py --seed {seed} --steps {steps}"
        ) from error
    return chaos

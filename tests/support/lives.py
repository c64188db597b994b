"""Random lives of jobs: what they say is to follow from events, restarts, suspension, evictions for
others and their claims, limits.
"""

import random
from collections.abc import Callable

from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.enums import FailureKind, JobAction, LimitScope, Phase, PodEvent
from ganger.schemas.reasons import Reason
from ganger.streams.kernel import invariants, snapshot
from ganger.streams.kernel.decide import Cause
from ganger.streams.kernel.digest import recompute, seal
from ganger.streams.kernel.entities import Job, Pod
from ganger.streams.kernel.explain import explain
from ganger.streams.kernel.jobs import suspension
from ganger.streams.kernel.jobs.attempts import detach, settle
from ganger.streams.kernel.jobs.lines import step_out
from ganger.streams.kernel.preemption.evictions import evict
from ganger.streams.kernel.step import next_wake
from support.builders import SECOND, Cell, node, policy, queue, report, role, submission

RULES = ("priority", "gang", "capability", "fair_share", "pack")
ACTIONS = ("enqueue", "allocate", "backfill", "reclaim", "preempt", "stale")
JOBS = ("j0", "j1", "j2", "j3", "j4")
LIMITS: tuple[tuple[r.Limit, ...], ...] = (
    (),
    (r.Limit(LimitScope.USER, "", "waiting_jobs", 2),),
    (r.Limit(LimitScope.USER, "", "submissions_per_hour", 3),),
)
SHAPES: tuple[dict[str, int], ...] = (
    {"cards": 1},
    {"cards": 2},
    {"milli": 400},
    {"cpu": 100, "memory": 5},
    {},
)


class Life:
    """A small cell to which things happen at random."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        choose = self.random.choice
        settings = {
            "start_timeout_ns": "30s",
            "inqueue_ns": choose(("0", "20s")),
            "requeue_limit": choose(("-1", "2")),
        }
        self.cell = Cell(checks=False).start(
            *(node("n1", 4), node("n2", 4), queue("q"), queue("top"), queue("a", parent="top")),
            rules=policy(*RULES, settings=settings, actions=ACTIONS),
        )

    def step(self) -> None:
        """One thing happens; then everything is looked at."""
        acts: tuple[tuple[Callable[[], None], int], ...] = (
            (self.submit, 3),
            (self.change, 2),
            (self.disturb, 1),
            (self.pass_time, 3),
            (self.report, 12),
            (self.order, 4),
        )
        self.random.choices([act for act, _ in acts], [weight for _, weight in acts])[0]()
        state = self.cell.state
        invariants.check(state)
        assert seal(state) == recompute(state)
        if self.random.random() < 0.1:
            other = snapshot.fork(state)
            assert seal(other) == seal(state)
            assert next_wake(other) == next_wake(state)
            other.cause, other.now_ns = state.cause, state.now_ns
            self.cell.state = other
        for key in state.job_by_key:
            explain(state, key)

    def submit(self) -> None:
        """A job that says much about itself."""
        choose, number = self.random.choice, self.random.randint
        roles = []
        for name in ("w", "s")[: number(1, 2)]:
            replicas = number(1, 3)
            one = role(name, replicas, number(0, replicas), **choose(SHAPES))
            roles.append(replace(one, group=choose(("", "g"))))
        request = submission(
            choose(JOBS),
            *roles,
            queue=choose(("q", "a")),
            retries=number(0, 2),
            backoff_ns=choose((0, SECOND)),
            ttl_ns=choose((-1, 0, 0)),
            priority=choose((0, 0, 5)),
            held=self.random.random() < 0.1,
            time_ns=self.cell.now_ns,
        )
        self.cell.put(
            replace(
                request,
                actions=tuple(self._action() for _ in range(number(0, 3))),
                groups=(r.PodGroup("g", "", 0),),
                restarts_max=choose((-1, 0, 2)),
                min_success=choose((0, 0, 1, 2)),
                can_checkpoint=True,
                accepts_suspend=True,
            )
        )

    def _action(self) -> r.EventAction:
        event = self.random.choice(list(PodEvent)[1:])
        if event is PodEvent.JOB_PENDING:
            late = self.random.choice(list(JobAction)[JobAction.ABORT_JOB :])
            return r.EventAction(event, (), "", late, 20 * SECOND)
        action = self.random.choice(list(JobAction)[1:])
        return r.EventAction(event, (), self.random.choice(("", "w")), action, 0)

    def change(self) -> None:
        """Owners change and cancel jobs, operators limits."""
        choose, now = self.random.choice, self.cell.now_ns
        job = choose(JOBS)
        scale = choose(((), (), (r.RoleScale("w", 2, 1),), (r.RoleScale("w", 1, 0),)))
        trits = (None, True, False)
        update = r.JobUpdateRequested(now, "", None, job, "me", None, choose(trits), scale)
        cancel = r.JobCancelRequested(now, "", None, job, "me")
        limits = replace(queue("top"), limits=choose(LIMITS))
        self.cell.put(choose((replace(update, deactivated=choose(trits)), update, cancel, limits)))

    def disturb(self) -> None:
        """Nodes fall silent, come back, are drained and opened."""
        choose, now = self.random.choice, self.cell.now_ns
        name = choose(("n1", "n2"))
        handled = choose((-1, self.cell.state.next_seq - 1))
        again = report(name, 4, boot=choose(("boot-1", "boot-2")), handled=handled)
        self.cell.put(
            choose(
                (
                    r.NodeLost(now, "", None, name, self.cell.state.claim, 5),
                    r.NodeDrained(now, "", None, name, "me", 0),
                    r.NodeUncordoned(now, "", None, name, "me"),
                    r.NodeReturned(now, "", None, again),
                )
            )
        )

    def pass_time(self) -> None:
        """A Tick with a cycle."""
        self.cell.tick(self.random.choice((1, 5, 40)))

    def _attempt(self) -> tuple[Job, Pod] | None:
        live = [
            (job, pod) for job in self.cell.state.jobs.values() for pod in (job.pods or {}).values()
        ]
        return self.random.choice(live) if live else None

    def report(self) -> None:
        """An executor says what became of an attempt, right or wrong."""
        found = self._attempt()
        if found is None:
            return
        job, pod = found
        now = self.cell.now_ns
        at = (now, "", None, job.request.job, pod.index, pod.attempt)
        facts: list[r.Record] = [
            *[r.PodStarted(*at, "", now)] * 3,
            r.PodSucceeded(*at, now),
            r.PodFailed(*at, FailureKind.ERROR, 1, "", now),
            r.PodReleased(*at, now),
            *[r.PodSuspended(*at, 300, now), r.PodResumed(*at, now)] * 2,
        ]
        self.cell.put(self.random.choice(facts))

    def order(self) -> None:
        """What a policy may decide of an attempt: suspend it, let it go on, move it."""
        found = self._attempt()
        if found is None:
            return
        job, pod = found
        state = self.cell.state
        step_out(state, job)
        if suspension.may_suspend(job, pod):
            suspension.tell(state, job, pod, Cause(Reason.MAIN_NEEDS_CARDS))
        elif pod.phase is Phase.SUSPENDED:
            mask = self._cards(job, pod)
            if mask and self.random.random() < 0.5:
                suspension.resume(state, job, pod, mask, Cause(Reason.RESUMED))
            else:
                evict(state, job, pod, Reason.MOVED)
                detach(state, job, pod)
        settle(state, job)
        state.outbox.clear()

    def _cards(self, job: Job, pod: Pod) -> int:
        """Free cards of its node for a suspended attempt to go on with; 0: too few."""
        home = self.cell.state.nodes[pod.node]
        shape = job.shape.shapes[pod.index % len(job.roles)]
        if shape.card_milli:
            for card, (milli, memory) in home.shared.items():
                if milli >= shape.card_milli and memory >= shape.card_memory:
                    return 1 << card
            return home.free & -home.free
        free = [card for card in range(home.free.bit_length()) if home.free >> card & 1]
        return sum(1 << card for card in free[: shape.cards]) if len(free) >= shape.cards else 0

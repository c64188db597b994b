"""A cell driven by any order of requests, facts, faults, repeats, late facts, against the auditor.

`GANGER_PROFILE=deep` looks longer; the default is derandomised, so a run on an unchanged tree is
the same run.
"""

import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from msgspec import structs

from ganger.schemas import records as r
from ganger.schemas.enums import FailureKind, QueueState
from support import builders as b
from support.watched import WatchedCell

NODES = ("n0", "n1", "n2")
QUEUES = ("top", "a", "b", "c")
LEAVES = QUEUES[1:]
KEYS = tuple(f"j{i}" for i in range(12))

DEEP = os.environ.get("GANGER_PROFILE") == "deep"
PROFILE = settings(
    max_examples=2_000 if DEEP else 250,
    stateful_step_count=80 if DEEP else 40,
    deadline=None,
    derandomize=not DEEP,
    suppress_health_check=list(HealthCheck),
)

requests = st.one_of(
    st.builds(
        dict,
        cards=st.sampled_from((1, 2, 4)),
        same_island=st.booleans(),
        cpu=st.sampled_from((0, 1000)),
    ),
    st.builds(
        dict,
        milli=st.sampled_from((300, 500)),
        card_memory=st.sampled_from((0, 30_000, 50_000)),
    ),
    st.builds(
        dict, cpu=st.sampled_from((0, 2_000)), resources=st.sampled_from(((), (("nic", 1),)))
    ),
    st.builds(dict, cards=st.just(1), models=st.just(("B",))),
)


@st.composite
def role_lists(draw: st.DrawFn) -> tuple[r.Role, ...]:
    roles = []
    for name in ("main", "side")[: draw(st.integers(1, 2))]:
        replicas = draw(st.integers(1, 3))
        minimum = draw(st.integers(0, replicas))
        roles.append(b.role(name, replicas, minimum, **draw(requests)))
    return tuple(roles)


class CellMachine(RuleBasedStateMachine):
    """Rules are what the world may do; the checks run inside the cell, after each record."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = WatchedCell()
        self.requests: list[r.Record] = []
        self.boots = dict.fromkeys(NODES, 1)
        self.shapes: dict[str, dict[str, object]] = {name: {} for name in NODES}

    @property
    def now(self) -> int:
        return self.cell.now_ns

    def ask(self, record: r.Record) -> None:
        """A request, remembered so that it can come again."""
        self.requests.append(record)
        self.cell.put(record)

    def event(self) -> str:
        return f"e{len(self.requests)}"

    def attempts(self) -> list[tuple[str, int, int]]:
        nodes = self.cell.auditor.facts.nodes.values()
        return sorted(a.name for node in nodes for a in node.attempts.values())

    # ---- the cell ---------------------------------------------------------------------------

    @initialize(rule_name=st.sampled_from(("pack", "spread")))
    def begin(self, rule_name: str) -> None:
        queues = [b.queue("top"), b.queue("a", parent="top", weight=2), b.queue("b", parent="top")]
        settings_ = {"start_timeout_ns": str(60 * b.SECOND), "ttl_ns": str(50 * b.SECOND)}
        self.cell.start(
            *queues,
            b.queue("c"),
            rules=b.policy(*b.DEFAULT_RULES[:-1], rule_name, settings=settings_),
        )
        for name in NODES:
            self.cell.put(self.report(name))

    def report(self, name: str, attempts: tuple[tuple[str, int, int], ...] = ()) -> r.NodeChanged:
        facts: dict[str, object] = {
            "model": "B" if name == "n2" else "A",
            "island": 2,
            "cpu": 8_000,
            "slots": 5,
            "resources": (("nic", 1),),
            **self.shapes[name],
        }
        return b.node(
            name,
            4,
            self.now,
            boot=f"boot-{self.boots[name]}",
            attempts=attempts,
            **facts,
        )

    # ---- requests ---------------------------------------------------------------------------

    @rule(
        key=st.sampled_from(KEYS),
        queue=st.sampled_from(LEAVES),
        roles=role_lists(),
        priority=st.integers(0, 2),
        minimum=st.integers(0, 4),
        retries=st.integers(0, 2),
        backoff_s=st.sampled_from((0, 0, 7)),
        held=st.booleans(),
        depends=st.lists(st.sampled_from(KEYS), max_size=1),
    )
    def submit(
        self,
        key: str,
        queue: str,
        roles: tuple[r.Role, ...],
        priority: int,
        minimum: int,
        retries: int,
        backoff_s: int,
        held: bool,
        depends: list[str],
    ) -> None:
        known = self.cell.auditor.facts.jobs
        self.ask(
            b.submission(
                key,
                *roles,
                queue=queue,
                priority=priority,
                minimum=minimum,
                retries=retries,
                backoff_ns=backoff_s * b.SECOND,
                held=held and priority == 0,
                depends=[other for other in depends if other in known and other != key],
                event_id=self.event(),
                time_ns=self.now,
            )
        )

    @rule(key=st.sampled_from(KEYS))
    def cancel(self, key: str) -> None:
        self.ask(r.JobCancelRequested(self.now, self.event(), None, key, "u"))

    @rule(
        key=st.sampled_from(KEYS),
        priority=st.none() | st.integers(0, 3),
        held=st.none() | st.booleans(),
        scale=st.lists(
            st.builds(
                r.RoleScale, st.sampled_from(("main", "side")), st.integers(1, 4), st.integers(0, 2)
            ),
            max_size=1,
        ),
    )
    def update(
        self, key: str, priority: int | None, held: bool | None, scale: list[r.RoleScale]
    ) -> None:
        event = self.event()
        self.ask(
            r.JobUpdateRequested(self.now, event, None, key, "u", priority, held, tuple(scale))
        )

    @rule(
        name=st.sampled_from(QUEUES),
        limit=st.sampled_from((None, {"cards_milli": 3000}, {"pods": 2}, {"cpu_milli": 2000})),
        state=st.sampled_from((QueueState.OPEN, QueueState.OPEN, QueueState.DRAINING)),
    )
    def configure(self, name: str, limit: dict[str, int] | None, state: QueueState) -> None:
        parent = "top" if name in ("a", "b") else ""
        self.ask(b.queue(name, parent=parent, capability=limit, state=state, time_ns=self.now))

    @rule(
        name=st.sampled_from(NODES),
        kind=st.sampled_from((r.NodeCordoned, r.NodeUncordoned, r.NodeUncordoned, r.NodeDrained)),
    )
    def operate(self, name: str, kind: type[r.Record]) -> None:
        grace = (0,) if kind is r.NodeDrained else ()
        self.ask(kind(self.now, self.event(), None, name, "ops", *grace))

    @rule(name=st.sampled_from(NODES), delay=st.integers(-5, 20), length=st.integers(1, 30))
    def reserve(self, name: str, delay: int, length: int) -> None:
        since = self.now + delay * b.SECOND
        until = since + length * b.SECOND
        event = self.event()
        self.ask(
            r.ReservationRequested(
                self.now, event, None, f"keep-{name}", "ops", (name,), 0, since, until, False
            )
        )

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        """A request comes a second time."""
        self.cell.put(data.draw(st.sampled_from(self.requests[-6:])))

    # ---- facts ------------------------------------------------------------------------------

    @precondition(lambda self: self.attempts())
    @rule(
        data=st.data(),
        what=st.sampled_from(("started", "succeeded", "failed", "lost its start", "released")),
        back=st.sampled_from((0, 0, 0, 1)),
        twice=st.booleans(),
    )
    def tell(self, data: st.DataObject, what: str, back: int, twice: bool) -> None:
        """A fact of a live attempt, or late of the one before it; once or twice."""
        job, pod, attempt = data.draw(st.sampled_from(self.attempts()))
        ref = (self.now, "", None, job, pod, attempt - back)
        fact: r.Record
        if what == "started":
            fact = r.PodStarted(*ref, "", self.now)
        elif what == "succeeded":
            fact = r.PodSucceeded(*ref, self.now)
        elif what == "released":
            fact = r.PodReleased(*ref, self.now)
        else:
            kind = FailureKind.ERROR if what == "failed" else FailureKind.START_FAILED
            fact = r.PodFailed(*ref, kind, 1, "", self.now)
        self.cell.put(fact)
        if twice:
            self.cell.put(fact)

    @rule(
        name=st.sampled_from(NODES),
        failed=st.lists(st.integers(0, 3), max_size=1),
        cards=st.sampled_from((4, 4, 2)),
        slots=st.sampled_from((5, 5, 1)),
        cpu=st.sampled_from((8_000, 8_000, 1_000)),
    )
    def change(self, name: str, failed: list[int], cards: int, slots: int, cpu: int) -> None:
        """A node reports other cards or less of something; it lists what it holds."""
        self.shapes[name] = {"slots": slots, "cpu": cpu}
        shape = self.shapes[name]
        if cards == 4:
            shape["failed"] = tuple(failed)
        else:
            shape["runs"] = (r.CardRun(cards, "A", 81_920, 0, b.CardHealth.HEALTHY),)
        held = self.cell.auditor.facts.nodes[name].attempts.values()
        self.cell.put(self.report(name, tuple(sorted(a.name for a in held))))

    @rule(name=st.sampled_from(NODES), is_stale=st.sampled_from((False, False, False, True)))
    def lose(self, name: str, is_stale: bool) -> None:
        claim = self.cell.state.claim - is_stale
        self.cell.put(r.NodeLost(self.now, "", None, name, claim, 30 * b.SECOND))

    @rule(name=st.sampled_from(NODES), reboots=st.booleans(), handled=st.booleans(), data=st.data())
    def come_back(self, name: str, reboots: bool, handled: bool, data: st.DataObject) -> None:
        """A node reports again: rebooted, or with some of its attempts still alive."""
        self.boots[name] += reboots
        alive: list[tuple[str, int, int]] = []
        if not reboots:
            held = sorted(a.name for a in self.cell.auditor.facts.nodes[name].attempts.values())
            alive = [one for one in held if data.draw(st.booleans())]
        report = self.report(name, tuple(alive)).report
        seq = self.cell.state.next_seq if handled else -1
        report = structs.replace(report, handled_seq=seq)
        self.cell.put(r.NodeReturned(self.now, "", None, report))

    @rule(after=st.sampled_from((0, 1, 1, 10, 70)), cycle=st.sampled_from((True, True, False)))
    def tick(self, after: int, cycle: bool) -> None:
        self.cell.tick(after, cycle=cycle)

    @rule(former=st.booleans())
    def strange_tick(self, former: bool) -> None:
        """A Tick of a former owner, or one that would move the clock back."""
        epoch = self.cell.state.epoch - former
        self.cell.put(r.Tick(self.now - 3 * b.SECOND, "", None, epoch, True))

    @rule()
    def another_owner(self) -> None:
        self.cell.put(r.OwnerClaimed(self.now, "", None, "o2"))
        self.cell.put(r.IntakeClaimed(self.now, "", None, "i2"))

    def teardown(self) -> None:
        """Last of all a cycle, so that every run judges one."""
        if self.cell.records:
            self.cell.tick(1)


TestCell = CellMachine.TestCase
TestCell.settings = PROFILE

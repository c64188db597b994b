"""Random lives of cells under each share rule: nothing derived drifts from the facts, limits hold,
and who goes on from a snapshot decides the same.
"""

import random

import pytest
from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.enums import LimitScope, Phase, QueueState
from ganger.streams.kernel import snapshot
from ganger.streams.kernel.resources import CARDS
from ganger.streams.kernel.step import step
from support.builders import SECOND, Cell, node, policy, queue, role, submission

STEPS = 50
HALF_LIFE = {"usage_half_life_ns": "2h"}
RULES: dict[str, r.PolicyConfigured] = {
    "proportion": policy("priority", "gang", "proportion", "overcommit", "pack"),
    "capacity": policy("gang", ("capacity", {"hierarchy": "yes"}), "pack"),
    "hdrf": policy(("drf", {"hierarchy": "yes"}), "gang", "capability", "pack"),
    "limits": policy("limits", "gang", "fair_share", "overcommit", "pack"),
    "usage": policy("usage", "gang", "overcommit", "pack", settings=HALF_LIFE),
    "sla": policy(
        ("sla", {"waiting_ns": "90s"}),
        *("gang", "overcommit", "fair_share", "pack"),
        actions=("enqueue", "allocate", "backfill", "reserve"),
    ),
    "fair_quota": policy("priority", "gang", "fair_quota", "pack", actions=("allocate",)),
}
LIMITS = (
    r.Limit(LimitScope.USER, "", "cards_milli", 6000),
    r.Limit(LimitScope.USER, "ann", "jobs", 2),
    r.Limit(LimitScope.TENANT, "", "cpu_milli", 20_000),
    r.Limit(LimitScope.QUEUE, "", "jobs", 9),
)


class Life:
    """A cell to which anything may happen."""

    def __init__(self, rules: r.PolicyConfigured, seed: int) -> None:
        self.chance = random.Random(seed)
        self.cell = Cell().start(
            queue("p", weight=2),
            replace(queue("a", parent="p", deserved={"cards_milli": 4000}), limits=LIMITS),
            replace(queue("b", parent="p", weight=3), limits=LIMITS[:1]),
            queue("c", guarantee={"cards_milli": 2000}, capability={"cards_milli": 9000}),
            node("n1"),
            node("n2"),
            rules=rules,
        )
        self.count = 0

    def act(self) -> None:
        """One thing happens."""
        acts = (self.submit, self.submit, self.tick, self.tick, self.report, self.report)
        rare = (self.cancel, self.nodes, self.queues, self.hour)
        self.chance.choice(acts + (rare if self.chance.random() < 0.4 else ()))()

    def submit(self) -> None:
        chance = self.chance
        self.count += 1
        pods = chance.choice((1, 1, 2, 3, 5))
        asked = role(
            replicas=pods,
            minimum=chance.choice((0, 1, pods)),
            cards=chance.choice((0, 1, 1, 2, 4)),
            cpu=chance.choice((0, 1000, 4000)),
        )
        plain = submission(
            f"j{self.count}",
            asked,
            queue=chance.choice("abc"),
            user=chance.choice(("ann", "bob")),
            time_ns=self.cell.now_ns,
        )
        waits = chance.choice((0, 0, 60)) * SECOND
        self.cell.put(replace(plain, tenant=chance.choice(("t", "u")), sla_waiting_ns=waits))

    def tick(self) -> None:
        self.cell.tick(self.chance.choice((1, 30)))

    def hour(self) -> None:
        self.cell.tick(self.chance.choice((1800, 3600, 9000)))

    def report(self) -> None:
        """Something that runs, or has been told to end, reports."""
        jobs = self.cell.state.jobs.values()
        live = [(job.request.job, pod) for job in jobs for pod in (job.pods or {}).values()]
        if not live:
            return
        name, pod = self.chance.choice(live)
        about = (name, pod.index, pod.attempt)
        if pod.phase is Phase.RELEASING:
            self.cell.released(*about)
        elif pod.phase is Phase.ALLOCATED:
            self.cell.started(*about)
        elif self.chance.random() < 0.7:
            self.cell.succeeded(*about)
        else:
            self.cell.failed(*about)

    def cancel(self) -> None:
        if self.cell.state.job_by_key:
            self.cell.cancel(self.chance.choice(sorted(self.cell.state.job_by_key)))

    def nodes(self) -> None:
        name = self.chance.choice(("n1", "n2"))
        now = self.cell.now_ns
        kinds = (
            node(name, self.chance.choice((6, 8)), time_ns=now),
            r.NodeCordoned(now, "", None, name, "me"),
            r.NodeUncordoned(now, "", None, name, "me"),
        )
        self.cell.put(self.chance.choice(kinds))

    def queues(self) -> None:
        weight = self.chance.randint(0, 4)
        state = self.chance.choice((QueueState.OPEN, QueueState.OPEN, QueueState.CLOSED))
        plain = queue("b", parent="p", weight=weight, state=state, time_ns=self.cell.now_ns)
        self.cell.put(replace(plain, limits=self.chance.choice(((), LIMITS[:1], LIMITS[3:]))))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", RULES)
def test_what_is_derived_follows_the_facts(name: str, seed: int) -> None:
    """The cell checks itself after each record."""
    life = Life(RULES[name], seed)
    for _ in range(STEPS):
        life.act()
        state = life.cell.state
        if name == "limits":
            held: dict[str, int] = {}
            for job in state.jobs.values():
                if state.queues[job.queue].config.queue == "a":
                    cards = sum(pod.shape.cards_milli for pod in (job.pods or {}).values())
                    held[job.request.user] = held.get(job.request.user, 0) + cards
            assert max(held.values(), default=0) <= 6000
        if name in ("proportion", "capacity"):
            assert state.queues[state.queue_by_name["c"]].used[CARDS] <= 9000


@pytest.mark.parametrize("name", RULES)
def test_who_goes_on_from_a_snapshot_decides_the_same(name: str) -> None:
    life = Life(RULES[name], 7)
    for _ in range(STEPS // 2):
        life.act()
    restored = snapshot.decode(snapshot.encode(life.cell.state))
    at = len(life.cell.records)
    made = len(life.cell.decisions)
    for _ in range(STEPS // 2):
        life.act()
    again = [
        decision
        for seq, record in enumerate(life.cell.records[at:], at)
        for decision in step(restored, seq, record)
    ]
    assert again == life.cell.decisions[made:]

"""Taking from others on a large cluster, in CPU time of one process.

A cell of 5,000 nodes x 8 cards is full of one-card jobs of one queue; another queue, due half of
it, asks for 1,000 cards. Workloads (one JSON object each, printed as one list):

* gang: as one gang of 1,000 one-card pods.
* jobs: as 1,000 jobs of one card.
* wide: as 125 jobs of one pod of 8 cards.
* preempt: as one gang of higher priority in the same queue.
* quiet: a cycle in which nothing changed since nobody was found, 100,000 jobs waiting.

Timed: the one cycle in which they take, decisions, chain and digest included.

`python tests/bench/bench_reclaim.py [--runs N] [--only NAME]`
"""

import argparse
import json
import statistics
import sys

from ganger.schemas import records as r
from ganger.schemas.enums import DecisionKind
from support.builders import Cell, node, policy, queue, role, submission
from support.spent import timed

NODES, CARDS = 5_000, 8
ASKED = 1_000
RULES = ("priority", "gang", "fair_share", "capability", "pack")
ACTIONS = ("enqueue", "allocate", "backfill", "reclaim", "preempt", "stale")


def full_cell() -> Cell:
    """All cards held by one-card jobs of queue `a`; queue `b` is empty."""
    cell = Cell(checks=False)
    cell.start(queue("a"), queue("b"), rules=policy(*RULES, actions=ACTIONS))
    cell.put(*[node(f"n{i:05d}", CARDS) for i in range(NODES)])
    for i in range(NODES * CARDS):
        cell.put(submission(f"a{i}", role(cards=1, cpu=1000), queue="a", time_ns=cell.now_ns))
    cell.tick()
    return cell


def ask(cell: Cell, roles: list[r.Role], name: str, priority: int = 0) -> None:
    """One job per role."""
    for i, one in enumerate(roles):
        job = submission(f"b{i}", one, queue=name, priority=priority, time_ns=cell.now_ns)
        cell.put(job)


def taking(roles: list[r.Role], name: str, priority: int = 0) -> dict[str, object]:
    """The cycle in which they take."""
    cell = full_cell()
    ask(cell, roles, name, priority)
    said: list[DecisionKind] = []
    spent = timed(lambda: said.extend([decision.kind for decision in cell.tick()]))
    evicted, claimed = said.count(DecisionKind.EVICT), said.count(DecisionKind.CLAIM)
    assert evicted == ASKED, evicted
    assert claimed == sum(one.replicas for one in roles), claimed
    return {"cpu_s": round(spent, 3), "evicted": evicted, "claims": claimed}


def gang() -> dict[str, object]:
    """One gang takes back from the other queue."""
    return taking([role(replicas=ASKED, cards=1, cpu=1000)], "b")


def jobs() -> dict[str, object]:
    """As many jobs do."""
    return taking([role(cards=1, cpu=1000)] * ASKED, "b")


def wide() -> dict[str, object]:
    """Jobs of whole nodes do."""
    return taking([role(cards=8, cpu=8000)] * (ASKED // 8), "b")


def preempt() -> dict[str, object]:
    """One gang of higher priority takes from its own queue."""
    return taking([role(replicas=ASKED, cards=1, cpu=1000)], "a", priority=5)


def quiet() -> dict[str, object]:
    """Nothing changed and many wait."""
    cell = full_cell()
    for i in range(100_000):
        job = submission(
            f"c{i}", role(cards=1 + i % 8), queue="a", priority=i % 3 - 2, time_ns=cell.now_ns
        )
        cell.put(job)
    tried = timed(cell.tick)
    cell.tick()
    return {"cpu_s": round(timed(cell.tick), 6), "cpu_s_when_tried": round(tried, 3)}


WORKLOADS = {"gang": gang, "jobs": jobs, "wide": wide, "preempt": preempt, "quiet": quiet}


def main() -> int:
    """Median of `--runs` runs of each workload."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=WORKLOADS)
    given = parser.parse_args()
    results = []
    for name, workload in WORKLOADS.items():
        if given.only in (None, name):
            runs = [workload() for _ in range(given.runs)]
            runs.sort(key=lambda run: run["cpu_s"])  # type: ignore[arg-type,return-value]
            middle = statistics.median_low(range(len(runs)))
            results.append({"name": name, **runs[middle]})
    sys.stdout.write(json.dumps(results, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

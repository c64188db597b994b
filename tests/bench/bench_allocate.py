"""Placement on large clusters, in CPU time of one process.

Workloads (one JSON object each, printed as one list):

* G5k: 5,000 empty nodes x 8 cards (64 cores, 1 TiB); 10,000 pending pods of 1, 2, 4, 8 cards with
  probability .5 .2 .15 .15, cpu and memory in proportion, as single-pod jobs or as gangs of 1 to 4
      equal
  pods; ten queues; default policy. Timed: the one cycle that admits and places them all, decisions,
  chain and digest included.
* quiet: 7 of 8 cards busy on every node, many pending pods of 2 to 8 cards, nothing fits. Timed: a
  cycle in which nothing changed, and the one before it, in which all was tried.
* gang: one gang of 32,000 one-card pods on 4,000 empty nodes x 8.
* end: what a finished pod and the cycle after it cost on a full cluster with a backlog.

`python tests/bench/bench_allocate.py [--runs N] [--only NAME]`
"""

import argparse
import json
import random
import statistics
import sys
from collections.abc import Callable

from ganger.schemas import records as r
from ganger.schemas.enums import DecisionKind
from support.builders import Cell, node, policy, queue, role, submission
from support.spent import timed

SIZES = ((1, 0.5), (2, 0.2), (4, 0.15), (8, 0.15))
QUEUES = 10


def cell_with(nodes: int, cards: int = 8) -> Cell:
    """A cell of equal nodes and ten queues, default policy."""
    cell = Cell(checks=False)
    cell.start(*[queue(f"q{i}") for i in range(QUEUES)], rules=policy())
    cell.put(*[node(f"n{i:05d}", cards) for i in range(nodes)])
    return cell


def draw(count: int, gangs: bool, sizes: tuple[tuple[int, float], ...] = SIZES) -> list[r.Role]:
    """Roles of jobs that together have `count` pods."""
    rng = random.Random(7)
    roles, left = [], count
    cards = [c for c, _ in sizes]
    weights = [w for _, w in sizes]
    while left:
        size = min(left, rng.randint(1, 4) if gangs else 1)
        c = rng.choices(cards, weights)[0]
        roles.append(role("w", size, cards=c, cpu=c * 8000, memory=c << 17))
        left -= size
    return roles


def submit_all(cell: Cell, roles: list[r.Role]) -> None:
    """One job per role, over the queues in turn."""
    for i, one in enumerate(roles):
        cell.put(submission(f"j{i}", one, queue=f"q{i % QUEUES}", time_ns=cell.now_ns))


def g5k(gangs: bool) -> dict[str, object]:
    """Placing all of G5k in one cycle."""
    cell = cell_with(5000)
    submit_all(cell, draw(10_000, gangs))
    spent = timed(cell.tick)
    pods = sum(d.kind is DecisionKind.ALLOCATE for d in cell.decisions)
    assert pods == 10_000, pods
    return {"pods_per_cpu_second": pods / spent}


def quiet(nodes: int, pending: int) -> dict[str, object]:
    """Cycles in which nothing changes."""
    cell = cell_with(nodes)
    for i in range(nodes):
        cell.put(submission(f"full{i}", role("w", 1, cards=7), queue="q0", time_ns=cell.now_ns))
    cell.tick()
    submit_all(cell, draw(pending, False, ((2, 0.5), (4, 0.3), (8, 0.2))))
    first = timed(cell.tick)
    later = [timed(cell.tick) for _ in range(5)]
    assert cell.state.waiting_count == pending
    return {"first_cycle_ms": first * 1e3, "quiet_cycle_ms": statistics.median(later) * 1e3}


def gang() -> dict[str, object]:
    """One gang that fills the cluster."""
    cell = cell_with(4000)
    cell.put(submission("gang", role("w", 32_000, cards=1), queue="q0", time_ns=cell.now_ns))
    spent = timed(cell.tick)
    pods = sum(d.kind is DecisionKind.ALLOCATE for d in cell.decisions)
    assert pods == 32_000, pods
    return {"seconds": spent}


def end() -> dict[str, object]:
    """A pod ends, the next one of the backlog starts."""
    cell = cell_with(500)
    count = 4000 + 2000
    for i in range(count):
        cell.put(submission(f"j{i}", queue=f"q{i % QUEUES}", time_ns=cell.now_ns))
    cell.tick()
    running = [d.job for d in cell.decisions if d.kind is DecisionKind.ALLOCATE]
    assert len(running) == 4000

    for job in running:
        cell.started(job)

    def work() -> None:
        for job in running[:1000]:
            cell.succeeded(job)
            cell.tick()

    spent = timed(work)
    return {"us_per_end_and_start": spent / 1000 * 1e6}


WORKLOADS: dict[str, Callable[[], dict[str, object]]] = {
    "g5k_singles": lambda: g5k(gangs=False),
    "g5k_gangs": lambda: g5k(gangs=True),
    "quiet_g5k": lambda: quiet(5000, 10_000),
    "quiet_10k_100k": lambda: quiet(10_000, 100_000),
    "gang_32000": gang,
    "end_and_start": end,
}


def main(argv: list[str]) -> None:
    """Run and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", choices=sorted(WORKLOADS))
    options = parser.parse_args(argv)
    results = []
    for name, workload in WORKLOADS.items():
        if options.only in (None, name):
            runs = [workload() for _ in range(options.runs)]
            medians = {
                key: round(statistics.median(float(str(run[key])) for run in runs), 3)
                for key in runs[0]
            }
            results.append({"workload": name, "runs": options.runs, **medians})
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])

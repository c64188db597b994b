"""Shares of many queues, in CPU time of one process.

10,000 nodes x 8 cards, 7 of 8 cards busy everywhere, 200 queues in three levels (10, below each 3,
below each of these 5 or 6), 100,000 pending jobs of 2 to 8 cards that fit nowhere. Timed, as one
JSON object per policy:

* shares_ms: the dues of all queues computed anew, after a request has changed;
* kept_ms: asked for again in a later step in which nothing has changed;
* first_cycle_ms: a cycle in which all jobs were tried;
* quiet_cycle_ms: a cycle in which nothing changed.

`python tests/bench/bench_shares.py [--nodes N] [--pending N] [--only POLICY]`
"""

import argparse
import json
import statistics
import sys

from ganger.schemas import records as r
from ganger.streams.kernel.queues import quota_tree
from support.builders import Cell, node, policy, queue, role, submission
from support.spent import timed

RUNS = 5
POLICIES: dict[str, tuple[str | tuple[str, dict[str, str]], ...]] = {
    "fair_share": ("priority", "gang", "fair_share", "capability", "overcommit", "pack"),
    "proportion": ("priority", "gang", "proportion", "pack"),
    "capacity": ("priority", "gang", ("capacity", {"hierarchy": "yes"}), "pack"),
    "hdrf": ("priority", "gang", ("drf", {"hierarchy": "yes"}), "pack"),
}


def tree() -> list[r.QueueConfigured]:
    """200 queues: 10, 30 and 160."""
    made = [queue(f"t{i}", weight=i % 3 + 1) for i in range(10)]
    made += [queue(f"m{i}", parent=f"t{i % 10}", weight=i % 4 + 1) for i in range(30)]
    made += [
        queue(f"q{i}", parent=f"m{i % 30}", weight=i % 5 + 1, deserved={"cards_milli": 500_000})
        for i in range(160)
    ]
    return made


def run(name: str, nodes: int, pending: int) -> dict[str, object]:
    """All four times under one policy."""
    cell = Cell(checks=False)
    cell.start(*tree(), rules=policy())
    cell.put(*[node(f"n{i:05d}", 8) for i in range(nodes)])
    for i in range(nodes):
        asked = role("w", 1, cards=7, cpu=7000)
        cell.put(submission(f"full{i}", asked, queue=f"q{i % 160}", time_ns=cell.now_ns))
    cell.tick()
    cell.put(policy(*POLICIES[name]))
    for i in range(pending):
        asked = role("w", 1, cards=(2, 2, 4, 8)[i % 4], cpu=4000)
        cell.put(submission(f"j{i}", asked, queue=f"q{i % 160}", time_ns=cell.now_ns))
    state = cell.state

    def changed() -> None:
        state.queues[40].waiting[0] += 1000
        state.cause += 1
        quota_tree.dues(state)

    def kept() -> None:
        state.cause += 1
        quota_tree.dues(state)

    cause, waits = state.cause, state.queues[40].waiting[0]
    shares = [1e3 * timed(changed) for _ in range(RUNS)]
    again = [1e3 * timed(kept) for _ in range(RUNS)]
    state.cause, state.queues[40].waiting[0] = cause, waits
    first = 1e3 * timed(cell.tick)
    quiet = [1e3 * timed(cell.tick) for _ in range(RUNS)]
    assert state.waiting_count == pending
    return {
        "policy": name,
        "shares_ms": statistics.median(shares),
        "kept_ms": statistics.median(again),
        "first_cycle_ms": first,
        "quiet_cycle_ms": statistics.median(quiet),
    }


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--pending", type=int, default=100_000)
    parser.add_argument("--only", choices=tuple(POLICIES), default="")
    asked = parser.parse_args()
    for name in POLICIES:
        if asked.only in ("", name):
            json.dump(run(name, asked.nodes, asked.pending), sys.stdout)
            print(flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

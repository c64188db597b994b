"""How preset xirang fares on the Philly trace, beside hpc-easy and itself without gaps.

Run `PYTHONPATH=tests python tests/bench/bench_xirang.py [--seeds 3] [--limit N]`. Prints one JSON
object per seed and one with the means. Whole runs take some minutes of CPU.

* main: mean wait of the jobs that xirang started in turn, over that of the same jobs otherwise;
* wide: the same of all jobs of eight cards and more;
* idle: cards that stand idle beside waiting jobs;
* completed, lost: of jobs in gaps, and of the card-time given to them.
"""

import argparse
import json
from collections.abc import Iterable
from statistics import fmean

from msgspec.structs import replace

from ganger.replay.assumptions import Assumptions, Guess
from ganger.replay.cluster import parse_nodes
from ganger.replay.simulate import run
from ganger.replay.summary import Summary
from ganger.replay.traces.detect import open_trace
from ganger.replay.traces.model import Trace
from ganger.schemas.records import PolicyConfigured
from ganger.streams.presets.loader import load_policy
from support.archive import SHARED

TRACE = SHARED.parent / "philly" / "jobs.csv.gz"
NODES = "66x8,45x4"
SUSPENDABLE_MILLIONTHS = 300_000
WIDE_CARDS = 8
OF_GAPS = ("backfill", "yielding", "tune")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--limit", type=int)
    options = parser.parse_args()
    if not TRACE.exists():
        print(f"{TRACE}: not beside this checkout; nothing to simulate")
        return
    trace = open_trace(TRACE, options.limit)
    wide = {job.id for job in trace.jobs if sum(p.count * p.cards for p in job.pods) >= WIDE_CARDS}
    xirang = load_policy("xirang")
    without = replace(
        xirang, actions=tuple(one for one in xirang.actions if one.action not in OF_GAPS)
    )
    easy = simulate(trace, load_policy("hpc-easy"), 0)
    bare = simulate(trace, without, 0)
    found = []
    for seed in range(options.seeds):
        one = compared(simulate(trace, xirang, seed), easy, bare, wide)
        found.append(one)
        print(json.dumps({"seed": seed, **one}), flush=True)
    print(json.dumps({"mean": {key: round(fmean(f[key] for f in found), 4) for key in found[0]}}))


def simulate(trace: Trace, policy: PolicyConfigured, seed: int) -> Summary:
    """One run, in memory."""
    assumed = Assumptions(Guess.PREDICT, suspendable_millionths=SUSPENDABLE_MILLIONTHS)
    return run(trace, parse_nodes(NODES), policy, seed=seed, assumptions=assumed)


def compared(here: Summary, easy: Summary, bare: Summary, wide: set[str]) -> dict[str, float]:
    """Ratios of a run."""
    main_jobs = {start.job for start in here.starts if start.tier.name == "MAIN"}
    return {
        "main_to_easy": ratio(here, easy, main_jobs),
        "main_to_without": ratio(here, bare, main_jobs),
        "wide_to_easy": ratio(here, easy, wide),
        "idle_to_easy": here.idle_card_seconds / max(1, easy.idle_card_seconds),
        "completed": here.backfill_completed / max(1, here.backfill_started),
        "lost": here.evicted_card_seconds_lost / max(1, here.idle_card_seconds_used),
        "eta_p50": here.eta_p50_coverage or 0.0,
        "eta_p90": here.eta_p90_coverage or 0.0,
        "eta_p90_median_s": here.eta_p90_median_s or 0.0,
        "main_wait_mean_s": here.main_wait_mean_s,
        "cpu_seconds": here.cpu_seconds,
    }


def ratio(here: Summary, there: Summary, jobs: Iterable[str]) -> float:
    """Mean wait of some jobs in a run over that in another."""
    waits = {start.job: start.wait_ns for start in here.starts}
    others = {start.job: start.wait_ns for start in there.starts}
    both = [job for job in jobs if job in waits and job in others]
    return fmean(waits[job] for job in both) / max(1.0, fmean(others[job] for job in both))


if __name__ == "__main__":
    main()

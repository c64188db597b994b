"""The long form of the fault simulation: many seeds, or one again.

    python tests/simulation/chaos.py --seeds 500            every seed from 0
    python tests/simulation/chaos.py --seed 17 --steps 80   one, printing what led to a failure
    python tests/simulation/chaos.py --seed 17 --print      one, printing its digest and chain

Exit 1 if any seed fails; each failure prints the command that repeats it.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.chaos import Chaos, ChaosFailed, run_seed


def main() -> int:
    """Run the seeds that the command line names; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=0, help="run seeds 0 .. N-1")
    parser.add_argument("--first", type=int, default=0, help="first of those seeds")
    parser.add_argument("--seed", type=int, help="run one seed")
    parser.add_argument("--steps", type=int, default=80, help="steps with faults (default 80)")
    parser.add_argument("--print", action="store_true", help="print digest and chain of each seed")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    failures = 0
    begun = time.process_time()
    for seed in seeds if options.seed is None else [options.seed]:
        try:
            chaos = run_seed(seed, options.steps)
        except ChaosFailed as failure:
            failures += 1
            print(failure)
            continue
        if options.print:
            print(_proof(seed, chaos))
    spent = time.process_time() - begun
    count = len(seeds) if options.seed is None else 1
    print(f"{count} seeds, {failures} failed, {spent:.1f} s of CPU", file=sys.stderr)
    return 1 if failures else 0


def _proof(seed: int, chaos: Chaos) -> str:
    cell = chaos.cell
    return f"{seed} {len(cell.records)} {cell.digest.hex()} {cell.state.chain.hex()}"


if __name__ == "__main__":
    sys.exit(main())

"""`python -m exhaustive`: the whole search, in pieces over processes; run again, it goes on.

With `tests` on the path; `make exhaustive` does that.
"""

import argparse
import json
import multiprocessing
import sys
from pathlib import Path

from exhaustive.search import all_presets, pieces, read_results, search, source_digest


def main() -> int:
    """Returns 1 if any promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m exhaustive", description=__doc__)
    parser.add_argument("--preset", action="append", help="only this one; may be repeated")
    parser.add_argument("--length", type=int, default=4, help="jobs of the longest sequence")
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--results", type=Path, default=Path("run/exhaustive.jsonl"))
    options = parser.parse_args()
    source = source_digest()
    done = read_results(options.results, source)
    todo = pieces(options.preset or all_presets(), range(1, options.length + 1))
    left = [piece for piece in todo if piece.name not in done]
    options.results.parent.mkdir(parents=True, exist_ok=True)
    print(f"{len(todo)} pieces, {len(todo) - len(left)} of them done before", flush=True)
    with (
        multiprocessing.Pool(options.processes) as pool,
        options.results.open("a", encoding="utf-8") as file,
    ):
        for result in pool.imap_unordered(search, left):
            done[str(result["piece"])] = result
            file.write(json.dumps({**result, "source": source}) + "\n")
            file.flush()
            for line in result["broken"]:
                print(line, flush=True)
    mine = [done[piece.name] for piece in todo]
    broken = sum(bool(result["broken"]) for result in mine)
    print(f"{sum(result['histories'] for result in mine)} histories, {broken} pieces with faults")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

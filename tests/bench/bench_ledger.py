"""Measure the embedded ledger: appending in groups, and reading with CRC and chain.

Run `python tests/bench/bench_ledger.py [--records N] [--bytes N] [--repeat N] [--dir DIR]`. Prints
one JSON object. Times are CPU seconds of this process, medians over the repeats; wall times are
given beside them because appending waits for the disk.
"""

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from ganger.streams.log.directory import LedgerDirectory
from ganger.streams.log.protocol import Log, LogReader

GROUP_SIZES = (1, 8, 128, 1024)


def timed(work: Callable[[], None]) -> tuple[float, float]:
    """(CPU seconds, wall seconds) of one call."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def append_all(log: Log, groups: list[list[bytes]]) -> None:
    for group in groups:
        log.append(group)


def read_all(log: LogReader) -> None:
    count = sum(len(group) for _, group in log.read_groups())
    assert count == log.end()


def measure(parent: Path, records: list[bytes], group_size: int, repeat: int) -> dict[str, float]:
    """Append all records in groups of one size to fresh ledgers, and read each back."""
    appends, reads = [], []
    groups = [records[at : at + group_size] for at in range(0, len(records), group_size)]
    for _ in range(repeat):
        with tempfile.TemporaryDirectory(dir=parent) as folder:
            with LedgerDirectory.create(Path(folder), "bench") as directory:
                appends.append(timed(partial(append_all, directory.ledger, groups)))
            reader = LedgerDirectory.open_reader(Path(folder)).ledger
            reads.append(timed(partial(read_all, reader)))
    count = len(records)
    append_cpu, append_wall = (median(column) for column in zip(*appends, strict=True))
    read_cpu, _ = (median(column) for column in zip(*reads, strict=True))
    return {
        "records": count,
        "append_cpu_us_per_record": round(append_cpu / count * 1e6, 3),
        "append_records_per_wall_second": round(count / append_wall),
        "read_cpu_us_per_record": round(read_cpu / count * 1e6, 3),
        "read_records_per_cpu_second": round(count / read_cpu),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1 << 19)
    parser.add_argument("--bytes", type=int, default=100, help="mean size of a record")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--dir", type=Path, default=None, help="on the disk to be measured")
    options = parser.parse_args()
    source = random.Random(7)
    records = [
        source.randbytes(source.randrange(options.bytes // 2, options.bytes * 3 // 2))
        for _ in range(options.records)
    ]
    results = {}
    for group_size in GROUP_SIZES:
        # Two syncs per group: small groups get fewer records, or this would measure the disk.
        count = min(len(records), group_size * 2048)
        results[str(group_size)] = measure(
            options.dir or Path(tempfile.gettempdir()), records[:count], group_size, options.repeat
        )
    print(json.dumps({"record_bytes_mean": options.bytes, "groups": results}, indent=2))


if __name__ == "__main__":
    main()

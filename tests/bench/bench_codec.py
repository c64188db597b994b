"""Measure encoding and decoding of the records that a running cell sees most.

Run `python tests/bench/bench_codec.py [--count N] [--repeat N]`. Prints one JSON object: per
record, CPU nanoseconds per call, the least of the repeats, by ganger and by fastavro (which gives
and takes plain dicts; ganger's side includes the structs). Values vary as in a cell: every job,
time and id is new, node names, users and shapes come back.
"""

import argparse
import io
import json
import time
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

import fastavro
from msgspec import Struct

from ganger.schemas.codec import decode_decision, decode_record
from ganger.schemas.decisions import Decision
from ganger.schemas.encoding import decision_body, decision_payload, encode_record
from ganger.schemas.enums import BackfillPreference, DecisionKind, IslandPolicy, Tier
from ganger.schemas.reasons import Reason
from ganger.schemas.records import (
    CardSpan,
    JobSubmitRequested,
    PodRequest,
    PodStarted,
    PodSucceeded,
    RetryPolicy,
    Role,
    Tick,
)
from ganger.schemas.registry import NEWEST

START_NS = 1_700_000_000_000_000_000
STEP_NS = 1_234_567_890


def decision(number: int) -> Decision:
    """An allocation, four to a job and some hundreds to a cycle."""
    now = START_NS + number // 500 * STEP_NS
    return Decision(
        *("cell", number // 500, number % 500, now, DecisionKind.ALLOCATE, f"job-{number // 4}"),
        *("worker", number % 4, 1, f"node-{number * 7 % 5000}"),
        *((CardSpan(number % 8, 1 + number % 3),), 0, 0, Tier.MAIN, now, "", Reason.PLACED_IN_TURN),
        *(1000, number % 9 * 1000, 0, b"8 bytes!", 0, 0, 0, b""),
        chain=bytes(32),
    )


def submission(number: int) -> JobSubmitRequested:
    """A job of one role; 32 shapes and a thousand runtimes among all."""
    size = 1 + number % 8
    request = PodRequest(
        *(size, 0, 0, 0, (), IslandPolicy.ANY, 4000 * size, 1024 * size, (), (), ())
    )
    role = Role("worker", 1 + number % 4, 1 + number % 4, request)
    return JobSubmitRequested(
        *(START_NS + number * STEP_NS, f"event-{number}", None, f"job-{number}"),
        *(f"queue-{number % 10}", f"user-{number % 300}", "tenant", "", 0, (role,), 0),
        *(number % 1000 * 10**9, 0, False, False, BackfillPreference.ACCEPT, 0, 0, ()),
        *(RetryPolicy(3, 10**10, 3 * 10**11), -1, False),
    )


def started(number: int) -> PodStarted:
    """A start, told by its executor with a clock of its own."""
    now = START_NS + number * STEP_NS
    node = f"node-{number * 7 % 5000}"
    return PodStarted(now, "", None, f"job-{number // 4}", number % 4, 1, node, now - 1000)


def succeeded(number: int) -> PodSucceeded:
    """An end, by the appender's clock, as in a simulation."""
    now = START_NS + number * STEP_NS
    return PodSucceeded(now, "", None, f"job-{number // 4}", number % 4, 1, now)


def tick(number: int) -> Tick:
    return Tick(START_NS + number * STEP_NS, "", None, 3, True)


MAKERS: tuple[Callable[[int], Struct], ...] = (tick, started, succeeded, submission, decision)


def plain(value: Any) -> Any:
    """A struct as fastavro wants it."""
    if isinstance(value, Struct):
        names = [name for name in value.__struct_fields__ if name != "body"]
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return value.name if isinstance(value, IntEnum) else value


def least_ns(call: Callable[[Any], Any], arguments: Sequence[Any], repeat: int) -> int:
    """CPU nanoseconds per call: the quietest repeat, as a shared machine only ever adds."""
    times = []
    for _ in range(repeat):
        start = time.process_time_ns()
        for argument in arguments:
            call(argument)
        times.append((time.process_time_ns() - start) / len(arguments))
    return round(min(times))


def measure(make: Callable[[int], Struct], count: int, repeat: int) -> dict[str, int]:
    """All figures of one record."""
    records = [make(number) for number in range(count)]
    name = type(records[0]).__name__
    schema = fastavro.parse_schema(NEWEST[name].schema)
    encode: Callable[[Any], bytes] = encode_record
    decode: Callable[[bytes], Any] = decode_record
    figures = {}
    if isinstance(records[0], Decision):
        encode, decode = decision_payload, decode_decision
        figures["body_ns"] = least_ns(decision_body, records, repeat)
    payloads = [encode(record) for record in records]
    streams = [io.BytesIO(payload[5:]) for payload in payloads]

    def write(value: dict[str, Any]) -> None:
        fastavro.schemaless_writer(io.BytesIO(), schema, value)

    def read(stream: io.BytesIO) -> None:
        stream.seek(0)
        fastavro.schemaless_reader(stream, schema, None)

    return figures | {
        "bytes": len(payloads[-1]),
        "encode_ns": least_ns(encode, records, repeat),
        "decode_ns": least_ns(decode, payloads, repeat),
        "fastavro_encode_ns": least_ns(write, [plain(record) for record in records], repeat),
        "fastavro_decode_ns": least_ns(read, streams, repeat),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000, help="records of each kind")
    parser.add_argument("--repeat", type=int, default=9, help="repeats, of which the least counts")
    arguments = parser.parse_args()
    figures = {}
    for make in MAKERS:
        name = type(make(0)).__name__
        figures[name] = measure(make, arguments.count, arguments.repeat)
    print(json.dumps({"bench": "codec", "count": arguments.count, "records": figures}))


if __name__ == "__main__":
    main()

"""Bad messages of every kind that was thought of, for each input topic, from one good one.

Each is a whole Kafka message: key, value, headers. Deterministic; nothing is drawn at random.
"""

import gzip
import json
import struct
from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.codec import PAYLOAD_BYTES_MAX
from ganger.schemas.decisions import Decision
from ganger.schemas.encoding import encode_record
from ganger.schemas.registry import NEWEST
from ganger.streams.kafka.cluster.topics import CONTROL, HEARTBEATS, JOBS, PODS
from support.builders import queue, report, role, submission

Header = tuple[str, bytes | None]

KINDS_MIN = 40
"""What each input topic gets at least."""

_STRUCTURE = "structure: "


class BadMessage(NamedTuple):
    """A message that is to be refused, and a name for it that no other of its topic has."""

    kind: str
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


def good(topic: str) -> r.Record:
    """A message that the topic may carry."""
    return {
        HEARTBEATS: r.NodeHeartbeat(1, "hb", None, (report("bad-1"), report("bad-2"))),
        JOBS: submission("bad", role(cards=1), event_id="bad"),
        PODS: r.PodSucceeded(1, "bad", None, "bad", 0, 1, 1),
        CONTROL: queue("bad"),
    }[topic]


def bad_messages(topic: str, cell: str) -> Iterator[BadMessage]:
    """At least `KINDS_MIN` of them."""
    key = cell.encode()
    payload = encode_record(good(topic))
    for kind, value in _bytes(payload):
        yield BadMessage(kind, key, value)
    for kind, value in _mangled(payload):
        yield BadMessage(kind, key, value)
    for record in (*_never_sent(), *_elsewhere(topic), *_unsound(topic)):
        yield BadMessage(f"{type(record[1]).__name__}: {record[0]}", key, encode_record(record[1]))
    for kind, wrong in (
        *(("no key", None), ("empty key", b""), ("key of no cell", b"no-such-cell")),
        *(("key is no text", b"\xff\xfe"), ("key with more", key + b"/x"), ("key cased", b"NORTH")),
        *(("key with a zero", key + b"\0"), ("key with a space", b" " + key)),
        ("long key", b"k" * 5000),
    ):
        yield BadMessage(kind, wrong, payload)
    if topic == HEARTBEATS:
        for kind, origin in (
            *(("origin empty", b""), ("origin elsewhere", b"some-topic/1/2")),
            *(("origin none", None), ("origin no text", b"\xff/1/2"), ("origin cut", b"a/1")),
        ):
            yield BadMessage(kind, key, payload, (("ganger_source", origin),))


def _bytes(payload: bytes) -> Iterator[tuple[str, bytes | None]]:
    """Bytes that are no payload, or not all of one."""
    body = payload[5:]
    yield "no value", None
    for count in (0, 1, 4, 5, len(payload) // 2, len(payload) - 1):
        yield f"first {count} bytes", payload[:count]
    yield "magic 1", b"\1" + payload[1:]
    yield "no frame", body
    yield "twice", payload * 2
    yield "one more byte", payload + b"\0"
    yield "hundred more bytes", payload + bytes(100)
    yield "json", json.dumps({"job": "j", "queue": "q"}).encode()
    yield "xml", b"<?xml version='1.0'?><job/>"
    yield "text in utf-16", "submit".encode("utf-16")
    yield "gzip", gzip.compress(payload, mtime=0)
    yield "all ones", b"\xff" * 64
    yield "all zeros", bytes(64)
    yield "avro file", b"Obj\x01" + payload
    yield "too large", payload + bytes(PAYLOAD_BYTES_MAX)
    yield "far too large", bytes(3 * PAYLOAD_BYTES_MAX)  # compressed it is small
    for name, number in (
        *(("0", 0), ("-1", 0xFFFFFFFF), ("unknown", 4242), ("far", 0x7FFFFFFF)),
        ("a decision's", NEWEST[Decision.__name__].schema_id),
        ("a row's", NEWEST["JobRow"].schema_id),
    ):
        yield f"schema id {name}", b"\0" + struct.pack(">I", number) + body


def _mangled(payload: bytes) -> Iterator[tuple[str, bytes]]:
    """A right frame around a body that is none."""
    head, body = payload[:5], payload[5:]
    yield "longer number than needed", head + bytes((body[0] | 0x80, 0)) + body[1:]
    yield "number without end", head + b"\xff" * 12
    yield "negative length", head + b"\2" + b"\x03" + body[1:]
    yield "enormous length", head + b"\2" + b"\xfe\xff\xff\xff\x0f" + body
    yield "text that is none", head + b"\2" + b"\4\xff\xfe" + body[2:]
    yield "union of nothing", head + b"\2" + b"\0" + b"\x0c" + body[3:]
    yield "body backwards", head + body[::-1]
    yield "body of ones", head + b"\x01" * len(body)


def _never_sent() -> Iterator[tuple[str, r.Record]]:
    """Records that workers alone write."""
    for record in (
        r.Tick(1, "", None, 0, True),
        r.OwnerClaimed(1, "", None, "mallory"),
        r.IntakeClaimed(1, "", None, "mallory"),
        r.NodeChanged(1, "", None, report("bad")),
        r.NodeReturned(1, "", None, report("bad")),
        r.NodeLost(1, "", None, "bad", 0, 1),
        r.SnapshotSealed(1, "", None, 1, bytes(32), bytes(32), bytes(32)),
    ):
        yield "never sent", record


def _elsewhere(topic: str) -> Iterator[tuple[str, r.Record]]:
    """Records of the other topics, whose writers have other rights."""
    for other in (HEARTBEATS, JOBS, PODS, CONTROL):
        if other != topic:
            yield f"of {other}", good(other)


def _unsound(topic: str) -> Iterator[tuple[str, r.Record]]:
    """Records of the topic that say what cannot be."""
    record = good(topic)
    yield _STRUCTURE + "long event id", replace(record, event_id="e" * 300)
    if isinstance(record, r.NodeHeartbeat):
        for kind, unsound in (
            ("no name", replace(report("x"), node="")),
            ("long name", replace(report("x"), node="n" * 300)),
            ("negative cpu", replace(report("x"), cpu_milli=-1)),
            ("negative memory", replace(report("x"), memory_mib=-1)),
            (
                "too many cards",
                report("x", runs=[replace(report("x").cards[0], count=(1 << 20) + 1)]),
            ),
        ):
            yield _STRUCTURE + kind, replace(record, reports=(report("ok"), unsound))
    elif isinstance(record, r.JobSubmitRequested):
        yield _STRUCTURE + "no key", replace(record, job="")
        yield _STRUCTURE + "long key", replace(record, job="j" * 300)
        yield _STRUCTURE + "cancel of nothing", r.JobCancelRequested(1, "", None, "", "me")
        update = r.JobUpdateRequested(1, "", None, "", "me", None, None, ())
        yield _STRUCTURE + "update of nothing", update
    elif isinstance(record, r.PodSucceeded):
        yield _STRUCTURE + "no job", replace(record, job="")
        yield _STRUCTURE + "long job", replace(record, job="j" * 300)
        yield _STRUCTURE + "pod below 0", replace(record, pod=-1)
        yield _STRUCTURE + "attempt below 0", replace(record, attempt=-1)
    else:
        yield _STRUCTURE + "no name", queue("")
        yield _STRUCTURE + "long name", queue("q" * 300)
        yield _STRUCTURE + "no node", r.NodeCordoned(1, "", None, "", "me")
        yield _STRUCTURE + "drain of no node", r.NodeDrained(1, "", None, "", "me", 0)

"""What stands around a payload on Kafka: headers of events, of dead letters, of forwarded inputs.

Events follow the CloudEvents binding for Kafka, version 1.0, in its binary mode: attributes are
headers named `ce_...`, the payload is the message's value, and the header `content-type` says what
it is. Header values are UTF-8.
"""

import time
from collections.abc import Iterable
from functools import lru_cache
from typing import Protocol

from ganger.schemas.records import Source

Headers = list[tuple[str, str | bytes | None]]
"""What confluent's producer takes and its messages give; values are bytes, or nothing."""

CONTENT_TYPE = b"application/avro"
SOURCE_HEADER = "ganger_source"
"""Where a forwarded input first stood: `TOPIC ID/PARTITION/OFFSET`."""

ERROR_CLASS = "ganger.error.class"
ERROR_DETAIL = "ganger.error.detail"
SOURCE_TOPIC = "ganger.source.topic"
SOURCE_PARTITION = "ganger.source.partition"
SOURCE_OFFSET = "ganger.source.offset"

DETAIL_BYTES_MAX = 1024

_TOPIC_ID_CHARS_MAX = 64
_DIGITS_MAX = 19
_OFFSET_MAX = (1 << 63) - 1
_PARTITION_MAX = (1 << 31) - 1
_NS_PER_SECOND = 10**9


class Framing(Protocol):
    """From the schema ids of ganger to those on the wire, and back."""

    def outgoing(self, payload: bytes) -> bytes:
        """The bytes to send for a payload that ganger has encoded."""

    def incoming(self, payload: bytes) -> bytes:
        """The bytes that the codec reads for those received, whatever they are.

        Raises:
            PayloadRefused: they name a schema that is none of ganger's.
            KafkaFailed: which schema they name cannot be told now; they must not be skipped.
        """


class FixedIds:
    """Framing where there is no schema registry: ganger's own fixed ids are on the wire."""

    def outgoing(self, payload: bytes) -> bytes:
        """The payload itself."""
        return payload

    def incoming(self, payload: bytes) -> bytes:
        """The payload itself."""
        return payload


class SourceHeaderBad(ValueError):
    """A header `ganger_source` that names no position: the message is refused for it."""


def headers(record_type: str, cell: str, event_id: str, time_ns: int) -> Headers:
    """The headers of an event.

    Args:
        record_type: name of the record in `schemas`, as in `JobSubmitRequested`; `ce_type` is its
            full Avro name.
        cell: the cell that it belongs to; `ce_source` is `/ganger/cells/CELL`.
        event_id: unique among the events of the cell and type.
        time_ns: when it came about, UTC nanoseconds since 1970, of the years up to 9999.

    Returns:
        A new list of (name, value).
    """
    version, kind, source, content = _constant_headers(record_type, cell)
    return [
        version,
        ("ce_id", event_id.encode()),
        kind,
        source,
        ("ce_time", _rfc3339(time_ns)),
        content,
    ]


def dead_letter_headers(
    error_class: str,
    detail: str,
    topic: str,
    partition: int,
    offset: int,
    original: Iterable[tuple[str, str | bytes | None]] | None = None,
) -> Headers:
    """The headers of a refused message: its own, unchanged and in order, then why it was refused.

    Its key and value are to be sent as they are. A name that stands twice counts by its last value,
    which is the one given here.

    Args:
        error_class: class of the defect, as of `schemas.errors.Refusal`.
        detail: what was wrong; cut at `DETAIL_BYTES_MAX` bytes.
        topic: topic that the message was read from.
        partition: its partition there.
        offset: its offset there.
        original: its headers.
    """
    ours: Headers = [
        (ERROR_CLASS, error_class.encode()),
        (ERROR_DETAIL, _cut(detail)),
        (SOURCE_TOPIC, topic.encode()),
        (SOURCE_PARTITION, str(partition).encode()),
        (SOURCE_OFFSET, str(offset).encode()),
    ]
    return [*(original or ()), *ours]


def source_header(source: Source) -> tuple[str, bytes]:
    """The header of an input that is forwarded to another partition."""
    return SOURCE_HEADER, f"{source.topic}/{source.partition}/{source.offset}".encode()


def read_source(original: Iterable[tuple[str, str | bytes | None]] | None) -> Source | None:
    """Where a message first stood, if its headers say that it was forwarded.

    Anybody can write such a header, so who reads it has to compare the topic id with that of the
    topic which it forwards from.

    Returns:
        The position, with index 0; None without the header.

    Raises:
        SourceHeaderBad: the header stands more than once, or holds no position.
    """
    found = [value for name, value in original or () if name == SOURCE_HEADER]
    if not found:
        return None
    if len(found) > 1 or not isinstance(found[0], bytes):
        raise SourceHeaderBad(
            f"{SOURCE_HEADER} stands {len(found)} times, or without a value; give it once, as bytes"
        )
    parts = found[0].split(b"/")
    topic, partition, offset = parts if len(parts) == 3 else (b"", b"", b"")
    position = _number(partition, _PARTITION_MAX), _number(offset, _OFFSET_MAX)
    is_topic = 0 < len(topic) <= _TOPIC_ID_CHARS_MAX and topic.isascii()
    if not is_topic or position[0] is None or position[1] is None:
        raise SourceHeaderBad(
            f"{SOURCE_HEADER} is {found[0][:80]!r}; give TOPICID/PARTITION/OFFSET"
        )
    return Source(topic.decode(), position[0], position[1], 0)


def _number(text: bytes, largest: int) -> int | None:
    """A number without sign, leading zeros or spaces: one spelling for one position."""
    if not text.isdigit() or len(text) > _DIGITS_MAX or (text[:1] == b"0" and len(text) > 1):
        return None
    value = int(text)
    return value if value <= largest else None


@lru_cache(maxsize=4096)
def _constant_headers(record_type: str, cell: str) -> tuple[tuple[str, bytes], ...]:
    return (
        ("ce_specversion", b"1.0"),
        ("ce_type", f"ganger.{record_type}".encode()),
        ("ce_source", f"/ganger/cells/{cell}".encode()),
        ("content-type", CONTENT_TYPE),
    )


def _rfc3339(time_ns: int) -> bytes:
    second, fraction = divmod(time_ns, _NS_PER_SECOND)
    return b"%s.%09dZ" % (_second_text(second), fraction)


@lru_cache(maxsize=64)
def _second_text(second: int) -> bytes:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second)).encode()


def _cut(detail: str) -> bytes:
    """The detail's bytes, cut between characters."""
    data = detail.encode(errors="replace")
    return data[:DETAIL_BYTES_MAX].decode(errors="ignore").encode()

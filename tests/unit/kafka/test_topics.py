"""The topics' table, their AsyncAPI document, and the headers around payloads."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.schemas.codec import PAYLOAD_BYTES_MAX
from ganger.schemas.records import RECORD_TYPES, Source
from ganger.schemas.registry import NEWEST
from ganger.streams.kafka.cluster import asyncapi
from ganger.streams.kafka.cluster.topics import (
    CELLS,
    DECISIONS,
    INPUT_BYTES_MAX,
    INPUTS,
    LEDGER,
    MESSAGE_BYTES_MAX,
    TABLE_TOPICS,
    TOPICS,
    Cleanup,
    Partitions,
    topic_configs,
)
from ganger.streams.kafka.wire.envelope import (
    DETAIL_BYTES_MAX,
    SourceHeaderBad,
    dead_letter_headers,
    headers,
    read_source,
    source_header,
)

DOCUMENT = Path(__file__).parents[3] / "docs" / "asyncapi.json"

# ---- the table -----------------------------------------------------------------------------------


def test_every_record_has_its_topic() -> None:
    carried = {name for spec in TOPICS.values() for name in spec.records}
    assert carried <= set(NEWEST)
    assert carried >= {kind.__name__ for kind in RECORD_TYPES}
    inputs = [name for topic in INPUTS for name in TOPICS[topic].records]
    assert len(inputs) == len(set(inputs)), "an input has one topic"


def test_what_cannot_be_made_again_is_kept_whole() -> None:
    for name in (LEDGER, DECISIONS, CELLS):
        configs = topic_configs(TOPICS[name], 3)
        assert (configs["cleanup.policy"], configs["retention.ms"]) == ("delete", "-1")
        assert configs["retention.bytes"] == "-1"


def test_changelogs_are_compacted_and_never_deleted() -> None:
    for name in TABLE_TOPICS.values():
        configs = topic_configs(TOPICS[name], 1)
        assert (configs["cleanup.policy"], configs["retention.ms"]) == ("compact", "-1")


def test_cells_have_the_same_partition_everywhere() -> None:
    counts = {spec.partition_count(5) for name, spec in TOPICS.items() if name != CELLS}
    assert counts == {5} and TOPICS[CELLS].partition_count(5) == 1
    assert TOPICS[CELLS].partitions is Partitions.ONE


def test_what_is_made_from_an_input_fits() -> None:
    assert PAYLOAD_BYTES_MAX < INPUT_BYTES_MAX < MESSAGE_BYTES_MAX
    for spec in TOPICS.values():
        limit = INPUT_BYTES_MAX if spec.name in INPUTS else MESSAGE_BYTES_MAX
        assert spec.message_bytes_max == limit


@pytest.mark.parametrize(("copies", "needed"), [(1, "1"), (2, "1"), (3, "2"), (5, "2")])
def test_copies_that_a_write_needs(copies: int, needed: str) -> None:
    for spec in TOPICS.values():
        assert topic_configs(spec, copies)["min.insync.replicas"] == needed


def test_no_producer_s_clock_ends_a_message() -> None:
    for spec in TOPICS.values():
        stamped = topic_configs(spec, 1)["message.timestamp.type"] == "LogAppendTime"
        assert stamped or spec.cleanup is Cleanup.COMPACT


# ---- AsyncAPI ------------------------------------------------------------------------------------


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        for part in value.values():
            yield from references(part)
    elif isinstance(value, list):
        for part in value:
            yield from references(part)


def test_the_committed_document_is_what_the_generator_gives() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == asyncapi.text(), (
        "write it anew: .venv/bin/ganger topics asyncapi > docs/asyncapi.json"
    )


def test_the_document_names_every_topic_and_message() -> None:
    document = json.loads(asyncapi.text())
    channels = document["channels"]
    assert [channel["address"] for channel in channels.values()] == list(TOPICS)
    for channel, spec in zip(channels.values(), TOPICS.values(), strict=True):
        assert tuple(channel["messages"]) == (spec.records or ("Bytes",))
    messages = document["components"]["messages"]
    for name in {name for spec in TOPICS.values() for name in spec.records}:
        assert messages[name]["payload"]["schema"] == NEWEST[name].schema
        assert messages[name]["x-schema-id"] == NEWEST[name].schema_id
    actions = [operation["action"] for operation in document["operations"].values()]
    assert len(actions) == len(TOPICS) and actions.count("receive") == len(INPUTS)


def test_the_document_s_references_lead_somewhere() -> None:
    document = asyncapi.document()
    found = set(references(document))
    assert len(found) > len(TOPICS)
    for reference in found:
        value: Any = document
        for part in reference.removeprefix("#/").split("/"):
            value = value[part]


# ---- headers -------------------------------------------------------------------------------------


def test_headers_of_an_event() -> None:
    assert headers("JobSubmitRequested", "berlin-1", "e-4711", 1_767_225_600_000_000_001) == [
        ("ce_specversion", b"1.0"),
        ("ce_id", b"e-4711"),
        ("ce_type", b"ganger.JobSubmitRequested"),
        ("ce_source", b"/ganger/cells/berlin-1"),
        ("ce_time", b"2026-01-01T00:00:00.000000001Z"),
        ("content-type", b"application/avro"),
    ]


def test_headers_are_a_list_of_the_caller_s_own() -> None:
    headers("Tick", "a", "1", 0).clear()
    assert len(headers("Tick", "a", "2", 0)) == 6


@given(st.integers(0, 253_402_300_799 * 10**9))
def test_times_are_dates_of_rfc_3339(time_ns: int) -> None:
    value = dict(headers("Tick", "a", "1", time_ns))["ce_time"]
    assert isinstance(value, bytes)
    text, _, fraction = value.decode().removesuffix("Z").partition(".")
    seconds = (datetime.fromisoformat(text + "+00:00") - datetime.fromisoformat(EPOCH)).days
    assert len(fraction) == 9 and int(fraction) == time_ns % 10**9
    assert seconds == time_ns // (86_400 * 10**9)


EPOCH = "1970-01-01T00:00:00+00:00"


def test_dead_letters_keep_their_headers_and_say_why() -> None:
    own: list[tuple[str, str | bytes | None]] = [
        ("a", b"1"),
        ("a", None),
        ("ganger.error.class", b"x"),
    ]
    found = dead_letter_headers("truncated", "ends after 4 bytes", "ganger.jobs", 3, 17, own)
    assert found == [
        *own,
        ("ganger.error.class", b"truncated"),
        ("ganger.error.detail", b"ends after 4 bytes"),
        ("ganger.source.topic", b"ganger.jobs"),
        ("ganger.source.partition", b"3"),
        ("ganger.source.offset", b"17"),
    ]
    assert dead_letter_headers("a", "b", "t", 0, 0, None)[0] == ("ganger.error.class", b"a")


def test_details_are_cut_between_characters() -> None:
    detail = dict(dead_letter_headers("a", "é" * DETAIL_BYTES_MAX, "t", 0, 0))
    value = detail["ganger.error.detail"]
    assert value == ("é" * (DETAIL_BYTES_MAX // 2)).encode()
    odd = dict(dead_letter_headers("a", "x" + "é" * DETAIL_BYTES_MAX + "\ud800", "t", 0, 0))
    assert odd["ganger.error.detail"] == ("x" + "é" * (DETAIL_BYTES_MAX // 2 - 1)).encode()


@given(
    st.from_regex(r"[A-Za-z0-9_-]{22}", fullmatch=True),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
)
def test_a_forwarded_message_names_its_source(topic: str, partition: int, offset: int) -> None:
    source = Source(topic, partition, offset, 0)
    assert read_source([("ce_id", b"x"), source_header(source)]) == source


def test_without_the_header_nothing_was_forwarded() -> None:
    assert read_source(None) is None
    assert read_source([("source", b"t/1/2")]) is None


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b"t", b"t/1", b"/1/2", b"t/1/2/3", b"t/-1/2", b"t/1/ 2", b"t/01/2", b"t/1/1e3"),
        *(b"t/2147483648/0", b"t/0/9223372036854775808", b"t/0/" + b"9" * 5000, b"\xff/1/2"),
        *(b"t" * 65 + b"/1/2", "t/1/٣".encode(), None, "t/1/2"),
    ],
)
def test_a_header_that_names_no_source_is_refused(value: bytes | str | None) -> None:
    with pytest.raises(SourceHeaderBad):
        read_source([("ganger_source", value)])


def test_two_sources_are_refused() -> None:
    with pytest.raises(SourceHeaderBad):
        read_source([("ganger_source", b"t/1/2"), ("ganger_source", b"t/1/2")])

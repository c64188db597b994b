"""Framing by a schema registry, against one in this process."""

import base64
import json
from collections.abc import Iterator

import pytest

from ganger.schemas.codec import decode_untrusted
from ganger.schemas.encoding import encode_record
from ganger.schemas.errors import PayloadRefused, Refusal
from ganger.schemas.records import JobCancelRequested
from ganger.schemas.registry import NEWEST, frame_header
from ganger.streams.kafka.cluster.errors import RegistryRefused, RegistryUnavailable, SettingsBad
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.cluster.topics import JOBS, TOPICS
from ganger.streams.kafka.wire import schema_registry
from ganger.streams.kafka.wire.envelope import FixedIds
from ganger.streams.kafka.wire.schema_registry import (
    FRAMED_TOPICS,
    UNKNOWN_COUNT_MAX,
    UNKNOWN_SECONDS,
    RegistryIds,
    open_framing,
)
from support.fake_registry import FIRST_ID, FakeRegistry, serving

CANCEL = encode_record(
    JobCancelRequested(time_ns=1, event_id="e", source=None, job="j", requested_by="")
)


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with serving() as found:
        yield found


def settings_of(url: str, **more: str) -> KafkaSettings:
    properties = {
        "schema.registry.url": url,
        "schema.registry.retries.wait.ms": "1",
        "schema.registry.retries.max.wait.ms": "1",
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    return KafkaSettings("127.0.0.1:9092", properties)


def framed(registry_id: int) -> bytes:
    return frame_header(registry_id) + CANCEL[5:]


def test_without_a_registry_payloads_stay_as_they_are() -> None:
    framing = open_framing(KafkaSettings("127.0.0.1:9092"))
    assert isinstance(framing, FixedIds)
    assert framing.outgoing(CANCEL) == CANCEL and framing.incoming(b"\1x") == b"\1x"


def test_schemas_are_registered_by_topic_and_record(registry: FakeRegistry) -> None:
    open_framing(settings_of(registry.url))
    subjects = {
        f"{topic}-ganger.{record}" for topic in FRAMED_TOPICS for record in TOPICS[topic].records
    }
    assert set(registry.subjects) == subjects
    assert registry.compatibility == dict.fromkeys(subjects, "FULL_TRANSITIVE")
    assert "ganger.rows-ganger.RowsChanged" in subjects
    assert "ganger.jobs-ganger.JobCancelRequested" in subjects


def test_registering_again_gives_the_same_ids(registry: FakeRegistry) -> None:
    first = open_framing(settings_of(registry.url), [JOBS]).outgoing(CANCEL)
    kept = dict(registry.schemas)
    assert open_framing(settings_of(registry.url), [JOBS]).outgoing(CANCEL) == first
    assert registry.schemas == kept and len(kept) == len(TOPICS[JOBS].records)


def test_there_and_back(registry: FakeRegistry) -> None:
    for number in range(40):
        registry.add(json.dumps({"type": "enum", "name": f"N{number}", "symbols": ["A"]}))
    framing = open_framing(settings_of(registry.url), [JOBS])
    wire = framing.outgoing(CANCEL)
    assert int.from_bytes(wire[1:5], "big") >= FIRST_ID + 40
    assert wire[5:] == CANCEL[5:] and wire != CANCEL
    assert framing.incoming(wire) == CANCEL


def test_what_was_not_registered_is_not_sent(registry: FakeRegistry) -> None:
    framing = open_framing(settings_of(registry.url), [JOBS])
    with pytest.raises(LookupError, match="2401"):
        framing.outgoing(frame_header(NEWEST["Tick"].schema_id))


def test_another_one_s_schema_counts_by_its_canonical_form(registry: FakeRegistry) -> None:
    schema = {**NEWEST["JobCancelRequested"].schema, "doc": "by somebody else"}
    number = registry.add(json.dumps(schema, indent=4))
    framing = RegistryIds(settings_of(registry.url))
    assert framing.incoming(framed(number)) == CANCEL
    record = decode_untrusted(framing.incoming(framed(number)))
    assert isinstance(record, JobCancelRequested) and record.job == "j"
    assert registry.requests.count(f"GET /schemas/ids/{number}") == 1


@pytest.mark.parametrize("payload", [b"", b"\0\0\0", b"\1\0\0\0\7x", b"{json}"])
def test_what_is_not_framed_is_left_to_the_codec(registry: FakeRegistry, payload: bytes) -> None:
    assert RegistryIds(settings_of(registry.url)).incoming(payload) == payload
    assert registry.requests == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"type": "enum", "name": "A", "symbols": ["A"]}', "AVRO"),
        ('"string"', "AVRO"),
        ("not json", "AVRO"),
        ("[" * 3000 + "]" * 3000, "AVRO"),
        ('{"type": 3}', "AVRO"),
        ("null", "AVRO"),
        (json.dumps(NEWEST["JobCancelRequested"].schema), "JSON"),
    ],
)
def test_a_schema_that_is_not_ours_is_refused(registry: FakeRegistry, text: str, kind: str) -> None:
    number = registry.add(text, kind)
    with pytest.raises(PayloadRefused, match=f"schema id {number}") as refused:
        RegistryIds(settings_of(registry.url)).incoming(framed(number))
    assert refused.value.refusal is Refusal.UNKNOWN_SCHEMA


def test_an_unknown_id_is_refused_and_asked_for_again_later(registry: FakeRegistry) -> None:
    now = 100.0
    framing = RegistryIds(settings_of(registry.url), clock=lambda: now)
    for _ in range(3):
        with pytest.raises(PayloadRefused, match="schema id 7 is not in the registry"):
            framing.incoming(framed(7))
    assert len(registry.requests) == 1
    assert registry.add(json.dumps(NEWEST["JobCancelRequested"].schema)) == 7
    now += UNKNOWN_SECONDS
    assert framing.incoming(framed(7)) == CANCEL


def test_the_memory_of_unknown_ids_is_bounded(
    registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_registry, "UNKNOWN_COUNT_MAX", 3)
    framing = RegistryIds(settings_of(registry.url))
    for number in (11, 12, 13, 14, 14, 13, 11):
        with pytest.raises(PayloadRefused):
            framing.incoming(framed(number))
    asked = [int(request.rpartition("/")[2]) for request in registry.requests]
    assert asked == [11, 12, 13, 14, 11]
    assert UNKNOWN_COUNT_MAX > 3


def test_an_id_that_no_registry_gives_is_refused_unasked(registry: FakeRegistry) -> None:
    with pytest.raises(PayloadRefused, match="schema id 4294967295"):
        RegistryIds(settings_of(registry.url)).incoming(b"\0\xff\xff\xff\xff" + CANCEL[5:])
    assert registry.requests == []


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_failing_registry_may_be_asked_again(registry: FakeRegistry, status: int) -> None:
    number = registry.add(json.dumps(NEWEST["JobCancelRequested"].schema))
    framing = RegistryIds(settings_of(registry.url))
    registry.failing = status
    with pytest.raises(RegistryUnavailable, match="told to fail"):
        framing.incoming(framed(number))
    registry.failing = 0
    assert framing.incoming(framed(number)) == CANCEL


def test_a_server_that_is_no_registry_refuses_no_message(registry: FakeRegistry) -> None:
    registry.not_found_code = 404
    with pytest.raises(RegistryRefused):
        RegistryIds(settings_of(registry.url)).incoming(framed(99))


def test_a_registry_that_is_down_at_start_is_named() -> None:
    with serving() as registry:
        url = registry.url
    with pytest.raises(RegistryUnavailable, match=url):
        open_framing(settings_of(url), [JOBS])


def test_the_login_is_used_and_never_shown(registry: FakeRegistry) -> None:
    registry.login = "Basic " + base64.b64encode(b"ganger:s3cret@word").decode()
    properties = {"schema_registry_basic_auth_user_info": "ganger:s3cret@word"}
    open_framing(settings_of(registry.url, **properties), [JOBS])
    within = settings_of(registry.url.replace("//", "//ganger:s3cret%40word@"))
    open_framing(within, [JOBS])
    assert within.schema_registry_url == registry.url
    wrong = settings_of(registry.url.replace("//", "//ganger:0ther-one@"))
    with pytest.raises(RegistryRefused) as refused:
        open_framing(wrong, [JOBS])
    assert "0ther-one" not in str(refused.value) + repr(wrong)
    assert "s3cret" not in repr(within)


def test_a_property_that_the_client_does_not_take_is_named() -> None:
    with pytest.raises(SettingsBad, match=r"no\.such"):
        open_framing(settings_of("http://127.0.0.1:1", schema_registry_no_such="x"))
    with pytest.raises(SettingsBad, match=r"schema\.registry\.timeout"):
        open_framing(settings_of("http://127.0.0.1:1", schema_registry_timeout="long"))

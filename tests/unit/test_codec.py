"""Bytes of records: what they are, what cannot be written, what is refused when read."""

import struct
from typing import Any

import pytest
from msgspec.structs import replace

from ganger.schemas import decoding, encoding
from ganger.schemas.codec import (
    PAYLOAD_BYTES_MAX,
    decode_by_fastavro,
    decode_decision,
    decode_record,
    decode_untrusted,
)
from ganger.schemas.decisions import Decision
from ganger.schemas.encoding import (
    DECISION_LAYOUTS,
    decision_body,
    decision_hashed,
    decision_payload,
    encode_record,
)
from ganger.schemas.enums import (
    BackfillPreference,
    Communication,
    DecisionKind,
    Estimates,
    FailureKind,
    IdleClass,
    IslandPolicy,
    JobAction,
    LimitAction,
    PodEvent,
    Tier,
    Tri,
)
from ganger.schemas.errors import (
    EncodeError,
    PayloadCorrupt,
    PayloadRefused,
    Refusal,
    SchemaUnknown,
)
from ganger.schemas.reasons import Reason
from ganger.schemas.records import (
    Amount,
    Budget,
    CardSpan,
    EventAction,
    FlavorChoice,
    JobSubmitRequested,
    JobUpdateRequested,
    Label,
    NodeCordoned,
    PodFailed,
    PodGroup,
    PodRequest,
    PodStarted,
    Record,
    RetryPolicy,
    Role,
    Source,
    Tick,
    Topology,
)

REQUEST = PodRequest(2, 0, 0, 0, ("A100",), IslandPolicy.ANY, 4000, 1024, (), (), ())
SUBMIT = JobSubmitRequested(
    *(1_700_000_000_000_000_000, "ev-1", Source("t", 3, 1 << 40, 0), "job-1", "q", "u", "t", ""),
    *(0, (Role("worker", 4, 2, REQUEST),), 0, 3600 * 10**9, 0, False, True),
    *(BackfillPreference.ACCEPT, 0, 0, ("job-0",), RetryPolicy(3, 10**10, 10**11), -1, False),
)
STARTED = PodStarted(300, "", None, "j", 0, 1, "n", 300)
FAILED = PodFailed(300, "", None, "j", 0, 1, FailureKind.OUT_OF_MEMORY, -9, "killed", 301)
UPDATE = JobUpdateRequested(1, "e", None, "j", "me", 5, None, ())
DECISION = Decision(
    *("c", 4, 1, 300, DecisionKind.ALLOCATE, "j", "w", 0, 1, "n", (CardSpan(2, 3),), 0, 0),
    *(Tier.MAIN, 0, "", Reason.PLACED_IN_TURN, 3000, 8000, 0, b"\1\2", 0, 0, 0, b""),
    chain=b"\3" * 32,
)


def test_bytes_of_a_record_by_hand() -> None:
    assert encode_record(STARTED) == bytes.fromhex(
        "00 000001f5"  # framing, schema id 501
        "d804 00 00"  # 300 ns; no event id; no source
        "02 6a 00 02 02 6e d804"  # "j", pod 0, attempt 1, "n", 300 ns
    )


def test_bytes_of_a_decision_by_hand() -> None:
    body = bytes.fromhex(
        "02 63 08 02 d804 04 02 6a 02 77 00 02 02 6e"  # cell .. node
        "02 04 06 00 00 00"  # one span from card 2 of 3 cards; no card share
        "02 00 00 02 f02e 807d 00 04 0102"  # tier, until, for job, reason, numbers, policy
        "00 00 00 00"  # counts, digest
        "00000000 00000000 00000000 00000000"  # queue .. flavors
    )
    assert decision_body(DECISION) == body
    payload = bytes.fromhex("00 00001901") + body + b"\x40" + b"\3" * 32
    assert decision_payload(DECISION) == payload
    assert decision_payload(replace(DECISION, body=body)) == payload
    assert decode_decision(payload) == replace(DECISION, body=body)


def test_layout_1_is_fixed() -> None:
    """What released chains cover; a change here would break the proof of every ledger."""
    assert ",".join(DECISION_LAYOUTS[1]) == (
        "cell,cause_seq,index,time_ns,kind,job,role,pod,attempt,node,cards,card_milli,"
        "card_memory_mib,tier,protected_until_ns,for_job,reason,asked,free,limit,policy,"
        "started_count,evicted_count,waiting_count,digest,queue,rule,start_ns,start_late_ns,"
        "until_ns,estimate_ns,estimate_source,margin_ns,protect_ns,hold_ns,risk_milli,idle,count,"
        "order,considered,flavors"
    )
    assert decision_hashed(DECISION, 1) == decision_body(DECISION)
    with pytest.raises(KeyError):
        decision_hashed(DECISION, 0)


def test_a_run_of_rarely_used_fields_is_written_when_any_is_set() -> None:
    for changed in ({"card_milli": 5}, {"card_memory_mib": 7}, {"digest": b"d"}):
        decision = replace(DECISION, **changed)
        again = decode_decision(decision_payload(decision))
        assert replace(again, body=b"") == decision


REST: dict[str, Any] = {
    **dict.fromkeys(("queue", "rule"), "é"),
    **dict.fromkeys(("start_ns", "start_late_ns", "until_ns", "estimate_ns", "margin_ns"), 1 << 40),
    **dict.fromkeys(("protect_ns", "hold_ns", "risk_milli", "count", "order", "considered"), -1),
    "estimate_source": Estimates.CORRECTED,
    "idle": IdleClass.TIME,
    "flavors": (FlavorChoice("w", "cards_milli", "a"),),
}


@pytest.mark.parametrize("field", REST)
def test_each_field_of_few_decisions_is_kept(field: str) -> None:
    decision = replace(DECISION, **{field: REST[field]})
    payload = decision_payload(decision)
    assert replace(decode_decision(payload), body=b"") == decision
    assert payload != decision_payload(DECISION)


WISHES: dict[str, Any] = {
    "groups": (PodGroup("g", topology=Topology(1, 2)),),
    "topology": Topology(),
    "budget": Budget(),
    "start_request": (),
    **dict.fromkeys(("preempts", "preemptable"), Tri.YES),
    **dict.fromkeys(("priority_boost", "protected_ns", "grace_ns", "restarts_max"), 0),
    **dict.fromkeys(("min_success", "notice_ns"), 5),
    "actions": (EventAction(PodEvent.FAILED, (1, -1), "", JobAction.ABORT_JOB, 0),),
    "spot": True,
    "communication": Communication.LOW,
    "on_limit": LimitAction.END,
}


@pytest.mark.parametrize("field", WISHES)
def test_each_wish_of_few_jobs_is_kept(field: str) -> None:
    request = replace(SUBMIT, **{field: WISHES[field]})
    payload = encode_record(request)
    assert decode_record(payload) == decode_by_fastavro(payload) == request
    assert (payload == encode_record(SUBMIT)) == (request == SUBMIT)


def test_what_few_roles_say_is_kept() -> None:
    said = {"group": "g", "order": -2, "preempts": Tri.NO, "labels": (Label("k", "v"),)}
    for field, value in said.items():
        request = replace(SUBMIT, roles=(replace(SUBMIT.roles[0], **{field: value}),))
        payload = encode_record(request)
        assert decode_record(payload) == decode_by_fastavro(payload) == request != SUBMIT


NAMED = replace(SUBMIT, roles=(Role("w", 1, 1, replace(REQUEST, resources=(Amount("x", 1.5),))),))
UNWRITABLE: list[tuple[Any, str, str]] = [
    (replace(STARTED, pod=1 << 31), "pod", "an int of 32 bits"),
    (replace(STARTED, pod=-(1 << 31) - 1), "pod", "an int of 32 bits"),
    (replace(STARTED, time_ns=1 << 63), "time_ns", "an int of 64 bits"),
    (replace(STARTED, reported_ns=-(1 << 63) - 1), "reported_ns", "an int of 64 bits"),
    (replace(STARTED, attempt=2.5), "attempt", "an int of 32 bits"),
    (replace(STARTED, attempt="1"), "attempt", "an int of 32 bits"),
    (replace(STARTED, job=None), "job", "a str"),
    (replace(STARTED, job="\ud800"), "job", "a str without lone surrogates"),
    (replace(STARTED, node=b"n"), "node", "a str"),
    (replace(STARTED, source="x"), "source", "a Source"),
    (replace(STARTED, source=Source("t", 0, 0, 1 << 40)), "source.index", "an int of 32 bits"),
    (replace(FAILED, failure=77), "failure", "a member of FailureKind"),
    (replace(UPDATE, held="yes"), "held", "a bool"),
    (replace(UPDATE, priority=1 << 40), "priority", "an int of 32 bits"),
    (replace(SUBMIT, roles=[]), "roles", "a tuple"),
    (replace(SUBMIT, roles=None), "roles", "a tuple"),
    (replace(SUBMIT, dependencies=("a", 1)), "dependencies[1]", "a str"),
    (replace(SUBMIT, retry=None), "retry", "a RetryPolicy"),
    (NAMED, "roles[0].request.resources[0].count", "an int of 64 bits"),
    (DECISION, "(itself)", "a ledger record"),
    ("text", "(itself)", "a ledger record"),
    (Record(1, "", None), "(itself)", "a ledger record"),
]


@pytest.mark.parametrize(("record", "field", "expected"), UNWRITABLE)
def test_what_cannot_be_written(record: Any, field: str, expected: str) -> None:
    with pytest.raises(EncodeError) as error:
        encode_record(record)
    assert (error.value.record, error.value.field) == (type(record).__name__, field)
    assert expected in str(error.value)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"index": 1 << 31}, "index"),
        ({"tier": 9}, "tier"),
        ({"policy": "text"}, "policy"),
        ({"cards": [CardSpan(0, 1)]}, "cards"),
        ({"cards": (CardSpan(0, 1 << 31),)}, "cards[0].count"),
        ({"digest": 4}, "digest"),
    ],
)
def test_decisions_that_cannot_be_written(changes: dict[str, Any], field: str) -> None:
    decision = replace(DECISION, **changes)
    for encode in (decision_body, decision_payload, lambda d: decision_hashed(d, 1)):
        with pytest.raises(EncodeError) as error:
            encode(decision)
        assert error.value.field == field


def test_a_chain_that_cannot_be_written() -> None:
    with pytest.raises(EncodeError, match=r"Decision\.chain: 'x' cannot be encoded; give bytes"):
        decision_payload(replace(DECISION, chain="x"))


SAMPLES = (SUBMIT, STARTED, FAILED, UPDATE, replace(SUBMIT, roles=SUBMIT.roles * 3))


@pytest.mark.parametrize("record", SAMPLES)
def test_every_cut_is_refused(record: Record) -> None:
    payload = encode_record(record)
    for size in range(len(payload)):
        with pytest.raises(PayloadRefused) as refused:
            decode_untrusted(payload[:size])
        wanted = Refusal.TOO_SHORT if size < 5 else Refusal.TRUNCATED
        assert refused.value.refusal is wanted
    assert decode_untrusted(payload) == record  # and no cut has left a trace in the tables


def framed(schema_id: int, body: bytes) -> bytes:
    return b"\0" + struct.pack(">I", schema_id) + body


CORDON = encode_record(NodeCordoned(0, "", None, "n", "me"))
HOSTILE: list[tuple[bytes, Refusal]] = [
    (b"", Refusal.TOO_SHORT),
    (b"\0\0\0\0", Refusal.TOO_SHORT),
    (b"\1" + CORDON[1:], Refusal.BAD_MAGIC),
    (b'{"json": 1}', Refusal.BAD_MAGIC),
    (framed(1499, CORDON[5:]), Refusal.UNKNOWN_SCHEMA),
    (framed(0xFFFFFFFF, b""), Refusal.UNKNOWN_SCHEMA),
    (decision_payload(DECISION), Refusal.NOT_A_RECORD),
    (CORDON + b"\0", Refusal.TRAILING_BYTES),
    (CORDON * 2, Refusal.TRAILING_BYTES),
    (framed(1401, b"\0\0\1" + CORDON[8:]), Refusal.MALFORMED),  # union index -1
    (framed(1401, b"\0\0\4" + CORDON[8:]), Refusal.MALFORMED),  # union index 2
    (framed(1401, b"\0\0\0\2\xff\0"), Refusal.MALFORMED),  # text that is no UTF-8
    (framed(1401, b"\0\0\0\1\0"), Refusal.MALFORMED),  # text of length -1
    (framed(1401, b"\0\0\0\xfe\xff\xff\xff\x0f\0"), Refusal.TRUNCATED),  # text of 4 GiB
    (framed(1401, b"\0\0\0" + b"\xff" * 9 + b"\1\0"), Refusal.MALFORMED),  # length -2^63
    (framed(1401, b"\xff" * 9 + b"\2" + b"\0" * 4), Refusal.MALFORMED),  # 65 bits
    (framed(1401, b"\xff" * 11 + b"\0" * 4), Refusal.MALFORMED),  # a number without end
    (framed(1401, b"\x80\0" + CORDON[6:]), Refusal.NOT_CANONICAL),  # 0 in two bytes
    (framed(2401, b"\0\0\0\0\2"), Refusal.MALFORMED),  # a bool of 2
    (framed(901, b"\0\0\0\0\0\0\1\0\0\0"), Refusal.MALFORMED),  # enum index -1
    (framed(901, b"\0\0\0\0\0\0\x0e\0\0\0"), Refusal.MALFORMED),  # enum index 7 of 7
    (framed(901, b"\0\0\0\0\0\0\x80\0\0\0\0"), Refusal.MALFORMED),  # enum index in two bytes
    (framed(101, b"\0\0\0" + b"\xfe" * 9 + b"\1"), Refusal.TRUNCATED),  # 2^63 - 1 reports
    (framed(101, b"\0\0\0" + b"\xff" * 9 + b"\1"), Refusal.MALFORMED),  # -2^63 reports
    (framed(401, b"\0" * 7 + b"\2\2\0\0\0\2\0\0\0\0"), Refusal.NOT_CANONICAL),  # two blocks
    (framed(401, b"\0" * 7 + b"\1\6\0\0\0\0"), Refusal.MALFORMED),  # a block with its size
    (framed(501, b"\0\0\0\0\x80\x80\x80\x80\x10\0\0\0"), Refusal.MALFORMED),  # an int of 33 bits
]


@pytest.mark.parametrize(("payload", "refusal"), HOSTILE)
def test_hostile_bytes(payload: bytes, refusal: Refusal) -> None:
    with pytest.raises(PayloadRefused) as refused:
        decode_untrusted(payload)
    assert refused.value.refusal is refusal
    assert str(refused.value) == f"{refusal.value}: {refused.value.detail}"


def test_the_cap_is_checked_before_anything_else() -> None:
    message = FAILED
    payload = encode_record(replace(message, message="x" * PAYLOAD_BYTES_MAX))
    with pytest.raises(PayloadRefused) as refused:
        decode_untrusted(payload)
    assert refused.value.refusal is Refusal.TOO_LARGE
    assert decode_untrusted(payload, max_bytes=len(payload)) == decode_record(payload)
    with pytest.raises(PayloadRefused, match="too_large: 11 bytes; at most 10 are read"):
        decode_untrusted(b"{" * 11, max_bytes=10)


def test_corrupt_ledger_bytes_raise_one_kind_of_error() -> None:
    for payload, refusal in HOSTILE:
        if refusal is Refusal.UNKNOWN_SCHEMA:
            with pytest.raises(SchemaUnknown):
                decode_record(payload)
        elif refusal is not Refusal.NOT_CANONICAL:
            _corrupt_or_out_of_range(payload)
    with pytest.raises(PayloadCorrupt):
        decode_decision(CORDON)
    with pytest.raises(PayloadCorrupt):
        decode_decision(decision_payload(DECISION)[:-1])
    with pytest.raises(PayloadCorrupt):
        decode_decision(b"\2\0\0\0\0")


def _corrupt_or_out_of_range(payload: bytes) -> None:
    """Trusted bytes that do not decode say so; numbers too wide are left to who compares."""
    try:
        record = decode_record(payload)
    except PayloadCorrupt:
        return
    with pytest.raises(EncodeError):
        encode_record(record)


def test_tables_stay_bounded_and_right() -> None:
    """More names than the tables hold go through both ways, twice; long ones are not kept."""
    count = max(encoding.TEXTS_MAX, decoding.TEXTS_MAX) + 100
    long_names = [f"{number}-" + "x" * 300 for number in range(20)]
    names = [f"job-{number}" for number in range(count)] + long_names
    for _ in range(2):
        for name in names:
            record = replace(STARTED, job=name, node=name, time_ns=len(name) << 40)
            assert decode_record(encode_record(record)) == record
    assert 0 < len(encoding.TEXT) <= encoding.TEXTS_MAX
    assert 0 < len(decoding.TEXTS) <= decoding.TEXTS_MAX
    assert not any(name in encoding.TEXT for name in long_names)
    assert not any(name.encode() in decoding.TEXTS for name in long_names)


def test_equal_values_are_shared() -> None:
    one, other = (
        decode_record(encode_record(replace(SUBMIT, job=job, time_ns=time_ns)))
        for job, time_ns in (("a", 1), ("b", 2))
    )
    assert isinstance(one, JobSubmitRequested) and isinstance(other, JobSubmitRequested)
    assert one.roles is other.roles
    assert one.queue is other.queue


def test_a_reporters_clock_may_differ_from_the_appenders() -> None:
    for reported_ns in (300, 301, -300, 0, 1 << 62):
        record = replace(STARTED, reported_ns=reported_ns)
        payload = encode_record(record)
        assert decode_record(payload) == decode_by_fastavro(payload) == record


def test_a_clock_said_in_more_bytes_than_it_needs_is_not_written_so() -> None:
    tick = Tick(5, "", None, 1, True)
    plain = encode_record(tick)
    padded = plain[:5] + b"\x8a" + b"\x80" * 7 + b"\0" + plain[6:]
    assert decode_record(padded) == tick
    assert encode_record(tick) == plain


def test_a_tick_is_small() -> None:
    assert encode_record(Tick(0, "", None, 0, True)) == framed(2401, b"\0\0\0\0\1")

"""Nothing an outsider can send raises in the kernel: arbitrary well-typed records, in any order.

Sound records of a small cell are spoiled in up to three places, each by a value of the right type
that nobody should send, and mixed with records of random content. After each one the invariants
hold and every decision can be encoded; a snapshot taken anywhere goes on the same way; and every
job can still be explained.
"""

import os
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct, json, structs

from ganger.schemas import records as r
from ganger.schemas.codec import decode_decision
from ganger.schemas.encoding import decision_payload, encode_record
from ganger.schemas.enums import (
    BackfillPreference,
    FailureKind,
    JobAction,
    LimitScope,
    PodEvent,
    Tier,
)
from ganger.schemas.errors import EncodeError
from ganger.streams.intake import InputRefused, Intake
from ganger.streams.kernel import invariants, snapshot
from ganger.streams.kernel.digest import seal
from ganger.streams.kernel.explain import explain
from ganger.streams.kernel.state import State
from ganger.streams.kernel.step import HANDLERS, next_wake, step
from support import builders as b
from support.record_strategies import records

DEEP = os.environ.get("GANGER_PROFILE") == "deep"
PROFILE = settings(
    max_examples=5_000 if DEEP else 250,
    deadline=None,
    derandomize=not DEEP,
    suppress_health_check=list(HealthCheck),
)

JOBS = ("j0", "j1", "j2", "j3")
NODES = ("n0", "n1", "n2")
QUEUES = ("q", "top", "a", "b")

INTS = (
    *(-1, 0, 1, 2, 3, 64, 999, 1000, 1001, 4097),
    *((1 << 20) + 1, (1 << 30) + 1, (1 << 31) - 1, -(1 << 31), (1 << 32) - 1, 1 << 32),
    *((1 << 40), (1 << 40) + 1, (1 << 61), 1 << 62, (1 << 62) + 1, (1 << 63) - 1, -(1 << 63)),
)
TEXTS = ("", "q", "a", "n0", "j0", "worker", "cards_milli", "pods", "é\0\U0001f600", "x" * 70_000)

resources = st.sampled_from(((), (("nic", 1),), (("nic", 2), ("port", 3))))


@st.composite
def roles(draw: st.DrawFn) -> tuple[r.Role, ...]:
    made = []
    for name in ("worker", "side")[: draw(st.integers(1, 2))]:
        replicas = draw(st.integers(1, 3))
        asks = draw(
            st.sampled_from(
                (
                    {"cards": 1},
                    {"cards": 2, "same_island": True},
                    {"milli": 400, "card_memory": 10},
                    {"cpu": 500, "memory": 10},
                    {},
                )
            )
        )
        made.append(
            b.role(
                name, replicas, draw(st.integers(0, replicas)), resources=draw(resources), **asks
            )
        )
    return tuple(made)


@st.composite
def node_records(draw: st.DrawFn, kind: Any, now: int, node: str) -> r.Record:
    if kind is r.NodeLost:
        return r.NodeLost(now, "", None, node, 1, b.SECOND)
    if kind in (r.NodeCordoned, r.NodeUncordoned):
        return kind(now, "", None, node, "me")
    if kind is r.NodeDrained:
        return r.NodeDrained(now, "", None, node, "me", 0)
    report = b.report(
        node,
        4,
        island=2,
        failed=draw(st.sampled_from(((), (0,), (1, 2)))),
        resources=draw(resources),
        boot=draw(st.sampled_from(("boot-1", "boot-1", "boot-2"))),
        attempts=draw(st.sampled_from(((), (("j0", 0, 1),), (("ghost", 0, 1),)))),
        handled=draw(st.sampled_from((-1, 5, 50))),
        slots=draw(st.sampled_from((2, 20))),
    )
    return kind(now, "", None, report)


LATE = r.EventAction(PodEvent.JOB_PENDING, (), "", JobAction.ABORT_JOB, b.SECOND)
actions = st.lists(
    st.one_of(
        st.just(LATE),
        st.builds(
            lambda event, role, action: r.EventAction(event, (), role, action, 0),
            st.sampled_from([event for event in PodEvent if event not in (0, LATE.event)]),
            st.sampled_from(("", "worker")),
            st.sampled_from(list(JobAction)[1:]),
        ),
    ),
    max_size=3,
).map(tuple)


@st.composite
def job_records(draw: st.DrawFn, kind: Any, now: int, job: str) -> r.Record:
    if kind is r.JobCancelRequested:
        return r.JobCancelRequested(now, "", None, job, "me")
    held = draw(st.sampled_from((None, True, False)))
    if kind is r.JobUpdateRequested:
        scales = ((), (r.RoleScale("worker", 1, 1),), (r.RoleScale("side", 5, 0),))
        scale = draw(st.sampled_from(scales))
        active = draw(st.sampled_from((None, None, True, False)))
        return r.JobUpdateRequested(now, "", None, job, "me", None, held, scale, active)
    request = b.submission(
        job,
        *draw(roles()),
        queue=draw(st.sampled_from(QUEUES)),
        retries=draw(st.integers(0, 2)),
        backoff_ns=draw(st.sampled_from((0, b.SECOND))),
        held=bool(held),
        depends=draw(st.lists(st.sampled_from(JOBS), max_size=2)),
        ttl_ns=draw(st.sampled_from((-1, 0))),
        time_ns=now,
    )
    return structs.replace(
        request,
        actions=draw(actions),
        restarts_max=draw(st.sampled_from((-1, 0, 2))),
        min_success=draw(st.sampled_from((0, 0, 1, 2))),
        groups=draw(st.sampled_from(((), (r.PodGroup("g", "", 0),)))),
        can_checkpoint=True,
        accepts_suspend=True,
    )


@st.composite
def pod_facts(draw: st.DrawFn, kind: Any, now: int, job: str, node: str) -> r.Record:
    pod, attempt = draw(st.integers(0, 3)), draw(st.integers(1, 2))
    if kind is r.PodAdopted:
        spans = draw(st.sampled_from(((), (r.CardSpan(0, 1),), (r.CardSpan(2, 2),))))
        milli = draw(st.sampled_from((0, 0, 300)))
        names = (job, "worker", draw(st.sampled_from(QUEUES)), "u", "t", 0)
        held = (pod, attempt, node, spans, milli, 0, 5, 5, draw(st.sampled_from((0, 1))), 0)
        return r.PodAdopted(now, "", None, *names, *held, is_leaving=draw(st.booleans()))
    said: tuple[Any, ...] = ()
    if kind is r.PodStarted:
        said = (node,)
    elif kind is r.PodFailed:
        said = (draw(st.sampled_from((FailureKind.ERROR, FailureKind.START_FAILED))), 1, "")
    elif kind in (r.PodProgressed, r.PodCheckpointed, r.PodSuspended):
        said = (500,)
    return kind(now, "", None, job, pod, attempt, *said, now)


LIMITS = (
    r.Limit(LimitScope.USER, "", "waiting_jobs", 1),
    r.Limit(LimitScope.TENANT, "", "submissions_per_hour", 2),
    r.Limit(LimitScope.QUEUE, "", "waiting_jobs", 3, Tier.MAIN),
)


@st.composite
def control_records(draw: st.DrawFn, kind: Any, now: int, node: str) -> r.Record:
    if kind is r.QueueConfigured:
        parent = draw(st.sampled_from(("", "top", "a")))
        limit = draw(st.sampled_from((None, {"cards_milli": 2000}, {"nic": 1})))
        queue = draw(st.sampled_from(QUEUES))
        record = b.queue(queue, parent=parent, capability=limit, removed=draw(st.booleans()))
        limits = draw(st.lists(st.sampled_from(LIMITS), max_size=2))
        return structs.replace(record, limits=tuple(limits))
    if kind is r.PolicyConfigured:
        return b.policy(settings=draw(st.sampled_from((None, {"tick_max_ns": "1000000000"}))))
    if kind is r.ReservationRequested:
        window = (b.GENESIS, now + b.SECOND)
        return r.ReservationRequested(now, "", None, "r", "me", (node,), 0, *window, False)
    if kind is r.Tick:
        return r.Tick(now, "", None, 0, True)
    if kind is r.FlagEnabled:
        return r.FlagEnabled(now, "", None, 1)
    return draw(records(kind.__name__))


KINDS = tuple(sorted(HANDLERS, key=lambda kind: kind.__name__))


@st.composite
def sound(draw: st.DrawFn, kinds: tuple[type[r.Record], ...] = KINDS) -> r.Record:
    """A record as a sane client, node or operator of the cell might send it."""
    kind = draw(st.sampled_from(kinds))
    now = b.GENESIS + draw(st.integers(0, 100)) * b.SECOND
    job, node = draw(st.sampled_from(JOBS)), draw(st.sampled_from(NODES))
    if kind.__name__.startswith("Node"):
        return draw(node_records(kind, now, node))
    if kind.__name__.startswith("Job"):
        return draw(job_records(kind, now, job))
    if kind.__name__.startswith("Pod"):
        return draw(pod_facts(kind, now, job, node))
    return draw(control_records(kind, now, node))


Path = tuple[str | int, ...]


def leaves(value: Any, path: Path = ()) -> list[Path]:
    """Paths of all that can be spoiled in a record: its fields and theirs, tuples and items."""
    if isinstance(value, Struct):
        steps: list[tuple[str | int, Any]] = [
            (name, getattr(value, name)) for name in value.__struct_fields__
        ]
    elif isinstance(value, tuple):
        steps = list(enumerate(value))
    else:
        return [path]
    own = [path] if path else []
    return own + [leaf for name, part in steps for leaf in leaves(part, (*path, name))]


def put(value: Any, path: Path, change: Any) -> Any:
    """The value with another one at a path; `change` makes it of the old one."""
    if not path:
        return change(value)
    if isinstance(value, Struct):
        name = str(path[0])
        return structs.replace(value, **{name: put(getattr(value, name), path[1:], change)})
    place = int(path[0])
    return (*value[:place], put(value[place], path[1:], change), *value[place + 1 :])


@st.composite
def spoiled(draw: st.DrawFn, kinds: tuple[type[r.Record], ...] = KINDS) -> r.Record:
    """A sound record with something wrong in it; what no schema lets through stays sound."""
    record = draw(sound(kinds))
    for _ in range(draw(st.sampled_from((0, 0, 1, 1, 2, 3)))):
        path = draw(st.sampled_from(leaves(record)))

        def change(old: Any) -> Any:
            if isinstance(old, bool):
                return not old
            if isinstance(old, tuple):
                return draw(st.sampled_from((old + old, old * 40, old * 5000, old[:0], old[::-1])))
            if isinstance(old, str):
                return draw(st.sampled_from(TEXTS))
            if isinstance(old, BackfillPreference | FailureKind):
                return draw(st.sampled_from(list(type(old))))
            if type(old) is int:
                return draw(st.sampled_from(INTS))
            return old

        worse = put(record, path, change)
        try:
            encode_record(worse)
        except EncodeError:
            continue
        record = worse
    return record


hostile = st.one_of(
    spoiled(),
    spoiled(),
    spoiled(),
    st.sampled_from(sorted(kind.__name__ for kind in HANDLERS)).flatmap(records),
)


def begin() -> b.Cell:
    """A cell in which something runs, something waits and something is shared."""
    cell = b.Cell(checks=False).start(b.queue("top"), b.queue("a", parent="top"), b.queue("q"))
    cell.put(*[b.node(name, 4, island=2, resources=(("nic", 4),)) for name in NODES[:2]])
    cell.submit("j0", b.role("worker", 2, 1, cards=1), b.role("side", 1, 0), retries=1)
    cell.submit("j1", b.role(milli=300, card_memory=10), queue="a")
    cell.submit("j2", b.role(replicas=9, cards=4))
    cell.tick()
    cell.started("j0")
    return cell


def survive(state: State, record: r.Record) -> list[Any]:
    """Step a record and look at everything that came of it."""
    made = step(state, state.next_seq, record)
    for decision in made:
        again = decode_decision(decision_payload(decision))
        assert structs.replace(decision, body=b"") == structs.replace(again, body=b"")
    invariants.check(state)
    wake = next_wake(state)
    assert wake is None or 0 <= wake < 1 << 63
    return made


@PROFILE
@given(st.lists(hostile, min_size=1, max_size=20), st.integers(0, 20))
def test_any_records_in_any_order(stream: list[r.Record], cut: int) -> None:
    state = begin().state
    other: State | None = None
    for place, record in enumerate(stream):
        if place == cut:
            other = snapshot.fork(state)
            assert snapshot.encode(other) == snapshot.encode(state)
        made = survive(state, record)
        if other is not None:
            assert step(other, other.next_seq, record) == made
    for ticks in range(3):
        tick = r.Tick(state.clock_ns + ticks, "", None, state.epoch, True)
        made = survive(state, tick)
        if other is not None:
            assert step(other, other.next_seq, tick) == made
    restored = snapshot.fork(state)
    assert seal(restored) == seal(state)
    assert snapshot.encode(restored) == snapshot.encode(state)
    for key in state.job_by_key:
        assert json.encode(explain(state, key))


inputs = st.one_of(
    st.builds(
        lambda record: r.NodeHeartbeat(record.time_ns, record.event_id, None, (record.report,)),
        spoiled((r.NodeChanged, r.NodeReturned)),
    ),
    hostile,
    records("NodeHeartbeat"),
)


@PROFILE
@given(st.lists(inputs, min_size=1, max_size=10))
def test_intake_refuses_or_passes_on(stream: list[r.Record]) -> None:
    """What intake lets through of nodes the kernel takes: it cannot hear of a refusal."""
    cell = begin()
    intake = Intake("cell", "i")
    intake.claim(cell.now_ns)
    intake.claimed(1)
    for record in stream:
        try:
            passed = intake.accept(record, cell.now_ns)
        except InputRefused:
            continue
        for one in passed:
            encode_record(one)
            made = survive(cell.state, one)
            if isinstance(one, r.NodeChanged | r.NodeReturned):
                assert one.report.node in cell.state.node_by_name
                assert not any(d.reason.name == "VALUE_OUT_OF_RANGE" for d in made)
    for record in intake.silence(cell.now_ns + 10**12):
        survive(cell.state, record)

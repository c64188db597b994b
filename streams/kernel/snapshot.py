"""Canonical bytes of a state, and back. Equal states have equal bytes; what is derived is left out.

A snapshot is disposable: the ledger makes it again. So its layout may change with any version;
`VERSION` says which one it is, and another is not read.
"""

import msgspec

from ganger.schemas.enums import Estimates, Phase, Tier
from ganger.schemas.reasons import Reason
from ganger.schemas.records import (
    FlavorChoice,
    FlavorConfigured,
    JobSubmitRequested,
    NodeReport,
    PolicyConfigured,
    QueueConfigured,
    ReservationRequested,
    Role,
    ZoneConfigured,
)
from ganger.streams.kernel.derive import rebuild
from ganger.streams.kernel.digest import seal
from ganger.streams.kernel.entities import (
    Booking,
    Claim,
    ClaimEntry,
    Job,
    Node,
    Pod,
    Queue,
    RoleState,
    Row,
    Submissions,
    Usage,
)
from ganger.streams.kernel.nodes.windows import Place
from ganger.streams.kernel.policies.registry import build
from ganger.streams.kernel.resources import bonds_of, rest_of
from ganger.streams.kernel.state import State

VERSION = 3


class SnapshotUnreadable(Exception):
    """The bytes are no snapshot of this version; delete it, the ledger makes it again."""


class _PodRow(msgspec.Struct, array_like=True, gc=False):
    job: int
    index: int
    attempt: int
    node: int
    mask: bytes
    card_milli: int
    card_memory: int
    tier: Tier
    phase: Phase
    allocated_seq: int
    allocated_ns: int
    started_ns: int
    evict_seq: int
    evict_reason: Reason
    progress_milli: int
    checkpoint_milli: int
    protected_until_ns: int
    notice_until_ns: int
    expect_ns: int
    protect_ns: int
    for_job: int
    suspended_ns: int
    ran_ns: int
    earlier_ns: int
    is_current: bool


class _RoleRow(msgspec.Struct, array_like=True, gc=False):
    replicas: int
    fresh: int
    returned: tuple[int, ...]
    live: int
    succeeded: int


class _JobRow(msgspec.Struct, array_like=True, gc=False):
    seq: int
    request: JobSubmitRequested
    roles: tuple[Role, ...] | None  # none: those of the request
    min_available: int
    queue: int
    priority: int
    phase: Phase
    held: bool
    submitted_ns: int
    states: tuple[_RoleRow, ...]
    attempts: tuple[tuple[int, int], ...]
    failures: tuple[tuple[int, int], ...]
    avoid: tuple[int, ...]
    dependencies: tuple[int, ...]
    not_before_ns: int
    first_started_ns: int
    last_tier: Tier
    ending: Phase
    reason: Reason
    asked: int
    limit: int
    ended_ns: int
    right: tuple[int, ...]
    flavors: tuple[FlavorChoice, ...]
    admitted_counts: tuple[int, ...]
    requeues: int
    restarts: int
    stale_since_ns: int
    admitted_ns: int
    waiting_since_ns: int
    restarted_seq: int
    wishes: tuple[int, ...]
    estimate_ns: int
    estimate_source: Estimates
    promise: tuple[int, ...]
    credit: int
    lost_milli_ns: int


class _NodeRow(msgspec.Struct, array_like=True, gc=False):
    report: NodeReport
    is_lost: bool
    is_cordoned: bool
    is_draining: bool
    lost_seq: int
    unknown: tuple[tuple[str, int, int], ...]


class _QueueRow(msgspec.Struct, array_like=True, gc=False):
    config: QueueConfigured
    parent: int
    is_removed: bool
    progress: int


class _ClaimRow(msgspec.Struct, array_like=True, gc=False):
    job: int
    since_ns: int
    until_ns: int
    entries: tuple[tuple[int, int, bytes, int, int], ...]
    victims: tuple[tuple[int, int, int], ...]
    reason: Reason


class _BookingRow(msgspec.Struct, array_like=True, gc=False):
    job: int
    start_ns: int
    until_ns: int
    cards: int
    entries: tuple[tuple[int, int], ...]
    places: tuple[tuple[int, int, bytes], ...] = ()  # missing in rows made before there were any


class _Snapshot(msgspec.Struct, array_like=True, gc=False):
    version: int
    cell: str
    next_seq: int
    clock_ns: int
    epoch: int
    claim: int
    chain: bytes
    digest: bytes
    flags: tuple[int, ...]
    policy: PolicyConfigured | None
    nodes: list[_NodeRow]
    queues: list[_QueueRow]
    jobs: list[_JobRow]
    pods: list[_PodRow]
    reservations: list[ReservationRequested]
    sources: list[tuple[str, int, int, int]]
    event_ids: list[tuple[str, int]]
    progress: int
    flavors: list[FlavorConfigured]
    zones: list[ZoneConfigured]
    claims: list[_ClaimRow]
    usage: list[tuple[int, str, tuple[tuple[int, int], ...]]]
    submissions: list[tuple[int, str, str, tuple[tuple[int, int], ...]]]
    memory: list[tuple[str, tuple[int, ...]]]
    bookings: list[_BookingRow]
    knobs: tuple[int, ...]
    stirred: int
    places: list[tuple[str, tuple[tuple[int, bytes], ...]]] = []  # missing where none were kept


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Snapshot)


def encode(state: State) -> bytes:
    """Bytes of the state after its last record."""
    digest = seal(state)
    jobs = [state.jobs[seq] for seq in sorted(state.jobs)]
    pods = [
        (pod, state.jobs[pod.job].pods)
        for node in state.nodes
        for _, pod in sorted(node.pods.items())
    ]
    snapshot = _Snapshot(
        VERSION,
        state.cell,
        state.next_seq,
        state.clock_ns,
        state.epoch,
        state.claim,
        state.chain,
        digest,
        state.flags,
        state.policy_record,
        [
            _NodeRow(n.report, n.is_lost, n.is_cordoned, n.is_draining, n.lost_seq, n.unknown)
            for n in state.nodes
        ],
        [_QueueRow(q.config, q.parent, q.is_removed, q.progress) for q in state.queues],
        [_job_row(job) for job in jobs],
        [_pod_row(pod, current) for pod, current in pods],
        [state.reservations[name] for name in sorted(state.reservations)],
        [(*place, *position) for place, position in sorted(state.sources.items())],
        list(state.event_ids.items()),
        state.progress,
        [state.flavors[name] for name in sorted(state.flavors)],
        [state.zones[name] for name in sorted(state.zones)],
        [_claim_row(state.claims[seq]) for seq in sorted(state.claims)],
        [(*key, tuple(sorted(u.hours.items()))) for key, u in sorted(state.usage.items())],
        [(*key, tuple(sorted(s.minutes.items()))) for key, s in sorted(state.submissions.items())],
        [(name, state.memory[name].values) for name in sorted(state.memory)],
        [_booking_row(state.bookings[seq]) for seq in sorted(state.bookings)],
        state.knobs,
        state.stirred,
        [
            (name, tuple([(place.node, _mask_bytes(place.mask)) for place in state.places[name]]))
            for name in sorted(state.places)
        ],
    )
    return _encoder.encode(snapshot)


def _mask_bytes(mask: int) -> bytes:
    return mask.to_bytes((mask.bit_length() + 7) // 8, "little")


def _booking_row(booking: Booking) -> _BookingRow:
    return _BookingRow(
        booking.job,
        booking.start_ns,
        booking.until_ns,
        booking.cards,
        booking.entries,
        tuple((e.role, e.node, _mask_bytes(e.mask)) for e in booking.places),
    )


def _claim_row(claim: Claim) -> _ClaimRow:
    return _ClaimRow(
        claim.job,
        claim.since_ns,
        claim.until_ns,
        tuple(
            (e.role, e.node, _mask_bytes(e.mask), e.card_milli, e.card_memory)
            for e in claim.entries
        ),
        claim.victims,
        claim.reason,
    )


def _pod_row(pod: Pod, current: dict[int, Pod] | None) -> _PodRow:
    return _PodRow(
        pod.job,
        pod.index,
        pod.attempt,
        pod.node,
        _mask_bytes(pod.mask),
        pod.card_milli,
        pod.card_memory,
        pod.tier,
        pod.phase,
        pod.allocated_seq,
        pod.allocated_ns,
        pod.started_ns,
        pod.evict_seq,
        pod.evict_reason,
        pod.progress_milli,
        pod.checkpoint_milli,
        pod.protected_until_ns,
        pod.notice_until_ns,
        pod.expect_ns,
        pod.protect_ns,
        pod.for_job,
        pod.suspended_ns,
        pod.ran_ns,
        pod.earlier_ns,
        current is not None and current.get(pod.index) is pod,
    )


def _job_row(job: Job) -> _JobRow:
    roles, min_available = job.shape.key
    return _JobRow(
        job.seq,
        job.request,
        None if roles == job.request.roles else roles,
        min_available,
        job.queue,
        job.priority,
        job.phase,
        job.held,
        job.submitted_ns,
        tuple(
            _RoleRow(r.replicas, r.fresh, tuple(r.returned or ()), r.live, r.succeeded)
            for r in job.roles
        ),
        tuple(sorted((job.attempts or {}).items())),
        tuple(sorted((job.failures or {}).items())),
        job.avoid,
        job.dependencies,
        job.not_before_ns,
        job.first_started_ns,
        job.last_tier,
        job.ending,
        job.reason,
        job.asked,
        job.limit,
        job.ended_ns,
        job.right,
        job.flavors,
        job.admitted_counts,
        job.requeues,
        job.restarts,
        job.stale_since_ns,
        job.admitted_ns,
        job.waiting_since_ns,
        job.restarted_seq,
        job.wishes,
        job.estimate_ns,
        job.estimate_source,
        job.promise,
        job.credit,
        job.lost_milli_ns,
    )


def decode(data: bytes) -> State:
    """The state of a snapshot, everything derived made anew.

    Raises:
        SnapshotUnreadable: not a snapshot of this version, or its digest is not that of its
            content.
    """
    try:
        snapshot = _decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise SnapshotUnreadable(f"not a snapshot: {error}") from error
    if snapshot.version != VERSION:
        raise SnapshotUnreadable(f"snapshot version {snapshot.version}, this is {VERSION}")
    state = State(snapshot.cell, snapshot.chain)
    state.next_seq = snapshot.next_seq
    state.clock_ns = snapshot.clock_ns
    state.epoch = snapshot.epoch
    state.claim = snapshot.claim
    state.flags = snapshot.flags
    state.policy_record = snapshot.policy
    if snapshot.policy is not None:
        state.policy = build(snapshot.policy)
    for index, queue in enumerate(snapshot.queues):
        kept = Queue(index, queue.config, queue.parent, queue.is_removed, queue.progress)
        state.queues.append(kept)
        state.queue_by_name[queue.config.queue] = index
    for index, node in enumerate(snapshot.nodes):
        entity = Node(index, node.report, node.is_lost, node.is_cordoned, node.is_draining)
        entity.lost_seq, entity.unknown = node.lost_seq, node.unknown
        state.nodes.append(entity)
        state.node_by_name[node.report.node] = index
    for job in snapshot.jobs:
        _add_job(state, job)
    for pod in snapshot.pods:
        _add_pod(state, pod)
    state.reservations = {r.reservation: r for r in snapshot.reservations}
    state.places = {
        name: tuple([Place(node, int.from_bytes(mask, "little")) for node, mask in places])
        for name, places in snapshot.places
    }
    state.sources = {(s[0], s[1]): (s[2], s[3]) for s in snapshot.sources}
    state.event_ids = dict(snapshot.event_ids)
    _add_rest(state, snapshot)
    return _checked(state, snapshot.digest)


def _add_rest(state: State, snapshot: _Snapshot) -> None:
    """Flavors, zones, claims, counts and what policies have learnt."""
    state.progress = snapshot.progress
    state.flavors = {flavor.flavor: flavor for flavor in snapshot.flavors}
    state.zones = {zone.zone: zone for zone in snapshot.zones}
    for row in snapshot.claims:
        entries = tuple(
            ClaimEntry(role, node, int.from_bytes(mask, "little"), milli, memory)
            for role, node, mask, milli, memory in row.entries
        )
        state.claims[row.job] = Claim(
            row.job, row.since_ns, row.until_ns, entries, row.victims, row.reason
        )
    for queue, user, hours in snapshot.usage:
        state.usage[(queue, user)] = Usage(queue, user, dict(hours))
    for queue, user, tenant, minutes in snapshot.submissions:
        made = Submissions(queue, user, tenant, dict(minutes))
        state.submissions[(queue, user, tenant)] = made
    state.memory = {name: Row(name, values) for name, values in snapshot.memory}
    for kept in snapshot.bookings:
        state.bookings[kept.job] = Booking(
            kept.job,
            kept.start_ns,
            kept.until_ns,
            kept.cards,
            kept.entries,
            tuple(ClaimEntry(r, node, int.from_bytes(m, "little")) for r, node, m in kept.places),
        )
    state.knobs = snapshot.knobs
    state.stirred = snapshot.stirred


def _checked(state: State, digest: bytes) -> State:
    made = rebuild(state)
    if made != digest:
        raise SnapshotUnreadable(
            f"digest {made.hex()} of its content is not its own {digest.hex()}"
        )
    return state


def _add_job(state: State, row: _JobRow) -> None:
    roles = row.request.roles if row.roles is None else row.roles
    request = row.request
    bonds = bonds_of(request.groups, request.topology, request.start_request)
    job = Job(
        row.seq,
        row.request,
        state.shapes.take(roles, row.min_available, bonds),
        row.queue,
        row.priority,
        row.phase,
        row.held,
        row.submitted_ns,
        [
            RoleState(r.replicas, r.fresh, list(r.returned) or None, r.live, r.succeeded)
            for r in row.states
        ],
    )
    job.pods = {} if any(r.fresh for r in row.states) else None  # none: never placed
    job.attempts = dict(row.attempts) or None
    job.failures = dict(row.failures) or None
    job.avoid = row.avoid
    job.dependencies = row.dependencies
    job.not_before_ns = row.not_before_ns
    job.first_started_ns = row.first_started_ns
    job.last_tier = row.last_tier
    job.ending = row.ending
    job.reason = row.reason
    job.asked = row.asked
    job.limit = row.limit
    job.ended_ns = row.ended_ns
    job.right = row.right
    job.flavors = row.flavors
    job.admitted_counts = row.admitted_counts
    job.requeues = row.requeues
    job.restarts = row.restarts
    job.stale_since_ns = row.stale_since_ns
    job.admitted_ns = row.admitted_ns
    job.waiting_since_ns = row.waiting_since_ns
    job.restarted_seq = row.restarted_seq
    job.wishes = row.wishes
    job.estimate_ns = row.estimate_ns
    job.estimate_source = row.estimate_source
    job.promise = row.promise
    job.credit = row.credit
    job.lost_milli_ns = row.lost_milli_ns
    job.is_scaled = job.shape.key != (row.request.roles, row.request.min_available)
    state.jobs[job.seq] = job
    state.job_by_key[job.request.job] = job.seq


def _add_pod(state: State, row: _PodRow) -> None:
    job = state.jobs[row.job]
    shape = job.shape.shapes[row.index % len(job.roles)]
    if shape.cards_milli and not row.mask:
        shape = rest_of(shape)  # suspended
    pod = Pod(
        row.job,
        row.index,
        row.attempt,
        row.node,
        shape,
        int.from_bytes(row.mask, "little"),
        row.card_milli,
        row.card_memory,
        row.tier,
        row.phase,
        row.allocated_seq,
        row.allocated_ns,
    )
    pod.started_ns = row.started_ns
    pod.evict_seq = row.evict_seq
    pod.evict_reason = row.evict_reason
    pod.progress_milli = row.progress_milli
    pod.checkpoint_milli = row.checkpoint_milli
    pod.protected_until_ns = row.protected_until_ns
    pod.notice_until_ns = row.notice_until_ns
    pod.expect_ns = row.expect_ns
    pod.protect_ns = row.protect_ns
    pod.for_job = row.for_job
    pod.suspended_ns = row.suspended_ns
    pod.ran_ns = row.ran_ns
    pod.earlier_ns = row.earlier_ns
    state.nodes[row.node].pods[(pod.job, pod.index, pod.attempt)] = pod
    if row.is_current:
        if job.pods is None:
            job.pods = {}
        job.pods[pod.index] = pod


def fork(state: State) -> State:
    """A copy that shares nothing with the original."""
    return decode(encode(state))

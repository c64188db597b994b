"""Canonical bytes of a state, and back. Equal states have equal bytes; what is derived is left out.

A snapshot is disposable: the ledger makes it again. So its layout may change with any version;
`VERSION` says which one it is, and another is not read.
"""

import msgspec

from ganger.schemas.enums import Phase, Tier
from ganger.schemas.reasons import Reason
from ganger.schemas.records import (
    JobSubmitRequested,
    NodeReport,
    PolicyConfigured,
    QueueConfigured,
    ReservationRequested,
    Role,
)
from ganger.streams.kernel.derive import rebuild
from ganger.streams.kernel.digest import seal
from ganger.streams.kernel.entities import Job, Node, Pod, Queue, RoleState
from ganger.streams.kernel.policies.registry import build
from ganger.streams.kernel.state import State

VERSION = 1


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
        [_QueueRow(q.config, q.parent, q.is_removed) for q in state.queues],
        [_job_row(job) for job in jobs],
        [_pod_row(pod, current) for pod, current in pods],
        [state.reservations[name] for name in sorted(state.reservations)],
        [(*place, *position) for place, position in sorted(state.sources.items())],
        list(state.event_ids.items()),
    )
    return _encoder.encode(snapshot)


def _pod_row(pod: Pod, current: dict[int, Pod] | None) -> _PodRow:
    return _PodRow(
        pod.job,
        pod.index,
        pod.attempt,
        pod.node,
        pod.mask.to_bytes((pod.mask.bit_length() + 7) // 8, "little"),
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
        state.queues.append(Queue(index, queue.config, queue.parent, queue.is_removed))
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
    state.sources = {(s[0], s[1]): (s[2], s[3]) for s in snapshot.sources}
    state.event_ids = dict(snapshot.event_ids)
    return _checked(state, snapshot.digest)


def _checked(state: State, digest: bytes) -> State:
    made = rebuild(state)
    if made != digest:
        raise SnapshotUnreadable(
            f"digest {made.hex()} of its content is not its own {digest.hex()}"
        )
    return state


def _add_job(state: State, row: _JobRow) -> None:
    roles = row.request.roles if row.roles is None else row.roles
    job = Job(
        row.seq,
        row.request,
        state.shapes.take(roles, row.min_available),
        row.queue,
        row.priority,
        row.phase,
        row.held,
        row.submitted_ns,
        [
            RoleState(r.replicas, r.fresh, list(r.returned) or None, r.live, r.succeeded)
            for r in row.states
        ],
        {} if any(r.fresh for r in row.states) else None,  # none: never placed
        dict(row.attempts) or None,
        dict(row.failures) or None,
        row.avoid,
        row.dependencies,
        row.not_before_ns,
        row.first_started_ns,
        row.last_tier,
        row.ending,
        row.reason,
        row.asked,
        row.limit,
        row.ended_ns,
    )
    job.is_scaled = job.shape.key != (row.request.roles, row.request.min_available)
    state.jobs[job.seq] = job
    state.job_by_key[job.request.job] = job.seq


def _add_pod(state: State, row: _PodRow) -> None:
    job = state.jobs[row.job]
    pod = Pod(
        row.job,
        row.index,
        row.attempt,
        row.node,
        job.shape.shapes[row.index % len(job.roles)],
        int.from_bytes(row.mask, "little"),
        row.card_milli,
        row.card_memory,
        row.tier,
        row.phase,
        row.allocated_seq,
        row.allocated_ns,
        row.started_ns,
        row.evict_seq,
        row.evict_reason,
        row.progress_milli,
        row.checkpoint_milli,
    )
    state.nodes[row.node].pods[(pod.job, pod.index, pod.attempt)] = pod
    if row.is_current:
        if job.pods is None:
            job.pods = {}
        job.pods[pod.index] = pod


def fork(state: State) -> State:
    """A copy that shares nothing with the original."""
    return decode(encode(state))

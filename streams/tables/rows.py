"""The tables that people and services see: kernel state, row by row. Pure; nothing is decided from
rows.

Rows are flat, enums are given by name, units stand last in names. Times are UTC nanoseconds since
1970, 0 where something has not happened. Amounts of queues are in milli-cards, milli-cores and
MiB, -1 where there is no limit.
"""

from collections.abc import Callable, Iterator

from msgspec import Struct

from ganger.schemas.enums import Phase, QueueState
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.entities import Job, Node, Pod, Queue
from ganger.streams.kernel.quota import deserved
from ganger.streams.kernel.resources import CARD_MILLI, CARDS, CPU, MEMORY
from ganger.streams.kernel.state import State

UNLIMITED = -1


class Row(Struct, frozen=True, gc=False):
    """Base of every row. Its first fields are its key."""


class Owner(Struct, frozen=True, gc=False):
    """An attempt that holds a card, or `card_milli` thousandths of it."""

    job: str
    pod: int
    attempt: int
    card_milli: int


class CardRow(Row, frozen=True, gc=False):
    """One card."""

    node: str
    card: int
    model: str
    memory_mib: int
    island: int
    health: str
    owners: tuple[Owner, ...]
    free_milli: int  # 0 for a card that is not healthy; the node itself may take no pods


class NodeRow(Row, frozen=True, gc=False):
    """One node."""

    node: str
    state: str  # open, lost, draining, cordoned, reserved or blocked (by pods unknown here)
    card_count: int
    card_healthy_count: int
    card_free_count: int
    shared_free_milli: int  # on cards that are partly given away
    cpu_milli: int
    cpu_free_milli: int
    memory_mib: int
    memory_free_mib: int
    pod_slots: int
    pod_slots_free: int
    pod_count: int  # attempts that hold something
    topology: tuple[str, ...]
    boot_id: str


class QueueRow(Row, frozen=True, gc=False):
    """One queue, its whole subtree counted."""

    queue: str
    parent: str
    state: str
    weight: int
    job_count: int  # not ended
    used_cards_milli: int
    used_cpu_milli: int
    used_memory_mib: int
    deserved_cards_milli: int
    deserved_cpu_milli: int
    deserved_memory_mib: int
    guarantee_cards_milli: int
    guarantee_cpu_milli: int
    guarantee_memory_mib: int
    capability_cards_milli: int
    capability_cpu_milli: int
    capability_memory_mib: int
    waiting_cards_milli: int
    waiting_cpu_milli: int
    waiting_memory_mib: int
    admitted_cards_milli: int
    admitted_cpu_milli: int
    admitted_memory_mib: int


class JobRow(Row, frozen=True, gc=False):
    """One job, until its time to live after its end is over."""

    job: str
    queue: str
    user: str
    tenant: str
    phase: str
    is_held: bool
    priority: int
    pod_count: int
    pod_pending_count: int
    pod_allocated_count: int
    pod_running_count: int
    pod_releasing_count: int
    pod_suspended_count: int
    pod_succeeded_count: int
    held_cards_milli: int
    submitted_ns: int
    started_ns: int
    ended_ns: int
    reason: str  # why it ended or is ending; UNKNOWN before
    submit_seq: int


def card_rows(state: State) -> Iterator[CardRow]:
    """Every card, by node in order of arrival and by place on the node."""
    for node in state.nodes:
        owners: dict[int, list[Owner]] = {}
        for key in sorted(node.pods):
            pod = node.pods[key]
            owner = Owner(
                state.jobs[pod.job].request.job,
                pod.index,
                pod.attempt,
                pod.card_milli or CARD_MILLI,
            )
            for card in _bits(pod.mask):
                owners.setdefault(card, []).append(owner)
        first = 0
        for run in node.report.cards:
            for card in range(first, first + run.count):
                yield CardRow(
                    node.report.node,
                    card,
                    run.model,
                    run.memory_mib,
                    run.island,
                    run.health.name,
                    tuple(owners.get(card, ())),
                    _free_milli(node, card),
                )
            first += run.count


def node_rows(state: State) -> Iterator[NodeRow]:
    """Every node in order of arrival."""
    for node in state.nodes:
        report = node.report
        yield NodeRow(
            node=report.node,
            state=_node_state(node),
            card_count=sum(run.count for run in report.cards),
            card_healthy_count=node.healthy.bit_count(),
            card_free_count=node.free.bit_count(),
            shared_free_milli=sum(
                milli for card, (milli, _) in node.shared.items() if node.healthy >> card & 1
            ),
            cpu_milli=report.cpu_milli,
            cpu_free_milli=node.free_cpu,
            memory_mib=report.memory_mib,
            memory_free_mib=node.free_memory,
            pod_slots=report.pod_slots,
            pod_slots_free=node.free_slots,
            pod_count=len(node.pods),
            topology=report.topology,
            boot_id=report.boot_id,
        )


def queue_rows(state: State) -> Iterator[QueueRow]:
    """Every queue that is not removed, in order of configuration."""
    due = deserved(state)
    for queue in state.queues:
        if not queue.is_removed:
            yield _queue_row(queue, due[queue.index])


def job_rows(state: State) -> Iterator[JobRow]:
    """Every job that is remembered, in order of submission."""
    for seq in sorted(state.jobs):
        yield job_row(state, state.jobs[seq])


def job_row(state: State, job: Job) -> JobRow:
    """One job."""
    pods = list(job.pods.values()) if job.pods else []
    return JobRow(
        job=job.request.job,
        queue=state.queues[job.queue].config.queue,
        user=job.request.user,
        tenant=job.request.tenant,
        phase=job.phase.name,
        is_held=job.held,
        priority=job.priority,
        pod_count=sum(role.replicas for role in job.roles),
        pod_pending_count=sum(role.pending() for role in job.roles),
        pod_allocated_count=_count(pods, Phase.ALLOCATED),
        pod_running_count=_count(pods, Phase.RUNNING),
        pod_releasing_count=_count(pods, Phase.RELEASING),
        pod_suspended_count=_count(pods, Phase.SUSPENDED),
        pod_succeeded_count=sum(role.succeeded for role in job.roles),
        held_cards_milli=sum(pod.shape.cards_milli for pod in pods),
        submitted_ns=job.submitted_ns,
        started_ns=job.first_started_ns,
        ended_ns=job.ended_ns,
        reason=Reason(job.reason).name,
        submit_seq=job.seq,
    )


TABLES: dict[str, tuple[type[Row], Callable[[State], Iterator[Row]]]] = {
    "cards": (CardRow, card_rows),
    "nodes": (NodeRow, node_rows),
    "queues": (QueueRow, queue_rows),
    "jobs": (JobRow, job_rows),
}
"""All tables by name: the type of a row and what makes the rows."""


def _queue_row(queue: Queue, due: tuple[int, ...]) -> QueueRow:
    config, used, waiting, admitted = queue.config, queue.used, queue.waiting, queue.admitted
    floor, cap = queue.guarantee, queue.capability
    return QueueRow(
        queue=config.queue,
        parent=config.parent,
        state=QueueState(config.state).name,
        weight=config.weight,
        job_count=queue.jobs,
        used_cards_milli=used[CARDS],
        used_cpu_milli=used[CPU],
        used_memory_mib=used[MEMORY],
        deserved_cards_milli=due[0],
        deserved_cpu_milli=due[1],
        deserved_memory_mib=due[2],
        guarantee_cards_milli=floor.get(CARDS, 0),
        guarantee_cpu_milli=floor.get(CPU, 0),
        guarantee_memory_mib=floor.get(MEMORY, 0),
        capability_cards_milli=cap.get(CARDS, UNLIMITED),
        capability_cpu_milli=cap.get(CPU, UNLIMITED),
        capability_memory_mib=cap.get(MEMORY, UNLIMITED),
        waiting_cards_milli=waiting[CARDS],
        waiting_cpu_milli=waiting[CPU],
        waiting_memory_mib=waiting[MEMORY],
        admitted_cards_milli=admitted[CARDS],
        admitted_cpu_milli=admitted[CPU],
        admitted_memory_mib=admitted[MEMORY],
    )


def _count(pods: list[Pod], phase: Phase) -> int:
    return sum(pod.phase is phase for pod in pods)


def _node_state(node: Node) -> str:
    if node.is_lost:
        return "lost"
    if node.is_draining:
        return "draining"
    if node.is_cordoned:
        return "cordoned"
    if node.unknown:
        return "blocked"
    if node.is_reserved:
        return "reserved"
    return "open"


def _free_milli(node: Node, card: int) -> int:
    if not node.healthy >> card & 1:
        return 0
    if node.free >> card & 1:
        return CARD_MILLI
    return node.shared.get(card, (0, 0))[0]


def _bits(mask: int) -> list[int]:
    return [card for card in range(mask.bit_length()) if mask >> card & 1]

"""The tables that people and services see: kernel state, row by row. Pure; nothing is decided from
rows. The rows themselves are described in `schemas.rows`.
"""

from collections.abc import Callable, Iterator

from ganger.schemas.enums import Phase, QueueState
from ganger.schemas.reasons import Reason
from ganger.schemas.records import NodeReport
from ganger.schemas.rows import CardRow, JobRow, NodeRow, Owner, QueueRow, Row
from ganger.streams.kernel.entities import Job, Node, Queue
from ganger.streams.kernel.queues.quota import deserved
from ganger.streams.kernel.resources import CARD_MILLI, CARDS, CPU, MEMORY
from ganger.streams.kernel.state import State

UNLIMITED = -1

CARD_ROWS_MAX = 4096
"""A node of more cards is a machine of processors, described as one: no rows for its cards."""

# Bound once: rows of jobs are made by the thousand, and asking an enum for a name is dear.
_PHASE_NAMES = {phase: phase.name for phase in Phase}
_REASON_NAMES = {reason: reason.name for reason in Reason}
_PHASES_SHOWN = (Phase.ALLOCATED, Phase.RUNNING, Phase.RELEASING, Phase.SUSPENDED)


def card_rows(state: State) -> Iterator[CardRow]:
    """Every card of nodes up to `CARD_ROWS_MAX`, by node in order of arrival, by place on it."""
    for node in state.nodes:
        yield from cards_of(state, node)


def cards_of(state: State, node: Node, mask: int = -1) -> Iterator[CardRow]:
    """The cards of one node that are in `mask`, by place; none of a node of too many."""
    if not card_row_count(node.report):
        return
    owners: dict[int, list[Owner]] = {}
    for key in sorted(node.pods):
        pod = node.pods[key]
        cards = _bits(pod.mask & mask) if pod.mask else []
        if cards:
            job = state.jobs[pod.job].request.job
            owner = Owner(job, pod.index, pod.attempt, pod.card_milli or CARD_MILLI)
            for card in cards:
                owners.setdefault(card, []).append(owner)
    first = 0
    for run in node.report.cards:
        for card in range(first, first + run.count):
            if mask >> card & 1:
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


def card_row_count(report: NodeReport) -> int:
    """How many rows the cards of a node make."""
    count = sum(run.count for run in report.cards)
    return count if count <= CARD_ROWS_MAX else 0


def node_rows(state: State) -> Iterator[NodeRow]:
    """Every node in order of arrival."""
    return map(node_row, state.nodes)


def node_row(node: Node) -> NodeRow:
    """One node."""
    report = node.report
    return NodeRow(
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
    pods = job.pods.values() if job.pods else ()
    counts = dict.fromkeys(_PHASES_SHOWN, 0)
    held = 0
    for pod in pods:
        if pod.phase in counts:
            counts[pod.phase] += 1
        held += pod.shape.cards_milli
    total = pending = succeeded = 0
    for role in job.roles:
        total += role.replicas
        pending += role.pending()
        succeeded += role.succeeded
    request = job.request
    return JobRow(
        request.job,
        state.queues[job.queue].config.queue,
        request.user,
        request.tenant,
        _PHASE_NAMES[job.phase],
        job.held,
        job.priority,
        total,
        pending,
        counts[Phase.ALLOCATED],
        counts[Phase.RUNNING],
        counts[Phase.RELEASING],
        counts[Phase.SUSPENDED],
        succeeded,
        held,
        job.submitted_ns,
        job.first_started_ns,
        job.ended_ns,
        _REASON_NAMES[job.reason],
        job.seq,
    )


TABLES: dict[str, tuple[type[Row], Callable[[State], Iterator[Row]]]] = {
    "cards": (CardRow, card_rows),
    "nodes": (NodeRow, node_rows),
    "queues": (QueueRow, queue_rows),
    "jobs": (JobRow, job_rows),
}
"""All tables by name: the type of a row and what makes the rows."""


def key_of(row: Row) -> str:
    """The row's key in its table: NODE/CARD of a card, else the name."""
    if isinstance(row, CardRow):
        return card_key(row.node, row.card)
    return str(getattr(row, row.__struct_fields__[0]))


def card_key(node: str, card: int) -> str:
    """The key of a card's row. A node's name may hold slashes: the number is after the last."""
    return f"{node}/{card}"


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

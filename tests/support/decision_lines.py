"""Decisions as short lines, and the records that scenarios need beside those of `builders`."""

from collections.abc import Iterable

from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, Phase
from ganger.streams.kernel.entities import Job, Node, Queue
from support.builders import Cell, report

OF_PODS = (DecisionKind.ALLOCATE, DecisionKind.BACKFILL, DecisionKind.EVICT)
QUIET = (DecisionKind.ADMIT, DecisionKind.CYCLE_CLOSED)


def line(decision: Decision) -> str:
    """`EVICT job/pod#attempt@node REASON`, or `FINISH job REASON` where no pod is meant."""
    kind, reason = decision.kind.name, decision.reason.name
    if decision.kind in OF_PODS:
        pod = f"{decision.job}/{decision.pod}#{decision.attempt}@{decision.node}"
        return f"{kind} {pod} {reason}"
    return f"{kind} {decision.job} {reason}"


def said(decisions: Iterable[Decision]) -> list[str]:
    """All of them but admissions and closings, as lines."""
    return [line(d) for d in decisions if d.kind not in QUIET]


def places(decisions: Iterable[Decision]) -> list[str]:
    """`job/pod@node` of the placements, in order."""
    kinds = (DecisionKind.ALLOCATE, DecisionKind.BACKFILL)
    return [f"{d.job}/{d.pod}@{d.node}" for d in decisions if d.kind in kinds]


def cards(decisions: Iterable[Decision]) -> list[list[int]]:
    """The cards of each placement."""
    kinds = (DecisionKind.ALLOCATE, DecisionKind.BACKFILL)
    return [
        [card for span in d.cards for card in range(span.first, span.first + span.count)]
        for d in decisions
        if d.kind in kinds
    ]


def started_jobs(decisions: Iterable[Decision]) -> list[str]:
    """Keys of the jobs that got a pod placed, in order, each once."""
    return list(dict.fromkeys(place.split("/")[0] for place in places(decisions)))


def admitted_jobs(decisions: Iterable[Decision]) -> list[str]:
    """Keys of the jobs that were admitted, in order."""
    return [d.job for d in decisions if d.kind is DecisionKind.ADMIT]


def job_of(cell: Cell, key: str) -> Job:
    """A job that the cell remembers."""
    return cell.state.jobs[cell.state.job_by_key[key]]


def phase_of(cell: Cell, key: str) -> Phase:
    """The phase of a job that the cell remembers."""
    return job_of(cell, key).phase


def node_of(cell: Cell, name: str) -> Node:
    """A node of the cell."""
    return cell.state.nodes[cell.state.node_by_name[name]]


def queue_of(cell: Cell, name: str) -> Queue:
    """A queue of the cell."""
    return cell.state.queues[cell.state.queue_by_name[name]]


def lose(cell: Cell, name: str, claim: int | None = None) -> list[Decision]:
    """The node fell silent, as the latest intake says."""
    known = cell.state.claim if claim is None else claim
    return cell.put(r.NodeLost(cell.now_ns, "", None, name, known, 60))


def give_back(cell: Cell, name: str, number: int = 8, **facts: object) -> list[Decision]:
    """A lost node reports again; facts as `report` takes them."""
    said_now = report(name, number, **facts)  # type: ignore[arg-type]
    return cell.put(r.NodeReturned(cell.now_ns, "", None, said_now))


def say_again(cell: Cell, name: str, number: int = 8, **facts: object) -> list[Decision]:
    """A node reports something new; facts as `report` takes them."""
    said_now = report(name, number, **facts)  # type: ignore[arg-type]
    return cell.put(r.NodeChanged(cell.now_ns, "", None, said_now))


def cordon(cell: Cell, name: str) -> list[Decision]:
    """No new pods on the node."""
    return cell.put(r.NodeCordoned(cell.now_ns, "", None, name, "me"))


def uncordon(cell: Cell, name: str) -> list[Decision]:
    """End of cordon and drain."""
    return cell.put(r.NodeUncordoned(cell.now_ns, "", None, name, "me"))


def drain(cell: Cell, name: str) -> list[Decision]:
    """No pods on the node."""
    return cell.put(r.NodeDrained(cell.now_ns, "", None, name, "me", 0))


def adopt(
    cell: Cell,
    job: str,
    pod: int,
    name: str,
    *,
    first: int = 0,
    count: int = 1,
    milli: int = 0,
    attempt: int = 1,
    queue: str = "q",
    cpu: int = 0,
) -> list[Decision]:
    """A pod that ran before ganger came holds `count` cards from `first`, or a share of one."""
    spans = (r.CardSpan(first, count),) if count else ()
    started = cell.now_ns - 10**9
    return cell.put(
        r.PodAdopted(
            cell.now_ns, "", None, job, "worker", queue, "u", "", 0, pod, attempt, name, spans,
            milli, 0, cpu, 0, started, 0,
        )
    )  # fmt: skip


def reserve(
    cell: Cell, name: str, *nodes: str, after_s: int = 0, until_s: int = 0, cancelled: bool = False
) -> list[Decision]:
    """Keep nodes free from `after_s` to `until_s` seconds from now."""
    start, end = cell.now_ns + after_s * 10**9, cell.now_ns + until_s * 10**9
    return cell.put(
        r.ReservationRequested(cell.now_ns, "", None, name, "me", nodes, 0, start, end, cancelled)
    )

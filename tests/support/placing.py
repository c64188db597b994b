"""Nodes in domains, jobs with topology and affinities, and what rules say of nodes."""

from collections.abc import Iterable

from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.entities import Job, Node
from ganger.streams.kernel.nodes import scoring
from ganger.streams.kernel.nodes.node_index import pick_shared
from ganger.streams.kernel.nodes.statement import Statement
from ganger.streams.kernel.state import State
from ganger.streams.kernel.topology import lowest_cards
from support.builders import Cell, node, placed, submission

MILLION = 1_000_000


def node_at(name: str, path: str, cards: int = 8, **facts: object) -> r.NodeChanged:
    """A node in a domain, written like `spine/rack`; facts as `report` takes them."""
    record = node(name, cards, **facts)  # type: ignore[arg-type]
    domains = tuple(path.split("/")) if path else ()
    return replace(record, report=replace(record.report, topology=domains))


def near(
    name: str,
    *roles: r.Role,
    required: int = 0,
    preferred: int = 0,
    groups: Iterable[r.PodGroup] = (),
    **facts: object,
) -> r.JobSubmitRequested:
    """A submission with a topology and groups."""
    topology = r.Topology(required, preferred) if required or preferred else None
    record = submission(name, *roles, **facts)  # type: ignore[arg-type]
    return replace(record, topology=topology, groups=tuple(groups))


def wish(
    *,
    roles: Iterable[str] = (),
    labels: Iterable[tuple[str, str]] = (),
    tier: int = 0,
    anti: bool = False,
    required: bool = True,
    preemptable_only: bool = False,
) -> r.Affinity:
    """An affinity."""
    return r.Affinity(
        tier,
        tuple(roles),
        tuple(r.Label(key, value) for key, value in labels),
        anti,
        required,
        preemptable_only,
    )


def go(cell: Cell, *jobs: r.JobSubmitRequested) -> list[str]:
    """Submit, run a cycle; where pods went: `job/pod@node`, in order of job and pod."""
    cell.put(*jobs)
    return sorted(f"{job}/{pod}@{where}" for job, pod, _, where in placed(cell.tick()))


def nodes_of(places: Iterable[str]) -> list[str]:
    """The nodes of `job/pod@node`, ascending."""
    return sorted(place.split("@")[1] for place in places)


def job_of(cell: Cell, name: str) -> Job:
    """A job of the cell."""
    return cell.state.jobs[cell.state.job_by_key[name]]


def node_of(cell: Cell, name: str) -> Node:
    """A node of the cell."""
    return cell.state.nodes[cell.state.node_by_name[name]]


def points(cell: Cell, job: str, role: int = 0) -> dict[str, float]:
    """What each node scores for pods of a role, in points."""
    state = cell.state
    return {
        one.report.node: scoring.score(state, job_of(cell, job), role, one) / MILLION
        for one in state.nodes
    }


def refusals(cell: Cell, job: str, role: int = 0) -> dict[str, str]:
    """The nodes that rules forbid to pods of a role, with the reason's name."""
    state = cell.state
    found = {
        one.report.node: scoring.refused(state, job_of(cell, job), role, one) for one in state.nodes
    }
    return {name: reason.name for name, reason in found.items() if reason is not Reason.UNKNOWN}


def place_pod(state: State, statement: Statement, request: r.PodRequest) -> None:
    """Hold in a statement what one pod asks for, where the index says, if anywhere."""
    shape = state.shapes.pod(request)
    index = state.indexes.nodes
    found = index.seek(shape, (), False)
    if found is None:
        return
    assert found.kind is not None
    mask = index.cards_for(shape, found.kind)
    if shape.card_milli:
        statement.hold_share(0, shape, found, pick_shared(found, shape, mask))
    else:
        chosen = lowest_cards(found.free & mask, shape.cards) if shape.cards else 0
        statement.hold(0, shape, found, (chosen,))

"""Kinds that ask rules about nodes: each asks the very functions that rank nodes in a cycle."""

from collections.abc import Mapping
from fractions import Fraction

from conformance.cases import Body, Mismatch, Unsupported, same
from conformance.cycles import Scene
from conformance.questions import scene_of
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.entities import Job, Node
from ganger.streams.kernel.nodes import scoring

POINT = 1_000_000
"""Scores are in millionths."""


def score(body: Body) -> None:
    """Scores of nodes for tasks, within the stated tolerance, and which nodes may be used."""
    scene = _scene(body)
    for task, wanted in body["expect"]["scores"].items():
        job, role = _asked(scene, task)
        for node, want in wanted.items():
            found = 0 if job is None else _score(scene, job, role, _node(scene, node))
            points = Fraction(found, POINT)
            if abs(points - want) > body["expect"]["tolerance"]:
                raise Mismatch(f"{task} on {node}: got {float(points)}, expected {float(want)}")
    _compare_feasible(scene, body["expect"])


def feasible(body: Body) -> None:
    """Which nodes may a task use, and which not?"""
    _compare_feasible(_scene(body), body["expect"])


def _compare_feasible(scene: Scene, expect: Body) -> None:
    for key, is_good in (("feasible", True), ("infeasible", False)):
        of_tasks: Mapping[str, list[str]] = expect.get(key, {})
        for task, nodes in of_tasks.items():
            job, role = _asked(scene, task)
            got = [
                str(node["name"])
                for node in scene.body["nodes"]
                if is_good is _may_use(scene, job, role, _node(scene, node["name"]))
            ]
            same(f"{key} nodes of {task}", sorted(got), sorted(nodes))


def _scene(body: Body) -> Scene:
    """The cell of a case. A queue whose configuration makes no sense is refused, and with it the
    jobs that name it, as are those of a queue that is not declared.
    """
    queues = [
        queue for queue in body["queues"] if isinstance(queue.get("node_group_limits", {}), Mapping)
    ]
    made_up = [] if queues else [{"name": "other", "weight": 1}]
    jobs = [
        {**job, "phase": "running"} if any("node" in task for task in job["tasks"]) else job
        for job in body["jobs"]
    ]
    return scene_of({**body, "queues": [*queues, *made_up]}, jobs)


def _asked(scene: Scene, task: str) -> tuple[Job | None, int]:
    """The job of a task, if it was let in, and the position of its role."""
    name, role, _ = scene.task_place(task, "")
    return scene.job(name), role


def _node(scene: Scene, name: str) -> Node:
    state = scene.cell.state
    place = state.node_by_name.get(name)
    if place is None:
        raise Unsupported(f"node {name!r} is none of the case's")
    return state.nodes[place]


def _score(scene: Scene, job: Job, role: int, node: Node) -> int:
    return scoring.score(scene.cell.state, job, role, node)


def _may_use(scene: Scene, job: Job | None, role: int, node: Node) -> bool:
    if job is None:
        return False
    return scoring.refused(scene.cell.state, job, role, node) is Reason.UNKNOWN

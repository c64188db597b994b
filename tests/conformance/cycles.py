"""Kinds that run whole cycles: what is decided about the jobs of a case.

A case becomes ledger records. Jobs that the case calls admitted are admitted before there are
nodes, under a policy without rules; pods that run are adopted; then the case's policy comes into
force, the jobs that nobody has looked at are submitted, and a Tick asks for a cycle.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from conformance.cases import Body, Mismatch, Unsupported, same
from conformance.policies import sound, volcano_policy
from conformance.workload import GRADES, NOW, Plan, Tiers, adoptions, plan
from conformance.world import elsewhere, nodes_of, queues_of, tiers_of, zones_of
from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind
from ganger.streams.kernel.entities import Job
from support.builders import GENESIS, Cell

PLACED = (DecisionKind.ALLOCATE, DecisionKind.BACKFILL)
EVICTED = (DecisionKind.EVICT, DecisionKind.NOTICE, DecisionKind.MOVE)
UNSEEN = ("pending",)
"""Phases of jobs that nobody has admitted. One that was never set counts as admitted."""

Place = tuple[str, int, str]
"""A task up to its like: job, position of its role, node."""


class Scene:
    """A cell in the state that a case describes."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self.plans: dict[str, Plan] = {}
        self.cell = Cell()
        self.cell.now_ns = NOW
        self.cell.put(
            r.OwnerClaimed(GENESIS, "", None, "owner"), r.IntakeClaimed(GENESIS, "", None, "intake")
        )
        self.cell.put(*queues_of(body, as_open=True))

    def prepare(self, jobs: Sequence[Body], policy: r.PolicyConfigured) -> None:
        """Jobs, nodes and pods as they stand, under the policy; then queues close."""
        names = self.body.get("topology", {}).get("tier_names", {})
        tiers = Tiers(tuple(tiers_of(self.body)), names)
        for job in in_order(jobs):
            self.plans[job["name"]] = plan(job, tiers)
        seen = [one for one in self._of(jobs) if one.body.get("phase") not in UNSEEN]
        self.admit(seen)
        self.cell.put(*nodes_of(self.body))
        here = [one.tasks[name] for one in seen for name in one.tasks]
        if any(GRADES[task["phase"]] and "node" not in task for task in here):
            self.cell.put(elsewhere())
        self.cell.put(*zones_of(self.body["policy"]), policy)
        self._adopt(self._of(jobs))
        for one in self._of(jobs):
            if one.body.get("phase") in UNSEEN:
                self.cell.put(one.submission)
        self.cell.put(*[one for one in queues_of(self.body) if self._is_news(one)])

    def _of(self, jobs: Iterable[Body]) -> list[Plan]:
        return [self.plans[job["name"]] for job in in_order(jobs)]

    def _is_news(self, record: r.QueueConfigured) -> bool:
        """Whether a queue is not yet as the record has it."""
        place = self.cell.state.queue_by_name.get(record.queue)
        return place is None or self.cell.state.queues[place].config.state is not record.state

    def admit(self, plans: Sequence[Plan]) -> None:
        """Submit jobs and admit them, under a policy without rules."""
        if plans:
            self.cell.put(sound((r.ActionConfig("allocate", ()),), (), {}))
            self.cell.put(*[one.submission for one in plans])
            self.cell.tick()

    def _adopt(self, plans: Sequence[Plan]) -> None:
        """Adopt what runs.

        Raises:
            Mismatch: An adoption is refused; says why.
        """
        for record in adoptions(plans):
            for decision in self.cell.put(record):
                if decision.kind is DecisionKind.REJECT:
                    raise Mismatch(f"adopting {record.role}: {decision.reason.name}")

    # ---- what came out ----

    def job(self, name: str) -> Job | None:
        """The job of that name, if it was let in."""
        seq = self.cell.state.job_by_key.get(name)
        return None if seq is None else self.cell.state.jobs[seq]

    def task_place(self, task: str, node: str) -> Place:
        """A task as the case names it, up to its like."""
        for one in self.plans.values():
            if task in one.pods:
                return one.submission.job, one.role_of(one.pods[task]), node
        raise Unsupported(f"task {task!r} is none of the case's")

    def pod_place(self, decision: Decision) -> Place:
        """A pod that a decision names, up to its like."""
        one = self.plans[decision.job]
        return decision.job, one.role_of(decision.pod), decision.node


def in_order(jobs: Iterable[Body]) -> list[Body]:
    """Jobs as they came: by time, then by name."""
    return sorted(jobs, key=lambda job: (job.get("created_at", 0), str(job["name"])))


def cycle(body: Body) -> None:
    """One cycle of all actions."""
    scene = Scene(body)
    scene.prepare(body["jobs"], volcano_policy(body["policy"]))
    compare(scene, scene.cell.tick(), body["expect"])


def steps(body: Body) -> None:
    """Several cycles one after the other, jobs added before each."""
    scene = Scene(body)
    for place, one in enumerate(body["steps"]):
        jobs = [job for job in body["jobs"] if job["name"] in one["add_jobs"]]
        policy = volcano_policy(body["policy"], one["actions"])
        if place == 0:
            scene.prepare(jobs, policy)
        else:
            if any(job["phase"] not in UNSEEN for job in jobs):
                raise Unsupported("jobs that come admitted after the first cycle")
            scene.cell.put(policy)
            for job in in_order(jobs):
                scene.plans[job["name"]] = plan(job)
                scene.cell.put(scene.plans[job["name"]].submission)
        compare(scene, scene.cell.tick(), one["expect"])


# ---- comparison ---------------------------------------------------------------------------------

_EXPECTED = ("binds bind_count evicted pipelined job_phase binds_per_leaf_domain allocated").split()


def compare(scene: Scene, made: Sequence[Decision], expect: Body) -> None:
    """Raises `Mismatch` at the first expectation that is not met."""
    unknown = [key for key in expect if key not in _EXPECTED]
    if unknown:
        raise Unsupported(f"expectations {unknown}")
    placed = [decision for decision in made if decision.kind in PLACED]
    if "evicted" in expect:
        _compare_evicted(scene, made, expect["evicted"])
    if "binds" in expect:
        compare_binds(scene, placed, expect["binds"])
    if "bind_count" in expect:
        same("pods placed", len(placed), expect["bind_count"])
    if "binds_per_leaf_domain" in expect:
        leaves = Counter(_leaf(scene, decision.node) for decision in placed)
        same("pods per domain", sorted(leaves.values()), sorted(expect["binds_per_leaf_domain"]))
    claimed = [decision for decision in made if decision.kind is DecisionKind.CLAIM]
    for name, nodes in expect.get("pipelined", {}).items():
        got = [decision.node for decision in claimed if decision.job == name]
        if not got or any(node not in nodes for node in got):
            raise Mismatch(f"{name} waits for nodes {got}, expected some of {nodes}")
    for name, phase in expect.get("job_phase", {}).items():
        job = scene.job(name)
        same(f"phase of {name}", None if job is None else job.phase.name.lower(), phase)
    _compare_allocated(scene, expect.get("allocated", {}))


def compare_binds(scene: Scene, placed: Sequence[Decision], binds: Mapping[str, str]) -> None:
    """Exactly these tasks are placed, on exactly these nodes, where they are named."""
    want = Counter(scene.task_place(task, node) for task, node in binds.items())
    got = Counter(scene.pod_place(decision) for decision in placed)
    for job, role, node in list(want):
        if node == "*":  # whatever goes beyond the nodes that are named for its like
            for place in [one for one in got if one[:2] == (job, role)]:
                beyond = max(0, got[place] - want[place])
                got[place] -= beyond
                got[job, role, "*"] += beyond
    same("placed", _shown(scene, +got), _shown(scene, want))


def _compare_evicted(scene: Scene, made: Sequence[Decision], tasks: Sequence[str]) -> None:
    bodies = {name: task for one in scene.plans.values() for name, task in one.tasks.items()}
    want = Counter(scene.task_place(task, bodies[task].get("node", "")) for task in tasks)
    got = Counter(scene.pod_place(d) for d in made if d.kind in EVICTED)
    same("evicted", _shown(scene, got), _shown(scene, want))


def _shown(scene: Scene, places: Mapping[Place, int]) -> list[str]:
    """Places for people: the role by its first task."""
    return sorted(
        f"{scene.plans[job].submission.roles[role].name}@{node}" + (f" x{n}" if n > 1 else "")
        for (job, role, node), n in places.items()
    )


def _leaf(scene: Scene, node: str) -> str:
    state = scene.cell.state
    return state.nodes[state.node_by_name[node]].report.topology[-1]


def _compare_allocated(scene: Scene, allocated: Mapping[str, Mapping[str, Any]]) -> None:
    for name, amounts in allocated.items():
        job = scene.job(name)
        pods = list(job.pods.values()) if job is not None and job.pods else []
        got = {
            "cpu_m": sum(pod.shape.cpu for pod in pods),
            "memory": sum(pod.shape.memory for pod in pods),
            "pods": len(pods),
        }
        same(f"allocated to {name}", {key: got.get(key) for key in amounts}, dict(amounts))

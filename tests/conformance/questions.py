"""Kinds that ask one rule of a policy: each asks the very hook, or function, that a cycle asks."""

from collections.abc import Iterable, Mapping
from typing import Any

from conformance.cases import Body, Unsupported, same
from conformance.cycles import PLACED, Scene, in_order
from conformance.policies import volcano_policy
from conformance.workload import Plan, refuse_unknown
from ganger.schemas.records import Role
from ganger.streams.kernel.entities import Job, Pod, Taker, Victim
from ganger.streams.kernel.explain import explain
from ganger.streams.kernel.jobs.lines import order_key
from ganger.streams.kernel.policies.votes import first_refusal
from ganger.streams.kernel.preemption.node_walk import victim_key

ROOMY = {"cpu_m": 1 << 30, "memory": 1 << 40, "pods": 1 << 20}
"""A node that holds whatever a case puts on it without saying what there is."""

TAKER = "taker"
"""The job that candidates are taken for, where a case has none."""


def scene_of(body: Body, jobs: Iterable[Body]) -> Scene:
    """The jobs of a case, running where they say, under its policy; what it leaves out is made up:
    their queues, and nodes with room for anything.
    """
    jobs = [{"queue": "queue", "phase": "running", "min_member": 0, **job} for job in jobs]
    tasks = [task for job in jobs for task in job.get("tasks", ())]
    hosts = dict.fromkeys(task["node"] for task in tasks if "node" in task)
    given = {node["name"]: node for node in body.get("nodes", ()) if node["capacity"]}
    made_up = [{"name": name, "capacity": ROOMY} for name in hosts if name not in given]
    names = dict.fromkeys(job["queue"] for job in jobs)
    queues = body.get("queues") or [{"name": name, "weight": 1} for name in names]
    policy = body.get("policy", {"tiers": []})
    scene = Scene(
        {**body, "nodes": [*given.values(), *made_up], "queues": queues, "policy": policy}
    )
    scene.prepare(jobs, volcano_policy(policy))
    scene.cell.tick(cycle=False)
    return scene


def judged(scene: Scene, name: str) -> Job:
    """A job that must have been let in."""
    job = scene.job(name)
    if job is None:
        raise Unsupported(f"job {name!r} is refused")
    return job


# ---- admission ----------------------------------------------------------------------------------


def enqueueable(body: Body) -> None:
    """May these jobs be admitted? Asked as the action asks, of jobs that are not admitted yet."""
    scene = scene_of(body, [{**job, "phase": "pending"} for job in body["jobs"]])
    compare_admission(scene, body["expect"]["enqueueable"])


def compare_admission(scene: Scene, expected: Mapping[str, bool]) -> None:
    """What the votes on admission say of jobs."""
    state = scene.cell.state
    for name, want in expected.items():
        refusal = first_refusal(state.policy.job_enqueue, state, judged(scene, name))
        same(f"{name} may be admitted", refusal is None, want)


def job_order(body: Body) -> None:
    """Which of the jobs is first in line?"""
    jobs = [{"phase": "pending", "tasks": [], **job} for job in body["jobs"]]
    scene = scene_of(body, jobs)
    state = scene.cell.state
    found = [judged(scene, job["name"]) for job in in_order(jobs)]
    first = min(found, key=lambda job: order_key(state, job))
    same("first", first.request.job, body["expect"]["first"])
    compare_admission(scene, body["expect"].get("enqueueable", {}))


# ---- victims ------------------------------------------------------------------------------------


def victims(body: Body) -> None:
    """Whom do the rules let go, or put out?"""
    refuse_unknown("victims", body, _VICTIMS_KEYS)
    if "candidates" not in body:
        _outcasts(body)
    elif "preemptor" in body:
        _evictable(body)
    elif "disruptions_allowed" in body:
        _within_budget(body)
    else:
        _cooled_down(body)


_VICTIMS_KEYS = (
    "id source kind title features note policy nodes queues jobs candidates disruptions_allowed "
    "eviction_kind preemptor expect"
).split()


def _outcasts(body: Body) -> None:
    """Who must leave whoever asks."""
    scene = scene_of(body, [{**job, "phase": "running"} for job in body["jobs"]])
    state = scene.cell.state
    found = [pod for hook in state.policy.victim for pod in hook(state)]
    if "victim_count" in body["expect"]:
        same("victims", len(found), body["expect"]["victim_count"])
    if "victims" in body["expect"]:
        same("victims", _names(scene, found), body["expect"]["victims"])


def _evictable(body: Body) -> None:
    """Candidates of several jobs, taken for a job of some priority. Gangs give pods beyond their
    minimums or all: their rule has no say about one candidate.
    """
    taker = _taker_of(body, body["preemptor"]["job_priority"])
    tiers = [
        [{**one, "hooks": []} if one["plugin"] == "gang" else one for one in tier]
        for tier in body["policy"]["tiers"]
    ]
    scene = scene_of({**body, "policy": {"tiers": tiers}}, [*body["jobs"], taker])
    hook = {"gang_preempt": "preemptable", "gang_reclaim": "reclaimable"}[body["eviction_kind"]]
    same("victims", _allowed(scene, hook, body["candidates"]), body["expect"]["victims"])


def _taker_of(body: Body, priority: int) -> Body:
    """A job of the first queue that candidates are taken for."""
    return {
        "name": TAKER,
        "queue": body["jobs"][0].get("queue", "queue"),
        "phase": "pending",
        "min_member": 1,
        "priority": priority,
        "tasks": [{"name": TAKER, "request": {"cpu_m": 1}, "phase": "pending"}],
    }


def _within_budget(body: Body) -> None:
    """Candidates of a job of which only so many may be missing. All that rules are asked for must
    say the same.
    """
    tasks = [_running(name) for name in body["candidates"]]
    job = {"name": "victim", "tasks": tasks}
    if body["disruptions_allowed"] is not None:
        job["max_unavailable"] = str(body["disruptions_allowed"])
    scene = scene_of(body, [job, {"name": TAKER, "phase": "pending", "tasks": []}])
    for hook in ("preemptable", "reclaimable"):
        same(hook, _allowed(scene, hook, body["candidates"]), body["expect"]["victims"])


def _cooled_down(body: Body) -> None:
    """Candidates of their own jobs, some of them protected for a while after their start."""
    jobs: list[Body] = [
        {
            "name": one["name"],
            "tasks": [
                _running(one["name"]) | {key: one[key] for key in _COOLING if key in one},
            ],
        }
        for one in body["candidates"]
    ]
    scene = scene_of(body, [*jobs, {"name": TAKER, "phase": "pending", "tasks": []}])
    names = [one["name"] for one in body["candidates"]]
    same("victims", _allowed(scene, "preemptable", names), body["expect"]["victims"])


_COOLING = ("preemptable", "cooldown_s", "running_for_s")


def _running(name: str) -> dict[str, Any]:
    return {"name": name, "request": {"cpu_m": 1}, "phase": "running", "node": "node"}


def _allowed(scene: Scene, hook: str, names: Iterable[str]) -> list[str]:
    """The candidates that rules and protection let go, in order."""
    state = scene.cell.state
    taker = judged(scene, TAKER)
    candidates = candidates_of(scene, names)
    open_ = [one for one in candidates if one.pod.protected_until_ns <= state.clock_ns]
    record = state.policy_record
    assert record is not None
    has_say = any(hook in one.hooks for tier in record.tiers for one in tier.policies)
    judge = getattr(state.policy, hook) if has_say else None
    counts = tuple(role.pending() for role in taker.roles)
    found = open_ if judge is None else judge(state, Taker(taker, counts), open_)
    return _names(scene, [victim.pod for victim in found])


def candidates_of(scene: Scene, names: Iterable[str]) -> list[Victim]:
    """Tasks as candidates, each a bundle of its own."""
    found = []
    for bundle, name in enumerate(names):
        one = _plan_of(scene, name)
        job = judged(scene, one.submission.job)
        assert job.pods is not None, name
        found.append(Victim(job, job.pods[one.pods[name]], bundle))
    return found


def _plan_of(scene: Scene, task: str) -> Plan:
    return next(one for one in scene.plans.values() if task in one.pods)


def _names(scene: Scene, pods: Iterable[Pod]) -> list[str]:
    """The tasks that pods are."""
    names = {
        (one.submission.job, pod): task
        for one in scene.plans.values()
        for task, pod in one.pods.items()
    }
    jobs = scene.cell.state.jobs
    return [names[jobs[pod.job].request.job, pod.index] for pod in pods]


# ---- other orders -------------------------------------------------------------------------------


def backfill_order(body: Body) -> None:
    """In which order are pods that ask for nothing placed? Those of a job that wait for cards which
    leave are as unplaced as the others.
    """
    scene = scene_of({**body, "nodes": [{"name": "node", "capacity": ROOMY}]}, body["jobs"])
    placed = [decision for decision in scene.cell.tick() if decision.kind in PLACED]
    got = [(decision.job, scene.plans[decision.job].role_of(decision.pod)) for decision in placed]
    want = [scene.task_place(task, "")[:2] for task in body["expect"]["order"]]
    same("order", got, want)


def _roles(scene: Scene, name: str) -> tuple[Role, ...]:
    return scene.plans[name].submission.roles


def victim_order(body: Body) -> None:
    """Which of the candidates leaves first?"""
    scene = scene_of(body, [*body["jobs"], _taker_of(body, 0)])
    state, taker = scene.cell.state, judged(scene, TAKER)
    asked = Taker(taker, tuple(role.pending() for role in taker.roles))
    victims = candidates_of(scene, body["candidates"])
    first = min(victims, key=lambda victim: victim_key(state, asked, victim, False))
    same("first victim", _names(scene, [first.pod]), [body["expect"]["first_victim"]])


def gang_releasing(body: Body) -> None:
    """Is there nothing to report of a gang that is short only of pods which leave? One with fewer
    pods than its minimum is refused, which is a report too.
    """
    for job in body["jobs"]:
        scene = scene_of(body, [job])
        found = explain(scene.cell.state, job["name"])
        is_known = judged(scene, job["name"]).request.roles == _roles(scene, job["name"])
        got = is_known and found is not None and not found.reasons
        same("report is left out", got, body["expect"]["suppress_unschedulable_report"])

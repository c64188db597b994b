"""Jobs of a case as ledger records: submissions, and adoptions of the pods that run already.

Tasks of one job that are alike in all but name and phase are one role; which of them a decision
means cannot be told apart and does not matter.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from conformance.cases import Body, Unsupported, duration_ns, whole
from conformance.world import CARD, ELSEWHERE, amounts_of
from ganger.schemas import records as r
from ganger.schemas.enums import BackfillPreference, IslandPolicy, SelectorOperator, Tri
from support.builders import SECOND

NOW = 10**6 * SECOND
"""When a case takes place."""

MINUTE = 60 * SECOND

GRADES = {
    "pending": False,
    "running": True,
    "allocated": True,
    "binding": True,
    "bound": True,
    "releasing": True,
}
"""Phases of tasks that can be said in records: whether a pod is there."""

RUNS = ("running", "releasing")
"""Phases of pods that have begun to run."""

_TASK_KEYS = (
    "name request phase role node node_selector labels anti_affinity preemptable priority "
    "preemption best_effort revocable_zone cooldown_s running_for_s"
).split()
_JOB_KEYS = (
    "name queue phase min_member role_min priority priority_class_missing min_request tenant tasks "
    "max_unavailable min_available topology allocated_domain created_at max_wait"
).split()


@dataclass(frozen=True, slots=True)
class Tiers:
    """The tiers of a case's topology, and those that have names."""

    numbers: tuple[int, ...] = ()
    names: Body = field(default_factory=dict)


NO_TIERS = Tiers()


@dataclass(slots=True)
class Plan:
    """A job as it will be submitted, and which pod each of its tasks is."""

    body: Body
    submission: r.JobSubmitRequested
    pods: dict[str, int]  # task -> pod index
    tasks: dict[str, Body] = field(default_factory=dict)

    def role_of(self, pod: int) -> int:
        """The position of a pod's role."""
        return pod % len(self.submission.roles)


def plan(job: Body, tiers: Tiers = NO_TIERS) -> Plan:
    """The submission of a job. `tiers`: those of the case's topology.

    Raises:
        Unsupported: It has something that no record can say; says what.
    """
    refuse_unknown("job", job, _JOB_KEYS)
    tasks = sorted(map(_unplaced, job["tasks"]), key=lambda task: str(task["name"]))
    for task in tasks:
        refuse_unknown("task", task, _TASK_KEYS)
        if task["phase"] not in GRADES:
            raise Unsupported(f"task phase {task['phase']!r}")
    alike: dict[str, list[Body]] = {}
    for task in tasks:
        alike.setdefault(_content(task), []).append(task)
    kinds = list(alike.values())
    roles, groups = _roles(job, kinds)
    pods = {
        task["name"]: local * len(kinds) + position
        for position, kind in enumerate(kinds)
        for local, task in enumerate(kind)
    }
    submission = _submission(job, roles, groups, tiers)
    return Plan(job, submission, pods, {task["name"]: task for task in tasks})


def _unplaced(task: Body) -> Body:
    """A task; one that waits for cards which leave is as unplaced as any that waits."""
    if task["phase"] != "pipelined":
        return task
    return {**{key: part for key, part in task.items() if key != "node"}, "phase": "pending"}


def refuse_unknown(what: str, one: Body, known: Sequence[str]) -> None:
    """Raises `Unsupported` if there are fields that the runner does not read."""
    unknown = [key for key in one if key not in known]
    if unknown:
        raise Unsupported(f"{what} fields {unknown}")


def _content(task: Body) -> str:
    """All of a task but what tells it from its like."""
    own = ("name", "phase", "node", "running_for_s")
    return repr(sorted((key, repr(value)) for key, value in task.items() if key not in own))


def _roles(job: Body, kinds: list[list[Body]]) -> tuple[tuple[r.Role, ...], tuple[r.PodGroup, ...]]:
    """Roles, and groups where the peer's role has tasks of several kinds.

    Minimums of roles count only if the job's own covers them together.
    """
    minimums = job.get("role_min", {})
    if job.get("min_member", 0) < sum(minimums.values()):
        minimums = {}
    homes = [kind[0].get("role", "default") for kind in kinds]
    count = Counter(homes)
    mixed = [home for home in count if count[home] > 1 and home in minimums]
    tasks = Counter(home for home, kind in zip(homes, kinds, strict=True) for _ in kind)
    is_short = any(least > tasks[home] for home, least in minimums.items())
    roles = []
    for home, kind in zip(homes, kinds, strict=True):
        least = 0 if home in mixed else minimums.get(home, 0)
        if is_short:
            least = len(kind) + 1  # more than there are: refused as never startable
        roles.append(_role(kind[0], len(kind), least, home if home in mixed else ""))
    if not roles:
        least = max(1, job.get("min_member", 1))
        roles.append(r.Role(job["name"], least, least, request_of({})))
    return tuple(roles), tuple(r.PodGroup(home, "", minimums[home]) for home in mixed)


def _role(task: Body, replicas: int, least: int, group: str) -> r.Role:
    return r.Role(
        task["name"],
        replicas,
        least,
        request_of(task),
        group=group,
        priority=task.get("priority", 1),
        preemptable=Tri.YES if task.get("preemptable", True) else Tri.NO,
        preempts=Tri.NO if task.get("preemption") == "never" else Tri.YES,
        labels=tuple(r.Label(key, value) for key, value in task.get("labels", {}).items()),
        affinities=(_anti(task["anti_affinity"]),) if "anti_affinity" in task else (),
        revocable_zone=task.get("revocable_zone", ""),
    )


def _anti(wish: Body) -> r.Affinity:
    refuse_unknown("anti-affinity", wish, ("match_labels", "topology_key", "match_preemptable"))
    if wish.get("topology_key", "hostname") != "hostname":
        raise Unsupported(f"anti-affinity over {wish['topology_key']!r}")
    labels = tuple(r.Label(key, value) for key, value in wish["match_labels"].items())
    return r.Affinity(0, (), labels, True, True, wish.get("match_preemptable", False))


def request_of(task: Body) -> r.PodRequest:
    """What one pod asks."""
    request = task.get("request", {})
    return r.PodRequest(
        whole(request.get(CARD, 0)),
        0,
        0,
        0,
        (),
        IslandPolicy.ANY,
        whole(request.get("cpu_m", 0)),
        whole(request.get("memory", 0)),
        tuple(
            r.Amount(name, whole(count))
            for name, count in sorted(request.items())
            if name not in (CARD, "cpu_m", "memory", "pods")
        ),
        tuple(
            r.Selector(key, SelectorOperator.IN, (value,))
            for key, value in sorted(task.get("node_selector", {}).items())
        ),
        (),
    )


def _submission(
    job: Body, roles: tuple[r.Role, ...], groups: tuple[r.PodGroup, ...], tiers: Tiers
) -> r.JobSubmitRequested:
    asked = job.get("min_request")
    cooldowns = [task.get("cooldown_s") for task in job["tasks"]]
    protected = [second for second in cooldowns if isinstance(second, int)]
    return r.JobSubmitRequested(
        NOW + min(0, whole(job.get("created_at", 0))) * MINUTE,  # if negative: minutes before now
        "",
        None,
        job["name"],
        job.get("queue", ""),
        job.get("tenant", "user"),
        job.get("tenant", ""),
        "",
        job.get("priority", 0),
        roles,
        job.get("min_member", 0),
        0,
        0,
        False,
        False,
        BackfillPreference.ACCEPT,
        0,
        duration_ns(job.get("max_wait")),
        (),
        r.RetryPolicy(0, 0, 0),
        -1,
        False,
        groups=groups,
        topology=_topology(job.get("topology"), tiers),
        budget=_budget(job),
        start_request=None if asked is None else amounts_of(asked),
        protected_ns=max(protected, default=0) * SECOND,
    )


def _topology(wish: Body | None, tiers: Tiers) -> r.Topology | None:
    """A wish for a tier counts those up to it; the cell itself is one beyond all of them."""
    if wish is None:
        return None
    tier = wish.get("highest_tier", tiers.names.get(wish.get("highest_tier_name", "")))
    count = len(tiers.numbers) + 1
    if tier is not None and tier <= max(tiers.numbers, default=0):
        count = sum(number <= tier for number in tiers.numbers)
    return r.Topology(required_tier=count) if wish["mode"] == "hard" else r.Topology(0, count)


def _budget(job: Body) -> r.Budget | None:
    counts = {}
    for key in ("max_unavailable", "min_available"):
        text = job.get(key)
        if text is not None and text.endswith("%"):
            counts[f"{key}_milli"] = int(text[:-1]) * 10
        elif text is not None:
            counts[f"{key}_count"] = int(text)
    return r.Budget(**counts) if counts else None


# ---- pods that run already ----------------------------------------------------------------------


def adoptions(plans: Iterable[Plan]) -> list[r.PodAdopted]:
    """The pods that are on nodes, in order of their tasks' names; each node's cards in turn."""
    next_card: Counter[str] = Counter()
    records = []
    for one in plans:
        for name in sorted(one.tasks):
            if GRADES[one.tasks[name]["phase"]]:
                records.append(_adopted(one, name, next_card))
    return records


def _adopted(one: Plan, name: str, next_card: Counter[str]) -> r.PodAdopted:
    task = one.tasks[name]
    pod = one.pods[name]
    role = one.submission.roles[one.role_of(pod)]
    node = task.get("node", ELSEWHERE)
    request = role.request
    spans: tuple[r.CardSpan, ...] = ()
    if request.cards:
        spans = (r.CardSpan(next_card[node], request.cards),)
        next_card[node] += request.cards
    since = NOW - whole(task.get("running_for_s", 0)) * SECOND
    return r.PodAdopted(
        NOW,
        "",
        None,
        one.submission.job,
        role.name,
        one.submission.queue,
        one.submission.user,
        one.submission.tenant,
        one.submission.priority,
        pod,
        1,
        node,
        spans,
        0,
        0,
        request.cpu_milli,
        request.memory_mib,
        since if task["phase"] in RUNS else 0,
        0,
        resources=request.resources,
        is_leaving=task["phase"] == "releasing",
        labels=role.labels,
    )

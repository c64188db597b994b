"""KAI's kinds that run whole cycles: one action once, or all of them for several rounds."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from conformance.cases import Body, Mismatch, Unsupported, same, whole
from conformance.cycles import EVICTED, PLACED, UNSEEN, in_order
from conformance.policies import Base, Texts, base_of, pairs, sound
from conformance.workload import refuse_unknown
from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import (
    BackfillPreference,
    CardHealth,
    DecisionKind,
    IslandPolicy,
    QueueState,
    Tri,
)
from ganger.streams.kernel.policies import registry
from ganger.streams.kernel.resources import CARD_MILLI
from support.builders import GENESIS, SECOND, Cell

ACTIONS = {"consolidation": "consolidate", "stalegangeviction": "stale"}
"""Actions that go by another name here."""

RULES = ("priority", "gang", "fair_quota", "binpack", "min_runtime")
"""What KAI's default tiers amount to."""

CARD_MEMORY = 100
"""Units of memory that each card of a case has."""

NAMES = {"gpu": "cards_milli", "cpu_m": "cpu_milli", "memory": "memory_mib"}

_TASK_KEYS = "name request phase node gpu_ids order_priority group".split()
_JOB_KEYS = (
    "name queue priority preemptible created_at min_member tasks stays_releasing group_tree"
).split()


def kai_base() -> Base:
    """What KAI does, or the preset of that name."""
    return base_of("kai", {"allocate": {"pipelines": "yes", "surplus": "one_by_one"}}, {})


def policy_of(policy: Body) -> r.PolicyConfigured:
    """The record of a case's policy; only the default tiers can be said."""
    if policy["tiers"] != "default":
        raise Unsupported(f"tiers {policy['tiers']!r}")
    base = kai_base()
    names = [ACTIONS.get(name, name) for name in policy["actions"]]
    if len(names) > 1:  # of several actions some may be missing; whether that matters, cases show
        names = [name for name in names if name in registry.ACTIONS]
    rules = base.policies or {name: Texts() for name in RULES}
    return sound(
        tuple(r.ActionConfig(name, pairs(base.actions.get(name, {}))) for name in names),
        (r.PolicyTier(tuple(r.PolicyConfig(n, (), pairs(args)) for n, args in rules.items())),),
        base.settings,
    )


# ---- records ------------------------------------------------------------------------------------


def node_of(node: Body) -> r.NodeChanged:
    """A node with cards of equal memory."""
    capacity = node["capacity"]
    cards = whole(capacity["gpu"])
    runs = (r.CardRun(cards, "gpu", CARD_MEMORY, 0, CardHealth.HEALTHY),) if cards else ()
    labels = tuple(r.Label(key, value) for key, value in sorted(node.get("labels", {}).items()))
    report = r.NodeReport(
        node["name"],
        "boot",
        runs,
        whole(capacity["cpu_m"]),
        whole(capacity["memory"]),
        whole(capacity["pods"]),
        (),
        labels,
        (),
        (),
        (),
        -1,
        (),
    )
    return r.NodeChanged(GENESIS, "", None, report)


def bounds_of(amounts: Mapping[str, Any]) -> tuple[r.Amount, ...]:
    """Those of the amounts that are bounds."""
    return tuple(
        r.Amount(NAMES[name], whole(count, CARD_MILLI if name == "gpu" else 1))
        for name, count in amounts.items()
        if count is not None and count >= 0
    )


def queues_of(body: Body) -> list[r.QueueConfigured]:
    """Departments first, then the queues below them, in the order of their making."""
    ordered = sorted(
        body["queues"],
        key=lambda one: (one["parent"] is not None, one.get("created_at", 0), one["name"]),
    )
    return [
        r.QueueConfigured(
            GENESIS,
            "",
            None,
            one["name"],
            one["parent"] or "",
            1,
            one.get("priority", 0),
            (),
            bounds_of(one["quota"]),
            bounds_of(one["limit"]),
            (),
            (),
            True,
            QueueState.OPEN,
            False,
            over_quota_weights=tuple(
                r.Amount(NAMES[name], max(0, whole(weight)))
                for name, weight in one["over_quota_weight"].items()
            ),
        )
        for one in ordered
    ]


def request_of(request: Body) -> r.PodRequest:
    """What one task asks: whole cards, or a share of one by parts or by memory."""
    refuse_unknown("request", request, ("gpu", "gpu_memory", "cpu_m", "memory"))
    cards = Fraction(request.get("gpu", 0))
    milli = memory = 0
    if "gpu_memory" in request:
        memory = whole(request["gpu_memory"])
        milli = memory * CARD_MILLI // CARD_MEMORY
    elif cards.denominator != 1:
        if cards > 1:
            raise Unsupported(f"{float(cards)} cards: a share is of one card")
        milli = whole(cards, CARD_MILLI)
    if milli >= CARD_MILLI:
        raise Unsupported("a share of the memory of more than one card")
    return r.PodRequest(
        0 if milli else whole(cards),
        milli,
        memory if milli else 0,
        0,
        (),
        IslandPolicy.ANY,
        whole(request["cpu_m"]),
        whole(request["memory"]),
        (),
        (),
        (),
    )


def submission_of(job: Body) -> r.JobSubmitRequested:
    """A job, each task a role of its own."""
    refuse_unknown("job", job, _JOB_KEYS)
    tree = job.get("group_tree", {})
    if tree.get("sets") or tree.get("topology"):
        raise Unsupported("a tree of sub-groups with topology")
    for task in job["tasks"]:
        refuse_unknown("task", task, _TASK_KEYS)
    preemptable = Tri.YES if job["preemptible"] else Tri.NO
    roles = tuple(
        r.Role(
            task["name"],
            1,
            0,
            request_of(task["request"]),
            group=task.get("group", ""),
            priority=task.get("order_priority", 0),
        )
        for task in job["tasks"]
    )
    groups = []
    for group in tree.get("groups", ()):
        refuse_unknown("group", group, ("name", "min_member"))
        groups.append(r.PodGroup(group["name"], "", group["min_member"]))
    return r.JobSubmitRequested(
        GENESIS,
        "",
        None,
        job["name"],
        job["queue"],
        "user",
        "",
        "",
        job["priority"],
        roles,
        job["min_member"],
        0,
        0,
        False,
        False,
        BackfillPreference.ACCEPT,
        0,
        0,
        (),
        r.RetryPolicy(0, 0, 0),
        -1,
        False,
        groups=tuple(groups),
        preemptable=preemptable,
    )


class Stage:
    """A cell in the state that a case describes, and how its tasks stand."""

    def __init__(self, body: Body) -> None:
        self.jobs = in_order(body["jobs"])
        self.cell = Cell()
        self.phases: dict[str, str] = {}
        self.nodes: dict[str, str] = {}
        self.attempts: dict[str, int] = {}
        self._next: Counter[str] = Counter()
        self._shared: dict[tuple[str, str], int] = {}
        policy = policy_of(body["policy"])
        self.cell.put(
            r.OwnerClaimed(GENESIS, "", None, "o"),
            r.IntakeClaimed(GENESIS, "", None, "i"),
            policy,
            *queues_of(body),
            *[node_of(node) for node in sorted(body["nodes"], key=lambda node: str(node["name"]))],
        )
        for job in self.jobs:
            self._enter(job)

    def _enter(self, job: Body) -> None:
        submission = submission_of(job)
        for decision in self.cell.put(submission):
            raise Unsupported(f"{job['name']} is refused: {decision.reason.name}")
        for place, task in enumerate(job["tasks"]):
            phase = task["phase"]
            if phase not in (*UNSEEN, "running", "releasing"):
                raise Unsupported(f"task phase {phase!r}")
            self.phases[task["name"]] = phase
            if phase in ("running", "releasing"):
                self._adopt(job, place, task, submission.roles[place].request)

    def _adopt(self, job: Body, place: int, task: Body, request: r.PodRequest) -> None:
        node = task["node"]
        self.nodes[task["name"]] = node
        record = r.PodAdopted(
            GENESIS,
            "",
            None,
            job["name"],
            task["name"],
            job["queue"],
            "user",
            "",
            job["priority"],
            place,
            1,
            node,
            self._cards(task, request),
            request.card_milli,
            request.card_memory_mib,
            request.cpu_milli,
            request.memory_mib,
            GENESIS + int(job["created_at"]) * SECOND,
            0,
            is_leaving=task["phase"] == "releasing",
        )
        for decision in self.cell.put(record):
            raise Mismatch(f"adopting {task['name']}: {decision.reason.name}")

    def _cards(self, task: Body, request: r.PodRequest) -> tuple[r.CardSpan, ...]:
        node = task["node"]
        if request.card_milli:
            device = (task.get("gpu_ids") or [task["name"]])[0]
            if (node, device) not in self._shared:
                self._shared[node, device] = self._next[node]
                self._next[node] += 1
            return (r.CardSpan(self._shared[node, device], 1),)
        first = self._next[node]
        self._next[node] += request.cards
        return (r.CardSpan(first, request.cards),) if request.cards else ()

    # ---- rounds ----

    def cycle(self) -> list[Decision]:
        """Run the policy once and take down how tasks stand."""
        made = self.cell.tick()
        for decision in made:
            if decision.kind in PLACED:
                self._note(decision, "binding")
            elif decision.kind in EVICTED:
                self._note(decision, "releasing")
        for decision in made:
            if decision.kind is DecisionKind.CLAIM:
                self._note(decision, "pipelined")
        return made

    def _note(self, decision: Decision, phase: str) -> None:
        self.phases[decision.role] = phase
        self.nodes[decision.role] = decision.node
        self.attempts[decision.role] = decision.attempt

    def move_on(self) -> None:
        """What is bound runs; what leaves is gone, unless it stays; what waited is pending."""
        for job in self.jobs:
            for place, task in enumerate(job["tasks"]):
                name = task["name"]
                attempt = max(1, self.attempts.get(name, 1))
                if self.phases[name] == "binding":
                    self.cell.started(job["name"], place, attempt)
                    self.phases[name] = "running"
                elif self.phases[name] == "releasing" and not job.get("stays_releasing"):
                    self.cell.released(job["name"], place, attempt)
                    self.phases[name] = "pending"


def compare(stage: Stage, body: Body) -> None:
    """Raises `Mismatch` at the first task that stands otherwise than expected."""
    expect = body["expect"]
    tasks = {task["name"]: job["name"] for job in body["jobs"] for task in job["tasks"]}
    for task, job in tasks.items():
        want = expect.get("tasks", {}).get(task) or expect.get("jobs", {}).get(job)
        if want is None or job in expect.get("unenforced_jobs", {}):
            continue
        same(f"phase of {task}", stage.phases[task], want["phase"])
        if "node" in want:
            same(f"node of {task}", stage.nodes.get(task), want["node"])


def check_limits(made: Iterable[Decision], limits: Mapping[str, int]) -> None:
    """Upper bounds on how much was decided."""
    kinds = Counter(decision.kind for decision in made)
    for key, names in (
        ("max_binds", PLACED),
        ("max_evictions", EVICTED),
        ("max_pipelined", (DecisionKind.CLAIM,)),
    ):
        count = sum(kinds[name] for name in names)
        if count > limits.get(key, count):
            raise Mismatch(f"{key}: {count} decided, at most {limits[key]} expected")


def cycle(body: Body) -> None:
    """One action, one pass."""
    _refuse(body, ("jobs", "tasks", "call_limits", "unenforced_jobs"))
    stage = Stage(body)
    made = stage.cycle()
    compare(stage, body)
    check_limits(made, body["expect"].get("call_limits", {}))


def rounds(body: Body) -> None:
    """All actions, until the expected state has come; then it must stay."""
    _refuse(body, ("jobs", "tasks"))
    stage = Stage(body)
    why: Mismatch | None = None
    for _ in range(body["policy"]["rounds_until_match"]):
        stage.cycle()
        stage.move_on()
        why = _fault(stage, body)
        if why is None:
            break
    for _ in range(body["policy"]["rounds_after_match"]):
        if why is not None:
            raise why
        stage.cycle()
        stage.move_on()
        why = _fault(stage, body)
    if why is not None:
        raise why


def _fault(stage: Stage, body: Body) -> Mismatch | None:
    try:
        compare(stage, body)
    except Mismatch as mismatch:
        return mismatch
    return None


def _refuse(body: Body, known: Sequence[str]) -> None:
    refuse_unknown("expectation", body["expect"], known)
    if "topology" in body:
        raise Unsupported("a tree of sub-groups with topology")

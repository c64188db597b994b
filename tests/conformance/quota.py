"""Kinds that ask one function about quota trees: Kueue's cohorts."""

from collections.abc import Mapping
from typing import Any

from conformance.cases import Body, Mismatch, same, scale_of, whole
from conformance.flavors import flavor_of, request_of
from ganger.streams.kernel.fairness import cohort_victims, fair_victims, flavors
from ganger.streams.kernel.fairness.cohort import Amounts, Cohort, Quota, attach, seal
from ganger.streams.kernel.fairness.cohort_rules import (
    Entry,
    EntryOrder,
    Holder,
    Past,
    Rule,
    Rules,
    Taker,
    Why,
    allows,
    entry_key,
    queued_at,
    victim_key,
)
from ganger.streams.kernel.fairness.cohort_share import share_of
from ganger.streams.kernel.queues.cohort_tree import borne

RULES = {
    "never": Rule.NEVER,
    "lower_priority": Rule.LOWER_PRIORITY,
    "lower_or_newer_equal_priority": Rule.LOWER_OR_NEWER_EQUAL,
    "any": Rule.ANY,
}
NOW = 1 << 40
"""Later than any time in a case."""


# ---- trees ------------------------------------------------------------------------------------


def tree_of(body: Body) -> dict[str, Cohort]:
    """Nodes by name, sums not made yet."""
    nodes: dict[str, Cohort] = {}
    for is_queue, place in ((False, "cohorts"), (True, "queues")):
        for one in body.get(place, []):
            nodes[one["name"]] = Cohort(
                one["name"],
                quotas=quotas_of(one),
                weight_milli=whole(one.get("fair_weight", 1), 1000),
                is_queue=is_queue,
            )
    for is_queue, place in ((False, "cohorts"), (True, "queues")):
        for one in body.get(place, []):
            above = one.get("cohort" if is_queue else "parent")
            if above is not None:
                attach(nodes[one["name"]], nodes[above])
    return nodes


def quotas_of(one: Body) -> dict[tuple[str, str], Quota]:
    """Quota of a queue or a cohort by flavor and resource."""
    return {
        (entry["flavor"], resource): Quota(
            quota["nominal"], quota.get("borrow_limit"), quota.get("lend_limit")
        )
        for group in one.get("resource_groups", [])
        for entry in group
        for resource, quota in entry["quota"].items()
    }


def seal_all(nodes: Mapping[str, Cohort]) -> None:
    """Make the sums of all trees."""
    for node in nodes.values():
        if node.parent is None:
            seal(node)


def rules_of(queue: Body) -> Rules:
    """Whom jobs of a queue may evict."""
    preemption = queue["preemption"]
    borrow = preemption.get("borrow_in_cohort", {})
    return Rules(
        RULES[preemption["within_queue"]],
        RULES[preemption["reclaim_in_cohort"]],
        borrow.get("policy", "never") != "never",
        borrow.get("max_priority"),
    )


def boost_of(one: Body) -> int:
    """What is added to a priority; a malformed one counts as nothing."""
    boost = one.get("priority_boost", 0)
    return boost if isinstance(boost, int) else 0


# ---- shares and orders ------------------------------------------------------------------------


def dominant_share(body: Body) -> None:
    """Fair-sharing value of queues and cohorts. A hypothetical request is the first queue's."""
    nodes = tree_of(body)
    for name, usage in body.get("usage", {}).items():
        nodes[name].usage = {(f, r): n for f, part in usage.items() for r, n in part.items()}
    seal_all(nodes)
    hypothetical = {
        (f, r): n
        for f, part in body.get("hypothetical_request", {}).items()
        for r, n in part.items()
    }
    first = body["queues"][0]["name"]
    for name, want in (*body["expect"]["queues"].items(), *body["expect"]["cohorts"].items()):
        share = share_of(nodes[name], hypothetical if name == first else None)
        permille = share.permille()
        got = {
            "share_permille": "infinite" if permille is None else permille,
            "dominant": share.resource or None,
            "borrowing": share.is_borrowing,
        }
        same(name, got, dict(want))


def preempt_policy(body: Body) -> None:
    """May A evict B under the rule?"""
    one, other = body["preemptor"], body["candidate"]
    got = allows(
        RULES[body["rule"]],
        one["priority"] + boost_of(one),
        one.get("created_at", 0),
        other["priority"] + boost_of(other),
        other.get("created_at", 0),
    )
    same("allowed", got, body["expect"]["allowed"])


def victim_order(body: Body) -> None:
    """In which order do these holders leave?"""
    own, other = Cohort("own", is_queue=True), Cohort("other", is_queue=True)
    usages = scale_of([one.get("recent_usage", 0) for one in body["candidates"]])
    holders = [
        Holder(
            one["name"],
            own if one.get("own_queue") else other,
            {},
            one["priority"] + boost_of(one),
            0,
            one.get("reserved_at", NOW),
            order,
            one.get("being_evicted", False),
            whole(one.get("recent_usage", 0), usages),
        )
        for order, one in enumerate(sorted(body["candidates"], key=lambda one: str(one["name"])))
    ]
    holders.sort(key=lambda holder: victim_key(holder, own))
    same("order", [holder.name for holder in holders], body["expect"]["order"])


def cycle_order(body: Body) -> None:
    """In which order are the heads of queues looked at?"""
    policy = body["policy"]
    by_priority = policy.get("sort_by_priority", True)
    by_eviction = policy.get("requeue_time_after_start_timeout", "eviction") == "eviction"
    how = EntryOrder(by_priority, policy.get("preemptors_first", False))

    def key(order: int, one: Body) -> tuple[int, ...]:
        why = one.get("preempted_for")
        past = Past(
            _ns(one["created_at"]),
            _ns(one["evicted_at"]) if one.get("evicted_for") == "start_timeout" else None,
            None if why is None else _ns(one["preempted_at"]),
            None if why is None else Why[why.upper()],
        )
        entry = Entry(
            one.get("borrow_level", 0),
            one["priority"],
            queued_at(past, by_eviction, by_priority),
            order,
            one.get("already_preempting", False),
        )
        return entry_key(entry, how)

    entries = sorted(body["entries"], key=lambda one: str(one["name"]))
    ordered = sorted(enumerate(entries), key=lambda pair: key(*pair))
    same("order", [one["name"] for _, one in ordered], body["expect"]["order"])


def _ns(moment: int) -> int:
    return moment * 10**9


# ---- eviction ---------------------------------------------------------------------------------


def preempt_targets(body: Body) -> None:
    """Which holders must leave so that the incoming job gets its flavors?"""
    nodes = tree_of(body)
    names = sorted(job["name"] for job in body["jobs"])
    held: dict[str, list[Holder]] = {}
    for job in body["jobs"]:
        if "reserved" in job:
            holder = _holder(job, nodes[job["queue"]], names.index(job["name"]))
            held.setdefault(job["queue"], []).append(holder)
            for key, amount in holder.usage.items():
                usage = holder.queue.usage
                usage[key] = usage.get(key, 0) + amount
    seal_all(nodes)
    job = next(job for job in body["jobs"] if job["name"] == body["incoming"])
    queue = next(queue for queue in body["queues"] if queue["name"] == job["queue"])
    taker = _taker(job, body["assumed_flavors"], nodes[job["queue"]], rules_of(queue))
    fair = body.get("policy", {}).get("fair_sharing")
    if fair is None:
        targets = cohort_victims.find(taker, held)
    else:
        targets = fair_victims.find(taker, held, _strategies(fair))
    expect = body["expect"]
    got = {holder.name: why.name.lower() for holder, why in targets if not holder.is_leaving}
    same("evicted", got, dict(expect["evicted"]))
    leaving = sorted(holder.name for holder, _ in targets if holder.is_leaving)
    same("leaving already", leaving, sorted(expect.get("already_leaving_targets", [])))


def _holder(job: Body, queue: Cohort, order: int) -> Holder:
    usage: Amounts = {}
    for part in job["reserved"].values():
        for resource, amount in part["usage"].items():
            flavor = part["flavors"].get(resource)
            if flavor is not None:
                usage[flavor, resource] = usage.get((flavor, resource), 0) + amount
    return Holder(
        job["name"],
        queue,
        usage,
        job["priority"] + boost_of(job),
        job.get("created_at", 0),
        job.get("reserved_at", 0),
        order,
        job.get("being_evicted", False),
    )


def _taker(job: Body, assumed: Mapping[str, Any], queue: Cohort, rules: Rules) -> Taker:
    request: Amounts = {}
    contested: dict[tuple[str, str], bool] = {}
    for group in job["groups"]:
        for resource, one in assumed.get(group["name"], {}).items():
            key = (one["flavor"], resource)
            amount = group["count"] * group["request"].get(resource, 0)
            request[key] = request.get(key, 0) + amount
            if one["mode"] == "preempt":
                contested[key] = True
    return Taker(
        queue,
        request,
        tuple(sorted(contested)),
        job["priority"] + boost_of(job),
        job.get("created_at", 0),
        rules,
    )


def _strategies(fair: Body) -> tuple[fair_victims.Strategy, ...]:
    known = {
        "le_final_share": fair_victims.Strategy.FINAL,
        "lt_initial_share": fair_victims.Strategy.INITIAL,
    }
    if fair["strategies"] == "default":
        return fair_victims.DEFAULT
    return tuple(known[name] for name in fair["strategies"])


# ---- flavors ----------------------------------------------------------------------------------

MODES = {
    flavors.Mode.NO_FIT: "no_fit",
    flavors.Mode.NO_CANDIDATES: "preempt",
    flavors.Mode.PREEMPT: "preempt",
    flavors.Mode.RECLAIM: "preempt",
    flavors.Mode.FIT: "fit",
}
ANSWERS = {
    "no_candidates": flavors.Mode.NO_CANDIDATES,
    "preempt": flavors.Mode.PREEMPT,
    "reclaim": flavors.Mode.RECLAIM,
}
LACKS = {
    "ExceedsMaxQuota": flavors.Lack.MOST,
    "NoMatchingFlavor": flavors.Lack.FLAVOR,
    "WaitingForQuota": flavors.Lack.QUOTA,
}


def assign_flavors(body: Body) -> None:
    """Which flavor does each resource of each group get, and in which mode?"""
    nodes = tree_of(body)
    for name, usage in body.get("usage", {}).items():
        nodes[name].usage = {(f, r): n for f, part in usage.items() for r, n in part.items()}
    seal_all(nodes)
    job = body["job"]
    queue = next(queue for queue in body["queues"] if queue["name"] == job["queue"])
    asker = asker_of(
        queue,
        nodes[job["queue"]],
        _oracle(body.get("preemption_oracle", [])),
        bool(body.get("policy", {}).get("fair_sharing")),
    )
    sets = [pod_set_of(group, body["flavors"], asker.groups) for group in job["groups"]]
    got = flavors.assign(asker, sets)
    expect = body["expect"]
    same("mode", MODES[got.mode], expect["mode"])
    for place, pods in enumerate(sets):
        chosen = got.chosen[place] if place < len(got.chosen) else {}
        parts = {r: {"flavor": c.flavor, "mode": MODES[c.mode]} for r, c in chosen.items()}
        want = expect["groups"].get(pods.name)
        if want is not None:
            same(f"group {pods.name}", {"count": pods.count, "flavors": parts}, dict(want))
        elif parts:
            raise Mismatch(f"group {pods.name}: got {parts}, expected nothing")
    if got.mode is not flavors.Mode.NO_FIT:
        same("borrow level", got.level, expect.get("borrow_level", 0))
    elif "no_fit_reason" in expect:
        same("reason", got.lack, LACKS[expect["no_fit_reason"]])


def asker_of(queue: Body, node: Cohort, oracle: flavors.Oracle, is_fair: bool) -> flavors.Asker:
    """The queue as it looks for flavors."""
    search = queue["flavor_search"]
    rules = rules_of(queue)
    groups = []
    for group in queue["resource_groups"]:
        resources = dict.fromkeys(r for entry in group for r in entry["quota"])
        groups.append(
            flavors.FlavorGroup(tuple(resources), tuple(entry["flavor"] for entry in group))
        )
    return flavors.Asker(
        node,
        tuple(groups),
        oracle,
        flavors.Search(
            search["when_can_borrow"] == "try_next_flavor",
            search["when_can_preempt"] == "try_next_flavor",
            search.get("preference") == "preemption_over_borrowing",
        ),
        rules.borrow or (is_fair and rules.reclaim is not Rule.NEVER),
    )


def _oracle(answers: list[Body]) -> flavors.Oracle:
    canned = {
        (one["flavor"], one["resource"]): flavors.Grade(
            ANSWERS[one["answer"]], one["borrow_level_after"]
        )
        for one in answers
    }

    def oracle(key: tuple[str, str], amount: int) -> flavors.Grade:
        return canned.get(key, flavors.Grade(flavors.Mode.PREEMPT, 0))

    return oracle


def pod_set_of(
    group: Body, known: list[Body], groups: tuple[flavors.FlavorGroup, ...]
) -> flavors.PodSet:
    """A group with the flavors of a queue that its pods may get."""
    defined = {one["name"]: flavor_of(one) for one in known if not one.get("undefined")}
    request = request_of(group, {})
    requests = {r: group["count"] * amount for r, amount in group["request"].items()}
    bears = borne(defined, groups, request)
    return flavors.PodSet(group["name"], group["count"], requests, bears)

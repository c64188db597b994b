"""Kinds that ask one function about shares of queues."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from conformance.cases import Body, Mismatch, Unsupported, same, scale_of, whole
from ganger.streams.kernel.fairness import capacity, reclaimable
from ganger.streams.kernel.fairness import fair_share as fair

_NEAR = Fraction(1, 10**6)

NOTHING = {"quota": 0, "fair_share": 0, "allocated": 0, "allocated_non_preemptible": 0}
"""The standing of a queue in a resource that the case does not list for it."""


def fair_share(body: Body) -> None:
    """Divide `total` over sibling queues."""
    queues = body["queues"]
    keys = ("quota", "limit", "request", "already_given")
    scale = scale_of(body["total"], [{k: q.get(k) for k in keys} for q in queues])
    weights = scale_of([q["weight"] for q in queues])
    demands = [_demand(q, scale, weights) for q in queues]
    penalty = whole(body.get("usage_penalty_k", 0), 1000)
    total = whole(body["total"], scale)
    if body["stage"] == "over_quota_only":
        given = [whole(q.get("already_given", 0), scale) for q in queues]
        shares, left = fair.divide_beyond(total, demands, given, scale, penalty)
    elif body["stage"] == "quota_then_over_quota":
        shares, left = fair.divide_fair(total, demands, scale, penalty)
    else:
        raise Unsupported(f"stage {body['stage']}")
    got = {q["name"]: Fraction(share, scale) for q, share in zip(queues, shares, strict=True)}
    for name, want in body["expect"]["share"].items():
        _near(f"share of {name}", got[name], want)
    if "remaining" in body["expect"]:
        _near("remaining", Fraction(left, scale), body["expect"]["remaining"])


def _demand(queue: Body, scale: int, weights: int) -> fair.Demand:
    quota, limit = queue["quota"], queue["limit"]
    return fair.Demand(
        quota=None if quota is None else whole(quota, scale),
        limit=None if limit is None else whole(limit, scale),
        weight=whole(queue["weight"], weights),
        request=whole(queue["request"], scale),
        priority=queue.get("priority", 0),
        key=(queue.get("created_at", 0), queue["name"]),
        used_micro=int(Fraction(queue.get("usage", 0)) * 10**6),
    )


def _near(what: str, got: Fraction, want: int | Fraction) -> None:
    """Published shares are floats."""
    if abs(got - want) > _NEAR * max(1, abs(want)):
        raise Mismatch(f"{what}: got {float(got)}, expected {float(want)}")


def reclaim_gate(body: Body) -> None:
    """May this job start reclaiming at all?"""
    branches, claimer, _ = _reclaim(body)
    got = reclaimable.may_start(branches[claimer.queue], claimer)
    same("allowed", got, body["expect"]["allowed"])


def reclaim_allowed(body: Body) -> None:
    """Is this set of victims acceptable?"""
    branches, claimer, victims = _reclaim(body)
    got = reclaimable.is_allowed(branches, claimer, victims)
    same("allowed", got, body["expect"]["allowed"])


def _reclaim(
    body: Body,
) -> tuple[dict[str, reclaimable.Branch], reclaimable.Claimer, list[reclaimable.Victim]]:
    claimer, queues, victims = body["reclaimer"], body["queues"], body.get("victims", [])
    scale = scale_of(claimer["request"], [q["resources"] for q in queues], victims)
    asked = [claimer["request"], *[one["resources"] for one in victims]]
    names = sorted({name for part in (*asked, *[q["resources"] for q in queues]) for name in part})
    branches = {
        q["name"]: reclaimable.Branch(
            q["name"],
            q["parent"] or "",
            {name: _standing(q["resources"].get(name, NOTHING), scale) for name in names},
        )
        for q in queues
    }
    return (
        branches,
        reclaimable.Claimer(
            claimer["queue"],
            _scaled(claimer["request"], scale),
            claimer["preemptible"],
            whole(body.get("saturation_multiplier", 1), 1000),
        ),
        [(v["queue"], _scaled(v["resources"], scale)) for v in victims],
    )


def _standing(one: Body, scale: int) -> reclaimable.Standing:
    def bound(name: str) -> int | None:
        return None if one.get(name) is None else whole(one[name], scale)

    return reclaimable.Standing(
        quota=bound("quota"),
        fair_share=bound("fair_share"),
        allocated=whole(one["allocated"], scale),
        allocated_firm=whole(one["allocated_non_preemptible"], scale),
        limit=bound("limit"),
    )


def _scaled(amounts: Mapping[str, Any], scale: int) -> dict[str, int]:
    return {name: whole(amount, scale) for name, amount in amounts.items()}


def queue_share(body: Body) -> None:
    """The greatest of allocated over deserved."""
    queue = body["queue"]
    scale = scale_of(queue)
    names = sorted({**queue["allocated"], **queue["deserved"]})

    def vector(amounts: Mapping[str, Any]) -> dict[int, int]:
        return {names.index(name): whole(amount, scale) for name, amount in amounts.items()}

    numerator, denominator = capacity.share(vector(queue["allocated"]), vector(queue["deserved"]))
    same("share", Fraction(numerator, denominator), Fraction(body["expect"]["share"]))

"""Kinds that ask for scores of nodes by the pure parts of Volcano's scoring policies."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from conformance.cases import Body, Mismatch, Unsupported
from ganger.streams.kernel import scores

LEANS = {
    "most_allocated": scores.Lean.MOST_ALLOCATED,
    "least_allocated": scores.Lean.LEAST_ALLOCATED,
}
SHORT = {"cpu_m": "cpu"}
"""Resources that policies name otherwise than requests do."""

Vector = dict[int, int]


def score(body: Body) -> None:
    """Scores of nodes for tasks, within the stated tolerance."""
    [[one]] = body["policy"]["tiers"]
    if one["plugin"] not in ("binpack", "resource_strategy_fit"):
        raise Unsupported(f"scores of {one['plugin']}")
    tasks = {task["name"]: task for job in body["jobs"] for task in job["tasks"]}
    places: dict[str, int] = {}
    leans = leans_of(one["plugin"], one.get("args", {}), places)
    for task, wanted in body["expect"]["scores"].items():
        for node, want in wanted.items():
            [capacity] = [n["capacity"] for n in body["nodes"] if n["name"] == node]
            got = scores.by_resource(
                vector(tasks[task]["request"], places),
                used_on(node, tasks, places),
                vector(capacity, places),
                leans,
            )
            points = Fraction(got * one.get("args", {}).get("weight", 1), scores.POINT)
            if abs(points - want) > body["expect"]["tolerance"]:
                raise Mismatch(f"{task} on {node}: got {float(points)}, expected {float(want)}")


def leans_of(
    plugin: str, args: Mapping[str, Any], places: dict[str, int]
) -> dict[int, tuple[scores.Lean, int]]:
    """What each resource leans to, and its weight. Cpu and memory weigh 1 unless said."""
    if plugin == "binpack":
        weights = {"cpu": 1, "memory": 1, **args.get("resource_weights", {})}
        return {
            place_of(name, places): (scores.Lean.MOST_ALLOCATED, weight)
            for name, weight in weights.items()
        }
    return {
        place_of(name, places): (LEANS[one["mode"]], one["weight"])
        for name, one in args.get("resources", {}).items()
    }


def used_on(node: str, tasks: Mapping[str, Body], places: dict[str, int]) -> Vector:
    """What tasks hold on a node."""
    used: Vector = {}
    for task in tasks.values():
        if task.get("node") == node:
            for place, amount in vector(task["request"], places).items():
                used[place] = used.get(place, 0) + amount
    return used


def vector(amounts: Mapping[str, int], places: dict[str, int]) -> Vector:
    """Amounts by place."""
    return {place_of(name, places): amount for name, amount in amounts.items()}


def place_of(name: str, places: dict[str, int]) -> int:
    """The place of a resource, given to it now if it has none."""
    return places.setdefault(SHORT.get(name, name), len(places))

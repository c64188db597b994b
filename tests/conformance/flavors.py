"""Flavors of a case, and what its groups of pods ask, as records."""

from collections.abc import Mapping
from typing import Any

from conformance.cases import Body, Unsupported, whole
from ganger.schemas import records as r
from ganger.schemas.enums import (
    IslandPolicy,
    SelectorOperator,
    TaintEffect,
    TolerationOperator,
)
from support.builders import GENESIS

RESOURCES = {"cpu_m": "cpu_milli", "memory": "memory_mib", "gpu": "cards_milli"}
"""Names of resources in cases and in records; memory counts in the case's own unit."""

SCALES = {"gpu": 1000}

EFFECTS = {
    "NoSchedule": TaintEffect.NO_SCHEDULE,
    "NoExecute": TaintEffect.NO_EXECUTE,
    "PreferNoSchedule": TaintEffect.PREFER_NO_SCHEDULE,
}
_GROUP_KEYS = ("name", "count", "request", "min_count", "tolerations", "node_selector")


def named(resource: str) -> str:
    """A resource's name in records."""
    return RESOURCES.get(resource, resource)


def units(resource: str, amount: Any) -> int:
    """An amount in the units of records."""
    return whole(amount, SCALES.get(resource, 1))


def flavor_of(flavor: Body) -> r.FlavorConfigured:
    """A flavor."""
    return r.FlavorConfigured(
        GENESIS,
        "",
        None,
        flavor["name"],
        tuple(r.Label(key, value) for key, value in flavor.get("labels", {}).items()),
        tuple(
            r.Taint(one["key"], one.get("value", ""), EFFECTS[one.get("effect", "NoSchedule")])
            for one in flavor.get("taints", [])
        ),
        tuple(_toleration(one) for one in flavor.get("tolerations", [])),
        False,
    )


def request_of(group: Body, amounts: Mapping[str, Any]) -> r.PodRequest:
    """What one pod of a group asks.

    Raises:
        Unsupported: The group says something else, or asks for a part of a card.
    """
    unknown = [key for key in group if key not in _GROUP_KEYS]
    if unknown:
        raise Unsupported(f"group fields {unknown}")
    return r.PodRequest(
        whole(amounts.get("gpu", 0)),
        0,
        0,
        0,
        (),
        IslandPolicy.ANY,
        whole(amounts.get("cpu_m", 0)),
        whole(amounts.get("memory", 0)),
        tuple(
            r.Amount(name, whole(amount))
            for name, amount in sorted(amounts.items())
            if name not in RESOURCES
        ),
        tuple(
            r.Selector(key, SelectorOperator.IN, (value,))
            for key, value in group.get("node_selector", {}).items()
        ),
        tuple(_toleration(one) for one in group.get("tolerations", [])),
    )


def _toleration(one: Body) -> r.Toleration:
    exists = one.get("operator") == "Exists"
    return r.Toleration(
        one.get("key", ""),
        TolerationOperator.EXISTS if exists else TolerationOperator.EQUAL,
        one.get("value", ""),
        EFFECTS.get(one.get("effect", ""), TaintEffect.UNKNOWN),
    )

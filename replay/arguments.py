"""What determines a simulated run, as the bytes that its ledger's header carries.

Two runs with equal arguments have equal ledgers, so an unfinished ledger whose arguments equal a
call's is gone on with, and any other is refused.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import msgspec

from ganger.replay.assumptions import AS_TRACED, Assumptions
from ganger.replay.cluster import ClusterSpec
from ganger.replay.faults import Faults
from ganger.replay.traces.model import Trace
from ganger.schemas.encoding import encode_record
from ganger.schemas.records import PolicyConfigured

SIMULATION_VERSION = 2
"""Grows when arguments are added, or equal ones would lead to other records than before."""

_KIND = "simulation"
_ADDED = {2: {"assumptions": msgspec.to_builtins(AS_TRACED)}}
"""What came with each version, and what it is in runs of before."""

_ABSENT = object()


def run_arguments(
    trace: Trace,
    cluster: ClusterSpec,
    policy: PolicyConfigured,
    *,
    limit: int | None,
    seed: int,
    faults: Faults,
    assumptions: Assumptions,
) -> bytes:
    """Canonical JSON of everything that determines a run."""
    return msgspec.json.encode(
        {
            _KIND: SIMULATION_VERSION,
            "trace": trace.name,
            "trace_format": trace.format,
            "trace_sha256": trace.digest,
            "limit": limit,
            "cluster": msgspec.Raw(cluster.canonical()),
            "policy": policy.policy,
            "policy_sha256": sha256(encode_record(policy)).hexdigest(),
            "seed": seed,
            "faults": msgspec.Raw(faults.canonical()),
            "assumptions": assumptions,
        },
        order="deterministic",
    )


def difference(recorded: bytes, asked: bytes) -> str:
    """Which arguments of a recorded run are others than those asked for; empty if none is."""
    if recorded == asked:
        return ""
    try:
        old = msgspec.json.decode(recorded, type=dict[str, Any])
    except msgspec.DecodeError:
        old = {}
    if _KIND not in old:
        return "it was not written by a simulation"
    new = msgspec.json.decode(asked, type=dict[str, Any])
    _lift(old)
    return "; ".join(_differences("", old, new))


def _lift(arguments: dict[str, Any]) -> None:
    """Arguments of an older run as it would be called for now."""
    version = arguments[_KIND]
    for number, added in _ADDED.items():
        if version == number - 1:
            for key, value in added.items():
                arguments.setdefault(key, value)
            arguments[_KIND] = version = number


def _differences(place: str, old: Any, new: Any) -> Iterator[str]:
    """Each value that differs, with its place; whole where one has another shape."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            below = f"{place}.{key}" if place else key
            yield from _differences(below, old.get(key, _ABSENT), new.get(key, _ABSENT))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (first, second) in enumerate(zip(old, new, strict=True)):
            yield from _differences(f"{place}[{index}]", first, second)
    elif old != new:
        yield f"{place} was {_shown(old)} and is now {_shown(new)}"


def _shown(value: object) -> str:
    """A value as JSON, whole; what is absent or null was not given."""
    if value is _ABSENT or value is None:
        return "not given"
    return msgspec.json.encode(value).decode()

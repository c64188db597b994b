"""What determines a simulated run, as the bytes that its ledger's header carries.

Two runs with equal arguments have equal ledgers, so an unfinished ledger whose arguments equal a
call's is gone on with, and any other is refused.
"""

from hashlib import sha256
from itertools import zip_longest
from typing import Any

import msgspec

from ganger.replay.cluster import ClusterSpec
from ganger.replay.faults import Faults
from ganger.replay.traces.model import Trace
from ganger.schemas.encoding import encode_record
from ganger.schemas.records import PolicyConfigured

SIMULATION_VERSION = 1
"""Grows when equal arguments would lead to other records than before."""

_KIND = "simulation"
_SHOWN_CHARS = 60
_SHOWN_BEFORE_CHARS = 20


def run_arguments(
    trace: Trace,
    cluster: ClusterSpec,
    policy: PolicyConfigured,
    *,
    limit: int | None,
    seed: int,
    faults: Faults,
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
    names = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    return "; ".join(f"{name} was {_shown(name, old, new)}" for name in names)


def _shown(name: str, old: dict[str, Any], new: dict[str, Any]) -> str:
    """Both values, long ones cut to the part where they begin to differ."""
    first, second = (msgspec.json.encode(values.get(name)).decode() for values in (old, new))
    if max(len(first), len(second)) > _SHOWN_CHARS:
        pairs = enumerate(zip_longest(first, second))
        differs_at = next((index for index, (a, b) in pairs if a != b), 0)
        begin = max(0, differs_at - _SHOWN_BEFORE_CHARS)
        end = begin + _SHOWN_CHARS
        first, second = (f"...{text[begin:end]}..." for text in (first, second))
    return f"{first} and is now {second}"

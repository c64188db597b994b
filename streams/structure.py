"""Structure of inputs beyond what their schemas say: names that name something, numbers that count.

Each check returns "" for a sound record, else what is wrong: field, value, remedy. Whether a sound
request makes sense for the cell as it stands is for the kernel to say.
"""

from typing import Any

from ganger.schemas.records import Amount, NodeReport, Record
from ganger.streams.kernel.limits import (
    CARDS_MAX,
    NAMES_MAX,
    QUANTITY_MAX,
    RUN_CARDS_MAX,
)
from ganger.streams.kernel.resources import NAMED, names_defect

NAME_CHARS_MAX = 253
"""Longest key of a job, queue or node: that of a DNS name, and so of a Kubernetes object."""

_NAME_CHARS = range(1, NAME_CHARS_MAX + 1)


def name_defect(field: str, name: str) -> str:
    """What is wrong with a name."""
    if len(name) in _NAME_CHARS:
        return ""
    return f"{field} is {name[:40]!r} of {len(name)} characters; give 1 to {NAME_CHARS_MAX}"


def event_defect(record: Record) -> str:
    """What is wrong with the id of an event: remembered for a while, so it must be short."""
    if len(record.event_id) <= NAME_CHARS_MAX:
        return ""
    return (
        f"event_id is {record.event_id[:40]!r}... of {len(record.event_id)} characters; "
        f"give at most {NAME_CHARS_MAX}"
    )


def job_defect(record: Any) -> str:
    """What is wrong with the key of a job's request."""
    job = record.job
    return "" if len(job) in _NAME_CHARS else name_defect("job", job)


def node_defect(record: Any) -> str:
    """What is wrong with the name in a node's request."""
    return name_defect("node", record.node)


def queue_defect(record: Any) -> str:
    """What is wrong with the names of a queue and its parent."""
    return name_defect("queue", record.queue) or (
        name_defect("parent", record.parent) if record.parent else ""
    )


def flavor_defect(record: Any) -> str:
    """What is wrong with the name of a flavor: it is part of the names of quantities."""
    if "|" in record.flavor:
        return f"flavor is {record.flavor[:40]!r}; leave out the |"
    return name_defect("flavor", record.flavor)


def zone_defect(record: Any) -> str:
    """What is wrong with the name of a zone."""
    return name_defect("zone", record.zone)


def policy_defect(record: Any) -> str:
    """What is wrong with the name of a policy."""
    return name_defect("policy", record.policy)


def reservation_defect(record: Any) -> str:
    """What is wrong with the name of a reservation."""
    return name_defect("reservation", record.reservation)


def attempt_defect(record: Any) -> str:
    """What is wrong with the attempt that a fact is about."""
    if record.pod < 0:
        return f"pod is {record.pod}; pods count from 0"
    if record.attempt < 1:
        return f"attempt is {record.attempt}; attempts count from 1"
    job = record.job
    return "" if len(job) in _NAME_CHARS else name_defect("job", job)


def report_defect(report: NodeReport) -> str:
    """What is wrong with a node's report."""
    for field in ("node", "boot_id"):
        defect = name_defect(field, getattr(report, field))
        if defect:
            return defect
    for field in ("cpu_milli", "memory_mib", "pod_slots"):
        if not 0 <= getattr(report, field) <= QUANTITY_MAX:
            return f"{field} is {getattr(report, field)}; give 0 to {QUANTITY_MAX}"
    return (
        _resources_defect(report.resources)
        or _labels_defect(report)
        or _cards_defect(report)
        or _attempts_defect(report)
    )


def _resources_defect(amounts: tuple[Amount, ...]) -> str:
    if len(amounts) > NAMES_MAX:
        return f"resources are {len(amounts)}; give at most {NAMES_MAX}"
    for amount in amounts:
        if not 0 <= amount.count <= QUANTITY_MAX or not amount.resource:
            what = f"{amount.resource[:40]!r} = {amount.count}"
            return f"resources has {what}; give a name, and 0 to {QUANTITY_MAX}"
    if names_defect(amounts):
        names = [amount.resource for amount in amounts]
        wrong = next(name for name in names if name in NAMED or names.count(name) > 1)
        return f"resources has {wrong[:40]!r} beside another field or itself; name each once"
    return ""


def _labels_defect(report: NodeReport) -> str:
    keys: dict[str, bool] = {}
    for label in report.labels:
        if label.key in keys:
            return f"labels has {label.key[:40]!r} twice; give each key once"
        keys[label.key] = True
    return ""


def _cards_defect(report: NodeReport) -> str:
    cards = 0
    for index, run in enumerate(report.cards):
        if run.count < 1 or not 0 <= run.memory_mib <= QUANTITY_MAX or run.island < 0:
            numbers = f"count {run.count}, memory_mib {run.memory_mib}, island {run.island}"
            return f"cards[{index}] has {numbers}; give at least one card and no negative number"
        cards += run.count
    if cards > CARDS_MAX:
        return f"cards are {cards}; a node may have {CARDS_MAX}"
    if cards * len(report.cards) > RUN_CARDS_MAX:
        most = RUN_CARDS_MAX // cards
        return f"cards are {cards} in {len(report.cards)} runs; so many may be in {most} runs"
    loads = report.utilisation_milli
    if loads and (len(loads) != cards or min(loads) < 0 or max(loads) > 1000):
        return f"utilisation_milli has {len(loads)} values; give one of 0..1000 for each card"
    return ""


def _attempts_defect(report: NodeReport) -> str:
    for index, attempt in enumerate(report.attempts):
        defect = attempt_defect(attempt)
        if defect:
            return f"attempts[{index}].{defect}"
    if report.handled_seq < -1:
        return f"handled_seq is {report.handled_seq}; give a seq, or -1 for none"
    return ""

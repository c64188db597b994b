"""Structure of inputs beyond what their schemas say: names that name something, numbers that count.

Each check returns "" for a sound record, else what is wrong: field, value, remedy. Whether a sound
request makes sense for the cell as it stands is for the kernel to say.
"""

from typing import Any

from ganger.schemas.records import NodeReport

NAME_CHARS_MAX = 253
"""Longest key of a job, queue or node: that of a DNS name, and so of a Kubernetes object."""

CARDS_MAX = 1_000_000
"""Most cards of a node; whole machines of processors are described as one node."""


def name_defect(field: str, name: str) -> str:
    """What is wrong with a name."""
    if 0 < len(name) <= NAME_CHARS_MAX:
        return ""
    return f"{field} is {name[:40]!r} of {len(name)} characters; give 1 to {NAME_CHARS_MAX}"


def job_defect(record: Any) -> str:
    """What is wrong with the key of a job's request."""
    return name_defect("job", record.job)


def node_defect(record: Any) -> str:
    """What is wrong with the name in a node's request."""
    return name_defect("node", record.node)


def attempt_defect(record: Any) -> str:
    """What is wrong with the attempt that a fact is about."""
    if record.pod < 0:
        return f"pod is {record.pod}; pods count from 0"
    if record.attempt < 1:
        return f"attempt is {record.attempt}; attempts count from 1"
    return name_defect("job", record.job)


def report_defect(report: NodeReport) -> str:
    """What is wrong with a node's report."""
    for field in ("node", "boot_id"):
        defect = name_defect(field, getattr(report, field))
        if defect:
            return defect
    for field in ("cpu_milli", "memory_mib", "pod_slots"):
        if getattr(report, field) < 0:
            return f"{field} is {getattr(report, field)}; give 0 or more"
    for amount in report.resources:
        if amount.count < 0 or not amount.resource:
            return f"resources has {amount.resource!r} = {amount.count}; give a name, 0 or more"
    return _cards_defect(report) or _attempts_defect(report)


def _cards_defect(report: NodeReport) -> str:
    cards = 0
    for index, run in enumerate(report.cards):
        if run.count < 1 or run.memory_mib < 0 or run.island < 0:
            numbers = f"count {run.count}, memory_mib {run.memory_mib}, island {run.island}"
            return f"cards[{index}] has {numbers}; give at least one card and no negative number"
        cards += run.count
    if cards > CARDS_MAX:
        return f"cards are {cards}; a node may have {CARDS_MAX}"
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

"""In which order those behind the reservation are offered a gap: by the policy's word."""

import pytest
from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.streams.presets.loader import load_policy
from support import builders as b
from support.timed_cells import STARTS

JOBS = {
    # cards, run time in s, seconds waited when the gap opens
    "first": (2, 60, 100),
    "slowed": (1, 1, 90),
    "wide": (6, 20, 30),
    "large": (4, 90, 20),
    "short": (3, 10, 5),
}
OPENS_S = 200
"""When six cards come free, of seven that the head waits for until the thousandth second."""


def policy_of(preset: str, order: str) -> r.PolicyConfigured:
    """A preset with another order of the scan."""
    found = load_policy(preset)
    actions = [
        replace(one, arguments=(*one.arguments, r.Argument("order", order)))
        if one.action == "backfill"
        else one
        for one in found.actions
    ]
    return replace(found, actions=tuple(actions), settings=())


def fillers(rules: r.PolicyConfigured, nodes: tuple[int, ...]) -> list[str]:
    """Who starts when the gap opens, one after the other."""
    cell = b.Cell()
    named = [b.node(f"n{place}", cards) for place, cards in enumerate(nodes)]
    cell.start(*named, rules=rules)
    begin_ns = cell.now_ns

    def ask(job: str, cards: int, run_s: int, at_s: int) -> list[str]:
        cell.now_ns = begin_ns + at_s * b.SECOND
        made = b.submission(job, b.role(cards=cards), time_ns=cell.now_ns)
        cell.put(replace(made, runtime_estimate_ns=run_s * b.SECOND))
        found = [d.job for d in cell.tick(0) if d.kind in STARTS]
        for name in found:
            cell.started(name)
        return found

    assert ask("blocks", 6, 900, 0) == ["blocks"]
    for place, cards in enumerate((1, *nodes[1:])):
        assert ask(f"stays{place}", cards, 1000, 0) == [f"stays{place}"]
    assert ask("head", 7, 500, 1) == []
    for job, (cards, run_s, waited_s) in JOBS.items():
        assert ask(job, cards, run_s, OPENS_S - waited_s) == []
    cell.now_ns = begin_ns + OPENS_S * b.SECOND
    cell.succeeded("blocks")
    return [d.job for d in cell.tick(0) if d.kind in STARTS]


@pytest.mark.parametrize("preset", ["hpc-easy", "xirang"])
@pytest.mark.parametrize("nodes", [(7,), (7, 2)])
@pytest.mark.parametrize(
    ("order", "jobs"),
    [
        ("arrival", ["first", "slowed", "short"]),
        ("shortest", ["slowed", "short", "first"]),
        ("widest", ["wide"]),
        ("area", ["large", "first"]),
        ("slowdown", ["slowed", "first", "short"]),
    ],
)
def test_each_order(order: str, jobs: list[str], nodes: tuple[int, ...], preset: str) -> None:
    """Where counts of cards decide, where placement does, and where jobs in gaps make way."""
    assert fillers(policy_of(preset, order), nodes) == jobs

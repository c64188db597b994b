"""What a start in a gap says it was judged by, and that it delays nobody by that."""

import random

import pytest
from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.enums import DecisionKind
from ganger.schemas.reasons import Reason
from support.builders import Cell
from support.gang_cells import carry_out_gangs
from support.node_planners import Gang, Node, Part
from support.timed_cells import fills_break_no_promise, timed_policy

JOBS = 60
SEEDS = range(3)
WHOLE = (0b1111,)
LAYOUTS = {"pool": [Node(8, (0b11111111,))], "nodes": [Node(4, WHOLE), Node(4, WHOLE)]}
PRESETS = ("hpc-easy", "hpc-sjbf-clairvoyant", "hpc-predict")


def random_jobs(seed: int, pods_max: int) -> list[Gang]:
    """Jobs that keep eight cards busy."""
    chance = random.Random(seed)
    now_s, made = 0, []
    for number in range(1, JOBS + 1):
        now_s += chance.choice((0, 0, 1, 2, 4))
        run_s = chance.randint(1, 15)
        part = Part(chance.randint(1, pods_max), chance.choice((1, 1, 2, 3, 4)))
        made.append(Gang(number, now_s, run_s, run_s + chance.choice((0, 0, 2, 10)), (part,)))
    return made


def carried_out(policy: r.PolicyConfigured, layout: str, seed: int) -> Cell:
    nodes = LAYOUTS[layout]
    return carry_out_gangs(policy, nodes, random_jobs(seed, len(nodes)))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("preset", PRESETS)
def test_no_start_in_a_gap_breaks_a_reservation(preset: str, layout: str, seed: int) -> None:
    """By the fold of decisions that `verify` does, which knows nothing of plans."""
    cell = carried_out(timed_policy(preset), layout, seed)
    fills_break_no_promise(cell)


@pytest.mark.parametrize("reserve", ["1", "2"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_who_is_safe_in_a_gap_ends_in_it_by_the_estimate_and_margin_that_are_said(
    layout: str, reserve: str
) -> None:
    policy = timed_policy("hpc-easy", margin="learnt", estimates="predicted", alike="user")
    judges = (r.Argument("timed", "true"), r.Argument("judge", "estimate"))
    reserves = r.ActionConfig("allocate", (r.Argument("reserve", reserve),))
    rules = replace(policy, actions=(reserves, r.ActionConfig("backfill", judges)))
    safe = wide = 0
    for seed in SEEDS:
        for one in carried_out(rules, layout, seed).decisions:
            if one.kind is DecisionKind.BACKFILL and one.reason is Reason.SAFE_IN_GAP:
                safe += 1
                wide += one.margin_ns > 0
                assert one.asked == one.estimate_ns + one.margin_ns <= one.limit
    assert safe and wide

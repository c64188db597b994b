"""Submissions that are refused for what only few jobs have: the reason, the value, the limit."""

import pytest
from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.enums import JobAction, PodEvent
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.handlers.job_faults import GROUP_DEPTH_MAX
from ganger.streams.kernel.limits import NUMBER_MAX, PRIORITY_MAX, TIERS_MAX
from support.builders import Cell, node, policy, role, submission
from support.decision_lines import job_of, said

R = Reason
ONE = role(cards=1)
LEFT = replace(role("left", replicas=2, cards=1), group="a")
RIGHT = replace(role("right", replicas=3, cards=1), group="b")


def near(*roles: str, tier: int = 0, labels: tuple[r.Label, ...] = ()) -> r.Affinity:
    """An affinity with roles or labels."""
    return r.Affinity(tier, roles, labels, False, True, False)


def action(
    event: PodEvent, what: JobAction, codes: tuple[int, ...] = (), of: str = "", wait: int = 0
) -> r.EventAction:
    """One action of a job."""
    return r.EventAction(event, codes, of, what, wait)


def deep(levels: int) -> tuple[r.PodGroup, ...]:
    """Groups, each inside the one before."""
    return tuple(r.PodGroup(f"g{n}", f"g{n - 1}" if n else "") for n in range(levels))


SHARED = role(milli=500)

FAULTS: list[tuple[dict[str, object], tuple[Reason, int, int]]] = [
    # groups
    ({"roles": (LEFT,)}, (R.GROUP_UNKNOWN, 0, 0)),
    ({"groups": (r.PodGroup("a", "b"),), "roles": (LEFT,)}, (R.GROUP_UNKNOWN, 0, 0)),
    ({"groups": (r.PodGroup("a", "a"),), "roles": (LEFT,)}, (R.GROUP_UNKNOWN, 0, 0)),
    ({"groups": (r.PodGroup("a", "b"), r.PodGroup("b", "a"))}, (R.GROUP_UNKNOWN, 0, 0)),
    ({"groups": (r.PodGroup("a"), r.PodGroup("a"))}, (R.NAMES_REPEATED, 2, 1)),
    ({"groups": (r.PodGroup(""),)}, (R.NAMES_REPEATED, 1, 0)),
    ({"groups": (r.PodGroup("a", "", 3),), "roles": (LEFT,)}, (R.MIN_ABOVE_REPLICAS, 3, 2)),
    ({"groups": (r.PodGroup("a", "", -1),), "roles": (LEFT,)}, (R.VALUE_OUT_OF_RANGE, -1, 0)),
    (
        {"groups": (r.PodGroup("a"), r.PodGroup("b", "a", 4)), "roles": (LEFT, RIGHT)},
        (R.MIN_ABOVE_REPLICAS, 4, 3),
    ),
    ({"groups": deep(GROUP_DEPTH_MAX + 1)}, (R.VALUE_OUT_OF_RANGE, 17, GROUP_DEPTH_MAX)),
    (
        {"groups": (r.PodGroup("a", topology=r.Topology(-1, 0)),), "roles": (LEFT,)},
        (R.VALUE_OUT_OF_RANGE, -1, 0),
    ),
    ({"topology": r.Topology(0, TIERS_MAX + 1)}, (R.VALUE_OUT_OF_RANGE, 65, TIERS_MAX)),
    # roles
    ({"roles": (replace(ONE, priority=1 << 40),)}, (R.VALUE_OUT_OF_RANGE, 1 << 40, PRIORITY_MAX)),
    ({"roles": (replace(ONE, order=-(1 << 40)),)},
     (R.VALUE_OUT_OF_RANGE, -(1 << 40), -PRIORITY_MAX)),
    ({"roles": (replace(ONE, revocable_zone="z"),)}, (R.ZONE_UNKNOWN, 0, 0)),
    ({"roles": (replace(ONE, labels=(r.Label("", "x"),)),)}, (R.NAMES_REPEATED, 1, 0)),
    ({"roles": (replace(ONE, affinities=(near("none"),)),)}, (R.ROLE_UNKNOWN, 0, 0)),
    ({"roles": (replace(ONE, affinities=(near(),)),)}, (R.VALUE_OUT_OF_RANGE, 0, 1)),
    ({"roles": (replace(ONE, affinities=(near("worker", tier=-1),)),)},
     (R.VALUE_OUT_OF_RANGE, -1, 0)),
    ({"roles": (replace(ONE, request=replace(ONE.request, card_count=2)),)},
     (R.VALUE_OUT_OF_RANGE, 2, 0)),
    ({"roles": (replace(SHARED, request=replace(SHARED.request, card_count=2)),)},
     (R.VALUE_OUT_OF_RANGE, 2, 1)),
    # numbers of the job
    ({"priority_boost": PRIORITY_MAX + 1}, (R.VALUE_OUT_OF_RANGE, PRIORITY_MAX + 1, PRIORITY_MAX)),
    ({"protected_ns": -1}, (R.VALUE_OUT_OF_RANGE, -1, 0)),
    ({"notice_ns": NUMBER_MAX + 1}, (R.VALUE_OUT_OF_RANGE, NUMBER_MAX + 1, NUMBER_MAX)),
    ({"grace_ns": -2}, (R.VALUE_OUT_OF_RANGE, -2, -1)),
    ({"restarts_max": -2}, (R.VALUE_OUT_OF_RANGE, -2, -1)),
    ({"min_success": 2}, (R.MIN_ABOVE_REPLICAS, 2, 1)),
    ({"min_success": -1}, (R.VALUE_OUT_OF_RANGE, -1, 0)),
    ({"budget": r.Budget(min_available_milli=1001)}, (R.VALUE_OUT_OF_RANGE, 1001, 1000)),
    ({"budget": r.Budget(max_unavailable_count=-2)}, (R.VALUE_OUT_OF_RANGE, -2, -1)),
    ({"start_request": (r.Amount("x", -1),)}, (R.VALUE_OUT_OF_RANGE, -1, 0)),
    ({"start_request": (r.Amount("x", 1), r.Amount("x", 1))}, (R.VALUE_OUT_OF_RANGE, 2, 1)),
    # actions
    ({"actions": (action(PodEvent.UNKNOWN, JobAction.RESTART_JOB),)},
     (R.VALUE_OUT_OF_RANGE, 0, 1)),
    ({"actions": (action(PodEvent.FAILED, JobAction.UNKNOWN),)}, (R.VALUE_OUT_OF_RANGE, 0, 1)),
    ({"actions": (action(PodEvent.FAILED, JobAction.ABORT_JOB, of="none"),)},
     (R.ROLE_UNKNOWN, 0, 0)),
    ({"actions": (action(PodEvent.FAILED, JobAction.ABORT_JOB, wait=5),)},
     (R.VALUE_OUT_OF_RANGE, 5, 0)),
    ({"actions": (action(PodEvent.EVICTED, JobAction.ABORT_JOB, (1,)),)},
     (R.VALUE_OUT_OF_RANGE, 1, 0)),
    ({"actions": (action(PodEvent.JOB_PENDING, JobAction.ABORT_JOB),)},
     (R.VALUE_OUT_OF_RANGE, 0, 1)),
    ({"actions": (action(PodEvent.JOB_PENDING, JobAction.RESTART_JOB, wait=5),)},
     (R.VALUE_OUT_OF_RANGE, 4, 5)),
    ({"actions": (action(PodEvent.JOB_PENDING, JobAction.ABORT_JOB, of="worker", wait=5),)},
     (R.ROLE_UNKNOWN, 0, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "fault"), FAULTS)
def test_what_is_refused(facts: dict[str, object], fault: tuple[Reason, int, int]) -> None:
    cell = Cell().start(node("n1"))
    digest = cell.digest
    request = replace(submission("j", ONE), **facts)
    (refused,) = cell.put(request)
    assert (refused.reason, refused.asked, refused.limit) == fault
    assert "j" not in cell.state.job_by_key
    cell.state.next_seq -= 1
    assert cell.digest == digest  # but for its number, the record has left no trace


def test_a_job_with_all_of_it_is_taken() -> None:
    cell = Cell().start(node("n1"))
    cell.put(r.ZoneConfigured(cell.now_ns, "", None, "z", (r.Interval(0, 1 << 62),), False))
    beside = near("right", labels=(r.Label("app", "x"),))
    left = replace(LEFT, revocable_zone="z", affinities=(beside,), labels=(r.Label("app", "y"),))
    request = replace(
        submission("j", left, RIGHT),
        groups=(r.PodGroup("a", "top", 1), r.PodGroup("b", "top", 3), r.PodGroup("top", "", 5)),
        topology=r.Topology(2, 1),
        budget=r.Budget(min_available_milli=1000),
        start_request=(r.Amount("cards_milli", 1),),
        min_success=5,
        restarts_max=3,
        grace_ns=0,
        actions=(
            action(PodEvent.FAILED, JobAction.RESTART_GROUP, (137, -9), "left"),
            action(PodEvent.JOB_PENDING, JobAction.RESUME_JOB, wait=1),
        ),
    )
    assert said(cell.put(request)) == []
    assert job_of(cell, "j").request.groups[2].min_available == 5


def test_a_group_keeps_its_minimum_when_its_roles_shrink() -> None:
    cell = Cell().start(node("n1"), rules=policy())
    cell.put(
        replace(submission("j", LEFT, RIGHT), groups=(r.PodGroup("a", "", 2), r.PodGroup("b")))
    )
    (refused,) = cell.update("j", scale=[("left", 1, 1)])
    assert (refused.reason, refused.asked, refused.limit) == (R.MIN_ABOVE_REPLICAS, 2, 1)
    assert said(cell.update("j", scale=[("right", 1, 1)])) == []

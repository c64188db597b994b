"""Policy records: what is refused, and that the old policy stays in force."""

from collections.abc import Callable

import msgspec
import pytest

from ganger.schemas import records as r
from ganger.schemas.enums import DecisionKind
from ganger.schemas.reasons import Reason
from ganger.streams.kernel.flags import ALL_FLAGS
from ganger.streams.kernel.policies.hooks import PolicyRefused
from ganger.streams.kernel.policies.registry import build
from support.builders import Cell, node, policy, role
from support.decision_lines import places, said

Change = Callable[[r.PolicyConfigured], r.PolicyConfigured]


def with_config(config: r.PolicyConfig) -> r.PolicyConfigured:
    """A policy of one rule."""
    return msgspec.structs.replace(policy(), tiers=(r.PolicyTier((config,)),))


def argument(key: str, value: str) -> tuple[r.Argument, ...]:
    """One argument."""
    return (r.Argument(key, value),)


REFUSED = [
    (policy("nonsense"), Reason.POLICY_UNKNOWN, "tiers[0].policies[0]"),
    (policy(actions=["enqueue", "dance"]), Reason.ACTION_UNKNOWN, "actions[1]"),
    (policy(actions=["allocate", "allocate"]), Reason.ACTION_UNKNOWN, "actions[1]"),
    (policy(("priority", {"x": "1"})), Reason.ARGUMENT_UNKNOWN, "tiers[0].policies[0].x"),
    (
        policy(("overcommit", {"factor_milli": "999"})),
        Reason.ARGUMENT_INVALID,
        "tiers[0].policies[0].factor_milli",
    ),
    (
        policy(("overcommit", {"factor_milli": "1.2"})),
        Reason.ARGUMENT_INVALID,
        "tiers[0].policies[0].factor_milli",
    ),
    (
        policy(("overcommit", {"factor_milli": ""})),
        Reason.ARGUMENT_INVALID,
        "tiers[0].policies[0].factor_milli",
    ),
    (
        policy(("overcommit", {"factor_milli": "９９９９"})),
        Reason.ARGUMENT_INVALID,
        "tiers[0].policies[0].factor_milli",
    ),
    (policy(settings={"nothing": "1"}), Reason.ARGUMENT_UNKNOWN, "settings.nothing"),
    (policy(settings={"ttl_ns": "-1"}), Reason.ARGUMENT_INVALID, "settings.ttl_ns"),
    (
        policy(settings={"start_timeout_ns": "0"}),
        Reason.ARGUMENT_INVALID,
        "settings.start_timeout_ns",
    ),
    (
        with_config(r.PolicyConfig("priority", ("job_enqueue",), ())),
        Reason.HOOK_UNKNOWN,
        "tiers[0].policies[0].hooks",
    ),
    (
        msgspec.structs.replace(
            policy(), actions=(r.ActionConfig("allocate", argument("x", "1")),)
        ),
        Reason.ARGUMENT_UNKNOWN,
        "actions[0].x",
    ),
]


@pytest.mark.parametrize(("record", "reason", "where"), REFUSED)
def test_a_wrong_policy_is_refused_by_name_and_the_old_one_stays(
    record: r.PolicyConfigured, reason: Reason, where: str
) -> None:
    with pytest.raises(PolicyRefused) as refused:
        build(record)
    assert (refused.value.reason, refused.value.where) == (reason, where)
    assert refused.value.remedy
    cell = Cell().start(node("n1", 1))
    before = (cell.state.policy, cell.state.policy_record)
    assert said(cell.put(record)) == [f"REJECT  {reason.name}"]
    assert (cell.state.policy, cell.state.policy_record) == before
    cell.submit("low")
    cell.submit("high", priority=1)
    assert places(cell.tick()) == ["high/0@n1"]


def test_a_new_policy_orders_jobs_that_wait_already() -> None:
    cell = Cell().start(node("n1", 1), rules=policy("gang", "pack"))
    cell.submit("low")
    cell.submit("high", priority=1)
    cell.put(policy("priority", "pack"))
    assert places(cell.tick()) == ["high/0@n1"]


def test_a_new_policy_asks_again_what_the_old_one_kept_out() -> None:
    strict = policy(("overcommit", {"into_idle": "0"}), "priority", "pack")
    cell = Cell().start(node("n1", 4), node("n2", 4), rules=strict)
    cell.submit("running", role(replicas=2, cards=3))
    cell.tick()
    cell.submit("wide", role(cards=3))
    cell.submit("small")
    assert places(cell.tick()) == []
    cell.put(policy("priority", "pack"))
    assert places(cell.tick()) == ["small/0@n1"]


def test_decisions_name_the_policy_that_made_them() -> None:
    cell = Cell().start(node("n1", 8))
    cell.submit("a")
    first = cell.tick()
    cell.put(policy("priority", "pack"))
    cell.submit("b")
    second = cell.tick()
    assert {len(d.policy) for d in first + second} == {8}
    assert {d.policy for d in first}.isdisjoint({d.policy for d in second})
    cell.put(policy())
    cell.submit("c")
    assert {d.policy for d in cell.tick()} == {d.policy for d in first}


def test_hooks_may_be_chosen_one_by_one() -> None:
    chosen = build(with_config(r.PolicyConfig("overcommit", ("job_enqueue",), ())))
    assert len(chosen.job_enqueue) == 1
    assert len(chosen.headroom) == 1
    assert build(with_config(r.PolicyConfig("gang", ("job_order",), ()))).job_enqueue == ()


def test_of_pack_and_spread_the_last_one_counts() -> None:
    assert build(policy("pack", "spread")).spread is True
    assert build(policy("spread", "pack")).spread is False
    assert build(policy("priority")).spread is False


def test_without_actions_a_cycle_only_closes() -> None:
    cell = Cell().start(node("n1"), rules=policy(actions=[]))
    cell.submit("j")
    assert cell.tick() == []
    assert cell.decisions[-1].kind is DecisionKind.CYCLE_CLOSED


def test_an_unknown_flag_is_refused() -> None:
    cell = Cell().start(node("n1"))
    flag = max(ALL_FLAGS, default=0) + 1
    (refused,) = cell.put(r.FlagEnabled(cell.now_ns, "", None, flag))
    assert (refused.reason, refused.asked) == (Reason.FLAG_UNKNOWN, flag)
    assert cell.state.flags == ()

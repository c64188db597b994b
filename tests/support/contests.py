"""Two queues that want the same cards, under any preset: the same history for each."""

from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.enums import VictimRule
from ganger.streams.presets.loader import load_policy
from support import builders as b
from support.endings import carry_out, end_all


def asks_quota(policy: r.PolicyConfigured) -> bool:
    """Whether jobs are admitted by quota of cohorts."""
    return any(action.action == "admit" for action in policy.actions)


def has_rule(policy: r.PolicyConfigured, name: str) -> bool:
    """Whether a rule module is part of the policy."""
    return any(one.policy == name for tier in policy.tiers for one in tier.policies)


def with_evictions(policy: r.PolicyConfigured) -> r.PolicyConfigured:
    """The policy with preempt and reclaim at its end, where it has neither; admission by quota
    evicts by itself.
    """
    if asks_quota(policy):
        return policy
    names = [action.action for action in policy.actions]
    more = [name for name in ("preempt", "reclaim") if name not in names]
    return replace(policy, actions=(*policy.actions, *[r.ActionConfig(name, ()) for name in more]))


def without(policy: r.PolicyConfigured, rule: str) -> r.PolicyConfigured:
    """The policy without one of its rules."""
    tiers = tuple(
        r.PolicyTier(tuple(one for one in tier.policies if one.policy != rule))
        for tier in policy.tiers
    )
    return replace(policy, tiers=tiers)


def two_queues(policy: r.PolicyConfigured, cards: int) -> list[r.Record]:
    """Queues `a` and `b` that deserve half of the cards each, be it given or worked out by a rule
    that knows equal weights only; under quota of cohorts half is their nominal quota, and they may
    borrow the rest and take back what is theirs.
    """
    half = cards * 500
    if not asks_quota(policy):
        given = None if has_rule(policy, "proportion") else {"cards_milli": half}
        return [b.queue(name, deserved=given) for name in ("a", "b")]
    flavor = r.FlavorConfigured(b.GENESIS, "", None, "any", (), (), (), False)
    group = r.ResourceGroup((r.FlavorQuota("any", (r.QuotaBound("cards_milli", half),)),))
    queues = [
        replace(
            b.queue(name, parent="cohort"),
            resource_groups=(group,),
            within_queue=VictimRule.LOWER_PRIORITY,
            reclaim_in_cohort=VictimRule.ANY,
        )
        for name in ("a", "b")
    ]
    return [flavor, b.queue("cohort"), *queues]


def contest(preset: str) -> b.Cell:
    """One queue takes the cell; a job of higher priority and the other queue come for their part.

    The first queue's elastic job has more than its minimum, so that single pods leave before gangs.
    """
    policy = with_evictions(load_policy(preset))
    cell = b.Cell(f"contest-{preset}")
    cell.put(
        r.OwnerClaimed(cell.now_ns, "", None, "o"),
        r.IntakeClaimed(cell.now_ns, "", None, "i"),
        policy,
        *two_queues(policy, 8),
        b.node("n1", 4),
        b.node("n2", 4),
    )
    cell.submit("elastic", b.role(replicas=4, minimum=2, cards=1), queue="a")
    cell.submit("pair", b.role(replicas=2, cards=1), queue="a")
    cell.submit("other", b.role(replicas=2, cards=1), queue="a")
    _rest(cell)
    cell.submit("urgent", b.role(cards=1), queue="a", priority=9)
    _rest(cell)
    cell.submit("mine", b.role(cards=1), queue="b")
    _rest(cell)
    cell.submit("more", b.role(replicas=2, cards=1), queue="b")
    _rest(cell)
    cell.succeeded("urgent")
    _rest(cell)
    return end_all(cell)


def _rest(cell: b.Cell) -> None:
    """Some cycles; what they decide is carried out between them."""
    for _ in range(5):
        cell.tick(10)
        carry_out(cell, succeed=False)

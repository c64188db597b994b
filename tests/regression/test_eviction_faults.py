"""Evictions that help nobody, as users of other schedulers reported them in public, said for this
kernel: none may come. Gangs that are stuck, and claims that leak, too.

Each test is named by what must hold; its number is that of the row in our list of such faults.
`World` asserts in each that whoever is evicted for a job makes room that the job claims, that a
claim's cards go to nobody else, and that evictions come to rest.
"""

import pytest
from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.enums import CardHealth, DecisionKind, Phase, QueueState
from ganger.schemas.reasons import Reason
from ganger.streams.kernel import snapshot
from support.builders import SECOND, Cell, node, policy, queue, role
from support.decision_lines import job_of, lose
from support.world import World

ACTIONS = ("enqueue", "allocate", "backfill", "reclaim", "preempt", "stale")
DEFAULT = ("priority", "gang", "fair_share", "capability", "pack")
VOLCANO = ("priority", ("gang", {"whole": "never"}), "conformance"), ("drf", "proportion", "pack")
K = DecisionKind
SPARE = role(minimum=0, cards=1)  # Volcano never evicts a job below its minimum


def world(
    *records: r.Record, rules: str = "default", settings: dict[str, str] | None = None
) -> World:
    """A cell that evicts, by ganger's own rules or by Volcano's."""
    if rules == "default":
        made = policy(*DEFAULT, actions=ACTIONS, settings=settings)
    else:
        texts = {"votes": "tiers", "vetoes": "tiers", **(settings or {})}
        above, below = VOLCANO
        one = policy(*above, *below, actions=ACTIONS, searches="node", settings=texts)
        configs = one.tiers[0].policies
        size = len(above)
        made = replace(one, tiers=(r.PolicyTier(configs[:size]), r.PolicyTier(configs[size:])))
    return World(Cell().start(*records, rules=made))


both = pytest.mark.parametrize("rules", ["default", "volcano"])


@both
def test_1_twenty_four_jobs_for_twelve_seats_take_nothing_from_each_other(rules: str) -> None:
    w = world(node("n1", 4), node("n2", 4), node("n3", 4), rules=rules)
    for number in range(24):
        w.cell.submit(f"j{number:02}")
    assert w.run() == {}
    assert len(w.running()) == 12


@both
def test_2_victims_that_are_still_leaving_are_counted(rules: str) -> None:
    """While they take their time nobody else is evicted for the same taker, nor for its seats."""
    w = world(node("n1", 4), rules=rules)
    for number in range(4):
        w.cell.submit(f"low{number}", SPARE)
    w.run()
    w.cell.submit("high", priority=5)
    evicted = [d for d in w.cell.tick() if d.kind is K.EVICT]
    for _ in range(5):
        assert not [d for d in w.cell.tick() if d.kind in (K.EVICT, K.ALLOCATE)]
    assert len(evicted) == 1
    w.cell.released(evicted[0].job, evicted[0].pod)
    assert [d.job for d in w.cell.tick() if d.kind is K.ALLOCATE] == ["high"]


@both
def test_3_5_6_two_queues_come_to_rest_at_their_dues(rules: str) -> None:
    """The queue that gave back does not become one that takes back, nor is it served first."""
    w = world(queue("a"), queue("b"), node("n1", 4), node("n2", 4), rules=rules)
    for number in range(8):
        w.cell.submit(f"a{number}", queue="a")
    w.run()
    for number in range(8):
        w.cell.submit(f"b{number}", queue="b")
    evicted = w.run()
    assert set(evicted.values()) == {1} and len(evicted) == 4
    assert len(w.running("a")) == len(w.running("b")) == 4
    assert w.run() == {}


@both
def test_4_two_queues_of_bundles_with_an_odd_seat_do_not_take_it_in_turns(rules: str) -> None:
    half = {"cards_milli": 5_000}
    w = world(queue("a", deserved=half), queue("b", deserved=half), node("n1", 11), rules=rules)
    for number in range(6):
        w.cell.submit(f"a{number}", role(replicas=2, cards=1), queue="a")
    w.run()
    for number in range(6):
        w.cell.submit(f"b{number}", role(replicas=2, cards=1), queue="b")
    evicted = w.run()
    assert all(count <= 2 for count in evicted.values())  # of both pods, once
    assert w.run() == {}


def test_7_seats_that_do_not_suit_are_not_freed() -> None:
    """Quantity alone frees nobody: model, island and node must suit too."""
    other = [r.CardRun(4, "B", 81_920, 0, CardHealth.HEALTHY)]
    w = world(queue("a"), queue("b"), node("n1", 4, island=2), node("n2", runs=other))
    for number in range(8):
        w.cell.submit(f"a{number}", queue="a")
    w.run()
    w.cell.submit("model", role(cards=4, models=("C",)), queue="b")
    w.cell.submit("island", role(cards=3, same_island=True, models=("A",)), queue="b")
    assert w.run() == {}
    w.cell.submit("pair", role(cards=2, same_island=True, models=("A",)), queue="b")
    w.cell.cancel("model")
    w.cell.cancel("island")
    evicted = w.run()
    assert len(evicted) == 2 and "pair" in w.running()
    cards = [d.cards[0].first for d in w.cell.decisions if d.kind is K.EVICT]
    assert sorted(cards) in ([0, 1], [2, 3])


def test_8_a_rule_of_an_upper_tier_does_not_switch_the_dues_off() -> None:
    """Vetoes are intersected whatever their tier: exactly what is due is taken back."""
    rules = policy(("conformance", {}), *DEFAULT, actions=ACTIONS)
    first, rest = rules.tiers[0].policies[:1], rules.tiers[0].policies[1:]
    rules = replace(rules, tiers=(r.PolicyTier(first), r.PolicyTier(rest)))
    w = World(Cell().start(queue("a"), queue("b"), node("n1", 16), node("n2", 16), rules=rules))
    for number in range(32):
        w.cell.submit(f"a{number}", queue="a")
    w.run()
    for number in range(30):
        w.cell.submit(f"b{number}", queue="b")
    assert sum(w.run().values()) == 16


def test_9_when_rules_agree_on_nobody_nobody_goes() -> None:
    """An empty intersection is an answer, not the lack of one."""
    critical = r.PriorityClass("vital", 0, True, True)
    plain = r.PriorityClass("plain", 0, True)
    rules = policy("conformance", *DEFAULT, actions=ACTIONS)
    rules = replace(rules, priority_classes=(critical, plain))
    w = World(Cell().start(queue("a"), queue("b"), node("n1", 4), rules=rules))
    for number in range(4):
        w.cell.submit(f"a{number}", queue="a", priority_class="vital")
    w.run()
    w.cell.submit("b", queue="b")
    assert w.run() == {}


@both
def test_13_17_19_a_job_is_not_evicted_again_and_again(rules: str) -> None:
    """Whatever comes, one eviction of a job needs progress before the next."""
    w = world(queue("a"), queue("b"), node("n1", 2), node("n2", 2), rules=rules)
    for number in range(6):
        w.cell.submit(f"a{number}", queue="a", priority=number % 3)
        w.cell.submit(f"b{number}", queue="b", priority=number % 3)
        evicted = w.run()
        assert all(count == 1 for count in evicted.values())


@both
def test_16_a_taker_that_found_nobody_is_tried_again_when_it_may_find_somebody(rules: str) -> None:
    w = world(node("n1", 2), rules=rules)
    w.cell.submit("peer", role(minimum=0, cards=2), priority=5)
    w.run()
    w.cell.submit("high", role(cards=2), priority=5)
    assert w.run() == {}
    w.cell.update("peer", priority=1)
    assert w.run() == {"peer": 1}
    assert w.running() == ["high"]


@both
def test_18_no_more_is_taken_than_is_asked_for(rules: str) -> None:
    """48 cards are asked for; not more are freed, though all are candidates."""
    names = [f"n{number}" for number in range(12)]
    w = world(queue("a"), queue("b"), *(node(name, 8) for name in names), rules=rules)
    for number in range(96):
        w.cell.submit(f"a{number}", queue="a")
    w.run()
    w.cell.submit("big", role(replicas=6, cards=8), queue="b")
    evicted = w.run()
    assert sum(evicted.values()) == 48
    assert "big" in w.running()


@both
def test_19_nobody_is_evicted_for_seats_that_are_not_used(rules: str) -> None:
    """Two small jobs take two seats, not eleven machines."""
    names = [f"n{number:02}" for number in range(11)]
    w = world(*(node(name, 2) for name in names), rules=rules)
    for number in range(11):
        w.cell.submit(f"wide{number}", role(minimum=0, cards=2))
    w.run()
    w.cell.submit("one", priority=5)
    w.cell.submit("two", priority=5)
    assert sum(w.run().values()) == 1  # both fit on one machine
    assert {"one", "two"} <= set(w.running())


@both
def test_20_nobody_is_evicted_for_a_job_that_has_started_or_gone(rules: str) -> None:
    w = world(node("n1", 2), rules=rules)
    w.cell.submit("a")
    w.cell.submit("b")
    w.run()
    w.cell.submit("high", priority=5)
    w.cell.succeeded("a")
    assert w.run() == {}
    w.cell.submit("late", priority=9)
    w.cell.cancel("late")
    assert w.run() == {}


def test_20_what_was_freed_goes_to_nobody_else() -> None:
    """Not even to a job that goes first: it takes its own."""
    w = world(node("n1", 2))
    w.cell.submit("low0", role(cards=1))
    w.cell.submit("low1", role(cards=1))
    w.run()
    w.cell.submit("high", priority=5)
    (evicted,) = [d for d in w.cell.tick() if d.kind is K.EVICT]
    w.cell.submit("higher", priority=9)
    w.cell.released(evicted.job)
    said = w.cell.tick()
    assert [d.job for d in said if d.kind is K.ALLOCATE] == ["high"]


# ---- gangs that are stuck, claims that leak -----------------------------------------------------


@both
def test_50_two_gangs_never_hold_half_each(rules: str) -> None:
    w = world(node("n1", 2), node("n2", 2), rules=rules)
    w.cell.submit("one", role(replicas=3, cards=1))
    w.cell.submit("two", role(replicas=3, cards=1))
    w.run()
    assert w.running() == ["one"]
    for pod in range(3):
        w.cell.succeeded("one", pod)
    w.run()
    assert w.running() == ["two"]


@both
@pytest.mark.parametrize("end", ["cancel", "hold", "drain", "scale"])
def test_52_59_60_a_claim_ends_with_the_wish_for_it(end: str, rules: str) -> None:
    """Its cards are free for all at once; none stays locked for a job that will not come."""
    w = world(node("n1", 4), queue("q"), queue("r"), rules=rules)
    w.cell.submit("low", role(replicas=4, minimum=0, cards=1), queue="q")
    w.run()
    w.cell.submit("high", role(replicas=2, cards=1), queue="q", priority=5)
    evicted = [d for d in w.cell.tick() if d.kind is K.EVICT]
    assert len(evicted) == 2 and len(w.cell.state.claims) == 1
    if end == "cancel":
        w.cell.cancel("high")
    elif end == "hold":
        w.cell.update("high", held=True)
    elif end == "scale":
        w.cell.update("high", scale=[("worker", 1, 1)])
    else:
        w.cell.put(queue("q", state=QueueState.DRAINING, time_ns=w.cell.now_ns))
    said = w.cell.tick()
    if end == "scale":  # what it wants now leaves anyhow: nobody is evicted for it
        (claim,) = w.cell.state.claims.values()
        assert len(claim.entries) == 1 and not claim.victims
    else:
        assert not w.cell.state.claims
        assert all(one.claimed == 0 for one in w.cell.state.nodes)
    assert K.UNCLAIM in [d.kind for d in w.cell.decisions]
    for d in evicted:
        w.cell.released(d.job, d.pod)
    said += w.cell.tick()
    starts = {d.job for d in said if d.kind is K.ALLOCATE}
    assert starts == {"drain": set(), "scale": {"high", "low"}}.get(end, {"low"})


def test_53_a_claim_that_is_not_met_in_time_is_given_up() -> None:
    """The executor never answers; the job goes back in line without the right to evict again."""
    w = world(node("n1", 1), node("n2", 1), settings={"claim_ns": "10m"})
    w.cell.submit("low")
    w.cell.tick()
    w.cell.started("low")
    w.cell.submit("other")
    w.cell.tick()
    w.cell.started("other")
    w.cell.submit("high", priority=5)
    assert len([d for d in w.cell.tick() if d.kind is K.EVICT]) == 1
    said = w.cell.tick(601)
    (ended,) = [d for d in said if d.kind is K.UNCLAIM]
    assert ended.reason is Reason.CLAIM_EXPIRED and ended.limit == 600 * SECOND
    assert not [d for d in said if d.kind is K.EVICT]
    assert not w.cell.state.claims or w.cell.state.claims[job_of(w.cell, "high").seq].victims == ()


@both
def test_57_an_empty_node_is_combined_with_a_victim_s(rules: str) -> None:
    w = world(node("n1", 2), node("n2", 2), rules=rules)
    w.cell.submit("low", role(minimum=0, cards=2))
    w.run()
    w.cell.submit("gang", role(replicas=2, cards=2), priority=5)
    assert w.run() == {"low": 1}
    assert w.running() == ["gang"]


def test_58_whole_gangs_are_taken_back_and_members_that_fit_do_not_stop_the_others() -> None:
    w = world(queue("a"), queue("b"), node("n1", 4), node("n2", 4))
    w.cell.submit("a0", role(replicas=4, cards=1), queue="a")
    w.cell.submit("a1", role(replicas=3, cards=1), queue="a")
    w.run()
    w.cell.submit("b", role(replicas=4, cards=1), queue="b")
    evicted = w.run()
    assert evicted == {"a1": 3}  # one seat is free, three come from one gang, whole
    assert "b" in w.running() and "a0" in w.running()


@both
def test_61_62_facts_of_former_attempts_do_not_touch_what_was_placed_anew(rules: str) -> None:
    w = world(node("n1", 2), rules=rules)
    w.cell.submit("low", role(replicas=2, minimum=0, cards=1))
    w.run()
    w.cell.submit("high", role(cards=2), priority=5)
    w.run()
    w.cell.succeeded("high")
    w.run()
    assert w.running() == ["low"]
    before = w.cell.digest
    w.cell.released("low", 0, 1)
    w.cell.failed("low", 1, 1)
    assert [pod.phase for pod in (job_of(w.cell, "low").pods or {}).values()] == [Phase.RUNNING] * 2
    assert w.running() == ["low"] and before is not None


def test_a_gang_below_its_minimum_gets_its_cards_first_and_is_ended_whole_after_its_time() -> None:
    w = world(node("n1", 2), node("n2", 2), settings={"stale_ns": "60s"})
    w.cell.submit("gang", role(replicas=4, cards=1))
    w.cell.tick()
    for pod in range(4):
        w.cell.started("gang", pod)
    lose(w.cell, "n2")
    assert not [d for d in w.cell.tick() if d.kind is K.EVICT]
    said = w.cell.tick(60)
    ended = [d for d in said if d.kind is K.EVICT]
    assert [d.reason for d in ended] == [Reason.GANG_STALE] * 2
    assert len({d.node for d in ended}) == 1


@both
def test_a_claim_is_met_on_a_copy_as_on_the_cell(rules: str) -> None:
    w = world(node("n1", 4), rules=rules)
    w.cell.submit("low", role(replicas=4, minimum=0, cards=1))
    w.run()
    w.cell.submit("high", role(replicas=2, cards=1), priority=5)
    evicted = [d for d in w.cell.tick() if d.kind is K.EVICT]
    copy = Cell(checks=True)
    copy.state, copy.now_ns = snapshot.fork(w.cell.state), w.cell.now_ns
    for cell in (w.cell, copy):
        for d in evicted:
            cell.released(d.job, d.pod)
    assert [d.body for d in w.cell.tick()] == [d.body for d in copy.tick()]
    assert w.cell.digest == copy.digest

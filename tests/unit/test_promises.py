"""The check of promises: what breaks a reservation or a protection, and what does not."""

from typing import Any

import pytest

from ganger.replay.promises import PromiseCheck, Violation
from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import CardHealth, DecisionKind, Tier
from ganger.schemas.reasons import Reason
from ganger.streams.presets.loader import load_policy

K = DecisionKind
TICK = r.Tick(0, "", None, 0, True)


def report(cards: int, node: str = "n") -> r.NodeReport:
    run = r.CardRun(cards, "m", 0, 0, CardHealth.HEALTHY)
    return r.NodeReport(node, "boot", (run,), 1, 1, 9, (), (), (), (), (), -1, ())


class Story:
    """Records and decisions in order, told to the check; seqs count from 0."""

    def __init__(self, cards: int = 10) -> None:
        self.check = PromiseCheck()
        self.seq = -1
        self.tell(r.NodeChanged(0, "", None, report(cards)))

    def tell(self, record: r.Record, *decisions: Decision) -> None:
        self.seq += 1
        for index, decision in enumerate(decisions):
            decision.cause_seq, decision.index = self.seq, index
        self.check.check([record], [decisions])

    def at(self, *decisions: Decision) -> None:
        """A Tick with these decisions."""
        self.tell(TICK, *decisions)

    def end(self, job: str, at_ns: int) -> None:
        self.tell(r.PodSucceeded(at_ns, "", None, job, 0, 1, at_ns))


def decision(
    kind: DecisionKind, job: str, at_ns: int, cards: int = 0, reason: Reason = Reason.SAFE_IN_GAP,
    asked: int = 0, for_job: str = "", pod: int = 0, **more: Any,
) -> Decision:  # fmt: skip
    spans = (r.CardSpan(0, cards),) if cards else ()
    return Decision(
        "cell", 0, 0, at_ns, kind, job, "r", pod, 1, "n" if cards else "", spans, 0, 0, Tier.MAIN,
        0, for_job, reason, asked, 0, 0, b"", 0, 0, 0, b"", **more,
    )  # fmt: skip


def allocate(job: str, at_ns: int, cards: int, estimate_ns: int) -> Decision:
    return decision(K.ALLOCATE, job, at_ns, cards, estimate_ns=estimate_ns)


def fill(
    job: str, at_ns: int, cards: int, estimate_ns: int, reason: Reason = Reason.SAFE_IN_GAP,
    pod: int = 0, margin_ns: int = 0,
) -> Decision:  # fmt: skip
    return decision(
        K.BACKFILL, job, at_ns, cards, reason, pod=pod, estimate_ns=estimate_ns, margin_ns=margin_ns
    )


def reserve(job: str, cards: int, start_ns: int, until_ns: int = 0) -> Decision:
    return decision(K.RESERVE, job, 0, asked=1000 * cards, start_ns=start_ns, until_ns=until_ns)


def unreserve(job: str) -> Decision:
    return decision(K.UNRESERVE, job, 0)


def busy() -> Story:
    """Of ten cards seven are held until 100, and eight reserved from then on."""
    story = Story()
    story.at(allocate("runs", 0, 7, 100), reserve("head", 8, 100, 300))
    return story


FILLS: dict[str, tuple[list[Decision], int]] = {
    "it ends when the reservation begins": ([fill("b", 0, 3, 100)], 0),
    "it ends a moment later": ([fill("b", 0, 3, 101)], 1),
    "margin counts": ([fill("b", 0, 3, 90, margin_ns=11)], 1),
    "beside the reservation": ([fill("b", 0, 2, 900)], 0),
    "no end is known of it": ([fill("b", 0, 3, 0)], 1),
    "beside, without an end": ([fill("b", 0, 2, 0)], 0),
    "two together are too many": ([fill("b", 0, 1, 500), fill("c", 0, 2, 500)], 1),
    "two pods of a job are too many": ([fill("b", 0, 2, 500), fill("b", 0, 1, 500, pod=1)], 1),
    "it can be suspended": ([fill("b", 0, 3, 500, Reason.SUSPENDABLE)], 0),
    "it is spot": ([fill("b", 0, 3, 500, Reason.SPOT_FILL)], 0),
    "in turn is not in a gap": ([allocate("b", 0, 3, 500)], 0),
    "the reservation was given up": ([unreserve("head"), fill("b", 0, 3, 500)], 0),
    "the job started": ([allocate("head", 0, 3, 10), fill("b", 0, 3, 500)], 0),
    "it was moved before": ([reserve("head", 8, 500, 700), fill("b", 0, 3, 500)], 0),
    "it was moved because of it": ([fill("b", 0, 3, 500), reserve("head", 8, 500, 700)], 1),
    "it begins earlier now": ([fill("b", 0, 3, 50), reserve("head", 8, 60, 300)], 0),
}


@pytest.mark.parametrize("name", FILLS)
def test_what_breaks_a_reservation(name: str) -> None:
    decisions, violations = FILLS[name]
    story = busy()
    story.at(*decisions)
    assert story.check.violations == violations


def test_a_violation_names_who_delays_whom() -> None:
    story = busy()
    story.at(reserve("head", 8, 100, 300), fill("b", 20, 3, 101))
    assert story.check.first == Violation(2, 1, "head", "b", 100, 121, 1000)


def test_only_the_first_is_kept_and_all_are_counted() -> None:
    story = busy()
    story.at(fill("b", 0, 3, 101))
    story.at(fill("c", 1, 3, 101))  # it was broken already
    assert story.check.violations == 1
    story.at(reserve("head", 8, 200, 400))
    story.at(fill("d", 2, 3, 300))
    assert story.check.violations == 2
    assert story.check.first is not None
    assert story.check.first.by == "b"


def test_cards_that_come_free_early_widen_the_gap() -> None:
    story = Story()
    story.at(allocate("runs", 0, 7, 100), allocate("long", 0, 1, 900))
    story.at(reserve("head", 8, 100, 300))
    story.end("long", 40)
    story.at(fill("b", 50, 2, 900))
    assert story.check.violations == 0
    story.at(fill("c", 60, 1, 900))
    assert story.check.violations == 1


def test_the_margin_of_who_was_let_in_before_counts_no_more() -> None:
    """What is reserved counts on the end that is expected of those who run."""
    story = busy()
    story.at(fill("b", 0, 1, 100, margin_ns=50))
    story.at(fill("c", 10, 2, 900))
    assert story.check.violations == 0


def test_cards_that_are_due_now_are_free() -> None:
    story = busy()
    story.at(fill("b", 0, 3, 100))
    story.at(reserve("other", 10, 400, 500), unreserve("head"), fill("c", 100, 10, 300))
    assert story.check.violations == 0


def test_who_outlives_its_estimate_is_nobodys_fault() -> None:
    story = busy()
    story.at(reserve("head", 8, 200, 400), fill("b", 150, 3, 50))
    story.at(fill("c", 150, 2, 900), reserve("head", 8, 260, 460))
    assert story.check.violations == 0


def claim(job: str, at_ns: int, cards: int) -> Decision:
    return decision(K.CLAIM, job, at_ns, cards, Reason.CLAIM_MADE)


@pytest.mark.parametrize(
    ("before", "violations"),
    [
        ([claim("b", 10, 3)], 1),
        ([claim("b", 9, 3)], 0),
        ([claim("b", 9, 3), decision(K.UNCLAIM, "b", 10)], 1),
        ([claim("b", 9, 3), decision(K.FINISH, "b", 10)], 1),
        ([reserve("b", 3, 10, 100)], 1),
        ([reserve("b", 3, 10, 101)], 0),
        ([reserve("b", 3, 9, 100)], 0),
        ([reserve("b", 3, 9, 100), unreserve("b")], 1),
    ],
    ids=[
        "at once",
        "late",
        "given up",
        "ended",
        "booked for less",
        "booked for now",
        "booked before",
        "unbooked",
    ],
)
def test_who_starts_when_it_was_to_or_later_delays_nobody(
    before: list[Decision], violations: int
) -> None:
    """Who is later waited for somebody who outlived his estimate."""
    story = busy()
    story.at(*before)
    story.at(fill("b", 10, 3, 91))
    assert story.check.violations == violations


def test_what_moves_back_behind_who_starts_late_is_nobody_elses_fault() -> None:
    story = busy()
    story.at(claim("b", 9, 2))
    story.at(fill("b", 10, 2, 95), fill("c", 10, 1, 95), reserve("head", 10, 105, 305))
    assert story.check.violations == 0
    story.at(fill("d", 11, 1, 95))
    assert story.check.violations == 1  # where the reservation stands now it counts as before


def test_the_margin_of_who_started_late_counts_no_more() -> None:
    story = busy()
    story.at(claim("b", 9, 1))
    story.at(fill("b", 10, 1, 90, margin_ns=50))
    story.at(fill("c", 11, 2, 900))
    assert story.check.violations == 0


@pytest.mark.parametrize(
    ("then", "violations"),
    [
        ([], 0),
        ([r.PodStarted(2, "", None, "long", 0, 1, "n", 2)], 0),
        ([r.PodReleased(2, "", None, "long", 0, 1, 2)], 1),
        ([allocate("long", 2, 1, 900)], 1),
        ([decision(K.FINISH, "long", 2)], 1),
    ],
    ids=["still there", "started", "gone", "placed anew", "ended"],
)
def test_what_moves_back_while_somebody_is_told_to_end_may_move_for_him(
    then: list[r.Record | Decision], violations: int
) -> None:
    story = Story()
    story.at(allocate("runs", 0, 6, 100), allocate("long", 0, 1, 900))
    story.at(reserve("head", 8, 100, 300))
    story.at(decision(K.EVICT, "long", 1, 1, Reason.PREEMPTED))
    for one in then:
        if isinstance(one, Decision):
            story.at(one)
        else:
            story.tell(one)
    story.at(fill("b", 10, 3, 500), reserve("head", 8, 510, 700))
    assert story.check.violations == violations


def test_a_reservation_that_could_not_stay_keeps_its_place_from_nobody() -> None:
    """It moved back since a pod started late; another came before it."""
    story = Story()
    story.at(allocate("runs", 0, 7, 100))
    story.at(reserve("long", 8, 100, 900), reserve("short", 5, 900, 950))
    story.tell(r.PodStarted(3, "", None, "runs", 0, 1, "n", 3))
    told = [fill("b", 4, 1, 500), reserve("long", 8, 504, 1304), reserve("short", 5, 103, 153)]
    story.at(*told)
    assert story.check.violations == 0


def test_pods_of_which_no_end_is_known_count_from_the_first_policy_that_plans() -> None:
    for preset, violations in (("hpc-easy", 0), ("default", 1)):
        story = Story()
        story.tell(load_policy(preset))
        story.at(decision(K.ALLOCATE, "stays", 0, 1))
        story.at(allocate("runs", 0, 6, 100), reserve("head", 10, 100, 300))
        story.at(fill("b", 1, 3, 500))  # the head had no chance, unless nobody stays
        assert story.check.violations == violations


def test_who_starts_long_after_it_was_placed_ends_later() -> None:
    story = busy()
    story.tell(r.PodStarted(40, "", None, "runs", 0, 1, "n", 40))
    story.tell(r.PodStarted(60, "", None, "runs", 0, 1, "n", 60))  # said twice
    story.at(fill("b", 60, 3, 79))
    assert story.check.violations == 0
    story.at(reserve("head", 8, 140, 340))
    story.end("b", 61)
    story.at(fill("c", 61, 3, 79))
    assert story.check.violations == 0
    story.end("c", 62)
    story.at(fill("d", 62, 3, 79))
    assert story.check.violations == 1


def test_reservations_of_all_count_against_each_other() -> None:
    story = Story()
    story.at(allocate("runs", 0, 10, 100))
    story.at(
        reserve("one", 6, 100, 200), reserve("two", 6, 200, 300), reserve("three", 4, 100, 300)
    )
    assert story.check.violations == 0
    story.end("runs", 50)
    story.at(fill("b", 50, 6, 50))
    assert story.check.violations == 0
    story.at(fill("c", 50, 4, 60))
    assert story.check.violations == 2  # of one and of three
    assert story.check.first is not None
    assert (story.check.first.job, story.check.first.lacking_milli) == ("one", 4000)


def test_a_job_that_does_not_fit_anyway_is_not_broken_by_what_ends_in_time() -> None:
    story = busy()
    story.tell(r.NodeChanged(5, "", None, report(7)))
    story.at(fill("b", 5, 3, 900))
    assert story.check.violations == 0


def test_several_nodes_are_as_many_cards() -> None:
    story = busy()
    story.tell(r.NodeReturned(5, "", None, report(1, "m")))
    story.at(fill("b", 5, 3, 900))
    assert story.check.violations == 0
    story.at(fill("c", 6, 1, 900))
    assert story.check.violations == 1


def on(node: str, decision: Decision) -> Decision:
    """The same on another node."""
    decision.node = node
    return decision


def two_nodes() -> Story:
    """Four cards on each of two nodes, one of which is held until 100 and reserved then."""
    story = Story(4)
    story.tell(r.NodeChanged(0, "", None, report(4, "m")))
    story.at(
        allocate("runs", 0, 4, 100),
        on("n", reserve("head", 4, 100, 300)),
        on("m", reserve("head", 2, 100, 300)),
    )
    return story


def test_reservations_are_looked_at_node_by_node() -> None:
    story = two_nodes()
    story.at(on("m", fill("b", 0, 2, 900)))
    assert story.check.violations == 0
    story.at(on("m", fill("c", 0, 1, 900)))
    assert story.check.violations == 1


def test_what_is_said_anew_is_said_for_all_nodes() -> None:
    story = two_nodes()
    story.at(on("n", reserve("head", 4, 100, 300)), on("m", fill("b", 0, 4, 900)))
    assert story.check.violations == 0


def test_said_twice_in_one_cycle_the_last_word_counts() -> None:
    story = two_nodes()
    first = [on("n", reserve("head", 4, 100, 300)), on("m", reserve("head", 2, 100, 300))]
    again = [on("n", reserve("head", 4, 100, 300))]
    first[0].count = again[0].count = 6
    story.at(*first, *again, on("m", fill("b", 0, 4, 900)))
    assert story.check.violations == 0


def test_what_was_told_to_end_or_whose_estimate_was_changed_holds_nothing() -> None:
    changed = r.JobUpdateRequested(1, "", None, "long", "ann", None, None, (), None, 5)
    evicted = decision(K.EVICT, "long", 1, 1, Reason.PREEMPTED)
    finished = decision(K.FINISH, "long", 1)
    for record, decisions in ((changed, ()), (TICK, (evicted,)), (TICK, (finished,))):
        story = Story()
        story.at(allocate("runs", 0, 7, 100), allocate("long", 0, 1, 900))
        story.at(reserve("head", 8, 100, 300))
        story.tell(record, *decisions)
        story.at(fill("b", 1, 2, 900))
        assert story.check.violations == 0


def test_a_suspended_pod_holds_nothing_until_it_goes_on() -> None:
    story = Story()
    story.at(fill("s", 0, 3, 300, Reason.SUSPENDABLE), allocate("runs", 0, 7, 100))
    story.at(reserve("head", 10, 100, 200))
    story.at(decision(K.SUSPEND, "s", 50, 3, Reason.MAIN_NEEDS_CARDS))
    story.tell(r.PodSuspended(50, "", None, "s", 0, 1, 100, 50))
    story.at(fill("b", 50, 3, 50))
    story.end("b", 90)
    assert story.check.violations == 0
    story.at(decision(K.RESUME, "s", 90, 3, Reason.RESUMED), reserve("late", 10, 340, 400))
    story.end("runs", 90)
    story.at(unreserve("head"), fill("c", 90, 7, 250))
    assert story.check.violations == 0
    story.at(unreserve("late"), reserve("late", 10, 339, 400))
    story.at(fill("d", 91, 1, 1))
    assert story.check.violations == 0  # it does not fit, but not because of this one


def test_a_ledger_without_plans_is_passed_over() -> None:
    story = Story()
    for number in range(50):
        story.at(
            allocate(f"j{number}", number, 1, 0), decision(K.BACKFILL, f"b{number}", number, 1)
        )
        story.at(
            decision(K.EVICT, f"j{number}", number, 1), decision(K.FINISH, f"b{number}", number)
        )
    assert story.check.violations == 0


# --- protection -----------------------------------------------------------------------------------


def protected(*told: r.Record | Decision) -> int:
    """Violations when a pod is protected for 60 ns from its start at 10."""
    story = Story()
    story.at(decision(K.BACKFILL, "b", 0, 2, estimate_ns=500, protect_ns=60))
    story.tell(r.PodStarted(10, "", None, "b", 0, 1, "n", 10))
    for one in told:
        if isinstance(one, Decision):
            story.at(one)
        else:
            story.tell(one)
    return story.check.violations


def evict(at_ns: int, for_job: str = "head") -> Decision:
    return decision(K.EVICT, "b", at_ns, 2, Reason.WINDOW_OVER, for_job=for_job)


@pytest.mark.parametrize(
    ("told", "violations"),
    [
        ([evict(69)], 1),
        ([evict(70)], 0),
        ([evict(69, "")], 0),
        ([r.PodSuspended(30, "", None, "b", 0, 1, 9, 30), evict(40)], 0),
    ],
)
def test_nobody_is_evicted_for_others_while_it_is_protected(
    told: list[r.Record | Decision], violations: int
) -> None:
    assert protected(*told) == violations


def test_a_broken_protection_names_both() -> None:
    story = Story()
    story.at(decision(K.BACKFILL, "b", 0, 2, estimate_ns=500, protect_ns=60))
    story.tell(r.PodStarted(10, "", None, "b", 0, 1, "n", 10))
    story.at(evict(20))
    assert story.check.first == Violation(3, 0, "b", "head", 70, 0, 0)

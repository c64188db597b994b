"""Jobs in gaps and the first in line: who may come in, who is told what, who leaves, and when.

Small cells under preset `xirang` with declared run times.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import (
    BackfillPreference,
    Communication,
    DecisionKind,
    IdleClass,
    LimitScope,
    Phase,
    Tier,
    Tri,
)
from ganger.schemas.reasons import Reason
from ganger.streams.kernel import snapshot
from ganger.streams.kernel.step import next_wake
from support import builders as b
from support.decision_lines import job_of, phase_of
from support.lent_cells import lent_policy
from support.timed_cells import STARTS, timed_policy

S = b.SECOND
STOPS = {"can_checkpoint": True, "accepts_suspend": True}
QUIET = (DecisionKind.ADMIT, DecisionKind.RESERVE, DecisionKind.UNRESERVE)
QUICK = {"evict_after_ns": "100s", "floor_ns": "10s", "ceiling_ns": "60s"}


class Cell(b.Cell):
    """A cell whose jobs are reported running as soon as they start."""

    def __init__(self, *nodes: int, rules: r.PolicyConfigured | None = None) -> None:
        """`nodes`: cards of each."""
        super().__init__()
        named = [b.node(f"n{place}", cards) for place, cards in enumerate(nodes)]
        self.start(*named, rules=rules or lent_policy(yielding=QUICK))

    def ask(self, job: str, cards: int, run_s: int = 0, pods: int = 1, **more: Any) -> None:
        """Submit a job that says it runs so long; 0: it does not say."""
        made = b.submission(job, b.role(cards=cards, replicas=pods), time_ns=self.now_ns)
        self.put(replace(made, runtime_estimate_ns=run_s * S, **more))

    def go(self, after_s: int = 1) -> list[Decision]:
        """A cycle; who starts runs at once, who is evicted is gone at once."""
        made = self.tick(after_s)
        for d in made:
            if d.kind in STARTS:
                self.started(d.job, d.pod, d.attempt)
            elif d.kind is DecisionKind.RESUME:
                self.put(r.PodResumed(self.now_ns, "", None, d.job, d.pod, d.attempt, self.now_ns))
        return made

    def stops(self, job: str, attempt: int = 1) -> None:
        """A job that was told to suspend has stopped."""
        now_ns = self.now_ns
        self.put(r.PodSuspended(now_ns, "", None, job, 0, attempt, 500, now_ns))


def told(decisions: list[Decision], *kinds: DecisionKind) -> list[tuple[str, str]]:
    """Kind and job, once each; without any kinds, all but admissions and reservations."""
    found = [
        (d.kind.name, d.job)
        for d in decisions
        if (d.kind in kinds if kinds else d.kind not in QUIET)
    ]
    return list(dict.fromkeys(found))


def started(decisions: list[Decision]) -> list[str]:
    return [job for _, job in told(decisions, *STARTS)]


def one(decisions: list[Decision], kind: DecisionKind) -> Decision:
    (found,) = [d for d in decisions if d.kind is kind]
    return found


def waiting(*nodes: int, rules: r.PolicyConfigured | None = None, **more: Any) -> Cell:
    """A cell in which `long` holds six cards for a thousand seconds and `head` waits for eight."""
    cell = Cell(*(nodes or (8,)), rules=rules)
    cell.ask("long", 6, 1000, **more)
    assert started(cell.go()) == ["long"]
    cell.ask("head", 8, 50)
    assert started(cell.go()) == []
    return cell


# ---- claims --------------------------------------------------------------------------------------


def test_a_claim_on_cards_of_who_outlives_its_estimate_says_so() -> None:
    cell = Cell(8)
    cell.ask("a", 8, 10)
    cell.go()
    cell.ask("b", 8, 10)
    cell.go(5)
    assert told(cell.go(5), DecisionKind.CLAIM) == [("CLAIM", "b")]  # it is due now
    given_up = one(cell.go(7), DecisionKind.UNCLAIM)
    assert given_up.reason is Reason.OUTLIVED_ESTIMATE
    assert (given_up.asked, given_up.limit) == (17 * S, 10 * S)


def test_who_is_slow_to_stop_costs_the_taker_neither_its_claim_nor_others() -> None:
    """Though the taker runs for less time, and though the estimate of who stops is over by then."""
    cell = Cell(4, 4)
    for job in ("a", "b"):
        cell.ask(job, 4, 40, **STOPS)
    cell.ask("first", 8, 1000, backfill=BackfillPreference.REFUSE)
    made = cell.go()
    assert [d.tier for d in made if d.kind in STARTS] == [Tier.MAIN, Tier.MAIN]
    cell = Cell(4, 4)
    cell.ask("long", 4, 1000)
    cell.go()
    cell.ask("head", 4, 5, pods=2)
    cell.ask("gap", 4, 20, **STOPS)
    assert started(cell.go()) == ["gap"]
    cell.cancel("head")
    cell.ask("next", 4, 5)
    made = cell.go()
    assert told(made, DecisionKind.SUSPEND, DecisionKind.CLAIM) == [
        ("SUSPEND", "gap"),
        ("CLAIM", "next"),
    ]
    for _ in range(5):
        assert told(cell.go(10)) == []
    cell.stops("gap")
    assert started(cell.go()) == ["next"]


# ---- suspended and resumed -----------------------------------------------------------------------


def test_suspended_when_its_cards_complete_what_the_first_needs_and_not_before() -> None:
    cell = waiting()
    cell.ask("gap", 2, 5000, **STOPS)
    made = cell.go()
    fill = one(made, DecisionKind.BACKFILL)
    assert (fill.job, fill.reason, fill.for_job) == ("gap", Reason.SUSPENDABLE, "head")
    assert (fill.tier, fill.idle, fill.protect_ns) == (Tier.BACKFILL, IdleClass.TIME, 0)
    assert fill.hold_ns == 5000 * S and fill.risk_milli == 500
    assert told(cell.go(500)) == []  # its two cards would not be enough
    cell.succeeded("long")
    made = cell.go()
    assert told(made) == [("SUSPEND", "gap"), ("CLAIM", "head")]
    assert one(made, DecisionKind.SUSPEND).for_job == "head"
    assert started(cell.go()) == []  # it has not stopped yet
    cell.stops("gap")
    made = cell.go()
    assert one(made, DecisionKind.ALLOCATE).job == "head"
    assert phase_of(cell, "gap") is Phase.SUSPENDED
    cell.succeeded("head")
    assert told(cell.go()) == [("RESUME", "gap")]
    cell.succeeded("gap")
    assert phase_of(cell, "gap") is Phase.SUCCEEDED


def test_all_pods_of_a_job_make_way_together_each_a_candidate() -> None:
    cell = waiting()
    cell.ask("gap", 1, 5000, pods=2, communication=Communication.LOW, **STOPS)
    assert started(cell.go()) == ["gap"]
    cell.succeeded("long")
    orders = [d for d in cell.go() if d.kind is DecisionKind.SUSPEND]
    assert [(d.pod, d.order, d.considered) for d in orders] == [(0, 1, 2), (1, 2, 2)]


def test_what_is_given_away_stays_the_firsts() -> None:
    """Nobody else takes the cards that were freed for it, and its reservation never moves later."""
    cell = waiting(8)
    start_ns = cell.state.bookings[job_of(cell, "head").seq].start_ns
    cell.ask("gap", 2, 5000, **STOPS)
    cell.go()
    cell.ask("other", 2, 10)
    assert started(cell.go()) == []
    assert cell.state.bookings[job_of(cell, "head").seq].start_ns == start_ns
    cell.succeeded("long")
    cell.go()
    cell.stops("gap")
    assert started(cell.go()) == ["head"]


def test_a_suspended_job_goes_on_before_anybody_new_comes_in() -> None:
    cell = waiting()
    cell.ask("gap", 2, 5000, **STOPS)
    cell.go()
    cell.succeeded("long")
    cell.go()
    cell.stops("gap")
    cell.go()
    cell.ask("next", 8, 50)
    cell.put(b.node("n1", 4))
    cell.ask("two", 2, 10)
    cell.ask("four", 4, 10)
    made = cell.go()
    moved = one([d for d in made if d.job == "gap" and d.kind in STARTS], DecisionKind.BACKFILL)
    assert (moved.reason, moved.node, moved.attempt) == (Reason.RESUMED, "n1", 2)
    assert started(made) == ["gap", "two"]


def test_who_rests_too_long_or_refuses_gaps_by_now_waits_in_line() -> None:
    for refuses in (False, True):
        rules = lent_policy(yielding={**QUICK, "suspend_max_ns": "30s"})
        cell = waiting(rules=rules)
        cell.ask("gap", 2, 5000, **STOPS)
        cell.go()
        cell.succeeded("long")
        cell.go()
        cell.stops("gap")
        cell.go()
        assert phase_of(cell, "gap") is Phase.SUSPENDED
        if refuses:
            wish = r.JobUpdateRequested(cell.now_ns, "", None, "gap", "me", None, None, ())
            cell.put(replace(wish, backfill=BackfillPreference.REFUSE))
            evicted = one(cell.go(), DecisionKind.EVICT)
        else:
            since_ns = (job_of(cell, "gap").pods or {})[0].suspended_ns
            assert next_wake(cell.state) == since_ns + 30 * S
            evicted = one(cell.go(30), DecisionKind.EVICT)
        assert (evicted.job, evicted.reason) == ("gap", Reason.RESUMED)
        assert phase_of(cell, "gap") is Phase.INQUEUE
        cell.succeeded("head")
        assert one(cell.go(), DecisionKind.ALLOCATE).tier is Tier.MAIN


def test_a_suspended_pod_with_a_named_resource_goes_on() -> None:
    cell = Cell()
    cell.put(b.node("n0", 8, resources=[("nic", 2)]))
    cell.ask("long", 6, 1000)
    cell.go()
    cell.ask("head", 8, 50)
    made = b.submission("gap", b.role(cards=2, resources=[("nic", 2)]), time_ns=cell.now_ns)
    cell.put(replace(made, **STOPS))
    assert started(cell.go()) == ["gap"]
    cell.succeeded("long")
    cell.go()
    cell.stops("gap")
    cell.go()
    cell.succeeded("head")
    assert told(cell.go()) == [("RESUME", "gap")]


# ---- evicted -------------------------------------------------------------------------------------


def test_evicted_at_the_threshold_and_neither_before_nor_inside_the_window() -> None:
    """Time alone brings it about: the moment to look again is asked for."""
    cell = waiting()
    head_ns = job_of(cell, "head").submitted_ns
    cell.ask("gap", 2, 900)
    fill = one(cell.go(), DecisionKind.BACKFILL)
    assert (fill.reason, fill.protect_ns) == (Reason.SAFE_IN_GAP, 60 * S)  # the ceiling
    cell.succeeded("long")
    assert told(cell.go(5)) == []
    assert next_wake(cell.state) == head_ns + 100 * S
    other = snapshot.fork(cell.state)
    assert next_wake(other) == head_ns + 100 * S
    cell.now_ns = head_ns + 100 * S - S
    assert told(cell.go(0)) == []
    made = cell.go(1)
    evicted = one(made, DecisionKind.EVICT)
    assert (evicted.job, evicted.reason, evicted.for_job) == (
        "gap",
        Reason.MAIN_NEEDS_CARDS,
        "head",
    )
    assert told(made, DecisionKind.CLAIM) == [("CLAIM", "head")]


def test_the_window_begins_with_the_first_run_and_its_end_is_waited_for() -> None:
    cell = waiting()
    cell.ask("gap", 2, 300)
    fill = one(cell.tick(95), DecisionKind.BACKFILL)
    assert fill.protect_ns == 45 * S  # 15 % of the estimate
    cell.now_ns += 20 * S
    cell.started("gap")
    began_ns = cell.now_ns
    cell.succeeded("long")
    assert told(cell.go(1)) == []
    assert next_wake(cell.state) == began_ns + 45 * S
    cell.now_ns = began_ns + 45 * S - S
    assert told(cell.go(0)) == []
    assert told(cell.go(1), DecisionKind.EVICT) == [("EVICT", "gap")]


@pytest.mark.parametrize(("run_s", "window_s"), [(20, 10), (100, 15), (200, 30), (900, 60)])
def test_the_window_is_a_share_of_the_estimate_between_floor_and_ceiling(
    run_s: int, window_s: int
) -> None:
    cell = waiting()
    cell.ask("gap", 2, run_s)
    assert one(cell.go(), DecisionKind.BACKFILL).protect_ns == window_s * S


def test_nobody_is_evicted_who_would_lose_too_much() -> None:
    """Unless it has saved its work."""
    for has_saved in (False, True):
        cell = waiting(rules=lent_policy(yielding={**QUICK, "lost_max_ns": "40s"}))
        cell.ask("gap", 2, 900)
        cell.go()
        cell.succeeded("long")
        if has_saved:
            now_ns = cell.now_ns
            cell.put(
                r.PodProgressed(now_ns, "", None, "gap", 0, 1, 500, now_ns),
                r.PodCheckpointed(now_ns, "", None, "gap", 0, 1, 500, now_ns),
            )
        made = cell.go(200)
        assert told(made, DecisionKind.EVICT) == ([("EVICT", "gap")] if has_saved else [])


def test_the_easiest_make_way_first() -> None:
    """Who can be suspended, then spot work, then others; of these the one that loses least."""
    cell = Cell(1, 1, 1, 1, 1)
    cell.ask("long", 1, 10_000)
    cell.go()
    cell.ask("head", 1, 50, pods=5)
    cell.ask("old", 1, 9000)
    cell.go()
    cell.ask("young", 1, 9000)
    cell.ask("spot", 1, 9000, spot=True)
    cell.ask("stops", 1, 9000, **STOPS)
    assert sorted(started(cell.go(30))) == ["spot", "stops", "young"]
    cell.cancel("head")
    cell.released("head")
    order = []
    for place in range(4):
        cell.ask(f"next{place}", 1, 5000)
        made = cell.go(200)
        for d in made:
            if d.kind in (DecisionKind.SUSPEND, DecisionKind.EVICT):
                order.append(d.job)
                if d.kind is DecisionKind.SUSPEND:
                    cell.stops(d.job)
                else:
                    cell.released(d.job, 0, d.attempt)
        cell.go()
    assert order == ["stops", "spot", "young", "old"]


def test_compensation_passes_others_in_gaps_and_no_main_job() -> None:
    cell = Cell(4, 4)
    cell.ask("long", 4, 10_000)
    cell.go()
    cell.ask("head", 4, 50, pods=2)
    cell.ask("gap", 4, 900)
    assert started(cell.go()) == ["gap"]
    cell.succeeded("long")
    made = cell.go(150)
    assert told(made, DecisionKind.EVICT) == [("EVICT", "gap")]
    cell.ask("later", 4, 700)
    cell.released("gap")
    assert started(cell.go()) == ["head"]
    gap, later = job_of(cell, "gap"), job_of(cell, "later")
    assert gap.credit == 4 * 150  # cards times seconds lost
    assert gap.key is not None and later.key is not None and later.key < gap.key
    cell.succeeded("head", 0)
    assert started(cell.go()) == ["later"]  # a main job, though it came later
    cell.ask("wide", 4, 50, pods=2)
    cell.ask("new", 4, 400)
    cell.succeeded("head", 1)
    made = cell.go()
    fill = one(made, DecisionKind.BACKFILL)
    assert (fill.job, fill.reason) == ("new", Reason.SAFE_IN_GAP)  # "gap" runs for too long


# ---- who may come in -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wish", "risk_milli", "starts"),
    [
        (BackfillPreference.UNKNOWN, 0, True),
        (BackfillPreference.ACCEPT, 0, True),
        (BackfillPreference.REFUSE, 1000, False),
        (BackfillPreference.LOW_RISK_ONLY, 10, False),
        (BackfillPreference.LOW_RISK_ONLY, 20, True),  # what is thought while nothing is known
    ],
)
def test_owners_say_which_gaps_they_take(
    wish: BackfillPreference, risk_milli: int, starts: bool
) -> None:
    cell = waiting()
    cell.ask("gap", 2, 100, backfill=wish, backfill_risk_milli=risk_milli)
    made = cell.go()
    assert started(made) == (["gap"] if starts else [])
    if starts:
        fill = one(made, DecisionKind.BACKFILL)
        assert (fill.risk_milli, fill.hold_ns, fill.tier) == (20, 100 * S, Tier.BACKFILL)


def test_low_risk_takes_no_gap_that_is_given_back_whenever_it_is_needed() -> None:
    for risk_milli, starts in ((499, False), (500, True)):
        cell = waiting()
        cell.ask(
            "gap",
            2,
            5000,
            backfill=BackfillPreference.LOW_RISK_ONLY,
            backfill_risk_milli=risk_milli,
            **STOPS,
        )
        assert started(cell.go()) == (["gap"] if starts else [])


def test_a_queue_that_takes_no_gaps_has_none_from_then_on() -> None:
    cell = waiting()
    cell.put(replace(b.queue("q", time_ns=cell.now_ns), backfill=Tri.NO))
    cell.ask("gap", 2, 100)
    cell.ask("spot", 2, 100, spot=True)
    assert started(cell.go()) == []
    cell.put(b.queue("q", time_ns=cell.now_ns))
    assert sorted(started(cell.go())) == ["gap"]


def test_a_gap_that_was_claimed_is_not_given_to_who_refuses_by_now() -> None:
    """Under a policy that lets jobs claim cards that are due in gaps."""
    cell = Cell(8, rules=timed_policy("hpc-easy"))
    cell.put(b.node("n1", 8))
    cell.ask("a", 8, 100)
    cell.ask("due", 6, 10)
    cell.go()
    cell.ask("head", 8, 50, pods=2)
    assert started(cell.go(5)) == []
    cell.now_ns += 5 * S
    cell.ask("gap", 6, 20)
    assert told(cell.go(0), DecisionKind.CLAIM) == [("CLAIM", "gap")]
    wish = r.JobUpdateRequested(cell.now_ns, "", None, "gap", "me", None, None, ())
    cell.put(replace(wish, backfill=BackfillPreference.REFUSE))
    cell.succeeded("due")
    given_up = one(cell.go(0), DecisionKind.UNCLAIM)
    assert (given_up.job, given_up.reason) == ("gap", Reason.BACKFILL_REFUSED)
    assert job_of(cell, "gap").pods is None or not job_of(cell, "gap").pods


def test_a_longer_run_than_the_gap_needs_consent_or_room_beside() -> None:
    cell = waiting()
    cell.ask("stays", 2, 5000)
    cell.ask("unknown", 2)
    assert started(cell.go()) == []
    cell.ask("stops", 2, **STOPS)  # no estimate, so never safe
    fill = one(cell.go(), DecisionKind.BACKFILL)
    assert (fill.job, fill.reason) == ("stops", Reason.SUSPENDABLE)


def test_idle_classes() -> None:
    """Beside a large job, cards left by small ones, cards that are kept for the first."""
    cell = Cell(8, 2, 4)
    cell.ask("large", 6, 1000)
    cell.ask("small", 1, 1000)
    cell.ask("kept", 3, 400)
    cell.go()
    cell.ask("head", 4, 50)
    cell.go()
    classes = {}
    for job, cards, run_s in (("two", 2, 100), ("one", 1, 100), ("time", 1, 100)):
        cell.ask(job, cards, run_s)
        fill = one(cell.go(), DecisionKind.BACKFILL)
        classes[job] = (fill.node, fill.idle)
    assert classes["two"] == ("n0", IdleClass.IN_NODE)
    assert classes["one"] in (("n1", IdleClass.FRAGMENT), ("n2", IdleClass.TIME))
    assert {kind for _, kind in classes.values()} == {
        IdleClass.IN_NODE,
        IdleClass.FRAGMENT,
        IdleClass.TIME,
    }


@pytest.mark.parametrize(
    ("talk", "starts"), [(Communication.HEAVY, False), (Communication.LOW, True)]
)
def test_pods_that_talk_much_are_not_scattered_over_fragments(
    talk: Communication, starts: bool
) -> None:
    cell = Cell(3, 3)
    for job in ("a", "b"):
        cell.ask(job, 2, 1000)
    cell.go()
    cell.ask("head", 3, 50)
    cell.go()
    cell.ask("gap", 1, 100, pods=2, communication=talk)
    assert started(cell.go()) == (["gap"] if starts else [])


def test_a_gap_is_given_for_no_longer_than_the_controller_says() -> None:
    rules = lent_policy(yielding=QUICK, tune={"runtime_least_ns": "60s", "runtime_max_ns": "60s"})
    cell = waiting(rules=rules)
    cell.ask("longer", 2, 61)
    assert started(cell.go()) == []
    cell.ask("shorter", 2, 60)
    assert started(cell.go()) == ["shorter"]


# ---- spot work -----------------------------------------------------------------------------------


def test_spot_work_fills_what_is_left_and_leaves_when_asked_for() -> None:
    cell = Cell(4)
    cell.ask("spot", 4, 5000, spot=True)
    fill = one(cell.go(), DecisionKind.BACKFILL)
    assert (fill.tier, fill.reason, fill.risk_milli) == (Tier.SPOT, Reason.SPOT_FILL, 300)
    cell.ask("main", 4, 100)
    made = cell.go()
    assert told(made) == [("EVICT", "spot"), ("CLAIM", "main")]  # at once: it has no window
    cell.released("spot")
    assert one(cell.go(), DecisionKind.ALLOCATE).job == "main"
    cell.ask("later", 4, 100)
    cell.succeeded("main")
    assert started(cell.go()) == ["later"]  # spot work comes last


def test_spot_work_is_held_to_quota_of_organisation_and_user_of_its_own() -> None:
    """Beside the path of quota: what main jobs use does not count, and the other way round."""
    limits = (
        r.Limit(LimitScope.TENANT, "org", "cards_milli", 3000, Tier.SPOT),
        r.Limit(LimitScope.USER, "", "cards_milli", 2000, Tier.SPOT),
        r.Limit(LimitScope.TENANT, "org", "cards_milli", 4000, Tier.MAIN),
    )
    cell = Cell(12)
    cell.put(replace(b.queue("q", time_ns=cell.now_ns), limits=limits))

    def ask(job: str, user: str, spot: bool) -> None:
        made = b.submission(job, b.role(cards=1), user=user, time_ns=cell.now_ns)
        cell.put(replace(made, runtime_estimate_ns=9000 * S, spot=spot, tenant="org"))

    for place in range(3):
        ask(f"u{place}", "u", True)
    for place in range(2):
        ask(f"v{place}", "v", True)
    for place in range(5):
        ask(f"m{place}", "u", False)
    made = cell.go()
    assert sorted(started(made)) == ["m0", "m1", "m2", "m3", "u0", "u1", "v0"]
    tiers = {d.job: d.tier for d in made if d.kind in STARTS}
    assert {tiers[job] for job in ("u0", "u1", "v0")} == {Tier.SPOT}
    cell.succeeded("u0")
    assert started(cell.go()) == ["u2"]
    assert started(cell.go()) == []
    cell.succeeded("m0")
    assert "m4" in started(cell.go())


# ---- limits and windows of others ----------------------------------------------------------------


def test_a_job_in_a_gap_that_outlives_its_limit_is_ended_if_the_policy_says_so() -> None:
    for ends in ("yes", "no"):
        rules = lent_policy(yielding=QUICK)
        setting = r.Argument("end_at_limit", ends)
        cell = waiting(rules=replace(rules, settings=(*rules.settings, setting)))
        cell.ask("gap", 2, 20, time_limit_ns=30 * S)
        assert started(cell.go()) == ["gap"]
        made = cell.go(30)
        evicted = [d.reason for d in made if d.kind is DecisionKind.EVICT]
        assert evicted == ([Reason.TIME_LIMIT] if ends == "yes" else [])

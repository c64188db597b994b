"""Who may start where, and when, beside what is reserved by request."""

from typing import Any

import pytest
from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind
from ganger.schemas.reasons import Reason
from ganger.streams.kernel import snapshot
from ganger.streams.kernel.digest import seal
from ganger.streams.kernel.explain import explain
from ganger.streams.kernel.handlers.time import next_wake
from ganger.streams.kernel.topology import mask_of
from support.builders import SECOND, Cell, node, policy, queue, request, role, submission
from support.decision_lines import places, said
from support.window_cells import policy_of

UNTIMED = ("default", "spread", "volcano", "kueue")
TIMED = ("hpc-easy", "hpc-conservative", "hpc-fcfs", "hpc-predict", "hybrid", "xirang")


def rules(preset: str) -> r.PolicyConfigured:
    return replace(policy_of(preset), time_ns=1_000 * SECOND)


def submit(cell: Cell, job: str, cards: int = 1, run_s: int = 0, **more: Any) -> None:
    """A job of one pod; `run_s` = 0: without an estimate."""
    facts = {key: more.pop(key) for key in ("queue", "user") if key in more}
    pods = more.pop("pods", 1)
    asks = more.pop("asks", {})
    made = submission(job, role(replicas=pods, cards=cards, **asks), time_ns=cell.now_ns, **facts)
    cell.put(replace(made, runtime_estimate_ns=run_s * SECOND, **more))


def keep(
    cell: Cell, *nodes: str, after_s: int = 0, until_s: int = 100, name: str = "w", **more: Any
) -> list[Decision]:
    """Reserve from `after_s` to `until_s` seconds from now."""
    start, end = cell.now_ns + after_s * SECOND, cell.now_ns + until_s * SECOND
    made = r.ReservationRequested(cell.now_ns, "", None, name, "me", nodes, 0, start, end, False)
    return cell.put(replace(made, **more))


def kept_cards(decisions: list[Decision]) -> dict[str, int]:
    """Masks of cards by node, as RESERVE decisions say them."""
    cards: dict[str, int] = {}
    for decision in decisions:
        assert decision.kind is DecisionKind.RESERVE and not decision.job
        cards[decision.node] = cards.get(decision.node, 0) | mask_of(decision.cards)
    return cards


def starts(cell: Cell, after_s: int = 0) -> list[str]:
    """Jobs that start in a cycle; they are reported running."""
    found = []
    for decision in cell.tick(after_s):
        if decision.kind in (DecisionKind.ALLOCATE, DecisionKind.BACKFILL):
            cell.started(decision.job, decision.pod, decision.attempt)
            found.append(decision.job)
    return sorted(set(found))


# ---- before it begins ----------------------------------------------------------------------------


@pytest.mark.parametrize("preset", [*UNTIMED, *TIMED])
@pytest.mark.parametrize("whole", [True, False], ids=["nodes", "cards"])
def test_who_would_run_into_it_does_not_start_there(preset: str, whole: bool) -> None:
    cell = Cell().start(node("n"), rules=rules(preset))
    keep(cell, "n", after_s=20, until_s=50, cards=0 if whole else 8)
    submit(cell, "unknown", 1)
    submit(cell, "long", 1, 21)
    submit(cell, "short", 1, 20)
    made = starts(cell)
    if preset == "hpc-fcfs":  # nobody passes who stands first
        assert made == []
    else:
        assert made == ["short"]
    if "short" in made:
        cell.now_ns += 20 * SECOND
        cell.succeeded("short")
        assert starts(cell) == []  # it has begun
    else:
        assert starts(cell, 20) == []
    assert next_wake(cell.state) == cell.now_ns + 30 * SECOND
    cell.now_ns += 30 * SECOND
    rest = starts(cell)
    assert {"unknown", "long"} <= set(rest)


@pytest.mark.parametrize("preset", [*UNTIMED, *TIMED])
def test_a_window_far_ahead_leaves_cards_usable_until_then(preset: str) -> None:
    cell = Cell().start(node("n0", 4), node("n1", 4), rules=rules(preset))
    keep(cell, "n0", "n1", after_s=1000, until_s=2000, is_maintenance=True)
    for number in range(8):
        submit(cell, f"j{number}", 1, 900)
    assert len(starts(cell)) == 8


@pytest.mark.parametrize("preset", [*UNTIMED, "hpc-easy", "hpc-conservative"])
def test_others_use_the_cards_and_nodes_that_it_leaves(preset: str) -> None:
    cell = Cell().start(node("n0"), node("n1"), rules=rules(preset))
    kept = kept_cards(keep(cell, "n0", after_s=10, until_s=100, cards=6))
    submit(cell, "wide", 8)
    submit(cell, "rest", 2)
    made = [d for d in cell.tick() if d.kind in (DecisionKind.ALLOCATE, DecisionKind.BACKFILL)]
    assert {d.job: d.node for d in made} == {"wide": "n1", "rest": "n0"}
    assert not any(mask_of(d.cards) & kept.get(d.node, 0) for d in made)


def test_alike_but_for_their_estimates_and_owners_jobs_are_asked_apart() -> None:
    cell = Cell().start(node("n", 4), rules=rules("default"))
    keep(cell, "n", after_s=20, until_s=50, users=("v",))
    submit(cell, "a", 1, 100)
    submit(cell, "b", 1)
    submit(cell, "c", 1, 10)
    submit(cell, "d", 1, user="v")
    assert starts(cell) == ["c", "d"]
    assert starts(cell, 1) == []
    keep(cell, name="w", cancelled=True)
    assert starts(cell) == ["a", "b"]


# ---- who may use it ------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", [*UNTIMED, *TIMED])
@pytest.mark.parametrize(
    ("listed", "owner"),
    [
        ({"queues": ("p",)}, {"queue": "p.a"}),
        ({"queues": ("p.a",)}, {"queue": "p.a"}),
        ({"users": ("v",)}, {"user": "v"}),
        ({"tenants": ("t",)}, {"tenant": "t"}),
        ({"queues": ("q",), "tenants": ("t",)}, {"queue": "p.a", "tenant": "t"}),
    ],
    ids=["queue_above", "queue", "user", "tenant", "any_of_them"],
)
def test_only_those_on_the_list_start_inside(
    preset: str, listed: dict[str, Any], owner: dict[str, Any]
) -> None:
    queues = [queue("p"), queue("p.a", parent="p"), queue("q"), queue("z")]
    cell = Cell().start(*queues, node("n", 4), rules=rules(preset))
    keep(cell, "n", until_s=100, **listed)
    starts(cell)
    submit(cell, "other", 1, 10, queue="z")
    submit(cell, "mine", 1, 500, **{"queue": "z", **owner})
    first = starts(cell, 1) + starts(cell, 1)
    assert first == ([] if preset == "hpc-fcfs" else ["mine"])  # there nobody passes the other
    assert "other" in starts(cell, 100)


def test_nobody_uses_what_is_kept_for_nobody_or_under_maintenance() -> None:
    for more in ({}, {"is_maintenance": True}):
        cell = Cell().start(node("n"))
        submit(cell, "there", 1)
        assert starts(cell) == ["there"]
        keep(cell, "n", after_s=0, until_s=10, **more)
        submit(cell, "j", 1, 1)
        assert starts(cell, 1) == []
        assert "there" in cell.state.job_by_key  # it stays
        assert starts(cell, 9) == ["j"]


# ---- which cards ---------------------------------------------------------------------------------


def test_cards_that_are_free_when_it_begins_are_taken_first() -> None:
    cell = Cell().start(node("n"))
    submit(cell, "long", 3, 100)
    submit(cell, "short", 2, 5)
    made = {d.job: mask_of(d.cards) for d in cell.tick() if d.kind is DecisionKind.ALLOCATE}
    kept = kept_cards(keep(cell, "n", after_s=10, until_s=20, cards=5))
    assert kept == {"n": 0xFF & ~made["long"]}
    more = kept_cards(keep(cell, "n", after_s=20, until_s=30, cards=6, name="v"))
    assert more["n"].bit_count() == 6 and more["n"] & ~made["long"] == 0xFF & ~made["long"]


def test_a_shape_finds_its_own_nodes() -> None:
    cell = Cell().start(
        node("small", 2), node("busy", 4), node("n", 4), node("other", 4, model="B")
    )
    submit(cell, "j", 3, 1000, asks={"selectors": ()})
    cell.tick()
    shape = request(2, models=("A",), cpu=1000)
    kept = kept_cards(keep(cell, after_s=10, request=shape, pods=3))
    assert {name: mask.bit_count() for name, mask in kept.items()} == {"small": 2, "n": 4}
    # nothing is left for another at the same time, but much later
    assert said(keep(cell, after_s=10, request=shape, pods=3, name="v")) == [
        "REJECT  GANG_BELOW_MINIMUM"
    ]
    later = keep(cell, after_s=100, until_s=200, request=shape, pods=3, name="v")
    assert sum(mask.bit_count() for mask in kept_cards(later).values()) == 6


def test_what_a_shape_asks_beside_cards_is_kept_too() -> None:
    cell = Cell().start(node("n", 4, cpu=10_000))
    keep(cell, until_s=50, request=request(1, cpu=4000), pods=2, users=("v",))
    submit(cell, "eats", 1, 10, asks={"cpu": 3000})
    submit(cell, "fits", 1, 10, asks={"cpu": 2000})
    submit(cell, "mine", 1, 10, user="v", asks={"cpu": 4000})
    assert starts(cell) == ["fits", "mine"]
    cell.cancel("eats")
    submit(cell, "again", 1, 10, user="v", asks={"cpu": 4000})
    assert starts(cell) == ["again"]  # what one of the list holds is kept no more beside it


@pytest.mark.parametrize(
    ("facts", "reason", "asked", "limit"),
    [
        ({"nodes": ("n",), "cards": 9}, Reason.CARDS_TOO_FEW, 9, 8),
        ({"nodes": ("n",), "cards": -1}, Reason.VALUE_OUT_OF_RANGE, -1, 1 << 20),
        ({"nodes": ("n", "n"), "cards": 1}, Reason.NAMES_REPEATED, 2, 1),
        ({"request": request(9), "pods": 1}, Reason.GANG_BELOW_MINIMUM, 1, 0),
        ({"request": request(4), "pods": 3}, Reason.GANG_BELOW_MINIMUM, 3, 2),
        ({"request": request(1), "pods": 0}, Reason.VALUE_OUT_OF_RANGE, 0, 1 << 16),
        ({"request": request(0), "pods": 1}, Reason.VALUE_OUT_OF_RANGE, 0, 1 << 20),
        ({"request": request(milli=500), "pods": 1}, Reason.VALUE_OUT_OF_RANGE, 0, 1 << 20),
        ({"request": request(1), "pods": 1, "cards": 3}, Reason.VALUE_OUT_OF_RANGE, 3, 0),
        ({"request": request(1), "pods": 1, "nodes": ("n",)}, Reason.VALUE_OUT_OF_RANGE, 1, 0),
        (
            {"request": request(1, resources=(("x", 1),)), "pods": 1},
            Reason.VALUE_OUT_OF_RANGE,
            1,
            0,
        ),
        ({"nodes": ("n",), "pods": 1}, Reason.VALUE_OUT_OF_RANGE, 1, 0),
    ],
)
def test_what_cannot_be_kept_is_refused_with_numbers(
    facts: dict[str, Any], reason: Reason, asked: int, limit: int
) -> None:
    cell = Cell().start(node("n"))
    (refused,) = keep(cell, **facts)
    assert (refused.kind, refused.reason) == (DecisionKind.REJECT, reason)
    assert (refused.asked, refused.limit) == (asked, limit)
    assert cell.state.reservations == {} and cell.state.indexes.windows is None
    submit(cell, "j", 8)
    assert starts(cell) == ["j"]


def test_windows_at_the_same_time_keep_different_cards() -> None:
    cell = Cell().start(node("n"))
    one = kept_cards(keep(cell, "n", after_s=5, until_s=20, cards=3, name="a"))
    two = kept_cards(keep(cell, "n", after_s=10, until_s=30, cards=5, name="b"))
    assert one["n"] & two["n"] == 0
    (refused,) = keep(cell, "n", after_s=19, until_s=25, cards=1, name="c")
    assert (refused.reason, refused.asked, refused.limit) == (Reason.CARDS_TOO_FEW, 1, 0)
    assert kept_cards(keep(cell, "n", after_s=20, until_s=25, cards=3, name="c")) == one
    # one of the same name takes the place of the former and may have its cards
    assert kept_cards(keep(cell, "n", after_s=10, until_s=30, cards=5, name="b")) == two


# ---- what it takes from others -------------------------------------------------------------------


def test_a_claim_on_cards_that_are_kept_meanwhile_is_given_up() -> None:
    cell = Cell().start(node("n"), rules=policy(actions=("enqueue", "allocate", "preempt")))
    submit(cell, "low", 8, 1000)
    assert starts(cell) == ["low"]
    submit(cell, "high", 8, 100, priority=5)
    told = cell.tick()
    assert DecisionKind.CLAIM in [d.kind for d in told if d.job == "high"]
    keep(cell, "n", after_s=50, until_s=60)
    made = [(d.kind, d.reason) for d in cell.tick() if d.job == "high"]
    assert made == [(DecisionKind.UNCLAIM, Reason.NODE_RESERVED)]


def test_nobody_is_evicted_for_cards_that_are_kept_from_the_taker() -> None:
    cell = Cell().start(
        node("n"), rules=policy("priority", "gang", actions=("allocate", "preempt"))
    )
    submit(cell, "low", 8, 1000)
    assert starts(cell) == ["low"]
    keep(cell, "n", after_s=50, until_s=60)
    submit(cell, "high", 8, 100, priority=5)
    assert not any(d.kind in (DecisionKind.CLAIM, DecisionKind.EVICT) for d in cell.tick())
    submit(cell, "brief", 8, 20, priority=5)
    assert {d.job for d in cell.tick() if d.kind is DecisionKind.CLAIM} == {"brief"}


def test_snapshots_keep_which_cards() -> None:
    cell = Cell().start(node("n"))
    keep(cell, "n", after_s=5, until_s=20, cards=3, users=("v",))
    keep(cell, after_s=5, until_s=20, request=request(2), pods=2, name="s")
    submit(cell, "j", 3, 100)
    submit(cell, "k", 1, 100)
    restored = snapshot.decode(snapshot.encode(cell.state))
    assert restored.places == cell.state.places and seal(restored) == seal(cell.state)
    again = Cell()
    again.state, again.now_ns = restored, cell.now_ns
    assert places(again.tick()) == places(cell.tick()) == ["k/0@n"]
    assert seal(restored) == seal(cell.state)


def test_it_is_told_who_is_kept_out_by_what() -> None:
    cell = Cell().start(node("n"), node("m"))
    keep(cell, "n", after_s=50, until_s=60, users=("v",))
    keep(cell, "m", until_s=70, cards=8, name="x", is_maintenance=True)
    submit(cell, "j", 4, 100)
    cell.tick()
    found = explain(cell.state, "j")
    assert found is not None
    start = cell.now_ns - SECOND
    kept = [(k.reservation, k.from_ns - start, k.to_ns - start, k.users) for k in found.kept]
    assert kept == [("x", 0, 70 * SECOND, ()), ("w", 50 * SECOND, 60 * SECOND, ("v",))]
    assert [(k.is_maintenance, k.cards, k.nodes, k.run_ns) for k in found.kept] == [
        (True, 8000, ("m",), 100 * SECOND),
        (False, 0, ("n",), 100 * SECOND),
    ]
    reasons = [(f.reason, f.count) for f in found.reasons if f.count]
    assert reasons == [(Reason.NODE_RESERVED, 2)]


# ---- with reservations of waiting jobs -----------------------------------------------------------


def booked(cell: Cell) -> dict[str, int]:
    """Seconds from the first record until the booked start of each job."""
    return {
        cell.state.jobs[seq].request.job: (one.start_ns - 1_000 * SECOND) // SECOND
        for seq, one in cell.state.bookings.items()
    }


@pytest.mark.parametrize("preset", ["hpc-easy", "hpc-conservative"])
def test_a_head_that_meets_a_window_is_booked_for_its_end(preset: str) -> None:
    cell = Cell().start(node("n"), rules=rules(preset))
    keep(cell, "n", after_s=20, until_s=50)
    submit(cell, "a", 4, 10)
    assert starts(cell) == ["a"]
    submit(cell, "wide", 8, 30)
    submit(cell, "thin", 4, 20)
    submit(cell, "late", 4, 21)
    assert starts(cell) == ["thin"]
    assert booked(cell)["wide"] == 50
    for job, at_s in (("a", 10), ("thin", 20)):
        cell.now_ns = (1_000 + at_s) * SECOND
        cell.succeeded(job)
        assert starts(cell) == []
    cell.now_ns = (1_000 + 50) * SECOND
    assert starts(cell) == ["wide"]


def test_bookings_of_others_stay_where_they_are_when_a_window_comes_that_they_do_not_meet() -> None:
    cell = Cell().start(node("n"), rules=rules("hpc-conservative"))
    submit(cell, "a", 8, 10)
    assert starts(cell) == ["a"]
    submit(cell, "b", 8, 10)
    submit(cell, "c", 4, 10)
    submit(cell, "d", 8, 10)
    starts(cell)
    assert booked(cell) == {"b": 10, "c": 20, "d": 30}
    keep(cell, "n", after_s=500, until_s=600)
    starts(cell)
    assert booked(cell) == {"b": 10, "c": 20, "d": 30}
    submit(cell, "e", 4, 10)
    submit(cell, "huge", 9, 10)  # never fits
    submit(cell, "long", 2, 1000)
    starts(cell)
    assert booked(cell) == {"b": 10, "c": 20, "d": 30, "e": 20, "long": 600}
    keep(cell, name="w", cancelled=True)
    starts(cell)
    assert booked(cell) == {"b": 10, "c": 20, "d": 30, "e": 20, "long": 40}


def test_who_never_fits_or_asks_for_more_than_cards_moves_nobody_back() -> None:
    cell = Cell().start(node("n"), rules=rules("hpc-conservative"))
    submit(cell, "a", 8, 10)
    assert starts(cell) == ["a"]
    for job, cards in (("b", 8), ("c", 4), ("d", 8)):
        submit(cell, job, cards, 10)
    starts(cell)
    promised = {"b": 10, "c": 20, "d": 30}
    assert booked(cell) == promised
    submit(cell, "huge", 9, 10)
    starts(cell)
    assert booked(cell) == promised
    submit(cell, "odd", 2, 10, asks={"cpu": 1000})  # counts of cards decide no more
    starts(cell)
    assert booked(cell) == {**promised, "odd": 20}
    submit(cell, "e", 2, 10)
    starts(cell)
    assert booked(cell) == {**promised, "odd": 20, "e": 20}
    keep(cell, "n", after_s=45, until_s=60)
    starts(cell)
    assert booked(cell) == {**promised, "odd": 20, "e": 20}
    cell.cancel("odd")
    cell.cancel("huge")
    keep(cell, name="w", cancelled=True)
    starts(cell)
    assert booked(cell) == {**promised, "e": 20}

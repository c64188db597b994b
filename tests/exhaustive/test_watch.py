"""The search notices what it is there to notice: each promise, broken on purpose."""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from exhaustive.book import Book
from exhaustive.promises import Watch, fits, pods_to_start
from exhaustive.quota import always, within_due
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, Tier
from ganger.schemas.parts import CardSpan
from ganger.schemas.reasons import Reason
from support.promises import PromiseBroken

K = DecisionKind
SAID = Decision(
    "c", 0, 0, 0, K.UNKNOWN, "", "pod", 0, 1, "n0", (), 0, 0, Tier.MAIN, 0, "", Reason.UNKNOWN,
    0, 0, 0, b"", 0, 0, 0, b"",
)  # fmt: skip


def said(
    kind: DecisionKind, job: str, *cards: int, pod: int = 0, node: str = "n0", by: str = ""
) -> Decision:
    spans = tuple(CardSpan(card, 1) for card in cards)
    return replace(SAID, kind=kind, job=job, pod=pod, node=node, cards=spans, for_job=by)


def watch(*choices: tuple[str, str], nodes: int = 1) -> Watch:
    book = Book(nodes)
    for place, choice in enumerate(choices):
        book.add(place, choice)
    return Watch(book, always)


def cycle(one: Watch, *made: Decision) -> None:
    one.book.apply(made)
    one.after_cycle(made)


def release(one: Watch, job: str, pods: Iterable[int]) -> None:
    for pod in pods:
        del one.book.jobs[job].pods[pod]


def test_a_sound_history_breaks_nothing() -> None:
    one = watch(("S", "a"), ("HP", "a"))
    cycle(one, said(K.ALLOCATE, "j0", 0))
    cycle(one, said(K.EVICT, "j0", 0, by="j1"), said(K.CLAIM, "j1", 0, 1))
    release(one, "j0", [0])
    cycle(one, said(K.ALLOCATE, "j1", 0, 1))
    one.at_rest()
    one.job_ended(one.book.jobs["j1"])
    release(one, "j1", [0])
    one.book.apply([said(K.FINISH, "j1")])
    cycle(one, said(K.ALLOCATE, "j0", 0))
    one.at_rest()


def test_a_card_is_held_once() -> None:
    one = watch(("S", "a"), ("S", "b"))
    with pytest.raises(PromiseBroken, match="no card is held twice"):
        cycle(one, said(K.ALLOCATE, "j0", 0), said(K.ALLOCATE, "j1", 0))


def test_a_leaving_pod_still_holds_its_card() -> None:
    one = watch(("S", "a"), ("HS", "a"))
    cycle(one, said(K.ALLOCATE, "j0", 0))
    with pytest.raises(PromiseBroken, match="no card is held twice"):
        cycle(one, said(K.EVICT, "j0", 0, by="j1"), said(K.ALLOCATE, "j1", 0))


def test_a_claim_keeps_others_off() -> None:
    one = watch(("S", "a"), ("S", "b"))
    with pytest.raises(PromiseBroken, match="a claim is nobody else's"):
        cycle(one, said(K.CLAIM, "j0", 0), said(K.ALLOCATE, "j1", 0))


def test_a_gang_below_its_minimum() -> None:
    one = watch(("G2", "a"))
    with pytest.raises(PromiseBroken, match="a gang has its minimum, or nothing"):
        cycle(one, said(K.ALLOCATE, "j0", 0))


def test_an_eviction_names_its_taker() -> None:
    one = watch(("S", "a"))
    cycle(one, said(K.ALLOCATE, "j0", 0))
    with pytest.raises(PromiseBroken, match="an eviction names its taker"):
        cycle(one, said(K.EVICT, "j0", 0))


def test_in_a_queue_only_lower_priority_yields() -> None:
    one = watch(("HS", "a"), ("HP", "a"))
    cycle(one, said(K.ALLOCATE, "j0", 0))
    with pytest.raises(PromiseBroken, match="only lower priority yields"):
        cycle(one, said(K.EVICT, "j0", 0, by="j1"))


def test_a_right_is_used_once() -> None:
    one = watch(("S", "a"), ("S", "a"), ("HS", "a"))
    cycle(one, said(K.ALLOCATE, "j0", 0), said(K.ALLOCATE, "j1", 1))
    cycle(one, said(K.EVICT, "j0", 0, by="j2"))
    with pytest.raises(PromiseBroken, match="who evicts has its right to"):
        cycle(one, said(K.EVICT, "j1", 1, by="j2"))


def test_a_victim_has_its_right_again_once_a_job_has_ended() -> None:
    one = watch(("HS", "b"), ("S", "a"), ("S", "b"))
    cycle(one, said(K.ALLOCATE, "j0", 0), said(K.ALLOCATE, "j2", 1))
    cycle(one, said(K.EVICT, "j0", 0, by="j1"))
    assert one.book.jobs["j0"].spent == ("b", "a")
    one.job_ended(one.book.jobs["j1"])
    assert one.book.jobs["j0"].spent is None
    cycle(one, said(K.EVICT, "j2", 1, by="j0"))
    assert one.book.jobs["j2"].spent == ("b", "b")


def test_no_placement_comes_back() -> None:
    one = watch(("S", "a"), ("HS", "b"))
    cycle(one, said(K.ALLOCATE, "j0", 0))
    cycle(one, said(K.EVICT, "j0", 0, by="j1"))
    release(one, "j0", [0])
    with pytest.raises(PromiseBroken, match="no placement is visited twice"):
        cycle(one, said(K.ALLOCATE, "j0", 0))


def test_who_evicts_starts() -> None:
    one = watch(("S", "a"), ("HS", "a"))
    cycle(one, said(K.ALLOCATE, "j0", 0))
    cycle(one, said(K.EVICT, "j0", 0, by="j1"))
    with pytest.raises(PromiseBroken, match="who evicts starts"):
        one.at_rest()


def test_a_victim_is_of_use() -> None:
    one = watch(("S", "a"), ("HS", "a"))
    cycle(one, said(K.ALLOCATE, "j0", 0))
    with pytest.raises(PromiseBroken, match="cards are used by its taker"):
        cycle(one, said(K.EVICT, "j0", 0, by="j1"), said(K.ALLOCATE, "j1", 1))


def test_no_claim_is_left_at_rest() -> None:
    one = watch(("S", "a"))
    cycle(one, said(K.CLAIM, "j0", 0))
    with pytest.raises(PromiseBroken, match="no claim is left"):
        one.at_rest()


def test_no_card_is_idle_beside_a_job_that_fits() -> None:
    with pytest.raises(PromiseBroken, match="no card is idle"):
        watch(("S", "a")).at_rest()
    watch(("G3", "a")).at_rest()  # does not fit


def test_a_rule_of_quota_excuses_idle_cards() -> None:
    one = watch(("S", "a"), ("P", "b"), ("P", "b"), ("P", "b"), nodes=2)
    one.allows = within_due
    cycle(one, said(K.ALLOCATE, "j1", 0, 1))
    assert not within_due(one.book, one.book.jobs["j2"], 2)  # 4 of 4 cards; one is for queue a
    assert within_due(one.book, one.book.jobs["j0"], 1)


def test_fit_is_by_node() -> None:
    assert fits([("n0", 0), ("n1", 0)], 2, 1)
    assert not fits([("n0", 0), ("n1", 0)], 1, 2)
    one = watch(("E", "a"))
    assert pods_to_start(one.book.jobs["j0"]) == 1
    assert pods_to_start(watch(("G3", "a")).book.jobs["j0"]) == 3

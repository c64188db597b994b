"""Card masks against plain lists of cards."""

from itertools import combinations, pairwise
from random import Random

import pytest

from ganger.schemas import records as r
from ganger.schemas.enums import CardHealth, TaintEffect
from ganger.streams.kernel import topology
from support.builders import report

OK, BAD = CardHealth.HEALTHY, CardHealth.FAILED
HALVES = (0b00001111, 0b11110000)
PAIRS = (0b11, 0b1100, 0b110000, 0b11000000)


def bits(mask: int) -> list[int]:
    """Cards of a mask."""
    return [card for card in range(mask.bit_length()) if mask >> card & 1]


@pytest.mark.parametrize("seed", range(20))
def test_lowest_cards_are_the_lowest(seed: int) -> None:
    mask = Random(seed).getrandbits(70)
    for count in range(mask.bit_count() + 1):
        assert bits(topology.lowest_cards(mask, count)) == bits(mask)[:count]


@pytest.mark.parametrize("seed", range(20))
def test_spans_say_a_mask_and_read_back(seed: int) -> None:
    mask = Random(seed).getrandbits(100)
    runs = topology.spans(mask)
    assert topology.mask_of(runs) == mask
    assert [c for s in runs for c in range(s.first, s.first + s.count)] == bits(mask)
    assert all(a.first + a.count < b.first for a, b in pairwise(runs))


@pytest.mark.parametrize("seed", range(20))
def test_of_a_wide_node_the_lowest_cards_are_chosen(seed: int) -> None:
    chance = Random(seed)
    island = (1 << 200) - 1
    free = chance.getrandbits(200) | 1 << 199
    for count in (1, 2, free.bit_count() // 2, free.bit_count()):
        for same in (False, True):
            assert bits(topology.choose_cards(free, count, (island,), same)) == bits(free)[:count]
    assert topology.choose_cards(free, free.bit_count() + 1, (island,), False) == 0
    half = (1 << 100) - 1  # and where there are two islands, the tightest that suffices
    chosen = topology.choose_cards(free, 30, (half, island ^ half), True)
    assert chosen.bit_count() == 30 and not (chosen & half and chosen & ~half)


def test_no_cards_are_no_spans() -> None:
    assert topology.spans(0) == ()
    assert topology.mask_of((r.CardSpan(2, 2), r.CardSpan(3, 2))) == 0b11100


@pytest.mark.parametrize("islands", [HALVES, PAIRS, (0xFF,), (0b01010101, 0b10101010)])
def test_choices_against_all_sets_of_cards(islands: tuple[int, ...]) -> None:
    for free in range(0, 256, 3):
        for count in range(1, 9):
            chosen = topology.choose_cards(free, count, islands, False)
            together = topology.choose_cards(free, count, islands, True)
            sets = [sum(1 << c for c in cards) for cards in combinations(bits(free), count)]
            least = min((sum(1 for i in islands if s & i) for s in sets), default=0)
            assert (chosen in sets) == bool(sets)
            if sets:  # as few islands as can be
                assert sum(1 for i in islands if chosen & i) == least
            assert (together in sets) == (least == 1)
            assert together == 0 or sum(1 for i in islands if together & i) == 1


@pytest.mark.parametrize(
    ("free", "count", "chosen"),
    [
        (0b11110111, 3, 0b111),  # the tighter island
        (0b11111111, 4, 0b1111),  # ties to the lower
        (0b11111111, 5, 0b11111),
        (0b01110001, 1, 0b1),
        (0b11110001, 5, 0b11110001),
        (0b11110011, 5, 0b11110001),
    ],
)
def test_the_tightest_island_is_taken(free: int, count: int, chosen: int) -> None:
    assert topology.choose_cards(free, count, HALVES, False) == chosen


def test_as_many_choices_succeed_as_pods_fit() -> None:
    for same in (False, True):
        for free in range(256):
            for count in (1, 2, 3, 4):
                left, placed = free, 0
                while mask := topology.choose_cards(left, count, HALVES, same):
                    left &= ~mask
                    placed += 1
                assert placed == topology.pods_in(free, count, HALVES, same), (free, count, same)


def test_best_island() -> None:
    assert topology.best_island(0b00110111, HALVES) == 3
    assert topology.best_island(0, HALVES) == 0
    assert topology.best_island(0b1, ()) == 0


def test_a_card_in_no_island_is_still_a_card() -> None:
    assert topology.choose_cards(0b111, 3, (0b011,), False) == 0b111
    assert topology.choose_cards(0b111, 3, (0b011,), True) == 0


def test_runs_become_kinds_islands_and_health() -> None:
    runs = (
        r.CardRun(2, "A", 10, 7, OK),
        r.CardRun(1, "B", 20, 7, BAD),
        r.CardRun(2, "A", 10, 3, CardHealth.UNKNOWN),
    )
    kinds, islands, healthy = topology.card_masks(runs)
    assert kinds == (("A", 10, 0b11011), ("B", 20, 0b00100))
    assert islands == (0b11000, 0b00111)
    assert healthy == 0b00011


def test_nodes_are_classed_by_cards_and_taints_not_by_health_or_labels() -> None:
    plain = topology.class_key(report("n1", 4))
    assert topology.class_key(report("n2", 4, failed=[1], labels=[("a", "b")], cpu=1)) == plain
    taint = r.Taint("k", "v", TaintEffect.NO_SCHEDULE)
    for other in (
        report("n", 5),
        report("n", 4, model="B"),
        report("n", 4, card_memory=1),
        report("n", 4, island=2),
        report("n", 4, taints=[taint]),
    ):
        assert topology.class_key(other) != plain

"""What may be committed: the finished run at the front, whatever order things are finished in."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.streams.kafka.wire.acks import Acks

PLACE = ("ganger.jobs", 3)


def test_a_message_counts_once_it_is_handled_and_all_it_led_to_is_delivered() -> None:
    acks = Acks()
    pending = acks.open(PLACE, 7)
    pending.expect()
    pending.expect()
    assert acks.committable() == {}
    pending.done()
    pending.done(100)
    assert acks.committable() == {}
    pending.done(101)
    assert acks.committable() == {PLACE: 8}


def test_what_was_committed_is_not_told_again() -> None:
    acks = Acks()
    acks.open(PLACE, 0).done()
    acks.committed({PLACE: 1})
    assert acks.committable() == {}
    acks.open(PLACE, 1).done()
    assert acks.committable() == {PLACE: 2}


def test_offsets_that_nobody_has_are_passed_with_the_next_message() -> None:
    acks = Acks()
    acks.open(PLACE, 4).done()
    later = acks.open(PLACE, 9)
    assert acks.committable() == {PLACE: 5}
    later.done()
    assert acks.committable() == {PLACE: 10}


def test_messages_come_in_order() -> None:
    acks = Acks()
    acks.open(PLACE, 4)
    with pytest.raises(ValueError, match="in order"):
        acks.open(PLACE, 4)


def test_after_a_rebalance_old_deliveries_count_for_nothing() -> None:
    acks = Acks()
    acks.open(PLACE, 4).done()
    old = acks.open(PLACE, 5)
    acks.forget()
    new = [acks.open(PLACE, offset) for offset in (4, 5, 6)]
    old.done()
    new[1].done()
    assert acks.committable() == {}
    new[0].done()
    assert acks.committable() == {PLACE: 6}


def test_a_commit_that_ends_after_a_rebalance_does_not_stand_in_the_way_for_long() -> None:
    acks = Acks()
    acks.open(PLACE, 4).done()
    offsets = acks.committable()
    acks.forget()
    acks.committed(offsets)
    acks.open(PLACE, 4).done()
    assert acks.committable() == {PLACE: 5}


@given(st.integers(0, 2**32), st.integers(1, 40))
def test_never_past_a_message_that_is_not_done(seed: int, count: int) -> None:
    rng = random.Random(seed)
    acks = Acks()
    offsets = sorted(rng.sample(range(100), count))
    opened = {offset: acks.open(PLACE, offset) for offset in offsets}
    rng.shuffle(offsets)
    left = set(offsets)
    for offset in offsets:
        opened[offset].done()
        left.discard(offset)
        told = acks.committable().get(PLACE, 0)
        assert all(told <= open_one for open_one in left)
    assert acks.committable() == {PLACE: max(opened) + 1}
    assert acks.waiting_count() == 0


# ---- what is handled, and when, after a rebalance ------------------------------------------------


class Lookups:
    """Which message is the first from an offset on; counts how often it is asked."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.count = 0

    def __call__(self, place: tuple[str, int], offset: int) -> int:
        self.count += 1
        return self.first


def handled(acks: Acks, offsets: list[int]) -> list[int]:
    taken = []
    for offset in offsets:
        if acks.admits(PLACE, offset):
            acks.open(PLACE, offset).done()
            taken.append(offset)
    return taken


# begin, first message at or after it, what comes, what is handled, look-ups
ARRIVALS = [
    ([700, 701, 702], 700, [700, 701, 702], 0),
    ([729, 730, 700, 701], 700, [700, 701], 1),  # fetched before the seek
    ([700, 701, 702, 700, 701, 702, 703], 700, [700, 701, 702, 703], 0),  # fetched twice
    ([702, 703, 704], 702, [702, 703, 704], 1),  # a mark of a transaction at the beginning
    ([729, 702, 703], 702, [702, 703], 1),
    ([700, 705, 706], 700, [700, 705, 706], 0),  # marks in between
    ([699, 700], 700, [700], 0),  # committed before
]


@pytest.mark.parametrize(("offsets", "first", "taken", "lookups"), ARRIVALS)
def test_nothing_is_left_out_and_nothing_comes_out_of_turn(
    offsets: list[int], first: int, taken: list[int], lookups: int
) -> None:
    lookup = Lookups(first)
    acks = Acks(lookup)
    acks.begin({PLACE: 700})
    assert handled(acks, offsets) == taken
    assert lookup.count == lookups
    assert acks.committable() == {PLACE: taken[-1] + 1}


def test_a_new_beginning_forgets_the_last_one() -> None:
    acks = Acks(Lookups(5))
    acks.begin({PLACE: 5})
    assert handled(acks, [5, 6, 7]) == [5, 6, 7]
    acks.forget()
    acks.begin({PLACE: 6})
    assert handled(acks, [6, 7, 8]) == [6, 7, 8]

"""Cards of a node over time: one form for one function, whatever led to it."""

import random
from itertools import pairwise

import pytest

from ganger.streams.kernel.horizon.masks import Masks
from ganger.streams.kernel.horizon.steps import FOREVER

SPAN = 12
CARDS = 4
ALL = (1 << CARDS) - 1


@pytest.mark.parametrize("seed", range(20))
def test_any_changes_and_their_undo_leave_the_lists_of_the_plain_function(seed: int) -> None:
    chance = random.Random(seed)
    masks, plain = Masks(0, ALL), [ALL] * (SPAN + 1)
    done = []
    for _ in range(30):
        from_ns = chance.randrange(SPAN)
        until_ns = chance.choice((FOREVER, chance.randint(from_ns + 1, SPAN)))
        inside = range(from_ns, min(until_ns, SPAN + 1))
        cards = ALL & chance.randrange(ALL + 1)
        for at in inside:
            cards &= plain[at]
        if cards:
            masks.flip(from_ns, until_ns, cards, False)
            for at in inside:
                plain[at] &= ~cards
            done.append((from_ns, until_ns, cards))
        assert [masks.at(at) for at in range(SPAN + 1)] == plain
        assert all(one != other for one, other in pairwise(masks.masks))
        for at in range(SPAN):
            want = ALL
            for mask in plain[at:SPAN]:
                want &= mask
            assert masks.throughout(at, SPAN) == want
    chance.shuffle(done)
    for from_ns, until_ns, cards in done:
        masks.flip(from_ns, until_ns, cards, True)
    assert (masks.times, masks.masks) == ([0], [ALL])

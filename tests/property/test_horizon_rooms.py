"""Rooms over many nodes, against looking at each node at each ns, over any changes and undos."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ganger.streams.kernel.horizon.rooms import KINDS_MAX, Opening, Rooms, Spot
from ganger.streams.kernel.horizon.steps import FOREVER

MANY = settings(max_examples=120, deadline=None, derandomize=True)
SPAN = 16
NODES = 4
CARDS = 6
ALL = (1 << CARDS) - 1
ISLANDS = (0b000111, 0b111000)

Kind = tuple[int, bool]
"""Cards of a pod, and whether they must be of one island."""

Gang = list[tuple[Kind, int]]


class Fit:
    """Node 0 has no islands; node 1 takes no pods of a single card."""

    def table(self, kind: Kind, node: int) -> dict[int, int]:
        return {free: self.pods(kind, node, free) for free in range(ALL + 1)}

    def pods(self, kind: Kind, node: int, free: int) -> int:
        cards, is_near = kind
        if node == 1 and cards == 1:
            return 0
        parts = [free & island for island in ISLANDS] if is_near and node else [free]
        return sum(part.bit_count() // cards for part in parts)

    def choose(self, kind: Kind, node: int, free: int) -> int:
        cards, is_near = kind
        parts = [free & island for island in ISLANDS] if is_near and node else [free]
        part = next(part for part in parts if part.bit_count() >= cards)
        chosen = [card for card in range(CARDS) if part >> card & 1][:cards]
        return sum(1 << card for card in chosen)


class Plain:
    """Free cards of each node at each ns; the last for ever."""

    def __init__(self, free: Sequence[int]) -> None:
        self.origin = 0
        self.masks = [[mask] * (SPAN + 1) for mask in free]

    def window(self, node: int, from_ns: int, until_ns: int) -> int:
        mask = ALL
        for at in range(from_ns, min(until_ns, SPAN + 2)):
            mask &= self.masks[node][min(at, SPAN)]
        return mask

    def flip(self, node: int, from_ns: int, until_ns: int, mask: int) -> None:
        for at in range(max(from_ns, self.origin), SPAN + 1):
            if at < until_ns:
                self.masks[node][at] ^= mask

    def moments(self, not_before: int) -> list[int]:
        """It, and when any card comes free after it."""
        return [
            at
            for at in range(not_before, SPAN + 1)
            if at == not_before or any(row[at] & ~row[at - 1] for row in self.masks)
        ]

    def place(self, gang: Gang, from_ns: int, until_ns: int) -> tuple[Spot, ...] | None:
        fit = Fit()
        left = [self.window(node, from_ns, until_ns) for node in range(NODES)]
        spots = []
        for part, (kind, count) in enumerate(gang):
            for node in sorted(range(NODES), key=lambda node: (left[node].bit_count(), node)):
                masks = []
                while len(masks) < count and fit.pods(kind, node, left[node]):
                    masks.append(fit.choose(kind, node, left[node]))
                    left[node] &= ~masks[-1]
                if masks:
                    spots.append(Spot(part, node, tuple(masks)))
                    count -= len(masks)
            if count:
                return None
        return tuple(spots)

    def earliest(self, gang: Gang, duration: int, not_before: int, before: int) -> Opening | None:
        for start in self.moments(not_before):
            spots = self.place(gang, start, start + duration) if start < before else None
            if spots is not None:
                return Opening(start, spots)
        return None


def same(rooms: Rooms[Kind], plain: Plain) -> None:
    """Every mask, and every question of a few kinds, alike."""
    for node in range(NODES):
        for at in range(plain.origin, SPAN + 1):
            assert rooms.free(node, at, at + 1) == plain.window(node, at, at + 1)
    for gang in ([((1, False), 3)], [((2, True), 3)], [((3, False), 2), ((1, False), 2)]):
        for duration in (1, 5, FOREVER):
            want = plain.earliest(gang, duration, plain.origin, FOREVER)
            assert rooms.earliest(gang, duration, plain.origin) == want


def change(rooms: Rooms[Kind], plain: Plain, chance: random.Random) -> None:
    """Somebody takes cards that are free, or gives cards back that are held."""
    node = chance.randrange(NODES)
    from_ns = chance.randrange(SPAN)
    until_ns = chance.choice((FOREVER, min(SPAN, from_ns + chance.randint(0, 6))))
    free, held = ALL, ALL
    for at in range(max(from_ns, plain.origin), max(min(until_ns, SPAN + 1), plain.origin + 1)):
        free &= plain.masks[node][min(at, SPAN)]
        held &= ~plain.masks[node][min(at, SPAN)]
    is_free = bool(held) and chance.random() < 0.4
    mask = (held if is_free else free) & chance.randint(1, ALL)
    (rooms.give if is_free else rooms.take)(node, from_ns, until_ns, mask)
    plain.flip(node, from_ns, until_ns, mask)


@pytest.mark.parametrize("seed", range(16))
def test_the_profile_is_the_plain_one_after_any_changes_and_undos(seed: int) -> None:
    """Sums kept up to date from the beginning, undone in any nesting, while time goes on."""
    chance = random.Random(seed)
    free = [chance.choice((ALL, chance.randint(0, ALL))) for _ in range(NODES)]
    rooms, plain = Rooms(0, dict(enumerate(free)), Fit()), Plain(free)
    same(rooms, plain)
    marks: list[tuple[int, list[list[int]]]] = []
    for _ in range(60):
        roll = chance.random()
        if roll < 0.6:
            change(rooms, plain, chance)
        elif roll < 0.75:
            marks.append((rooms.mark(), [list(row) for row in plain.masks]))
        elif roll < 0.85 and marks:
            place = chance.randrange(len(marks))
            rooms.rollback(marks[place][0])
            plain.masks = marks[place][1]
            del marks[place:]
        elif roll < 0.9:
            rooms.settle()
            marks.clear()
        elif plain.origin < SPAN - 4:
            plain.origin += chance.randint(0, 2)
            rooms.trim(plain.origin)
        same(rooms, plain)


gangs = st.lists(
    st.tuples(st.tuples(st.integers(1, CARDS), st.booleans()), st.integers(1, 5)),
    min_size=1,
    max_size=3,
)


@MANY
@given(
    seed=st.integers(0, 1 << 32),
    gang=gangs,
    duration=st.integers(1, SPAN) | st.just(FOREVER),
    not_before=st.integers(0, SPAN),
    before=st.integers(1, SPAN) | st.just(FOREVER),
)
def test_earliest_is_the_first_moment_at_which_the_gang_is_placed(
    seed: int, gang: Gang, duration: int, not_before: int, before: int
) -> None:
    chance = random.Random(seed)
    free = [chance.randint(0, ALL) for _ in range(NODES)]
    rooms, plain = Rooms(0, dict(enumerate(free)), Fit()), Plain(free)
    for _ in range(chance.randrange(16)):
        change(rooms, plain, chance)
    want = plain.earliest(gang, duration, not_before, before)
    assert rooms.earliest(gang, duration, not_before, before) == want


def test_kinds_beyond_the_bound_are_made_again() -> None:
    class Counts(dict[int, int]):
        def __init__(self, cards: int) -> None:
            super().__init__()
            self.cards = cards

        def __missing__(self, free: int) -> int:
            return free.bit_count() // self.cards

    class Wide(Fit):
        def table(self, kind: Kind, node: int) -> dict[int, int]:
            return Counts(kind[0])

        def choose(self, kind: Kind, node: int, free: int) -> int:
            return (1 << kind[0]) - 1

    rooms = Rooms(0, {0: (1 << 300) - 1, 1: (1 << 120) - 1}, Wide())
    for cards in range(1, 2 * KINDS_MAX):
        assert rooms.earliest([((cards, False), 300 // cards)], 1, 0) is not None
    rooms.take(0, 2, 5, (1 << 200) - 1)
    for cards in (1, KINDS_MAX, 2 * KINDS_MAX - 1):
        opening = rooms.earliest([((cards, False), 300 // cards)], 4, 0)
        assert opening is not None and opening.start_ns == 5

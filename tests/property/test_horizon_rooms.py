"""Rooms over many nodes, against looking at each node at each ns, over any changes and undos."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ganger.streams.kernel.horizon.rooms import SIZES_MAX, Rooms
from ganger.streams.kernel.horizon.steps import FOREVER

MANY = settings(max_examples=80, deadline=None, derandomize=True)
SPAN = 16
NODES = 4

moments = st.integers(0, SPAN)
additions = st.tuples(
    st.integers(0, NODES - 1), moments, moments | st.just(FOREVER), st.integers(-5, 5)
)
free_cards = st.lists(st.integers(0, 8), min_size=NODES, max_size=NODES)


class Plain:
    """Free cards of each node at each ns; the last for ever."""

    def __init__(self, free: list[int]) -> None:
        self.origin = 0
        self.values = [[cards] * (SPAN + 1) for cards in free]

    def add(self, node: int, from_ns: int, until_ns: int, cards: int) -> None:
        for at in range(max(from_ns, self.origin), SPAN + 1):
            if at < until_ns:
                self.values[node][at] += cards

    def room(self, size: int, from_ns: int, until_ns: int) -> int:
        window = [min(at, SPAN) for at in range(from_ns, min(until_ns, SPAN + 2))]
        return sum(max(0, min(v[at] for at in window)) // size for v in self.values)

    def earliest(self, size: int, pods: int, duration: int, not_before: int) -> int | None:
        for start in range(not_before, SPAN + 1):
            if self.room(size, start, start + duration) >= pods:
                return start
        return None


def same(rooms: Rooms, plain: Plain, sizes: tuple[int, ...]) -> None:
    for size in sizes:
        for start in range(plain.origin, SPAN + 1, 3):
            for until in (start + 1, start + 4, FOREVER):
                assert rooms.room(size, start, until) == plain.room(size, start, until)


@MANY
@given(
    free=free_cards,
    changes=st.lists(st.one_of(additions, moments), max_size=12),
    sizes=st.lists(st.integers(1, 8), min_size=1, max_size=3),
    asks_first=st.booleans(),
)
def test_room_after_any_changes(
    free: list[int],
    changes: list[tuple[int, int, int, int] | int],
    sizes: list[int],
    asks_first: bool,
) -> None:
    rooms, plain = Rooms(0, dict(enumerate(free))), Plain(free)
    if asks_first:  # sums that are kept up to date, against sums that are made in the end
        same(rooms, plain, tuple(sizes))
    for change in changes:
        if isinstance(change, int):
            if change >= plain.origin:
                rooms.trim(change)
                plain.origin = change
        else:
            rooms.add(*change)
            plain.add(*change)
        if asks_first:
            same(rooms, plain, tuple(sizes[:1]))
    same(rooms, plain, tuple(sizes))


@MANY
@given(
    free=free_cards,
    changes=st.lists(additions, max_size=12),
    size=st.integers(1, 8),
    pods=st.integers(1, 9),
    duration=st.integers(1, SPAN) | st.just(FOREVER),
    not_before=moments,
)
def test_earliest_is_the_first_window_that_holds_the_gang(
    free: list[int],
    changes: list[tuple[int, int, int, int]],
    size: int,
    pods: int,
    duration: int,
    not_before: int,
) -> None:
    rooms, plain = Rooms(0, dict(enumerate(free))), Plain(free)
    for change in changes:
        rooms.add(*change)
        plain.add(*change)
    want = plain.earliest(size, pods, duration, not_before)
    assert rooms.earliest(size, pods, duration, not_before) == want


@MANY
@given(
    free=free_cards,
    first=st.lists(additions, max_size=6),
    tried=st.lists(st.lists(additions, max_size=4), max_size=3),
    size=st.integers(1, 4),
    now=moments,
)
def test_undo_leaves_nothing(
    free: list[int],
    first: list[tuple[int, int, int, int]],
    tried: list[list[tuple[int, int, int, int]]],
    size: int,
    now: int,
) -> None:
    rooms, plain = Rooms(0, dict(enumerate(free))), Plain(free)
    for change in first:
        rooms.add(*change)
        plain.add(*change)
    rooms.room(size, 0, 1)
    marks = []
    for group in tried:
        marks.append(rooms.mark())
        for change in group:
            rooms.add(*change)
    rooms.trim(now)
    plain.origin = now
    for mark in reversed(marks):
        rooms.rollback(mark)
    rooms.settle()
    same(rooms, plain, (size, 8))
    want = plain.earliest(size, 3, 4, now)
    assert rooms.earliest(size, 3, 4, now) == want


def test_sizes_beyond_the_bound_are_made_again() -> None:
    rooms, plain = Rooms(0, {0: 300, 1: 120}), Plain([300, 120])
    for size in range(1, 2 * SIZES_MAX):
        assert rooms.room(size, 0, 1) == plain.room(size, 0, 1)
    rooms.add(0, 2, 5, -200)
    plain.add(0, 2, 5, -200)
    for size in (1, SIZES_MAX, 2 * SIZES_MAX - 1):
        assert rooms.room(size, 0, 9) == plain.room(size, 0, 9)

"""Step functions against plain lists of one value per ns, over any additions, trims and undos."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ganger.streams.kernel.horizon.steps import FOREVER, Steps

MANY = settings(max_examples=120, deadline=None, derandomize=True)
SPAN = 24
"""The brute-force model knows the moments 0..SPAN-1, and that nothing changes from then on."""

moments = st.integers(0, SPAN)
additions = st.tuples(moments, moments | st.just(FOREVER), st.integers(-3, 3))


class Plain:
    """One value per ns from the origin to SPAN, the last for ever."""

    def __init__(self, origin: int, value: int) -> None:
        self.origin = origin
        self.values = [value] * (SPAN + 1)

    def add(self, from_ns: int, until_ns: int, delta: int) -> None:
        for at in range(max(from_ns, self.origin), SPAN + 1):
            if at < until_ns:
                self.values[at] += delta

    def least(self, from_ns: int, until_ns: int) -> int:
        return min(self.values[min(at, SPAN)] for at in range(from_ns, min(until_ns, SPAN + 2)))

    def earliest(self, need: int, duration: int, not_before: int, booked: int) -> int | None:
        for start in range(not_before, min(booked, SPAN + 1)):
            if self.least(start, min(start + duration, booked)) >= need:
                return start
        return None


def same(steps: Steps, plain: Plain) -> None:
    assert [steps.at(at) for at in range(plain.origin, SPAN + 1)] == plain.values[plain.origin :]
    assert steps.times == sorted(steps.times)
    assert steps.times[0] == plain.origin
    assert all(a != b for a, b in zip(steps.values, steps.values[1:], strict=False)), "canonical"


@MANY
@given(value=st.integers(-2, 6), changes=st.lists(st.one_of(additions, moments), max_size=14))
def test_any_additions_and_trims(value: int, changes: list[tuple[int, int, int] | int]) -> None:
    steps, plain = Steps(0, value), Plain(0, value)
    for change in changes:
        if isinstance(change, int):
            steps.trim(change)
            plain.origin = max(plain.origin, change)
        else:
            steps.add(*change)
            plain.add(*change)
        same(steps, plain)


@MANY
@given(
    origin=moments, value=st.integers(-2, 6), changes=st.dictionaries(moments, st.integers(-3, 3))
)
def test_made_of_changes_it_is_what_they_add_up_to(
    origin: int, value: int, changes: dict[int, int]
) -> None:
    want = Steps(origin, value)
    for at, delta in changes.items():
        want.add(at, FOREVER, delta)
    steps = Steps.changing(origin, value, changes)
    assert (steps.times, steps.values) == (want.times, want.values)


@MANY
@given(
    first=st.lists(additions, max_size=8),
    tried=st.lists(st.lists(additions, max_size=4), max_size=4),
    trims=st.lists(moments, max_size=4),
)
def test_undo_leaves_nothing(
    first: list[tuple[int, int, int]],
    tried: list[list[tuple[int, int, int]]],
    trims: list[int],
) -> None:
    steps = Steps(0, 5)
    for change in first:
        steps.add(*change)
    states, marks = [], []
    for group in tried:
        states.append((list(steps.times), list(steps.values)))
        marks.append(steps.mark())
        for change in group:
            steps.add(*change)
    for mark, state in zip(reversed(marks), reversed(states), strict=True):
        if trims:
            steps.trim(trims.pop())
        origin = steps.times[0]
        steps.rollback(mark)
        want = Steps(0, 0)
        want.times, want.values = state
        want.trim(origin)
        assert (steps.times, steps.values) == (want.times, want.values)
    steps.settle()


@MANY
@given(
    changes=st.lists(additions, max_size=10),
    need=st.integers(-1, 8),
    duration=st.integers(1, SPAN) | st.just(FOREVER),
    not_before=moments,
    booked=moments | st.just(FOREVER),
)
def test_earliest_is_the_first_that_holds(
    changes: list[tuple[int, int, int]], need: int, duration: int, not_before: int, booked: int
) -> None:
    steps, plain = Steps(0, 5), Plain(0, 5)
    for change in changes:
        steps.add(*change)
        plain.add(*change)
    want = plain.earliest(need, duration, not_before, booked)
    assert steps.earliest(need, duration, not_before, booked) == want


@MANY
@given(changes=st.lists(additions, max_size=10), start=moments, length=st.integers(1, SPAN))
def test_least_looks_at_every_moment(
    changes: list[tuple[int, int, int]], start: int, length: int
) -> None:
    steps, plain = Steps(0, 5), Plain(0, 5)
    for change in changes:
        steps.add(*change)
        plain.add(*change)
    assert steps.least(start, start + length) == plain.least(start, start + length)

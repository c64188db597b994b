"""Dividing by weight: sums, bounds, order, monotony, and equality with a program over fractions."""

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from ganger.streams.kernel.queues.shares import Claim, apportion, divide

amounts = st.integers(0, 50) | st.integers(0, 10**12)
claims = st.builds(Claim, st.integers(1, 9) | st.integers(1, 10**6), amounts, amounts)
lists = st.lists(claims, max_size=7)
MANY = settings(max_examples=400, deadline=None, derandomize=True)


def level_shares(total: int, group: list[Claim]) -> list[Fraction]:
    """The definition: raise a level until all is given; a claim gets weight x level in its bounds.

    Floors that alone exceed the total are scaled down instead.
    """
    floors = [min(claim.floor, claim.cap) for claim in group]
    caps = [claim.cap for claim in group]
    if sum(floors) >= total:
        return [Fraction(total * floor, sum(floors) or 1) for floor in floors]
    if sum(caps) <= total:
        return [Fraction(cap) for cap in caps]

    def given_at(level: Fraction) -> list[Fraction]:
        return [
            max(Fraction(floor), min(Fraction(claim.cap), claim.weight * level))
            for floor, claim in zip(floors, group, strict=True)
        ]

    turns = sorted(
        {
            Fraction(bound, c.weight)
            for f, c in zip(floors, group, strict=True)
            for bound in (f, c.cap)
        }
    )
    below = max((t for t in turns if sum(given_at(t)) <= total), default=Fraction(0))
    rising = [c.weight for f, c in zip(floors, group, strict=True) if f <= c.weight * below < c.cap]
    rest = total - sum(given_at(below))
    return given_at(below + (rest / sum(rising) if rising else 0))


@MANY
@given(total=amounts, group=lists)
def test_sum_and_bounds(total: int, group: list[Claim]) -> None:
    shares = divide(total, group)
    floors = [min(claim.floor, claim.cap) for claim in group]
    assert sum(shares) == min(total, sum(claim.cap for claim in group))
    assert all(0 <= share <= claim.cap for share, claim in zip(shares, group, strict=True))
    if sum(floors) <= total:
        assert all(share >= floor for share, floor in zip(shares, floors, strict=True))


@MANY
@given(total=amounts, group=lists)
def test_within_a_unit_of_the_exact_shares(total: int, group: list[Claim]) -> None:
    exact = level_shares(total, group)
    for share, want in zip(divide(total, group), exact, strict=True):
        assert abs(share - want) < 1, (share, want)


@MANY
@given(total=amounts, group=lists, order=st.randoms(use_true_random=False))
def test_order_moves_units_only(total: int, group: list[Claim], order: object) -> None:
    """Another order of claims may move the units that remain, between claims of equal fraction."""
    places = list(range(len(group)))
    order.shuffle(places)  # type: ignore[attr-defined]
    shares = divide(total, group)
    again = divide(total, [group[place] for place in places])
    for position, place in enumerate(places):
        assert abs(again[position] - shares[place]) <= 1
    assert sum(again) == sum(shares)


@MANY
@given(total=amounts, group=lists.filter(bool), more=st.integers(1, 100), data=st.data())
def test_who_asks_more_gets_no_less(
    total: int, group: list[Claim], more: int, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(group) - 1))
    claim = group[place]
    greedier = list(group)
    greedier[place] = Claim(claim.weight, claim.floor, claim.cap + more)
    assert divide(total, greedier)[place] >= divide(total, group)[place] - 1


@MANY
@given(total=amounts, group=lists, more=st.integers(0, 1000))
def test_more_to_give_takes_from_nobody(total: int, group: list[Claim], more: int) -> None:
    """But for the unit that largest remainders may move."""
    before, after = divide(total, group), divide(total + more, group)
    assert all(b >= a - 1 for a, b in zip(before, after, strict=True))


@MANY
@given(total=amounts, weights=st.lists(amounts, max_size=7))
def test_apportion_is_exact_to_a_unit(total: int, weights: list[int]) -> None:
    parts = apportion(total, weights)
    if not sum(weights):
        assert parts == [0] * len(weights)
        return
    assert sum(parts) == total
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part - Fraction(total * weight, sum(weights))) < 1

"""Division by weight against a slow program with fractions."""

from fractions import Fraction
from random import Random

import pytest

from ganger.streams.kernel.queues.shares import Claim, apportion, divide


def water_fill(total: int, claims: list[Claim]) -> list[Fraction]:
    """Weighted max-min with bounds: the level is found by trying every corner, exactly."""
    floors = [Fraction(min(c.floor, c.cap)) for c in claims]
    caps = [Fraction(c.cap) for c in claims]

    def at(level: Fraction) -> list[Fraction]:
        bounds = zip(claims, floors, caps, strict=True)
        return [max(low, min(high, level * c.weight)) for c, low, high in bounds]

    if sum(floors) >= total:
        whole = sum(floors)
        return [floor * total / whole if whole else Fraction(0) for floor in floors]
    if sum(caps) <= total:
        return caps
    corners = {
        bound / c.weight for c, *both in zip(claims, floors, caps, strict=True) for bound in both
    }
    low = max(corner for corner in corners | {Fraction(0)} if sum(at(corner)) <= total)
    inside = [i for i, c in enumerate(claims) if floors[i] <= low * c.weight < caps[i]]
    weight = sum(claims[i].weight for i in inside)
    level = low + (total - sum(at(low))) / weight if weight else low
    return at(level)


@pytest.mark.parametrize("seed", range(60))
def test_every_share_is_within_one_unit_of_the_exact_one(seed: int) -> None:
    random = Random(seed)
    for _ in range(40):
        claims = [
            Claim(
                random.randint(1, 9),
                random.choice((0, random.randint(0, 20))),
                random.randint(0, 40),
            )
            for _ in range(random.randint(1, 6))
        ]
        total = random.randint(0, 120)
        shares = divide(total, claims)
        exact = water_fill(total, claims)
        assert sum(shares) == min(total, sum(c.cap for c in claims)), (total, claims)
        for share, wanted, claim in zip(shares, exact, claims, strict=True):
            assert abs(share - wanted) < 1, (total, claims, shares, exact)
            assert 0 <= share <= claim.cap


@pytest.mark.parametrize(
    ("total", "claims", "shares"),
    [
        (10, [], []),
        (0, [Claim(1, 0, 9)], [0]),
        (10, [Claim(1, 0, 99), Claim(1, 0, 99), Claim(1, 0, 99)], [4, 3, 3]),
        (12, [Claim(3, 0, 99), Claim(1, 0, 99)], [9, 3]),
        (12, [Claim(3, 0, 4), Claim(1, 0, 99)], [4, 8]),
        (12, [Claim(1, 8, 99), Claim(1, 0, 99)], [8, 4]),
        (12, [Claim(1, 8, 99), Claim(1, 16, 99)], [4, 8]),
        (12, [Claim(1, 50, 2), Claim(1, 0, 99)], [2, 10]),
        (10, [Claim(3, 0, 99), Claim(1, 0, 1), Claim(1, 0, 99)], [7, 1, 2]),
    ],
)
def test_examples(total: int, claims: list[Claim], shares: list[int]) -> None:
    assert divide(total, claims) == shares


@pytest.mark.parametrize(
    ("total", "weights", "parts"),
    [
        (0, [1, 2], [0, 0]),
        (7, [0, 0], [0, 0]),
        (7, [1, 1, 1], [3, 2, 2]),
        (1, [1, 1], [1, 0]),
        (10, [1, 2, 0], [3, 7, 0]),
        (3, [5, 3, 1], [2, 1, 0]),
    ],
)
def test_the_largest_remainder_gets_the_rest_ties_to_the_first(
    total: int, weights: list[int], parts: list[int]
) -> None:
    assert apportion(total, weights) == parts


@pytest.mark.parametrize("seed", range(10))
def test_more_to_divide_is_less_for_nobody_by_more_than_a_unit(seed: int) -> None:
    random = Random(seed)
    claims = [
        Claim(random.randint(1, 5), random.randint(0, 5), random.randint(0, 30)) for _ in range(5)
    ]
    before = divide(0, claims)
    for total in range(1, 120):
        after = divide(total, claims)
        assert all(b - a <= 1 for b, a in zip(before, after, strict=True)), (total, claims)
        before = after

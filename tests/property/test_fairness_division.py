"""Dividing among queues: sums, bounds, order, monotony; equality with programs over fractions."""

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from ganger.streams.kernel.fairness.fair_share import Demand, divide_fair
from ganger.streams.kernel.fairness.proportion import Contender, deserved, divide_by_key
from ganger.streams.kernel.queues.shares import Claim

MANY = settings(max_examples=200, deadline=None, derandomize=True)
amounts = st.integers(0, 40) | st.integers(0, 10**12)
weights = st.integers(0, 9) | st.integers(1, 10**6)

# ---- by key -----------------------------------------------------------------------------------

claims = st.lists(st.builds(Claim, weights, amounts, amounts), max_size=6)


def keyed(group: list[Claim]) -> list[tuple[tuple[int | str, ...], Claim]]:
    return [((place,), claim) for place, claim in enumerate(group)]


def at_level(total: int, group: list[Claim]) -> list[Fraction]:
    """Raise a level until all is given; a claim gets weight x level within its bounds."""
    floors = [min(claim.floor, claim.cap) for claim in group]
    if sum(floors) >= total:
        return [Fraction(total * floor, sum(floors) or 1) for floor in floors]

    def given_at(level: Fraction) -> list[Fraction]:
        return [
            max(
                Fraction(floor),
                min(Fraction(claim.cap if claim.weight else floor), claim.weight * level),
            )
            for floor, claim in zip(floors, group, strict=True)
        ]

    turns = [
        Fraction(bound, claim.weight)
        for floor, claim in zip(floors, group, strict=True)
        if claim.weight
        for bound in (floor, claim.cap)
    ]
    low = max((t for t in turns if sum(given_at(t)) <= total), default=Fraction(0))
    rising = sum(
        claim.weight
        for floor, claim in zip(floors, group, strict=True)
        if floor <= claim.weight * low < claim.cap
    )
    return given_at(low + ((total - sum(given_at(low))) / rising if rising else 0))


@MANY
@given(total=amounts, group=claims)
def test_by_key_equals_the_level_to_a_unit(total: int, group: list[Claim]) -> None:
    shares = divide_by_key(total, keyed(group))
    exact = at_level(total, group)
    for share, want, claim in zip(shares, exact, group, strict=True):
        assert abs(share - want) < 1
        assert 0 <= share <= claim.cap
    assert sum(shares) == sum(exact)


@MANY
@given(total=amounts, group=claims)
def test_by_key_sums_to_the_lesser_of_total_and_demand(total: int, group: list[Claim]) -> None:
    caps = [claim.cap if claim.weight else min(claim.floor, claim.cap) for claim in group]
    assert sum(divide_by_key(total, keyed(group))) == min(total, sum(caps))


@MANY
@given(total=amounts, group=claims, order=st.randoms(use_true_random=False))
def test_by_key_order_cannot_be_seen(total: int, group: list[Claim], order: object) -> None:
    named = keyed(group)
    places = list(range(len(named)))
    order.shuffle(places)  # type: ignore[attr-defined]
    again = divide_by_key(total, [named[place] for place in places])
    shares = divide_by_key(total, named)
    assert again == [shares[place] for place in places]


@MANY
@given(total=amounts, group=claims.filter(bool), more=amounts, data=st.data())
def test_by_key_who_asks_more_gets_no_less(
    total: int, group: list[Claim], more: int, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(group) - 1))
    greedier = list(group)
    claim = group[place]
    greedier[place] = Claim(claim.weight, claim.floor, claim.cap + more)
    before = divide_by_key(total, keyed(group))
    assert divide_by_key(total, keyed(greedier))[place] >= before[place]


# ---- proportion -------------------------------------------------------------------------------

PLACES = (0, 1)
vectors = st.fixed_dictionaries({place: st.integers(0, 1000) for place in PLACES})
caps = st.dictionaries(st.sampled_from(PLACES), st.integers(0, 1000))


@st.composite
def contenders(draw: st.DrawFn) -> list[Contender]:
    count = draw(st.integers(1, 5))
    return [
        Contender(
            (f"q{place}",),
            draw(st.integers(1, 9)),
            draw(vectors),
            draw(st.dictionaries(st.sampled_from(PLACES), st.integers(0, 200))),
            draw(caps),
        )
        for place in range(count)
    ]


def sums(group: list[Contender]) -> dict[int, int]:
    return {place: sum(one.guarantee.get(place, 0) for one in group) for place in PLACES}


def as_volcano(total: int, place: int, group: list[Contender]) -> list[Fraction]:
    """The loop as it is described: hand out by weight, cut to bounds, take back, again."""
    guaranteed = sum(one.guarantee.get(place, 0) for one in group)
    shares = [Fraction(0)] * len(group)
    left = Fraction(total)
    unmet = list(range(len(group)))
    for _ in range(3000):
        weight = sum(group[i].weight for i in unmet)
        if not weight or not left:
            break
        before = shares[:]
        for i in list(unmet):
            one = group[i]
            floor = one.guarantee.get(place, 0)
            real = max(0, total - guaranteed) + floor
            real = min(real, one.capability.get(place, real))
            share = shares[i] + left * one.weight / weight
            share = max(min(share, real, one.request.get(place, 0)), floor)
            if share == shares[i] or one.request.get(place, 0) <= share:
                unmet.remove(i)
            shares[i] = Fraction(share).limit_denominator(10**9)
        left = max(Fraction(0), left - (sum(shares) - sum(before)))
    return shares


@MANY
@given(total=vectors, group=contenders())
def test_proportion_bounds_and_sum(total: dict[int, int], group: list[Contender]) -> None:
    guaranteed = sums(group)
    shares = deserved(total, group, guaranteed)
    for place, amount in total.items():
        tops = []
        for one, share in zip(group, shares, strict=True):
            floor = one.guarantee.get(place, 0)
            most = max(0, amount - guaranteed[place]) + floor
            most = min(most, one.capability.get(place, most))
            tops.append(max(floor, min(most, one.request[place])))
            assert share[place] <= tops[-1]
            if guaranteed[place] <= amount:
                assert share[place] >= floor
        assert sum(share[place] for share in shares) == min(amount, sum(tops))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(total=vectors, group=contenders())
def test_proportion_is_where_the_loop_ends(total: dict[int, int], group: list[Contender]) -> None:
    """For one resource at a time, guarantees that fit and capabilities above them."""
    for place, amount in total.items():
        if sum(one.guarantee.get(place, 0) for one in group) > amount:
            continue
        if any(one.guarantee.get(place, 0) for one in group):
            continue  # the loop counts a guarantee again in each round; ours does not
        want = as_volcano(amount, place, group)
        got = deserved({place: amount}, group, {})
        for share, exact in zip(got, want, strict=True):
            assert abs(share[place] - exact) < 2


@MANY
@given(total=vectors, group=contenders(), more=st.integers(0, 500), data=st.data())
def test_proportion_who_asks_more_gets_no_less(
    total: dict[int, int], group: list[Contender], more: int, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(group) - 1))
    one = group[place]
    request = {p: amount + more for p, amount in one.request.items()}
    greedier = list(group)
    greedier[place] = Contender(one.key, one.weight, request, one.guarantee, one.capability)
    before = deserved(total, group, sums(group))[place]
    after = deserved(total, greedier, sums(group))[place]
    assert all(after[p] >= before[p] for p in PLACES)


# ---- quota and weight -------------------------------------------------------------------------

limits = st.none() | st.integers(0, 60)


@st.composite
def demand_lists(draw: st.DrawFn) -> list[Demand]:
    count = draw(st.integers(1, 5))
    return [
        Demand(
            draw(limits),
            draw(limits),
            draw(st.integers(0, 5)),
            draw(st.integers(0, 60)),
            draw(st.integers(0, 1)),
            (draw(st.integers(0, 2)), place),
            draw(st.sampled_from((0, 100_000, 400_000))),
        )
        for place in range(count)
    ]


def as_described(
    total: int, demands: list[Demand], unit: int, penalty: Fraction
) -> tuple[list[Fraction], Fraction]:
    """Quota first; then by priority and weight in whole units; then unit by unit."""
    wanted = [Fraction(d.request if d.limit is None else min(d.request, d.limit)) for d in demands]
    shares = [
        w if d.quota is None else min(w, Fraction(d.quota))
        for w, d in zip(wanted, demands, strict=True)
    ]
    left = max(Fraction(0), total - sum(shares))
    for level in sorted({d.priority for d in demands}, reverse=True):
        while True:
            start, rest = left, {}
            while left:
                hungry = [
                    i
                    for i, d in enumerate(demands)
                    if d.priority == level and wanted[i] > shares[i] and d.weight
                ]
                whole = sum(demands[i].weight for i in hungry)
                parts = {}
                for i in hungry:
                    part = Fraction(demands[i].weight, whole)
                    used = Fraction(demands[i].used_micro, 10**6)
                    parts[i] = max(Fraction(0), part + penalty * (part - used))
                if not sum(parts.values()):
                    break
                pot, again = left, False
                for i, part in parts.items():
                    fair = pot * part / sum(parts.values())
                    if not part:
                        continue
                    if wanted[i] - shares[i] <= fair:
                        give = wanted[i] - shares[i]
                        again |= give < fair
                        rest.pop(i, None)
                    else:
                        give = fair // unit * unit
                        if fair > give:
                            rest[i] = fair - give
                    shares[i] += give
                    left -= give
                if not again:
                    break
            for i in sorted(rest, key=lambda i: (-rest[i], demands[i].key)):
                give = min(Fraction(unit), left, wanted[i] - shares[i])
                shares[i] += give
                left -= give
            if left == start or not left:
                break
    return shares, left


@MANY
@given(
    total=st.integers(0, 120), demands=demand_lists(), unit=st.integers(1, 10), k=st.integers(0, 2)
)
def test_fair_share_equals_the_program_with_fractions(
    total: int, demands: list[Demand], unit: int, k: int
) -> None:
    want, left = as_described(total, demands, unit, Fraction(k))
    assert divide_fair(total, demands, unit, k * 1000) == (want, left)


@MANY
@given(total=st.integers(0, 120), demands=demand_lists(), unit=st.integers(1, 10))
def test_fair_share_sum_and_bounds(total: int, demands: list[Demand], unit: int) -> None:
    shares, left = divide_fair(total, demands, unit)
    quotas = 0
    tops = 0
    for share, demand in zip(shares, demands, strict=True):
        quota = demand.wanted() if demand.quota is None else min(demand.quota, demand.wanted())
        assert quota <= share <= demand.wanted()
        quotas += quota
        tops += demand.wanted() if demand.weight else quota
    assert sum(shares) == max(quotas, min(total, tops))
    assert left == max(0, total - sum(shares))


@MANY
@given(
    total=st.integers(0, 120),
    demands=demand_lists(),
    unit=st.integers(1, 10),
    order=st.randoms(use_true_random=False),
)
def test_fair_share_order_cannot_be_seen(
    total: int, demands: list[Demand], unit: int, order: object
) -> None:
    places = list(range(len(demands)))
    order.shuffle(places)  # type: ignore[attr-defined]
    shares, left = divide_fair(total, demands, unit)
    again = divide_fair(total, [demands[place] for place in places], unit)
    assert again == ([shares[place] for place in places], left)


@MANY
@given(
    total=st.integers(0, 120),
    demands=demand_lists(),
    unit=st.integers(1, 10),
    more=st.integers(1, 40),
    data=st.data(),
)
def test_fair_share_who_asks_more_gets_no_less(
    total: int, demands: list[Demand], unit: int, more: int, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(demands) - 1))
    one = demands[place]
    greedier = list(demands)
    greedier[place] = Demand(
        one.quota, one.limit, one.weight, one.request + more, one.priority, one.key, one.used_micro
    )
    before = divide_fair(total, demands, unit)[0][place]
    assert divide_fair(total, greedier, unit)[0][place] >= before

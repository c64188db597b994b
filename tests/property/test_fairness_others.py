"""Dominant shares, capacity, reclaim, decay, budgets, scores: against programs over fractions."""

from fractions import Fraction
from math import ceil

from hypothesis import given, settings
from hypothesis import strategies as st

from ganger.streams.kernel.fairness import budgets, capacity, decay, dominant
from ganger.streams.kernel.fairness.reclaimable import (
    Branch,
    Claimer,
    Standing,
    is_allowed,
    may_start,
)
from ganger.streams.kernel.nodes import scores

MANY = settings(max_examples=200, deadline=None, derandomize=True)
PLACES = (0, 1)
amounts = st.fixed_dictionaries({place: st.integers(0, 50) for place in PLACES})
some = st.dictionaries(st.sampled_from(PLACES), st.integers(0, 50))

# ---- dominant ---------------------------------------------------------------------------------


@MANY
@given(allocated=some, total=amounts)
def test_dominant_share_is_the_greatest_part(
    allocated: dict[int, int], total: dict[int, int]
) -> None:
    parts = [
        Fraction(amount, total[place]) if total[place] else Fraction(1)
        for place, amount in allocated.items()
        if amount
    ]
    want = max(parts, default=Fraction(0))
    assert dominant.dominant_share(allocated, total) == want * dominant.ONE // 1


@MANY
@given(
    leaves=st.lists(st.tuples(st.integers(1, 5), amounts, amounts), min_size=1, max_size=4),
    total=amounts,
)
def test_a_flat_tree_orders_by_share_over_weight(
    leaves: list[tuple[int, dict[int, int], dict[int, int]]], total: dict[int, int]
) -> None:
    children = [
        dominant.Branch(weight, dict(allocated), {p: n + allocated[p] + 1 for p, n in more.items()})
        for weight, allocated, more in leaves
    ]
    root = dominant.Branch(children=children)
    dominant.settle(root, {p: n + 1000 for p, n in total.items()}, {})
    for child, (weight, allocated, _) in zip(children, leaves, strict=True):
        whole = {p: n + 1000 for p, n in total.items()}
        assert not child.is_saturated
        assert child.key() == (0, dominant.dominant_share(allocated, whole) // weight)


def test_a_branch_that_ran_ahead_does_not_count_against_its_parent() -> None:
    """Two leaves of one branch, one with all that it can use: the branch counts what it has."""
    total = {0: 10, 1: 10}
    ahead = dominant.Branch(1, {0: 5}, {0: 10})
    behind = dominant.Branch(1, {1: 1}, {1: 10})
    inner = dominant.Branch(1, children=[ahead, behind])
    other = dominant.Branch(1, {0: 2, 1: 2}, {0: 10, 1: 10})
    root = dominant.Branch(children=[inner, other])
    dominant.settle(root, total, {0: 7, 1: 3})
    assert inner.share == dominant.ONE // 10  # scaled down to the lesser of its leaves
    assert inner.key() < other.key()
    dominant.settle(root, total, {0: 10, 1: 3})  # nothing of the first is left: `ahead` is full
    assert ahead.is_saturated and inner.share == dominant.ONE // 2


# ---- capacity ---------------------------------------------------------------------------------


@MANY
@given(allocated=some, deserved=some)
def test_capacity_share(allocated: dict[int, int], deserved: dict[int, int]) -> None:
    parts = [Fraction(allocated.get(p, 0), due) for p, due in deserved.items() if due]
    assert Fraction(*capacity.share(allocated, deserved)) == max(parts, default=Fraction(1))


@MANY
@given(allocated=some, victim=amounts, request=amounts, deserved=some, guarantee=some)
def test_a_queue_within_its_due_loses_nothing_of_it(
    allocated: dict[int, int],
    victim: dict[int, int],
    request: dict[int, int],
    deserved: dict[int, int],
    guarantee: dict[int, int],
) -> None:
    if not capacity.may_lose(allocated, victim, request, deserved, guarantee):
        return
    shared = [p for p in PLACES if victim[p] and request[p]]
    assert shared
    assert all(allocated.get(p, 0) - victim[p] >= floor for p, floor in guarantee.items())
    spoken = [p for p in PLACES if victim[p] and deserved.get(p, 0)]
    assert not spoken or any(allocated.get(p, 0) > deserved[p] for p in spoken)


@MANY
@given(allocated=some, request=amounts, deserved=some, most=some)
def test_who_takes_back_stays_within_its_most(
    allocated: dict[int, int],
    request: dict[int, int],
    deserved: dict[int, int],
    most: dict[int, int],
) -> None:
    asked = [p for p in PLACES if request[p]]
    got = capacity.may_take(allocated, request, deserved, dict(most))
    within = all(allocated.get(p, 0) + request[p] <= most[p] for p in asked if p in most)
    due = any(allocated.get(p, 0) + request[p] <= deserved.get(p, 0) for p in asked)
    assert got is (not asked or (within and due))


# ---- reclaim ----------------------------------------------------------------------------------

NAMES = ("gpu", "cpu")
bounds = st.none() | st.integers(0, 8)
standings = st.fixed_dictionaries(
    {
        name: st.builds(Standing, bounds, bounds, st.integers(0, 8), st.integers(0, 4), bounds)
        for name in NAMES
    }
)


@st.composite
def cells(draw: st.DrawFn) -> dict[str, Branch]:
    """Two departments with two queues each, and a queue at the top."""
    places = (("d", ""), ("e", ""), ("x", ""), ("d1", "d"), ("d2", "d"), ("e1", "e"), ("e2", "e"))
    return {name: Branch(name, parent, draw(standings)) for name, parent in places}


LEAVES = ("x", "d1", "d2", "e1", "e2")
requested = st.fixed_dictionaries({name: st.integers(0, 3) for name in NAMES})


def path(branches: dict[str, Branch], name: str) -> list[str]:
    return [name, *path(branches, branches[name].parent)] if name else []


def may_keep(standing: Standing, endless: int) -> int:
    """The greater of quota and fair share."""
    bounds = (standing.quota, standing.fair_share)
    return max(endless if bound is None else bound for bound in bounds)


def judged(
    branches: dict[str, Branch], claimer: Claimer, victims: list[tuple[str, dict[str, int]]]
) -> bool:
    """The rules as they are told, with fractions."""
    left = {name: {r: s.allocated for r, s in b.standings.items()} for name, b in branches.items()}
    robbed: dict[str, list[str]] = {}
    mine = path(branches, claimer.queue)
    for queue, taken in victims:
        theirs = path(branches, queue)
        common = [name for name in mine if name in theirs]
        giving = [name for name in theirs if name not in common][-1:] or theirs[:1]
        taking = [name for name in mine if name not in common][-1:] or mine[:1]
        giver, taker = branches[giving[0]], branches[taking[0]]
        rest = left[giver.name]
        over_share = any(
            rest[r] > min(may_keep(s, 99), 99 if s.limit is None else s.limit)
            for r, s in giver.standings.items()
        )
        over_quota = any(
            s.quota is not None and rest[r] > s.quota for r, s in giver.standings.items()
        )
        in_quota = all(
            s.quota is None or s.allocated + claimer.request[r] <= s.quota
            for r, s in taker.standings.items()
        )
        if not (over_share or (over_quota and in_quota)):
            return False
        for name in theirs:
            for resource, amount in taken.items():
                left[name][resource] -= amount
                if amount:
                    robbed.setdefault(name, []).append(resource)
            robbed.setdefault(name, [])
    for name in mine:
        for other, resources in robbed.items():
            if branches[other].parent != branches[name].parent or other == name:
                continue
            for r in NAMES:
                own, sibling = branches[name].standings[r], branches[other].standings[r]
                if r not in resources and not claimer.request[r]:
                    continue
                if own.fair_share is None or sibling.fair_share == 0:
                    continue
                has = left[name][r] + claimer.request[r]
                if has <= own.fair_share:
                    continue
                if own.fair_share == 0 or sibling.fair_share is None:
                    return False
                saturation = Fraction(has, own.fair_share) * claimer.saturation_milli / 1000
                if saturation >= Fraction(left[other][r], sibling.fair_share):
                    return False
        if not claimer.is_evictable and not all(
            s.quota is None or s.allocated_firm + claimer.request[r] <= s.quota
            for r, s in branches[name].standings.items()
        ):
            return False
    return True


@MANY
@given(
    branches=cells(),
    claimer=st.builds(
        Claimer,
        st.sampled_from(LEAVES),
        requested,
        st.booleans(),
        st.sampled_from((1000, 1200, 2000)),
    ),
    victims=st.lists(st.tuples(st.sampled_from(LEAVES), requested), max_size=3),
)
def test_reclaim_equals_the_rules_as_told(
    branches: dict[str, Branch], claimer: Claimer, victims: list[tuple[str, dict[str, int]]]
) -> None:
    others = [victim for victim in victims if victim[0] != claimer.queue]
    assert is_allowed(branches, claimer, others) is judged(branches, claimer, others)


@MANY
@given(branch=st.builds(Branch, st.just("q"), st.just(""), standings), request=requested)
def test_the_gate_is_the_fair_share(branch: Branch, request: dict[str, int]) -> None:
    within = all(
        s.fair_share is None or s.allocated + request[r] <= s.fair_share
        for r, s in branch.standings.items()
    )
    firm = all(
        s.quota is None or s.allocated_firm + request[r] <= s.quota
        for r, s in branch.standings.items()
    )
    assert may_start(branch, Claimer("q", request, True)) is within
    assert may_start(branch, Claimer("q", request, False)) is (within and firm)


# ---- decay ------------------------------------------------------------------------------------

ages = st.integers(0, 10**18)
lives = st.integers(1, 10**17)


@MANY
@given(age=ages, life=lives, more=st.integers(0, 10**17))
def test_decay_falls_and_halves(age: int, life: int, more: int) -> None:
    assert decay.factor(age, life) >= decay.factor(age + more, life)
    assert abs(decay.factor(age + life, life) - decay.factor(age, life) // 2) <= 1
    assert decay.factor(0, life) == 1 << 32
    assert decay.factor(age, 0) == 1 << 32


@MANY
@given(age=st.integers(0, 10**6), life=st.integers(1000, 10**6))
def test_decay_is_close_to_the_power(age: int, life: int) -> None:
    """Steps are 1/64 of a half-life, so at most that much too high."""
    exact = 2.0 ** (-age / life)
    got = decay.factor(age, life) / 2**32
    assert exact * 0.999_999 - 1e-9 <= got <= exact * 2 ** (1 / 64) + 1e-9


@MANY
@given(
    hours=st.dictionaries(st.integers(0, 1000), st.integers(0, 10**15), max_size=5),
    order=st.randoms(use_true_random=False),
)
def test_decayed_use_does_not_depend_on_order(hours: dict[int, int], order: object) -> None:
    items = list(hours.items())
    order.shuffle(items)  # type: ignore[attr-defined]
    now = 1001 * decay.HOUR_NS
    life = 24 * decay.HOUR_NS
    total = decay.decayed(hours, now, life)
    assert total == decay.decayed(dict(items), now, life)
    assert 0 <= total <= sum(hours.values())
    assert decay.decayed(hours, now, 0) == sum(hours.values())


# ---- budgets ----------------------------------------------------------------------------------

parts = st.just(-1) | st.integers(0, 1000)
counts = st.just(-1) | st.integers(0, 12)


@MANY
@given(
    budget=st.builds(budgets.Budget, counts, parts, counts, parts),
    total=st.integers(0, 12),
    gone=st.integers(0, 12),
    otherwise=st.integers(0, 3),
)
def test_a_budget_is_never_passed(
    budget: budgets.Budget, total: int, gone: int, otherwise: int
) -> None:
    available = max(0, total - gone)
    left = available - budgets.allowed(budget, total, available, otherwise)
    assert 0 <= left <= available
    if budget.min_available_count >= 0:
        assert left >= min(available, budget.min_available_count)
    elif budget.min_available_milli >= 0:
        assert left >= min(available, ceil(Fraction(budget.min_available_milli * total, 1000)))
    elif budget.max_unavailable_count >= 0:
        assert left == available or total - left <= budget.max_unavailable_count
    elif budget.max_unavailable_milli >= 0:
        most = ceil(Fraction(budget.max_unavailable_milli * total, 1000))
        assert left == available or total - left <= most
    else:
        assert left == max(0, available - otherwise)


# ---- scores -----------------------------------------------------------------------------------

positive = st.fixed_dictionaries({place: st.integers(1, 50) for place in PLACES})


@MANY
@given(
    request=positive,
    used=amounts,
    capacity=positive,
    leans=st.dictionaries(
        st.sampled_from(PLACES),
        st.tuples(st.sampled_from(scores.Lean), st.integers(1, 9)),
        min_size=1,
    ),
)
def test_scores_are_weighted_means(
    request: dict[int, int],
    used: dict[int, int],
    capacity: dict[int, int],
    leans: dict[int, tuple[scores.Lean, int]],
) -> None:
    got = scores.by_resource(request, used, capacity, leans)
    want = Fraction(0)
    for place, (lean, weight) in leans.items():
        part = Fraction(used[place] + request[place], capacity[place])
        if part > 1:
            assert got == 0
            return
        want += weight * (part if lean is scores.Lean.MOST_ALLOCATED else 1 - part)
    want = want * scores.FULL / sum(weight for _, weight in leans.values())
    assert 0 <= got <= scores.FULL
    assert abs(got - want) < 2
    packed = scores.binpack(request, used, capacity, {p: w for p, (_, w) in leans.items()})
    spread = scores.by_resource(
        request,
        used,
        capacity,
        {p: (scores.Lean.LEAST_ALLOCATED, w) for p, (_, w) in leans.items()},
    )
    assert abs(packed + spread - scores.FULL) < 4

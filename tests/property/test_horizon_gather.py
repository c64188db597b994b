"""Gathering gangs over nodes, and several reservations over one pool, against trying everything."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ganger.streams.kernel.horizon.easy import Bound, Candidate, Gap, scan
from ganger.streams.kernel.horizon.ends import Ends
from ganger.streams.kernel.horizon.gather import Freed, Gang, Levels, Plan, fits, gather
from ganger.streams.kernel.horizon.outlook import Outlook
from ganger.streams.kernel.horizon.steps import FOREVER

MANY = settings(max_examples=150, deadline=None, derandomize=True)
NODES = 5

gangs = st.lists(st.tuples(st.integers(1, 8), st.integers(1, 5)), min_size=1, max_size=3).map(tuple)
free_cards = st.lists(st.integers(0, 8), min_size=NODES, max_size=NODES)
endings = st.lists(
    st.tuples(st.integers(1, 9), st.integers(0, NODES - 1), st.integers(1, 8)), max_size=10
)


def placed(gang: Gang, free: list[int]) -> dict[int, int] | None:
    """Cards held by node, pod after pod on the fullest node on which it fits, and stays there."""
    left = list(free)
    held: dict[int, int] = {}
    for cards, count in gang:
        last = -1
        for _ in range(count):
            if last < 0 or left[last] < cards:
                suited = [(room, node) for node, room in enumerate(left) if room >= cards]
                if not suited:
                    return None
                last = min(suited)[1]
            left[last] -= cards
            held[last] = held.get(last, 0) + cards
    return held


@MANY
@given(gang=gangs, free=free_cards, found=endings)
def test_a_gang_gathers_at_the_first_moment_at_which_it_is_placed(
    gang: Gang, free: list[int], found: list[tuple[int, int, int]]
) -> None:
    freed = sorted(Freed(*one) for one in found)
    want: Plan | None = None
    for at in sorted({0, *(one.at_ns for one in freed)}):
        then = list(free)
        for one in freed:
            if one.at_ns <= at:
                then[one.node] += one.cards
        held = placed(gang, then)
        if held is not None:
            spare = {n: then[n] - held.get(n, 0) for n in range(NODES)}
            back = {n: then[n] - free[n] for n in range(NODES) if then[n] > free[n]}
            want = Plan(at, held, spare, back)
            break
    levels = Levels(dict(enumerate(free)))
    plan = gather(gang, levels, freed, 0)
    assert levels.counts() == Levels(dict(enumerate(free))).counts(), "the nodes stay as they are"
    if want is None:
        assert plan is None
        return
    assert plan is not None
    assert (plan.start_ns, plan.held) == (want.start_ns, want.held)
    for node in range(NODES):
        assert plan.spare.get(node, free[node]) == want.spare[node]
        if node not in plan.spare:
            assert node not in plan.held


@MANY
@given(gang=gangs, free=free_cards)
def test_counts_of_nodes_tell_whether_a_gang_fits(gang: Gang, free: list[int]) -> None:
    assert fits(gang, Levels(dict(enumerate(free))).counts()) == (placed(gang, free) is not None)


@MANY
@given(changes=st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, 8)), max_size=20))
def test_levels_are_what_the_nodes_are(changes: list[tuple[int, int]]) -> None:
    levels, free = Levels(), {}
    for node, cards in changes:
        levels.set(node, cards)
        free[node] = cards
    assert levels.lists == Levels(free).lists
    assert all(nodes == sorted(nodes) and nodes for nodes in levels.lists.values())
    assert all(levels.free(node) == cards for node, cards in free.items())


# ---- several heads ----------------------------------------------------------------------------

releases = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 5)), max_size=10)
waiting_jobs = st.lists(
    st.tuples(st.integers(1, 6), st.integers(1, 20) | st.just(FOREVER)), max_size=10
)


def filled(found: list[tuple[int, int]]) -> Ends:
    ends = Ends()
    for number, (end, cards) in enumerate(found):
        ends.add(end, number, 0, cards)
    return ends


@MANY
@given(found=releases, waiting=waiting_jobs, free=st.integers(0, 6), beyond=st.integers(1, 9))
def test_one_head_is_easy(
    found: list[tuple[int, int]], waiting: list[tuple[int, int]], free: int, beyond: int
) -> None:
    now = 3
    ends = filled(found)
    free += ends.due(now)
    need = free + beyond
    reach = ends.reach(need, free, now)
    outlook = Outlook(ends, free, now)
    assert outlook.book(need, FOREVER) == (reach.at_ns if reach else None)
    gap = Gap(FOREVER, 0) if reach is None else Gap(reach.at_ns, reach.free - need)
    candidates = [Candidate((place,), *job) for place, job in enumerate(waiting)]
    want = scan(candidates, now, free, gap, Bound(need, FOREVER))
    assert [one for one in candidates if outlook.take(one.cards, one.estimate_ns)] == want


@MANY
@given(
    found=releases,
    heads=waiting_jobs,
    waiting=waiting_jobs,
    free=st.integers(0, 8),
)
def test_no_start_moves_a_head_that_was_booked_before(
    found: list[tuple[int, int]],
    heads: list[tuple[int, int]],
    waiting: list[tuple[int, int]],
    free: int,
) -> None:
    ends = filled(found)
    free += ends.due(0)
    outlook = Outlook(ends, free, 0)
    booked = [(head, outlook.book(*head)) for head in heads]
    started = [job for job in waiting if outlook.take(*job)]
    again = Outlook(ends, free, 0)
    for job in started:
        assert again.take(*job), "more was started than there is room for"
    for head, start in booked:
        assert again.book(*head) == start
    assert all(value >= 0 for value in outlook.free.values)

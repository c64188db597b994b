"""Quota trees: what is free, who must leave, which flavors; against slow independent programs."""

from collections.abc import Mapping
from fractions import Fraction
from math import ceil

from hypothesis import given, settings
from hypothesis import strategies as st

from ganger.streams.kernel.fairness import cohort_victims, fair_victims, flavors
from ganger.streams.kernel.fairness.cohort import (
    Amounts,
    Cohort,
    Key,
    Quota,
    attach,
    available,
    borrow_level,
    fits,
    local_quota,
    potential,
    queues_below,
    seal,
    unuse,
    use,
)
from ganger.streams.kernel.fairness.cohort_rules import Holder, Rule, Rules, Taker, Why
from ganger.streams.kernel.fairness.cohort_share import Share, compare, share_of
from ganger.streams.kernel.fairness.cohort_victims import Targets
from ganger.streams.kernel.fairness.tournament import Head, winner

MANY = settings(max_examples=100, deadline=None, derandomize=True)
KEYS: tuple[Key, ...] = (("a", "cards"), ("b", "cards"), ("a", "cpu"))
small = st.integers(0, 6)
limit = st.none() | small
quotas = st.dictionaries(st.sampled_from(KEYS), st.builds(Quota, small, limit, limit))


@st.composite
def trees(draw: st.DrawFn) -> Cohort:
    """A root with cohorts and queues below, two to three levels, and usage of the queues."""
    root = Cohort("root", quotas=draw(quotas))
    cohorts = [root]
    for name in ("left", "right")[: draw(st.integers(0, 2))]:
        node = Cohort(name, quotas=draw(quotas), weight_milli=draw(st.sampled_from((0, 500, 1000))))
        attach(node, draw(st.sampled_from(cohorts)))
        cohorts.append(node)
    for name in ("p", "q", "r", "s")[: draw(st.integers(1, 4))]:
        queue = Cohort(
            name,
            quotas=draw(quotas),
            weight_milli=draw(st.sampled_from((0, 1000, 2000))),
            is_queue=True,
            usage=draw(st.dictionaries(st.sampled_from(KEYS), small)),
        )
        attach(queue, draw(st.sampled_from(cohorts)))
    seal(root)
    return root


def everything(node: Cohort) -> list[tuple[str, Amounts]]:
    """Usage of every node, zeros left out."""
    found = [(node.name, {key: n for key, n in sorted(node.usage.items()) if n})]
    for child in node.children:
        found += everything(child)
    return found


def may_use(queue: Cohort, key: Key, more: int) -> bool:
    """By definition: with so much more, sums made anew, no limit up the tree is passed."""
    root = queue.root()
    queue.usage[key] = queue.usage.get(key, 0) + more
    seal(root)
    node = queue
    holds = True
    while node.parent is not None:
        quota = node.quotas.get(key)
        local = local_quota(node, key)
        beyond = max(0, node.usage.get(key, 0) - local)
        if quota is not None and quota.borrowing_limit is not None and beyond:
            holds = holds and beyond <= node.subtree.get(key, 0) - local + quota.borrowing_limit
        if not beyond:
            break
        node = node.parent
    else:
        holds = holds and node.usage.get(key, 0) <= node.subtree.get(key, 0)
    queue.usage[key] -= more
    seal(root)
    return holds


@MANY
@given(root=trees(), data=st.data())
def test_available_by_definition(root: Cohort, data: st.DataObject) -> None:
    queue = data.draw(st.sampled_from(list(queues_below(root))))
    for key in KEYS:
        free = available(queue, key)
        assert may_use(queue, key, free) or free <= 0
        if free >= 0:
            assert not may_use(queue, key, free + 1)


@MANY
@given(root=trees(), data=st.data())
def test_potential_is_what_an_empty_tree_has(root: Cohort, data: st.DataObject) -> None:
    queue = data.draw(st.sampled_from(list(queues_below(root))))
    most = {key: potential(queue, key) for key in KEYS}
    for other in queues_below(root):
        other.usage = {}
    seal(root)
    assert most == {key: available(queue, key) for key in KEYS}


changes = st.lists(
    st.tuples(st.integers(0, 3), st.dictionaries(st.sampled_from(KEYS), small)), max_size=6
)


@MANY
@given(root=trees(), steps=changes)
def test_use_equals_sums_made_anew_and_can_be_undone(
    root: Cohort, steps: list[tuple[int, Amounts]]
) -> None:
    before = everything(root)
    queues = list(queues_below(root))
    for place, amounts in steps:
        use(queues[place % len(queues)], amounts)
    after = everything(root)
    seal(root)
    assert everything(root) == after
    for place, amounts in reversed(steps):
        unuse(queues[place % len(queues)], amounts)
    assert everything(root) == before


@MANY
@given(root=trees(), amount=small, data=st.data())
def test_borrow_level_is_0_within_own_quota(root: Cohort, amount: int, data: st.DataObject) -> None:
    queue = data.draw(st.sampled_from(list(queues_below(root))))
    for key in KEYS:
        level, _ = borrow_level(queue, key, amount)
        within = queue.usage.get(key, 0) + amount <= queue.subtree.get(key, 0)
        assert (level == 0) is within


# ---- shares -----------------------------------------------------------------------------------


def exact(node: Cohort) -> tuple[int, Fraction]:
    """(1, ratio) for an infinite share, else (0, ratio / weight)."""
    assert node.parent is not None
    best = Fraction(0)
    borrows = False
    for resource in ("cards", "cpu"):
        over = sum(
            max(0, node.usage.get(key, 0) - node.subtree.get(key, 0))
            for key in KEYS
            if key[1] == resource
        )
        lendable = sum(potential(node.parent, key) for key in KEYS if key[1] == resource)
        borrows |= over > 0
        if over > 0 and lendable > 0:
            best = max(best, Fraction(over, lendable))
    if borrows and not node.weight_milli:
        return 1, best
    return 0, best * 1000 / node.weight_milli if best else Fraction(0)


@MANY
@given(root=trees())
def test_shares_compare_like_fractions(root: Cohort) -> None:
    nodes = [node for node in (*queues_below(root), *root.children) if node.parent is not None]
    for node in nodes:
        share = share_of(node)
        infinite, value = exact(node)
        assert share.permille() == (None if infinite else ceil(value * 1000))
        for other in nodes:
            left, right = exact(node), exact(other)
            assert compare(share, share_of(other)) == (left > right) - (left < right)


def test_a_share_of_nothing_is_nothing() -> None:
    assert Share().permille() == 0
    assert compare(Share(weight_milli=0), Share()) == 0


@MANY
@given(root=trees(), data=st.data())
def test_the_winner_has_the_least_share_below_every_cohort(
    root: Cohort, data: st.DataObject
) -> None:
    heads = {
        queue.name: Head(
            queue,
            data.draw(st.dictionaries(st.sampled_from(KEYS), small)),
            data.draw(small),
            data.draw(small),
            order,
        )
        for order, queue in enumerate(queues_below(root))
        if data.draw(st.booleans())
    }
    before = everything(root)
    best = winner(root, heads)
    assert everything(root) == before
    assert (best is None) is (not heads)
    node = best.queue if best is not None else root
    while best is not None and node.parent is not None:
        use(best.queue, best.request)
        share = share_of(node)
        unuse(best.queue, best.request)
        for other in node.parent.children:
            rival = winner(other, heads)
            if rival is None or other is node:
                continue
            use(rival.queue, rival.request)
            assert compare(share, share_of(other)) <= 0
            unuse(rival.queue, rival.request)
        node = node.parent


# ---- who must leave ---------------------------------------------------------------------------

rule = st.sampled_from(Rule)


@st.composite
def askers(draw: st.DrawFn) -> tuple[Taker, dict[str, list[Holder]]]:
    """A tree with holders whose usage it is, and a job that asks for more."""
    root = draw(trees())
    queues = list(queues_below(root))
    held: dict[str, list[Holder]] = {}
    for queue in queues:
        queue.usage = {}
    for order in range(draw(st.integers(0, 6))):
        queue = draw(st.sampled_from(queues))
        usage = draw(st.dictionaries(st.sampled_from(KEYS), st.integers(1, 4), min_size=1))
        held.setdefault(queue.name, []).append(
            Holder(f"h{order}", queue, usage, draw(small), draw(small), draw(small), order)
        )
        for key, amount in usage.items():
            queue.usage[key] = queue.usage.get(key, 0) + amount
    seal(root)
    request = draw(st.dictionaries(st.sampled_from(KEYS), st.integers(1, 5), min_size=1))
    queue = draw(st.sampled_from(queues))
    contested = tuple(key for key in sorted(request) if request[key] > available(queue, key))
    rules = Rules(draw(rule), draw(rule), draw(st.booleans()), draw(limit))
    return Taker(queue, request, contested, draw(small), draw(small), rules), held


def judge(taker: Taker, targets: Targets) -> None:
    """What every answer owes: the job fits without the targets, and not without the last."""
    for holder, _ in targets:
        unuse(holder.queue, holder.usage)
    assert fits(taker.queue, taker.request, borrows=True)
    for holder, why in targets:
        rule = taker.rules.within_queue if why is Why.SAME_QUEUE else taker.rules.reclaim
        assert (why is Why.SAME_QUEUE) is (holder.queue is taker.queue)
        assert rule is not Rule.NEVER
        if rule is Rule.LOWER_PRIORITY:
            assert holder.priority < taker.priority
        assert any(key in taker.contested for key in holder.usage)


def needless(taker: Taker, targets: Targets, borrows: bool) -> list[str]:
    """Targets but the last that could stay, all others gone."""
    found = []
    for holder, _ in targets[:-1]:
        use(holder.queue, holder.usage)
        if fits(taker.queue, taker.request, borrows):
            found.append(holder.name)
        unuse(holder.queue, holder.usage)
    return found


@MANY
@given(asker=askers())
def test_classical_victims_suffice_and_none_is_needless(
    asker: tuple[Taker, dict[str, list[Holder]]],
) -> None:
    taker, held = asker
    if not taker.contested:
        return
    root = taker.queue.root()
    before = everything(root)
    targets = cohort_victims.find(taker, held)
    assert everything(root) == before
    if targets:
        judge(taker, targets)
        borrows = not fits(taker.queue, taker.request, borrows=False)
        assert not (borrows and needless(taker, targets, borrows=True))


@MANY
@given(asker=askers())
def test_nobody_takes_back_at_once_what_was_taken_classically(
    asker: tuple[Taker, dict[str, list[Holder]]],
) -> None:
    """With the same rules everywhere, and unless the whole tree holds less than it uses."""
    taker, held = asker
    targets = cohort_victims.find(taker, held) if taker.contested else []
    if not targets or taker.rules.within_queue is Rule.ANY:
        return
    for holder, _ in targets:
        unuse(holder.queue, holder.usage)
        held[holder.queue.name].remove(holder)
    use(taker.queue, taker.request)
    winner = Holder("taker", taker.queue, taker.request, taker.priority, taker.queued_at, 99, 99)
    held.setdefault(taker.queue.name, []).append(winner)
    for holder, _ in targets:
        keys = tuple(k for k, n in holder.usage.items() if n > available(holder.queue, k))
        back = Taker(
            holder.queue, holder.usage, keys, holder.priority, holder.queued_at, taker.rules
        )
        again = cohort_victims.find(back, held) if keys else []
        assert winner not in [one for one, _ in again]


@MANY
@given(asker=askers(), second=st.booleans())
def test_fair_victims_suffice_and_are_fair_in_the_end(
    asker: tuple[Taker, dict[str, list[Holder]]], second: bool
) -> None:
    taker, held = asker
    if not taker.contested:
        return
    strategies = fair_victims.DEFAULT if second else (fair_victims.Strategy.INITIAL,)
    root = taker.queue.root()
    before = everything(root)
    targets = fair_victims.find(taker, held, strategies)
    assert everything(root) == before
    if targets:
        judge(taker, targets)
        assert not needless(taker, targets, borrows=True)


# ---- flavors ----------------------------------------------------------------------------------

GROUPS = (
    flavors.FlavorGroup(("cards",), ("a", "b")),
    flavors.FlavorGroup(("cpu",), ("a",)),
)
requests = st.dictionaries(st.sampled_from(("cards", "cpu")), st.integers(1, 6), min_size=1)
bears = st.sampled_from((("a", "b"), ("a",), ("b",), ()))


def no_oracle(key: Key, amount: int) -> flavors.Grade:
    return flavors.Grade(flavors.Mode.NO_CANDIDATES, 0)


@MANY
@given(
    root=trees(),
    sets=st.lists(st.tuples(requests, bears), min_size=1, max_size=3),
    search=st.builds(flavors.Search, st.booleans(), st.booleans(), st.booleans()),
    data=st.data(),
)
def test_flavors_that_fit_really_do(
    root: Cohort,
    sets: list[tuple[dict[str, int], tuple[str, ...]]],
    search: flavors.Search,
    data: st.DataObject,
) -> None:
    queue = data.draw(st.sampled_from(list(queues_below(root))))
    asker = flavors.Asker(queue, GROUPS, no_oracle, search)
    pods = [flavors.PodSet(f"g{i}", 1, asked, borne) for i, (asked, borne) in enumerate(sets)]
    got = flavors.assign(asker, pods)
    for one, chosen in zip(pods, got.chosen, strict=False):
        assert all(choice.flavor in one.bears for choice in chosen.values())
    if got.mode is flavors.Mode.FIT:
        assert fits(queue, got.usage, borrows=True)
        assert _sums(pods, got) == dict(got.usage)
    if got.mode is flavors.Mode.NO_FIT:
        assert got.lack is not flavors.Lack.NONE


def _sums(pods: list[flavors.PodSet], got: flavors.Assignment) -> Mapping[Key, int]:
    sums: dict[Key, int] = {}
    for one, chosen in zip(pods, got.chosen, strict=True):
        for resource, choice in chosen.items():
            key = (choice.flavor, resource)
            sums[key] = sums.get(key, 0) + one.requests[resource]
    return sums


@MANY
@given(
    sizes=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=3),
    room=st.integers(0, 40),
)
def test_shrink_finds_the_largest_common_step_that_fits(
    sizes: list[tuple[int, int]], room: int
) -> None:
    counts = [least + more for least, more in sizes]
    least = [few for few, _ in sizes]
    got = flavors.shrink(counts, least, lambda tried: sum(tried) <= room)
    steps = sum(more for _, more in sizes)
    tried = [
        [count - more * step // steps for count, (_, more) in zip(counts, sizes, strict=True)]
        for step in range(steps + 1)
        if steps
    ]
    assert got == next((one for one in tried if sum(one) <= room), None)

"""Units that cannot be divided evenly: who gets them is said by names, not by any order."""

from itertools import permutations

import pytest

from ganger.streams.kernel.fairness.fair_share import Demand, divide_fair
from ganger.streams.kernel.fairness.proportion import Contender, deserved
from ganger.streams.kernel.queues import quota
from support.builders import Cell, node, queue, role


@pytest.mark.parametrize("total", range(8))
def test_by_quota_and_weight_the_least_names_get_what_is_left(total: int) -> None:
    demands = [Demand(0, None, 1, 3, key=(name,)) for name in "abc"]
    want = {name: total // 3 + (place < total % 3) for place, name in enumerate("abc")}
    for order in permutations(demands):
        shares, left = divide_fair(total, order)
        assert left == 0
        assert {str(one.key[0]): share for one, share in zip(order, shares, strict=True)} == want


@pytest.mark.parametrize("names", list(permutations("abc")))
def test_what_queues_deserve_does_not_depend_on_which_was_made_first(
    names: tuple[str, ...],
) -> None:
    cell = Cell().start(*[queue(name) for name in names], node("n", 8))
    for name in "abc":
        cell.submit(name, role(replicas=8, minimum=1, cards=1), queue=name)
    cell.tick()
    due = quota.deserved(cell.state)
    by_name = {name: due[cell.state.queue_by_name[name]][0] for name in names}
    assert sum(by_name.values()) == 8000
    assert by_name == {"a": 2667, "b": 2667, "c": 2666}


def test_guarantees_of_queues_that_ask_for_nothing_are_kept_for_them() -> None:
    contenders = [Contender((name,), 1, {0: 10}) for name in "ab"]
    assert deserved({0: 10}, contenders, {0: 6}) == [{0: 4}, {0: 4}]

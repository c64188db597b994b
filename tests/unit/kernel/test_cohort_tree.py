"""The queue tree as quota rules see it."""

from ganger.schemas import records as r
from ganger.schemas.enums import SelectorOperator, TaintEffect, TolerationOperator
from ganger.streams.kernel.fairness.cohort import available
from ganger.streams.kernel.queues.cohort_tree import borne, groups_of, grow
from support.builders import request, role
from support.quotas import CARDS, flavor, leaf, quota_cell

KEY = ("f", CARDS)


def pods(**asks: object) -> r.PodRequest:
    return request(1, **asks)  # type: ignore[arg-type]


def selects(key: str, value: str) -> r.Selector:
    return r.Selector(key, SelectorOperator.IN, (value,))


def test_a_tree_has_the_quotas_and_what_is_held() -> None:
    cell = quota_cell(
        leaf("all", {"f": 1}),
        leaf("a", {"f": (2, -1, 1)}, parent="all"),
        leaf("b", {"f": (1, 3)}, parent="all"),
    )
    cell.submit("j", role(cards=2), queue="b")
    cell.tick()
    nodes = grow(cell.state, cell.state.queues[0])
    top, a, b = (nodes[cell.state.queue_by_name[name]] for name in ("all", "a", "b"))
    assert (a.is_queue, b.is_queue, top.is_queue) == (True, True, False)
    assert top.subtree[KEY] == 3000  # its own, what a lends, all of b
    assert b.usage == {KEY: 2000}
    assert available(a, KEY) == 2000  # one of its own, one of what is left
    assert available(b, KEY) == 1000


def test_selectors_count_whose_key_is_a_label_of_a_flavor_of_the_group() -> None:
    flavors = {
        one.flavor: one
        for one in (flavor("x", {"zone": "1"}), flavor("y", {"zone": "2"}), flavor("z"))
    }
    groups = groups_of(leaf("q", {"x": 1, "y": 1, "z": 1}))
    assert borne(flavors, groups, pods()) == ("x", "y", "z")
    assert borne(flavors, groups, pods(selectors=[selects("zone", "2")])) == ("y",)
    assert borne(flavors, groups, pods(selectors=[selects("disk", "ssd")])) == ("x", "y", "z")


def test_taints_that_only_advise_exclude_nobody() -> None:
    hard = r.Taint("spot", "yes", TaintEffect.NO_EXECUTE)
    soft = r.Taint("spot", "yes", TaintEffect.PREFER_NO_SCHEDULE)
    flavors = {one.flavor: one for one in (flavor("h", taints=[hard]), flavor("s", taints=[soft]))}
    groups = groups_of(leaf("q", {"h": 1, "s": 1}))
    assert borne(flavors, groups, pods()) == ("s",)
    bears = r.Toleration("spot", TolerationOperator.EXISTS, "", TaintEffect.UNKNOWN)
    assert borne(flavors, groups, pods(tolerations=[bears])) == ("h", "s")

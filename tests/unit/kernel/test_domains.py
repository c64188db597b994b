"""Domains of nodes by their paths, and nodes in order of how well they suit."""

import pytest

from ganger.streams.kernel.nodes.domains import CELL, around, common, distance, tree_of
from ganger.streams.kernel.nodes.ranking import Ranking

PATHS = (("s1", "a"), ("s1", "b"), ("s2", "c"), ("s1", "a"), ("s2",), ())


def test_a_tree_holds_each_node_in_all_its_domains() -> None:
    tree = tree_of(PATHS)
    held = {domain.path: (domain.tier, domain.nodes, domain.own) for domain in tree.order}
    assert held == {
        ("s1", "a"): (1, [0, 3], [0, 3]),
        ("s1", "b"): (1, [1], [1]),
        ("s2", "c"): (1, [2], [2]),
        ("s1",): (2, [0, 1, 3], []),
        ("s2",): (2, [2, 4], [4]),
        (): (3, [0, 1, 2, 3, 4, 5], [5]),
    }
    assert [domain.path for domain in tree.cell.inner] == [("s1",), ("s2",)]
    assert [domain.path for domain in tree.order][:3] == [("s1", "a"), ("s1", "b"), ("s2", "c")]


def test_a_cell_without_paths_is_no_domain_of_tier_one() -> None:
    tree = tree_of(((), ()))
    assert [(domain.path, domain.tier) for domain in tree.order] == [(CELL, 2)]


@pytest.mark.parametrize(
    ("path", "tier", "domain"),
    [
        (("s", "r"), 1, ("s", "r")),
        (("s", "r"), 2, ("s",)),
        (("s", "r"), 3, ()),
        (("s", "r"), 9, ()),
        ((), 1, ()),
    ],
)
def test_domain_of_a_tier(path: tuple[str, ...], tier: int, domain: tuple[str, ...]) -> None:
    assert around(path, tier) == domain


def test_what_paths_have_in_common() -> None:
    assert common([("s", "a"), ("s", "b", "x"), ("s",)]) == ("s",)
    assert common([("s", "a")]) == ("s", "a")
    assert common([("s", "a"), ("t", "a")]) == ()
    assert distance(("s", "a"), ("s", "a")) == 1
    assert distance(("s", "a"), ("s", "b")) == 2
    assert distance(("s", "a"), ("t",)) == 3


def test_a_ranking_follows_changes() -> None:
    ranking = Ranking()
    ranking.fill([(5, 0), (3, 1), (4, 2)])
    assert ranking.first(None) == 1
    ranking.put(1, (9, 1))
    assert ranking.first(None) == 2
    ranking.put(2, None)
    assert ranking.first(None) == 0
    assert ranking.first(lambda node: node == 1) == 1
    assert ranking.first(None) == 0, "those passed over stand where they stood"
    ranking.put(0, None)
    ranking.put(1, None)
    assert ranking.first(None) == -1
    ranking.put(2, (4, 2))
    assert ranking.first(None) == 2

"""Shapes are one object per content, also after their last job has left."""

import pytest

from ganger.streams.kernel import resources
from ganger.streams.kernel.resources import ResourceTable, ShapeTable
from support.builders import role

ONE = (role(cards=1),)
TWO = (role(cards=1, replicas=2),)  # its pods ask the same
WIDE = (role(cards=4),)


def test_a_shape_that_comes_again_is_the_same() -> None:
    table = ShapeTable(ResourceTable())
    shape = table.take(ONE, 0)
    assert table.take(ONE, 0) is shape
    table.drop(shape)
    table.drop(shape)
    assert (table.jobs, table.pods) == ({}, {})
    assert table.knows(ONE, 0)
    assert not table.knows(WIDE, 0)
    assert table.take(ONE, 0) is shape
    assert shape.users == 1
    assert table.pods == {ONE[0].request: shape.shapes[0]}
    assert shape.shapes[0].users == 1


def test_it_is_made_anew_where_its_pods_have_another_shape_by_now() -> None:
    table = ShapeTable(ResourceTable())
    former = table.take(ONE, 0)
    table.drop(former)
    other = table.take(TWO, 0)
    again = table.take(ONE, 0)
    assert again is not former
    assert again.shapes[0] is other.shapes[0] is table.pods[ONE[0].request]
    assert again.shapes[0].users == 2


def test_no_more_than_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "FORMER_MAX", 3)
    table = ShapeTable(ResourceTable())
    asks = [(role(cards=cards),) for cards in range(1, 10)]
    for roles in asks:
        table.drop(table.take(roles, 0))
    assert sum(table.knows(roles, 0) for roles in asks) <= 3
    assert table.knows(asks[-1], 0)

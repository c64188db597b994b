"""Quota admission: why a job gets no quota, with numbers."""

import pytest

from ganger.schemas.reasons import Reason
from ganger.streams.kernel.digest import seal
from ganger.streams.kernel.queues.admission import lacks
from ganger.streams.kernel.refusals import Refusal
from support.builders import Cell, role
from support.quotas import leaf, quota_cell


def why(cell: Cell, job: str) -> Refusal | None:
    before = seal(cell.state)
    found = lacks(cell.state, cell.state.jobs[cell.state.job_by_key[job]])
    assert seal(cell.state) == before
    return found


@pytest.fixture
def cell() -> Cell:
    made = quota_cell(
        leaf("all", {}),
        leaf("alone", {"f": (4, 0)}, parent="all"),
        leaf("lends", {"f": 4}, parent="all"),
        leaf("borrows", {"f": (1, 2)}, parent="all"),
        cards=4,
        nodes=3,
    )
    made.submit("runs", role(cards=3), queue="alone")
    made.tick()
    return made


def test_within_the_own_quota_its_rest_is_told(cell: Cell) -> None:
    cell.submit("j", role(cards=2), queue="alone")
    cell.tick()
    found = why(cell, "j")
    assert found is not None
    assert (found.reason, found.asked, found.free, found.limit) == (
        Reason.QUOTA_NOMINAL,
        2000,
        1000,
        4000,
    )


def test_beyond_it_what_may_be_had_by_borrowing_is_told(cell: Cell) -> None:
    cell.submit("j", role(cards=4), queue="borrows")
    cell.tick()
    found = why(cell, "j")
    assert found is not None
    assert (found.reason, found.asked, found.free, found.limit) == (
        Reason.QUOTA_BORROWING,
        4000,
        3000,
        3000,
    )


def test_what_no_flavor_has_is_told(cell: Cell) -> None:
    cell.submit("j", role(cards=1, cpu=100), queue="lends")
    cell.tick()
    found = why(cell, "j")
    assert found is not None
    assert (found.reason, found.limit) == (Reason.NO_FLAVOR, 1)


def test_who_has_quota_and_no_room_lacks_none(cell: Cell) -> None:
    cell.submit("a", role(replicas=4, cards=1), queue="lends")
    cell.submit("j", role(replicas=2, cards=3), queue="lends")
    cell.submit("wide", role(cards=4), queue="lends")
    cell.cancel("a")
    cell.cancel("j")
    assert why(cell, "wide") is None

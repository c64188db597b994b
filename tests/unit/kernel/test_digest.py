"""The digest covers every attempt once, however it is told: with its job or on its own."""

import pytest

from ganger.schemas import records as r
from ganger.streams.kernel.digest import holds_all, recompute
from support.builders import Cell, node, role
from support.decision_lines import job_of, lose


def checked(cell: Cell) -> bytes:
    """The digest, which is the same when it is made from scratch."""
    assert cell.digest == recompute(cell.state)
    return cell.digest


def progress(cell: Cell, job: str, milli: int) -> None:
    cell.put(r.PodProgressed(cell.state.clock_ns, "", None, job, 0, 1, milli, 0))


@pytest.mark.parametrize("replicas", [1, 2])
def test_what_an_attempt_reports_shows_for_lone_ones_and_for_others(replicas: int) -> None:
    digests = []
    for milli in (0, 500, 501):
        cell = Cell().start(node("n1"))
        cell.submit("j", role(replicas=replicas, cards=1))
        cell.tick()
        cell.started("j")
        progress(cell, "j", milli)
        digests.append(checked(cell))
    assert holds_all(job_of(cell, "j")) == (replicas == 1)
    assert len(dict.fromkeys(digests)) == len(digests)


def test_a_job_that_grows_and_shrinks_is_told_as_a_whole() -> None:
    cell = Cell().start(node("n1"))
    cell.submit("j", role(replicas=1, cards=1))
    cell.tick()
    cell.started("j")
    for replicas in (3, 1, 2, 1):
        cell.update("j", scale=((job_of(cell, "j").shape.roles[0].name, replicas, 0),))
        checked(cell)
        cell.tick()
        checked(cell)
        progress(cell, "j", 100 * replicas)
        checked(cell)


def test_an_attempt_given_up_is_told_apart_from_the_next() -> None:
    cell = Cell().start(node("n1", 1), node("n2", 1))
    cell.submit("j", retries=5)
    cell.tick()
    cell.started("j")
    lose(cell, "n1")
    checked(cell)
    cell.tick()
    checked(cell)
    cell.released("j", 0, 1)
    checked(cell)
    cell.succeeded("j", 0, 2)
    checked(cell)

"""Several reservations at a time on one node, where counts of cards decide."""

import random

import pytest

from ganger.streams.kernel.horizon.book import Book
from support.builders import Cell
from support.gang_cells import carry_out_gangs, reserving
from support.node_planners import Gang, Node, Part
from support.timed_cells import fills_break_no_promise

CARDS = 8
NODE = Node(CARDS, ((1 << CARDS) - 1,))
JOBS = 60
SEEDS = range(4)


def random_jobs(seed: int) -> list[Gang]:
    """Jobs of one pod that keep a node busy."""
    chance = random.Random(seed)
    now_s, made = 0, []
    for number in range(1, JOBS + 1):
        now_s += chance.choice((0, 0, 1, 2, 4))
        run_s = chance.randint(1, 15)
        part = Part(1, chance.choice((1, 1, 2, 3, 5, CARDS)))
        made.append(Gang(number, now_s, run_s, run_s + chance.choice((0, 0, 2, 10)), (part,)))
    return made


def carried_out(reserve: str, jobs: list[Gang]) -> Cell:
    return carry_out_gangs(reserving(reserve), [NODE], jobs)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("reserve", ["2", "4"])
def test_no_start_in_a_gap_breaks_a_reservation(reserve: str, seed: int) -> None:
    """Under the estimates that admitted them, all who have a reservation have their cards."""
    cell = carried_out(reserve, random_jobs(seed))
    fills_break_no_promise(cell)


def test_whoever_was_booked_first_keeps_its_start_when_a_run_lasts_longer() -> None:
    book = Book(0, CARDS)
    book.free.add(0, 10, -CARDS)
    for job in (1, 2):
        booked = book.book(job, 4, 5, 0)
        assert booked is not None and booked.start_ns == 10
    book.extend(4, 10, 20)
    moved = book.mend(1)
    assert {job: one and one.start_ns for job, one in moved.items()} == {2: 15}
    assert book.bookings[1].start_ns == 10

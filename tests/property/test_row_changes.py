"""Changes of rows, folded, are the rows of the state: in any rhythm, from any snapshot on."""

import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from ganger.schemas import records as r
from ganger.schemas.codec import decode_record
from ganger.streams.kernel import snapshot
from ganger.streams.kernel.state import State
from support.chaos import CHAIN, run_seed
from support.corpus import SUFFIX, load
from support.row_follower import Follower, rows_of

CORPUS = Path(__file__).parents[1] / "replay" / "corpus"
SEEDS = tuple(range(300, 330))


@cache
def lived(seed: int) -> tuple[State, list[r.Record]]:
    """An empty cell with the seed's ledger of faults."""
    return State("chaos", CHAIN), run_seed(seed, 60, check_every=1000).cell.records


def follow_all(follower: Follower, records: Sequence[r.Record], chance: random.Random) -> None:
    """Groups and takes of any size."""
    rhythm = chance.choice((1, 2, 7, 40))
    at = 0
    while at < len(records):
        size = chance.randint(1, rhythm)
        follower.follow(records[at : at + size])
        at += size
        if chance.random() < 0.5:
            follower.take()
    follower.take()


@pytest.mark.parametrize("seed", SEEDS)
def test_changes_of_a_cell_under_faults(seed: int) -> None:
    empty, records = lived(seed)
    follow_all(Follower(State(empty.cell, empty.chain)), records, random.Random(seed))


@pytest.mark.parametrize("seed", SEEDS)
def test_changes_after_a_snapshot(seed: int) -> None:
    empty, records = lived(seed)
    chance = random.Random(seed)
    follower = Follower(State(empty.cell, empty.chain))
    at = chance.randrange(len(records))
    follower.follow(records[:at])
    again = Follower(snapshot.decode(snapshot.encode(follower.state)))
    follow_all(again, records[at:], chance)


@pytest.mark.parametrize("seed", SEEDS)
def test_changes_after_a_snapshot_over_what_a_later_owner_told(seed: int) -> None:
    empty, records = lived(seed)
    chance = random.Random(seed)
    low, mid, high = sorted(chance.randrange(len(records)) for _ in range(3))
    state = State(empty.cell, empty.chain)
    other = Follower(state)
    other.follow(records[:low])
    again = Follower(snapshot.decode(snapshot.encode(state)))
    other.follow(records[low:mid])
    again.tables = rows_of(state)
    again.follow(records[low:high])
    again.take()
    follow_all(again, records[high:], chance)


@pytest.mark.parametrize("path", sorted(CORPUS.glob(f"*{SUFFIX}")), ids=lambda p: p.name)
def test_changes_of_recorded_ledgers(path: Path) -> None:
    entry = load(path)
    records = [decode_record(payload) for payload in entry.records]
    follow_all(Follower(State(entry.cell, entry.seed)), records, random.Random(path.name))

"""Every short history of small cells, and some of the longer ones, under every preset."""

import pytest

from exhaustive.runs import explore
from exhaustive.search import NODES, Piece, all_presets, pieces, policy_of, search
from exhaustive.world import CHOICES

SEED = 20
SHARE = 0.0015
"""Of the sequences of four jobs; `make exhaustive` runs all of them."""


@pytest.mark.parametrize("preset", all_presets())
def test_short_histories_keep_every_promise(preset: str) -> None:
    results = [search(piece) for piece in pieces([preset], (1, 2))]
    broken = [line for result in results for line in result["broken"]]
    assert not broken, "\n".join(broken)
    assert sum(result["histories"] for result in results) == len(NODES) * (8 + 3 * 8 * 16)


@pytest.mark.parametrize("preset", all_presets())
def test_some_longer_histories_keep_every_promise(preset: str) -> None:
    for length, share in ((3, 4 * SHARE), (4, SHARE)):
        for piece in pieces([preset], (length,)):
            result = search(piece, (SEED, share))
            assert not result["broken"], "\n".join(result["broken"])


FOUND = (
    ("default", 2, "S/a HG2/b HP/a G2/a"),  # a gate that took idle cards for room
    ("spread", 2, "HG2/b HP/a E/b"),
    ("hpc-conservative", 1, "HG2/b E/a HG2/a"),  # a job booked twice
    ("hpc-conservative", 1, "S/b HG2/b HG2/a"),  # evicted in the cycle that had placed it
    ("xirang", 1, "S/a S/a E/a HP/a"),  # an end that was expected some cycles later
    ("xirang", 2, "G3/a P/b S/b E/b"),
    ("kueue", 1, "E/a S/b HS/b"),
    ("kueue", 2, "E/a P/b HG2/b"),
)
"""What the search has found, at its shortest."""


@pytest.mark.parametrize(("preset", "nodes", "jobs"), FOUND)
def test_what_broke_once_keeps_every_promise(preset: str, nodes: int, jobs: str) -> None:
    kinds = [job.split("/") for job in jobs.split()]
    assert explore(policy_of(preset), nodes, [(kind, queue) for kind, queue in kinds])


def test_a_piece_is_all_that_begins_with_its_first_choice() -> None:
    sequences = list(Piece("default", 1, 3, ("S", "a")).sequences())
    assert len(sequences) == len(CHOICES) ** 2 == len(set(sequences))
    assert all(sequence[0] == ("S", "a") for sequence in sequences)

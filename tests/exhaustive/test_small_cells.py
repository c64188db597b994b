"""Every short history of small cells, and some of the longer ones, under every preset."""

import pytest

from exhaustive.search import NODES, Piece, all_presets, pieces, search
from exhaustive.world import CHOICES

SEED = 20
SHARE = 0.002
"""Of the sequences of four jobs; `make exhaustive` runs all of them."""


@pytest.mark.parametrize("preset", all_presets())
def test_short_histories_keep_every_promise(preset: str) -> None:
    results = [search(piece) for piece in pieces([preset], (1, 2))]
    broken = [line for result in results for line in result["broken"]]
    assert not broken, "\n".join(broken)
    assert sum(result["histories"] for result in results) == len(NODES) * (8 + 3 * 8 * 16)


@pytest.mark.parametrize("preset", all_presets())
def test_some_longer_histories_keep_every_promise(preset: str) -> None:
    for length, share in ((3, 16 * SHARE), (4, SHARE)):
        for piece in pieces([preset], (length,)):
            result = search(piece, (SEED, share))
            assert not result["broken"], "\n".join(result["broken"])


def test_a_piece_is_all_that_begins_with_its_first_choice() -> None:
    sequences = list(Piece("default", 1, 3, ("S", "a")).sequences())
    assert len(sequences) == len(CHOICES) ** 2 == len(set(sequences))
    assert all(sequence[0] == ("S", "a") for sequence in sequences)

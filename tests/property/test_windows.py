"""What is reserved by request is used by nobody else, under every preset, whatever happens."""

import pytest

from support.window_cells import WindowHistory

PRESETS = (
    *("default", "spread", "volcano", "kueue"),
    *("hpc-easy", "hpc-easy-clairvoyant", "hpc-sjbf-clairvoyant", "hpc-conservative", "hpc-fcfs"),
    *("hpc-predict", "hybrid", "xirang"),
)


FOUND = [
    ("default", (8,), 12),
    ("spread", (6, 3), 12),
    ("hpc-conservative", (8,), 71),
    ("hpc-conservative", (4, 4, 2), 81),
    ("hybrid", (8,), 58),
    ("xirang", (8,), 60),
]
"""Histories that once broke something."""


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("nodes", [(8,), (4, 4, 2)], ids=["one_node", "some_nodes"])
@pytest.mark.parametrize("seed", range(2))
def test_nobody_outside_the_list_meets_a_reservation(
    preset: str, nodes: tuple[int, ...], seed: int
) -> None:
    check(preset, nodes, seed)


@pytest.mark.parametrize(("preset", "nodes", "seed"), FOUND)
def test_what_was_found_so_is_mended(preset: str, nodes: tuple[int, ...], seed: int) -> None:
    check(preset, nodes, seed)


def check(preset: str, nodes: tuple[int, ...], seed: int) -> None:
    """Run a history; nothing forbidden may happen, and nobody may be forgotten."""
    history = WindowHistory(preset, seed, nodes)
    for _ in range(120):
        history.step()
    assert history.faults == []
    assert history.proof.first is None  # and `verify` says the same
    assert history.placed > 20
    left = history.drain()
    if preset != "volcano":  # there a job that asks for more than its queue's due may wait for ever
        assert left == []  # nobody is forgotten once nothing is kept
    assert history.faults == []

"""What is reserved by request is used by nobody else, under every preset, whatever happens."""

import pytest

from support.window_cells import WindowHistory

PRESETS = (
    *("default", "spread", "volcano", "kueue"),
    *("hpc-easy", "hpc-easy-clairvoyant", "hpc-sjbf-clairvoyant", "hpc-conservative", "hpc-fcfs"),
    *("hpc-predict", "xirang"),
)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("nodes", [(8,), (4, 4, 2)], ids=["one_node", "some_nodes"])
@pytest.mark.parametrize("seed", range(3))
def test_nobody_outside_the_list_meets_a_reservation(
    preset: str, nodes: tuple[int, ...], seed: int
) -> None:
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

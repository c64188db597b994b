"""Where nobody can say when the first in line starts, nobody starts for an unknown time."""

import pytest
from msgspec.structs import replace

from support.builders import SECOND, Cell, node, role, submission
from support.gang_cells import reserving
from support.timed_cells import STARTS


@pytest.mark.parametrize("reserve", ["1", "2", "3"])
@pytest.mark.parametrize("sizes", [(8,), (4, 4)], ids=["pool", "nodes"])
def test_a_job_of_unknown_length_does_not_pass_a_head_of_unknown_start(
    sizes: tuple[int, ...], reserve: str
) -> None:
    hosts = [node(f"n{place}", cards) for place, cards in enumerate(sizes)]
    cell = Cell().start(*hosts, rules=reserving(reserve))

    def ask(job: str, run_s: int, pods: int, cards: int) -> list[str]:
        made = submission(job, role(replicas=pods, cards=cards), time_ns=cell.now_ns)
        cell.put(replace(made, runtime_estimate_ns=run_s * SECOND))
        return [one.job for one in cell.tick() if one.kind in STARTS]

    assert ask("open", 0, 1, 4) == ["open"]
    assert ask("head", 10, 2, 4) == []
    if reserve == "3":
        assert ask("second", 10, 2, 4) == []
        assert ask("third", 10, 2, 4) == []
    elif reserve == "2":
        assert ask("second", 10, 2, 4) == []
    assert ask("unknown", 0, 1, 2) == []
    assert ask("short", 10, 1, 2) == ["short"]

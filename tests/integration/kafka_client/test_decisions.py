"""What the client's reader makes of a topic of decisions: each once, from any point on."""

from collections.abc import Callable

import pytest

from ganger.schemas.decisions import Decision
from ganger.services.client import Decisions
from ganger.streams.kafka.cluster.errors import CellUnknown
from ganger.streams.kafka.cluster.topics import DECISIONS
from ganger.streams.kafka.log.ledger import Bookmark
from ganger.streams.kafka.wire.consumer import PartitionCut
from ganger.streams.log.errors import PartitionCorrupt
from support.decisions import payload, payloads
from support.kafka_cells import KafkaCell, new_cell

PATIENCE_S = 20.0


def write(cell: KafkaCell, values: list[bytes]) -> None:
    cell.write(DECISIONS, values)


def taken(decisions: Decisions, count: int) -> list[tuple[int, int]]:
    """The ids of the next so many, and that there are no more in the same breath."""
    found: list[Decision] = []
    while len(found) < count:
        batch = decisions.take(PATIENCE_S)
        assert batch, f"{len(found)} of {count} came"
        found += batch
    return [(decision.cause_seq, decision.index) for decision in found]


def ids(begin: int, end: int) -> list[tuple[int, int]]:
    return [(2 * (n // 3), n % 3) for n in range(begin, end)]


def test_each_once_from_the_beginning(cell: KafkaCell) -> None:
    name = cell.placement.cell
    write(cell, payloads(name, 10) + payloads(name, 6, 4) + payloads(name, 5, 10))
    with Decisions(cell.settings, name, begin="beginning") as decisions:
        assert taken(decisions, 15) == ids(0, 15)
        assert decisions.position[name].position == 15
        write(cell, payloads(name, 5, 12))
        assert taken(decisions, 2) == ids(15, 17)
        assert decisions.take(0) == []


def test_from_the_end_on_late_copies_are_known(cell: KafkaCell) -> None:
    name = cell.placement.cell
    write(cell, payloads(name, 10))
    with Decisions(cell.settings, name) as decisions:
        write(cell, payloads(name, 6, 6))
        assert taken(decisions, 2) == ids(10, 12)


def test_from_a_seq(cell: KafkaCell) -> None:
    name = cell.placement.cell
    write(cell, payloads(name, 12))
    with Decisions(cell.settings, name, begin=3) as decisions:
        assert taken(decisions, 6) == ids(6, 12)  # caused by 4 and 6


def test_a_loop_that_is_left_goes_on_where_it_was(cell: KafkaCell) -> None:
    """At every place, in batches and behind copies: nothing twice and nothing left out."""
    name = cell.placement.cell
    write(cell, payloads(name, 7) + payloads(name, 4, 2) + payloads(name, 5, 7))
    position: dict[str, Bookmark] = {}
    seen = []
    for _ in range(12):
        with Decisions(cell.settings, name, begin=position) as decisions:
            decision = next(iter(decisions))
            seen.append((decision.cause_seq, decision.index))
            position = {cell: Bookmark(*mark) for cell, mark in decisions.position.items()}
            assert position[name].position == len(seen)
    assert seen == ids(0, 12)
    with Decisions(cell.settings, name, begin=position) as decisions:
        assert list(decisions.read(timeout_s=0)) == []


def test_all_cells_at_once(cell: KafkaCell, unique_name: Callable[[str], str]) -> None:
    other = new_cell(cell.settings, unique_name("other"))
    names = (cell.placement.cell, other.placement.cell)
    with Decisions(cell.settings) as decisions:
        for made, name in ((cell, names[0]), (other, names[1])):
            write(made, payloads(name, 3))
        found: dict[str, list[tuple[int, int]]] = {}
        while sum(len(found.get(name, ())) for name in names) < 6:
            batch = decisions.take(PATIENCE_S)
            assert batch
            for decision in batch:
                found.setdefault(decision.cell, []).append((decision.cause_seq, decision.index))
    assert [found[name] for name in names] == [ids(0, 3), ids(0, 3)]


def test_a_copy_with_other_bytes_is_refused(cell: KafkaCell) -> None:
    name = cell.placement.cell
    write(cell, [*payloads(name, 3), payload(name, 0, 1, job="another")])
    with (
        Decisions(cell.settings, name, begin="beginning") as decisions,
        pytest.raises(PartitionCorrupt, match="with other bytes"),
    ):
        taken(decisions, 4)


def test_a_cell_that_is_not_placed(cell: KafkaCell) -> None:
    with pytest.raises(CellUnknown, match=r"'nowhere' is not placed.*ganger topics create"):
        Decisions(cell.settings, "nowhere")


def test_a_place_that_the_topic_does_not_have(cell: KafkaCell) -> None:
    name = cell.placement.cell
    write(cell, payloads(name, 3))
    with (
        Decisions(cell.settings, name, begin={name: Bookmark(9, 9, 9, 0)}) as decisions,
        pytest.raises(PartitionCut, match=r"offset 9 cannot be read .* cut or made anew"),
    ):
        decisions.take(PATIENCE_S)

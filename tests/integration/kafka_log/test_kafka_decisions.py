"""Decisions in their partition: positions, copies, bookmarks, and two owners at once."""

import pytest

from ganger.streams.kafka.cluster.topics import DECISIONS
from ganger.streams.kafka.log.ledger import KafkaDecisions
from ganger.streams.kafka.log.logs import DecisionLog, LiveDecisionLog
from ganger.streams.log.errors import LedgerLost, PartitionCorrupt
from ganger.streams.log.layout import LogIdentity, Stream, extend_chain
from ganger.streams.log.protocol import LogReader
from support.decisions import payload, payloads
from support.kafka_cells import KafkaCell

MANY = 5000


def read(log: LogReader, begin: int = 0, end: int | None = None) -> list[bytes]:
    found: list[bytes] = []
    for first, group in log.read_groups(begin, end):
        assert first == begin + len(found)
        assert group
        found += group
    return found


def of(cell: KafkaCell, count: int, begin: int = 0) -> list[bytes]:
    return payloads(cell.placement.cell, count, begin)


def test_positions_leave_copies_out(cell: KafkaCell) -> None:
    wanted = of(cell, MANY)
    cell.write(DECISIONS, wanted[:2000] + wanted[1990:3500] + wanted[3000:3300] + wanted[3300:])
    with cell.decisions() as log:
        assert (log.first_seq, log.end()) == (0, MANY)
        assert read(log) == wanted
        for begin, end in ((0, 1), (1989, 2001), (3499, 3502), (4096, None), (MANY, None)):
            assert read(log, begin, end) == wanted[begin:end]
        with pytest.raises(ValueError, match="from_seq: -1 is below 0"):
            log.read_groups(-1)


def test_following_yields_each_once(cell: KafkaCell) -> None:
    wanted = of(cell, 300)
    with cell.decisions() as log:
        seen: list[bytes] = []
        for begin in range(0, 300, 60):
            cell.write(DECISIONS, wanted[max(begin - 7, 0) : begin + 60])
            seen += read(log, len(seen))
            assert seen == wanted[: begin + 60]
            assert log.end() == begin + 60


def test_a_bookmark_saves_the_way_from_the_beginning(cell: KafkaCell) -> None:
    wanted = of(cell, MANY)
    cell.write(DECISIONS, wanted[:4000] + wanted[3900:4000])
    with cell.decisions() as log:
        bookmark = log.bookmark()
    assert (bookmark.position, bookmark.offset) == (3999, 3999)
    cell.write(DECISIONS, wanted[3990:])
    with cell.decisions() as log:
        log.resume(bookmark)
        assert read(log, 3999) == wanted[3999:]
        assert log.end() == MANY
        assert read(log, 10, 20) == wanted[10:20]
        assert read(log) == wanted
        log.resume(None)
        assert log.end() == MANY


def test_a_bookmark_beyond_the_end_is_lost_data(cell: KafkaCell) -> None:
    cell.write(DECISIONS, of(cell, 10))
    with cell.decisions() as log:
        bookmark = log.bookmark()
        log.resume(bookmark._replace(offset=10))
        with pytest.raises(LedgerLost, match=r"ends at 10.* made at 11"):
            log.end()


def test_a_differing_copy_is_refused_with_both_offsets(cell: KafkaCell) -> None:
    cell.write(DECISIONS, [*of(cell, 4), payload(cell.placement.cell, 0, 2, job="other")])
    with cell.decisions() as log:
        with pytest.raises(PartitionCorrupt, match=r"decision 2 of seq 0 .*offset 2 .*offset 4"):
            log.end()
        with pytest.raises(PartitionCorrupt, match="offset 4"):
            read(log)
        assert read(log, 0, 3) == of(cell, 3)


def test_a_gap_or_a_stranger_is_refused_by_position_and_offset(cell: KafkaCell) -> None:
    cell.write(DECISIONS, [*of(cell, 4), *of(cell, 2, 2)])
    cell.write(DECISIONS, of(cell, 1, 4), key=b"someone")
    with cell.decisions() as log, pytest.raises(PartitionCorrupt, match="b'someone'") as caught:
        log.end()
    assert (caught.value.seq, caught.value.offset) == (4, 6)


def test_appending_gives_positions_and_one_chain(cell: KafkaCell) -> None:
    wanted = of(cell, 3000)
    with cell.decision_log() as log:
        assert log.append([]) == 0
        assert [log.append(wanted[:1]), log.append(wanted[1:2500]), log.append(wanted[2500:])] == [
            *(0, 1, 2500),
        ]
        assert log.end() == 3000
        assert log.append([]) == 3000
        seed = LogIdentity(Stream.DECISIONS, log.cell, log.fingerprint, log.arguments).seed()
        assert log.chain() == extend_chain(seed, wanted)
        assert log.bookmark().position == 2999
        assert read(log, 2490, 2510) == wanted[2490:2510]
    with pytest.raises(ValueError, match="closed"):
        log.append(wanted[:1])


def test_more_than_the_window_in_one_group(cell: KafkaCell) -> None:
    wanted = of(cell, 20_000)
    with cell.decision_log() as log:
        assert log.append(wanted) == 0
        assert log.append(of(cell, 1, 20_000)) == 20_000


@pytest.mark.parametrize("kind", [DecisionLog, LiveDecisionLog])
def test_positions_are_right_beside_another_owner(cell: KafkaCell, kind: type[DecisionLog]) -> None:
    wanted = of(cell, 1000)
    zombie = DecisionLog(cell.settings, cell.placement, cell.new_publisher())
    owner = kind(cell.settings, cell.placement, cell.publisher)
    owner.append(wanted[:100])
    owner.settle()
    assert zombie.append(wanted[50:200]) == 50  # repeats some and runs ahead
    owner.append(wanted[100:150])  # all copies now
    zombie.append(wanted[200:210])
    owner.append(wanted[150:220])  # copies, then new ones
    owner.settle()
    assert zombie.append(wanted[210:215]) == 210
    owner.append(wanted[220:])
    assert owner.end() == 1000
    assert read(owner) == wanted
    with KafkaDecisions(cell.settings, cell.placement) as log:
        assert read(log) == wanted
        assert log.end() == 1000
        assert log.bookmark() == owner.bookmark()
    assert zombie.end() == 1000
    owner.close()
    zombie.close()


def test_another_owner_who_decides_otherwise_is_found_out(cell: KafkaCell) -> None:
    name = cell.placement.cell
    with cell.decision_log() as owner:
        owner.append(of(cell, 5))
        cell.write(DECISIONS, [payload(name, 2, 2, job="other")])
        with pytest.raises(PartitionCorrupt, match="decision 2 of seq 2"):
            owner.append(of(cell, 2, 5))


def test_a_live_append_does_not_wait_and_counts_at_last(cell: KafkaCell) -> None:
    wanted = of(cell, 10_000)
    with LiveDecisionLog(cell.settings, cell.placement, cell.publisher) as log:
        places = [log.append(wanted[begin : begin + 7]) for begin in range(0, 10_000, 7)]
        assert places == list(range(0, 10_000, 7))
        log.settle()
        assert cell.publisher.pending_count() == 0
        assert log.end() == 10_000
        assert log.append(of(cell, 1, 10_000)) == 10_000
        assert read(log, 9_990) == of(cell, 11, 9_990)

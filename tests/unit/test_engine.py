"""The engine: what is written before what is said, what a failed write leaves, and recovery."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ganger.schemas import records as r
from ganger.schemas.codec import decode_decision
from ganger.schemas.decisions import Decision
from ganger.schemas.encoding import decision_payload, encode_record
from ganger.schemas.enums import DecisionKind
from ganger.streams import checkpoint
from ganger.streams.divergence import Divergence
from ganger.streams.engine import (
    GROUP_RECORDS_MAX,
    DecisionsHeld,
    Engine,
    EngineDead,
)
from ganger.streams.kernel.digest import seal
from ganger.streams.kernel.step import HANDLERS, OutOfOrder
from ganger.streams.log.errors import LedgerFull
from ganger.streams.log.layout import LogIdentity, Stream
from ganger.streams.log.memory import MemoryLog
from ganger.streams.payloads import RecordUnreadable
from ganger.streams.seed import chain_seed, seed_of
from support.builders import GENESIS, SECOND, node, placed, policy, queue, submission

EPOCH = 0


class FlakyLog(MemoryLog):
    """A log in memory whose disk can be full, and that notes when it is written."""

    def __init__(self, stream: Stream, arguments: bytes = b"") -> None:
        super().__init__(LogIdentity(stream, "cell", b"schemas", arguments))
        self.is_full = False
        self.events: list[str] = []

    def append(self, payloads: Sequence[bytes]) -> int:
        if self.is_full and payloads:
            raise LedgerFull(Path("0.seg"), "no space left")
        if payloads:
            self.events.append(f"{self.identity.stream.folder} {len(payloads)}")
        return super().append(payloads)


class Store:
    """Checkpoints in a dict."""

    def __init__(self) -> None:
        self.kept: dict[int, bytes] = {}

    def save(self, seq: int, data: bytes) -> None:
        self.kept[seq] = data

    def newest(self, at_or_before: int) -> tuple[int, bytes] | None:
        seqs = [seq for seq in self.kept if seq <= at_or_before]
        return (max(seqs), self.kept[max(seqs)]) if seqs else None


class Desk:
    """Two logs and an engine over them."""

    def __init__(self, arguments: bytes = b"", snapshots: Store | None = None) -> None:
        self.ledger = FlakyLog(Stream.LEDGER, arguments)
        self.decisions = FlakyLog(Stream.DECISIONS, arguments)
        self.events = self.decisions.events = self.ledger.events
        self.snapshots = snapshots
        self.engine = Engine.create(self.ledger, self.decisions, snapshots)

    def recover(self) -> Engine:
        return Engine.recover(self.ledger, self.decisions, self.snapshots)


def setup() -> list[r.Record]:
    return [
        r.OwnerClaimed(GENESIS, "", None, "o"),
        r.IntakeClaimed(GENESIS, "", None, "i"),
        policy(),
        queue("q"),
        node("n", 8),
    ]


def tick(after_s: int) -> r.Tick:
    return r.Tick(GENESIS + after_s * SECOND, "", None, EPOCH, True)


def jobs(count: int, first: int = 0) -> list[r.Record]:
    """Submissions and Ticks in turn."""
    records: list[r.Record] = []
    for number in range(first, first + count):
        records += [submission(f"j{number}", time_ns=GENESIS + number * SECOND), tick(number)]
    return records


def payloads(log: MemoryLog) -> list[bytes]:
    return [payload for _, group in log.read_groups() for payload in group]


def everything(desk: Desk) -> tuple[list[bytes], list[bytes]]:
    return payloads(desk.ledger), payloads(desk.decisions)


# --- apply ----------------------------------------------------------------------------------------


def test_records_are_in_the_ledger_before_their_decisions_are_published() -> None:
    desk = Desk()
    assert desk.engine.apply(setup()) == []
    decisions = desk.engine.apply(jobs(1))
    assert placed(decisions) == [("j0", 0, 1, "n")]
    assert desk.events == ["ledger 5", "ledger 2", f"decisions {len(decisions)}"]
    assert payloads(desk.decisions) == [decision_payload(decision) for decision in decisions]
    assert payloads(desk.ledger) == [encode_record(record) for record in setup() + jobs(1)]
    assert desk.engine.decision_count == len(decisions)
    assert desk.engine.committed_seq == 7


def test_a_full_ledger_leaves_everything_as_it_was_and_goes_on_when_there_is_room() -> None:
    desk, calm = Desk(), Desk()
    for engine in (desk.engine, calm.engine):
        engine.apply(setup() + jobs(2))
    before = seal(desk.engine.state), desk.engine.state.next_seq, everything(desk)
    desk.ledger.is_full = True
    for _ in range(2):
        with pytest.raises(LedgerFull):
            desk.engine.apply(jobs(1, 2))
    assert (seal(desk.engine.state), desk.engine.state.next_seq, everything(desk)) == before
    desk.ledger.is_full = False
    assert placed(desk.engine.apply(jobs(1, 2))) == placed(calm.engine.apply(jobs(1, 2)))
    assert everything(desk) == everything(calm)


def test_decisions_without_room_are_held_and_come_out_once() -> None:
    desk, calm = Desk(), Desk()
    calm.engine.apply(setup())
    calm.engine.apply(jobs(2))
    desk.engine.apply(setup())
    desk.decisions.is_full = True
    with pytest.raises(DecisionsHeld, match="2 records from seq 5 are in the ledger"):
        desk.engine.apply(jobs(1))
    with pytest.raises(DecisionsHeld, match="call publish first"):
        desk.engine.apply(jobs(1, 1))
    with pytest.raises(LedgerFull):
        desk.engine.publish()
    assert payloads(desk.decisions) == []
    desk.decisions.is_full = False
    assert placed(desk.engine.publish()) == [("j0", 0, 1, "n")]
    assert desk.engine.publish() == []
    desk.engine.apply(jobs(1, 1))
    assert everything(desk) == everything(calm)


def test_a_record_that_has_no_bytes_takes_its_whole_group_with_it() -> None:
    desk = Desk()
    desk.engine.apply(setup())
    bad = submission("bad", priority=1 << 70)
    with pytest.raises(ValueError, match=r"priority"):
        desk.engine.apply([submission("good"), bad])
    assert desk.engine.state.next_seq == desk.ledger.end() == 5


# --- follow ---------------------------------------------------------------------------------------


def test_following_a_ledger_that_others_write_is_the_same_cell() -> None:
    desk, calm = Desk(), Desk()
    calm.engine.apply(setup())
    calm.engine.apply(jobs(2))
    desk.ledger.append(payloads(calm.ledger))
    first = payloads(desk.ledger)[:7]
    records, decisions = desk.engine.follow(0, first)
    assert records == setup() + jobs(1)
    assert placed(decisions) == [("j0", 0, 1, "n")]
    _, decisions = desk.engine.follow(7, payloads(desk.ledger)[7:])
    assert placed(decisions) == [("j1", 0, 1, "n")]
    assert everything(desk) == everything(calm)
    assert seal(desk.engine.state) == seal(calm.engine.state)


def test_following_takes_no_record_twice_and_leaves_none_out() -> None:
    desk = Desk()
    desk.ledger.append([encode_record(record) for record in setup() + jobs(1)])
    desk.engine.follow(0, payloads(desk.ledger)[:5])
    before = seal(desk.engine.state)
    for seq in (4, 6):
        with pytest.raises(OutOfOrder, match="record 5 is due"):
            desk.engine.follow(seq, payloads(desk.ledger)[seq:])
    assert seal(desk.engine.state) == before
    assert payloads(desk.decisions) == []


def test_an_unreadable_record_stops_following_at_its_seq() -> None:
    desk = Desk()
    good = [encode_record(record) for record in setup()]
    with pytest.raises(RecordUnreadable, match="seq 5"):
        desk.engine.follow(0, [*good, b"no record"])
    assert desk.engine.state.next_seq == 5


def test_decisions_of_followed_records_come_out_once_where_there_was_no_room() -> None:
    desk = Desk()
    desk.ledger.append([encode_record(record) for record in setup() + jobs(1)])
    desk.decisions.is_full = True
    with pytest.raises(DecisionsHeld, match="7 records from seq 0 are in the ledger"):
        desk.engine.follow(0, payloads(desk.ledger))
    with pytest.raises(DecisionsHeld, match="call publish first"):
        desk.engine.follow(7, [])
    desk.decisions.is_full = False
    assert placed(desk.engine.publish()) == [("j0", 0, 1, "n")]
    assert desk.engine.follow(7, []) == ([], [])


# --- ahead and commit -----------------------------------------------------------------------------


def test_nothing_is_written_before_commit_and_then_the_ledger_first() -> None:
    desk, calm = Desk(), Desk()
    made: list[Decision] = []
    for record in setup() + jobs(3):
        made += desk.engine.ahead(record)
    assert desk.events == []
    assert (desk.engine.staged_count, desk.engine.committed_seq) == (11, 0)
    desk.engine.commit()
    assert desk.events == ["ledger 11", f"decisions {len(made)}"]
    calm.engine.apply(setup() + jobs(3))
    assert everything(desk) == everything(calm)
    desk.engine.commit()
    assert len(desk.events) == 2


def test_each_commit_tells_what_it_wrote_when_nothing_is_held_back() -> None:
    desk = Desk()
    told: list[tuple[int, int, int]] = []
    wrote: list[bytes] = []
    said: list[Decision] = []

    def on_commit(written: Sequence[bytes], decisions: Sequence[Decision]) -> None:
        engine = desk.engine
        told.append((engine.staged_count, engine.committed_seq, engine.decision_count))
        wrote.extend(written)
        said.extend(decisions)

    desk.engine.on_commit = on_commit
    records, made = setup() + jobs(3), []
    for record in records[:9]:
        made += desk.engine.ahead(record)
    desk.engine.commit()
    desk.engine.commit()  # writes nothing
    first_count = len(made)
    for record in records[9:]:
        made += desk.engine.ahead(record)
    assert desk.engine.decision_count == len(made) > first_count
    desk.engine.commit()
    assert told == [(0, 9, first_count), (0, 11, len(made))]
    assert wrote == [encode_record(record) for record in records] == payloads(desk.ledger)
    assert [decision_payload(decision) for decision in said] == payloads(desk.decisions)


def test_groups_do_not_grow_beyond_their_bound() -> None:
    desk = Desk()
    for record in setup():
        desk.engine.ahead(record)
    for number in range(GROUP_RECORDS_MAX):
        desk.engine.ahead(tick(number))
    desk.engine.commit()
    sizes = [len(group) for _, group in desk.ledger.read_groups()]
    assert sizes == [GROUP_RECORDS_MAX, 5]


def test_a_failed_commit_is_the_end_of_the_engine_and_not_of_the_cell() -> None:
    desk, calm = Desk(), Desk()
    records = setup() + jobs(2)
    for record in records[:7]:
        desk.engine.ahead(record)
    desk.engine.commit()
    desk.engine.ahead(records[7])
    desk.ledger.is_full = True
    with pytest.raises(LedgerFull):
        desk.engine.commit()
    for call in (
        lambda: desk.engine.ahead(records[8]),
        desk.engine.commit,
        desk.engine.publish,
        lambda: desk.engine.apply([records[8]]),
    ):
        with pytest.raises(EngineDead, match="recover"):
            call()
    desk.ledger.is_full = False
    engine = desk.recover()
    engine.apply(records[7:])
    calm.engine.apply(records)
    assert everything(desk) == everything(calm)


def test_the_two_ways_do_not_mix() -> None:
    desk = Desk()
    desk.engine.ahead(setup()[0])
    with pytest.raises(ValueError, match="1 records are staged"):
        desk.engine.apply(setup()[1:])


# --- recovery -------------------------------------------------------------------------------------


def cut(desk: Desk, decision_count: int) -> Desk:
    """The same logs with only so many decisions."""
    other = Desk()
    other.ledger.append(payloads(desk.ledger))
    other.decisions.append(payloads(desk.decisions)[:decision_count])
    return other


def test_recovery_is_the_same_state_wherever_the_decisions_end() -> None:
    desk = Desk()
    desk.engine.apply(setup() + jobs(4))
    for count in range(desk.decisions.end() + 1):
        other = cut(desk, count)
        engine = other.recover()
        assert seal(engine.state) == seal(desk.engine.state)
        assert engine.state.chain == desk.engine.state.chain
        assert engine.decision_count == desk.engine.decision_count
        assert everything(other) == everything(desk)


def test_another_decision_than_recorded_is_named() -> None:
    desk = Desk()
    desk.engine.apply(setup() + jobs(1))
    recorded = [decode_decision(payload) for payload in payloads(desk.decisions)]
    index = next(i for i, d in enumerate(recorded) if d.kind is DecisionKind.ALLOCATE)
    recorded[index].node = "m"
    recorded[index].body = b""
    other = cut(desk, index)
    other.decisions.append([decision_payload(recorded[index])])
    with pytest.raises(Divergence, match="node 'm' was recorded, 'n' computed") as caught:
        other.recover()
    assert caught.value.seq == recorded[index].cause_seq
    assert caught.value.is_decision


def test_a_decision_without_a_cause_is_named() -> None:
    desk = Desk()
    desk.engine.apply(setup() + jobs(1))
    other = Desk()
    other.ledger.append(payloads(desk.ledger)[:6])
    other.decisions.append(payloads(desk.decisions))
    with pytest.raises(Divergence, match="nothing was computed"):
        other.recover()


def test_an_engine_is_created_over_empty_logs_only() -> None:
    desk = Desk()
    desk.engine.apply(setup())
    with pytest.raises(ValueError, match="ledger: holds 5 records; use recover"):
        Engine.create(desk.ledger, desk.decisions)


def test_the_seed_names_cell_schemas_and_arguments() -> None:
    seeds = {
        chain_seed("a", b"b", b"c"),
        chain_seed("ab", b"", b"c"),
        chain_seed("a", b"", b"bc"),
        chain_seed("a", b"bc", b""),
    }
    assert len(seeds) == 4
    assert {len(seed) for seed in seeds} == {32}
    assert seed_of(Desk(b"x").ledger) != seed_of(Desk(b"y").ledger)


# --- checkpoints ----------------------------------------------------------------------------------


class Counting(FlakyLog):
    """Counts the records read."""

    def __init__(self, source: FlakyLog) -> None:
        super().__init__(source.identity.stream, source.arguments)
        super().append(payloads(source))
        self.read_count = 0

    def read_groups(
        self, from_seq: int | None = None, to_seq: int | None = None
    ) -> Iterator[tuple[int, list[bytes]]]:
        for seq, group in super().read_groups(from_seq, to_seq):
            self.read_count += len(group)
            yield seq, group


def with_checkpoint(tail: int) -> Desk:
    """A cell with a checkpoint after ten jobs, and `tail` more jobs."""
    desk = Desk(snapshots=Store())
    desk.engine.apply(setup() + jobs(10))
    desk.engine.save_checkpoint()
    desk.engine.apply(jobs(tail, 10))
    return desk


def test_recovery_reads_only_what_lies_behind_the_checkpoint() -> None:
    desk = with_checkpoint(tail=3)
    ledger, decisions = Counting(desk.ledger), Counting(desk.decisions)
    engine = Engine.recover(ledger, decisions, desk.snapshots)
    assert ledger.read_count == 6
    assert decisions.read_count < decisions.end() // 2
    assert seal(engine.state) == seal(desk.engine.state)
    assert engine.decision_count == desk.engine.decision_count
    desk.engine.apply(jobs(1, 13))
    engine.apply(jobs(1, 13))
    assert payloads(decisions) == payloads(desk.decisions)


def broken(data: bytes) -> bytes:
    return b"GCKP" + data[4:8] + (1 << 40).to_bytes(8, "little") + data[16:]


@pytest.mark.parametrize(
    "spoil",
    [lambda data: b"", lambda data: b"x" * 40, lambda data: data[:-1], broken],
    ids=["empty", "strange", "short", "of another log"],
)
def test_a_checkpoint_that_does_not_fit_is_left_aside(spoil: object) -> None:
    desk = with_checkpoint(tail=3)
    assert desk.snapshots is not None
    (seq,) = desk.snapshots.kept
    desk.snapshots.kept[seq] = spoil(desk.snapshots.kept[seq])  # type: ignore[operator]
    ledger = Counting(desk.ledger)
    engine = Engine.recover(ledger, desk.decisions, desk.snapshots)
    assert ledger.read_count == ledger.end()
    assert seal(engine.state) == seal(desk.engine.state)


def test_a_checkpoint_of_another_run_is_left_aside() -> None:
    desk, other = with_checkpoint(tail=1), Desk(b"other arguments")
    other.engine.apply(setup() + jobs(11))
    engine = Engine.recover(other.ledger, other.decisions, desk.snapshots)
    assert engine.state.chain == other.engine.state.chain


def test_an_older_checkpoint_is_as_good() -> None:
    desk = with_checkpoint(tail=3)
    assert desk.snapshots is not None
    (seq,) = desk.snapshots.kept
    desk.snapshots.save(seq + 2, b"not one")
    ledger = Counting(desk.ledger)
    Engine.recover(ledger, desk.decisions, desk.snapshots)
    assert ledger.read_count == 6


def test_a_checkpoint_is_a_whole_number_of_groups() -> None:
    desk = Desk(snapshots=Store())
    desk.engine.ahead(setup()[0])
    with pytest.raises(ValueError, match="1 records are not committed"):
        desk.engine.save_checkpoint()


def test_without_a_store_nothing_is_saved() -> None:
    desk = Desk()
    desk.engine.apply(setup())
    desk.engine.save_checkpoint()
    assert seal(desk.recover().state) == seal(desk.engine.state)


def test_checkpoints_keep_state_and_position() -> None:
    desk = Desk()
    desk.engine.apply(setup() + jobs(2))
    data = checkpoint.pack(desk.engine.state, 6)
    found = checkpoint.unpack(data)
    assert found.position == 6
    assert checkpoint.pack(found.state, 6) == data


def test_a_record_that_no_ledger_holds_is_refused_before_it_is_written() -> None:
    desk = Desk()
    heartbeat = r.NodeHeartbeat(GENESIS, "h", None, ())
    with pytest.raises(ValueError, match="NodeHeartbeat: no ledger holds it"):
        desk.engine.apply([*setup(), heartbeat])
    assert desk.ledger.end() == 0
    desk.engine.apply(record for record in setup())  # type: ignore[arg-type]  # once through
    assert desk.ledger.end() == desk.engine.state.next_seq == len(setup())


@pytest.mark.parametrize("way", ["apply", "follow", "ahead"])
def test_after_a_step_that_failed_nothing_is_taken_and_recovery_is_whole(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk()
    engine = desk.engine
    engine.apply(setup())
    jobs = [submission("a"), submission("b")]

    def take() -> None:
        if way == "follow":
            first_seq = desk.ledger.append([encode_record(job) for job in jobs])
            engine.follow(first_seq, [encode_record(job) for job in jobs])
        elif way == "apply":
            engine.apply(jobs)
        else:
            engine.ahead(jobs[0])

    def broken(state: object, record: object) -> None:
        raise TypeError("bool object expected; got int")

    with monkeypatch.context() as patch:
        patch.setitem(HANDLERS, r.JobSubmitRequested, broken)
        with pytest.raises(TypeError, match="bool object expected"):
            take()
    end = desk.ledger.end()
    calls = (
        lambda: engine.apply(jobs),
        lambda: engine.ahead(jobs[0]),
        engine.commit,
        engine.publish,
        engine.checkpoint,
    )
    for call in calls:
        with pytest.raises(EngineDead, match="bool object expected"):
            call()
    assert desk.ledger.end() == end == len(setup()) + (0 if way == "ahead" else 2)
    again = desk.recover()
    assert again.state.next_seq == end
    assert len(again.state.jobs) == (0 if way == "ahead" else 2)

"""One owned cell over logs in memory: takeover, Ticks, rows, snapshots, and being replaced."""

from collections.abc import Callable, Generator, Iterable

import pytest

from ganger.schemas import records as r
from ganger.schemas.codec import decode_row
from ganger.schemas.encoding import encode_record
from ganger.schemas.rows import RowsChanged
from ganger.streams.intake import Intake
from ganger.streams.kafka.cluster.topics import LEDGER, ROWS
from ganger.streams.kafka.log.aside import AsideFailed
from ganger.streams.kafka.wire.envelope import FixedIds
from ganger.streams.kafka.worker import saver as savers
from ganger.streams.kafka.worker.cell import CellPorts, CellRunner, CellUnrunnable
from ganger.streams.log.layout import LogIdentity, Stream
from ganger.streams.log.memory import MemoryLog
from ganger.streams.payloads import read_decision
from ganger.streams.tables.store import StoreFailed
from support.builders import GENESIS, SECOND, node, policy, queue, submission
from support.fake_kafka import FakeOutlet

KEY = b"lab"


class Snapshots:
    """A snapshot store in a dict that notes what was published when it saved."""

    def __init__(self, outlet: FakeOutlet) -> None:
        self.kept: dict[int, bytes] = {}
        self.sent_before: list[tuple[int, int]] = []  # (records sent, flushes)
        self.under_way = False
        self.refusal: Exception | None = None
        self._outlet = outlet

    def save(self, seq: int, data: bytes) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.sent_before.append((len(self._outlet.sent), self._outlet.flushes))
        self.kept[seq] = data

    def saving(self, seq: int, make: Callable[[], bytes]) -> Generator[None, None, int]:
        data = make()
        self.under_way = True
        try:
            for _ in range(3):
                yield
            if self.refusal is not None:
                raise self.refusal
            self.save(seq, data)
        finally:
            self.under_way = False
        return len(data)

    def newest(self, at_or_before: int) -> tuple[int, bytes] | None:
        seqs = [seq for seq in self.kept if seq <= at_or_before]
        return (max(seqs), self.kept[max(seqs)]) if seqs else None


class World:
    """A ledger that workers and inputs append to, and what one runner sees of it."""

    def __init__(self) -> None:
        self.ledger = MemoryLog(LogIdentity(Stream.LEDGER, "lab", b"f", b""))
        self.decisions = MemoryLog(LogIdentity(Stream.DECISIONS, "lab", b"f", b""))
        self.outlet = FakeOutlet()
        self.snapshots = Snapshots(self.outlet)
        self.now_ns = GENESIS
        self.mono_ns = 1000 * SECOND
        self.closed = 0
        self.close_fails = False
        self._moved = 0

    def runner(self) -> CellRunner:
        ports = CellPorts(
            0,
            self.ledger,
            self.decisions,
            self.snapshots,
            self.outlet,
            FixedIds(),
            lambda: None,
            self._close,
        )
        return CellRunner("lab", ports, "w1", 40 * SECOND)

    def _close(self) -> None:
        self.closed += 1
        if self.close_fails:
            raise StoreFailed("no room")

    def start(self) -> CellRunner:
        runner = self.runner()
        runner.restore(self.now_ns, self.mono_ns)
        self.turn(runner)
        return runner

    def put(self, *records: r.Record) -> None:
        self.ledger.append([encode_record(record) for record in records])

    def turn(self, runner: CellRunner, seconds: float = 0) -> None:
        """Time passes; what was sent comes to the ledger, the ledger to the runner; it serves."""
        self.now_ns += int(seconds * SECOND)
        self.mono_ns += int(seconds * SECOND)
        self.arrive()
        self.feed(runner)
        runner.serve(self.now_ns, self.mono_ns)

    def arrive(self) -> None:
        """What runners sent to the ledger stands in it, and they hear where."""
        for sent in self.outlet.of(LEDGER)[self._moved :]:
            self._moved += 1
            seq = self.ledger.append([sent.value or b""])
            if sent.on_delivered is not None:
                sent.on_delivered(seq)

    def feed(self, runner: CellRunner) -> None:
        for first, payloads in self.ledger.read_groups(runner.next_seq):
            runner.take(first, [KEY] * len(payloads), payloads)

    def frames(self) -> list[RowsChanged]:
        found = [decode_row(sent.value or b"") for sent in self.outlet.of(ROWS)]
        return [frame for frame in found if isinstance(frame, RowsChanged)]

    def kinds(self) -> list[str]:
        return [type(record).__name__ for record in self.outlet.records()]


def setup() -> tuple[r.Record, ...]:
    return policy(), queue("q"), node("n1"), submission("j1")


def test_an_owner_claims_before_it_says_anything() -> None:
    world = World()
    runner = world.runner()
    assert runner.restore(world.now_ns, world.mono_ns) == 0
    assert runner.serve(world.now_ns, world.mono_ns) is None
    assert world.kinds() == ["OwnerClaimed", "IntakeClaimed"]
    assert not runner.is_running
    world.turn(runner)
    assert runner.is_running
    assert world.kinds() == ["OwnerClaimed", "IntakeClaimed", "Tick"]


def test_acknowledgements_may_come_after_the_records_themselves() -> None:
    world = World()
    runner = world.runner()
    runner.restore(world.now_ns, world.mono_ns)
    for sent in world.outlet.of(LEDGER):
        world.ledger.append([sent.value or b""])
    world.feed(runner)
    assert (runner.is_running, runner.take_intake()) == (False, None)
    world.outlet.deliver()
    assert runner.is_running
    assert runner.take_intake() is not None


def test_the_intake_knows_what_others_appended_before_its_claim() -> None:
    world = World()
    world.put(*setup())
    runner = world.runner()
    runner.restore(world.now_ns, world.mono_ns)
    world.put(node("n1", cards=4), node("n2"), r.NodeLost(GENESIS, "", None, "n2", -1, 1))
    world.turn(runner)
    intake = runner.take_intake()
    assert isinstance(intake, Intake)
    assert runner.take_intake() is None, "it is given once"
    known = (node("n1", cards=4), node("n2"))
    heartbeat = r.NodeHeartbeat(1, "", None, tuple(record.report for record in known))
    records = intake.accept(heartbeat, world.now_ns)
    assert [type(record) for record in records] == [r.NodeReturned]


def test_decisions_follow_their_causes_and_ticks_what_came_in() -> None:
    world = World()
    runner = world.start()
    world.put(*setup())
    for _ in range(3):
        world.turn(runner, 1)
    decided = [
        read_decision(position, payload).kind.name
        for first, group in world.decisions.read_groups()
        for position, payload in enumerate(group, first)
    ]
    assert decided == ["ALLOCATE", "CYCLE_CLOSED"], "one cycle: nothing came after it"
    ticks = [record for record in world.outlet.records() if isinstance(record, r.Tick)]
    assert {tick.epoch for tick in ticks} == {0}


def test_rows_go_out_every_two_seconds_and_only_what_changed() -> None:
    world = World()
    runner = world.start()
    world.put(*setup())
    for _ in range(60):
        world.turn(runner, 0.05)
    frames = world.frames()
    assert 2 <= len(frames) <= 3
    assert {frame.epoch for frame in frames} == {0}
    assert [frame.seq for frame in frames] == sorted({frame.seq for frame in frames})
    told = {(change.table, change.key) for frame in frames for change in frame.rows}
    assert {("nodes", "n1"), ("queues", "q"), ("jobs", "j1"), ("cards", "n1/0")} <= told
    count = len(world.frames())
    for _ in range(5):
        world.turn(runner, 1)
    assert len(world.frames()) == count, "Ticks alone change no row"


def test_an_owner_tells_its_epoch_even_if_nothing_changed() -> None:
    world = World()
    first = world.start()
    world.put(*setup())
    world.turn(first, 1)
    world.turn(first, 1)
    first.release(world.now_ns, world.mono_ns)
    count = len(world.frames())
    world.mono_ns += SECOND
    second = world.start()
    world.turn(second, 1)
    news = world.frames()[count:]
    assert news, "tables must hear of the new owner"
    assert {frame.epoch for frame in news} == {second.state.epoch}


def test_what_the_replayed_tail_changed_is_told_again() -> None:
    world = World()
    first = world.start()
    world.put(*setup())
    for _ in range(3):
        world.turn(first, 1)
    first.save(world.now_ns, world.mono_ns)
    world.put(submission("j2"))
    world.feed(first)  # and it dies before it tells of j2
    count = len(world.frames())
    second = world.start()
    world.turn(second, 2)
    told = {(c.table, c.key) for frame in world.frames()[count:] for c in frame.rows}
    assert ("jobs", "j2") in told
    assert ("jobs", "j1") not in told, "the snapshot's owner told of it before"


def test_nothing_is_left_to_be_published_before_a_snapshot() -> None:
    world = World()
    runner = world.start()
    world.put(*setup())
    world.feed(runner)
    runner.save(world.now_ns, world.mono_ns)
    ((sent, flushes),) = world.snapshots.sent_before
    assert flushes >= 1
    assert sent == len(world.outlet.sent)
    assert world.frames()[-1].seq == runner.next_seq - 1
    assert list(world.snapshots.kept) == [runner.next_seq]


def test_replayed_records_count_towards_the_next_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(savers, "RECORDS", 8)
    world = World()
    for number in range(4):
        world.put(submission(f"j{number}"), node(f"n{number}"))
        runner = world.start()
        for _ in range(3):
            world.turn(runner)
        del runner  # killed: without the replayed records none would ever save
    assert world.snapshots.kept


def saver(monkeypatch: pytest.MonkeyPatch) -> tuple[World, CellRunner, int]:
    """A runner that has begun to save a snapshot, and its seq."""
    monkeypatch.setattr(savers, "RECORDS", 4)
    world = World()
    runner = world.start()
    world.put(*setup())
    world.turn(runner)
    assert world.snapshots.under_way
    return world, runner, runner.next_seq


def test_a_cell_goes_on_while_its_snapshot_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    world, runner, seq = saver(monkeypatch)
    assert runner.wait_ns(world.now_ns, world.mono_ns) < SECOND // 100
    world.put(submission("j2"))
    world.feed(runner)
    assert runner.next_seq == seq + 1
    saved = [runner.serve(world.now_ns, world.mono_ns) for _ in range(3)]
    assert saved == [None, None, seq]
    assert list(world.snapshots.kept) == [seq], "the state as it was when the saving began"
    assert runner.saver.size_bytes == len(world.snapshots.kept[seq])


def test_a_cell_that_is_left_saves_at_once_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    world, runner, seq = saver(monkeypatch)
    runner.release(world.now_ns, world.mono_ns)
    assert not world.snapshots.under_way
    assert list(world.snapshots.kept) == [seq]


def test_a_cell_that_is_closed_saves_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    world, runner, _ = saver(monkeypatch)
    runner.close()
    assert not world.snapshots.under_way
    assert not world.snapshots.kept


@pytest.mark.parametrize("refusal", [StoreFailed("no room"), AsideFailed("no memory")])
def test_a_snapshot_that_cannot_be_saved_is_told_and_tried_again(
    refusal: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world, runner, seq = saver(monkeypatch)
    world.snapshots.refusal = refusal
    for _ in range(3):
        world.turn(runner)
    assert runner.saver.failures_count == 1
    assert f"snapshot_failed cell=lab seq={seq} again_in_s=10 why='{refusal}'" in caplog.text
    world.put(submission("j2"))
    for failures in range(2, 10):  # 10 s, 20 s, and so on to 10 minutes
        wait_s = min(10 << (failures - 2), 600)
        world.turn(runner, wait_s - 1)
        assert runner.saver.failures_count == failures - 1, "it waits"
        world.turn(runner, 1)
        for _ in range(3):
            world.turn(runner)
        assert runner.saver.failures_count == failures
    assert not world.snapshots.kept
    assert runner.next_seq > seq, "the cell goes on"
    world.snapshots.refusal = None
    world.turn(runner, 600)
    for _ in range(4):
        world.turn(runner)
    assert len(world.snapshots.kept) == 1
    world.snapshots.refusal = refusal
    for _ in range(4):
        world.put(submission("j3"), submission("j4"), submission("j5"), submission("j6"))
        world.turn(runner)
    assert "again_in_s=10 " in caplog.records[-1].getMessage(), "after one that was saved"


def test_a_cell_is_left_although_its_snapshot_cannot_be_saved(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world, runner, _ = saver(monkeypatch)
    world.snapshots.refusal = StoreFailed("no room")
    world.close_fails = True
    runner.release(world.now_ns, world.mono_ns)
    assert world.closed == 1
    assert not world.snapshots.kept
    assert [record.getMessage().split()[0] for record in caplog.records] == [
        "snapshot_failed",
        "store_unsealed",
    ]


def test_a_snapshot_is_saved_at_the_end_and_the_next_owner_has_nothing_to_replay() -> None:
    world = World()
    runner = world.start()
    world.put(*setup())
    world.turn(runner, 1)
    world.arrive()
    world.feed(runner)
    runner.release(world.now_ns, world.mono_ns)
    assert world.closed == 1
    assert world.runner().restore(world.now_ns, world.mono_ns) == 0


def other_owner(seq: int) -> Iterable[r.Record]:
    return (r.OwnerClaimed(GENESIS, "", None, f"w{seq}"),)


def test_who_meets_a_later_claim_says_nothing_more() -> None:
    world = World()
    runner = world.start()
    world.put(*setup())
    world.turn(runner, 1)
    world.put(*other_owner(2), submission("j2"))
    world.arrive()
    world.feed(runner)
    assert runner.superseded
    count = len(world.outlet.sent)
    for _ in range(3):
        world.turn(runner, 5)
    runner.release(world.now_ns, world.mono_ns)
    assert len(world.outlet.sent) == count
    assert not world.snapshots.kept


def test_two_owners_publish_equal_decisions() -> None:
    world = World()
    first = world.start()
    world.put(*setup())
    world.turn(first, 1)
    second = world.start()
    twins = [MemoryLog(world.decisions.identity), world.decisions]
    world.put(submission("j3"), node("n2"))
    world.turn(second, 1)
    end = world.decisions.end()
    world.feed(first)  # it does not know yet
    payloads = [payload for _, group in twins[1].read_groups() for payload in group]
    ids = {}
    for position, payload in enumerate(payloads):
        decision = read_decision(position, payload)
        assert ids.setdefault((decision.cause_seq, decision.index), payload) == payload
    assert world.decisions.end() > end, "copies"


def test_a_record_that_is_none_stops_the_cell_and_names_its_seq() -> None:
    world = World()
    runner = world.start()
    seq = world.ledger.append([b"\0\0\0\0\1junk"])
    with pytest.raises(CellUnrunnable, match="lab") as caught:
        world.feed(runner)
    assert caught.value.seq == seq
    with pytest.raises(CellUnrunnable) as again:
        world.runner().restore(world.now_ns, world.mono_ns)
    assert again.value.seq == seq


@pytest.mark.parametrize(("key", "payload"), [(b"other", b"x"), (None, b"x"), (KEY, None)])
def test_records_of_somebody_else_stop_the_cell(key: bytes | None, payload: bytes | None) -> None:
    world = World()
    runner = world.start()
    with pytest.raises(CellUnrunnable) as caught:
        runner.take(runner.next_seq, [key], [payload])
    assert caught.value.seq == runner.next_seq


def test_decisions_that_were_recorded_otherwise_stop_the_cell() -> None:
    world = World()
    runner = world.start()
    world.put(*setup())
    world.turn(runner, 1)
    world.arrive()
    world.feed(runner)
    forged = MemoryLog(world.decisions.identity)
    payloads = [payload for _, group in world.decisions.read_groups() for payload in group]
    forged.append([*payloads[1:], payloads[0]])
    world.decisions = forged
    with pytest.raises(CellUnrunnable):
        world.runner().restore(world.now_ns, world.mono_ns)

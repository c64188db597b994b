"""A cell in memory that is fed as a live one is: inputs one by one, a clock, copies of inputs."""

from collections.abc import Iterable, Iterator

from ganger.schemas.decisions import Decision
from ganger.schemas.records import NodeHeartbeat, NodeReport, OwnerClaimed, Record, Tick
from ganger.streams.engine import Engine
from ganger.streams.intake import Intake
from ganger.streams.log.layout import LogIdentity, Stream
from ganger.streams.log.memory import MemoryLog
from ganger.streams.payloads import read_decision, read_record


class LiveCell:
    """Engine and intake over logs in memory."""

    def __init__(self, now_ns: int, name: str = "lab") -> None:
        self.now_ns = now_ns
        self.ledger = MemoryLog(LogIdentity(Stream.LEDGER, name, b"schemas", b""))
        self.decisions = MemoryLog(LogIdentity(Stream.DECISIONS, name, b"schemas", b""))
        self.engine = Engine.create(self.ledger, self.decisions)
        self.intake = Intake(name, "intake", pause_ns=None)
        self.engine.apply([OwnerClaimed(now_ns, "", None, "owner")])
        self.intake.claimed(self.ledger.end())
        self.engine.apply([self.intake.claim(now_ns)])

    def put(self, inputs: Iterable[Record]) -> list[Decision]:
        """Inputs of now, through the intake; their decisions."""
        records = [record for item in inputs for record in self.intake.accept(item, self.now_ns)]
        return self.engine.apply(records) if records else []

    def beat(self, reports: tuple[NodeReport, ...]) -> list[Decision]:
        """One heartbeat of these nodes."""
        return self.put([NodeHeartbeat(self.now_ns, "", None, reports)])

    def tick(self) -> list[Decision]:
        """Find silent nodes, let the time be now and a cycle run."""
        lost = self.intake.silence(self.now_ns)
        tick = Tick(self.now_ns, "", None, self.engine.state.epoch, True)
        return self.engine.apply([*lost, tick])

    def payloads(self, from_seq: int = 0) -> Iterator[tuple[int, bytes]]:
        """The ledger with its seqs."""
        for first, group in self.ledger.read_groups(from_seq):
            yield from enumerate(group, first)

    def records(self) -> list[Record]:
        """The ledger."""
        return [read_record(seq, payload) for seq, payload in self.payloads()]

    def decided(self, from_position: int = 0) -> list[Decision]:
        """The decisions."""
        return [
            read_decision(position, payload)
            for first, group in self.decisions.read_groups(from_position)
            for position, payload in enumerate(group, first)
        ]

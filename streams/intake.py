"""From inputs to ledger records: structure checked, the clock stamped, heartbeats thinned out.

With the ticker of the cell's owner the only writer of a ledger. It never judges against
scheduling state: whether a job is accepted, the kernel decides. It holds what nobody else does,
which nodes are heard (`liveness`), and has no clock: every call is told the time.

    heartbeat of a new node, or one that says something new -> NodeChanged
    heartbeat that changes nothing                           -> nothing
    no heartbeat for `silence_ns`                            -> NodeLost
    heartbeat of a lost node                                 -> NodeReturned
    any other input                                          -> itself, stamped
"""

from collections.abc import Callable

from msgspec.structs import replace

from ganger.schemas.codec import PAYLOAD_BYTES_MAX, decode_untrusted
from ganger.schemas.errors import PayloadRefused
from ganger.schemas.records import (
    FlagEnabled,
    FlavorConfigured,
    IntakeClaimed,
    JobCancelRequested,
    JobSubmitRequested,
    JobUpdateRequested,
    NodeChanged,
    NodeCordoned,
    NodeDrained,
    NodeHeartbeat,
    NodeLost,
    NodeReport,
    NodeReturned,
    NodeUncordoned,
    PodAdopted,
    PodCheckpointed,
    PodFailed,
    PodProgressed,
    PodReleased,
    PodResumed,
    PodStarted,
    PodSucceeded,
    PodSuspended,
    PolicyConfigured,
    QueueConfigured,
    Record,
    ReservationRequested,
    ZoneConfigured,
)
from ganger.streams.liveness import (
    SILENCE_NS_DEFAULT,
    Liveness,
    NodeView,
    canonical_report,
)
from ganger.streams.structure import (
    attempt_defect,
    event_defect,
    flavor_defect,
    job_defect,
    node_defect,
    policy_defect,
    queue_defect,
    report_defect,
    reservation_defect,
    zone_defect,
)

NOT_AN_INPUT = "not_an_input"
BAD_STRUCTURE = "bad_structure"

_CHECKS: dict[type[Record], Callable[[Record], str]] = {
    JobSubmitRequested: job_defect,
    JobCancelRequested: job_defect,
    JobUpdateRequested: job_defect,
    PodStarted: attempt_defect,
    PodProgressed: attempt_defect,
    PodCheckpointed: attempt_defect,
    PodSucceeded: attempt_defect,
    PodFailed: attempt_defect,
    PodReleased: attempt_defect,
    PodSuspended: attempt_defect,
    PodResumed: attempt_defect,
    PodAdopted: attempt_defect,
    NodeCordoned: node_defect,
    NodeUncordoned: node_defect,
    NodeDrained: node_defect,
    QueueConfigured: queue_defect,
    PolicyConfigured: policy_defect,
    ReservationRequested: reservation_defect,
    FlagEnabled: lambda record: "",
    FlavorConfigured: flavor_defect,
    ZoneConfigured: zone_defect,
}
"""What may come in beside heartbeats, with the check of its structure ("" = sound). Everything else
is written by intakes and owners alone."""


class InputRefused(ValueError):
    """An input is no such thing as intake takes.

    Attributes:
        error_class: for the dead letter's `ganger.error.class`: a value of `Refusal`, or
            `NOT_AN_INPUT`, or `BAD_STRUCTURE`.
        detail: what is wrong, with field and value.
    """

    def __init__(self, error_class: str, detail: str) -> None:
        super().__init__(f"{error_class}: {detail}")
        self.error_class = error_class
        self.detail = detail


class DeadLetter(InputRefused):
    """An input that goes to the dead-letter topic: the refusal with the very bytes.

    Attributes:
        cell: whose intake refused it.
        payload: as received.
    """

    def __init__(self, cell: str, payload: bytes, error_class: str, detail: str) -> None:
        super().__init__(error_class, detail)
        self.cell = cell
        self.payload = payload


class Intake:
    """The intake of one cell.

    First of all `claim` goes into the ledger and `claimed` says where; then inputs are taken.
    """

    def __init__(
        self,
        cell: str,
        name: str,
        *,
        silence_ns: int = SILENCE_NS_DEFAULT,
        pause_ns: int | None = SILENCE_NS_DEFAULT // 2,
    ) -> None:
        """An intake that has claimed nothing and knows no node.

        Args:
            cell: whose inputs it takes.
            name: its own, for people; claims are told apart by their seq.
            silence_ns: a node silent for so long is lost.
            pause_ns: see `Liveness`; a live intake asks `silence` far more often than this.
        """
        self.cell = cell
        self.name = name
        self._claim_seq = -1
        self._liveness = Liveness(silence_ns, pause_ns)

    def claim(self, now_ns: int) -> IntakeClaimed:
        """The record that takes the cell's heartbeats over; to be appended before all others."""
        self._liveness.listen_from(now_ns)
        return IntakeClaimed(self._liveness.now_ns, "", None, self.name)

    def claimed(self, seq: int) -> None:
        """The claim stands in the ledger at `seq`."""
        self._claim_seq = seq

    def listen_from(self, now_ns: int) -> None:
        """Nobody could be heard up to now, through no fault of theirs: silence counts from here."""
        self._liveness.listen_from(now_ns)

    def know(self, report: NodeReport, *, is_lost: bool = False) -> None:
        """A node as the published rows describe it; for all nodes, before the first input."""
        self._liveness.know(report, is_lost=is_lost)

    def accept(self, record: Record, now_ns: int) -> list[Record]:
        """The ledger records that an input makes, none where a heartbeat changes nothing.

        Raises:
            InputRefused: nothing of it was taken.
        """
        kind = record.__class__
        check = _CHECKS.get(kind)
        if check is None:
            if isinstance(record, NodeHeartbeat):
                return self._heartbeat(record, now_ns)
            raise InputRefused(
                NOT_AN_INPUT, f"{kind.__name__} is written by intake or by the owner, never sent"
            )
        defect = check(record)
        if not defect and record.event_id:
            defect = event_defect(record)
        if defect:
            raise InputRefused(BAD_STRUCTURE, f"{kind.__name__}.{defect}")
        if record.time_ns != now_ns:
            record = replace(record, time_ns=now_ns)
        return [record]

    def receive(
        self, payload: bytes, now_ns: int, *, max_bytes: int = PAYLOAD_BYTES_MAX
    ) -> list[Record]:
        """The same from the bytes of an untrusted producer.

        Raises:
            DeadLetter: the bytes hold no input; nothing of them was taken.
        """
        try:
            return self.accept(decode_untrusted(payload, max_bytes=max_bytes), now_ns)
        except PayloadRefused as error:
            raise DeadLetter(self.cell, payload, error.refusal.value, error.detail) from error
        except InputRefused as error:
            raise DeadLetter(self.cell, payload, error.error_class, error.detail) from error

    def silence(self, now_ns: int) -> list[Record]:
        """`NodeLost` for every node found silent just now, ascending by name.

        Asking is also how a live intake shows that it did not pause.
        """
        if self._claim_seq < 0:
            raise ValueError("claim: not yet in the ledger; append it and call claimed(seq) first")
        now_ns = self._liveness.look(now_ns)
        return [
            NodeLost(now_ns, "", None, node, self._claim_seq, silent_ns)
            for node, silent_ns in self._liveness.lose_silent()
        ]

    def next_loss_ns(self) -> int | None:
        """When `silence` will next find a node if nothing is heard; None without nodes."""
        return self._liveness.next_loss_ns()

    def _heartbeat(self, heartbeat: NodeHeartbeat, now_ns: int) -> list[Record]:
        """All reports of a frame are sound, or none is taken."""
        nodes = self._liveness.nodes
        defect = event_defect(heartbeat)
        if defect:
            raise InputRefused(BAD_STRUCTURE, f"NodeHeartbeat.{defect}")
        for index, report in enumerate(heartbeat.reports):
            view = nodes.get(report.node)
            if view is not None and view.raw is report:
                continue
            defect = report_defect(report)
            if defect:
                raise InputRefused(BAD_STRUCTURE, f"NodeHeartbeat.reports[{index}].{defect}")
        now_ns = self._liveness.look(now_ns)
        records: list[Record] = []
        for report in heartbeat.reports:
            kind = self._hear(report)
            if kind is not None:
                stands = nodes[report.node].forwarded
                # Without the frame's event id: the kernel takes one record of an id.
                records.append(kind(now_ns, "", heartbeat.source, stands))
        return records

    def _hear(self, report: NodeReport) -> type[NodeChanged] | type[NodeReturned] | None:
        """Take one report; the record that it makes, if it makes one."""
        nodes = self._liveness.nodes
        view = nodes.get(report.node)
        self._liveness.hear(report.node)
        if view is None:
            nodes[report.node] = NodeView(canonical_report(report), is_lost=False)
            nodes[report.node].raw = report
            return NodeChanged
        if view.is_lost:
            view.raw, view.forwarded, view.is_lost = report, canonical_report(report), False
            return NodeReturned
        if view.raw is report:
            return None
        view.raw = report
        canonical = canonical_report(report)
        if canonical == view.forwarded:
            return None
        view.forwarded = canonical
        return NodeChanged

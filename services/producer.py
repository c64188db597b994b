"""Sends events to a cell: jobs, heartbeats, what became of pods, what operators want.

Every event has an id. The same event with the same id may be sent again at any time, by any
process: it counts once. Events are buffered; `flush`, which the end of a `with` block calls, waits
until all are safe in Kafka. Acceptance is something else: whether a job is taken, decisions say.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from os import environ
from time import time_ns
from types import TracebackType
from typing import NamedTuple, Self
from uuid import uuid4

from msgspec.structs import replace

from ganger.schemas.encoding import encode_record
from ganger.schemas.enums import FailureKind
from ganger.schemas.records import (
    FlagEnabled,
    FlavorConfigured,
    JobCancelRequested,
    JobSubmitRequested,
    JobUpdateRequested,
    NodeCordoned,
    NodeDrained,
    NodeHeartbeat,
    NodeReport,
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
    RoleScale,
    ZoneConfigured,
)
from ganger.services.job_spec import JobSpec
from ganger.streams.intake import BAD_STRUCTURE, NOT_AN_INPUT, InputRefused, Intake
from ganger.streams.kafka.cluster.cells import read_placements
from ganger.streams.kafka.cluster.errors import KafkaFailed
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.cluster.topics import HEARTBEATS, INPUTS, TOPICS
from ganger.streams.kafka.wire.envelope import headers
from ganger.streams.kafka.wire.publisher import Publisher, PublishingStopped
from ganger.streams.kafka.wire.schema_registry import open_framing
from ganger.streams.structure import event_defect, report_defect

FRAME_NODES = 100
"""Reports in one record: framed, a worker takes some fifteen times as many per CPU-second."""

FRAME_BYTES_MAX = 1 << 19
"""A frame that is larger is sent in halves; Kafka's own limit is twice this."""

FLUSH_SECONDS = 35.0
"""How long `flush` waits by default: longer than a delivery may take."""

_BY_KEY = -1
"""The partition that the client's partitioner chooses, by the key."""

_TOPIC_OF = {kind: name for name in INPUTS for kind in TOPICS[name].records}
_SHOWN_COUNT_MAX = 10

OnDelivered = Callable[[str], None]
"""Told the id of an event that is safe."""


class Event(NamedTuple):
    """An event that was sent: its id, and what it is, for people."""

    event_id: str
    what: str


class NotDelivered(KafkaFailed):
    """Events are not known to be safe. Sent again under their ids, they count once.

    Attributes:
        events: which, in the order in which they were sent.
    """

    def __init__(self, bootstrap: str, events: Sequence[Event], cause: str) -> None:
        self.events = tuple(events)
        shown = ", ".join(f"{event.what} ({event.event_id})" for event in events[:_SHOWN_COUNT_MAX])
        more = (
            f" and {len(events) - _SHOWN_COUNT_MAX} more" if len(events) > _SHOWN_COUNT_MAX else ""
        )
        super().__init__(
            f"{bootstrap}: {len(events)} events were not delivered: {shown}{more} ({cause}). "
            "Send them again with a new producer, under the same ids"
        )


class Producer:
    """Sends events to one cell. One thread uses it.

    Methods return the id of their event: the one given, or a fresh one. They raise `InputRefused`,
    which names field, value and remedy, for an event that intake would refuse, and `NotDelivered`
    once an earlier event has failed.
    """

    def __init__(
        self,
        kafka: KafkaSettings | str,
        cell: str,
        *,
        name: str = "ganger-client",
        on_delivered: OnDelivered | None = None,
    ) -> None:
        """Connect.

        Args:
            kafka: `HOST:PORT`, or settings with logins and the like.
            cell: to which all events go.
            name: what brokers call this client; also stands as `requested_by` in requests.
            on_delivered: called, in `poll`, `flush` or a later `send`, for each event that is safe.

        Raises:
            KafkaFailed: settings that are none.
        """
        if isinstance(kafka, str):
            kafka = KafkaSettings.from_arguments(kafka, None, environ)
        self.cell = cell
        self._name = name
        self._settings = kafka
        self._on_delivered = on_delivered
        self._cause = ""
        self._key = cell.encode()
        self._sound: dict[str, NodeReport] = {}  # reports that were checked, by node
        self._under_way: dict[int, Event] = {}
        self._count = 0
        self._heartbeats_at: int | None = None
        self._check = Intake(cell, name)
        self._framing = open_framing(kafka, INPUTS)
        self._publisher = Publisher(kafka, name=name, on_failure=self._failed)

    # ---- jobs ------------------------------------------------------------------------------------

    def submit(self, job: JobSpec | JobSubmitRequested, *, event_id: str = "") -> str:
        """Submit a job. Its key is unique in the cell, so that a second one of it is refused.

        Raises:
            InputError: the spec says something that no job can be.
        """
        return self.send(job.request() if isinstance(job, JobSpec) else job, event_id=event_id)

    def cancel(self, job: str, *, event_id: str = "") -> str:
        """End a job: a waiting one at once, a running one by evicting its pods."""
        return self.send(JobCancelRequested(0, "", None, job, self._name), event_id=event_id)

    def update(
        self,
        job: str,
        *,
        priority: int | None = None,
        held: bool | None = None,
        scale: Iterable[RoleScale] = (),
        event_id: str = "",
    ) -> str:
        """Change a job that has not ended: its priority, hold or release it, the size of roles."""
        record = JobUpdateRequested(0, "", None, job, self._name, priority, held, tuple(scale))
        return self.send(record, event_id=event_id)

    # ---- nodes and pods --------------------------------------------------------------------------

    def heartbeat(self, reports: Iterable[NodeReport]) -> list[str]:
        """Say what nodes have and run: all that their agents know, every ten seconds.

        A node that is silent for 40 s is lost. Reports travel in frames of `FRAME_NODES`.

        Returns:
            The ids of the frames.
        """
        found = tuple(reports)
        return [
            event_id
            for first in range(0, len(found), FRAME_NODES)
            for event_id in self._frame(found[first : first + FRAME_NODES])
        ]

    def started(self, job: str, pod: int, attempt: int, node: str, *, event_id: str = "") -> str:
        """An attempt runs."""
        now_ns = time_ns()
        record = PodStarted(now_ns, "", None, job, pod, attempt, node, now_ns)
        return self.send(record, event_id=event_id)

    def progressed(
        self, job: str, pod: int, attempt: int, progress_milli: int, *, event_id: str = ""
    ) -> str:
        """An attempt is so far, in thousandths."""
        now_ns = time_ns()
        record = PodProgressed(now_ns, "", None, job, pod, attempt, progress_milli, now_ns)
        return self.send(record, event_id=event_id)

    def checkpointed(
        self, job: str, pod: int, attempt: int, progress_milli: int, *, event_id: str = ""
    ) -> str:
        """An attempt has saved its state at this progress, in thousandths."""
        now_ns = time_ns()
        record = PodCheckpointed(now_ns, "", None, job, pod, attempt, progress_milli, now_ns)
        return self.send(record, event_id=event_id)

    def succeeded(self, job: str, pod: int, attempt: int, *, event_id: str = "") -> str:
        """An attempt ended well; its cards are free."""
        now_ns = time_ns()
        record = PodSucceeded(now_ns, "", None, job, pod, attempt, now_ns)
        return self.send(record, event_id=event_id)

    def failed(
        self,
        job: str,
        pod: int,
        attempt: int,
        failure: FailureKind = FailureKind.ERROR,
        *,
        exit_code: int = 1,
        message: str = "",
        event_id: str = "",
    ) -> str:
        """An attempt ended badly; its cards are free."""
        now_ns = time_ns()
        record = PodFailed(now_ns, "", None, job, pod, attempt, failure, exit_code, message, now_ns)
        return self.send(record, event_id=event_id)

    def released(self, job: str, pod: int, attempt: int, *, event_id: str = "") -> str:
        """An evicted attempt is gone; its cards are free."""
        now_ns = time_ns()
        record = PodReleased(now_ns, "", None, job, pod, attempt, now_ns)
        return self.send(record, event_id=event_id)

    def suspended(
        self, job: str, pod: int, attempt: int, progress_milli: int = 0, *, event_id: str = ""
    ) -> str:
        """An attempt has stopped as it was told, and can go on; its cards are free."""
        now_ns = time_ns()
        record = PodSuspended(now_ns, "", None, job, pod, attempt, progress_milli, now_ns)
        return self.send(record, event_id=event_id)

    def resumed(self, job: str, pod: int, attempt: int, *, event_id: str = "") -> str:
        """A suspended attempt runs again."""
        now_ns = time_ns()
        record = PodResumed(now_ns, "", None, job, pod, attempt, now_ns)
        return self.send(record, event_id=event_id)

    def adopted(self, pod: PodAdopted, *, event_id: str = "") -> str:
        """A pod ran already when ganger took its node over."""
        return self.send(pod, event_id=event_id)

    # ---- operators -------------------------------------------------------------------------------

    def configure_queue(self, queue: QueueConfigured, *, event_id: str = "") -> str:
        """Make, change or remove a queue."""
        return self.send(queue, event_id=event_id)

    def configure_flavor(self, flavor: FlavorConfigured, *, event_id: str = "") -> str:
        """Make, change or remove a flavor."""
        return self.send(flavor, event_id=event_id)

    def configure_zone(self, zone: ZoneConfigured, *, event_id: str = "") -> str:
        """Set the times of a zone anew, or remove it."""
        return self.send(zone, event_id=event_id)

    def configure_policy(self, policy: PolicyConfigured, *, event_id: str = "") -> str:
        """Put a policy in force from the next cycle on."""
        return self.send(policy, event_id=event_id)

    def cordon(self, node: str, *, event_id: str = "") -> str:
        """Place no new pods on a node."""
        return self.send(NodeCordoned(0, "", None, node, self._name), event_id=event_id)

    def uncordon(self, node: str, *, event_id: str = "") -> str:
        """End a cordon or a drain."""
        return self.send(NodeUncordoned(0, "", None, node, self._name), event_id=event_id)

    def drain(self, node: str, *, grace_ns: int = 0, event_id: str = "") -> str:
        """Place no new pods on a node, and evict those that are there."""
        return self.send(NodeDrained(0, "", None, node, self._name, grace_ns), event_id=event_id)

    def reserve(self, reservation: ReservationRequested, *, event_id: str = "") -> str:
        """Keep nodes or cards free for a time, or give them back."""
        return self.send(reservation, event_id=event_id)

    def enable_flag(self, flag: int, *, event_id: str = "") -> str:
        """Switch on a numbered change of decision logic."""
        return self.send(FlagEnabled(0, "", None, flag), event_id=event_id)

    # ---- sending ---------------------------------------------------------------------------------

    def send(self, record: Record, *, event_id: str = "") -> str:
        """Send any event but a heartbeat; its time of 0 becomes now.

        Args:
            record: what happened or is wanted. Its own `source` must be None.
            event_id: stands before the record's own; a fresh one where both are empty.
        """
        if isinstance(record, NodeHeartbeat):
            raise InputRefused(NOT_AN_INPUT, "NodeHeartbeat: give its reports to heartbeat()")
        event_id = event_id or record.event_id or str(uuid4())
        now_ns = record.time_ns or time_ns()
        record = replace(record, time_ns=now_ns, event_id=event_id)
        self._check.accept(record, now_ns)
        self._hand_over(record, self._framing.outgoing(encode_record(record)), _BY_KEY)
        return event_id

    def poll(self) -> None:
        """Hear what became of earlier events; call it now and then where nothing is sent."""
        try:
            self._publisher.poll()
        except PublishingStopped as error:
            raise self._not_delivered(str(error)) from error

    def flush(self, timeout_s: float = FLUSH_SECONDS) -> None:
        """Wait until everything that was sent is safe.

        Raises:
            NotDelivered: lists what is not.
        """
        try:
            self._publisher.flush(timeout_s)
        except PublishingStopped as error:
            raise self._not_delivered(str(error)) from error

    @property
    def undelivered(self) -> list[Event]:
        """What was sent and is not known to be safe, in the order of sending."""
        return list(self._under_way.values())

    def __enter__(self) -> Self:
        """Return the producer."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Flush, unless an error is under way already."""
        if kind is None:
            self.flush()

    def _frame(self, reports: tuple[NodeReport, ...]) -> list[str]:
        """One frame of a heartbeat, or two where it is too large for one."""
        heartbeat = NodeHeartbeat(time_ns(), str(uuid4()), None, reports)
        self._check_heartbeat(heartbeat)
        payload = self._framing.outgoing(encode_record(heartbeat))
        if len(payload) > FRAME_BYTES_MAX and len(reports) > 1:
            half = len(reports) // 2
            return self._frame(reports[:half]) + self._frame(reports[half:])
        self._hand_over(heartbeat, payload, self._heartbeat_partition())
        return [heartbeat.event_id]

    def _check_heartbeat(self, heartbeat: NodeHeartbeat) -> None:
        """What intake checks, and no report twice."""
        defect = event_defect(heartbeat)
        for index, report in enumerate(heartbeat.reports):
            if defect or self._sound.get(report.node) is report:
                continue
            defect = report_defect(report)
            if defect:
                defect = f"reports[{index}].{defect}"
            else:
                self._sound[report.node] = report
        if defect:
            raise InputRefused(BAD_STRUCTURE, f"NodeHeartbeat.{defect}")

    def _heartbeat_partition(self) -> int:
        """The cell's own partition, which saves a detour; any other is right too."""
        if self._heartbeats_at is None:
            try:
                placement = read_placements(self._settings).get(self.cell)
            except KafkaFailed:
                placement = None  # without the right to read them
            self._heartbeats_at = _BY_KEY if placement is None else placement.partition
        return self._heartbeats_at

    def _hand_over(self, record: Record, payload: bytes, partition: int) -> None:
        kind = type(record).__name__
        name = getattr(record, "job", "") or getattr(record, "queue", "")
        what = f"{kind} {name or getattr(record, 'node', '')}".rstrip()
        self._count = number = self._count + 1
        self._under_way[number] = Event(record.event_id, what)
        try:
            self._publisher.send(
                HEARTBEATS if kind == "NodeHeartbeat" else _TOPIC_OF[kind],
                partition,
                self._key,
                payload,
                headers(kind, self.cell, record.event_id, record.time_ns),
                partial(self._delivered, number),
            )
        except PublishingStopped as error:
            raise self._not_delivered(str(error)) from error

    def _delivered(self, number: int, offset: int) -> None:
        event = self._under_way.pop(number)
        if self._on_delivered is not None:
            self._on_delivered(event.event_id)

    def _failed(self, cause: str) -> None:
        self._cause = cause

    def _not_delivered(self, error: str) -> NotDelivered:
        return NotDelivered(self._settings.bootstrap, self.undelivered, self._cause or error)

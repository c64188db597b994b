"""Jobs submitted through the client to several cells, some of them changed or cancelled later.

An event counts as acknowledged when the client's delivery report says so. What a producer could not
deliver is sent again by a new one, under the same ids, as the client's documentation asks.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from threading import Event, Thread

from ganger.replay.workload import DEFAULT_QUEUE
from ganger.schemas.enums import QueueState
from ganger.schemas.records import QueueConfigured
from ganger.services.answers import Answers
from ganger.services.client import JobSpec, KafkaSettings, NotDelivered, Producer, RetrySpec
from ganger.streams.presets.loader import load_policy

RATE_DEFAULT = 20
"""Jobs a second, over all cells."""

_CANCELLED_EVERY = 11
_UPDATED_EVERY = 7
_FLUSH_S = 10.0
_RETRY = RetrySpec(limit=20, backoff="1s", backoff_max="2s")

_ANSWER_S = 120.0

Send = Callable[[Producer], object]


def configure(settings: KafkaSettings, cells: Iterable[str]) -> None:
    """Put a policy and a queue in force; a worker must run.

    Raises:
        AssertionError: one is refused.
        Unanswered: no worker takes them in time.
    """
    for cell in cells:
        queue = QueueConfigured(
            *(0, "", None, DEFAULT_QUEUE, "", 1, 0, (), (), (), (), ()),
            *(True, QueueState.OPEN, False),
        )
        with Answers(settings, cell) as answers:
            with Producer(settings, cell) as producer:
                sent = [
                    producer.configure_policy(load_policy()),
                    producer.configure_queue(queue),
                ]
            for answer in answers.wait(sent, _ANSWER_S).values():
                assert answer.refusal is None, answer.refusal


class _Sender:
    """Events of one cell on their way."""

    def __init__(self, settings: KafkaSettings, cell: str) -> None:
        self.acknowledged: set[str] = set()
        self.waiting: dict[str, Send] = {}  # by event id, in the order of sending
        self.failures = 0
        self._settings = settings
        self._cell = cell
        self._producer = self._connect()

    def send(self, event_id: str, send: Send) -> None:
        """Send an event for the first time."""
        self.waiting[event_id] = send
        self._try(partial(self._send, send))

    def poll(self) -> None:
        """Hear of deliveries."""
        self._try(self._producer.poll)

    def flush(self) -> None:
        """Wait for deliveries; call it until nothing is waiting."""
        self._try(lambda: self._producer.flush(_FLUSH_S))

    def _try(self, call: Callable[[], object]) -> None:
        try:
            call()
        except NotDelivered:
            self.failures += 1
            self._producer = self._connect()
            for send in list(self.waiting.values()):
                self._try(partial(self._send, send))

    def _send(self, send: Send) -> None:
        send(self._producer)

    def _connect(self) -> Producer:
        return Producer(self._settings, self._cell, name="load", on_delivered=self._delivered)

    def _delivered(self, event_id: str) -> None:
        self.acknowledged.add(event_id)
        self.waiting.pop(event_id, None)


class Load(Thread):
    """Submits jobs to cells in turn, in a thread of its own."""

    def __init__(
        self,
        settings: KafkaSettings,
        cells: Sequence[str],
        *,
        rate: float = RATE_DEFAULT,
        count: int | None = None,
        seed: int = 1,
    ) -> None:
        """A load that `start` starts: so many jobs a second, in all, until `finish` or `count`."""
        super().__init__(name="load", daemon=True)
        self.jobs: dict[str, set[str]] = {cell: set() for cell in cells}
        self._cells = list(cells)
        self._pause_s = 1 / rate
        self._count = count
        self._chance = random.Random(seed)
        self._senders = {cell: _Sender(settings, cell) for cell in cells}
        self._is_finishing = Event()
        self._error: BaseException | None = None

    @property
    def acknowledged(self) -> dict[str, set[str]]:
        """Ids of the events that are safe, by cell. To be asked when the load is over."""
        return {cell: sender.acknowledged for cell, sender in self._senders.items()}

    @property
    def submitted_count(self) -> int:
        """Jobs submitted so far."""
        return sum(map(len, self.jobs.values()))

    @property
    def failures(self) -> int:
        """Producers that had to be replaced."""
        return sum(sender.failures for sender in self._senders.values())

    def run(self) -> None:
        """See the class."""
        try:
            self._submit_all()
            while any(sender.waiting for sender in self._senders.values()):
                for sender in self._senders.values():
                    sender.flush()
        except BaseException as error:
            self._error = error

    def finish(self, seconds: float) -> None:
        """Submit no more, and wait until everything is acknowledged.

        Raises:
            AssertionError: it is not, in time.
        """
        self._is_finishing.set()
        self.await_all(seconds)

    def await_all(self, seconds: float) -> None:
        """Wait until everything is submitted and acknowledged.

        Raises:
            AssertionError: it is not, in time.
        """
        self.join(seconds)
        assert not self.is_alive(), f"the load is not acknowledged within {seconds:g} s"
        if self._error is not None:
            raise AssertionError("the load failed") from self._error

    def _submit_all(self) -> None:
        number = 0
        while not self._is_finishing.is_set() and number != self._count:
            cell = self._cells[number % len(self._cells)]
            self._submit(cell, number)
            number += 1
            for sender in self._senders.values():
                sender.poll()
            self._is_finishing.wait(self._pause_s)

    def _submit(self, cell: str, number: int) -> None:
        sender, chance = self._senders[cell], self._chance
        job = f"job-{number:06d}"
        is_gang = chance.random() < 0.3
        spec = JobSpec(
            job,
            user=chance.choice(("ann", "bob", "eve")),
            replicas=chance.choice((2, 3)) if is_gang else 1,
            cards=chance.choice((1, 2, 4)),
            estimate=f"{chance.randint(4, 40)}s",
            retry=_RETRY,
        )
        self.jobs[cell].add(job)
        sender.send(f"submit-{job}", lambda to: to.submit(spec, event_id=f"submit-{job}"))
        earlier = f"job-{number - 2 * len(self._cells):06d}"
        if earlier not in self.jobs[cell]:
            return
        if number % _CANCELLED_EVERY == 0:
            sender.send(f"cancel-{job}", lambda to: to.cancel(earlier, event_id=f"cancel-{job}"))
        elif number % _UPDATED_EVERY == 0:
            sender.send(
                f"update-{job}",
                lambda to: to.update(earlier, priority=number % 5, event_id=f"update-{job}"),
            )

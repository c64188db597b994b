"""A thread that ends the process when it no longer gets on.

Faust's consumers can stop in silence, a thread can hang, a broker's restart can leave a fetcher
behind. None of it raises anything, so the only sign is that there is something to do and nobody
does it. What there is to do is asked of Kafka itself, by a consumer of this thread's own.
"""

import logging
from collections.abc import Callable, Mapping
from threading import Event, Thread
from time import monotonic_ns
from typing import NamedTuple, Protocol

from confluent_kafka import KafkaException

from ganger.streams.kafka.wire.acks import Place
from ganger.streams.kafka.worker.pulse import Pulse

PATIENCE_NS = 30_000_000_000
"""How long a partition may hold something that nobody takes, and a thread give no sign of life."""

CLOSED_NS_MAX = 900_000_000_000
"""How long no partition may be served: rebalances and the recovery of tables take their time."""

INTERVAL_S = 3.0

log = logging.getLogger("ganger.worker")


class Ends(Protocol):
    """Says how far partitions go."""

    def end(self, place: Place) -> int:
        """Offset that the next message will get.

        Raises:
            KafkaException: no answer.
        """

    def committed(self, places: list[Place]) -> dict[Place, int]:
        """Offset from which the worker's group reads on; the oldest, if it never committed.

        Raises:
            KafkaException: no answer.
        """

    def first_from(self, place: Place, offset: int) -> int:
        """The first offset, from one on, that has a message; the partition's end where none has:
        the last ones may be no messages but marks of a producer's transactions.

        Raises:
            KafkaException: no answer.
        """


class Watched(NamedTuple):
    """What is watched. All of it is called in the watchdog's thread."""

    pulses: Mapping[str, Pulse]
    threads: Mapping[str, Callable[[], bool]]
    """Whether each is alive."""
    taken: Callable[[], dict[Place, int]]
    """Next offset of each partition that is to be read on, as far as this process knows; -1 where
    nothing was read yet."""
    is_serving: Callable[[], bool]
    """Whether messages are taken at all now."""


class Watchdog(Thread):
    """Watches a worker. See the module."""

    def __init__(
        self,
        watched: Watched,
        ends: Ends,
        failed: Callable[[str], None],
        clock_ns: Callable[[], int] = monotonic_ns,
        told: Callable[[dict[Place, int]], None] | None = None,
    ) -> None:
        """A thread that `start` starts.

        Args:
            watched: see there.
            ends: asked for the ends of partitions.
            failed: ends the process.
            clock_ns: a clock that never steps.
            told: gets how many messages of each partition wait to be taken, at each look.
        """
        super().__init__(name="ganger-watchdog", daemon=True)
        self._watched = watched
        self._ends = ends
        self._failed = failed
        self._clock_ns = clock_ns
        self._told = told
        self._standing: dict[Place, tuple[int, int]] = {}  # next offset, and since when
        self._serving_ns = clock_ns()
        self._stopping = Event()

    def run(self) -> None:
        """Look now and then, until `stop`."""
        while not self._stopping.wait(INTERVAL_S):
            self.look()

    def stop(self) -> None:
        """Watch no more."""
        self._stopping.set()

    def look(self) -> None:
        """Look once."""
        for name, is_alive in self._watched.threads.items():
            if not is_alive():
                self._failed(f"watchdog: {name} has ended")
        for name, pulse in self._watched.pulses.items():
            if pulse.silent_ns() > PATIENCE_NS:
                seconds = pulse.silent_ns() // 1_000_000_000
                self._failed(f"watchdog: {name} has stood still for {seconds} s")
        now_ns = self._clock_ns()
        if not self._watched.is_serving():
            self._standing = {}
            if now_ns - self._serving_ns > CLOSED_NS_MAX:
                self._failed("watchdog: nothing was served for too long")
            return
        self._serving_ns = now_ns
        try:
            self._look_at_partitions(now_ns)
        except KafkaException:
            self._standing = {}  # no broker answers: there is nothing that could be taken

    def _look_at_partitions(self, now_ns: int) -> None:
        taken = self._watched.taken()
        unread = [place for place, offset in taken.items() if offset < 0]
        if unread:
            taken.update(self._ends.committed(unread))
        standing = {}
        waiting: dict[Place, int] = {}
        for place, offset in taken.items():
            before = self._standing.get(place)
            if before is not None and before[0] == offset:
                since_ns = before[1]
            else:
                since_ns = now_ns
            end = self._ends.end(place)
            waiting[place] = max(0, end - offset)
            if end > offset:
                standing[place] = offset, since_ns
                if now_ns - since_ns > PATIENCE_NS and self._ends.first_from(place, offset) < end:
                    self._failed(
                        f"watchdog: {place[0]}/{place[1]} goes on to {end} and nobody takes "
                        f"offset {offset}"
                    )
        self._standing = standing
        if self._told is not None:
            self._told(waiting)

"""What desk and cells ask of a producer: `Publisher` is one, and tests have theirs."""

from collections.abc import Callable
from typing import Protocol

from ganger.streams.kafka.wire.envelope import Headers


class Outlet(Protocol):
    """Writes records to partitions, in the order of `send`."""

    def send(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        on_delivered: Callable[[int], None] | None = None,
    ) -> None:
        """Hand a record over; `on_delivered` is called with its offset once it is safe."""

    def poll(self, timeout_s: float = 0.0) -> int:
        """Serve what was reported about deliveries."""

    def pending_count(self) -> int:
        """Records sent and not yet reported about."""

    def flush(self, timeout_s: float = ...) -> None:
        """Wait until every record sent is safe."""

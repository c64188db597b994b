"""Signs of life between threads, and the one way in which a worker gives up.

A worker is crash-only: what it does not understand ends the process, and the next one restores from
the ledger. So there is no repair anywhere that could be wrong.
"""

import logging
import os
from time import monotonic_ns
from typing import NoReturn

GAVE_UP = 70
"""Exit code: EX_SOFTWARE. A supervisor starts the worker again."""

log = logging.getLogger("ganger.worker")


def give_up(reason: str) -> NoReturn:
    """Say why in one line and end the process at once, whatever its threads are doing."""
    try:
        log.critical("giving_up reason=%r", reason)
        for handler in logging.getLogger().handlers:
            handler.flush()
    finally:
        os._exit(GAVE_UP)


class Pulse:
    """When a thread last showed that it runs. Written by one thread, read by others."""

    def __init__(self) -> None:
        """It runs now."""
        self._beaten_ns = monotonic_ns()

    def beat(self) -> None:
        """The thread runs."""
        self._beaten_ns = monotonic_ns()

    def silent_ns(self) -> int:
        """For how long it did not say so."""
        return monotonic_ns() - self._beaten_ns

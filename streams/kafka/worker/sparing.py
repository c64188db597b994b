"""What libraries say again and again, said now and then: a broker that is away is worth a line, not
seventy a second.
"""

import logging
from collections.abc import Callable, Iterable
from time import monotonic

EVERY_S = 10.0
"""A line of a library is not written again for so long."""

_LINES_MAX = 1000


class Sparing(logging.Filter):
    """Lets a line of some loggers through once in a while; for a handler."""

    def __init__(self, libraries: Iterable[str], clock_s: Callable[[], float] = monotonic) -> None:
        """Nothing was said yet.

        Args:
            libraries: names of loggers, with all below them; others say what they will.
            clock_s: a clock that never steps.
        """
        super().__init__()
        self._libraries = frozenset(libraries)
        self._clock_s = clock_s
        self._said: dict[tuple[str, int, str], tuple[float, int]] = {}  # when, left out since

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is written; it then tells how many like it were not."""
        if record.name.partition(".")[0] not in self._libraries:
            return True
        line = record.name, record.levelno, str(record.msg)
        now_s = self._clock_s()
        said_s, left_out = self._said.get(line, (now_s - EVERY_S, 0))
        if now_s - said_s < EVERY_S:
            self._said[line] = said_s, left_out + 1
            return False
        if len(self._said) >= _LINES_MAX:
            self._said.clear()
        self._said[line] = now_s, 0
        if left_out:
            record.msg = f"{record.msg} (and {left_out} more like this)"
        return True

"""Which messages of the input topics are done with: everything they led to is on Kafka.

Messages of a partition are opened in offset order and may be finished in any; what may be committed
is the end of the finished run at the front. So a commit never passes a message whose records might
still be lost, whatever order deliveries are reported in.

Why not Faust's own acknowledgements: a message that a stream still holds when partitions are taken
away is skipped and acknowledged all the same (0.15.3, `Stream.__aiter__`), and the commit that
follows after the rebalance passes it although nobody handled it.

Nor does Faust hand messages over in order after a rebalance: what was fetched before it sought the
committed offset may come first, and what was fetched before and after it comes twice. `admits` says
which are to be handled, so that none is left out and none comes out of its turn.
"""

from collections import deque
from collections.abc import Callable, Mapping

Place = tuple[str, int]
"""A topic and a partition of it."""


class Pending:
    """A message that is being handled: done once everything it waits for has come."""

    __slots__ = ("_left", "_line", "offset")

    def __init__(self, line: "AckLine", offset: int) -> None:
        self.offset = offset
        self._line = line
        self._left = 1  # whoever handles it

    @property
    def is_done(self) -> bool:
        """Whether nothing is waited for any more."""
        return self._left == 0

    def expect(self) -> None:
        """One more thing to wait for. Before the last one came."""
        assert self._left > 0, self.offset
        self._left += 1

    def done(self, offset: int = -1) -> None:
        """One of them came: a delivery (`offset` is where, and not looked at), or the handling."""
        assert self._left > 0, self.offset
        self._left -= 1
        if not self._left:
            self._line.advance()


class AckLine:
    """The messages of one partition, from the first one not done to the last one opened."""

    __slots__ = ("_begin", "_is_sure", "_open", "_taken", "next_offset")

    def __init__(self, begin: int = -1) -> None:
        """`begin`: offset from which the partition is read; -1: from whatever comes first."""
        self.next_offset = -1  # one past the last message of the finished run; -1: none finished
        self._open: deque[Pending] = deque()
        self._taken = -1
        self._begin = begin
        self._is_sure = begin < 0  # whether there is a message at `begin`

    def __len__(self) -> int:
        """Messages opened that cannot be committed yet."""
        return len(self._open)

    @property
    def due_offset(self) -> int:
        """From where on messages are to be opened; -1: not known."""
        return self._taken + 1 if self._taken >= 0 else self._begin

    @property
    def taken_offset(self) -> int:
        """The last message opened; -1: none was."""
        return self._taken

    def admits(self, offset: int, first_from: Callable[[int], int]) -> bool:
        """Whether a message is the next one, so that it is to be opened.

        Args:
            offset: the message's.
            first_from: the first offset, from one on, that has a message; asked at most once.
        """
        if offset <= self._taken or offset < self._begin:
            return False  # it came before, or belongs to what was committed
        if self._taken >= 0 or offset == self._begin or self._begin < 0:
            return True  # offsets that are left out on the way are no messages
        if not self._is_sure:
            self._begin = first_from(self._begin)
            self._is_sure = True
        return offset <= self._begin

    def open(self, offset: int) -> Pending:
        """Begin with a message.

        Raises:
            ValueError: it does not come after the one before.
        """
        if offset <= self._taken:
            raise ValueError(f"offset {offset} after {self._taken}: messages must come in order")
        self._taken = offset
        pending = Pending(self, offset)
        self._open.append(pending)
        return pending

    def advance(self) -> None:
        """Take what is done off the front."""
        waiting = self._open
        while waiting and waiting[0].is_done:
            self.next_offset = waiting.popleft().offset + 1


class Acks:
    """The lines of all partitions that a worker reads."""

    def __init__(self, first_from: Callable[[Place, int], int] | None = None) -> None:
        """No partition is read.

        Args:
            first_from: the first offset of a partition, from one on, that has a message.
        """
        self._first_from = first_from
        self._lines: dict[Place, AckLine] = {}
        self._committed: dict[Place, int] = {}

    def begin(self, offsets: Mapping[Place, int]) -> None:
        """These partitions are read from these offsets."""
        for place, offset in offsets.items():
            self._lines[place] = AckLine(offset)

    def admits(self, place: Place, offset: int) -> bool:
        """Whether a message is the next one of its partition, so that it is to be opened.

        One that is not comes again in its turn, or came before.
        """
        line = self._lines.get(place)
        if line is None:
            return True

        def first_from(begin: int) -> int:
            return begin if self._first_from is None else self._first_from(place, begin)

        return line.admits(offset, first_from)

    def open(self, place: Place, offset: int) -> Pending:
        """Begin with a message of a partition.

        Raises:
            ValueError: it does not come after the one before.
        """
        line = self._lines.get(place)
        if line is None:
            line = self._lines[place] = AckLine()
        return line.open(offset)

    def due(self) -> dict[Place, int]:
        """From where on each partition is to be read, as far as that is known."""
        offsets = {place: line.due_offset for place, line in self._lines.items()}
        return {place: offset for place, offset in offsets.items() if offset >= 0}

    def taken_offset(self, place: Place) -> int:
        """The last message of a partition that was opened; -1: none was."""
        line = self._lines.get(place)
        return -1 if line is None else line.taken_offset

    def waiting_count(self) -> int:
        """Messages that cannot be committed yet."""
        return sum(map(len, self._lines.values()))

    def committable(self) -> dict[Place, int]:
        """What may be committed and was not: partition to the offset of its next message."""
        return {
            place: line.next_offset
            for place, line in self._lines.items()
            if line.next_offset > self._committed.get(place, -1)
        }

    def committed(self, offsets: dict[Place, int]) -> None:
        """These commits were made."""
        for place, offset in offsets.items():
            if place in self._lines:
                self._committed[place] = offset

    def forget(self) -> None:
        """All partitions were taken away. Deliveries still under way count for nothing any more:
        the messages are read again by whoever gets the partitions.
        """
        self._lines.clear()
        self._committed.clear()

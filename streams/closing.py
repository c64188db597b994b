"""Things that are held open: `with` closes them."""

from types import TracebackType
from typing import Self


class Closing:
    """Base of what has `close` and may be used in a `with`, which then calls it."""

    __slots__ = ()

    def close(self) -> None:
        """Give it up; more than once does no harm."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

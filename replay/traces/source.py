"""Files of users, read once: bounds, digest, lines, and the error that names a place in them.

A file is read whole and hashed before anything is parsed, so the digest is that of the very bytes
that were understood. Text is then given out line by line; a gzip stream is expanded on the way and
never held whole, so a small file cannot ask for more memory than one line.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NoReturn

from msgspec import Struct

FILE_BYTES_MAX = 1 << 30
"""Most bytes that a file may have, and most that it may expand to; the largest log of the Parallel
Workloads Archive expands to less than a third."""

LINE_BYTES_MAX = 1 << 16
"""Longest line; lines of real traces have less than 300 bytes."""

_GZIP_MAGIC = b"\x1f\x8b"
_UTF8_MARK = b"\xef\xbb\xbf"


class InputError(ValueError):
    """A file or an argument of a user cannot be used. The message names place, value and remedy.

    Attributes:
        place: file name with line number, or the argument's name.
    """

    def __init__(self, place: str, problem: str, remedy: str) -> None:
        super().__init__(f"{place}: {problem}; {remedy}")
        self.place = place


class Source(Struct, frozen=True):
    """One file's bytes as read. `digest` is the hex SHA-256 of `data`, compressed or not."""

    path: str
    data: bytes
    digest: str

    @property
    def name(self) -> str:
        """The file's name without its folder."""
        return os.path.basename(self.path)

    def refuse(self, line: int, column: str, value: str, remedy: str) -> NoReturn:
        """Raises the error for one value of one line (lines count from 1)."""
        shown = value if len(value) <= 80 else value[:77] + "..."
        raise InputError(f"{self.path}:{line}", f"column {column} is {shown!r}", remedy)

    def lines(
        self,
        encoding: str = "utf-8",
        *,
        text_bytes_max: int = FILE_BYTES_MAX,
        line_bytes_max: int = LINE_BYTES_MAX,
    ) -> Iterator[tuple[int, str]]:
        """Every line with its number from 1, without its end and without a byte order mark.

        Raises:
            InputError: damaged gzip, a line or a text that is too long, bytes not in `encoding`.
        """
        number = 0
        left_bytes = text_bytes_max
        with self._open() as stream:
            while True:
                try:
                    line = stream.readline(line_bytes_max + 1)
                except (OSError, EOFError, zlib.error) as error:
                    raise InputError(
                        f"{self.path}:{number + 1}",
                        f"the gzip data is damaged or cut short ({error})",
                        "fetch the file again, or expand it with `gzip -d` to see what is left",
                    ) from error
                if not line:
                    return
                number += 1
                left_bytes -= len(line)
                if len(line) > line_bytes_max:
                    raise InputError(
                        f"{self.path}:{number}",
                        f"the line is longer than {line_bytes_max} bytes",
                        "give a text file with one job or node per line",
                    )
                if left_bytes < 0:
                    raise InputError(
                        f"{self.path}:{number}",
                        f"the text is longer than {text_bytes_max} bytes",
                        "split the file into smaller ones",
                    )
                if number == 1:
                    line = line.removeprefix(_UTF8_MARK)
                line = line.rstrip(b"\r\n")
                if b"\r" in line:
                    raise InputError(
                        f"{self.path}:{number}",
                        "a carriage return stands inside the line",
                        "end lines with a line feed; `tr '\\r' '\\n'` mends a file of old",
                    )
                try:
                    yield number, line.decode(encoding)
                except UnicodeDecodeError as error:
                    raise InputError(
                        f"{self.path}:{number}",
                        f"the line is not {encoding} text",
                        "save the file as UTF-8",
                    ) from error

    def text(self) -> str:
        """The whole text; for small files such as cluster descriptions."""
        return "\n".join(line for _, line in self.lines())

    def _open(self) -> BinaryIO:
        plain = io.BytesIO(self.data)
        if not self.data.startswith(_GZIP_MAGIC):
            return plain
        # The buffer's readline runs in C; GzipFile's own costs three times as much per line.
        return io.BufferedReader(gzip.GzipFile(fileobj=plain, mode="rb"), 1 << 16)


def read_source(path: str | os.PathLike[str], *, file_bytes_max: int = FILE_BYTES_MAX) -> Source:
    """The file's bytes with their digest.

    Raises:
        InputError: the file is missing, unreadable or larger than `file_bytes_max`.
    """
    place = os.fspath(path)
    try:
        with open(place, "rb") as file:
            data = file.read(file_bytes_max + 1)
    except OSError as error:
        raise InputError(
            place, f"cannot be read ({error.strerror})", "give the path of a readable file"
        ) from error
    if len(data) > file_bytes_max:
        raise InputError(
            place, f"the file is larger than {file_bytes_max} bytes", "split it into smaller ones"
        )
    return Source(place, data, hashlib.sha256(data).hexdigest())

"""One call for every format of traces: which one a file has is seen from its name and its head."""

from __future__ import annotations

import os
from itertools import islice

from ganger.replay.traces import native, openb, philly, swf
from ganger.replay.traces.fields import split_row
from ganger.replay.traces.model import Trace
from ganger.replay.traces.source import InputError, Source, read_source

NODES_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
"""Header of openb's list of nodes: a cluster, not a trace."""

_HEAD_LINES = 20


def open_trace(path: str | os.PathLike[str], limit: int | None = None) -> Trace:
    """The trace in a file: our own format, SWF, Philly CSV or openb pods CSV, gzip or not.

    Args:
        path: the file; reads it once.
        limit: keep the first so many jobs in order of submission; None keeps all.

    Raises:
        InputError: the file cannot be read, has no known format, or holds a line that is wrong.
    """
    if limit is not None and limit < 1:
        raise InputError("limit", f"the value is {limit}", "give a number of jobs, at least 1")
    source = read_source(path)
    match detect_format(source):
        case native.FORMAT:
            return native.read_native(source, limit)
        case swf.FORMAT:
            return swf.read_swf(source, limit)
        case philly.FORMAT:
            return philly.read_philly(source, limit)
        case _:
            return openb.read_openb(source, limit)


def detect_format(source: Source) -> str:
    """The format's name: `ganger`, `swf`, `philly` or `openb`.

    Raises:
        InputError: it is none of them; a list of nodes is named as what it is.
    """
    head = [text for _, text in islice(source.lines("latin-1"), _HEAD_LINES)]
    if head and head[0].startswith(native.MAGIC):
        return native.FORMAT
    if source.name.lower().removesuffix(".gz").endswith(".swf"):
        return swf.FORMAT
    first = next((text for text in head if text.strip() and not text.startswith("#")), "")
    if first.lstrip().startswith(";") or len(first.split()) == swf.FIELD_COUNT:
        return swf.FORMAT
    columns = split_row(first) or []
    if all(name in columns for name in philly.COLUMNS):
        return philly.FORMAT
    if all(name in columns for name in openb.COLUMNS):
        return openb.FORMAT
    if all(name in columns for name in NODES_COLUMNS):
        raise InputError(
            source.path, "this is a list of nodes, not a trace", "give it as --cluster instead"
        )
    if "submit_s" in columns:
        raise InputError(
            f"{source.path}:1",
            f"it names columns of {native.FORMAT}'s own format, which has a line before them",
            f"put the line {native.MAGIC + native.VERSION!r} above it",
        )
    if not first:
        raise InputError(source.path, "the file is empty", "give a trace with at least one job")
    raise InputError(
        source.path,
        f"no known format of traces begins with {first[:80]!r}",
        f"give an SWF log, a CSV of Philly ({','.join(philly.COLUMNS)},...) or openb"
        f" ({','.join(openb.COLUMNS)},...), or a file that begins with"
        f" {native.MAGIC + native.VERSION!r}",
    )

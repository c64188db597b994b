"""What every reader of traces gives: jobs in the order in which they were submitted.

Times are integers in ns, exactly as the trace states them: seconds from its own zero, or UTC since
1970 where it has dates. Rows count from 1 as in the Standard Workload Format (SWF), over job lines
only (header and comments have no row). A job's id is the trace's own, else its row. The order of
jobs is (submit_ns, row); in a log of the SWF, (submit_ns, job number).
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from msgspec import Struct

from ganger.replay.traces.source import InputError, Source

STAYS_NS = -1
"""`TraceJob.run_ns` of a job whose end the trace does not state: it stays to the end of the run."""


class TracePods(Struct, frozen=True, gc=False):
    """`count` equal pods. Of `cards` and `card_milli` at most one is not zero."""

    count: int
    cards: int  # whole cards of each pod
    card_milli: int = 0  # share of one card, 1..999; 0 for whole cards or none
    cpu_milli: int = 0  # 0: asks for none
    memory_mib: int = 0  # 0: asks for none
    models: tuple[str, ...] = ()  # card models that will do; empty: any


class TraceJob(Struct, frozen=True, gc=False):
    """One job of a trace."""

    id: str
    submit_ns: int  # >= 0
    run_ns: int  # >= 0, or STAYS_NS
    estimate_ns: int  # run time as declared by its user; 0: none
    queue: str  # empty: the trace names none
    user: str  # empty: the trace names none
    pods: tuple[TracePods, ...]  # at least one group, in the trace's order
    row: int  # from 1, of its first line


class Trace(Struct, frozen=True):
    """A trace as read.

    `digest` (hex SHA-256 of the file's bytes) names the input in a run's arguments: the same digest
    and limit give the same jobs.
    """

    name: str  # of the file
    format: str  # ganger, swf, philly or openb
    digest: str
    jobs: list[TraceJob]  # by (submit_ns, row or job number)
    skipped: dict[str, int]  # rows that are no job of the workload, counted by reason
    processors: int = 0  # size of the machine as the trace's header states it; 0: it does not

    def queues(self) -> list[str]:
        """The names of the queues that jobs name, in order of first use."""
        return list(dict.fromkeys(job.queue for job in self.jobs if job.queue))


class PodsCache:
    """Equal groups as one object: 82,000 jobs of Philly share ten tuples."""

    def __init__(self) -> None:
        self._known: dict[tuple[TracePods, ...], tuple[TracePods, ...]] = {}
        self._by_cards: dict[tuple[int, int], tuple[TracePods, ...]] = {}

    def share(self, pods: tuple[TracePods, ...]) -> tuple[TracePods, ...]:
        """An equal tuple, the same one every time."""
        return self._known.setdefault(pods, pods)

    def split(self, cards: int, cards_per_pod: int) -> tuple[TracePods, ...]:
        """`cards` (> 0) as full pods of `cards_per_pod` and one pod with the remainder."""
        key = cards, cards_per_pod
        pods = self._by_cards.get(key)
        if pods is None:
            full, rest = divmod(cards, cards_per_pod)
            groups = ((full, cards_per_pod), (1 if rest else 0, rest))
            pods = tuple(TracePods(count, each) for count, each in groups if count)
            self._by_cards[key] = pods
        return pods


def make_trace(
    source: Source,
    format_name: str,
    jobs: Iterable[TraceJob],
    skipped: dict[str, int],
    limit: int | None,
    *,
    processors: int = 0,
) -> Trace:
    """The trace of `jobs`, given as those of one moment stand: sorted, ids unique, cut to `limit`.

    Args:
        source: where the jobs were read.
        format_name: see `Trace.format`.
        jobs: ascending row, or by number.
        skipped: read after the last job was taken.
        limit: keep the first so many in order of submission; None keeps all.
        processors: see `Trace.processors`.

    Raises:
        InputError: two jobs have one id, or there is no job at all.
    """
    rows: dict[str, int] = {}
    ordered = []
    for job in jobs:
        first = rows.setdefault(job.id, job.row)
        if first != job.row:
            raise InputError(
                source.path,
                f"rows {first} and {job.row} both have the job id {job.id!r}",
                "give every job an id of its own",
            )
        ordered.append(job)
    if not ordered:
        reasons = ", ".join(f"{count} {reason}" for reason, count in skipped.items())
        raise InputError(
            source.path,
            "the trace has no job" + (f" (passed over: {reasons})" if reasons else ""),
            "give a trace with at least one job that ran",
        )
    ordered.sort(key=attrgetter("submit_ns"))  # stable
    if limit is not None:
        del ordered[limit:]
    return Trace(source.name, format_name, source.digest, ordered, skipped, processors)

"""What a simulated run came to: how long jobs waited, how cards were used, how fast it was.

* A job *starts* when it first has the pods it needs at once, all of them in a trace; a job that
  loses pods later has started all the same. Its wait is start minus submission.
* *Bounded slowdown* is max(1, (wait + run time) / max(run time, 10 s)) (Feitelson and Rudolph,
  1998); jobs that never end by themselves have none.
* *Utilisation* is the card-time that pods held, ends still unreported included, over the cards of
  the whole cluster times the span from the first submission to the last event.
* A card is *idle* while no pod holds it, its node is not lost, and a job waits for a place or is
  suspended. What gaps were used for is counted in module `lending`, promises in `etas`.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from math import ceil
from operator import attrgetter, itemgetter
from statistics import fmean, median
from typing import NamedTuple

from msgspec import Struct

from ganger.replay.etas import Promises
from ganger.replay.gauges import Gauge
from ganger.replay.lending import Lending
from ganger.replay.traces.fields import NS_PER_S
from ganger.replay.traces.model import TraceJob
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, Tier
from ganger.schemas.reasons import Reason
from ganger.schemas.registry import LEDGER_ENTRIES, frame_header

# bound once: looking a member up on its Enum class costs more than what is done with it
_ADMIT = DecisionKind.ADMIT
_ALLOCATE = DecisionKind.ALLOCATE
_BACKFILL = DecisionKind.BACKFILL
_EVICT = DecisionKind.EVICT
_MOVE = DecisionKind.MOVE
_RESUME = DecisionKind.RESUME
_SUSPEND = DecisionKind.SUSPEND
_FINISH = DecisionKind.FINISH
_REJECT = DecisionKind.REJECT
_JOB_EXISTS = Reason.JOB_EXISTS

SLOWDOWN_BOUND_NS = 10 * NS_PER_S

CARD_MILLI = 1000


class Start(NamedTuple):
    """The start of a trace's job."""

    job: str
    wait_ns: int
    tier: Tier


class Summary(Struct, frozen=True):
    """A run's outcome. The fields up to `eta_p90_coverage` are the command's JSON."""

    jobs: int  # submitted
    decisions: int
    records: int
    cpu_seconds: float
    wall_seconds: float
    utilisation: float  # 0..1
    wait_mean_s: float
    wait_p50_s: float
    wait_p99_s: float  # nearest rank
    bounded_slowdown_mean: float
    digest: str  # state after the last record, hex
    chain: str  # of all decisions, hex
    backfill_started: int  # runs in gaps, see `lending`
    backfill_completed: int
    backfill_evicted: int
    backfill_suspended: int  # times that one was suspended
    idle_card_seconds: int  # cards that stood idle while a job waited
    idle_card_seconds_used: int  # card-time in gaps: what would have been idle else
    main_wait_mean_s: float  # of the jobs that started in turn, not in a gap
    evicted_card_seconds_lost: int  # card-time in gaps that evictions undid
    eta_p50_coverage: float | None  # share of jobs that started by the median promised; see `etas`
    eta_p90_coverage: float | None
    eta_p90_median_s: float | None  # half of the late promises were for a longer wait
    started: int
    ended: dict[str, int]  # jobs by the reason of their end or refusal
    waiting: int  # jobs that wait for a place at the end, those that lost theirs among them
    waiting_job: str  # the first submitted of them; empty without any
    record_counts: dict[str, int]  # by type, descending
    decision_counts: dict[str, int]  # by kind, descending
    first_ns: int  # first submission
    last_ns: int  # last event
    bin_ns: int  # length of one point of `series`
    series: tuple[float, ...]  # utilisation over time, 0..1
    starts: tuple[Start, ...]  # in the trace's order


_NAMES = {frame_header(entry.schema_id): entry.name for entry in LEDGER_ENTRIES}
_header_of = itemgetter(slice(len(next(iter(_NAMES)))))
_kind_of = attrgetter("kind")


class Meter:
    """Counts the records and watches the decisions of a run, group by group."""

    def __init__(self, jobs: Sequence[TraceJob]) -> None:
        """`jobs`: of the whole run, at least one, in order of submission."""
        self.decision_counts: Counter[DecisionKind] = Counter()
        self.ended: Counter[Reason] = Counter()
        self.first_ns = jobs[0].submit_ns
        self.lending = Lending()
        self.promises = Promises()
        self._jobs = jobs
        self._headers: Counter[bytes] = Counter()
        self._missing = {job.id: sum([pods.count for pods in job.pods]) for job in jobs}
        self._starts: dict[str, tuple[int, Tier]] = {}

    @property
    def ended_count(self) -> int:
        """Jobs that ended or were refused."""
        return self.ended.total()

    @property
    def record_counts(self) -> dict[str, int]:
        """Records by type."""
        return {_NAMES[header]: count for header, count in self._headers.items()}

    def observe(self, records: Iterable[bytes], decisions: Sequence[Decision]) -> None:
        """Take note of what was committed: payloads of records, and decisions, in their order."""
        self._headers.update(map(_header_of, records))
        self.decision_counts.update(map(_kind_of, decisions))
        missing = self._missing
        for decision in decisions:
            job = decision.job
            if not job:
                continue
            kind = decision.kind
            if kind is _ALLOCATE or kind is _BACKFILL:
                if kind is _BACKFILL:
                    self.lending.placed(decision)
                count = missing.get(job, 0)
                if count == 1:
                    del missing[job]
                    self._starts[job] = (decision.time_ns, decision.tier)
                elif count:
                    missing[job] = count - 1
            elif kind is _ADMIT:
                self.promises.admitted(decision)
            elif kind is _FINISH or _refuses_job(decision):
                self.ended[decision.reason] += 1
                self.lending.finished(decision)
            elif kind is _EVICT or kind is _MOVE:
                if job in missing:
                    missing[job] += 1
                self.lending.told(decision)
            elif kind is _SUSPEND or kind is _RESUME:
                self.lending.told(decision)

    def starts(self) -> tuple[Start, ...]:
        """Starts of the jobs that did start, in order of submission."""
        return tuple(
            Start(job.id, found[0] - job.submit_ns, found[1])
            for job in self._jobs
            if (found := self._starts.get(job.id)) is not None
        )

    def coverage(self, last_ns: int) -> tuple[float | None, float | None]:
        """Shares of the median and of the late promises that were kept, as of the run's end."""
        starts_ns = {job: found[0] for job, found in self._starts.items()}
        return self.promises.coverage(starts_ns, last_ns)

    def slowdowns(self, starts: Iterable[Start]) -> list[float]:
        """Bounded slowdown of each started job that ends by itself, in the same order."""
        waits = {start.job: start.wait_ns for start in starts}
        return [
            max(1.0, (waits[job.id] + job.run_ns) / max(job.run_ns, SLOWDOWN_BOUND_NS))
            for job in self._jobs
            if job.run_ns >= 0 and job.id in waits
        ]

    def utilisation(self, held: Gauge, cards: int, last_ns: int) -> tuple[float, tuple[float, ...]]:
        """Over the whole span, and per bin of `held.bin_ns`, up to `last_ns`.

        Args:
            held: milli-cards in use, from the first submission on.
            cards: of the cluster.
            last_ns: time of the last event.
        """
        held.set(last_ns, 0)
        span_ns = last_ns - self.first_ns
        capacity = cards * CARD_MILLI
        if not capacity or not span_ns:
            return 0.0, ()
        last_bin_ns = span_ns - (len(held.bins) - 1) * held.bin_ns
        lengths_ns = [held.bin_ns] * (len(held.bins) - 1) + [last_bin_ns]
        series = tuple(
            held_ns / (capacity * length_ns)
            for held_ns, length_ns in zip(held.bins, lengths_ns, strict=True)
            if length_ns
        )
        return held.integral / (capacity * span_ns), series


def _refuses_job(decision: Decision) -> bool:
    """Whether a job was turned away: not a second copy of its submission, nor another request."""
    return decision.kind is _REJECT and bool(decision.job) and decision.reason is not _JOB_EXISTS


class Waits(NamedTuple):
    """Waits of the started jobs, in seconds; zeros without any."""

    mean_s: float
    p50_s: float
    p99_s: float


def waits_of(starts: Sequence[Start]) -> Waits:
    """Mean, median and 99th percentile (nearest rank)."""
    if not starts:
        return Waits(0.0, 0.0, 0.0)
    waits_s = sorted(start.wait_ns / NS_PER_S for start in starts)
    p99_s = waits_s[ceil(len(waits_s) * 99 / 100) - 1]
    return Waits(fmean(waits_s), median(waits_s), p99_s)


def mean(values: Sequence[float]) -> float:
    """The mean; 0 without any."""
    return fmean(values) if values else 0.0


def named_counts(counts: dict[str, int]) -> dict[str, int]:
    """Counts above 0, greatest first, then by name."""
    return dict(sorted(((k, n) for k, n in counts.items() if n), key=lambda c: (-c[1], c[0])))

"""What was made of idle cards: jobs that were run in gaps, how they fared, how long they held what.

* A *run in gaps* is a job from its first BACKFILL on, until the job ends or loses a pod to an
  eviction. Suspensions are part of it, and so is the move of a suspended pod to another node. A pod
  without resources needs no gap and is not counted.
* It is *completed* if its job ends well before it loses a pod, *evicted* if it loses one to others;
  cancelled, failed and unfinished ones are neither.
* Card-time of gaps is the time that their pods ran, suspensions left out, times their cards; *lost*
  is that part of it which evictions undid: everything since the attempt's start, or since it last
  saved what was done.
"""

from msgspec import Struct

from ganger.replay.attempts import Stretch, milli_cards
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind
from ganger.schemas.reasons import Reason

# bound once: looking a member up on its Enum class costs more than what is done with it
_BACKFILL = DecisionKind.BACKFILL
_RESUME = DecisionKind.RESUME
_SUSPEND = DecisionKind.SUSPEND

_OF_ITS_OWN = frozenset(
    (
        Reason.CANCEL_REQUESTED,
        Reason.TIME_LIMIT,
        Reason.RETRY_LIMIT,
        Reason.SCALED_DOWN,
        Reason.MIN_SUCCESS,
        Reason.ACTION_OF_JOB,
        Reason.JOB_RESTARTED,
    )
)
"""Reasons of evictions that serve nobody else."""


class _Run(Struct):
    """A job that runs in gaps."""

    suspend_seq: int = -1  # cause of its last suspension
    standing: set[tuple[int, int]] = set()  # suspended pods with their attempts


class Lending:
    """Counts of a simulated run.

    Attributes:
        started: runs in gaps.
        completed: of them.
        evicted: of them.
        suspended: times that a run was suspended, all its pods at once counting once.
        used: milli-card-ns of gaps.
        lost: milli-card-ns of them that evictions undid.
    """

    def __init__(self) -> None:
        self.started = self.completed = self.evicted = self.suspended = 0
        self.used = self.lost = 0
        self._open: dict[str, _Run] = {}

    def placed(self, decision: Decision) -> None:
        """BACKFILL of a pod."""
        job = decision.job
        if decision.reason is not Reason.PLACED_WITHOUT_RESOURCES and job not in self._open:
            self._open[job] = _Run()
            self.started += 1

    def told(self, decision: Decision) -> None:
        """SUSPEND, RESUME, EVICT or MOVE of any pod."""
        run = self._open.get(decision.job)
        if run is None:
            return
        pod = (decision.pod, decision.attempt)
        if decision.kind is _SUSPEND:
            run.standing.add(pod)
            if run.suspend_seq != decision.cause_seq:
                run.suspend_seq = decision.cause_seq
                self.suspended += 1
        elif decision.kind is _RESUME or pod in run.standing:
            run.standing.discard(pod)
        elif decision.reason not in _OF_ITS_OWN:
            self.evicted += 1
            del self._open[decision.job]

    def finished(self, decision: Decision) -> None:
        """FINISH of any job."""
        if self._open.pop(decision.job, None) is None:
            return
        if decision.reason in (Reason.ALL_PODS_SUCCEEDED, Reason.MIN_SUCCESS):
            self.completed += 1

    def ran(self, stretch: Stretch) -> None:
        """A pod ran for a time."""
        placed = stretch.placed
        if placed.kind is not _BACKFILL:
            return
        cards = milli_cards(placed)
        self.used += cards * (stretch.to_ns - stretch.from_ns)
        if stretch.reason not in _OF_ITS_OWN:
            self.lost += cards * stretch.lost_ns

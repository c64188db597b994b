"""Why a job waits, or why it was placed, evicted, refused or ended: from its story and from the
state.

What is over is told from the story alone: each decision stands there with its reason and its
numbers. What is still going on (why it waits, its place in line) is worked out from the state at
that point.
"""

from msgspec import Struct
from msgspec.structs import replace

from ganger.replay.history import Place, state_at
from ganger.replay.reader import Progress, Streams, tell_nobody
from ganger.replay.story import Entry
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, FailureKind, Phase
from ganger.schemas.reasons import Reason
from ganger.schemas.records import (
    JobSubmitRequested,
    PodAdopted,
    PodFailed,
    PodReleased,
    PodStarted,
    PodSucceeded,
    Record,
)
from ganger.streams.checkpoint import SnapshotStore
from ganger.streams.kernel.backfill.outlooks import Outlook, Rest, outlook, rest
from ganger.streams.kernel.explain import Explanation, explain
from ganger.streams.kernel.preemption.spared import Spared, spared
from ganger.streams.kernel.state import State

_NOTICE = DecisionKind.NOTICE

_PHASES = {
    Reason.ALL_PODS_SUCCEEDED: Phase.SUCCEEDED,
    Reason.MIN_SUCCESS: Phase.SUCCEEDED,
    Reason.CANCEL_REQUESTED: Phase.CANCELLED,
}


class Failure(Struct, frozen=True):
    """An attempt that failed by itself. One that was told to end and then failed is none."""

    seq: int  # of the fact
    time_ns: int
    pod: int
    attempt: int
    node: str
    failure: FailureKind
    exit_code: int
    message: str
    retries_left: int | None  # of the pod, after it; none where the job's policy is not known


class Answer(Struct, frozen=True):
    """What can be said of a job at a point.

    Attributes:
        job: its key.
        seq: of the last record that counts.
        submission: the record that made it; none where it was refused before it ever existed.
        phase: its phase at the point; UNKNOWN where every request for it was refused.
        explanation: from the state, while it has not ended.
        outlook: from the state, while it waits under a policy that plans with run times.
        rest: from the state, while it is suspended.
        decisions: all about it since that submission, in order, refusals of requests among them.
        causes: the records that caused them, by seq.
        failures: attempts that failed since then, in order.
        started_ns: when its first attempt was reported running; none if none was.
        ended_ns: when it reached its terminal phase; none if it has not.
        others: who stayed when it last had to leave for another job, and why.
    """

    job: str
    seq: int
    submission: Entry | None
    phase: Phase
    explanation: Explanation | None
    outlook: Outlook | None
    decisions: tuple[Decision, ...]
    causes: dict[int, Record]
    failures: tuple[Failure, ...]
    started_ns: int | None
    ended_ns: int | None
    others: tuple[Spared, ...] = ()
    rest: Rest | None = None


def why(
    streams: Streams,
    job: str,
    story: list[Entry],
    place: Place,
    snapshots: SnapshotStore | None = None,
    on_progress: Progress = tell_nobody,
) -> Answer:
    """What can be said of a job at a point.

    Args:
        streams: the ledger.
        job: the job's key.
        story: the job's, up to the point; not empty.
        place: the point; waits for a moment are counted from the time it was asked for.
        snapshots: for the state, as `state_at` takes them.
        on_progress: as `state_at` takes it.

    Raises:
        LogCorrupt: what is stored does not check.
        RecordUnreadable: a record has no known schema.
    """
    submission, life = _last_life(story)
    said = [entry for entry in life if isinstance(entry.event, Decision)]
    decisions = tuple(entry.event for entry in said if isinstance(entry.event, Decision))
    finish = next((d for d in reversed(decisions) if d.kind is DecisionKind.FINISH), None)
    explanation = expected = resting = None
    if finish is not None:
        phase = _ended(streams, finish, snapshots, on_progress)
    elif submission is not None:
        state = state_at(streams, place.next_seq, snapshots, on_progress)
        explanation = _explained(state, job, place.at_ns)
        if explanation is not None:
            found = state.jobs[state.job_by_key[job]]
            expected, resting = outlook(state, found), rest(state, found)
        phase = Phase.UNKNOWN if explanation is None else explanation.phase
    else:
        phase = Phase.UNKNOWN
    starts = (e.event.time_ns for e in life if isinstance(e.event, PodStarted))
    return Answer(
        job=job,
        seq=place.next_seq - 1,
        submission=submission,
        phase=phase,
        explanation=explanation,
        outlook=expected,
        decisions=decisions,
        causes={entry.seq: entry.cause for entry in said if entry.cause is not None},
        failures=_failures(submission, life),
        started_ns=next(starts, None),
        ended_ns=None if finish is None else finish.time_ns,
        others=_others(streams, decisions, snapshots, on_progress),
        rest=resting,
    )


def _ended(
    streams: Streams, finish: Decision, snapshots: SnapshotStore | None, on_progress: Progress
) -> Phase:
    """The phase in which a job ended. An action of its own can mean either: then it is that of the
    state right after; UNKNOWN where the job was forgotten at once.
    """
    if finish.reason is not Reason.ACTION_OF_JOB:
        return _PHASES.get(finish.reason, Phase.FAILED)
    state = state_at(streams, finish.cause_seq + 1, snapshots, on_progress)
    seq = state.job_by_key.get(finish.job)
    return Phase.UNKNOWN if seq is None else state.jobs[seq].phase


def _others(
    streams: Streams,
    decisions: tuple[Decision, ...],
    snapshots: SnapshotStore | None,
    on_progress: Progress,
) -> tuple[Spared, ...]:
    """Whom the taker of the job's last eviction left alone: from the state right after it was said
    first, when the taker has its claim and those who leave for it have not left.
    """
    told = [d for d in decisions if d.for_job and d.kind in (DecisionKind.EVICT, _NOTICE)]
    if not told:
        return ()
    last = told[-1]
    first = next(d for d in told if (d.pod, d.attempt) == (last.pod, last.attempt))
    state = state_at(streams, first.cause_seq + 1, snapshots, on_progress)
    taker = state.job_by_key.get(first.for_job)
    return () if taker is None else spared(state, state.jobs[taker])


def _is_repeated(event: Record | Decision, submission: Entry | None) -> bool:
    """Whether a submission is a second copy of the one before, which changes nothing."""
    return (
        submission is not None
        and isinstance(event, JobSubmitRequested)
        and bool(event.event_id)
        and event.event_id == submission.event.event_id  # type: ignore[union-attr]
    )


def _explained(state: State, key: str, at_ns: int) -> Explanation | None:
    """The explanation with waits counted from `at_ns` on."""
    found = explain(state, key)
    if found is None:
        return None
    passed_ns = max(0, at_ns - state.clock_ns)
    reasons = tuple(
        replace(finding, asked=max(0, finding.asked - passed_ns))
        if finding.reason is Reason.BACKING_OFF
        else finding
        for finding in found.reasons
    )
    return replace(found, reasons=reasons)


def _failures(submission: Entry | None, life: list[Entry]) -> tuple[Failure, ...]:
    """Failures of attempts that lived and had not been told to end, as the kernel counts them."""
    event = None if submission is None else submission.event
    limit = event.retry.limit if isinstance(event, JobSubmitRequested) else None
    nodes: dict[tuple[int, int], str] = {}  # of the attempts that live, by pod and attempt
    counts: dict[int, int] = {}
    found = []
    for entry in life:
        event = entry.event
        if isinstance(event, Decision):
            if event.kind in (DecisionKind.ALLOCATE, DecisionKind.BACKFILL):
                nodes[event.pod, event.attempt] = event.node
            elif event.kind is DecisionKind.EVICT:
                nodes.pop((event.pod, event.attempt), None)
        elif isinstance(event, PodAdopted):
            nodes[event.pod, event.attempt] = event.node
        elif isinstance(event, PodFailed | PodSucceeded | PodReleased):
            node = nodes.pop((event.pod, event.attempt), None)
            if node is not None and isinstance(event, PodFailed):
                count = counts[event.pod] = counts.get(event.pod, 0) + 1
                found.append(
                    Failure(
                        entry.seq,
                        event.time_ns,
                        event.pod,
                        event.attempt,
                        node,
                        event.failure,
                        event.exit_code,
                        event.message,
                        None if limit is None else max(0, limit - count),
                    )
                )
    return tuple(found)


def _last_life(story: list[Entry]) -> tuple[Entry | None, list[Entry]]:
    """The record that made the job, and its story since; a key may be used again after its end.

    Where nothing made it: none, and all of the story.
    """
    refused = {
        entry.seq
        for entry in story
        if isinstance(entry.event, Decision) and entry.event.kind is DecisionKind.REJECT
    }
    submission: Entry | None = None
    life: list[Entry] = []
    has_ended = True
    for entry in story:
        event = entry.event
        makes = has_ended and isinstance(event, JobSubmitRequested | PodAdopted)
        if makes and entry.seq not in refused and not _is_repeated(event, submission):
            submission, life, has_ended = entry, [], False
        elif isinstance(event, Decision) and event.kind is DecisionKind.FINISH:
            has_ended = True
        life.append(entry)
    return submission, life

"""Why a job waits, or why it was placed, evicted, refused or ended: from its story and from the
state.

What is over is told from the story alone: each decision stands there with its reason and its
numbers. What is still going on (why it waits, its place in line) is worked out from the state at
that point.
"""

from msgspec import Struct

from ganger.replay.history import state_at
from ganger.replay.reader import Progress, Streams, tell_nobody
from ganger.replay.story import Entry, pick
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, Phase
from ganger.schemas.reasons import Reason
from ganger.schemas.records import JobSubmitRequested, PodAdopted
from ganger.streams.checkpoint import SnapshotStore
from ganger.streams.kernel.explain import Explanation, explain
from ganger.streams.payloads import read_record

_PHASES = {
    Reason.ALL_PODS_SUCCEEDED: Phase.SUCCEEDED,
    Reason.CANCEL_REQUESTED: Phase.CANCELLED,
}


class Answer(Struct, frozen=True):
    """What can be said of a job at a point.

    Attributes:
        job: its key.
        seq: of the last record that counts.
        submission: the record that made it; none where it was refused before it ever existed.
        phase: its phase at the point; UNKNOWN where every request for it was refused.
        explanation: from the state, while it has not ended.
        decisions: all about it since that submission, in order, refusals of requests among them.
        causes: kinds of the records that caused them, by seq.
    """

    job: str
    seq: int
    submission: Entry | None
    phase: Phase
    explanation: Explanation | None
    decisions: tuple[Decision, ...]
    causes: dict[int, str]


def why(
    streams: Streams,
    job: str,
    story: list[Entry],
    next_seq: int,
    snapshots: SnapshotStore | None = None,
    on_progress: Progress = tell_nobody,
) -> Answer:
    """What can be said of a job at a point.

    Args:
        streams: the ledger.
        job: the job's key.
        story: the job's, up to `next_seq`; not empty.
        next_seq: first record that does not count.
        snapshots: for the state, as `state_at` takes them.
        on_progress: as `state_at` takes it.

    Raises:
        LogCorrupt: what is stored does not check.
        RecordUnreadable: a record has no known schema.
    """
    submission, life = _last_life(story)
    decisions = tuple(entry.event for entry in life if isinstance(entry.event, Decision))
    finish = next((d for d in reversed(decisions) if d.kind is DecisionKind.FINISH), None)
    explanation = None
    if finish is not None:
        phase = _PHASES.get(finish.reason, Phase.FAILED)
    elif submission is not None:
        state = state_at(streams, next_seq, snapshots, on_progress)
        explanation = explain(state, job)
        phase = Phase.UNKNOWN if explanation is None else explanation.phase
    else:
        phase = Phase.UNKNOWN
    seqs = sorted({decision.cause_seq for decision in decisions})
    return Answer(
        job, next_seq - 1, submission, phase, explanation, decisions, _kinds(streams, seqs)
    )


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
        makes = isinstance(event, JobSubmitRequested) or (
            isinstance(event, PodAdopted) and has_ended
        )
        if makes and entry.seq not in refused:
            submission, life, has_ended = entry, [], False
        elif isinstance(event, Decision) and event.kind is DecisionKind.FINISH:
            has_ended = True
        life.append(entry)
    return submission, life


def _kinds(streams: Streams, seqs: list[int]) -> dict[int, str]:
    """Kinds of records by seq."""
    return {
        seq: type(read_record(seq, payload)).__name__ for seq, payload in pick(streams.ledger, seqs)
    }

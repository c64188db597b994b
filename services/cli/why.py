"""`ganger why`: why a job waits, or why it was placed, evicted, refused or ended, with numbers."""

import shlex
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import click
import msgspec

from ganger.replay.history import Place, Point
from ganger.replay.story import known_ids, story
from ganger.replay.traces.source import InputError
from ganger.replay.why import Answer, Failure
from ganger.replay.why import why as answer_why
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, Phase
from ganger.schemas.reasons import Reason
from ganger.schemas.records import PodAdopted
from ganger.services.cli.arguments import (
    ask,
    at_option,
    clock,
    json_option,
    kafka_config_option,
    ledger_argument,
    place_of,
    unknown,
)
from ganger.services.cli.events import (
    PLACES,
    chosen_texts,
    decision_text,
    foreseen_texts,
    numbers_text,
    placed_text,
    plain,
    plain_decision,
)
from ganger.services.cli.render import echo_lines, folded, progress, terminal_columns
from ganger.services.cli.stories import indexing
from ganger.services.cli.units import (
    Clock,
    cards_text,
    count_text,
    duration_text,
    limit_text,
    reason_text,
)
from ganger.services.ledgers import OpenLedger, open_ledger
from ganger.streams.kernel.backfill.outlooks import Outlook, Rest
from ganger.streams.kernel.explain import Explanation, Finding, PodFinding
from ganger.streams.kernel.nodes.kept import Kept
from ganger.streams.kernel.preemption.spared import Spared
from ganger.streams.tables.snapshots import Snapshots
from ganger.streams.tables.store import Store
from ganger.streams.tables.story import IdKind, StoryIndex

_INDENT = 6
"""Of the further lines of a long one."""

_SHOWN_COUNT_MAX = 20

_ENDS = {
    Phase.SUCCEEDED: "has succeeded",
    Phase.FAILED: "has failed",
    Phase.CANCELLED: "was cancelled",
}
_WAITING = {Phase.PENDING: "waiting for admission"}
"""A job that is not admitted yet stands in another line than those that are."""

_Event = tuple[int, int, str]
"""A line of the history with its place in time: seq and index."""


@click.command()
@ledger_argument
@click.argument("job", metavar="JOB")
@at_option
@kafka_config_option
@json_option
def why(ledger: str, job: str, point: Point, kafka_config: Path | None, as_json: bool) -> None:
    """Say why JOB of LEDGER waits, or why it was placed, evicted, refused or ended.

    LEDGER is a directory or kafka://HOST:PORT/CELL.

    Waiting: its place in line and every reason that keeps it there, with numbers. Then what
    happened to it: decisions with the records that caused them, and attempts that failed.
    """
    with open_ledger(ledger, kafka_config) as streams:
        shown = clock(streams.ledger)
        place = place_of(streams.ledger, point, shown)
        answer = ask(streams, lambda store: _answer(streams, job, place, shown, store))
    if as_json:
        click.echo(msgspec.json.encode(_plain(answer)))
        return
    columns = terminal_columns()
    echo_lines(folded(line, columns, _INDENT) for line in _lines(answer, shown))


def _answer(
    streams: OpenLedger, job: str, place: Place, shown: Clock, store: Store | None
) -> Answer:
    index = None if store is None else StoryIndex(store)
    snapshots = None if store is None else Snapshots(store)
    with indexing(streams, index) as advance:
        whole = story(streams, IdKind.JOB, job, streams.ledger.end(), index, advance)
        if not whole:
            raise unknown("JOB", job, known_ids(streams, IdKind.JOB, index))
    found = [entry for entry in whole if entry.seq < place.next_seq]
    if not found:
        first = whole[0]
        raise InputError(
            "JOB",
            f"{job!r} was not yet submitted at {shown.text(place.at_ns)}",
            f"it comes with record {first.seq:,} at {shown.text(first.event.time_ns)}",
        )
    with progress("replaying", place.next_seq, is_plain=True) as advance:
        return answer_why(streams, job, found, place, snapshots, advance)


def _plain(answer: Answer) -> dict[str, Any]:
    """For JSON: what the state says, beside the job's decisions with the kinds of their causes."""
    explanation = answer.explanation
    facts: dict[str, Any] = {} if explanation is None else plain(explanation)
    if explanation is not None:
        for fact, finding in zip(facts["reasons"], explanation.reasons, strict=True):
            fact["text"] = _finding_text(finding)
    facts |= {
        "job": answer.job,
        "seq": answer.seq,
        "phase": answer.phase.name,
        "outlook": None if answer.outlook is None else plain(answer.outlook),
        "rest": None if answer.rest is None else plain(answer.rest),
        "submit_seq": None if answer.submission is None else answer.submission.seq,
        "started_ns": answer.started_ns,
        "ended_ns": answer.ended_ns,
        "failures": [plain(failure) for failure in answer.failures],
        "others": [plain(spared) for spared in answer.others],
        "decisions": [
            {
                **plain_decision(decision),
                "cause": type(answer.causes[decision.cause_seq]).__name__,
                "text": decision_text(decision, answer.causes[decision.cause_seq]),
            }
            for decision in answer.decisions
        ],
    }
    return facts


# ---- in words ------------------------------------------------------------------------------------


_WAIT = {
    Reason.NOT_NEEDED: "nobody gives anything back: the cell as a whole has enough of all it needs",
}
"""What reasons mean for jobs that wait, where they say something else of pods that stay."""

_STAY = {
    Reason.REQUEUE_LIMIT: "has been begun anew {asked:,} times, and may be {limit:,} times",
    Reason.GANG_BELOW_MINIMUM: "would make no room for the {asked:,} pods that must start",
    Reason.NOT_NEEDED: "costs more than those that leave, or is not needed",
}
"""What reasons mean for pods that stay, where they say something else of jobs that wait."""


def _lines(answer: Answer, clock: Clock) -> Iterator[str]:
    """The whole answer: what the job is now and why, then what happened to it."""
    yield _headline(answer)
    yield from _times(answer, clock)
    explanation = answer.explanation
    if explanation is not None:
        yield from _place_in_line(explanation)
        yield from _outlook_text(answer.outlook, clock)
        yield from _rest_text(answer.rest, clock)
        for finding in explanation.reasons:
            yield f"  because {_finding_text(finding)}"
        for kept in explanation.kept:
            yield f"  kept from it by reservation {_kept_text(kept, clock)}"
        for spared in explanation.spared:
            yield f"  not evicted for it: {_spared_text(spared)}"
        yield from _pods(explanation)
    yield from _setbacks(answer, clock)
    yield from _history(answer, clock)


def _finding_text(finding: Finding) -> str:
    """One reason with its numbers, and the role and the nodes that it is about."""
    numbers = (finding.asked, finding.free, finding.limit)
    text = _WAIT.get(finding.reason) or reason_text(finding.reason, *numbers, finding.resource)
    if finding.rule.endswith(".patience_ns"):
        asked, limit = duration_text(finding.asked), duration_text(finding.limit)
        text = f"takes from others when it has waited {limit}, in {asked}"
    if finding.count:
        some = ", ".join(finding.nodes) + (", ..." if finding.count > len(finding.nodes) else "")
        text = f"{count_text(finding.count, 'node')} ({some}): {text}"
    told = (("rule", finding.rule), ("queue", finding.queue))
    named = ", ".join(f"{kind} {name}" for kind, name in told if name)
    text += f" ({named})" if named else ""
    return f"role {finding.role}: {text}" if finding.role else text


def _kept_text(kept: Kept, clock: Clock) -> str:
    """A reservation by request: what it keeps, when and for whom, and how the job is in its way."""
    some = ", ".join(kept.nodes) + (", ..." if kept.node_count > len(kept.nodes) else "")
    what = f"{cards_text(kept.cards)} of {some}" if kept.cards else some
    whose = [("queue", kept.queues), ("user", kept.users), ("tenant", kept.tenants)]
    listed = [f"{kind} {', '.join(names)}" for kind, names in whose if names]
    who = "maintenance" if kept.is_maintenance else " or ".join(listed) or "nobody"
    lasts = f"is expected to run {duration_text(kept.run_ns)}" if kept.run_ns else "has no estimate"
    when = f"from {clock.text(kept.from_ns)} to {clock.text(kept.to_ns)}"
    return f"{kept.reservation}: {what} {when} for {who}; the job {lasts}"


def _spared_text(spared: Spared) -> str:
    """Running pods that stay although the job waits, and why."""
    some = ", ".join(spared.jobs) + (", ..." if spared.job_count > len(spared.jobs) else "")
    text = _STAY.get(spared.reason, "").format(asked=spared.asked, limit=spared.limit)
    text = text or reason_text(spared.reason, spared.asked, 0, spared.limit, "cards_milli")
    rule = f" (rule {spared.rule})" if spared.rule else ""
    return f"{count_text(spared.pods, 'pod')} of {some}: {text}{rule}"


def _headline(answer: Answer) -> str:
    name = answer.job
    if answer.submission is None:
        return f"{name} does not exist: every request for it was refused"
    explanation = answer.explanation
    if explanation is not None:
        return f"{name} is {answer.phase.name.lower()} in queue {explanation.queue}"
    return f"{name} {_ENDS.get(answer.phase, 'is not known any more')}"


def _times(answer: Answer, clock: Clock) -> Iterator[str]:
    """When it was submitted, when it started and ended, and how long that took."""
    submission = answer.submission
    if submission is None:
        return
    came_ns = submission.event.time_ns
    is_adopted = isinstance(submission.event, PodAdopted)
    verb = "adopted" if is_adopted else "submitted"
    yield f"  {verb:<9} {clock.text(came_ns)} by record {submission.seq:,}"
    if answer.started_ns is not None:
        waited = f" after waiting {duration_text(max(0, answer.started_ns - came_ns))}"
        yield f"  started   {clock.text(answer.started_ns)}{waited}"
    elif answer.ended_ns is not None and not is_adopted:
        yield "  started   never"
    if answer.ended_ns is not None:
        ran = ""
        if answer.started_ns is not None:
            ran = f" after running {duration_text(max(0, answer.ended_ns - answer.started_ns))}"
        yield f"  ended     {clock.text(answer.ended_ns)}{ran}"


def _place_in_line(found: Explanation) -> Iterator[str]:
    if found.position:
        ahead = f", behind {', '.join(found.ahead)}" if found.ahead else ""
        more = found.position - 1 - len(found.ahead)
        ahead += f" and {more:,} more" if more > 0 else ""
        line = _WAITING.get(found.phase, "admitted")
        yield f"  number {found.position:,} of the jobs of its queue that are {line}{ahead}"
    if found.reasons:
        capability = found.queue_capability
        yield (
            f"  queue {found.queue} uses {cards_text(found.queue_used)}, deserves "
            f"{limit_text(found.queue_deserved)}, may have "
            + ("any number" if capability < 0 else limit_text(capability))
        )


def _outlook_text(outlook: Outlook | None, clock: Clock) -> Iterator[str]:
    """When it starts, what for it waits, who uses its cards until then, what it was told."""
    if outlook is None:
        return
    if outlook.start_ns:
        late = f", by {clock.text(outlook.late_ns)} very likely" if outlook.late_ns else ""
        ends = f", when {_listed(outlook.ends)} {_verb(outlook.ends)}" if outlook.ends else ""
        held = "; its cards are reserved from then on" if outlook.is_reserved else ""
        lent = f", and lent to {_listed(outlook.lent)} until then" if outlook.lent else ""
        yield f"  starts at about {clock.text(outlook.start_ns)}{late}{ends}{held}{lent}"
    else:
        yield "  when it starts cannot be said: nothing is known of run times before it"
    if outlook.told_ns:
        yield (
            f"  was told to start by {clock.text(outlook.told_ns)} as likely as not, "
            f"by {clock.text(outlook.told_late_ns)} very likely"
        )


def _rest_text(rest: Rest | None, clock: Clock) -> Iterator[str]:
    """Since when a suspended job rests, and until when at most."""
    if rest is None:
        return
    yield f"  suspended since {clock.text(rest.since_ns)}; goes on as soon as cards are free for it"
    if rest.line_ns:
        yield f"  waits in line like others if none are until {clock.text(rest.line_ns)}"


def _listed(names: Sequence[str]) -> str:
    return ("job " if len(names) == 1 else "jobs ") + ", ".join(names)


def _verb(names: Sequence[str]) -> str:
    return "ends" if len(names) == 1 else "end"


def _pods(found: Explanation) -> Iterator[str]:
    """Live attempts, look-alikes on one node in one line."""

    def alike(pod: PodFinding) -> tuple[object, ...]:
        return pod.node, pod.attempt, pod.phase, pod.cards

    groups = [list(pods) for _, pods in groupby(sorted(found.pods, key=_by_node), alike)]
    for pods in groups[:_SHOWN_COUNT_MAX]:
        first = pods[0]
        verb, each = ("is", "") if len(pods) == 1 else ("are", " each")
        yield (
            f"  {numbers_text('pod', [pod.pod for pod in pods])} attempt {first.attempt} {verb} "
            f"{first.phase.name.lower()} on {first.node}, {cards_text(first.cards)}{each}"
        )
    hidden = sum(len(pods) for pods in groups[_SHOWN_COUNT_MAX:])
    if hidden:
        yield f"  and {count_text(hidden, 'pod')} more (--json lists all)"


def _by_node(pod: PodFinding) -> tuple[str, int, int, int, int]:
    return pod.node, pod.attempt, pod.phase, pod.cards, pod.pod


def _setbacks(answer: Answer, clock: Clock) -> Iterator[str]:
    """How often attempts failed or were evicted, and the last time with all that is known of it."""
    failures = answer.failures
    if failures:
        last = failures[-1]
        left = last.retries_left
        retries = "" if left is None else f"; that pod has {count_text(left, 'retry')} left"
        when = clock.text(last.time_ns)
        yield f"  failed {_times_text(len(failures))}, last at {when}: {_failure(last)}{retries}"
    evictions = [d for d in answer.decisions if d.kind is DecisionKind.EVICT]
    if evictions:
        evicted = evictions[-1]
        when, text = clock.text(evicted.time_ns), _without_job(answer, evicted)
        yield f"  evicted {_times_text(len(evictions))}, last at {when}: {text}"
    for spared in answer.others:
        yield f"    beside it stayed {_spared_text(spared)}"


def _times_text(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def _failure(failure: Failure) -> str:
    """Which attempt failed, and how."""
    kind = failure.failure.name.lower().replace("_", " ")
    message = f": {failure.message}" if failure.message else ""
    return (
        f"pod {failure.pod} attempt {failure.attempt} on {failure.node}, {kind}, "
        f"exit code {failure.exit_code}{message}"
    )


def _history(answer: Answer, clock: Clock) -> Iterator[str]:
    """Decisions and failures in order, the latest ones where there are many."""
    start_ns = answer.submission.event.time_ns if answer.submission is not None else None
    events = [*_decision_events(answer, clock, start_ns)]
    for failure in answer.failures:
        when = _when(clock, failure.time_ns, start_ns)
        text = f"{when} FAILED, record {failure.seq:,}: {_failure(failure)}"
        events.append((failure.seq, -1, text))
    if events:
        yield "history:"
    hidden = len(events) - _SHOWN_COUNT_MAX
    if hidden > 0:
        call = f"ganger log DIR --job {shlex.quote(answer.job)} --decisions"
        yield f"  {count_text(hidden, 'earlier line')} ({call})"
    for _, _, text in sorted(events)[max(0, hidden) :]:
        yield f"  {text}"


def _decision_events(answer: Answer, clock: Clock, start_ns: int | None) -> Iterator[_Event]:
    """A line per decision; placements and evictions alike on one node share one."""
    for _, group in groupby(answer.decisions, _likeness):
        decisions = list(group)
        first = decisions[0]
        since_ns = None if first.kind is DecisionKind.REJECT else start_ns
        when = _when(clock, first.time_ns, since_ns)
        cause = f"record {first.cause_seq:,} {type(answer.causes[first.cause_seq]).__name__}"
        text = _without_job(answer, first) if len(decisions) == 1 else _joint(decisions)
        yield first.cause_seq, first.index, f"{when} {first.kind.name}, {cause}: {text}"


def _likeness(decision: Decision) -> tuple[object, ...]:
    """Equal for decisions that one line can tell."""
    if decision.kind not in PLACES or decision.card_milli:
        return decision.cause_seq, decision.index
    amounts = (decision.role, decision.asked, decision.reason, decision.for_job)
    return decision.cause_seq, decision.kind, decision.node, decision.attempt, amounts


def _joint(decisions: Sequence[Decision]) -> str:
    first = decisions[0]
    each = " (each; free before the first)" if first.reason is Reason.PLACED_IN_TURN else ""
    reason = reason_text(first.reason, first.asked, first.free, first.limit)
    times = "".join(f"; {text}" for text in foreseen_texts(first))
    return f"{', '.join([placed_text(decisions), *chosen_texts(decisions)])}: {reason}{each}{times}"


def _without_job(answer: Answer, decision: Decision) -> str:
    text = decision_text(decision, answer.causes[decision.cause_seq])
    return text.removeprefix(answer.job).lstrip(":, ") if decision.job == answer.job else text


def _when(clock: Clock, time_ns: int, start_ns: int | None) -> str:
    """A time, and how long after the submission it was."""
    if start_ns is None:
        return clock.text(time_ns)
    return f"{clock.text(time_ns)} (+{duration_text(max(0, time_ns - start_ns))})"

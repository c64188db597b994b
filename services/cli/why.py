"""`ganger why`: why a job waits, or why it was placed, evicted, refused or ended, with numbers."""

from pathlib import Path
from typing import Any

import click
import msgspec

from ganger.replay.history import Point, resolve
from ganger.replay.story import known_ids, story
from ganger.replay.why import Answer
from ganger.replay.why import why as answer_why
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, Phase
from ganger.services.cli.arguments import (
    ask,
    at_option,
    json_option,
    ledger_argument,
    unknown,
)
from ganger.services.cli.events import decision_text, plain, plain_decision, reason_text
from ganger.services.cli.render import cards_text, duration_text, progress, time_text
from ganger.streams.kernel.explain import Explanation, Finding
from ganger.streams.log.directory import LedgerDirectory, LedgerReaders
from ganger.streams.tables.snapshots import Snapshots
from ganger.streams.tables.store import Store
from ganger.streams.tables.story import IdKind, StoryIndex

_SHOWN_COUNT_MAX = 20


@click.command()
@ledger_argument
@click.argument("job", metavar="JOB")
@at_option
@json_option
def why(ledger: Path, job: str, point: Point, as_json: bool) -> None:
    """Say why JOB of the ledger in DIR waits, or why it was placed, evicted, refused or ended."""
    readers = LedgerDirectory.open_reader(ledger)
    next_seq = resolve(readers.ledger, point)
    answer = ask(ledger, readers, lambda store: _answer(readers, job, next_seq, store))
    click.echo(msgspec.json.encode(_plain(answer)) if as_json else _text(answer))


def _answer(readers: LedgerReaders, job: str, next_seq: int, store: Store | None) -> Answer:
    index = None if store is None else StoryIndex(store)
    snapshots = None if store is None else Snapshots(store)
    total = readers.ledger.end() + readers.decisions.end()
    with progress("searching", total) as advance:
        found = story(readers, IdKind.JOB, job, next_seq, index, advance)
        if not found:
            known = known_ids(readers, IdKind.JOB, index)
            raise unknown("JOB", job, [name for name in known if name != job])
    with progress("replaying", next_seq) as advance:
        return answer_why(readers, job, found, next_seq, snapshots, advance)


def _plain(answer: Answer) -> dict[str, Any]:
    """For JSON: what the state says, beside the job's decisions with the kinds of their causes."""
    explanation = answer.explanation
    facts: dict[str, Any] = {} if explanation is None else plain(explanation)
    for fact, finding in zip(
        facts.get("reasons", []), explanation.reasons if explanation else (), strict=True
    ):
        fact["text"] = _finding_text(finding)
    facts |= {
        "job": answer.job,
        "seq": answer.seq,
        "phase": answer.phase.name,
        "submit_seq": None if answer.submission is None else answer.submission.seq,
        "decisions": [
            {
                **plain_decision(decision),
                "cause": answer.causes[decision.cause_seq],
                "text": decision_text(decision),
            }
            for decision in answer.decisions
        ],
    }
    return facts


def _text(answer: Answer) -> str:
    lines = [_headline(answer)]
    explanation = answer.explanation
    if explanation is not None:
        lines += _place_in_line(explanation)
        lines += [f"  because {_finding_text(finding)}" for finding in explanation.reasons]
        lines += [
            f"  pod {pod.pod} attempt {pod.attempt} is {pod.phase.name.lower()} on {pod.node}, "
            f"{cards_text(pod.cards)} cards"
            for pod in explanation.pods[:_SHOWN_COUNT_MAX]
        ]
        more = len(explanation.pods) - _SHOWN_COUNT_MAX
        if more > 0:
            lines.append(f"  and {more:,} pods more (--json lists all)")
    lines += _history(answer)
    return "\n".join(lines)


def _headline(answer: Answer) -> str:
    name = answer.job
    if answer.submission is None:
        return f"{name} does not exist: every request for it was refused"
    since = f"submitted by record {answer.submission.seq:,}"
    explanation = answer.explanation
    if explanation is not None:
        return f"{name} is {answer.phase.name.lower()} in queue {explanation.queue}, {since}"
    return f"{name} {_ENDS.get(answer.phase, 'is not known any more')}, {since}"


_ENDS = {
    Phase.SUCCEEDED: "has succeeded",
    Phase.FAILED: "has failed",
    Phase.CANCELLED: "was cancelled",
}


def _place_in_line(found: Explanation) -> list[str]:
    lines = []
    if found.position:
        ahead = f", behind {', '.join(found.ahead)}" if found.ahead else ""
        more = found.position - 1 - len(found.ahead)
        ahead += f" and {more:,} more" if more > 0 else ""
        lines.append(f"  number {found.position:,} in line{ahead}")
    if found.reasons:
        lines.append(
            f"  queue {found.queue} uses {cards_text(found.queue_used)} cards, deserves "
            f"{cards_text(found.queue_deserved)}, may have "
            + ("any number" if found.queue_capability < 0 else cards_text(found.queue_capability))
        )
    return lines


def _finding_text(finding: Finding) -> str:
    text = reason_text(finding.reason, finding.asked, finding.free, finding.limit)
    if finding.count:
        some = ", ".join(finding.nodes) + (", ..." if finding.count > len(finding.nodes) else "")
        noun = "node" if finding.count == 1 else "nodes"
        text = f"{finding.count:,} {noun} ({some}): {text}"
    return f"role {finding.role}: {text}" if finding.role else text


def _history(answer: Answer) -> list[str]:
    """The decisions, the latest ones where there are many."""
    decisions = answer.decisions
    hidden = len(decisions) - _SHOWN_COUNT_MAX
    lines = ["decisions:"] if decisions else []
    if hidden > 0:
        lines.append(f"  {hidden:,} earlier ones (ganger log DIR --job {answer.job} --decisions)")
        decisions = decisions[hidden:]
    start_ns = answer.submission.event.time_ns if answer.submission is not None else None
    return lines + [_decision_line(answer, decision, start_ns) for decision in decisions]


def _decision_line(answer: Answer, decision: Decision, start_ns: int | None) -> str:
    after = ""
    if start_ns is not None and decision.kind is not DecisionKind.REJECT:
        after = f" (+{duration_text(max(0, decision.time_ns - start_ns))})"
    cause = f"record {decision.cause_seq:,} {answer.causes[decision.cause_seq]}"
    text = decision_text(decision).removeprefix(answer.job).lstrip(":, ")
    return f"  {time_text(decision.time_ns)}{after} {decision.kind.name}, {cause}: {text}"

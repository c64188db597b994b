"""`ganger verify`: every decision, computed again and compared."""

from pathlib import Path
from typing import Any

import click
import msgspec

from ganger.replay.promises import Violation
from ganger.replay.verify import Mismatch, Verification
from ganger.replay.verify import verify as verify_streams
from ganger.schemas.codec import decode_decision
from ganger.services.cli.arguments import json_option, kafka_config_option, ledger_argument
from ganger.services.cli.errors import FAILED_CHECK
from ganger.services.cli.events import plain, plain_decision
from ganger.services.cli.render import progress
from ganger.services.cli.units import cards_text, count_text, duration_text
from ganger.services.ledgers import open_ledger
from ganger.streams.divergence import difference
from ganger.streams.kernel.horizon.steps import FOREVER


@click.command()
@ledger_argument
@kafka_config_option
@json_option
@click.pass_context
def verify(ctx: click.Context, ledger: str, kafka_config: Path | None, as_json: bool) -> None:
    """Recompute every decision of LEDGER and compare it with the recorded one.

    LEDGER is a directory or kafka://HOST:PORT/CELL.

    Reads nothing but the two streams. Ends with 0 if all are equal, with 1 if not or if the ledger
    does not check. Prints what an auditor notes down: the digest of the state after the last
    record, the chain over all decisions, and the hash chain over all records.
    """
    with (
        open_ledger(ledger, kafka_config) as streams,
        progress("verifying", streams.ledger.end(), is_plain=not as_json) as advance,
    ):
        found = verify_streams(streams, advance, settled_seq=streams.settled_seq())
    if as_json:
        click.echo(msgspec.json.encode(_plain(found)))
    else:
        click.echo(_text(ledger, found))
    if found.unpublished:
        click.echo(
            f"Note: {found.unpublished:,} decisions of the last records are not published yet; the "
            "ledger's owner does that, at its next start if it does not run.",
            err=True,
        )
    ctx.exit(0 if found.is_equal else FAILED_CHECK)


def _plain(found: Verification) -> dict[str, Any]:
    return {
        "records": found.records,
        "decisions": found.decisions,
        "mismatches": found.mismatches,
        "first_mismatch": _plain_mismatch(found.first_mismatch),
        "digest": found.digest.hex(),
        "chain": found.chain.hex(),
        "record_hash": found.record_hash.hex(),
        "records_per_cpu_second": _rate(found),
        "violations": found.violations,
        "first_violation": plain(found.first_violation),
    }


def _plain_mismatch(mismatch: Mismatch | None) -> dict[str, Any] | None:
    if mismatch is None:
        return None
    return {
        "seq": mismatch.seq,
        "index": mismatch.index,
        "recorded": _plain_payload(mismatch.recorded),
        "computed": _plain_payload(mismatch.computed),
    }


def _plain_payload(payload: bytes) -> dict[str, Any] | str | None:
    """The decision; its bytes where they are none; nothing where there is nothing."""
    if not payload:
        return None
    try:
        return plain_decision(decode_decision(payload))
    except (ValueError, LookupError):
        return payload.hex()


def _text(ledger: str, found: Verification) -> str:
    lines = [
        f"{ledger}: {found.records:,} records lead to {found.decisions:,} decisions: "
        + _outcome(found),
        f"digest   {found.digest.hex()}  (state)",
        f"chain    {found.chain.hex()}  (decisions)",
        f"records  {found.record_hash.hex()}  (hash chain)",
        f"speed    {_rate(found):,} records per CPU-second",
    ]
    first = found.first_mismatch
    if first is not None:
        what = difference(first.recorded, first.computed, is_decision=True)
        lines.insert(1, f"first    seq {first.seq}, decision {first.index}: {what}")
    if found.first_violation is not None:
        lines.insert(1, f"broken   {_violation_text(found.first_violation)}")
    return "\n".join(lines)


def _outcome(found: Verification) -> str:
    differ = found.mismatches - found.violations
    text = f"{differ:,} differ from those recorded" if differ else "all equal"
    if found.violations:
        text += f", but {count_text(found.violations, 'promise')} broken"
    return text


def _violation_text(violation: Violation) -> str:
    place = f"seq {violation.seq}, decision {violation.index}: {violation.by}"
    if violation.node:
        return f"{place} was placed on {violation.node}, {_kept_text(violation)}"
    if not violation.until_ns:
        return f"{place} was served by an eviction of {violation.job}, which was still protected"
    beyond = duration_text(violation.until_ns - violation.promised_ns)
    if violation.until_ns >= FOREVER - 1:
        beyond = "for ever"
    return (
        f"{place} was placed in a gap where it delays the reservation of {violation.job}, which "
        f"lacks {cards_text(violation.lacking_milli)}, {beyond}"
    )


def _kept_text(violation: Violation) -> str:
    """Which reservation by request keeps somebody out, and by how much it is in its way."""
    begins_ns = violation.promised_ns - violation.begin_ns
    if begins_ns <= 0:
        return f"inside the reservation {violation.job}, which is not for it"
    lasts = "with no estimate"
    if violation.until_ns < FOREVER - 1:
        lasts = f"for {duration_text(violation.until_ns - violation.begin_ns)}"
    return (
        f"{lasts}, though the reservation {violation.job}, which is not for it, begins in "
        f"{duration_text(begins_ns)}"
    )


def _rate(found: Verification) -> int:
    return round(found.records / found.cpu_seconds) if found.cpu_seconds > 0 else 0

"""`ganger copy`: a ledger from one place to another, with all its proofs."""

from pathlib import Path
from typing import Any

import click
import msgspec

from ganger.services.cli.arguments import json_option, kafka_config_option
from ganger.services.cli.errors import WRONG_CALL, Failure
from ganger.services.cli.render import progress
from ganger.services.copies import (
    Copied,
    CopyRefused,
    copy_to_directory,
    copy_to_kafka,
    extent_of,
)
from ganger.services.ledgers import is_url, kafka_cell, open_ledger


@click.command()
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
@kafka_config_option
@click.option("--resume", "resumes", is_flag=True, help="Go on with a copy to Kafka.")
@json_option
def copy(source: str, target: str, kafka_config: Path | None, resumes: bool, as_json: bool) -> None:
    """Copy the ledger SRC to DST: records first, then the decisions that they caused.

    Either is a directory or kafka://HOST:PORT/CELL. A directory must not exist; on Kafka the cell
    keeps its name, is placed if it is not, and its partition must be empty. Seqs, chains and the
    digest stay what they are; the copy is read again and compared before this ends.
    """
    if resumes and not is_url(target):
        raise Failure("--resume: DST is a directory; delete it and copy again.", WRONG_CALL)
    try:
        copied = _copy(source, target, kafka_config, resumes, as_json)
    except CopyRefused as error:
        raise Failure(str(error), WRONG_CALL) from error
    if as_json:
        click.echo(msgspec.json.encode(_plain(copied)))
        return
    click.echo(
        f"{target}: {copied.records:,} records and {copied.decisions:,} decisions of cell "
        f"{copied.cell}, read again and equal\n"
        f"records    {copied.record_chain.hex()}  (hash chain)\n"
        f"decisions  {copied.decision_chain.hex()}  (hash chain)"
    )


def _copy(
    source: str, target: str, kafka_config: Path | None, resumes: bool, as_json: bool
) -> Copied:
    with open_ledger(source, kafka_config) as streams:
        extent = extent_of(streams)
        steps = 2 * (extent.records + extent.decisions)
        with progress("copying", steps, is_plain=not as_json) as advance:
            if not is_url(target):
                return copy_to_directory(streams, extent, Path(target), advance)
            settings, cell = kafka_cell(target, kafka_config)
            if cell != streams.ledger.cell:
                raise Failure(
                    f"DST: the cell is {cell!r} there, and {streams.ledger.cell!r} in SRC; a copy "
                    f"keeps its name. Give .../{streams.ledger.cell}.",
                    WRONG_CALL,
                )
            return copy_to_kafka(streams, extent, settings, advance, resumes=resumes)


def _plain(copied: Copied) -> dict[str, Any]:
    return {
        "cell": copied.cell,
        "records": copied.records,
        "decisions": copied.decisions,
        "record_hash": copied.record_chain.hex(),
        "decision_hash": copied.decision_chain.hex(),
    }

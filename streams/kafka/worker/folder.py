"""A worker's folder on the disk: which Kafka it belongs to, and where in it things lie.

Everything in it speeds a restart up and nothing else. What it holds of other topics than those that
are there now, since a Kafka was made anew or another one is meant, would only be in the way:
snapshots beyond the ledger's end, and tables beyond their changelogs.
"""

import logging
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from shutil import rmtree

CELLS_FOLDER = "cells"
"""With a store of snapshots for each cell."""

TABLES_FOLDER = "tables"
"""With the stores of Faust's tables."""

_MARK_FILE = "TOPICS"

log = logging.getLogger("ganger.worker")


def keep_for(folder: Path, topic_ids: Mapping[str, str]) -> None:
    """Delete what a folder holds of other topics, and note that it belongs to these.

    Args:
        folder: the worker's, which no other process uses.
        topic_ids: Kafka's ids of all topics, by name; a topic that is made anew gets another one.
    """
    told = "".join(f"{name} {topic_id}\n" for name, topic_id in sorted(topic_ids.items()))
    mark = sha256(told.encode()).hexdigest()
    file = folder / _MARK_FILE
    found = file.read_text(encoding="ascii", errors="replace") if file.exists() else mark
    if found != mark:
        log.warning("data_deleted folder=%s why='it is of topics that are there no more'", folder)
        for name in (CELLS_FOLDER, TABLES_FOLDER):
            rmtree(folder / name, ignore_errors=True)
    file.write_text(mark, encoding="ascii")

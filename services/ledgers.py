"""A ledger by its name, wherever it is: a directory, or a cell on Kafka.

`kafka://HOST:PORT[,HOST:PORT]/CELL` names a cell, everything else a directory.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from ganger.replay.traces.source import InputError
from ganger.schemas.decision_ids import decision_head
from ganger.streams.closing import Closing
from ganger.streams.kafka.cluster.admin import topic_id
from ganger.streams.kafka.cluster.cells import find_cell
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.cluster.topics import LEDGER
from ganger.streams.kafka.log.ledger import KafkaStreams
from ganger.streams.log.directory import LedgerDirectory
from ganger.streams.log.protocol import LogReader
from ganger.streams.tables.store import STORE_FOLDER

SCHEME = "kafka://"

_CACHE_VARIABLE = "XDG_CACHE_HOME"
_CACHE_DEFAULT = ".cache"


class OpenLedger(Closing):
    """Both streams of a ledger, open for reading.

    Attributes:
        ledger: records.
        decisions: decisions.
        store: folder for what speeds questions up and may be deleted at any time; none where there
            is no place for it. That of a cell on Kafka lies in the user's cache folder; it is named
            after the topic's id and the partition, so that another ledger of the same cell, in
            topics made anew, has another one.
        is_followed: others write the ledger, and its owner publishes the decisions later.
    """

    def __init__(
        self,
        ledger: LogReader,
        decisions: LogReader,
        store: Path | None,
        close: Callable[[], None] = lambda: None,
        *,
        is_followed: bool = False,
    ) -> None:
        """Use `open_ledger`."""
        self.is_followed = is_followed
        self.ledger = ledger
        self.decisions = decisions
        self.store = store
        self._close = close

    def settled_seq(self) -> int | None:
        """Seq up to which all decisions are published, where the owner follows others; else none.

        On Kafka it is the cause of the newest decision: whatever later records cause may be on its
        way. In a directory only a group's decisions can be.

        Raises:
            LogError: the decisions cannot be read.
        """
        if not self.is_followed:
            return None
        end = self.decisions.end()
        newest = [p for _, group in self.decisions.read_groups(max(end - 1, 0), end) for p in group]
        return decision_head(newest[-1]).cause_seq if newest else 0

    def close(self) -> None:
        """Give up connections, if there are any."""
        self._close()


def open_ledger(
    name: str, kafka_config: Path | None = None, environ: Mapping[str, str] = os.environ
) -> OpenLedger:
    """Open a ledger for reading. Takes no lock and may be used beside a live cell.

    Args:
        name: a directory, or the URL of a cell on Kafka.
        kafka_config: file of properties for TLS and logins.
        environ: the process's environment.

    Raises:
        InputError: the URL is none.
        NotALedger: the directory holds no ledger.
        LogError: what is stored does not check, or no broker answered.
        KafkaFailed: the cell is not placed, the settings are wrong, or Kafka cannot be reached.
    """
    if not is_url(name):
        path = Path(name)
        readers = LedgerDirectory.open_reader(path)
        return OpenLedger(readers.ledger, readers.decisions, path / STORE_FOLDER)
    settings, cell = kafka_cell(name, kafka_config, environ)
    placement = find_cell(settings, cell)
    streams = KafkaStreams(settings, placement)
    cache = cache_folder(environ)
    store = None
    if cache is not None:
        store = cache / f"{topic_id(settings, LEDGER)}-{placement.partition}"
    return OpenLedger(streams.ledger, streams.decisions, store, streams.close, is_followed=True)


def is_url(name: str) -> bool:
    """Whether a ledger's name is meant as a URL."""
    return name.startswith(SCHEME)


def kafka_cell(
    url: str, kafka_config: Path | None = None, environ: Mapping[str, str] = os.environ
) -> tuple[KafkaSettings, str]:
    """How to reach Kafka, and the cell, from the URL of a ledger.

    Raises:
        InputError: no cell is named, or more than one.
        SettingsBad: an address or a property is none.
    """
    bootstrap, _, cell = url.removeprefix(SCHEME).partition("/")
    if not bootstrap or not cell or "/" in cell:
        raise InputError("ledger", f"{url!r} names no cell on Kafka", "give kafka://HOST:PORT/CELL")
    return KafkaSettings.from_arguments(bootstrap, kafka_config, environ), cell


def cache_folder(environ: Mapping[str, str]) -> Path | None:
    """Where stores of ledgers on Kafka are kept; none for a user who has no home.

    `ganger` in the folder that `XDG_CACHE_HOME` names, by default `.cache` of the home.
    """
    base = environ.get(_CACHE_VARIABLE, "")
    if base.startswith("/"):
        return Path(base) / "ganger"
    try:
        return Path.home() / _CACHE_DEFAULT / "ganger"
    except RuntimeError:
        return None

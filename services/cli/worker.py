"""`ganger worker`: one of the processes that run cells over Kafka."""

import gc
import logging
import re
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, flock
from hashlib import sha256
from pathlib import Path
from shutil import disk_usage, rmtree
from time import gmtime, time_ns

import click

from ganger import __version__
from ganger.replay.traces.source import InputError
from ganger.schemas.rows import RowsChanged
from ganger.services.cli.connection import DURATION, kafka_options
from ganger.services.cli.errors import FAILED_CHECK, WRONG_CALL, Failure
from ganger.streams.kafka.cluster.admin import Admin
from ganger.streams.kafka.cluster.cells import PlacementWatch
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.cluster.topics import INPUTS, LEDGER, ROWS, TOPICS, Partitions
from ganger.streams.kafka.tables.tables import RowTables, copy_rows, is_of_store
from ganger.streams.kafka.wire.acks import Acks, Place
from ganger.streams.kafka.wire.publisher import Publisher
from ganger.streams.kafka.wire.schema_registry import open_framing
from ganger.streams.kafka.wire.tail import LedgerTail
from ganger.streams.kafka.worker import desk as desks
from ganger.streams.kafka.worker.app import GROUP, Membership, Parts, make_app, run
from ganger.streams.kafka.worker.counting import Counting
from ganger.streams.kafka.worker.desk import Desk
from ganger.streams.kafka.worker.ends import PartitionEnds
from ganger.streams.kafka.worker.folder import TABLES_FOLDER, keep_for
from ganger.streams.kafka.worker.intake_agents import install
from ganger.streams.kafka.worker.ports import open_ports
from ganger.streams.kafka.worker.pulse import give_up
from ganger.streams.kafka.worker.scheduler import Owner, Scheduler
from ganger.streams.kafka.worker.sparing import Sparing
from ganger.streams.kafka.worker.watchdog import Watchdog, Watched
from ganger.streams.liveness import SILENCE_NS_DEFAULT
from ganger.streams.metrics import Metrics

ID_CHARS_MAX = 100

FREE_BYTES_LEAST = 64 << 20
"""Room on the disk without which a worker does not start: its tables could not be opened, and as
long as it keeps its cells by starting again and again, nobody else runs them."""

_ID = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)
_LOCK_FILE = "LOCK"
_INTAKE_LINGER_MS = 10  # nobody waits for one record, and fewer requests cost the broker less
_LIBRARY_LOGGERS = ("faust", "mode", "aiokafka", "kafka", "asyncio")
_ERROR_CLASSES = (
    desks.MISSING_KEY,
    desks.BAD_KEY,
    desks.UNKNOWN_CELL,
    desks.MISSING_VALUE,
    desks.WRONG_TOPIC,
    desks.BAD_SOURCE,
    "not_an_input",
    "bad_structure",
)

log = logging.getLogger("ganger.worker")


@click.command()
@kafka_options
@click.option(
    "--data",
    metavar="DIR",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="For snapshots and tables; all of it may be deleted while no worker runs on it.",
)
@click.option(
    "--id",
    "name",
    metavar="NAME",
    help="The worker's name, the same over a restart and another for each. Default: from the "
    "host's name and DIR.",
)
@click.option(
    "--metrics",
    "metrics_port",
    metavar="PORT",
    type=click.IntRange(0, 65535),
    help="Serve Prometheus' metrics at this port of the loopback; 0 takes a free one.",
)
@click.option(
    "--silence",
    "silence_ns",
    metavar="D",
    type=DURATION,
    default=SILENCE_NS_DEFAULT,
    show_default="40s",
    help="A node silent for so long is lost.",
)
def worker(
    settings: KafkaSettings,
    data: Path,
    name: str | None,
    metrics_port: int | None,
    silence_ns: int,
) -> None:
    """Run cells over Kafka, as many as this worker gets; the others of its Kafka get the rest.

    Runs until SIGTERM or SIGINT. Whatever goes wrong ends it with exit code 70: start it again. It
    ends with 1 if no broker answers, or if the disk is full.
    """
    if silence_ns <= 0:
        raise InputError("--silence", "it is 0", "give a duration, as 40s")
    name = _name(name, data)
    _log_to_stderr()
    with _locked(data):
        _check_room(data)
        ids, partitions = _topics(settings)
        keep_for(data, ids)
        if not _run(settings, data, name, ids, partitions, metrics_port, silence_ns):
            give_up("the event loop ended with an error")


def _run(
    settings: KafkaSettings,
    data: Path,
    name: str,
    topic_ids: dict[str, str],
    partitions: int,
    metrics_port: int | None,
    silence_ns: int,
) -> bool:
    """Put a worker together and run it; whether it ended in order."""
    gc.set_threshold(20_000, 20, 1_000_000)  # see `scheduler`: it says what is never looked at
    metrics = None
    if metrics_port is not None:
        metrics = Metrics(__version__, error_classes=_ERROR_CLASSES)
        log.info("metrics_served port=%d", metrics.serve(metrics_port))
    loop_outlet = Publisher(
        settings, name=f"{name}-intake", on_failure=give_up, linger_ms=_INTAKE_LINGER_MS
    )
    cell_outlet = Publisher(settings, name=f"{name}-cells", on_failure=give_up)
    framing = open_framing(settings, (ROWS,))
    app = make_app(settings, name, data / TABLES_FOLDER, partitions, give_up)
    ends = PartitionEnds(settings, GROUP)
    acks = Acks(ends.first_from)
    appended = None if metrics is None else metrics.appended
    desk = Desk(name, loop_outlet, topic_ids, time_ns, acks, framing, appended)
    batches = install(app, desk)

    def tables_failed(error: Exception) -> None:
        _delete_tables(data, error)
        give_up(f"tables: {error}")

    tables = RowTables(app, loop_outlet, settings, give_up, tables_failed)
    copy_rows(app, tables, acks, framing, _tables_age(metrics))
    watch = PlacementWatch(settings)
    counting = Counting(metrics, desk.counts, watch)
    membership = Membership(
        Parts(
            app,
            desk,
            loop_outlet,
            watch,
            ends.committed,
            batches.forget,
            lambda: tables.assign(()),
            give_up,
            counting.tell,
        )
    )
    scheduler = _scheduler(settings, data, name, cell_outlet, membership, metrics, silence_ns)
    membership.run_with(scheduler)
    watchdog = _watchdog(settings, membership, scheduler, acks, counting)
    log.info("worker_starts id=%s kafka=%s data=%s", name, settings.bootstrap, data)
    scheduler.start()
    watchdog.start()
    is_in_order = run(app, membership)
    if not is_in_order and is_of_store(app.crash_reason):
        _delete_tables(data, app.crash_reason)
    watchdog.stop()
    scheduler.join(1.0)
    log.info("worker_ends id=%s in_order=%s", name, is_in_order and not scheduler.is_alive())
    return is_in_order and not scheduler.is_alive()


def _check_room(data: Path) -> None:
    """Refuse to start on a disk that is full."""
    free = disk_usage(data).free
    if free < FREE_BYTES_LEAST:
        raise Failure(
            f"--data: the disk of {data} has {free >> 20} MiB free and a worker needs "
            f"{FREE_BYTES_LEAST >> 20} MiB: make room, or name a folder on another disk.",
            FAILED_CHECK,
        )


def _delete_tables(data: Path, error: BaseException | None) -> None:
    """Delete the stores of the tables, of which the changelogs hold all."""
    log.error("tables_deleted why=%r", str(error))
    rmtree(data / TABLES_FOLDER, ignore_errors=True)


def _tables_age(metrics: Metrics | None) -> Callable[[RowsChanged], None]:
    """Tells metrics how old the rows of a frame are that is in the tables now."""

    def told(frame: RowsChanged) -> None:
        if metrics is not None:
            metrics.tables_behind(frame.cell, max(0, time_ns() - frame.time_ns) / 1e9)

    return told


def _scheduler(
    settings: KafkaSettings,
    data: Path,
    name: str,
    outlet: Publisher,
    membership: Membership,
    metrics: Metrics | None,
    silence_ns: int,
) -> Scheduler:
    framing = open_framing(settings, (ROWS,))  # of the thread's own: it remembers ids
    scheduler = Scheduler(
        name,
        LedgerTail(settings, f"{name}-ledger"),
        outlet,
        lambda placement: open_ports(settings, placement, outlet, framing, data, scheduler.pulse),
        Owner(membership.adopted, membership.orphaned, give_up),
        silence_ns=silence_ns,
        metrics=metrics,
    )
    return scheduler


def _watchdog(
    settings: KafkaSettings,
    membership: Membership,
    scheduler: Scheduler,
    acks: Acks,
    counting: Counting,
) -> Watchdog:
    def taken() -> dict[Place, int]:
        places: dict[Place, int] = {
            (LEDGER, partition): seq for partition, seq in scheduler.progress().items()
        }
        for topic in (*INPUTS, ROWS):
            for partition in membership.partitions:
                offset = acks.taken_offset((topic, partition))
                places[topic, partition] = offset + 1 if offset >= 0 else -1
        return places

    watched = Watched(
        {"event loop": membership.pulse, "scheduler": scheduler.pulse},
        {"scheduler": lambda: scheduler.is_alive() or membership.is_ending},
        taken,
        lambda: membership.is_open,
    )
    return Watchdog(watched, PartitionEnds(settings, GROUP), give_up, told=counting.waiting)


def _name(name: str | None, data: Path) -> str:
    """The worker's name; one that stays where none is given."""
    if name is None:
        place = sha256(str(data.resolve()).encode()).hexdigest()[:8]
        host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:60]
        return f"{host or 'worker'}-{place}"
    if len(name) > ID_CHARS_MAX or not _ID.fullmatch(name):
        raise InputError(
            "--id",
            f"it is {name[:120]!r}",
            f"give 1 to {ID_CHARS_MAX} letters, digits, dots, underscores and hyphens",
        )
    return name


def _topics(settings: KafkaSettings) -> tuple[dict[str, str], int]:
    """Kafka's ids of the topics, and how many cells there can be.

    Raises:
        BrokerUnreachable: none answers; a worker that is started again may find one.
        TopicMissing: one is not there.
        Failure: they do not fit each other.
    """
    there = Admin(settings).these(list(TOPICS))
    partitions = next(topic.partitions for topic in there if topic.name == LEDGER)
    for topic in there:
        is_cut = TOPICS[topic.name].partitions is Partitions.CELLS
        if is_cut and topic.partitions != partitions:
            raise Failure(
                f"topic {topic.name} has {topic.partitions} partitions and {LEDGER} {partitions}: "
                "a cell needs the same partition of both. See `ganger topics check`.",
                WRONG_CALL,
            )
    return {topic.name: topic.topic_id for topic in there}, partitions


@contextmanager
def _locked(data: Path) -> Iterator[None]:
    """Keep other workers out of a folder, which is made if missing."""
    data.mkdir(parents=True, exist_ok=True)
    with (data / _LOCK_FILE).open("a+") as file:
        try:
            flock(file, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            raise InputError(
                "--data", f"another worker runs on {data}", "give each worker a folder of its own"
            ) from None
        yield


def _log_to_stderr() -> None:
    """One line for what happened, on stderr; what libraries say only if it is a warning."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="%(asctime)s.%(msecs)03dZ level=%(levelname)s logger=%(name)s event=%(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S",
        force=True,
    )
    for handler in logging.getLogger().handlers:
        handler.addFilter(Sparing(_LIBRARY_LOGGERS))
    logging.Formatter.converter = gmtime
    for library in _LIBRARY_LOGGERS:
        logging.getLogger(library).setLevel(logging.WARNING)

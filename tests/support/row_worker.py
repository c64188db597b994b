"""A worker with nothing but tables: `python row_worker.py BOOTSTRAP DATA PARTITIONS`.

It copies frames until it is killed. After each commit it writes into DATA.offset which offset of
the rows it has come to. Where DATA.ask appears it writes what its stores hold into DATA.rows.
"""

import asyncio
import os
import sys
from pathlib import Path

import faust
import msgspec
from faust.types import TP

from ganger.schemas.encoding import encode_row
from ganger.streams.kafka.cluster.credentials import faust_options
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.tables.tables import TABLES, RowTables, copy_rows
from ganger.streams.kafka.wire.acks import Acks
from ganger.streams.kafka.wire.publisher import Publisher


def make(bootstrap: str, data: Path, partitions: int) -> tuple[faust.App, RowTables, Acks]:
    """An app of tables, its member of the group named by the last part of `data`."""
    settings = KafkaSettings(bootstrap, {})
    app = faust.App(
        "ganger-rows-test",
        **faust_options(settings),
        store="rocksdb://",
        datadir=str(data),
        web_enabled=False,
        topic_disable_leader=True,
        topic_partitions=partitions,
        topic_replication_factor=1,
        topic_allow_declare=False,
        table_standby_replicas=0,
        stream_wait_empty=False,
        consumer_auto_offset_reset="earliest",
        consumer_group_instance_id=data.name,
        broker_session_timeout=6,
        broker_heartbeat_interval=1,
        broker_max_poll_records=2000,
    )
    publisher = Publisher(settings, name="row-worker", on_failure=lambda why: os._exit(70))
    tables = RowTables(
        app, publisher, settings, lambda why: os._exit(70), lambda error: os._exit(70)
    )
    acks = Acks()
    copy_rows(app, tables, acks)

    async def forget(*_: object, **__: object) -> None:
        acks.forget()

    app.on_partitions_revoked.connect(forget, weak=False)
    app.on_partitions_assigned.connect(forget, weak=False)

    @app.task
    async def serve() -> None:
        while not app.should_stop:
            publisher.poll()
            await asyncio.sleep(0.002)

    return app, tables, acks


def main(bootstrap: str, data: str, partitions: str) -> None:
    app, tables, acks = make(bootstrap, Path(data), int(partitions))
    asked, told = Path(f"{data}.ask"), Path(f"{data}.rows")

    @app.task
    async def commit() -> None:
        while not app.should_stop:
            await asyncio.sleep(0.02)
            offsets = acks.committable()
            if offsets:
                await app.consumer._commit({TP(*place): at for place, at in offsets.items()})
                acks.committed(offsets)
                _write(Path(f"{data}.offset"), str(max(offsets.values())).encode())
            if asked.exists():
                _write(told, msgspec.msgpack.encode(_held(tables)))
                asked.unlink()

    worker = faust.Worker(app, loglevel="info", logfile=f"{data}.log", redirect_stdouts=False)
    worker.execute_from_commandline()


def _held(tables: RowTables) -> list[tuple[str, str, bytes]]:
    return [
        (table, key, encode_row(row))
        for table in TABLES
        for partition in range(tables.tables[table].partitions)
        if tables.has(partition)
        for key, row in tables.rows(table, partition)
    ]


def _write(path: Path, data: bytes) -> None:
    """Whoever reads the file sees all of it or what it held before."""
    path.with_suffix(".new").write_bytes(data)
    path.with_suffix(".new").rename(path)


if __name__ == "__main__":
    main(*sys.argv[1:])

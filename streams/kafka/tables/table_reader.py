"""Reading a table as any client can: its compacted changelog, from the beginning to the end."""

from ganger.schemas.codec import decode_row
from ganger.schemas.rows import Row, RowsChanged
from ganger.streams.kafka.cluster.cells import read_placements
from ganger.streams.kafka.cluster.errors import CellUnknown
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.cluster.topics import TABLE_TOPICS
from ganger.streams.kafka.tables.rows import mark_key
from ganger.streams.kafka.wire.partition import Partition


def read_table(
    settings: KafkaSettings, table: str, cell: str
) -> tuple[dict[str, Row], RowsChanged | None]:
    """A table of a cell as its changelog has it now.

    Args:
        settings: how to reach Kafka.
        table: cards, nodes, queues or jobs.
        cell: the cell.

    Returns:
        The rows by key, and how far they are (none: nothing was ever published).

    Raises:
        CellUnknown: the cell has no partition.
        LogUnreachable: no broker answered.
        TopicMissing: the topics were not created.
    """
    placements = read_placements(settings)
    if cell not in placements:
        raise CellUnknown(settings.bootstrap, cell, ", ".join(sorted(placements)) or "none")
    partition = Partition(settings, TABLE_TOPICS[table], placements[cell].partition)
    try:
        return read_partition(partition, cell)
    finally:
        partition.close()


def read_partition(partition: Partition, cell: str) -> tuple[dict[str, Row], RowsChanged | None]:
    """The same of an open partition of the table's topic."""
    values: dict[bytes, bytes] = {}
    prefix = mark_key(cell)
    begin, end = partition.watermarks()
    for messages in partition.read(begin, end):
        for message in messages:
            key, value = message.key(), message.value()
            if not isinstance(key, bytes) or not key.startswith(prefix):
                continue
            if value is None:
                values.pop(key, None)
            else:
                values[key] = value
    raw = values.pop(prefix, None)
    mark = None if raw is None else decode_row(raw)
    rows = {}
    for key, value in values.items():
        row = decode_row(value)
        assert isinstance(row, Row), key
        rows[key[len(prefix) :].decode()] = row
    return rows, mark if isinstance(mark, RowsChanged) else None

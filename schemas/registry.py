"""The schemas of `schemas/avro`, by name, version and fixed id.

One file per record and version: `<Name>.<version>.avsc`. A file never changes once released; a
change is a new file with the next version, and the old one stays, as ledgers written with it must
be read. An id is `100 * number + version`; numbers and versions are never used again. All that the
ids and schemas say is settled at import; nothing here is configured.
"""

import hashlib
import json
from collections.abc import Iterable
from importlib.resources import files
from typing import Any, NamedTuple

from ganger.schemas.errors import SchemaUnknown

Schema = Any
"""An Avro schema as JSON gives it: a name, a list (union) or a dict."""

_VERSIONS_MAX = 99
_NAMES: dict[str, tuple[int, int]] = {
    # record: (number, newest version)
    "NodeHeartbeat": (1, 1),
    "JobSubmitRequested": (2, 1),
    "JobCancelRequested": (3, 1),
    "JobUpdateRequested": (4, 1),
    "PodStarted": (5, 1),
    "PodProgressed": (6, 1),
    "PodCheckpointed": (7, 1),
    "PodSucceeded": (8, 1),
    "PodFailed": (9, 1),
    "PodReleased": (10, 1),
    "PodAdopted": (11, 1),
    "QueueConfigured": (12, 1),
    "PolicyConfigured": (13, 1),
    "NodeCordoned": (14, 1),
    "NodeUncordoned": (15, 1),
    "NodeDrained": (16, 1),
    "ReservationRequested": (17, 1),
    "FlagEnabled": (18, 1),
    "IntakeClaimed": (19, 1),
    "NodeChanged": (20, 1),
    "NodeLost": (21, 1),
    "NodeReturned": (22, 1),
    "OwnerClaimed": (23, 1),
    "Tick": (24, 1),
    "SnapshotSealed": (25, 1),
    "FlavorConfigured": (26, 1),
    "ZoneConfigured": (27, 1),
    "PodSuspended": (28, 1),
    "PodResumed": (29, 1),
    "Decision": (64, 1),
    # rows, and what carries them: see `LEDGER_ENTRIES`
    "CardRow": (80, 1),
    "NodeRow": (81, 1),
    "QueueRow": (82, 1),
    "JobRow": (83, 1),
    "RowsChanged": (84, 1),
    "CellPlaced": (85, 1),
}
_ROW_NUMBER_MIN = 80


class Entry(NamedTuple):
    """One version of one record's schema."""

    name: str
    version: int
    schema_id: int
    schema: Schema


def canonical_form(schema: Schema, namespace: str = "") -> str:
    """The schema's Parsing Canonical Form (Avro 1.12): what decides its bytes, no more.

    Names are full; docs, defaults and white space are gone; keys stand in the specified order.
    """
    if isinstance(schema, str):
        known = schema in _PRIMITIVES or "." in schema or not namespace
        return json.dumps(schema if known else f"{namespace}.{schema}")
    if isinstance(schema, list):
        return "[" + ",".join(canonical_form(branch, namespace) for branch in schema) + "]"
    kind = schema["type"]
    if kind in _PRIMITIVES:
        return json.dumps(kind)
    if kind == "array":
        return f'{{"type":"array","items":{canonical_form(schema["items"], namespace)}}}'
    if kind == "map":
        return f'{{"type":"map","values":{canonical_form(schema["values"], namespace)}}}'
    namespace = schema.get("namespace", namespace)
    name = json.dumps(f"{namespace}.{schema['name']}" if namespace else schema["name"])
    if kind == "enum":
        symbols = json.dumps(schema["symbols"], separators=(",", ":"))
        return f'{{"name":{name},"type":"enum","symbols":{symbols}}}'
    if kind == "record":
        fields = ",".join(
            f'{{"name":{json.dumps(field["name"])},'
            f'"type":{canonical_form(field["type"], namespace)}}}'
            for field in schema["fields"]
        )
        return f'{{"name":{name},"type":"record","fields":[{fields}]}}'
    if kind == "fixed":
        return f'{{"name":{name},"type":"fixed","size":{schema["size"]}}}'
    raise ValueError(f"{kind!r} is no Avro type; use record, enum, array, map or fixed")


_PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))


def _load() -> dict[int, Entry]:
    """All versions of all records, by ascending id."""
    folder = files("ganger.schemas") / "avro"
    entries: dict[int, Entry] = {}
    for name, (number, newest) in _NAMES.items():
        if not 1 <= newest <= _VERSIONS_MAX:
            raise ValueError(f"{name}: version {newest} is out of range; use 1..{_VERSIONS_MAX}")
        for version in range(1, newest + 1):
            text = (folder / f"{name}.{version}.avsc").read_text(encoding="utf-8")
            schema_id = 100 * number + version
            if schema_id in entries:
                raise ValueError(f"{name}: number {number} is taken; give it one of its own")
            entries[schema_id] = Entry(name, version, schema_id, json.loads(text))
    return dict(sorted(entries.items()))


ENTRIES: dict[int, Entry] = _load()
"""Every schema there is, by ascending id."""

NEWEST: dict[str, Entry] = {
    name: ENTRIES[100 * number + newest] for name, (number, newest) in _NAMES.items()
}
"""The schema that each record is written with, by record name."""

LEDGER_ENTRIES: tuple[Entry, ...] = tuple(
    entry for entry in NEWEST.values() if entry.schema_id < 100 * _ROW_NUMBER_MIN
)
"""The newest schemas of what ledgers and decision logs hold. Rows are made from these at any time,
so no hash covers them and their schemas leave the fingerprint alone."""


def entry_of(schema_id: int) -> Entry:
    """The schema of this id.

    Raises:
        SchemaUnknown: There is none.
    """
    try:
        return ENTRIES[schema_id]
    except KeyError:
        raise SchemaUnknown(schema_id) from None


def entry_at(name: str, version: int) -> Entry:
    """The schema of this version of a record.

    Raises:
        SchemaUnknown: There is none.
    """
    newest = NEWEST[name]
    return entry_of(newest.schema_id - newest.version + version)


def fingerprint(schema_ids: Iterable[int] | None = None) -> bytes:
    """SHA-256 over the ids and canonical forms of schemas: the seed of a ledger's hashes.

    Args:
        schema_ids: Ids to cover, in any order, as an older ledger's header lists them; by default
            the newest version of every record that a ledger or a decision log holds.

    Returns:
        32 bytes; equal for equal sets of ids, on every machine.

    Raises:
        SchemaUnknown: An id is not known.
    """
    if schema_ids is None:
        schema_ids = (entry.schema_id for entry in LEDGER_ENTRIES)
    digest = hashlib.sha256()
    for schema_id in sorted(set(schema_ids)):
        form = canonical_form(entry_of(schema_id).schema)
        digest.update(f"{schema_id} {form}\n".encode())
    return digest.digest()


def frame_header(schema_id: int) -> bytes:
    """The five bytes before a body in Confluent's wire format: 0x00 and the id, big-endian."""
    return b"\0" + schema_id.to_bytes(4, "big")

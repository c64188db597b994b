"""Schema ids of a Confluent schema registry instead of ganger's own, where there is a registry.

Ids of a registry differ from one registry to the next, so they stay on the wire: input and rows
topics carry them, and everything inside, ledger and decisions included, has ganger's fixed ids. An
id met on the wire is looked up once and translated by the schema's canonical form, so a schema
counts as ganger's if its bytes do, whoever registered it and with whatever documentation.
"""

import json
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError

from ganger.schemas.errors import PayloadRefused, Refusal
from ganger.schemas.registry import ENTRIES, Entry, canonical_form, frame_header
from ganger.streams.kafka.cluster.errors import (
    KafkaFailed,
    RegistryRefused,
    RegistryUnavailable,
    SettingsBad,
)
from ganger.streams.kafka.cluster.settings import REGISTRY_PREFIX, KafkaSettings
from ganger.streams.kafka.cluster.topics import INPUTS, ROWS, TOPICS
from ganger.streams.kafka.wire.envelope import FixedIds, Framing

COMPATIBILITY = "FULL_TRANSITIVE"
"""What the registry holds each subject to: all versions can read all others."""

FRAMED_TOPICS: tuple[str, ...] = (*INPUTS, ROWS)
"""Topics whose messages carry the registry's ids."""

UNKNOWN_COUNT_MAX = 4096
UNKNOWN_SECONDS = 10.0
"""How long an id that the registry does not know is refused without asking again."""

_HEADER_BYTES = 5
_ID_MAX = (1 << 31) - 1
_NOT_FOUND = 404
_SCHEMA_NOT_FOUND = 40403
_UNAVAILABLE_FROM = 500
_TOO_MANY = 429
_T = TypeVar("_T")

# The library's defaults would let one look-up wait for minutes while heartbeats stand behind it.
_DEFAULTS: dict[str, float] = {
    "timeout": 5,
    "max.retries": 3,
    "retries.wait.ms": 200,
    "retries.max.wait.ms": 2000,
}
_NUMBERS = (*_DEFAULTS, "cache.capacity", "cache.latest.ttl.sec")


def open_framing(settings: KafkaSettings, topics: Iterable[str] = FRAMED_TOPICS) -> Framing:
    """The framing that the settings ask for, with the schemas registered.

    Args:
        settings: with `schema.registry.url`, or without for fixed ids.
        topics: those that will be written to; the schemas that they carry are registered.

    Raises:
        SettingsBad: a property that the registry's client does not take.
        RegistryUnavailable: the registry does not answer.
        RegistryRefused: it does not take a schema, or the login.
    """
    if settings.schema_registry_url is None:
        return FixedIds()
    framing = RegistryIds(settings)
    for topic in topics:
        for record in TOPICS[topic].records:
            framing.register(topic, record)
    return framing


class RegistryIds:
    """Framing by the ids of one registry. Belongs to one thread; looks an id up once."""

    def __init__(
        self, settings: KafkaSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Asks nothing yet.

        Args:
            settings: with `schema.registry.url`.
            clock: seconds; dates refusals.
        """
        self._settings = settings
        self._clock = clock
        self._client = _client(settings)
        self._out: dict[bytes, bytes] = {}
        self._in: dict[bytes, bytes] = {}
        self._unknown: dict[bytes, tuple[float, str]] = {}
        self._by_form = {canonical_form(entry.schema): entry for entry in ENTRIES.values()}

    def register(self, topic: str, record: str) -> None:
        """Register all versions of a record for a topic, oldest first. Can be repeated.

        The subject is named by topic and record, and held to `COMPATIBILITY`.

        Raises:
            RegistryUnavailable: the registry does not answer.
            RegistryRefused: it says no.
        """
        versions = [entry for entry in ENTRIES.values() if entry.name == record]
        subject = subject_name(topic, versions[-1])
        self._asked(
            f"setting the compatibility of {subject}",
            partial(self._client.set_compatibility, subject, COMPATIBILITY),
        )
        for entry in versions:
            schema = Schema(json.dumps(entry.schema), "AVRO")
            registry_id = self._asked(
                f"registering {subject}",
                partial(self._client.register_schema, subject, schema),
            )
            ours, theirs = frame_header(entry.schema_id), frame_header(registry_id)
            self._out[ours] = theirs
            self._in[theirs] = ours

    def outgoing(self, payload: bytes) -> bytes:
        """The payload with the registry's id.

        Raises:
            LookupError: its schema was not registered.
        """
        header = self._out.get(payload[:_HEADER_BYTES])
        if header is None:
            raise LookupError(
                f"schema id {_id_of(payload)} is of no record registered here; register its topic"
            )
        return header + payload[_HEADER_BYTES:]

    def incoming(self, payload: bytes) -> bytes:
        """The payload with ganger's id, for any bytes.

        Bytes that are not framed are given back as they are: the codec refuses them.

        Raises:
            PayloadRefused: the registry does not know the id, or its schema is none of ganger's.
            RegistryUnavailable: the registry does not answer; the message must be read again.
            RegistryRefused: it does not take the login.
        """
        if len(payload) < _HEADER_BYTES or payload[0] != 0:
            return payload
        theirs = payload[:_HEADER_BYTES]
        ours = self._in.get(theirs)
        if ours is None:
            ours = self._looked_up(theirs)
        return ours + payload[_HEADER_BYTES:]

    def _looked_up(self, theirs: bytes) -> bytes:
        """The header of ours for one of the registry's, remembered whichever way it ends."""
        now = self._clock()
        refused_at, why = self._unknown.get(theirs, (0.0, ""))
        if not why or now - refused_at >= UNKNOWN_SECONDS:
            found = self._entry(_id_of(theirs))
            if isinstance(found, Entry):
                self._unknown.pop(theirs, None)
                ours = self._in[theirs] = frame_header(found.schema_id)
                return ours
            why = found
            self._unknown.pop(theirs, None)  # so that it stands last, as the newest
            while len(self._unknown) >= UNKNOWN_COUNT_MAX:
                del self._unknown[next(iter(self._unknown))]
            self._unknown[theirs] = (now, why)
        raise PayloadRefused(Refusal.UNKNOWN_SCHEMA, why)

    def _entry(self, registry_id: int) -> Entry | str:
        """The schema of ours that a registry's id is, or why it is none."""
        if registry_id > _ID_MAX:
            return f"schema id {registry_id} is above {_ID_MAX}, the largest of any registry"
        schema = self._asked(
            f"looking up schema id {registry_id}", partial(self._schema, registry_id)
        )
        if schema is None:
            return f"schema id {registry_id} is not in the registry"
        entry = self._by_form.get(_form_of(schema))
        if entry is None:
            return f"schema id {registry_id} of the registry is none of ganger's schemas"
        return entry

    def _schema(self, registry_id: int) -> Schema | None:
        try:
            return self._client.get_schema(registry_id)
        except SchemaRegistryError as error:
            # A 404 of another kind is of a server that is no registry.
            if (error.http_status_code, error.error_code) == (_NOT_FOUND, _SCHEMA_NOT_FOUND):
                return None
            raise

    def _asked(self, doing: str, ask: Callable[[], _T]) -> _T:
        url = self._settings.schema_registry_url or ""
        failure: KafkaFailed
        try:
            return ask()
        except SchemaRegistryError as error:
            status = error.http_status_code
            text = self._settings.scrubbed(f"{error.error_message} ({status})")
            is_passing = status >= _UNAVAILABLE_FROM or status == _TOO_MANY
            failure = (RegistryUnavailable if is_passing else RegistryRefused)(url, doing, text)
        except Exception as error:  # of the HTTP client, whose types are the library's own affair
            text = self._settings.scrubbed(f"{type(error).__name__}: {error}")
            failure = RegistryUnavailable(url, doing, text)
        raise failure


def subject_name(topic: str, entry: Entry) -> str:
    """The subject of a record in a topic: `TOPIC-NAMESPACE.RECORD`."""
    return f"{topic}-{entry.schema['namespace']}.{entry.name}"


def _client(settings: KafkaSettings) -> SchemaRegistryClient:
    config: dict[str, Any] = {**_DEFAULTS, **settings.schema_registry()}
    for name in _NUMBERS:
        if name in config:
            config[name] = _number(name, config[name])
    try:
        return SchemaRegistryClient(config)
    except (ValueError, TypeError, OSError, KafkaFailed) as error:
        raise SettingsBad(
            REGISTRY_PREFIX + "*",
            settings.scrubbed(str(error)),
            "see confluent-kafka's SchemaRegistryClient for names and values",
        ) from None


def _number(name: str, value: float | str) -> float:
    try:
        number = float(value)
    except ValueError:
        raise SettingsBad(REGISTRY_PREFIX + name, f"{value!r} is no number", "give one") from None
    return int(number) if number.is_integer() else number


def _form_of(schema: Schema) -> str:
    """A schema's canonical form; empty for what is no Avro schema that ganger could know."""
    if schema.schema_type not in (None, "AVRO") or schema.references:
        return ""
    try:
        return canonical_form(json.loads(schema.schema_str or ""))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ""


def _id_of(payload: bytes) -> int:
    return int.from_bytes(payload[1:_HEADER_BYTES], "big")

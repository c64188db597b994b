"""The AsyncAPI 3.0 document of ganger's topics, from their table and the schemas.

Operations are told from the side of ganger: it receives inputs and sends all else.
"""

import json
from typing import Any

from ganger import __version__
from ganger.schemas.registry import NEWEST, Entry
from ganger.streams.kafka.cluster.topics import INPUTS, TOPICS, Key, Partitions, TopicSpec
from ganger.streams.kafka.wire.envelope import CONTENT_TYPE

_BINDING_VERSION = "0.5.0"
_AVRO_FORMAT = "application/vnd.apache.avro+json;version=1.12.0"
_HEADERS = "eventHeaders"
_KEYS = {
    Key.CELL: "Name of the cell.",
    Key.ENTITY: "Cell, `/`, and the row's own key; for cards that is NODE/CARD.",
    Key.SNAPSHOT: "Cell, seq and number of the chunk, parted by `/`.",
    Key.ANY: "The key of the message that was refused, whatever it is.",
}
_OUTSIDERS_READ = "Anybody may read it; messages with an id seen before are copies, equal in bytes."


def document() -> dict[str, Any]:
    """The document as plain values, in a fixed order."""
    records = sorted({name for spec in TOPICS.values() for name in spec.records})
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "ganger",
            "version": __version__,
            "description": (
                "Topics of an event-sourced batch scheduler for GPU clusters. Values are Avro in "
                "Confluent's wire format: a zero byte, the schema id in four bytes, big-endian, "
                "the body. Ids are those of `x-schema-id`; where a schema registry is configured, "
                "inputs and rows carry the registry's ids instead. Events carry CloudEvents "
                "attributes in binary mode."
            ),
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": CONTENT_TYPE.decode(),
        "channels": {_id(spec): _channel(spec) for spec in TOPICS.values()},
        "operations": {
            f"{'receive' if spec.name in INPUTS else 'send'}{_pascal(spec)}": _operation(spec)
            for spec in TOPICS.values()
        },
        "components": {
            "messages": {
                **{name: _message(NEWEST[name]) for name in records},
                "Bytes": {
                    "name": "Bytes",
                    "title": "Bytes of another kind; see the channel",
                    "contentType": "application/octet-stream",
                },
            },
            "messageTraits": {_HEADERS: {"headers": _headers()}},
        },
    }


def text() -> str:
    """The document as JSON, with a line break at its end."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


def _channel(spec: TopicSpec) -> dict[str, Any]:
    names = spec.records or ("Bytes",)
    count = "one per cell" if spec.partitions is Partitions.CELLS else "one"
    return {
        "address": spec.name,
        "description": f"{spec.description} Key: {_KEYS[spec.key]} Partitions: {count}.",
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in names},
        "bindings": {"kafka": _kafka_binding(spec)},
    }


def _kafka_binding(spec: TopicSpec) -> dict[str, Any]:
    """What the binding has words for; partitions and replicas are chosen where topics are made."""
    return {
        "topic": spec.name,
        "topicConfiguration": {
            "cleanup.policy": [spec.cleanup.value],
            "retention.ms": spec.retention_ms,
            "max.message.bytes": spec.message_bytes_max,
        },
        "bindingVersion": _BINDING_VERSION,
    }


def _operation(spec: TopicSpec) -> dict[str, Any]:
    is_input = spec.name in INPUTS
    channel = f"#/channels/{_id(spec)}"
    return {
        "action": "receive" if is_input else "send",
        "channel": {"$ref": channel},
        "summary": spec.description,
        "description": (
            "Services write here; what is refused goes to the dead letters, and a request sent "
            "again under its event id counts once."
            if is_input
            else _OUTSIDERS_READ
        ),
        "messages": [
            {"$ref": f"{channel}/messages/{name}"} for name in (spec.records or ("Bytes",))
        ],
    }


def _message(entry: Entry) -> dict[str, Any]:
    return {
        "name": f"{entry.schema['namespace']}.{entry.name}",
        "title": entry.name,
        "summary": entry.schema.get("doc", ""),
        "contentType": CONTENT_TYPE.decode(),
        "x-schema-id": entry.schema_id,
        "payload": {"schemaFormat": _AVRO_FORMAT, "schema": entry.schema},
        "traits": [{"$ref": f"#/components/messageTraits/{_HEADERS}"}],
        "bindings": {"kafka": {"key": {"type": "string"}, "bindingVersion": _BINDING_VERSION}},
    }


def _headers() -> dict[str, Any]:
    """The headers that `envelope.headers` writes; ganger asks for none of them in inputs."""
    return {
        "type": "object",
        "properties": {
            "ce_specversion": {"type": "string", "const": "1.0"},
            "ce_id": {"type": "string", "description": "Unique within source and type."},
            "ce_type": {"type": "string", "description": "Full Avro name of the record."},
            "ce_source": {"type": "string", "description": "`/ganger/cells/` and the cell's name."},
            "ce_time": {"type": "string", "format": "date-time"},
            "content-type": {"type": "string", "const": CONTENT_TYPE.decode()},
        },
    }


def _id(spec: TopicSpec) -> str:
    """The channel's id: the topic's name in camel case, without `ganger`."""
    pascal = _pascal(spec)
    return pascal[0].lower() + pascal[1:]


def _pascal(spec: TopicSpec) -> str:
    return "".join(part.capitalize() for part in spec.name.split(".")[1:])

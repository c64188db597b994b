"""Topics, cells and logins on real brokers."""

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from click.testing import CliRunner
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from faust.transport.drivers.aiokafka import credentials_to_aiokafka_auth

from ganger.schemas.encoding import encode_row
from ganger.schemas.registry import fingerprint
from ganger.schemas.rows import CellPlaced
from ganger.services.cli import main
from ganger.streams.kafka.cluster import admin, cells
from ganger.streams.kafka.cluster.cells import (
    PlacementWatch,
    find_cell,
    place_cell,
    read_placements,
)
from ganger.streams.kafka.cluster.credentials import faust_options
from ganger.streams.kafka.cluster.errors import (
    BrokerUnreachable,
    CellElsewhere,
    CellUnknown,
    KafkaFailed,
    NoFreePartition,
    SettingsBad,
    TopicMissing,
)
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.cluster.topics import CELLS, JOBS, LEDGER, PODS, ROWS, TOPICS
from support.certificates import Authority
from support.kafka import KafkaCluster

Clusters = Callable[..., KafkaCluster]


def call(settings: KafkaSettings, *words: str, code: int = 0) -> str:
    arguments = ["topics", words[0], "--kafka", settings.bootstrap, *words[1:]]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == code, result.output
    return result.output


def alter(settings: KafkaSettings, topic: str, key: str, value: str) -> None:
    client = AdminClient(settings.client())
    operation = AlterConfigOpType.SET
    entry = ConfigEntry(key, value, incremental_operation=operation)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for future in client.incremental_alter_configs([resource]).values():
        future.result(20)


def make(settings: KafkaSettings, *topics: NewTopic) -> None:
    client = AdminClient(settings.client())
    for future in client.create_topics(list(topics)).values():
        future.result(20)


def append(settings: KafkaSettings, *payloads: bytes) -> None:
    producer = Producer(settings.client())
    for payload in payloads:
        producer.produce(CELLS, payload, b"k", partition=0)
    assert producer.flush(20) == 0


# ---- topics --------------------------------------------------------------------------------------


def test_topics_are_made_checked_and_listed(kafka_cluster: Clusters) -> None:
    settings = KafkaSettings(kafka_cluster().bootstrap)
    missing = json.loads(call(settings, "check", "--json", code=1))
    assert [finding["topic"] for finding in missing] == list(TOPICS)
    with pytest.raises(TopicMissing, match="ganger topics create"):
        read_placements(settings)

    made = json.loads(call(settings, "create", "--partitions", "3", "--cell", "a", "--json"))
    assert made == {"made": list(TOPICS), "kept": [], "cells": {"a": 0}}
    assert call(settings, "check") == f"{len(TOPICS)} topics are as declared\n"
    again = call(settings, "create", "--cell", "b", "--cell", "a")
    assert again.splitlines() == [
        f"{len(TOPICS)} topics were there already",
        "cell b has partition 1",
        "cell a has partition 0",
    ]

    listed = json.loads(call(settings, "list", "--json"))
    assert [topic["name"] for topic in listed["topics"]] == list(TOPICS)
    assert {topic["partitions"] for topic in listed["topics"]} == {1, 3}
    assert listed["cells"] == {"a": 0, "b": 1}
    ids = admin.topic_ids(settings, list(TOPICS))
    assert {topic["name"]: topic["topic_id"] for topic in listed["topics"]} == ids
    assert len(set(ids.values())) == len(TOPICS) and not any("/" in each for each in ids.values())
    text = call(settings, "list")
    assert "unlimited" in text and "7 d" in text and "newest" in text
    assert admin.cell_partitions(settings) == 3

    with pytest.raises(SettingsBad, match="partitions: is 4, but ganger"):
        admin.create(settings, partitions=4)
    with pytest.raises(SettingsBad, match="replication: is 3; give 1 to 1"):
        admin.create(settings, replication=3)
    assert "Error" in call(settings, "create", "--partitions", "4", code=2)


def test_differences_are_named_with_what_to_do(kafka_cluster: Clusters) -> None:
    settings = KafkaSettings(kafka_cluster().bootstrap)
    make(settings, NewTopic(JOBS, 2, 1), NewTopic(CELLS, 2, 1))
    made = admin.create(settings)
    assert made.kept == (JOBS, CELLS), "what is there stays, and the rest is cut like it"
    alter(settings, PODS, "retention.ms", "60000")
    alter(settings, ROWS, "cleanup.policy", "compact")
    found = {(each.topic, each.key): each for each in admin.check(settings)}
    assert {topic for topic, _ in found} == {JOBS, CELLS, PODS, ROWS}
    pods = found[PODS, "retention.ms"]
    assert (pods.declared, pods.found) == ("604800000", "60000")
    assert "--add-config retention.ms=604800000" in pods.remedy
    assert found[ROWS, "cleanup.policy"].found == "compact"
    assert found[CELLS, "partitions"].declared == "1"
    assert (JOBS, "partitions") not in found
    assert f"{PODS}: retention.ms: declared 604800000, found 60000." in call(
        settings, "check", code=1
    )
    others = {(each.topic, each.key) for each in admin.check(settings, partitions=5)}
    assert (LEDGER, "partitions") in others


def test_three_brokers_hold_three_copies(kafka_cluster: Clusters) -> None:
    cluster = kafka_cluster(brokers=3)
    settings = KafkaSettings(cluster.bootstrap)
    admin.create(settings, partitions=2, cells=["a"])
    topics = {topic.name: topic for topic in admin.describe(settings)}
    assert {topic.replication for topic in topics.values()} == {3}
    assert {topic.configs["min.insync.replicas"] for topic in topics.values()} == {"2"}
    assert admin.check(settings) == []
    assert admin.check(settings, replication=2) == []
    cluster.kill(1)
    assert find_cell(settings, "a").partition == 0
    assert place_cell(settings, "b").partition == 1, "one broker less stops no writes"


# ---- cells ---------------------------------------------------------------------------------------


def test_the_first_placement_counts(kafka_cluster: Clusters) -> None:
    settings = KafkaSettings(kafka_cluster().bootstrap)
    admin.create(settings, partitions=3)
    with PlacementWatch(settings) as watch:
        assert watch.partitions == 3 and watch.by_cell == {} and watch.free_partition() == 0
        append(
            settings,
            b"",
            b"no payload of ganger's",
            encode_row(CellPlaced("a", 0, b"f" * 32, b"x")),
            encode_row(CellPlaced("b", 0, b"f" * 32, b"")),  # comes second to its partition
            encode_row(CellPlaced("a", 1, b"f" * 32, b"")),  # has one already
            encode_row(CellPlaced("c", 3, b"f" * 32, b"")),  # there is no such partition
            encode_row(CellPlaced("c", -1, b"f" * 32, b"")),
            encode_row(CellPlaced("..", 1, b"f" * 32, b"")),  # no name: it is a folder of others
        )
        placed = watch.read_to_end()
        assert [(place.cell, place.partition) for place in placed] == [("a", 0)]
        assert watch.refresh() == [] and watch.by_partition == {0: placed[0]}

        assert place_cell(settings, "a") == placed[0]
        same = place_cell(settings, "a", fingerprint=b"f" * 32, arguments=b"x")
        assert same == placed[0]
        for other in ({"fingerprint": b"g" * 32, "arguments": b"x"}, {"arguments": b"y"}):
            with pytest.raises(CellElsewhere):
                place_cell(settings, "a", **other)
        with pytest.raises(CellElsewhere, match="arguments"):
            place_cell(settings, "a", fingerprint=b"f" * 32)
        second = place_cell(settings, "b")
        assert (second.partition, second.fingerprint, second.arguments) == (1, fingerprint(), b"")
        third = place_cell(settings, "c", fingerprint=b"h" * 32, arguments=b"run")
        assert watch.read_to_end() == [second, third] and watch.placement("c") == third

    with pytest.raises(NoFreePartition, match="all 3 partitions"):
        place_cell(settings, "d")
    with pytest.raises(CellUnknown, match=r"there are: a, b, c\."):
        find_cell(settings, "d")
    for name in ("", "a/b", "a b", "é", "x" * 101, ".", ".."):
        with pytest.raises(SettingsBad, match="cell"):
            place_cell(settings, name)


def test_administrators_who_place_at_once_agree(kafka_cluster: Clusters) -> None:
    settings = KafkaSettings(kafka_cluster().bootstrap)
    admin.create(settings, partitions=8)
    names = [f"c{number % 8}" for number in range(24)]
    with ThreadPoolExecutor(12) as pool:
        placed = list(pool.map(lambda name: place_cell(settings, name), names))
    by_cell = read_placements(settings)
    assert [by_cell[name] for name in names] == placed
    assert sorted(place.partition for place in by_cell.values()) == list(range(8))


# ---- brokers that do not answer, logins ----------------------------------------------------------


@pytest.fixture
def silent() -> Iterator[str]:
    """Address of a server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("asks", [admin.create, admin.check, admin.describe, read_placements])
def test_a_broker_that_does_not_answer_is_an_error(
    silent: str, asks: Callable[[KafkaSettings], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (admin, cells):
        monkeypatch.setattr(module, "CONNECT_SECONDS", 0.5)
    with pytest.raises(BrokerUnreachable, match=silent):
        asks(KafkaSettings(silent))


def test_nobody_there_is_an_error(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "CONNECT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = f"127.0.0.1:{server.getsockname()[1]}"
    said = call(KafkaSettings(closed), "check", code=1)
    assert closed in said and "Connection refused" in said


PASSWORD = "s3cret-of-ganger"
KEY_PASSWORD = "s3cret-of-the-key"


def secured(clusters: Clusters, authority: Authority, folder: Path) -> KafkaSettings:
    """Settings for a new broker that asks for TLS, a client's certificate and a login."""
    certificate, key = authority.issue("broker")
    store = folder / "broker.pem"
    store.write_bytes(key.read_bytes() + certificate.read_bytes())
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    users = f'username="broker" password="b" user_broker="b" user_ganger="{PASSWORD}"'
    cluster = clusters(
        settings=(
            "listener.security.protocol.map=PLAINTEXT:SASL_SSL,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name=PLAINTEXT",
            "sasl.enabled.mechanisms=PLAIN",
            "sasl.mechanism.inter.broker.protocol=PLAIN",
            f"listener.name.plaintext.plain.sasl.jaas.config={login} {users};",
            "ssl.keystore.type=PEM",
            f"ssl.keystore.location={store}",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={authority.certificate}",
            "listener.name.plaintext.ssl.client.auth=required",
        )
    )
    certificate, key = authority.issue("client", KEY_PASSWORD)
    return KafkaSettings(
        cluster.bootstrap,
        {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(authority.certificate),
            "ssl.certificate.location": str(certificate),
            "ssl.key.location": str(key),
            "ssl.key.password": KEY_PASSWORD,
            "sasl.mechanism": "PLAIN",
            "sasl.username": "ganger",
            "sasl.password": PASSWORD,
        },
    )


async def topics_seen_by_faust(settings: KafkaSettings) -> set[str]:
    """What the client that Faust runs on sees, made with the credentials that Faust is given."""
    options = faust_options(settings)
    client = AIOKafkaAdminClient(
        bootstrap_servers=[url.removeprefix("kafka://") for url in options["broker"]],
        **credentials_to_aiokafka_auth(options["broker_credentials"]),
    )
    try:
        await client.start()
        return set(await client.list_topics())
    finally:
        await client.close()


def test_a_login_over_tls_serves_every_client(
    kafka_cluster: Clusters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path, "authority")
    settings = secured(kafka_cluster, authority, tmp_path)
    lines = (f"{name}={value}" for name, value in settings.properties.items())
    file = tmp_path / "kafka.properties"
    file.write_text("\n".join(lines))
    call(settings, "create", "--kafka-config", str(file), "--partitions", "1", "--cell", "a")
    assert find_cell(settings, "a").partition == 0
    assert asyncio.run(topics_seen_by_faust(settings)) >= set(TOPICS)

    monkeypatch.setattr(admin, "CONNECT_SECONDS", 2.0)
    stranger = Authority(tmp_path, "stranger")
    for name, wrong, said in (
        ("sasl.password", "s3cret-of-another", "uthentication"),
        ("ssl.ca.location", str(stranger.certificate), "certificate verify failed"),
        ("security.protocol", "PLAINTEXT", "connecting"),
    ):
        other = KafkaSettings(settings.bootstrap, {**settings.properties, name: wrong})
        with pytest.raises(KafkaFailed, match=said) as refused:
            admin.check(other)
        assert "s3cret" not in str(refused.value)

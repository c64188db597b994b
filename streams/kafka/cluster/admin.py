"""Creating ganger's topics, comparing them with their declaration, and looking them up."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType
from msgspec import Struct

from ganger.streams.kafka.cluster.cells import Placement, place_cell
from ganger.streams.kafka.cluster.errors import SettingsBad, TopicMissing
from ganger.streams.kafka.cluster.failures import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    Troubles,
    patiently,
)
from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kafka.cluster.topics import (
    CELLS,
    LEDGER,
    PARTITIONS_DEFAULT,
    REPLICATION_DEFAULT,
    TOPICS,
    Partitions,
    TopicSpec,
    topic_configs,
)

_SETTLE_SECONDS = 60.0  # for a broker that shares its core with much else
_URL_SAFE = str.maketrans("+/", "-_")


class Topic(Struct, frozen=True):
    """A topic as the cluster has it.

    Attributes:
        topic_id: Kafka's own id, which a topic of the same name made anew does not get again; 22
            characters of URL-safe base64, as Kafka's tools print it.
        replication: copies of the partition that has the fewest.
        leaderless: partitions that nobody can write to or read from now.
    """

    name: str
    topic_id: str
    partitions: int
    replication: int
    leaderless: tuple[int, ...]
    configs: dict[str, str]


class Finding(Struct, frozen=True):
    """One difference between what is declared and what the cluster has."""

    topic: str
    key: str
    declared: str
    found: str
    remedy: str

    def __str__(self) -> str:
        """One line."""
        return (
            f"{self.topic}: {self.key}: declared {self.declared}, found {self.found}. {self.remedy}"
        )


class Created(Struct, frozen=True):
    """What `create` did.

    Attributes:
        made: topics that were missing.
        kept: topics that were there, whatever their settings (`check` compares these).
        placements: the cells asked for, where they are now.
    """

    made: tuple[str, ...]
    kept: tuple[str, ...]
    placements: tuple[Placement, ...]


def create(
    settings: KafkaSettings,
    *,
    partitions: int | None = None,
    replication: int | None = None,
    cells: Iterable[str] = (),
) -> Created:
    """Make the topics that are missing, and give cells their partitions. Can be repeated.

    Args:
        settings: the Kafka to work on.
        partitions: partitions per topic, that is the most cells there can be; by default as many
            as the topics have that are there, or `PARTITIONS_DEFAULT`.
        replication: copies of each partition; by default three, or one per broker if these are
            fewer.
        cells: names of cells to place.

    Raises:
        SettingsBad: `partitions` differs from what is there, or a number is out of range.
        KafkaFailed: see its subclasses.
    """
    admin = Admin(settings)
    there = admin.topics()
    count = _cell_count(there, partitions)
    copies = _replication(admin, replication)
    missing = [spec for name, spec in TOPICS.items() if name not in there]
    made = admin.create(missing, count, copies)
    admin.settle({spec.name: spec.partition_count(count) for spec in missing})
    placements = tuple(place_cell(settings, cell) for cell in cells)
    return Created(made, tuple(name for name in TOPICS if name not in made), placements)


def check(
    settings: KafkaSettings, *, partitions: int | None = None, replication: int | None = None
) -> list[Finding]:
    """Everything in which the cluster's topics differ from the declared ones.

    Args:
        settings: the Kafka to look at.
        partitions: what is expected of the topics with one partition per cell; by default as many
            as the ledger's topic has.
        replication: least number of copies expected; by default as for `create`.

    Raises:
        KafkaFailed: see its subclasses.
    """
    admin = Admin(settings)
    there = admin.topics(with_configs=True)
    count = partitions
    if count is None:
        count = there[LEDGER].partitions if LEDGER in there else PARTITIONS_DEFAULT
    copies = _replication(admin, replication)
    return [
        finding
        for name, spec in TOPICS.items()
        for finding in _findings(spec, there.get(name), count, copies, settings.bootstrap)
    ]


def describe(settings: KafkaSettings) -> list[Topic]:
    """Ganger's topics as the cluster has them, in the order of their declaration.

    Raises:
        KafkaFailed: see its subclasses.
    """
    there = Admin(settings).topics(with_configs=True)
    return [there[name] for name in TOPICS if name in there]


def topic_ids(settings: KafkaSettings, topics: Sequence[str]) -> dict[str, str]:
    """Kafka's ids of topics, by name.

    Raises:
        TopicMissing: one of them is not there.
        KafkaFailed: see its other subclasses.
    """
    return {topic.name: topic.topic_id for topic in Admin(settings).these(topics)}


def topic_id(settings: KafkaSettings, topic: str) -> str:
    """Kafka's id of one topic; raises as `topic_ids`."""
    return topic_ids(settings, [topic])[topic]


def cell_partitions(settings: KafkaSettings) -> int:
    """Partitions of the ledger's topic: the most cells there can be; raises as `topic_ids`."""
    return Admin(settings).these([LEDGER])[0].partitions


class Admin:
    """Questions and requests to one Kafka, each of which ends in some seconds."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._troubles = Troubles(settings)
        # Held as long as this object: a client that is collected fails the futures it gave.
        self._client = AdminClient(settings.client(**self._troubles.options()))

    def broker_count(self) -> int:
        """Brokers that are up."""
        return len(self._metadata().brokers)

    def topics(self, *, with_configs: bool = False) -> dict[str, Topic]:
        """Those of ganger's topics that are there, by name; settings are asked for if wanted."""
        present = self._metadata().topics
        names = [name for name in TOPICS if name in present]
        configs = self._configs(names) if with_configs else {}
        return {topic.name: topic for topic in self._describe(names, configs)}

    def these(self, names: Sequence[str]) -> list[Topic]:
        """Topics by name, without their settings.

        Raises:
            TopicMissing: one of them is not there.
        """
        present = self._metadata().topics
        for name in names:
            if name not in present:
                raise TopicMissing(self._settings.bootstrap, name)
        return self._describe(names, {})

    def create(self, specs: Sequence[TopicSpec], cells: int, replication: int) -> tuple[str, ...]:
        """Make topics; names of those that nobody else made meanwhile."""
        if not specs:
            return ()
        wanted = [
            NewTopic(
                spec.name,
                num_partitions=spec.partition_count(cells),
                replication_factor=replication,
                config=topic_configs(spec, replication),
            )
            for spec in specs
        ]
        futures = self._client.create_topics(wanted, request_timeout=ANSWER_SECONDS)
        return tuple(name for name, future in futures.items() if self._is_made(name, future))

    def settle(self, partitions: Mapping[str, int]) -> None:
        """Wait until the leader of each partition of these topics serves it.

        Args:
            partitions: number of them, by topic.

        Raises:
            KafkaFailed: that takes too long.
        """
        wanted = {
            TopicPartition(name, part): OffsetSpec.latest()
            for name, count in partitions.items()
            for part in range(count)
        }
        if not wanted:
            return

        def ask() -> None:
            # Metadata names a leader a moment before the leader knows of it; and the client would
            # keep to metadata without leaders if it were not asked for anew.
            self._metadata()
            futures = self._client.list_offsets(wanted, request_timeout=ANSWER_SECONDS)
            for future in futures.values():
                self._result("waiting for leaders", future)

        try:
            patiently(ask, _SETTLE_SECONDS)
        except KafkaException as error:
            raise self._troubles.failure("waiting for leaders", error) from error

    def _is_made(self, name: str, future: "Future[None]") -> bool:
        try:
            self._result(f"creating {name}", future)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return False
            raise self._troubles.failure(f"creating {name}", error) from error
        return True

    def _describe(self, names: Sequence[str], configs: Mapping[str, dict[str, str]]) -> list[Topic]:
        if not names:
            return []

        def ask() -> dict[str, Any]:
            # A broker may hear of a new topic later than the one that made it known here.
            futures = self._client.describe_topics(
                TopicCollection(list(names)), request_timeout=ANSWER_SECONDS
            )
            return {
                name: self._result(f"describing {name}", future) for name, future in futures.items()
            }

        try:
            described = patiently(ask)
        except KafkaException as error:
            raise self._troubles.failure("describing topics", error) from error
        found = []
        for name in names:
            topic = described[name]
            parts = topic.partitions
            found.append(
                Topic(
                    name=name,
                    topic_id=str(topic.topic_id).translate(_URL_SAFE),
                    partitions=len(parts),
                    replication=min((len(part.replicas) for part in parts), default=0),
                    leaderless=tuple(part.id for part in parts if part.leader is None),
                    configs=configs.get(name, {}),
                )
            )
        return found

    def _configs(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        if not names:
            return {}
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        futures = self._client.describe_configs(resources, request_timeout=ANSWER_SECONDS)
        return {
            resource.name: {
                key: entry.value
                for key, entry in self._asked(f"describing {resource.name}", future).items()
            }
            for resource, future in futures.items()
        }

    def _metadata(self) -> Any:
        try:
            return self._client.list_topics(timeout=CONNECT_SECONDS)
        except KafkaException as error:
            self._client.poll(0)  # lets the client tell what it knows of the cause
            raise self._troubles.failure("connecting", error) from error

    def _asked(self, doing: str, future: "Future[Any]") -> Any:
        try:
            return self._result(doing, future)
        except KafkaException as error:
            raise self._troubles.failure(doing, error) from error

    def _result(self, doing: str, future: "Future[Any]") -> Any:
        try:
            return future.result(timeout=2 * ANSWER_SECONDS)
        except TimeoutError as error:
            raise self._troubles.failure(doing, error) from error


def _cell_count(there: Mapping[str, Topic], wanted: int | None) -> int:
    """Partitions that topics made now get."""
    if wanted is not None and wanted < 1:
        raise SettingsBad("partitions", f"is {wanted}", "give at least 1")
    for name, topic in there.items():
        if TOPICS[name].partitions is not Partitions.CELLS:
            continue
        if wanted is not None and wanted != topic.partitions:
            raise SettingsBad(
                "partitions",
                f"is {wanted}, but {name} is there and has {topic.partitions}",
                "leave the option out, or use a Kafka without ganger's topics: a ledger cannot be "
                "cut anew",
            )
        wanted = topic.partitions
    return PARTITIONS_DEFAULT if wanted is None else wanted


def _replication(admin: Admin, wanted: int | None) -> int:
    brokers = admin.broker_count()
    if wanted is None:
        return min(REPLICATION_DEFAULT, brokers)
    if not 1 <= wanted <= brokers:
        raise SettingsBad(
            "replication", f"is {wanted}", f"give 1 to {brokers}, the brokers' number"
        )
    return wanted


def _findings(
    spec: TopicSpec, topic: Topic | None, cells: int, replication: int, bootstrap: str
) -> list[Finding]:
    """What differs in one topic."""
    if topic is None:
        remedy = f"Run `ganger topics create --kafka {bootstrap}`."
        return [Finding(spec.name, "topic", "present", "missing", remedy)]
    found = []
    count = spec.partition_count(cells)
    if topic.partitions != count:
        remedy = (
            "Delete the topic, unless it holds records that are needed, and create it anew; "
            "partitions added to it would put keys elsewhere."
        )
        if spec.name == CELLS:
            remedy = "Read only partition 0 of it; what stands in others does not count."
        found.append(Finding(spec.name, "partitions", str(count), str(topic.partitions), remedy))
    if topic.replication < replication:
        remedy = "Move its partitions with kafka-reassign-partitions, naming more brokers."
        found.append(
            Finding(
                spec.name,
                "replication",
                f"at least {replication}",
                str(topic.replication),
                remedy,
            )
        )
    if topic.leaderless:
        remedy = "Start the brokers that hold copies of them."
        found.append(
            Finding(
                spec.name, "partitions without leader", "none", str(list(topic.leaderless)), remedy
            )
        )
    return found + _config_findings(spec, topic)


def _config_findings(spec: TopicSpec, topic: Topic) -> list[Finding]:
    found = []
    declared = topic_configs(spec, topic.replication)
    for key, value in declared.items():
        is_value = topic.configs.get(key, "(unknown to this broker)")
        if is_value != value:
            remedy = (
                f"Run `kafka-configs --alter --entity-type topics --entity-name {spec.name} "
                f"--add-config {key}={value}`."
            )
            found.append(Finding(spec.name, key, value, is_value, remedy))
    return found

"""What can go wrong between ganger and Kafka, as types.

Every error names what was asked, what was found, and what to do about it. Secrets of the settings
never stand in one.
"""


class KafkaFailed(Exception):
    """Base of all errors of `ganger.streams.kafka`."""


class SettingsBad(KafkaFailed):
    """Settings of the Kafka clients that cannot be used.

    Attributes:
        field: the property or the argument, with its file and line where it came from one.
    """

    def __init__(self, field: str, what: str, remedy: str) -> None:
        self.field = field
        super().__init__(f"{field}: {what}; {remedy}")


class BrokerUnreachable(KafkaFailed):
    """No broker answered in time. Trying again later may help."""

    def __init__(self, bootstrap: str, doing: str, cause: str) -> None:
        self.bootstrap = bootstrap
        super().__init__(
            f"{bootstrap}: {doing}: {cause}. Check that Kafka runs there, and, where it asks for "
            "TLS or a login, that --kafka-config names a file with them"
        )


class TopicMissing(KafkaFailed):
    """A topic that ganger needs is not there."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        super().__init__(
            f"{bootstrap}: there is no topic {topic}. Run `ganger topics create --kafka "
            f"{bootstrap}` once"
        )


class RequestRefused(KafkaFailed):
    """A broker answered, and said no: to a topic, to a right, to a value."""

    def __init__(self, bootstrap: str, doing: str, cause: str) -> None:
        super().__init__(
            f"{bootstrap}: {doing}: the broker refuses: {cause}. Change the call, or let an "
            "administrator of this Kafka allow it"
        )


class CellUnknown(KafkaFailed):
    """A cell that is placed in no partition."""

    def __init__(self, bootstrap: str, cell: str, known: str) -> None:
        self.cell = cell
        super().__init__(
            f"{bootstrap}: cell {cell!r} is not placed; there are: {known}. Place it with "
            f"`ganger topics create --kafka {bootstrap} --cell {cell}`"
        )


class NoFreePartition(KafkaFailed):
    """Every partition of the ledger has its cell already."""

    def __init__(self, cell: str, partitions: int) -> None:
        self.cell = cell
        super().__init__(
            f"cell {cell!r}: all {partitions} partitions of the ledger are taken by other cells. "
            "Partitions cannot be added to topics that hold records; use a Kafka of its own for "
            "more cells, created with more --partitions"
        )


class CellElsewhere(KafkaFailed):
    """A cell stands in the topic already, for another ledger than the one asked for."""

    def __init__(self, cell: str, partition: int, field: str) -> None:
        self.cell = cell
        super().__init__(
            f"cell {cell!r} is placed in partition {partition} already, with another {field}: its "
            "ledger there is not the one given. Give the cell another name"
        )


class RegistryUnavailable(KafkaFailed):
    """The schema registry did not answer, though it may later. Nothing may be skipped meanwhile."""

    def __init__(self, url: str, doing: str, cause: str) -> None:
        super().__init__(
            f"schema.registry.url {url}: {doing}: {cause}. Check that the registry runs there, "
            "and start again"
        )


class RegistryRefused(KafkaFailed):
    """The schema registry answered, and said no."""

    def __init__(self, url: str, doing: str, cause: str) -> None:
        super().__init__(
            f"schema.registry.url {url}: {doing}: the registry refuses: {cause}. Check the login "
            "and the rights it has on these subjects, and what is registered under them"
        )

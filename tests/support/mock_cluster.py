"""librdkafka's mock cluster, for faults that a real broker does not make on demand.

It lives inside this process, in the library that confluent-kafka brings along, and speaks the real
protocol on loopback ports. It has no CreateTopics and no compaction, shows aborted transactions,
and keeps the last 5 MiB of a partition: use it for refused requests, delays and lost brokers.
"""

import ctypes
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path

import confluent_kafka

from ganger.streams.closing import Closing

_PRODUCER = 0  # rd_kafka_type_t: any client can carry a mock cluster
_TEXT_SIZE = 512


class Api(IntEnum):
    """Numbers of Kafka's requests, as its protocol guide lists them."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    INIT_PRODUCER_ID = 22


def _library() -> ctypes.CDLL:
    """The librdkafka that confluent-kafka itself uses; loading it again gives the same one."""
    packages = Path(confluent_kafka.__file__).resolve().parents[1]
    found = sorted(packages.glob("confluent_kafka.libs/librdkafka*.so*"))
    if not found:
        raise RuntimeError(
            f"no librdkafka under {packages}/confluent_kafka.libs; "
            "install the wheel of confluent-kafka instead of building it"
        )
    library = ctypes.CDLL(str(found[0]))
    pointer, text, int32 = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32
    signatures = {
        "rd_kafka_new": (pointer, [ctypes.c_int, pointer, text, ctypes.c_size_t]),
        "rd_kafka_destroy": (None, [pointer]),
        "rd_kafka_err2name": (text, [ctypes.c_int]),
        "rd_kafka_mock_cluster_new": (pointer, [pointer, ctypes.c_int]),
        "rd_kafka_mock_cluster_destroy": (None, [pointer]),
        "rd_kafka_mock_cluster_bootstraps": (text, [pointer]),
        "rd_kafka_mock_topic_create": (
            ctypes.c_int,
            [pointer, text, ctypes.c_int, ctypes.c_int],
        ),
        "rd_kafka_mock_partition_set_leader": (ctypes.c_int, [pointer, text, int32, int32]),
        "rd_kafka_mock_push_request_errors_array": (
            None,
            [pointer, ctypes.c_int16, ctypes.c_size_t, ctypes.POINTER(ctypes.c_int)],
        ),
        "rd_kafka_mock_clear_request_errors": (None, [pointer, ctypes.c_int16]),
        "rd_kafka_mock_broker_set_down": (ctypes.c_int, [pointer, int32]),
        "rd_kafka_mock_broker_set_up": (ctypes.c_int, [pointer, int32]),
        "rd_kafka_mock_broker_set_rtt": (ctypes.c_int, [pointer, int32, ctypes.c_int]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class MockCluster(Closing):
    """A cluster of mock brokers, numbered from 1; close it, or use it in a `with`."""

    def __init__(self, brokers: int = 1) -> None:
        self._library = _library()
        text = ctypes.create_string_buffer(_TEXT_SIZE)
        self._client = self._library.rd_kafka_new(_PRODUCER, None, text, _TEXT_SIZE)
        if not self._client:
            raise RuntimeError(f"librdkafka makes no client: {text.value.decode()}")
        self._cluster = self._library.rd_kafka_mock_cluster_new(self._client, brokers)
        if not self._cluster:
            self._library.rd_kafka_destroy(self._client)
            raise RuntimeError(f"librdkafka makes no mock cluster of {brokers} brokers")
        bootstrap = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster)
        self.bootstrap = bootstrap.decode()
        """`127.0.0.1:PORT`, with commas between several."""

    def close(self) -> None:
        """End the brokers; their clients should be closed before. Closing again does nothing."""
        if self._cluster:
            self._library.rd_kafka_mock_cluster_destroy(self._cluster)
            self._library.rd_kafka_destroy(self._client)
            self._cluster = self._client = None

    def create_topic(self, topic: str, partitions: int = 1, replicas: int = 1) -> None:
        name = topic.encode()
        self._check(
            self._library.rd_kafka_mock_topic_create(self._open(), name, partitions, replicas)
        )

    def set_leader(self, topic: str, partition: int, broker: int | None) -> None:
        """Move the leadership of a partition; None leaves it without a leader."""
        leader = -1 if broker is None else broker
        name = topic.encode()
        self._check(
            self._library.rd_kafka_mock_partition_set_leader(self._open(), name, partition, leader)
        )

    def push_errors(self, api: Api, errors: Sequence[int]) -> None:
        """Answer the next requests of a kind with these codes (`KafkaError.X`), one each.

        A code of 0 lets one request pass. `KafkaError._TRANSPORT` cuts the connection.
        """
        codes = (ctypes.c_int * len(errors))(*errors)
        self._library.rd_kafka_mock_push_request_errors_array(self._open(), api, len(errors), codes)

    def clear_errors(self, api: Api) -> None:
        """Forget the pushed errors that no request has met yet."""
        self._library.rd_kafka_mock_clear_request_errors(self._open(), api)

    def broker_down(self, broker: int) -> None:
        """Cut a broker's connections and refuse new ones."""
        self._check(self._library.rd_kafka_mock_broker_set_down(self._open(), broker))

    def broker_up(self, broker: int) -> None:
        self._check(self._library.rd_kafka_mock_broker_set_up(self._open(), broker))

    def set_rtt_ms(self, broker: int, rtt_ms: int) -> None:
        """Delay every answer of a broker by `rtt_ms`; 0 ends that."""
        self._check(self._library.rd_kafka_mock_broker_set_rtt(self._open(), broker, rtt_ms))

    def _open(self) -> int:
        if not self._cluster:
            raise ValueError("the mock cluster is closed")
        return self._cluster

    def _check(self, code: int) -> None:
        if code:
            raise ValueError(self._library.rd_kafka_err2name(code).decode())

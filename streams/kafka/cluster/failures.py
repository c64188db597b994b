"""From what Kafka's client reports to the errors of ganger."""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

from ganger.streams.kafka.cluster.errors import BrokerUnreachable, KafkaFailed, RequestRefused
from ganger.streams.kafka.cluster.settings import KafkaSettings

_T = TypeVar("_T")

CONNECT_SECONDS = 6.0
"""How long a first request waits for a connection."""

ANSWER_SECONDS = 10.0
"""How long a request may wait for its answer before the broker counts as unreachable."""

_COORDINATOR_MOVES = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError._WAIT_COORD,
)
"""Said of a group while another broker takes it over."""

_UNREACHABLE = frozenset(
    (
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError._DESTROY,
        KafkaError._DESTROY_BROKER,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        # what lasts for longer than `patiently` waits
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        *_COORDINATOR_MOVES,
    )
)

_PASSING = frozenset(
    (
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,  # a broker that just came back does not know all of them
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError._DESTROY_BROKER,
        *_COORDINATOR_MOVES,
        KafkaError._NOENT,  # "no leaders found", of requests about several partitions
    )
)
_RETRY_SECONDS = 0.05

# The client's own lines say nothing that the raised error does not, and would stand between a
# verb's lines.
_log = logging.getLogger("ganger.kafka.client")
_log.addHandler(logging.NullHandler())
_log.propagate = False


def is_passing(error: KafkaError) -> bool:
    """Whether an error is what a partition says while it is made, or its leader changes, or a group
    while its coordinator does.
    """
    return error.code() in _PASSING


def patiently(call: Callable[[], _T], seconds: float = ANSWER_SECONDS) -> _T:
    """What a call gives, made again while its error is a passing one.

    Raises:
        KafkaException: the call's, if it is of another kind or does not pass in time.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            return call()
        except KafkaException as error:
            if not is_passing(error.args[0]) or time.monotonic() > deadline:
                raise
        time.sleep(_RETRY_SECONDS)


class Troubles:
    """The newest error that a client reported on its own account, as a login that was refused.

    A request that waits for a connection ends as `timed out`; why there is no connection the
    client tells only its `error_cb`.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._newest: KafkaError | None = None

    def options(self) -> dict[str, object]:
        """What a client is made with to report here instead of on stderr."""
        return {"error_cb": self._took, "logger": _log}

    def _took(self, error: KafkaError) -> None:
        # "All brokers down" only repeats that none answered; the error before it says why.
        if self._newest is None or error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._newest = error

    def failure(self, doing: str, error: KafkaException | KafkaError | TimeoutError) -> KafkaFailed:
        """The error to raise for one of the client's.

        Args:
            doing: what was asked of Kafka, as in `reading the cells`.
            error: what the client raised or handed over.
        """
        cause = error.args[0] if isinstance(error, KafkaException) else error
        code = cause.code() if isinstance(cause, KafkaError) else KafkaError._TIMED_OUT
        if code not in _UNREACHABLE:
            return RequestRefused(self._settings.bootstrap, doing, self._text(cause))
        why = self._newest if self._newest is not None else cause
        return BrokerUnreachable(self._settings.bootstrap, doing, self._text(why))

    def _text(self, error: object) -> str:
        text = error.str() if isinstance(error, KafkaError) else str(error)
        return self._settings.scrubbed(text or "no answer").rstrip(".")

"""A process that no longer gets on is ended; one that has nothing to do, or no broker, is not."""

from confluent_kafka import KafkaError, KafkaException

from ganger.streams.kafka.cluster.topics import JOBS, LEDGER
from ganger.streams.kafka.wire.acks import Place
from ganger.streams.kafka.worker.pulse import Pulse
from ganger.streams.kafka.worker.watchdog import CLOSED_NS_MAX, PATIENCE_NS, Watchdog, Watched

P0, P1 = (LEDGER, 0), (JOBS, 1)


class Scene:
    """A worker as its watchdog sees it."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.taken: dict[Place, int] = {P0: 5, P1: 7}
        self.ends: dict[Place, int] = {P0: 5, P1: 7}
        self.commits: dict[Place, int] = {}
        self.marks: set[Place] = set()
        self.is_reachable = self.is_serving = self.is_alive = True
        self.pulse = Pulse()
        self.failures: list[str] = []
        watched = Watched(
            {"event loop": self.pulse},
            {"scheduler": lambda: self.is_alive},
            lambda: dict(self.taken),
            lambda: self.is_serving,
        )
        self.dog = Watchdog(watched, self, self.failures.append, lambda: self.now_ns)

    def end(self, place: Place) -> int:
        if not self.is_reachable:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return self.ends[place]

    def committed(self, places: list[Place]) -> dict[Place, int]:
        return {place: self.commits[place] for place in places}

    def first_from(self, place: Place, offset: int) -> int:
        return self.ends[place] if place in self.marks else offset

    def pass_time(self, patiences: int = 3) -> list[str]:
        for _ in range(patiences * 10):
            self.now_ns += PATIENCE_NS // 10 + 1
            self.dog.look()
            if self.failures:
                break
        return self.failures


def test_nothing_to_do_is_no_standstill() -> None:
    assert Scene().pass_time() == []


def test_a_ledger_that_grows_while_nobody_takes_it() -> None:
    scene = Scene()
    scene.ends[P0] = 6
    (failure,) = scene.pass_time()
    assert "ganger.ledger/0" in failure
    assert "offset 5" in failure


def test_slow_is_not_stuck() -> None:
    scene = Scene()
    scene.ends[P0] = 1000
    for _ in range(50):
        scene.taken[P0] += 1
        scene.now_ns += PATIENCE_NS - 1
        scene.dog.look()
    assert scene.failures == []


def test_an_input_that_was_never_read_counts_from_its_commit() -> None:
    scene = Scene()
    scene.taken[P1] = -1
    scene.commits[P1] = 7
    assert scene.pass_time() == []
    scene.commits[P1] = 3
    assert "ganger.jobs/1" in scene.pass_time()[0]


def test_marks_of_transactions_at_the_end_are_no_messages() -> None:
    scene = Scene()
    scene.ends[P1] = 8
    scene.marks.add(P1)
    assert scene.pass_time() == []


def test_without_a_broker_there_is_nothing_to_take() -> None:
    scene = Scene()
    scene.ends[P0] = 9
    scene.now_ns += PATIENCE_NS // 2
    scene.dog.look()
    scene.is_reachable = False
    assert scene.pass_time() == []
    scene.is_reachable = True
    scene.dog.look()
    assert scene.failures == [], "patience begins anew"
    assert scene.pass_time()


def test_rebalances_may_take_their_time_but_not_for_ever() -> None:
    scene = Scene()
    scene.ends[P0] = 9
    scene.is_serving = False
    scene.now_ns += CLOSED_NS_MAX - 1
    scene.dog.look()
    assert scene.failures == []
    scene.now_ns += 2
    scene.dog.look()
    assert scene.failures


def test_a_thread_that_ended() -> None:
    scene = Scene()
    scene.is_alive = False
    scene.dog.look()
    assert "scheduler has ended" in scene.failures[0]


def test_a_loop_that_stands_still() -> None:
    scene = Scene()
    scene.pulse.silent_ns = lambda: PATIENCE_NS + 1  # type: ignore[method-assign]
    scene.dog.look()
    assert "event loop has stood still" in scene.failures[0]

"""`ganger node reserve` and `release`: what they ask for."""

from typing import Any

import pytest

from ganger.schemas.records import ReservationRequested
from ganger.services.cli import node as verbs
from support.verbs import call

KAFKA = ("--kafka", "host:1", "--cell", "lab")
HOUR = 3600 * 10**9


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[ReservationRequested]:
    """What was sent instead of to Kafka."""
    found: list[ReservationRequested] = []

    def send(settings: Any, cell: str, records: Any, *_: Any) -> None:
        assert cell == "lab"
        found.extend(record for record, _ in records)

    monkeypatch.setattr(verbs, "send_all", send)
    monkeypatch.setattr(verbs, "requester", lambda: "ops")
    monkeypatch.setattr(verbs, "time_ns", lambda: 7)
    return found


def test_nodes_are_kept_from_a_time_on(sent: list[ReservationRequested]) -> None:
    begin = ("--from", "1970-01-02T01:00", "--for", "1h30m")
    call("node", "reserve", "upgrade", "a", "b", *begin, "--maintenance", *KAFKA)
    start = 25 * HOUR
    span = start, start + HOUR * 3 // 2
    expected = ReservationRequested(
        *(0, "", None, "upgrade", "ops", ("a", "b"), 0, *span, False), is_maintenance=True
    )
    assert sent == [expected]


def test_cards_and_shapes_are_kept_for_some(sent: list[ReservationRequested]) -> None:
    call("node", "reserve", "x", "a", "--cards", 2, "--for", "1h", "--user", "u", *KAFKA)
    shape = ("--pods", 8, "--pod-cards", 2, "--model", "A", "--queue", "q", "--tenant", "t")
    call("node", "reserve", "y", *shape, "--for", "1h", *KAFKA)
    first, second = sent
    assert (first.nodes, first.cards, first.users) == (("a",), 2, ("u",))
    assert (first.from_ns, first.to_ns, first.request) == (7, 7 + HOUR, None)
    assert second.request is not None
    assert (second.nodes, second.pods, second.request.cards) == ((), 8, 2)
    assert (second.request.models, second.queues, second.tenants) == (("A",), ("q",), ("t",))


def test_reservations_are_given_back(sent: list[ReservationRequested]) -> None:
    call("node", "release", "x", "y", *KAFKA)
    assert [(one.reservation, one.cancelled) for one in sent] == [("x", True), ("y", True)]


@pytest.mark.parametrize(
    "words",
    [
        ("--for", "1h"),
        ("a", "--pods", 1, "--pod-cards", 1, "--for", "1h"),
        ("--pods", 1, "--for", "1h"),
        ("a", "--for", "1h", "--from", "tomorrow"),
        ("a", "--for", "1h", "--from", "2500-01-01"),
        ("a", "--for", "1h", "--model", "A"),
        ("--pods", 1, "--pod-cards", 1, "--cards", 1, "--for", "1h"),
    ],
)
def test_what_says_nothing_is_refused(
    sent: list[ReservationRequested], words: tuple[object, ...]
) -> None:
    call("node", "reserve", "x", *words, *KAFKA, code=2)
    assert sent == []

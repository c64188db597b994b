"""Rows of the tables, against a ledger whose state is known."""

from pathlib import Path

import pytest

from ganger.replay.history import state_at
from ganger.schemas.enums import CardHealth
from ganger.schemas.records import CardRun, NodeChanged, NodeReport
from ganger.schemas.rows import Owner
from ganger.streams.kernel.state import State
from ganger.streams.kernel.step import step
from ganger.streams.log.directory import LedgerDirectory
from ganger.streams.tables.rows import (
    CARD_ROWS_MAX,
    TABLES,
    card_rows,
    job_rows,
    node_rows,
    queue_rows,
)
from support.row_follower import Follower
from support.small_ledger import START_NS, build


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ledger")
    build(path)
    return path


def state_after(path: Path, seq: int) -> State:
    return state_at(LedgerDirectory.open_reader(path), seq + 1)


def test_cards_say_who_holds_them(ledger: Path) -> None:
    rows = {(row.node, row.card): row for row in card_rows(state_after(ledger, 17))}
    assert len(rows) == 12
    assert rows["node-a", 0].owners == (Owner("gang", 0, 1, 1000),)
    assert rows["node-a", 7].owners == (Owner("gang", 1, 1, 1000),)
    assert rows["node-b", 1].owners == (Owner("small", 0, 1, 1000),)
    assert rows["node-b", 2].owners == (Owner("twin", 0, 1, 1000),)
    assert [rows["node-b", card].free_milli for card in range(4)] == [0, 0, 0, 1000]
    assert {row.model for row in rows.values()} == {"A100"}


def test_nodes_say_what_is_free(ledger: Path) -> None:
    before = {row.node: row for row in node_rows(state_after(ledger, 17))}
    node = before["node-b"]
    assert (node.state, node.card_count, node.card_free_count, node.pod_count) == ("open", 4, 1, 2)
    assert (node.cpu_milli, node.cpu_free_milli) == (96_000, 94_000)
    assert (node.pod_slots, node.pod_slots_free) == (110, 108)
    assert node.topology == ("rack-1", "node-b")
    after = {row.node: row.state for row in node_rows(state_after(ledger, 20))}
    assert after == {"node-a": "open", "node-b": "lost"}


def test_queues_say_their_shares(ledger: Path) -> None:
    rows = {row.queue: row for row in queue_rows(state_after(ledger, 17))}
    research, batch = rows["research"], rows["batch"]
    assert (research.weight, research.job_count) == (3, 2)
    assert (research.used_cards_milli, batch.used_cards_milli) == (2000, 9000)
    assert (research.capability_cards_milli, batch.capability_cards_milli) == (4000, -1)
    assert (research.waiting_cards_milli, batch.waiting_cards_milli) == (4000, 16_000)
    # 12 cards by weight 3 to 1: research may have 4 of them, what is left goes to batch.
    assert (research.deserved_cards_milli, batch.deserved_cards_milli) == (4000, 8000)


def test_jobs_say_how_far_they_are(ledger: Path) -> None:
    rows = {row.job: row for row in job_rows(state_after(ledger, 24))}
    assert {name: row.phase for name, row in rows.items()} == {
        "small": "SUCCEEDED",
        "gang": "RUNNING",
        "huge": "CANCELLED",
        "capped": "PENDING",
        "twin": "INQUEUE",
        "late": "PENDING",
    }
    gang = rows["gang"]
    assert (gang.pod_count, gang.pod_running_count, gang.pod_pending_count) == (2, 2, 0)
    assert (gang.held_cards_milli, gang.user, gang.queue) == (8000, "ada", "batch")
    small = rows["small"]
    assert small.submitted_ns == START_NS + 10 * 10**9
    assert small.started_ns == START_NS + 21 * 10**9
    assert small.ended_ns == START_NS + 30 * 10**9
    assert (small.reason, rows["huge"].reason) == ("ALL_PODS_SUCCEEDED", "CANCEL_REQUESTED")
    assert list(rows) == ["small", "gang", "huge", "capped", "twin", "late"]


def test_cards_of_mixed_nodes_follow_their_runs() -> None:
    runs = (
        CardRun(2, "A100", 81_920, 0, CardHealth.HEALTHY),
        CardRun(1, "A100", 81_920, 0, CardHealth.FAILED),
        CardRun(0, "H100", 1, 1, CardHealth.HEALTHY),
        CardRun(1, "L4", 24_576, 1, CardHealth.HEALTHY),
    )
    report = NodeReport("n", "b", runs, 1, 1, 1, (), (), (), (), (), -1, ())
    state = State("lab", bytes(32))
    step(state, 0, NodeChanged(START_NS, "", None, report))
    rows = list(card_rows(state))
    assert [(row.card, row.model, row.health, row.free_milli) for row in rows] == [
        (0, "A100", "HEALTHY", 1000),
        (1, "A100", "HEALTHY", 1000),
        (2, "A100", "FAILED", 0),
        (3, "L4", "HEALTHY", 1000),
    ]


def test_a_machine_of_very_many_cards_has_a_row_of_its_own_alone() -> None:
    state = State("lab", bytes(32))
    follower = Follower(state)
    for count in (CARD_ROWS_MAX, 1 << 20, 2):
        runs = (CardRun(count, "A100", 81_920, 0, CardHealth.HEALTHY),)
        report = NodeReport("n", "b", runs, 1, 1, 1, (), (), (), (), (), -1, ())
        follower.follow([NodeChanged(START_NS, "", None, report)])
        follower.take()
        cards = len(list(card_rows(state)))
        assert cards == (0 if count > CARD_ROWS_MAX else count)
        assert [row.card_count for row in node_rows(state)] == [count]


def test_an_empty_cell_has_empty_tables() -> None:
    assert [list(rows_of(State("lab", bytes(32)))) for _, rows_of in TABLES.values()] == [[]] * 4

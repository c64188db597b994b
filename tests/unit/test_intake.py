"""Intake: what becomes a ledger record, what does not, and which nodes are silent."""

from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.encoding import encode_record
from ganger.schemas.enums import CardHealth
from ganger.streams.intake import BAD_STRUCTURE, NOT_AN_INPUT, DeadLetter, InputRefused, Intake
from ganger.streams.kernel.limits import CARDS_MAX
from ganger.streams.kernel.state import State
from ganger.streams.kernel.step import step
from ganger.streams.structure import NAME_CHARS_MAX
from support.builders import SECOND, policy, queue, report, submission

SILENCE_NS = 40 * SECOND
PAUSE_NS = 20 * SECOND
CLAIM_SEQ = 7


def listening(*, pause_ns: int | None = PAUSE_NS, now_ns: int = 0) -> Intake:
    """An intake whose claim stands in the ledger."""
    intake = Intake("cell", "in-1", silence_ns=SILENCE_NS, pause_ns=pause_ns)
    assert intake.claim(now_ns) == r.IntakeClaimed(now_ns, "", None, "in-1")
    intake.claimed(CLAIM_SEQ)
    return intake


def heartbeat(*reports: r.NodeReport, event_id: str = "") -> r.NodeHeartbeat:
    return r.NodeHeartbeat(3, event_id, None, reports)


def kinds(records: list[r.Record]) -> list[str]:
    return [type(record).__name__ for record in records]


# --- requests and facts ---------------------------------------------------------------------------


def test_inputs_get_the_clock_of_the_intake_and_keep_the_rest() -> None:
    source = r.Source("topic", 0, 12, 1)
    sent = replace(submission("a", event_id="e-1", time_ns=5), source=source)
    assert listening().accept(sent, 99) == [replace(sent, time_ns=99)]


def test_a_record_of_now_passes_as_it_is() -> None:
    sent = submission("a", time_ns=5)
    (accepted,) = listening().accept(sent, 5)
    assert accepted is sent


@pytest.mark.parametrize(
    "record",
    [
        r.Tick(0, "", None, 0, True),
        r.OwnerClaimed(0, "", None, "x"),
        r.IntakeClaimed(0, "", None, "x"),
        r.NodeChanged(0, "", None, report("n")),
        r.NodeReturned(0, "", None, report("n")),
        r.NodeLost(0, "", None, "n", 0, 1),
        r.SnapshotSealed(0, "", None, 0, b"", b"", b""),
    ],
)
def test_what_intakes_and_owners_write_is_no_input(record: r.Record) -> None:
    with pytest.raises(InputRefused, match=type(record).__name__) as caught:
        listening().accept(record, 0)
    assert caught.value.error_class == NOT_AN_INPUT


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (submission(""), "JobSubmitRequested.job is '' of 0 characters"),
        (submission("x" * (NAME_CHARS_MAX + 1)), f"give 1 to {NAME_CHARS_MAX}"),
        (r.JobCancelRequested(0, "", None, "", "me"), "JobCancelRequested.job is ''"),
        (r.PodStarted(0, "", None, "a", -1, 1, "n", 0), "PodStarted.pod is -1"),
        (r.PodReleased(0, "", None, "a", 0, 0, 0), "PodReleased.attempt is 0"),
        (r.PodSuspended(0, "", None, "a", -1, 1, 0, 0), "PodSuspended.pod is -1"),
        (r.PodResumed(0, "", None, "", 0, 1, 0), "PodResumed.job is ''"),
        (r.NodeDrained(0, "", None, "", "me", 0), "NodeDrained.node is ''"),
    ],
)
def test_names_that_name_nothing_are_refused(record: r.Record, words: str) -> None:
    with pytest.raises(InputRefused) as caught:
        listening().accept(record, 0)
    assert caught.value.error_class == BAD_STRUCTURE
    assert words in caught.value.detail


def test_scheduling_state_is_not_judged() -> None:
    intake = listening()
    strange = submission("a", queue="no such queue", priority=-5)
    assert kinds(intake.accept(strange, 1) + intake.accept(strange, 2)) == [
        "JobSubmitRequested",
        "JobSubmitRequested",
    ]


def test_bytes_come_in_like_records() -> None:
    sent = submission("a", event_id="e", time_ns=5)
    assert listening().receive(encode_record(sent), 9) == [replace(sent, time_ns=9)]


@pytest.mark.parametrize(
    ("payload", "error_class"),
    [
        (b"", "too_short"),
        (b"\x01\x00\x00\x00\x01\x00", "bad_magic"),
        (encode_record(submission("a")) + b"\0", "trailing_bytes"),
        (encode_record(r.Tick(0, "", None, 0, True)), NOT_AN_INPUT),
        (encode_record(submission("")), BAD_STRUCTURE),
        (encode_record(queue("")), BAD_STRUCTURE),
        (encode_record(queue("a", parent="p" * 254)), BAD_STRUCTURE),
        (
            encode_record(r.ReservationRequested(0, "", None, "", "me", ("n",), 0, 1, 2, False)),
            BAD_STRUCTURE,
        ),
    ],
)
def test_dead_letters_carry_the_very_bytes(payload: bytes, error_class: str) -> None:
    with pytest.raises(DeadLetter) as caught:
        listening().receive(payload, 1)
    letter = caught.value
    assert (letter.cell, letter.payload, letter.error_class) == ("cell", payload, error_class)
    assert letter.detail


def test_payloads_above_the_cap_are_not_looked_at() -> None:
    with pytest.raises(DeadLetter, match="too_large"):
        listening().receive(encode_record(submission("a")), 1, max_bytes=10)


# --- heartbeats -----------------------------------------------------------------------------------


def test_only_heartbeats_that_say_something_new_reach_the_ledger() -> None:
    intake = listening()
    first = replace(report("n"), utilisation_milli=(0,) * 8)
    assert intake.accept(heartbeat(first, event_id="h"), 10) == [
        r.NodeChanged(10, "", None, replace(first, utilisation_milli=()))
    ]
    busy = replace(first, utilisation_milli=(900,) * 8)
    assert intake.accept(heartbeat(busy), 20) == []
    assert intake.accept(heartbeat(busy), 30) == []
    failed = report("n", failed=[3])
    assert intake.accept(heartbeat(failed), 40) == [r.NodeChanged(40, "", None, failed)]


def test_every_node_of_a_frame_with_an_event_id_reaches_the_kernel() -> None:
    state = State("cell", bytes(32))
    taken = listening().accept(heartbeat(report("n"), report("m"), event_id="frame"), 10)
    for seq, record in enumerate(taken):
        step(state, seq, record)
    assert [node.report.node for node in state.nodes] == ["n", "m"]


@pytest.mark.parametrize("change", [{"attempts": [("a", 0, 1)]}, {"handled": 4}, {"boot": "2"}])
def test_attempts_decisions_handled_and_boots_are_news(change: dict[str, object]) -> None:
    intake = listening()
    intake.accept(heartbeat(report("n")), 10)
    (record,) = intake.accept(heartbeat(report("n", **change)), 20)  # type: ignore[arg-type]
    assert isinstance(record, r.NodeChanged)


def test_the_order_of_attempts_is_no_news() -> None:
    intake = listening()
    one, two = ("a", 0, 1), ("b", 0, 1)
    (record,) = intake.accept(heartbeat(report("n", attempts=[two, one])), 10)
    assert isinstance(record, r.NodeChanged)
    assert record.report.attempts == (r.AttemptRef(*one), r.AttemptRef(*two))
    assert intake.accept(heartbeat(report("n", attempts=[one, two])), 20) == []


def test_one_frame_may_carry_many_nodes_and_is_taken_whole_or_not_at_all() -> None:
    intake = listening()
    with pytest.raises(InputRefused, match=r"reports\[1\].boot_id"):
        intake.accept(heartbeat(report("a"), report("b", boot="")), 10)
    records = intake.accept(heartbeat(report("a"), report("b")), 10)
    assert [record.report.node for record in records if isinstance(record, r.NodeChanged)] == [
        "a",
        "b",
    ]


def cards(count: int) -> r.CardRun:
    return r.CardRun(count, "A", 1, 0, CardHealth.HEALTHY)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (report(""), "node is ''"),
        (report("n", cpu=-1), "cpu_milli is -1"),
        (report("n", runs=[cards(0)]), "cards[0] has count 0"),
        (report("n", runs=[cards(CARDS_MAX), cards(1)]), "a node may have"),
        (replace(report("n", 2), utilisation_milli=(1,)), "one of 0..1000 for each card"),
        (replace(report("n", 1), utilisation_milli=(1001,)), "one of 0..1000 for each card"),
        (report("n", attempts=[("a", 0, 0)]), "attempts[0].attempt is 0"),
        (report("n", handled=-2), "handled_seq is -2"),
        (report("n", resources=[("", 1)]), "resources has ''"),
        (report("n", resources=[("nic", (1 << 40) + 1)]), "resources has 'nic'"),
        (report("n", resources=[("nic", 1), ("nic", 1)]), "resources has 'nic' beside"),
        (report("n", resources=[("cpu_milli", 1)]), "resources has 'cpu_milli' beside"),
        (report("n", resources=[(f"r{i}", 1) for i in range(257)]), "resources are 257"),
        (report("n", memory=(1 << 40) + 1), "memory_mib is 1099511627777; give 0 to 1099511627776"),
        (report("n", cpu=(1 << 40) + 1), "cpu_milli is"),
        (report("n", labels=[("zone", "a"), ("zone", "b")]), "labels has 'zone' twice"),
        (report("n", runs=[cards(10_000)] * 100), "so many may be in 16 runs"),
    ],
)
def test_reports_that_cannot_be_are_refused(bad: r.NodeReport, words: str) -> None:
    with pytest.raises(InputRefused) as caught:
        listening().accept(heartbeat(bad), 10)
    assert words in caught.value.detail


@pytest.mark.parametrize("name", ["", "x" * 254])
def test_a_policy_has_a_name(name: str) -> None:
    with pytest.raises(InputRefused, match=r"policy is '.*' of \d+ characters; give 1 to 253"):
        listening().accept(replace(policy(), policy=name), 10)


@pytest.mark.parametrize("record", [heartbeat(report("n")), submission("j")])
def test_ids_of_events_are_short(record: r.Record) -> None:
    with pytest.raises(
        InputRefused, match=r"event_id is 'xxx.* of 254 characters; give at most 253"
    ):
        listening().accept(replace(record, event_id="x" * 254), 10)


# --- liveness -------------------------------------------------------------------------------------


@dataclass
class Watched:
    """An intake in front of nodes that beat every 10 s, and the time."""

    intake: Intake
    now_ns: int = 0

    def beat(self, *nodes: str, seconds: int = 10) -> list[r.Record]:
        """Let time pass, hear nodes, look for silent ones."""
        self.now_ns += seconds * SECOND
        records = self.intake.accept(heartbeat(*map(report, nodes)), self.now_ns)
        return records + self.intake.silence(self.now_ns)


def test_a_silent_node_is_lost_once_and_returns() -> None:
    cell = Watched(listening())
    assert kinds(cell.beat("a", "b")) == ["NodeChanged", "NodeChanged"]
    for _ in range(3):
        assert cell.beat("a") == []
    assert cell.intake.next_loss_ns() == 50 * SECOND
    assert cell.beat("a") == [r.NodeLost(50 * SECOND, "", None, "b", CLAIM_SEQ, SILENCE_NS)]
    assert cell.beat("a") == []
    assert cell.beat("a", "b") == [r.NodeReturned(cell.now_ns, "", None, report("b"))]
    assert cell.beat("a", "b") == []


def test_nodes_lost_together_come_by_name() -> None:
    cell = Watched(listening())
    cell.beat("c", "a", "b")
    for _ in range(3):
        cell.beat("d")
    assert [getattr(record, "node", "") for record in cell.beat("d")] == ["a", "b", "c"]


def test_a_pause_of_the_intake_is_no_silence_of_the_nodes() -> None:
    cell = Watched(listening())
    cell.beat("a")
    assert cell.beat(seconds=1000) == []
    assert cell.intake.next_loss_ns() == cell.now_ns + SILENCE_NS
    for _ in range(3):
        assert cell.beat() == []
    (lost,) = cell.beat()
    assert isinstance(lost, r.NodeLost)
    assert lost.silent_ns == SILENCE_NS


def test_without_pauses_all_silence_counts() -> None:
    cell = Watched(listening(pause_ns=None))
    cell.beat("a")
    (lost,) = cell.beat(seconds=1000)
    assert isinstance(lost, r.NodeLost)
    assert lost.silent_ns == 1000 * SECOND


def test_a_successor_counts_from_its_takeover() -> None:
    cell = Watched(listening(now_ns=500 * SECOND), now_ns=500 * SECOND)
    cell.intake.know(report("a"))
    cell.intake.know(report("gone"), is_lost=True)
    for _ in range(3):
        assert cell.beat() == []
    assert kinds(cell.beat()) == ["NodeLost"]
    assert kinds(cell.beat("a", "gone")) == ["NodeReturned", "NodeReturned"]


def test_a_successor_knows_what_was_forwarded() -> None:
    cell = Watched(listening())
    cell.intake.know(report("a", attempts=[("j", 1, 1), ("j", 0, 1)]))
    sent = heartbeat(report("a", attempts=[("j", 0, 1), ("j", 1, 1)]))
    assert cell.intake.accept(sent, 1) == []


def test_a_clock_that_steps_back_loses_nobody() -> None:
    cell = Watched(listening(pause_ns=None))
    cell.beat("a", seconds=100)
    cell.now_ns -= 90 * SECOND
    assert cell.beat("a") == []
    assert cell.intake.next_loss_ns() == 100 * SECOND + SILENCE_NS


def test_nobody_is_lost_before_the_claim_is_known() -> None:
    intake = Intake("cell", "in-1")
    intake.claim(0)
    with pytest.raises(ValueError, match="claimed"):
        intake.silence(1)


def test_no_patience_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="silence_ns: 0"):
        Intake("cell", "in-1", silence_ns=0)

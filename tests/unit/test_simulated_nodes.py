"""Simulated nodes: what they do with decisions, and that a restart loses and doubles nothing."""

import random
from collections.abc import Iterable
from typing import Any

import pytest

from ganger.replay.cluster import parse_nodes
from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.encoding import encode_record
from ganger.schemas.enums import DecisionKind, FailureKind, Tier
from ganger.schemas.reasons import Reason
from ganger.services.job_spec import JobSpec, RetrySpec
from ganger.services.simulated_nodes import HEARTBEAT_NS, HEARTBEAT_NS_MIN, Pace, SimulatedNodes
from support.builders import GENESIS, SECOND, policy, queue
from support.live_cell import LiveCell

NODES = parse_nodes("2x4")


def cell(*jobs: JobSpec) -> LiveCell:
    made = LiveCell(GENESIS)
    made.put([policy(), queue("default"), *(job.request() for job in jobs)])
    return made


def remembered(made: LiveCell, pace: Pace) -> SimulatedNodes:
    nodes = SimulatedNodes(NODES, pace)
    nodes.remember(made.payloads(), made.decided())
    return nodes


def shown(facts: Iterable[Any]) -> list[str]:
    return [f"{type(fact).__name__} {fact.job}/{fact.pod}/{fact.attempt}" for fact in facts]


def test_a_placed_pod_starts_at_once_and_ends_after_its_estimate() -> None:
    made = cell(JobSpec("a", replicas=2, estimate="30s"))
    nodes = remembered(made, Pace(speed_milli=2000))
    made.beat(nodes.reports(GENESIS))
    facts = nodes.carry_out(made.tick(), GENESIS)
    assert shown(facts) == ["PodStarted a/0/1", "PodStarted a/1/1"]
    assert nodes.due_ns() == GENESIS + 15 * SECOND
    assert nodes.take(GENESIS + 15 * SECOND - 1) == []
    ends = nodes.take(GENESIS + 15 * SECOND)
    assert shown(ends) == ["PodSucceeded a/0/1", "PodSucceeded a/1/1"]
    assert (nodes.placed_count, nodes.ended_count, nodes.running_count) == (2, 2, 0)
    ids = [fact.event_id for fact in [*facts, *ends]]
    assert len(set(ids)) == 4 and all(ids)


def test_a_job_without_an_estimate_runs_the_default() -> None:
    made = cell(JobSpec("a"))
    nodes = remembered(made, Pace(run_ns=7 * SECOND))
    made.beat(nodes.reports(GENESIS))
    nodes.carry_out(made.tick(), GENESIS)
    assert nodes.due_ns() == GENESIS + 7 * SECOND


def test_jobs_become_known_by_and_by() -> None:
    made = cell()
    nodes = remembered(made, Pace())
    made.beat(nodes.reports(GENESIS))
    seq = made.ledger.end()
    made.put([JobSpec("late", estimate="1m").request()])
    nodes.learn(seq, dict(made.payloads())[seq])
    nodes.carry_out(made.tick(), GENESIS)
    assert nodes.due_ns() == GENESIS + 60 * SECOND


def test_heartbeats_tell_what_runs_and_what_was_handled() -> None:
    made = cell(JobSpec("a", cards=4, estimate="30s"))
    nodes = remembered(made, Pace())
    first = nodes.reports(GENESIS)
    assert [(report.node, report.attempts, report.handled_seq) for report in first] == [
        ("node-0001", (), -1),
        ("node-0002", (), -1),
    ]
    made.beat(first)
    (placed,) = [d for d in made.tick() if d.kind is DecisionKind.ALLOCATE]
    nodes.carry_out([placed], GENESIS)
    reports = {report.node: report for report in nodes.reports(GENESIS)}
    assert reports[placed.node].attempts == (r.AttemptRef("a", 0, 1),)
    assert reports[placed.node].handled_seq == placed.cause_seq


def test_other_nodes_are_others_business() -> None:
    nodes = SimulatedNodes(NODES, Pace())
    decision = Decision(
        "lab", 1, 0, 0, DecisionKind.ALLOCATE, "a", "r", 0, 1, "elsewhere", (), 0, 0, 1, 0, "",
        Reason.PLACED_IN_TURN, 0, 0, 0, b"", 0, 0, 0, b"",
    )  # fmt: skip
    assert nodes.carry_out([decision], GENESIS) == []
    assert nodes.running_count == 0


def test_an_evicted_pod_is_released() -> None:
    made = cell(JobSpec("a", estimate="1h"))
    nodes = remembered(made, Pace())
    made.beat(nodes.reports(GENESIS))
    made.put(nodes.carry_out(made.tick(), GENESIS))
    evicting = made.put([r.JobCancelRequested(GENESIS, "", None, "a", "ann")])
    assert nodes.carry_out(evicting, GENESIS) == []
    assert shown(nodes.take(GENESIS)) == ["PodReleased a/0/1"]


def test_some_attempts_fail_by_the_seed() -> None:
    made = cell(*(JobSpec(f"j{n}", estimate="10s") for n in range(8)))
    nodes = remembered(made, Pace(failure_milli=1000, seed=3))
    made.beat(nodes.reports(GENESIS))
    nodes.carry_out(made.tick(), GENESIS)
    ends = nodes.take(GENESIS + 10 * SECOND)
    assert len(ends) == 8
    assert all(isinstance(end, r.PodFailed) and end.failure is FailureKind.ERROR for end in ends)


def test_a_refused_second_request_does_not_change_the_run_time() -> None:
    made = cell(JobSpec("a", estimate="10s"), JobSpec("a", estimate="99s"))
    nodes = remembered(made, Pace())
    made.beat(nodes.reports(GENESIS))
    nodes.carry_out(made.tick(), GENESIS)
    assert nodes.due_ns() == GENESIS + 10 * SECOND


def test_what_ran_goes_on_after_a_restart() -> None:
    made = cell(JobSpec("a", estimate="60s"), JobSpec("b", estimate="20s"))
    pace = Pace()
    nodes = remembered(made, pace)
    made.beat(nodes.reports(GENESIS))
    made.put(nodes.carry_out(made.tick(), GENESIS))
    made.now_ns += 20 * SECOND
    made.put(nodes.take(made.now_ns))
    made.now_ns += 10 * SECOND
    again = remembered(made, pace)
    assert again.begin(made.now_ns) == []  # the ledger has its start
    assert again.running_count == 1
    assert again.due_ns() == GENESIS + 60 * SECOND
    assert [report.attempts for report in again.reports(made.now_ns)] == [
        report.attempts for report in nodes.reports(made.now_ns)
    ]


def test_a_start_that_was_lost_is_told_again_under_its_id() -> None:
    made = cell(JobSpec("a", estimate="60s"))
    nodes = remembered(made, Pace())
    made.beat(nodes.reports(GENESIS))
    (lost,) = nodes.carry_out(made.tick(), GENESIS)
    again = remembered(made, Pace())
    (told,) = again.begin(GENESIS + 5 * SECOND)
    assert told.event_id == lost.event_id
    assert again.due_ns() == GENESIS + 65 * SECOND  # it did not run meanwhile


def test_an_eviction_of_the_past_is_carried_out() -> None:
    made = cell(JobSpec("a", estimate="1h"))
    nodes = remembered(made, Pace())
    made.beat(nodes.reports(GENESIS))
    made.put(nodes.carry_out(made.tick(), GENESIS))
    made.put([r.JobCancelRequested(GENESIS, "", None, "a", "ann")])
    again = remembered(made, Pace())
    assert again.begin(GENESIS + SECOND) == []
    assert shown(again.take(GENESIS + SECOND)) == ["PodReleased a/0/1"]


def told(kind: DecisionKind, cause: int, attempt: int = 1) -> Decision:
    """A decision about the only pod of job `a`."""
    return Decision(
        "lab", cause, 0, 0, kind, "a", "r", 0, attempt, "node-0001", (), 0, 0, Tier.BACKFILL, 0,
        "", Reason.PLACED_IN_TURN, 0, 0, 0, b"", 0, 0, 0, b"",
    )  # fmt: skip


def stopping_job() -> r.JobSubmitRequested:
    return JobSpec("a", estimate="100s", can_checkpoint=True).request()


def past(*records: r.Record) -> list[tuple[int, bytes]]:
    """A ledger that begins with the job."""
    return list(enumerate(encode_record(record) for record in (stopping_job(), *records)))


def at(seconds: int) -> int:
    return GENESIS + seconds * SECOND


def test_a_pod_stops_and_goes_on_where_it_was() -> None:
    nodes = SimulatedNodes(NODES, Pace())
    nodes.remember(iter(past()), [])
    nodes.carry_out([told(DecisionKind.BACKFILL, 1)], at(0))
    assert nodes.carry_out([told(DecisionKind.SUSPEND, 2)], at(30)) == []
    (stopped,) = nodes.take(at(30))
    (resumed,) = nodes.carry_out([told(DecisionKind.RESUME, 4)], at(50))
    nodes.carry_out([told(DecisionKind.SUSPEND, 6)], at(60))
    (again,) = nodes.take(at(60))
    assert shown([stopped, resumed, again]) == [
        "PodSuspended a/0/1",
        "PodResumed a/0/1",
        "PodSuspended a/0/1",
    ]
    assert len({fact.event_id for fact in (stopped, resumed, again)}) == 3
    assert nodes.running_count == 1
    nodes.carry_out([told(DecisionKind.RESUME, 8)], at(70))
    assert nodes.due_ns() == at(130)


def test_after_a_restart_it_stands_where_it_stood() -> None:
    decisions = [told(DecisionKind.BACKFILL, 0), told(DecisionKind.SUSPEND, 1)]
    facts: list[r.Record] = [
        r.PodStarted(at(0), "", None, "a", 0, 1, "node-0001", at(0)),
        r.PodSuspended(at(30), "", None, "a", 0, 1, 300, at(30)),
    ]
    nodes = SimulatedNodes(NODES, Pace())
    nodes.remember(iter(past(*facts)), decisions)
    assert nodes.begin(at(40)) == []
    assert nodes.due_ns() is None
    nodes.carry_out([told(DecisionKind.RESUME, 4)], at(50))
    assert nodes.due_ns() == at(120)

    told_to_go_on = SimulatedNodes(NODES, Pace())
    told_to_go_on.remember(iter(past(*facts)), [*decisions, told(DecisionKind.RESUME, 2)])
    (resumed,) = told_to_go_on.begin(at(60))
    assert shown([resumed]) == ["PodResumed a/0/1"]
    assert told_to_go_on.due_ns() == at(130)


def test_a_stop_that_was_not_reported_before_a_restart_is_reported_after_it() -> None:
    decisions = [told(DecisionKind.BACKFILL, 0), told(DecisionKind.SUSPEND, 1)]
    started = r.PodStarted(at(0), "", None, "a", 0, 1, "node-0001", at(0))
    first = SimulatedNodes(NODES, Pace())
    first.remember(iter(past()), [])
    first.carry_out(decisions[:1], at(0))
    first.carry_out(decisions[1:], at(20))
    (lost,) = first.take(at(20))
    nodes = SimulatedNodes(NODES, Pace())
    nodes.remember(iter(past(started)), decisions)
    assert nodes.begin(at(25)) == []
    (found,) = nodes.take(at(25))
    assert (shown([found]), found.event_id) == (["PodSuspended a/0/1"], lost.event_id)


def test_saved_work_survives_a_restart_and_ends_with_its_job() -> None:
    decisions = [told(DecisionKind.BACKFILL, 0), told(DecisionKind.EVICT, 1)]
    facts: list[r.Record] = [
        r.PodStarted(at(0), "", None, "a", 0, 1, "node-0001", at(0)),
        r.PodCheckpointed(at(30), "", None, "a", 0, 1, 300, at(30)),
        r.PodReleased(at(30), "", None, "a", 0, 1, at(30)),
    ]
    nodes = SimulatedNodes(NODES, Pace())
    nodes.remember(iter(past(*facts)), decisions)
    assert nodes.begin(at(40)) == []
    nodes.carry_out([told(DecisionKind.BACKFILL, 5, attempt=2)], at(40))
    assert nodes.due_ns() == at(110)
    (saved, released) = nodes.carry_out(
        [told(DecisionKind.EVICT, 6, attempt=2)], at(50)
    ) + nodes.take(at(50))
    assert shown([saved, released]) == ["PodCheckpointed a/0/2", "PodReleased a/0/2"]
    nodes.carry_out([told(DecisionKind.FINISH, 7)], at(50))
    nodes.learn(9, encode_record(stopping_job()))
    nodes.carry_out([told(DecisionKind.BACKFILL, 10)], at(60))
    assert nodes.due_ns() == at(160)


def test_intervals_between_heartbeats() -> None:
    assert Pace().interval_ns == HEARTBEAT_NS
    assert Pace(speed_milli=10_000).interval_ns == HEARTBEAT_NS // 10
    assert Pace(speed_milli=1_000_000).interval_ns == HEARTBEAT_NS_MIN
    assert Pace(speed_milli=100).interval_ns == HEARTBEAT_NS  # more, and nodes count as lost
    assert Pace(heartbeat_ns=2 * SECOND).interval_ns == 2 * SECOND


class Driver:
    """Simulated nodes that follow a cell, and can be made anew."""

    def __init__(self, made: LiveCell, pace: Pace) -> None:
        self.made, self.pace = made, pace
        self.start()

    def start(self) -> None:
        """Begin anew from the past; what it leads to is reported."""
        self.nodes = remembered(self.made, self.pace)
        self.finished = sum(d.kind is DecisionKind.FINISH for d in self.made.decided())
        self.seq, self.position = self.made.ledger.end(), self.made.decisions.end()
        self.made.put(self.nodes.begin(self.made.now_ns))

    def step(self) -> list[r.Record]:
        """Facts of now."""
        for seq, payload in self.made.payloads(self.seq):
            self.nodes.learn(seq, payload)
        decisions = self.made.decided(self.position)
        self.finished += sum(d.kind is DecisionKind.FINISH for d in decisions)
        self.seq, self.position = self.made.ledger.end(), self.made.decisions.end()
        now_ns = self.made.now_ns
        return self.nodes.carry_out(decisions, now_ns) + self.nodes.take(now_ns)


def draw_jobs(chance: random.Random, count: int) -> list[r.JobSubmitRequested]:
    return [
        JobSpec(
            f"j{number}",
            replicas=chance.randint(1, 3),
            cards=chance.choice((1, 2)),
            estimate=f"{chance.randint(1, 40)}s",
            retry=RetrySpec(limit=20, backoff="1s", backoff_max="2s"),
        ).request()
        for number in range(count)
    ]


@pytest.mark.parametrize("seed", range(8))
def test_crashes_lose_and_double_nothing(seed: int) -> None:
    """Facts of a moment are lost, or arrive twice, and the simulator begins anew, at random."""
    chance = random.Random(seed)
    made = cell()
    driver = Driver(made, Pace(failure_milli=150, seed=seed))
    jobs = draw_jobs(chance, 15)
    for second in range(900):
        made.now_ns += SECOND
        if second % 5 == 0:
            made.beat(driver.nodes.reports(made.now_ns))
        if jobs and chance.random() < 0.3:
            made.put([jobs.pop()])
        made.tick()
        facts = driver.step()
        if chance.random() < 0.1:
            made.put(facts[: chance.randint(0, len(facts))])
            driver.start()
            continue
        made.put(facts)
        if chance.random() < 0.2:
            made.put(facts)
        if not jobs and driver.finished == 15:
            break
    assert driver.finished == 15
    assert driver.nodes.running_count == 0
    starts: dict[tuple[str, int, int], set[str]] = {}
    ends: dict[tuple[str, int, int], set[str]] = {}
    for record in made.records():
        if isinstance(record, r.PodStarted | r.PodSucceeded | r.PodFailed | r.PodReleased):
            found = starts if isinstance(record, r.PodStarted) else ends
            key = (record.job, record.pod, record.attempt)
            found.setdefault(key, set()).add(f"{type(record).__name__} {record.event_id}")
    places = (d for d in made.decided() if d.kind is DecisionKind.ALLOCATE)
    assert starts.keys() == ends.keys() == {(d.job, d.pod, d.attempt) for d in places}
    assert all(len(found) == 1 for found in [*starts.values(), *ends.values()])

"""Faults: their file, what they draw, and what they do to a simulated cell."""

from collections import Counter
from pathlib import Path

import pytest

from ganger.replay.cluster import parse_nodes
from ganger.replay.faults import (
    NONE,
    CardFault,
    Cordon,
    Disturbance,
    Faults,
    NodeFault,
    PodFailures,
    open_faults,
)
from ganger.replay.machines import Machines, timeline
from ganger.replay.simulate import run
from ganger.replay.summary import Summary
from ganger.replay.traces.source import InputError
from ganger.schemas import records as r
from ganger.schemas.enums import CardHealth
from ganger.streams.presets.loader import load_policy
from support.builders import submission
from support.small_runs import SECOND, ledger_of, random_trace, story, trace, trace_job

TWO_NODES = parse_nodes("2x2")


# --- the file -------------------------------------------------------------------------------------


def test_a_file_with_everything(tmp_path: Path) -> None:
    path = tmp_path / "faults.toml"
    path.write_text(
        "pod_failure_milli = 20\nduplicate_milli = 100\nlate_milli = 5\nlate_max_s = 120\n"
        "shuffle = true\nrelease_s = 30\n"
        '[[nodes]]\nnode = "a"\nat_s = 10\nfor_s = 5\nreboot = false\n'
        '[[cards]]\nnode = "b"\ncard = 3\nat_s = 7\n'
        '[[cordons]]\nnode = "c"\nat_s = 1\ndrain = true\n'
    )
    faults = Faults(
        20,
        100,
        5,
        120,
        True,
        30,
        (NodeFault("a", 10, 5, False),),
        (CardFault("b", 3, 7),),
        (Cordon("c", 1, drain=True),),
    )
    assert open_faults(path) == faults
    assert faults.disturbs
    assert not NONE.disturbs
    assert NONE.canonical() == b"{}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("late", ["this is no TOML"]),
        ("late_mili = 1", ["late_mili: there is no such key; did you mean late_milli?"]),
        ("late_milli = 1001", ["late_milli: it is 1001; give a whole number, at most 1000"]),
        ("late_milli = 0.5", ["late_milli: it is 0.5; give a whole number"]),
        (
            '[[nodes]]\nnode = "a"',
            ["nodes[0].at_s: it is missing; the keys are node, at_s, for_s, reboot"],
        ),
        (
            '[[nodes]]\nnode = "a"\nat_s = -1',
            ["nodes[0].at_s: it is -1; give a whole number, at least 0"],
        ),
        ("shuffle = 1", ["shuffle: it is 1; give true or false"]),
        ('late_milli = "x"', ["late_milli: it is 'x'; give a whole number"]),
        ("late_milli = true", ["late_milli: it is true; give a whole number"]),
        ('[nodes]\nnode = "a"', ["nodes: it is a table; give a list"]),
        (
            '[[cordons]]\nnode = "a"\nat_s = 1\ncount = 2',
            ["cordons[0].count: there is no such key; the keys are node, at_s, for_s, drain"],
        ),
    ],
)
def test_errors_name_the_key(tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "faults.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        open_faults(path)
    for word in [str(path), *words]:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        (Faults(nodes=(NodeFault("x", 1),)), r"nodes\[0\].node: there is no node 'x'; name one"),
        (Faults(cards=(CardFault("node-0001", 2, 1),)), r"cards\[0\].card: it is 2, and .* has 2"),
        (Faults(cordons=(Cordon("x", 1),)), r"cordons\[0\].node"),
        (
            Faults(nodes=(NodeFault("node-0001", 1, 5), NodeFault("node-0001", 3, 1))),
            "'node-0001' goes away again before it is back",
        ),
        (
            Faults(nodes=(NodeFault("node-0001", 1), NodeFault("node-0001", 9))),
            "let its absences not overlap",
        ),
    ],
)
def test_faults_must_fit_the_cluster(faults: Faults, words: str) -> None:
    with pytest.raises(InputError, match=words):
        run(random_trace(3, seed=1), TWO_NODES, load_policy(), faults=faults)


def test_the_timeline_is_in_order_next_last() -> None:
    faults = Faults(
        nodes=(NodeFault("node-0001", 5, 10),),
        cards=(CardFault("node-0002", 0, 1),),
        cordons=(Cordon("node-0002", 15),),
    )
    mishaps = timeline(faults, Machines(TWO_NODES), 100 * SECOND)
    assert [(m.at_ns // SECOND, m.kind) for m in reversed(mishaps)] == [
        (101, "fail_card"),
        (105, "leave"),
        (115, "come_back"),
        (115, "cordon"),
    ]


# --- draws ----------------------------------------------------------------------------------------


def test_pod_failures_depend_on_seed_and_attempt_alone() -> None:
    keys = [(f"j{job}", pod, attempt) for job in range(200) for pod in (0, 1) for attempt in (1, 2)]
    failing = PodFailures(seed=3, failure_milli=250)
    drawn = {key: failing(*key, 1000) for key in keys}
    again = PodFailures(seed=3, failure_milli=250)
    assert drawn == {key: again(*key, 1000) for key in reversed(keys)}
    failures = [after_ns for after_ns in drawn.values() if after_ns is not None]
    assert 120 < len(failures) < 280
    assert all(0 <= after_ns <= 1000 for after_ns in failures)
    other = PodFailures(seed=4, failure_milli=250)
    assert drawn != {key: other(*key, 1000) for key in keys}


def fact(number: int) -> r.PodSucceeded:
    return r.PodSucceeded(0, "", None, f"j{number}", 0, 1, 0)


def test_disturbed_inputs_all_arrive_some_twice_some_late() -> None:
    faults = Faults(duplicate_milli=300, late_milli=400, late_max_s=9, shuffle=True)
    disturbance = Disturbance(faults, seed=5)
    facts: list[r.Record] = [fact(number) for number in range(300)]
    now = disturbance.send(facts, 50)
    later: list[r.Record] = []
    while (due_ns := disturbance.due()) is not None:
        assert 50 <= due_ns <= 50 + 9 * SECOND
        later += disturbance.take(due_ns)
    counts = Counter(now + later)
    assert set(counts) == set(facts)
    assert set(counts.values()) == {1, 2}
    assert 100 < len(now) < 250
    assert now != [record for record in facts if record in now]


def test_requests_are_not_late_but_may_come_twice() -> None:
    disturbance = Disturbance(Faults(duplicate_milli=1000, late_milli=1000, late_max_s=1), seed=1)
    request = submission("a")
    assert disturbance.send([request], 0) == [request]
    due_ns = disturbance.due()
    assert due_ns is not None
    assert disturbance.take(due_ns) == [request]


# --- in a cell ------------------------------------------------------------------------------------


def told(path: Path, faults: Faults, *jobs: tuple[str, int, int]) -> list[str]:
    """The story of a run on two nodes of two cards, without Ticks and heartbeats of no news."""
    workload = trace(*(trace_job(name, at_s, run_s, (1, 2)) for name, at_s, run_s in jobs))
    run(workload, TWO_NODES, load_policy(), path, faults=faults)
    return [line for line in story(path) if "Tick" not in line and "NodeChanged" not in line]


def test_a_node_that_loses_power_is_found_lost_and_its_pods_run_again(tmp_path: Path) -> None:
    lines = told(
        tmp_path, Faults(nodes=(NodeFault("node-0001", 10, 60),)), ("a", 0, 100), ("b", 55, 10)
    )
    assert lines == [
        "@0 JobSubmitRequested a",
        "  ALLOCATE a/0/1 node-0001",
        "@0 PodStarted a/0/1",
        "@50 NodeLost node-0001",
        "  EVICT a/0/1 node-0001",
        "  ALLOCATE a/0/2 node-0002",
        "@50 PodStarted a/0/2",
        "@55 JobSubmitRequested b",
        "@70 NodeReturned node-0001",
        "  ALLOCATE b/0/1 node-0001",
        "@70 PodStarted b/0/1",
        "@80 PodSucceeded b/0/1",
        "  FINISH b",
        "@150 PodSucceeded a/0/2",
        "  FINISH a",
    ]


def test_a_node_that_was_cut_off_ends_what_it_still_runs(tmp_path: Path) -> None:
    faults = Faults(nodes=(NodeFault("node-0001", 10, 60, reboot=False),))
    lines = told(tmp_path, faults, ("a", 0, 100))
    assert lines[3:8] == [
        "@50 NodeLost node-0001",
        "  EVICT a/0/1 node-0001",
        "  ALLOCATE a/0/2 node-0002",
        "@50 PodStarted a/0/2",
        "@70 NodeReturned node-0001",
    ]
    assert lines[8:] == [
        "@70 PodReleased a/0/1",
        "@150 PodSucceeded a/0/2",
        "  FINISH a",
    ]


def test_an_absence_shorter_than_the_patience_is_no_loss(tmp_path: Path) -> None:
    faults = Faults(nodes=(NodeFault("node-0001", 10, 30, reboot=False),))
    assert told(tmp_path, faults, ("a", 0, 20)) == [
        "@0 JobSubmitRequested a",
        "  ALLOCATE a/0/1 node-0001",
        "@0 PodStarted a/0/1",
        "@40 PodSucceeded a/0/1",
        "  FINISH a",
    ]


def test_a_quick_reboot_is_seen_by_the_boot_id(tmp_path: Path) -> None:
    told(tmp_path, Faults(nodes=(NodeFault("node-0001", 10, 5),)), ("a", 0, 20))
    lines = [line for line in story(tmp_path) if "Tick" not in line]
    assert lines[-6:] == [
        "@15 NodeChanged node-0001",
        "  EVICT a/0/1 node-0001",
        "  ALLOCATE a/0/2 node-0001",
        "@15 PodStarted a/0/2",
        "@35 PodSucceeded a/0/2",
        "  FINISH a",
    ]


def test_a_card_fails_and_is_repaired(tmp_path: Path) -> None:
    faults = Faults(cards=(CardFault("node-0001", 1, 10, 20),), release_s=2)
    told(tmp_path, faults, ("a", 0, 50))
    lines = [line for line in story(tmp_path) if "Tick" not in line]
    assert lines[3:8] == [
        "@10 NodeChanged node-0001",
        "  EVICT a/0/1 node-0001",
        "@12 PodReleased a/0/1",
        "  ALLOCATE a/0/2 node-0002",
        "@12 PodStarted a/0/2",
    ]
    reports = [x.report for x in ledger_of(tmp_path) if isinstance(x, r.NodeChanged)]
    health = [
        [run.health for run in report.cards] for report in reports if report.node == "node-0001"
    ]
    assert health == [
        [CardHealth.HEALTHY],
        [CardHealth.HEALTHY, CardHealth.FAILED],
        [CardHealth.HEALTHY],
    ]


def test_a_cordon_keeps_pods_away_and_a_drain_sends_them_off(tmp_path: Path) -> None:
    faults = Faults(cordons=(Cordon("node-0002", 5, 100), Cordon("node-0001", 10, 20, drain=True)))
    assert told(tmp_path, faults, ("a", 0, 50)) == [
        "@0 JobSubmitRequested a",
        "  ALLOCATE a/0/1 node-0001",
        "@0 PodStarted a/0/1",
        "@5 NodeCordoned node-0002",
        "@10 NodeDrained node-0001",
        "  EVICT a/0/1 node-0001",
        "@10 PodReleased a/0/1",
        "@30 NodeUncordoned node-0001",
        "  ALLOCATE a/0/2 node-0001",
        "@30 PodStarted a/0/2",
        "@80 PodSucceeded a/0/2",
        "  FINISH a",
    ]


def test_failed_pods_are_tried_again_after_a_while(tmp_path: Path) -> None:
    workload = random_trace(40, seed=2)
    summary = run(
        workload, parse_nodes("4x4"), load_policy(), tmp_path, faults=Faults(pod_failure_milli=200)
    )
    assert summary.record_counts["PodFailed"] > 5
    assert sum(summary.ended.values()) == 40
    retried = [line for line in story(tmp_path) if "PodSucceeded" in line and line.endswith("/2")]
    assert retried


def test_seeds_change_what_goes_wrong_and_nothing_else_does() -> None:
    faults = Faults(duplicate_milli=200, late_milli=200, late_max_s=30, shuffle=True)

    def outcome(seed: int) -> Summary:
        return run(
            random_trace(40, seed=2), parse_nodes("4x4"), load_policy(), seed=seed, faults=faults
        )

    first = outcome(1)
    assert (first.digest, first.chain) == (outcome(1).digest, outcome(1).chain)
    assert first.record_counts != outcome(2).record_counts
    assert first.ended["ALL_PODS_SUCCEEDED"] == 40

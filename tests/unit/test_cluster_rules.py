"""A cluster's file whose queues have quota by flavor, through the verb that simulates it."""

import csv
import json
from pathlib import Path

import pytest

from ganger.replay.cluster import from_canonical, open_cluster
from ganger.replay.traces.source import InputError
from ganger.services.cell_files import read_rules
from support.verbs import call, call_json

CLUSTER = """
[[nodes]]
count = 1
cards = 8
name_prefix = "old"
labels = { pool = "old" }

[[nodes]]
count = 1
cards = 8
name_prefix = "new"
labels = { pool = "new" }

[[flavors]]
name = "old"
labels = { pool = "old" }

[[flavors]]
name = "new"
labels = { pool = "new" }

[[queues]]
name = "all"

[[queues]]
name = "red"
parent = "all"
order = "strict"
[[queues.resource_groups]]
[[queues.resource_groups.flavors]]
flavor = "old"
bounds = [{ resource = "cards", nominal = 4, borrowing_limit = 2 }]
[[queues.resource_groups.flavors]]
flavor = "new"
bounds = [{ resource = "cards", nominal = 2, borrowing_limit = 0 }]

[[queues]]
name = "blue"
parent = "all"
[[queues.resource_groups]]
[[queues.resource_groups.flavors]]
flavor = "old"
bounds = [{ resource = "cards", nominal = 4 }]
"""
JOBS = "# ganger trace 1\njob,submit_s,run_s,queue,cards\n" + "".join(
    f"j{number},{number},1000,red,1\n" for number in range(12)
)


def waits_of(path: Path) -> dict[str, int]:
    """Seconds that jobs waited."""
    with path.open() as file:
        return {row["job"]: int(row["wait"]) for row in csv.DictReader(file)}


def test_cohort_quota_by_flavor_holds_in_a_simulation(tmp_path: Path) -> None:
    trace, cluster, ledger = tmp_path / "t.csv", tmp_path / "c.toml", tmp_path / "ledger"
    trace.write_text(JOBS)
    cluster.write_text(CLUSTER)
    starts = tmp_path / "starts.csv"
    call(
        *("simulate", trace, "--cluster", cluster, "--policy", "kueue"),
        *("--starts", starts, "--ledger", ledger),
    )
    at_once = [job for job, wait in waits_of(starts).items() if not wait]
    # four of its own of the old kind, two that blue does not use, two of its own of the new kind
    assert at_once == [f"j{number}" for number in range(8)]
    told = call("log", ledger, "--kind", "ALLOCATE").stdout.splitlines()[:8]
    assert ["old-0001" in line for line in told] == [True] * 6 + [False] * 2
    assert call_json("verify", ledger)["mismatches"] == 0


def test_equal_clusters_are_equal_bytes_and_come_back(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(CLUSTER)
    cluster = open_cluster(path, read_rules)
    assert [queue.name for queue in cluster.queues] == [record.queue for record in cluster.rules]
    assert from_canonical(cluster.canonical()) == cluster
    assert cluster.canonical() == open_cluster(path, read_rules).canonical()
    assert json.loads(cluster.canonical())["flavors"][0]["flavor"] == "old"


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('[[flavors]]\nname = "new"', '[[flavors]]\nname = "newer"', "queue red"),
        ("nominal = 2", "nominol = 2", "nominol"),
        ('order = "strict"', 'order = "stern"', "order"),
        ('name = "all"', 'name = "all"\nremoved = true', "queues"),
        ('name = "all"', 'name = "all"\nparent = "none"', "parent"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, place: str) -> None:
    path = tmp_path / "c.toml"
    path.write_text(CLUSTER.replace(old, new))
    with pytest.raises(InputError, match=place):
        open_cluster(path, read_rules)


def test_without_a_reader_such_keys_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(CLUSTER)
    with pytest.raises(InputError, match=r"queues\[1\].order|flavors"):
        open_cluster(path)

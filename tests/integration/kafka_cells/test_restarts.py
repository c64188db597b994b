"""What a worker does after the worst: with nothing left, with rubbish left, with its ledger cut."""

import shutil
from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from ganger.streams.kernel.digest import seal
from support.kafka import KafkaCluster
from support.kafka_evidence import CellFold, check_decisions, lags, lost_inputs, saved_digest
from support.kafka_fleet import Fleet, WorkerChild
from support.kafka_load import Load, configure

PARTITIONS = 4
SECONDS = 90.0
REFUSED_SECONDS = 60.0


def begin(fleet: Fleet, *cells: str, count: int | None = None) -> tuple[WorkerChild, Load]:
    """One worker, simulated nodes, and a load under way."""
    fleet.make_topics(cells, PARTITIONS)
    worker = fleet.worker("w1")
    for cell in cells:
        fleet.simulate(cell)
    configure(fleet.settings, cells)
    load = Load(fleet.settings, cells, rate=10, count=count)
    load.start()
    return worker, load


def check_all(fleet: Fleet, folder: Path, *loads: Load) -> None:
    """Wait for the loads' end, stop the workers, and hold all that is there against folds."""
    for load in loads:
        load.finish(SECONDS)
    placements = fleet.placements()
    jobs = {cell: names for load in loads for cell, names in load.jobs.items()}
    acknowledged = {cell: ids for load in loads for cell, ids in load.acknowledged.items()}
    folds = {cell: CellFold(fleet.settings, placements[cell]) for cell in jobs}

    def have_ended() -> bool:
        return all(jobs[cell] <= fold.advanced().finished for cell, fold in folds.items())

    def are_exact() -> bool:
        return not any(fold.advanced().table_defects() for fold in folds.values())

    fleet.until("all jobs end", have_ended, SECONDS)
    fleet.until("lag is zero", lambda: not lags(fleet.settings, PARTITIONS), SECONDS)
    fleet.until("tables equal the states", are_exact, SECONDS)
    fleet.stop_workers()
    sources = set()
    for cell, fold in folds.items():
        sources |= fold.advanced().sources
        assert fold.refused == []
        assert acknowledged[cell] <= fold.event_ids
        check_decisions(fold)
        assert saved_digest(fold, folder / cell) == seal(fold.state)
    assert lost_inputs(fleet.settings, PARTITIONS, sources) == {}


def snapshot(fleet: Fleet, worker: WorkerChild) -> None:
    """Stop a worker in order, which saves a snapshot of each cell here and in the topic."""
    fleet.until_live(worker)
    assert worker.stop() == 0


def test_worker_and_broker_killed_in_the_same_moment(
    cluster: KafkaCluster, fleet: Fleet, tmp_path: Path
) -> None:
    worker, load = begin(fleet, "lab")
    fleet.until_live(worker, more=10)
    worker.kill()
    cluster.kill()
    cluster.start()
    fleet.until_live(worker)
    check_all(fleet, tmp_path / "stores", load)
    assert load.failures == 0, "the client was to wait for the broker"


def test_a_wiped_folder_is_made_anew_from_the_topics(fleet: Fleet, tmp_path: Path) -> None:
    worker, load = begin(fleet, "lab", "den")
    snapshot(fleet, worker)
    shutil.rmtree(worker.data)
    worker.start()
    fleet.until_live(worker)
    replayed = [line for line in worker.log().splitlines() if "cell_restored" in line]
    assert replayed
    assert all(seq_of(line, "replayed") < seq_of(line, "seq") for line in replayed), replayed
    check_all(fleet, tmp_path / "stores", load)


def test_a_corrupted_store_is_made_anew(fleet: Fleet, tmp_path: Path) -> None:
    worker, load = begin(fleet, "lab")
    snapshot(fleet, worker)
    count = 0
    for path in worker.data.rglob("*"):
        if path.is_file() and path.name != "LOCK" and path.stat().st_size:
            data = path.read_bytes()
            path.write_bytes(bytes(byte ^ 0x5A for byte in data))
            count += 1
    assert count > 0
    worker.start()
    fleet.until_live(worker)
    check_all(fleet, tmp_path / "stores", load)


def test_a_ledger_that_was_cut_is_refused_with_the_numbers(fleet: Fleet) -> None:
    worker, load = begin(fleet, "lab", "den")
    fleet.until_live(worker, more=20)
    worker.kill()
    admin = AdminClient(fleet.settings.client(log_level=0))
    place = TopicPartition("ganger.ledger", fleet.placements()["lab"].partition, 7)
    admin.delete_records([place])[place].result()
    fleet.tend()
    fleet.until("the cell is refused", lambda: "cell_refused" in worker.log(), REFUSED_SECONDS)
    line = next(line for line in worker.log().splitlines() if "cell_refused" in line)
    assert "cell=lab" in line
    assert "begins at seq 7" in line
    fleet.until("the other cell runs", lambda: worker.cells() == {"den"}, SECONDS)
    fleet.until_live(worker)
    load.finish(SECONDS)


def test_a_cell_that_is_placed_later_is_picked_up(fleet: Fleet, tmp_path: Path) -> None:
    worker, first = begin(fleet, "lab", count=10)
    fleet.until_live(worker)
    fleet.place("den")
    fleet.until("the new cell runs", lambda: "den" in worker.cells(), SECONDS)
    fleet.simulate("den")
    configure(fleet.settings, ["den"])
    second = Load(fleet.settings, ["den"], rate=10, count=10)
    second.start()
    second.await_all(SECONDS)
    assert worker.starts == 1
    check_all(fleet, tmp_path / "stores", first, second)


def seq_of(line: str, name: str) -> int:
    """A number in a line of the log."""
    return int(dict(word.split("=", 1) for word in line.split() if "=" in word)[name])


def test_a_second_worker_on_the_same_folder_is_refused(fleet: Fleet) -> None:
    fleet.make_topics(["lab"], 1)
    worker = fleet.worker("w1")
    fleet.until("the cell runs", lambda: worker.cells() == {"lab"}, SECONDS)
    twin = fleet.worker("w2", worker.data)
    code = twin.wait()
    del fleet.workers["w2"]
    assert code == 2
    assert f"another worker runs on {worker.data}" in twin.log()
    assert "give each worker a folder of its own" in twin.log()
    assert worker.code() is None


def test_of_two_workers_of_one_name_the_older_ends_and_says_why(
    fleet: Fleet, tmp_path: Path
) -> None:
    fleet.make_topics(["lab"], 1)
    older = fleet.worker("w1")
    fleet.until("the cell runs", lambda: older.cells() == {"lab"}, SECONDS)
    del fleet.workers["w1"]  # nobody starts it again
    try:
        newer = fleet.worker("w1", tmp_path / "other", tmp_path / "logs")
        fleet.until("the older ends", lambda: older.code() is not None, SECONDS)
    finally:
        code = older.code()
        older.end()
    assert code == 70
    assert "another worker runs under the id 'w1'" in older.tail()
    assert "give each worker an --id of its own" in older.tail()
    fleet.until("the newer runs the cell", lambda: newer.cells() == {"lab"}, SECONDS)

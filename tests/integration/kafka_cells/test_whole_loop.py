"""The whole loop, once: client, Kafka, two workers, four cells, simulated nodes, and the proofs."""

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import CliRunner

from ganger.services.cli import main
from ganger.services.client import KafkaSettings
from ganger.streams.kernel.digest import seal
from support.kafka import KafkaCluster
from support.kafka_evidence import CellFold, check_decisions, lags, lost_inputs, saved_digest
from support.kafka_fleet import Fleet
from support.kafka_load import Load, configure

CELLS = ("north", "east", "south", "west")
JOBS = 120
RATE = 30
PATIENCE_S = 120.0


def call(*words: object) -> dict[str, object]:
    """A verb of the command line in this process; what it prints as JSON."""
    result = CliRunner().invoke(main, [*map(str, words), "--json"], prog_name="ganger")
    assert result.exit_code == 0, (words, result.output, result.exception)
    return json.loads(result.stdout)


def test_jobs_through_client_workers_and_nodes(
    kafka_cluster: Callable[..., KafkaCluster], tmp_path: Path
) -> None:
    settings = KafkaSettings(kafka_cluster().bootstrap)
    with Fleet(settings, tmp_path) as fleet:
        fleet.make_topics(CELLS, len(CELLS))
        for name in ("w1", "w2"):
            fleet.worker(name)
        for cell in CELLS:
            fleet.simulate(cell)
        configure(settings, CELLS)
        fleet.until("both workers run cells", lambda: are_shared(fleet), PATIENCE_S)
        load = Load(settings, CELLS, rate=RATE, count=JOBS)
        load.start()
        folds = [CellFold(settings, placement) for placement in fleet.placements().values()]
        load.await_all(PATIENCE_S)

        fleet.until("all jobs end", lambda: have_ended(folds, load), PATIENCE_S)
        fleet.until("lag is zero", lambda: not lags(settings, len(CELLS)), PATIENCE_S)
        fleet.until("tables equal the states", lambda: not defects(folds), PATIENCE_S)
        assert are_shared(fleet)
        fleet.stop_workers()
        assert [child.crashes for child in fleet.children] == [[]] * len(fleet.children)

    for fold in folds:
        check_cell(fold.advanced(), load, tmp_path / fold.placement.cell)
    sources = set().union(*(fold.sources for fold in folds))
    assert lost_inputs(settings, len(CELLS), sources) == {}


def are_shared(fleet: Fleet) -> bool:
    """Whether all cells run, and no worker runs none."""
    return fleet.claimed() == set(CELLS) and all(w.cells() for w in fleet.workers.values())


def have_ended(folds: list[CellFold], load: Load) -> bool:
    """Whether every job that was submitted has a decision that ends it."""
    return all(load.jobs[fold.placement.cell] <= fold.advanced().finished for fold in folds)


def defects(folds: list[CellFold]) -> list[str]:
    """Rows of the tables that are not those of the states."""
    return [defect for fold in folds for defect in fold.advanced().table_defects()]


def check_cell(fold: CellFold, load: Load, folder: Path) -> None:
    """The proofs of one cell, with the commands that anybody would use."""
    cell = fold.placement.cell
    assert fold.refused == []
    assert load.acknowledged[cell] <= fold.event_ids
    assert check_decisions(fold).copies == 0
    url = f"kafka://{fold.settings.bootstrap}/{cell}"
    on_kafka = call("verify", url)
    assert on_kafka["mismatches"] == 0
    call("copy", url, folder / "copy")
    in_directory = call("verify", folder / "copy")
    for proof in ("records", "decisions", "mismatches", "digest", "chain", "record_hash"):
        assert on_kafka[proof] == in_directory[proof], proof
    assert (
        on_kafka["digest"] == seal(fold.state).hex() == saved_digest(fold, folder / "store").hex()
    )

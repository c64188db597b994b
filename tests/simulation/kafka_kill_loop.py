"""kill -9 of workers and brokers under load, again and again; then everything is read back.

Run `python tests/simulation/kafka_kill_loop.py [--worker-kills 50] [--broker-kills 5]` from
anywhere; Java and Maven must be there. Starts three brokers, workers and simulated nodes, submits
jobs through the client, and kills. Who is killed has itself made progress since it was started;
workers are started again at once, brokers when the cells were seen to go on without them. Each
second broker takes a worker with it in the same moment. In the middle one worker is stopped for
longer than its session and let go on when others have taken its cells.

At the end no acknowledged event may be missing, every input must be in a ledger or a dead letter,
decisions must be those of an uninterrupted fold of the ledgers, byte for byte and under the same
ids, copies equal, tables and snapshots as the fold has them. Prints one JSON object.
"""

import argparse
import json
import random
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ganger.streams.kafka.cluster.settings import KafkaSettings
from ganger.streams.kernel.digest import seal
from support.kafka import KafkaCluster, own_cluster
from support.kafka_evidence import CellFold, check_decisions, lags, lost_inputs, saved_digest
from support.kafka_fleet import Fleet, WorkerChild
from support.kafka_load import Load, configure

CELLS = ("north", "east", "south", "west")
PATIENCE_S = 300.0
"""For everything to end once nobody is killed any more."""

_ANSWER_S = 10.0
_MORE_MAX = 40
"""A victim's cell decides so many times at most before it is killed."""


@dataclass(frozen=True)
class Plan:
    """What is done to whom.

    Attributes:
        rate: jobs a second, over all cells.
    """

    worker_kills: int
    broker_kills: int
    pauses: int = 1
    workers: int = 2
    cells: tuple[str, ...] = CELLS
    rate: float = 15.0
    seed: int = 1


@dataclass
class Report:
    """What was done and found.

    Attributes:
        crashes: ends of workers that nobody asked for, which is what they do in doubt.
        producers: how often the load had to begin a new one.
        copies: decisions that stand on Kafka twice, equal byte for byte.
    """

    worker_kills: int = 0
    broker_kills: int = 0
    same_moment: int = 0
    pauses: int = 0
    crashes: int = 0
    node_crashes: int = 0
    producers: int = 0
    jobs: int = 0
    events: int = 0
    records: int = 0
    decisions: int = 0
    copies: int = 0
    seconds: float = 0.0
    digests: dict[str, str] = field(default_factory=dict)


class KillLoop:
    """One loop over one cluster."""

    def __init__(self, cluster: KafkaCluster, fleet: Fleet, plan: Plan) -> None:
        """Nothing is started yet."""
        self.report = Report()
        self._cluster = cluster
        self._fleet = fleet
        self._plan = plan
        self._chance = random.Random(plan.seed)
        self._brokers = len(cluster.bootstrap.split(","))
        self._admin = AdminClient(fleet.settings.client(log_level=0))
        self._load = Load(fleet.settings, plan.cells, rate=plan.rate, seed=plan.seed)

    def run(self) -> None:
        """Start everything, do the plan under load, and wait until all of it is done with."""
        fleet, plan, load = self._fleet, self._plan, self._load
        fleet.make_topics(plan.cells, len(plan.cells))
        for number in range(1, plan.workers + 1):
            fleet.worker(f"w{number}")
        for cell in plan.cells:
            fleet.simulate(cell)
        configure(fleet.settings, plan.cells)
        load.start()
        fleet.until("all cells run", lambda: fleet.claimed() >= set(plan.cells), PATIENCE_S)
        for act in self._acts():
            act()
        load.finish(PATIENCE_S)
        self._settle()

    def check(self, folder: Path) -> None:
        """Read everything back.

        Raises:
            AssertionError: something is not as it would be without kills.
        """
        folds, load, report = self._folds, self._load, self.report
        sources = set()
        for fold in folds:
            cell = fold.advanced().placement.cell
            missing = load.acknowledged[cell] - fold.event_ids
            assert not missing, f"{cell}: acknowledged and lost: {sorted(missing)[:10]}"
            assert fold.refused == [], cell
            found = check_decisions(fold)
            digest = seal(fold.state)
            assert saved_digest(fold, folder / f"store-{cell}") == digest, cell
            sources |= fold.sources
            report.records += fold.state.next_seq
            report.decisions += len(found.payloads)
            report.copies += found.copies
            report.events += len(load.acknowledged[cell])
            report.digests[cell] = digest.hex()
        lost = lost_inputs(self._fleet.settings, len(folds), sources)
        assert lost == {}, f"inputs that led to nothing: {lost}"
        report.jobs = load.submitted_count
        report.producers = load.failures
        report.crashes = sum(len(w.crashes) for w in self._fleet.workers.values())
        report.node_crashes = sum(len(n.crashes) for n in self._fleet.nodes.values())

    # ---- what is done ----------------------------------------------------------------------------

    def _acts(self) -> list[Callable[[], None]]:
        """The plan in order: brokers and pauses spread evenly among the workers' kills."""
        plan = self._plan
        acts: list[tuple[float, Callable[[], None]]] = []
        for act, count in (
            (self._kill_worker, plan.worker_kills),
            (self._kill_broker, plan.broker_kills),
            (self._pause_worker, plan.pauses),
        ):
            acts += [((number + 0.5) / count, act) for number in range(count)]
        return [act for _, act in sorted(acts, key=lambda entry: entry[0])]

    def _victim(self) -> WorkerChild:
        """A worker that has made progress."""
        worker = self._chance.choice(list(self._fleet.workers.values()))
        self._fleet.until_live(worker, PATIENCE_S, self._chance.randint(1, _MORE_MAX))
        return worker

    def _kill_worker(self) -> None:
        self._victim().kill()
        self.report.worker_kills += 1

    def _kill_broker(self) -> None:
        """A broker, and each second time a worker with it; on to the next when all is in sync."""
        worker = self._victim()
        broker = self._chance.randint(1, self._brokers)
        if self.report.broker_kills % 2:
            worker.signal(signal.SIGSTOP)  # so that nothing happens between the two
            self._cluster.kill(broker)
            worker.kill()
            self.report.same_moment += 1
            self.report.worker_kills += 1
        else:
            self._cluster.kill(broker)
        self.report.broker_kills += 1
        if self._brokers > 1:
            self._fleet.tend()
            for other in self._fleet.workers.values():
                self._fleet.until_live(other, PATIENCE_S)
        self._cluster.start()
        self._fleet.until("replicas are in sync", self._are_in_sync, PATIENCE_S)

    def _pause_worker(self) -> None:
        """Stop a worker past its session; let it go on when its cells are others'."""
        worker = self._victim()
        cells = worker.cells()
        others = [other for other in self._fleet.workers.values() if other is not worker]
        worker.signal(signal.SIGSTOP)
        self._fleet.until(
            f"others take {sorted(cells)} of {worker.name}",
            lambda: cells <= {cell for other in others for cell in other.cells()},
            PATIENCE_S,
        )
        self._until_decided(cells)
        worker.forget()
        worker.signal(signal.SIGCONT)
        self._fleet.until_live(worker, PATIENCE_S)
        self.report.pauses += 1

    def _until_decided(self, cells: Iterable[str]) -> None:
        """Until more is decided in each of these cells."""
        marks: dict[str, int] = {}

        def is_decided() -> bool:
            ends = {cell: self._fleet.decided(cell) for cell in cells}
            known = {cell: end for cell, end in ends.items() if end is not None}
            return len(known) == len(ends) and all(
                end > marks.setdefault(cell, end) for cell, end in known.items()
            )

        self._fleet.until(f"{sorted(cells)} decide", is_decided, PATIENCE_S)

    def _are_in_sync(self) -> bool:
        try:
            topics = self._admin.list_topics(timeout=_ANSWER_S).topics.values()
        except KafkaException:
            return False
        partitions = [part for topic in topics for part in topic.partitions.values()]
        return all(len(part.isrs) == len(part.replicas) for part in partitions)

    # ---- the end ---------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Wait until all jobs have ended, nothing lags, tables are exact; end the workers."""
        fleet, load = self._fleet, self._load
        placements = fleet.placements()
        self._folds = [CellFold(fleet.settings, placements[cell]) for cell in self._plan.cells]

        def have_ended() -> bool:
            return all(
                load.jobs[fold.placement.cell] <= fold.advanced().finished for fold in self._folds
            )

        def are_exact() -> bool:
            return not any(fold.advanced().table_defects() for fold in self._folds)

        fleet.until("all jobs end", have_ended, PATIENCE_S)
        fleet.until("lag is zero", lambda: not lags(fleet.settings, len(placements)), PATIENCE_S)
        fleet.until("tables equal the states", are_exact, PATIENCE_S)
        fleet.stop_workers()


def loop(cluster: KafkaCluster, folder: Path, plan: Plan) -> Report:
    """Do a plan to a fresh cluster; the numbers of it.

    Raises:
        AssertionError: something was lost, doubled or differs.
    """
    begin_s = monotonic()
    with Fleet(KafkaSettings(cluster.bootstrap), folder) as fleet:
        kill_loop = KillLoop(cluster, fleet, plan)
        kill_loop.run()
        kill_loop.check(folder)
    kill_loop.report.seconds = round(monotonic() - begin_s, 1)
    return kill_loop.report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worker-kills", type=int, default=50)
    parser.add_argument("--broker-kills", type=int, default=5)
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=3)
    parser.add_argument("--rate", type=float, default=15.0, help="jobs a second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="keep data and logs here")
    options = parser.parse_args()
    plan = Plan(options.worker_kills, options.broker_kills, rate=options.rate, seed=options.seed)
    with tempfile.TemporaryDirectory() as scratch, own_cluster(options.brokers) as cluster:
        folder = options.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        print(json.dumps(asdict(loop(cluster, folder, plan))))


if __name__ == "__main__":
    main()

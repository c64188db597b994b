"""The nodes of a cell as a fold of its ledger and decisions, without a clock or a network.

The executor of `simulate` with what a live cell adds: a past to go on from, jobs that become known
by and by, heartbeats, and facts whose ids are the same whenever they are made.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from ganger.replay.cluster import ClusterSpec
from ganger.replay.executor import PLACES, TELLS, Executor
from ganger.replay.faults import PodFailures
from ganger.replay.machines import Machines
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind
from ganger.schemas.records import (
    JobSubmitRequested,
    NodeReport,
    PodAdopted,
    PodCheckpointed,
    PodFailed,
    PodReleased,
    PodResumed,
    PodStarted,
    PodSucceeded,
    PodSuspended,
    Record,
)
from ganger.schemas.registry import ENTRIES, frame_header
from ganger.streams.payloads import read_record

HEARTBEAT_NS = 10 * 10**9
"""Between two heartbeats of a node at speed 1, and at most."""

HEARTBEAT_NS_MIN = 10**9 // 2
RUN_NS_DEFAULT = 10 * 10**9

_HEADER_BYTES = 5
_READ = (
    "JobSubmitRequested",
    "PodAdopted",
    "PodStarted",
    "PodSucceeded",
    "PodFailed",
    "PodReleased",
    "PodCheckpointed",
    "PodSuspended",
    "PodResumed",
)
_HEADERS = frozenset(
    frame_header(entry.schema_id) for entry in ENTRIES.values() if entry.name in _READ
)
"""How the records begin that matter here; others are not decoded."""

_LIVE_HEADERS = frozenset(
    frame_header(entry.schema_id) for entry in ENTRIES.values() if entry.name in _READ[:2]
)

_AttemptKey = tuple[str, int, int]
_Break = PodCheckpointed | PodSuspended | PodResumed


_Fact = PodStarted | PodSucceeded | PodFailed | PodReleased | _Break


class Pace(Struct, frozen=True):
    """How fast simulated time passes, and what happens in it.

    Attributes:
        speed_milli: thousandths of simulated seconds in a second.
        run_ns: simulated run time of jobs without an estimate.
        heartbeat_ns: between heartbeats, in real time; 0: ten simulated seconds, within bounds.
        failure_milli: of 1000 attempts, so many fail.
        seed: from which failures draw.
    """

    speed_milli: int = 1000
    run_ns: int = RUN_NS_DEFAULT
    heartbeat_ns: int = 0
    failure_milli: int = 0
    seed: int = 0

    def real_ns(self, simulated_ns: int) -> int:
        """The real time in which so much simulated time passes."""
        return simulated_ns * 1000 // self.speed_milli

    @property
    def interval_ns(self) -> int:
        """Real time between heartbeats; never so long that nodes count as lost."""
        wanted_ns = self.heartbeat_ns or max(self.real_ns(HEARTBEAT_NS), HEARTBEAT_NS_MIN)
        return min(wanted_ns, HEARTBEAT_NS)


class _Requests(Mapping[str, int]):
    """Real run time of each job in ns, as the oldest request says that may be in force, and whether
    it can checkpoint; of an unknown job the default, and no.

    A key may be asked for twice: by a request that is refused, or anew once the job is forgotten.
    """

    def __init__(self, default_ns: int) -> None:
        self._default_ns = default_ns
        # seq of the request, run time, whether it can checkpoint
        self._by_job: dict[str, list[tuple[int, int, bool]]] = {}

    def request(self, seq: int, job: str, run_ns: int, saves: bool) -> None:
        """A request for a job stands at `seq`; a run time of 0 is the default."""
        self._by_job.setdefault(job, []).append((seq, run_ns or self._default_ns, saves))

    def saves(self, job: str) -> bool:
        """Whether a job can checkpoint."""
        entries = self._by_job.get(job)
        return bool(entries and entries[0][2])

    def refused(self, seq: int, job: str) -> None:
        """That request was refused."""
        self._keep(job, [entry for entry in self._by_job.get(job, ()) if entry[0] != seq])

    def ended(self, seq: int, job: str) -> None:
        """The job of that key ended; later requests are of another one."""
        self._keep(job, [entry for entry in self._by_job.get(job, ()) if entry[0] > seq])

    def _keep(self, job: str, entries: list[tuple[int, int, bool]]) -> None:
        if entries:
            self._by_job[job] = entries
        else:
            self._by_job.pop(job, None)

    def __getitem__(self, job: str) -> int:
        entries = self._by_job.get(job)
        return entries[0][1] if entries else self._default_ns

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_job)

    def __len__(self) -> int:
        return len(self._by_job)


class SimulatedNodes:
    """The nodes of a cell.

    First the past: `remember`, then `begin`. Then the present: `learn` records, `carry_out`
    decisions, `take` what is due. Facts come with their event ids.

    Attributes:
        placed_count: attempts that were started, since `begin`.
        ended_count: attempts that ended, since `begin`.
    """

    def __init__(self, cluster: ClusterSpec, pace: Pace) -> None:
        """Nodes on which nothing runs."""
        failing = PodFailures(pace.seed, pace.failure_milli) if pace.failure_milli else None
        self.placed_count = self.ended_count = 0
        self._pace = pace
        self._machines = Machines(cluster)
        self._requests = _Requests(pace.real_ns(pace.run_ns))
        self._executor = Executor(self._requests, failing=failing, saves=self._requests.saves)
        self._handled: dict[str, int] = {}  # node -> cause of its last decision
        self._open: dict[_AttemptKey, Decision] = {}  # placed and not ended
        self._told: dict[_AttemptKey, Decision] = {}  # what these were told last
        self._breaks: dict[str, list[_Break]] = {}  # the past's, by job
        self._started: dict[_AttemptKey, int] = {}  # the past's, of those in `_open`

    @property
    def node_count(self) -> int:
        """How many nodes there are."""
        return len(self._machines.reports)

    @property
    def running_count(self) -> int:
        """Attempts that have not ended."""
        return len(self._open)

    # ---- the past --------------------------------------------------------------------------------

    def remember(self, records: Iterator[tuple[int, bytes]], decisions: Iterable[Decision]) -> None:
        """Take in the past.

        Args:
            records: all of the ledger with their seqs, in order.
            decisions: all that they caused, in order, copies left out.
        """
        seq = -1
        for decision in decisions:
            while seq < decision.cause_seq:
                seq, payload = next(records)
                self._recall(seq, payload)
            self._recall_decision(decision)
        for seq, payload in records:
            self._recall(seq, payload)

    def begin(self, now_ns: int) -> list[Record]:
        """The past is over: what it left running runs on; the facts that the ledger lacks."""
        later: list[_Break] = []
        for one in chain.from_iterable(self._breaks.values()):
            if (one.job, one.pod, one.attempt) in self._open:
                later.append(one)
            else:
                self._executor.recall(one, now_ns)
        facts = []
        for key, decision in self._open.items():
            started_ns = self._started.get(key)
            at_ns = now_ns if started_ns is None else min(started_ns, now_ns)
            starts = self._executor.observe([decision], at_ns)
            if started_ns is None:
                facts += self._named(starts)
        for one in later:
            self._executor.recall(one, min(one.reported_ns, now_ns))
        facts += self._named(self._executor.observe(self._told.values(), now_ns))
        self._breaks, self._started = {}, {}
        return facts

    # ---- the present -----------------------------------------------------------------------------

    def learn(self, seq: int, payload: bytes) -> None:
        """A record that was appended just now; only jobs are news."""
        if payload[:_HEADER_BYTES] in _LIVE_HEADERS:
            record = read_record(seq, payload)
            assert isinstance(record, JobSubmitRequested | PodAdopted)
            self._learn(seq, record)

    def carry_out(self, decisions: Iterable[Decision], now_ns: int) -> list[Record]:
        """What follows at once from decisions, in order."""
        ours = []
        others = []
        for decision in decisions:
            if decision.kind in PLACES:
                if self._is_ours(decision):
                    self._open[decision.job, decision.pod, decision.attempt] = decision
                    self.placed_count += 1
                    ours.append(decision)
            elif decision.kind in TELLS:
                if self._is_ours(decision):
                    self._hear(decision)
                    ours.append(decision)
            else:
                others.append(decision)
        facts = self._named(self._executor.observe(ours, now_ns))
        for decision in others:  # behind: what was placed before needs its run time
            self._settle(decision)
        return facts

    def due_ns(self) -> int | None:
        """When the next end is due; None while nothing runs that ever ends."""
        return self._executor.due()

    def take(self, now_ns: int) -> list[Record]:
        """All ends that are due."""
        facts: list[Record] = []
        while (ended := self._executor.take(now_ns)) is not None:
            facts += self._named(ended)
        return facts

    def reports(self, now_ns: int) -> tuple[NodeReport, ...]:
        """What every node says of itself."""
        alive = self._executor.alive()
        return self._machines.heartbeat(
            now_ns, self._machines.reports, alive, self._handled
        ).reports

    def _recall(self, seq: int, payload: bytes) -> None:
        """A record of the past."""
        if payload[:_HEADER_BYTES] not in _HEADERS:
            return
        record = read_record(seq, payload)
        if isinstance(record, JobSubmitRequested | PodAdopted):
            self._learn(seq, record)
        elif isinstance(record, PodStarted):
            key = (record.job, record.pod, record.attempt)
            if key in self._open:
                self._started.setdefault(key, record.reported_ns)
        elif isinstance(record, PodSucceeded | PodFailed | PodReleased):
            key = (record.job, record.pod, record.attempt)
            if self._open.pop(key, None) is not None:
                self._told.pop(key, None)
                self._started.pop(key, None)
        elif isinstance(record, _Break):
            self._breaks.setdefault(record.job, []).append(record)

    def _recall_decision(self, decision: Decision) -> None:
        """A decision of the past."""
        if decision.kind in PLACES:
            if self._is_ours(decision):
                self._open[decision.job, decision.pod, decision.attempt] = decision
        elif decision.kind in TELLS:
            if self._is_ours(decision):
                self._hear(decision)
        else:
            self._settle(decision)

    def _hear(self, decision: Decision) -> None:
        """An attempt was told something."""
        key = (decision.job, decision.pod, decision.attempt)
        if key in self._open:
            self._told[key] = decision

    def _is_ours(self, decision: Decision) -> bool:
        """Whether one of these nodes is to carry a decision out; it has then been handled."""
        if decision.node not in self._machines.reports:
            return False
        self._handled[decision.node] = decision.cause_seq
        return True

    def _learn(self, seq: int, record: JobSubmitRequested | PodAdopted) -> None:
        run_ns = self._pace.real_ns(record.runtime_estimate_ns)
        self._requests.request(seq, record.job, run_ns, record.can_checkpoint)

    def _settle(self, decision: Decision) -> None:
        """Forget what is known of a job that was refused or ended."""
        if decision.kind is DecisionKind.REJECT:
            self._requests.refused(decision.cause_seq, decision.job)
        elif decision.kind is DecisionKind.FINISH:
            self._requests.ended(decision.cause_seq, decision.job)
            self._breaks.pop(decision.job, None)
            self._executor.forget(decision.job)

    def _named(self, facts: Iterable[Record]) -> list[Record]:
        """Facts with ids that are the same whenever they are made."""
        named: list[Record] = []
        for fact in facts:
            assert isinstance(fact, _Fact)
            key = (fact.job, fact.pod, fact.attempt)
            placed = self._open[key]
            if isinstance(fact, PodStarted):
                what = "started"
            elif isinstance(fact, _Break):
                # an attempt can be told often, so by what it was told
                what = f"{type(fact).__name__}/{self._told[key].cause_seq}"
            else:
                what = "ended"
                del self._open[key]
                self._told.pop(key, None)
                self.ended_count += 1
            event_id = f"pod/{placed.cause_seq}/{placed.index}/{what}"
            named.append(replace(fact, event_id=event_id))
        return named

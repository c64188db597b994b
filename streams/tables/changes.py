"""Which rows a cell's records changed, so that only those are told.

Nothing is asked of the kernel: records and decisions name the jobs and nodes that they touch, and
rows are made from the state when they are taken. What neither names is worked out here:

* a node's report, loss or return settles the attempts on it: the jobs that were there at the last
  take (later ones were named by their placement);
* a claim is given up as a whole: `_claimed` remembers the nodes that CLAIM named;
* an attempt that ended left a node that only its placement named: `_places` remembers it;
* NodeLost and QueueConfigured send admitted jobs back: those last told as INQUEUE are looked at;
* an ended job is forgotten when its time is over: a heap says when to look whether it is;
* a reservation begins and ends with the clock: its nodes are looked at;
* anything changes the fair shares: all rows of queues are made and compared.

Everything is noted by name and read at the take, so records may be observed one by one or in groups
after the group was stepped. A row may be told that is as it was; one that differs always is.

After a restore others may have told rows of any moment since the snapshot. So the first take leaves
nothing out of what was touched, whether it differs from the snapshot or not, and says of everything
that came and went that it is gone.
"""

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, Phase
from ganger.schemas.rows import QueueRow, Row
from ganger.streams.kernel.entities import ENDED, Job, Node
from ganger.streams.kernel.jobs.attempts import ttl_ns
from ganger.streams.kernel.state import State
from ganger.streams.tables.rows import (
    TABLES,
    card_key,
    card_row_count,
    cards_of,
    job_row,
    key_of,
    node_row,
    queue_rows,
)

Change = tuple[str, str, Row | None]
"""Table, key in it, the row as it is now; none: it is gone."""

# bound once: looking a member up on its Enum class costs more than what is done with it
_CYCLE_CLOSED = DecisionKind.CYCLE_CLOSED
_CLAIM = DecisionKind.CLAIM
_UNCLAIM = DecisionKind.UNCLAIM
_FINISH = DecisionKind.FINISH
_REJECT = DecisionKind.REJECT
_INQUEUE = Phase.INQUEUE.name

_OF_JOB = (r.JobSubmitRequested, r.JobUpdateRequested, r.PodStarted)
_OF_END = (r.PodSucceeded, r.PodFailed, r.PodReleased)
_OF_REPORT = (r.NodeChanged, r.NodeReturned)
_OF_NODE = (r.NodeCordoned, r.NodeUncordoned, r.NodeDrained)

_JOB, _END, _REPORT, _LOST, _NODE, _ADOPTED, _RESERVED, _QUEUE, _POLICY = range(1, 10)
_KINDS: dict[type, int] = {
    **dict.fromkeys(_OF_JOB, _JOB),
    **dict.fromkeys(_OF_END, _END),
    **dict.fromkeys(_OF_REPORT, _REPORT),
    **dict.fromkeys(_OF_NODE, _NODE),
    r.NodeLost: _LOST,
    r.PodAdopted: _ADOPTED,
    r.ReservationRequested: _RESERVED,
    r.QueueConfigured: _QUEUE,
    r.PolicyConfigured: _POLICY,
}
"""What is to be noted of a record; nothing of other types: decisions say it, or nothing changes."""


class _Held(NamedTuple):
    """The cards of an attempt."""

    mask: int
    card_milli: int
    attempt: tuple[str, int, int]


class _Told(NamedTuple):
    """What the rows of a node's cards were last made from."""

    cards: tuple[r.CardRun, ...]
    row_count: int
    healthy: int
    free: int
    shared: dict[int, tuple[int, int]]
    held: dict[tuple[int, int, int], _Held]


_NOTHING = _Told((), 0, 0, 0, {}, {})


class RowChanges:
    """The rows of one cell that changed since they were last taken."""

    def __init__(self, state: State) -> None:
        """The rows of this state, or of one that comes after it, are told. O(everything in it)."""
        self._is_first = True  # the next take is
        self._jobs: dict[str, bool] = {}  # to be looked at, by name
        self._seqs: dict[int, bool] = {}  # the same by seq
        self._nodes: dict[str, bool] = {}
        self._reports: dict[str, int] = {}  # nodes whose jobs are to be looked at too, most cards
        self._configured: dict[str, bool] = {}  # queues
        self._finished: list[str] = []
        self._resort = False  # times to live may have changed
        self._sends_back = False
        self._is_quiet = True
        self._told: dict[str, _Told] = {}
        self._claimed: dict[str, dict[str, bool]] = {}  # nodes of claims, by job
        for claim in state.claims.values():
            held = [state.nodes[entry.node].report.node for entry in claim.entries]
            self._claimed[state.jobs[claim.job].request.job] = dict.fromkeys(held, True)
        self._places: dict[tuple[str, int, int], str] = {}  # attempts to nodes, at the last take
        self._queues: dict[str, QueueRow] = {row.queue: row for row in queue_rows(state)}
        self._inqueue: dict[str, bool] = {}
        self._reserved: dict[str, bool] = {}
        self._ended: list[tuple[int, str]] = []  # when an ended job is forgotten; a heap
        for node in state.nodes:
            self._reserved_changed(node)
            for _ in self._cards(state, node):
                pass
        for reservation in state.reservations.values():
            self._nodes.update(dict.fromkeys(reservation.nodes, True))
        for job in state.jobs.values():
            if job.phase.name == _INQUEUE:
                self._inqueue[job.request.job] = True
            if job.phase in ENDED:
                self._ended.append((_due(state, job), job.request.job))
        heapify(self._ended)

    def observe(self, records: Iterable[r.Record], decisions: Iterable[Decision]) -> None:
        """Note what these records and the decisions that they caused touch.

        They must have been stepped, and must be the next ones after those observed before.
        """
        jobs, nodes = self._jobs, self._nodes
        self._is_quiet = False
        for record in records:
            kind = _KINDS.get(record.__class__, 0)
            if kind == _JOB:
                jobs[record.job] = True  # type: ignore[attr-defined]
            elif kind == _END:
                self._note_end(record)  # type: ignore[arg-type]
            elif kind:
                self._note(record)
        for decision in decisions:
            what = decision.kind
            if what is _CYCLE_CLOSED or what is _REJECT:
                continue
            jobs[decision.job] = True
            if decision.node:
                nodes[decision.node] = True
                if what is _CLAIM:
                    self._claimed.setdefault(decision.job, {})[decision.node] = True
            elif what is _UNCLAIM or what is _FINISH:
                nodes.update(self._claimed.pop(decision.job, {}))
                if what is _FINISH:
                    self._finished.append(decision.job)

    def _note_end(self, record: r.PodSucceeded | r.PodFailed | r.PodReleased) -> None:
        self._jobs[record.job] = True
        node = self._places.get((record.job, record.pod, record.attempt))
        if node is not None:
            self._nodes[node] = True

    def _note(self, record: r.Record) -> None:
        if isinstance(record, r.NodeChanged | r.NodeReturned):
            name, cards = record.report.node, card_row_count(record.report)
            self._nodes[name] = True
            self._reports[name] = max(cards, self._reports.get(name, 0))
        elif isinstance(record, r.NodeLost):
            self._nodes[record.node] = self._sends_back = True
            self._reports.setdefault(record.node, 0)
        elif isinstance(record, r.PodAdopted):
            self._jobs[record.job] = self._nodes[record.node] = True
        elif isinstance(record, _OF_NODE):
            self._nodes[record.node] = True
        elif isinstance(record, r.ReservationRequested):
            self._nodes.update(dict.fromkeys(record.nodes, True))
        elif isinstance(record, r.QueueConfigured):
            self._configured[record.queue] = self._sends_back = True
        else:
            self._resort = True

    def take(self, state: State) -> list[Change]:
        """Every row that is not as it was told before, once, as it is now.

        Args:
            state: what the observed records made of the state given first.
        """
        if self._is_quiet:
            return []
        self._is_quiet = True
        changes: list[Change] = []
        self._look_around(state)
        for name in self._nodes:
            place = state.node_by_name.get(name)
            if place is not None:
                node = state.nodes[place]
                changes.append(("nodes", name, node_row(node)))
                changes += self._cards(state, node)
        changes += self._queue_changes(state)
        changes += self._job_changes(state)
        self._nodes, self._reports = {}, {}
        self._is_first = False
        return changes

    def everything(self, state: State) -> list[Change]:
        """All rows, whoever was told which."""
        return [
            (table, key_of(row), row)
            for table, (_, rows_of) in TABLES.items()
            for row in rows_of(state)
        ]

    def _look_around(self, state: State) -> None:
        """Name what records and decisions did not."""
        for name in self._reports:
            told = self._told.get(name)
            if told is not None:
                for seq, _, _ in told.held:
                    self._seqs[seq] = True
        if self._sends_back:
            self._sends_back = False
            self._jobs.update(self._inqueue)
        if state.reservations or self._reserved:
            names = [name for record in state.reservations.values() for name in record.nodes]
            for name in dict.fromkeys([*self._reserved, *names]):
                if self._reserved_changed(state.nodes[state.node_by_name[name]]):
                    self._nodes[name] = True

    def _reserved_changed(self, node: Node) -> bool:
        name = node.report.node
        was = name in self._reserved
        if node.is_reserved and not was:
            self._reserved[name] = True
        elif was and not node.is_reserved:
            del self._reserved[name]
        return was != node.is_reserved

    # ---- cards ----------------------------------------------------------------------------------

    def _cards(self, state: State, node: Node) -> Iterator[Change]:
        """Cards that differ from what was told of the node; from now on they are told."""
        name = node.report.node
        told = self._told.get(name, _NOTHING)
        now = self._told[name] = _Told(
            node.report.cards,
            card_row_count(node.report),
            node.healthy,
            node.free,
            dict(node.shared),
            _held(state, node, told),
        )
        is_new = self._is_first or told.cards != now.cards
        mask = -1 if is_new else told.healthy ^ now.healthy
        mask |= told.free ^ now.free | _shared_mask(told, now)
        for key, held in told.held.items():
            if now.held.get(key) is not held:
                mask |= held.mask
                if self._places.get(held.attempt) == name:
                    del self._places[held.attempt]
        for key, held in now.held.items():
            if told.held.get(key) is not held:
                mask |= held.mask
                self._places[held.attempt] = name
        most = told.row_count
        if self._is_first:
            most = max(most, self._reports.get(name, 0))
        for card in range(now.row_count, most):
            yield "cards", card_key(name, card), None
        if mask:
            for row in cards_of(state, node, mask):
                yield "cards", card_key(name, row.card), row

    # ---- queues and jobs ------------------------------------------------------------------------

    def _queue_changes(self, state: State) -> Iterator[Change]:
        told = self._queues
        self._queues = {row.queue: row for row in queue_rows(state)}
        for name in {**told, **self._configured}:
            if name not in self._queues:
                yield "queues", name, None
        self._configured = {}
        for name, row in self._queues.items():
            if self._is_first or told.get(name) != row:
                yield "queues", name, row

    def _job_changes(self, state: State) -> Iterator[Change]:
        """Jobs named, and those whose time is over."""
        for name in self._forgotten(state):
            self._inqueue.pop(name, None)
            yield "jobs", name, None
        seqs = {state.job_by_key[name]: True for name in self._jobs if name in state.job_by_key}
        seqs.update({seq: True for seq in self._seqs if seq in state.jobs})
        self._jobs, self._seqs = {}, {}
        for seq in seqs:
            row = job_row(state, state.jobs[seq])
            if row.phase == _INQUEUE:
                self._inqueue[row.job] = True
            elif row.job in self._inqueue:
                del self._inqueue[row.job]
            yield "jobs", row.job, row

    def _forgotten(self, state: State) -> Iterator[str]:
        """Names of jobs that are no more. Their time over, they go with the next Tick.

        Some stay longer: while a lost node holds an attempt. They are looked at again.
        """
        names = self._finished
        self._finished = []
        if self._resort:
            self._resort = False
            names += [name for _, name in self._ended]
            self._ended = []
        while self._ended and self._ended[0][0] <= state.clock_ns:
            names.append(heappop(self._ended)[1])
        for name in dict.fromkeys(names):
            seq = state.job_by_key.get(name)
            if seq is None:
                yield name
            elif state.jobs[seq].phase in ENDED:
                heappush(self._ended, (_due(state, state.jobs[seq]), name))


def _due(state: State, job: Job) -> int:
    """When an ended job's time is over."""
    return job.ended_ns + ttl_ns(state, job)


def _held(state: State, node: Node, told: _Told) -> dict[tuple[int, int, int], _Held]:
    """What the node's attempts hold; what was told before stays the same object."""
    held = {}
    for key, pod in node.pods.items():
        before = told.held.get(key)
        if before is None or before.mask != pod.mask or before.card_milli != pod.card_milli:
            job = state.jobs[pod.job].request.job
            before = _Held(pod.mask, pod.card_milli, (job, pod.index, pod.attempt))
        held[key] = before
    return held


def _shared_mask(told: _Told, now: _Told) -> int:
    """Cards whose shares differ."""
    mask = 0
    for card in {**told.shared, **now.shared}:
        if told.shared.get(card) != now.shared.get(card):
            mask |= 1 << card
    return mask

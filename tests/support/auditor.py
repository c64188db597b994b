"""The auditor: a slow, independent model of what the kernel promises.

It watches records and the decisions they led to, keeps its own book of the cell (`auditor_facts`)
and raises `PromiseBroken` at the first decision that should not have been, or that is missing. It
reads nothing of the kernel. Call `watch` once per record, in order.

Promises about one cycle as a whole (gangs, order, idle capacity) are in `auditor_cycle`.
"""

import io
from hashlib import sha256

import fastavro
from msgspec import structs

from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import CardHealth, DecisionKind, FailureKind
from ganger.schemas.reasons import Reason
from ganger.schemas.registry import NEWEST
from support.auditor_cycle import CycleAudit
from support.auditor_facts import (
    AttemptFacts,
    CellFacts,
    JobFacts,
    NodeFacts,
    QueueFacts,
    amounts_of,
    card_suits,
    is_zero,
    islands_of,
    selects,
    tolerates,
)
from support.promises import PromiseBroken, promise
from support.record_strategies import plain

__all__ = ["Auditor", "PromiseBroken"]

_SCHEMA = dict(NEWEST["Decision"].schema)
_SCHEMA["fields"] = [field for field in _SCHEMA["fields"] if field["name"] != "chain"]
_PARSED = fastavro.parse_schema(_SCHEMA)

K = DecisionKind
OF_THE_END = (Reason.CANCEL_REQUESTED, Reason.RETRY_LIMIT, Reason.DEPENDENCY_FAILED)


class Auditor:
    """Watches one cell from its first record on."""

    def __init__(self, cell: str, chain: bytes) -> None:
        self.cell = cell
        self.chain = chain
        self.facts = CellFacts()
        self.next_seq = 0
        self.now_ns = 0
        self._freed: list[AttemptFacts] = []  # ended by the record, once its decisions are read
        self._given_up: list[AttemptFacts] = []
        self._record: r.Record | None = None

    # ---- one record -----------------------------------------------------------------------------

    def watch(self, record: r.Record, decisions: list[Decision]) -> None:
        """Check the decisions that the next record led to."""
        seq, self.next_seq = self.next_seq, self.next_seq + 1
        self._check_identity(seq, decisions)
        self._record = record
        self._freed, self._given_up = [], []
        self.now_ns = self._dated(record)
        rejected = [d for d in decisions if d.kind is K.REJECT]
        if self._is_repeat(record):
            promise(not decisions, "a repeated record decides nothing", record)
            return
        if rejected:
            promise(len(decisions) == 1, "a refusal stands alone", decisions)
            self._check_refusal(record, rejected[0])
            return
        before = self.facts.clock_ns
        self._apply(seq, record)
        if isinstance(record, r.Tick):
            self._watch_tick(record, before, decisions)
        else:
            for decision in decisions:
                self._watch_decision(decision)
        self._settle()

    def _check_identity(self, seq: int, decisions: list[Decision]) -> None:
        for index, decision in enumerate(decisions):
            promise(
                (decision.cell, decision.cause_seq, decision.index) == (self.cell, seq, index),
                "decisions are (cell, cause, index), dense from 0",
                decision,
            )
            stream = io.BytesIO()
            values = plain(decision)
            del values["chain"]
            fastavro.schemaless_writer(stream, _PARSED, values)
            self.chain = sha256(self.chain + stream.getvalue()).digest()
            promise(decision.chain == self.chain, "each decision extends the chain", decision)

    def _dated(self, record: r.Record) -> int:
        clock = self.facts.clock_ns
        tick_max = self.facts.setting("tick_max_ns", 0)
        latest = clock + tick_max if tick_max and clock else max(clock, record.time_ns)
        return min(max(record.time_ns, clock), latest)

    def _is_repeat(self, record: r.Record) -> bool:
        facts = self.facts
        if record.source is not None:
            place = (record.source.topic, record.source.partition)
            position = (record.source.offset, record.source.index)
            if position <= facts.sources.get(place, (-1, -1)):
                return True
            facts.sources[place] = position
        if record.event_id:
            if record.event_id in facts.event_ids:
                return True
            facts.event_ids[record.event_id] = self.now_ns
        return False

    def _check_refusal(self, record: r.Record, decision: Decision) -> None:
        if decision.reason is Reason.JOB_EXISTS:
            assert isinstance(record, r.JobSubmitRequested)
            promise(record.job in self.facts.jobs, "only a known key is taken", decision)
        facts = (r.PodStarted, r.PodProgressed, r.PodCheckpointed, r.PodSucceeded, r.PodFailed)
        never = (*facts, r.PodReleased, r.NodeChanged, r.NodeLost, r.NodeReturned, r.Tick)
        promise(not isinstance(record, never), "facts are not refused", decision)

    # ---- what records say -----------------------------------------------------------------------

    def _apply(self, seq: int, record: r.Record) -> None:
        facts = self.facts
        match record:
            case r.OwnerClaimed():
                facts.epoch = seq
            case r.IntakeClaimed():
                facts.claim = seq
            case r.PolicyConfigured():
                facts.policy = record
            case r.QueueConfigured():
                facts.queues[record.queue] = QueueFacts(record, record.parent)
                facts.send_back(record.queue)
                if record.removed:
                    del facts.queues[record.queue]
            case r.ReservationRequested():
                facts.reservations[record.reservation] = record
                if record.cancelled:
                    del facts.reservations[record.reservation]
            case r.JobSubmitRequested():
                self._submit(seq, record)
            case r.JobCancelRequested():
                facts.jobs[record.job].ending = "CANCEL_REQUESTED"
            case r.JobUpdateRequested():
                self._update(record)
            case r.NodeCordoned():
                facts.nodes[record.node].is_cordoned = True
            case r.NodeDrained():
                facts.nodes[record.node].is_draining = True
            case r.NodeUncordoned():
                node = facts.nodes[record.node]
                node.is_cordoned = node.is_draining = False
            case r.NodeLost():
                self._lose(record)
            case r.NodeChanged() | r.NodeReturned():
                self._report(record.report)
            case r.PodStarted() | r.PodSucceeded() | r.PodFailed() | r.PodReleased():
                attempt = facts.attempt(record.job, record.pod, record.attempt)
                if attempt is not None:
                    self._hear(record, attempt)
            case r.Tick():
                self._pass_time(record)

    def _submit(self, seq: int, record: r.JobSubmitRequested) -> None:
        facts = self.facts
        old = facts.jobs.get(record.job)
        if old is not None:
            promise(
                old.is_old, "a key is free again once its job ended and its ttl is over", record
            )
        classes = facts.policy.priority_classes if facts.policy else ()
        named = {c.name: c.priority for c in classes}
        job = facts.jobs[record.job] = JobFacts(
            seq,
            record.job,
            record.queue,
            named.get(record.priority_class, record.priority),
            record.roles,
            record.min_available,
            record.retry,
            record.ttl_ns,
            record.held,
        )
        for key in record.dependencies:
            other = facts.jobs[key]
            if not other.outcome:
                job.waits_for.append(other)
            elif other.outcome != "ALL_PODS_SUCCEEDED":
                job.ending = "DEPENDENCY_FAILED"

    def _update(self, record: r.JobUpdateRequested) -> None:
        job = self.facts.jobs[record.job]
        if record.priority is not None:
            job.priority = record.priority
        if record.held is not None:
            job.is_held = record.held
        for scale in record.scale:
            job.roles = tuple(
                structs.replace(role, replicas=scale.replicas, min_available=scale.min_available)
                if role.name == scale.role
                else role
                for role in job.roles
            )
        if record.scale:
            replicas = sum(role.replicas for role in job.roles)
            job.min_available = min(job.min_available, replicas)
            wanted = dict.fromkeys(p for i in range(len(job.roles)) for p in job.pods(i))
            self._given_up += [a for pod, a in job.live.items() if pod not in wanted]
            job.succeeded = {pod: True for pod in job.succeeded if pod in wanted}

    def _lose(self, record: r.NodeLost) -> None:
        node = self.facts.nodes.get(record.node)
        if node is not None and record.claim == self.facts.claim and not node.is_lost:
            node.is_lost = True
            facts = self.facts
            for job in facts.jobs.values():
                if facts.may_start(job) and not all(is_zero(role.request) for role in job.roles):
                    job.send_back()
            self._given_up += [a for a in node.attempts.values() if not a.is_ghost]

    def _report(self, report: r.NodeReport) -> None:
        facts = self.facts
        node = facts.nodes.get(report.node)
        listed = [(ref.job, ref.pod, ref.attempt) for ref in report.attempts]
        if node is None:
            node = facts.nodes[report.node] = NodeFacts(report)
        elif node.report.boot_id != report.boot_id:
            self._freed += list(node.attempts.values())
        else:
            self._freed += [
                a
                for a in node.attempts.values()
                if 0 <= a.evicted_seq <= report.handled_seq and a.name not in listed
            ]
        stay = [a.name for a in node.attempts.values() if a not in self._freed]
        node.strangers = [one for one in listed if one not in stay]
        node.report = report
        node.is_lost = False

    def _hear(self, record: r.Record, attempt: AttemptFacts) -> None:
        job = attempt.job
        if isinstance(record, r.PodStarted):
            attempt.has_started = True
            return
        self._end(attempt)
        if isinstance(record, r.PodSucceeded) and not attempt.is_ghost:
            job.succeeded[attempt.pod] = True
        if isinstance(record, r.PodFailed) and attempt.evicted_seq < 0:
            count = job.failures[attempt.pod] = job.failures.get(attempt.pod, 0) + 1
            retry = job.retry
            if count > retry.limit:
                job.ending = "RETRY_LIMIT"
                return
            if record.failure is FailureKind.START_FAILED:
                job.avoid[attempt.node] = True
            if retry.backoff_ns:
                wait = retry.backoff_ns * 2 ** (count - 1)
                wait = min(wait, max(retry.backoff_ns, retry.backoff_max_ns))
                job.not_before_ns = max(job.not_before_ns, self.now_ns + wait)

    def _end(self, attempt: AttemptFacts) -> None:
        job = attempt.job
        del self.facts.nodes[attempt.node].attempts[(job.seq, attempt.pod, attempt.number)]
        if not attempt.is_ghost:
            del job.live[attempt.pod]

    def _pass_time(self, record: r.Tick) -> None:
        facts = self.facts
        if record.epoch != facts.epoch or record.time_ns < facts.clock_ns:
            return
        facts.clock_ns = self.now_ns = record.time_ns
        for name in [n for n, one in facts.reservations.items() if one.to_ns <= record.time_ns]:
            del facts.reservations[name]
        ttl = facts.setting("ttl_ns", 3600 * 10**9)
        for job in facts.jobs.values():
            due = job.ended_ns + (ttl if job.ttl_ns < 0 else job.ttl_ns)
            job.is_old = job.is_old or (bool(job.outcome) and due <= record.time_ns)
        oldest = record.time_ns - facts.setting("event_id_ns", 600 * 10**9)
        while facts.event_ids and next(iter(facts.event_ids.values())) <= oldest:
            del facts.event_ids[next(iter(facts.event_ids))]  # in the order in which they came

    # ---- what decisions say ---------------------------------------------------------------------

    def _watch_tick(self, record: r.Tick, before: int, decisions: list[Decision]) -> None:
        facts = self.facts
        is_valid = record.epoch == facts.epoch and record.time_ns >= before
        closed = [i for i, d in enumerate(decisions) if d.kind is K.CYCLE_CLOSED]
        if not is_valid or not record.cycle:
            promise(not closed, "only a valid Tick that asks for a cycle runs one", record)
            promise(is_valid or not decisions, "a Tick that is not valid does nothing", record)
        else:
            promise(closed == [len(decisions) - 1], "a cycle closes once, at its end", decisions)
        timely = [d for d in decisions if d.kind is K.EVICT]  # of time alone, before the cycle
        promise(timely == decisions[: len(timely)], "a cycle itself evicts nobody", decisions)
        for decision in timely:
            self._watch_decision(decision)
        if not closed:
            return
        audit = CycleAudit(facts, decisions)
        for decision in decisions[len(timely) :]:
            promise(
                decision.time_ns == facts.clock_ns, "a cycle has the time of its Tick", decision
            )
            audit.before(decision)
            self._watch_decision(decision)
            audit.after(decision)
        audit.close(decisions[-1])

    def _watch_decision(self, decision: Decision) -> None:
        if decision.kind is K.CYCLE_CLOSED:
            return
        promise(decision.kind in _WATCHERS, "decisions are of a known kind", decision)
        promise(decision.job in self.facts.jobs, "decisions are about accepted jobs", decision)
        job = self.facts.jobs[decision.job]
        promise(not job.outcome, "nothing follows FINISH", decision)
        _WATCHERS[decision.kind](self, job, decision)

    def _watch_admit(self, job: JobFacts, decision: Decision) -> None:
        promise(isinstance(self._record, r.Tick), "jobs are admitted by cycles", decision)
        promise(job.is_unplaced, "ADMIT is of jobs that wait for their minimum", decision)

    def _watch_placed(self, job: JobFacts, decision: Decision) -> None:
        facts = self.facts
        count = len(job.roles)
        pod, role = decision.pod, decision.pod % count
        request = job.roles[role].request
        promise(isinstance(self._record, r.Tick), "pods are placed by cycles", decision)
        promise(job.is_admitted, "only admitted jobs are placed", decision)
        promise(facts.may_start(job), "a job that may not start is not placed", decision)
        promise(decision.role == job.roles[role].name, "role and pod number agree", decision)
        promise(pod in job.pending(role), "only a pod that is to be placed is", decision)
        number = job.last_number.get(pod, 0) + 1
        promise(decision.attempt == number, "attempts are numbered 1, 2, 3", decision)
        cards = tuple(
            c for span in decision.cards for c in range(span.first, span.first + span.count)
        )
        attempt = AttemptFacts(job, pod, number, decision.node, cards, facts.clock_ns)
        self._check_place(attempt, decision)
        facts.nodes[decision.node].attempts[(job.seq, pod, number)] = attempt
        job.live[pod] = attempt
        job.last_number[pod] = number
        if decision.kind is K.ALLOCATE or all(
            list(amounts_of(one.request)) == ["pods"] for one in job.roles
        ):
            job.is_unplaced = False
        self._check_limits(attempt, request, decision)

    def _check_place(self, attempt: AttemptFacts, decision: Decision) -> None:
        """The node and the cards suit the pod and are free."""
        facts, request = self.facts, attempt.request
        promise(attempt.node in facts.nodes, "nodes of placements are known", decision)
        node = facts.nodes[attempt.node]
        promise(facts.is_open(attempt.node), "closed nodes get no pods", (decision, node))
        nodes = facts.usable_nodes(attempt.job, request)
        promise(attempt.node in nodes, "nodes that failed are avoided", decision)
        labels = {label.key: label.value for label in node.report.labels}
        promise(selects(request, labels), "selectors hold", (decision, node.report))
        for taint in node.report.taints:
            promise(tolerates(request, taint), "taints are tolerated", (decision, taint))
        cards = node.cards()
        wanted = request.cards or (1 if request.card_milli else 0)
        promise(len(attempt.cards) == wanted, "a pod gets the cards it asks for", decision)
        promise(all(c < len(cards) for c in attempt.cards), "cards exist", decision)
        for card in attempt.cards:
            suits = card_suits(cards[card], request)
            promise(suits, "cards are healthy and of the kind asked for", (decision, cards[card]))
            whole, milli, memory = node.shares(card)
            if request.cards:
                promise((whole, milli) == (0, 0), "a whole card has one holder", decision)
            else:
                promise(not whole, "a card that is held whole is not shared", decision)
                promise(milli + request.card_milli <= 1000, "shares stay within a card", decision)
                memory += request.card_memory_mib
                promise(memory <= cards[card].memory_mib, "card memory suffices", decision)
        if request.cards and request.island.name == "SAME":
            islands = islands_of(cards, attempt.cards)
            promise(len(islands) == 1, "one island where it is asked for", decision)

    def _check_limits(
        self, attempt: AttemptFacts, request: r.PodRequest, decision: Decision
    ) -> None:
        """Counted with the new attempt: the node's capacity and the capabilities above the job."""
        facts = self.facts
        free = facts.nodes[attempt.node].free()
        asked = amounts_of(request)
        for name in asked:
            if name != "cards_milli":
                promise(free.get(name, -1) >= 0, f"{name} of a node suffices", (decision, free))
        for queue in facts.chain(attempt.job.queue):
            limits, used = facts.limits(queue), facts.used(queue)
            for name in asked:
                within = name not in limits or used[name] <= limits[name]
                promise(within, f"capability of {queue} in {name} holds", (decision, used, limits))

    def _watch_evict(self, job: JobFacts, decision: Decision) -> None:
        attempt = self.facts.attempt(decision.job, decision.pod, decision.attempt)
        promise(attempt is not None, "only live attempts are evicted", decision)
        assert attempt is not None
        promise(attempt.evicted_seq < 0, "an attempt is evicted once", decision)
        cards = tuple(
            c for span in decision.cards for c in range(span.first, span.first + span.count)
        )
        same = (decision.node, cards) == (attempt.node, attempt.cards)
        promise(same, "an eviction names the place of its attempt", decision)
        promise(self._has_cause(attempt, decision), "evictions have a cause", decision)
        attempt.evicted_seq = decision.cause_seq

    def _has_cause(self, attempt: AttemptFacts, decision: Decision) -> bool:
        """Whether the record gives the reason that the decision names."""
        record, facts, reason = self._record, self.facts, decision.reason
        node = facts.nodes[attempt.node]
        if reason in OF_THE_END:
            return reason.name == attempt.job.ending
        if reason is Reason.NODE_LOST:
            return isinstance(record, r.NodeLost) and attempt in self._given_up
        if reason is Reason.NODE_REBOOTED:
            return isinstance(record, r.NodeChanged | r.NodeReturned) and attempt in self._freed
        if reason is Reason.NODE_DRAINED:
            return isinstance(record, r.NodeDrained) and record.node == attempt.node
        if reason is Reason.SCALED_DOWN:
            return isinstance(record, r.JobUpdateRequested) and attempt in self._given_up
        if reason is Reason.CARD_FAILED:
            health = [card.health for card in node.cards()]
            if not isinstance(record, r.NodeChanged | r.NodeReturned):
                return False
            bad = [c for c in attempt.cards if health[c : c + 1] == [CardHealth.FAILED]]
            return record.report.node == attempt.node and bool(bad)
        if reason is Reason.START_TIMEOUT:
            limit = facts.setting("start_timeout_ns", 600 * 10**9)
            attempt.job.avoid[attempt.node] = True
            is_late = facts.clock_ns - attempt.allocated_ns >= limit
            return isinstance(record, r.Tick) and not attempt.has_started and is_late
        return False

    def _watch_finish(self, job: JobFacts, decision: Decision) -> None:
        job.outcome = decision.reason.name
        job.ended_ns = self.now_ns

    # ---- after the decisions --------------------------------------------------------------------

    def _settle(self) -> None:
        """Free what the record ended, then see that every job that is over has finished."""
        for attempt in self._given_up:
            if not attempt.is_ghost:
                promise(attempt.evicted_seq >= 0, "given-up attempts are told to end", attempt.name)
                attempt.is_ghost = True
                del attempt.job.live[attempt.pod]
        for attempt in self._freed:
            self._end(attempt)
        for job in self._in_order_of_dependence():
            if any(o.outcome not in ("", "ALL_PODS_SUCCEEDED") for o in job.waits_for):
                job.ending = job.ending or "DEPENDENCY_FAILED"
            job.waits_for = [other for other in job.waits_for if not other.outcome]
            over = job.is_over()
            promise(over == bool(job.outcome), "a job finishes when it is over", (job.key, job))
            if not over:
                self._check_unfinished(job)
            elif not job.ending:
                promise(job.outcome == "ALL_PODS_SUCCEEDED", "success is said so", job.key)
            else:
                promise(job.outcome == job.ending, "an end has its reason", (job.key, job.ending))
                job.is_unplaced = False
            job.is_unplaced = job.is_unplaced and not over

    def _check_unfinished(self, job: JobFacts) -> None:
        if job.ending:
            told = all(a.evicted_seq >= 0 for a in job.live.values())
            promise(told, "attempts of an ending job are told to end", job.key)
            job.is_unplaced = False
        elif job.is_admitted and not job.live:
            job.is_unplaced = True  # it waits for its minimum, as at first

    def _in_order_of_dependence(self) -> list[JobFacts]:
        """Unsettled jobs, oldest first: a job depends on older ones only."""
        return sorted(self.facts.jobs.values(), key=lambda job: job.seq)


_WATCHERS = {
    K.ADMIT: Auditor._watch_admit,
    K.ALLOCATE: Auditor._watch_placed,
    K.BACKFILL: Auditor._watch_placed,
    K.EVICT: Auditor._watch_evict,
    K.FINISH: Auditor._watch_finish,
}

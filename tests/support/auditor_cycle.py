"""What the auditor holds a cycle to: admission, order, gangs, no idle room beside one who waits.

Room is counted by brute force, each node on its own, which is exact for equal pods. For a job that
needs pods of several roles at once it is not, so there only the cases are held against the kernel
that a single pod would settle.
"""

from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind
from support.auditor_facts import CellFacts, JobFacts, add, amounts_of, is_zero
from support.promises import promise

SHARED = ("cards_milli", "cpu_milli", "memory_mib")
PLACED = (DecisionKind.ALLOCATE, DecisionKind.BACKFILL)


class CycleAudit:
    """One cycle, decision by decision: `before` comes before its effect, `after` after it.

    Jobs are admitted before any is placed. ADMIT is said, last, of those that still wait; who is
    placed at once was admitted just the same. So the gate is judged first, by all that the cycle
    admitted.
    """

    def __init__(self, facts: CellFacts, decisions: list[Decision]) -> None:
        self.facts = facts
        self.started = 0
        self.by_job: dict[str, JobFacts] = {}
        named = [d.job for d in decisions if d.kind in (DecisionKind.ADMIT, *PLACED)]
        known = [facts.jobs[key] for key in dict.fromkeys(named) if key in facts.jobs]
        self.admitted = [job for job in known if not job.is_admitted]
        self.unsaid = {job.key: True for job in self.admitted}
        self.fresh = [
            job
            for job in facts.jobs.values()
            if facts.may_start(job) and not job.has_begun() and not job.avoid
        ]
        self._judge_gate()

    def before(self, decision: Decision) -> None:
        """A decision that is about to take effect."""
        job = self.facts.jobs.get(decision.job)
        if decision.kind is DecisionKind.ADMIT:
            promise(decision.job in self.unsaid, "a job is admitted once", decision)
            del self.unsaid[decision.job]
        elif decision.kind is DecisionKind.ALLOCATE and job and not (job.has_begun() or job.avoid):
            rivals = [o for o in self.fresh if o.is_admitted and not o.has_begun()]
            self._check_order(job, rivals)

    def after(self, decision: Decision) -> None:
        """The decision took effect."""
        if decision.kind in PLACED:
            self.started += 1
        if decision.kind is DecisionKind.ALLOCATE:
            self.by_job[decision.job] = self.facts.jobs[decision.job]

    def close(self, decision: Decision) -> None:
        """The cycle is over."""
        facts = self.facts
        unsaid = [key for key in self.unsaid if facts.jobs[key].is_unplaced]
        promise(not unsaid, "admission of who still waits is said", unsaid)
        promise(decision.started_count == self.started, "a cycle counts what it started", decision)
        waiting = sum(1 for job in facts.jobs.values() if _waits(job))
        promise(decision.waiting_count == waiting, "a cycle counts who waits", (waiting, decision))
        for job in self.by_job.values():
            needs, short = job.missing(leaving_counts=True)
            promise(not short and not any(needs), "a gang starts whole", (job.key, needs, short))
        for job in facts.jobs.values():
            if job.is_admitted and facts.may_start(job):
                if "allocate" in facts.actions():
                    self._check_no_room(job)
                if "backfill" in facts.actions():
                    self._check_no_place(job)

    # ---- admission and order --------------------------------------------------------------------

    def _judge_gate(self) -> None:
        """Whom the cycle admitted keeps the limits; whom it did not would break one."""
        facts = self.facts
        asks = "enqueue" in facts.actions()
        for job in self.admitted:
            promise(facts.may_start(job), "who may not start is not admitted", job.key)
            job.is_admitted = job.is_unplaced = True
        left = [o for o in facts.jobs.values() if not o.is_admitted and facts.may_start(o)]
        if not facts.actions():
            promise(not self.admitted, "without actions nobody is admitted", self.admitted)
            return
        for job in self.admitted:
            why = self._broken_capability(job, {}) if asks else ""
            promise(not (asks and facts.never_fits(job)), "who can never fit waits", job.key)
            promise(not why, "admission keeps the limits", (job.key, why))
            self._check_order(job, left)
        # demand only grew, so of all that were admitted at least the last still keeps the limit
        broken = [self._broken_overcommit(job, {}) for job in self.admitted] if asks else []
        promise(not broken or "" in broken, "admission keeps overcommit", broken)
        for job in left:
            why = self._broken_capability(job, job.minimum()) if asks else ""
            why = why or (self._broken_overcommit(job, job.minimum()) if asks else "")
            why = why or ("cards of all nodes" if asks and facts.never_fits(job) else "")
            promise(bool(why), "who fits the limits is admitted", job.key)

    def _broken_overcommit(self, job: JobFacts, more: dict[str, int]) -> str:
        """How a job, with `more` demand, passes both the factor of capacity and what is idle."""
        facts = self.facts
        rule = facts.rule("overcommit")
        if rule is None:
            return ""
        factor = int(rule.get("factor_milli", "1200"))
        total, used, busy = facts.capacity(), facts.used(""), _busy(facts, "")
        idle = {name: count - used.get(name, 0) for name, count in total.items()}
        ahead: dict[str, int] = {}
        for one in facts.jobs.values():
            waits = one.is_unplaced and facts.may_start(one)
            if waits and _within(one.minimum(), idle) and facts.has_room(one):
                add(ahead, one.minimum(), 1)
        over = []
        is_idle = rule.get("into_idle", "1") == "1"
        for name, asked in job.minimum().items():
            if name != "pods":
                limit = total.get(name, 0)
                count = busy.get(name, 0) + more.get(name, 0)
                if asked > limit or count > limit * factor // 1000:
                    over.append(f"{name}: {count} > {limit} * {factor} / 1000")
                asks = more if name in SHARED else job.minimum()  # of others only its own demand
                taken = ahead.get(name, 0) if name in SHARED else 0
                if taken + asks.get(name, 0) > idle.get(name, 0):
                    is_idle = False
        return "" if is_idle or not over else str(over)

    def _broken_capability(self, job: JobFacts, more: dict[str, int]) -> str:
        """A capability that demand for what a job asks passes, with `more` added; empty: none."""
        facts, resources = self.facts, job.minimum()
        if facts.rule("capability") is not None:
            for queue in facts.chain(job.queue):
                busy = _busy(facts, queue)
                for name, limit in facts.limits(queue).items():
                    count = busy.get(name, 0) + more.get(name, 0)
                    if name in resources and count > limit:
                        return f"{name} by capability of {queue}: {count} > {limit}"
        return ""

    def _check_order(self, job: JobFacts, rivals: list[JobFacts]) -> None:
        for other in rivals:
            alike = (other.queue, other.roles, other.least()) == (job.queue, job.roles, job.least())
            if other is not job and alike:
                in_turn = self._key(job) < self._key(other)
                promise(in_turn, "look-alikes of a queue go in order", (job.key, other.key))

    def _key(self, job: JobFacts) -> tuple[int, int]:
        by_priority = self.facts.rule("priority") is not None
        return (-job.priority if by_priority else 0, job.seq)

    # ---- room -----------------------------------------------------------------------------------

    def _check_no_room(self, job: JobFacts) -> None:
        """No pods that would be enough for the job fit beside those that run.

        What is being released is missed, but only what can be placed now is asked for.
        """
        facts = self.facts
        roles = [i for i, s in enumerate(job.roles) if not is_zero(s.request) and job.pending(i)]
        lacking, short = job.missing(leaving_counts=False)
        pending = [len(job.pending(i)) if i in roles else 0 for i in range(len(job.roles))]
        needs = [min(need, most) for need, most in zip(lacking, pending, strict=True)]
        wanted = max(1, min(sum(needs) + short, sum(pending)))
        if len(roles) > 1 < wanted:
            return
        for role in roles:
            if sum(needs) and not needs[role]:
                continue
            request = job.roles[role].request
            room = min(facts.room(job, request), facts.room_of_queue(job, request))
            what = "no room stays idle beside a job that fits"
            promise(room < wanted, what, (job.key, job.roles[role].name, room, wanted))

    def _check_no_place(self, job: JobFacts) -> None:
        """No pod without needs waits beside a node with a free pod slot."""
        for role, spec in enumerate(job.roles):
            if is_zero(spec.request) and job.pending(role):
                room = min(
                    self.facts.room(job, spec.request),
                    self.facts.room_of_queue(job, spec.request),
                )
                what = "no pod slot stays idle beside a zero-request pod"
                promise(room == 0, what, (job.key, amounts_of(spec.request), room))


def _waits(job: JobFacts) -> bool:
    """Whether the job is pending or admitted and not placed."""
    return not job.outcome and not job.ending and (not job.is_admitted or job.is_unplaced)


def _busy(facts: CellFacts, queue: str) -> dict[str, int]:
    """Demand that is used or admitted, of a queue's subtree; of the cell where it is empty."""
    total = facts.used(queue)
    add(total, facts.admitted(queue), 1)
    return total


def _within(asked: dict[str, int], idle: dict[str, int]) -> bool:
    """Whether cards, cpu and memory that are asked for are idle."""
    return all(asked.get(name, 0) <= idle.get(name, 0) for name in SHARED)

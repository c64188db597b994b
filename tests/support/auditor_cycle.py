"""What the auditor holds a whole cycle to: admission, order, gangs, and no idle room beside one who waits.

Room is counted by brute force, each node on its own, which is exact for equal pods. For a job that needs
pods of several roles at once it is not, so there only the cases are held against the kernel that a
single pod would settle.
"""

from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind
from support.auditor_facts import CellFacts, JobFacts, amounts_of, is_zero
from support.promises import promise


class CycleAudit:
    """One cycle, decision by decision. `before` comes before its effect, `placed` after."""

    def __init__(self, facts: CellFacts) -> None:
        self.facts = facts
        self.started = 0
        self.by_job: dict[str, JobFacts] = {}
        self.gate_is_open = facts.actions()[:1] == ("enqueue",)
        self.fresh = [
            job
            for job in facts.jobs.values()
            if facts.may_start(job) and not job.has_begun() and not job.avoid
        ]

    def before(self, decision: Decision) -> None:
        """An ADMIT or a placement that is about to be made."""
        job = self.facts.jobs.get(decision.job)
        promise(job is not None, "decisions are about accepted jobs", decision)
        assert job is not None
        if decision.kind is DecisionKind.ADMIT:
            if "enqueue" in self.facts.actions():
                why = self._gate(job)
                promise(not why, "admission keeps the limits", (decision, why))
            rivals = [other for other in self.fresh if not other.is_admitted]
            self._check_order(job, rivals, decision)
        else:
            self._close_gate()
            if decision.kind is DecisionKind.ALLOCATE and not job.has_begun() and not job.avoid:
                rivals = [o for o in self.fresh if o.is_admitted and not o.has_begun()]
                self._check_order(job, rivals, decision)

    def placed(self, decision: Decision) -> None:
        """A placement that was made."""
        self.started += 1
        if decision.kind is DecisionKind.ALLOCATE:
            self.by_job[decision.job] = self.facts.jobs[decision.job]

    def close(self, decision: Decision) -> None:
        """The cycle is over."""
        facts = self.facts
        self._close_gate()
        promise(decision.started_count == self.started, "a cycle counts what it started", decision)
        waiting = sum(1 for job in facts.jobs.values() if _waits(job))
        promise(decision.waiting_count == waiting, "a cycle counts who waits", (waiting, decision))
        for job in self.by_job.values():
            needs, short = job.missing()
            promise(not short and not any(needs), "a gang starts whole", (job.key, needs, short))
        for job in facts.jobs.values():
            if job.is_admitted and facts.may_start(job):
                if "allocate" in facts.actions():
                    self._check_no_room(job)
                if "backfill" in facts.actions():
                    self._check_no_place(job)

    # ---- admission and order --------------------------------------------------------------------

    def _gate(self, job: JobFacts) -> str:
        """Which limit keeps a job from being admitted now; empty: none."""
        facts, asked = self.facts, job.minimum()
        overcommit = facts.rule("overcommit")
        if overcommit is not None:
            factor = int(overcommit.get("factor_milli", "1200"))
            total, used, admitted = facts.capacity(), facts.used(""), facts.admitted("")
            for name, amount in asked.items():
                busy = used.get(name, 0) + admitted.get(name, 0)
                limit = total.get(name, 0) * factor // 1000
                if name != "pods" and busy and busy + amount > limit:
                    return f"overcommit of {name}: {busy} + {amount} > {limit}"
        if facts.rule("capability") is not None:
            for queue in facts.chain(job.queue):
                used, admitted = facts.used(queue), facts.admitted(queue)
                for name, limit in facts.limits(queue).items():
                    busy = used.get(name, 0) + admitted.get(name, 0)
                    if name in asked and busy + asked[name] > limit:
                        return f"capability of {queue} in {name}: {busy} + {asked[name]} > {limit}"
        return ""

    def _close_gate(self) -> None:
        """All have been asked: who was not admitted must be kept out by a limit."""
        if self.gate_is_open:
            self.gate_is_open = False
            for job in self.facts.jobs.values():
                if not job.is_admitted and self.facts.may_start(job):
                    promise(bool(self._gate(job)), "who fits the limits is admitted", job.key)

    def _check_order(self, job: JobFacts, rivals: list[JobFacts], decision: Decision) -> None:
        for other in rivals:
            alike = (other.queue, other.roles, other.least()) == (job.queue, job.roles, job.least())
            if other is not job and alike:
                in_turn = self._key(job) < self._key(other)
                promise(in_turn, "look-alikes of a queue go in order", (decision, other.key))

    def _key(self, job: JobFacts) -> tuple[int, int]:
        by_priority = self.facts.rule("priority") is not None
        return (-job.priority if by_priority else 0, job.seq)

    # ---- room -----------------------------------------------------------------------------------

    def _check_no_room(self, job: JobFacts) -> None:
        """No pods that would be enough for the job fit beside those that run."""
        facts = self.facts
        roles = [i for i, s in enumerate(job.roles) if not is_zero(s.request) and job.pending(i)]
        needs, short = job.missing()
        if len(roles) == 1:
            role = roles[0]
            if sum(needs) != needs[role] or needs[role] + short > len(job.pending(role)):
                return  # waits for attempts that are being released
            wanted = max(1, needs[role] + short)
        elif sum(needs) + short <= 1:
            wanted = 1
        else:
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
    return not job.outcome and not job.ending and (not job.is_admitted or job.claims)

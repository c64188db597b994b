"""Random cells in which jobs take from each other, and a watch that knows what must hold of it.

A history is drawn from a seed: nodes with islands, queues, gangs, roles, shares of cards, budgets,
protections, notices; then submissions, ends, mishaps, and executors that take their time.
"""

from collections.abc import Callable, Iterable
from random import Random

from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, Phase, Tri
from ganger.schemas.reasons import Reason
from ganger.streams.kernel import snapshot
from ganger.streams.kernel.entities import Job, Pod
from ganger.streams.kernel.jobs.gangs import is_leaving
from ganger.streams.kernel.jobs.lines import line_up, step_out
from ganger.streams.kernel.jobs.progress import may_evict
from ganger.streams.kernel.nodes.placement import place_job
from ganger.streams.kernel.nodes.statement import Statement
from ganger.streams.kernel.preemption import claims_book
from ganger.streams.kernel.queues import quota
from ganger.streams.kernel.state import State
from support.builders import SECOND, Cell, node, policy, queue, role, submission

K = DecisionKind
TAKING = ("enqueue", "allocate", "backfill", "reclaim", "preempt", "stale")
OWN = ("priority", "gang", "conformance", "cooldown", "min_runtime", "pdb")
SHARES = (
    ("fair_share", "capability", "overcommit"),
    ("proportion",),
    ("capacity",),
    ("fair_quota",),
)
MISHAPS = (
    Reason.NODE_UNREACHABLE,
    Reason.NODE_CORDONED,
    Reason.CARD_FAILED,
    Reason.CLAIM_EXPIRED,
    Reason.CANCEL_REQUESTED,
    Reason.SCALED_DOWN,
    Reason.BACKING_OFF,
)
"""Why a claim may be given up."""

Identity = tuple[str, int, int]


class Hunting:
    """One history. `faults`: whether nodes and attempts fail, and jobs are cancelled.

    Attributes:
        cell: the cell.
        evicted: attempts that were told to leave for others.
        faults: broken rules, in words; empty if all is well.
    """

    def __init__(self, seed: int, *, faults: bool = True, search: str = "") -> None:
        self.chance = Random(seed)
        self.search = search or self.chance.choice(("cell", "cell", "node"))
        self.has_faults = faults
        self.cell = Cell(checks=False)
        self.evicted = 0
        self.broken: list[str] = []
        self.going: list[Identity] = []  # told to end and not gone
        self.claims: dict[str, set[tuple[str, int]]] = {}
        self.seen: dict[tuple[object, ...], int] = {}  # placements after evictions since progress
        self.lost: list[str] = []
        self.number = 0
        self._start()

    # ---- what is drawn ---------------------------------------------------------------------------

    def _start(self) -> None:
        chance = self.chance
        settings = {"claim_ns": chance.choice(("20s", "300s")), "stale_ns": "40s"}
        if chance.random() < 0.3:
            settings["grace_ns"] = "4s"
        settings["min_runtime_ns"] = chance.choice(("0", "0", "6s"))
        if self.search == "node" and chance.random() < 0.5:
            settings |= {"votes": "tiers", "vetoes": "tiers"}
        rules = (*OWN, *chance.choice(SHARES), chance.choice(("pack", "spread")))
        made = policy(*rules, actions=TAKING, searches=self.search, settings=settings)
        queues = [
            replace(
                queue(name, weight=chance.choice((1, 1, 2, 3))),
                reclaimable=chance.random() < 0.85,
                deserved=(r.Amount("cards_milli", 1000 * chance.randint(1, 6)),)
                if chance.random() < 0.7
                else (),
            )
            for name in "abc"[: chance.randint(1, 3)]
        ]
        self.queues = [one.queue for one in queues]
        self.nodes = [f"n{place}" for place in range(chance.randint(1, 4))]
        reports = [
            node(
                name,
                chance.choice((2, 4, 4, 8)),
                island=chance.choice((0, 0, 2)),
                cpu=chance.choice((4_000, 64_000)),
                labels=(("zone", chance.choice(("x", "y"))),),
            )
            for name in self.nodes
        ]
        self.cell.start(*queues, *reports, rules=made)

    def _role(self, name: str) -> r.Role:
        chance = self.chance
        replicas = chance.choice((1, 1, 2, 3))
        asks: dict[str, object] = {"cards": chance.choice((1, 1, 2, 2, 3, 4))}
        kind = chance.random()
        if kind < 0.12:
            asks = {"milli": chance.choice((300, 500, 700))}
        elif kind < 0.2:
            asks = {"cards": 2, "same_island": True}
        elif kind < 0.25:
            asks = {"cpu": 3_000}
        if chance.random() < 0.2:
            asks["cpu"] = 1_500
        made = role(name, replicas, chance.randint(0, replicas), **asks)
        return replace(
            made,
            priority=chance.choice((0, 0, 2)),
            preemptable=Tri.NO if chance.random() < 0.06 else Tri.UNKNOWN,
            preempts=Tri.NO if chance.random() < 0.04 else Tri.UNKNOWN,
        )

    def _submit(self) -> None:
        chance = self.chance
        roles = [self._role(name) for name in ("one", "two")[: 1 + (chance.random() < 0.25)]]
        pods = sum(one.replicas for one in roles)
        made = submission(
            f"j{self.number}",
            *roles,
            queue=chance.choice(self.queues),
            priority=chance.choice((0, 0, 1, 2, 5)),
            minimum=chance.choice((0, 0, 0, pods)),
            retries=chance.choice((0, 3)),
            time_ns=self.cell.now_ns,
        )
        self.number += 1
        facts: dict[str, object] = {}
        if chance.random() < 0.15:
            facts["budget"] = r.Budget(min_available_count=chance.randint(1, 2))
        if chance.random() < 0.15:
            facts["protected_ns"] = chance.randint(1, 9) * SECOND
        if chance.random() < 0.15:
            facts["notice_ns"] = chance.randint(1, 5) * SECOND
        if chance.random() < 0.15:
            facts["grace_ns"] = chance.randint(0, 5) * SECOND
        if chance.random() < 0.05:
            facts["preemptable"] = Tri.NO
        self._carry_out(self.cell.put(replace(made, **facts)))

    # ---- what happens ----------------------------------------------------------------------------

    def run(self, steps: int) -> "Hunting":
        """So many events, then rest, in which all that was said is done."""
        for _ in range(steps):
            self.event()
            if self.broken:
                return self
        for _ in range(4 * self.number + 40):
            self._release(len(self.going))
            said = self.tick(1)
            if self.broken:
                return self
            if not said and not self.going and not self.cell.state.claims:
                break
        else:
            self.broken.append("evictions and claims do not come to rest")
        return self

    def event(self) -> None:
        """One of those that are drawn."""
        chance = self.chance
        happens: list[tuple[float, Callable[[], object]]] = [
            (0.32, self._submit),
            (0.70, lambda: self.tick(chance.choice((0, 1, 1, 2, 5)))),
            (0.85, lambda: self._release(chance.randint(1, 3))),
            (0.93, self._succeed),
        ]
        if self.has_faults:
            happens += [(0.95, self._fail), (0.965, self._cancel), (1.0, self._mishap)]
        roll = chance.random() * happens[-1][0]
        next(action for bound, action in happens if roll <= bound)()

    def _live(self, *phases: Phase) -> list[tuple[Job, Pod]]:
        return [
            (job, pod)
            for job in self.cell.state.jobs.values()
            for _, pod in sorted((job.pods or {}).items())
            if pod.phase in phases
        ]

    def _some(self, *phases: Phase) -> Identity | None:
        live = self._live(*phases)
        if not live:
            return None
        job, pod = self.chance.choice(live)
        return job.request.job, pod.index, pod.attempt

    def _release(self, count: int) -> None:
        for _ in range(min(count, len(self.going))):
            who = self.going.pop(self.chance.randrange(len(self.going)))
            self._carry_out(self.cell.released(*who))

    def _succeed(self) -> None:
        who = self._some(Phase.RUNNING)
        if who is not None:
            self._carry_out(self.cell.succeeded(*who))
            self.seen.clear()

    def _fail(self) -> None:
        who = self._some(Phase.RUNNING)
        if who is not None:
            self._carry_out(self.cell.failed(*who))
            self.seen.clear()

    def _cancel(self) -> None:
        if self.number:
            self._carry_out(self.cell.cancel(f"j{self.chance.randrange(self.number)}"))
            self.seen.clear()

    def _mishap(self) -> None:
        cell, chance = self.cell, self.chance
        self.seen.clear()
        name = chance.choice(self.nodes)
        now = cell.now_ns
        if name in self.lost:
            self.lost.remove(name)
            report = cell.state.nodes[cell.state.node_by_name[name]].report
            back = replace(report, boot_id=f"{report.boot_id}+", handled_seq=cell.state.cause)
            self._carry_out(cell.put(r.NodeReturned(now, "", None, back)))
            self.going = [one for one in self.going if self._is_known(one)]
        elif chance.random() < 0.4:
            self.lost.append(name)
            self._carry_out(cell.put(r.NodeLost(now, "", None, name, cell.state.claim, SECOND)))
        elif chance.random() < 0.5:
            grace = chance.choice((0, 3 * SECOND))
            self._carry_out(cell.put(r.NodeDrained(now, "", None, name, "ops", grace)))
        else:
            self._carry_out(cell.put(r.NodeUncordoned(now, "", None, name, "ops")))

    def _is_known(self, who: Identity) -> bool:
        state = self.cell.state
        seq = state.job_by_key.get(who[0])
        return seq is not None and any(
            key == (seq, *who[1:]) for one in state.nodes for key in one.pods
        )

    def _carry_out(self, said: Iterable[Decision]) -> None:
        for one in said:
            if one.kind is K.EVICT:
                self.going.append((one.job, one.pod, one.attempt))
            elif one.kind in (K.ALLOCATE, K.BACKFILL) and self.chance.random() < 0.9:
                self.cell.started(one.job, one.pod, one.attempt)

    def tick(self, after_s: int) -> list[Decision]:
        """A cycle, judged; what it decided but for its end."""
        cell = self.cell
        before = snapshot.fork(cell.state)
        again = Cell(checks=False)
        again.state, again.now_ns = snapshot.fork(before), cell.now_ns
        said = cell.tick(after_s)
        if [one.body for one in again.tick(after_s)] != [one.body for one in said]:
            self.broken.append("a restored state decides otherwise")
        self._judge(said, before)
        self._carry_out(said)
        said = [one for one in said if one.kind is not K.CYCLE_CLOSED]
        return [one for one in said if one.kind is not K.ADMIT]

    # ---- what must hold --------------------------------------------------------------------------

    def _judge(self, said: list[Decision], before: State) -> None:
        stands = {before.jobs[seq].request.job: True for seq in before.claims}
        self.claims = {job: cards for job, cards in self.claims.items() if job in stands}
        for one in said:
            if one.kind is K.UNCLAIM:
                self.claims.pop(one.job, None)
                if one.reason not in MISHAPS:
                    self._break(one, f"a claim is given up: {one.reason.name}")
            elif one.kind in (K.ALLOCATE, K.BACKFILL):
                self._judge_start(one)
            elif one.kind is K.CLAIM:
                self.claims.setdefault(one.job, set()).update(cards_of(one))
        takers: dict[str, list[Decision]] = {}
        for one in said:
            if one.for_job and one.kind in (K.EVICT, K.NOTICE):
                if one.order:  # else its notice, told before, is over
                    takers.setdefault(one.for_job, []).append(one)
                    self._judge_victim(one, before)
        earlier: list[Decision] = []
        for taker, victims in takers.items():
            self._judge_taker(taker, victims, before)
            if self.search == "cell":
                self._judge_need(taker, victims, earlier)
            earlier += victims
        self.evicted += len(earlier)
        if earlier:
            self._judge_return()
        self._judge_gangs()

    def _break(self, one: Decision, what: str) -> None:
        self.broken.append(f"seq {one.cause_seq} {one.kind.name} {one.job}/{one.pod}: {what}")

    def _judge_start(self, one: Decision) -> None:
        """What is claimed goes to nobody else."""
        cards = cards_of(one)
        for job, claimed in self.claims.items():
            if job != one.job and cards & claimed and not one.card_milli:
                self._break(one, f"starts on cards that {job} claims")

    def _judge_victim(self, one: Decision, before: State) -> None:
        """Nobody is told to leave whom something protects."""
        job = before.jobs[before.job_by_key[one.job]]
        taker = before.jobs[before.job_by_key[one.for_job]]
        pod = (job.pods or {})[one.pod]
        spec = job.shape.roles[pod.index % len(job.roles)]
        clock = self.cell.state.clock_ns
        if Tri.NO in (job.request.preemptable, spec.preemptable):
            self._break(one, "may not be evicted by its own word")
        if pod.protected_until_ns > clock or (
            pod.started_ns and pod.started_ns + job.request.protected_ns > clock
        ):
            self._break(one, "is protected")
        if is_leaving(pod):
            self._break(one, "was leaving already")
        if one.rule == "preempt" and job is not taker:
            if job.queue != taker.queue:
                self._break(one, "is preempted from another queue")
            if self.search == "cell" and job.priority >= taker.priority:
                self._break(one, "is of no lower priority")
        if one.rule == "reclaim":
            levels = before.queues[job.queue].chain
            if job.queue == taker.queue or not all(q.config.reclaimable for q in levels):
                self._break(one, "may not be reclaimed")
        budget = job.request.budget
        if budget is not None:
            now = self.cell.state.jobs[job.seq]
            stay = sum(not is_leaving(each) for each in (now.pods or {}).values())
            if stay < budget.min_available_count:
                self._break(one, "is beyond its job's budget")

    def _judge_taker(self, taker: str, victims: list[Decision], before: State) -> None:
        """It had its right, has a claim, and each bundle makes room that it claims."""
        state = self.cell.state
        job = state.jobs[state.job_by_key[taker]]
        claim = state.claims.get(job.seq)
        if not may_evict(before, before.jobs[job.seq]):
            self._break(victims[0], f"{taker} had spent its right")
        if may_evict(state, job):
            self._break(victims[0], f"{taker} still has its right")
        if claim is None:
            self._break(victims[0], f"{taker} has no claim")
            return
        told = {(state.job_by_key[one.job], one.pod, one.attempt): one for one in victims}
        if set(told) != set(claim.victims):
            self._break(victims[0], f"the claim of {taker} does not name its victims")
        nodes = {state.nodes[entry.node].report.node for entry in claim.entries}
        jobs = {one.job: False for one in victims}
        for one in victims:
            jobs[one.job] |= one.node in nodes
        for name, is_used in jobs.items():
            if not (is_used or self.cell.state.policy.allocatable):  # else it gives quota
                self._break(victims[0], f"{name} leaves, and {taker} claims nothing where it was")

    def _judge_need(self, taker: str, victims: list[Decision], earlier: list[Decision]) -> None:
        """No victim could be given back: without it, or its job as a whole, there is no place.

        Asked of a copy in which those who were told in this cycle have not been.
        """
        fork = snapshot.fork(self.cell.state)
        job = fork.jobs[fork.job_by_key[taker]]
        claim = fork.claims.get(job.seq)
        if claim is None:
            return
        claims_book.take(fork, job)
        line_up(fork, job)
        step_out(fork, job)
        groups = bundles(fork, claim.victims)
        for one in self.cell.decisions:
            if one.cause_seq == self.cell.state.cause and one.kind in (K.EVICT, K.NOTICE):
                let_stay(fork, fork.job_by_key[one.job], one.pod)
        gone = dict.fromkeys(claim.victims, True)
        gone.update({(fork.job_by_key[d.job], d.pod, d.attempt): True for d in earlier})
        for seq, kept in groups:
            stay = {(seq, pod.index, pod.attempt): True for pod in kept}
            lifts, statement = Statement(fork), Statement(fork)
            for one in fork.nodes:
                for key in sorted(one.pods) if not one.is_lost else ():
                    pod = one.pods[key]
                    if (key in gone and key not in stay) or is_leaving(pod):
                        lifts.give_back(pod)
            if place_job(fork, statement, job, False) is None:
                name = fork.jobs[seq].request.job
                self._break(victims[0], f"{taker} would have started without {name} {stay}")
            statement.discard()
            lifts.discard()

    def _judge_return(self) -> None:
        """No placement, claims counted, comes again after evictions unless something got on."""
        held = [
            (job.request.job, pod.index % len(job.roles), pod.node)
            for job, pod in self._live(Phase.ALLOCATED, Phase.RUNNING)
            if not pod.notice_until_ns
        ]
        state = self.cell.state
        for claim in state.claims.values():
            job = state.jobs[claim.job]
            held += [(job.request.job, entry.role, entry.node) for entry in claim.entries]
        placement = tuple(sorted(held))
        if placement in self.seen:
            self.broken.append(f"a placement of {self.seen[placement]} comes again: {placement}")
        self.seen[placement] = self.cell.state.cause

    def _judge_gangs(self) -> None:
        """Without mishaps a gang that was never told to leave has its minimum or nothing."""
        if self.has_faults:
            return
        for job in self.cell.state.jobs.values():
            pods = (job.pods or {}).values()
            is_told = job.attempts is not None or any(is_leaving(pod) for pod in pods)
            done = sum(one.succeeded for one in job.roles)
            if pods and not is_told and len(pods) + done < job.shape.min_available:
                self.broken.append(f"{job.request.job} is below its minimum")


def bundles(state: State, victims: Iterable[tuple[int, int, int]]) -> list[tuple[int, list[Pod]]]:
    """What could be given back by itself, with its job: pods one by one where others of it stay,
    else all together.
    """
    found: dict[int, list[Pod]] = {}
    for seq, index, attempt in victims:
        pod = (state.jobs[seq].pods or {}).get(index)
        if pod is not None and pod.attempt == attempt:
            found.setdefault(seq, []).append(pod)
    made: list[tuple[int, list[Pod]]] = []
    for seq, pods in found.items():
        stays = any(not is_leaving(pod) for pod in (state.jobs[seq].pods or {}).values())
        made += [(seq, [pod]) for pod in pods] if stays else [(seq, pods)]
    return made


def let_stay(state: State, seq: int, index: int) -> None:
    """An attempt was never told to leave."""
    job = state.jobs[seq]
    pod = (job.pods or {}).get(index)
    if pod is not None and is_leaving(pod):
        quota.depart(state, state.queues[job.queue], pod.shape.charges, -1)
        pod.phase = Phase.RUNNING if pod.started_ns else Phase.ALLOCATED
        pod.notice_until_ns, pod.evict_seq = 0, -1


def cards_of(one: Decision) -> set[tuple[str, int]]:
    """Cards that a decision is about."""
    return {(one.node, span.first + place) for span in one.cards for place in range(span.count)}

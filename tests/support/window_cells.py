"""Random histories of cells with reservations by request, and a checker that knows nothing of how
the kernel keeps them.
"""

import random

from msgspec.structs import replace

from ganger.replay.windows import WindowCheck
from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, FailureKind
from ganger.streams.kernel.entities import ENDED
from ganger.streams.kernel.handlers.time import next_wake
from ganger.streams.kernel.topology import mask_of
from ganger.streams.presets.loader import load_policy
from support import builders as b

PLACES = (DecisionKind.ALLOCATE, DecisionKind.BACKFILL)
QUEUES = ("q", "p", "p.a", "p.b")
LEAVES = ("q", "p.a", "p.b")
USERS = ("u", "v", "w")
TENANTS = ("", "t", "s")


def policy_of(preset: str) -> r.PolicyConfigured:
    """A preset, or `hybrid`: `hpc-easy` with three reservations."""
    if preset != "hybrid":
        return load_policy(preset)
    easy = load_policy("hpc-easy")
    actions = [
        replace(one, arguments=tuple(_with(one.arguments, "reserve", "3")))
        if one.action == "allocate"
        else one
        for one in easy.actions
    ]
    return replace(easy, actions=tuple(actions))


def _with(arguments: tuple[r.Argument, ...], key: str, value: str) -> list[r.Argument]:
    """Arguments with one of them set."""
    return [one for one in arguments if one.key != key] + [r.Argument(key, value)]


class WindowHistory:
    """A cell, whoever runs on it, what was reserved, and chance.

    Attributes:
        faults: placements that some reservation forbids, as the checker found them.
        kept: reservations that were made: the request, and masks of cards by node.
    """

    def __init__(self, preset: str, seed: int, nodes: tuple[int, ...]) -> None:
        self.chance = random.Random(seed)
        self.cell = b.Cell(checks=True)
        self.nodes = {f"n{place}": cards for place, cards in enumerate(nodes)}
        self.ends: dict[tuple[str, int, int], int] = {}
        self.run_s: dict[str, int] = {}
        self.jobs: dict[str, r.JobSubmitRequested] = {}
        self.kept: dict[str, tuple[r.ReservationRequested, dict[str, int]]] = {}
        self.faults: list[str] = []
        self.proof = WindowCheck()
        self.placed = 0
        self.refused = 0
        self._number = 0
        queues = [b.queue(name, parent="p" if name[:2] == "p." else "") for name in QUEUES]
        named = [b.node(name, cards) for name, cards in self.nodes.items()]
        rules = replace(policy_of(preset), time_ns=b.GENESIS)
        self.cell.start(*queues, *named, rules=rules)
        self.see(self.cell.tick(0))

    # ---- what happens ---------------------------------------------------------------------------

    def step(self) -> None:
        """Something happens; then a cycle, at the moment that the kernel asks for if it comes."""
        cell, chance = self.cell, self.chance
        due = min(self.ends.values(), default=None)
        after_s = chance.choice((0, 0, 1, 2, 5))
        if due is not None and due <= cell.now_ns + after_s * b.SECOND:
            cell.now_ns = max(cell.now_ns, due)
            self._end()
        else:
            cell.now_ns += after_s * b.SECOND
            roll = chance.random()
            if roll < 0.65:
                self._submit()
            elif roll < 0.80:
                self._reserve()
            elif roll < 0.85 and self.kept:
                self._give_back()
        self.see(cell.tick(0))

    def drain(self, most_s: int = 100_000) -> list[str]:
        """Give back all reservations and let everything end; jobs that never do."""
        cell = self.cell
        for name in sorted(self.kept):
            self._put(r.ReservationRequested(cell.now_ns, "", None, name, "me", (), 0, 0, 0, True))
        end_ns = cell.now_ns + most_s * b.SECOND
        self.see(cell.tick(0))
        while cell.now_ns < end_ns and (self.ends or cell.state.waiting_count):
            wake_ns = next_wake(cell.state)
            due_ns = min(self.ends.values(), default=end_ns)
            if wake_ns is not None and wake_ns <= due_ns:
                cell.now_ns = max(cell.now_ns, wake_ns)
            else:
                cell.now_ns = max(cell.now_ns, due_ns)
                if self.ends:
                    self._end()
            self.see(cell.tick(0))
        jobs = cell.state.jobs.values()
        return [job.request.job for job in jobs if job.phase not in ENDED]

    def see(self, decisions: list[Decision]) -> None:
        """Carry decisions out, as executors would, and hold them against what is reserved."""
        cell = self.cell
        self.proof.check(cell.state, cell.records[-1], decisions)
        for decision in decisions:
            attempt = (decision.job, decision.pod, decision.attempt)
            if decision.kind in PLACES:
                self.placed += 1
                self._judge(decision)
                self.ends[attempt] = cell.now_ns + self.run_s[decision.job] * b.SECOND
                cell.started(*attempt)
            elif decision.kind is DecisionKind.EVICT and attempt in self.ends:
                self.ends[attempt] = cell.now_ns
            elif decision.kind is DecisionKind.SUSPEND and attempt in self.ends:
                cell.put(r.PodSuspended(cell.now_ns, "", None, *attempt, 0, cell.now_ns))
            elif decision.kind is DecisionKind.RESUME and attempt in self.ends:
                self.ends[attempt] = max(self.ends[attempt], cell.now_ns + b.SECOND)

    def _end(self) -> None:
        attempt = min(self.ends, key=lambda key: (self.ends[key], key))
        del self.ends[attempt]
        roll = self.chance.random()
        if roll < 0.05:
            self.cell.failed(*attempt, failure=FailureKind.ERROR)
        elif self._is_told(attempt):
            self.cell.released(*attempt)
        else:
            self.cell.succeeded(*attempt)

    def _is_told(self, attempt: tuple[str, int, int]) -> bool:
        said = [d for d in self.cell.decisions if (d.job, d.pod, d.attempt) == attempt]
        return any(d.kind is DecisionKind.EVICT for d in said)

    def _submit(self) -> None:
        chance = self.chance
        self._number += 1
        job = f"j{self._number}"
        self.run_s[job] = run_s = chance.randint(1, 20)
        says_s = chance.choice((0, run_s, run_s, run_s + 3))
        most = max(self.nodes.values())
        shape = {"cards": chance.choice((1, 1, 2, 3, most))}
        if chance.random() < 0.15:
            shape = {"milli": chance.choice((250, 500))}
        elif chance.random() < 0.1:
            shape = {"cpu": 1000}
        elif chance.random() < 0.2:
            shape["cpu"] = 8000
        cards = shape.get("cards", 0)
        room = sum(count // cards for count in self.nodes.values()) if cards else 3
        replicas = min(room, chance.choice((1, 1, 1, 2, 3)))
        least = chance.choice((1, replicas))
        made = b.submission(
            job,
            b.role("worker", replicas, least, **shape),
            queue=chance.choice(LEAVES),
            user=chance.choice(USERS),
            priority=chance.choice((0, 0, 0, 1)),
            retries=chance.choice((0, 1)),
            time_ns=self.cell.now_ns,
        )
        checkpoints = chance.random() < 0.3
        made = replace(
            made,
            tenant=chance.choice(TENANTS),
            runtime_estimate_ns=says_s * b.SECOND,
            can_checkpoint=checkpoints,
            accepts_suspend=checkpoints,
            spot=chance.random() < 0.1,
        )
        self.jobs[job] = made
        self.cell.put(made)

    def _reserve(self) -> None:
        """Ask for whole nodes, cards of nodes, or a shape; for some, for nobody, or upkeep."""
        chance, cell = self.chance, self.cell
        name = f"r{chance.randint(1, 4)}"
        start_ns = cell.now_ns + chance.choice((0, 0, 2, 5, 10, 30)) * b.SECOND
        until_ns = start_ns + chance.choice((1, 3, 8, 20)) * b.SECOND
        nodes: tuple[str, ...] = ()
        cards, shape, pods = 0, None, 0
        kind = chance.choice(("nodes", "cards", "shape"))
        if kind == "shape":
            shape = b.request(chance.choice((1, 2)), cpu=chance.choice((0, 8000)))
            pods = chance.choice((1, 2, 3))
        else:
            nodes = tuple(chance.sample(sorted(self.nodes), chance.randint(1, len(self.nodes))))
            cards = chance.randint(1, 3) if kind == "cards" else 0
        made = r.ReservationRequested(
            cell.now_ns, "", None, name, "me", nodes, cards, start_ns, until_ns, False
        )
        who = chance.choice(("queues", "users", "tenants", "nobody", "upkeep"))
        if who == "upkeep":
            made = replace(made, is_maintenance=True)
        elif who == "queues":
            made = replace(made, queues=(chance.choice(QUEUES),))
        elif who == "users":
            made = replace(made, users=(chance.choice(USERS),))
        elif who == "tenants":
            made = replace(made, tenants=("t",))
        self._put(replace(made, request=shape, pods=pods))

    def _give_back(self) -> None:
        name = self.chance.choice(sorted(self.kept))
        now_ns = self.cell.now_ns
        self._put(r.ReservationRequested(now_ns, "", None, name, "me", (), 0, 0, 0, True))

    def _put(self, record: r.ReservationRequested) -> None:
        decisions = self.cell.put(record)
        self.proof.check(self.cell.state, record, decisions)
        if any(decision.kind is DecisionKind.REJECT for decision in decisions):
            self.refused += 1
            return
        self.kept.pop(record.reservation, None)
        if record.cancelled:
            return
        cards: dict[str, int] = {}
        for decision in decisions:
            assert decision.kind is DecisionKind.RESERVE and decision.rule == record.reservation
            assert not cards.get(decision.node, 0) & mask_of(decision.cards)
            cards[decision.node] = cards.get(decision.node, 0) | mask_of(decision.cards)
        self._check_choice(record, cards)
        self.kept[record.reservation] = (record, cards)

    def _check_choice(self, record: r.ReservationRequested, cards: dict[str, int]) -> None:
        """As many cards as were asked for, and none that another keeps at the same time."""
        if record.request is not None:
            count = sum(mask.bit_count() for mask in cards.values())
            assert count == record.pods * record.request.cards
        elif record.cards:
            assert {node: mask.bit_count() for node, mask in cards.items()} == dict.fromkeys(
                record.nodes, record.cards
            )
        else:
            assert not cards
        for name, (other, masks) in self.kept.items():
            if name == record.reservation:
                continue
            if other.from_ns < record.to_ns and record.from_ns < other.to_ns:
                for node, mask in cards.items():
                    whole = not masks and node in other.nodes
                    assert not whole and not masks.get(node, 0) & mask, (name, node)

    # ---- what must not --------------------------------------------------------------------------

    def _judge(self, decision: Decision) -> None:
        """Every second of the run is asked about, for each of its cards."""
        job = self.jobs[decision.job]
        now_s = decision.time_ns // b.SECOND
        says_s = job.runtime_estimate_ns // b.SECOND or decision.estimate_ns // b.SECOND or 1000
        names = (job.queue, job.queue.split(".")[0])
        for name, (record, masks) in self.kept.items():
            if job.user in record.users or job.tenant in record.tenants:
                continue
            if any(queue in record.queues for queue in names):
                continue
            meant = masks.get(decision.node, 0) & mask_of(decision.cards)
            if not meant and not (not masks and decision.node in record.nodes):
                continue
            for second in range(now_s, now_s + says_s):
                if record.from_ns <= second * b.SECOND < record.to_ns:
                    self.faults.append(f"{decision.job} on {decision.node} meets {name}")
                    break

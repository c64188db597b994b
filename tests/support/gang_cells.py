"""Gangs on several nodes in the kernel, and the same by plainer programs."""

import random

from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind
from ganger.streams.kernel.handlers.time import next_wake
from ganger.streams.kernel.topology import mask_of
from ganger.streams.presets.loader import load_policy
from support import builders as b
from support.node_planners import Gang, Node, Part, Spot, Stay

_FAR_NS = 1 << 62

STARTS = (DecisionKind.ALLOCATE, DecisionKind.BACKFILL)


def reserving(reserve: str, **more: str) -> r.PolicyConfigured:
    """A policy that gives so many reservations; `more`: other arguments of allocate."""
    preset = load_policy("hpc-conservative")
    arguments = tuple(
        r.Argument(key, value) for key, value in (("reserve", reserve), *more.items())
    )
    actions = [r.ActionConfig("allocate", arguments)]
    if reserve != "all":
        actions.append(r.ActionConfig("backfill", (r.Argument("timed", "true"),)))
    return replace(preset, actions=tuple(actions), time_ns=b.GENESIS)


def random_nodes(chance: random.Random) -> list[Node]:
    """Two to four small nodes, some with two islands."""
    nodes = []
    for _ in range(chance.randint(2, 4)):
        cards = chance.choice((2, 4, 4, 6))
        half = (1 << cards // 2) - 1
        whole = (1 << cards) - 1
        nodes.append(Node(cards, chance.choice(((whole,), (half, whole ^ half)))))
    return nodes


def random_gangs(
    chance: random.Random, nodes: list[Node], count: int, *, odd: bool = False
) -> list[Gang]:
    """Gangs in order of submission; some fit nowhere, for lack of an island. `odd`: some ask for so
    much cpu that few of them fit on a node.
    """
    most = max(node.cards for node in nodes)
    total = sum(node.cards for node in nodes)
    now_s, made = 0, []
    for number in range(1, count + 1):
        now_s += chance.choice((0, 0, 1, 2, 4))
        run_s = chance.randint(1, 15)
        while True:
            parts = [
                Part(chance.randint(1, 3), chance.choice((1, 1, 1, 2, 3, most)))
                for _ in range(chance.choice((1, 1, 2)))
            ]
            if chance.random() < 0.2:
                parts[0] = Part(parts[0].pods, 2, True)
            if odd and chance.random() < 0.5:
                parts[0] = parts[0]._replace(cpu=chance.choice((10_000, 30_000, 60_000)))
            if sum(part.pods * part.cards for part in parts) <= total * 2 // 3:
                break
        limit_s = run_s + chance.choice((0, 0, 2, 10))
        made.append(Gang(number, now_s, run_s, limit_s, tuple(parts)))
    return made


def carry_out_gangs(
    policy: r.PolicyConfigured,
    nodes: list[Node],
    jobs: list[Gang],
    *,
    name: str = "cell",
    checks: bool = False,
) -> b.Cell:
    """A workload in the kernel, in the order of `node_planners.starts_of`: a Tick after each
    submission, after all ends of a job, and whenever the kernel wants one.
    """
    cell = b.Cell(name, checks=checks)
    reports = [
        b.node(f"n{place}", node.cards, island=node.islands[0].bit_count())
        for place, node in enumerate(nodes)
    ]
    cell.start(*reports, rules=policy)
    by_name = {str(job.number): job for job in jobs}
    todo = sorted(jobs, key=lambda job: (job.submit_s, job.number), reverse=True)
    pods: dict[int, list[tuple[int, int]]] = {}
    ends: dict[int, int] = {}

    def tick() -> None:
        seen = len(cell.decisions)
        cell.tick(0)
        for decision in cell.decisions[seen:]:
            if decision.kind in STARTS:
                job = by_name[decision.job]
                cell.started(decision.job, decision.pod, decision.attempt)
                ends[job.number] = cell.now_ns + job.run_s * b.SECOND
                pods.setdefault(job.number, []).append((decision.pod, decision.attempt))

    while todo or ends or cell.state.bookings:
        submit_ns = b.GENESIS + todo[-1].submit_s * b.SECOND if todo else _FAR_NS
        end_ns, number = min(((at_ns, one) for one, at_ns in ends.items()), default=(_FAR_NS, 0))
        wake_ns = next_wake(cell.state) if cell.state.bookings else None
        now_ns = min(submit_ns, end_ns, _FAR_NS if wake_ns is None else wake_ns)
        assert cell.now_ns <= now_ns < _FAR_NS
        cell.now_ns = now_ns
        if submit_ns == now_ns:
            cell.put(_submission(todo.pop(), now_ns))
        elif end_ns == now_ns:
            del ends[number]
            for pod, attempt in pods.pop(number):
                cell.succeeded(str(number), pod, attempt)
        tick()
    return cell


def _submission(job: Gang, now_ns: int) -> r.JobSubmitRequested:
    roles = [
        b.role(f"r{place}", part.pods, cards=part.cards, same_island=part.same_island, cpu=part.cpu)
        for place, part in enumerate(job.parts)
    ]
    made = b.submission(str(job.number), *roles, time_ns=now_ns)
    return replace(made, runtime_estimate_ns=job.limit_s * b.SECOND)


def stays(decisions: list[Decision], jobs: list[Gang]) -> dict[int, Stay]:
    """When each job started, and where, as decisions say."""
    spots: dict[int, list[Spot]] = {}
    starts: dict[int, int] = {}
    by_number = {job.number: job for job in jobs}
    for decision in decisions:
        if decision.kind in STARTS:
            number = int(decision.job)
            starts[number] = (decision.time_ns - b.GENESIS) // b.SECOND
            spot = (int(decision.role[1:]), int(decision.node[1:]), mask_of(decision.cards))
            spots.setdefault(number, []).append(spot)
    return {
        number: Stay(start_s, start_s + by_number[number].limit_s, tuple(sorted(spots[number])))
        for number, start_s in starts.items()
    }

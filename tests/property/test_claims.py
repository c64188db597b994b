"""Claims and attempts that are seen as gone: any order of them, undone, leaves no trace; and what a
claim holds is nobody else's until it is met or given up.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from ganger.schemas.enums import Phase
from ganger.streams.kernel import invariants, snapshot
from ganger.streams.kernel.entities import ClaimEntry, Pod
from ganger.streams.kernel.jobs.lines import line_up, step_out
from ganger.streams.kernel.nodes import occupancy
from ganger.streams.kernel.nodes.statement import Statement
from ganger.streams.kernel.preemption import claims_book
from ganger.streams.kernel.state import State
from support.builders import Cell, node, policy, queue, request, role
from support.decision_lines import job_of
from support.placing import place_pod
from support.world import World

SHAPES = (
    request(1, cpu=1000),
    request(2, memory=4096),
    request(milli=300, card_memory=10_000),
    request(milli=700),
    request(cpu=3000, resources=(("nic", 1),)),
)
PROFILE = settings(max_examples=40, deadline=None, derandomize=True)
TAKING = ("enqueue", "allocate", "backfill", "reclaim", "preempt")
RULES = ("priority", "gang", "fair_share", "capability", "pack")


def busy_cell() -> Cell:
    """Whole cards and shares, held by attempts of several jobs of two queues; one card failed."""
    cell = Cell().start(
        node("a", 4, cpu=16_000, resources=(("nic", 3),)),
        node("b", 8, island=4, failed=(5,), cpu=32_000),
        queue("q", capability={"cards_milli": 9_000}),
        queue("p"),
    )
    cell.submit("whole", role(replicas=2, cards=1, cpu=500))
    cell.submit("pair", role(replicas=1, cards=2, cpu=500), queue="p")
    cell.submit("part", role(replicas=3, milli=400, card_memory=20_000))
    cell.submit("other", role(replicas=1, cpu=100, resources=(("nic", 1),)), queue="p")
    cell.tick()
    cell.started("whole")
    return cell


def numbers(state: State) -> list[object]:
    """All that an operation may change, indexes and queues included."""
    of_nodes = [
        (
            n.free,
            n.free_count,
            sorted(n.shared.items()),
            n.free_cpu,
            n.free_memory,
            n.free_slots,
            sorted((place, count) for place, count in n.free_extra.items() if count),
            n.claimed,
            n.claimed_whole,
            n.bucket is not None,
            n.keys,
            n.partial,
        )
        for n in state.nodes
    ]
    of_queues = [(q.used[:], q.leaving[:], q.waiting[:]) for q in state.queues]
    return [of_nodes, of_queues, state.used[:], sorted(state.indexes.lifted)]


def pods(state: State) -> list[Pod]:
    """All live attempts, in order."""
    return [n.pods[key] for n in state.nodes for key in sorted(n.pods)]


def operate(state: State, statement: Statement, which: int) -> None:
    """Place one pod of a shape where the index says, or see one attempt as gone."""
    if which >= len(SHAPES):
        live = pods(state)
        pod = live[(which - len(SHAPES)) % len(live)]
        if (pod.job, pod.index, pod.attempt) not in state.indexes.lifted:
            statement.give_back(pod)
        return
    place_pod(state, statement, SHAPES[which])


def claim_some(cell: Cell, victims: list[int], shares: bool) -> None:
    """A job claims what some attempts hold."""
    state = cell.state
    asks = {"milli": 300} if shares else {"cards": 1}
    cell.submit("taker", role(replicas=len(victims), minimum=1, **asks), queue="p")
    cell.state.indexes.gate.wake_all()
    job = job_of(cell, "taker")
    step_out(state, job)
    live = [pod for pod in pods(state) if pod.mask]
    entries = {}
    for which in victims:
        pod = live[which % len(live)]
        mask = pod.mask & -pod.mask
        milli = 300 if shares else 0
        entries[pod.node, mask] = ClaimEntry(0, pod.node, mask, milli)
    claims_book.make(state, job, tuple(entries.values()))
    state.outbox.clear()


operations = st.lists(st.integers(0, len(SHAPES) + 7), max_size=25)
victims = st.lists(st.integers(0, 9), min_size=1, max_size=5)


@PROFILE
@given(before=operations, after=operations, claimed=victims, shares=st.booleans())
def test_discard_and_rollback_leave_no_trace(
    before: list[int], after: list[int], claimed: list[int], shares: bool
) -> None:
    cell = busy_cell()
    claim_some(cell, claimed, shares)
    state = cell.state
    invariants.check(state)
    first, first_bytes = numbers(state), snapshot.encode(state)
    statement = Statement(state)
    for which in before:
        operate(state, statement, which)
    mark, at_mark = statement.checkpoint(), numbers(state)
    for which in after:
        operate(state, statement, which)
    statement.rollback(mark)
    assert numbers(state) == at_mark
    statement.take_entries()
    assert numbers(state) == first and not statement.lifted
    assert snapshot.encode(state) == first_bytes
    invariants.check(state)


@PROFILE
@given(claimed=victims, shares=st.booleans(), leave=st.lists(st.integers(0, 20), max_size=8))
def test_numbers_are_what_a_recount_finds_whoever_leaves(
    claimed: list[int], shares: bool, leave: list[int]
) -> None:
    """Attempts that end under a claim, one by one, free just what the claim is not on."""
    cell = busy_cell()
    claim_some(cell, claimed, shares)
    for which in leave:
        live = pods(cell.state)
        if not live:
            break
        pod = live[which % len(live)]
        cell.succeeded(cell.state.jobs[pod.job].request.job, pod.index, pod.attempt)
        for one in cell.state.nodes:
            kept = numbers(cell.state)
            occupancy.recount(cell.state, one)
            assert numbers(cell.state) == kept


@PROFILE
@given(claimed=victims, shares=st.booleans())
def test_a_claim_given_up_leaves_the_cell_as_it_was(claimed: list[int], shares: bool) -> None:
    cell = busy_cell()
    claim_some(cell, claimed, shares)
    state, job = cell.state, job_of(cell, "taker")
    claims_book.take(state, job)
    line_up(state, job)
    other = busy_cell()
    asks = {"milli": 300} if shares else {"cards": 1}
    other.submit("taker", role(replicas=len(claimed), minimum=1, **asks), queue="p")
    assert numbers(state) == numbers(other.state)
    assert cell.digest == other.digest
    invariants.check(state)


# ---- whole cells --------------------------------------------------------------------------------


@st.composite
def arrivals(draw: st.DrawFn) -> list[tuple[str, int, int, int, int]]:
    """Queue, priority, pods, least pods and cards of each job."""
    jobs = []
    for _ in range(draw(st.integers(2, 9))):
        count = draw(st.integers(1, 3))
        least = draw(st.integers(0, count))
        cards = draw(st.integers(1, 2))
        jobs.append((draw(st.sampled_from("ab")), draw(st.integers(0, 2)), count, least, cards))
    return jobs


@settings(max_examples=40, deadline=None, derandomize=True)
@given(jobs=arrivals(), search=st.sampled_from(("cell", "node")))
def test_evictions_end_and_each_is_followed_by_a_start(
    jobs: list[tuple[str, int, int, int, int]], search: str
) -> None:
    rules = policy(*RULES, actions=TAKING, searches=search)
    cell = Cell().start(node("x", 4), node("y", 2), queue("a"), queue("b"), rules=rules)
    world = World(cell)
    for number, (name, priority, count, least, cards) in enumerate(jobs):
        job = f"j{number}"
        made = role(replicas=count, minimum=least, cards=cards)
        cell.submit(job, made, queue=name, priority=priority)
        world.rest(2 * len(jobs) + 3)
        assert not world.claims and not cell.state.claims
        for one in cell.state.jobs.values():
            live = [pod for pod in (one.pods or {}).values() if pod.phase is not Phase.RELEASING]
            if live:
                need = one.shape.min_available
                assert len(live) >= need, one.request.job

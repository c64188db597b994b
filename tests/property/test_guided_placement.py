"""Placement where rules look at nodes: what it holds is sound, what it refuses leaves no trace, and
rules that say nothing change nothing.
"""

from collections import Counter
from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.enums import DecisionKind, SelectorOperator
from ganger.streams.kernel import invariants, snapshot
from ganger.streams.kernel.nodes.domains import around, common
from ganger.streams.kernel.nodes.placement import place_job
from ganger.streams.kernel.nodes.statement import Statement
from ganger.streams.kernel.nodes.trial import domains_of
from ganger.streams.kernel.state import State
from support.builders import Cell, policy, queue, role
from support.placing import job_of, near, node_at, wish

SILENT = ("shard", {"mode": "soft", "nodes": "nowhere"})
RULES = (
    (),
    (SILENT,),
    ("binpack", "network_topology"),
    ("nodeorder", "task_topology"),
    (("shard", {"mode": "hard", "nodes": "n0,n1,n3,n4"}), "spread"),
)

cards = st.integers(1, 4)
sizes = st.integers(1, 4)


@st.composite
def roles(draw: st.DrawFn, names: Iterable[str] = ("a", "b")) -> list[r.Role]:
    """One or two roles, perhaps with wishes about themselves or each other."""
    made = []
    for name in names:
        if made and draw(st.booleans()):
            break
        replicas = draw(sizes)
        minimum = draw(st.integers(0, replicas))
        if draw(st.integers(0, 3)) == 0:
            one = role(name, replicas, minimum, milli=400, card_memory=100)
        else:
            one = role(
                name, replicas, minimum, cards=draw(cards), cpu=draw(st.sampled_from((0, 900)))
            )
        made.append(one)
    return made


@st.composite
def guided(draw: st.DrawFn, name: str = "j") -> r.JobSubmitRequested:
    """A job with topology, a group or wishes, or none of it."""
    made = draw(roles())
    known = [one.name for one in made]
    spread = []
    for one in made:
        wishes = draw(
            st.lists(
                st.builds(
                    lambda who, anti, must, tier: wish(
                        roles=[who], anti=anti, required=must, tier=tier
                    ),
                    st.sampled_from(known),
                    st.booleans(),
                    st.booleans(),
                    st.integers(0, 2),
                ),
                max_size=1,
            )
        )
        spread.append(replace(one, affinities=tuple(wishes)))
    groups = []
    if draw(st.booleans()):
        spread[0] = replace(spread[0], group="g")
        tier = draw(st.integers(0, 2))
        groups = [r.PodGroup("g", "", draw(st.integers(0, spread[0].replicas)), r.Topology(tier))]
    total = sum(one.replicas for one in spread)
    return near(
        name,
        *spread,
        groups=groups,
        required=draw(st.integers(0, 3)),
        preferred=draw(st.integers(0, 2)),
        minimum=draw(st.integers(0, total)),
        queue=draw(st.sampled_from("pq")),
    )


def cell_with(
    rules: tuple[object, ...], before: list[list[r.Role]], *, checks: bool = False
) -> Cell:
    """Two spines of two racks of two nodes of four cards, some of them in use."""
    cell = Cell(checks=checks).start(
        queue("p", capability={"cards_milli": 12_000}),
        queue("q"),
        *[
            node_at(
                f"n{i}", f"s{i // 4}/r{i // 2}", 4, island=2, cpu=4000, labels=[("host", f"n{i}")]
            )
            for i in range(8)
        ],
        rules=policy("priority", "gang", *rules),  # type: ignore[arg-type]
    )
    cell.put(*[near(f"old{i}", *made, queue="q") for i, made in enumerate(before)])
    cell.tick()
    return cell


def sound(state: State, statement: Statement) -> None:
    """No card is held twice, nothing is below zero."""
    for one in state.nodes:
        held = [pod.mask for pod in one.pods.values() if not pod.card_milli]
        held += [
            mask
            for _, _, node, _, masks, is_shared, _ in statement.operations
            if node is one and not is_shared
            for mask in masks
        ]
        together = 0
        for mask in held:
            assert not mask & together, one.report.node
            together |= mask
        shared = 0
        for card in one.shared:
            shared |= 1 << card
        assert not together & (one.free | shared)
        assert one.free & ~one.healthy == 0
        assert min(one.free_cpu, one.free_memory, one.free_slots) >= 0
        assert all(0 <= milli <= 1000 for milli, _ in one.shared.values())


def keeps_promises(job: r.JobSubmitRequested, statement: Statement) -> None:
    """Minimums, required tiers and required wishes hold for what is placed of a new job."""
    where = [
        (place, node.report)
        for place, _, node, _, masks, _, _ in statement.operations
        for _ in masks
    ]
    counts = Counter(place for place, _ in where)
    for place, one in enumerate(job.roles):
        assert counts[place] >= one.min_available
    assert len(where) >= max(1, job.min_available)
    members = {"": range(len(job.roles)), "g": [p for p, one in enumerate(job.roles) if one.group]}
    wishes = [("", job.topology), *[(group.name, group.topology) for group in job.groups]]
    for name, topology in wishes:
        if topology is not None and topology.required_tier:
            paths = {
                around(report.topology, topology.required_tier)
                for place, report in where
                if place in members[name]
            }
            assert len(paths) <= 1, (name, paths)
    for group in job.groups:
        assert sum(counts[place] for place in members["g"]) >= group.min_available
    for index, (place, report) in enumerate(where):
        for asked in job.roles[place].affinities:
            if asked.is_required and asked.is_anti:
                others = where[:index] + where[index + 1 :]
                assert not any(
                    job.roles[other].name in asked.roles and _beside(asked.tier, report, there)
                    for other, there in others
                )


def _beside(tier: int, one: r.NodeReport, other: r.NodeReport) -> bool:
    if tier == 0:
        return one.node == other.node
    return around(one.topology, tier) == around(other.topology, tier)


def facts(state: State) -> list[object]:
    return [
        (
            one.free,
            sorted(one.shared.items()),
            one.free_cpu,
            one.free_memory,
            one.free_slots,
            one.keys,
            one.partial,
        )
        for one in state.nodes
    ]


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    rules=st.sampled_from(RULES),
    before=st.lists(roles(), max_size=3),
    job=guided(),
    surplus=st.booleans(),
)
def test_what_is_placed_is_sound_and_can_be_undone(
    rules: tuple[object, ...], before: list[list[r.Role]], job: r.JobSubmitRequested, surplus: bool
) -> None:
    cell = cell_with(rules, before)
    state = cell.state
    # submitted to be placed here, and by no cycle
    cell.put(replace(job, held=True))
    if job.job not in state.job_by_key:
        return
    held, kept = facts(state), snapshot.encode(state)
    statement = Statement(state)
    refusal = place_job(state, statement, job_of(cell, "j"), surplus)
    if refusal is None:
        assert statement.operations
        sound(state, statement)
        keeps_promises(job, statement)
        statement.discard()
    else:
        assert not statement.operations
    assert state.indexes.placing == []
    assert facts(state) == held
    assert snapshot.encode(state) == kept
    invariants.check(state)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(before=st.lists(roles(), max_size=6), spreads=st.booleans(), cycles=st.integers(1, 2))
def test_rules_that_say_nothing_change_nothing(
    before: list[list[r.Role]], spreads: bool, cycles: int
) -> None:
    last = ("spread",) if spreads else ("pack",)
    made = []
    for rules in (last, (SILENT, *last)):
        cell = cell_with(rules, before)
        for _ in range(cycles):
            cell.tick()
        assert cell.state.policy.is_plain is (rules is last)
        made.append(
            sorted(
                (d.job, d.pod, d.node, d.cards)
                for d in cell.decisions
                if d.kind is DecisionKind.ALLOCATE
            )
        )
    assert made[0] == made[1]


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    rules=st.sampled_from(RULES),
    jobs=st.lists(guided(), min_size=1, max_size=5),
    ends=st.lists(st.integers(0, 4), max_size=4),
)
def test_cycles_with_all_kinds_of_jobs_keep_the_cell_in_order(
    rules: tuple[object, ...], jobs: list[r.JobSubmitRequested], ends: list[int]
) -> None:
    """The cell checks its invariants after each record; what a cycle remembers of failures is no
    fact, so a cell that was made anew from a snapshot goes on in the same way.
    """
    cell = cell_with(rules, [], checks=True)
    cell.put(*[replace(job, job=f"j{i}") for i, job in enumerate(jobs)])
    cell.tick()
    for end in ends:
        cell.cancel(f"j{end}")
        seq = cell.state.job_by_key.get(f"j{end}")
        for pod in list((cell.state.jobs[seq].pods or {}).values()) if seq is not None else ():
            cell.released(f"j{end}", pod.index, pod.attempt)
        twin = snapshot.decode(snapshot.encode(cell.state))
        other = Cell()
        other.state, other.now_ns = twin, cell.now_ns
        assert other.tick() == cell.tick()


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    taken=st.lists(st.integers(0, 4), min_size=8, max_size=8),
    size=cards,
    pods=st.integers(1, 6),
    tier=st.integers(1, 3),
)
def test_a_required_tier_is_met_wherever_it_can_be(
    taken: list[int], size: int, pods: int, tier: int
) -> None:
    """Equal pods start exactly if some domain of the tier has room for all, and then in the
    narrowest that has.
    """
    cell = cell_with((), [])
    state = cell.state
    for i, count in enumerate(taken):
        if count:
            on = r.Selector("host", SelectorOperator.IN, (f"n{i}",))
            cell.put(near(f"old{i}", role(cards=count, selectors=[on]), queue="q"))
    cell.tick()
    room = {
        domain.path: sum(state.nodes[n].free_count // size for n in domain.nodes)
        for domain in domains_of(state).order
        if domain.tier <= tier
    }
    cell.put(near("j", role("w", pods, cards=size), required=tier, queue="q"))
    cell.tick()
    pods_of_job = (job_of(cell, "j").pods or {}).values()
    placed = [state.nodes[pod.node].report.topology for pod in pods_of_job]
    assert len(placed) == (pods if max(room.values()) >= pods else 0)
    if placed:
        deepest = max(len(path) for path, fit in room.items() if fit >= pods)
        assert len(common(placed)) >= deepest

"""What the numbers of a waiting job's reasons count: said with each reason, whoever refuses."""

from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.enums import LimitScope
from ganger.schemas.reasons import Reason
from ganger.services.cli.why import _finding_text
from ganger.streams.kernel.digest import seal
from ganger.streams.kernel.explain import Explanation, explain
from support.builders import Cell, node, policy, queue, role, submission
from support.quotas import leaf, quota_cell


def told(cell: Cell, job: str) -> Explanation:
    before = seal(cell.state)
    found = explain(cell.state, job)
    assert found is not None
    assert seal(cell.state) == before
    return found


def texts(cell: Cell, job: str) -> dict[Reason, str]:
    return {one.reason: _finding_text(one) for one in told(cell, job).reasons}


def limited(*limits: r.Limit) -> Cell:
    made = Cell().start(
        queue("q", limits=list(limits)), node("n"), rules=policy("priority", "gang", "limits")
    )
    for name in ("j1", "j2"):
        plain = submission(name, role(cards=1, cpu=2000), queue="q", user="ann")
        made.put(replace(plain, time_ns=made.now_ns))
    made.tick()
    return made


def test_limits_of_users_say_of_what() -> None:
    cell = limited(r.Limit(LimitScope.USER, "", "jobs", 1))
    assert texts(cell, "j2")[Reason.USER_LIMIT] == (
        "asks 1 job; its user has 0 left of 1 job in the queue (rule limits, queue q)"
    )
    cell = limited(r.Limit(LimitScope.USER, "", "cpu_milli", 3000))
    assert texts(cell, "j2")[Reason.USER_LIMIT] == (
        "asks 2 cores; its user has 1 left of 3 cores in the queue (rule limits, queue q)"
    )


def test_quota_says_of_what_and_a_queue_has_its_nominal_quota_and_what_it_may_borrow() -> None:
    cell = quota_cell(
        leaf("all", {}),
        leaf("lends", {"f": 4}, parent="all"),
        leaf("borrows", {"f": (1, 2)}, parent="all"),
        cards=4,
        nodes=3,
    )
    cell.submit("j", role(cards=4), queue="borrows")
    cell.submit("runs", role(cards=3), queue="lends")
    cell.tick()
    cell.submit("k", role(replicas=2, cards=3), queue="lends")
    cell.tick()
    assert texts(cell, "j")[Reason.QUOTA_BORROWING] == (
        "asks 4 cards; 2 can be had with borrowing, the bound is 3 cards "
        "(rule cohort, queue borrows)"
    )
    found = told(cell, "j")
    assert (found.queue_deserved, found.queue_capability) == (1000, 3000)
    found = told(cell, "k")
    assert (found.queue_deserved, found.queue_capability) == (4000, 5000)


def test_a_parents_capability_is_told_with_the_parent() -> None:
    cell = Cell().start(
        queue("root", capability={"cards_milli": 2000}),
        queue("q", parent="root"),
        node("n"),
        rules=policy("priority", "gang"),
    )
    cell.submit("j", role(replicas=3, cards=1), queue="q")
    cell.tick()
    assert texts(cell, "j")[Reason.QUEUE_CAPABILITY] == (
        "role worker: asks 3 cards; its queue has 2 left of a capability of 2 cards; "
        "that is above the limit, so it can never start (queue root)"
    )


def test_each_resource_that_nodes_lack_is_told() -> None:
    cell = Cell().start(
        queue("q"),
        node("a", resources=[("nic", 2)]),
        node("b", resources=[("port", 2)]),
        rules=policy("priority", "gang"),
    )
    cell.submit("j", role(resources=[("nic", 1), ("port", 1)]), queue="q")
    cell.tick()
    lacks = {o.resource: o.nodes for o in told(cell, "j").reasons if o.resource}
    assert lacks == {"nic": ("b",), "port": ("a",)}


def test_nobody_gives_back_where_the_cell_has_enough() -> None:
    actions = ("enqueue", "allocate", "backfill", "reclaim")
    cell = Cell().start(
        queue("p"),
        queue("q"),
        node("n0", 3),
        node("n1", 3),
        rules=policy("priority", "gang", "fair_share", "pack", actions=actions),
    )
    cell.submit("fills", role(replicas=2, cards=2), queue="q")
    cell.tick()
    cell.submit("j", role(cards=2), queue="p")  # one card is left on either node
    cell.tick()
    assert Reason.QUEUE_DESERVED not in texts(cell, "j")
    assert texts(cell, "j")[Reason.NOT_NEEDED] == (
        "nobody gives anything back: the cell as a whole has enough of all it needs "
        "(rule fair_share, queue p)"
    )

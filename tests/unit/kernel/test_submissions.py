"""Who may submit how much: tenants of queues, limits on waiting jobs and on submissions."""

import pytest
from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import LimitScope, Tier
from ganger.streams.kernel import snapshot
from support.builders import Cell, node, queue, submission
from support.decision_lines import said

S = LimitScope


def limit(
    scope: LimitScope, resource: str, count: int, subject: str = "", tier: Tier = Tier.UNKNOWN
) -> r.Limit:
    """A limit of a queue."""
    return r.Limit(scope, subject, resource, count, tier)


def cell_with(*limits: r.Limit, tenants: tuple[str, ...] = (), cards: int = 0) -> Cell:
    """Queue `top` with these limits, its children `q` and `p`; no cards unless some are given."""
    top = replace(queue("top"), limits=limits, tenants=tenants)
    return Cell().start(node("n1", cards), top, queue("q", parent="top"), queue("p", parent="top"))


def submit(
    cell: Cell, job: str, of: str = "u", tenant: str = "", **facts: object
) -> list[Decision]:
    """A job of a user and a tenant comes now."""
    spot = bool(facts.pop("spot", False))
    request = submission(job, user=of, time_ns=cell.now_ns, **facts)  # type: ignore[arg-type]
    return cell.put(replace(request, tenant=tenant, spot=spot))


def told(decisions: list[Decision]) -> list[tuple[str, int, int]]:
    """Reason and numbers of refusals."""
    return [(d.reason.name, d.asked, d.limit) for d in decisions]


def test_only_tenants_of_a_queue_and_of_those_above_may_submit() -> None:
    cell = cell_with(tenants=("a", "b"))
    cell.put(replace(queue("p", parent="top"), tenants=("b",)))
    assert said(submit(cell, "1", tenant="a")) == []
    assert said(submit(cell, "2", tenant="a", queue="p")) == ["REJECT 2 TENANT_FORBIDDEN"]
    assert said(submit(cell, "3", tenant="b", queue="p")) == []
    assert said(submit(cell, "4")) == ["REJECT 4 TENANT_FORBIDDEN"]


@pytest.mark.parametrize(
    ("bound", "taken", "refused"),
    [
        (limit(S.USER, "waiting_jobs", 2), ["u.", "u.", "v."], ("u.", "USER_LIMIT", 1, 2)),
        (limit(S.USER, "waiting_jobs", 1, "v"), ["u.", "u.", "v."], ("v.", "USER_LIMIT", 1, 1)),
        (limit(S.TENANT, "waiting_jobs", 1), ["u.a", "u.b"], ("v.a", "TENANT_QUOTA", 1, 1)),
        (limit(S.QUEUE, "waiting_jobs", 3), ["u.", "v.", "w."], ("x.", "LIMIT_EXCEEDED", 4, 3)),
        (limit(S.USER, "waiting_jobs", 0), [], ("u.", "USER_LIMIT", 1, 0)),
        (limit(S.USER, "submissions_per_hour", 2), ["u.", "v.", "u."], ("u.", "USER_LIMIT", 1, 2)),
        (limit(S.QUEUE, "submissions_per_hour", 1), ["u."], ("v.", "LIMIT_EXCEEDED", 2, 1)),
        (limit(S.TENANT, "submissions_per_hour", 1), ["u.a", "u.b"], ("v.b", "TENANT_QUOTA", 1, 1)),
    ],
)  # fmt: skip
def test_limits_count_what_is_below_their_queue(
    bound: r.Limit, taken: list[str], refused: tuple[str, str, int, int]
) -> None:
    cell = cell_with(bound)
    for number, who in enumerate(taken):
        user, tenant = who.split(".")
        leaf = "q" if number % 2 else "p"
        assert told(submit(cell, str(number), user, tenant, queue=leaf)) == []
    user, tenant = refused[0].split(".")
    assert told(submit(cell, "last", user, tenant)) == [refused[1:]]
    cell.state = snapshot.fork(cell.state)
    assert told(submit(cell, "last", user, tenant)) == [refused[1:]]


def test_a_job_that_runs_or_has_ended_waits_no_more() -> None:
    cell = cell_with(limit(S.USER, "waiting_jobs", 1), cards=1)
    submit(cell, "a")
    assert len(told(submit(cell, "b"))) == 1
    cell.tick()
    assert told(submit(cell, "b")) == []
    cell.cancel("b")
    assert told(submit(cell, "c")) == []


def test_a_limit_that_comes_later_counts_those_that_wait_already() -> None:
    cell = cell_with()
    for job in "abc":
        submit(cell, job)
    cell.put(replace(queue("top"), limits=(limit(S.USER, "waiting_jobs", 3),)))
    assert told(submit(cell, "d")) == [("USER_LIMIT", 1, 3)]
    cell.put(queue("top"))
    assert cell.state.indexes.waiters is None
    assert told(submit(cell, "d")) == []


def test_submissions_are_forgotten_after_an_hour() -> None:
    cell = cell_with(limit(S.USER, "submissions_per_hour", 2))
    submit(cell, "a")
    cell.tick(1800)
    submit(cell, "b")
    cell.cancel("b")  # it was submitted all the same
    assert told(submit(cell, "c")) == [("USER_LIMIT", 1, 2)]
    cell.tick(1740)
    assert told(submit(cell, "c")) == [("USER_LIMIT", 1, 2)]
    cell.tick(60)
    assert told(submit(cell, "c")) == []
    assert told(submit(cell, "d")) == [("USER_LIMIT", 1, 2)]
    cell.tick(7200)
    submit(cell, "e", "other")
    assert [key[1] for key in cell.state.submissions] == ["other"]


def test_refused_submissions_do_not_count() -> None:
    cell = cell_with(limit(S.QUEUE, "submissions_per_hour", 1))
    assert told(submit(cell, "a", queue="none")) == [("QUEUE_UNKNOWN", 0, 0)]
    assert told(submit(cell, "b", priority_class="none")) == [("PRIORITY_CLASS_UNKNOWN", 0, 0)]
    assert told(submit(cell, "c")) == []


def test_spot_work_and_other_work_wait_apart_where_a_limit_says_so() -> None:
    cell = cell_with(
        limit(S.USER, "waiting_jobs", 1, tier=Tier.SPOT),
        limit(S.USER, "waiting_jobs", 2, tier=Tier.MAIN),
    )
    assert told(submit(cell, "a", spot=True)) == []
    assert told(submit(cell, "b", spot=True)) == [("USER_LIMIT", 1, 1)]
    assert told(submit(cell, "c")) == []
    assert told(submit(cell, "d")) == []
    assert told(submit(cell, "e")) == [("USER_LIMIT", 1, 2)]


# ---- what a queue may say -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "fault"),
    [
        ({"limits": (limit(S.UNKNOWN, "jobs", 1),)}, ("LIMIT_UNKNOWN", 1, 0)),
        ({"limits": (limit(S.USER, "jobs", 1), limit(S.USER, "", 1))}, ("LIMIT_UNKNOWN", 2, 0)),
        ({"limits": (limit(S.QUEUE, "jobs", 1, "u"),)}, ("LIMIT_UNKNOWN", 1, 0)),
        (
            {"limits": (limit(S.USER, "submissions_per_hour", 1, tier=Tier.SPOT),)},
            ("LIMIT_UNKNOWN", 1, 0),
        ),
        ({"limits": (limit(S.USER, "jobs", -1),)}, ("VALUE_OUT_OF_RANGE", -1, 0)),
        ({"tenants": ("a", "a")}, ("NAMES_REPEATED", 2, 1)),
        ({"node_groups_required": ("",)}, ("NAMES_REPEATED", 1, 0)),
    ],
)
def test_limits_that_are_refused(facts: dict[str, object], fault: tuple[str, int, int]) -> None:
    cell = Cell().start(node("n1"))
    assert told(cell.put(replace(queue("q"), **facts))) == [fault]


def share(**cards: int) -> dict[str, dict[str, int]]:
    """Bounds of a queue in whole cards: `guarantee=4`."""
    return {field: {"cards_milli": count * 1000} for field, count in cards.items()}


@pytest.mark.parametrize(
    ("parent", "children", "last", "fault"),
    [
        ({"guarantee": 4}, [{"guarantee": 2}], {"guarantee": 2}, None),
        ({"guarantee": 4}, [{"guarantee": 2}], {"guarantee": 3}, (5000, 4000)),
        ({"deserved": 4}, [{"deserved": 2}, {"deserved": 2}], {"deserved": 1}, (5000, 4000)),
        ({"deserved": 4}, [{"guarantee": 3}], {"guarantee": 3}, None),
        ({}, [{"guarantee": 3}], {"guarantee": 3}, None),  # the parent says nothing
        ({"capability": 4}, [{"capability": 4}], {"capability": 4}, None),  # caps may add up
    ],
)  # fmt: skip
def test_children_share_what_their_parent_has(
    parent: dict[str, int],
    children: list[dict[str, int]],
    last: dict[str, int],
    fault: tuple[int, int] | None,
) -> None:
    cell = Cell().start(node("n1"), queue("top", **share(**parent)))  # type: ignore[arg-type]
    for number, child in enumerate(children):
        record = queue(str(number), parent="top", **share(**child))  # type: ignore[arg-type]
        assert told(cell.put(record)) == []
    made = cell.put(queue("last", parent="top", **share(**last)))  # type: ignore[arg-type]
    assert told(made) == ([] if fault is None else [("VALUE_OUT_OF_RANGE", *fault)])


def test_a_parent_keeps_what_its_children_were_promised() -> None:
    cell = Cell().start(node("n1"), queue("top", **share(guarantee=4)))  # type: ignore[arg-type]
    child = queue("q", parent="top", **share(guarantee=4))  # type: ignore[arg-type]
    assert told(cell.put(child)) == []
    lower = queue("top", **share(guarantee=3))  # type: ignore[arg-type]
    assert told(cell.put(lower)) == [("VALUE_OUT_OF_RANGE", 4000, 3000)]
    assert told(cell.put(queue("q", parent="top", removed=True), lower)) == []

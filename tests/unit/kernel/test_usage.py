"""Past use: what is written down when, how it is read, and the order that it makes."""

from msgspec.structs import replace

from ganger.streams.kernel.derive import rebuild
from ganger.streams.kernel.fairness.decay import HOUR_NS
from ganger.streams.kernel.queues import usage
from support.builders import GENESIS, SECOND, Cell, node, placed, policy, queue, role

HALF = {"usage_half_life_ns": "1h"}
RULES = policy("usage", "gang", settings=HALF)


def cell(*records: object) -> Cell:
    made = Cell().start(*records, rules=RULES)  # type: ignore[arg-type]
    to_hour(made)
    return made


def to_hour(made: Cell, hours: int = 1) -> None:
    """Let time pass until so many full hours have begun."""
    target = (made.now_ns // HOUR_NS + hours) * HOUR_NS
    made.tick((target - made.now_ns) // SECOND, cycle=False)


def run(made: Cell, job: str, seconds: int, **facts: object) -> None:
    made.submit(job, role(cards=2), **facts)
    made.tick(0)
    made.started(job)
    made.now_ns += seconds * SECOND
    made.tick(0, cycle=False)
    made.succeeded(job)


def test_an_end_writes_down_card_time_by_the_hour() -> None:
    made = cell(node("n1"))
    hour = made.now_ns // HOUR_NS
    run(made, "j1", 3600 + 60)
    assert made.state.usage[(0, "u")].hours == {hour: 2000 * 3600, hour + 1: 2000 * 60}
    assert made.now_ns > GENESIS


def test_nothing_is_kept_without_a_half_life() -> None:
    made = Cell().start(node("n1"), rules=policy("usage", "gang"))
    run(made, "j1", 60)
    assert made.state.usage == {}
    assert usage.past(made.state).users == {}


def test_full_hours_count_and_fade() -> None:
    made = cell(node("n1"))
    run(made, "j1", 1800)
    assert usage.past(made.state).users.get((0, "u"), 0) == 0
    to_hour(made)
    assert usage.past(made.state).users == {(0, "u"): 2000 * 1800}
    to_hour(made)
    assert usage.past(made.state).users == {(0, "u"): 1000 * 1800}
    to_hour(made, 2)
    assert usage.past(made.state).users == {(0, "u"): 250 * 1800}


def test_it_makes_no_difference_when_an_attempt_ends() -> None:
    made = cell(node("n1"))
    made.submit("j1", role(cards=2))
    made.tick(0)
    to_hour(made)
    read = usage.past(made.state).users
    assert read[(0, "u")] == 2000 * 3600
    made.started("j1")
    made.succeeded("j1")
    rebuild(made.state)
    assert usage.past(made.state).users == read


def test_what_is_too_old_is_forgotten() -> None:
    made = cell(node("n1"))
    run(made, "j1", 60)
    to_hour(made, usage.HOURS)
    assert len(made.state.usage) == 1
    to_hour(made)
    assert made.state.usage == {}


def test_long_runs_are_cut_to_what_is_kept() -> None:
    made = cell(node("n1"))
    run(made, "j1", 3600 * (usage.HOURS + 10))
    hours = made.state.usage[(0, "u")].hours
    assert max(hours) - min(hours) < usage.HOURS


def test_who_had_less_is_first_among_the_users_of_a_queue() -> None:
    made = cell(node("n1"))
    run(made, "old", 600, user="ann")
    made.submit("j1", role(cards=8), user="ann")
    made.submit("j2", role(cards=8), user="bob")
    assert [job for job, *_ in placed(made.tick(1))] == ["j1"]  # the hour still runs
    made.started("j1")
    made.succeeded("j1")
    to_hour(made)
    made.submit("j3", role(cards=8), user="ann")
    made.submit("j4", role(cards=8), user="cid")
    made.tick()
    assert made.state.jobs[made.state.job_by_key["j2"]].pods
    made.started("j2")
    made.succeeded("j2")
    assert [job for job, *_ in placed(made.tick())] == ["j4"]


def test_waiting_jobs_change_places_when_the_hour_turns() -> None:
    made = cell(node("n1"))
    made.submit("j0", role(cards=8), user="ann")
    made.tick(0)
    made.submit("j1", role(cards=8), user="ann")
    made.submit("j2", role(cards=8), user="bob")
    made.tick()
    to_hour(made)  # ann's running job counts now
    made.started("j0")
    made.succeeded("j0")
    assert [job for job, *_ in placed(made.tick())] == ["j2"]


def test_queues_by_what_they_hold_and_had() -> None:
    made = cell(node("n1", 2), queue("a"), queue("b"))
    run(made, "a0", 3000, queue="a")
    to_hour(made)
    made.submit("a1", role(cards=2), queue="a")
    made.submit("b1", role(cards=2), queue="b")
    assert [job for job, *_ in placed(made.tick())] == ["b1"]


def test_a_queues_own_weight_of_the_past() -> None:
    made = cell(node("n1", 4), queue("a"), queue("b"))
    made.put(replace(queue("a"), usage_weight_milli=1))
    run(made, "a0", 3000, queue="a")
    to_hour(made)
    made.submit("b1", role(cards=1), queue="b")
    made.tick()
    made.submit("a1", role(cards=2), queue="a")
    made.submit("b2", role(cards=2), queue="b")
    assert [job for job, *_ in placed(made.tick())] == ["a1"]

"""Jobs and queues as people write them: what becomes of every key, and what errors say."""

import io
import json
import re
import tomllib
from pathlib import Path

import pytest

from ganger.replay.traces.source import InputError
from ganger.schemas import records as r
from ganger.schemas.codec import decode_untrusted
from ganger.schemas.encoding import encode_record
from ganger.schemas.enums import (
    BackfillPreference,
    Communication,
    DecisionKind,
    FlavorPreference,
    FlavorSearch,
    IslandPolicy,
    JobAction,
    LimitAction,
    LimitScope,
    PodEvent,
    QueueOrder,
    QueueState,
    SelectorOperator,
    TaintEffect,
    Tier,
    TolerationOperator,
    Tri,
    VictimRule,
)
from ganger.services.cell_files import CELL_KEYS
from ganger.services.durations import parse_duration
from ganger.services.job_files import (
    JOB_KEYS,
    QUEUE_KEYS,
    JobLine,
    checked_job,
    parse_jobs,
    parse_queues,
    read_text,
)
from ganger.services.job_spec import (
    ActionSpec,
    AffinitySpec,
    BudgetSpec,
    GroupSpec,
    JobSpec,
    RetrySpec,
    RoleSpec,
    SelectorSpec,
    TolerationSpec,
    TopologySpec,
)
from support.builders import Cell

SECOND = 10**9
PAGE = (Path(__file__).parents[2] / "docs" / "jobs.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(toml|json)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
JOBS = [text for kind, text in BLOCKS if kind == "json" or "job = " in text]
QUEUES = [text for kind, text in BLOCKS if kind == "toml" and "[[queues]]" in text]
TABLE_KEYS = re.compile(r"^\| (`[^|]*?) \|", re.MULTILINE)


def job(text: str) -> r.JobSubmitRequested:
    (line,) = parse_jobs(text, "file")
    return line.request


def refusal(text: str) -> str:
    with pytest.raises(InputError) as caught:
        parse_jobs(text, "file")
    return str(caught.value)


def test_event_ids_are_given_once() -> None:
    same = '{"job": "a", "event_id": "e"}\n{"job": "b", "event_id": "e"}'
    assert "file:2: event_id: 'e' stands in file:1 already" in refusal(same)
    assert "file:2: job: 'a' stands in file:1 already" in refusal('{"job": "a"}\n{"job": "a"}')
    assert len(parse_jobs('{"job": "a"}\r\n{"job": "b"}\r\n', "file")) == 2


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\u0085"])
def test_lines_end_where_json_lines_do(sign: str) -> None:
    assert job(f'{{"job": "a", "user": "x{sign}y"}}').user == f"x{sign}y"


def queue_refusal(text: str) -> str:
    with pytest.raises(InputError) as caught:
        parse_queues(text, "file")
    return str(caught.value)


# ---- durations -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "duration_ns"),
    [
        ("0s", 0),
        ("90s", 90 * SECOND),
        ("1h30m", 5400 * SECOND),
        ("1h 30m", 5400 * SECOND),
        (" 2d ", 172_800 * SECOND),
        ("1.5h", 5400 * SECOND),
        ("250ms", SECOND // 4),
        ("0.000000001s", 1),
    ],
)
def test_durations(text: str, duration_ns: int) -> None:
    assert parse_duration(text, "x") == duration_ns


@pytest.mark.parametrize("text", ["", "90", "s", "-1s", "1w", "1h,30m", "١s", "999999d" * 9])
def test_no_durations(text: str) -> None:
    with pytest.raises(InputError, match=r"^estimate: .*write a duration like 90s"):
        parse_duration(text, "estimate")


# ---- jobs ----------------------------------------------------------------------------------------


def test_the_shortest_job() -> None:
    request = r.PodRequest(1, 0, 0, 0, (), IslandPolicy.ANY, 0, 0, (), (), ())
    assert job('job = "probe"') == r.JobSubmitRequested(
        time_ns=0,
        event_id="",
        source=None,
        job="probe",
        queue="default",
        user="",
        tenant="",
        priority_class="",
        priority=0,
        roles=(r.Role("main", 1, 1, request),),
        min_available=0,
        runtime_estimate_ns=0,
        time_limit_ns=0,
        can_checkpoint=False,
        accepts_suspend=False,
        backfill=BackfillPreference.ACCEPT,
        backfill_risk_milli=1000,
        sla_waiting_ns=0,
        dependencies=(),
        retry=r.RetryPolicy(3, 10 * SECOND, 300 * SECOND),
        ttl_ns=-1,
        held=False,
    )


FULL = JobSpec(
    "x",
    queue="q",
    user="u",
    tenant="t",
    priority_class="high",
    priority=-3,
    roles=(
        RoleSpec(
            name="a",
            replicas=4,
            min_available=2,
            cards=8,
            min_card_memory_mib=40_000,
            models=("A100",),
            island="same",
            cpu_milli=1000,
            memory_mib=2048,
            resources={"nic": 1, "disk": 7},
            selectors=(
                SelectorSpec("zone", "NotIn", ("a", "b")),
                SelectorSpec("ssd", "Exists"),
            ),
            tolerations=(
                TolerationSpec("team", "Equal", "x", "NoExecute"),
                TolerationSpec(),
            ),
        ),
        RoleSpec(
            name="b",
            card_milli=250,
            card_memory_mib=8192,
            card_count=2,
            group="inner",
            priority=5,
            preemptable=False,
            preempts=True,
            labels={"app": "x"},
            affinities=(
                AffinitySpec(
                    1, ("a",), {"k": "v"}, anti=True, required=False, preemptable_only=True
                ),
            ),
            revocable_zone="night",
            order=-1,
        ),
    ),
    min_available=3,
    estimate="1h",
    time_limit="2h",
    can_checkpoint=True,
    accepts_suspend=True,
    backfill="refuse",
    backfill_risk_milli=7,
    sla_waiting="1d",
    dependencies=("y",),
    retry=RetrySpec(1, "1s", "2s"),
    ttl="0s",
    held=True,
    event_id="e",
    groups=(
        GroupSpec("outer"),
        GroupSpec("inner", "outer", 1, TopologySpec(2, 1)),
    ),
    topology=TopologySpec(required_tier=3),
    budget=BudgetSpec(min_available_count=2, max_unavailable_milli=500),
    start_request={"cards_milli": 5000},
    preempts=False,
    preemptable=True,
    priority_boost=9,
    protected="1m",
    grace="30s",
    actions=(ActionSpec("failed", "restart-role", "a", (137, -1), "5s"),),
    restarts_max=4,
    min_success=1,
    spot=True,
    notice="10s",
    communication="heavy",
    on_limit="end",
)


def test_every_field_of_a_job_can_be_said() -> None:
    request = FULL.request()
    changed = {name: getattr(request, name) for name in request.__struct_fields__}
    plain = JobSpec("probe").request()
    same = [name for name, value in changed.items() if value == getattr(plain, name)]
    assert same == ["time_ns", "source"]
    first, second = request.roles
    assert first.request == r.PodRequest(
        cards=8,
        card_milli=0,
        card_memory_mib=0,
        min_card_memory_mib=40_000,
        models=("A100",),
        island=IslandPolicy.SAME,
        cpu_milli=1000,
        memory_mib=2048,
        resources=(r.Amount("disk", 7), r.Amount("nic", 1)),
        selectors=(
            r.Selector("zone", SelectorOperator.NOT_IN, ("a", "b")),
            r.Selector("ssd", SelectorOperator.EXISTS, ()),
        ),
        tolerations=(
            r.Toleration("team", TolerationOperator.EQUAL, "x", TaintEffect.NO_EXECUTE),
            r.Toleration("", TolerationOperator.EXISTS, "", TaintEffect.UNKNOWN),
        ),
    )
    assert (first.replicas, first.min_available, second.min_available) == (4, 2, 1)
    assert (second.request.card_milli, second.request.card_memory_mib) == (250, 8192)
    assert request.retry == r.RetryPolicy(1, SECOND, 2 * SECOND)
    assert decode_untrusted(encode_record(request)) == request


def test_wishes_of_roles_and_jobs() -> None:
    request = FULL.request()
    first, second = request.roles
    assert (first.preemptable, first.group, first.affinities) == (Tri.UNKNOWN, "", ())
    assert second.request.card_count == 2
    assert (second.group, second.priority, second.order) == ("inner", 5, -1)
    assert (second.preemptable, second.preempts) == (Tri.NO, Tri.YES)
    assert (second.labels, second.revocable_zone) == ((r.Label("app", "x"),), "night")
    near = r.Affinity(1, ("a",), (r.Label("k", "v"),), True, False, True)
    assert second.affinities == (near,)
    assert request.groups == (
        r.PodGroup("outer"),
        r.PodGroup("inner", "outer", 1, r.Topology(2, 1)),
    )
    assert request.topology == r.Topology(3, 0)
    assert request.budget == r.Budget(2, -1, -1, 500)
    assert request.start_request == (r.Amount("cards_milli", 5000),)
    assert (request.preempts, request.preemptable) == (Tri.NO, Tri.YES)
    assert (request.protected_ns, request.grace_ns) == (60 * SECOND, 30 * SECOND)
    restart = (PodEvent.FAILED, (137, -1), "a", JobAction.RESTART_ROLE, 5 * SECOND)
    assert request.actions == (r.EventAction(*restart),)
    assert (request.restarts_max, request.min_success, request.notice_ns) == (4, 1, 10 * SECOND)
    assert (request.communication, request.on_limit) == (Communication.HEAVY, LimitAction.END)


QUOTA = """
[[queues]]
name = "a"
order = "strict"
state = "evicting"
weight = 0
fair_weight_milli = 0
over_quota_weights = { cards = 3 }
within_queue = "lower-priority"
reclaim_in_cohort = "any"
borrow_in_cohort = "lower-or-newer-equal"
borrow_priority_max = -5
when_can_borrow = "next"
when_can_preempt = "stop"
preference = "preemption-first"
tenants = ["t"]
node_groups_required = ["g"]
node_group_limits = [{ group = "g", amounts = { cards = 4 } }]
preempt_min_runtime = "5m"
usage_weight_milli = 700
lends = false

[[queues.resource_groups]]
flavors = [
  { flavor = "spot", bounds = [{ resource = "cards", nominal = 8, lending_limit = 2 }] },
]

[[queues.limits]]
scope = "user"
resource = "cards"
count = 16
tier = "main"
"""


def test_quota_and_limits_of_queues() -> None:
    (queue,) = parse_queues(QUOTA, "file")
    assert decode_untrusted(encode_record(queue)) == queue
    assert (queue.state, queue.weight, queue.order) == (QueueState.EVICTING, 0, QueueOrder.STRICT)
    assert queue.over_quota_weights == (r.Amount("cards_milli", 3),)
    assert (queue.within_queue, queue.reclaim_in_cohort, queue.borrow_in_cohort) == (
        VictimRule.LOWER_PRIORITY,
        VictimRule.ANY,
        VictimRule.LOWER_OR_NEWER_EQUAL,
    )
    assert (queue.fair_weight_milli, queue.borrow_priority_max) == (0, -5)
    assert (queue.when_can_borrow, queue.when_can_preempt) == (FlavorSearch.NEXT, FlavorSearch.STOP)
    assert queue.preference is FlavorPreference.PREEMPTION_FIRST
    assert queue.node_group_limits == (r.GroupLimit("g", (r.Amount("cards_milli", 4000),)),)
    assert (queue.preempt_min_runtime_ns, queue.reclaim_min_runtime_ns) == (300 * SECOND, -1)
    assert (queue.backfill, queue.lends) == (Tri.UNKNOWN, Tri.NO)
    bound = r.QuotaBound("cards_milli", 8000, -1, 2000)
    assert queue.resource_groups == (r.ResourceGroup((r.FlavorQuota("spot", (bound,)),)),)
    assert queue.limits == (r.Limit(LimitScope.USER, "", "cards_milli", 16000, Tier.MAIN),)
    (plain,) = parse_queues('[[queues]]\nname = "b"', "file")
    assert plain == r.QueueConfigured(
        *(0, "", None, "b", "", 1, 0, (), (), (), (), (), True, QueueState.OPEN, False)
    )


@pytest.mark.parametrize("text", JOBS)
def test_examples_of_the_page_are_jobs(text: str) -> None:
    cell = Cell()
    for line in parse_jobs(text, "page"):
        assert decode_untrusted(encode_record(line.request)) == line.request
    assert len(JOBS) == 5
    # The kernel refuses none of them for what they say of themselves.
    decisions = cell.start().put(*(line.request for line in parse_jobs(text, "page")))
    reasons = {d.reason.name for d in decisions if d.kind is DecisionKind.REJECT}
    assert reasons <= {"QUEUE_UNKNOWN", "PRIORITY_CLASS_UNKNOWN", "DEPENDENCY_UNKNOWN"}


def test_the_page_lists_every_key() -> None:
    """In the first column of a table, or where the key of a table within one line stands."""
    listed = {key for cell in TABLE_KEYS.findall(PAGE) for key in re.findall(r"`(\w+)`", cell)}
    rows = "\n".join(line for line in PAGE.splitlines() if line.startswith("|"))
    tables = [*JOB_KEYS.values(), *QUEUE_KEYS.values(), *CELL_KEYS.values()]
    known = {key for fields in tables for key in fields} - {"queues", "zones", "nodes"}
    assert listed <= known
    assert known <= set(re.findall(r"`(\w+)`", rows))


def test_lines_of_json() -> None:
    text = '\n{"job": "a"}\n\n{"job": "b", "cards": 2, "estimate": "1m"}\n'
    first, second = parse_jobs(text, "many")
    assert (first.place, second.place) == ("many:2", "many:4")
    assert second.request.runtime_estimate_ns == 60 * SECOND
    assert second.request.roles[0].request.cards == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("job = ", "file: this is no TOML"),
        ('queue = "q"', "file: job: it is missing; the keys are job, queue"),
        ('job = "a"\ncard = 1', "file: card: there is no such key; did you mean cards?"),
        ('job = "a"\ncards = "1"', "file: cards: it is '1'; give a whole number"),
        ('job = "a"\ncards = -1', "file: cards: it is -1; give a whole number, at least 0"),
        ('job = "a"\nestimate = "90"', "file: estimate: it is '90'; write a duration like 90s"),
        ('job = "a"\nestimate = 90', "file: estimate: it is 90; give a text in quotes"),
        ('job = "a"\nbackfill = "yes"', "backfill: it is 'yes'; give one of accept, low-risk-only"),
        ('job = ""', "file: job: it is '' of 0 characters; give 1 to 253"),
        ('job = "a"\nevent_id = "' + "e" * 254 + '"', "file: event_id: it is 'eeee"),
        ('job = "a"\ncards = 1\n[[roles]]', "file: cards: it is 1, and roles are given; put it"),
        ('job = "a"\n[[roles]]\nreplica = 2', "roles[0].replica: there is no such key; did you"),
        (
            'job = "a"\n[[roles]]\ncards = 1\ncard_milli = 5',
            "file: roles[0].card_milli: it is 5, and cards is 1; ask for whole cards or",
        ),
        (
            'job = "a"\n[[roles]]\n[[roles]]\nreplicas = 2\nmin_available = 3',
            "file: roles[1].min_available: it is 3, and replicas is 2; give at most so many",
        ),
        (
            'job = "a"\n[[roles]]\nselectors = [{ key = "z" }]',
            "roles[0].selectors[0].values: there are 0 with the operator In; give at least one",
        ),
        (
            'job = "a"\n[[roles]]\ntolerations = [{ value = "z" }]',
            "file: roles[0].tolerations[0].value: it is 'z'; leave it out, or set operator",
        ),
        (
            'job = "a"\nretry = { backoff = "1m", backoff_max = "1s" }',
            "file: retry.backoff_max: '1s' is less than retry.backoff, '1m'; give at least as much",
        ),
    ],
)
def test_what_is_wrong_with_a_job_is_said(text: str, said: str) -> None:
    assert said in refusal(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"job": "a"}\n{"job": }', "file:2: this is no JSON"),
        ('{"job": "a"}\n[]', "file:2: this is no object; write one job a line"),
        ('{"job": "a"}\n\n{"job": "b", "cards": 1.5}', "file:3: cards: it is 1.5"),
        ('{"job": "a"}\n{"job": "a"}', "file:2: job: 'a' stands in file:1 already; give every"),
        ('{"job": "a", "user": "\\ud800"}', "file:1: "),
    ],
)
def test_what_is_wrong_with_a_line_is_said(text: str, said: str) -> None:
    assert said in refusal(text)


def test_files_that_are_no_text() -> None:
    with pytest.raises(InputError, match="x: not UTF-8 text"):
        read_text(io.BytesIO(b"\xff\xfe"), "x")
    assert read_text(io.BytesIO(b"\xef\xbb\xbfjob"), "x") == "job"


def test_jobs_of_a_file_are_read_in_order() -> None:
    text = "\n".join(json.dumps({"job": f"j{number}"}) for number in range(100))
    assert [line.request.job for line in parse_jobs(text, "f")] == [f"j{n}" for n in range(100)]
    assert isinstance(parse_jobs(text, "f")[0], JobLine)


# ---- queues --------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", QUEUES)
def test_examples_of_the_page_are_queues(text: str) -> None:
    queues = parse_queues(text, "page")
    assert [queue.queue for queue in queues] == ["all", "research", "batch", "old"]
    assert queues[1].guarantee == (
        r.Amount("cards_milli", 64_000),
        r.Amount("cpu_milli", 512_000),
        r.Amount("memory_mib", 4_194_304),
    )
    assert queues[1].capability == (r.Amount("cards_milli", 128_000), r.Amount("nic", 16))
    assert queues[2].state is QueueState.DRAINING and queues[3].removed
    decisions = Cell().start().put(*queues[:3])
    assert not [d for d in decisions if d.kind is DecisionKind.REJECT]


def test_removed_queues_come_last_with_children_first() -> None:
    text = """
    queues = [
      { name = "top", removed = true },
      { name = "leaf", parent = "mid", removed = true },
      { name = "mid", parent = "top", removed = true },
      { name = "new", parent = "other" },
      { name = "other" },
    ]
    nodes = [{ count = 1, cards = 8 }]
    """
    order = [queue.queue for queue in parse_queues(text, "file")]
    assert order == ["other", "new", "leaf", "mid", "top"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("queues = 1", "file: queues: it is 1; give a list"),
        ("", "file: queues: it is missing; the keys are queues"),
        ("[[queues]]\nname = 'a'\nwieght = 2", "queues[0].wieght: there is no such key; did you"),
        (
            "[[queues]]\nname = 'a'\nweight = -1",
            "queues[0].weight: it is -1; give a whole number, at",
        ),
        ("[[queues]]\nname = 'a'\nstate = 'shut'", "queues[0].state: it is 'shut'; give one of op"),
        ("[[queues]]\nname = 'a'\n[[queues]]\nname = 'a'", "queues[1].name: 'a' stands above"),
        (
            "[[queues]]\nname = 'a'\nparent = 'b'\n[[queues]]\nname = 'b'\nparent = 'a'",
            "is a circle; let one be at the top",
        ),
        (
            "[[queues]]\nname = 'a'\nguarantee = { cards = 1, cards_milli = 5 }",
            "queues[0].guarantee.cards_milli: it is 5, and cards is given; give one",
        ),
    ],
)
def test_what_is_wrong_with_queues_is_said(text: str, said: str) -> None:
    assert said in queue_refusal(text)


def test_blocks_of_the_page_are_what_they_are_called() -> None:
    for kind, text in BLOCKS:
        if kind == "toml":
            tomllib.loads(text)
        else:
            assert all(json.loads(line) for line in text.splitlines())


@pytest.mark.parametrize("cards", [1 << 31, 10**20])
def test_a_number_beyond_its_field_is_refused_before_it_is_sent(cards: int) -> None:
    request = JobSpec("big", cards=cards).request()
    with pytest.raises(InputError, match=r"the options.*cards.*32 bits"):
        checked_job(request, "the options")

"""Arguments and settings of policies: what each kind takes, and what refusals say."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.reasons import Reason
from ganger.schemas.records import Argument
from ganger.streams.kernel.policies import registry
from ganger.streams.kernel.policies.hooks import Arguments, PolicyRefused
from ganger.streams.kernel.policies.registry import ActionKeys, build
from support.builders import SECOND, policy

Read = Callable[[Arguments], Any]


def reader(value: str | None) -> Arguments:
    given = () if value is None else (r.Argument("k", value),)
    return Arguments(given, "at")


INTEGER: Read = lambda a: a.integer("k", 5, -10, 10)  # noqa: E731
MILLI: Read = lambda a: a.milli("k", 500, -2000, 3000)  # noqa: E731
DURATION: Read = lambda a: a.duration("k", 7, 0, 3 * 86_400 * SECOND)  # noqa: E731
CHOICE: Read = lambda a: a.choice("k", "cell", ("cell", "node"))  # noqa: E731
YES: Read = lambda a: a.yes("k", True)  # noqa: E731
NAMES: Read = lambda a: a.names("k", ("d",))  # noqa: E731


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (INTEGER, None, 5),
        (INTEGER, "-10", -10),
        (MILLI, None, 500),
        (MILLI, "1.2", 1200),
        (MILLI, "0.001", 1),
        (MILLI, "-1.25", -1250),
        (MILLI, "-0.5", -500),
        (MILLI, "3", 3000),
        (DURATION, None, 7),
        (DURATION, "12", 12),
        (DURATION, "3m", 180 * SECOND),
        (DURATION, "1h30m", 5400 * SECOND),
        (DURATION, "1d500ms", 86_400 * SECOND + SECOND // 2),
        (CHOICE, None, "cell"),
        (CHOICE, "node", "node"),
        (YES, None, True),
        (YES, "no", False),
        (YES, "false", False),
        (YES, "1", True),
        (NAMES, None, ("d",)),
        (NAMES, "a, b ,c", ("a", "b", "c")),
    ],
)
def test_what_is_taken(read: Read, text: str | None, value: Any) -> None:
    arguments = reader(text)
    assert read(arguments) == value
    arguments.close()


@pytest.mark.parametrize(
    ("read", "text", "remedy"),
    [
        (INTEGER, "11", "an integer from -10 to 10"),
        (INTEGER, "1.0", "an integer"),
        (INTEGER, "", "an integer"),
        (MILLI, "1.2345", "a number from -2 to 3 with at most three places"),
        (MILLI, "3.001", "a number from -2 to 3"),
        (MILLI, "1.", "a number"),
        (MILLI, ".5", "a number"),
        (MILLI, "1e3", "a number"),
        (DURATION, "4d", '"1h30m"'),
        (DURATION, "-1", "in ns"),
        (DURATION, "1m1m", "in ns"),
        (DURATION, "m", "in ns"),
        (DURATION, "", "in ns"),
        (DURATION, "5 m", "in ns"),
        (DURATION, "٣m", "in ns"),
        (CHOICE, "rack", "one of: cell, node"),
        (YES, "maybe", "yes or no"),
        (NAMES, "a,,b", "each once"),
        (NAMES, "a,a", "each once"),
        (NAMES, "", "each once"),
    ],
)
def test_what_is_refused(read: Read, text: str, remedy: str) -> None:
    with pytest.raises(PolicyRefused) as refused:
        read(reader(text))
    assert (refused.value.reason, refused.value.where) == (Reason.ARGUMENT_INVALID, "at.k")
    assert (refused.value.value, remedy in refused.value.remedy) == (text, True)


def test_what_nobody_reads_is_refused_with_what_is_known() -> None:
    arguments = Arguments((r.Argument("x", "1"),), "at")
    arguments.integer("b", 0, 0, 1)
    arguments.choice("a", "u", ("u",))
    with pytest.raises(PolicyRefused) as refused:
        arguments.close()
    assert (refused.value.reason, refused.value.where) == (Reason.ARGUMENT_UNKNOWN, "at.x")
    assert refused.value.remedy == "remove it; known are: a, b"


def test_a_key_may_stand_once() -> None:
    with pytest.raises(PolicyRefused, match=r"at\.k = '2': name it once"):
        Arguments((r.Argument("k", "1"), r.Argument("k", "2")), "at")


def test_settings_of_a_policy() -> None:
    given = {
        "votes": "tiers",
        "vetoes": "tiers",
        "claim_ns": "10m",
        "stale_ns": str(SECOND),
        "requeue_base_ns": "1s",
        "requeue_max_ns": "1s",
        "requeue_limit": "3",
        "usage_half_life_ns": "7d",
        "usage_k_milli": "250",
        "min_runtime_ns": "2m",
        "estimates": "predicted",
        "expect": "estimate",
        "passes": "fitting",
        "end_at_limit": "yes",
        "overrun": "double",
        "margin": "learnt",
        "promises": "true",
    }
    settings = build(policy(settings=given)).settings
    assert (settings.votes, settings.vetoes, settings.claim_ns) == ("tiers", "tiers", 600 * SECOND)
    assert (settings.stale_ns, settings.requeue_base_ns, settings.requeue_limit) == (
        *(SECOND, SECOND, 3),
    )
    assert (settings.usage_half_life_ns, settings.usage_k_milli) == (604_800 * SECOND, 250)
    assert (settings.estimates, settings.expect, settings.passes) == (
        *("predicted", "estimate", "fitting"),
    )
    assert (settings.overrun, settings.margin) == ("double", "learnt")
    assert settings.end_at_limit and settings.promises
    plain = build(policy()).settings
    assert (plain.votes, plain.vetoes, plain.grace_ns) == ("all", "intersection", 0)
    assert (plain.claim_ns, plain.requeue_limit) == (300 * SECOND, -1)


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        ({"votes": "most"}, "settings.votes"),
        ({"grace_ns": "-1s"}, "settings.grace_ns"),
        ({"claim_ns": "0"}, "settings.claim_ns"),
        ({"requeue_base_ns": "2h"}, "settings.requeue_max_ns"),
        ({"estimates": "guessed"}, "settings.estimates"),
        ({"promises": "2"}, "settings.promises"),
    ],
)
def test_settings_that_are_refused(settings: dict[str, str], where: str) -> None:
    with pytest.raises(PolicyRefused) as refused:
        build(policy(settings=settings))
    assert (refused.value.reason, refused.value.where) == (Reason.ARGUMENT_INVALID, where)


def test_arguments_of_actions_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = ActionKeys(
        integers={"depth": (1, 0, 10)},
        millis={"factor": (1000, 0, 5000)},
        durations={"claim_ns": (SECOND, 0, 60 * SECOND)},
        choices={"search": ("cell", ("cell", "node"))},
    )
    monkeypatch.setitem(registry.ACTIONS, "allocate", keys)
    given = (r.Argument("depth", "4"), r.Argument("factor", "1.5"), r.Argument("search", "node"))
    record = replace(policy(), actions=(r.ActionConfig("allocate", given),))
    compiled = build(record)
    assert compiled.numbers == {
        "allocate.depth": 4,
        "allocate.factor": 1500,
        "allocate.claim_ns": SECOND,
    }
    assert compiled.words == {"allocate.search": "node"}
    wrong = replace(record, actions=(r.ActionConfig("allocate", (r.Argument("depth", "11"),)),))
    with pytest.raises(PolicyRefused, match=r"actions\[0\].depth = '11'"):
        build(wrong)


def test_only_rules_that_look_at_nodes_make_a_policy_more_than_plain() -> None:
    assert build(policy()).is_plain
    assert build(policy("spread", "gang")).is_plain


def test_a_count_that_may_be_all_says_so() -> None:
    reader = Arguments((Argument("reserve", "some"),), "actions[0]")
    with pytest.raises(PolicyRefused, match='or "all"') as refused:
        reader.count("reserve", 0, 0, 9)
    assert refused.value.where == "actions[0].reserve"

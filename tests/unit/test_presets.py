"""Policies from files: presets, keys, values, and errors that name them."""

from pathlib import Path

import pytest

from ganger.schemas.records import Argument
from ganger.streams.kernel.policies.registry import build
from ganger.streams.presets.loader import (
    DEFAULT,
    FILE_BYTES_MAX,
    PolicyError,
    load_policy,
    parse_policy,
    preset_names,
)

LEAST = 'policy = "p"\nactions = [{ action = "allocate" }]\n'


@pytest.mark.parametrize("name", preset_names())
def test_presets_compile_and_bear_their_name(name: str) -> None:
    record = load_policy(name)
    assert (record.policy, record.time_ns, record.event_id) == (name, 0, "")
    assert build(record).actions


def test_the_default_places_then_takes_back_then_ends_what_is_broken() -> None:
    actions = ("enqueue", "allocate", "backfill", "reclaim", "preempt", "stale")
    assert build(load_policy()).actions == build(load_policy("spread")).actions == actions


def test_the_default_admits_up_to_one_and_a_fifth() -> None:
    assert load_policy() == load_policy(DEFAULT)
    configs = {p.policy: p for tier in load_policy().tiers for p in tier.policies}
    assert configs["overcommit"].arguments == (Argument("factor_milli", "1200"),)


def test_spread_spreads_and_default_packs() -> None:
    assert build(load_policy("spread")).spread
    assert not build(load_policy("default")).spread


def test_a_file_is_found_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(LEAST + '[[priority_classes]]\nname = "high"\npriority = 7\n')
    record = load_policy(path)
    assert record == load_policy(str(path))
    assert [(c.name, c.priority, c.preempts) for c in record.priority_classes] == [
        ("high", 7, True)
    ]


def test_the_order_of_keys_does_not_matter() -> None:
    a = "[settings]\nttl_ns = 1\nstart_timeout_ns = 1_000_000_000\n"
    b = "[settings]\nstart_timeout_ns = 1000000000\nttl_ns = 1\n"
    assert parse_policy(LEAST + a, "a") == parse_policy(LEAST + b, "b")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("policy", ["f.toml: this is no TOML", "see the preset default"]),
        ('policy = "p"', ["f.toml: actions: it is missing", "the keys are policy, actions"]),
        ("policy = 1\nactions = []", ["f.toml: policy: it is 1; give a text in quotes"]),
        ('policy = ""\nactions = []', ["f.toml: policy: it is '' of 0", "give a name of 1 to 253"]),
        (LEAST + "speed = 1", ["f.toml: speed: there is no such key", "policy, actions, tiers"]),
        (
            'policy = "p"\nactions = [{ action = "dance" }]',
            ["actions[0]: it is 'dance'", "enqueue, allocate, backfill"],
        ),
        (
            LEAST + '[[tiers]]\npolicies = [{ policy = "gnag" }]',
            ["tiers[0].policies[0]: it is 'gnag'", "use one of", "gang"],
        ),
        (
            LEAST + '[[tiers]]\npolicies = [{ policy = "gang", hoks = [] }]',
            [
                "tiers[0].policies[0].hoks",
                "did you mean hooks? The keys are policy, hooks, arguments",
            ],
        ),
        (
            LEAST + '[[tiers]]\npolicies = [{ policy = "gang", hooks = ["x"] }]',
            ["tiers[0].policies[0].hooks: it is 'x'", "job_order"],
        ),
        (LEAST + "[settings]\nttl_ns = -1", ["settings.ttl_ns: it is '-1'", "give an integer"]),
        (LEAST + "[settings]\nttl_ns = 1.5", ["settings.ttl_ns: it is 1.5", "a whole number"]),
        (LEAST + "[settings]\nttl_ns = true", ["settings.ttl_ns: it is 'true'"]),
        (LEAST + "[settings]\nttl = 1", ["settings.ttl", "known are"]),
    ],
)
def test_errors_name_key_value_and_remedy(text: str, words: list[str]) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_policy(text, "f.toml")
    for word in words:
        assert word in str(caught.value)


def test_neither_preset_nor_file() -> None:
    with pytest.raises(PolicyError, match=r"policy: 'nope' is no preset.*give one of default, "):
        load_policy("nope")


def test_files_that_are_no_policies(tmp_path: Path) -> None:
    big, binary = tmp_path / "big.toml", tmp_path / "binary.toml"
    big.write_bytes(b"#" * (FILE_BYTES_MAX + 1))
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(PolicyError, match="larger than"):
        load_policy(big)
    with pytest.raises(PolicyError, match="not UTF-8"):
        load_policy(binary)

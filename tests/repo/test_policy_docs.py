"""The page of policies names all there is, and nothing else."""

import re
from pathlib import Path
from types import ModuleType

import pytest

from ganger.streams.kernel.policies.registry import ACTIONS, CHOICES, DURATIONS, POLICIES
from ganger.streams.presets.loader import preset_names

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "policies.md").read_text()


def section(title: str) -> set[str]:
    """What stands in backticks in the first two columns of a section's table."""
    text = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    rows = [line.split(" | ")[:2] for line in text.splitlines() if line.startswith("| ")]
    return {word for row in rows for cell in row for word in re.findall(r"`([a-z_-]+)", cell)}


def arguments() -> set[str]:
    return {
        name
        for keys in ACTIONS.values()
        for kind in (
            keys.integers,
            keys.millis,
            keys.durations,
            keys.choices,
            keys.counts,
            keys.several,
            keys.switches,
        )
        for name in kind
    }


@pytest.mark.parametrize(
    ("title", "there_are"),
    [
        ("Presets", set(preset_names())),
        ("Actions", set(ACTIONS) | arguments()),
        ("Settings", {*DURATIONS, *CHOICES}),
    ],
)
def test_all_are_named(title: str, there_are: set[str]) -> None:
    assert there_are <= section(title)


def test_no_rule_is_missing_or_invented() -> None:
    text = PAGE.partition("## Rules\n")[2].partition("\n## ")[0]
    rows = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| `")]
    assert {word for row in rows for word in re.findall(r"`([a-z_]+)`", row)} == {
        name
        for name, rule in POLICIES.items()
        if isinstance(rule, ModuleType)  # other tests add probes, which are none
    }

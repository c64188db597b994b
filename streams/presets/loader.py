"""Policies as files: the presets that come with ganger, and those of users.

A file is the policy record as TOML; `default.toml` beside this module shows every kind of key:

    policy = "mine"                             # needed: its name in decisions' reports
    actions = [{ action = "allocate" }]         # needed: stages of a cycle, in order
    tiers = [{ policies = [{ policy = "gang", hooks = ["job_order"], arguments = { k = 1 } }] }]
    priority_classes = [{ name = "high", priority = 100, preempts = true }]
    settings = { ttl_ns = 0 }

Values of arguments and settings are integers, text or booleans. Equal content gives an equal
record, whatever the order of keys in a table.
"""

import os
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ganger.schemas.records import (
    ActionConfig,
    Argument,
    PolicyConfig,
    PolicyConfigured,
    PolicyTier,
    PriorityClass,
)
from ganger.streams.kernel.policies.hooks import PolicyRefused
from ganger.streams.kernel.policies.registry import build
from ganger.streams.presets.wording import defect_of, value_text
from ganger.streams.structure import NAME_CHARS_MAX, name_defect

DEFAULT = "default"

FILE_BYTES_MAX = 1 << 20


class PolicyError(ValueError):
    """A policy cannot be loaded. The message names place, value and remedy.

    Attributes:
        place: the file, with the key where there is one.
    """

    def __init__(self, place: str, problem: str, remedy: str) -> None:
        super().__init__(f"{place}: {problem}; {remedy}")
        self.place = place


class _Action(Struct, frozen=True, forbid_unknown_fields=True):
    action: str
    arguments: dict[str, Any] = {}


class _Policy(Struct, frozen=True, forbid_unknown_fields=True):
    policy: str
    hooks: tuple[str, ...] = ()
    arguments: dict[str, Any] = {}


class _Tier(Struct, frozen=True, forbid_unknown_fields=True):
    policies: tuple[_Policy, ...] = ()


class _Class(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    priority: int
    preempts: bool = True
    critical: bool = False


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    policy: str
    actions: tuple[_Action, ...]
    tiers: tuple[_Tier, ...] = ()
    priority_classes: tuple[_Class, ...] = ()
    settings: dict[str, Any] = {}


_KEYS = {
    "": _File.__struct_fields__,
    "actions": _Action.__struct_fields__,
    "tiers": _Tier.__struct_fields__,
    "policies": _Policy.__struct_fields__,
    "priority_classes": _Class.__struct_fields__,
}


def preset_names() -> list[str]:
    """The presets there are, ascending."""
    folder = files("ganger.streams") / "presets"
    names = (entry.name for entry in folder.iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def load_policy(name_or_path: str | os.PathLike[str] = DEFAULT) -> PolicyConfigured:
    """The policy of this name, or in this file; `time_ns` is 0 and `event_id` empty.

    A preset's name is tried first; write `./name` for a file called like one.

    Raises:
        PolicyError: there is no such preset or file, or it holds something wrong; names the key.
    """
    place = os.fspath(name_or_path)
    names = preset_names()
    if place in names:
        text = (files("ganger.streams") / "presets" / f"{place}.toml").read_text(encoding="utf-8")
        return parse_policy(text, f"preset {place}")
    try:
        with Path(place).open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise PolicyError(
            "policy",
            f"{place!r} is no preset, and no file that can be read ({error.strerror})",
            f"give one of {', '.join(names)}, or the path of a TOML file",
        ) from error
    if len(data) > FILE_BYTES_MAX:
        raise PolicyError(place, f"larger than {FILE_BYTES_MAX} bytes", "give a policy in TOML")
    try:
        return parse_policy(data.decode(), place)
    except UnicodeDecodeError as error:
        raise PolicyError(place, f"not UTF-8 text ({error})", "save it as UTF-8") from error


def parse_policy(text: str, place: str) -> PolicyConfigured:
    """The policy that a TOML text describes, proved to compile.

    Args:
        text: the whole file.
        place: how errors name the file.

    Raises:
        PolicyError: names the key, its value and the remedy.
    """
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise PolicyError(
            place, f"this is no TOML ({error})", f"see the preset {DEFAULT} for an example"
        ) from error
    try:
        file = msgspec.convert(document, _File)
    except msgspec.ValidationError as error:
        raise _key_error(place, document, str(error)) from error
    if name_defect("policy", file.policy):
        raise PolicyError(
            f"{place}: policy",
            f"it is {file.policy[:40]!r} of {len(file.policy)} characters",
            f"give a name of 1 to {NAME_CHARS_MAX}",
        )
    record = _record(file, place)
    try:
        build(record)
    except PolicyRefused as error:
        raise PolicyError(
            f"{place}: {error.where}", f"it is {error.value!r}", error.remedy
        ) from error
    return record


def _record(file: _File, place: str) -> PolicyConfigured:
    return PolicyConfigured(
        0,
        "",
        None,
        file.policy,
        tuple(
            ActionConfig(action.action, _arguments(action.arguments, f"{place}: actions[{index}]"))
            for index, action in enumerate(file.actions)
        ),
        tuple(
            PolicyTier(
                tuple(
                    PolicyConfig(
                        config.policy,
                        config.hooks,
                        _arguments(config.arguments, f"{place}: tiers[{index}].{config.policy}"),
                    )
                    for config in tier.policies
                )
            )
            for index, tier in enumerate(file.tiers)
        ),
        tuple(
            PriorityClass(c.name, c.priority, c.preempts, c.critical) for c in file.priority_classes
        ),
        _arguments(file.settings, f"{place}: settings"),
    )


def _arguments(values: dict[str, Any], where: str) -> tuple[Argument, ...]:
    """Arguments ascending by key, values as text: 1200, true, or the text itself."""
    arguments = []
    for key, value in sorted(values.items()):
        if not isinstance(value, int | str):
            raise PolicyError(
                f"{where}.{key}",
                f"it is {value_text(value)}",
                "give a whole number, a text, true or false",
            )
        text = str(value).lower() if isinstance(value, bool) else str(value)
        arguments.append(Argument(key, text))
    return tuple(arguments)


def _key_error(place: str, document: dict[str, Any], message: str) -> PolicyError:
    """The message of msgspec with key, value and remedy told apart."""
    defect = defect_of(document, message, _KEYS)
    remedy = defect.remedy or f"see the preset {DEFAULT} for an example"
    return PolicyError(f"{place}: {defect.key or 'top level'}", defect.problem, remedy)

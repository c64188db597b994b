"""What is wrong with a TOML document, in the words of whoever wrote it: key, value, remedy.

msgspec checks documents against types and names the place and the types; here its message is taken
apart and said without them.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

_AT = re.compile(r" - at `\$\.?([^`]*)`$")
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_UNKNOWN = re.compile(r"unknown field `([^`]*)`")
_MISSING = re.compile(r"missing required field `([^`]*)`")
_EXPECTED = re.compile(r"Expected `([a-z]+)`(?: ([<>]=) (-?\d+))?")

_KINDS = {
    "int": "a whole number",
    "bool": "true or false",
    "str": "a text in quotes",
    "array": "a list",
    "object": "a table",
}
_BOUNDS = {">=": "at least", "<=": "at most"}


class Defect(NamedTuple):
    """One thing that is wrong.

    Attributes:
        key: where, as `nodes[0].at_s`; empty for the whole document.
        problem: what stands there.
        remedy: what should; empty where the message of msgspec says it and has no other words.
    """

    key: str
    problem: str
    remedy: str


def defect_of(
    document: dict[str, Any], message: str, keys: Mapping[str, tuple[str, ...]]
) -> Defect:
    """A message of `msgspec.convert` on a document, in other words.

    Args:
        document: what was converted.
        message: of the `ValidationError`.
        keys: the keys that tables may have, by the table's own key; those of the document under "".
    """
    at = _AT.search(message)
    where = at[1] if at else ""
    problem = message[: at.start()] if at else message
    tables = [name for name, _ in _STEP.findall(where) if name]
    known = keys.get(tables[-1] if tables else "", ())
    listed = f"the keys are {', '.join(known)}"
    unknown = _UNKNOWN.search(problem)
    if unknown:
        near = get_close_matches(unknown[1], known, 1)
        remedy = f"did you mean {near[0]}? {listed[0].upper()}{listed[1:]}" if near else listed
        return Defect(_below(where, unknown[1]), "there is no such key", remedy)
    missing = _MISSING.search(problem)
    if missing:
        return Defect(_below(where, missing[1]), "it is missing", listed)
    value = _value_at(document, where)
    expected = _EXPECTED.match(problem)
    if expected is None:
        return Defect(where, f"it is {value_text(value)} ({problem})", "")
    kind, comparison, bound = expected.groups()
    limit = f", {_BOUNDS[comparison]} {bound}" if comparison else ""
    return Defect(where, f"it is {value_text(value)}", f"give {_KINDS.get(kind, kind)}{limit}")


def value_text(value: object) -> str:
    """A value as TOML has it, tables by their name alone."""
    match value:
        case bool():
            return str(value).lower()
        case dict():
            return "a table"
        case str():
            return repr(value)
        case _:
            return str(value)


def _below(where: str, key: str) -> str:
    return f"{where}.{key}".lstrip(".")


def _value_at(document: dict[str, Any], where: str) -> object:
    value: Any = document
    for name, number in _STEP.findall(where):
        if number:
            value = value[int(number)]
        elif isinstance(value, dict):
            value = value.get(name)
    return value

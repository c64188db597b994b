"""The published cases in other forms: other names, order, scale, and things that do not matter.

What a case asks must come out the same. The cases lie beside the repository; without them the
tests are skipped.
"""

import random
from collections.abc import Callable, Mapping
from copy import deepcopy
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from conformance.cases import Case, load
from conformance.kinds import RUNNERS
from conformance.report import run

FACTS = Path(__file__).resolve().parents[3] / "shared" / "conformance"
PEERS = ("volcano", "kueue", "kai")

Form = Callable[[str, dict[str, Any]], dict[str, Any]]


def keys_shuffled(peer: str, body: dict[str, Any]) -> dict[str, Any]:
    """Objects with their fields in another order."""
    shuffled = _keys(body, random.Random(7))
    assert isinstance(shuffled, dict)
    return shuffled


def _keys(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict):
        items = list(value.items())
        chance.shuffle(items)
        return {key: _keys(part, chance) for key, part in items}
    return [_keys(part, chance) for part in value] if isinstance(value, list) else value


def lists_turned(peer: str, body: dict[str, Any]) -> dict[str, Any]:
    """Nodes, queues, cohorts and jobs named in the opposite order."""
    if body["kind"] == "dominant_share":
        return body  # a hypothetical request is that of the first queue
    turned = {key: body[key][::-1] for key in ("nodes", "queues", "cohorts", "jobs") if key in body}
    return body | turned


def renamed(peer: str, body: dict[str, Any]) -> dict[str, Any]:
    """Everything that has a name called otherwise, the order of names kept."""
    names: dict[str, str] = {}

    def collect(value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("name"), str):
                names[value["name"]] = f"else.{value['name']}"
            collect(list(value.values()))
        elif isinstance(value, list):
            for part in value:
                collect(part)

    def said(value: Any) -> Any:
        if isinstance(value, dict):
            return {names.get(key, key): said(part) for key, part in value.items()}
        if isinstance(value, list):
            return [said(part) for part in value]
        return names.get(value, value) if isinstance(value, str) else value

    own = ("id", "source", "kind", "title", "features")
    rest = {key: part for key, part in body.items() if key not in own}
    collect(rest)
    return {**{key: body[key] for key in own}, **said(rest)}


def scaled(peer: str, body: dict[str, Any]) -> dict[str, Any]:
    """Eight times as much cpu and memory everywhere; weights of resources stay."""
    return {key: part if key == "policy" else _times(part, False) for key, part in body.items()}


def _times(value: Any, is_amount: bool) -> Any:
    if isinstance(value, dict):
        return {
            key: _times(part, is_amount or key in ("cpu_m", "memory"))
            for key, part in value.items()
        }
    if isinstance(value, list):
        return [_times(part, is_amount) for part in value]
    is_number = isinstance(value, int | Fraction) and not isinstance(value, bool)
    return value * 8 if is_amount and is_number and value > 0 else value


def with_idle_queue(peer: str, body: dict[str, Any]) -> dict[str, Any]:
    """One queue more, which has no job and is due nothing."""
    if body["kind"] not in ("cycle", "rounds", "steps", "admission_cycle", "preempt_targets"):
        return body
    if not body["queues"]:
        return body
    model = next((q for q in body["queues"] if q.get("parent") is not None), body["queues"][0])
    idle = {**deepcopy(model), "name": "zzz"}
    if peer == "volcano":
        if "share_path" in model:
            return body
        idle = {"name": "zzz", "weight": 1, "state": "open"}
        idle |= {"parent": model["parent"]} if "parent" in model else {}
    elif peer == "kueue":
        idle["cohort"] = None
    else:
        idle["quota"] = {"gpu": 0, "cpu_m": 0, "memory": 0}
    return body | {"queues": [*body["queues"], idle]}


def with_empty_node(peer: str, body: dict[str, Any]) -> dict[str, Any]:
    """One node more, which has nothing to offer."""
    if body["kind"] not in ("cycle", "rounds", "steps") or not body["nodes"]:
        return body
    nothing = dict.fromkeys(body["nodes"][0]["capacity"], 0)
    return body | {"nodes": [*body["nodes"], {"name": "zzz", "capacity": nothing}]}


FORMS: Mapping[str, Form] = {
    "keys": keys_shuffled,
    "lists": lists_turned,
    "names": renamed,
    "scale": scaled,
    "idle queue": with_idle_queue,
    "empty node": with_empty_node,
}


def outcomes(cases: list[Case]) -> dict[str, str]:
    """How each case came out, by id."""
    report = run(cases, RUNNERS, {})
    out = {case.id: "passed" for case in cases}
    out |= {entry["id"]: "failed" for entry in report.failed}
    return out | {entry["id"]: "unsupported" for entry in report.unsupported}


@pytest.mark.parametrize("peer", PEERS)
def test_what_does_not_matter_does_not_matter(peer: str) -> None:
    path = FACTS / f"{peer}.json"
    if not path.exists():
        pytest.skip(f"no published cases: {path} is not there")
    cases = load(path)
    plain = outcomes(cases)
    if outcomes(told(peer, cases, *FORMS.values())) == plain:
        return
    for name, form in FORMS.items():  # which of them is it?
        other = outcomes(told(peer, cases, form))
        differs = {i: (plain[i], other[i]) for i in plain if plain[i] != other[i]}
        assert not differs, f"{name}: {differs}"
    pytest.fail(f"cases of {peer} differ under all forms together")


def told(peer: str, cases: list[Case], *forms: Form) -> list[Case]:
    """The cases in other forms, one over the other."""
    made = []
    for case in cases:
        body = dict(case.body)
        for form in forms:
            body = form(peer, body)
        made.append(Case(case.id, case.kind, case.peer, body))
    return made

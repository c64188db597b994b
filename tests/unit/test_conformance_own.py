"""Own cases of the kinds that are published, for rules that the published ones do not touch."""

from pathlib import Path

import pytest

import conformance
from conformance.cases import load
from conformance.kinds import RUNNERS
from conformance.report import run

OWN = sorted((Path(conformance.__path__[0]) / "own").glob("*.json"))


def test_there_are_some_of_every_peer() -> None:
    assert [path.stem for path in OWN] == ["kai", "kueue", "volcano"]


@pytest.mark.parametrize("path", OWN, ids=lambda path: str(path.stem))
def test_each_passes(path: Path) -> None:
    cases = load(path)
    report = run(cases, RUNNERS, {})
    assert [*report.failed, *report.unsupported] == []
    assert report.passed == len(cases) > 15


@pytest.mark.parametrize("path", OWN, ids=lambda path: str(path.stem))
def test_each_says_what_it_is_for(path: Path) -> None:
    cases = load(path)
    assert len({case.id for case in cases}) == len(cases)
    for case in cases:
        assert case.peer == path.stem, case.id
        assert len(case.body["title"]) > 8 and case.body["source"].startswith("ganger/"), case.id

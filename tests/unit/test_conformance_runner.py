"""The conformance runner: reading cases, counting, choosing, and its word to the shell."""

import json
from fractions import Fraction
from pathlib import Path

import pytest

from conformance import command
from conformance.cases import Body, Mismatch, Unsupported, load, peer_of, same, scale_of, whole
from conformance.kinds import RUNNERS
from conformance.report import Report, read_deviations, run

FACTS = Path(__file__).resolve().parents[3] / "shared" / "conformance"

PASSED = {"kai": 253, "kueue": 178, "volcano": 155}
"""Cases of each file that pass; to be raised with every one that comes to."""


def fact(name: str, kind: str, **body: object) -> dict[str, object]:
    return {"id": name, "kind": kind, "source": "o/kueue@1 x", "expect": {}, **body}


def written(tmp_path: Path, *facts: dict[str, object]) -> Path:
    path = tmp_path / "facts.json"
    path.write_text(json.dumps(facts))
    return path


def policy_fact(name: str, allowed: bool) -> dict[str, object]:
    return fact(
        name,
        "preempt_policy",
        rule="lower_priority",
        preemptor={"priority": 2},
        candidate={"priority": 1},
        expect={"allowed": allowed},
    )


def test_fractions_are_read_exactly(tmp_path: Path) -> None:
    path = written(tmp_path, fact("a", "k", total=0.1))
    [case] = load(path)
    assert case.body["total"] == Fraction(1, 10)
    assert (case.id, case.kind, case.peer) == ("a", "k", "kueue")


@pytest.mark.parametrize("text", ["{", "[1]", '[{"id": "a"}]', "7"])
def test_what_is_no_array_of_cases_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"broken\.json: not an array of cases"):
        load(path)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"kind": None}, r"broken\.json: .*: a: kind = None, not a text"),
        ({"source": 7}, r"broken\.json: .*: a: source = 7, not a text"),
        ({"id": 3}, r"broken\.json: .*: 3: id = 3, not a text"),
        ({"expect": []}, r"broken\.json: .*: a: expect = \[\], not an object"),
    ],
)
def test_a_broken_case_is_named_with_its_field(
    tmp_path: Path, change: dict[str, object], why: str
) -> None:
    path = tmp_path / "broken.json"
    path.write_text(json.dumps([fact("a", "k") | change]))
    with pytest.raises(ValueError, match=why):
        load(path)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"fashion": 1}, "fields ['fashion'] of the case"),
        ({"preemptor": {"priority": 2, "mood": 1}}, "fields ['mood'] of preemptor"),
        ({"expect": {"allowed": True, "soon": 1}}, "fields ['soon'] of expect"),
    ],
)
def test_no_field_is_passed_over(tmp_path: Path, change: dict[str, object], why: str) -> None:
    path = written(tmp_path, policy_fact("a", True) | change)
    report = run(load(path), RUNNERS, {})
    assert [entry["why"] for entry in report.unsupported] == [why]


def test_the_peer_is_told_by_the_source() -> None:
    assert peer_of("kubernetes-sigs/kueue@ff a/b.go T[0]") == "kueue"
    assert peer_of("NVIDIA/KAI-Scheduler@72 x") == "kai"
    assert peer_of("volcano-sh/volcano@ed x") == "volcano"


def test_scales_make_numbers_whole() -> None:
    values = {"a": [Fraction(1, 4), 3], "b": {"c": Fraction(1, 6), "d": True}}
    scale = scale_of(values)
    assert scale == 12
    assert whole(Fraction(1, 6), scale) == 2
    with pytest.raises(Unsupported, match="no multiple of 1/1"):
        whole(Fraction(1, 2))


def passes(body: Body) -> None:
    same("x", body["x"], 1)


def gives_up(body: Body) -> None:
    raise Unsupported("too hard")


def breaks(body: Body) -> None:
    raise KeyError(body["id"])


def test_every_case_is_counted_once(tmp_path: Path) -> None:
    cases = load(
        written(
            tmp_path,
            fact("good", "p", x=1),
            fact("bad", "p", x=2),
            fact("chosen", "p", x=3),
            fact("hard", "u"),
            fact("broken", "b"),
            fact("strange", "s"),
        )
    )
    runners = {("kueue", "p"): passes, ("kueue", "u"): gives_up, ("kueue", "b"): breaks}
    report = run(cases, runners, {"chosen": "we count otherwise"})
    result = report.as_json()
    assert (result["total"], result["passed"]) == (6, 1)
    assert result["failed"] == [
        {"id": "bad", "kind": "p", "why": "x: got 2, expected 1"},
        {
            "id": "chosen",
            "kind": "p",
            "why": "x: got 3, expected 1",
            "deviation": "we count otherwise",
        },
        {
            "id": "broken",
            "kind": "b",
            "why": "it lacks 'broken': a field, or a name that others use",
        },
    ]
    assert [entry["why"] for entry in result["unsupported"]] == [
        "too hard",
        "no runner for s of kueue",
    ]
    assert result["by_kind"]["p"] == {"total": 3, "passed": 1, "failed": 2, "unsupported": 0}
    assert [entry["id"] for entry in report.unexplained()] == ["bad", "broken", "hard", "strange"]


def test_a_deviation_needs_its_reason(tmp_path: Path) -> None:
    path = tmp_path / "deviations.toml"
    path.write_text('[deviations]\nx = " "\n')
    with pytest.raises(ValueError, match=r"deviations\.x"):
        read_deviations(path)
    path.write_text('[deviations]\nx = "because"\n')
    assert read_deviations(path) == {"x": "because"}


def test_the_command_chooses_writes_and_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, policy_fact("yes", True), policy_fact("no", False))
    out = tmp_path / "out.json"
    assert command.main([str(path), "--id", "yes", "--json", str(out)]) == 0
    assert json.loads(out.read_text())["total"] == 1
    assert command.main([str(path), "--kind", "preempt_policy"]) == 1
    shown = capsys.readouterr().out
    assert "failed: no (preempt_policy): allowed: got True, expected False" in shown
    assert command.main([str(path), "--kind", "another"]) == 0


def test_a_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main([str(tmp_path / "none.json")])
    assert "none.json" in capsys.readouterr().err


def test_the_screen_shows_some_and_counts_the_rest() -> None:
    report = Report()
    for number in range(command.SHOWN_MAX + 3):
        report.failed.append({"id": f"c{number}", "kind": "k", "why": "w"})
    assert command.lines(report)[-1] == "... and 3 more failed; --json has them"


@pytest.mark.parametrize(("name", "least"), sorted(PASSED.items()))
def test_no_fewer_published_facts_hold_than_before(name: str, least: int) -> None:
    path = FACTS / f"{name}.json"
    if not path.exists():
        pytest.skip(f"the facts ../shared/conformance/{name}.json are not here")
    report = run(load(path), RUNNERS, read_deviations())
    assert report.passed >= least, report.as_json()["failed"]


def test_a_mismatch_says_both_sides() -> None:
    with pytest.raises(Mismatch, match=r"share: got 0\.5, expected \[1, 2\]"):
        same("share", Fraction(1, 2), (1, 2))

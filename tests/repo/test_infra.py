"""What infra/ says of the rest holds: series of dashboard and alerts, commands, files, ports."""

import json
import re
from collections.abc import Iterator

import click
import pytest
from prometheus_client import Metric

from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, Tier
from ganger.schemas.reasons import Reason
from ganger.services import cli
from ganger.streams.metrics import Metrics
from support.source_tree import ROOT

INFRA = ROOT / "infra"
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "info": ("_info",)}
TARGET_LABELS = {"job", "instance"}  # Prometheus' own, on every series
WORDS = {"by", "without", "on", "ignoring", "group_left", "group_right"}


def collected() -> list[Metric]:
    """Every metric of a worker, each with at least one sample where it has labels."""
    tail = (DecisionKind.ADMIT, "j", "", -1, 0, "", (), 0, 0, Tier.MAIN, 0, "")
    admitted = Decision("c", 1, 0, 0, *tail, Reason.WITHIN_LIMITS, 0, 0, 0, b"", 0, 0, 0, b"")
    metrics = Metrics("1")
    metrics.applied("c", 1)
    metrics.ledger_behind("c", 1)
    metrics.cycled("c", 1.0)
    metrics.decided("c", [admitted])
    metrics.waiting("c", {"q": 1})
    metrics.cards("c", {})
    metrics.gaps("c", {"completion": 990})
    metrics.restored("c", 1.0)
    metrics.tables_behind("c", 1.0)
    metrics.snapshotted("c", 1, 1)
    metrics.unsaved("c")
    metrics.received("t", 1)
    metrics.input_behind("t", 1)
    metrics.refused("t", "truncated")
    return list(metrics.registry.collect())


@pytest.fixture(scope="module")
def series() -> dict[str, set[str]]:
    """Every series of a worker, with its labels."""
    found: dict[str, set[str]] = {"up": set(TARGET_LABELS)}
    for metric in collected():
        for suffix in SUFFIXES.get(metric.type, ("",)):
            samples = [s for s in metric.samples if s.name == metric.name + suffix]
            assert samples, f"nothing makes {metric.name}{suffix}: call its method above"
            found[metric.name + suffix] = set(samples[0].labels) | TARGET_LABELS
    return found


def series_in(expression: str) -> set[str]:
    """The names of series in an expression: what is no function, no word and no label."""
    bare = re.sub(r'"[^"]*"|\{[^}]*\}|\[[^]]*\]', "", expression)
    bare = re.sub(r"\b(by|without|on|ignoring)\s*\([^)]*\)", "", bare)
    return set(re.findall(r"\b[a-z_:][a-z0-9_:]*\b(?!\s*\()", bare)) - WORDS


def labels_in(expression: str) -> set[str]:
    """The names of labels that an expression selects or groups by."""
    grouped = re.findall(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)", expression)
    selected = re.findall(r"\{([^}]*)\}", expression)
    names = {name.strip() for names in grouped for name in names.split(",")}
    return names | {name for part in selected for name in re.findall(r"(\w+)\s*[=!]", part)}


def dashboard_expressions() -> Iterator[tuple[str, str, str]]:
    """(panel, expression, legend) of every query of the dashboard, and of its variables."""
    board = json.loads((INFRA / "grafana/dashboards/ganger.json").read_text(encoding="utf-8"))
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"], target["legendFormat"]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            name, label = re.findall(r"\w+", variable["query"]["query"])[1:]
            yield variable["name"], name, f"{{{{{label}}}}}"


def alert_expressions() -> Iterator[tuple[str, str, str]]:
    """(alert, expression, its texts) of every alert."""
    text = (INFRA / "prometheus/alerts.yml").read_text(encoding="utf-8")
    for block in text.split("- alert: ")[1:]:
        expression = re.search(r"^ +expr: (.+)$", block, re.MULTILINE)
        assert expression, f"no expression on one line in {block}"
        yield block.split("\n", 1)[0], expression[1], "\n".join(block.split("\n")[1:])


def shown_labels(text: str) -> set[str]:
    return set(re.findall(r"\{\{ *(?:\$labels\.)?(\w+) *\}\}", text)) - {"value"}


EXPRESSIONS = [*dashboard_expressions(), *alert_expressions()]


@pytest.mark.parametrize(("name", "expression", "shown"), EXPRESSIONS)
def test_series_and_labels_exist(
    name: str, expression: str, shown: str, series: dict[str, set[str]]
) -> None:
    used = series_in(expression)
    assert used and used <= series.keys(), f"{name}: no series {used - series.keys()}"
    labels = set().union(*(series[one] for one in used))
    wrong = (labels_in(expression) | shown_labels(shown)) - labels
    assert not wrong, f"{name}: no label {wrong} on {used}"


def test_every_series_of_ganger_is_shown(series: dict[str, set[str]]) -> None:
    """What no one looks at need not be kept; sums and counts of histograms come with buckets."""
    shown = set().union(*(series_in(expression) for _, expression, _ in EXPRESSIONS))
    ours = {n for n in series if n.startswith("ganger_") and not n.endswith(("_sum", "_count"))}
    assert ours - shown == set()


def test_panels_do_not_overlap() -> None:
    board = json.loads((INFRA / "grafana/dashboards/ganger.json").read_text(encoding="utf-8"))
    taken: dict[tuple[int, int], str] = {}
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))


def compose() -> str:
    return (INFRA / "compose.yaml").read_text(encoding="utf-8")


def test_compose_publishes_on_loopback_alone() -> None:
    published = re.findall(r'^ +- "([^"]*:\d+)"$', compose(), re.MULTILINE)
    assert len(published) == 3
    assert [port for port in published if not port.startswith("127.0.0.1:")] == []
    assert "\t" not in compose()


def test_compose_names_versions_of_images() -> None:
    images = set(re.findall(r"^ +image: (\S+)$", compose(), re.MULTILINE)) - {"ganger"}
    assert {image.partition(":")[0] for image in images} == {
        "apache/kafka",
        "grafana/grafana",
        "prom/prometheus",
    }
    assert [image for image in images if not re.search(r":v?\d+\.\d+\.\d+$", image)] == []


def test_compose_mounts_files_that_exist() -> None:
    mounts = re.findall(r"^ +- (\./[^:]+):", compose(), re.MULTILINE)
    assert len(mounts) == 4
    assert [mount for mount in mounts if not (INFRA / mount).exists()] == []
    assert (ROOT / "infra/Dockerfile").is_file() and "dockerfile: infra/Dockerfile" in compose()


def test_dockerfile_copies_what_exists() -> None:
    lines = (INFRA / "Dockerfile").read_text(encoding="utf-8").splitlines()
    copies = [line.split()[1:-1] for line in lines if line.startswith("COPY ") and "--" not in line]
    names = [name for copy in copies for name in copy]
    assert [name for name in names if not (ROOT / name).exists()] == []
    allowed = (INFRA / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert {f"!{name}" for name in names} <= set(allowed)


@pytest.mark.parametrize("arguments", re.findall(r"^ +command: (\[.*\])$", compose(), re.MULTILINE))
def test_commands_of_compose_exist(arguments: str) -> None:
    command: click.Command = cli.main
    words = json.loads(arguments)
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, f"no command {words[0]}"
        command = found
        del words[0]
    context = command.make_context(command.name, [*words], resilient_parsing=False)
    context.close()


@pytest.mark.parametrize(
    ("expression", "used", "labels"),
    [
        ("sum by (a, b) (rate(x_total[5m])) > 1", {"x_total"}, {"a", "b"}),
        ('x{a="y", b!~"z"} / on (c) group_left w', {"x", "w"}, {"a", "b", "c"}),
        ("histogram_quantile(0.99, sum by (le) (rate(x_bucket[5m])))", {"x_bucket"}, {"le"}),
    ],
)
def test_expressions_are_read_right(expression: str, used: set[str], labels: set[str]) -> None:
    assert series_in(expression) == used
    assert labels_in(expression) == labels
    assert shown_labels("{{a}} {{ $labels.b }} {{ $value }}") == {"a", "b"}

"""The drawing of a run."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ganger.replay.attempts import Stretch
from ganger.replay.cluster import parse_nodes
from ganger.replay.gantt import HEIGHT, RECTS_MAX, WIDTH, Chart
from ganger.replay.simulate import MEMORY, run
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, Tier
from ganger.schemas.reasons import Reason
from ganger.schemas.records import CardSpan
from ganger.services.cli import main
from ganger.streams.presets.loader import load_policy
from support.small_runs import random_trace

SVG = "{http://www.w3.org/2000/svg}"
LEFT, TOP = 90, 46


def decision(
    kind: DecisionKind,
    job: str,
    cards: tuple[CardSpan, ...],
    node: str = "node-0001",
    tier: Tier = Tier.MAIN,
    **more: Any,
) -> Decision:
    fields = {"cause": 0, "asked": 0} | more
    cause, asked = fields.pop("cause"), fields.pop("asked")
    return Decision(
        "cell", cause, 0, 0, kind, job, "r", 0, 1, node, cards, 0, 0, tier, 0, "",
        Reason.PLACED_IN_TURN, asked, 0, 0, b"", 0, 0, 0, b"", **fields,
    )  # fmt: skip


def ran(
    chart: Chart, job: str, first: int, count: int, from_ns: int, to_ns: int, **more: Any
) -> None:
    placed = decision(DecisionKind.ALLOCATE, job, (CardSpan(first, count),), **more)
    chart.ran(Stretch(placed, from_ns, to_ns, 0, Reason.UNKNOWN))


Rect = tuple[str, float, float, float, float, str]


def rects(svg: str) -> list[Rect]:
    """Class, x, y, width, height and title of all that stands in the frame."""
    found = []
    for rect in ET.fromstring(svg).iter(f"{SVG}rect"):
        kind = rect.attrib["class"]
        x, y, width, height = (float(rect.attrib[key]) for key in ("x", "y", "width", "height"))
        title = rect.find(f"{SVG}title")
        if y >= TOP and kind != "frame":
            text = "" if title is None else title.text or ""
            found.append((kind, x - LEFT, y - TOP, width, height, text))
    return found


def test_a_bar_per_pod_where_there_are_few() -> None:
    chart = Chart(parse_nodes("2x4"))
    ran(chart, "a", 0, 2, 0, 50)
    ran(chart, "b<&", 1, 1, 50, 100, node="node-0002", tier=Tier.BACKFILL)
    width = WIDTH - LEFT
    assert rects(chart.svg(0, 100)) == [
        ("main", 0, 0, width / 2, HEIGHT / 4, "a"),
        ("gap", width / 2, HEIGHT * 5 / 8, width / 2, HEIGHT / 8, "b<&"),
    ]
    assert "2x4" not in chart.svg(0, 100)
    assert "node-0002" in chart.svg(0, 100)


def test_a_pod_on_cards_apart_has_a_bar_for_each_run() -> None:
    chart = Chart(parse_nodes("1x8"))
    placed = decision(DecisionKind.ALLOCATE, "a", (CardSpan(0, 1), CardSpan(4, 2)))
    chart.ran(Stretch(placed, 0, 10, 0, Reason.UNKNOWN))
    assert [(y, height) for _, _, y, _, height, _ in rects(chart.svg(0, 10))] == [
        (0, HEIGHT / 8),
        (HEIGHT / 2, HEIGHT / 4),
    ]


def test_reservations_are_outlined_as_they_were_last_said() -> None:
    chart = Chart(parse_nodes("2x4"))
    reserve = DecisionKind.RESERVE
    span = (CardSpan(2, 2),)
    chart.observe([decision(reserve, "a", span, cause=1, start_ns=10, until_ns=90)])
    chart.observe(
        [
            decision(reserve, "a", span, "node-0002", cause=2, start_ns=50, until_ns=100),
            decision(reserve, "pool", (), "", cause=2, asked=3000, start_ns=0, until_ns=50),
            decision(DecisionKind.ALLOCATE, "a", span, cause=2),
        ]
    )
    width = WIDTH - LEFT
    assert rects(chart.svg(0, 100)) == [
        ("booked", width / 2, HEIGHT * 6 / 8, width / 2, HEIGHT / 4, "a"),
        ("booked", 0, 0, width / 2, HEIGHT * 3 / 8, "pool"),
    ]


def test_what_lies_outside_the_time_drawn_is_cut_off() -> None:
    chart = Chart(parse_nodes("1x1"))
    ran(chart, "before", 0, 1, 0, 10)
    ran(chart, "over", 0, 1, 10, 300)
    ran(chart, "after", 0, 1, 300, 310)
    ((_, x, _, width, _, title),) = rects(chart.svg(10, 110))
    assert (x, width, title) == (0, WIDTH - LEFT, "over")


@pytest.mark.parametrize(("nodes", "cards"), [("1x100", 100), ("30x4", 4)])
def test_many_are_drawn_together_within_the_bound(nodes: str, cards: int) -> None:
    chart = Chart(parse_nodes(nodes))
    names = [f"node-{1 + number % (1 if cards == 100 else 30):04d}" for number in range(9000)]
    for number, name in enumerate(names):
        tier = Tier.BACKFILL if number % 3 else Tier.MAIN
        first = number % cards
        ran(
            chart,
            f"j{number}",
            first,
            1,
            number,
            number + 5 + number // 7 % 60,
            node=name,
            tier=tier,
        )
    booked = [
        decision(
            DecisionKind.RESERVE,
            f"j{number}",
            (),
            "",
            asked=5000,
            start_ns=number,
            until_ns=number + 9,
        )
        for number in range(9000)
    ]
    chart.observe(booked)
    found = rects(chart.svg(0, 9100))
    assert 500 < len(found) <= RECTS_MAX
    assert {kind for kind, *_ in found} == {"main", "gap", "booked"}
    assert all(
        x >= 0 and y >= 0 and x + width <= WIDTH - LEFT + 0.02 and y + height <= HEIGHT + 0.02
        for _, x, y, width, height, _ in found
    )


def test_shares_of_a_band_are_its_card_time() -> None:
    chart = Chart(parse_nodes("1x4"))
    for number in range(5000):  # half of the cards all the time, in many stretches
        ran(chart, "a", 0, 2, number, number + 1)
    ran(chart, "b", 2, 1, 2500, 5000, tier=Tier.BACKFILL)
    (main_rect, _, gap_rect) = rects(chart.svg(0, 5000))
    assert main_rect == ("main", 0, HEIGHT / 2, WIDTH - LEFT, HEIGHT / 2, "")
    kind, x, y, width, height, _ = gap_rect
    assert (kind, y, height) == ("gap", HEIGHT / 4, HEIGHT / 4)
    assert abs(x - (WIDTH - LEFT) / 2) <= 1
    assert abs(x + width - (WIDTH - LEFT)) <= 0.02


def test_a_chart_without_anything_is_a_drawing() -> None:
    for nodes in ("1x4", "2x1"):
        assert rects(Chart(parse_nodes(nodes)).svg(7, 7)) == []


def marks(svg: str) -> list[str]:
    return re.findall(rf'y="{TOP + HEIGHT + 18}">([^<]+)<', svg)


def test_times_are_marked_from_the_begin() -> None:
    chart = Chart(parse_nodes("1x1"))
    hour = 3600 * 10**9
    assert marks(chart.svg(5, 5 + 3 * hour)) == ["0", "1h", "2h", "3h"]
    assert marks(chart.svg(0, 48 * hour)) == ["0", "1d", "2d"]
    assert len(marks(chart.svg(0, 5 * 365 * 24 * hour))) <= 7


def test_every_pod_of_a_run_is_drawn_and_the_run_is_the_same() -> None:
    cluster = parse_nodes("3x4,2x2")
    workload = random_trace(60, seed=4)
    chart = Chart(cluster)
    summary = run(workload, cluster, load_policy(), MEMORY, chart=chart)
    assert summary.chain == run(workload, cluster, load_policy()).chain
    titles = {title for *_, title in rects(chart.svg(summary.first_ns, summary.last_ns))}
    with_cards = {
        job.id for job in workload.jobs if job.run_ns and any(pods.cards for pods in job.pods)
    }
    assert titles == with_cards


def test_the_command_draws_for_memory_and_for_a_folder(tmp_path: Path) -> None:
    log = tmp_path / "jobs.csv"
    log.write_text(
        "# ganger trace 1\njob,submit_s,run_s,cards\na,0,60,2\nb,5,60,3\n", encoding="utf-8"
    )
    drawn = []
    for ledger in ("memory", str(tmp_path / "ledger")):
        file = tmp_path / "run.svg"
        call = ["simulate", str(log), "--nodes", "1x4", "--ledger", ledger, "--gantt", str(file)]
        done = CliRunner().invoke(main, call)
        assert done.exit_code == 0, done.output
        drawn.append(file.read_text(encoding="utf-8"))
    assert drawn[0] == drawn[1]
    assert {title for *_, title in rects(drawn[0])} == {"a", "b"}
    done = CliRunner().invoke(
        main, ["simulate", str(log), "--gantt", str(tmp_path / "no" / "x.svg")]
    )
    assert done.exit_code == 2
    assert "--gantt" in done.output

"""Flavors and zones as people write them; local time made UTC."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ganger.replay.traces.source import InputError
from ganger.schemas import records as r
from ganger.schemas.enums import TaintEffect, TolerationOperator
from ganger.services.cell_files import parse_flavors, parse_zones
from ganger.services.job_files import parse_queues
from ganger.streams.kernel.nodes import zones
from support.builders import Cell, node

PAGE = Path(__file__).parents[2] / "docs" / "jobs.md"
MARCH = int(datetime(2026, 3, 27, 12, tzinfo=UTC).timestamp()) * 10**9
OCTOBER = int(datetime(2026, 10, 23, 12, tzinfo=UTC).timestamp()) * 10**9


def spans(text: str, now_ns: int = MARCH) -> list[str]:
    """The intervals of the only zone, as UTC text."""
    (zone,) = parse_zones(f'[[zones]]\nname = "z"\n{text}', "file", now_ns)
    return [
        " ".join(
            datetime.fromtimestamp(ns // 10**9, UTC).strftime("%d.%H:%M")
            for ns in (span.from_ns, span.to_ns)
        )
        for span in zone.open
    ]


@pytest.mark.parametrize(
    ("text", "now_ns", "expected"),
    [
        ('open = ["22:00-06:00"]\ndays_ahead = 2', MARCH,
         ["26.22:00 27.06:00", "27.22:00 28.06:00", "28.22:00 29.06:00"]),
        # the clocks of Berlin go forward in the night to the 29th, and back in that to October 25
        ('open = ["22:00-06:00"]\ntime_zone = "Europe/Berlin"\ndays_ahead = 3', MARCH,
         ["26.21:00 27.05:00", "27.21:00 28.05:00", "28.21:00 29.04:00", "29.20:00 30.04:00"]),
        ('open = ["22:00-06:00"]\ntime_zone = "Europe/Berlin"\ndays_ahead = 2', OCTOBER,
         ["22.20:00 23.04:00", "23.20:00 24.04:00", "24.20:00 25.05:00"]),
        ('open = ["02:30-03:30"]\ntime_zone = "Europe/Berlin"\ndays = ["sun"]\ndays_ahead = 3',
         MARCH, []),  # that hour does not exist: it would begin when it ends
        ('open = ["09:00-12:00", "12:00-13:30"]\ndays_ahead = 1', MARCH,
         ["26.09:00 26.13:30", "27.09:00 27.13:30"]),
        ('open = ["00:00-24:00"]\ndays_ahead = 3', MARCH, ["26.00:00 30.00:00"]),
        ('open = ["20:00-20:00"]\ndays = ["fri"]\ndays_ahead = 2', MARCH, ["27.20:00 28.20:00"]),
        ('open = ["22:00-06:00"]\ndays = ["sat"]\ndays_ahead = 9', MARCH,
         ["28.22:00 29.06:00", "04.22:00 05.06:00"]),
        ("days_ahead = 3", MARCH, []),
        # the day is that of the zone: in Auckland it is the 28th already
        ('open = ["01:00-02:00"]\ntime_zone = "Pacific/Auckland"\ndays_ahead = 1', MARCH,
         ["26.12:00 26.13:00", "27.12:00 27.13:00"]),
    ],
)  # fmt: skip
def test_local_time_becomes_intervals(text: str, now_ns: int, expected: list[str]) -> None:
    assert spans(text, now_ns) == expected


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        ('open = ["22-06"]', "zones[0].open[0]", "22:00-06:00"),
        ('open = ["24:00-06:00"]', "zones[0].open[0]", "24:00"),
        ('open = ["22:60-06:00"]', "zones[0].open[0]", "22:60"),
        ('open = ["\u0662\u0662:00-06:00"]', "zones[0].open[0]", "22:00-06:00"),
        ('time_zone = "Mars/Olympus"', "zones[0].time_zone", "Europe/Berlin"),
        ('time_zone = "../etc/passwd"', "zones[0].time_zone", "Europe/Berlin"),
        ('days = ["friday"]', "zones[0].days[0]", "mon, tue"),
        ("days_ahead = 0", "zones[0].days_ahead", "0"),
        ("opens = []", "zones[0].opens", "open"),
        (f"open = {[f'{h:02}:00-{h:02}:30' for h in range(24)]}\ndays_ahead = 400",
         "zones[0].days_ahead", "4096"),
        ('[[zones]]\nname = "z"', "zones[1].name", "stands above"),
    ],
)  # fmt: skip
def test_errors_name_the_key_the_value_and_the_remedy(text: str, key: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        spans(text)
    assert f"file: {key}" in str(caught.value)
    assert words in str(caught.value)


def test_a_night_is_one_night_across_midnight() -> None:
    zone = '[[zones]]\nname = "z"\nopen = ["22:00-06:00"]\ntime_zone = "Europe/Berlin"'
    cell = Cell().start(node("n1"))
    cell.put(*parse_zones(zone, "file", MARCH))
    for hour, is_open in ((20, False), (21, True), (26, True), (28, True), (29, False)):
        at_ns = MARCH + (hour - 12) * 3600 * 10**9
        assert zones.is_open(cell.state, "z", at_ns) is is_open


def test_the_example_of_the_page_is_taken_by_a_cell() -> None:
    text = PAGE.read_text()
    (example,) = [
        block for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL) if "[[zones]]" in block
    ]
    (flavor,) = parse_flavors(example, "page")
    assert flavor.taints == (r.Taint("spot", "", TaintEffect.NO_SCHEDULE),)
    assert flavor.tolerations[0].operator is TolerationOperator.EXISTS
    cell = Cell().start(node("n1"))
    made = cell.put(flavor, *parse_zones(example, "page", MARCH))
    assert made == []
    assert parse_queues(example, "page") == []


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('[[flavors]]\nname = "f"\ntaints = [{ key = "a", effect = "Never" }]',
         "flavors[0].taints[0].effect"),
        ('[[flavors]]\nname = "f"\ntolerations = [{ operator = "Is" }]',
         "flavors[0].tolerations[0].operator"),
        ('[[flavors]]\nname = "f"\n[[flavors]]\nname = "f"', "flavors[1].name"),
    ],
)  # fmt: skip
def test_flavors_that_are_refused(text: str, key: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_flavors(text, "file")
    assert f"file: {key}" in str(caught.value)

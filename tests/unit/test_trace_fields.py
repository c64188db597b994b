"""Single fields of traces: seconds, whole numbers, times, names, rows."""

import pytest

from ganger.replay.traces.fields import (
    NAME_CHARS_MAX,
    NS_PER_S,
    SECONDS_MAX,
    is_name,
    parse_seconds_ns,
    parse_utc_ns,
    parse_whole,
    split_row,
)

S = NS_PER_S


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("66.0", 66 * S),
        ("66.", 66 * S),
        ("1.5", 1_500_000_000),
        ("0.000000001", 1),
        ("0.0000000019", 1),
        ("-1", -S),
        ("007", 7 * S),
        (str(SECONDS_MAX), SECONDS_MAX * S),
        (str(SECONDS_MAX + 1), None),
        ("", None),
        (".5", None),
        ("1e3", None),
        ("+1", None),
        ("1_000", None),
        (" 1", None),
        ("1\n", None),
        ("nan", None),
        ("inf", None),
        ("٣", None),
        ("9" * 400, None),
    ],
)
def test_seconds(text: str, value: int | None) -> None:
    assert parse_seconds_ns(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("10", 10),
        ("11", None),
        ("-1", None),
        ("1.0", None),
        ("", None),
        ("1_0", None),
        ("٣", None),
        ("9" * 5000, None),
    ],
)
def test_whole(text: str, value: int | None) -> None:
    assert parse_whole(text, 0, 10) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1970-01-01 00:00:00", 0),
        ("2017-10-09 07:01:55", 1_507_532_515 * S),
        ("2016-02-29 00:00:00", 1_456_704_000 * S),
        ("2017-02-29 00:00:00", None),
        ("2017-10-09T07:01:55", None),
        ("2017-10-09 07:01:55+01:00", None),
        ("2017-10-09", None),
        ("1969-12-31 23:59:59", None),
        ("9999-01-01 00:00:00", None),
    ],
)
def test_utc(text: str, value: int | None) -> None:
    assert parse_utc_ns(text) == value


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("a,b", ["a", "b"]),
        (" a , b ", ["a", "b"]),
        ("a,,", ["a", "", ""]),
        ('"a,b", "c""d"', ["a,b", 'c"d']),
        ('"a', None),
        ('"a"b,c', None),
    ],
)
def test_split_row(text: str, cells: list[str] | None) -> None:
    assert split_row(text) == cells


@pytest.mark.parametrize("name", ["#a", " a", "a ", "a\tb", "a\nb", "x" * (NAME_CHARS_MAX + 1)])
def test_no_name(name: str) -> None:
    assert not is_name(name)

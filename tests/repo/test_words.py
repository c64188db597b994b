"""The repository speaks of ganger alone: no machine's paths, no package index, no workplace.

The patterns are written in pieces, so that this file does not contain what it forbids.
"""

import re
from pathlib import Path

import pytest

from support.source_tree import repository_files, shown

_PIECES = {
    "a path of one machine": (
        r"(?<![\w.])/(?:ro" r"ot|ho" r"me|wo" r"rk|opt/wh" r"eels|tmp/[a-z]\b)(?![\w-])",
        r"\.py" r"env\b",
    ),
    "a package index": (
        r"\bpy" r"pi\.(?:org|python)",
        r"pythonho" r"sted",
        r"registry\.np" r"mjs",
        r"\bartifac" r"tory\b",
        r"--(?:extra-)?inde" r"x-url",
        r"--find-li" r"nks",
    ),
    "a word about how the text came to be": (
        r"\bcla" r"ude\b",
        r"\banthr" r"opic\b",
        r"\bopen" r"ai\b",
        r"\bchat" r"gpt\b",
        r"\bcopi" r"lot\b",
        r"\bsub-?ag" r"ents?\b",
        r"\blanguage mo" r"dels?\b",
        r"\bai[- ](?:gene" r"rated|writ" r"ten|assis" r"t)",
        r"\biss" r"ues? (?:no\. ?|number )?#?\d{1,2}\b",
        r"\bissu" r"es show\b",
        r"\b(?:BRI" r"EF|DESI" r"GN|STY" r"LE)(?:\.md)?\s*§?\s*\d",
        r"\bBRI" r"EF\.md\b",
    ),
}  # fmt: skip

PATTERNS = {what: re.compile("|".join(pieces), re.IGNORECASE) for what, pieces in _PIECES.items()}


def findings(text: str) -> list[str]:
    """`line: what: match` for everything forbidden in a text."""
    return [
        f"{number}: {what}: {match.group()}"
        for number, line in enumerate(text.splitlines(), 1)
        for what, pattern in PATTERNS.items()
        for match in pattern.finditer(line)
    ]


def _text_files() -> list[Path]:
    binary = {".gz", ".zst", ".bin", ".png", ".log", ".seg"}
    return [path for path in repository_files() if path.suffix not in binary]


def test_words() -> None:
    found = [
        f"{shown(path)}:{what}"
        for path in _text_files()
        for what in findings(path.read_text(encoding="utf-8", errors="replace"))
    ]
    assert not found, "\n".join(["write it without:", *found])


@pytest.mark.parametrize(
    "text",
    [
        "see /ro" "ot/x",
        "cd /wo" "rk/shared",
        "'/ho" "me/someone'",
        "https://py" "pi.org/simple",
        "--find-li" "nks dir",
        "fixed in iss" "ue 3",
        "as DESI" "GN 9 says",
        "made by an AI-assis" "tant",
    ],
)  # fmt: skip
def test_the_check_can_fail(text: str) -> None:
    assert findings(text)


@pytest.mark.parametrize(
    "text",
    [
        "../shared/traces/philly/jobs.csv.gz",
        "a session opens over a snapshot; rack/root/leaf, the root of the queue tree",
        "make PYTHON=/path/to/python3",
        "issues of order are settled by id",
        "https://example.org/homepage",
    ],
)
def test_plain_text_passes(text: str) -> None:
    assert findings(text) == []

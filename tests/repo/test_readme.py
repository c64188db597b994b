"""What the documents tell a reader to type exists: make targets, verbs, options, linked files."""

import re
import shlex
from pathlib import Path

import click
import pytest

from ganger.services import cli
from support.source_tree import ROOT, repository_files, shown

_FENCE = re.compile(r"^```(?:sh|bash|shell|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_TARGET = re.compile(r"^([a-z][a-z0-9-]*):(?!=)", re.MULTILINE)
_MAKE_OPTIONS_WITH_VALUE = {"-C", "-f", "-j"}


def documents() -> list[Path]:
    return [path for path in repository_files() if path.suffix == ".md"]


def commands(text: str) -> list[list[str]]:
    """The words of each command in the shell blocks of a document.

    Prompts, comments, variables set for one command, and what follows a pipe, `&&` or `;` as a
    command of its own are understood; lines that start with `#` and output do not occur in `sh`.
    """
    lines = [line for block in _FENCE.findall(text) for line in _joined(block)]
    return [words for line in lines for words in _split(line)]


def _joined(block: str) -> list[str]:
    return block.replace("\\\n", " ").splitlines()


def _split(line: str) -> list[list[str]]:
    reader = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars="|&;<>")
    reader.whitespace_split = True
    found: list[list[str]] = [[]]
    for word in reader:
        if word in ("|", "&&", "||", ";", "&"):
            found.append([])
        elif found[-1] or not re.match(r"[A-Z_]+=", word):
            found[-1].append(word)
    return [words for words in found if words]


def make_targets(makefile: str) -> set[str]:
    return set(_TARGET.findall(makefile))


def makefile_commands(makefile: str) -> list[list[str]]:
    """The calls of ganger in the recipes and in the hints that they print."""
    lines = makefile.replace("\\\n", " ").replace("$(BIN)/ganger", "ganger").splitlines()
    calls = [line[line.index("ganger ") :] for line in lines if re.search(r"(^\t|  )ganger ", line)]
    return [shlex.split(call.rstrip("'")) for call in calls]


def unknown_in_make(words: list[str], targets: set[str]) -> list[str]:
    found, rest = [], iter(words[1:])
    for word in rest:
        if word in _MAKE_OPTIONS_WITH_VALUE:
            next(rest, None)
        elif not word.startswith("-") and "=" not in word and word not in targets:
            found.append(f"make {word}: no such target")
    return found


def unknown_in_ganger(words: list[str], group: click.Command) -> list[str]:
    """Verbs and options of one call that the command line does not have."""
    command, called = group, "ganger"
    rest = words[1:]
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        verb = rest.pop(0)
        called = f"{called} {verb}"
        below = command.get_command(click.Context(command), verb)
        if below is None:
            return [f"{called}: no such command"]
        command = below
    parameters = command.get_params(click.Context(command))
    options = {name for p in parameters for name in (*p.opts, *p.secondary_opts)}
    used = [word.partition("=")[0] for word in rest if re.match(r"--?[a-zA-Z]", word)]
    return [f"{called}: no such option {name}" for name in used if name not in options]


def unknown(words: list[str], targets: set[str]) -> list[str]:
    program = words[0].rpartition("/")[2]
    if program == "make":
        return unknown_in_make(words, targets)
    if program == "ganger":
        return unknown_in_ganger(words, cli.main)
    return []


def broken_links(text: str, folder: Path) -> list[str]:
    """Relative links of a document that lead to no file; anchors and addresses are left alone."""
    links = [link.partition("#")[0] for link in _LINK.findall(text) if "://" not in link]
    return [link for link in links if link and not (folder / link).exists()]


def test_commands_in_documents_exist() -> None:
    targets = make_targets((ROOT / "Makefile").read_text(encoding="utf-8"))
    found = [
        f"{shown(path)}: {what}"
        for path in documents()
        for words in commands(path.read_text(encoding="utf-8"))
        for what in unknown(words, targets)
    ]
    assert not found, "\n".join(found)


def test_commands_in_makefile_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    calls = makefile_commands(makefile)
    assert [words[1] for words in calls].count("simulate") == 1
    assert not [what for words in calls for what in unknown(words, make_targets(makefile))]


def test_links_in_documents_lead_to_files() -> None:
    found = [
        f"{shown(path)}: {link}"
        for path in documents()
        for link in broken_links(path.read_text(encoding="utf-8"), path.parent)
    ]
    assert not found, "\n".join(found)


def test_readme_names_the_two_first_commands() -> None:
    words = commands((ROOT / "README.md").read_text(encoding="utf-8"))
    assert ["make", "run"] in words
    assert ["make", "test"] in words


@click.group()
def _sample() -> None:
    pass


@_sample.command()
@click.argument("folder")
@click.option("--json", "as_json", is_flag=True)
def _check(folder: str, as_json: bool) -> None:
    pass


_sample.add_command(_check, "check")


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        ("ganger check DIR --json", []),
        ("ganger check --jsn DIR", ["ganger check: no such option --jsn"]),
        ("ganger prove DIR", ["ganger prove: no such command"]),
        ("ganger --help", []),
    ],
)
def test_unknown_calls_are_found(line: str, finding: list[str]) -> None:
    found = unknown_in_ganger(line.split(), _sample)
    assert [what for what in found if "--help" not in what] == finding


def test_documents_are_read_as_a_shell_would() -> None:
    text = (
        "```sh\n$ FLAG=1 make run  # all of it\nganger log D \\\n  --json | head && make no\n```\n"
    )
    words = commands(text)
    assert words == [["make", "run"], ["ganger", "log", "D", "--json"], ["head"], ["make", "no"]]
    assert unknown_in_make(words[3], {"run"}) == ["make no: no such target"]
    assert unknown_in_make(["make", "-C", "x", "run", "NODES=4x8"], {"run"}) == []
    assert broken_links("[a](no/such.md) [b](https://example.org) [c](#here)", ROOT) == [
        "no/such.md"
    ]
    assert make_targets("A := b\nrun: x\n\techo a: b\n.PHONY: y\n") == {"run"}

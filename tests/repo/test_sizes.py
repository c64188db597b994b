"""Files, functions and lines stay small enough to be read at once."""

import ast
from pathlib import Path

from support.source_tree import PARTS, parsed, python_files, shown

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
LINE_LENGTH_MAX = 100


def long_functions(tree: ast.Module) -> list[str]:
    """`name (lines)` of every function or method over the limit, decorators not counted."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                found.append(f"{node.name} ({lines})")
    return found


def long_lines(text: str) -> list[int]:
    """Numbers, from 1, of the lines over the limit."""
    return [n for n, line in enumerate(text.splitlines(), 1) if len(line) > LINE_LENGTH_MAX]


def findings(path: Path) -> list[str]:
    """Everything in one file that is too long."""
    text = path.read_text(encoding="utf-8")
    found = [f"{shown(path)}:{n} is over {LINE_LENGTH_MAX} wide" for n in long_lines(text)]
    found += [f"{shown(path)}: function {what}, split it" for what in long_functions(parsed(path))]
    if (lines := len(text.splitlines())) > FILE_LINES_MAX:
        found.append(f"{shown(path)} has {lines} lines, split it by meaning")
    return found


def test_sizes() -> None:
    found = [
        what for path in python_files(*PARTS, "src", "tests", "infra") for what in findings(path)
    ]
    assert not found, "\n".join(["too long:", *found])


def test_the_checks_can_fail() -> None:
    body = "\n".join("    pass" for _ in range(FUNCTION_LINES_MAX))
    assert long_functions(ast.parse(f"def f():\n{body}\n")) == [f"f ({FUNCTION_LINES_MAX + 1})"]
    assert long_functions(ast.parse("def f():\n    pass\n")) == []
    assert long_lines("short\n" + "x" * (LINE_LENGTH_MAX + 1)) == [2]

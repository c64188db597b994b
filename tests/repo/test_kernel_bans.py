"""The kernel is pure: no float, no set order, no clock, random source, environment or I/O."""

import ast

import pytest

from support.kernel_bans import findings, set_attributes
from support.source_tree import parsed, python_files, shown

BAD = [
    ("x = 0.5", "float literal"),
    ("x = 1j", "float literal"),
    ("x = 1e9", "float literal"),
    ("x = a / b", "operator /"),
    ("x /= 2", "operator /"),
    ("x = 2 ** -1", "negative exponent"),
    ("x = float(a)", "float"),
    ("def f(x: float): ...", "float"),
    ("x = hash(a)", "hash"),
    ("x = id(a)", "id"),
    ("sorted(a, key=id)", "id"),
    ("print(a)", "print"),
    ("open('a')", "open"),
    ("x = eval('1')", "eval"),
    ("def f():\n    global x\n    x = 1", "global x"),
    ("x = os.environ['A']", "environ"),
    ("import time", "import time"),
    ("from datetime import datetime", "import datetime"),
    ("import random", "import random"),
    ("import uuid", "import uuid"),
    ("import secrets", "import secrets"),
    ("import os", "import os"),
    ("import sys", "import sys"),
    ("import logging", "import logging"),
    ("import threading", "import threading"),
    ("def f():\n    import time", "import time"),
    ("from . import state", "import state"),
    ("from ganger.streams.log import segments", "import segments"),
    ("from ganger.streams import engine", "import engine"),
    ("import fastavro", "import fastavro"),
    ("from math import sqrt", "math.sqrt gives floats"),
    ("import math\nx = math.log2(8)", "math.log2 gives floats"),
    ("import math as m", "import math as"),
    ("from operator import truediv", "gives floats"),
    ("x = struct.pack('<d', y)", "struct format"),
    ("for x in {1, 2}: ...", "order of the set"),
    ("for x in set(a): ...", "order of the set"),
    ("y = [x for x in frozenset(a)]", "order of the set"),
    ("y = {x: 1 for x in {z for z in a}}", "order of the set"),
    ("def f(a: set[int]):\n    for x in a: ...", "order of the set"),
    ("def f(a: frozenset[int] | None):\n    return list(a)", "order of the set"),
    ("def f(a: 'set[int]'):\n    return [*a]", "order of the set"),
    ("def f(*, a: AbstractSet[int]):\n    yield from a", "order of the set"),
    ("a = set()\ndef f():\n    return tuple(a)", "order of the set"),
    ("a = {1}\nb = a | c\nfor x in b: ...", "order of the set"),
    ("a: set[int] = get()\nx = next(iter(a))", "order of the set"),
    ("for x in a.keys() - b: ...", "order of the set"),
    ("for x in a.union(b): ...", "order of the set"),
    ("a = set(b)\n(x, y) = a", "order of the set"),
    ("a = set(b)\nx = ','.join(a)", "order of the set"),
    ("a = set(b)\nx = max(a, key=f)", "order of the set"),
    ("a = set(b)\nx = a.pop()", "any element"),
    ("class A:\n    b: set[int]\ndef f(a):\n    for x in a.b: ...", "order of the set"),
    ("class A:\n    def f(self):\n        self.b = set()\nx = list(A().b)", "order of the set"),
    ("f = lambda a: [x for x in set(a)]", "order of the set"),
]

GOOD = [
    "x = a // b",
    "x = 2 ** 3 - 1",
    "from math import gcd, isqrt",
    "from operator import attrgetter",
    "import struct\nx = struct.Struct('<IqH')",
    "from collections.abc import Iterator",
    "import msgspec",
    "from ganger.schemas.enums import Phase",
    "from ganger.streams.kernel.state import State",
    "def f(a: set[int], b: int) -> bool:\n    return b in a",
    "def f(a: set[int]):\n    a.add(1)\n    for x in sorted(a): ...",
    "x = len({1, 2})",
    "def f(a: set[int]):\n    return max(a), sum(a)",
    "def f(a: set[int]): ...\ndef g(a: list[int]):\n    for x in a: ...",
    "x = a.pop(3)",
    "for key in {1: 2}: ...",
    "node_id = job.id",
    "for x in masks & 7: ...",
]


def test_kernel_is_pure() -> None:
    files = python_files("streams/kernel")
    attributes = set_attributes([parsed(path) for path in files])
    found = [
        f"{shown(path)}:{line}: {what}"
        for path in files
        for line, what in findings(parsed(path), attributes)
    ]
    assert files, "no file of the kernel was found"
    assert not found, "\n".join(["banned in the kernel:", *found])


@pytest.mark.parametrize(("source", "finding"), BAD)
def test_bad_source_is_found(source: str, finding: str) -> None:
    assert finding in "; ".join(what for _, what in findings(ast.parse(source)))


@pytest.mark.parametrize("source", GOOD)
def test_good_source_passes(source: str) -> None:
    assert findings(ast.parse(source)) == []


def test_attributes_are_known_across_files() -> None:
    state = ast.parse("class State:\n    dirty: set[int]\n")
    other = ast.parse("def f(state):\n    return [x for x in state.dirty]\n")
    assert findings(other) == []
    assert findings(other, set_attributes([state, other]))

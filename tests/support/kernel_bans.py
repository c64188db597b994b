"""What the kernel may not do, as checks over syntax trees.

Each check takes one parsed file and returns `(line, what)` pairs. They see no types, so they are
strict rather than clever: an expression that looks like a set is one, a name that a class of the
kernel annotates as a set is a set in every file.
"""

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

Finding = tuple[int, str]

STDLIB = frozenset(
    "__future__ bisect collections dataclasses enum functools hashlib heapq itertools math operator"
    " struct typing".split()
)
OTHERS = ("msgspec", "ganger.schemas", "ganger.streams.kernel")

# Of these modules only what keeps integers integers.
MATH = frozenset("comb factorial gcd isqrt lcm perm prod".split())
OPERATOR_BANNED = frozenset({"truediv", "itruediv"})

NAMES = {
    "float": "floats",
    "complex": "floats",
    "hash": "differs between processes",
    "id": "differs between processes",
    "open": "I/O",
    "print": "I/O",
    "input": "I/O",
    "breakpoint": "I/O",
    "eval": "code from data",
    "exec": "code from data",
    "compile": "code from data",
    "__import__": "hidden import",
    "globals": "hidden state",
    "locals": "hidden state",
    "vars": "hidden state",
}

_SET_TYPES = frozenset({"set", "frozenset", "Set", "FrozenSet", "AbstractSet", "MutableSet"})
_SET_METHODS = frozenset("union intersection difference symmetric_difference".split())
_SET_OPERATORS = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.Sub)
# Calls that hand on the order of their argument; `sorted`, `len`, `any`, `all`, `sum` and `in` do
# not, `min` and `max` only by a tie of their keys.
_ORDER_KEEPERS = frozenset(
    "list tuple iter enumerate zip map filter reversed next dict deque".split()
)
_ORDER_KEEPING_METHODS = frozenset("join extend fromkeys chain from_iterable".split())


def floats(tree: ast.Module) -> Iterator[Finding]:
    """Float and complex literals, `/`, and powers with a negative exponent."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, float | complex):
            yield node.lineno, f"the float literal {node.value!r}"
        elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div):
            yield node.lineno, "the operator /, use // or cross-multiply"
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            if isinstance(node.right, ast.UnaryOp) and isinstance(node.right.op, ast.USub):
                yield node.lineno, "a power with a negative exponent is a float"


def banned_names(tree: ast.Module) -> Iterator[Finding]:
    """Built-ins by name, also when handed on without a call (`key=id`), and `global`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in NAMES:
            yield node.lineno, f"{node.id} ({NAMES[node.id]})"
        elif isinstance(node, ast.Global):
            yield node.lineno, f"global {', '.join(node.names)}: memory belongs in State"
        elif isinstance(node, ast.Attribute) and node.attr in ("__hash__", "environ"):
            yield node.lineno, f".{node.attr}"


def banned_imports(tree: ast.Module) -> Iterator[Finding]:
    """Imports outside the allow-list; of math and operator only the integer part."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if not _may(alias.name) or alias.asname:
                    yield node.lineno, f"import {alias.name}{' as ...' * bool(alias.asname)}"
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            for alias in node.names:
                if node.level or not _may(f"{base}.{alias.name}"):
                    yield node.lineno, f"from {'.' * node.level}{base} import {alias.name}"
                elif not _keeps_integers(base, alias.name):
                    yield node.lineno, f"{base}.{alias.name} gives floats"
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if not _keeps_integers(node.value.id, node.attr):
                yield node.lineno, f"{node.value.id}.{node.attr} gives floats"


def _may(name: str) -> bool:
    return name.split(".")[0] in STDLIB or any(
        name == other or name.startswith(other + ".") for other in OTHERS
    )


def _keeps_integers(module: str, name: str) -> bool:
    if module == "math":
        return name in MATH
    return module != "operator" or name not in OPERATOR_BANNED


def _annotates_set(annotation: ast.expr | None) -> bool:
    """Whether an annotation is a set, or may be one (`set[int] | None`)."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    if isinstance(annotation, ast.BinOp):
        return _annotates_set(annotation.left) or _annotates_set(annotation.right)
    if isinstance(annotation, ast.Subscript):
        outer = annotation.value
        name = outer.attr if isinstance(outer, ast.Attribute) else getattr(outer, "id", "")
        if name in ("Optional", "Final", "ClassVar"):
            return _annotates_set(annotation.slice)
        return name in _SET_TYPES
    if isinstance(annotation, ast.Attribute):
        return annotation.attr in _SET_TYPES
    return isinstance(annotation, ast.Name) and annotation.id in _SET_TYPES


@dataclass(frozen=True)
class _Sets:
    """Names and attributes known to hold sets."""

    names: frozenset[str]
    attributes: frozenset[str]

    def has(self, node: ast.expr) -> bool:
        """Whether an expression is a set as far as syntax tells."""
        if isinstance(node, ast.Name):
            return node.id in self.names
        if isinstance(node, ast.Attribute):
            return node.attr in self.attributes
        if isinstance(node, ast.NamedExpr):
            return self.has(node.value)
        if isinstance(node, ast.IfExp):
            return self.has(node.body) or self.has(node.orelse)
        if isinstance(node, ast.BoolOp):
            return any(self.has(value) for value in node.values)
        if isinstance(node, ast.BinOp) and isinstance(node.op, _SET_OPERATORS):
            return any(self.has(side) or _is_keys(side) for side in (node.left, node.right))
        if isinstance(node, ast.Call):
            return self._call_gives_set(node.func)
        return isinstance(node, ast.Set | ast.SetComp)

    def _call_gives_set(self, function: ast.expr) -> bool:
        if isinstance(function, ast.Name):
            return function.id in ("set", "frozenset")
        return isinstance(function, ast.Attribute) and (
            function.attr in _SET_METHODS or (function.attr == "copy" and self.has(function.value))
        )


def _is_keys(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("keys", "items")
    )


def set_attributes(trees: Iterable[ast.Module]) -> frozenset[str]:
    """Attributes that hold sets: annotated so in a class, or given a set as `self.name = ...`."""
    found = set()
    plain = _Sets(frozenset(), frozenset())
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found |= {
                    item.target.id
                    for item in node.body
                    if isinstance(item, ast.AnnAssign)
                    and isinstance(item.target, ast.Name)
                    and _annotates_set(item.annotation)
                }
            for target, is_set in _assignments(node, plain):
                if is_set and isinstance(target, ast.Attribute):
                    found.add(target.attr)
    return frozenset(found)


def _assignments(node: ast.AST, sets: _Sets) -> Iterator[tuple[ast.expr, bool]]:
    """(target, holds a set) of one assigning node."""
    if isinstance(node, ast.AnnAssign):
        yield node.target, _annotates_set(node.annotation)
    elif isinstance(node, ast.Assign):
        yield from ((target, sets.has(node.value)) for target in node.targets)
    elif isinstance(node, ast.NamedExpr):
        yield node.target, sets.has(node.value)


def set_iteration(tree: ast.Module, attributes: frozenset[str] = frozenset()) -> list[Finding]:
    """Places where the order of a set's elements could be seen.

    Args:
        attributes: names from `set_attributes` over all files of the kernel.
    """
    outer = _Sets(frozenset(), attributes | set_attributes([tree]))
    return sorted(set(_scan_scope(tree, outer)))


def _scan_scope(scope: ast.AST, outer: _Sets) -> Iterator[Finding]:
    inside = list(_own_nodes(scope))
    sets = _Sets(outer.names | _set_arguments(scope), outer.attributes)
    # Twice: a name may get its set from a name that is assigned further down.
    for _ in range(2):
        given = [pair for node in inside for pair in _assignments(node, sets)]
        named = {t.id for t, is_set in given if is_set and isinstance(t, ast.Name)}
        sets = _Sets(sets.names | named, sets.attributes)
    for node in inside:
        if isinstance(node, _SCOPES):
            yield from _scan_scope(node, sets)
        for place in _iterated(node):
            if sets.has(place):
                yield place.lineno, f"the order of the set `{ast.unparse(place)}`, sort it"
        if _is_set_pop(node, sets):
            yield node.lineno, "pop() takes any element of a set"


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a scope without those of functions inside it, which are scopes of their own."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _SCOPES):
            waiting.extend(ast.iter_child_nodes(node))


def _set_arguments(scope: ast.AST) -> frozenset[str]:
    if not isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
        return frozenset()
    arguments = [*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs]
    return frozenset(a.arg for a in arguments if _annotates_set(a.annotation))


def _iterated(node: ast.AST) -> list[ast.expr]:
    """The expressions whose order a node uses."""
    if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        return [node.iter]
    if isinstance(node, ast.Starred | ast.YieldFrom):
        return [node.value]
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple | ast.List):
        return [node.value]
    if isinstance(node, ast.Call):
        name = getattr(node.func, "id", "")
        method = getattr(node.func, "attr", "")
        has_ties = name in ("min", "max") and any(word.arg == "key" for word in node.keywords)
        if name in _ORDER_KEEPERS or method in _ORDER_KEEPING_METHODS or has_ties:
            return [argument for argument in node.args if not isinstance(argument, ast.Starred)]
    return []


def _is_set_pop(node: ast.AST, sets: _Sets) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "pop"
        and not node.args
        and sets.has(node.func.value)
    )


def struct_floats(tree: ast.Module) -> Iterator[Finding]:
    """Formats of `struct` that read or write floats."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            text = node.args[0].value
            takes_format = name in ("Struct", "pack", "unpack", "pack_into", "unpack_from")
            if takes_format and isinstance(text, str) and any(c in text for c in "efdnNP"):
                yield node.lineno, f"struct format {text!r}: floats and native sizes are banned"


SIMPLE_CHECKS: tuple[Callable[[ast.Module], Iterable[Finding]], ...] = (
    floats,
    banned_names,
    banned_imports,
    struct_floats,
)


def findings(tree: ast.Module, attributes: frozenset[str] = frozenset()) -> list[Finding]:
    """All that one file does and may not, by line."""
    found = [finding for check in SIMPLE_CHECKS for finding in check(tree)]
    return sorted(found + set_iteration(tree, attributes))

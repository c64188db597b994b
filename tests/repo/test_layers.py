"""Imports point one way, each third party has its place, and nothing is imported in hiding.

All imports count, wherever they stand in a file. To add a module, add its name to `LAYERS` (outside
the kernel) or `KERNEL_LAYERS` (inside); a name stands for the module or package and all below it.
"""

import ast
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from support.source_tree import ROOT, modules, parsed, python_files, shown

# A layer may import itself and every layer above it in this table, never one below.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("schemas", "streams.compiled"),
    ("streams.kernel",),
    (
        *("streams.log", "streams.metrics", "streams.payloads", "streams.closing"),
        *("streams.presets", "streams.liveness", "streams.structure"),
    ),
    (
        "streams.seed",
        "streams.checkpoint",
        "streams.divergence",
        "streams.tables",
        "streams.intake",
    ),
    ("streams.engine",),
    ("streams.embedded", "streams.kafka"),
    ("replay",),
    ("services",),
)

# The same inside streams/kernel. Entities are plain data, so the ordered structures over them stand
# below the state that owns both.
KERNEL_LAYERS: tuple[tuple[str, ...], ...] = (
    (
        *("resources", "refusals", "topology", "flags", "limits", "settings"),
        *("queues.shares", "nodes.scores", "nodes.domains", "nodes.ranking", "nodes.windows"),
        *("fairness", "horizon", "foresight"),
    ),
    ("entities",),
    ("nodes.node_index", "jobs.waiting", "queues.priorities", "timers", "backfill.futures"),
    ("state",),
    (
        *("digest", "decide"),
        *("jobs.lifecycle", "jobs.gangs", "jobs.progress", "jobs.submissions", "jobs.new_jobs"),
        "jobs.deadlines",
        *("nodes.occupancy", "nodes.reservations", "nodes.zones", "nodes.bars", "nodes.marks"),
        "nodes.kept",
        *("nodes.loads", "nodes.affinity", "nodes.scoring"),
        *("queues.quota", "queues.capacity", "queues.quota_tree", "queues.tallies"),
        *("queues.usage", "queues.held_quota", "queues.cohort_tree"),
        "preemption.claims_book",
        *("backfill.memory", "backfill.estimates", "backfill.bookings", "backfill.tuning"),
        *("backfill.promised", "backfill.promising", "backfill.bases"),
    ),
    ("policies",),
    (
        *("jobs.lines", "jobs.attempts", "jobs.lifecycle_actions", "jobs.requeue", "jobs.stale"),
        *("jobs.suspension", "backfill.manners", "derive"),
        *("preemption.evictions", "preemption.candidates", "preemption.spots"),
    ),
    ("snapshot", "invariants"),
    ("session", "nodes.statement"),
    (
        *("nodes.trial", "nodes.placement", "jobs.starts", "queues.admission"),
        *("preemption.victims", "preemption.node_walk", "preemption.taking"),
        *("backfill.lookahead", "backfill.pool", "backfill.gaps", "backfill.lent"),
        *("backfill.several", "backfill.conservative", "backfill.hybrid", "backfill.seats"),
        *("explain", "preemption.spared", "backfill.outlooks"),
    ),
    ("actions",),
    ("cycle",),
    ("handlers",),
    ("step",),
)

# What the layers would allow and is wrong all the same: (importer, imported).
FORBIDDEN: tuple[tuple[str, str], ...] = (
    ("streams.kernel", "schemas.codec"),  # the kernel never meets bytes of the wire
    ("streams.embedded", "streams.kafka"),
    ("streams.kafka", "streams.embedded"),
    ("replay", "streams.kafka"),
)

# Third party to the only places that may import it; "" is everywhere.
THIRD_PARTIES: Mapping[str, tuple[str, ...]] = {
    "click": ("services.cli",),
    "confluent_kafka": ("streams.kafka",),
    "fastavro": ("schemas.codec",),
    "faust": ("streams.kafka",),
    "mode": ("streams.kafka",),
    "msgspec": ("",),
    "mypyc": ("streams.compiled.build",),
    "prometheus_client": ("streams.metrics",),
    "rich": ("services.cli",),
    "rocksdict": ("streams.tables",),
    "setuptools": ("streams.compiled.build",),
}

IMPORT_DEPTH_MAX = 16

# `main` is named by the console script, so this one package file may import. It loads verbs by
# name, those of its table `VERBS`: they count as its imports.
_INIT_WITH_IMPORTS = {"services.cli"}
_LOADER = "services.cli"

# Tells where a module that is imported by its name lies; it imports none itself.
_FINDER = "streams.compiled.finder"


def within(module: str, place: str) -> bool:
    """Whether a module is `place` or lies below it."""
    return not place or module == place or module.startswith(place + ".")


def imported_names(tree: ast.Module) -> list[tuple[int, str]]:
    """(line, dotted name) of every import in the file; `from a import b` is `a.b`."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            found += [(node.lineno, f"{base}.{alias.name}") for alias in node.names]
    return found


def loaded_names(tree: ast.Module) -> list[str]:
    """Modules that the loader loads by name: the keys of its table `VERBS`."""
    return [
        f"ganger.{_LOADER}.{key.value}"
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "VERBS"
        for key in node.value.keys  # type: ignore[attr-defined]
    ]


def resolve(name: str, known: Iterable[str]) -> str:
    """The module that `ganger.a.b.c` names: the longest known prefix, without `ganger.`."""
    target = name.removeprefix("ganger.")
    while target and target not in known:
        target = target.rpartition(".")[0]
    return target


def import_graph(trees: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """Module to the modules of ganger that it imports anywhere."""
    names = {module: [name for _, name in imported_names(tree)] for module, tree in trees.items()}
    if _LOADER in trees:
        names[_LOADER] += loaded_names(trees[_LOADER])
    return {
        module: {
            target
            for name in names[module]
            if name.startswith("ganger.") and (target := resolve(name, trees)) not in ("", module)
        }
        for module in trees
    }


def layer_of(module: str, layers: tuple[tuple[str, ...], ...]) -> int | None:
    """Index of the layer that a module belongs to; None if no layer names it."""
    for index, names in enumerate(layers):
        if any(within(module, name) for name in names):
            return index
    return None


def upward(graph: Mapping[str, set[str]], layers: tuple[tuple[str, ...], ...]) -> list[str]:
    """Imports that point from an earlier layer to a later one; packages alone do not count."""
    found = []
    for module, targets in sorted(graph.items()):
        mine = layer_of(module, layers)
        for target in sorted(targets):
            theirs = layer_of(target, layers)
            if mine is not None and theirs is not None and mine < theirs:
                found.append(f"{module} imports {target}, which lies above it")
    return found


def cycles(graph: Mapping[str, set[str]]) -> list[str]:
    """One line for each import cycle met by a depth-first walk."""
    found: list[str] = []
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> None:
        if module in path:
            found.append(" -> ".join([*path[path.index(module) :], module]))
            return
        if module in done:
            return
        for target in sorted(graph.get(module, ())):
            visit(target, [*path, module])
        done.add(module)

    for module in sorted(graph):
        visit(module, [])
    return found


def depth(graph: Mapping[str, set[str]]) -> int:
    """Edges on the longest chain of imports; the graph has no cycle."""
    known: dict[str, int] = {}

    def visit(module: str) -> int:
        if module not in known:
            known[module] = max((visit(target) + 1 for target in graph.get(module, ())), default=0)
        return known[module]

    return max((visit(module) for module in graph), default=0)


def hidden_imports(tree: ast.Module) -> list[str]:
    """Imports inside functions or conditions, relative ones, and imports by name at run time."""
    at_top = {id(node) for node in tree.body}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and id(node) not in at_top:
            found.append(f"{node.lineno}: an import that is not at the top level of the file")
        if isinstance(node, ast.Name) and node.id == "__import__":
            found.append(f"{node.lineno}: __import__")
    for line, name in imported_names(tree):
        allowed = ("importlib.resources", "importlib.metadata")
        if name.startswith("."):
            found.append(f"{line}: a relative import, write it as ganger.<...>")
        elif within(name, "importlib") and not any(within(name, place) for place in allowed):
            found.append(f"{line}: importlib")
        elif name.split(".")[0] in ("runpy", "pkgutil", "imp"):
            found.append(f"{line}: {name}")
        elif name == "typing.TYPE_CHECKING":
            found.append(f"{line}: TYPE_CHECKING, move the type to a lower module instead")
    return found


def misplaced_third_parties(module: str, tree: ast.Module) -> list[str]:
    """Imports that are neither ganger nor the standard library nor allowed at this place."""
    found = []
    for line, name in imported_names(tree):
        top = name.split(".")[0]
        if top in sys.stdlib_module_names or top in ("ganger", ""):
            continue
        places = THIRD_PARTIES.get(top, ())
        if not any(within(module, place) for place in places):
            allowed = ", ".join(places) or "nowhere, see THIRD_PARTIES"
            found.append(f"{module}:{line} imports {top} (allowed: {allowed})")
    return found


def init_findings(package: str, tree: ast.Module) -> list[str]:
    """What a package's `__init__.py` may not hold: anything but a docstring and the guard."""
    guard = ast.parse(
        f'if __name__ != "ganger.{package}":\n'
        f'    raise ImportError("import ganger.{package}, not {package}")\n'
    )
    allowed = {ast.dump(guard.body[0])} if "." not in package else set()
    return [
        f"{package}/__init__.py:{node.lineno} holds more than its guard"
        for node in tree.body
        if ast.dump(node) not in allowed
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]


def _trees() -> dict[str, ast.Module]:
    return {module: parsed(path) for module, path in modules().items()}


def _is_package(module: str) -> bool:
    return modules()[module].name == "__init__.py"


def _kernel_graph() -> dict[str, set[str]]:
    prefix = "streams.kernel."
    return {
        module.removeprefix(prefix): {
            target.removeprefix(prefix) for target in targets if target.startswith(prefix)
        }
        for module, targets in import_graph(_trees()).items()
        if module.startswith(prefix)
    }


def test_every_module_has_a_layer() -> None:
    lost = [
        f"{module}: add it to LAYERS in {shown(Path(__file__))}"
        for module in modules()
        if not _is_package(module) and layer_of(module, LAYERS) is None
    ]
    lost += [
        f"streams.kernel.{module}: add it to KERNEL_LAYERS in {shown(Path(__file__))}"
        for module in _kernel_graph()
        if not _is_package(f"streams.kernel.{module}") and layer_of(module, KERNEL_LAYERS) is None
    ]
    assert not lost, "\n".join(["modules without a place:", *lost])


def test_imports_point_one_way() -> None:
    found = upward(import_graph(_trees()), LAYERS) + upward(_kernel_graph(), KERNEL_LAYERS)
    assert not found, "\n".join(found)


def test_forbidden_pairs() -> None:
    found = [
        f"{module} imports {target}"
        for module, targets in import_graph(_trees()).items()
        for target in targets
        for importer, imported in FORBIDDEN
        if within(module, importer) and within(target, imported)
    ]
    assert not found, "\n".join(found)


def test_actions_do_not_import_each_other() -> None:
    found = [
        f"{module} imports {target}"
        for module, targets in _kernel_graph().items()
        for target in targets
        if within(module, "actions") and target.startswith("actions.")
    ]
    assert not found, "\n".join(found)


def test_kernel_reaches_no_codec_and_no_third_party_but_msgspec() -> None:
    graph, trees = import_graph(_trees()), _trees()
    reached = {module for module in graph if within(module, "streams.kernel")}
    while more := {target for module in reached for target in graph[module]} - reached:
        reached |= more
    tops = {name.split(".")[0] for m in reached for _, name in imported_names(trees[m])}
    assert "schemas.codec" not in reached
    assert tops - set(sys.stdlib_module_names) <= {"ganger", "msgspec"}


def test_what_services_import_brings_no_worker_and_no_terminal() -> None:
    graph, trees = import_graph(_trees()), _trees()
    reached = {"services.client"}
    while more := {target for module in reached for target in graph[module]} - reached:
        reached |= more
    tops = {name.split(".")[0] for m in reached for _, name in imported_names(trees[m])}
    assert tops - set(sys.stdlib_module_names) <= {
        *("ganger", "msgspec", "fastavro", "confluent_kafka")
    }


def test_no_cycles_and_no_deep_chains() -> None:
    graph = import_graph(_trees())
    assert not cycles(graph), "\n".join(cycles(graph))
    assert depth(graph) <= IMPORT_DEPTH_MAX


def test_no_hidden_imports() -> None:
    found = [
        f"{module}:{what}"
        for module, tree in _trees().items()
        for what in hidden_imports(tree)
        if module not in (_LOADER, _FINDER) or not what.endswith(": importlib")
    ]
    assert not found, "\n".join(found)


def test_verbs_loaded_by_name_count_as_imports() -> None:
    graph = import_graph(_trees())
    verbs = loaded_names(_trees()[_LOADER])
    assert f"ganger.{_LOADER}.verify" in verbs
    assert {name.removeprefix("ganger.") for name in verbs} <= graph[_LOADER]


def test_third_parties_stay_in_their_places() -> None:
    found = [
        what for module, tree in _trees().items() for what in misplaced_third_parties(module, tree)
    ]
    assert not found, "\n".join(found)


def test_package_files_are_empty_or_a_guard() -> None:
    found = [
        what
        for module, tree in _trees().items()
        if _is_package(module) and module not in _INIT_WITH_IMPORTS
        for what in init_findings(module, tree)
    ]
    assert not found, "\n".join(found)


def test_top_packages_have_their_guard() -> None:
    for part in (module for module in modules() if "." not in module):
        assert parsed(modules()[part]).body, f"{part}/__init__.py lost its guard"


def test_no_module_is_named_for_nothing() -> None:
    vague = re.compile(r"(^|\.)(utils?|common|helpers?|misc|managers?)$")
    assert not [module for module in modules() if vague.search(module)]


def test_tests_are_no_packages() -> None:
    found = [shown(path) for path in python_files("tests") if path.name == "__init__.py"]
    assert not found, f"tests are found by file, remove {found}"


def test_root_package_imports_the_finder_alone() -> None:
    found = imported_names(parsed(ROOT / "src" / "ganger" / "__init__.py"))
    assert [name for _, name in found] == [f"ganger.{_FINDER}.prefer_compiled"]
    assert import_graph(_trees())[_FINDER] == set()


@pytest.mark.parametrize(
    ("source", "finding"),
    [
        ("def f():\n    import json\n", "not at the top level"),
        ("from typing import TYPE_CHECKING\n", "TYPE_CHECKING"),
        ("if True:\n    import json\n", "not at the top level"),
        ("import importlib\n", "importlib"),
        ("from importlib import import_module\n", "importlib"),
        ("x = __import__('json')\n", "__import__"),
        ("from . import state\n", "relative"),
    ],
)
def test_hidden_imports_are_found(source: str, finding: str) -> None:
    assert finding in " ".join(hidden_imports(ast.parse(source)))


def test_allowed_imports_are_not_hidden() -> None:
    assert hidden_imports(ast.parse("from importlib.resources import files\nimport json\n")) == []


def test_checks_on_graphs_can_fail() -> None:
    trees = {
        "streams.kernel.state": ast.parse("from ganger.streams.kernel.step import step"),
        "streams.kernel.step": ast.parse("def f():\n    from ganger.streams.kernel import state"),
        "schemas.types": ast.parse("import ganger.streams.kernel.state"),
    }
    graph = import_graph(trees)
    assert upward(graph, LAYERS) == [
        "schemas.types imports streams.kernel.state, which lies above it"
    ]
    assert cycles(graph) == [
        "streams.kernel.state -> streams.kernel.step -> streams.kernel.state",
    ]
    assert depth({"a": {"b"}, "b": {"c"}, "c": set()}) == 2
    assert layer_of("no_such", KERNEL_LAYERS) is None
    assert upward({"state": {"step"}, "step": {"state"}}, KERNEL_LAYERS) == [
        "state imports step, which lies above it"
    ]


def test_checks_on_places_can_fail() -> None:
    assert misplaced_third_parties("replay.story", ast.parse("import rocksdict\n"))
    assert misplaced_third_parties("replay.story", ast.parse("import numpy\n"))
    assert not misplaced_third_parties("streams.tables.rows", ast.parse("import rocksdict\n"))
    assert init_findings("streams", ast.parse("import json\n"))
    assert init_findings("streams.log", ast.parse("LIMIT = 1\n"))

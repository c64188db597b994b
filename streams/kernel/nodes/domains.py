"""Topology domains: which nodes are near each other, by the paths that they report.

A domain is a beginning of such paths, the outermost tier first; all nodes whose paths begin so are
in it. Its tier is 1 if it is the whole path of its nodes, and counted outward from there; the
longest path in it counts. The empty path is the cell: it holds every node, and its tier is above
those of all domains that nodes report.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

Path = tuple[str, ...]
"""Names of tiers, the outermost first."""

CELL: Path = ()
"""The path of the domain of all nodes."""


@dataclass(slots=True, eq=False)
class Domain:
    """A domain with its nodes, by number, ascending."""

    path: Path
    tier: int = 0
    nodes: list[int] = field(default_factory=list)
    own: list[int] = field(default_factory=list)  # those in none of the domains inside it
    inner: list["Domain"] = field(default_factory=list)  # directly inside it, by path


@dataclass(slots=True, eq=False)
class Tree:
    """All domains of a cell. `order`: by tier, then by path."""

    paths: tuple[Path, ...]  # what it was made of: paths by node
    by_path: dict[Path, Domain]
    order: tuple[Domain, ...]

    @property
    def cell(self) -> Domain:
        """The domain of all nodes."""
        return self.by_path[CELL]


def tree_of(paths: tuple[Path, ...]) -> Tree:
    """The domains of nodes, from their paths by number. O(nodes x tiers)."""
    by_path = {CELL: Domain(CELL, tier=2)}  # also where nobody reports a path: that is no domain
    for node, path in enumerate(paths):
        for length in range(len(path) + 1):
            domain = by_path.get(path[:length])
            if domain is None:
                domain = by_path[path[:length]] = Domain(path[:length])
            domain.nodes.append(node)
            domain.tier = max(domain.tier, len(path) - length + 1)
        by_path[path].own.append(node)
    for path in sorted(by_path):
        if path:
            by_path[path[:-1]].inner.append(by_path[path])
    order = sorted(by_path.values(), key=lambda domain: (domain.tier, domain.path))
    return Tree(paths, by_path, tuple(order))


def around(path: Path, tier: int) -> Path:
    """The domain of a tier, from 1, that a node of this path is in; the cell above its path."""
    return path[: max(0, len(path) - tier + 1)]


def common(paths: Iterable[Path]) -> Path:
    """The smallest domain that holds nodes of all these paths, of which there is at least one."""
    shared: Path | None = None
    for path in paths:
        if shared is None:
            shared = path
            continue
        length = 0
        for mine, other in zip(shared, path, strict=False):
            if mine != other:
                break
            length += 1
        shared = shared[:length]
    assert shared is not None
    return shared


def distance(first: Path, second: Path) -> int:
    """The tier of the smallest domain that holds both nodes, counted from the first; 1 = next to
    each other.
    """
    return len(first) - len(common((first, second))) + 1

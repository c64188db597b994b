"""Descriptions of clusters for simulation: nodes and queues, from a short form or a file.

Short form, `parse_nodes`: `264x8,271x4` is 264 nodes of 8 cards and 271 of 4.

File, `open_cluster`: openb's list of nodes (CSV, gzip or not), or TOML:

    [[nodes]]
    count = 32                  # needed
    cards = 8                   # needed; 0 for a node without cards
    model = "A100"              # default "card"
    card_memory_mib = 81920     # default 81920
    island_cards = 4            # two islands of 4 linked cards; default: all cards in one
    cpu_milli = 128000          # default 12000 per card
    memory_mib = 2097152        # default 131072 per card
    pod_slots = 110             # default 110, or one per card if that is more
    name_prefix = "train"       # nodes train-0001 to train-0032; default "node"
    topology = ["spine-1", "rack-3"]                # path from the outermost tier to the node's own
    labels = { zone = "a" }
    taints = ["dedicated=train:NoSchedule"]         # KEY[=VALUE]:EFFECT, as in kubectl

    [[nodes]]
    names = ["login-a", "login-b"]                  # instead of count and name_prefix
    cards = 0

    [[queues]]
    name = "research"           # needed
    parent = "all"              # default: none, the queue hangs at the root
    weight = 3                  # default 1
    guarantee = { cards = 64, cpu_milli = 512000, memory_mib = 4194304 }    # default: nothing
    capability = { cards = 128 }                                            # default: no limit

    [[queues]]
    name = "all"

Whoever opens a file may bring a reader of its queues and flavors (`ReadRules`), for which they may
have all that queues and flavors can have; `ganger simulate` does, see docs/jobs.md.

The defaults are the proportions of a common 8-card machine (96 cpus, 1 TiB), so cpu and memory
never bind for traces that ask for cards alone. A file without queues leaves them to the trace.
These are plain values: whoever runs a cluster turns them into records.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from ganger.replay.traces.fields import (
    COUNT_MAX,
    MIB_MAX,
    MILLI_MAX,
    NAME_REMEDY,
    Table,
    is_name,
    parse_whole,
)
from ganger.replay.traces.source import InputError, Source, read_source
from ganger.schemas.records import FlavorConfigured, QueueConfigured
from ganger.streams.kernel.limits import RUN_CARDS_MAX

CPU_MILLI_PER_CARD = 12_000
MEMORY_MIB_PER_CARD = 131_072
CARD_MEMORY_MIB = 81_920
CARD_MODEL = "card"
POD_SLOTS = 110
"""The kubelet's own default."""

OPENB_POD_SLOTS = 1_024
"""openb's list of nodes states no limit; its smallest pod asks for 1 of at most 128 cpus."""

NODES_MAX = 1_000_000
TOML_BYTES_MAX = 4 << 20
UNLIMITED = -1
TAINT_EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")

_T = TypeVar("_T")

_OPENB_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_GROUP = re.compile(r"([0-9]{1,18})x([0-9]{1,18})", re.ASCII)
_TAINT = re.compile(r"([^=:]+)(?:=([^:]*))?:([A-Za-z]+)")
_AT = re.compile(r" - at `\$\.?([^`]*)`$")
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


class TaintSpec(Struct, frozen=True):
    """A taint of a node; `effect` is one of `TAINT_EFFECTS`."""

    key: str
    value: str
    effect: str


class Amount(Struct, frozen=True):
    """Cards, cpu and memory of a queue; `UNLIMITED` where a capability sets no limit."""

    cards: int
    cpu_milli: int
    memory_mib: int


NOTHING = Amount(0, 0, 0)
NO_LIMIT = Amount(UNLIMITED, UNLIMITED, UNLIMITED)


class NodeSpec(Struct, frozen=True, omit_defaults=True):
    """`count` equal nodes. All numbers are of one node."""

    count: int
    cards: int
    model: str  # of every card; empty only where there are none
    card_memory_mib: int  # 0: not stated
    island_cards: int  # cards of one link island; divides `cards`; 0 only without cards
    cpu_milli: int
    memory_mib: int
    pod_slots: int
    labels: tuple[tuple[str, str], ...] = ()  # ascending key
    taints: tuple[TaintSpec, ...] = ()
    topology: tuple[str, ...] = ()  # from the outermost tier to the node's own
    name_prefix: str = "node"
    names: tuple[str, ...] = ()  # one per node, instead of numbered names; else empty


class QueueSpec(Struct, frozen=True, omit_defaults=True):
    """One queue of the tree."""

    name: str
    parent: str = ""  # empty: at the root
    weight: int = 1
    guarantee: Amount = NOTHING
    capability: Amount = NO_LIMIT


class ClusterSpec(Struct, frozen=True, omit_defaults=True):
    """A cluster: nodes in the order of their names' numbers, queues in the file's order.

    Attributes:
        nodes: groups of equal nodes.
        queues: the tree of queues.
        rules: the same as records, parents first, where a reader of queues was brought: then
            specs say no more of them than names and weights.
        flavors: kinds of resources that quota is counted by.
    """

    nodes: tuple[NodeSpec, ...]
    queues: tuple[QueueSpec, ...] = ()
    rules: tuple[QueueConfigured, ...] = ()
    flavors: tuple[FlavorConfigured, ...] = ()

    @property
    def node_count(self) -> int:
        return sum(spec.count for spec in self.nodes)

    @property
    def card_count(self) -> int:
        return sum(spec.count * spec.cards for spec in self.nodes)

    def expand(self) -> list[tuple[str, NodeSpec]]:
        """Every node with its name, in the specs' order.

        Numbered names are PREFIX-NUMBER. Numbers go from 1 through all specs of one prefix, with
        as many digits as the last needs and at least 4, so names sort as nodes are numbered.
        """
        totals: dict[str, int] = {}
        for spec in self.nodes:
            if not spec.names:
                totals[spec.name_prefix] = totals.get(spec.name_prefix, 0) + spec.count
        used: dict[str, int] = {}
        nodes: list[tuple[str, NodeSpec]] = []
        for spec in self.nodes:
            if spec.names:
                nodes.extend((name, spec) for name in spec.names)
                continue
            prefix = spec.name_prefix
            first = used.get(prefix, 0) + 1
            used[prefix] = first + spec.count - 1
            digits = max(4, len(str(totals[prefix])))
            nodes.extend(
                (f"{prefix}-{number:0{digits}d}", spec)
                for number in range(first, first + spec.count)
            )
        return nodes

    def canonical(self) -> bytes:
        """The cluster as JSON for a run's arguments: equal clusters give equal bytes.

        Fields that have their default are left out, so a field added later, with a default that
        means what was before, changes no old bytes.
        """
        return msgspec.json.encode(self, order="deterministic")


def from_canonical(data: bytes) -> ClusterSpec:
    """The cluster of which `ClusterSpec.canonical` gave `data`.

    Raises:
        msgspec.MsgspecError: other bytes.
    """
    return msgspec.json.decode(data, type=ClusterSpec)


def parse_nodes(text: str) -> ClusterSpec:
    """The cluster of the short form `NODESxCARDS,NODESxCARDS,...`, without queues.

    Raises:
        InputError: names the part that is wrong.
    """
    nodes = []
    for part in text.split(","):
        match = _GROUP.fullmatch(part.strip())
        if match is None:
            raise InputError(
                "nodes",
                f"the part {part!r} of {text!r} is not NODESxCARDS",
                "write for example 264x8,271x4: 264 nodes of 8 cards, 271 of 4",
            )
        count, cards = map(int, match.groups())
        if not (1 <= count <= NODES_MAX and 1 <= cards <= COUNT_MAX):
            raise InputError(
                "nodes",
                f"the part {part!r} of {text!r} is out of bounds",
                f"give 1 to {NODES_MAX} nodes of 1 to {COUNT_MAX} cards",
            )
        nodes.append(_node_spec(_NodeTable(cards=cards, count=count)))
    return _checked(ClusterSpec(tuple(nodes)), "nodes")


ReadRules = Callable[[str, str], tuple[list[FlavorConfigured], list[QueueConfigured]]]
"""The flavors and queues of a TOML text, parents first; the other argument is what errors name
before the key. Raises `InputError`.
"""


def open_cluster(path: str | os.PathLike[str], read_rules: ReadRules | None = None) -> ClusterSpec:
    """The cluster in a file: TOML, or openb's list of nodes.

    Args:
        path: of the file.
        read_rules: reads its queues and flavors; none: there are no flavors, and queues have the
            keys that the head of this module names.

    Raises:
        InputError: the file cannot be read or holds something wrong; names line or key.
    """
    source = read_source(path)
    lines = source.lines(line_bytes_max=TOML_BYTES_MAX)
    first = next((text for _, text in lines if text.strip()), "")
    columns = [cell.strip() for cell in first.split(",")]
    if all(name in columns for name in _OPENB_COLUMNS):
        return _read_openb_nodes(source)
    return _read_toml(source, read_rules)


# --- TOML -------------------------------------------------------------------------------------

_Count = Annotated[int, Meta(ge=1, le=NODES_MAX)]
_Cards = Annotated[int, Meta(ge=0, le=COUNT_MAX)]
_Slots = Annotated[int, Meta(ge=1, le=COUNT_MAX)]
_Milli = Annotated[int, Meta(ge=0, le=MILLI_MAX)]
_Mib = Annotated[int, Meta(ge=0, le=MIB_MAX)]
_Weight = Annotated[int, Meta(ge=1, le=1_000_000)]
_QueueCards = Annotated[int, Meta(ge=0, le=NODES_MAX * COUNT_MAX)]
_QueueMilli = Annotated[int, Meta(ge=0, le=NODES_MAX * MILLI_MAX)]
_QueueMib = Annotated[int, Meta(ge=0, le=NODES_MAX * MIB_MAX)]


class _NodeTable(Struct, frozen=True, forbid_unknown_fields=True):
    """A [[nodes]] table as written; None: the default, which depends on other keys."""

    cards: _Cards
    count: _Count | None = None
    model: str | None = None
    card_memory_mib: _Mib | None = None
    island_cards: _Cards | None = None
    cpu_milli: _Milli | None = None
    memory_mib: _Mib | None = None
    pod_slots: _Slots | None = None
    name_prefix: str | None = None
    names: tuple[str, ...] = ()
    topology: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    taints: tuple[str, ...] = ()


class _AmountTable(Struct, frozen=True, forbid_unknown_fields=True):
    cards: _QueueCards | None = None
    cpu_milli: _QueueMilli | None = None
    memory_mib: _QueueMib | None = None

    def amount(self, absent: int) -> Amount:
        values = (self.cards, self.cpu_milli, self.memory_mib)
        return Amount(*(absent if value is None else value for value in values))


class _QueueTable(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    parent: str = ""
    weight: _Weight = 1
    guarantee: _AmountTable = _AmountTable()
    capability: _AmountTable = _AmountTable()


class _ClusterTable(Struct, frozen=True, forbid_unknown_fields=True):
    nodes: tuple[_NodeTable, ...]
    queues: tuple[_QueueTable, ...] = ()


class _RuledTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The same where queues and flavors are read by others."""

    nodes: tuple[_NodeTable, ...]
    queues: Any = None
    flavors: Any = None


_KEYS = {
    "": _ClusterTable.__struct_fields__,
    "nodes": _NodeTable.__struct_fields__,
    "queues": _QueueTable.__struct_fields__,
    "guarantee": _AmountTable.__struct_fields__,
    "capability": _AmountTable.__struct_fields__,
}


def _read_toml(source: Source, read_rules: ReadRules | None) -> ClusterSpec:
    if len(source.data) > TOML_BYTES_MAX:
        raise InputError(
            source.path,
            f"the file is larger than {TOML_BYTES_MAX} bytes",
            "use count for equal nodes",
        )
    lines = source.lines(text_bytes_max=TOML_BYTES_MAX, line_bytes_max=TOML_BYTES_MAX)
    text = "\n".join(line for _, line in lines)
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(
            source.path,
            f"this is neither TOML ({error}) nor openb's list of nodes",
            "begin each group of equal nodes with [[nodes]], count = N and cards = C",
        ) from error
    table: _ClusterTable | _RuledTable
    try:
        if read_rules is None:
            table = msgspec.convert(document, _ClusterTable)
        else:
            table = msgspec.convert(document, _RuledTable)
    except msgspec.ValidationError as error:
        raise _key_error(source.path, document, str(error)) from error
    nodes = []
    for index, node in enumerate(table.nodes):
        place = f"{source.path}: nodes[{index}]"
        _check_node(node, place)
        nodes.append(_node_spec(node))
    if read_rules is not None:
        ruled = _ruled(tuple(nodes), document, read_rules, text, source.path)
        return _checked(ruled, source.path)
    assert isinstance(table, _ClusterTable)
    queues = tuple(
        QueueSpec(
            queue.name,
            queue.parent,
            queue.weight,
            queue.guarantee.amount(0),
            queue.capability.amount(UNLIMITED),
        )
        for queue in table.queues
    )
    _check_queues(queues, source.path)
    return _checked(ClusterSpec(tuple(nodes), queues), source.path)


def _ruled(
    nodes: tuple[NodeSpec, ...],
    document: dict[str, Any],
    read_rules: ReadRules,
    text: str,
    path: str,
) -> ClusterSpec:
    """The cluster of these nodes with the queues and flavors that a reader finds."""
    if "queues" not in document and "flavors" not in document:
        return ClusterSpec(nodes)
    flavors, records = read_rules(text, path)
    known = {record.flavor: None for record in flavors}
    for record in records:
        for group in record.resource_groups:
            for quota in group.flavors:
                if quota.flavor not in known:
                    raise InputError(
                        f"{path}: queue {record.queue}",
                        f"there is no flavor {quota.flavor!r}",
                        f"add a [[flavors]] table with name = {quota.flavor!r}",
                    )
    queues = tuple([QueueSpec(r.queue, r.parent, r.weight) for r in records])
    _check_queues(queues, path)
    return ClusterSpec(nodes, queues, tuple(records), tuple(flavors))


def _key_error(path: str, document: dict[str, Any], message: str) -> InputError:
    """The message of msgspec, with the value added and the remedy."""
    at = _AT.search(message)
    where = at[1] if at else ""
    problem = message[: at.start()] if at else message
    unknown = re.search(r"unknown field `([^`]*)`", problem)
    if unknown:
        parents = [name for name, _ in _STEP.findall(where) if name]
        keys = _KEYS.get(parents[-1] if parents else "", ())
        near = difflib.get_close_matches(unknown[1], keys, 1)
        place = f"{where}.{unknown[1]}".lstrip(".")
        remedy = f"did you mean {near[0]}?" if near else f"the keys are {', '.join(keys)}"
        return InputError(f"{path}: {place}", "there is no such key", remedy)
    value: Any = document
    for name, number in _STEP.findall(where):
        value = value[int(number)] if number else value.get(name)
    shown = "" if value is document or isinstance(value, dict) else f" the value is {value!r},"
    remedy = "see the example in the documentation of ganger.replay.cluster"
    return InputError(f"{path}: {where or 'top level'}", f"{shown} {problem}".strip(), remedy)


def _check_node(node: _NodeTable, place: str) -> None:
    """Refuses what the types alone cannot."""
    if bool(node.names) == (node.count is not None):
        raise InputError(place, "count and names are both there or both absent", "give one of them")
    if node.names and node.name_prefix is not None:
        raise InputError(f"{place}.name_prefix", "names are given", "leave it out")
    islands = node.island_cards
    if islands is not None and (node.cards % islands if islands else node.cards):
        raise InputError(
            f"{place}.island_cards",
            f"the value is {islands}, and the node has {node.cards} cards",
            "give a number that divides cards",
        )
    if islands and node.cards // islands * node.cards > RUN_CARDS_MAX:
        raise InputError(
            f"{place}.island_cards",
            f"the value is {islands} on a node of {node.cards} cards",
            f"give islands of {-(-node.cards * node.cards // RUN_CARDS_MAX)} cards or more",
        )
    named = {
        "model": [node.model] if node.model is not None else [],
        "name_prefix": [node.name_prefix] if node.name_prefix is not None else [],
        "names": node.names,
        "topology": node.topology,
        "labels": [*node.labels, *(value for value in node.labels.values() if value)],
    }
    for key, names in named.items():
        for name in names:
            if not name or not is_name(name):
                raise InputError(f"{place}.{key}", f"the name is {name!r}", NAME_REMEDY)
    for taint in node.taints:
        match = _TAINT.fullmatch(taint)
        if match is None or match[3] not in TAINT_EFFECTS:
            raise InputError(
                f"{place}.taints",
                f"the value is {taint!r}",
                f"write KEY=VALUE:EFFECT or KEY:EFFECT, EFFECT being {' or '.join(TAINT_EFFECTS)}",
            )


def _node_spec(node: _NodeTable) -> NodeSpec:
    """The spec of a table that was checked, with the defaults that depend on its cards."""
    scale = max(node.cards, 1)
    taints = (match for match in map(_TAINT.fullmatch, node.taints) if match)
    return NodeSpec(
        count=len(node.names) or node.count or 0,
        cards=node.cards,
        model=_or(node.model, CARD_MODEL if node.cards else ""),
        card_memory_mib=_or(node.card_memory_mib, CARD_MEMORY_MIB if node.cards else 0),
        island_cards=_or(node.island_cards, node.cards),
        cpu_milli=_or(node.cpu_milli, min(CPU_MILLI_PER_CARD * scale, MILLI_MAX)),
        memory_mib=_or(node.memory_mib, MEMORY_MIB_PER_CARD * scale),
        pod_slots=_or(node.pod_slots, max(POD_SLOTS, node.cards)),
        labels=tuple(sorted(node.labels.items())),
        taints=tuple(TaintSpec(match[1], match[2] or "", match[3]) for match in taints),
        topology=node.topology,
        name_prefix=_or(node.name_prefix, "node"),
        names=node.names,
    )


def _or(value: _T | None, default: _T) -> _T:
    return default if value is None else value


def _check_queues(queues: tuple[QueueSpec, ...], path: str) -> None:
    parents: dict[str, str] = {}
    for index, queue in enumerate(queues):
        place = f"{path}: queues[{index}]"
        if not queue.name or not is_name(queue.name):
            raise InputError(f"{place}.name", f"the name is {queue.name!r}", NAME_REMEDY)
        if queue.name in parents:
            raise InputError(f"{place}.name", f"{queue.name!r} is there twice", "name it once")
        parents[queue.name] = queue.parent
        for field in Amount.__struct_fields__:
            low, high = getattr(queue.guarantee, field), getattr(queue.capability, field)
            if high != UNLIMITED and low > high:
                raise InputError(
                    f"{place}.guarantee.{field}",
                    f"the value is {low}, and its capability {high}",
                    "guarantee no more than the capability allows",
                )
    for index, queue in enumerate(queues):
        place = f"{path}: queues[{index}].parent"
        seen = {queue.name}
        at = queue.parent
        while at:
            if at not in parents:
                remedy = f"add a [[queues]] table with name = {at!r}, or leave parent out"
                raise InputError(place, f"there is no queue {at!r}", remedy)
            if at in seen:
                remedy = "leave parent out of the queue at the top"
                raise InputError(place, f"{queue.parent!r} leads back to {at!r}", remedy)
            seen.add(at)
            at = parents[at]


# --- openb ------------------------------------------------------------------------------------


def _read_openb_nodes(source: Source) -> ClusterSpec:
    """Node classes in order of first appearance, each node with its own name (`sn`).

    The list states neither card memory nor links nor pod slots: the memory is 0 (no pod of openb
    asks for any), all cards of a node are one island, and `OPENB_POD_SLOTS` never bind.
    """
    table = Table(source, _OPENB_COLUMNS)
    at = {name: index for index, name in enumerate(table.columns)}
    bounds = {"cpu_milli": MILLI_MAX, "memory_mib": MIB_MAX, "gpu": COUNT_MAX}
    classes: dict[tuple[str, int, int, int], list[str]] = {}
    for _, line, cells in table.rows():
        amounts = []
        for column, high in bounds.items():
            value = parse_whole(cells[at[column]], 0, high)
            if value is None:
                remedy = f"write a whole number from 0 to {high}"
                source.refuse(line, column, cells[at[column]], remedy)
            amounts.append(value)
        for column in ("sn", "model"):
            text = cells[at[column]]
            if not is_name(text) or not (text or (column == "model" and not amounts[2])):
                source.refuse(line, column, text, NAME_REMEDY)
        key = cells[at["model"]], amounts[0], amounts[1], amounts[2]
        classes.setdefault(key, []).append(cells[at["sn"]])
    nodes = (
        NodeSpec(
            len(names), cards, model, 0, cards, cpu, memory, OPENB_POD_SLOTS, names=tuple(names)
        )
        for (model, cpu, memory, cards), names in classes.items()
    )
    return _checked(ClusterSpec(tuple(nodes)), source.path)


def _checked(cluster: ClusterSpec, place: str) -> ClusterSpec:
    """The cluster, if it has nodes, not too many of them, and no name twice."""
    if not 1 <= cluster.node_count <= NODES_MAX:
        raise InputError(
            place, f"the cluster has {cluster.node_count} nodes", f"give 1 to {NODES_MAX}"
        )
    seen: set[str] = set()
    for name, _ in cluster.expand():
        if name in seen:
            raise InputError(
                place, f"two nodes are named {name!r}", "give every node a name of its own"
            )
        seen.add(name)
    return cluster

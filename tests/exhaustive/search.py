"""The search: which sequences, in which pieces, and what broke."""

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from pathlib import Path

from exhaustive.runs import explore
from exhaustive.world import CHOICES, QUEUES, Choice
from ganger.schemas import records as r
from ganger.streams.presets.loader import load_policy, preset_names
from support.contests import has_rule, with_evictions, without

ROOT = Path(__file__).resolve().parents[2]
NODES = (1, 2, 3)
GATE = "overcommit"
OPEN = " without its gate"

BROKEN_MAX = 5
"""Broken sequences that a piece keeps."""

Sequence = tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """All sequences of some length that begin with one choice. The queues are alike, so a first
    job in the other queue would give the same histories under other names.
    """

    preset: str
    nodes: int
    length: int
    first: Choice

    def sequences(self) -> Iterator[Sequence]:
        """Its sequences in order."""
        for rest in product(CHOICES, repeat=self.length - 1):
            yield (self.first, *rest)

    @property
    def name(self) -> str:
        """What its result is kept under."""
        return f"{self.preset} {self.nodes}x2 {self.length} {'/'.join(self.first)}"


def pieces(presets: Iterable[str], lengths: Iterable[int]) -> list[Piece]:
    """The whole search; short sequences first, so that what breaks is seen at its shortest."""
    firsts = [choice for choice in CHOICES if choice[1] == QUEUES[0]]
    return [
        Piece(preset, nodes, length, first)
        for length in lengths
        for preset in presets
        for nodes in NODES
        for first in firsts
    ]


def search(piece: Piece, sample: tuple[int, float] | None = None) -> dict[str, object]:
    """Run a piece. `sample`: a seed, and the share of its sequences to run."""
    policy = policy_of(piece.preset)
    chance = None if sample is None else random.Random(f"{sample[0]} {piece.name}")
    count = 0
    broken: list[str] = []
    for sequence in piece.sequences():
        if chance is not None and chance.random() >= sample[1]:
            continue
        try:
            count += explore(policy, piece.nodes, sequence)
        except Exception as error:  # a kernel that fails outright is a finding like any other
            if len(broken) < BROKEN_MAX:
                broken.append(f"{told(piece, sequence)}: {type(error).__name__}: {error}")
    return {"piece": piece.name, "histories": count, "broken": broken}


def policy_of(name: str) -> r.PolicyConfigured:
    """The policy that a preset or a variant of one stands for, with evictions."""
    preset = name.removesuffix(OPEN)
    policy = with_evictions(load_policy(preset))
    return policy if preset == name else without(policy, GATE)


def told(piece: Piece, sequence: Sequence) -> str:
    """A sequence for people."""
    jobs = ", ".join(f"{kind} in {queue}" for kind, queue in sequence)
    return f"{piece.preset}, {piece.nodes} nodes of 2 cards: {jobs}"


def source_digest() -> str:
    """A hash of all that results depend on: kernel, presets and the search itself."""
    found = sha256()
    for folder in ("streams/kernel", "streams/presets", "schemas", "tests/exhaustive"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".toml", ".avsc"):
                found.update(path.read_bytes())
    return found.hexdigest()[:16]


def read_results(path: Path, source: str) -> dict[str, dict[str, object]]:
    """Results of pieces that an earlier run of the same sources has left."""
    if not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {str(row["piece"]): row for row in rows if row["source"] == source}


def all_presets() -> list[str]:
    """Every preset there is, and those that have a gate without it too: a small cell that is full
    admits nobody, so that behind the gate few jobs come to take from others.
    """
    gated = [name for name in preset_names() if has_rule(load_policy(name), GATE)]
    return [*preset_names(), *[name + OPEN for name in gated]]

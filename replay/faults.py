"""What goes wrong in a simulated cell, from a file.

    # for all pods and inputs, drawn from the run's seed (defaults: 0 and false)
    pod_failure_milli = 20      # of 1000 attempts, so many fail somewhere in their run time
    duplicate_milli = 100       # of 1000 inputs, so many arrive twice
    late_milli = 100            # of 1000 facts, so many arrive late
    late_max_s = 120            # by at most this (default 60)
    shuffle = true              # facts of one instant arrive in any order
    release_s = 30              # an evicted attempt takes so long to end

    [[nodes]]                   # a node is not heard
    node = "node-0001"
    at_s = 3600                 # after the first submission
    for_s = 1800                # default: for good
    reboot = false              # default true: it was powered off; false: its pods ran on

    [[cards]]                   # a card fails
    node = "node-0002"
    card = 3
    at_s = 7200
    for_s = 600                 # default: for good

    [[cordons]]                 # an operator closes a node; drain = true empties it, too
    node = "node-0003"
    at_s = 100
    for_s = 1000                # default: for good
    drain = true

Nothing here is random: `Disturbance` draws from the run's seed, so the same run goes wrong in the
same way.
"""

import os
import tomllib
from hashlib import sha256
from heapq import heappop, heappush
from random import Random
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from ganger.replay.traces.fields import NS_PER_S, SECONDS_MAX
from ganger.replay.traces.source import InputError, read_source
from ganger.schemas.records import JobSubmitRequested, Record
from ganger.streams.presets.wording import defect_of

FILE_BYTES_MAX = 4 << 20

_Milli = Annotated[int, Meta(ge=0, le=1000)]
_Seconds = Annotated[int, Meta(ge=0, le=SECONDS_MAX)]
_Span = Annotated[int, Meta(ge=1, le=SECONDS_MAX)]
_Card = Annotated[int, Meta(ge=0)]


class NodeFault(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A node that is not heard from `at_s` on; powered off, or cut off while its pods run on."""

    node: str
    at_s: _Seconds
    for_s: _Span | None = None  # None: for good
    reboot: bool = True


class CardFault(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A card that fails and may be repaired."""

    node: str
    card: _Card
    at_s: _Seconds
    for_s: _Span | None = None


class Cordon(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A node that an operator closes to new pods, or drains."""

    node: str
    at_s: _Seconds
    for_s: _Span | None = None
    drain: bool = False


class Faults(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """All faults of a run. Times are in seconds after the first submission."""

    pod_failure_milli: _Milli = 0
    duplicate_milli: _Milli = 0
    late_milli: _Milli = 0
    late_max_s: _Span = 60
    shuffle: bool = False
    release_s: _Seconds = 0
    nodes: tuple[NodeFault, ...] = ()
    cards: tuple[CardFault, ...] = ()
    cordons: tuple[Cordon, ...] = ()

    def canonical(self) -> bytes:
        """The faults as JSON for a run's arguments: equal faults, equal bytes."""
        return msgspec.json.encode(self, order="deterministic")

    @property
    def disturbs(self) -> bool:
        """Whether inputs arrive otherwise than at once, once and in order."""
        return bool(self.duplicate_milli or self.late_milli or self.shuffle)


NONE = Faults()

_KEYS = {
    "": Faults.__struct_fields__,
    "nodes": NodeFault.__struct_fields__,
    "cards": CardFault.__struct_fields__,
    "cordons": Cordon.__struct_fields__,
}
_REMEDY = "see the example in the documentation of ganger.replay.faults"


def open_faults(path: str | os.PathLike[str]) -> Faults:
    """The faults in a TOML file.

    Raises:
        InputError: the file cannot be read or holds something wrong; names the key.
    """
    source = read_source(path, file_bytes_max=FILE_BYTES_MAX)
    try:
        document = tomllib.loads(source.text())
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(source.path, f"this is no TOML ({error})", _REMEDY) from error
    try:
        return msgspec.convert(document, Faults)
    except msgspec.ValidationError as error:
        defect = defect_of(document, str(error), _KEYS)
        place = f"{source.path}: {defect.key or 'top level'}"
        raise InputError(place, defect.problem, defect.remedy or _REMEDY) from error


class PodFailures:
    """Which attempts fail and when: a hash of seed and attempt, so order does not matter."""

    def __init__(self, seed: int, failure_milli: int) -> None:
        """`failure_milli`: of 1000 attempts, so many fail."""
        self._prefix = f"{seed}/".encode()
        self._failure_milli = failure_milli

    def __call__(self, job: str, pod: int, attempt: int, run_ns: int) -> int | None:
        """How long the attempt runs before it fails (ns); None: it does not."""
        digest = sha256(self._prefix + f"{job}/{pod}/{attempt}".encode()).digest()
        if int.from_bytes(digest[:8]) % 1000 >= self._failure_milli:
            return None
        span_ns = run_ns if run_ns >= 0 else 3600 * NS_PER_S
        return int.from_bytes(digest[8:16]) % (span_ns + 1)


class Disturbance:
    """The way of inputs to the intake: some arrive twice, late, or in another order.

    Requests are never late by themselves, since a late request is one of a later time; they may
    arrive twice, and so may facts.
    """

    def __init__(self, faults: Faults, seed: int) -> None:
        self._faults = faults
        self._random = Random(seed)
        self._under_way: list[tuple[int, int, Record]] = []  # heap: when, which, what
        self._count = 0

    def send(self, inputs: list[Record], now_ns: int) -> list[Record]:
        """The inputs of now that arrive now, in the order in which they do."""
        draw, faults = self._random.randrange, self._faults
        late_max_ns = faults.late_max_s * NS_PER_S
        arriving = []
        for record in inputs:
            is_fact = not isinstance(record, JobSubmitRequested)
            if is_fact and draw(1000) < faults.late_milli:
                self._delay(record, now_ns + 1 + draw(late_max_ns))
            else:
                arriving.append(record)
            if draw(1000) < faults.duplicate_milli:
                self._delay(record, now_ns + draw(late_max_ns))
        if faults.shuffle:
            self._random.shuffle(arriving)
        return arriving

    def due(self) -> int | None:
        """When the next input that is under way arrives."""
        return self._under_way[0][0] if self._under_way else None

    def take(self, now_ns: int) -> list[Record]:
        """Inputs that were under way and arrive now."""
        arriving = []
        while self._under_way and self._under_way[0][0] <= now_ns:
            arriving.append(heappop(self._under_way)[2])
        if self._faults.shuffle:
            self._random.shuffle(arriving)
        return arriving

    def _delay(self, record: Record, at_ns: int) -> None:
        self._count += 1
        heappush(self._under_way, (at_ns, self._count, record))

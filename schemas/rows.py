"""Rows of the tables that people and services see, and the records that carry them.

Rows are flat, enums are given by name, units stand last in names. Times are UTC nanoseconds since
1970, 0 where something has not happened. Amounts of queues are in milli-cards, milli-cores and
MiB, -1 where there is no limit. A row does not say of which record it is: rows are compared, and
one that has not changed is not sent again.
"""

from msgspec import Struct

from ganger.schemas.parts import Part


class Shown(Struct, frozen=True, gc=False):
    """Base of all that is published to be read, and never decided from."""


class Row(Shown, frozen=True, gc=False):
    """Base of every row. Its first fields are its key."""


class Owner(Part, frozen=True, gc=False):
    """An attempt that holds a card, or `card_milli` thousandths of it."""

    job: str
    pod: int
    attempt: int
    card_milli: int


class CardRow(Row, frozen=True, gc=False):
    """One card."""

    node: str
    card: int
    model: str
    memory_mib: int
    island: int
    health: str
    owners: tuple[Owner, ...]
    free_milli: int  # 0 for a card that is not healthy; the node itself may take no pods


class NodeRow(Row, frozen=True, gc=False):
    """One node."""

    node: str
    state: str  # open, lost, draining, cordoned, reserved or blocked (by pods unknown here)
    card_count: int
    card_healthy_count: int
    card_free_count: int
    shared_free_milli: int  # on cards that are partly given away
    cpu_milli: int
    cpu_free_milli: int
    memory_mib: int
    memory_free_mib: int
    pod_slots: int
    pod_slots_free: int
    pod_count: int  # attempts that hold something
    topology: tuple[str, ...]
    boot_id: str


class QueueRow(Row, frozen=True, gc=False):
    """One queue, its whole subtree counted."""

    queue: str
    parent: str
    state: str
    weight: int
    job_count: int  # not ended
    used_cards_milli: int
    used_cpu_milli: int
    used_memory_mib: int
    deserved_cards_milli: int
    deserved_cpu_milli: int
    deserved_memory_mib: int
    guarantee_cards_milli: int
    guarantee_cpu_milli: int
    guarantee_memory_mib: int
    capability_cards_milli: int
    capability_cpu_milli: int
    capability_memory_mib: int
    waiting_cards_milli: int
    waiting_cpu_milli: int
    waiting_memory_mib: int
    admitted_cards_milli: int
    admitted_cpu_milli: int
    admitted_memory_mib: int


class JobRow(Row, frozen=True, gc=False):
    """One job, until its time to live after its end is over."""

    job: str
    queue: str
    user: str
    tenant: str
    phase: str
    is_held: bool
    priority: int
    pod_count: int
    pod_pending_count: int
    pod_allocated_count: int
    pod_running_count: int
    pod_releasing_count: int
    pod_suspended_count: int
    pod_succeeded_count: int
    held_cards_milli: int
    submitted_ns: int
    started_ns: int
    ended_ns: int
    reason: str  # why it ended or is ending; UNKNOWN before
    submit_seq: int


class RowChange(Part, frozen=True, gc=False):
    """One row of a table as it is now, or that it is gone."""

    table: str
    key: str  # below the cell: NODE/CARD for cards, else the name
    row: bytes  # in Confluent's wire format; empty = deleted


class RowsChanged(Shown, frozen=True, gc=False):
    """Rows of a cell that differ from what its owner told before, as after record `seq`.

    Without rows: a mark of how far a table is. `epoch`: seq of the owner's OwnerClaimed.
    """

    cell: str
    epoch: int
    seq: int
    time_ns: int
    rows: tuple[RowChange, ...]


class CellPlaced(Shown, frozen=True, gc=False):
    """Which partition a cell has. `fingerprint` and `arguments` are what its chains begin with."""

    cell: str
    partition: int
    fingerprint: bytes
    arguments: bytes


SHOWN_TYPES: tuple[type[Shown], ...] = (CardRow, NodeRow, QueueRow, JobRow, RowsChanged, CellPlaced)
"""All of them, in the order of their numbers."""

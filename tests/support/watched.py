"""A cell that the auditor and the kernel's own checks watch at every record."""

from hashlib import sha256

from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from support.auditor import Auditor
from support.builders import Cell


class WatchedCell(Cell):
    """`Cell`, with an auditor beside it."""

    def __init__(self, name: str = "cell") -> None:
        super().__init__(name)
        self.auditor = Auditor(name, sha256(name.encode()).digest())

    def put(self, *records: r.Record) -> list[Decision]:
        """Step records; invariants and promises are checked after each."""
        made: list[Decision] = []
        for record in records:
            decisions = super().put(record)
            self.auditor.watch(record, decisions)
            made += decisions
        return made

"""Tables made of changes alone, held against the rows of the state."""

from collections.abc import Sequence

from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.rows import Row
from ganger.streams.kernel.state import State
from ganger.streams.kernel.step import step
from ganger.streams.tables.changes import RowChanges
from ganger.streams.tables.rows import TABLES, key_of

Tables = dict[tuple[str, str], Row]


def rows_of(state: State) -> Tables:
    """All rows by table and key."""
    return {(name, key_of(row)): row for name, (_, made) in TABLES.items() for row in made(state)}


class Follower:
    """A state that goes on, and tables that are told of its changes only."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.changes = RowChanges(state)
        self.tables = rows_of(state)

    def follow(self, records: Sequence[r.Record]) -> None:
        """Step a group, then observe it, as whoever follows a ledger does."""
        first = self.state.next_seq
        decisions: list[Decision] = []
        for seq, record in enumerate(records, first):
            decisions += step(self.state, seq, record)
        self.changes.observe(records, decisions)

    def take(self) -> None:
        """Fold what changed; the tables must be those of the state."""
        changes = self.changes.take(self.state)
        keys = [(table, key) for table, key, _ in changes]
        assert len(set(keys)) == len(keys)
        for table, key, row in changes:
            if row is None:
                self.tables.pop((table, key), None)
            else:
                assert key_of(row) == key
                self.tables[table, key] = row
        assert self.tables == rows_of(self.state)
        everything = self.changes.everything(self.state)
        assert {(table, key): row for table, key, row in everything} == self.tables
        assert len(everything) == len(self.tables)

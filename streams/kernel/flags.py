"""Numbered changes of decision logic, each in force from the record that enables it on.

None so far: the first released logic is flag-free. A change gets the next number, a line here that
says what it changes, a recorded ledger in `tests/replay/corpus` and a line in the changelog.
"""

ALL_FLAGS: tuple[int, ...] = ()
"""Flags that a new cell starts with, ascending."""

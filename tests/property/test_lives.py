"""Random lives of jobs: what they say is to follow from events, restarts, suspension, evictions for
others and their claims, limits.

After each record, and each operation of a cycle, the invariants hold, the digest is that of a state
counted anew, and a restored snapshot asks to be called at the same time.
"""

import pytest

from support.lives import Life

LIVES = 20
STEPS = 120


@pytest.mark.parametrize("seed", range(LIVES))
def test_whatever_befalls_jobs_the_state_stays_sound(seed: int) -> None:
    life = Life(seed)
    for _ in range(STEPS):
        life.step()

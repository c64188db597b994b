"""Jobs in gaps that are warned before they are suspended or evicted, and given a grace."""

import pytest
from msgspec.structs import replace

from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind
from ganger.streams.kernel.entities import ENDED
from support import builders as b
from support.lent_cells import LentHistory, lent_policy

K = DecisionKind
EAGER = {"yielding": {"evict_after_ns": "5s", "floor_ns": "3s"}}


class WarnedHistory(LentHistory):
    """The same histories; most jobs ask for a notice, a grace, or both."""

    def _submit(self) -> None:
        put, chance = self.cell.put, self.chance

        def put_warned(*records: r.Record) -> list[Decision]:
            facts = {
                "notice_ns": chance.choice((0, 1, 3, 9)) * b.SECOND,
                "grace_ns": chance.choice((-1, 0, 2 * b.SECOND)),
            }
            return put(*[replace(one, **facts) for one in records])

        self.cell.put = put_warned  # type: ignore[method-assign]
        super()._submit()
        self.cell.put = put  # type: ignore[method-assign]


@pytest.mark.parametrize("seed", range(4))
def test_whoever_is_warned_is_told_at_the_end_of_its_notice_or_stays(seed: int) -> None:
    """The invariants hold after every record, all jobs end, and no notice is longer than said."""
    history = WarnedHistory(lent_policy(**EAGER), seed)
    for _ in range(150):
        history.step()
    history.drain()
    cell = history.cell
    assert all(job.phase in ENDED for job in cell.state.jobs.values())
    warned: dict[tuple[str, int, int], int] = {}
    told = 0
    for one in cell.decisions:
        attempt = (one.job, one.pod, one.attempt)
        if one.kind is K.NOTICE:
            warned[attempt] = one.until_ns
            assert one.until_ns > one.time_ns and one.for_job
        elif one.kind in (K.EVICT, K.SUSPEND) and one.for_job:
            until_ns = warned.pop(attempt, 0)
            told += until_ns > 0
            assert one.time_ns >= until_ns
            assert one.until_ns == 0 or one.until_ns == one.time_ns + 2 * b.SECOND
    assert told > 0

"""The end of an admitted job that is held gives back what limits counted for it."""

import pytest

from ganger.schemas import records as r
from ganger.schemas.enums import DecisionKind, LimitScope
from ganger.streams.kernel import snapshot
from ganger.streams.kernel.step import step
from support.builders import Cell, node, policy, queue, role
from support.lent_cells import lent_policy


@pytest.mark.parametrize("rules", [policy("priority", "gang", "limits"), lent_policy()])
def test_who_waits_for_a_limit_is_admitted_when_a_held_job_ends(rules: r.PolicyConfigured) -> None:
    limit = r.Limit(LimitScope.USER, "", "cards_milli", 4000)
    cell = Cell().start(node("n", 4), queue("q", limits=(limit,)), rules=rules)
    cell.submit("other", role(cards=2), user="v")
    for one in cell.tick():
        if one.kind is DecisionKind.ALLOCATE:
            cell.started(one.job)
    cell.submit("held", role(cards=4))
    cell.tick()
    cell.update("held", held=True)
    cell.submit("waits", role(cards=1))
    cell.tick()
    cell.cancel("held")
    other = snapshot.decode(snapshot.encode(cell.state))
    made = cell.tick()
    step(other, other.next_seq, cell.records[-1])
    assert "waits" in [one.job for one in made]
    assert other.chain == cell.state.chain

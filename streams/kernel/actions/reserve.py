"""reserve: keep the cards that become free first for jobs that have waited longer than promised.

Nobody is evicted for it. The job gets a claim on what is free and on what attempts hold that are
expected to end; it starts when the last of them has ended, and until then nobody else gets its
cards. The cheapest such claim is the one that can be met first: attempts are seen as gone in the
order of their expected ends, as few as suffice. Where no end is known a claim is a guess; it is
given up after the policy's `claim_ns` past the last end that was counted on, and made anew.

`depth` jobs have such claims at a time, those that have waited longest past their promise first.
Under policies that plan with run times reservations do this, for whoever is first in line.
"""

from ganger.schemas.enums import Phase
from ganger.streams.kernel.backfill.estimates import expected_end
from ganger.streams.kernel.entities import Job, Pod
from ganger.streams.kernel.horizon.steps import FOREVER
from ganger.streams.kernel.jobs.deadlines import deadline_ns
from ganger.streams.kernel.jobs.lines import step_out
from ganger.streams.kernel.nodes.placement import place_job
from ganger.streams.kernel.nodes.statement import Statement
from ganger.streams.kernel.preemption import claims_book
from ganger.streams.kernel.preemption.evictions import is_told
from ganger.streams.kernel.session import Session
from ganger.streams.kernel.state import State

RULE = "sla"
"""The policy that says who has waited too long."""

_INQUEUE = Phase.INQUEUE

Ending = tuple[int, int, int, Pod]
"""When an attempt is expected to end, its job, its number, the attempt."""


def run(session: Session) -> None:
    """Make claims for those that have none, as far as `depth` allows."""
    state = session.state
    overdue = state.indexes.overdue
    if not overdue:
        return
    free = state.policy.numbers["reserve.depth"] - sum(1 for seq in overdue if seq in state.claims)
    session.line_lone()
    endings: list[Ending] | None = None
    for job in sorted(overdue.values(), key=lambda job: _turn(state, job)):
        if free <= 0:
            break
        if job.phase is not _INQUEUE or job.key is None:
            continue
        if endings is None:
            endings = _endings(state)
        if _claim(state, job, endings):
            free -= 1


def _turn(state: State, job: Job) -> tuple[int, int]:
    at_ns = deadline_ns(state, job)
    assert at_ns is not None, job.seq
    return at_ns, job.seq


def _endings(state: State) -> list[Ending]:
    """Attempts on nodes in use, those that leave at once first, then by expected end."""
    found: list[Ending] = []
    for node in state.nodes:
        for pod in node.pods.values() if node.is_open else ():
            job = state.jobs[pod.job]
            at_ns = state.clock_ns if is_told(pod) else expected_end(state, job, pod)
            found.append((at_ns, pod.job, pod.index, pod))
    return sorted(found, key=lambda ending: (*ending[:3], ending[3].attempt))


def _claim(state: State, job: Job, endings: list[Ending]) -> bool:
    """Claim the places for a job that are free first. Whether there are any."""
    lifts, statement = Statement(state), Statement(state)

    def fits(count: int) -> bool:
        statement.discard()
        lifts.discard()
        for ending in endings[:count]:
            lifts.give_back(ending[3])
        return place_job(state, statement, job, surplus=False) is None

    try:
        high = 1
        while high < len(endings) and not fits(high):
            high *= 2
        high = min(high, len(endings))
        if not fits(high):
            return False
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            if fits(middle):
                high = middle
            else:
                low = middle
        fits(high)
        entries = statement.take_entries()
    finally:
        statement.discard()
        lifts.discard()
    known = [at_ns for at_ns, *_ in endings[:high] if at_ns < FOREVER]
    until_ns = max(state.now_ns, *known, 0) + state.policy.settings.claim_ns
    step_out(state, job)
    claims_book.make(state, job, entries, (), until_ns, rule=RULE)
    return True

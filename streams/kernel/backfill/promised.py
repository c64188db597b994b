"""Promises of starts that were made to waiting jobs: whether they are kept, and what that teaches.

A promise is a fact of its job until that starts or ends. One whose time passes is broken, and
counts as such at the first Tick after it; so every one of a time before the clock has been counted,
whoever looks at the facts. What is learnt are rows of the memory, see `foresight.promises`.
"""

from ganger.streams.kernel.backfill import memory
from ganger.streams.kernel.entities import Job
from ganger.streams.kernel.foresight import promises
from ganger.streams.kernel.foresight.promises import FACTOR_ONE, Factors, Promise
from ganger.streams.kernel.foresight.standing import Promised, Told
from ganger.streams.kernel.state import State

_FACTORS = "eta/factors"
_SHARES = (promises.MEDIAN_MILLI, promises.LATE_MILLI)


def make(state: State, job: Job, told: Told) -> None:
    """Keep a promise."""
    promised = state.indexes.promised
    assert promised is not None and not job.promise, job.seq
    job.promise = tuple(told)
    state.touch(job)
    promised.add(job.seq, told, told.at_ns)


def take(state: State, job: Job) -> Told:
    """The promise of a job stands no more."""
    told = Told(*job.promise)
    job.promise = ()
    state.touch(job)
    if state.indexes.promised is not None:
        state.indexes.promised.work -= told.work
    return told


def started(state: State, job: Job) -> None:
    """A job that was promised when it would start does."""
    told = take(state, job)
    if state.indexes.promised is None:
        return
    wait_ns = max(0, state.now_ns - told.at_ns)
    for which in (0, 1):
        if told.at_ns + wait_ns <= told.by_ns(which):
            _correct(state, which, is_broken=False)
    for name in rows_of(told.cards_milli, told.ahead):
        memory.put(state, name, promises.learn(memory.get(state, name), wait_ns, told.unit_ns))


def expire(state: State) -> None:
    """What was promised for a moment before the clock, and did not come, is broken."""
    promised = state.indexes.promised
    assert promised is not None
    while (passed := promised.passed(state.clock_ns)) is not None:
        by_ns, seq, which = passed
        job = state.jobs.get(seq)
        if job is not None and job.promise and Told(*job.promise).by_ns(which) == by_ns:
            _correct(state, which, is_broken=True)


def rebuild(state: State) -> None:
    """All that stands, from the facts; nothing under policies that promise nothing."""
    if not (state.policy.settings.promises and state.policy.is_timed):
        state.indexes.promised = None
        return
    promised = state.indexes.promised = Promised()
    for job in state.jobs.values():
        if job.promise:
            promised.add(job.seq, Told(*job.promise), state.clock_ns)


def rows_of(cards_milli: int, ahead: int) -> tuple[str, ...]:
    """Names of the rows for a job, its narrowest class first."""
    cards = -(-cards_milli // 1000)
    return tuple(
        [
            "/".join(["eta", *map(str, one)]) if one else "eta/all"
            for one in promises.classes(cards, ahead)
        ]
    )


def factors(state: State) -> Factors:
    """The corrections of both promises as of now."""
    values = memory.get(state, _FACTORS)
    return Factors(*values) if values else Factors(FACTOR_ONE, FACTOR_ONE)


def work_out(state: State, cards_milli: int, ahead: int, unit_ns: int) -> Promise:
    """What to promise a job now."""
    rows = [memory.get(state, name) for name in rows_of(cards_milli, ahead)]
    return promises.promise(rows, unit_ns, factors(state))


def _correct(state: State, which: int, *, is_broken: bool) -> None:
    both = list(factors(state))
    both[which] = promises.correct(both[which], _SHARES[which], is_broken)
    memory.put(state, _FACTORS, tuple(both))

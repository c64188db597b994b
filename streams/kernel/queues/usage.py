"""Past use: card-time that users had in queues, by the hour.

The facts are whole numbers of milli-card-seconds per queue, user and hour, written when an attempt
gives its cards back and kept for `HOURS` hours. What live attempts have had so far is added when
past use is read. Only full hours count, so what is read changes when the clock's hour does and at
no other time, and the order of waiting jobs with it. How much past use counts is decided when it is
read (module `fairness.decay`), so the half-life may be changed at any time, for the past too.

Use is kept while the policy has a half-life. It begins with an attempt's allocation; of an adopted
one, when it became known.
"""

from ganger.streams.kernel.entities import Job, Pod, Usage
from ganger.streams.kernel.fairness.decay import HOUR_NS, decayed
from ganger.streams.kernel.state import PastUse, State

HOURS = 1024
"""Hours that are kept: six weeks."""

_SECOND = 10**9


def charge(state: State, job: Job, pod: Pod) -> None:
    """An attempt gives its cards back now: what it had is written down. O(hours it ran)."""
    if not (state.policy.settings.usage_half_life_ns and pod.shape.cards_milli):
        return
    key = (job.queue, job.request.user)
    hour = state.now_ns // HOUR_NS
    had: dict[int, int] = {}
    _count(had, pod, hour + 1 - HOURS, state.now_ns)
    if not had:
        return
    usage = state.usage.get(key)
    if usage is None:
        usage = state.usage[key] = Usage(*key)
    for at, amount in had.items():
        usage.hours[at] = usage.hours.get(at, 0) + amount
    state.touch(usage)


def forget_old(state: State) -> None:
    """Drop the hours that are kept no more, and whoever had nothing in the others. O(usage)."""
    oldest = state.clock_ns // HOUR_NS - HOURS
    for key in list(state.usage):
        usage = state.usage[key]
        old = [hour for hour in usage.hours if hour < oldest]
        for hour in old:
            del usage.hours[hour]
        if not usage.hours:
            del state.usage[key]
            usage.is_untold = True
        if old or usage.is_untold:
            state.touch(usage)


def past(state: State) -> PastUse:
    """Use in the full hours before the clock's, as it counts now. O(jobs + usage) once an hour."""
    half_life_ns = state.policy.settings.usage_half_life_ns
    versions = (state.clock_ns // HOUR_NS, half_life_ns, state.indexes.queue_epoch)
    kept = state.indexes.past_use
    if kept is None or kept.versions != versions:
        kept = state.indexes.past_use = _read(state, versions)
    return kept


def _read(state: State, versions: tuple[int, int, int]) -> PastUse:
    hour, half_life_ns, _ = versions
    result = PastUse(versions)
    if not half_life_ns:
        return result
    hours: dict[tuple[int, str], dict[int, int]] = {}
    for key, usage in state.usage.items():
        hours[key] = {at: n for at, n in usage.hours.items() if hour - HOURS <= at < hour}
    for job in state.jobs.values():
        for pod in (job.pods or {}).values():
            if pod.shape.cards_milli:
                own = hours.setdefault((job.queue, job.request.user), {})
                _count(own, pod, hour - HOURS, hour * HOUR_NS)
    for key, amounts in hours.items():
        amount = decayed(amounts, hour * HOUR_NS, half_life_ns)
        result.users[key] = amount
        for level in state.queues[key[0]].chain:
            result.queues[level.index] = result.queues.get(level.index, 0) + amount
    return result


def _count(hours: dict[int, int], pod: Pod, oldest: int, until_ns: int) -> None:
    """Add what an attempt had until a moment, hour by hour from the oldest on."""
    begin_ns = max(pod.allocated_ns, oldest * HOUR_NS)
    while begin_ns < until_ns:
        hour = begin_ns // HOUR_NS
        end_ns = min(until_ns, (hour + 1) * HOUR_NS)
        amount = pod.shape.cards_milli * (end_ns - begin_ns) // _SECOND
        if amount:
            hours[hour] = hours.get(hour, 0) + amount
        begin_ns = end_ns

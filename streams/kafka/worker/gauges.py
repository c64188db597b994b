"""Numbers of a cell's state for metrics: counted now and then, from the state as it is."""

from collections import Counter

from ganger.schemas.enums import Phase
from ganger.streams.kernel.backfill import tuning
from ganger.streams.kernel.state import State

_WAITING = (Phase.PENDING, Phase.INQUEUE)


def jobs_waiting(state: State) -> dict[str, int]:
    """Jobs that wait to be placed by queue; O(jobs)."""
    counts = Counter(job.queue for job in state.jobs.values() if job.phase in _WAITING)
    return {state.queues[place].config.queue: count for place, count in counts.items()}


def cards_by_state(state: State) -> dict[str, int]:
    """Cards by what may be placed on them: free, shared, used, failed, closed; O(nodes)."""
    counts: Counter[str] = Counter()
    for node in state.nodes:
        total = sum(run.count for run in node.report.cards)
        healthy = node.healthy.bit_count()
        counts["failed"] += total - healthy
        if not node.is_open:
            counts["closed"] += healthy
            continue
        free, shared = node.free.bit_count(), len(node.shared)
        counts["free"] += free
        counts["shared"] += shared
        counts["used"] += healthy - free - shared
    return dict(counts)


def gap_health(state: State) -> dict[str, int]:
    """How jobs in gaps fare in the window under way, in thousandths; empty without a controller."""
    if not tuning.is_on(state):
        return {}
    health = tuning.health_of(tuning.window_of(state), tuning.past_of(state))
    return {
        "completion": health.completion_milli,
        "use": health.use_milli,
        "main_wait": health.main_wait_milli,
    }

"""Protection of backfilled pods, what an eviction costs, and what it is made up with."""

CREDIT_MAX = 1 << 40


def protection_ns(estimate_ns: int, share_milli: int, floor_ns: int, ceiling_ns: int) -> int:
    """How long a backfilled attempt is nobody's victim, from when it first runs.

    Args:
        estimate_ns: of its run time; 0 = none, which gives the floor.
        share_milli: of the estimate, in thousandths.
        floor_ns: at least so long.
        ceiling_ns: at most so long.
    """
    return min(ceiling_ns, max(floor_ns, estimate_ns * share_milli // 1000))


def lost_ns(started_ns: int, now_ns: int, progress_milli: int, checkpoint_milli: int) -> int:
    """Run time that is lost if an attempt ends now.

    With a checkpoint, the part of its run since then by the progress it reports; else all of it.

    Args:
        started_ns: when it began to run; 0 = it has not.
        now_ns: not before that.
        progress_milli: reported last, 0..1000.
        checkpoint_milli: progress at the last checkpoint; -1 = none.
    """
    if not started_ns:
        return 0
    ran_ns = now_ns - started_ns
    if checkpoint_milli < 0 or progress_milli <= 0:
        return ran_ns
    lost_milli = max(0, progress_milli - checkpoint_milli)
    return ran_ns * lost_milli // progress_milli


def credit(before: int, lost_card_ns: int, unit_card_ns: int) -> int:
    """Compensation of a job that was evicted, in units of lost work; it adds up over evictions.

    It orders jobs below every main job: see the key of the policy `compensation`.
    """
    return min(CREDIT_MAX, before + lost_card_ns // unit_card_ns)

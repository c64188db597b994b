"""The table of kinds: who runs what, by peer and kind."""

from conformance import quota, scoring, shares
from conformance.report import Runners

RUNNERS: Runners = {
    ("kai", "fair_share"): shares.fair_share,
    ("kai", "reclaim_gate"): shares.reclaim_gate,
    ("kai", "reclaim_allowed"): shares.reclaim_allowed,
    ("volcano", "queue_share"): shares.queue_share,
    ("volcano", "score"): scoring.score,
    ("kueue", "assign_flavors"): quota.assign_flavors,
    ("kueue", "cycle_order"): quota.cycle_order,
    ("kueue", "dominant_share"): quota.dominant_share,
    ("kueue", "preempt_policy"): quota.preempt_policy,
    ("kueue", "preempt_targets"): quota.preempt_targets,
    ("kueue", "victim_order"): quota.victim_order,
}

"""The table of kinds: who runs what, by peer and kind."""

from conformance import admission, cycles, kai, questions, quota, scoring, shares
from conformance.cases import Body
from conformance.fields import refuse_unread
from conformance.report import Runner, Runners

_RUNNERS: Runners = {
    ("kai", "cycle"): kai.cycle,
    ("kai", "rounds"): kai.rounds,
    ("kai", "fair_share"): shares.fair_share,
    ("kai", "reclaim_gate"): shares.reclaim_gate,
    ("kai", "reclaim_allowed"): shares.reclaim_allowed,
    ("volcano", "cycle"): cycles.cycle,
    ("volcano", "steps"): cycles.steps,
    ("volcano", "enqueueable"): questions.enqueueable,
    ("volcano", "job_order"): questions.job_order,
    ("volcano", "victims"): questions.victims,
    ("volcano", "victim_order"): questions.victim_order,
    ("volcano", "backfill_order"): questions.backfill_order,
    ("volcano", "gang_releasing"): questions.gang_releasing,
    ("volcano", "queue_share"): shares.queue_share,
    ("volcano", "score"): scoring.score,
    ("volcano", "feasible"): scoring.feasible,
    ("kueue", "admission_cycle"): admission.admission_cycle,
    ("kueue", "assign_flavors"): quota.assign_flavors,
    ("kueue", "cycle_order"): quota.cycle_order,
    ("kueue", "dominant_share"): quota.dominant_share,
    ("kueue", "preempt_policy"): quota.preempt_policy,
    ("kueue", "preempt_targets"): quota.preempt_targets,
    ("kueue", "victim_order"): quota.victim_order,
}


def _strict(peer: str, runner: Runner) -> Runner:
    """The runner, of cases with no field that it would pass over."""

    def run(body: Body) -> None:
        refuse_unread(peer, body)
        runner(body)

    return run


RUNNERS: Runners = {key: _strict(key[0], runner) for key, runner in _RUNNERS.items()}

"""The state digest: a sum of hashes over primary facts, kept up to date entity by entity.

Equal states have equal digests whatever path led to them, so a restored snapshot can be checked.
The digest finds errors; proof rests on the decision chain. It covers the facts in a fixed layout
that is spelled out here field by field, so that a field added elsewhere changes no old ledger's
digests.

Most jobs are one pod, and what happens to it happens to the job. So an attempt that is all its job
has is hashed with it (`holds_all`), any other on its own.
"""

from hashlib import blake2b
from struct import Struct

import msgspec

from ganger.schemas.records import (
    Amount,
    FlavorConfigured,
    NodeReport,
    PolicyConfigured,
    QueueConfigured,
    ReservationRequested,
    ZoneConfigured,
)
from ganger.streams.kernel.entities import (
    Booking,
    Claim,
    Entity,
    Job,
    Node,
    Pod,
    Queue,
    Row,
    Submissions,
    Usage,
)
from ganger.streams.kernel.state import State

_MODULUS = 1 << 128
_blank = blake2b(digest_size=16)
_encode = msgspec.msgpack.Encoder().encode
_pack_pod = Struct("<16q").pack
_pack_times = Struct("<2q").pack
_pack_time = Struct("<5q").pack
_pack_booking = Struct("<4qQ").pack
_pack_job = Struct("<18q").pack
_MASK_BITS = 62  # longer masks follow the packed facts as bytes
_SEQ = 0x9E3779B97F4A7C15F39CC0605CEDC835
_CLOCK = 0xB5297A4D3F84D5B568E31DA4C9A1B70F
_EPOCH = 0xC2B2AE3D27D4EB4F165667B19E3779F9
_CLAIM = 0xD6E8FEB86659FD93A0761D6478BD642F
_PROGRESS = 0x8EBC6AF09C88C6E3D1B54A32D192ED03
_STIRRED = 0x9A4F6C1B83D2E70518F95D3B7A60C24D
"""Odd numbers of 128 bits, otherwise arbitrary, that tell numbers apart in a sum; see `_core`."""


def holds_all(job: Job) -> bool:
    """Whether a live attempt of the job, ghosts aside, is all that it has."""
    roles = job.roles
    return len(roles) == 1 and roles[0].replicas == 1


def retell(state: State, job: Job) -> None:
    """Hash the job's attempts as they are to be from now on, after its sizes have changed."""
    for pod in (job.pods or {}).values():
        pod.is_untold = holds_all(job)
        state.touch(pod)
    state.touch(job)


def _hash(data: bytes) -> int:
    hasher = _blank.copy()
    hasher.update(data)
    return int.from_bytes(hasher.digest(), "little")


def _pod_facts(pod: Pod) -> bytes:
    mask = pod.mask
    is_long = mask.bit_length() > _MASK_BITS
    facts = _pack_pod(
        pod.job,
        pod.index,
        pod.attempt,
        pod.node,
        pod.card_milli,
        pod.card_memory,
        pod.tier,
        pod.phase,
        pod.allocated_seq,
        pod.allocated_ns,
        pod.started_ns,
        pod.evict_seq,
        pod.evict_reason,
        pod.progress_milli,
        pod.checkpoint_milli,
        -1 if is_long else mask,
    )
    if is_long:
        facts += mask.to_bytes((mask.bit_length() + 7) // 8, "little")
    if pod.protected_until_ns or pod.notice_until_ns:
        facts += b"until" + _pack_times(pod.protected_until_ns, pod.notice_until_ns)
    if pod.expect_ns or pod.protect_ns or pod.for_job >= 0 or pod.suspended_ns or pod.ran_ns:
        facts += b"time" + _pack_time(
            pod.expect_ns, pod.protect_ns, pod.for_job, pod.suspended_ns, pod.ran_ns
        )
    if pod.earlier_ns:
        facts += b"earlier" + _pack_times(pod.earlier_ns, 0)
    return facts


def _job_facts(job: Job) -> bytes:
    """What its request says is not hashed: its seq names the record that says it."""
    roles = job.roles
    first = roles[0]
    facts = _pack_job(
        job.seq,
        job.queue,
        job.priority,
        job.phase,
        job.held,
        job.submitted_ns,
        job.not_before_ns,
        job.first_started_ns,
        job.last_tier,
        job.ending,
        job.reason,
        job.asked,
        job.limit,
        job.ended_ns,
        first.replicas,
        first.fresh,
        first.live,
        first.succeeded,
    )
    if job.pods and first.replicas == 1 and len(roles) == 1:  # `holds_all`
        for pod in job.pods.values():
            facts += _pod_facts(pod)
    if (
        len(roles) > 1
        or first.returned
        or job.attempts
        or job.failures
        or job.avoid
        or job.dependencies
        or job.is_scaled
    ):
        facts += _past_facts(job)
    if (
        job.right
        or job.flavors
        or job.admitted_counts
        or job.requeues
        or job.restarts
        or job.stale_since_ns
    ):
        facts += _quota_facts(job)
    if job.admitted_ns or job.waiting_since_ns or job.wishes or job.restarted_seq:
        own = (job.admitted_ns, job.waiting_since_ns, job.wishes, job.restarted_seq)
        facts += _encode(("own", own))
    if job.estimate_ns or job.promise or job.credit or job.lost_milli_ns:
        facts += _time_facts(job)
    return facts


def _past_facts(job: Job) -> bytes:
    """What only jobs have that are more than one pod, or of which something went wrong."""
    scale = (job.shape.key[1], [role.min_available for role in job.shape.roles])
    return _encode(
        (
            [(r.replicas, r.fresh, r.live, r.succeeded, r.returned or ()) for r in job.roles],
            sorted((job.attempts or {}).items()),
            sorted((job.failures or {}).items()),
            job.avoid,
            job.dependencies,
            scale if job.is_scaled else (),
        )
    )


def _quota_facts(job: Job) -> bytes:
    """What only jobs have that hold quota, took from others or began anew."""
    return _encode(
        (
            "quota",
            job.right,
            [(choice.role, choice.resource, choice.flavor) for choice in job.flavors],
            job.admitted_counts,
            job.requeues,
            job.restarts,
            job.stale_since_ns,
        )
    )


def _time_facts(job: Job) -> bytes:
    """What only jobs have that were planned with in time."""
    return _encode(
        (
            "time",
            job.estimate_ns,
            job.estimate_source,
            job.promise,
            job.credit,
            job.lost_milli_ns,
        )
    )


def _booking_facts(booking: Booking) -> bytes:
    facts = b"booking" + _pack_booking(
        booking.job, booking.start_ns, booking.cards, len(booking.entries), booking.until_ns
    )
    if booking.entries:
        facts += _encode(booking.entries)
    if booking.places:
        facts += _encode([(e.role, e.node, _mask_bytes(e.mask)) for e in booking.places])
    return facts


def _claim_facts(claim: Claim) -> bytes:
    entries = [
        (e.role, e.node, _mask_bytes(e.mask), e.card_milli, e.card_memory) for e in claim.entries
    ]
    return _encode(
        (
            "claim",
            claim.job,
            claim.since_ns,
            claim.until_ns,
            entries,
            claim.victims,
            claim.reason,
        )
    )


def _mask_bytes(mask: int) -> bytes:
    return mask.to_bytes((mask.bit_length() + 7) // 8, "little")


def _usage_facts(usage: Usage) -> bytes:
    return _encode(("usage", usage.queue, usage.user, sorted(usage.hours.items())))


def _submissions_facts(made: Submissions) -> bytes:
    key = ("submissions", made.queue, made.user, made.tenant)
    return _encode((key, sorted(made.minutes.items())))


def _row_facts(row: Row) -> bytes:
    return _encode(("row", row.name, row.values))


def _amounts(amounts: tuple[Amount, ...]) -> list[tuple[str, int]]:
    return sorted((amount.resource, amount.count) for amount in amounts)


def report_facts(report: NodeReport) -> bytes:
    """Canonical bytes of what a node reported, attempts and utilisation aside."""
    return _encode(
        (
            report.node,
            report.boot_id,
            [(c.count, c.model, c.memory_mib, c.island, c.health) for c in report.cards],
            report.cpu_milli,
            report.memory_mib,
            report.pod_slots,
            _amounts(report.resources),
            sorted((label.key, label.value) for label in report.labels),
            sorted((taint.key, taint.value, int(taint.effect)) for taint in report.taints),
            report.topology,
            report.handled_seq,
        )
    )


def _node_facts(node: Node) -> bytes:
    flags = (node.index, node.is_lost, node.is_cordoned, node.is_draining, node.lost_seq)
    return _encode(("node", flags, node.unknown)) + report_facts(node.report)


def _queue_facts(queue: Queue) -> bytes:
    return _encode(("queue", queue.index, queue.is_removed)) + queue_facts(queue.config)


def queue_facts(config: QueueConfigured) -> bytes:
    """Canonical bytes of a queue's configuration."""
    facts = _encode(
        (
            config.queue,
            config.parent,
            config.weight,
            config.priority,
            _amounts(config.guarantee),
            _amounts(config.deserved),
            _amounts(config.capability),
            _amounts(config.borrowing_limit),
            _amounts(config.lending_limit),
            config.reclaimable,
            config.state,
        )
    )
    more = _more_of_queue(config)
    return facts if more == _NOTHING_MORE else facts + _encode(more)


def _more_of_queue(config: QueueConfigured) -> tuple[object, ...]:
    """What only some queues have: see `_NOTHING_MORE`. Lists keep their order where it counts."""
    return (
        config.fair_weight_milli,
        _amounts(config.over_quota_weights),
        config.order,
        config.within_queue,
        config.reclaim_in_cohort,
        config.borrow_in_cohort,
        config.borrow_priority_max,
        config.when_can_borrow,
        config.when_can_preempt,
        config.preference,
        [
            [
                (
                    quota.flavor,
                    [
                        (b.resource, b.nominal, b.borrowing_limit, b.lending_limit)
                        for b in quota.bounds
                    ],
                )
                for quota in group.flavors
            ]
            for group in config.resource_groups
        ],
        [(x.scope, x.subject, x.resource, x.count, x.tier) for x in config.limits],
        config.tenants,
        config.node_groups_required,
        config.node_groups_preferred,
        config.node_groups_anti_required,
        config.node_groups_anti_preferred,
        [(limit.group, _amounts(limit.amounts)) for limit in config.node_group_limits],
        config.preempt_min_runtime_ns,
        config.reclaim_min_runtime_ns,
        config.usage_weight_milli,
        config.backfill,
        config.lends,
    )


_NOTHING_MORE: tuple[object, ...] = (
    *(1000, [], 0, 0, 0, 0, None, 0, 0, 0, [], [], (), (), (), (), (), [], -1, -1, 0, 0, 0),
)


def flavor_facts(config: FlavorConfigured) -> bytes:
    """Canonical bytes of a flavor."""
    return _encode(
        (
            "flavor",
            config.flavor,
            sorted((label.key, label.value) for label in config.labels),
            [(taint.key, taint.value, taint.effect) for taint in config.taints],
            [(t.key, t.operator, t.value, t.effect) for t in config.tolerations],
        )
    )


def zone_facts(config: ZoneConfigured) -> bytes:
    """Canonical bytes of a zone."""
    return _encode(("zone", config.zone, [(span.from_ns, span.to_ns) for span in config.open]))


def policy_facts(record: PolicyConfigured) -> bytes:
    """Canonical bytes of a policy: what makes two policy records the same policy."""
    return _encode(
        (
            record.policy,
            [(a.action, [(x.key, x.value) for x in a.arguments]) for a in record.actions],
            [
                [(p.policy, p.hooks, [(x.key, x.value) for x in p.arguments]) for p in t.policies]
                for t in record.tiers
            ],
            [
                (c.name, c.priority, c.preempts, *((c.critical,) if c.critical else ()))
                for c in record.priority_classes
            ],
            [(x.key, x.value) for x in record.settings],
        )
    )


def _reservation_facts(name: str, record: ReservationRequested) -> bytes:
    facts = _encode((name, record.nodes, record.cards, record.from_ns, record.to_ns))
    who = (record.queues, record.users, record.tenants)
    if any(who) or record.request is not None or record.pods or record.is_maintenance:
        facts += _encode((who, record.request, record.pods, record.is_maintenance))
    return facts


_FACTS = {
    Pod: _pod_facts,
    Job: _job_facts,
    Node: _node_facts,
    Queue: _queue_facts,
    Claim: _claim_facts,
    Booking: _booking_facts,
    Usage: _usage_facts,
    Submissions: _submissions_facts,
    Row: _row_facts,
}


def event_term(event_id: str) -> int:
    """The digest's term for one remembered request id: the number that its last 16 bytes say.

    No hash, as every request pays for it twice; ids differ in their last bytes.
    """
    return int.from_bytes(event_id.encode()[-16:], "little")


def progress_term(queue: Queue) -> int:
    """The digest's term for the progress of a queue, of which each step adds the same: it is made
    with every job that ends, and a queue is large to hash.
    """
    return queue.progress * queue.stride


def stride_of(index: int) -> int:
    """What one step of progress of the queue of this id adds to the digest; an odd number."""
    return _hash(b"progress %d" % index) | 1


def flavor_term(config: FlavorConfigured | None) -> int:
    """The digest's term for a flavor; 0 for none. Whoever changes one adds the difference."""
    return 0 if config is None else _hash(flavor_facts(config))


def zone_term(config: ZoneConfigured | None) -> int:
    """The same for a zone."""
    return 0 if config is None else _hash(zone_facts(config))


def standing_terms(state: State) -> int:
    """Sum of the terms that are kept up to date without being made anew at a seal."""
    return (
        sum(event_term(event_id) for event_id in state.event_ids)
        + sum(progress_term(queue) for queue in state.queues)
        + sum(flavor_term(config) for config in state.flavors.values())
        + sum(zone_term(config) for config in state.zones.values())
    )


def loose_entities(state: State) -> list[Entity]:
    """Entities that are no node, queue, job or pod."""
    return [
        *state.claims.values(),
        *state.usage.values(),
        *state.submissions.values(),
        *state.memory.values(),
        *state.bookings.values(),
    ]


def seal(state: State) -> bytes:
    """The digest of the state now, 16 bytes. O(entities touched since the last call)."""
    total = state.digest
    copy = _blank.copy
    from_bytes = int.from_bytes
    if state.indexes.moved is not None:
        state.note_moved()
    for entity in state.dirty:
        entity.is_dirty = False
        if entity.is_untold:
            total -= entity.term
            entity.term = 0
            continue
        hasher = copy()
        hasher.update(_FACTS[entity.__class__](entity))  # type: ignore[operator]
        term = from_bytes(hasher.digest(), "little")
        total += term - entity.term
        entity.term = term
    state.dirty.clear()
    state.digest = total % _MODULUS
    return ((state.digest + _core(state)) % _MODULUS).to_bytes(16, "little")


def _core(state: State) -> int:
    """Facts that belong to no entity. Those that every cell has are not hashed but weighted: each
    cycle changes them, and hashing would cost as much as an entity.
    """
    total = (
        state.next_seq * _SEQ
        + state.clock_ns * _CLOCK
        + state.epoch * _EPOCH
        + state.claim * _CLAIM
        + state.progress * _PROGRESS
        + state.stirred * _STIRRED
        + state.policy.digest_term
    )
    if state.flags or state.reservations or state.sources:
        data = _encode((state.flags, sorted(state.sources.items())))
        for name in sorted(state.reservations):
            data += _reservation_facts(name, state.reservations[name])
            if name in state.places:
                data += _encode(state.places[name])
        total += _hash(data)
    if state.knobs:
        total += _hash(_encode(("knobs", state.knobs)))
    return total


def recompute(state: State) -> bytes:
    """The digest made from scratch; for checks. Leaves the kept one alone."""
    total = sum(_hash(_node_facts(node)) for node in state.nodes)
    total += sum(_hash(_queue_facts(queue)) for queue in state.queues)
    total += sum(_hash(_job_facts(job)) for job in state.jobs.values())
    for node in state.nodes:
        for pod in node.pods.values():
            job = state.jobs[pod.job]
            if not holds_all(job) or job.pods is None or job.pods.get(pod.index) is not pod:
                total += _hash(_pod_facts(pod))
    for entity in loose_entities(state):
        total += _hash(_FACTS[entity.__class__](entity))  # type: ignore[operator]
    total += standing_terms(state)
    return ((total + _core(state)) % _MODULUS).to_bytes(16, "little")

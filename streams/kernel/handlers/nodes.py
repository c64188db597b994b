"""Facts and requests about nodes."""

import msgspec

from ganger.schemas.enums import CardHealth, Phase, PodEvent
from ganger.schemas.reasons import Reason
from ganger.schemas.records import (
    NodeChanged,
    NodeCordoned,
    NodeDrained,
    NodeLost,
    NodeReport,
    NodeReturned,
    NodeUncordoned,
)
from ganger.streams.kernel.decide import Cause, reject
from ganger.streams.kernel.entities import Job, Node, Pod
from ganger.streams.kernel.jobs import progress
from ganger.streams.kernel.jobs.attempts import detach, settle
from ganger.streams.kernel.jobs.lifecycle_actions import follow, leave
from ganger.streams.kernel.jobs.lines import realign, send_back, step_out
from ganger.streams.kernel.limits import (
    CARDS_MAX,
    NAMES_MAX,
    QUANTITY_MAX,
    RUN_CARDS_MAX,
)
from ganger.streams.kernel.nodes import occupancy
from ganger.streams.kernel.nodes.reservations import closed_nodes
from ganger.streams.kernel.preemption.claims_book import spare
from ganger.streams.kernel.preemption.evictions import evict, is_told, notice_ns, warn
from ganger.streams.kernel.resources import names_defect
from ganger.streams.kernel.state import State

_DRAINED = Reason.NODE_DRAINED


def changed(state: State, record: NodeChanged) -> None:
    """A node is new or reports something else than before."""
    _report(state, record.report)


def returned(state: State, record: NodeReturned) -> None:
    """A lost node reports again; what it ran is settled by its boot id and its attempts."""
    _report(state, record.report)


def lost(state: State, record: NodeLost) -> None:
    """A node fell silent: its attempts are told to end and their pods may be placed elsewhere."""
    place = state.node_by_name.get(record.node)
    if place is None or record.claim != state.claim:
        return
    node = state.nodes[place]
    if node.is_lost:
        return
    node.is_lost = True
    node.lost_seq = state.cause
    _close(state, node)
    occupancy.count_in(state, node)
    _give_up(state, node, [pod for _, pod in sorted(node.pods.items())], Reason.NODE_LOST)
    state.indexes.inqueue.wake_all()  # a job may now use nodes that it avoided, see `find_node`
    for seq in state.indexes.inqueue.fresh():
        send_back(state, state.jobs[seq])
    _realign(state)


def cordoned(state: State, record: NodeCordoned) -> None:
    """No new pods on the node."""
    node = _known(state, record.node)
    if node is not None:
        node.is_cordoned = True
        _close(state, node)


def uncordoned(state: State, record: NodeUncordoned) -> None:
    """The node takes pods again."""
    node = _known(state, record.node)
    if node is not None:
        if node.is_draining:
            _let_stay(state, node)
        node.is_cordoned = node.is_draining = False
        state.touch(node)
        progress.changed(state)
        occupancy.count_barred(state, node)
        occupancy.reopen(state, node)


def drained(state: State, record: NodeDrained) -> None:
    """No new pods on the node, and those there are told to leave: at once where the record says how
    long they have to end, else each after its own notice and with its own grace.
    """
    node = _known(state, record.node)
    if node is None:
        return
    node.is_draining = True
    _close(state, node)
    pods = [pod for _, pod in sorted(node.pods.items())]
    if record.grace_ns > 0:
        _tell_to_end(state, pods, _DRAINED, record.grace_ns)
    else:
        _tell_to_end(state, _warn(state, pods), _DRAINED)


def _warn(state: State, pods: list[Pod]) -> list[Pod]:
    """Warn the attempts of a node that is drained which get a notice; those that do not."""
    left = []
    jobs: dict[int, Job] = {}
    for pod in pods:
        job = state.jobs[pod.job]
        is_own = job.pods is not None and job.pods.get(pod.index) is pod
        notice = notice_ns(state, job, pod) if is_own else 0
        if not notice:
            left.append(pod)
            continue
        if job.seq not in jobs:
            jobs[job.seq] = job
            step_out(state, job)
        if pod.notice_until_ns:  # for the sake of others, who may not want it any more
            pod.evict_reason = _DRAINED
            state.touch_pod(job, pod)
        else:
            warn(state, job, pod, Cause(_DRAINED), state.now_ns + notice)
    for job in jobs.values():
        settle(state, job)
    return left


def _let_stay(state: State, node: Node) -> None:
    """A node is drained no longer: those that have only been warned of it stay."""
    jobs: dict[int, Job] = {}
    for _, pod in sorted(node.pods.items()):
        if pod.notice_until_ns and pod.evict_reason is _DRAINED:
            job = jobs[pod.job] = state.jobs[pod.job]
            step_out(state, job)
            spare(state, job, pod)
    for job in jobs.values():
        settle(state, job)


def _close(state: State, node: Node) -> None:
    node.is_open = False
    occupancy.stir(state)
    state.shake(node)
    occupancy.count_barred(state, node)
    state.indexes.nodes.update(node)
    state.touch(node)


def _known(state: State, name: str) -> Node | None:
    place = state.node_by_name.get(name)
    if place is None:
        reject(state, Reason.NODE_UNKNOWN)
        return None
    return state.nodes[place]


def _report(state: State, report: NodeReport) -> None:
    fault = _report_fault(report)
    if fault is not None:
        reject(state, Reason.VALUE_OUT_OF_RANGE, "", fault[0], fault[1])
        return
    place = state.node_by_name.get(report.node)
    kept = msgspec.structs.replace(report, attempts=(), utilisation_milli=())
    if place is None:
        node = Node(len(state.nodes), kept)
        state.nodes.append(node)
        state.node_by_name[report.node] = node.index
        is_reboot = False
    else:
        node = state.nodes[place]
        is_reboot = node.report.boot_id != report.boot_id
        node.report = kept
    node.is_lost = False
    node.lost_seq = -1
    if is_reboot:
        pods = [pod for _, pod in sorted(node.pods.items())]
        _give_up(state, node, pods, Reason.NODE_REBOOTED)
        for pod in pods:
            _free(state, pod)
    else:
        _settle_listed(state, node, report)
    node.unknown = _unknown(state, node, report)
    node.is_reserved = report.node in closed_nodes(state)
    state.touch(node)
    before = (node.kind, node.labels)
    had = node.capacity
    occupancy.recount(state, node)
    occupancy.stir(state)
    state.shake(node)
    occupancy.count_in(state, node)
    if any(amount > had.get(place, 0) for place, amount in node.capacity.items()):
        progress.changed(state)
    if before != (node.kind, node.labels):
        state.indexes.inqueue.wake_all()  # a job may now use nodes that it avoided, see `find_node`
    _evict_from_failed_cards(state, node)
    occupancy.offer(state, node)
    if node.capacity != had:
        _realign(state)


def _realign(state: State) -> None:
    """The cell's capacity has changed, and with it the order of jobs where shares make it."""
    if state.policy.follows_capacity:
        realign(state, state.indexes.inqueue.begun())


def _report_fault(report: NodeReport) -> tuple[int, int] | None:
    """The number that makes a report unbelievable, and the bound that it breaks."""
    if not report.node:
        return (0, 1)
    cards = 0
    for run in report.cards:
        if min(run.count, run.memory_mib, run.island) < 0:
            return (min(run.count, run.memory_mib, run.island), 0)
        if run.memory_mib > QUANTITY_MAX:
            return (run.memory_mib, QUANTITY_MAX)
        cards += run.count
    amounts = [amount.count for amount in report.resources]
    least = min(report.cpu_milli, report.memory_mib, report.pod_slots, *amounts)
    if least < 0:
        return (least, 0)
    doubles = len(report.labels) - len({label.key: True for label in report.labels})
    for value, most in (
        (cards, CARDS_MAX),
        (cards * len(report.cards), RUN_CARDS_MAX),
        (max(report.cpu_milli, report.memory_mib, *amounts), QUANTITY_MAX),
        (len(amounts), NAMES_MAX),
        (names_defect(report.resources), 0),
        (doubles, 0),
    ):
        if value > most:
            return (value, most)
    return None


def _settle_listed(state: State, node: Node, report: NodeReport) -> None:
    """Free the attempts whose end the node has handled and that it lists no more."""
    alive = {(ref.job, ref.pod, ref.attempt): True for ref in report.attempts}
    for _, pod in sorted(node.pods.items()):
        key = (state.jobs[pod.job].request.job, pod.index, pod.attempt)
        if (
            pod.phase is Phase.RELEASING
            and pod.evict_seq <= report.handled_seq < state.cause
            and key not in alive
        ):
            _free(state, pod)


def _unknown(state: State, node: Node, report: NodeReport) -> tuple[tuple[str, int, int], ...]:
    known = {
        (state.jobs[pod.job].request.job, pod.index, pod.attempt): True
        for pod in node.pods.values()
    }
    listed = [(ref.job, ref.pod, ref.attempt) for ref in report.attempts]
    return tuple(sorted(key for key in listed if key not in known))


def _give_up(state: State, node: Node, pods: list[Pod], reason: Reason) -> None:
    """Jobs lose these attempts, to have their pods placed again; the node still holds them."""
    jobs: dict[int, Pod] = {}  # the first of each that is lost
    for pod in pods:
        job = state.jobs[pod.job]
        if job.pods is None or job.pods.get(pod.index) is not pod:
            continue  # given up before
        if pod.job not in jobs:
            jobs[pod.job] = pod
            step_out(state, job)
        evict(state, job, pod, reason)
        detach(state, job, pod)
    for seq, pod in jobs.items():
        if not follow(state, state.jobs[seq], pod, PodEvent.OUT_OF_SYNC):
            settle(state, state.jobs[seq])


def _tell_to_end(state: State, pods: list[Pod], reason: Reason, given_ns: int = 0) -> None:
    """Evict attempts; their jobs keep them until they are released, and stand in line anew.

    `given_ns`: the grace that an operator gives them; 0: their own.
    """
    jobs: dict[int, bool] = {}
    for pod in pods:
        if is_told(pod):
            continue
        if pod.job not in jobs:
            jobs[pod.job] = True
            step_out(state, state.jobs[pod.job])
        evict(state, state.jobs[pod.job], pod, reason, given_ns=given_ns)
    for seq in jobs:
        settle(state, state.jobs[seq])


def _free(state: State, pod: Pod) -> None:
    job = state.jobs[pod.job]
    step_out(state, job)
    leave(state, job, pod)


def _evict_from_failed_cards(state: State, node: Node) -> None:
    """Cards reported as failed lose their pods. Cards that are merely not reported do not."""
    failed = first = 0
    for run in node.report.cards:
        if run.health is CardHealth.FAILED:
            failed |= ((1 << run.count) - 1) << first
        first += run.count
    hit = [pod for _, pod in sorted(node.pods.items()) if pod.mask & failed]
    _tell_to_end(state, hit, Reason.CARD_FAILED)

"""Taking cards and the rest of a node, and giving them back: free numbers change only here.

A claim holds what it is for from the moment it is made, beside the attempts that have to leave
first. So sums (cpu, memory, slots, named resources, the rest of a shared card) may be negative for
a while. A card is free if it is healthy and neither an attempt nor a claim is on it; it is shared
if one of those on it has a share, and then its rest is what all of them leave of it.
"""

from ganger.streams.kernel.entities import ClaimEntry, Node, Pod
from ganger.streams.kernel.resources import CARD_MILLI, CARDS, CPU, MEMORY, PODS, Shape
from ganger.streams.kernel.state import State
from ganger.streams.kernel.topology import card_masks


def hold(state: State, node: Node, shape: Shape, mask: int, count: int) -> None:
    """`count` pods take the whole cards of `mask` and the rest of their requests."""
    if mask:
        node.free &= ~mask
        node.free_count -= mask.bit_count()
    if shape.is_bare:
        node.free_slots -= count
    else:
        _take(node, shape, count)
    state.indexes.nodes.update(node)


def unhold(state: State, node: Node, shape: Shape, mask: int, count: int) -> None:
    """Undo of `hold`, in a statement: the cards were free and healthy before."""
    if mask:
        node.free |= mask
        node.free_count += mask.bit_count()
    if shape.is_bare:
        node.free_slots += count
    else:
        _take(node, shape, -count)
    state.indexes.nodes.update(node)


def hold_share(state: State, node: Node, shape: Shape, card: int) -> None:
    """One pod takes a share of a card, which is opened for sharing if it was whole."""
    room = node.shared.get(card)
    if room is None:
        node.free &= ~(1 << card)
        node.free_count -= 1
        room = (CARD_MILLI, card_memory(node, card))
    node.shared[card] = (room[0] - shape.card_milli, room[1] - shape.card_memory)
    _take(node, shape, 1)
    state.indexes.nodes.update(node)


def unhold_share(state: State, node: Node, shape: Shape, card: int) -> None:
    """A share comes back; a card without shares is whole and free again."""
    room = node.shared.get(card)
    if room is not None:  # else the card has failed or is reported no more
        milli, memory = room[0] + shape.card_milli, room[1] + shape.card_memory
        if milli >= CARD_MILLI:
            del node.shared[card]
            node.free |= 1 << card
            node.free_count += 1
        elif not milli and node.claimed_whole >> card & 1:
            del node.shared[card]  # nobody has a share of it any more
        else:
            node.shared[card] = (milli, memory)
    _take(node, shape, -1)
    state.indexes.nodes.update(node)


def release(state: State, node: Node, pod: Pod) -> None:
    """An attempt that has ended gives back what it held, and waiting jobs may be asked again."""
    del node.pods[(pod.job, pod.index, pod.attempt)]
    lift(state, node, pod)
    offer(state, node)


def lift(state: State, node: Node, pod: Pod) -> None:
    """What an attempt holds is free, but for what claims are on."""
    if pod.card_milli:
        unhold_share(state, node, pod.shape, pod.mask.bit_length() - 1)
        return
    mask = pod.mask & node.healthy
    if node.claimed & mask:
        shared = mask & node.claimed & ~node.claimed_whole
        while shared:
            card = shared.bit_length() - 1
            shared ^= 1 << card
            milli, memory = node.shared[card]
            node.shared[card] = (milli + CARD_MILLI, memory + card_memory(node, card))
        mask &= ~node.claimed
    unhold(state, node, pod.shape, mask, 1)


def unlift(
    state: State, node: Node, pod: Pod, free: int, shared: dict[int, tuple[int, int]]
) -> None:
    """Undo of `lift`: `free` and `shared` are what the node had before."""
    node.free = free
    node.free_count = free.bit_count()
    node.shared = shared
    _take(node, pod.shape, 1)
    state.indexes.nodes.update(node)


def reserve(state: State, node: Node, shape: Shape, entry: ClaimEntry) -> None:
    """A claim begins to hold the place of one of its pods, whoever is there still."""
    _claim(node, shape, entry)
    node.free_count = node.free.bit_count()
    state.indexes.nodes.update(node)


def _claim(node: Node, shape: Shape, entry: ClaimEntry) -> None:
    """Take the place out of the node's numbers."""
    _take(node, shape, 1)
    if entry.card_milli:
        card = entry.mask.bit_length() - 1
        if node.healthy & entry.mask:
            milli, memory = _rest(node, card)
            node.shared[card] = (milli - entry.card_milli, memory - entry.card_memory)
    else:
        node.claimed_whole |= entry.mask
        for card, (milli, memory) in node.shared.items():
            if entry.mask >> card & 1:
                node.shared[card] = (milli - CARD_MILLI, memory - card_memory(node, card))
    node.free &= ~entry.mask
    node.claimed |= entry.mask


def _rest(node: Node, card: int) -> tuple[int, int]:
    """What is left of a healthy card for shares; nothing of one that is held whole."""
    room = node.shared.get(card)
    if room is not None:
        return room
    return (CARD_MILLI, card_memory(node, card)) if node.free >> card & 1 else (0, 0)


def offer(state: State, node: Node) -> None:
    """Tell the waiting jobs what the node has free now."""
    if node.is_open:
        state.indexes.zero_grew = True
        cards = node.free_count * CARD_MILLI
        if not cards and node.shared:
            cards = max(milli for milli, _ in node.shared.values())
        state.indexes.inqueue.grow(cards, node.free_cpu, node.free_memory)


def _take(node: Node, shape: Shape, count: int) -> None:
    node.free_slots -= count
    node.free_cpu -= shape.cpu * count
    node.free_memory -= shape.memory * count
    for place, amount in shape.extra:
        node.free_extra[place] = node.free_extra.get(place, 0) - amount * count


def card_memory(node: Node, card: int) -> int:
    """MiB of memory of one card."""
    assert node.kind is not None
    for _, memory, mask in node.kind.kinds:
        if mask >> card & 1:
            return memory
    raise AssertionError((node.report.node, card))


def recount(state: State, node: Node) -> None:
    """Make a node's class, free numbers and place in the index again from its report and pods."""
    state.indexes.nodes.remove(node)
    state.indexes.nodes.describe(node)
    report = node.report
    _, _, node.healthy = card_masks(report.cards)
    node.free = node.healthy
    node.shared = {}
    node.claimed = node.claimed_whole = 0
    node.free_cpu = report.cpu_milli
    node.free_memory = report.memory_mib
    node.free_slots = report.pod_slots
    node.free_extra = state.table.vector(report.resources)
    assert node.kind is not None
    for pod in node.pods.values():
        _take(node, pod.shape, 1)
        node.free &= ~pod.mask
        card = pod.mask.bit_length() - 1
        if pod.card_milli and node.healthy >> card & 1:
            room = node.shared.get(card) or (CARD_MILLI, card_memory(node, card))
            node.shared[card] = (room[0] - pod.card_milli, room[1] - pod.card_memory)
    for places in state.indexes.reserved.get(node.index, {}).values():
        for shape, entry in places:
            _claim(node, shape, entry)
    node.free_count = node.free.bit_count()
    node.is_open = is_open(node)
    if len(state.table.names) > len(state.total):
        state.widen()
    state.indexes.nodes.update(node)


def stir(state: State) -> None:
    """A node took or takes pods, or has other cards: what admission knew of idle room is old."""
    state.indexes.idle_left = None
    state.indexes.gate_grew = True


def reopen(state: State, node: Node) -> None:
    """Look again whether the node takes pods, and offer what it has if it does."""
    node.is_open = is_open(node)
    stir(state)
    state.shake(node)
    state.indexes.nodes.update(node)
    offer(state, node)


def is_open(node: Node) -> bool:
    """Whether a node takes new pods."""
    return not (node.is_reserved or is_out_of_use(node))


def is_out_of_use(node: Node) -> bool:
    """Whether a node takes no pods, whatever is reserved."""
    return bool(node.is_lost or node.is_cordoned or node.is_draining or node.unknown)


def count_in(state: State, node: Node) -> None:
    """Make the node's part of the cell's capacity again: nothing while it is lost."""
    capacity: dict[int, int] = {}
    if not node.is_lost:
        report = node.report
        capacity = state.table.vector(report.resources)
        capacity[CARDS] = node.healthy.bit_count() * CARD_MILLI
        capacity[CPU] = report.cpu_milli
        capacity[MEMORY] = report.memory_mib
        capacity[PODS] = report.pod_slots
    kind = None if node.is_lost else node.kind
    if node.counted is not kind:
        if node.counted is not None:
            node.counted.node_count -= 1
        if kind is not None:
            kind.node_count += 1
        node.counted = kind
        state.indexes.never_fits.clear()
        state.indexes.gate_grew = True
    if capacity == node.capacity:
        count_barred(state, node)
        return
    if len(state.table.names) > len(state.total):
        state.widen()
    for place, amount in node.capacity.items():
        state.total[place] -= amount
    for place, amount in capacity.items():
        state.total[place] += amount
    node.capacity = capacity
    state.indexes.idle_left = None
    state.indexes.capacity_epoch += 1
    state.rescale()
    state.indexes.gate_grew = True
    count_barred(state, node)


def count_barred(state: State, node: Node) -> None:
    """Make the part of its capacity that is out of use again: the node is cordoned or drains."""
    barred = node.capacity if node.is_cordoned or node.is_draining else {}
    if barred == node.barred:
        return
    for place, amount in node.barred.items():
        state.barred[place] -= amount
    for place, amount in barred.items():
        state.barred[place] += amount
    node.barred = barred
    state.indexes.capacity_epoch += 1
    state.indexes.gate_grew = True

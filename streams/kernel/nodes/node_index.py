"""Open nodes, ordered so that a placement seeks and does not scan.

The obvious algorithm: of all open nodes on which the pod fits, take the one with the fewest free
cards, then the tighter of cpu and memory, then the rest, then the lowest number. What departs from
it: nodes stand in buckets by (class, free cards) with one list by cpu and one by memory, so the
search bisects; where neither head fits, the shorter of the two remaining prefixes is walked in its
own order to the first fit. The outcome is a function of the nodes alone, not of the path by which
they came to be what they are.

Nodes that take no pods (lost, cordoned, without a free pod slot, ...) stand in no bucket.
"""

from bisect import bisect_left, bisect_right, insort

from ganger.schemas.enums import SelectorOperator, TaintEffect, TolerationOperator
from ganger.schemas.records import Selector, Taint, Toleration
from ganger.streams.kernel.entities import Node
from ganger.streams.kernel.limits import QUANTITY_BITS
from ganger.streams.kernel.nodes.windows import WHOLE, Bar, Bars
from ganger.streams.kernel.resources import CARD_MILLI, Shape
from ganger.streams.kernel.topology import (
    Bucket,
    NodeClass,
    card_masks,
    choose_cards,
    class_key,
    pods_in,
)

MEMORY_SHIFT = 32  # a key is cpu, memory, and the node in the lowest bits
CPU_SHIFT = MEMORY_SHIFT + QUANTITY_BITS
_NODE = (1 << MEMORY_SHIFT) - 1
SMALL_LABEL = 64
"""A selector that admits at most this many nodes is answered by scanning them."""

Eligible = tuple[NodeClass, int, bool]
"""A class, the cards of it that suit a shape, and whether those are all its cards."""


class NodeIndex:
    """Buckets of open nodes, and their classes."""

    __slots__ = ("_eligible", "by_label", "changed", "classes", "nodes")

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.classes: dict[tuple[object, ...], NodeClass] = {}
        self.by_label: dict[tuple[str, str], list[int]] = {}
        self._eligible: dict[Shape, list[Eligible]] = {}
        # nodes whose numbers or facts have changed, in order; none: nobody wants to know
        self.changed: list[int] | None = None

    # ---- keeping ------------------------------------------------------------------------------

    def describe(self, node: Node) -> None:
        """Take a node's class and labels from its report. It must stand in no bucket."""
        assert node.bucket is None and not node.partial, node.report.node
        key = class_key(node.report)
        kind = self.classes.get(key)
        if kind is None:
            kinds, islands, _ = card_masks(node.report.cards)
            kind = self.classes[key] = NodeClass(
                order=key, kinds=kinds, islands=islands, taints=node.report.taints
            )
            self._eligible.clear()
        node.kind = kind
        for pair in node.labels.items():
            self.by_label[pair].remove(node.index)
        node.labels = {label.key: label.value for label in node.report.labels}
        for pair in node.labels.items():
            insort(self.by_label.setdefault(pair, []), node.index)

    def update(self, node: Node) -> None:
        """Move a node to where its numbers say."""
        if node.bucket is not None:
            self._unlist(node, node.bucket)
        if self.changed is not None:
            self.changed.append(node.index)
        kind = node.kind
        assert kind is not None
        if node.is_open and node.free_slots > 0:
            count = node.free_count
            bucket = kind.buckets.get(count)
            if bucket is None:
                bucket = kind.buckets[count] = Bucket(count)
            if not bucket.by_cpu:
                kind.levels |= 1 << count
            cpu, memory = node.free_cpu, node.free_memory
            low = memory << MEMORY_SHIFT | node.index if memory > 0 else node.index
            key = -(cpu << CPU_SHIFT | low) if cpu > 0 else -low
            insort(bucket.by_cpu, key)
            insort(bucket.by_memory, -low)
            node.keys = (key, -low)
            node.bucket = bucket
        if node.shared or node.partial:
            self._list_shared(node, kind)

    def remove(self, node: Node) -> None:
        """Take a node out of every list."""
        if node.bucket is not None:
            self._unlist(node, node.bucket)
        for entry in node.partial:
            _drop(node.kind.partial, entry)  # type: ignore[union-attr]
        node.partial = ()

    def _unlist(self, node: Node, bucket: Bucket) -> None:
        key, low = node.keys
        by_cpu, by_memory = bucket.by_cpu, bucket.by_memory
        del by_cpu[bisect_left(by_cpu, key)]
        del by_memory[bisect_left(by_memory, low)]
        node.bucket = None
        if not by_cpu:
            kind = node.kind
            assert kind is not None
            kind.levels &= ~(1 << bucket.count)

    def _list_shared(self, node: Node, kind: NodeClass) -> None:
        for entry in node.partial:
            _drop(kind.partial, entry)
        node.partial = ()
        if node.is_open:
            node.partial = tuple(
                sorted((milli, node.index, card) for card, (milli, _) in node.shared.items())
            )
            for entry in node.partial:
                insort(kind.partial, entry)

    # ---- asking -------------------------------------------------------------------------------

    def eligible(self, shape: Shape) -> list[Eligible]:
        """Classes whose taints and cards suit a shape, in the order in which they are asked."""
        found = self._eligible.get(shape)
        if found is None:
            if len(self._eligible) > 1 << 16:
                self._eligible.clear()
            found = []
            for key in sorted(self.classes):
                kind = self.classes[key]
                mask = suitable_cards(shape, kind)
                if mask >= 0:
                    found.append((kind, mask, all(mask & m == m for _, _, m in kind.kinds)))
            self._eligible[shape] = found
        return found

    def cards_for(self, shape: Shape, kind: NodeClass) -> int:
        """Mask of a class's cards that suit a shape for which the class is eligible."""
        for candidate, mask, _ in self._eligible.get(shape) or self.eligible(shape):
            if candidate is kind:
                return mask
        raise AssertionError((shape.request, kind.order))

    def room(self, shape: Shape, enough: int) -> int:
        """A bound, by cards alone, of the pods of a shape that fit now; stops at `enough`."""
        cards = shape.cards
        if not cards:
            return enough
        total = 0
        for kind, _, _ in self.eligible(shape):
            levels = kind.levels >> cards << cards
            while levels:
                bit = levels & -levels
                levels ^= bit
                count = bit.bit_length() - 1
                total += count // cards * len(kind.buckets[count].by_cpu)
                if total >= enough:
                    return total
        return total

    def seek(
        self, shape: Shape, avoid: tuple[int, ...], spread: bool, bars: Bars | None = None
    ) -> Node | None:
        """The node for one pod of a shape, or none. `avoid`: nodes not to use; `bars`: what of
        others must be left alone.

        `spread` asks the emptiest nodes first instead of the fullest.
        """
        if shape.request.selectors:
            few = self._few_nodes(shape)
            if few is not None:
                return self._scan(few, shape, avoid, spread, bars)
        eligible = self._eligible.get(shape) or self.eligible(shape)
        if shape.card_milli:
            node = self._seek_shared(eligible, shape, avoid, bars)
            if node is not None:
                return node
        cards = 1 if shape.card_milli else shape.cards
        levels = 0
        for kind, _, _ in eligible:
            levels |= kind.levels
        levels = levels >> cards << cards
        while levels:
            count = levels.bit_length() - 1 if spread else (levels & -levels).bit_length() - 1
            bit = 1 << count
            levels ^= bit
            for kind, mask, is_whole in eligible:
                if kind.levels & bit:
                    plain = is_whole and shape.is_plain and not avoid and bars is None
                    bucket = kind.buckets[count]
                    node = self._search(bucket, shape, mask, plain, avoid, spread, bars)
                    if node is not None:
                        return node
        return None

    def has_other(self, shape: Shape, avoid: tuple[int, ...]) -> bool:
        """Whether a node that is not lost, other than these, is of a kind that suits. O(nodes)."""
        kinds = {kind.order: True for kind, _, _ in self.eligible(shape)}
        return any(
            not node.is_lost
            and node.index not in avoid
            and node.kind is not None
            and node.kind.order in kinds
            and matches(node.labels, shape.request.selectors)
            for node in self.nodes
        )

    def _search(
        self,
        bucket: Bucket,
        shape: Shape,
        mask: int,
        plain: bool,
        avoid: tuple[int, ...],
        spread: bool,
        bars: Bars | None,
    ) -> Node | None:
        """First fit of a bucket in the order that the module describes."""
        cpu, memory = shape.cpu, shape.memory
        by_cpu = bucket.by_cpu
        end = bisect_right(by_cpu, -(cpu << CPU_SHIFT)) if cpu else len(by_cpu)
        if not end:
            return None
        nodes = self.nodes
        if plain:
            node = nodes[-by_cpu[0 if spread else end - 1] & _NODE]
            if node.free_cpu >= cpu and node.free_memory >= memory:
                return node
        by_memory = bucket.by_memory
        stop = bisect_right(by_memory, -(memory << MEMORY_SHIFT)) if memory else len(by_memory)
        keys = by_cpu if end <= stop else by_memory
        places = range(min(end, stop))
        for place in places if spread else reversed(places):
            node = nodes[-keys[place] & _NODE]
            if node.free_cpu >= cpu and node.free_memory >= memory:
                if plain or (node.index not in avoid and suits(node, shape, mask, bars)):
                    return node
        return None

    def _seek_shared(
        self,
        eligible: list[Eligible],
        shape: Shape,
        avoid: tuple[int, ...],
        bars: Bars | None,
    ) -> Node | None:
        """The node of the shared card with the least room that suffices."""
        best: tuple[int, int, int] | None = None
        for kind, mask, _ in eligible:
            partial = kind.partial
            for place in range(bisect_left(partial, (shape.card_milli, -1, -1)), len(partial)):
                entry = partial[place]
                if best is not None and entry >= best:
                    break
                node = self.nodes[entry[1]]
                if (
                    node.bucket is not None
                    and node.index not in avoid
                    and mask >> entry[2] & 1
                    and node.shared[entry[2]][1] >= shape.card_memory
                    and node.free_cpu >= shape.cpu
                    and node.free_memory >= shape.memory
                    and holds_extra(node, shape)
                    and matches(node.labels, shape.request.selectors)
                    and (bars is None or is_left(node, shape, 1 << entry[2], bars))
                ):
                    best = entry
                    break
        return None if best is None else self.nodes[best[1]]

    def _few_nodes(self, shape: Shape) -> list[int] | None:
        """Nodes of the narrowest selector, if they are few."""
        few: list[int] | None = None
        for selector in shape.request.selectors:
            if selector.operator is SelectorOperator.IN:
                listed = [self.by_label.get((selector.key, v), []) for v in selector.values]
                count = sum(map(len, listed))
                if count <= SMALL_LABEL and (few is None or count < len(few)):
                    few = [node for nodes in listed for node in nodes]
        return few

    def _scan(
        self,
        few: list[int],
        shape: Shape,
        avoid: tuple[int, ...],
        spread: bool,
        bars: Bars | None,
    ) -> Node | None:
        masks = {kind.order: mask for kind, mask, _ in self.eligible(shape)}
        best: tuple[int, ...] | None = None
        for index in few:
            node = self.nodes[index]
            assert node.kind is not None
            mask = masks.get(node.kind.order, -1)
            if node.bucket is None or mask < 0 or index in avoid:
                continue
            if node.free_cpu < shape.cpu or node.free_memory < shape.memory:
                continue
            if not suits(node, shape, mask, bars):
                continue
            mask = left_of(node, mask, bars)
            free = -node.free_count if spread else node.free_count
            # of cards opened for sharing the one with the least room that suffices comes first
            opened = least_room(node, shape, mask) if shape.card_milli else 0
            key = (opened, free, node.free_cpu, node.free_memory, index)
            if best is None or key < best:
                best = key
        return None if best is None else self.nodes[best[-1]]


def suitable_cards(shape: Shape, kind: NodeClass) -> int:
    """Mask of a class's cards that suit a shape; -1 when none does or a taint forbids the node."""
    if not tolerated(shape, kind):
        return -1
    mask = usable_cards(shape, kind)
    return -1 if shape.cards_milli and not mask else mask


def tolerated(shape: Shape, kind: NodeClass) -> bool:
    """Whether the shape bears every taint of the class; a wish (`PREFER_NO_SCHEDULE`) forbids
    nothing.
    """
    return all(
        taint.effect is TaintEffect.PREFER_NO_SCHEDULE
        or tolerates(shape.request.tolerations, taint)
        for taint in kind.taints
    )


def usable_cards(shape: Shape, kind: NodeClass) -> int:
    """Mask of a class's cards of an allowed model and with memory enough."""
    request = shape.request
    least = max(request.min_card_memory_mib, shape.card_memory)
    mask = 0
    for model, memory, cards in kind.kinds:
        if memory >= least and (not request.models or model in request.models):
            mask |= cards
    return mask


def tolerates(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    """Whether one of the tolerations bears the taint."""
    for toleration in tolerations:
        if toleration.effect not in (TaintEffect.UNKNOWN, taint.effect):
            continue
        if toleration.operator is TolerationOperator.EXISTS:
            if toleration.key in ("", taint.key):
                return True
        elif toleration.key == taint.key and toleration.value == taint.value:
            return True
    return False


def matches(labels: dict[str, str], selectors: tuple[Selector, ...]) -> bool:
    """Whether a node's labels satisfy every selector."""
    for selector in selectors:
        value = labels.get(selector.key)
        if selector.operator is SelectorOperator.IN:
            good = value is not None and value in selector.values
        elif selector.operator is SelectorOperator.NOT_IN:
            good = value is None or value not in selector.values
        elif selector.operator is SelectorOperator.EXISTS:
            good = value is not None
        else:
            good = selector.operator is SelectorOperator.NOT_EXISTS and value is None
        if not good:
            return False
    return True


def can_hold(node: Node, shape: Shape, mask: int) -> bool:
    """Whether one pod fits, cpu and memory aside. `mask`: the node's cards that suit the shape."""
    free = node.free & mask
    if shape.card_milli:
        if not free and not any(
            mask >> card & 1 and milli >= shape.card_milli and memory >= shape.card_memory
            for card, (milli, memory) in node.shared.items()
        ):
            return False
    elif shape.cards:
        assert node.kind is not None
        if not pods_in(free, shape.cards, node.kind.islands, shape.same_island):
            return False
    return holds_extra(node, shape) and matches(node.labels, shape.request.selectors)


def suits(node: Node, shape: Shape, mask: int, bars: Bars | None) -> bool:
    """Whether one pod fits as `can_hold` says, beside what must be left alone."""
    bar = None if bars is None else bars.get(node.index)
    if bar is None:
        return can_hold(node, shape, mask)
    return can_hold(node, shape, mask & ~bar.mask) and most_beside(node, shape, bar, 1) > 0


def most_beside(node: Node, shape: Shape, bar: Bar, at_most: int) -> int:
    """How many pods of a shape find cpu and memory beside what is kept, at most so many.

    Of what a place keeps beside its cards there is as much as the share of them that are free:
    whoever has the others has the rest.
    """
    if bar.mask == WHOLE:
        return 0
    cpu, memory = node.free_cpu, node.free_memory
    for mask, kept_cpu, kept_memory in bar.needs:
        cards, free = mask.bit_count(), (mask & node.free).bit_count()
        cpu -= kept_cpu * free // cards
        memory -= kept_memory * free // cards
    count = at_most
    if shape.cpu:
        count = min(count, cpu // shape.cpu)
    if shape.memory:
        count = min(count, memory // shape.memory)
    return max(0, count)


def is_left(node: Node, shape: Shape, cards: int, bars: Bars) -> bool:
    """Whether these cards of a node need not be left alone, nor what a pod asks beside them."""
    bar = bars.get(node.index)
    return bar is None or (not cards & bar.mask and most_beside(node, shape, bar, 1) > 0)


def left_of(node: Node, mask: int, bars: Bars | None) -> int:
    """Those of a node's cards that need not be left alone."""
    bar = None if bars is None else bars.get(node.index)
    return mask if bar is None else mask & ~bar.mask


def pods_on(node: Node, shape: Shape, mask: int, at_most: int) -> int:
    """How many pods of a shape fit on a node that `seek` gave, at most `at_most`."""
    count = min(at_most, node.free_slots)
    if shape.cpu:
        count = min(count, node.free_cpu // shape.cpu)
    if shape.memory:
        count = min(count, node.free_memory // shape.memory)
    for place, amount in shape.extra:
        count = min(count, node.free_extra.get(place, 0) // amount)
    if shape.card_milli:
        return min(count, 1)
    if shape.cards:
        assert node.kind is not None
        count = min(
            count, pods_in(node.free & mask, shape.cards, node.kind.islands, shape.same_island)
        )
    return count


def pick_shared(node: Node, shape: Shape, mask: int) -> int:
    """The card for a pod that shares one: the fullest that has room, else a whole one. -1: none."""
    best: tuple[int, int] | None = None
    for card, (milli, memory) in node.shared.items():
        if mask >> card & 1 and milli >= shape.card_milli and memory >= shape.card_memory:
            if best is None or (milli, card) < best:
                best = (milli, card)
    if best is not None:
        return best[1]
    assert node.kind is not None
    chosen = choose_cards(node.free & mask, 1, node.kind.islands, False)
    return chosen.bit_length() - 1


def least_room(node: Node, shape: Shape, mask: int) -> int:
    """Free milli of the shared card that a share would go to; a whole card's if it takes one."""
    card = pick_shared(node, shape, mask)
    return node.shared[card][0] if card in node.shared else CARD_MILLI


def holds_extra(node: Node, shape: Shape) -> bool:
    """Whether the node has what the pod asks of named resources."""
    return all(node.free_extra.get(place, 0) >= amount for place, amount in shape.extra)


def _drop(entries: list[tuple[int, int, int]], entry: tuple[int, int, int]) -> None:
    place = bisect_left(entries, entry)
    assert entries[place] == entry, entry
    del entries[place]

"""Conservative and hybrid backfill over several nodes, looked at card by card and second by second.

Slow and plain: nothing is kept from one question to the next. What is free is a mask for each node
and second; a job is placed by the words of `horizon.rooms`: part by part, on the node with the
fewest cards free throughout its run, lowest number first, as many pods as fit.
"""

from typing import NamedTuple

from ganger.streams.kernel.topology import choose_cards, pods_in

FAR_S = 4_000
"""Later than anything that is planned."""


class Part(NamedTuple):
    """Equal pods of a job."""

    pods: int
    cards: int
    same_island: bool = False
    cpu: int = 0  # milli-cores; these planners do not look at it


class Gang(NamedTuple):
    """A job. Times in whole seconds; it runs no longer than `limit_s`."""

    number: int
    submit_s: int
    run_s: int
    limit_s: int
    parts: tuple[Part, ...]


class Node(NamedTuple):
    """A node's cards, and its islands as masks."""

    cards: int
    islands: tuple[int, ...]


Spot = tuple[int, int, int]
"""Part, node, mask of one pod."""


class Stay(NamedTuple):
    """Cards held from then until then."""

    start_s: int
    until_s: int
    spots: tuple[Spot, ...]


class Board:
    """What holds cards: jobs that run, as long as is expected, and what is booked."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.running: dict[int, Stay] = {}
        self.booked: dict[int, Stay] = {}

    def free(self, node: int, at_s: int) -> int:
        mask = (1 << self.nodes[node].cards) - 1
        for stay in (*self.running.values(), *self.booked.values()):
            if stay.start_s <= at_s < stay.until_s:
                for _, where, cards in stay.spots:
                    if where == node:
                        mask &= ~cards
        return mask

    def throughout(self, node: int, from_s: int, until_s: int) -> int:
        """Free all the time; it changes only where somebody begins or ends."""
        ends = [stay.start_s for stay in (*self.running.values(), *self.booked.values())]
        mask = self.free(node, from_s)
        for at_s in ends:
            if from_s < at_s < until_s:
                mask &= self.free(node, at_s)
        return mask

    def place(self, job: Gang, from_s: int) -> tuple[Spot, ...] | None:
        until_s = from_s + job.limit_s
        left = [self.throughout(node, from_s, until_s) for node in range(len(self.nodes))]
        spots: list[Spot] = []
        for number, (pods, cards, same_island, _) in enumerate(job.parts):
            for node in sorted(range(len(left)), key=lambda one: (left[one].bit_count(), one)):
                islands = self.nodes[node].islands
                while pods and pods_in(left[node], cards, islands, same_island):
                    mask = choose_cards(left[node], cards, islands, same_island)
                    left[node] &= ~mask
                    spots.append((number, node, mask))
                    pods -= 1
            if pods:
                return None
        return tuple(spots)

    def earliest(self, job: Gang, now_s: int) -> Stay | None:
        """At the first moment at which it is placed; tried now and when any card comes free."""
        stays = (*self.running.values(), *self.booked.values())
        for at_s in sorted({now_s, *(s.until_s for s in stays if s.until_s > now_s)}):
            rises = at_s == now_s or any(
                self.free(node, at_s) & ~self.free(node, at_s - 1)
                for node in range(len(self.nodes))
            )
            spots = self.place(job, at_s) if rises else None
            if spots is not None:
                return Stay(at_s, at_s + job.limit_s, spots)
        return None


class Conservative:
    """Everybody is booked."""

    def __init__(self, nodes: list[Node]) -> None:
        self.board = Board(nodes)
        self.jobs: dict[int, Gang] = {}
        self.waiting: dict[int, None] = {}

    def submitted(self, job: Gang, now_s: int) -> list[int]:
        self.jobs[job.number] = job
        self.waiting[job.number] = None
        return self.passed(now_s)

    def ended(self, number: int, now_s: int) -> list[int]:
        del self.board.running[number]
        for other in sorted(self.board.booked):
            before = self.board.booked.pop(other)
            again = self.board.earliest(self.jobs[other], now_s)
            assert again is not None
            self.board.booked[other] = again if again.start_s < before.start_s else before
        return self.passed(now_s)

    def passed(self, now_s: int) -> list[int]:
        """Who starts."""
        board = self.board
        for number in sorted(self.waiting):
            stay = board.earliest(self.jobs[number], now_s)
            if stay is not None:
                board.booked[number] = stay
                del self.waiting[number]
        due = [number for number, stay in sorted(board.booked.items()) if stay.start_s <= now_s]
        for number in due:
            board.running[number] = board.booked.pop(number)
        return due

    def wake_s(self) -> int:
        return min((stay.start_s for stay in self.board.booked.values()), default=FAR_S)


class Hybrid:
    """Those that are first and do not fit are booked anew at each event, so many of them."""

    def __init__(self, nodes: list[Node], heads: int) -> None:
        self.board = Board(nodes)
        self.heads = heads
        self.jobs: dict[int, Gang] = {}
        self.waiting: dict[int, None] = {}

    def submitted(self, job: Gang, now_s: int) -> list[int]:
        self.jobs[job.number] = job
        self.waiting[job.number] = None
        return self.passed(now_s)

    def ended(self, number: int, now_s: int) -> list[int]:
        del self.board.running[number]
        return self.passed(now_s)

    def passed(self, now_s: int) -> list[int]:
        board, started, heads = self.board, [], 0
        board.booked.clear()
        for number in sorted(self.waiting):
            stay = board.earliest(self.jobs[number], now_s)
            if stay is not None and stay.start_s == now_s:
                board.running[number] = stay
                started.append(number)
            elif stay is not None and heads < self.heads:
                heads += 1
                board.booked[number] = stay
        for number in started:
            del self.waiting[number]
        return started

    def wake_s(self) -> int:
        return FAR_S


Planner = Conservative | Hybrid


def starts_of(planner: Planner, jobs: list[Gang]) -> dict[int, Stay]:
    """Carry a workload out: when each job starts, and where.

    At one second submissions come first, by number; then ends, by number; each is handled alone.
    Nobody outlives its limit.
    """
    todo = sorted(jobs, key=lambda job: (job.submit_s, job.number), reverse=True)
    ends: dict[int, int] = {}
    found: dict[int, Stay] = {}
    while todo or ends or planner.wake_s() < FAR_S:
        submit_s = todo[-1].submit_s if todo else FAR_S
        end_s, number = min(((end_s, one) for one, end_s in ends.items()), default=(FAR_S, 0))
        now_s = min(submit_s, end_s, planner.wake_s())
        if submit_s == now_s:
            started = planner.submitted(todo.pop(), now_s)
        elif end_s == now_s:
            del ends[number]
            started = planner.ended(number, now_s)
        else:
            started = planner.passed(now_s)
        for one in started:
            found[one] = planner.board.running[one]._replace(start_s=now_s)
            ends[one] = now_s + planner.jobs[one].run_s
    return found

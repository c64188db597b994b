"""Waiting jobs in order, look-alikes grouped, so that a shape that failed is asked once.

A *line* holds the waiting jobs of one queue. Inside it jobs of the same job shape and *look* form a
*group*: what holds for the first of them holds for all. The look tells how far a job is: jobs that
have nothing yet look alike, jobs of one role that run and only grow do, any other is unique. A group is *blocked* when its first job was
tried and failed; it is then not offered again until

* capacity grew somewhere so that one of its pods would fit (`wake`), or
* the queue whose limit stopped it gave something back (`relent`), or
* `wake_all`.

Blocking is a memory of failures, not a fact: dropping it costs time and changes no decision.
Order keys are int tuples that end in the job's seq, so no two are equal.
"""

from bisect import bisect_right, insort
from dataclasses import dataclass, field
from heapq import heappop, heappush, heapreplace

from ganger.streams.kernel.entities import Job
from ganger.streams.kernel.resources import JobShape, Need

Key = tuple[int, ...]

FRESH, GROWING, UNIQUE = 0, 1, 2
"""Looks; a unique one is UNIQUE + the job's seq."""


@dataclass(slots=True, eq=False)
class Group:
    """Look-alikes in one line. `jobs` is a heap of order keys, cleaned when read."""

    queue: int
    shape: JobShape
    look: int
    jobs: list[Key] = field(default_factory=list)
    count: int = 0  # jobs that really stand in it
    is_blocked: bool = False


@dataclass(slots=True, eq=False)
class Line:
    """Waiting jobs of one queue. `heads` is a heap of (key, group), cleaned when read."""

    queue: int
    groups: dict[tuple[JobShape, int], Group] = field(default_factory=dict)
    heads: list[tuple[Key, Group]] = field(default_factory=list)
    count: int = 0


@dataclass(slots=True, eq=False)
class Growth:
    """The largest free numbers, each on its own, among nodes that got something back."""

    cards_milli: int = -1
    cpu: int = -1
    memory: int = -1

    def admits(self, need: Need) -> bool:
        """Whether the need might fit into what grew. Never wrongly no."""
        return need[0] <= self.cards_milli and need[1] <= self.cpu and need[2] <= self.memory


class Waiting:
    """The lines of one stage (before or after admission)."""

    __slots__ = (
        "_by_pod",
        "_failed",
        "_failed_order",
        "_jobs",
        "_limited",
        "active",
        "growth",
        "lines",
    )

    def __init__(self, jobs: dict[int, Job], by_pod: bool) -> None:
        """`by_pod`: growth is of single nodes, so one pod that fits wakes; else of the cell."""
        self._jobs = jobs
        self._by_pod = by_pod
        self.lines: dict[int, Line] = {}
        self.active: dict[int, Line] = {}  # lines that may have an unblocked job
        self.growth = Growth()
        self._failed: dict[tuple[JobShape, int], list[Group]] = {}
        self._failed_order: list[tuple[int, tuple[JobShape, int]]] = []  # by fewest milli-cards asked
        self._limited: dict[int, list[Group]] = {}  # by the queue whose limit stopped them

    # ---- joining and leaving ------------------------------------------------------------------

    def add(self, job: Job, key: Key, look: int) -> None:
        """Put a job in its queue's line. It must stand in none."""
        assert job.key is None, job.seq
        line = self.lines.get(job.queue)
        if line is None:
            line = self.lines[job.queue] = Line(job.queue)
        place = (job.shape, look)
        group = line.groups.get(place)
        if group is None:
            group = line.groups[place] = Group(job.queue, job.shape, look)
            failed = self._failed.get(place)
            if failed is not None:
                group.is_blocked = True
                failed.append(group)
        job.key = key
        job.look = look
        heappush(group.jobs, key)
        group.count += 1
        line.count += 1
        if not group.is_blocked and group.jobs[0] is key:
            heappush(line.heads, (key, group))
            self.active[job.queue] = line

    def remove(self, job: Job) -> None:
        """Take a job out of its line."""
        assert job.key is not None, job.seq
        line = self.lines[job.queue]
        place = (job.shape, job.look)
        group = line.groups[place]
        job.key = None
        group.count -= 1
        line.count -= 1
        if not group.count:
            group.jobs.clear()
            if not group.is_blocked:
                del line.groups[place]
        if not line.count:
            line.heads.clear()
            self.active.pop(job.queue, None)

    # ---- asking -------------------------------------------------------------------------------

    def first(self, queue: int) -> tuple[Job, Group] | None:
        """The first job of a queue that is not blocked."""
        line = self.active.get(queue)
        if line is None:
            return None
        heads = line.heads
        while heads:
            key, group = heads[0]
            if group.is_blocked:
                heappop(heads)
                continue
            head = self._head(group)
            if head is None:
                heappop(heads)
            elif head is not key:
                heapreplace(heads, (head, group))
            else:
                return self._jobs[key[-1]], group
        del self.active[queue]
        return None

    def _head(self, group: Group) -> Key | None:
        keys = group.jobs
        while keys:
            job = self._jobs.get(keys[0][-1])
            if job is not None and job.key is keys[0]:
                return keys[0]
            heappop(keys)
        return None

    # ---- blocking and waking ------------------------------------------------------------------

    def block(self, group: Group) -> None:
        """No node can hold the group's first job now; nor its look-alikes in any queue."""
        assert not group.is_blocked, group
        group.is_blocked = True
        place = (group.shape, group.look)
        failed = self._failed.get(place)
        if failed is None:
            failed = self._failed[place] = []
            least = min(need[0] for need in self._needs(group.shape))
            insort(self._failed_order, (least, place), key=lambda entry: entry[0])
        failed.append(group)

    def _needs(self, shape: JobShape) -> tuple[Need, ...]:
        return shape.pod_needs if self._by_pod else shape.min_needs

    def is_failed(self, group: Group) -> bool:
        """Whether a look-alike of another queue has failed since capacity last grew."""
        return (group.shape, group.look) in self._failed

    def block_by(self, group: Group, queue: int) -> None:
        """The limit of `queue` stops the group."""
        assert not group.is_blocked, group
        group.is_blocked = True
        self._limited.setdefault(queue, []).append(group)

    def relent(self, queue: int) -> None:
        """`queue` gave something back, or its limits changed."""
        for group in self._limited.pop(queue, ()):
            self._unblock(group)

    @property
    def has_limited(self) -> bool:
        """Whether any group is stopped by a queue's limit."""
        return bool(self._limited)

    @property
    def has_failed(self) -> bool:
        """Whether any shape has failed."""
        return bool(self._failed)

    def grow(self, cards_milli: int, cpu: int, memory: int) -> None:
        """A node now has this much free and had less before."""
        growth = self.growth
        if cards_milli > growth.cards_milli:
            growth.cards_milli = cards_milli
        if cpu > growth.cpu:
            growth.cpu = cpu
        if memory > growth.memory:
            growth.memory = memory

    def wake(self) -> None:
        """Offer again the shapes of which a pod might fit on what grew since the last call."""
        growth = self.growth
        if growth.cards_milli < 0:
            return
        self.growth = Growth()
        order = self._failed_order
        if not order:
            return
        end = bisect_right(order, growth.cards_milli, key=lambda entry: entry[0])
        kept = []
        for entry in order[:end]:
            if any(growth.admits(need) for need in self._needs(entry[1][0])):
                for group in self._failed.pop(entry[1]):
                    self._unblock(group)
            else:
                kept.append(entry)
        order[:end] = kept

    def wake_all(self) -> None:
        """Offer everything again."""
        for groups in (*self._failed.values(), *self._limited.values()):
            for group in groups:
                self._unblock(group)
        self._failed.clear()
        self._failed_order.clear()
        self._limited.clear()
        self.growth = Growth()

    def _unblock(self, group: Group) -> None:
        group.is_blocked = False
        line = self.lines[group.queue]
        head = self._head(group)
        if head is None:
            line.groups.pop((group.shape, group.look), None)
            return
        heappush(line.heads, (head, group))
        self.active[group.queue] = line

    def keys(self, queue: int) -> list[Key]:
        """Keys of all jobs in a queue's line, in order. O(n log n): for explanations and checks."""
        line = self.lines.get(queue)
        if line is None:
            return []
        jobs = self._jobs
        return sorted(
            key
            for group in line.groups.values()
            for key in group.jobs
            if key[-1] in jobs and jobs[key[-1]].key is key
        )

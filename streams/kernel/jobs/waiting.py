"""Waiting jobs in order, look-alikes grouped, so that a shape that failed is asked once.

A *line* holds the waiting jobs of one queue. Jobs of the same job shape and *look* are *alike*:
what holds for one holds for all. The look tells how far a job is: jobs that have nothing yet look
alike, jobs of one role that run and only grow do, any other is unique. The jobs of one line that
are alike form a *group*, ordered by their keys, int tuples that end in the job's seq, so no two are
equal.

When the first job of a group was tried and failed, nothing like it is offered again until

* capacity grew so that it might fit (`wake`), for a failure for want of capacity, or
* the queue whose limit stopped it gave something back (`relent`), or
* `wake_all`.

This is a memory of failures, not a fact: dropping it costs time and changes no decision.

Most jobs come where nobody waits and leave before another comes. So a job that comes while nothing
is offered or stopped is a *newcomer*: it stands in line as its key says, but line and group are
made only when they are needed, because it failed or was joined by another.
"""

from bisect import bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush, heapreplace

from ganger.streams.kernel.entities import Alike, Group, Job, Key
from ganger.streams.kernel.resources import JobShape, Need

EMPTIES_MAX = 4096
"""Groups may lose their last job so often before empty ones are forgotten."""

PARKED = -2
"""Stands for a queue: what is stopped by it waits until anything in the cell has changed."""

OWNER_SHIFT = 32
"""Numbers of owners stand above those of queues in a group's slot."""

FRESH, GROWING, UNIQUE = 0, 1, 2
"""Looks; a unique one is UNIQUE + the job's seq. Negative ones are FRESH with a priority."""

MARK = -(1 << 60)
"""Looks from here on downwards stand for others with a mark, which tells apart what else looks
alike; the even ones for FRESH.
"""


def is_fresh(look: int) -> bool:
    """Whether jobs that look so have nothing yet, marked or not."""
    return look == FRESH or (look <= MARK and not look & 1)


def slot_of(job: Job) -> int:
    """Where the job's group is found among those of its like: one per queue, and per owner where a
    limit of the queue may stop the jobs of one owner alone.
    """
    return job.owner << OWNER_SHIFT | job.queue if job.owner else job.queue


@dataclass(slots=True, eq=False)
class Line:
    """Waiting jobs of one queue. `heads` is a heap of (key, group), cleaned when read.

    Every group that may be offered has an entry whose key is not above that of its first job.
    """

    queue: int
    heads: list[tuple[Key, Group]] = field(default_factory=list)
    count: int = 0


@dataclass(slots=True, eq=False)
class Growth:
    """The largest free numbers, each on its own, of what got something back."""

    cards_milli: int = -1
    cpu: int = -1
    memory: int = -1

    def admits(self, need: Need) -> bool:
        """Whether the need might fit into what grew. Never wrongly no."""
        return need[0] <= self.cards_milli and need[1] <= self.cpu and need[2] <= self.memory


class Waiting:
    """The lines of one stage (before or after admission)."""

    __slots__ = (
        "_alike",
        "_by_pod",
        "_empties",
        "_jobs",
        "active",
        "count",
        "cramped",
        "failed",
        "growth",
        "limited",
        "lines",
        "newcomer",
        "open_count",
    )

    def __init__(self, jobs: dict[int, Job], by_pod: bool) -> None:
        """`by_pod`: growth is of single nodes, so one pod that fits wakes; else of the cell."""
        self._jobs = jobs
        self._by_pod = by_pod
        self.lines: dict[int, Line] = {}
        self.active: dict[int, Line] = {}  # lines that have heads
        self.open_count = 0  # groups with jobs that may be offered
        self.count = 0  # jobs that stand here, offered or not
        self.growth = Growth()
        self._empties = 0  # groups that lost their last job since the last purge
        self._alike: dict[tuple[JobShape, int], Alike] = {}
        self.newcomer: Job | None = None  # the only one that stands here, without a group
        # failed for want of capacity and not woken since, by fewest milli-cards that would wake it
        self.failed: list[tuple[int, Alike]] = []
        self.limited: dict[int, list[Group]] = {}  # by the queue whose limit stops them
        self.cramped: dict[int, bool] = {}  # queues whose stopped groups lack room too

    # ---- joining and leaving ------------------------------------------------------------------

    def add(self, job: Job, key: Key, look: int) -> None:
        """Put a job in its queue's line. It must stand in none."""
        assert job.key is None, job.seq
        job.key = key
        job.look = look
        self.count += 1
        if not (self.open_count or self.failed or self.limited):
            self.newcomer = job
            self.open_count = 1
            return
        self._seat_newcomer()
        self._seat(job, key, look)

    def _seat_newcomer(self) -> None:
        """Give the newcomer, if there is one, what the others have."""
        job = self.newcomer
        if job is not None:
            self.newcomer = None
            self.open_count = 0
            assert job.key is not None, job.seq
            self._seat(job, job.key, job.look)

    def _seat(self, job: Job, key: Key, look: int) -> None:
        queue = job.queue
        place = (job.shape, look)
        alike = self._alike.get(place)
        if alike is None:
            alike = self._alike[place] = Alike(job.shape, look)
        elif look >= UNIQUE and alike.has_failed:
            self._forgive(alike)  # the job's own facts have changed since
        slot = slot_of(job)
        group = alike.groups.get(slot)
        if group is None:
            group = alike.groups[slot] = Group(queue, alike)
        job.group = group
        heappush(group.keys, key)
        line = self.lines.get(queue)
        if line is None:
            line = self.lines[queue] = Line(queue)
        line.count += 1
        group.count += 1
        if alike.has_failed or group.is_limited:
            return
        if group.count == 1:
            self.open_count += 1
        if group.listed is None or key < group.listed:
            self._list(line, group, key)

    def _list(self, line: Line, group: Group, key: Key) -> None:
        group.listed = key
        heappush(line.heads, (key, group))
        self.active[group.queue] = line

    def remove(self, job: Job) -> None:
        """Take a job out of its line."""
        self.count -= 1
        if job is self.newcomer:
            self.newcomer = job.key = None
            self.open_count = 0
            return
        group = job.group
        assert group is not None, job.seq
        job.key = job.group = None
        alike = group.alike
        line = self.lines[job.queue]
        line.count -= 1
        group.count -= 1
        if not group.count:
            group.keys.clear()
            if not (alike.has_failed or group.is_limited):
                self.open_count -= 1
            self._empties += 1
            if self._empties > EMPTIES_MAX:
                self._purge()
        if not line.count:
            for _, other in line.heads:
                other.listed = None
            line.heads.clear()
            self.active.pop(job.queue, None)

    # ---- asking -------------------------------------------------------------------------------

    def queues(self) -> list[int]:
        """Queues with jobs that may be offered, and perhaps some without, ascending."""
        if self.newcomer is not None:
            return [self.newcomer.queue]
        return sorted(self.active)

    def first(self, queue: int) -> Job | None:
        """The first job of a queue that may be offered."""
        job = self.newcomer
        if job is not None:
            return job if job.queue == queue else None
        line = self.active.get(queue)
        if line is None:
            return None
        heads = line.heads
        jobs = self._jobs
        while heads:
            key, group = heads[0]
            if key is not group.listed:
                heappop(heads)  # a smaller key came later
                continue
            if group.is_limited or group.alike.has_failed or not group.count:
                heappop(heads)
                group.listed = None
                continue
            keys = group.keys
            job = jobs.get(keys[0][-1])
            while job is None or job.key is not keys[0]:
                heappop(keys)
                job = jobs.get(keys[0][-1])
            if keys[0] is key:
                return job
            group.listed = keys[0]
            heapreplace(heads, (keys[0], group))
        del self.active[queue]
        return None

    # ---- blocking and waking ------------------------------------------------------------------

    def block(self, job: Job) -> None:
        """There is no room for the first job of a group, nor for anything like it in any queue."""
        group = self._group_of(job)
        alike = group.alike
        assert not alike.has_failed and not group.is_limited, group
        self.open_count -= sum(1 for g in alike.groups.values() if g.count and not g.is_limited)
        alike.has_failed = True
        least = min(need[0] for need in self._needs(alike.shape))
        insort(self.failed, (least, alike), key=lambda entry: entry[0])

    def block_by(self, job: Job, queue: int, lacks_room: bool = False) -> None:
        """The limit of `queue` stops the first job of a group, and so the group; if it `lacks_room`
        too, growth wakes it as well.
        """
        group = self._group_of(job)
        assert not group.alike.has_failed and not group.is_limited, group
        self.open_count -= 1
        group.is_limited = True
        self.limited.setdefault(queue, []).append(group)
        if lacks_room:
            self.cramped[queue] = True

    def _group_of(self, job: Job) -> Group:
        self._seat_newcomer()
        assert job.group is not None, job.seq
        return job.group

    def is_stopped(self, job: Job, look: int) -> bool:
        """Whether a job like this one that looks so would not be offered in its queue."""
        alike = self._alike.get((job.shape, look))
        if alike is None:
            return False
        group = alike.groups.get(slot_of(job))
        return alike.has_failed or (group is not None and group.is_limited)

    def relent(self, queue: int) -> None:
        """`queue` gave something back, or its limits changed."""
        for group in self.limited.pop(queue, ()):
            group.is_limited = False
            if group.count:
                self._reopen(group)

    def grow(self, cards_milli: int, cpu: int, memory: int) -> None:
        """Something now has this much free and had less before."""
        if not (self.failed or self.cramped):
            return
        growth = self.growth
        if cards_milli > growth.cards_milli:
            growth.cards_milli = cards_milli
        if cpu > growth.cpu:
            growth.cpu = cpu
        if memory > growth.memory:
            growth.memory = memory

    def wake(self) -> None:
        """Offer again what might fit into what grew since the last call."""
        growth = self.growth
        if growth.cards_milli < 0:
            return
        self.growth = Growth()
        for queue in sorted(self.cramped):
            self.relent(queue)
        self.cramped.clear()
        failed = self.failed
        end = bisect_right(failed, growth.cards_milli, key=lambda entry: entry[0])
        kept = []
        for entry in failed[:end]:
            alike = entry[1]
            if any(growth.admits(need) for need in self._needs(alike.shape)):
                self._wake(alike)
            else:
                kept.append(entry)
        failed[:end] = kept

    def wake_all(self) -> None:
        """Offer everything again."""
        for _, alike in self.failed:
            self._wake(alike)
        self.failed.clear()
        for queue in sorted(self.limited):
            self.relent(queue)
        self.growth = Growth()

    def _wake(self, alike: Alike) -> None:
        alike.has_failed = False
        for group in alike.groups.values():
            if group.count and not group.is_limited:
                self._reopen(group)

    def _forgive(self, alike: Alike) -> None:
        """Forget that jobs failed of which none stands in line now."""
        alike.has_failed = False
        self.failed = [entry for entry in self.failed if entry[1] is not alike]

    def _reopen(self, group: Group) -> None:
        """The group may be offered (unless its like has failed): see that its line lists it."""
        if group.alike.has_failed:
            return
        self.open_count += 1
        key = group.keys[0]  # may be of a job that left: not above that of the first that stays
        if group.listed is None or key < group.listed:
            self._list(self.lines[group.queue], group, key)
        else:
            self.active[group.queue] = self.lines[group.queue]

    def _purge(self) -> None:
        """Forget groups without jobs, kept for a while since their like often comes again."""
        self._empties = 0
        for place, alike in list(self._alike.items()):
            for queue, group in list(alike.groups.items()):
                if not (group.count or group.is_limited or group.listed):
                    del alike.groups[queue]
            if not (alike.groups or alike.has_failed):
                del self._alike[place]

    def _needs(self, shape: JobShape) -> tuple[Need, ...]:
        return shape.pod_needs if self._by_pod else shape.min_needs

    def heads(self) -> list[tuple[int, Key, Group | None]]:
        """The first job of each group that has any, offered or not: its queue, its key and the
        group, none for the newcomer. In order of queue and key.
        """
        found: list[tuple[int, Key, Group | None]] = []
        newcomer = self.newcomer
        if newcomer is not None and newcomer.key is not None:
            found.append((newcomer.queue, newcomer.key, None))
        jobs = self._jobs
        for alike in self._alike.values():
            for group in alike.groups.values():
                if group.count:
                    keys = group.keys
                    job = jobs.get(keys[0][-1])
                    while job is None or job.key is not keys[0]:
                        heappop(keys)
                        job = jobs.get(keys[0][-1])
                    found.append((group.queue, keys[0], group))
        found.sort(key=lambda entry: entry[:2])
        return found

    def foremost(self, queue: int) -> Job | None:
        """The first job of a queue's line, offered or not. O(groups)."""
        keys = [key for of_queue, key, _ in self.heads() if of_queue == queue]
        return self._jobs[keys[0][-1]] if keys else None

    def members(self, group: Group) -> list[Key]:
        """Keys of all jobs of a group, in order. O(n log n)."""
        return sorted(self._standing(group))

    # ---- for explanations and checks ----------------------------------------------------------

    def keys(self, queue: int) -> list[Key]:
        """Keys of all jobs in a queue's line, in order. O(n log n)."""
        groups = [group for alike in self._alike.values() for group in alike.groups.values()]
        keys = [key for group in groups if group.queue == queue for key in self._standing(group)]
        newcomer = self.newcomer
        if newcomer is not None and newcomer.queue == queue and newcomer.key is not None:
            keys.append(newcomer.key)
        return sorted(keys)

    def fresh(self) -> list[int]:
        """Seqs of the jobs that have nothing yet, ascending. O(groups + n log n)."""
        alikes = [alike for alike in self._alike.values() if is_fresh(alike.look)]
        groups = [group for alike in alikes for group in alike.groups.values()]
        seqs = [key[-1] for group in groups for key in self._standing(group)]
        if self.newcomer is not None and is_fresh(self.newcomer.look):
            seqs.append(self.newcomer.seq)
        return sorted(seqs)

    def begun(self) -> list[int]:
        """Seqs of those that have something already, ascending. O(groups + n log n)."""
        alikes = [alike for alike in self._alike.values() if not is_fresh(alike.look)]
        groups = [group for alike in alikes for group in alike.groups.values()]
        seqs = [key[-1] for group in groups for key in self._standing(group)]
        if self.newcomer is not None and not is_fresh(self.newcomer.look):
            seqs.append(self.newcomer.seq)
        return sorted(seqs)

    def _standing(self, group: Group) -> list[Key]:
        """Keys of the jobs that really stand in a group, in no order."""
        jobs = self._jobs
        return [key for key in group.keys if key[-1] in jobs and jobs[key[-1]].key is key]

    def recount_open(self) -> int:
        """Groups with jobs that may be offered, counted anew."""
        if self.newcomer is not None:
            return 1
        return sum(
            1
            for alike in self._alike.values()
            for group in alike.groups.values()
            if group.count and not alike.has_failed and not group.is_limited
        )


class TimedWaiting(Waiting):
    """The lines of a stage whose policy plans with run times: it also knows who came and left.

    Such a policy asks for groups of look-alikes rarely, if ever. So who comes stands *apart* until
    somebody does.
    """

    __slots__ = ("_apart", "_stir", "came", "left")

    def __init__(self, jobs: dict[int, Job], by_pod: bool, stir: Callable[[], None]) -> None:
        """`stir`: told when there may be something to do in the next cycle."""
        super().__init__(jobs, by_pod)
        self._stir = stir
        self._apart: dict[int, Job] = {}  # by seq
        self.came: dict[Key, Job] = {}  # since both were last cleared
        self.left: list[Key] = []  # of those that had come before

    def add(self, job: Job, key: Key, look: int) -> None:
        """Put a job in its queue's line. It must stand in none."""
        assert job.key is None, job.seq
        job.key = key
        job.look = look
        self.count += 1
        self.open_count += 1
        self._apart[job.seq] = job
        self.came[key] = job
        self._stir()

    def remove(self, job: Job) -> None:
        """Take a job out of its line."""
        key = job.key
        assert key is not None, job.seq
        if self._apart.pop(job.seq, None) is None:
            super().remove(job)
        else:
            job.key = None
            self.count -= 1
            self.open_count -= 1
        if self.came.pop(key, None) is None:
            self.left.append(key)

    def _seat_apart(self) -> None:
        """Let all stand in groups."""
        for job in self._apart.values():
            assert job.key is not None, job.seq
            self.open_count -= 1
            self._seat(job, job.key, job.look)
        self._apart.clear()

    # ---- asking: of groups ---------------------------------------------------------------------

    def queues(self) -> list[int]:
        """See `Waiting.queues`."""
        self._seat_apart()
        return super().queues()

    def first(self, queue: int) -> Job | None:
        """See `Waiting.first`."""
        self._seat_apart()
        return super().first(queue)

    def _group_of(self, job: Job) -> Group:
        self._seat_apart()
        return super()._group_of(job)

    def heads(self) -> list[tuple[int, Key, Group | None]]:
        """See `Waiting.heads`."""
        self._seat_apart()
        return super().heads()

    def keys(self, queue: int) -> list[Key]:
        """See `Waiting.keys`."""
        self._seat_apart()
        return super().keys(queue)

    def fresh(self) -> list[int]:
        """See `Waiting.fresh`."""
        self._seat_apart()
        return super().fresh()

    def begun(self) -> list[int]:
        """See `Waiting.begun`."""
        self._seat_apart()
        return super().begun()

    def recount_open(self) -> int:
        """See `Waiting.recount_open`."""
        self._seat_apart()
        return super().recount_open()

    # ---- waking --------------------------------------------------------------------------------

    def relent(self, queue: int) -> None:
        """`queue` gave something back, or its limits changed."""
        super().relent(queue)
        self._stir()

    def grow(self, cards_milli: int, cpu: int, memory: int) -> None:
        """Something now has this much free and had less before."""
        if self.failed or self.cramped:
            super().grow(cards_milli, cpu, memory)
        self._stir()

    def wake_all(self) -> None:
        """Offer everything again."""
        super().wake_all()
        self._stir()

"""One history: jobs come, the cell comes to rest after each, then jobs end one by one."""

from collections.abc import Sequence
from hashlib import sha256
from itertools import permutations

from exhaustive.book import Book, JobBook
from exhaustive.promises import Watch
from exhaustive.quota import rule_of
from exhaustive.world import CARDS, Choice, nodes, submission
from ganger.schemas import records as r
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind
from ganger.streams.kernel import invariants
from ganger.streams.kernel.state import State
from ganger.streams.kernel.step import step
from support.builders import GENESIS, SECOND
from support.contests import two_queues
from support.promises import promise

QUIET = (DecisionKind.CYCLE_CLOSED, DecisionKind.ADMIT, DecisionKind.TUNE, DecisionKind.RESERVE)
"""Decisions after which nothing has moved."""

_GENESIS_CHAIN = sha256(b"small").digest()


class History:
    """A cell that is driven through one sequence, watched all along."""

    def __init__(self, policy: r.PolicyConfigured, node_count: int) -> None:
        self.state = State("small", _GENESIS_CHAIN)
        self.now_ns = GENESIS
        self.book = Book(node_count)
        self.watch = Watch(self.book, rule_of(policy.policy), is_timed(policy))
        owner = r.OwnerClaimed(GENESIS, "", None, "o")
        for record in (owner, policy, *two_queues(policy, CARDS * node_count), *nodes(node_count)):
            made = self.put(record)
            promise(not made, "a sound cell is taken as it is", made)

    def put(self, record: r.Record) -> list[Decision]:
        """One record through the kernel."""
        made = step(self.state, self.state.next_seq, record)
        self.book.apply(made)
        return made

    def submit(self, place: int, choice: Choice) -> None:
        """A job comes."""
        self.book.add(place, choice)
        made = self.put(submission(place, choice))
        promise(not made, "a sound job is taken", made)

    def cycle(self) -> list[Decision]:
        """One cycle."""
        self.now_ns += SECOND
        made = self.put(r.Tick(self.now_ns, "", None, self.state.epoch, True))
        self.watch.after_cycle(made)
        return made

    def settle(self) -> None:
        """Cycles until one moves nothing and no end is expected that may not come; the executor
        does what it is told between them.
        """
        most = 2 * len(self.book.jobs) + 2
        for _ in range(most):
            made = self.cycle()
            if all(decision.kind in QUIET for decision in made) and not self.book.expecting():
                self.watch.at_rest()
                return
            self.carry_out()
        promise(False, f"a cell comes to rest within {most} cycles", self.watch.visited)

    def carry_out(self) -> None:
        """What was evicted goes, what was placed runs."""
        for job in self.book.jobs.values():
            for pod in list(job.pods.values()):
                if pod.is_leaving:
                    del job.pods[pod.pod]
                    self.put(
                        r.PodReleased(self.now_ns, "", None, job.name, pod.pod, pod.attempt, 0)
                    )
                elif not pod.is_running:
                    pod.is_running = True
                    self.put(
                        r.PodStarted(
                            self.now_ns, "", None, job.name, pod.pod, pod.attempt, pod.node, 0
                        )
                    )

    def end(self, job: JobBook) -> None:
        """A running job ends well; pods that were never placed are given up."""
        self.watch.job_ended(job)
        for pod in job.live():
            job.done += 1
            del job.pods[pod.pod]
            self.put(r.PodSucceeded(self.now_ns, "", None, job.name, pod.pod, pod.attempt, 0))
        if not job.is_over:
            self.put(r.JobCancelRequested(self.now_ns, "", None, job.name, "search"))
        self.carry_out()
        promise(job.is_over, "a job whose pods are done is over", job)


def is_timed(policy: r.PolicyConfigured) -> bool:
    """Whether the policy plans ahead, so that jobs may wait for those before them."""
    words = [
        (action.action, argument.key) for action in policy.actions for argument in action.arguments
    ]
    return any(word in (("allocate", "reserve"), ("allocate", "beyond")) for word in words)


def begin(
    policy: r.PolicyConfigured,
    node_count: int,
    sequence: Sequence[Choice],
    is_late: bool = False,
) -> History:
    """All jobs of a sequence have come, one after the other. `is_late`: each comes before the
    executor has done anything of what the last one led to.
    """
    history = History(policy, node_count)
    for place, choice in enumerate(sequence):
        history.submit(place, choice)
        if is_late:
            history.cycle()
        else:
            history.settle()
    if is_late:
        history.carry_out()
        history.settle()
    return history


def finish(history: History, order: Sequence[int]) -> None:
    """End running jobs, always the first in `order` that runs, until none runs any more."""
    jobs = [history.book.jobs[f"j{place}"] for place in order]
    while running := [job for job in jobs if job.live() and not job.is_over]:
        history.end(running[0])
        history.settle()
    history.watch.all_over()
    invariants.check(history.state)


def explore(
    policy: r.PolicyConfigured,
    node_count: int,
    sequence: Sequence[Choice],
    all_ends_max: int = 3,
) -> int:
    """The histories of a sequence, and how many they are: of a short one all orders of ending, and
    one in which the executor is late; of others the order of submission.

    Raises:
        PromiseBroken: With the promise and what broke it.
    """
    places = range(len(sequence))
    orders = permutations(places) if len(sequence) <= all_ends_max else [tuple(places)]
    count = 0
    for order in orders:
        finish(begin(policy, node_count, sequence), order)
        count += 1
    if 1 < len(sequence) <= all_ends_max:
        finish(begin(policy, node_count, sequence, is_late=True), places)
        count += 1
    return count

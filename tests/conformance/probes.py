"""Tiny policies that cases name to provoke the kernel; their arguments say all that they do."""

from ganger.schemas.enums import Phase
from ganger.schemas.reasons import Reason
from ganger.schemas.records import Argument
from ganger.streams.kernel.entities import Job, Node, Pod
from ganger.streams.kernel.policies.hooks import Arguments, Hooks
from ganger.streams.kernel.policies.registry import POLICIES
from ganger.streams.kernel.refusals import Refusal, Vote
from ganger.streams.kernel.state import State


class Victims:
    """Whoever's pods have a role of this priority must leave."""

    NAME = "test_victims"
    HOOKS = ("victim",)

    def build(self, arguments: tuple[Argument, ...], where: str) -> Hooks:
        """One argument, `task_priority_eq`."""
        reader = Arguments(arguments, where)
        priority = reader.integer("task_priority_eq", 0, -(1 << 31), 1 << 31)
        reader.close()

        def victims(state: State) -> list[Pod]:
            return [
                pod
                for node in state.nodes
                for _, pod in sorted(node.pods.items())
                if role_priority(state.jobs[pod.job], pod) == priority
            ]

        return Hooks(victim=victims)


class Rejecter:
    """Votes against one job."""

    NAME = "rejecter"
    HOOKS = ("job_enqueue",)

    def build(self, arguments: tuple[Argument, ...], where: str) -> Hooks:
        """One argument, `reject_job`: the job's key."""
        reader = Arguments(arguments, where)
        names = reader.names("reject_job")
        reader.close()

        def vote(state: State, job: Job) -> Vote:
            return Refusal(Reason.LIMIT_EXCEEDED) if job.request.job in names else None

        return Hooks(job_enqueue=vote)


class Nobody:
    """Votes against every job."""

    NAME = "nobody"
    HOOKS = ("job_enqueue",)

    def build(self, arguments: tuple[Argument, ...], where: str) -> Hooks:
        """Takes no arguments."""
        Arguments(arguments, where).close()
        return Hooks(job_enqueue=lambda state, job: Refusal(Reason.LIMIT_EXCEEDED))


class Device:
    """Keeps pods of one role from a node while those of another are there and stay."""

    NAME = "test_device"
    HOOKS = ("predicate",)

    def build(self, arguments: tuple[Argument, ...], where: str) -> Hooks:
        """`task`: the role that is kept off; `refused_on_node_while_present`: the other."""
        reader = Arguments(arguments, where)
        task = reader.names("task")
        other = reader.names("refused_on_node_while_present")
        reader.close()

        def predicate(state: State, job: Job, role: int, node: Node) -> Reason:
            if job.request.roles[role].name not in task:
                return Reason.UNKNOWN
            for key, pod in node.pods.items():
                is_gone = key in state.indexes.lifted or pod.phase is Phase.RELEASING
                if role_name(state.jobs[pod.job], pod) in other and not is_gone:
                    return Reason.AFFINITY
            return Reason.UNKNOWN

        return Hooks(predicate=predicate)


def role_name(job: Job, pod: Pod) -> str:
    """The name of a pod's role."""
    return job.request.roles[pod.index % len(job.roles)].name


def role_priority(job: Job, pod: Pod) -> int:
    """The priority of a pod's role."""
    return job.request.roles[pod.index % len(job.roles)].priority


def register() -> None:
    """Let policies of cases name them."""
    for probe in (Victims(), Rejecter(), Nobody(), Device()):
        POLICIES[probe.NAME] = probe

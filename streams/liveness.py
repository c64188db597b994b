"""Which nodes of a cell are heard: what they last said, and since when they are silent.

The memory of an intake, with no clock of its own. Silence is counted from the later of a node's
last heartbeat and the moment this intake began to listen; after a pause of its own it begins again,
since heartbeats may have been lost while it did not look. Time never runs backwards here: an older
reading of the clock counts as the newest one seen.
"""

from msgspec.structs import replace

from ganger.schemas.records import AttemptRef, NodeReport

SILENCE_NS_DEFAULT = 40_000_000_000
"""Four missed heartbeats of 10 s: the node monitor grace period of Kubernetes up to 1.31."""


class NodeView:
    """What is known of one node."""

    __slots__ = ("forwarded", "is_lost", "raw")

    def __init__(self, forwarded: NodeReport, *, is_lost: bool) -> None:
        self.raw = forwarded  # as last heard
        self.forwarded = forwarded  # as last written into the ledger
        self.is_lost = is_lost


class Liveness:
    """The nodes that an intake knows, in order of their last heartbeat.

    Attributes:
        now_ns: newest reading of the clock.
        since_ns: silence before this moment does not count.
    """

    def __init__(self, silence_ns: int, pause_ns: int | None) -> None:
        """Knows no node yet.

        Args:
            silence_ns: a node silent for so long is lost; above 0.
            pause_ns: when nothing was asked for longer than this, the listener itself was away;
                None: it never is, as in virtual time.
        """
        if silence_ns <= 0:
            raise ValueError(f"silence_ns: {silence_ns} would lose every node; give more than 0")
        self.silence_ns = silence_ns
        self.pause_ns = pause_ns
        self.now_ns = 0
        self.since_ns = 0
        self.nodes: dict[str, NodeView] = {}
        self._heard_ns: dict[str, int] = {}  # of nodes not lost; ascending, as time is

    def look(self, now_ns: int) -> int:
        """Take a reading of the clock and return the time to work with."""
        if now_ns > self.now_ns:
            if self.pause_ns is not None and now_ns - self.now_ns > self.pause_ns:
                self.since_ns = now_ns
            self.now_ns = now_ns
        return self.now_ns

    def listen_from(self, now_ns: int) -> None:
        """Count silence from now on only, as after taking a cell over."""
        self.since_ns = self.look(now_ns)

    def know(self, report: NodeReport, *, is_lost: bool) -> None:
        """Take a node over as the published rows describe it."""
        self.nodes[report.node] = NodeView(canonical_report(report), is_lost=is_lost)
        if is_lost:
            self._heard_ns.pop(report.node, None)
        else:
            self._heard_ns[report.node] = self.since_ns

    def hear(self, node: str) -> None:
        """A heartbeat of a node came just now."""
        heard = self._heard_ns
        heard.pop(node, None)
        heard[node] = self.now_ns

    def lose_silent(self) -> list[tuple[str, int]]:
        """Nodes found lost just now, with how long each is silent (ns), ascending by name.

        O(nodes found), whatever the number of nodes.
        """
        limit_ns = self.now_ns - self.silence_ns
        if self.since_ns > limit_ns:
            return []
        found = []
        for node, heard_ns in self._heard_ns.items():
            if heard_ns > limit_ns:
                break
            found.append((node, self.now_ns - max(heard_ns, self.since_ns)))
        for node, _ in found:
            del self._heard_ns[node]
            self.nodes[node].is_lost = True
        found.sort()
        return found

    def next_loss_ns(self) -> int | None:
        """When the next node will be lost if nothing is heard; None without nodes to lose."""
        for heard_ns in self._heard_ns.values():
            return max(heard_ns, self.since_ns) + self.silence_ns
        return None


def canonical_report(report: NodeReport) -> NodeReport:
    """The report without what the ledger does not keep, its attempts in one order."""
    attempts = report.attempts
    if len(attempts) > 1:
        attempts = tuple(sorted(attempts, key=_attempt_order))
    return replace(report, attempts=attempts, utilisation_milli=())


def _attempt_order(attempt: AttemptRef) -> tuple[str, int, int]:
    return attempt.job, attempt.pod, attempt.attempt

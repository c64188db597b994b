"""What a run assumes of jobs that their trace does not say: run times, who may be suspended.

Estimates are the trace's own where it has any and the call names no others; else the policy
predicts them from the past. Where the policy's setting `estimates` is "exact", and only in a
simulation, jobs declare the time they will really run.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from hashlib import blake2b

from msgspec import Struct
from msgspec.structs import replace

from ganger.replay.traces.model import TraceJob
from ganger.replay.traces.source import InputError
from ganger.schemas.records import Argument, PolicyConfigured
from ganger.streams.kernel.limits import NUMBER_MAX
from ganger.streams.kernel.state import Policy

MILLION = 10**6

FACTOR_MILLI_MAX = 1000 * 1000
"""A run time times a thousand; more is a slip of the pen."""

_KEY = "estimates"
_PREDICTED = "predicted"
_EXACT = "exact"
_DECIMAL = re.compile(r"(\d{1,6})(?:\.(\d{1,6}))?", re.ASCII)
_ESTIMATES_REMEDY = "give exact, predict, or factor:F with F above 0, as factor:1.5"


class Guess(StrEnum):
    """Where estimates come from that replace those of a trace."""

    TRACE = "trace"  # its own where it has any, else predicted
    EXACT = "exact"  # the real run time
    FACTOR = "factor"  # that times a factor
    PREDICT = "predict"  # the policy predicts; what the trace declares is a bound


class Assumptions(Struct, frozen=True):
    """See the module.

    Attributes:
        guess: where estimates come from.
        factor_milli: thousandths by which `FACTOR` multiplies.
        suspendable_millionths: share of jobs that can checkpoint and accept to be suspended.
    """

    guess: Guess = Guess.TRACE
    factor_milli: int = 1000
    suspendable_millionths: int = 0


AS_TRACED = Assumptions()


def parse_estimates(text: str) -> tuple[Guess, int]:
    """`exact`, `predict` or `factor:F` as a guess and its factor in thousandths.

    Raises:
        InputError: it is none of them.
    """
    if text in (Guess.EXACT, Guess.PREDICT):
        return Guess(text), 1000
    kind, colon, factor = text.partition(":")
    millionths = _millionths(factor) if colon and kind == Guess.FACTOR else None
    if millionths is None or not 0 < millionths // 1000 <= FACTOR_MILLI_MAX:
        raise InputError("--estimates", f"the value is {text[:40]!r}", _ESTIMATES_REMEDY)
    return Guess.FACTOR, millionths // 1000


def parse_share(text: str, place: str) -> int:
    """A share from 0 to 1 as decimal text, in millionths.

    Raises:
        InputError: it is none.
    """
    millionths = _millionths(text)
    if millionths is None or millionths > MILLION:
        raise InputError(place, f"the value is {text[:40]!r}", "give a share from 0 to 1, as 0.3")
    return millionths


def _millionths(text: str) -> int | None:
    match = _DECIMAL.fullmatch(text)
    if match is None:
        return None
    return int(match[1]) * MILLION + int(f"{match[2] or '':0<6}")


def is_drawn(seed: int, job: str, millionths: int) -> bool:
    """Whether a job is among so many of a million, by a hash of the seed and its id.

    A greater share draws all that a smaller one does.
    """
    if millionths <= 0:
        return False
    drawn = blake2b(f"{seed}/{job}".encode(), digest_size=8).digest()
    return int.from_bytes(drawn, "big") % MILLION < millionths


def settled(
    assumptions: Assumptions, policy: PolicyConfigured, compiled: Policy, jobs: Sequence[TraceJob]
) -> tuple[Assumptions, PolicyConfigured]:
    """What is assumed in a run, and its policy.

    Args:
        assumptions: as called for.
        policy: as called for.
        compiled: the same policy.
        jobs: of the run.

    Returns:
        The guess is `EXACT` where the policy wants it so, and never `TRACE` where the trace has no
        estimates. A policy that plans with declared run times predicts them where there are none.
    """
    if compiled.settings.estimates == _EXACT:
        return replace(assumptions, guess=Guess.EXACT, factor_milli=1000), policy
    if assumptions.guess is Guess.TRACE and not any(job.estimate_ns for job in jobs):
        assumptions = replace(assumptions, guess=Guess.PREDICT)
    if assumptions.guess is Guess.PREDICT and compiled.is_timed:
        kept = [argument for argument in policy.settings if argument.key != _KEY]
        settings = tuple(sorted([*kept, Argument(_KEY, _PREDICTED)], key=lambda one: one.key))
        policy = replace(policy, settings=settings)
    return assumptions, policy


def estimate_ns(assumptions: Assumptions, job: TraceJob) -> int:
    """The run time that a job declares; 0: none, as of one that never ends.

    More than the kernel takes, as logs have it where a queue is unlimited, is the most it takes.
    """
    if assumptions.guess in (Guess.TRACE, Guess.PREDICT):
        return min(job.estimate_ns, NUMBER_MAX)
    if job.run_ns < 0:
        return 0
    return min(max(1, job.run_ns * assumptions.factor_milli // 1000), NUMBER_MAX)

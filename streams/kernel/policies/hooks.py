"""What a policy may contribute, and how contributions combine.

* job keys: concatenated in configured order, then the job's seq; least first.
* queue keys: concatenated in configured order, then the queue's id; least first.
* admissions: asked in configured order; the first refusal stands.
* headrooms: the least of all bounds counts.
* spread: the last policy that says so decides whether pods are spread or packed.

A policy is a module with `NAME`, `HOOKS` (names of what it contributes) and `build(arguments)`. It
keeps nothing between calls; totals it needs are kept by `quota`.
"""

from dataclasses import dataclass

from ganger.schemas.reasons import Reason
from ganger.schemas.records import Argument
from ganger.streams.kernel.state import Admission, Headroom, JobKey, QueueKey


@dataclass(frozen=True, slots=True)
class Hooks:
    """What one policy contributes; none where it has nothing to say."""

    job_key: JobKey | None = None
    queue_key: QueueKey | None = None
    admission: Admission | None = None
    headroom: Headroom | None = None
    spread: bool | None = None


class PolicyRefused(Exception):
    """A policy record is wrong. `where` is the path of the key, `value` what stands there."""

    def __init__(self, reason: Reason, where: str, value: str, remedy: str) -> None:
        super().__init__(f"{where} = {value!r}: {remedy}")
        self.reason = reason
        self.where = where
        self.value = value
        self.remedy = remedy


def integers(
    arguments: tuple[Argument, ...], where: str, known: dict[str, tuple[int, int, int]]
) -> dict[str, int]:
    """Arguments as ints. `known`: default, least and greatest value by key."""
    values = {key: default for key, (default, _, _) in known.items()}
    for argument in arguments:
        path = f"{where}.{argument.key}"
        if argument.key not in known:
            remedy = f"remove it; known are: {', '.join(sorted(known)) or 'none'}"
            raise PolicyRefused(Reason.ARGUMENT_UNKNOWN, path, argument.value, remedy)
        _, least, greatest = known[argument.key]
        text = argument.value
        digits = text[1:] if text.startswith("-") else text
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
            raise PolicyRefused(
                Reason.ARGUMENT_INVALID, path, text, f"give an integer from {least} to {greatest}"
            )
        value = int(text)
        if not least <= value <= greatest:
            raise PolicyRefused(
                Reason.ARGUMENT_INVALID, path, text, f"give an integer from {least} to {greatest}"
            )
        values[argument.key] = value
    return values

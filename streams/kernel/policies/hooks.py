"""What a policy may contribute. How contributions of several policies combine stands in `votes`.

A policy is a module with `NAME`, `HOOKS` (names of what it contributes, fields of `Hooks`) and
`build(arguments, where)`. It keeps nothing between calls; totals it needs are kept by `quota`.
"""

from dataclasses import dataclass
from typing import NoReturn

from ganger.schemas.reasons import Reason
from ganger.schemas.records import Argument
from ganger.streams.kernel.state import (
    Allocatable,
    DomainScore,
    GangTest,
    GangVote,
    Headroom,
    JobKey,
    JobTest,
    JobVote,
    NodeScore,
    Outcasts,
    Predicate,
    Preemptive,
    Protection,
    QueueKey,
    QueueVote,
    Refresh,
    RoleKey,
    Spare,
    Veto,
    VictimKey,
)


@dataclass(frozen=True, slots=True)
class Hooks:
    """What one policy contributes; none where it has nothing to say."""

    job_order: JobKey | None = None
    queue_order: QueueKey | None = None
    task_order: RoleKey | None = None
    job_enqueue: JobVote | None = None
    headroom: Headroom | None = None  # belongs to `job_enqueue`: nobody can ask for it alone
    job_valid: GangTest | None = None
    job_ready: GangTest | None = None
    job_pipelined: GangVote | None = None
    job_starving: JobTest | None = None
    overused: QueueVote | None = None
    allocatable: Allocatable | None = None
    preemptive: Preemptive | None = None
    predicate: Predicate | None = None
    predicate_now: Predicate | None = None  # belongs to `predicate`
    node_order: NodeScore | None = None
    node_order_now: NodeScore | None = None  # belongs to `node_order`
    domain_order: DomainScore | None = None
    preemptable: Veto | None = None
    reclaimable: Veto | None = None
    spare: Spare | None = None  # belongs to `reclaimable`
    victim: Outcasts | None = None
    victim_order: VictimKey | None = None
    protected: Protection | None = None
    spread: bool | None = None
    by_queue: bool | None = None  # belongs to `predicate` and `node_order`: queues differ in them
    refresh: Refresh | None = None  # comes with whatever is asked for
    # comes with `job_order`: its keys depend on what the cell has, or on the hour
    follows_capacity: bool | None = None
    follows_clock: bool | None = None
    sla_waiting_ns: int | None = None  # comes with whatever is asked for


class PolicyRefused(Exception):
    """A policy record is wrong. `where` is the path of the key, `value` what stands there."""

    def __init__(self, reason: Reason, where: str, value: str, remedy: str) -> None:
        super().__init__(f"{where} = {value!r}: {remedy}")
        self.reason = reason
        self.where = where
        self.value = value
        self.remedy = remedy


_UNITS = (("ms", 10**6), ("s", 10**9), ("m", 60 * 10**9), ("h", 3600 * 10**9), ("d", 86400 * 10**9))
_DIGITS_MAX = 19


class Arguments:
    """Arguments of a policy or an action, read key by key. Each call gives the value or the
    default; `close` then refuses what nobody has read.

    All but `close` raise PolicyRefused for a value that is not allowed.
    """

    __slots__ = ("_known", "_texts", "_where")

    def __init__(self, arguments: tuple[Argument, ...], where: str) -> None:
        """`where`: the path that refusals begin with."""
        self._where = where
        self._texts: dict[str, str] = {}
        self._known: dict[str, None] = {}
        for argument in arguments:
            if argument.key in self._texts:
                self._refuse(argument.key, argument.value, "name it once")
            self._texts[argument.key] = argument.value

    def integer(self, key: str, default: int, least: int, greatest: int) -> int:
        """A whole number within bounds."""
        text = self._take(key)
        if text is None:
            return default
        value = _integer(text)
        if value is None or not least <= value <= greatest:
            self._refuse(key, text, f"give an integer from {least} to {greatest}")
        return value

    def milli(self, key: str, default: int, least: int, greatest: int) -> int:
        """Thousandths, written as a decimal number with at most three places: "1.2" is 1200."""
        text = self._take(key)
        if text is None:
            return default
        value = _milli(text)
        if value is None or not least <= value <= greatest:
            bounds = f"{_decimal(least)} to {_decimal(greatest)}"
            self._refuse(key, text, f"give a number from {bounds} with at most three places")
        return value

    def duration(self, key: str, default: int, least: int, greatest: int) -> int:
        """Nanoseconds, written as a plain number of them or with units: "3m", "1h30m"."""
        text = self._take(key)
        if text is None:
            return default
        value = _integer(text)
        if value is None:
            value = _duration(text)
        if value is None or not least <= value <= greatest:
            bounds = f"from {least} to {greatest}"
            self._refuse(key, text, f'give an integer {bounds}, in ns, or a text like "1h30m"')
        return value

    def count(self, key: str, default: int, least: int, greatest: int) -> int:
        """A whole number within bounds, or "all" for the greatest."""
        if self._texts.get(key) == "all":
            self._known[key] = None
            return greatest
        text = self._texts.get(key)
        value = default if text is None else _integer(text)
        if text is not None and (value is None or not least <= value <= greatest):
            self._refuse(key, text, f'give an integer from {least} to {greatest}, or "all"')
        return self.integer(key, default, least, greatest)

    def several(self, key: str, default: str, options: tuple[str, ...]) -> tuple[str, ...]:
        """Some of several words, with commas between them, each once."""
        words = self.names(key, tuple(default.split(",")))
        for word in words:
            if word not in options:
                self._refuse(key, ",".join(words), f"give some of: {', '.join(options)}")
        return words

    def choice(self, key: str, default: str, options: tuple[str, ...]) -> str:
        """One of several words."""
        text = self._take(key)
        if text is None:
            return default
        if text not in options:
            self._refuse(key, text, f"give one of: {', '.join(options)}")
        return text

    def yes(self, key: str, default: bool) -> bool:
        """Yes or no; true, false, 1 and 0 will do."""
        text = self._take(key)
        if text is None:
            return default
        if text not in _YES and text not in _NO:
            self._refuse(key, text, "give yes or no")
        return text in _YES

    def names(self, key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Names with commas between them, blanks around them left out, each once."""
        text = self._take(key)
        if text is None:
            return default
        found = tuple([name.strip() for name in text.split(",")])
        if "" in found or len(dict.fromkeys(found)) < len(found):
            self._refuse(key, text, "give names with commas between them, each once")
        return found

    def name(self, key: str, default: str = "") -> str:
        """One name."""
        text = self._take(key)
        if text is None:
            return default
        if not text.strip() or "," in text:
            self._refuse(key, text, "give one name")
        return text.strip()

    def rest(self, least: int, greatest: int) -> dict[str, int]:
        """Whole numbers by key, of all keys that no call has asked for yet."""
        keys = [key for key in self._texts if key not in self._known]
        return {key: self.integer(key, 0, least, greatest) for key in keys}

    def close(self) -> None:
        """Refuse the arguments that no call has asked for."""
        for key, text in self._texts.items():
            if key not in self._known:
                known = ", ".join(sorted(self._known)) or "none"
                remedy = f"remove it; known are: {known}"
                path = f"{self._where}.{key}"
                raise PolicyRefused(Reason.ARGUMENT_UNKNOWN, path, text, remedy)

    def _take(self, key: str) -> str | None:
        self._known[key] = None
        return self._texts.get(key)

    def _refuse(self, key: str, text: str, remedy: str) -> NoReturn:
        refuse(f"{self._where}.{key}", text, remedy)


def refuse(where: str, value: str, remedy: str) -> NoReturn:
    """Refuse a policy for a value that is not allowed, alone or beside others."""
    raise PolicyRefused(Reason.ARGUMENT_INVALID, where, value, remedy)


_YES = ("yes", "true", "1")
_NO = ("no", "false", "0")


def _integer(text: str) -> int | None:
    """A whole number in ASCII digits; none for anything else."""
    digits = text[1:] if text.startswith("-") else text
    if digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX:
        return int(text)
    return None


def _milli(text: str) -> int | None:
    """Thousandths of a decimal number; none where it is none, or has more than three places."""
    whole, dot, places = text.partition(".")
    sign = -1 if whole.startswith("-") else 1
    value = _integer(whole)
    if value is None or (dot and not (places.isascii() and places.isdigit() and len(places) <= 3)):
        return None
    return value * 1000 + sign * int(places.ljust(3, "0")) if dot else value * 1000


def _decimal(milli: int) -> str:
    """Thousandths as a decimal number."""
    text = f"{abs(milli) // 1000}.{abs(milli) % 1000:03}".rstrip("0").rstrip(".")
    return f"-{text}" if milli < 0 else text


def _duration(text: str) -> int | None:
    """Nanoseconds of numbers with units one after the other, each unit once; none for others."""
    total = 0
    begin = 0
    units = list(_UNITS)
    while begin < len(text):
        end = begin
        while end < len(text) and text[end].isdigit():
            end += 1
        number = _integer(text[begin:end])
        unit = next((unit for unit in units if text.startswith(unit[0], end)), None)
        if number is None or unit is None:
            return None
        units.remove(unit)
        total += number * unit[1]
        begin = end + len(unit[0])
    return total if text else None


def integers(
    arguments: tuple[Argument, ...], where: str, known: dict[str, tuple[int, int, int]]
) -> dict[str, int]:
    """Arguments that are all integers. `known`: default, least and greatest value by key."""
    reader = Arguments(arguments, where)
    values = {key: reader.integer(key, *bounds) for key, bounds in known.items()}
    reader.close()
    return values

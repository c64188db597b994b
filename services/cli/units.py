"""Quantities as people read them: counts, cards, cores, memory, durations, times."""

from datetime import UTC, datetime, timedelta

from msgspec import Struct

from ganger.schemas.reasons import MEANING, UNITS, Reason

YEAR_NS = 365 * 86_400 * 10**9
"""A ledger that begins before 1971 counts time from a zero of its own."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEARS_MAX_NS = 253_402_300_799 * 10**9
_MIB_PER_GIB = 1024
_PLURALS = {"retry": "retries"}
_LIMITS = (Reason.OVERCOMMIT, Reason.QUEUE_CAPABILITY)


class Clock(Struct, frozen=True):
    """How the times of one ledger are shown.

    Attributes:
        zero_ns: time of the first record, where times are shown since then: as `--at` takes them.
            None: as UTC.
    """

    zero_ns: int | None = None

    @property
    def columns(self) -> int:
        """Columns that times take in a list; relative ones may take more."""
        return 24 if self.zero_ns is None else 14

    def text(self, time_ns: int) -> str:
        """UTC to the millisecond, or the time since the ledger's first record."""
        if self.zero_ns is not None:
            since_ns = time_ns - self.zero_ns
            return ("-" if since_ns < 0 else "+") + exact_text(abs(since_ns))
        if not 0 <= time_ns <= _YEARS_MAX_NS:
            return f"{time_ns:,} ns"
        time = _EPOCH + timedelta(microseconds=time_ns // 1000)
        return time.strftime("%Y-%m-%dT%H:%M:%S") + f".{time_ns // 10**6 % 1000:03d}Z"


def utc_ns(text: str) -> int:
    """A time in ISO 8601, in UTC unless it says otherwise, as ns since 1970.

    Raises:
        ValueError: it is none.
    """
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return (time - _EPOCH) // timedelta(microseconds=1) * 1000


def clock_of(first_ns: int) -> Clock:
    """The clock of a ledger whose first record has this time."""
    return Clock(first_ns if first_ns < YEAR_NS else None)


def exact_text(duration_ns: int) -> str:
    """A duration to the millisecond in all its units: `1d2h3m4.5s`."""
    minutes, rest_ns = divmod(duration_ns // 10**6 * 10**6, 60 * 10**9)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    seconds = f"{rest_ns // 10**9}.{rest_ns // 10**6 % 1000:03d}".rstrip("0").rstrip(".")
    parts = [
        f"{count}{unit}" for count, unit in ((days, "d"), (hours, "h"), (minutes, "m")) if count
    ]
    return "".join(parts) + (f"{seconds}s" if seconds != "0" or not parts else "")


def duration_text(duration_ns: int) -> str:
    """A duration in its largest two units: `10s`, `1m 5s`, `1h 5m`, `2d 7h`."""
    seconds, rest_ns = divmod(duration_ns, 10**9)
    if seconds < 1:
        millis = rest_ns // 10**6
        if not rest_ns:
            return "0s"
        return f"{millis}ms" if millis else "<1ms"
    if seconds < 60:
        return f"{seconds}.{rest_ns // 10**8}".removesuffix(".0") + "s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return _two(minutes, "m", seconds, "s")
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return _two(hours, "h", minutes, "m")
    return _two(hours // 24, "d", hours % 24, "h")


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}" + (f" {small}{small_unit}" if small else "")


def count_text(count: int, noun: str) -> str:
    """A count with its noun in singular or plural: `1 pod`, `2 pods`."""
    return f"{count:,} {noun if count == 1 else _PLURALS.get(noun, noun + 's')}"


def milli_text(milli: int) -> str:
    """Thousandths as a decimal number."""
    whole, rest = divmod(abs(milli), 1000)
    sign = "-" if milli < 0 else ""
    return f"{sign}{whole:,}" + (f".{rest:03d}".rstrip("0") if rest else "")


def limit_text(milli: int) -> str:
    """Thousandths as a decimal number; a dash below 0, which stands for no limit."""
    return "-" if milli < 0 else milli_text(milli)


def cards_text(milli: int) -> str:
    """Milli-cards with their noun: `1 card`, `0.4 cards`."""
    return f"{milli_text(milli)} {'card' if milli == 1000 else 'cards'}"


def memory_text(mib: int) -> str:
    """MiB, from 1 GiB on as GiB to at most two places."""
    if abs(mib) < _MIB_PER_GIB:
        return f"{mib} MiB"
    hundredths = mib * 100 // _MIB_PER_GIB
    number = f"{hundredths // 100:,}.{hundredths % 100:02d}".rstrip("0").rstrip(".")
    return f"{number} GiB"


def amount_text(count: int, resource: str) -> str:
    """So much of a resource, named as in `UNITS` and `Amount`; the bare count of an unnamed one."""
    match resource:
        case "cards_milli":
            return cards_text(count)
        case "cpu_milli":
            return f"{milli_text(count)} {'core' if count == 1000 else 'cores'}"
        case "memory_mib":
            return memory_text(count)
        case "ns":
            return duration_text(max(0, count))
        case "pods":
            return count_text(count, "pod")
        case "pod" | "job" | "card" | "time":
            return count_text(count, resource)
        case _:
            return f"{count:,} {resource}".rstrip()


def reason_text(reason: Reason, asked: int, free: int, limit: int, resource: str = "") -> str:
    """A reason with its numbers, for people.

    Args:
        reason: the reason.
        asked: its number of this name.
        free: its number of this name.
        limit: its number of this name.
        resource: what the numbers count, where the reason is about any resource.
    """
    reason = Reason(reason)
    unit = UNITS.get(reason, "")
    name = resource if unit == "resource" else unit
    wanted, whole = amount_text(asked, name), amount_text(limit, name)
    # "asked 2 cards, 1 free": the unit is not said twice
    left = amount_text(max(0, free), name)
    number, _, noun = left.partition(" ")
    if noun and noun.rstrip("s") == wanted.partition(" ")[2].rstrip("s"):
        left = number
    if reason is Reason.BACKING_OFF and asked <= 0:
        return "its wait after a failed attempt is over; the next cycle looks at it"
    text = MEANING[reason].format(asked=wanted, free=left, limit=whole)
    if reason in _LIMITS and asked > limit:
        text += "; that is above the limit, so it can never start"
    return text

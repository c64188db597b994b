"""Past use that counts less the longer ago it was, in exact integers.

Use is kept per hour. Hours are halved each half-life, with steps between taken from a table of
2**(-i / 64) in units of 2**-32, so that any half-life can be asked of the same facts.
"""

from collections.abc import Mapping

HOUR_NS = 3600 * 10**9

_STEPS = 64
_SCALE = 32


def _table() -> tuple[int, ...]:
    """2**(-i / 64) for i in 0..63, rounded down, in units of 2**-32: by integer roots."""
    values = []
    for i in range(_STEPS):
        # x = 2**(32 - i / 64) is the 64th root of 2**(32 * 64 - i)
        target = 1 << (_SCALE * _STEPS - i)
        low, high = 0, 1 << (_SCALE + 1)
        while high - low > 1:
            middle = (low + high) // 2
            if middle**_STEPS <= target:
                low = middle
            else:
                high = middle
        values.append(low)
    return tuple(values)


TABLE = _table()


def factor(age_ns: int, half_life_ns: int) -> int:
    """What is left of a use after a time, in units of 2**-32; at least 0.

    `half_life_ns`: 0 means that nothing is ever forgotten.
    """
    if half_life_ns <= 0 or age_ns <= 0:
        return 1 << _SCALE
    steps = age_ns * _STEPS // half_life_ns
    halvings, rest = steps // _STEPS, steps % _STEPS
    return TABLE[rest] >> halvings if halvings <= _SCALE else 0


def decayed(hours: Mapping[int, int], now_ns: int, half_life_ns: int) -> int:
    """Use by hour since the epoch, as it counts now, rounded down. Order does not matter."""
    total = 0
    for hour, amount in hours.items():
        age_ns = now_ns - (hour + 1) * HOUR_NS  # an hour begins to age when it ends
        total += amount * factor(age_ns, half_life_ns)
    return total >> _SCALE

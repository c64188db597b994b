"""Timers in their lines against one sorted list of all of them."""

from hypothesis import given
from hypothesis import strategies as st

from ganger.streams.kernel.timers import Timer, Timers, Wake

ACTS = st.lists(
    st.tuples(
        st.sampled_from(["at", "start", "started", "ttl", "pass", "drop"]),
        st.integers(0, 6),
        st.integers(0, 9),
    ),
    max_size=60,
)


@given(ACTS)
def test_timers_come_in_order_of_time_and_the_lazy_ones_last(
    acts: list[tuple[str, int, int]],
) -> None:
    timers = Timers()
    eager: list[Timer] = []
    lazy: list[Timer] = []
    clock = 0
    for act, number, after in acts:
        if act == "at":
            timers.at(clock + after, Wake.CLAIM, number)
            eager.append((clock + after, Wake.CLAIM, number, 0, 0))
        elif act == "start":
            awaited = (clock + 5, Wake.POD_START, number, 0, clock)
            if awaited not in eager:
                timers.await_start(clock + 5, (number, 0, clock))
                eager.append(awaited)
        elif act == "started":
            attempt = (number, 0, clock)
            if attempt in timers._starts:  # else it stays, and whoever gets it finds it void
                eager = [one for one in eager if one[1:] != (Wake.POD_START, *attempt)]
            timers.started(attempt)
        elif act == "ttl":
            timers.remember_until(clock + after, number)
            lazy.append((clock + after, Wake.JOB_TTL, number, 0, 0))
        elif act == "drop" and eager:
            earliest = timers.earliest()
            assert earliest == min(eager)
            timers.drop_earliest()
            eager.remove(earliest)
        elif act == "pass":
            clock += number
            while (timer := timers.due(clock)) is not None:
                waiting = eager if any(one[0] <= clock for one in eager) else lazy
                assert timer == min(waiting)
                waiting.remove(timer)
            assert all(one[0] > clock for one in (*eager, *lazy))
    assert timers.earliest() == min(eager, default=None)

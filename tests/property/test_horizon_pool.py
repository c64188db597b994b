"""Planners over cards that are all alike, against programs that try everything."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from ganger.streams.kernel.horizon.bench import STANDING_MAX, Bench
from ganger.streams.kernel.horizon.book import Book, Booking
from ganger.streams.kernel.horizon.easy import Bound, Candidate, Gap, scan
from ganger.streams.kernel.horizon.ends import Ends
from ganger.streams.kernel.horizon.orders import ORDERS, Ask
from ganger.streams.kernel.horizon.steps import FOREVER, Steps

MANY = settings(max_examples=120, deadline=None, derandomize=True)

estimates = st.integers(1, 20) | st.just(FOREVER)
releases = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 5)), max_size=10)
jobs = st.lists(st.tuples(st.integers(1, 6), estimates), max_size=12)
many_jobs = st.lists(
    st.tuples(st.integers(1, 6), estimates, st.integers(0, 3)), max_size=3 * STANDING_MAX
)


def outlook(ends: Ends, free: int, now: int) -> Steps:
    """Cards free from now on, those due counted."""
    steps = Steps(now, free)
    for end, _, _, cards in ends.releases:
        if end > now:
            steps.add(end, FOREVER, cards)
    return steps


def filled(found: list[tuple[int, int]]) -> Ends:
    ends = Ends()
    for number, (end, cards) in enumerate(found):
        ends.add(end, number, 0, cards)
    return ends


# ---- ends -------------------------------------------------------------------------------------


@MANY
@given(found=releases, free=st.integers(0, 6), need=st.integers(1, 30), now=st.integers(0, 20))
def test_reach_is_the_first_moment_with_enough(
    found: list[tuple[int, int]], free: int, need: int, now: int
) -> None:
    ends = filled(found)
    assert ends.due(now) == sum(cards for end, cards in found if end <= now)
    free += ends.due(now)
    if need <= free:
        return
    steps = outlook(ends, free, now)
    at = steps.earliest(need, 1, now)
    reach = ends.reach(need, free, now)
    assert (reach.at_ns if reach else None) == at
    if reach is not None:
        assert reach.free == steps.at(reach.at_ns)
    for number, (end, cards) in enumerate(found):
        ends.remove(end, number, 0, cards)
    assert not ends.releases


@MANY
@given(
    found=st.lists(st.tuples(st.integers(0, 90), st.integers(0, 3)), min_size=60, max_size=200),
    need=st.integers(1, 400),
    now=st.integers(-1, 40),
)
def test_reach_sums_over_many_releases(found: list[tuple[int, int]], need: int, now: int) -> None:
    ends = filled(found)
    assert ends.has_due(now) == any(end <= now for end, _ in found)
    later = sorted((end, cards) for end, cards in found if end > now)
    want = None
    free = 0
    for end, cards in later:
        if want is not None and end > want:
            break
        free += cards
        if free >= need and want is None:
            want = end
    assert ends.reach(need, 0, now) == (None if want is None else (want, free))


# ---- EASY -------------------------------------------------------------------------------------


@MANY
@given(found=releases, waiting=jobs, free=st.integers(0, 6), beyond=st.integers(1, 12))
def test_scan_starts_exactly_what_leaves_the_head_its_start(
    found: list[tuple[int, int]], waiting: list[tuple[int, int]], free: int, beyond: int
) -> None:
    """Each in turn: does it fit now, and can the head then still start when it could?"""
    now = 3
    ends = filled(found)
    free += ends.due(now)
    need = free + beyond
    reach = ends.reach(need, free, now)
    gap = Gap(FOREVER, 0) if reach is None else Gap(reach.at_ns, reach.free - need)
    candidates = [Candidate((place,), *job) for place, job in enumerate(waiting)]
    chosen = scan(candidates, now, free, gap, Bound(need, 10))
    steps = outlook(ends, free, now)
    if reach is not None:
        steps.add(reach.at_ns, FOREVER, -need)  # the head, as long as it may take
    want = []
    for candidate in candidates:
        _, cards, estimate = candidate
        if reach is None and estimate == FOREVER:
            continue  # nothing promises that it leaves the head anything
        until = FOREVER if reach is None else min(now + estimate, FOREVER)
        if reach is None:
            until = now + 1
        if steps.at(now) >= cards and steps.least(now, until) >= cards:
            steps.add(now, min(now + estimate, FOREVER), -cards)
            want.append(candidate)
    assert chosen == want


@MANY
@given(
    waiting=many_jobs,
    left=st.lists(st.integers(0, 3 * STANDING_MAX), max_size=8),
    free=st.integers(0, 12),
    start=st.integers(1, 20) | st.just(FOREVER),
    extra=st.integers(0, 8),
    is_shortest=st.booleans(),
    lane=st.integers(0, 1),
)
def test_bench_offers_what_a_scan_of_all_would_start(
    waiting: list[tuple[int, int, int]],
    left: list[int],
    free: int,
    start: int,
    extra: int,
    is_shortest: bool,
    lane: int,
) -> None:
    bench = Bench(2)
    kept: dict[tuple[int, ...], Candidate] = {}
    for number, (cards, estimate, priority) in enumerate(waiting):
        place = (priority, number)
        bench.add(place, cards, (estimate, 7))
        kept[place] = Candidate(place, cards, 7 if lane else estimate)
    for number in left:
        found = [place for place in kept if place[1] == number]
        if not found:
            continue
        if number % 2:
            bench.remove(found[0])
            del kept[found[0]]
        else:
            bench.change(found[0], (3, 7))
            if not lane:
                kept[found[0]] = kept[found[0]]._replace(estimate_ns=3)
    assert len(bench) == len(kept)
    assert sorted(bench.all(lane)) == sorted(kept.values())
    order = ORDERS["shortest" if is_shortest else "arrival"]
    ordered = sorted(
        kept.values(), key=lambda one: order(Ask(one.place, one.cards, one.estimate_ns, 0))
    )
    gap, other = Gap(start, extra), Gap(start, extra)
    want = scan(ordered, 0, free, other, Bound(FOREVER, FOREVER)) if free else []
    assert bench.offer(0, free, gap, lane=lane, is_shortest=is_shortest) == want
    assert (gap.start_ns, gap.extra) == (other.start_ns, other.extra)


@MANY
@given(waiting=jobs, free=st.integers(1, 12), start=st.integers(1, 20), extra=st.integers(0, 8))
def test_the_bound_changes_no_outcome(
    waiting: list[tuple[int, int]], free: int, start: int, extra: int
) -> None:
    candidates = [Candidate((place,), *job) for place, job in enumerate(waiting)]
    with_bound = scan(candidates, 0, free, Gap(start, extra), Bound(free + 1, 5))
    without, gap, left = [], Gap(start, extra), free
    for candidate in candidates:
        if candidate.cards <= left and gap.take(0, candidate.cards, candidate.estimate_ns):
            left -= candidate.cards
            without.append(candidate)
    assert with_bound == without


@MANY
@given(
    asks=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 50), st.integers(0, 99)), max_size=9)
)
def test_orders_are_total_and_fall_back_to_arrival(asks: list[tuple[int, int, int]]) -> None:
    whole = [Ask((place,), *ask) for place, ask in enumerate(asks)]
    for order in ORDERS.values():
        backwards = whole[::-1]
        ordered = sorted(backwards, key=order)
        assert ordered == sorted(whole, key=order)
        assert len({order(ask) for ask in whole}) == len(whole)
    assert sorted(whole, key=ORDERS["arrival"]) == whole
    worst = sorted(whole, key=ORDERS["slowdown"])
    for one, other in pairwise(worst):
        assert one.wait_ns * other.estimate_ns >= other.wait_ns * one.estimate_ns - 1


# ---- conservative -----------------------------------------------------------------------------

CARDS = 8
durations = st.integers(1, 12) | st.just(FOREVER)
calls = st.lists(
    st.one_of(
        st.tuples(st.just("book"), st.integers(1, CARDS), durations),
        st.tuples(st.just("start"), st.integers(0, 9), st.integers(0, 3)),
        st.tuples(st.just("end"), st.integers(0, 9), st.integers(0, 3)),
        st.tuples(st.just("drop"), st.integers(0, 9), st.integers(0, 3)),
        st.tuples(st.just("outlive"), st.integers(0, 9), st.integers(1, 9)),
    ),
    max_size=24,
)


class Model:
    """Bookings and running jobs as plain intervals."""

    def __init__(self) -> None:
        self.running: dict[int, tuple[int, int]] = {}  # cards, expected end
        self.booked: dict[int, Booking] = {}

    def free(self, now: int, but: int = -1) -> Steps:
        steps = Steps(now, CARDS)
        for cards, end in self.running.values():
            steps.add(now, max(end, now), -cards)
        for job, booking in self.booked.items():
            if job != but:
                end = min(booking.start_ns + booking.duration_ns, FOREVER)
                steps.add(booking.start_ns, end, -booking.cards)
        return steps

    def place(self, job: int, now: int) -> int | None:
        """Its earliest start beside all others, taken out of the book itself."""
        booking = self.booked[job]
        return self.free(now, job).earliest(booking.cards, booking.duration_ns, now)


@MANY
@given(found=calls)
def test_book_equals_placing_each_anew(found: list[tuple[str, int, int]]) -> None:
    book, model = Book(0, CARDS), Model()
    now = 0
    for number, (call, first, second) in enumerate(found):
        if call == "book":
            before = dict(book.bookings)
            booking = book.book(number, first, second, now)
            want = model.free(now).earliest(first, second, now)
            assert (booking.start_ns if booking else None) == want
            assert {job: book.bookings[job] for job in before} == before, "an arrival moved others"
            if booking is not None:
                model.booked[number] = booking
        elif call == "start":
            now += second
            book.free.trim(now)
            for job in book.due(now):
                if not model.free(now).values[0] < 0:
                    booking = book.start(job)
                    assert booking == model.booked.pop(job)
                    end = min(booking.start_ns + booking.duration_ns, FOREVER)
                    model.running[job] = (booking.cards, end)
        elif call == "end" and model.running:
            now += second
            job = sorted(model.running)[first % len(model.running)]
            cards, end = model.running.pop(job)
            book.release(cards, now, end)
            _replan(book, model, now)
        elif call == "drop" and model.booked:
            job = sorted(model.booked)[first % len(model.booked)]
            book.drop(job)
            del model.booked[job]
            _replan(book, model, now)
        elif call == "outlive" and model.running:
            job = sorted(model.running)[first % len(model.running)]
            cards, end = model.running[job]
            if end < FOREVER:
                later = max(end, now) + second
                model.running[job] = (cards, later)
                book.extend(cards, max(end, now), later)
                _mend(book, model, now)
        book.free.trim(now)
        want_free = model.free(now)
        assert (book.free.times, book.free.values) == (want_free.times, want_free.values)


def _replan(book: Book, model: Model, now: int) -> None:
    before = dict(book.bookings)
    moved = book.replan(now)
    for job, booking in list(model.booked.items()):
        start = model.place(job, now)
        if start is not None and start < booking.start_ns:
            model.booked[job] = booking._replace(start_ns=start)
    assert book.bookings == model.booked
    assert list(book.bookings) == list(before)
    for job, booking in moved.items():
        assert booking.start_ns < before[job].start_ns


def _mend(book: Book, model: Model, now: int) -> None:
    changed = book.mend(now)
    for job, booking in changed.items():
        if booking is None:
            del model.booked[job]
        else:
            model.booked[job] = booking
    assert book.bookings == model.booked
    free = model.free(now)
    for job, booking in changed.items():
        if booking is not None:
            end = min(booking.start_ns + booking.duration_ns, FOREVER)
            assert free.least(booking.start_ns, end) >= 0, "booked where there is no room"
            assert job in book.bookings

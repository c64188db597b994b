"""Draws a simulated run as SVG: cards over time, what ran in turn and in gaps, what was reserved.

Few bars are drawn one by one: a row per card, a bar per pod and stretch of its cards, an outline
per reservation as it was last said. Where that would be more than `RECTS_MAX` rectangles, nodes are
drawn together in bands and time in columns: in each the share of the band's cards that was held in
turn is filled from below, the share held in gaps on top of it, and the share that was reserved is
outlined. Equal neighbours are drawn as one.
"""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import NamedTuple

from ganger.replay.attempts import Stretch
from ganger.replay.cluster import ClusterSpec
from ganger.schemas.decisions import Decision
from ganger.schemas.enums import DecisionKind, Tier
from ganger.schemas.records import CardSpan

_Spot = tuple[str, str, tuple[CardSpan, ...]]
"""What tells the reservations of one job, or request, apart: role, node and cards, if known."""

RECTS_MAX = 4000
"""Bars and outlines, legend and frame left aside."""

WIDTH = 1200
HEIGHT = 480
_LEFT = 90
_TOP = 46
_BOTTOM = 34
_BANDS_MAX = 12
_LEVELS = 40
"""Heights in a band that are told apart."""

_MARKS = 6
_GAPS = (Tier.BACKFILL, Tier.SPOT)
_RESERVE = DecisionKind.RESERVE
_STEPS_S = (60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400, 30 * 86_400)
_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))
_STYLE = (
    "text{font:12px sans-serif;fill:#222}.main{fill:#4477aa}.gap{fill:#ee7733}"
    ".spot{fill:#228833}.booked{fill:none;stroke:#222;stroke-dasharray:3 2}"
    ".frame{fill:#f4f4f4;stroke:#999}"
)
_CLASSES = {Tier.MAIN: "main", Tier.BACKFILL: "gap", Tier.SPOT: "spot"}


class Bar(NamedTuple):
    """Neighbouring cards over a time. Rows count from 0, over the cards of all nodes."""

    row: int
    cards: int
    from_ns: int
    to_ns: int
    tier: Tier  # UNKNOWN: a reservation
    job: str


class Chart:
    """Collects what a run did; `svg` draws it."""

    def __init__(self, cluster: ClusterSpec) -> None:
        """Nothing ran yet. The rows are the cards of the cluster's nodes, in its order."""
        self._rows: dict[str, int] = {}  # node -> its first row
        self._nodes: list[tuple[str, int]] = []  # with their cards
        self._row_count = 0
        for name, spec in cluster.expand():
            self._rows[name] = self._row_count
            self._nodes.append((name, spec.cards))
            self._row_count += spec.cards
        self._bars: list[Bar] = []
        self._booked: dict[str, dict[_Spot, Decision]] = {}  # by job, or request

    def ran(self, stretch: Stretch) -> None:
        """A pod ran for a time."""
        placed = stretch.placed
        if stretch.from_ns < stretch.to_ns and placed.cards:
            self._bars += self._spans(
                placed.node, placed.cards, stretch.from_ns, stretch.to_ns, placed.tier, placed.job
            )

    def observe(self, decisions: Iterable[Decision]) -> None:
        """Take note of the reservations among decisions, in their order.

        All that one cause says of a job replaces what was said of it before.
        """
        for decision in decisions:
            if decision.kind is _RESERVE:
                booked = self._booked.setdefault(decision.job or decision.rule, {})
                if booked and next(iter(booked.values())).cause_seq != decision.cause_seq:
                    booked.clear()
                booked[decision.role, decision.node, decision.cards] = decision

    def svg(self, from_ns: int, to_ns: int) -> str:
        """The drawing of the time between two moments; times are marked from the first on."""
        bars = [bar for bar in self._bars if bar.to_ns > from_ns and bar.from_ns < to_ns]
        booked = [bar for bar in self._bookings() if bar.to_ns > from_ns and bar.from_ns < to_ns]
        frame = _Frame(from_ns, max(to_ns, from_ns + 1))
        if len(bars) + len(booked) <= RECTS_MAX:
            shapes = frame.exact([*bars, *booked], max(1, self._row_count))
            labels = _labels(self._nodes)
        else:
            bands = _bands(self._nodes)
            shapes = frame.merged(bars, booked, bands)
            labels = _band_labels(bands)
        return "\n".join([*_head(self._row_count), *shapes, *labels, *frame.marks(), "</svg>\n"])

    def _bookings(self) -> Iterator[Bar]:
        """Outlines of all reservations. One that names no cards is drawn from its node's first
        row, or from the first of all, as high as it is wide.
        """
        for job, booked in self._booked.items():
            for (_, node, _), said in booked.items():
                cards = said.cards
                if not cards and said.asked:
                    cards = (CardSpan(0, min(self._row_count, -(-said.asked // 1000))),)
                until_ns = max(said.until_ns, said.start_ns + 1)
                yield from self._spans(node, cards, said.start_ns, until_ns, Tier.UNKNOWN, job)

    def _spans(
        self,
        node: str,
        cards: Sequence[CardSpan],
        from_ns: int,
        to_ns: int,
        tier: Tier,
        job: str,
    ) -> Iterator[Bar]:
        first = self._rows.get(node, 0)
        for span in cards:
            yield Bar(first + span.first, span.count, from_ns, to_ns, tier, job)


class _Band(NamedTuple):
    """Nodes drawn together."""

    first: int  # row
    rows: int
    label: str


def _bands(nodes: Sequence[tuple[str, int]]) -> list[_Band]:
    """Runs of nodes, of about equally many each; nodes without cards have no part."""
    with_cards = [(name, cards) for name, cards in nodes if cards]
    band_count = min(_BANDS_MAX, len(with_cards))
    bands = []
    row = 0
    for band in range(band_count):
        begin, end = (at * len(with_cards) // band_count for at in (band, band + 1))
        rows = sum(cards for _, cards in with_cards[begin:end])
        bands.append(_Band(row, rows, with_cards[begin][0]))
        row += rows
    return bands


class _Frame(NamedTuple):
    """The time that is drawn, and where."""

    from_ns: int
    to_ns: int

    def x(self, at_ns: int) -> int:
        """Hundredths of a pixel from the left edge, clipped to the frame."""
        inside = min(max(at_ns, self.from_ns), self.to_ns) - self.from_ns
        return 100 * _LEFT + 100 * (WIDTH - _LEFT) * inside // (self.to_ns - self.from_ns)

    def exact(self, bars: Iterable[Bar], row_count: int) -> Iterator[str]:
        """A rectangle per bar."""
        for bar in bars:
            left, right = self.x(bar.from_ns), self.x(bar.to_ns)
            top = 100 * _TOP + 100 * HEIGHT * bar.row // row_count
            height = 100 * HEIGHT * bar.cards // row_count
            kind = _CLASSES.get(bar.tier, "booked")
            yield _rect(kind, left, top, max(20, right - left), max(10, height), bar.job)

    def merged(
        self, bars: Sequence[Bar], booked: Sequence[Bar], bands: Sequence[_Band]
    ) -> Iterator[str]:
        """Rectangles per band and run of equal columns, of each kind."""
        columns = RECTS_MAX // (3 * len(bands))
        kinds = (
            ("main", [bar for bar in bars if bar.tier not in _GAPS]),
            ("gap", [bar for bar in bars if bar.tier in _GAPS]),
            ("booked", booked),
        )
        heights = {
            kind: [_levels(self, columns, some, band) if some else [0] * columns for band in bands]
            for kind, some in kinds
        }
        for index, _ in enumerate(bands):
            base = [0] * columns
            for kind, _ in kinds:
                levels = heights[kind][index]
                yield from self._steps(kind, index, len(bands), base, levels)
                if kind == "main":
                    base = levels

    def _steps(
        self, kind: str, band: int, band_count: int, base: Sequence[int], levels: Sequence[int]
    ) -> Iterator[str]:
        """Runs of equal columns of one kind in one band; `base`: levels that are below it."""
        columns = len(levels)
        floor = 100 * _TOP + 100 * HEIGHT * (band + 1) // band_count
        begin = 0
        for end in range(1, columns + 1):
            is_same = end < columns and (
                levels[end] == levels[begin] and (kind == "booked" or base[end] == base[begin])
            )
            if is_same:
                continue
            if levels[begin]:
                left, right = (
                    100 * _LEFT + 100 * (WIDTH - _LEFT) * at // columns for at in (begin, end)
                )
                height = _height(levels[begin], band_count)
                top = floor - height - (0 if kind == "booked" else _height(base[begin], band_count))
                yield _rect(kind, left, top, right - left, height, "")
            begin = end

    def marks(self) -> Iterator[str]:
        """The time under the frame, from its begin."""
        span_s = (self.to_ns - self.from_ns) // 10**9
        step_s = next((s for s in _STEPS_S if span_s <= s * _MARKS), span_s // _MARKS or 1)
        y = _TOP + HEIGHT + 18
        for at_s in range(0, span_s + 1, step_s):
            x = self.x(self.from_ns + at_s * 10**9)
            yield f'<text x="{_decimal(x)}" y="{y}">{_duration(at_s)}</text>'


def _levels(frame: _Frame, columns: int, bars: Iterable[Bar], band: _Band) -> list[int]:
    """How much of a band bars fill in each column, in parts of `_LEVELS`."""
    span_ns = frame.to_ns - frame.from_ns
    changes = [0] * (columns + 1)  # of card-ns in full columns, from here on
    parts = [0] * columns  # card-ns in columns at the ends of bars
    for bar in bars:
        rows = min(bar.row + bar.cards, band.first + band.rows) - max(bar.row, band.first)
        if rows <= 0:
            continue
        begin = max(bar.from_ns, frame.from_ns) - frame.from_ns
        end = min(bar.to_ns, frame.to_ns) - frame.from_ns
        first, last = (at * columns // span_ns for at in (begin, end - 1))
        if first == last:
            parts[first] += rows * (end - begin)
            continue
        parts[first] += rows * (_begin_of(first + 1, columns, span_ns) - begin)
        parts[last] += rows * (end - _begin_of(last, columns, span_ns))
        changes[first + 1] += rows
        changes[last] -= rows
    levels = []
    full = 0
    for column in range(columns):
        full += changes[column]
        width = _begin_of(column + 1, columns, span_ns) - _begin_of(column, columns, span_ns)
        filled = parts[column] + full * width
        levels.append(min(_LEVELS, -(-filled * _LEVELS // (band.rows * max(1, width)))))
    return levels


def _begin_of(column: int, columns: int, span_ns: int) -> int:
    """First ns of a column, from the frame's begin."""
    return -(-column * span_ns // columns)


def _height(levels: int, band_count: int) -> int:
    return 100 * HEIGHT * levels // (_LEVELS * band_count)


def _rect(kind: str, left: int, top: int, width: int, height: int, title: str) -> str:
    """A rectangle; its measures in hundredths of a pixel."""
    x, y, w, h = (_decimal(value) for value in (left, top, width, height))
    text = f"<title>{escape(title)}</title></rect>" if title else ""
    end = f">{text}" if text else "/>"
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{w}" height="{h}"{end}'


def _decimal(hundredths: int) -> str:
    whole, rest = divmod(hundredths, 100)
    return f"{whole}.{rest:02d}".rstrip("0").rstrip(".") if rest else str(whole)


def _duration(seconds: int) -> str:
    """The greatest unit that tells it whole."""
    if not seconds:
        return "0"
    unit_s, unit = next(one for one in _UNITS if seconds % one[0] == 0)
    return f"{seconds // unit_s}{unit}"


def _head(cards: int) -> list[str]:
    """Opening, what it shows, legend and frame."""
    height = _TOP + HEIGHT + _BOTTOM
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {WIDTH + 10} {height}">',
        f"<title>{cards} cards over time</title>",
        f"<style>{_STYLE}</style>",
        *(
            f'<rect class="{kind}" x="{x}" y="10" width="14" height="14"/>'
            f'<text x="{x + 20}" y="22">{text}</text>'
            for kind, x, text in (
                ("main", _LEFT, "started in turn"),
                ("gap", _LEFT + 150, "started in a gap"),
                ("spot", _LEFT + 300, "spot"),
                ("booked", _LEFT + 400, "reserved, as last said"),
            )
        ),
        f'<rect class="frame" x="{_LEFT}" y="{_TOP}" width="{WIDTH - _LEFT}" height="{HEIGHT}"/>',
    ]


def _labels(nodes: Sequence[tuple[str, int]]) -> Iterator[str]:
    """Names of nodes at their first row, as many as have room."""
    total = max(1, sum(cards for _, cards in nodes))
    row = last_y = 0
    for name, cards in nodes:
        y = _TOP + HEIGHT * row // total + 12
        if cards and y >= last_y + 14:
            yield f'<text x="2" y="{y}">{escape(name)}</text>'
            last_y = y
        row += cards


def _band_labels(bands: Sequence[_Band]) -> Iterator[str]:
    for index, band in enumerate(bands):
        y = _TOP + HEIGHT * index // len(bands) + 12
        yield f'<text x="2" y="{y}">{escape(band.label)}</text>'

"""Ribbons: rows of stretches on one axis of time, and nights under each other."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, NamedTuple

from markupsafe import Markup

from resourceserver.dashboard.charts import svg
from resourceserver.dashboard.charts.escaping import escaped
from resourceserver.dashboard.charts.svg import Key

MISSING: Final = 0
"""The kind of a stretch in which nobody reported."""
LEAST: Final = 0.2
"""The least width of a stretch, in percent, so that a short one can be seen."""
CROWDED: Final = 400
"""A row of more stretches has no titles and no links, which nobody could point at."""
_HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True)
class Stretch:
    """A stretch of time. Its kind is a number from 1 to 6, which decides colour and height."""

    start: datetime
    end: datetime
    kind: int = 1
    title: str = ""
    href: str = ""


@dataclass(frozen=True)
class Row:
    """A row with its label."""

    label: str
    stretches: Sequence[Stretch]
    text: str = ""
    """What stands at the end of the label's line, such as the sum."""


@dataclass(frozen=True)
class Night:
    """The sleeps of the night that begins on ``evening``, in local time. None of them: not reported."""

    evening: date
    label: str
    stretches: Sequence[Stretch]


# A day has thousands: a tuple takes a third of the time of a dataclass.
class Placed(NamedTuple):
    """A stretch with its position in percent from the left."""

    stretch: Stretch
    x: float
    width: float


@dataclass(frozen=True)
class Mark:
    """A place on the axis with its label."""

    x: float
    label: str
    is_narrow: bool = True


@dataclass(frozen=True)
class PlacedRow:
    """A row with its place in pixels from the top."""

    label: str
    text: str
    y: float
    placed: tuple[Placed, ...]


@dataclass(frozen=True)
class Ribbon:
    """Rows on one axis."""

    name: str
    rows: tuple[PlacedRow, ...]
    hours: tuple[Mark, ...]
    marks: tuple[Mark, ...]
    row_height: int
    has_gutter: bool
    """Whether labels of rows stand on the left; otherwise they stand above."""
    legend: tuple[Key, ...]

    @property
    def first(self) -> int:
        """Where the rows begin, below a line of words for each of at most two marks."""
        return _first(len(self.marks))

    @property
    def bottom(self) -> float:
        """Where the rows end, in pixels from the top."""
        return self.first + max(1, len(self.rows)) * self.row_height

    @property
    def height(self) -> float:
        """The height in pixels."""
        return self.bottom + 20

    def svg(self) -> Markup:
        """Return the ``<svg>`` element."""
        body = [svg.hatch(self.name)]
        for mark in self.hours:
            x = svg.number(mark.x)
            body.append(
                f'<line class="rule" x1="{x}%" x2="{x}%" y1="{self.first}" '
                f'y2="{svg.number(self.bottom)}"/>'
            )
            if mark.label:
                body.append(
                    svg.label_below(mark.x, self.height - 4, mark.label, is_narrow=mark.is_narrow)
                )
        for row in self.rows:
            body += self._row(row)
        for place, mark in enumerate(self.marks):
            y, anchor = (
                14 * (place % 2),
                "start" if mark.x < 20 else "end" if mark.x > 80 else "middle",
            )
            body.append(
                svg.upright(mark.x, y + 14, self.bottom - y - 14, "usual")
                + svg.text(mark.x, y + 11, svg.cut(mark.label, 24), "change-label", anchor)
            )
        links = any(each.stretch.href for row in self.rows for each in row.placed)
        gutter = "wide-gutter" if self.has_gutter else ""
        return svg.frame(self.name, self.height, "".join(body), gutter=gutter, links=links)

    def _row(self, row: PlacedRow) -> list[str]:
        thick = self.row_height - 4 if self.has_gutter else self.row_height - 20
        y = row.y if self.has_gutter else row.y + 16
        if self.has_gutter:
            label = escaped(svg.cut(row.label, 8))
            body = [f'<text class="axis" x="-6" y="{svg.number(y + thick / 2 + 4)}">{label}</text>']
        else:
            body = [svg.text(0, row.y + 12, svg.cut(row.label, 24), "row-label")]
            if row.text:
                body.append(svg.text(100, row.y + 12, svg.cut(row.text, 24), "amount", "end"))
            body.append(svg.rect(0, y, 100, thick, "track"))
        is_crowded = len(row.placed) > CROWDED
        fill, paths = svg.hatched(self.name), dict[int, list[str]]()
        for each in row.placed:
            stretch = each.stretch
            if stretch.kind == MISSING:
                shape = svg.rect(each.x, y, each.width, thick, "missing", fill=fill)
                body.append(svg.mark(shape, stretch.title, stretch.href))
                continue
            # Kinds differ in height too, so that they can be distinguished without colours.
            colour = (stretch.kind - 1) % 6 + 1
            less = (colour - 1) * thick * 0.1
            if is_crowded or not (stretch.title or stretch.href):
                x, width = svg.number(10 * each.x), svg.number(10 * each.width)
                paths.setdefault(colour, []).append(
                    f"M{x} {svg.number(less)}h{width}V{thick}h-{width}z"
                )
            else:
                shape = svg.rect(each.x, y + less, each.width, thick - less, f"c{colour}")
                body.append(svg.mark(shape, stretch.title, stretch.href))
        if paths:
            drawn = "".join(
                f'<path class="c{colour}" d="{"".join(pieces)}"/>'
                for colour, pieces in paths.items()
            )
            body.append(svg.stretched(y, 1000, thick, drawn))
        return body


def ribbon(
    name: str,
    start: datetime,
    end: datetime,
    rows: Iterable[Row],
    *,
    kinds: Sequence[str] = (),
    every: int = 3,
) -> Ribbon:
    """Return rows on the axis from ``start`` to ``end``, whose labels are hours of the zone of ``start``.

    A day of 23 or 25 hours is as wide as any other, and an hour that comes twice is there twice.
    Stretches are cut at the ends of the axis. ``kinds`` names the kinds 1, 2, …
    """
    zero, whole = start.astimezone(UTC), end - start.astimezone(UTC)
    given = list(rows)
    placed = tuple(
        PlacedRow(row.label, row.text, _first(0) + place * 38, _place(row.stretches, zero, whole))
        for place, row in enumerate(given)
    )
    hours: list[Mark] = []
    before = ""
    # Zones have offsets of quarters of an hour.
    at = zero + timedelta(seconds=-zero.timestamp() % 900)
    while at <= zero + whole and len(hours) < 200:
        local = at.astimezone(start.tzinfo)
        label = f"{local:%H}"
        if local.minute == 0 and local.hour % every == 0 and label != before:
            words = "24" if at == zero + whole and local.hour == 0 else label
            hours.append(Mark(100 * ((at - zero) / whole), words, local.hour % (2 * every) == 0))
            before = label
        elif local.hour % every:
            before = ""
        at += timedelta(minutes=15)
    return Ribbon(
        name, placed, tuple(hours), (), 38, has_gutter=False, legend=_legend(placed, kinds)
    )


def nights(
    name: str,
    values: Iterable[Night],
    *,
    first_hour: int = 18,
    last_hour: int = 12,
    usual: Sequence[tuple[time, str]] = (),
    kinds: Sequence[str] = ("asleep",),
) -> Ribbon:
    """Return a row for each night, from an hour of its evening to an hour of the day after.

    A place on the axis is what a clock beside the bed says, whatever the zone and its changes.
    ``usual`` has marks, such as the usual bedtime, with what stands above them.
    """
    hours = 24 - first_hour + last_hour
    given = list(values)
    rows = []
    for place, night in enumerate(given):
        begin = datetime.combine(night.evening, time(first_hour))  # What a clock says.
        stretches = [
            Stretch(
                each.start.replace(tzinfo=UTC),
                each.end.replace(tzinfo=UTC),
                each.kind,
                each.title,
                each.href,
            )
            for each in night.stretches
        ]
        zero = begin.replace(tzinfo=UTC)
        if not stretches:
            stretches = [Stretch(zero, zero + hours * _HOUR, MISSING)]
        rows.append(
            PlacedRow(
                night.label,
                "",
                _first(len(usual)) + place * 18,
                _place(stretches, zero, hours * _HOUR),
            )
        )
    axis = tuple(
        Mark(100 * hour / hours, f"{(first_hour + hour) % 24:02}", hour % 6 == 0)
        for hour in range(0, hours + 1, 3 if hours > 12 else 2)
    )
    marks = tuple(
        Mark(100 * ((at.hour + at.minute / 60 - first_hour) % 24) / hours, label)
        for at, label in usual
    )
    placed = tuple(rows)
    return Ribbon(name, placed, axis, marks, 18, has_gutter=True, legend=_legend(placed, kinds))


def _first(marks: int) -> int:
    return 4 + 14 * min(2, marks)


def _place(stretches: Iterable[Stretch], zero: datetime, whole: timedelta) -> tuple[Placed, ...]:
    """Return the stretches that the axis has, cut at its ends."""
    placed = []
    percent = 100 / whole.total_seconds()
    for each in stretches:
        start = percent * (each.start - zero).total_seconds()
        end = percent * (each.end - zero).total_seconds()
        if start < 100 and (end > 0 or start == end == 0):
            x = start if start > 0 else 0.0
            width = end - x
            placed.append(Placed(each, x, min(max(LEAST, width), 100 - x)))
    return tuple(placed)


def _legend(rows: Sequence[PlacedRow], kinds: Sequence[str]) -> tuple[Key, ...]:
    used = {each.stretch.kind for row in rows for each in row.placed}
    keys = [Key(f"c{kind}", words) for kind, words in enumerate(kinds, 1) if kind in used]
    return (*keys, *([svg.NOT_REPORTED] if MISSING in used else []))

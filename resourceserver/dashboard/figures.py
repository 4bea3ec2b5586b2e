"""Figures: numbers of the API on a page, each with its raw value and the place where the API has it.

A template names the answer and the place in it (a JSON Pointer, RFC 6901), so a page can show no number that
the API does not give.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from markupsafe import Markup

from resourceserver.dashboard.charts.escaping import escaped as in_markup

_MINUS: Final = "\u2212"
_WEEKDAYS: Final = tuple(f"{date(2024, 1, day):%a}" for day in range(1, 8))
_MONTHS: Final = tuple(f"{date(2024, month, 1):%b}" for month in range(1, 13))
ABSENT: Final = Markup('<span class="absent">no data</span>')
"""What stands where nothing was reported: absent is not zero."""


@dataclass(frozen=True)
class Answer:
    """The answer of the API to one question of a view."""

    name: str
    """The short name of the question on its page."""
    url: str
    body: Mapping[str, Any]

    def __getitem__(self, member: str) -> Any:
        """Return a member of the body."""
        return self.body[member]

    def at(self, pointer: str) -> Any:
        """Return the value at a JSON Pointer (RFC 6901). Raises LookupError if there is none."""
        value: Any = self.body
        is_escaped = "~" in pointer
        for part in pointer.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~") if is_escaped else part
            value = value[int(key)] if isinstance(value, list) else value[key]
        return value

    def row(self, pointer: str, **members: Any) -> str | None:
        """Return the pointer of the first object in the list at ``pointer`` that has these members.

        None if there is none, such as a metric whose scope the token lacks.
        """
        for n, row in enumerate(self.at(pointer)):
            if all(row[name] == value for name, value in members.items()):
                return f"{pointer}/{n}"
        return None


def duration(ms: float) -> str:
    """Return milliseconds in words: ``5 h 12 min``, ``12 min``, ``40 s``, ``0 min``."""
    sign = _MINUS if ms < 0 else ""
    seconds = round(abs(ms) / 1000)
    if 0 < seconds < 60:
        return f"{sign}{seconds} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    if not hours:
        return f"{sign if minutes else ''}{minutes} min"
    in_hours = f"{sign}{_grouped(hours)} h"
    return f"{in_hours} {minutes} min" if minutes else in_hours


def hours(ms: float) -> str:
    """Return milliseconds as hours and minutes, ``5:12``, where several words have no room."""
    # In two steps, as ``duration`` rounds: a page may have the same time in both forms.
    in_hours, minutes = divmod(round(round(abs(ms) / 1000) / 60), 60)
    return f"{_MINUS if ms < 0 else ''}{in_hours}:{minutes:02}"


def count(value: float) -> str:
    """Return a number with thin spaces between groups of thousands, and one decimal below 1,000."""
    value = round(value, 1 if abs(value) < 1000 else 0)
    return _grouped(value, 0 if float(value).is_integer() else 1).replace("-", _MINUS)


def _grouped(value: float, decimals: int = 0) -> str:
    """Return a number with thin spaces between groups of thousands."""
    return f"{value:,.{decimals}f}".replace(",", "\u202f")


def percent(value: float) -> str:
    """Return a percentage, which is given from 0 to 100."""
    return f"{count(round(value, 1))} %"


def ratio(value: float) -> str:
    """Return a number from 0 to 1 as a percentage."""
    return percent(value * 100)


def metres(value: float) -> str:
    """Return a distance."""
    return f"{count(round(value / 1000, 1))} km" if value >= 1000 else f"{count(round(value))} m"


def decimal(value: float) -> str:
    """Return a number with two decimals, such as a correlation."""
    return f"{value:.2f}".replace("-", _MINUS)


def day(text: str) -> str:
    """Return a calendar day as ``21 Nov 2026``. Pages have hundreds, and strftime is slow."""
    at = date.fromisoformat(text)
    return f"{at.day} {_MONTHS[at.month - 1]} {at.year}"


@lru_cache(maxsize=1000)
def short_day(text: str) -> str:
    """Return a calendar day as ``Sat 21 Nov``. Pages have thousands, and strftime is slow."""
    at = date.fromisoformat(text)
    return f"{_WEEKDAYS[at.weekday()]} {at.day} {_MONTHS[at.month - 1]}"


_FORMATS: Final[dict[str, Callable[[Any], str]]] = {
    "duration": duration,
    "hours": hours,
    "count": count,
    "percent": percent,
    "ratio": ratio,
    "metres": metres,
    "decimal": decimal,
    "day": day,
    "text": str,
}


class Column(NamedTuple):
    """The figures of a column: a member of the objects of a list, and the rest as for ``figure``."""

    member: str
    kind: str
    unit: str | tuple[str, str] = ""
    name: str | None = None


@dataclass(frozen=True)
class Figures:
    """Writes figures in one time zone."""

    tz: str

    def figure(
        self,
        answer: Answer,
        pointer: str,
        kind: str,
        unit: str | tuple[str, str] = "",
        name: str | None = None,
    ) -> Markup:
        """Return the value at ``pointer`` of an answer as text with its raw value.

        ``kind`` is one of the formats above, or ``time`` for the local clock of an instant, ``clock`` for its
        seconds as well, or ``moment`` for its day. ``unit`` follows the number, in its singular or its plural
        if it has both; ``name`` replaces the last part of the pointer as the name of the figure. Null is
        written as absent. Raises LookupError for a place that the answer does not have.
        """
        value = answer.at(pointer)
        source, name = f"{answer.name}#{pointer}", name or pointer.rpartition("/")[2]
        text = self._figure(value, kind, in_markup(source), unit, in_markup(name))
        return Markup(text)  # noqa: S704 -- all parts are escaped

    def rows(
        self, answer: Answer, pointer: str, head: Callable[[Any], str], columns: Sequence[Column]
    ) -> Markup:
        """Return a row of a table for each object of the list at ``pointer``.

        ``head`` returns the markup of its first cells, which the figures of ``columns`` follow. A template
        takes three times as long for the hundreds of rows of a page.
        """
        written = []
        place = in_markup(f"{answer.name}#{pointer}")
        named = [
            (member, kind, in_markup(member), unit, in_markup(name or member))
            for member, kind, unit, name in columns
        ]
        for n, row in enumerate(answer.at(pointer)):
            written.append(f"<tr>{head(row)}")
            for member, kind, last, unit, name in named:
                figure = self._figure(row[member], kind, f"{place}/{n}/{last}", unit, name)
                written.append(f"<td>{figure}</td>")
            written.append("</tr>")
        return Markup("".join(written))  # noqa: S704 -- all parts are escaped

    def _figure(
        self, value: Any, kind: str, source: str, unit: str | tuple[str, str], name: str
    ) -> str:
        """Return a figure, from a source and a name that are escaped."""
        if value is None:
            return ABSENT
        words = self.text(value, kind)
        if unit:
            one, many = unit if isinstance(unit, tuple) else (unit, unit)
            words = f"{words}\u00a0{one if value == 1 else many}"
        # A year has thousands of figures, and Markup.format takes five times as long as this.
        return (
            f'<data value="{_raw(value)}" data-figure="{name}" data-from="{source}">'
            f"{in_markup(words)}</data>"
        )

    def text(self, value: Any, kind: str) -> str:
        """Return a value as text alone, for a title or a label of a chart whose table has the figure."""
        if kind == "time":
            return f"{self.local(value):%H:%M}"
        if kind == "clock":
            return f"{self.local(value):%H:%M:%S}"
        if kind == "moment":
            at = self.local(value)
            return f"{at.day} {at:%b %Y, %H:%M}"
        return _FORMATS[kind](value)

    def local(self, instant: str) -> datetime:
        """Return an instant of the API in the time zone of the page."""
        return datetime.fromisoformat(instant).astimezone(ZoneInfo(self.tz))


def stands_out(rows: Sequence[Mapping[str, Any]], member: str) -> bool:
    """Tell whether the first row of a list has more than each other one, so that a caption may say so."""
    return len(rows) > 1 and bool(rows[0][member] > rows[1][member])


def is_alone(answer: Answer, pointer: str, member: str) -> bool:
    """Tell whether no other row of a list has the value of the row at ``pointer``, so that it is the most."""
    values = [row[member] for row in answer.at(pointer.rpartition("/")[0])]
    return values.count(answer.at(pointer)[member]) == 1


def _raw(value: Any) -> str:
    """Return a value as JSON has it, a text without quotes, for an attribute."""
    if type(value) in (int, float):
        return repr(value)
    return in_markup(value) if isinstance(value, str) else json.dumps(value)


def escaped(key: str) -> str:
    """Return a member's name as a part of a JSON Pointer (RFC 6901, section 3)."""
    return key.replace("~", "~0").replace("/", "~1")

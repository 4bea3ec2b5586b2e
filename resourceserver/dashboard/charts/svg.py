"""What all charts draw with: elements of SVG as text, labels, and the table beside a chart."""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from markupsafe import Markup

from resourceserver.dashboard.charts.escaping import escaped
from resourceserver.dashboard.charts.scale import Tick

TITLE_LENGTH: Final = 200
_ISOLATE: Final = "\N{FIRST STRONG ISOLATE}", "\N{POP DIRECTIONAL ISOLATE}"
_WIDE: Final = ("W", "F")
"""The widths of such characters (Unicode Standard Annex 11)."""
_BLANKS: Final = dict.fromkeys(map(ord, "\t\n\v\f\r\x85"), " ")
"""Tabs and line breaks, which separate words."""
_JOINERS: Final = "\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"


class Chart(Protocol):
    """What the macro ``chart`` draws: the geometry of any kind of chart."""

    @property
    def name(self) -> str:
        """The name by which ids of the page begin; unique on the page."""

    @property
    def legend(self) -> "tuple[Key, ...]":
        """What colours and patterns mean."""

    def svg(self) -> Markup:
        """Return the ``<svg>`` element."""


@dataclass(frozen=True)
class Key:
    """An entry of a legend: the class of a mark, and what such marks mean."""

    style: str
    words: str


@dataclass(frozen=True)
class Table:
    """The numbers of a chart. Cells may be markup; all others are escaped.

    The first cell of a row is its header.
    """

    header: Sequence[str | Markup]
    rows: Iterable[Sequence[str | Markup]]


NOT_REPORTED: Final = Key("missing", "no data reported")


def number(value: float) -> str:
    """Return a coordinate with at most one decimal."""
    text = f"{value:.1f}"
    return "0" if text == "-0.0" else text.removesuffix(".0")


def cut(label: str, length: int) -> str:
    """Return a label of at most ``length`` visible characters, without those that have no picture.

    Characters of East Asian scripts and most pictures count twice, since they are twice as wide.
    Its characters cannot change the direction of the text around it: SVG has no ``<bdi>``, so the
    characters that isolate take its place.
    """
    if len(label) <= length:
        # Nearly all labels are plain, or are numbers with narrow and no-break spaces between digits and unit.
        plain = label.replace("\u202f", " ").replace("\u00a0", " ")
        if plain.isascii() and plain.isprintable() and plain.strip():
            if label.isascii():
                return label
            return label.strip().join(_ISOLATE)
    visible: list[str] = []
    width = 0
    # Line breaks and tabs separate words, so each becomes a blank.
    for character in label[: 4 * length + 4].translate(_BLANKS):
        category = unicodedata.category(character)
        if character in _JOINERS or category in {"Mn", "Me"}:
            # A pile of accents on one letter would cover the lines above.
            if visible and len(visible) < 2 * length:
                visible.append(character)
            continue
        if category.startswith("C"):
            continue
        own = 2 if unicodedata.east_asian_width(character) in _WIDE else 1
        if width + own > length:
            visible[-1:] = "…"
            break
        visible.append(character)
        width += own
    text = "".join(visible).strip()
    if not text:
        return "(no visible name)"
    return text if text.replace("…", "").isascii() else text.join(_ISOLATE)


def text(x: float, y: float, words: str, style: str = "", anchor: str = "") -> str:
    """Return a text at ``x`` percent and ``y`` pixels."""
    attributes = f' class="{style}"' if style else ""
    if anchor:
        attributes += f' text-anchor="{anchor}"'
    return f'<text x="{number(x)}%" y="{number(y)}"{attributes}>{escaped(words)}</text>'


def rect(x: float, y: float, width: float, height: float, style: str, *, fill: str = "") -> str:
    """Return a rectangle; ``x`` and ``width`` are percentages."""
    filled = f' fill="{fill}"' if fill else ""
    return (
        f'<rect class="{style}" x="{number(x)}%" y="{number(y)}" width="{number(width)}%" '
        f'height="{number(height)}"{filled}/>'
    )


def upright(x: float, y: float, height: float, style: str) -> str:
    """Return an upright mark of 3 pixels at ``x`` percent."""
    return (
        f'<rect class="{style}" x="{number(x)}%" y="{number(y)}" width="3" '
        f'height="{number(height)}"/>'
    )


def mark(shape: str, title: str = "", href: str = "", label: str = "") -> str:
    """Return a shape with a title, as a link if it has an address. Each link has a name."""
    if href:
        return f'<a href="{escaped(href)}">{_titled(title or label or href)}{shape}</a>'
    return f"<g>{_titled(title)}{shape}</g>" if title else shape


def _titled(title: str) -> str:
    return f"<title>{escaped(cut(title, TITLE_LENGTH))}</title>" if title else ""


def hatch(name: str) -> str:
    """Return the pattern of time that nobody reported. ``fill`` refers to it by ``hatched(name)``."""
    return (
        f'<pattern id="{escaped(name)}-hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><path class="hatch" d="M1 0v6"/></pattern>'
    )


def hatched(name: str) -> str:
    """Return the value of ``fill`` for time that nobody reported."""
    return f"url(#{escaped(name)}-hatch)"


def frame(name: str, height: float, body: str, *, gutter: str = "", links: bool = False) -> Markup:
    """Return the ``<svg>`` around ``body``.

    ``gutter`` is the class of the room on the left for labels: "", "gutter" or "wide-gutter". An image
    hides what it consists of from screen readers, so a chart with links is a group instead.
    """
    role = "group" if links else "img"
    style = f"chart {gutter}".strip()
    return Markup(  # noqa: S704 # All texts in the body were escaped by this module.
        f'<svg class="{style}" width="100%" height="{number(height)}" role="{role}" '
        f'aria-labelledby="{escaped(name)}-caption">{body}</svg>'
    )


def stretched(top: float, width: float, height: float, body: str) -> str:
    """Return a part in which paths have coordinates of their own, stretched to the chart's width."""
    return (
        f'<svg y="{number(top)}" width="100%" height="{number(height)}" '
        f'viewBox="0 0 {number(width)} {number(height)}" preserveAspectRatio="none">{body}</svg>'
    )


def axis_left(ticks: Iterable[Tick]) -> str:
    """Return lines across the chart with their labels in the gutter."""
    return "".join(
        f'<line class="{"zero" if tick.value == 0 else "rule"}" x2="100%" '
        f'y1="{number(tick.position)}" y2="{number(tick.position)}"/>'
        f'<text class="axis" x="-6" y="{number(tick.position + 4)}">{escaped(tick.label)}</text>'
        for tick in ticks
    )


def label_below(x: float, y: float, words: str, *, is_narrow: bool = True, length: int = 16) -> str:
    """Return a label of the x axis. At the edges it turns inwards. Narrow pages leave some out."""
    anchor = "start" if x < 4 else "end" if x > 96 else "middle"
    return text(x, y, cut(words, length), "below" if is_narrow else "below roomy", anchor)

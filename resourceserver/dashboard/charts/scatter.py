"""Points of two values each."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from resourceserver.dashboard.charts import svg
from resourceserver.dashboard.charts.scale import NUMBER, Tick, Unit, scale
from resourceserver.dashboard.charts.svg import Key

TOP: Final = 22
PLOT: Final = 170


@dataclass(frozen=True)
class Dot:
    """A pair of values, such as those of one day."""

    x: float
    y: float
    title: str = ""
    href: str = ""


@dataclass(frozen=True)
class Scatter:
    """Dots with their positions: percent from the left, and pixels from the top."""

    name: str
    placed: tuple[tuple[float, float, Dot], ...]
    across: tuple[Tick, ...]
    upwards: tuple[Tick, ...]
    x_words: str
    y_words: str
    legend: tuple[Key, ...] = ()

    @property
    def height(self) -> int:
        """The height in pixels."""
        return TOP + PLOT + 40

    def svg(self) -> Markup:
        """Return the ``<svg>`` element."""
        body = [
            svg.axis_left(self.upwards),
            svg.text(0, 11, svg.cut(self.y_words, 40), "axis-above"),
        ]
        for place, tick in enumerate(self.across):
            x = svg.number(tick.position)
            body.append(
                f'<line class="rule" x1="{x}%" x2="{x}%" y1="{TOP}" y2="{TOP + PLOT}"/>'
                + svg.label_below(
                    tick.position, TOP + PLOT + 16, tick.label, is_narrow=place % 2 == 0
                )
            )
        body.append(svg.text(100, self.height - 4, svg.cut(self.x_words, 40), "below", "end"))
        body += [
            svg.mark(
                f'<circle class="point" cx="{svg.number(x)}%" cy="{svg.number(y)}" r="3.5"/>',
                dot.title,
                dot.href,
            )
            for x, y, dot in self.placed
        ]
        links = any(dot.href for _, _, dot in self.placed)
        return svg.frame(self.name, self.height, "".join(body), gutter="gutter", links=links)


def scatter(
    name: str,
    dots: Iterable[Dot],
    *,
    x_words: str,
    y_words: str,
    x_unit: Unit = NUMBER,
    y_unit: Unit = NUMBER,
) -> Scatter:
    """Return dots on two axes, each as long as its values need, with what they count in words."""
    given = list(dots)
    across = scale((dot.x for dot in given), x_unit, from_zero=False)
    upwards = scale((dot.y for dot in given), y_unit, from_zero=False)
    placed = tuple(
        (100 * across.share(dot.x), upwards.down(dot.y, TOP, PLOT), dot) for dot in given
    )
    return Scatter(
        name, placed, across.ticks_across(), upwards.ticks_down(TOP, PLOT), x_words, y_words
    )

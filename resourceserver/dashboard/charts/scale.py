"""Scales: round numbers for an axis, and the place of a value between them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

_SECOND: Final = 1_000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE
_DURATIONS: Final = (
    *(_SECOND * count for count in (1, 2, 5, 10, 15, 30)),
    *(_MINUTE * count for count in (1, 2, 5, 10, 15, 20, 30)),
    *(_HOUR * count for count in (1, 2, 3, 4, 6, 8, 12, 24)),
)
_SIZES: Final = ((_HOUR, "h"), (_MINUTE, "min"))


@dataclass(frozen=True)
class Unit:
    """What the values of an axis count. It decides which numbers are round."""

    suffix: str = ""
    least_step: float = 0.0
    """The smallest distance between two ticks; 0 for any."""
    is_duration: bool = False
    """Whether the values are milliseconds."""

    def step(self, span: float, most: int) -> float:
        """Return the smallest round number of which at most ``most`` cover ``span``."""
        wanted = max(span / most, self.least_step, 1e-9)
        if self.is_duration:
            for step in _DURATIONS:
                if step >= wanted:
                    return step
            return _HOUR * _round_up(wanted / _HOUR)
        return _round_up(wanted)

    def label(self, value: float) -> str:
        """Return a tick's text."""
        if not self.is_duration:
            return f"{_short(value)}{self.suffix}"
        if value == 0:
            return "0"
        size, name = next((each for each in _SIZES if abs(value) >= each[0]), (_SECOND, "s"))
        return f"{_short(value / size)} {name}"


DURATION: Final = Unit(least_step=_SECOND, is_duration=True)
COUNT: Final = Unit(least_step=1)
PERCENT: Final = Unit(suffix=" %")
"""Values are hundredths: 91.7 is 91.7 %."""
NUMBER: Final = Unit()


def unit_of(kind: str, suffix: str) -> Unit:
    """Return the unit of an axis for values that figures write as ``kind``, with ``suffix`` behind them."""
    if kind == "duration":
        return DURATION
    if kind == "percent":
        return PERCENT
    if kind == "metres":
        return Unit(" m")
    return Unit(f" {suffix}") if suffix else COUNT


@dataclass(frozen=True)
class Tick:
    """A round number of an axis, with its place: percent from the left, or pixels from the top."""

    value: float
    position: float
    label: str


@dataclass(frozen=True)
class Scale:
    """An axis from one round number to another."""

    low: float
    high: float
    step: float
    unit: Unit

    def share(self, value: float) -> float:
        """Return where a value lies: 0 at the low end, 1 at the high end."""
        # Halves, because the distance between two huge numbers may have no float.
        return (value / 2 - self.low / 2) / (self.high / 2 - self.low / 2)

    def down(self, value: float, top: float, height: float) -> float:
        """Return the place of a value on an axis that grows upwards, in pixels from the top."""
        return top + height * (1 - self.share(value))

    def values(self) -> list[float]:
        """Return the values of all ticks."""
        count = round((self.high - self.low) / self.step)
        return [self.low + self.step * number for number in range(count + 1)]

    def ticks_down(self, top: float, height: float) -> tuple[Tick, ...]:
        """Return the ticks of an axis that grows upwards."""
        return tuple(
            Tick(value, self.down(value, top, height), self.unit.label(value))
            for value in self.values()
        )

    def ticks_across(self) -> tuple[Tick, ...]:
        """Return the ticks of an axis that grows to the right."""
        return tuple(
            Tick(value, 100 * self.share(value), self.unit.label(value)) for value in self.values()
        )


def scale(values: Iterable[float], unit: Unit, most: int = 4, *, from_zero: bool = True) -> Scale:
    """Return the scale on which all values lie, with at most ``most`` + 2 ticks.

    It contains zero unless ``from_zero`` is false. Without values it goes from 0 to one step.
    """
    known = list(values)
    low, high = (min(known), max(known)) if known else (0.0, 0.0)
    if from_zero or not known:
        low, high = min(low, 0.0), max(high, 0.0)
    # Doubles have 15 digits: below that, a step would not change the value that it is added to.
    step = unit.step(max(high - low, max(abs(low), abs(high)) * 1e-12), most)
    low, high = math.floor(low / step) * step, math.ceil(high / step) * step
    if high <= low:
        high = low + step
    return Scale(low, high, step, unit)


def labelled(labels: Sequence[str]) -> dict[int, bool]:
    """Return which of the labels fit below a chart, each with whether it fits on narrow pages too.

    Letters are about 7 pixels wide. Charts are at least 524 pixels wide or, on narrow pages, 180.
    """
    width = 7 * min(16, max(map(len, labels), default=1)) + 10
    step = max(1, math.ceil(len(labels) / min(12, 524 // width)))
    narrow = step * max(1, math.ceil(len(labels) / max(1, 180 // width) / step))
    return {place: place % narrow == 0 for place in range(0, len(labels), step)}


def runs(flags: Sequence[bool]) -> list[tuple[int, int]]:
    """Return the stretches in which flags are set, each as its first place and the place after it."""
    edges: list[tuple[int, int]] = []
    for place, is_set in enumerate(flags):
        if is_set and edges and edges[-1][1] == place:
            edges[-1] = (edges[-1][0], place + 1)
        elif is_set:
            edges.append((place, place + 1))
    return edges


def _round_up(value: float) -> float:
    """Return the smallest round number that is not below ``value``, such as 1, 2, 5, 10, 20, 25, 50."""
    power = 10.0 ** math.floor(math.log10(value))
    # Quarters of ten would be no whole numbers.
    factors = (1, 2, 2.5, 5) if power >= 10 else (1, 2, 5)
    return next((power * factor for factor in factors if power * factor >= value), power * 10)


def _short(value: float) -> str:
    """Return a number in few characters, with a true minus sign."""
    names = ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k"))
    size, name = next((each for each in names if abs(value) >= each[0]), (1.0, ""))
    text = f"{value / size:.4g}" if abs(value / size) < 1e4 else f"{value / size:.1e}"
    return f"{text}{name}".replace("-", "\N{MINUS SIGN}")

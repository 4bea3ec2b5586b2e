"""A person's own normal: what a value of a day is compared with, and the words for the result.

    lower quartile          median          upper quartile
          ├───────────────────┼───────────────────┤
    ├───────────────── the usual range ─────────────────┤

The quartiles alone would be too narrow: of ten ordinary days, six lie outside the quartiles of the eight
before them. So the usual range is wider (guides/measures.md), and a value outside it is more or less than
usual.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

WEEKS: Final = 8
"""The number of weeks whose same weekdays are the normal of a day."""
FEWEST_DAYS: Final = 4
"""The fewest known days that have a usual range."""
SPREAD: Final = Fraction(1, 2)
"""How far the usual range reaches beyond each quartile, as a part of the distance between the quartiles."""
LEAST_PERCENT: Final = 10
"""How far the usual range reaches from the median at least, in percent of it."""
LEAST_MS: Final = 300_000
"""The same of durations, in milliseconds."""

Comparison = Literal["usual", "more_than_usual", "less_than_usual", "too_few_days"]
Number = float | int


@dataclass(frozen=True)
class Normal:
    """The values of earlier days, in a few numbers with the decimals of their metric."""

    days: int
    """The number of days with a value."""
    median: Number | None
    lower_quartile: Number | None
    upper_quartile: Number | None
    usual_from: Number | None
    """The lower end of the usual range; None with too few days."""
    usual_to: Number | None
    """The upper end."""

    @classmethod
    def of(cls, values: Sequence[Number], *, decimals: int, least: int) -> "Normal":
        """Return the normal of ``values``. The usual range reaches ``least`` from the median at least."""
        if not values:
            return cls(0, None, None, None, None, None)
        ordered = sorted(map(exact, values))
        lower, median, upper = (quantile(ordered, Fraction(part, 4)) for part in (1, 2, 3))
        beyond = (upper - lower) * SPREAD
        near = max(median * LEAST_PERCENT / 100, Fraction(least))
        ends = (
            max(min(lower - beyond, median - near), Fraction(0)),
            max(upper + beyond, median + near),
        )
        is_known = len(values) >= FEWEST_DAYS
        usual_from, usual_to = (rounded(end, decimals) if is_known else None for end in ends)
        return cls(
            len(values),
            rounded(median, decimals),
            rounded(lower, decimals),
            rounded(upper, decimals),
            usual_from,
            usual_to,
        )

    def compare(self, value: Number | None) -> Comparison | None:
        """Return the words for a value; None if it is not known."""
        if value is None:
            return None
        if self.usual_from is None or self.usual_to is None:
            return "too_few_days"
        if value > self.usual_to:
            return "more_than_usual"
        return "less_than_usual" if value < self.usual_from else "usual"


def quantile(ordered: Sequence[Fraction], part: Fraction) -> Fraction:
    """Return a quantile of ordered values, interpolated between neighbours as percentile_cont does."""
    place = part * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def rounded(value: Fraction, decimals: int) -> Number:
    """Return ``value`` with so many decimals, rounded half up."""
    scale: int = 10**decimals
    whole = math.floor(value * scale + Fraction(1, 2))
    return whole / scale if whole % scale else whole // scale


def exact(value: Number) -> Fraction:
    """Return a value by the digits that the database wrote, and not the binary fraction next to them."""
    return Fraction(repr(value))


def percent(part: Number | None, whole: Number | None) -> Number | None:
    """Return ``part`` in percent of ``whole`` with two decimals; None if one is not known, or of 0."""
    return rounded(exact(part) * 100 / exact(whole), 2) if part is not None and whole else None

"""Medians and quartiles of the known values of days, and of the days up to each day."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from typing import Final

FEWEST: Final = 7
"""The fewest known days that have a usual value: fewer may all be of one kind, such as days off."""


def quantile(ordered: Sequence[float], part: float) -> float:
    """Return the value below which such a part of at least one value lies; they are in order.

    Between two values it is interpolated (Hyndman and Fan, 1996, type 7).
    """
    place = (len(ordered) - 1) * part
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def median(ordered: Sequence[float]) -> float:
    """Return the middle of at least one value; they are in order.

    It is the quantile of a half, and computed faster: a year has hundreds.
    """
    middle, is_odd = divmod(len(ordered), 2)
    if is_odd:
        return float(ordered[middle])
    below = ordered[middle - 1]
    return below + (ordered[middle] - below) * 0.5


def windows(values: Sequence[float | None], length: int) -> Iterator[tuple[float, ...]]:
    """Yield, for each day, the known values of the ``length`` days that end with it, in order."""
    known: list[float] = []
    for n, value in enumerate(values):
        left = values[n - length] if n >= length else None
        if left is not None:
            del known[bisect_left(known, left)]
        if value is not None:
            insort(known, value)
        yield tuple(known)

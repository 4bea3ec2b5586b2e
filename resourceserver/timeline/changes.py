"""Change points: the days on which the level of a metric changed for two weeks or longer.

The known days are divided into segments so that the squared distances from the mean of each segment, plus a
penalty for each change, are as small as possible. This is the optimum that PELT finds (Killick, Fearnhead and
Eckley, 2012), with the cost of a change in the mean. The search is that of FPOP (Maidstone, Hocking, Rigaill
and Fearnhead, 2017), which stays fast where nothing changes, and where PELT compares all pairs of days.
"""

import math
from collections.abc import Hashable, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Final

from resourceserver.timeline import medians

LEAST: Final = 14
"""The fewest known days between two changes."""
PENALTY: Final = 3.0
"""The price of a change, in units of the noise and of the logarithm of the number of days. 2 is Schwarz's
criterion for independent days; people's days resemble each other for weeks."""
_WEEK: Final = 7
_NOISE: Final = 1e-12
"""Differences below this part of the largest value are rounding errors."""
_MOST_KEPT: Final = 64
"""How many answers are kept. A page mostly has the same days as the page before, or asks for the days and the
months of one metric, and the search takes milliseconds for a year."""


def changes(values: Sequence[float], weekdays: Sequence[Hashable]) -> list[int]:
    """Return the places of the first days of new levels, in order, given the known days in order.

    The usual difference of a weekday from the week around it is no change, so it is taken from each value.
    """
    return list(_changes(tuple(values), tuple(weekdays)))


@lru_cache(maxsize=_MOST_KEPT)
def _changes(values: tuple[float, ...], weekdays: tuple[Hashable, ...]) -> Sequence[int]:
    scale = max(map(abs, values), default=0.0)
    if len(values) < 2 * LEAST or not scale:
        return []
    level = _without_weekdays([value / scale for value in values], weekdays)
    found = noise(level)
    if found < _NOISE**2:
        return []
    return divide(level, LEAST, PENALTY * found * math.log(len(level)))


def _without_weekdays(values: Sequence[float], weekdays: Sequence[Hashable]) -> list[float]:
    """Return values less the median difference of their weekday from the mean of the seven days around."""
    sums = [0.0, *accumulate(values)]
    differences: dict[Hashable, list[float]] = {weekday: [] for weekday in weekdays}
    for n in range(_WEEK // 2, len(values) - _WEEK // 2):
        around = (sums[n + _WEEK // 2 + 1] - sums[n - _WEEK // 2]) / _WEEK
        differences[weekdays[n]].append(values[n] - around)
    usual = {
        weekday: medians.median(sorted(each)) if each else 0.0
        for weekday, each in differences.items()
    }
    return [value - usual[weekday] for value, weekday in zip(values, weekdays, strict=True)]


def noise(values: Sequence[float]) -> float:
    """Return the variance of a day, from the differences between the means of successive weeks.

    A change of level counts in one difference only (von Neumann, 1941). Means of weeks vary more if a day
    resembles the day before; then a change must be larger too.
    """
    weeks = [
        math.fsum(values[start : start + _WEEK]) / _WEEK
        for start in range(0, len(values) - _WEEK + 1, _WEEK)
    ]
    differences = [(after - before) ** 2 for before, after in pairwise(weeks)]
    return _WEEK * math.fsum(differences) / (2 * len(differences)) if differences else 0.0


def divide(values: Sequence[float], least: int, penalty: float) -> list[int]:
    """Return the places at which segments but the first begin, where the cost is smallest.

    The cost is the sum of squared distances from the mean of each segment, plus ``penalty`` for each segment
    but the first. A segment has at least ``least`` values. Values should be of the size of 1 around 0.
    """
    count = len(values)
    if count < 2 * least:
        return []
    sums = [0.0, *accumulate(values)]
    squares = [0.0, *accumulate(value * value for value in values)]
    rounding = _NOISE * squares[-1]
    best = [-penalty, *[math.inf] * count]
    begins = [0] * (count + 1)

    # Each level that the last segment may have, and where a segment of this level begins at best.
    # The range is wider than the values: one without any width, of values that are all equal, would be lost.
    pieces = [(min(values) - 1.0, max(values) + 1.0, 0)]
    # What an older beginning costs up to a new one, less what depends on the new one alone.
    saved = [0.0] * (count + 1)
    saved[0] = penalty
    for end in range(least, count + 1):
        new = end - least
        if new >= least:
            saved[new] = squares[new] - best[new]
            pieces = _with(pieces, new, sums, saved, rounding)
        lowest, total = math.inf, sums[end]
        for start in {piece[2] for piece in pieces}:
            own = total - sums[start]
            whole = -saved[start] - own * own / (end - start)
            if whole < lowest:
                lowest, begins[end] = whole, start
        best[end] = lowest + squares[end] + penalty
    found = []
    end = begins[count]
    while end:
        found.append(end)
        end = begins[end]
    return found[::-1]


_Piece = tuple[float, float, int]


def _with(
    pieces: Sequence[_Piece],
    new: int,
    sums: Sequence[float],
    saved: Sequence[float],
    rounding: float,
) -> list[_Piece]:
    """Return the pieces with those levels for which a segment better begins at ``new``.

    Whatever follows costs the same for an older beginning and the new one. So the older one remains the
    better one only for levels so near to the mean of the values between both that these cost less than
    the new beginning does.

    Trends of a year call this thousands of times, so it calls no function for each piece.
    """
    kept: list[_Piece] = []
    # Adjoining levels with the new beginning are one piece.
    opened: float | None = None
    closed = 0.0
    total, most = sums[new], rounding - saved[new]
    for low, high, old in pieces:
        length = new - old
        own = total - sums[old]
        mean = own / length
        room = (most + saved[old] + own * own / length) / length
        left, right = low, high
        if room > 0:
            reach = math.sqrt(room)
            left = max(low, mean - reach)
            right = min(high, mean + reach)
        if room <= 0 or left >= right:
            opened = low if opened is None else opened
            closed = high
            continue
        if low < left:
            opened = low if opened is None else opened
            closed = left
        if opened is not None:
            kept.append((opened, closed, new))
            opened = None
        kept.append((left, right, old))
        if right < high:
            opened, closed = right, high
    if opened is not None:
        kept.append((opened, closed, new))
    return kept

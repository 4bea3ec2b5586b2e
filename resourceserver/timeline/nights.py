"""When people sleep: how alike successive days are, and the usual times of going to bed and waking up.

Times are milliseconds on the clock of the place where the person slept, so that a day has 24 hours when
clocks change, and a journey moves no night.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

from resourceserver.timeline import medians

DAY_MS: Final = 86_400_000
NOON_MS: Final = DAY_MS // 2
_EPOCH: Final = date(1970, 1, 1)

Span = tuple[int, int]
"""The start and the end of a sleep, on the clock of its place."""


def alike(main: Mapping[date, Span], naps: Iterable[Span]) -> dict[date, int]:
    """Return for how long the person was in the same state as 24 hours before, by day.

    ``main`` are the main sleeps by the day on which they ended. A day lasts from the noon before to its own
    noon, and so holds one night. Days without a main sleep are not known; a result has the known days whose
    day before is known too. Between sleeps the person is awake. All sleeps of these days count.
    """
    asleep = _union([*main.values(), *naps])
    spans = {day: _within(asleep, _noon(day) - DAY_MS) for day in sorted(main)}
    return {
        day: DAY_MS - _difference(spans[before], spans[day])
        for day in spans
        if (before := day - timedelta(days=1)) in spans
    }


def _noon(day: date) -> int:
    return (day - _EPOCH).days * DAY_MS + NOON_MS


def _union(spans: Iterable[Span]) -> list[Span]:
    """Return the times in at least one of these spans, in order and without overlaps."""
    union: list[Span] = []
    for start, end in sorted(spans):
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(end, union[-1][1]))
        else:
            union.append((start, end))
    return union


def _within(union: Sequence[Span], start: int) -> list[Span]:
    """Return the parts of a union in the 24 hours from ``start`` on, counted from there."""
    # The first span that ends after the start; a binary search, since there may be ten years of them.
    first, after = 0, len(union)
    while first < after:
        middle = (first + after) // 2
        if union[middle][1] <= start:
            first = middle + 1
        else:
            after = middle
    parts: list[Span] = []
    for begin, end in union[first:]:
        if begin >= start + DAY_MS:
            break
        parts.append((max(begin - start, 0), min(end - start, DAY_MS)))
    return parts


def _difference(left: Sequence[Span], right: Sequence[Span]) -> int:
    """Return how long exactly one of two unions lasts."""
    both = sum(
        max(0, min(left_end, right_end) - max(left_start, right_start))
        for left_start, left_end in left
        for right_start, right_end in right
    )
    return sum(end - start for start, end in (*left, *right)) - 2 * both


def index(agreeing_ms: int, compared_ms: int) -> float | None:
    """Return the Sleep Regularity Index: 100 if all days are alike, 0 at random, -100 if they are opposite.

    Null if no days were compared. After Phillips et al. (2017), with times in the place of epochs.
    """
    if not compared_ms:
        return None
    value = Decimal(200 * agreeing_ms) / compared_ms - 100
    return float(value.quantize(Decimal("0.1"), ROUND_HALF_UP))


@dataclass(frozen=True)
class UsualTime:
    """Usual times of a day, in milliseconds since midnight."""

    lower_quartile: float
    median: float
    upper_quartile: float


def usual(times: Sequence[float]) -> UsualTime | None:
    """Return median and quartiles of times of a day; None if there are none, or no time is usual.

    The clock is cut opposite to the mean direction of the times, and they are ordered from there, so that
    ten to twelve and ten past twelve are twenty minutes apart. If the directions cancel each other out, the
    times have no order.
    """
    angles = [2 * math.pi * time / DAY_MS for time in times]
    east = math.fsum(map(math.cos, angles))
    north = math.fsum(map(math.sin, angles))
    if math.hypot(east, north) <= 1e-9 * len(times):
        return None
    cut = math.atan2(north, east) / (2 * math.pi) * DAY_MS + DAY_MS / 2
    ordered = sorted((time - cut) % DAY_MS for time in times)
    return UsualTime(
        *((cut + medians.quantile(ordered, part)) % DAY_MS for part in (0.25, 0.5, 0.75))
    )


def apart(left: float, right: float) -> float:
    """Return the shorter way between two times of a day."""
    way = abs(left - right) % DAY_MS
    return min(way, DAY_MS - way)


def clock(time: float) -> str:
    """Return a time of a day as hours and minutes, to the nearest minute."""
    minutes = math.floor(time / 60_000 + 0.5) % (24 * 60)
    return f"{minutes // 60:02}:{minutes % 60:02}"

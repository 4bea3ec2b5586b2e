"""Correlation of two measures: coefficients, their confidence intervals and p-values.

Values may be as large as a double can be, so they are scaled before they are squared; a coefficient is the
same on every scale.
"""

import math
import sys
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from operator import itemgetter, mul
from typing import Final, Literal

Method = Literal["pearson", "spearman"]
Adjust = Literal["none", "weekday"]
Reason = Literal["not_enough_days", "no_variation"]

LEVEL: Final = 0.95
"""The confidence level of the interval."""
_NORMAL_975: Final = 1.959963984540054
"""The 97.5th percentile of the standard normal distribution: half of the rest lies above it."""


@dataclass(frozen=True)
class Correlation:
    """A coefficient between -1 and 1, its interval and p-value; None for values that cannot be computed."""

    coefficient: float | None = None
    p_value: float | None = None
    """The probability of a coefficient at least as far from 0, on either side, without any correlation."""
    interval: tuple[float, float] | None = None
    reason: Reason | None = None
    """Why there is no coefficient."""


@dataclass(frozen=True)
class Comparison:
    """The correlation of two metrics on the days on which both have a value."""

    n: int
    n_effective: float
    """The number of independent days that these count as."""
    correlation: Correlation
    p_value_adjusted: float | None
    """The p-value with ``n_effective`` days."""


def compare(
    left: Sequence[float | None],
    right: Sequence[float | None],
    method: Method,
    weekdays: Sequence[Hashable] | None = None,
) -> Comparison:
    """Return the correlation of two metrics, given their values on the same consecutive days.

    With ``weekdays``, the weekday of each day, both metrics are replaced by their distances from the mean of
    that weekday: then two metrics that only share a weekly rhythm do not correlate. Each such mean but one
    takes a degree of freedom, and p-value and interval are those of ``n_effective`` days.
    """
    paired = [n for n in range(len(left)) if left[n] is not None and right[n] is not None]
    pairs = [(a, b) for a, b in zip(left, right, strict=True) if a is not None and b is not None]
    free = len(pairs)
    if weekdays is not None:
        groups = [weekdays[n] for n in paired]
        free -= max(len(set(groups)) - 1, 0)
        # With nearly as many weekdays as days, all distances from the means are about 0.
        if free < 3:
            return _incomparable(len(pairs), free, "not_enough_days")
        sides = [_deviations([pair[side] for pair in pairs], groups) for side in (0, 1)]
        if not all(map(any, sides)):
            return _incomparable(len(pairs), free, "no_variation")
        pairs = list(zip(*sides, strict=True))
    plain = correlate(pairs, method)
    if plain.coefficient is None:
        return _incomparable(len(pairs), free, plain.reason)
    rows: list[list[float | None]] = [[None] * len(left), [None] * len(left)]
    for n, pair in zip(paired, pairs, strict=True):
        rows[0][n], rows[1][n] = pair
    effective = independent(free, *map(autocorrelation, rows))
    adjusted = p_value(plain.coefficient, effective)
    if weekdays is not None:
        interval = _interval(plain.coefficient, effective)
        plain = replace(plain, p_value=adjusted, interval=interval)
    return Comparison(len(pairs), effective, plain, adjusted)


def _incomparable(n: int, free: int, reason: Reason | None) -> Comparison:
    return Comparison(n, float(max(free, 0)), Correlation(reason=reason), None)


_NOISE: Final = 1e-12
"""Deviations below this part of the largest value are rounding errors."""


def _deviations(values: Sequence[float], groups: Sequence[Hashable]) -> list[float]:
    """Return the distance of each value from the mean of its group, on a scale of their own."""
    scale = _scale(values)
    scaled = [value / scale for value in values]
    members: dict[Hashable, list[float]] = {}
    for group, value in zip(groups, scaled, strict=True):
        members.setdefault(group, []).append(value)
    means = {group: math.fsum(each) / len(each) for group, each in members.items()}
    deviations = [value - means[group] for group, value in zip(groups, scaled, strict=True)]
    return [0.0 if abs(each) < _NOISE else each for each in deviations]


def correlate(pairs: Sequence[tuple[float, float]], method: Method) -> Correlation:
    """Return the correlation of the two measures in ``pairs``.

    Fewer than three pairs, and a measure whose values are all equal, have no coefficient; fewer than four
    pairs have no interval.
    """
    reason = _reason(pairs)
    if reason is not None:
        return Correlation(reason=reason)
    left, right = [a for a, _ in pairs], [b for _, b in pairs]
    if method == "spearman":
        left, right = ranks(left), ranks(right)
    r = _coefficient(left, right)
    return Correlation(r, p_value(r, len(pairs)), _interval(r, len(pairs)))


def _reason(pairs: Sequence[tuple[float, float]]) -> Reason | None:
    """Return why these pairs have no coefficient, or None if they have one."""
    if len(pairs) < 3:
        return "not_enough_days"
    is_constant = any(min(side) == max(side) for side in zip(*pairs, strict=True))
    return "no_variation" if is_constant else None


def autocorrelation(values: Sequence[float | None]) -> float:
    """Return the correlation of each day's value with that of the day before; 0 if it cannot be computed."""
    pairs = [(a, b) for a, b in pairwise(values) if a is not None and b is not None]
    if _reason(pairs) is not None:
        return 0.0
    return _coefficient([a for a, _ in pairs], [b for _, b in pairs])


def independent(n: int, left: float, right: float) -> float:
    """Return the number of independent pairs that ``n`` pairs count as, by the autocorrelations of both
    measures.

    A day that is like the one before adds less information: n (1 - ρ₁ρ₂) / (1 + ρ₁ρ₂), after Bartlett (1935);
    never more than n.
    """
    alike = left * right
    return n * (1 - alike) / (1 + alike) if alike > 0 else float(n)


def corrected(p_values: Sequence[float]) -> list[float]:
    """Return the p-values, corrected for the number of comparisons (Holm, 1979)."""
    result = [0.0] * len(p_values)
    least = 0.0
    for place, (index, value) in enumerate(sorted(enumerate(p_values), key=itemgetter(1))):
        least = max(least, min(1.0, value * (len(p_values) - place)))
        result[index] = least
    return result


def ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value from 1, the smallest; equal values share the mean of their ranks."""
    result = [0.0] * len(values)
    before = 0
    for _, ties in groupby(sorted(enumerate(values), key=itemgetter(1)), key=itemgetter(1)):
        places = [place for place, _ in ties]
        for place in places:
            result[place] = before + (len(places) + 1) / 2
        before += len(places)
    return result


def mean(values: Sequence[float]) -> float:
    """Return the mean of at least one value."""
    scale = _scale(values)
    return math.fsum(value / scale for value in values) / len(values) * scale


def deviation(values: Sequence[float]) -> float:
    """Return the standard deviation of at least two values, as of a sample."""
    scale = _scale(values)
    centred = _centred(values)
    scaled = math.sqrt(math.fsum(part * part for part in centred) / (len(values) - 1))
    # The deviation of two values may be larger than both, and too large for a double.
    return min(scaled * scale, sys.float_info.max)


def _coefficient(left: Sequence[float], right: Sequence[float]) -> float:
    x, y = _centred(left), _centred(right)
    together = math.fsum(map(mul, x, y))
    r = together / math.sqrt(math.fsum(map(mul, x, x)) * math.fsum(map(mul, y, y)))
    return max(-1.0, min(1.0, r))


def _centred(values: Sequence[float]) -> list[float]:
    """Return the distances from the mean, in units of the largest distance from 0."""
    scale = _scale(values)
    scaled = [value / scale for value in values]
    middle = math.fsum(scaled) / len(scaled)
    return [value - middle for value in scaled]


def _scale(values: Sequence[float]) -> float:
    return max(map(abs, values)) or 1.0


def p_value(r: float, n: float) -> float:
    """Return the part of Student's t distribution with n - 2 degrees of freedom that lies outside of ±t.

    For two pairs or fewer it is 1.

    With k degrees of freedom and t = r √(k / (1 - r²)) the two tails are I(k / (k + t²); k/2, 1/2), and
    the first argument equals 1 - r².
    """
    if n <= 2:
        return 1.0
    return incomplete_beta((n - 2) / 2, 0.5, (1 - r) * (1 + r), r * r)


def _interval(r: float, n: float) -> tuple[float, float] | None:
    """Return Fisher's confidence interval: atanh r is about normal, with deviation 1 / √(n - 3)."""
    if n < 4:
        return None
    if abs(r) == 1:
        return r, r
    reach = _NORMAL_975 / math.sqrt(n - 3)
    return math.tanh(math.atanh(r) - reach), math.tanh(math.atanh(r) + reach)


def incomplete_beta(a: float, b: float, x: float, rest: float) -> float:
    """Return the regularised incomplete beta function I(x; a, b), for positive a and b.

    ``rest`` is 1 - x, from 0 to 1 like x; both are arguments because the smaller one may be lost in the
    rounding of the other. By the continued fraction (DLMF 8.17.22), which converges fast below the mean;
    above it the other tail is computed (DLMF 8.17.4).
    """
    if x == 0 or rest == 0:
        return float(rest == 0)
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, rest, x)
    # x^a (1-x)^b / (a B(a, b)), by logarithms, because each factor alone may be too large for a double.
    weight = math.exp(
        a * math.log(x)
        + b * math.log(rest)
        + math.lgamma(a + b)
        - math.lgamma(a)
        - math.lgamma(b)
        - math.log(a)
    )
    return weight / _continued_fraction(a, b, x)


_TINY: Final = 1e-300
_MOST_STEPS: Final = 10_000
"""More steps than any number of days needs: about √max(a, b)."""


def _continued_fraction(a: float, b: float, x: float) -> float:
    """Return 1 + d₁ / (1 + d₂ / (1 + …)) of DLMF 8.17.22, by the modified method of Lentz (DLMF 3.10)."""
    value, numerator, denominator = 1.0, 1.0, 0.0
    for step in range(1, _MOST_STEPS):
        m = step // 2
        if step % 2:
            d = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            d = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        denominator = 1 / (1 + d * denominator or _TINY)
        numerator = 1 + d / numerator or _TINY
        factor = numerator * denominator
        value *= factor
        if abs(factor - 1) < 1e-15:
            return value
    raise ArithmeticError(f"the continued fraction of {a}, {b}, {x} does not converge")

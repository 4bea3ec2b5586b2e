"""What messages about health contain beside records: buckets and stages of sleep."""

import decimal
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Final, NamedTuple

from resourceserver.integrations import values
from resourceserver.integrations.records import (
    HeartRate,
    Refused,
    Sample,
    ScreenTime,
    Sensor,
    Sleep,
)
from resourceserver.integrations.sleep_stages import Stage
from resourceserver.integrations.values import Flaw

EXACT: Final = decimal.Context(prec=60)
"""Digits enough for the sum of all samples of a bucket."""
HEART_RATE: Final = "heart_rate"
"""The metric of buckets of heart rates, which have a table of their own."""


class Bucket(NamedTuple):
    """What was measured in a window of time, of which a later message may bring more.

    ``total`` is the sum of the measured values, from which the mean of several parts follows. It is a decimal
    number, because sums of binary fractions depend on their order.
    """

    key: str
    metric_type: str
    started_at: datetime
    ended_at: datetime
    sample_count: int
    total: Decimal
    minimum: float | None
    maximum: float | None
    sensor: Sensor


class StageOf(NamedTuple):
    """A stage of a sleep that has to be joined with others, which may be in other messages."""

    stage: Stage
    sensor: Sensor


Item = Sample | HeartRate | Sleep | Bucket | StageOf | ScreenTime | Refused


def attempt(reading: Iterator[Item], name: str, element: object) -> Iterator[Item]:
    """Yield what a reader finds in one element, and a Refused that quotes it where it cannot be read."""
    try:
        yield from reading
    except Flaw as flaw:
        yield refused(str(flaw), name, element)
    except OverflowError:
        yield refused("value_out_of_range", name, element)


def refused(reason: str, name: str, element: object) -> Refused:
    """Return the Refused of an element of the list with this name."""
    return Refused(reason, values.example(f"{name}: {values.example(element)}"))

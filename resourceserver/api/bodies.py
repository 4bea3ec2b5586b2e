"""Shapes that the answers of several endpoints share.

Postgres writes the answers; these models describe them, and the tests hold every answer against them.
"""

from datetime import date
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Timestamp = Annotated[
    str,
    StringConstraints(pattern=r"^\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"),
    Field(json_schema_extra={"format": "date-time"}),
]
"""An instant in UTC, always with three decimals."""
CalendarDay = Annotated[date, Field(strict=False)]
Milliseconds = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]
Percent = Annotated[float, Field(ge=0, le=100)]
Productivity = Literal["productive", "neutral", "distracting"]


class Body(BaseModel):
    """An object of an answer: exactly these members, all of them always there."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)


class InstantRangeEcho(Body):
    """The range that was asked for, normalised; ``to`` is not part of it."""

    from_: Timestamp = Field(alias="from")
    to: Timestamp


class DayRangeEcho(Body):
    """The calendar days that were asked for, both included."""

    from_: CalendarDay = Field(alias="from")
    to: CalendarDay


class Listing(Body):
    """What every list that has pages says of this one."""

    count: Count
    """How many rows this page has."""
    limit: Count
    """How many it could have had."""
    has_more: bool
    next_cursor: str | None
    """The ``cursor`` of the next page; null on the last one."""


class Device(Body):
    """What measured it."""

    id: str
    name: str
    platform: str | None

"""Meeting load: time in meetings by day, and the free time that it leaves."""

import re
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from resourceserver import timeline
from resourceserver.api.bodies import (
    Body,
    CalendarDay,
    Count,
    DayRangeEcho,
    Milliseconds,
    Percent,
    Timestamp,
)
from resourceserver.api.endpoint import Endpoint
from resourceserver.api.parameters import DayRange, validated
from shared import queries

_HERE: Final = Path(__file__).parent
_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = queries.load(
    _TIMELINE / "timeline.sql",
    _TIMELINE / "segments.sql",
    _TIMELINE / "metrics.sql",
    _HERE / "meetings.sql",
)

_CLOCK: Final = r"([01][0-9]|2[0-3]):[0-5][0-9]|24:00"
_WEEKDAYS: Final = "[1-7](,[1-7]){0,6}"


def _parse_clock(text: str) -> str:
    if not re.fullmatch(_CLOCK, text, re.ASCII):
        raise ValueError("must be a time of day from 00:00 to 24:00, such as 09:00")
    return text


def _parse_weekdays(text: str) -> str:
    days = text.split(",")
    if not re.fullmatch(_WEEKDAYS, text, re.ASCII) or len(set(days)) < len(days):
        raise ValueError("must be different ISO weekdays from 1 to 7, with commas between them")
    return text


TimeOfDay = Annotated[
    str,
    validated(_parse_clock),
    WithJsonSchema({"type": "string", "pattern": f"^({_CLOCK})$"}),
]
Weekdays = Annotated[
    str,
    validated(_parse_weekdays),
    WithJsonSchema({"type": "string", "pattern": f"^{_WEEKDAYS}$"}),
]
Weekday = Annotated[int, Field(ge=1, le=7)]


class WorkingDays(DayRange):
    """A range of calendar days, and the working time on them."""

    work_from: TimeOfDay = Field(
        default="09:00", description="Start of the working time on the local clock (HH:MM)."
    )
    work_to: TimeOfDay = Field(
        default="17:00", description="End of the working time (HH:MM), later than its start."
    )
    work_days: Weekdays = Field(
        default="1,2,3,4,5",
        description="ISO weekdays with working time, with commas between them; 1 is Monday.",
    )

    @model_validator(mode="after")
    def _lasts(self) -> Self:
        if self.work_from >= self.work_to:
            raise PydanticCustomError("order", "must be before work_to", {"parameter": "work_from"})
        return self

    def values(self) -> dict[str, Any]:
        """Return the values with a list of weekdays."""
        return super().values() | {"work_days": self.work_days.split(",")}


class WorkingTime(Body):
    """The working time, within which free time is searched."""

    from_: str = Field(alias="from", description="Its start on the local clock.")
    to: str
    """Its end on the local clock."""
    days: list[Weekday]
    """The ISO weekdays that have it."""


class LoadDefinition(Body):
    """What counts as back to back, and as a free block."""

    back_to_back_ms: Milliseconds
    """A meeting is back to back if it begins less than this after the end of those before it."""
    free_block_ms: Milliseconds
    """The shortest free block."""


class FreeTime(Body):
    """Working time without a meeting."""

    starts_at: Timestamp
    ends_at: Timestamp
    duration_ms: Milliseconds


class MeetingMeasures(Body):
    """Measures that a day and a whole range have."""

    meeting_ms: Milliseconds
    """Time in at least one meeting, in milliseconds."""
    event_count: Count
    """The number of meetings, overlapping ones too. One that lasts over midnight is one of both days, and
    one of the range."""
    back_to_back_count: Count
    """How many began less than 10 minutes after the end of all earlier ones of the day, or before it."""
    back_to_back_percent: Percent | None
    """Their share of the meetings that follow another one on the same day; null without such."""
    gaps_under_30_min_ms: Milliseconds
    """Fragmented time: gaps of less than 30 minutes between meetings of a day, in milliseconds."""
    gaps_under_60_min_ms: Milliseconds
    """The same for gaps of less than an hour, which include the shorter ones."""
    working_ms: Milliseconds
    """Working time, in milliseconds; 0 on a day without."""
    free_ms: Milliseconds
    """Working time without a meeting, in milliseconds."""
    longest_free: FreeTime | None
    """The longest working time without a meeting, of equal ones the first; null where there is none."""


class LoadOfDay(MeetingMeasures):
    """The meetings of a day."""

    date: CalendarDay
    first_meeting_at: Timestamp | None
    """When the first meeting begins on this day; null without meetings."""
    last_meeting_ends_at: Timestamp | None
    """When the last one ends on this day; null without meetings."""
    longest_stretch_ms: Milliseconds
    """The longest time in meetings without any gap, in milliseconds."""
    free_blocks: list[FreeTime]
    """Working time of at least two hours without a meeting, in order."""


class LoadTotals(MeetingMeasures):
    """The meetings of all days."""

    free_block_count: Count
    """The number of free blocks of all days."""
    days: Count
    days_with_meetings: Count
    """The number of days with a meeting."""


class CalendarLoadBody(Body):
    """Time in meetings on every calendar day, and the free time that it leaves."""

    range: DayRangeEcho
    tz: str
    working_time: WorkingTime
    """The requested working time."""
    definition: LoadDefinition
    calendar_count: Count
    """The number of calendars. Without any, the zeros of this answer do not mean that there were no
    meetings."""
    data: list[LoadOfDay]
    totals: LoadTotals


ENDPOINTS: Final = [
    Endpoint(
        name="calendar_load",
        path="/api/v1/calendar/load",
        scope="read:content",
        summary="Time in meetings by day, and the free working time that it leaves.",
        params=WorkingDays,
        body=CalendarLoadBody,
        query=SQL["calendar_load"],
    ),
]

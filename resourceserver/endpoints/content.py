"""Insights, voice recordings, films and shows, and calendar events."""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from resourceserver import timeline
from resourceserver.api.bodies import (
    Body,
    CalendarDay,
    Count,
    InstantRangeEcho,
    Listing,
    Milliseconds,
    Percent,
    Timestamp,
)
from resourceserver.api.endpoint import Endpoint
from resourceserver.api.parameters import Flag, InstantRange, Listed, NoParams, at_most
from shared import queries

_HERE: Final = Path(__file__).parent
_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = queries.load(_TIMELINE / "timeline.sql", _HERE / "rows.sql", _HERE / "content.sql")


class InsightPage(Listed):
    """The page of insights."""

    limit: Annotated[int, at_most(104)] = Field(
        default=12, ge=0, description="Most rows of the answer; more than 104 are 104."
    )


class RecordingPage(Listed):
    """The page of recordings."""

    limit: Annotated[int, at_most(200)] = Field(
        default=20, ge=0, description="Most rows of the answer; more than 200 are 200."
    )


class CalendarEventPage(InstantRange, Listed):
    """The range of calendar events, and the page of the list."""

    limit: Annotated[int, at_most(2500)] = Field(
        default=250, ge=0, description="Most rows of the answer; more than 2500 are 2500."
    )
    include_cancelled: Flag = Field(
        default=False, description="Whether cancelled events are included."
    )


class Highlight(Body):
    """One remarkable change or fact of a week."""

    kind: str
    """Such as ``change``, a change from the week before."""
    metric: str | None
    """The metric of the highlight; null for none."""
    text: str
    """The highlight in a sentence."""
    value: float | None
    """The value, in the unit of the metric."""
    previous: float | None
    """The value of the week before."""
    change_percent: float | None
    """The change from the week before, in percent; null where it is unknown."""


class Insight(Body):
    """A text about one week."""

    id: str
    week_start: CalendarDay
    """The first day of the week."""
    week_end: CalendarDay
    """The last day of the week."""
    tz: str
    """The zone of the week's days."""
    title: str
    summary: str
    """Markdown."""
    highlights: list[Highlight]
    """Remarkable changes and facts of the week."""
    model: str | None
    """The program that wrote it."""
    generated_at: Timestamp


class InsightsBody(Listing):
    """Insights, the newest week first."""

    data: list[Insight]


class Segment(Body):
    """A part of a recording with one speaker."""

    start_ms: Milliseconds
    """Its start in the recording, in milliseconds."""
    end_ms: Milliseconds
    """Its end in the recording, in milliseconds."""
    speaker: str | None
    """The speaker; null where it is unknown."""
    text: str


class Transcript(Body):
    """The text of a recording."""

    status: Literal["ready", "pending", "failed", "none"]
    """Whether there is a transcript, or why there is none."""
    text: str | None
    """The whole text; null without a transcript."""
    segments: list[Segment]
    """The text in parts of one speaker each; empty where these are unknown."""


class Recording(Body):
    """One voice recording."""

    id: str
    recorded_at: Timestamp
    """When the recording began."""
    duration_ms: Milliseconds
    title: str | None
    language: str | None
    """The spoken language, such as ``en``; null where it is unknown."""
    source: str
    transcript: Transcript
    """The transcript of the recording."""


class RecordingsBody(Listing):
    """Recordings, the newest first."""

    data: list[Recording]


class Genre(Body):
    """All films and shows of one genre; a title with several genres counts whole in each."""

    genre: str
    """`unknown` for titles without one."""
    watch_ms: Milliseconds
    percent: Percent | None
    """Share of all watched time; the shares of genres add up to more than 100. Null if no time was
    watched."""
    play_count: Count
    movie_count: Count
    """Plays of films."""
    episode_count: Count
    """Plays of episodes."""
    title_count: Count
    """Different films and shows."""
    last_watched_at: Timestamp
    """When a title of the genre was last watched."""


class WatchingTotals(Body):
    """All films and shows, each title once."""

    watch_ms: Milliseconds
    play_count: Count
    movie_count: Count
    episode_count: Count
    title_count: Count


class WatchingGenresBody(Body):
    """Watch history by genre, the one with most time first."""

    data: list[Genre]
    totals: WatchingTotals


class Calendar(Body):
    """The calendar of an event."""

    id: str
    name: str
    """The name of the calendar."""
    provider: str


class Organizer(Body):
    """The organizer of the meeting."""

    name: str | None
    """The name of the organizer; null where it is unknown."""
    self: bool
    """Whether the caller is the organizer."""


class CalendarEvent(Body):
    """One event of a calendar."""

    id: str
    calendar: Calendar
    """The calendar that it is in."""
    title: str | None
    description: str | None
    """The description; null without one."""
    location: str | None
    """The location as the calendar has it; null without one."""
    starts_at: Timestamp
    """For an all-day event, the instant at which its first day begins in the calendar's zone."""
    ends_at: Timestamp
    duration_ms: Milliseconds
    all_day: bool
    """Whether it is an all-day event."""
    start_date: CalendarDay | None
    """The first day; only for all-day events."""
    end_date: CalendarDay | None
    """The day after the last one."""
    timezone: str | None
    """The IANA time zone of the event; null where it is unknown."""
    status: Literal["confirmed", "tentative", "cancelled"]
    """Whether the event takes place."""
    response: Literal["accepted", "declined", "tentative", "needs_action"] | None
    """The caller's own response."""
    organizer: Organizer
    """The organizer."""
    attendee_count: Count
    """How many people are invited."""
    recurring: bool
    """Whether it is one of a series."""
    series_id: str | None
    """The series that it belongs to."""
    conference_url: str | None
    """The address of the video meeting; null without one."""
    updated_at: Timestamp | None
    """When it was last changed at the provider; null where it is unknown."""


class CalendarEventsBody(Listing):
    """Events that overlap the range, the newest first."""

    range: InstantRangeEcho
    data: list[CalendarEvent]


ENDPOINTS: Final = [
    Endpoint(
        name="insights",
        path="/api/v1/insights",
        scope="read:content",
        summary="Weekly insights, the newest week first.",
        params=InsightPage,
        body=InsightsBody,
        query=SQL["insights"],
    ),
    Endpoint(
        name="recordings",
        path="/api/v1/recordings",
        scope="read:content",
        summary="Voice recordings and their transcripts, the newest first.",
        params=RecordingPage,
        body=RecordingsBody,
        query=SQL["recordings"],
    ),
    Endpoint(
        name="watching_genres",
        path="/api/v1/watching/genres",
        scope="read:content",
        summary="Watch history by genre.",
        params=NoParams,
        body=WatchingGenresBody,
        query=SQL["watching_genres"],
    ),
    Endpoint(
        name="calendar_events",
        path="/api/v1/calendar/events",
        scope="read:content",
        summary="Calendar events that overlap a range, the newest first.",
        params=CalendarEventPage,
        body=CalendarEventsBody,
        query=SQL["calendar_events"],
    ),
]

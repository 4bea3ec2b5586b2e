"""Sessions: single ones as trackers sent them, and sums by application and by day."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from resourceserver import timeline
from resourceserver.api.bodies import (
    Body,
    CalendarDay,
    Count,
    Device,
    InstantRangeEcho,
    Listing,
    Milliseconds,
    OfSums,
    Percent,
    Productivity,
    Timestamp,
)
from resourceserver.api.endpoint import Answers, Endpoint, Further
from resourceserver.api.parameters import InstantRange, InstantRangeInZone, Listed, Text, at_most
from shared import pipeline, queries
from shared.pipeline import Step

_HERE: Final = Path(__file__).parent
_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = queries.load(_TIMELINE / "timeline.sql", _HERE / "rows.sql", _HERE / "sessions.sql")

_CODING: Final = "sessions_daily_coding"
CODING: Final = pipeline.statement(SQL[_CODING])
"""How many coding sessions each day that overlaps a range of instants has, and how long they were."""
_BESIDE: Final = {_CODING: CODING}
"""What is read beside the app sessions of days."""


class SessionPage(InstantRange, Listed):
    """A range of instants, and the page of a list of sessions."""

    limit: Annotated[int, at_most(1000)] = Field(
        default=100, ge=0, description="Most rows of the answer; more than 1000 are 1000."
    )


class AppSessionPage(SessionPage):
    """The app sessions to list."""

    app: Text | None = Field(default=None, description="Only sessions of this application.")
    category: Text | None = Field(default=None, description="Only sessions in this category.")


class AppSession(Body):
    """One stretch in which an application had the focus on one device."""

    id: str
    started_at: Timestamp
    ended_at: Timestamp
    duration_ms: Milliseconds
    """From its start to its end, including time that another session owns."""
    app: str
    title: str | None
    """The title of the window; null where the tracker sent none."""
    url: str | None
    """The address of the page; null without one. The operator decides whether it keeps its query."""
    domain: str | None
    category: str
    productivity: Productivity
    idle: bool
    """Whether the person was away; idle time is not tracked time."""
    device: Device
    source: str | None
    """The tracker that sent it."""


class AppSessionsBody(Listing):
    """App sessions, the newest first."""

    range: InstantRangeEcho
    data: list[AppSession]
    removed_before: Timestamp | None
    """Sessions that ended before this have been removed; their sums remain. Null where it is before the
    range."""


class SessionOfApp(Body):
    """One session of an application."""

    id: str
    started_at: Timestamp
    ended_at: Timestamp
    duration_ms: Milliseconds
    """From its start to its end, including time that another session owns."""
    title: str | None
    """The title of the window; null where the tracker sent none."""


class SessionsOfApp(Body):
    """One application's sessions in the range."""

    app: str
    category: str
    """The category with most of the application's time in the range."""
    productivity: Productivity
    total_ms: Milliseconds
    percent: Percent | None
    """Of the tracked time; null where there is none."""
    session_count: Count
    average_ms: Milliseconds
    """The total divided by the number of sessions."""
    longest_ms: Milliseconds
    """The longest time that one session owned."""
    first_started_at: Timestamp | None
    """Start of the first time that the application owned; null where it owned none."""
    last_ended_at: Timestamp | None
    sessions: list[SessionOfApp]
    """The 20 newest, newest first."""


class SessionsByAppTotals(Body):
    """Sums over all applications."""

    tracked_ms: Milliseconds
    app_count: Count
    session_count: Count


class SessionsByAppBody(Body):
    """Sessions by application, most time first."""

    range: InstantRangeEcho
    data: list[SessionsOfApp]
    totals: SessionsByAppTotals
    removed_before: Timestamp | None
    """Single sessions that ended before this have been removed; the sums have their time. Null where it is
    before the range."""


Activity = Literal[
    "coding",
    "debugging",
    "building",
    "testing",
    "reviewing",
    "writing_docs",
    "ai_coding",
    "other",
]


class CodingSession(Body):
    """One stretch of work on a project in one editor."""

    id: str
    started_at: Timestamp
    ended_at: Timestamp
    duration_ms: Milliseconds
    """From its start to its end, including time that another session owns."""
    project: str
    language: str | None
    """The programming language; null where the tracker named none."""
    branch: str | None
    file: str | None
    editor: str | None
    activity: Activity
    lines_added: Count | None
    lines_removed: Count | None
    device: Device
    source: str | None
    """The tracker that sent it."""


class CodingSessionsBody(Listing):
    """Coding sessions, the newest first."""

    range: InstantRangeEcho
    data: list[CodingSession]
    removed_before: Timestamp | None
    """Sessions that ended before this have been removed; their sums remain. Null where it is before the
    range."""


class SessionsOfDay(Body):
    """One day's sessions; a session over midnight counts on both days, and its time is split."""

    date: CalendarDay
    session_count: Count
    app_count: Count
    tracked_ms: Milliseconds
    average_session_ms: Milliseconds | None
    """The tracked time divided by the number of sessions; null where there is none."""
    longest_session_ms: Milliseconds | None
    """The longest time that one session owned; null where there is no session."""
    longest_session_app: str | None
    """The application of that session; null where there is no session."""
    first_started_at: Timestamp | None
    """Start of the day's first tracked time; null where there is none."""
    last_ended_at: Timestamp | None
    coding_session_count: Count
    """Coding sessions that overlap the day."""
    coding_ms: Milliseconds


class SessionsDailyTotals(Body):
    """Sums over the range."""

    session_count: Count
    """Each session once, even if it counts on two days."""
    tracked_ms: Milliseconds


class SessionsDailyBody(OfSums):
    """Every day that overlaps the range, in order; days are clipped to the range."""

    range: InstantRangeEcho
    tz: str
    data: list[SessionsOfDay]
    totals: SessionsDailyTotals


def _steps(values: Mapping[str, Any], _: Answers) -> dict[str, Step]:
    """Return the statement about coding sessions, of the same days."""
    return {name: (statement, values) for name, statement in _BESIDE.items()}


def _finish(answers: Answers) -> dict[str, Any]:
    """Return the body: days with their coding sessions."""
    body: dict[str, Any] = answers["query"]
    for day in body["data"]:
        day.update(answers[_CODING]["days"].get(day["date"], {}))
    return body


ENDPOINTS: Final = [
    Endpoint(
        name="app_sessions",
        path="/api/v1/sessions/apps",
        scope="read:activity",
        summary="App sessions, the newest first.",
        params=AppSessionPage,
        body=AppSessionsBody,
        query=SQL["app_sessions"],
    ),
    Endpoint(
        name="sessions_by_app",
        path="/api/v1/sessions/by-app",
        scope="read:activity",
        summary="Sessions grouped by application, most time first.",
        params=InstantRange,
        body=SessionsByAppBody,
        query=SQL["sessions_by_app"],
    ),
    Endpoint(
        name="coding_sessions",
        path="/api/v1/sessions/coding",
        scope="read:activity",
        summary="Coding sessions, the newest first.",
        params=SessionPage,
        body=CodingSessionsBody,
        query=SQL["coding_sessions"],
    ),
    Endpoint(
        name="sessions_daily",
        path="/api/v1/sessions/daily",
        scope="read:activity",
        summary="The number and the length of sessions on each day.",
        params=InstantRangeInZone,
        body=SessionsDailyBody,
        query=SQL["sessions_daily"],
        further=Further(_BESIDE, _steps, _finish),
    ),
]

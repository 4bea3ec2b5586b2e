"""The tool get_content: calendar events, recordings, weekly insights and films."""

from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from resourceserver import timeline
from resourceserver.api.bodies import Body, CalendarDay, Count, Milliseconds, Timestamp
from resourceserver.mcp import tool
from resourceserver.mcp.arguments import WHOLE, InPeriod, Paged, Text
from resourceserver.mcp.tool import LONG_ROWS, MOST_ROWS, Page, Part, Tool

_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = tool.load(Path(__file__).with_name("content.sql"), _TIMELINE / "metrics.sql")

KINDS: Final = ("calendar", "recordings", "insights", "watching")


class Content(Paged, InPeriod):
    """Which rows to search, and how many to return."""

    kind: Literal["calendar", "recordings", "insights", "watching"] | None = Field(
        default=None,
        description="Default: all.",
    )
    search: Text | None = Field(
        default=None,
        description="Text in titles, descriptions, places, organizers, transcripts, summaries or genres, in"
        " any case: one word or a phrase.",
    )
    limit: Annotated[int, Field(ge=1, le=MOST_ROWS), WHOLE] = Field(
        default=LONG_ROWS, description="Most rows, newest first."
    )
    full: bool = Field(
        default=False,
        description="Whole texts as far as they fit (limit 1 for the longest), not 500 characters around"
        " the match.",
    )

    def values(self) -> dict[str, Any]:
        """Return the values with a list of kinds in place of one kind."""
        rest = super().values()
        kind = rest.pop("kind")
        return rest | {"kinds": list(KINDS) if kind is None else [kind]}


class _Excerpt(Body):
    """A text, or the part of a long one."""

    text: str | None
    is_cut: Literal[True] | None
    """The whole text is longer; left out where it is not."""
    text_from: Count | None
    """The position of the first character in the whole text, from 1; left out unless it is cut."""
    text_length: Count | None
    """The number of characters of the whole text; left out unless it is cut."""


class Event(_Excerpt):
    """An event of a calendar; its text is the description."""

    kind: Literal["calendar"]
    starts_at: Timestamp
    ends_at: Timestamp
    duration_ms: Milliseconds
    all_day: bool
    start_date: CalendarDay | None
    """Only for all-day events."""
    end_date: CalendarDay | None
    """The day after the last one."""
    title: str | None
    location: str | None
    calendar: str
    status: Literal["confirmed", "tentative"]
    response: Literal["accepted", "declined", "tentative", "needs_action"] | None
    """The person's own response."""
    organizer: str | None
    organizer_is_self: bool
    attendee_count: Count
    recurring: bool


class Recording(_Excerpt):
    """A voice recording, without what only programs need; its text is the transcript."""

    kind: Literal["recordings"]
    recorded_at: Timestamp
    duration_ms: Milliseconds
    title: str | None
    transcript_status: Literal["pending", "failed", "none"] | None
    """Null if it is ready."""


class Insight(_Excerpt):
    """A text about one week; its text is Markdown."""

    kind: Literal["insights"]
    week_start: CalendarDay
    week_end: CalendarDay
    """The last day of the week."""
    title: str
    model: str | None
    """The program that wrote it."""


class Play(_Excerpt):
    """A film or an episode that was watched; it has no text."""

    kind: Literal["watching"]
    watched_at: Timestamp
    watch_ms: Milliseconds
    type: Literal["movie", "show"]
    title: str
    season: int | None
    episode: int | None
    genres: list[str]


class EventTotals(Body):
    """Of all matching events of the range, without cancelled ones."""

    event_count: Count
    meeting_count: Count
    """Confirmed events that the person accepted, without all-day events."""
    meeting_ms: Milliseconds
    """Within the range; where meetings overlap, their time is counted once."""


class RecordingTotals(Body):
    """Of all matching recordings of the range."""

    recording_count: Count
    duration_ms: Milliseconds


class InsightTotals(Body):
    """Of all matching weeks that overlap the range."""

    insight_count: Count


class PlayTotals(Body):
    """Of all matching films and episodes of the range."""

    play_count: Count
    title_count: Count
    watch_ms: Milliseconds


class Totals(Body):
    """Totals of each kind; null for a kind that was not requested."""

    calendar: EventTotals | None
    recordings: RecordingTotals | None
    insights: InsightTotals | None
    watching: PlayTotals | None


class ContentAnswer(Page):
    """Matching rows, the newest first. Titles and names have at most 500 characters."""

    data: list[Annotated[Event | Recording | Insight | Play, Field(discriminator="kind")]]
    """Events, recordings, insights and films, each with its kind. The newest come first."""
    count: Count
    """The number of matching rows, including those that are not in data."""
    totals: Totals


_WHOLE: Final = {"is_cut": None, "text_from": None, "text_length": None}
"""What a row says of a text that is not cut."""


def _finished(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer with the rows of all kinds in one list; the first row always fits."""
    rows = [row["line"] | row["excerpt"] | {"cursor": row["cursor"]} for row in answer["data"]]
    answer = answer | {"data": rows[:1]}
    while rows and rows[0]["text"] and tool.is_too_long(answer):
        rows[0] |= {"text": rows[0]["text"][: len(rows[0]["text"]) * 9 // 10], "is_cut": True}
    return answer | {"data": [row if row["is_cut"] else row | _WHOLE for row in rows]}


TOOLS: Final = [
    Tool(
        name="get_content",
        title="Calendar, recordings, weekly insights and watching",
        description="Calendar events with the number and time of meetings, voice recordings with transcripts,"
        " weekly insights, films and shows. Use it for 'How many meetings did I have?', 'What did I say about"
        " pricing?' (search; period all if no time is named) and 'What did I watch?'. Not for music or for"
        " windows on the screen.",
        scope="read:content",
        arguments=Content,
        answer=ContentAnswer,
        frame=SQL["period"],
        looks_ahead=True,
        parts=(Part(SQL["get_content"]),),
        finish=_finished,
        rows="data",
    )
]

"""What somebody planned, recorded, was told of their weeks and watched, as an assistant tells of it."""

from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from resourceserver import timeline
from resourceserver.api.bodies import Body, CalendarDay, Count, Milliseconds, Timestamp
from resourceserver.mcp import tool
from resourceserver.mcp.arguments import WHOLE, InPeriod, Text
from resourceserver.mcp.tool import MOST_ROWS, Answer, Part, Tool

_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = tool.load(Path(__file__).with_name("content.sql"), _TIMELINE / "metrics.sql")

KINDS: Final = ("calendar", "recordings", "insights", "watching")


class Content(InPeriod):
    """What to look for, and how much of it to show."""

    kind: Literal["calendar", "recordings", "insights", "watching"] | None = Field(
        default=None,
        description="calendar for events and meetings, recordings for voice recordings and what was said in"
        " them, insights for what was written about each week, watching for films and shows."
        " Leave it out for all of them.",
    )
    search: Text | None = Field(
        default=None,
        description="Only what has this text in a title, description, place, organizer, transcript,"
        " summary, name or genre, literally but for case: one word or a phrase finds more than a question.",
    )
    limit: Annotated[int, Field(ge=1, le=MOST_ROWS), WHOLE] = Field(
        default=20, description="Most rows, the newest first."
    )
    full: bool = Field(
        default=False,
        description="Whether long texts come whole, as far as the answer has room; else there are 2,000"
        " characters of each, from around where search is found. Ask with limit 1 for most room.",
    )

    def values(self) -> dict[str, Any]:
        """Return, in place of a kind, those that are asked for."""
        rest = super().values()
        kind = rest.pop("kind")
        return rest | {"kinds": list(KINDS) if kind is None else [kind]}


class _Excerpt(Body):
    """What is shown of a long text."""

    text: str | None
    text_from: Count | None
    """Which character of the whole the text begins with, from 1."""
    text_length: Count | None
    """How many characters the whole has."""
    is_cut: bool
    """Whether there is more of it."""


class Event(_Excerpt):
    """An event of a calendar; its text is the description."""

    kind: Literal["calendar"]
    starts_at: Timestamp
    ends_at: Timestamp
    duration_ms: Milliseconds
    all_day: bool
    start_date: CalendarDay | None
    """Only of events of whole days."""
    end_date: CalendarDay | None
    """The day after the last one."""
    title: str | None
    location: str | None
    calendar: str
    status: Literal["confirmed", "tentative"]
    response: Literal["accepted", "declined", "tentative", "needs_action"] | None
    """The person's own."""
    organizer: str | None
    organizer_is_self: bool
    attendee_count: Count
    recurring: bool


class Recording(_Excerpt):
    """A voice recording; its text is what was said."""

    kind: Literal["recordings"]
    recorded_at: Timestamp
    duration_ms: Milliseconds
    title: str | None
    language: str | None
    source: str
    transcript_status: Literal["ready", "pending", "failed", "none"]


class Insight(_Excerpt):
    """What was written about a week; its text is Markdown."""

    kind: Literal["insights"]
    week_start: CalendarDay
    week_end: CalendarDay
    """The last day of the week."""
    title: str
    model: str | None
    """What wrote it."""


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
    """Of all events of the range that fit, cancelled ones left out."""

    event_count: Count
    meeting_count: Count
    """Confirmed events that the person accepted, but for those of whole days."""
    meeting_ms: Milliseconds
    """Within the range, times of meetings that overlap counted once."""


class RecordingTotals(Body):
    """Of all recordings of the range that fit."""

    recording_count: Count
    duration_ms: Milliseconds


class InsightTotals(Body):
    """Of all weeks that touch the range and fit."""

    insight_count: Count


class PlayTotals(Body):
    """Of all that was watched in the range and fits."""

    play_count: Count
    title_count: Count
    watch_ms: Milliseconds


class Totals(Body):
    """Of each kind; null for one that was not asked for."""

    calendar: EventTotals | None
    recordings: RecordingTotals | None
    insights: InsightTotals | None
    watching: PlayTotals | None


class ContentAnswer(Answer):
    """What fits, the newest first. Titles and names have 500 characters at most."""

    data: list[Annotated[Event | Recording | Insight | Play, Field(discriminator="kind")]]
    count: Count
    """How many fit, shown or not."""
    totals: Totals


def _finished(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer with rows in one piece, of which the first one has room in any case."""
    rows = [row["line"] | row["excerpt"] for row in answer["data"]]
    answer = answer | {"data": rows[:1]}
    while rows and rows[0]["text"] and tool.is_too_long(answer):
        rows[0] |= {"text": rows[0]["text"][: len(rows[0]["text"]) * 9 // 10], "is_cut": True}
    return answer | {"data": rows}


TOOLS: Final = [
    Tool(
        name="get_content",
        title="Calendar, recordings, weekly insights and watching",
        description="What the person planned, said, read about their weeks and watched in a period: calendar"
        " events and how many meetings for how long, voice recordings with transcripts, weekly insights,"
        " films and shows. Use it for 'How many meetings did I have?', 'What did I say about pricing?' (with"
        " search, and period all if no time is named) and 'What did I watch?'. Not for music or for what was"
        " on the screen.",
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

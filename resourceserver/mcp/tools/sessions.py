"""The tool list_sessions: single sessions, by time or by text."""

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from resourceserver import endpoints, timeline
from resourceserver.api.bodies import Body, Count, Milliseconds, Productivity, Timestamp
from resourceserver.api.parameters import FIRST_DAY, LAST_DAY
from resourceserver.endpoints.sessions import Activity
from resourceserver.mcp import names, tool
from resourceserver.mcp.arguments import (
    MILLISECOND,
    WHOLE,
    Arguments,
    Filtered,
    Kind,
    Paged,
    Text,
    Time,
    ends_of_time,
)
from resourceserver.mcp.tool import ENTRY, LONG_ROWS, Page, Part, Tool

_ENDPOINTS: Final = Path(endpoints.__file__).parent
_HERE: Final = Path(__file__).parent
_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = tool.load(
    _HERE / "sessions.sql",
    _HERE / "filter.sql",
    _HERE / "names.sql",
    _TIMELINE / "timeline.sql",
    _ENDPOINTS / "rows.sql",
)

MOST: Final = 200


class Sessions(Paged, Filtered):
    """Which sessions, and which page of them."""

    search: Text | None = Field(
        default=None,
        description="Text in the title of the window, for coding in file or branch, in any case.",
    )
    at: Time | None = Field(
        default=None,
        description="In place of a period: what ran at this time, such as 2025-06-17T14:15.",
    )
    limit: Annotated[int, Field(ge=1, le=MOST), WHOLE] = Field(
        default=LONG_ROWS, description="Most rows."
    )

    @model_validator(mode="after")
    def _asks_for_one_time(self) -> Self:
        if self.at is None:
            return self
        reason = None
        if any(given is not None for given in (self.period, self.from_, self.to)):
            reason = "give either at, or period, or from and to"
        elif not FIRST_DAY <= self.at.date() <= LAST_DAY:
            reason = f"at must be between {FIRST_DAY} and {LAST_DAY}"
        if reason is not None:
            raise PydanticCustomError("contradiction", "{reason}", {"reason": reason})
        return self

    def values(self) -> dict[str, Any]:
        """Return the values with the millisecond of an instant as the period."""
        rest = super().values()
        at = rest.pop("at")
        if at is None:
            return rest
        return rest | ends_of_time(at, at + MILLISECOND) | {"period": None}

    def times(self) -> list[datetime]:
        """Return the arguments that are times."""
        return super().times() if self.at is None else [self.at]


class AppSession(Body):
    """One stretch in which an application had the focus on one device."""

    started_at: Timestamp
    ended_at: Timestamp
    duration_ms: Milliseconds
    """From its start to its end, even if other sessions ran at the same time."""
    app: str
    title: str | None
    url: str | None
    """The first 500 characters."""
    domain: str | None
    category: str
    productivity: Productivity
    idle: bool
    """Whether the person was away; idle time is not tracked time."""
    device: str


class CodingSession(Body):
    """One stretch of work on a project in one editor."""

    started_at: Timestamp
    ended_at: Timestamp
    duration_ms: Milliseconds
    """From its start to its end, even if other sessions ran at the same time."""
    project: str
    language: str | None
    branch: str | None
    file: str | None
    editor: str | None
    activity: Activity
    lines_added: Count | None
    """Null if its tracker did not count lines."""
    lines_removed: Count | None
    device: str


class SessionsAnswer(Page):
    """Sessions that overlap the range, the one that started last first."""

    kind: Kind
    data: list[AppSession] | list[CodingSession]
    """Sessions of one kind, the one that started last first."""
    unmatched: list[names.Unmatched]
    """Names in the filter that occur nowhere in the person's data."""


def _has_names(given: Arguments) -> bool:
    return isinstance(given, Filtered) and given.has_names()


def _finished(answer: dict[str, Any]) -> dict[str, Any]:
    return answer | {"unmatched": names.unmatched(answer.pop("names"))}


TOOLS: Final = [
    Tool(
        name="list_sessions",
        title="Sessions",
        description="Single sessions, newest first: which window was open, or which file was edited, from"
        " when to when. Use it for 'What was I doing Tuesday at 14:15?' (at) and 'When did I last look at the"
        " budget sheet?' (search, period all). Of several at once, the first that is not idle owns the time."
        " Not for sums of time: rows may overlap.",
        scope=ENTRY,
        arguments=Sessions,
        answer=SessionsAnswer,
        frame=SQL["period"],
        parts=(
            Part(SQL["list_sessions"]),
            Part(SQL["names_of_filter"], name="names", is_wanted=_has_names),
        ),
        finish=_finished,
        rows="data",
        most_rows=MOST,
    )
]

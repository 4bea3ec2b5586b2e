"""The tool get_code_activity: commits, pull requests and reviews."""

from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from resourceserver import endpoints, timeline
from resourceserver.api.bodies import Body, Count, Timestamp
from resourceserver.endpoints.code import Action, CountTotals, EventType, TypeCount
from resourceserver.mcp import names, tool
from resourceserver.mcp.arguments import WHOLE, Arguments, InPeriod, Paged, Text
from resourceserver.mcp.tool import LONG_ROWS, MOST_ROWS, Page, Part, Tool

_ENDPOINTS: Final = Path(endpoints.__file__).parent
_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = tool.load(
    Path(__file__).with_name("code.sql"),
    Path(__file__).with_name("names.sql"),
    _TIMELINE / "timeline.sql",
    _ENDPOINTS / "rows.sql",
    _ENDPOINTS / "code.sql",
)

MOST_REPOSITORIES: Final = 20


class CodeActivity(Paged, InPeriod):
    """Which events to count, and how many to list."""

    repository: Text | None = Field(
        default=None,
        description="Whole name, such as alice/site, or its last part.",
    )
    type: EventType | None = Field(default=None, description="Default: all.")
    limit: Annotated[int, Field(ge=1, le=MOST_ROWS), WHOLE] = Field(
        default=LONG_ROWS, description="Most events listed; counts include all."
    )


class ActionCount(Body):
    """The number of events with an action."""

    type: EventType
    action: Action
    """Commits are pushed; pull requests opened, merged, closed or reopened; the rest is of reviews."""
    count: Count


class RepositoryCount(Body):
    """The events of one repository; lines are those of commits."""

    name: str
    provider: str
    commits: Count
    pull_requests: Count
    reviews: Count
    additions: Count
    deletions: Count


class RecentEvent(Body):
    """One commit, or one event of a pull request or review."""

    type: EventType
    action: Action
    occurred_at: Timestamp
    repository: str
    title: str | None
    """The first 500 characters. The url is cut likewise."""
    url: str | None
    ref: str | None
    """The branch or tag."""
    number: int | None
    """The title of the pull request."""
    additions: Count | None
    """Changed lines; null if the provider did not report them."""
    deletions: Count | None
    changed_files: Count | None


class CodeActivityAnswer(Page):
    """Counts and changed lines of the whole range, and its newest events."""

    totals: CountTotals
    types: list[TypeCount]
    """Always all three."""
    pull_requests_opened: Count
    """Distinct pull requests; counts of types, actions and repositories are of events."""
    pull_requests_merged: Count
    actions: list[ActionCount]
    """The most frequent first."""
    repositories: list[RepositoryCount]
    """The 20 with most events, most first."""
    recent: list[RecentEvent]
    """The newest first."""


def _names_repository(given: Arguments) -> bool:
    return isinstance(given, CodeActivity) and given.repository is not None


def _busiest(answer: dict[str, Any]) -> dict[str, Any]:
    names.unmatched(answer.pop("names"))
    repositories = answer["repositories"][:MOST_REPOSITORIES]
    is_cut = len(repositories) < len(answer["repositories"])
    return answer | {"repositories": repositories, "truncated": answer["truncated"] or is_cut}


TOOLS: Final = [
    Tool(
        name="get_code_activity",
        title="Code activity",
        description="Commits, pull requests and reviews at code hosts: counts, lines added and removed,"
        " repositories, and the newest with titles. Use it for 'What did I ship this week?', 'How many pull"
        " requests did I merge?' and 'Which repository did I work on most?'. Not for hours of coding or"
        " languages: use get_time_breakdown.",
        scope="read:code",
        arguments=CodeActivity,
        answer=CodeActivityAnswer,
        frame=SQL["period"],
        parts=(
            Part(SQL["get_code_activity"]),
            Part(SQL["names_of_repositories"], name="names", is_wanted=_names_repository),
        ),
        finish=_busiest,
        rows="recent",
        other_rows=("repositories",),
    )
]

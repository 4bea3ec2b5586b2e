"""What happened at code hosts, as an assistant tells of it."""

from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from resourceserver import endpoints, timeline
from resourceserver.api.bodies import Body, Count, Timestamp
from resourceserver.endpoints.code import Action, CountTotals, EventType, TypeCount
from resourceserver.mcp import names, tool
from resourceserver.mcp.arguments import WHOLE, Arguments, InPeriod, Text
from resourceserver.mcp.tool import MOST_ROWS, Answer, Part, Tool

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


class CodeActivity(InPeriod):
    """What of it is asked for, and how much is listed."""

    repository: Text | None = Field(
        default=None,
        description="Only what happened in this repository: its whole name, such as alice/site, or the"
        " last part of it. Case counts for nothing.",
    )
    type: EventType | None = Field(default=None, description="Only events of this type.")
    limit: Annotated[int, Field(ge=1, le=MOST_ROWS), WHOLE] = Field(
        default=20, description="How many of the newest events are listed. Counts are of all."
    )


class ActionCount(Body):
    """How often something was done."""

    type: EventType
    action: Action
    """Commits are pushed; pull requests opened, merged, closed or reopened; the rest is of reviews."""
    count: Count


class RepositoryCount(Body):
    """How much happened in one repository; lines are those of commits."""

    name: str
    provider: str
    commits: Count
    pull_requests: Count
    reviews: Count
    additions: Count
    deletions: Count


class RecentEvent(Body):
    """One commit, or one thing that happened to a pull request or by a review."""

    id: str
    type: EventType
    action: Action
    occurred_at: Timestamp
    repository: str
    title: str | None
    """The first 500 characters, as of the address."""
    url: str | None
    ref: str | None
    """The branch or tag."""
    number: int | None
    """Of the pull request."""
    additions: Count | None
    """Lines; null where the provider did not say."""
    deletions: Count | None
    changed_files: Count | None


class CodeActivityAnswer(Answer):
    """Counts and changed lines, all of the range, and its newest events."""

    totals: CountTotals
    types: list[TypeCount]
    """Always all three."""
    pull_requests_opened: Count
    """Distinct pull requests; counts of types, actions and repositories are of events."""
    pull_requests_merged: Count
    actions: list[ActionCount]
    """The most frequent first."""
    repositories: list[RepositoryCount]
    """The 20 in which most happened, these first."""
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
        description="Commits, pull requests and reviews of the person at code hosts in a period: how many,"
        " lines added and removed, in which repositories, and the newest ones with their titles. Use it for"
        " 'What did I ship this week?', 'How many pull requests did I merge?' and 'Which repository did I"
        " work on most?'. Not for hours of coding or languages, which get_time_breakdown tells.",
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

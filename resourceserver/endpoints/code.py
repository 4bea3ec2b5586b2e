"""Events of code hosts: commits, pull requests and reviews."""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from resourceserver import timeline
from resourceserver.api.bodies import Body, Count, InstantRangeEcho, Listing, Timestamp
from resourceserver.api.endpoint import Endpoint
from resourceserver.api.parameters import InstantRange, Listed, OpenInstantRange, at_most
from shared import queries

_HERE: Final = Path(__file__).parent
_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = queries.load(_TIMELINE / "timeline.sql", _HERE / "rows.sql", _HERE / "code.sql")

EventType = Literal["commit", "pull_request", "review"]
Action = Literal[
    "pushed",
    "opened",
    "merged",
    "closed",
    "reopened",
    "approved",
    "changes_requested",
    "commented",
    "dismissed",
]


class ActivityPage(OpenInstantRange, Listed):
    """The range of events, and the page of the list."""

    limit: Annotated[int, at_most(500)] = Field(
        default=50, ge=0, description="Most rows of the answer; more than 500 are 500."
    )


class Repository(Body):
    """The repository of an event."""

    name: str
    """Owner and name, such as ``me/svc``."""
    private: bool | None
    """Whether it is private; null where the provider did not say."""


class CodeEvent(Body):
    """One commit, or one event of a pull request or review."""

    id: str
    type: EventType
    """A commit, a pull request or a review."""
    action: Action
    """Commits are pushed; pull requests opened, merged, closed or reopened; the others are of reviews."""
    occurred_at: Timestamp
    """When it happened."""
    provider: str
    repository: Repository
    """The repository in which it happened."""
    title: str | None
    """The first line of a commit's message, or the title of the pull request."""
    url: str | None
    """The page of the provider about it; null without one."""
    ref: str | None
    """The branch or tag."""
    sha: str | None
    """The hash of the commit; null for other events."""
    number: int | None
    """The number of the pull request."""
    state: str | None
    """The state of the pull request or review; null for commits."""
    additions: Count | None
    deletions: Count | None
    changed_files: Count | None


class ActivityBody(Listing):
    """Events, the newest first."""

    data: list[CodeEvent]


class TypeCount(Body):
    """The events of one type."""

    type: EventType
    count: Count
    """Events of this type."""
    additions: Count
    """Changed lines, as far as the provider reported them."""
    deletions: Count
    changed_files: Count
    repository_count: Count
    """Different repositories."""


class CountTotals(Body):
    """Sums over the types; lines are those of commits, which pull requests repeat."""

    count: Count
    """Events of all types."""
    additions: Count
    """Lines that commits added."""
    deletions: Count
    """Lines that commits removed."""


class CountsBody(Body):
    """Counts and changed lines of each type, always all three."""

    range: InstantRangeEcho
    data: list[TypeCount]
    totals: CountTotals


class RepositoryCount(Body):
    """The events of one repository."""

    name: str
    """Owner and name, such as ``me/svc``."""
    provider: str
    commits: Count
    """Pushed commits."""
    pull_requests: Count
    """Events of pull requests."""
    reviews: Count
    """Events of reviews."""
    count: Count
    """Events of all types."""
    additions: Count
    """Lines that commits added."""
    deletions: Count
    """Lines that commits removed."""


class RepositoryTotals(CountTotals):
    """Sums over all repositories, also over those that are not listed."""

    repository_count: Count
    """Different repositories."""


class RepositoriesBody(Body):
    """The repositories with events in the range, those with most events first, at most 100."""

    range: InstantRangeEcho
    data: list[RepositoryCount]
    totals: RepositoryTotals


ENDPOINTS: Final = [
    Endpoint(
        name="codehost_activity",
        path="/api/v1/codehost/activity",
        scope="read:code",
        summary="Commits, pull requests and reviews, the newest first.",
        params=ActivityPage,
        body=ActivityBody,
        query=SQL["codehost_activity"],
    ),
    Endpoint(
        name="codehost_counts",
        path="/api/v1/codehost/activity/counts",
        scope="read:code",
        summary="Counts and changed lines per type of event.",
        params=InstantRange,
        body=CountsBody,
        query=SQL["codehost_counts"],
    ),
    Endpoint(
        name="codehost_repositories",
        path="/api/v1/codehost/repositories",
        scope="read:code",
        summary="Counts and changed lines per repository, most events first.",
        params=InstantRange,
        body=RepositoriesBody,
        query=SQL["codehost_repositories"],
    ),
]

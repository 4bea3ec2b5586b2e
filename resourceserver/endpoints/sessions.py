"""Sessions one by one, as trackers sent them."""

from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from resourceserver.bodies import (
    Body,
    Device,
    InstantRangeEcho,
    Listing,
    Milliseconds,
    Productivity,
    Timestamp,
)
from resourceserver.endpoint import Endpoint
from resourceserver.parameters import InstantRange, Listed, Text, at_most
from shared import queries

_HERE: Final = Path(__file__).parent
SQL: Final = queries.load(_HERE / "timeline.sql", _HERE / "sessions.sql")


class SessionPage(InstantRange, Listed):
    """A range of instants, and which part of a list of sessions."""

    limit: Annotated[int, at_most(1000)] = Field(
        default=100, ge=0, description="Most rows of the answer; more than 1000 are 1000."
    )


class AppSessionPage(SessionPage):
    """Which app sessions."""

    app: Text | None = Field(default=None, description="Only sessions of this application.")
    category: Text | None = Field(default=None, description="Only sessions in this category.")


class AppSession(Body):
    """One stretch in which an application had the focus on one device."""

    id: str
    started_at: Timestamp
    ended_at: Timestamp
    duration_ms: Milliseconds
    """From its start to its end, whoever owned the time."""
    app: str
    title: str | None
    url: str | None
    domain: str | None
    category: str
    productivity: Productivity
    idle: bool
    """Whether nobody was there; such time is not tracked time."""
    device: Device
    source: str | None
    """The tracker that sent it."""


class AppSessionsBody(Listing):
    """App sessions, the newest first."""

    range: InstantRangeEcho
    data: list[AppSession]


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
]

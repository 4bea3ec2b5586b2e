"""The caller's own profile."""

from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from resourceserver.bodies import Body, Timestamp
from resourceserver.endpoint import Endpoint
from resourceserver.parameters import NoParams
from shared import queries

SQL: Final = queries.load(Path(__file__).with_name("profile.sql"))


class Profile(Body):
    """Who the caller is."""

    id: str
    email: str
    display_name: str | None
    timezone: str
    """An IANA time zone."""
    is_admin: bool
    week_starts_on: Annotated[int, Field(ge=1, le=7)]
    """An ISO weekday: 1 is Monday."""
    created_at: Timestamp


class MeBody(Body):
    """The caller's profile."""

    data: Profile


ENDPOINTS: Final = [
    Endpoint(
        name="me",
        path="/api/v1/me",
        scope="read:profile",
        summary="The caller's profile, time zone and admin flag.",
        params=NoParams,
        body=MeBody,
        query=SQL["me"],
        is_quick=True,
    ),
]

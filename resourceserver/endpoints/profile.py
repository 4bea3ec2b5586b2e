"""The caller: token, profile, integrations, organizations and teams, and subscription."""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from resourceserver.api.bodies import Body, Count, Timestamp
from resourceserver.api.endpoint import Endpoint
from resourceserver.api.parameters import NoParams
from shared import queries

SQL: Final = queries.load(Path(__file__).with_name("profile.sql"))


class Profile(Body):
    """The profile of an account."""

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
    """The profile of the token's owner."""


class Token(Body):
    """A token, without anything about its owner."""

    kind: Literal["api_token", "oauth"]
    """`api_token`: its owner created it in Settings; `oauth`: it was issued to an application."""
    scopes: list[str]
    """What it opens now: a refresh may have narrowed it."""
    resource: str | None
    """The only resource that it opens; null if it opens the whole service."""
    name: str
    """The name of an API token, or that of the application, as Settings lists it."""
    application: str | None
    """The client id of the application; null for an API token."""
    created_at: Timestamp
    expires_at: Timestamp | None
    """When it expires, or when the access that was granted ends, if that is earlier; null if it does not."""


class TokenBody(Body):
    """The token of the request."""

    data: Token
    """The token that the request was sent with."""


class SourceGap(Body):
    """A stretch of time into which no file of a source reaches."""

    starts_at: Timestamp
    ends_at: Timestamp


class ImportedRecords(Body):
    """What became of the records that an import has read, as in its receipt."""

    read: Count
    """All of them, the sum of the others."""
    new: Count
    """Those that were written for the first time."""
    known: Count
    """Those that were here already."""
    changed: Count
    """Those that changed a record that was known."""
    refused: Count
    """Those that were not written; the receipt has the reasons."""


class Integration(Body):
    """One way by which data comes from a provider; credentials are never returned."""

    provider: str
    """The service, or the name that a tracker sends; `unknown` if it sends none."""
    kind: str
    """The main kind of data that it sends, such as code or health."""
    via: Literal["connection", "import", "receiver", "tracker"]
    """How the data comes: from an account that this service reads (`connection`), in files that the person
    brought, from an application that sends with a key of its own (`receiver`), or from a tracker on the
    person's machines. A provider has a row for each way, and for each of several connections or receivers.
    What is said of connections below is true of receivers too."""
    name: str | None
    """The name that its person gave a connection; null for files and trackers."""
    connected: bool
    """The state of the connection; one with an error is still connected. False for files: they were brought,
    and nothing is connected. A tracker is connected if it has sent something within 24 hours."""
    status: Literal["active", "error", "expired", "disconnected"]
    """Always `disconnected` for files; `active` or `disconnected` for a tracker."""
    connected_at: Timestamp | None
    """When it was connected, or the first device of a tracker was first seen; null if it never was."""
    last_sync_at: Timestamp | None
    """When data last arrived, a service was last read without a problem, or a file was last brought; null if
    this never happened."""
    first_record_at: Timestamp | None
    """The first record of a connection or of all files, or the start of a tracker's first event; null where
    it is not known."""
    last_record_at: Timestamp | None
    """The last record of a connection or of all files, or the end of a tracker's newest event; null where
    it is not known."""
    gaps: list[SourceGap] | None
    """The three longest stretches of more than a day between the first and the last record into which no
    file reaches, the earliest first; null where this is not known."""
    refused: Count | None
    """How many records of a connection, or of the newest import, were refused; null for a tracker."""
    last_error: str | None
    """The code of the last error: of a connection why nothing comes, such as `key_refused`; of the newest
    import of files `interrupted`, `unreadable` for a file that could not be read to its end, or why most of
    the refused records were refused."""
    problem: str | None
    """What went wrong in the newest import of files, in words; of a connection that fails, since when;
    null if nothing did."""
    records: ImportedRecords | None
    """Of files, the records of the newest import; null for other ways."""


class IntegrationsBody(Body):
    """Integrations by the provider's name; the 50 trackers at most that sent last."""

    data: list[Integration]
    count: Count


class Organization(Body):
    """One organization, and the caller's role in it."""

    id: str
    name: str
    slug: str
    """The name that is used in addresses."""
    role: Literal["owner", "admin", "member"]
    joined_at: Timestamp


class OrgsBody(Body):
    """Organizations by name."""

    data: list[Organization]
    count: Count


class TeamOrganization(Body):
    """The organization of a team."""

    id: str
    name: str


class Team(Body):
    """One team, and the caller's role in it."""

    id: str
    name: str
    organization: TeamOrganization
    """The organization of the team."""
    role: Literal["lead", "member"]
    joined_at: Timestamp


class TeamsBody(Body):
    """Teams by name."""

    data: list[Team]
    count: Count


class Subscription(Body):
    """Plan and billing state."""

    plan: str
    """`self_hosted` for people who run the service themselves."""
    status: Literal["active", "trialing", "past_due", "canceled", "none"]
    """The state of the subscription."""
    billing: str
    """The company that bills; `none` without one."""
    interval: str | None
    """The billing interval."""
    current_period_start: Timestamp | None
    """Start of the paid period; null without one."""
    current_period_end: Timestamp | None
    """End of the paid period; null without one."""
    cancel_at_period_end: bool
    """Whether it ends with the paid period."""
    trial_ends_at: Timestamp | None
    """End of the trial; null without one."""
    seats: Annotated[int, Field(ge=1)]
    """The number of people that it covers."""


class SubscriptionBody(Body):
    """The caller's subscription."""

    data: Subscription
    """The subscription of the token's owner."""


ENDPOINTS: Final = [
    Endpoint(
        name="token",
        path="/api/v1/token",
        scope=None,
        summary="The token of the request: its scopes, its name and its end.",
        params=NoParams,
        body=TokenBody,
        query=SQL["token"],
        is_quick=True,
    ),
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
    Endpoint(
        name="integrations",
        path="/api/v1/integrations",
        scope="read:profile",
        summary="Where data comes from: connections, receivers, files, trackers; never credentials.",
        params=NoParams,
        body=IntegrationsBody,
        query=SQL["integrations"],
    ),
    Endpoint(
        name="orgs",
        path="/api/v1/orgs",
        scope="read:profile",
        summary="Organizations to which the caller belongs.",
        params=NoParams,
        body=OrgsBody,
        query=SQL["orgs"],
        is_quick=True,
    ),
    Endpoint(
        name="teams",
        path="/api/v1/teams",
        scope="read:profile",
        summary="Teams to which the caller belongs.",
        params=NoParams,
        body=TeamsBody,
        query=SQL["teams"],
        is_quick=True,
    ),
    Endpoint(
        name="subscription",
        path="/api/v1/account/subscription",
        scope="read:profile",
        summary="Plan and billing state.",
        params=NoParams,
        body=SubscriptionBody,
        query=SQL["subscription"],
        is_quick=True,
    ),
]

"""The tool get_data_status: which data there is, from when to when, and which scopes are missing."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from resourceserver.api.bodies import Body, CalendarDay, Count, Timestamp
from resourceserver.endpoints import devices, profile
from resourceserver.endpoints.devices import Tracker
from resourceserver.endpoints.profile import Integration, SourceGap, Token
from resourceserver.mcp import tool
from resourceserver.mcp.arguments import InZone
from resourceserver.mcp.tool import ENTRY, Answer, Part, Tool
from shared.scopes import SCOPES

SQL: Final = tool.load(Path(__file__).with_name("status.sql"))

MOST_DEVICES: Final = 100
MOST_ROWS: Final = 100_000
"""How many rows of a domain are counted at most: counting the millions of a decade took seconds."""


class Status(InZone):
    """The time zone in which days are counted."""

    def values(self) -> dict[str, object]:
        """Return the values with reading scopes, the last 14 days, and the first page of devices."""
        readable = [scope for scope in SCOPES if scope.startswith("read:")]
        page = devices.DevicePage().values() | {"limit": MOST_DEVICES}
        fourteen_days = {"first_back": 13, "last_back": 0}
        own = {"readable": readable, "most_rows": MOST_ROWS}
        return super().values() | fourteen_days | own | page


class Domain(Body):
    """One kind of data; all but its name and scope is null if the scope is missing."""

    domain: str
    scope: str
    is_visible: bool
    """Whether the token has the scope."""
    rows: Annotated[int, Field(ge=0, le=MOST_ROWS)] | None
    """100000 also if there are more, which are not counted."""
    has_more_rows: bool | None
    """Whether there are more than ``rows``."""
    first_day: CalendarDay | None
    last_day: CalendarDay | None
    last_sync_at: Timestamp | None
    """When a tracker last sent any data, even if it was not new; null if this is not recorded."""


class Scopes(Body):
    """The scopes that the assistant has, and those that it lacks."""

    held: list[str]
    missing: list[str]


class Person(Body):
    """The person whose data this is."""

    display_name: str | None
    email: str
    timezone: str
    week_starts_on: int
    """An ISO weekday: 1 is Monday."""


class Device(Body):
    """One device; a part of what the endpoint of devices has."""

    name: str
    display_name: str | None
    platform: str | None
    source: str | None
    streams: list[Literal["app_sessions", "coding_sessions"]]
    last_sync_at: Timestamp | None
    """When its last batch was accepted, even if it had nothing new."""
    last_event_at: Timestamp | None
    event_count: Count
    status: Literal["active", "stale"]
    retired_at: Timestamp | None


class Source(Body):
    """One way by which data comes from a provider; a part of what the endpoint of integrations has."""

    provider: str
    kind: str
    via: Literal["connection", "import", "receiver", "tracker"]
    """`receiver`: an application sends; `connection`: the service reads an account."""
    name: str | None
    status: Literal["active", "error", "expired", "disconnected"]
    last_sync_at: Timestamp | None
    last_record_at: Timestamp | None
    gaps: list[SourceGap] | None
    refused: Count | None
    last_error: str | None
    problem: str | None


class StatusAnswer(Answer):
    """The data of each device and domain, and the gaps of the last 14 days."""

    domains: list[Domain]
    devices: list[Device]
    """At most 100, by the time of their last data, the latest first."""
    integrations: list[Source] | None
    """Connections, receivers, files that were brought, with their gaps and last error, and trackers. Null if
    the scope read:profile is missing."""
    profile: Person | None
    """Null if the scope read:profile is missing."""
    scopes: Scopes
    token: Token
    """The token of this call."""


def _unwrapped(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer with what the endpoints return as ``data``; integrations only if the token may
    read them.
    """
    devices, integrations = answer.pop("devices"), answer.pop("integrations")
    return answer | {
        "devices": _without(devices["data"], Tracker, Device),
        "integrations": None
        if integrations is None
        else _without(integrations["data"], Integration, Source),
        "token": answer.pop("token")["data"],
    }


def _without(
    rows: Iterable[Mapping[str, Any]], whole: type[Body], part: type[Body]
) -> list[dict[str, Any]]:
    """Return rows without the members that only the whole model has."""
    left_out = set(whole.model_fields) - set(part.model_fields)
    return [{name: row[name] for name in row if name not in left_out} for row in rows]


TOOLS: Final = [
    Tool(
        name="get_data_status",
        title="What is known",
        description="Which data there is: first and last day of each domain, devices, services and files,"
        " what was refused, gaps of the last 14 days, scopes held and missing. Call it before concluding from"
        " an empty answer that nothing happened, and for 'What do you know about me?' and 'Why is yesterday"
        " empty?'. Not for the data itself.",
        scope=ENTRY,
        arguments=Status,
        answer=StatusAnswer,
        whole=("token",),
        frame=SQL["recent"],
        parts=(
            Part(SQL["get_data_status"]),
            tool.part(devices.ENDPOINTS, "devices"),
            tool.part(profile.ENDPOINTS, "token"),
            tool.part(profile.ENDPOINTS, "integrations", scope="read:profile"),
        ),
        finish=_unwrapped,
        rows="devices",
    )
]

"""What is known of somebody at all, from when to when, and what an assistant may see of it."""

from pathlib import Path
from typing import Any, Final

from resourceserver.api.bodies import Body, CalendarDay, Count, Timestamp
from resourceserver.api.parameters import Listed
from resourceserver.endpoints import devices, profile
from resourceserver.endpoints.devices import Tracker
from resourceserver.endpoints.profile import Integration
from resourceserver.mcp import tool
from resourceserver.mcp.arguments import InZone
from resourceserver.mcp.tool import ENTRY, Answer, Part, Tool
from shared.scopes import SCOPES

SQL: Final = tool.load(Path(__file__).with_name("status.sql"))

MOST_DEVICES: Final = 100


class Status(InZone):
    """Which zone days are counted in."""

    def values(self) -> dict[str, object]:
        """Return, beside the rest, all scopes with which something can be read, and the page of devices."""
        readable = [scope for scope in SCOPES if scope.startswith("read:")]
        page = Listed().values() | {"limit": MOST_DEVICES}
        return super().values() | {"readable": readable} | page


class Domain(Body):
    """One kind of what may be known; all but its name and scope is null where the scope is missing."""

    domain: str
    scope: str
    is_visible: bool
    """Whether the scope is held."""
    rows: Count | None
    first_day: CalendarDay | None
    last_day: CalendarDay | None
    last_sync_at: Timestamp | None
    """When a tracker sent something last, which need not have been new; null where nobody notes that."""


class Scopes(Body):
    """What the assistant was let in to read, and what it was not."""

    held: list[str]
    missing: list[str]


class Person(Body):
    """Whose data it is."""

    display_name: str | None
    email: str
    timezone: str
    week_starts_on: int
    """An ISO weekday: 1 is Monday."""


class StatusAnswer(Answer):
    """What there is, device by device and domain by domain, and the gaps of the last 14 days."""

    domains: list[Domain]
    devices: list[Tracker]
    """At most 100, the one that sent something last first."""
    integrations: list[Integration] | None
    """Null where the scope read:profile is missing."""
    profile: Person | None
    """Null where the scope read:profile is missing."""
    scopes: Scopes


def _unwrapped(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer with the rows of both endpoints; of integrations only where they may be seen."""
    devices, integrations = answer.pop("devices"), answer.pop("integrations")
    return answer | {
        "devices": devices["data"],
        "integrations": None if integrations is None else integrations["data"],
    }


TOOLS: Final = [
    Tool(
        name="get_data_status",
        title="What is known",
        description="Which data there is about the person, from which day to which, which devices and"
        " services send it, what is missing in the last 14 days, and which scopes this assistant holds and"
        " lacks. Call it before concluding from an empty answer that nothing happened, and for 'What do you"
        " know about me?' and 'Why is yesterday empty?'. Not for the data itself.",
        scope=ENTRY,
        arguments=Status,
        answer=StatusAnswer,
        frame=SQL["status_frame"],
        parts=(
            Part(SQL["get_data_status"]),
            tool.part(devices.ENDPOINTS, "devices"),
            tool.part(profile.ENDPOINTS, "integrations", scope="read:profile"),
        ),
        finish=_unwrapped,
        rows="devices",
    )
]

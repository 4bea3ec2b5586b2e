"""Calendars that tests pull: texts in iCalendar, and what a pull makes of them."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

import psycopg

from resourceserver.integrations.format import Person
from resourceserver.integrations.pulls import calendar
from resourceserver.integrations.pulls.pulling import Pulled, Source
from resourceserver.integrations.pulls.sources import PULLS
from resourceserver.integrations.pulls.turn import Pulls
from resourceserver.integrations.records import CalendarEvent, Refused
from shared import sealing
from shared.sealing import Opener
from shared.settings import Settings
from tests import conftest, connecting
from tests.connecting import Connected, connect
from tests.https import Host

NOW: Final = datetime(2025, 6, 16, 12, tzinfo=UTC)

PATH: Final = "/private/0f9e8d7c6b5a.ics"
"""The path of a secret address."""
PASSWORD: Final = "correct-horse"


def event(uid: str, start: str = "20250616T090000Z", *lines: str) -> str:
    """Return an event."""
    return "\r\n".join(("BEGIN:VEVENT", f"UID:{uid}", f"DTSTART:{start}", *lines, "END:VEVENT"))


def text(*events: str, name: str = "Work") -> str:
    """Return a calendar."""
    header = ("BEGIN:VCALENDAR", "VERSION:2.0", f"X-WR-CALNAME:{name}")
    return "\r\n".join((*header, *events, "END:VCALENDAR", ""))


@dataclass
class Reading:
    """What a pull found."""

    pulled: Pulled
    events: dict[str, CalendarEvent] = field(default_factory=dict)
    """By key."""
    refused: list[Refused] = field(default_factory=list)

    @property
    def reasons(self) -> list[str]:
        """Why parts of the calendar were refused."""
        return [each.reason for each in self.refused]

    @property
    def is_complete(self) -> bool:
        """Whether what it did not find is to be removed."""
        remove = self.pulled.finish
        return remove is not None and bool(remove.__self__.is_complete)  # type: ignore[attr-defined] # a method

    @property
    def state(self) -> dict[str, Any]:
        """What the next pull begins with."""
        return self.pulled.state


def pull(
    host: Host,
    address: str = PATH,
    *,
    state: Mapping[str, Any] | None = None,
    now: datetime = NOW,
    user: str = "",
    password: str = "",
    fetch: Callable[..., Any] | None = None,
) -> Reading:
    """Pull from a path at a host, or from a whole address, as alice of Berlin."""
    reading = Reading(
        calendar.pull(
            Source(
                {"user": user},
                {
                    "address": address if ":" in address else host.url(address),
                    "password": password,
                },
                state or {},
                Person(ZoneInfo("Europe/Berlin"), now),
                fetch or host.fetcher().fetch,
            )
        )
    )
    for each in reading.pulled.items:
        if isinstance(each, CalendarEvent):
            reading.events[each.key] = each
        else:
            assert isinstance(each, Refused)
            reading.refused.append(each)
    return reading


PRIVATE: Final = sealing.new_private_key()


@dataclass
class Worker:
    """The pulls of a worker for one person with one calendar."""

    settings: Settings
    owner: psycopg.Connection[Any]
    person: conftest.Person
    connected: Connected

    @classmethod
    def of(
        cls,
        settings: Settings,
        owner: psycopg.Connection[Any],
        person: conftest.Person,
        address: str,
        *,
        user: str = "",
        password: str = "",
    ) -> "Worker":
        """Connect a calendar of a person."""
        connected = connect(owner, person, "calendar", user=user)
        secrets = {"address": address, "password": password}
        connecting.seal(owner, person, connected, PRIVATE, secrets)
        return cls(settings, owner, person, connected)

    def pull(self, host: Host) -> str:
        """Pull now; return what the log says of it, without the ids."""
        self.owner.execute("update profile.connection set next_pull_at = now()")
        pulls = Pulls.to(self.settings, PULLS, Opener([PRIVATE]), host.fetcher().fetch)
        try:
            line = pulls.take(self.person.user_id, threading.Event()).line
        finally:
            pulls.close()
        return line.partition("connection=calendar ")[2]

    def events(self) -> dict[str, tuple[datetime, str]]:
        """Return when each event begins, and its status, by key."""
        rows = self.owner.execute(
            """
            select provider_key,
                   starts_at,
                   status
              from content.calendar_event
             where user_id = %s
               and source = 'icalendar'
            """,
            [self.person.user_id],
        )
        return {key: (starts_at, status) for key, starts_at, status in rows}

    def row(self) -> dict[str, Any]:
        """Return the row of the connection."""
        return connecting.state(self.owner, self.connected)

"""The pull of a calendar: an address of an iCalendar file, or of a CalDAV server (``caldav``).

    changed since the last pull? ──no──► nothing to do
            │ yes, or a day has passed
            ▼
    all events of the window ──► records ──► what the calendar no longer has in the window is removed

The window is from a year back to a year ahead. It moves, and a calendar that does not change still has new
instances at its end: so once a day everything is read, whatever the server says. That also brings back an
event that another calendar of the person shared with this one, and has removed.

Some servers write the time of the answer into each event, so that no two answers are the same; a digest
without these lines says whether anything has changed. The state has digests alone: addresses are secrets.
"""

import hashlib
import io
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from resourceserver.integrations import values
from resourceserver.integrations.format import HEAD_BYTES, Head, Unreadable
from resourceserver.integrations.formats import icalendar
from resourceserver.integrations.formats.icalendar import ICALENDAR, Window
from resourceserver.integrations.imports.writing import Target
from resourceserver.integrations.pulls import caldav
from resourceserver.integrations.pulls.answering import failure
from resourceserver.integrations.pulls.caldav import Account, Collection, Requests
from resourceserver.integrations.pulls.pulling import Item, Pulled, PullFailed, Source
from resourceserver.integrations.records import Calendar, CalendarEvent, Refused
from shared import queries

SQL: Final = queries.load(Path(__file__).with_name("calendar.sql"))

REACH: Final = timedelta(days=366)
"""How far back and ahead events are kept up to date."""
FULL: Final = timedelta(days=1)
"""After this time everything is read, even if nothing has changed."""
EVENTS: Final = 20_000
"""The most events and instances of a calendar."""
READING_S: Final = 20.0
"""The longest time of the processor for all calendars of a pull; one rule can take two seconds more."""

_MARGIN: Final = timedelta(days=2)
"""How much farther is read than what is kept: whole days are not the same in all zones."""
_MOST_TAG: Final = 500
"""The most characters of a validator that is kept."""
_VOLATILE: Final = re.compile(rb"^DTSTAMP[:;].*$", re.MULTILINE)
_CUT: Final = frozenset(("too_many_recurring_events", "too_many_instances", "event_not_sent"))
"""Why a reading does not have all events of a calendar."""
_SCHEMES: Final = re.compile(r"^webcals?://", re.IGNORECASE)


def pull(source: Source) -> Pulled:
    """Return the events of the calendar. Raises PullFailed and FetchFailed."""
    address = _SCHEMES.sub("https://", source.secrets["address"].strip())
    user, password = source.settings.get("user", ""), source.secrets.get("password", "")
    known = source.state if _is_recent(source) else {}
    if user and password and known.get("way") != "address":
        requests = Requests(source, address, user, password)
        account = caldav.find(requests)
        if account is not None:
            return _pull_account(source, known, requests, account)
    return _pull_address(source, known, address, user, password)


def _is_recent(source: Source) -> bool:
    """Return whether everything was read within the last day."""
    try:
        age = source.person.now - datetime.fromisoformat(source.state["read_at"])
    except (KeyError, TypeError, ValueError):
        return False
    return timedelta(0) <= age < FULL


def _pull_address(source: Source, known: Any, address: str, user: str, password: str) -> Pulled:
    headers = {"Accept": "text/calendar, */*;q=0.5"}
    if user or password:
        headers |= caldav.authorization(user, password)
    for name, condition in (("etag", "If-None-Match"), ("last_modified", "If-Modified-Since")):
        if name in known:
            headers[condition] = known[name]
    answer = source.fetch("GET", address, headers=headers)
    if answer.status == 304 and known:
        return Pulled((), dict(known))
    if answer.status != 200:
        raise failure(answer, source.person.now)
    if not ICALENDAR.recognise(Head("", answer.body[:HEAD_BYTES], False)):
        raise PullFailed("not_a_calendar")
    state = {
        "way": "address",
        "read_at": source.person.now.isoformat(),
        "digest": _digest([answer.body]),
    }
    for name, header in (("etag", "ETag"), ("last_modified", "Last-Modified")):
        value = answer.headers.get(header, "")
        if 0 < len(value) <= _MOST_TAG and value.isprintable():
            state[name] = value
    if state["digest"] == known.get("digest"):
        return Pulled((), state | {"read_at": known["read_at"]})
    reading = _Reading(source)
    return Pulled(reading.file(answer.body), state, reading.remove)


def _pull_account(source: Source, known: Any, requests: Requests, account: Account) -> Pulled:
    reading = _Reading(source)
    window = reading.window
    collections = account.calendars[: caldav.MOST_CALENDARS]
    marks = {}
    for each in collections:
        tag = each.tag or caldav.marks(requests, each, window.starts_at, window.ends_at)
        # Without any mark each pull reads everything.
        marks[each.id] = caldav.digest(f"{each.name}\n{each.zone}\n{tag}") if tag else None
    state = {"way": "caldav", "read_at": source.person.now.isoformat(), "marks": marks}
    if marks == known.get("marks") and None not in marks.values():
        return Pulled((), dict(known))
    return Pulled(reading.account(requests, account, collections), state, reading.remove)


def _digest(parts: Iterable[bytes]) -> str:
    """Return a digest of what a calendar says, without the times of its answer."""
    found = hashlib.sha256()
    for part in parts:
        found.update(_VOLATILE.sub(b"", part))
    return found.hexdigest()


@dataclass
class _Reading:
    """Reads the events of a window, and keeps in mind which there are."""

    source: Source
    starts_at: datetime = field(init=False)
    ends_at: datetime = field(init=False)
    window: Window = field(init=False)
    """What is read: a little more than from ``starts_at`` to ``ends_at``."""
    keys: dict[str, str] = field(default_factory=dict)
    """The calendar of each event, by the key of the event."""
    is_complete: bool = True
    spent_s: float = 0.0

    def __post_init__(self) -> None:
        """Lay the window around the day of the pull."""
        now = self.source.person.now.astimezone(UTC)
        self.starts_at, self.ends_at = now - REACH, now + REACH
        self.window = Window(self.starts_at - _MARGIN, self.ends_at + _MARGIN, has_all_single=False)

    def file(self, body: bytes) -> Iterator[Item]:
        """Yield the events of a file. Raises PullFailed if it is not complete."""
        encoding = "utf-16" if body[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
        stream = io.TextIOWrapper(io.BytesIO(body), encoding, errors="replace", newline="")
        try:
            yield from self._limited(icalendar.events(stream, self.source.person, self.window), "")
        except Unreadable as error:
            raise PullFailed("incomplete") from error

    def account(
        self, requests: Requests, account: Account, collections: Iterable[Collection]
    ) -> Iterator[Item]:
        """Yield the events of all calendars of an account. Raises PullFailed and FetchFailed."""
        names = set[str]()
        for each in account.calendars[caldav.MOST_CALENDARS :]:
            self.is_complete = False
            yield Refused("too_many_calendars", values.example(each.name))
        for each in collections:
            # As in a file, a calendar is known by its name; of two with one name, the second by its
            # address too.
            key = each.name if each.name not in names else f"{each.name}:{each.id}"
            names.add(each.name)
            zone = each.zone or self.source.person.zone.key
            calendar = Calendar(values.key(key), each.name, zone)
            texts = caldav.events(requests, each, self.window.starts_at, self.window.ends_at)
            events = self._of_texts(texts, calendar, account.addresses)
            yield from self._limited(events, each.id)

    def _of_texts(
        self, texts: Iterable[str | None], calendar: Calendar, addresses: frozenset[str]
    ) -> Iterator[CalendarEvent | Refused]:
        for text in texts:
            if text is None:
                yield Refused("event_not_sent", values.example(calendar.name))
                continue
            try:
                yield from icalendar.events(
                    io.StringIO(text, newline=""),
                    self.source.person,
                    self.window,
                    calendar=calendar,
                    addresses=addresses,
                )
            except Unreadable:
                self.is_complete = False

    def _limited(
        self, events: Iterator[CalendarEvent | Refused], calendar_id: str
    ) -> Iterator[Item]:
        """Yield the events of a calendar, no more than may be, and take note of their keys."""
        begun = time.thread_time()
        for count, each in enumerate(events, 1):
            self.spent_s += time.thread_time() - begun
            if count > EVENTS or self.spent_s > READING_S:
                self.is_complete = False
                reason = "too_many_events" if count > EVENTS else "takes_too_long"
                yield Refused(reason, _named(each))
                return
            if isinstance(each, CalendarEvent):
                # Of an event in two calendars only the first is kept: otherwise they would take it in turns.
                is_first = self.keys.setdefault(each.key, calendar_id) == calendar_id
                # As in svc.remove_calendar_events: what is written is also removed.
                if is_first and each.starts_at < self.ends_at and each.ends_at >= self.starts_at:
                    yield each
            # Long calendars have many series that ended before the window.
            elif each.reason != "no_instance_within_range":
                self.is_complete &= each.reason not in _CUT
                yield each
            begun = time.thread_time()

    def remove(self, target: Target) -> None:
        """Remove the events that are no longer there, unless some of those that are could not be read."""
        if self.is_complete:
            target.connection.execute(
                SQL["remove_calendar_events"],
                {
                    "starts_at": self.starts_at,
                    "ends_at": self.ends_at,
                    "keys": list(self.keys),
                },
            )


def _named(event: CalendarEvent | Refused) -> str:
    """Return by what a person knows an event."""
    return event.example if isinstance(event, Refused) else values.example(event.title or "")

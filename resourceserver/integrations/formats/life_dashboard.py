"""Screen time of an Android phone: messages of Life Dashboard Companion with the source `screen_time`.

A file has one message, a JSON array of them, or one a line, as a receiver of the person's own has kept them.

| member | |
|---|---|
| `timestamp` | when the phone counted |
| `device` | the name of the phone |
| `screen_time[].date` | a day of the phone |
| `screen_time[].apps[]` | `package`, `name`, `minutes`, and `last_used`, an instant |

A message has the last seven days again, so of two counts of a day the later one is kept. Minutes of a day say
nothing of when they were, so they are no sessions. Two phones without a name count as one. The total of a day
is not read: it is the sum of its applications and of those with less than a minute. The members are those of
the application's description of its messages.
"""

import json
import math
import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import Any, Final

from resourceserver.integrations import reading, values
from resourceserver.integrations.format import File, Format, Head, Person, Unreadable
from resourceserver.integrations.records import Record, Refused, ScreenTime
from resourceserver.integrations.values import Flaw

MESSAGE_LENGTH: Final = 8 * 1024 * 1024
"""The most characters of a file with a single message."""
_SOURCE: Final = re.compile(r'"source"\s*:\s*"screen_time"')
_DAYS: Final = re.compile(r'"screen_time"\s*:\s*\[')
_MINUTE_MS: Final = 60_000
_AHEAD: Final = timedelta(hours=1)
"""How far a phone's clock may be ahead of the server's, as in ingest."""
_ZONES: Final = timedelta(hours=14)
"""How far local times can be ahead of UTC."""


def _read(file: File, person: Person) -> Iterator[Record | Refused]:
    for message in _messages(file):
        if isinstance(message, Refused):
            yield message
        else:
            yield from _records(message, person)


def _messages(file: File) -> Iterator[Any]:
    with reading.text(file) as stream:
        start = stream.read(MESSAGE_LENGTH)
        is_whole = not stream.read(1)
    if not start.strip():
        raise Unreadable("the file is empty")
    if start.lstrip().startswith("["):
        yield from reading.items(file, "item")
        return
    try:
        # Members of a message may stand in any order, so it is read at once.
        message = json.loads(start) if is_whole else None
    except (ValueError, RecursionError):
        message = None
    if message is not None:
        yield message
    else:
        yield from reading.json_lines(file)


def _records(message: Any, person: Person) -> Iterator[ScreenTime | Refused]:
    try:
        given = values.members(message)
        if given.get("source") != "screen_time":
            raise Flaw("not_screen_time")
    except Flaw as flaw:
        yield values.refused(flaw, message)
        return
    yield from screen_times(given, person)


def screen_times(given: dict[str, Any], person: Person) -> Iterator[ScreenTime | Refused]:
    """Yield the applications of all days of a message, and a Refused for each part that cannot be read.

    A message from a clock that is ahead is refused: its counts would be the newest ones until its day comes.
    """
    try:
        counted_at = values.instant(given.get("timestamp"))
        if counted_at > person.now + _AHEAD:
            raise Flaw("timestamp_in_future")
        days = given.get("screen_time")
        if not isinstance(days, list):
            raise Flaw("days_are_missing")
    except Flaw as flaw:
        yield values.refused(flaw, given)
        return
    device = values.text(given.get("device")) or ""
    for each in days:
        try:
            day = values.members(each)
            on = values.wall_time(day.get("date")).date()
            if on > (counted_at + _ZONES).date():
                raise Flaw("timestamp_in_future")
            apps = day.get("apps")
            if not isinstance(apps, list):
                raise Flaw("applications_are_missing")
        except Flaw as flaw:
            yield values.refused(flaw, each)
            continue
        for app in apps:
            yield _record(app, device, on, counted_at)


def _record(app: Any, device: str, on: date, counted_at: datetime) -> ScreenTime | Refused:
    try:
        given = values.members(app)
        package = values.text(given.get("package"))
        if package is None:
            raise Flaw("missing_application")
        minutes = values.number(given.get("minutes"))
        if minutes is None or not math.isfinite(minutes * _MINUTE_MS):
            raise Flaw("value_is_no_number")
        last_used = given.get("last_used")
        return ScreenTime(
            key=values.key(on.isoformat(), device, package),
            date=on,
            device=device,
            app=package,
            duration_ms=round(minutes * _MINUTE_MS),
            counted_at=counted_at,
            name=values.text(given.get("name")),
            last_used_at=None if last_used is None else values.instant(last_used),
        )
    except Flaw as flaw:
        return values.refused(flaw, app)


def _recognise(head: Head) -> float:
    return 1.0 if _SOURCE.search(head.text) and _DAYS.search(head.text) else 0.0


SCREEN_TIME: Final = Format(
    name="screen_time",
    title="Life Dashboard Companion, screen time",
    source="life_dashboard",
    records=(ScreenTime,),
    recognise=_recognise,
    read=_read,
)

"""WakaTime's data dumps: heartbeats, and daily totals, which say no times and so cannot be brought.

Wakapi and other servers of the same interface write the dump of heartbeats too, with names where WakaTime
has ids of machines and user agents.
"""

import re
from collections.abc import Iterator
from typing import Any, Final
from uuid import UUID

from resourceserver.integrations import values
from resourceserver.integrations.beats import Beat, coding_sessions
from resourceserver.integrations.format import File, Format, Head, Person, Unreadable
from resourceserver.integrations.reading import instant_ms, items
from resourceserver.integrations.records import CodingSession, Record, Refused
from resourceserver.integrations.values import Flaw

ACTIVITIES: Final = {
    "coding": "coding",
    "writing tests": "coding",
    "debugging": "debugging",
    "building": "building",
    "indexing": "building",
    "running tests": "testing",
    "manual testing": "testing",
    "code reviewing": "reviewing",
    "writing docs": "writing_docs",
    "ai coding": "ai_coding",
}
"""The activity of a coding session for each category of WakaTime; all others are ``other``."""

_DAYS: Final = re.compile(r'"days"\s*:\s*\[')
_EDITOR: Final = re.compile(r"(\S+?)/\S+ \S+-wakatime/")


def beat(value: Any) -> Beat:
    """Return one heartbeat of WakaTime's interface. Raises Flaw."""
    given = values.members(value)
    at = values.epoch(given.get("time"))
    kind = values.text(given.get("type")) or "file"
    category = values.text(given.get("category"))
    return Beat(
        at_ms=instant_ms(at),
        device=_device(values.text(given.get("machine_name_id"))),
        project=values.text(given.get("project")) or "unknown",
        language=values.text(given.get("language")),
        kind=kind,
        file=values.text(given.get("entity")) if kind == "file" else None,
        branch=values.text(given.get("branch")),
        editor=editor(values.text(given.get("user_agent_id"))),
        activity=ACTIVITIES.get(category.lower(), "other") if category else None,
        is_write=given.get("is_write") is True,
        lines_added=values.count(given.get("line_additions")),
        lines_removed=values.count(given.get("line_deletions")),
    )


def _device(machine: str | None) -> str:
    if machine is None:
        return "wakatime"
    # An id alone would be an unreadable name of a device.
    return f"wakatime-{machine[:8]}" if _is_id(machine) else machine


def editor(user_agent: str | None) -> str | None:
    """Return the name of the editor in the user agent of a plug-in of WakaTime."""
    named = _EDITOR.search(user_agent) if user_agent else None
    return named.group(1) if named else None


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def _is_dump(head: Head, member: str) -> float:
    text = head.text
    is_dump = text.lstrip().startswith("{") and _DAYS.search(text) and f'"{member}"' in text
    return 1.0 if is_dump else 0.0


def _recognise_heartbeats(head: Head) -> float:
    return _is_dump(head, "heartbeats")


def _recognise_totals(head: Head) -> float:
    return 0.0 if _recognise_heartbeats(head) else _is_dump(head, "grand_total")


def _read_heartbeats(file: File, _person: Person) -> Iterator[Record | Refused]:
    broken: list[Unreadable] = []

    def beats() -> Iterator[Beat | Refused]:
        try:
            for item in items(file, "days.item.heartbeats.item"):
                try:
                    yield beat(item)
                except Flaw as flaw:
                    yield values.refused(flaw, item)
        except Unreadable as error:
            # The sessions that are still open come first.
            broken.append(error)

    yield from coding_sessions(beats())
    if broken:
        raise broken[0]


def _read_totals(_file: File, _person: Person) -> Iterator[Record | Refused]:
    raise Unreadable(
        "WakaTime's dump of daily totals says how long was coded on a day, but not when;"
        " export the heartbeats instead (WakaTime: Settings, Account, Export your data)"
    )


HEARTBEATS: Final = Format(
    name="wakatime",
    title="WakaTime, data dump of heartbeats",
    source="wakatime",
    records=(CodingSession,),
    recognise=_recognise_heartbeats,
    read=_read_heartbeats,
)

DAILY_TOTALS: Final = Format(
    name="wakatime_daily",
    title="WakaTime, data dump of daily totals",
    source="wakatime",
    records=(),
    recognise=_recognise_totals,
    read=_read_totals,
)

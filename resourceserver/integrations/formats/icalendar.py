"""Calendars in iCalendar files (RFC 5545).

    lines ──► events ──┬── single ───────────────────────────────────────► one record
                       └── recurring, kept until the calendar ends ──► instances within a window

Only recurring events are kept in memory, with their moved and cancelled instances, which may stand anywhere
in the file. Rules that never end are expanded around the day of the import.

The library keeps the zones that calendars define for the whole process, so each calendar parses its events
under a lock, with its own zones.
"""

import re
import threading
import warnings
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from resourceserver.integrations import reading, values
from resourceserver.integrations.format import File, Format, Head, Person, Unreadable
from resourceserver.integrations.reading import instant_ms
from resourceserver.integrations.records import Calendar, CalendarEvent, Record, Refused
from resourceserver.integrations.values import Flaw

if TYPE_CHECKING:
    import icalendar

PAST: Final = timedelta(days=3653)
"""How far back from the import recurring events are expanded."""
FUTURE: Final = timedelta(days=731)
"""How far ahead."""
INSTANCES: Final = 100_000
"""Most instances of recurring events of one file."""
EVENT_LENGTH: Final = 1024 * 1024
"""Most characters of one event, attachments left out."""
RECURRING_LENGTH: Final = 16 * 1024 * 1024
"""Most characters of the recurring events of one calendar."""
HEADER_LENGTH: Final = 1024 * 1024
"""Most characters of the properties and the time zones of one calendar."""
INSTANCES_A_DAY: Final = 24
"""Most instances of one rule on one day."""
STEPS: Final = 600_000
"""Most instances of the rules of one series, from its first one on to the end of what is read."""
DATES: Final = 10_000
"""Most single dates of one series."""
_BY_DAY: Final = frozenset(("HOURLY", "DAILY", "WEEKLY"))
"""The frequencies of rules that are followed day by day; others take less than a second in any case."""
_WEEKDAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")

_SLICE: Final = timedelta(days=366)
# What the libraries raise on values that break the rules.
_FAILURES: Final = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError)
_RECURS: Final = re.compile(r"^(RRULE|RDATE|RECURRENCE-ID)[:;]", re.MULTILINE | re.IGNORECASE)
_TOO_FREQUENT: Final = re.compile(r"^RRULE\b.*FREQ=(SECOND|MINUTE)LY", re.MULTILINE | re.IGNORECASE)
_EDGE: Final = re.compile(
    r"^DT(?:START|END)(?:;[^:\r\n]*)?:(\d{8})(?!\d)", re.MULTILINE | re.IGNORECASE
)
# Dates of one event in different zones differ by two days at most.
_MARGIN: Final = timedelta(days=2)
_UID: Final = re.compile(r"^UID(?:;[^:\r\n]*)?:([^\r\n]*)", re.MULTILINE | re.IGNORECASE)
_SUMMARY: Final = re.compile(r"^SUMMARY[^:\r\n]*:([^\r\n]*)", re.MULTILINE | re.IGNORECASE)
_REASONS: Final = dict.fromkeys(
    ("VTODO", "VJOURNAL", "VFREEBUSY", "VAVAILABILITY"), "not_an_event"
) | {"BROKEN": "incomplete_event"}
"""Why components are refused that are no events."""
_STATUSES: Final = {"TENTATIVE": "tentative", "CANCELLED": "cancelled"}
_RESPONSES: Final = {
    "ACCEPTED": "accepted",
    "DECLINED": "declined",
    "TENTATIVE": "tentative",
    "NEEDS-ACTION": "needs_action",
}
_CONFERENCES: Final = (
    "CONFERENCE",
    "X-GOOGLE-CONFERENCE",
    "X-MICROSOFT-SKYPETEAMSMEETINGURL",
    "X-MICROSOFT-ONLINEMEETINGEXTERNALLINK",
)


class Window(NamedTuple):
    """The time for which events are read."""

    starts_at: datetime
    ends_at: datetime
    has_all_single: bool = True
    """Whether single events are read whenever they are; if not, those of other days are left out."""


@dataclass
class _Source:
    """A calendar of the file, as far as it has been read."""

    name: str
    person: Person
    window: Window
    given: Calendar | None = None
    """The calendar, where something else than the file says which one it is."""
    addresses: frozenset[str] = frozenset()
    """The person's e-mail addresses, as far as they are known."""
    zones: "list[icalendar.Timezone]" = field(default_factory=list)
    """The zones that the calendar defines."""
    properties: dict[str, str] = field(default_factory=dict)
    series: dict[str, list[str]] = field(default_factory=dict)
    """The texts of recurring events by UID."""
    header_length: int = 0
    recurring_length: int = 0

    @property
    def zone(self) -> ZoneInfo:
        """The zone of times that name none, and of whole days."""
        name = (
            self.properties.get("X-WR-TIMEZONE", "") if self.given is None else self.given.timezone
        )
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            return self.person.zone

    @property
    def calendar(self) -> Calendar:
        if self.given is not None:
            return self.given
        name = self.properties.get("X-WR-CALNAME") or self.properties.get("NAME")
        name = name or self.name or "Calendar"
        return Calendar(
            key=values.key(self.properties.get("X-WR-RELCALID") or name),
            name=name,
            timezone=self.zone.key,
        )

    def is_own(self, person: Any) -> bool:
        """Return whether an organizer or an attendee is the person.

        Google names the person's main calendar after the person's e-mail address.
        """
        address = _address(person)
        return (
            address == self.properties.get("X-WR-CALNAME", "").lower() or address in self.addresses
        )


def _lines(stream: TextIO) -> Iterator[str]:
    """Yield unfolded lines, without the attachments that some files hold in full (RFC 5545, section 3.1)."""
    line = ""
    while following := stream.readline(EVENT_LENGTH):
        if following[0] in " \t":
            # What is longer than an event may be is no longer joined.
            if len(line) <= EVENT_LENGTH and not line.startswith("ATTACH"):
                line += following[1:].rstrip("\r\n")
        else:
            if line:
                yield line
            line = following.rstrip("\r\n").replace("\0", "")
    if line:
        yield line


def _components(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    """Yield the parts of a file: components by name, properties of calendars, and the ends of calendars."""
    name, inner, block, length = "", 0, list[str](), 0
    for line in lines:
        upper = line.upper().rstrip()
        if not name:
            if upper.startswith("BEGIN:") and upper != "BEGIN:VCALENDAR":
                name, inner, block, length = upper[6:], 0, [line], len(line)
            elif upper == "END:VCALENDAR":
                yield "END", ""
            elif upper != "BEGIN:VCALENDAR":
                yield "PROPERTY", line
            continue
        if upper.startswith("BEGIN:"):
            inner += 1
        is_kept = not inner or name == "VTIMEZONE"
        # Alarms and attachments say nothing of the event.
        if is_kept and not upper.startswith("ATTACH") and length <= EVENT_LENGTH:
            block.append(line)
            length += len(line)
        if upper.startswith("END:"):
            if inner:
                inner -= 1
            elif upper == f"END:{name}":
                yield name, "\r\n".join(block) if length <= EVENT_LENGTH else ""
                name = ""
    if name == "VEVENT":
        yield "BROKEN", "\r\n".join(block)


def _read(file: File, person: Person) -> Iterator[Record | Refused]:
    name = file.name.rpartition("/")[2].removesuffix(".ics")
    now = person.now.astimezone(UTC)
    with reading.text(file) as stream:
        yield from events(stream, person, Window(now - PAST, now + FUTURE), name=name)


def events(
    stream: TextIO,
    person: Person,
    window: Window,
    *,
    name: str = "",
    calendar: Calendar | None = None,
    addresses: frozenset[str] = frozenset(),
) -> Iterator[CalendarEvent | Refused]:
    """Yield the events of a text: all of ``calendar``, or of the calendars that the text names.

    ``name`` is that of a calendar which names itself nowhere; ``addresses`` are the person's e-mail addresses
    in lower case. Raises Unreadable if the text ends in the middle of a calendar.
    """
    empty = _Source(name, person, window, calendar, addresses)
    source, instances, is_open = replace(empty, series={}, properties={}, zones=[]), 0, False
    for part, text in _components(_lines(stream)):
        is_open = part != "END"
        if part == "END":
            for each in _expanded(source, instances):
                instances += isinstance(each, CalendarEvent)
                yield each
            # The zones of a text serve all of its calendars: some programs define each only once.
            source = replace(empty, series={}, properties={}, zones=source.zones)
        elif part == "PROPERTY":
            _note_property(source, text)
        elif part == "VTIMEZONE":
            _note_zone(source, text)
        elif result := _component(source, part, text):
            yield result
    if is_open:
        for each in _expanded(source, instances):
            yield each
        raise Unreadable("the file ends in the middle of a calendar")


def _component(source: _Source, name: str, text: str) -> CalendarEvent | Refused | None:
    """Return what becomes of a component at once; None of a recurring event and of unknown components."""
    if reason := _REASONS.get(name):
        return Refused(reason, _sample(text))
    if name != "VEVENT":
        return None
    if not text:
        return Refused("event_too_large", f"an event of more than {EVENT_LENGTH} characters")
    if not _RECURS.search(text):
        return _single(source, text) if _may_be_within(source.window, text) else None
    source.recurring_length += len(text)
    if source.recurring_length > RECURRING_LENGTH:
        return Refused("too_many_recurring_events", _sample(text))
    source.series.setdefault(_uid(text), []).append(text)
    return None


def _note_property(source: _Source, line: str) -> None:
    name, _, value = line.partition(":")
    source.header_length += len(line)
    if source.header_length <= HEADER_LENGTH:
        bare = re.sub(r"\\([\\;,])", r"\1", value.strip())
        source.properties[name.partition(";")[0].upper()] = bare


def _note_zone(source: _Source, text: str) -> None:
    source.header_length += len(text)
    if source.header_length <= HEADER_LENGTH:
        try:
            zones = [*source.zones, *_parsed(source, text).walk("VTIMEZONE")]
            _use(source, cast("list[icalendar.Timezone]", zones))
        except (*_FAILURES, RecursionError):
            # Events with a zone that is not known otherwise are read as events without one.
            return


_LIBRARY: Final = threading.Lock()
_NONE: "Final[list[icalendar.Timezone]]" = []
_used: "list[list[icalendar.Timezone]]" = [_NONE]
"""The zones that the library has now, beside those of the system."""


def _use(source: _Source, zones: "list[icalendar.Timezone]") -> None:
    """Give a calendar these zones. Raises what ``_FAILURES`` holds if one cannot be used."""
    with _LIBRARY:
        _provide(zones)
    source.zones = zones


def _provide(zones: "list[icalendar.Timezone]") -> None:
    """Give the library these zones and no others, unless it has them."""
    if _used[0] is zones:
        return
    from icalendar.timezone import tzp  # noqa: PLC0415 -- see _parsed

    tzp.use_default()
    _used[0] = _NONE
    for each in zones:
        tzp.cache_timezone_component(each)
    _used[0] = zones


def _parsed(source: _Source, text: str) -> "icalendar.Component":
    """Return the calendar with the components of a text."""
    # Every server has this format, and most never read a calendar.
    import icalendar  # noqa: PLC0415 -- the libraries take 3 MiB of each process

    with _LIBRARY, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _provide(source.zones)
        whole = icalendar.Calendar.from_ical(
            f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\n{text}\r\nEND:VCALENDAR\r\n"
        )
    return cast("icalendar.Component", whole)


def _may_be_within(window: Window, text: str) -> bool:
    """Return whether a single event is to be parsed, which takes a hundred times as long as this."""
    if window.has_all_single:
        return True
    days = _EDGE.findall(text)
    # One with a duration, or without an end, may be as long as it likes, but begins with its first day.
    ends = days if re.search(r"^DTEND", text, re.MULTILINE | re.IGNORECASE) else []
    first, last = f"{window.starts_at - _MARGIN:%Y%m%d}", f"{window.ends_at + _MARGIN:%Y%m%d}"
    return not days or (min(days) <= last and (not ends or max(ends) >= first))


def _uid(text: str) -> str:
    found = _UID.search(text)
    return found.group(1).strip() if found else ""


def _sample(text: str) -> str:
    """Return what a person knows an event by."""
    found = _SUMMARY.search(text)
    return values.example(found.group(1) if found else text)


def _single(source: _Source, text: str) -> CalendarEvent | Refused | None:
    window = source.window
    try:
        (event,) = _parsed(source, text).walk("VEVENT")
        record = _record(source, event, None)
    except Flaw as flaw:
        return Refused(str(flaw), _sample(text))
    except _FAILURES:
        return Refused("invalid_event", _sample(text))
    is_within = record.starts_at < window.ends_at and record.ends_at >= window.starts_at
    return record if is_within or window.has_all_single else None


def _expanded(source: _Source, instances: int) -> Iterator[CalendarEvent | Refused]:
    """Yield the instances of the recurring events, as many as the file may still have."""
    for texts in source.series.values():
        is_empty = True
        try:
            for event in _instances(source, texts):
                is_empty = False
                if instances == INSTANCES:
                    yield Refused("too_many_instances", _sample(texts[0]))
                    break
                yield event
                instances += 1
            if is_empty:
                yield Refused("no_instance_within_range", _sample(texts[0]))
        except Flaw as flaw:
            yield Refused(str(flaw), _sample(texts[0]))
        except _FAILURES:
            yield Refused("invalid_recurrence", _sample(texts[0]))


def _instances(source: _Source, texts: list[str]) -> Iterator[CalendarEvent]:
    whole = "\r\n".join(texts)
    if _TOO_FREQUENT.search(whole):
        raise Flaw("recurs_too_often")
    calendar = _parsed(source, whole)
    _check_effort(calendar, source.window)
    if source.given is None and source.properties.get("X-WR-TIMEZONE") == source.zone.key:
        # Google means series in this zone, although it writes their times in UTC. Others mean UTC.
        calendar.add("X-WR-TIMEZONE", source.zone.key)
    is_series = not all("RECURRENCE-ID" in event for event in calendar.walk("VEVENT"))
    at, end = source.window.starts_at, source.window.ends_at
    latest: set[str] = set()
    import recurring_ical_events  # noqa: PLC0415 -- see _parsed

    # It keeps the instances that it has followed, which the next slice continues.
    query = recurring_ical_events.of(calendar)
    while at < end:
        until = min(at + _SLICE, end)
        keys = set()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = query.between(at, until)
        for event in found:
            record = _record(source, event, _uid(whole) if is_series else None)
            # One that reaches over the edge of a slice is in both.
            if record.key not in latest and record.key not in keys:
                keys.add(record.key)
                yield record
        latest, at = keys, until


def _check_effort(calendar: "icalendar.Component", window: Window) -> None:
    """Raise Flaw for rules that take too long or too much memory to follow.

    A rule is followed from its first instance on, however long ago that was, and all instances on the way are
    kept.
    """
    steps = dates = 0
    for event in calendar.walk("VEVENT"):
        start = cast("icalendar.Event", event).start
        first = start.date() if isinstance(start, datetime) else start
        days = max((window.ends_at.date() - first).days, 0)
        for rule in _several(event.get("RRULE")):
            a_day = _most_a_day(rule)
            steps += a_day * days
            if a_day > INSTANCES_A_DAY or steps > STEPS:
                raise Flaw("recurs_too_often")
            if _frequency(rule) in _BY_DAY:
                _check_days(rule, a_day)
        dates += sum(len(each.dts) for each in _several(event.get("RDATE")))
    if dates > DATES:
        raise Flaw("too_many_dates")


def _most_a_day(rule: Any) -> int:
    """Return how many instances a rule has on one day at most."""
    hours = len(rule.get("BYHOUR", ())) or 1
    if _frequency(rule) == "HOURLY":
        if "BYSETPOS" in rule:
            # One that no hour fulfils would be looked for hour by hour up to the year 9999.
            raise Flaw("recurs_too_often")
        if "BYHOUR" not in rule:
            hours = max(24 // int(rule.get("INTERVAL", [1])[0]), 1)
    return hours * (len(rule.get("BYMINUTE", ())) or 1) * (len(rule.get("BYSECOND", ())) or 1)


def _frequency(rule: Any) -> str:
    return str(rule["FREQ"][0]).upper()


def _check_days(rule: Any, a_day: int) -> None:
    """Raise Flaw for a rule that matches no day: it would be looked for day by day up to the year 9999."""
    if "BYWEEKNO" in rule:
        # RFC 5545 has it for rules of years alone.
        raise Flaw("invalid_recurrence")
    days = (len(rule.get("BYDAY", ())) or 7) if _frequency(rule) == "WEEKLY" else 1
    if all(abs(position) > a_day * days for position in rule.get("BYSETPOS", (1,))):
        raise Flaw("never_recurs")
    if "BYMONTHDAY" in rule or "BYYEARDAY" in rule:
        months, month_days, year_days = (
            frozenset(map(int, rule.get(name, ())))
            for name in ("BYMONTH", "BYMONTHDAY", "BYYEARDAY")
        )
        weekdays = {_WEEKDAYS.index(str(each)[-2:].upper()) for each in rule.get("BYDAY", ())}
        if not any(
            (not months or month in months)
            and (not weekdays or weekday in weekdays)
            and (not month_days or not month_days.isdisjoint(of_month))
            and (not year_days or not year_days.isdisjoint(of_year))
            for month, weekday, of_month, of_year in _days()
        ):
            raise Flaw("never_recurs")


def _days() -> Iterator[tuple[int, int, tuple[int, int], tuple[int, int]]]:
    """Yield month, weekday, and the places in the month and in the year, counted from both ends.

    All days of 400 years, after which the calendar repeats.
    """
    weekday = date(2000, 1, 1).weekday()
    for year in range(2000, 2400):
        lengths = [monthrange(year, month)[1] for month in range(1, 13)]
        whole, passed = sum(lengths), 0
        for month, length in enumerate(lengths, 1):
            for day in range(1, length + 1):
                passed += 1
                yield month, weekday, (day, day - length - 1), (passed, passed - whole - 1)
                weekday = (weekday + 1) % 7


def _record(source: _Source, event: Any, series_id: str | None) -> CalendarEvent:
    """Return the record of an event, or of one instance. Raises Flaw and what ``_FAILURES`` holds."""
    uid = str(event.get("UID", "")).strip()
    if "DTSTART" not in event:
        raise Flaw("missing_time")
    start, end = event.start, event.end
    if not uid:
        # RFC 5545 demands one. Title and time are the best of what is left.
        uid = f"{event.get('SUMMARY', '')}:{start.isoformat()}"
    zone = source.zone
    recurrence = event.get("RECURRENCE-ID")
    if recurrence is not None:
        at = recurrence.dt
        key = values.key("ics", uid, instant_ms(_instant(at, zone)) if _has_time(at) else at)
    elif series_id is not None:
        key = values.key(
            "ics", uid, instant_ms(_instant(start, zone)) if _has_time(start) else start
        )
    else:
        key = values.key("ics", uid)
    attendees = _several(event.get("ATTENDEE"))
    organizer = event.get("ORGANIZER")
    own = next(filter(source.is_own, attendees), None)
    updated = event.get("LAST-MODIFIED")
    starts_at, ends_at = _instant(start, zone), _instant(end, zone)
    if ends_at < starts_at:
        raise Flaw("ends_before_start")
    return CalendarEvent(
        key=key,
        calendar=source.calendar,
        starts_at=starts_at,
        ends_at=ends_at,
        status=cast("Any", _STATUSES.get(str(event.get("STATUS", "")).upper(), "confirmed")),
        title=_text(event, "SUMMARY"),
        description=_text(event, "DESCRIPTION"),
        location=_text(event, "LOCATION"),
        start_date=None if _has_time(start) else start,
        end_date=None if _has_time(start) else end,
        timezone=_zone_name(start, zone),
        response=cast("Any", _response(own)),
        organizer_name=_name(organizer),
        organizer_is_self=organizer is not None and source.is_own(organizer),
        attendee_count=len(attendees),
        series_id=series_id,
        conference_url=next(filter(None, (_text(event, name) for name in _CONFERENCES)), None),
        updated_at=_instant(updated.dt, zone) if updated is not None else None,
    )


def _has_time(at: date) -> bool:
    return isinstance(at, datetime)


def _instant(at: date, zone: tzinfo) -> datetime:
    """Return an instant; a day begins at its local midnight, and a time without a zone is local."""
    if not isinstance(at, datetime):
        at = datetime.combine(at, time())
    return values.utc(at if at.tzinfo else at.replace(tzinfo=zone))


def _zone_name(start: date, zone: ZoneInfo) -> str | None:
    if not isinstance(start, datetime) or start.tzinfo is None:
        return zone.key
    if start.tzinfo is UTC:
        return "UTC"
    name = getattr(start.tzinfo, "key", None)
    return name if isinstance(name, str) else None


def _several(value: Any) -> list[Any]:
    """Return the values of a property that may occur several times."""
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]


def _text(event: Any, name: str) -> str | None:
    value = event.get(name)
    return values.text(str(value[0] if isinstance(value, list) else value)) if value else None


def _address(person: Any) -> str:
    return str(person).lower().removeprefix("mailto:")


def _name(person: Any) -> str | None:
    if person is None:
        return None
    return values.text(str(person.params.get("CN", ""))) or values.text(_address(person))


def _response(own: Any) -> str | None:
    return _RESPONSES.get(str(own.params.get("PARTSTAT", "")).upper()) if own is not None else None


def _recognise(head: Head) -> float:
    return 1.0 if head.text.lstrip().upper().startswith("BEGIN:VCALENDAR") else 0.0


ICALENDAR: Final = Format(
    name="icalendar",
    title="iCalendar file",
    source="icalendar",
    records=(CalendarEvent,),
    recognise=_recognise,
    read=_read,
    is_proven=True,
)

"""Tables of other trackers of time: RescueTime, Toggl, ManicTime and aTimeLogger.

Their times are local, and they name no zone. The people of Toggl and aTimeLogger started and stopped a clock
by hand, so the "application" is what they worked on.
"""

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from resourceserver.integrations import reading, values
from resourceserver.integrations.format import File, Format, Head, Person
from resourceserver.integrations.reading import instant_ms
from resourceserver.integrations.records import AppSession, Record, Refused
from resourceserver.integrations.values import Flaw

_NAME: Final = 255
_HOUR: Final = timedelta(hours=1)
_MANICTIME: Final = (
    *("%Y-%m-%d %H:%M:%S", "%d.%m.%Y %H:%M:%S", "%d/%m/%Y %H:%M:%S"),
    *("%m/%d/%Y %I:%M:%S %p", "%Y-%m-%d %I:%M:%S %p"),
)
"""How ManicTime writes times in several regions. Slashes with AM and PM are American, without them not."""

_Row = dict[str, str]


def _session(
    source: str,
    started_at: datetime,
    ended_at: datetime,
    app: str,
    title: str | None = None,
) -> AppSession:
    return AppSession(
        key=values.key(source, instant_ms(started_at), app, title),
        started_at=started_at,
        ended_at=ended_at,
        device=source,
        app=app[:_NAME],
        title=title,
    )


def _read_rescuetime(file: File, person: Person) -> Iterator[Record | Refused]:
    """Yield a session for each row, which says how long an application was used within an hour.

    Nothing says when in the hour that was: its rows are laid one behind another, so that sums are right. The
    hour that comes twice at the end of summer time has one name for both, so its rows may fill two hours; if
    an application has a second row there, that one belongs to the second hour.
    """
    hour: datetime | None = None
    at: datetime | None = None
    apps: set[str] = set()

    def records(row: _Row) -> Iterator[AppSession]:
        nonlocal hour, at, apps
        begin = values.instant_in(row.get("Date"), person.zone)
        seconds = values.count(row.get("Time Spent (seconds)"))
        app = values.text(row.get("Activity"))
        if seconds is None or app is None:
            raise Flaw("missing_value")
        if begin != hour or at is None:
            hour, at, apps = begin, begin, set()
        started_at, ended_at = at, values.later(at, seconds=seconds)
        second = _second_hour(row.get("Date"), person)
        if ended_at - begin > (_HOUR if second is None else 2 * _HOUR):
            # A report by day or week says nothing of the time of day.
            raise Flaw("more_than_an_hour")
        at = ended_at
        keyed_at = begin if second is None or app not in apps else second
        apps.add(app)
        yield _session("rescuetime", keyed_at, keyed_at, app)._replace(
            started_at=started_at, ended_at=ended_at, category=values.text(row.get("Category"))
        )

    return reading.table_records(file, records)


def _second_hour(written: str | None, person: Person) -> datetime | None:
    """Return when a local hour begins that comes a second time; None if it comes once."""
    hour = values.wall_time(written)
    if hour.tzinfo is not None:
        return None
    first, second = (values.utc(hour.replace(tzinfo=person.zone, fold=fold)) for fold in (0, 1))
    return second if first < second else None


def _read_toggl(file: File, person: Person) -> Iterator[Record | Refused]:
    def records(row: _Row) -> Iterator[AppSession]:
        description, project = values.text(row.get("Description")), values.text(row.get("Project"))
        yield _session(
            "toggl",
            values.instant_in(_joined(row, "Start date", "Start time"), person.zone),
            values.instant_in(_joined(row, "End date", "End time"), person.zone),
            project or description or "Toggl",
            description,
        )

    return reading.table_records(file, records)


def _joined(row: _Row, day: str, time: str) -> str | None:
    return f"{row[day]} {row[time]}" if row.get(day) and row.get(time) else None


def _read_manictime(file: File, person: Person) -> Iterator[Record | Refused]:
    def records(row: _Row) -> Iterator[AppSession]:
        process = (values.text(row.get("Process")) or "").removesuffix(".exe")
        name = values.text(row.get("Name"))
        yield _session(
            "manictime",
            _manictime(row.get("Start"), person),
            _manictime(row.get("End"), person),
            process or name or "unknown",
            name,
        )

    return reading.table_records(file, records)


def _manictime(written: str | None, person: Person) -> datetime:
    for pattern in _MANICTIME:
        with suppress(ValueError):
            at = datetime.strptime(written or "", pattern).replace(tzinfo=person.zone)
            return values.utc(at)
    raise Flaw("invalid_time" if written else "missing_time")


def _read_atimelogger(file: File, person: Person) -> Iterator[Record | Refused]:
    def records(row: _Row) -> Iterator[AppSession]:
        if not row.get("To"):
            # A second table behind the first adds up what each activity took.
            raise Flaw("no_interval")
        yield _session(
            "atimelogger",
            values.instant_in(row.get("From"), person.zone),
            values.instant_in(row.get("To"), person.zone),
            values.text(row.get("Activity type")) or "unknown",
            values.text(row.get("Comment")),
        )

    return reading.table_records(file, records)


def _has_columns(head: Head, *columns: str) -> float:
    header = head.text.partition("\n")[0].strip().replace('"', "").split(",")
    return 1.0 if set(columns) <= {name.strip() for name in header} else 0.0


def _recognise_rescuetime(head: Head) -> float:
    return _has_columns(head, "Date", "Time Spent (seconds)", "Activity")


def _recognise_toggl(head: Head) -> float:
    return _has_columns(head, "Project", "Start date", "Start time", "End date", "End time")


def _recognise_manictime(head: Head) -> float:
    return _has_columns(head, "Name", "Start", "End", "Duration", "Process")


def _recognise_atimelogger(head: Head) -> float:
    return _has_columns(head, "Activity type", "Duration", "From", "To")


RESCUETIME: Final = Format(
    name="rescuetime",
    title="RescueTime, activities by hour",
    source="rescuetime",
    records=(AppSession,),
    recognise=_recognise_rescuetime,
    read=_read_rescuetime,
)

TOGGL: Final = Format(
    name="toggl",
    title="Toggl Track, detailed report",
    source="toggl",
    records=(AppSession,),
    recognise=_recognise_toggl,
    read=_read_toggl,
)

MANICTIME: Final = Format(
    name="manictime",
    title="ManicTime, applications",
    source="manictime",
    records=(AppSession,),
    recognise=_recognise_manictime,
    read=_read_manictime,
)

ATIMELOGGER: Final = Format(
    name="atimelogger",
    title="aTimeLogger, report",
    source="atimelogger",
    records=(AppSession,),
    recognise=_recognise_atimelogger,
    read=_read_atimelogger,
)

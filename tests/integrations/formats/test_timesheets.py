"""Tables of other trackers of time."""

from datetime import UTC, datetime

import pytest

from resourceserver.integrations.format import Format
from resourceserver.integrations.formats.timesheets import (
    ATIMELOGGER,
    MANICTIME,
    RESCUETIME,
    TOGGL,
)
from resourceserver.integrations.records import AppSession
from tests.integrations.memory import Reading, read, recognise

RESCUETIME_TABLE = """Date,Time Spent (seconds),Number of People,Activity,Category,Productivity
2025-06-16T10:00:00,1800,1,Code,Editing,2
2025-06-16T10:00:00,1200,1,Firefox,Browsers,0
2025-06-16T10:00:00,1200,1,Slack,Chat,0
2025-06-16T11:00:00,60,1,Code,Editing,2
someday,60,1,Code,Editing,2
2025-06-16T11:00:00,,1,Code,Editing,2
"""
TOGGL_TABLE = """User,Client,Project,Task,Description,Billable,Start date,Start time,End date,End time
Al,,svc,,"Review, tests",No,2025-06-16,10:00:00,2025-06-16,11:30:00
Al,,,,,No,2025-06-16,12:00:00,2025-06-16,12:00:01
Al,,svc,,,No,2025-06-16,,2025-06-16,12:00:01
"""
MANICTIME_TABLE = """Name,Start,End,Duration,Process
main.py - Code,16/06/2025 10:00:00,16/06/2025 10:00:30,0:00:30,code.exe
main.py - Code,6/16/2025 10:01:00 AM,6/16/2025 10:01:30 AM,0:00:30,
main.py - Code,16. Juni,16. Juni,0:00:30,
"""
ATIMELOGGER_TABLE = """Activity type,Duration,From,To,Comment
"Sleep","8:00","2025-06-15 23:00","2025-06-16 07:00","late"

Activity type,Duration,%
"Sleep","8:00","100"
"""

TABLES = [
    (RESCUETIME, RESCUETIME_TABLE),
    (TOGGL, TOGGL_TABLE),
    (MANICTIME, MANICTIME_TABLE),
    (ATIMELOGGER, ATIMELOGGER_TABLE),
]


def spans(reading: Reading) -> list[tuple[str, str, str]]:
    return [
        (each.app, each.started_at.strftime("%H:%M:%S"), each.ended_at.strftime("%H:%M:%S"))
        for each in reading.records
    ]


def test_the_rows_of_an_hour_of_rescuetime_are_laid_one_behind_another() -> None:
    reading = read(RESCUETIME, RESCUETIME_TABLE)

    assert spans(reading) == [
        ("Code", "08:00:00", "08:30:00"),
        ("Firefox", "08:30:00", "08:50:00"),
        ("Code", "09:00:00", "09:01:00"),
    ]
    assert reading.records[1].key == "rescuetime:1750060800000:Firefox:"
    assert reading.reasons == ["more_than_an_hour", "invalid_time", "missing_value"]


def test_the_hour_that_comes_twice_in_rescuetime_is_taken_whole() -> None:
    table = """Date,Time Spent (seconds),Number of People,Activity,Category,Productivity
2025-10-26T02:00:00,3000,1,Code,Editing,2
2025-10-26T02:00:00,600,1,Firefox,Browsers,0
2025-10-26T02:00:00,3000,1,Code,Editing,2
2025-10-26T02:00:00,601,1,Slack,Chat,0
2025-10-26T03:00:00,60,1,Code,Editing,2
"""

    reading = read(RESCUETIME, table)

    assert spans(reading) == [
        ("Code", "00:00:00", "00:50:00"),
        ("Firefox", "00:50:00", "01:00:00"),
        ("Code", "01:00:00", "01:50:00"),
        ("Code", "02:00:00", "02:01:00"),
    ]
    assert len({each.key for each in reading.records}) == 4
    assert reading.reasons == ["more_than_an_hour"]


def test_entries_of_toggl_are_named_by_their_project() -> None:
    reading = read(TOGGL, TOGGL_TABLE)

    assert reading.records[0] == AppSession(
        key="toggl:1750060800000:svc:Review, tests",
        started_at=datetime(2025, 6, 16, 8, tzinfo=UTC),
        ended_at=datetime(2025, 6, 16, 9, 30, tzinfo=UTC),
        device="toggl",
        app="svc",
        title="Review, tests",
    )
    assert reading.records[1].app == "Toggl"
    assert reading.reasons == ["missing_time"]


def test_manictime_writes_times_as_its_region_does() -> None:
    reading = read(MANICTIME, MANICTIME_TABLE)

    assert spans(reading) == [
        ("code", "08:00:00", "08:00:30"),
        ("main.py - Code", "08:01:00", "08:01:30"),
    ]
    assert reading.reasons == ["invalid_time"]


def test_sums_of_atimelogger_are_no_sessions() -> None:
    reading = read(ATIMELOGGER, ATIMELOGGER_TABLE)

    assert spans(reading) == [("Sleep", "21:00:00", "05:00:00")]
    assert reading.records[0].title == "late"
    assert reading.reasons == ["no_interval", "no_interval"]


@pytest.mark.parametrize(("own", "table"), TABLES, ids=[each.name for each, _ in TABLES])
def test_a_table_is_recognised_by_its_columns(own: Format, table: str) -> None:
    for content in (table.encode(), table.encode("utf-8-sig"), table.encode("utf-16")):
        assert [recognise(each, content) for each, _ in TABLES] == [
            float(each is own) for each, _ in TABLES
        ]
        assert read(own, content).records == read(own, table).records

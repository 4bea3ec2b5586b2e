"""iCalendar files: single events, whole days, zones, recurrence with moved and cancelled instances."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from io import StringIO
from pathlib import Path

import icalendar
import pytest

from resourceserver.integrations.formats import icalendar as module
from resourceserver.integrations.formats.icalendar import ICALENDAR, Window
from resourceserver.integrations.records import Calendar, CalendarEvent, Refused
from tests.integrations.memory import ALICE, Reading, read, recognise

FOREIGN = sorted((Path(icalendar.__file__).parent / "tests").rglob("*.ics"))
YEARS = Window(datetime(2025, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))


def calendar(*events: str, header: str = "X-WR-CALNAME:Work\nX-WR-TIMEZONE:Europe/Berlin") -> str:
    inner = "\n".join(f"BEGIN:VEVENT\n{event.strip()}\nEND:VEVENT" for event in events)
    return f"BEGIN:VCALENDAR\nVERSION:2.0\n{header}\n{inner}\nEND:VCALENDAR\n"


def read_events(*events: str) -> Reading:
    return read(ICALENDAR, calendar(*events))


def starts(reading: Reading) -> list[str]:
    return [each.starts_at.strftime("%m-%d %H:%M") for each in reading.records]


def test_a_single_event_has_all_that_a_file_says_of_it() -> None:
    reading = read_events(
        """UID:one@example.org
DTSTART;TZID=America/New_York:20250616T090000
DTEND;TZID=America/New_York:20250616T100000
SUMMARY:Design\\, then
  review
DESCRIPTION:First line\\nsecond
LOCATION:Room 4
STATUS:TENTATIVE
ORGANIZER;CN=Bob:mailto:bob@example.org
ATTENDEE;PARTSTAT=ACCEPTED:mailto:bob@example.org
ATTENDEE;PARTSTAT=DECLINED:mailto:alice@example.org
X-GOOGLE-CONFERENCE:https://meet.example.org/x
LAST-MODIFIED:20250601T080000Z
BEGIN:VALARM
TRIGGER:-PT15M
END:VALARM"""
    )

    assert reading.records == [
        CalendarEvent(
            key="ics:one@example.org",
            calendar=Calendar("Work", "Work", "Europe/Berlin"),
            starts_at=datetime(2025, 6, 16, 13, tzinfo=UTC),
            ends_at=datetime(2025, 6, 16, 14, tzinfo=UTC),
            status="tentative",
            title="Design, then review",
            description="First line\nsecond",
            location="Room 4",
            timezone="America/New_York",
            organizer_name="Bob",
            attendee_count=2,
            conference_url="https://meet.example.org/x",
            updated_at=datetime(2025, 6, 1, 8, tzinfo=UTC),
        )
    ]


def test_the_answer_of_the_person_after_whom_google_names_the_calendar_is_theirs() -> None:
    reading = read(
        ICALENDAR,
        calendar(
            "UID:1\nDTSTART:20250616T090000Z\nORGANIZER:mailto:alice@example.org\n"
            "ATTENDEE;PARTSTAT=NEEDS-ACTION:mailto:Alice@example.org",
            header="X-WR-CALNAME:alice@example.org",
        ),
    )

    (event,) = reading.records
    assert (event.response, event.organizer_is_self) == ("needs_action", True)


def test_whole_days_have_dates_and_begin_at_midnight_of_the_calendar() -> None:
    reading = read_events(
        "UID:1\nDTSTART;VALUE=DATE:20250329\nDTEND;VALUE=DATE:20250331",
        "UID:2\nDTSTART;VALUE=DATE:20250616",
    )

    two_days, one_day = reading.records
    assert (two_days.start_date, two_days.end_date) == (date(2025, 3, 29), date(2025, 3, 31))
    # The clocks change on the second day.
    assert two_days.starts_at == datetime(2025, 3, 28, 23, tzinfo=UTC)
    assert two_days.ends_at == datetime(2025, 3, 30, 22, tzinfo=UTC)
    assert one_day.end_date == date(2025, 6, 17)


def test_times_without_a_zone_are_of_the_calendar_else_of_the_person() -> None:
    floating = "UID:1\nDTSTART:20250616T090000\nDURATION:PT30M"

    in_tokyo = read(ICALENDAR, calendar(floating, header="X-WR-TIMEZONE:Asia/Tokyo"))
    at_home = read(ICALENDAR, calendar(floating, header="X-WR-TIMEZONE:Nowhere"))

    assert starts(in_tokyo) == ["06-16 00:00"]
    assert starts(at_home) == ["06-16 07:00"]
    assert at_home.records[0].timezone == "Europe/Berlin"


def test_zones_of_windows_and_zones_that_the_file_defines_are_read() -> None:
    zone = """BEGIN:VTIMEZONE
TZID:Our own
BEGIN:STANDARD
DTSTART:19700101T000000
TZOFFSETFROM:+0530
TZOFFSETTO:+0530
END:STANDARD
END:VTIMEZONE"""
    custom = "UID:1\nDTSTART;TZID=Our own:20250616T090000"
    windows = "UID:2\nDTSTART;TZID=W. Europe Standard Time:20250616T090000"

    assert starts(read(ICALENDAR, calendar(custom, windows, header=zone))) == [
        "06-16 03:30",
        "06-16 07:00",
    ]
    # A zone of one file is unknown in the next.
    assert "06-16 03:30" not in starts(read(ICALENDAR, calendar(custom)))


def test_two_calendars_that_are_read_at_once_keep_their_own_zones() -> None:
    def reading(offset: str) -> Iterator[CalendarEvent | Refused]:
        zone = f"""BEGIN:VTIMEZONE
TZID:Ours
BEGIN:STANDARD
DTSTART:19700101T000000
TZOFFSETFROM:{offset}
TZOFFSETTO:{offset}
END:STANDARD
END:VTIMEZONE"""
        events = (f"UID:{n}\nDTSTART;TZID=Ours:20250616T090000" for n in range(2))
        return module.events(StringIO(calendar(*events, header=zone)), ALICE, YEARS)

    in_pairs = zip(reading("+0530"), reading("-0200"), strict=True)

    assert [[starts(Reading([each]))[0] for each in pair] for pair in in_pairs] == [
        ["06-16 03:30", "06-16 11:00"],
        ["06-16 03:30", "06-16 11:00"],
    ]


def test_a_window_leaves_out_single_events_of_other_days() -> None:
    text = calendar(
        "UID:before\nDTSTART:20250101T090000Z\nDTEND:20250101T100000Z",
        "UID:into\nDTSTART:20250101T090000Z\nDTEND:20250616T100000Z",
        "UID:lasting\nDTSTART:20250101T090000Z\nDURATION:P200D",
        "UID:within\nDTSTART;VALUE=DATE:20250616",
        "UID:without end\nDTSTART:20250101T090000Z",
        "UID:after\nDTSTART:20270101T090000Z",
        "UID:series\nDTSTART:20250101T090000Z\nRRULE:FREQ=MONTHLY;COUNT=9",
    )
    window = Window(
        datetime(2025, 6, 1, tzinfo=UTC), datetime(2025, 8, 1, tzinfo=UTC), has_all_single=False
    )

    found = list(module.events(StringIO(text), ALICE, window))

    assert [each.key for each in found if isinstance(each, CalendarEvent)] == [
        "ics:into",
        "ics:lasting",
        "ics:within",
        "ics:series:1748764800000",
        "ics:series:1751356800000",
    ]


def test_events_of_a_given_calendar_are_of_this_one_and_know_the_person() -> None:
    text = calendar(
        "UID:1\nDTSTART:20250616T090000\nORGANIZER:mailto:Alice@example.org\n"
        "ATTENDEE;PARTSTAT=ACCEPTED:mailto:alice@example.org"
    )
    given = Calendar("home", "Home", "Asia/Tokyo")
    addresses = frozenset({"alice@example.org"})

    (event,) = module.events(StringIO(text), ALICE, YEARS, calendar=given, addresses=addresses)

    assert isinstance(event, CalendarEvent)
    assert (event.calendar, event.response, event.organizer_is_self) == (given, "accepted", True)
    assert event.starts_at == datetime(2025, 6, 16, 0, tzinfo=UTC)


def test_a_series_keeps_its_local_time_over_a_change_of_clocks() -> None:
    # X-WR-TIMEZONE is the zone in which Google's series in UTC are meant.
    reading = read_events("UID:1\nDTSTART:20251020T080000Z\nRRULE:FREQ=WEEKLY;COUNT=2")

    assert starts(reading) == ["10-20 08:00", "10-27 09:00"]
    assert [each.series_id for each in reading.records] == ["1", "1"]
    assert reading.records[1].key == "ics:1:1761555600000"


@pytest.mark.parametrize("header", ["X-WR-CALNAME:Work", "X-WR-TIMEZONE:Nowhere"])
def test_a_series_in_utc_stays_there_unless_the_calendar_names_another_zone(header: str) -> None:
    series = "UID:1\nDTSTART:20251020T080000Z\nRRULE:FREQ=WEEKLY;COUNT=2"

    reading = read(ICALENDAR, calendar(series, header=header))

    assert starts(reading) == ["10-20 08:00", "10-27 08:00"]


def test_moved_cancelled_added_and_left_out_instances_are_followed() -> None:
    reading = read_events(
        # The moved instance stands before its series.
        """UID:1
RECURRENCE-ID;TZID=Europe/Berlin:20250702T100000
DTSTART;TZID=Europe/Berlin:20250703T110000
SUMMARY:Moved""",
        """UID:1
DTSTART;TZID=Europe/Berlin:20250701T100000
DURATION:PT1H
RRULE:FREQ=DAILY;COUNT=4
EXDATE;TZID=Europe/Berlin:20250703T100000
RDATE;TZID=Europe/Berlin:20250710T100000
SUMMARY:Daily""",
        """UID:1
RECURRENCE-ID;TZID=Europe/Berlin:20250704T100000
DTSTART;TZID=Europe/Berlin:20250704T100000
STATUS:CANCELLED""",
    )

    found = {each.key: each for each in reading.records}
    assert sorted(starts(reading)) == ["07-01 08:00", "07-03 09:00", "07-04 08:00", "07-10 08:00"]
    moved = found["ics:1:1751443200000"]
    assert (moved.title, moved.status) == ("Moved", "confirmed")
    assert found["ics:1:1751616000000"].status == "cancelled"


def test_a_rule_without_end_is_expanded_around_the_import() -> None:
    reading = read_events("UID:1\nDTSTART;VALUE=DATE:19800229\nRRULE:FREQ=YEARLY;INTERVAL=4")

    dates = [each.start_date for each in reading.records]
    assert dates == [date(2016, 2, 29), date(2020, 2, 29), date(2024, 2, 29)]
    assert reading.records[0].key == "ics:1:2016-02-29"


def test_a_series_without_an_instance_in_reach_of_the_import_is_refused() -> None:
    reading = read_events("UID:1\nDTSTART:19970902T090000Z\nRRULE:FREQ=DAILY;COUNT=10\nSUMMARY:Old")

    assert reading.reasons == ["no_instance_within_range"]


def test_instances_that_reach_over_the_edge_of_a_year_come_once() -> None:
    reading = read_events(
        "UID:1\nDTSTART;VALUE=DATE:20160101\nDTEND;VALUE=DATE:20160108\nRRULE:FREQ=WEEKLY"
    )

    keys = [each.key for each in reading.records]
    assert len(keys) == len(set(keys)) == 627


def test_a_series_with_more_instances_than_may_be_is_cut_with_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "INSTANCES", 5)

    reading = read_events(
        "UID:1\nDTSTART:20250101T000000Z\nRRULE:FREQ=DAILY;COUNT=3\nSUMMARY:Short",
        "UID:2\nDTSTART:20250101T000000Z\nRRULE:FREQ=DAILY\nSUMMARY:Long",
    )

    assert len(reading.records) == 5
    assert [(each.reason, each.example) for each in reading.refused] == [
        ("too_many_instances", "Long")
    ]


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ("UID:1\nDTSTART:20250101T000000Z\nRRULE:FREQ=SECONDLY", "recurs_too_often"),
        ("UID:1\nDTSTART:20250101T000000Z\nRRULE:FREQ=MINUTELY;BYMONTHDAY=31", "recurs_too_often"),
        ("UID:1\nDTSTART:00010101T000000Z\nRRULE:FREQ=HOURLY", "recurs_too_often"),
        ("UID:1\nDTSTART:20250101T000000Z\nRRULE:FREQ=HOURLY;BYSETPOS=2", "recurs_too_often"),
        (
            "UID:1\nDTSTART:20250101T000000Z\nRRULE:FREQ=DAILY;BYHOUR=1,2,3,4,5;BYMINUTE=1,2,3,4,5",
            "recurs_too_often",
        ),
        ("UID:1\nDTSTART:00010101T000000Z\nRRULE:FREQ=DAILY", "recurs_too_often"),
        *(
            (f"UID:1\nDTSTART:20250101T000000Z\nRRULE:FREQ={rule}", "never_recurs")
            for rule in (
                "DAILY;BYMONTH=2;BYMONTHDAY=30",
                "HOURLY;BYMONTH=4;BYMONTHDAY=31,-31",
                "HOURLY;BYYEARDAY=-1;BYMONTH=6",
                "DAILY;BYDAY=MO,TU;BYSETPOS=2",
                "WEEKLY;BYDAY=MO,TU;BYSETPOS=-3",
            )
        ),
        (
            "UID:1\nDTSTART:20250101T000000Z\nRRULE:FREQ=DAILY;BYWEEKNO=10;BYMONTH=10",
            "invalid_recurrence",
        ),
        (
            "UID:1\nDTSTART:20250101T000000Z\nRDATE:" + ",".join(["20250102T000000Z"] * 10_001),
            "too_many_dates",
        ),
        ("UID:1\nDTSTART:20250101T000000Z\nRRULE:FREQ=SOMETIMES", "invalid_recurrence"),
        ("UID:1\nSUMMARY:When?", "missing_time"),
        ("UID:1\nDTSTART:20251301T000000Z", "invalid_event"),
        ("UID:1\nDTSTART:20250102T000000Z\nDTEND:20250101T000000Z", "ends_before_start"),
        ("UID:1\nDTSTART;VALUE=DATE:00010101", "invalid_time"),
    ],
)
def test_an_event_that_cannot_be_read_is_refused_and_the_others_kept(
    event: str, reason: str
) -> None:
    reading = read_events(event, "UID:2\nDTSTART:20250101T000000Z")

    assert reading.reasons == [reason]
    assert [each.key for each in reading.records] == ["ics:2"]


@pytest.mark.parametrize(
    ("rule", "count"),
    [
        ("DAILY;BYMONTH=2;BYMONTHDAY=29", 3),
        ("DAILY;BYMONTH=2;BYMONTHDAY=-1;BYDAY=SA", 2),
        ("HOURLY;BYYEARDAY=366;BYHOUR=9", 3),
        ("WEEKLY;BYDAY=WE,MO;BYSETPOS=-2", 626),
        ("DAILY;BYHOUR=9,10;BYSETPOS=-2;BYMONTH=1;BYMONTHDAY=1", 12),
    ],
)
def test_a_rule_that_matches_now_and_then_is_followed(rule: str, count: int) -> None:
    reading = read_events(f"UID:1\nDTSTART:20120101T090000Z\nRRULE:FREQ={rule}")

    assert (reading.reasons, len(reading.records)) == ([], count)


def test_tasks_and_oversized_events_are_counted_as_refused() -> None:
    text = calendar(
        "UID:1\nDTSTART:20250101T000000Z\nDESCRIPTION:" + "x" * module.EVENT_LENGTH,
        "UID:2\nDTSTART:20250101T000000Z\nATTACH;ENCODING=BASE64;VALUE=BINARY:" + "A" * 2_000_000,
    ).replace("END:VCALENDAR", "BEGIN:VTODO\nSUMMARY:Pay\nEND:VTODO\nEND:VCALENDAR")

    reading = read(ICALENDAR, text)

    assert sorted(reading.reasons) == ["event_too_large", "not_an_event"]
    assert [each.key for each in reading.records] == ["ics:2"]


def test_a_truncated_file_keeps_the_events_before_the_break() -> None:
    whole = calendar(
        "UID:1\nDTSTART:20250101T000000Z\nRRULE:FREQ=DAILY;COUNT=2",
        "UID:2\nDTSTART:20250101T000000Z\nSUMMARY:Half",
    )

    reading = read(ICALENDAR, whole[: whole.index("Half")])

    assert len(reading.records) == 2
    assert reading.reasons == ["incomplete_event"]
    assert reading.unreadable == "the file ends in the middle of a calendar"


def test_other_encodings_and_nul_are_read() -> None:
    text = calendar("UID:1\nDTSTART:20250101T000000Z\nSUMMARY:Caf\0é")

    for content in (text.encode("utf-16"), text.encode("utf-8-sig")):
        assert recognise(ICALENDAR, content) == 1.0
        assert [each.title for each in read(ICALENDAR, content).records] == ["Café"]


def test_an_empty_file_is_no_calendar() -> None:
    assert recognise(ICALENDAR, b"") == 0.0
    assert read(ICALENDAR, b"") == Reading()


@pytest.mark.parametrize("path", FOREIGN, ids=[path.stem for path in FOREIGN])
def test_each_event_of_the_files_of_the_library_is_accounted_for(path: Path) -> None:
    content = path.read_bytes()
    text = content.decode(errors="replace").upper()

    reading = read(ICALENDAR, content)

    events = [each for each in reading.refused if each.reason != "not_an_event"]
    if not recognise(ICALENDAR, content):
        return
    if any(name in text for name in ("RRULE", "RDATE", "RECURRENCE-ID")):
        assert "BEGIN:VEVENT" not in text or reading.records or events
    else:
        assert len(reading.records) + len(events) == text.count("BEGIN:VEVENT")

"""The pull of a calendar from an address: what it reads, when it reads again, and what it bears."""

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from resourceserver.integrations.format import Person
from resourceserver.integrations.formats.icalendar import ICALENDAR
from resourceserver.integrations.pulls import calendar
from resourceserver.integrations.pulls.pulling import PullFailed
from shared.fetcher import AddressForbidden, NotHTTPS
from tests import https
from tests.https import Host, Request, plain
from tests.integrations import memory
from tests.pulls.calendars import NOW, PASSWORD, PATH, event, pull, text


@contextmanager
def serving(
    body: str | bytes = "", *, status: str = "200 OK", headers: Mapping[str, str] | None = None
) -> Iterator[Host]:
    """Run a host that answers a GET of the address like this, and knows no other method."""
    content = body.encode() if isinstance(body, str) else body

    def answer(request: Request) -> tuple[bytes, ...]:
        if request.method != "GET":
            return plain(b"", status="405 Method Not Allowed")
        return plain(content, status=status, headers=headers)

    with https.host(answer) as host:
        yield host


@contextmanager
def changing(versions: dict[str, str]) -> Iterator[Host]:
    """Run a host with the calendar ``versions["now"]``, whose ETag is that of its text."""

    def answer(request: Request) -> tuple[bytes, ...]:
        tag = f'"{hash(versions["now"])}"'
        if request.headers.get("if-none-match") == tag:
            return plain(b"", status="304 Not Modified", headers={"ETag": tag})
        return plain(versions["now"].encode(), headers={"ETag": tag})

    with https.host(answer) as host:
        yield host


def test_a_pull_and_an_import_of_the_same_calendar_have_the_same_records() -> None:
    body = text(
        event("single", "20250616T090000Z", "DTEND:20250616T100000Z", "SUMMARY:Review"),
        event("day", "20250616", "SUMMARY:Holiday").replace("DTSTART", "DTSTART;VALUE=DATE"),
        event("series", "20250601T080000Z", "RRULE:FREQ=DAILY;COUNT=3", "EXDATE:20250602T080000Z"),
        event("series", "20250704T100000Z", "RECURRENCE-ID:20250603T080000Z", "SUMMARY:Moved"),
    )
    zone = memory.ALICE.zone

    with serving(body) as host:
        reading = pull(host)

    file = memory.read(ICALENDAR, body, person=Person(zone, NOW))
    assert list(reading.events.values()) == file.records
    assert sorted(reading.events) == [
        "ics:day",
        "ics:series:1748764800000",
        "ics:series:1748937600000",
        "ics:single",
    ]
    assert reading.refused == []


def test_events_of_a_year_back_and_a_year_ahead_are_read() -> None:
    body = text(
        event("old", "20200101T090000Z", "DTEND:20200101T100000Z"),
        event("ended", "20200101T090000Z", "RRULE:FREQ=DAILY;COUNT=10"),
        event("yearly", "20200616T090000Z", "RRULE:FREQ=YEARLY"),
        event("far", "20280101T090000Z"),
    )

    with serving(body) as host:
        reading = pull(host)

    years = [each.starts_at.year for each in reading.events.values()]
    assert (years, reading.refused) == ([2024, 2025, 2026], [])


def test_a_calendar_that_has_not_changed_is_not_read_again_for_a_day() -> None:
    versions = {"now": text(event("1", "20250616T090000Z", "RRULE:FREQ=DAILY"))}

    with changing(versions) as host:
        first = pull(host)
        second = pull(host, state=first.state, now=NOW + timedelta(hours=1))
        third = pull(host, state=second.state, now=NOW + timedelta(hours=25))
        versions["now"] = text(event("2"))
        fourth = pull(host, state=third.state, now=NOW + timedelta(hours=26))

    assert (second.events, second.pulled.finish) == ({}, None)
    # The window has moved on, and with it the last instance.
    assert max(third.events) == f"ics:1:{int(datetime(2026, 6, 18, 9, tzinfo=UTC).timestamp())}000"
    assert third.events.keys() - first.events.keys() == {max(third.events)}
    assert fourth.events.keys() == {"ics:2"}
    conditions = [each.headers.get("if-none-match") for each in host.requests]
    assert [each is not None for each in conditions] == [False, True, False, True]


def test_the_time_of_an_answer_is_no_change() -> None:
    def at(second: int) -> str:
        return text(event("1", "20250616T090000Z", f"DTSTAMP:20250616T12000{second}Z"))

    with serving(at(1), headers={"Last-Modified": "Mon, 16 Jun 2025 12:00:01 GMT"}) as host:
        first = pull(host)
    with serving(at(2)) as host:
        second = pull(host, state=first.state)
    with serving(at(3).replace("UID:1", "UID:2")) as other:
        third = pull(other, state=second.state)

    assert (second.events, second.pulled.finish) == ({}, None)
    assert host.requests[0].headers["if-modified-since"] == "Mon, 16 Jun 2025 12:00:01 GMT"
    assert third.events.keys() == {"ics:2"}


def test_an_address_of_webcal_is_read_with_https_and_its_name_and_password() -> None:
    with serving(text(event("1"))) as host:
        first = pull(
            host,
            host.url(PATH).replace("https://", "webcal://") + "\n",
            user="alice",
            password=PASSWORD,
        )
        pull(
            host, state=first.state | {"read_at": NOW.isoformat()}, user="alice", password=PASSWORD
        )

    assert first.events.keys() == {"ics:1"}
    # What is at the address is found out once.
    assert [each.method for each in host.requests] == ["PROPFIND", "GET", "GET"]
    assert {each.headers["authorization"] for each in host.requests} == {
        "Basic YWxpY2U6Y29ycmVjdC1ob3JzZQ=="
    }


@pytest.mark.parametrize(
    ("status", "headers", "code", "retry_after", "is_refused"),
    [
        ("401 Unauthorized", {}, "key_refused", None, True),
        ("403 Forbidden", {}, "key_refused", None, True),
        ("404 Not Found", {}, "not_found", None, False),
        ("410 Gone", {}, "not_found", None, False),
        ("429 Too Many Requests", {"Retry-After": "120"}, "rate_limited", 120, False),
        ("429 Too Many Requests", {"Retry-After": "9" * 30}, "rate_limited", 86_400, False),
        (
            "503 Service Unavailable",
            {
                "Date": "Mon, 16 Jun 2025 09:00:00 GMT",
                "Retry-After": "Mon, 16 Jun 2025 09:30:00 GMT",
            },
            "server_error",
            1800,
            False,
        ),
        (
            "503 Service Unavailable",
            {"Retry-After": "Mon, 16 Jun 2025 12:00:30 GMT"},
            "server_error",
            30,
            False,
        ),
        ("503 Service Unavailable", {"Retry-After": "soon"}, "server_error", None, False),
        ("500 Internal Server Error", {}, "server_error", None, False),
        ("304 Not Modified", {}, "unreadable", None, False),
    ],
)
def test_an_answer_without_a_calendar_says_what_to_do(
    status: str,
    headers: Mapping[str, str],
    code: str,
    retry_after: int | None,
    is_refused: bool,
) -> None:
    with serving(status=status, headers=headers) as host, pytest.raises(PullFailed) as failed:
        pull(host)

    assert (failed.value.code, failed.value.is_refused) == (code, is_refused)
    waits = failed.value.retry_after
    assert (waits and waits.total_seconds()) == retry_after


@pytest.mark.parametrize(
    "body", [b"", b"<!doctype html><title>Sign in</title>", b"\x00\xff", b"BEGIN:VCARD\r\n"]
)
def test_what_is_no_calendar_is_refused(body: bytes) -> None:
    with serving(body) as host, pytest.raises(PullFailed, match="not_a_calendar"):
        pull(host)


@pytest.mark.parametrize("kept", ["END:VEVENT\r\n", "UID:2"])
def test_a_calendar_that_is_cut_off_is_no_calendar_without_the_rest(kept: str) -> None:
    whole = text(event("1"), event("2"))

    with (
        serving(whole[: whole.index(kept) + len(kept)]) as host,
        pytest.raises(PullFailed, match="incomplete"),
    ):
        pull(host)


def test_a_redirect_into_the_network_of_the_server_is_not_followed() -> None:
    with (
        serving(
            status="302 Found", headers={"Location": "http://169.254.169.254/latest/meta-data"}
        ) as host,
        pytest.raises(NotHTTPS),
    ):
        pull(host)
    with (
        serving(status="302 Found", headers={"Location": "https://169.254.169.254/"}) as host,
        pytest.raises(AddressForbidden),
    ):
        pull(host)


def test_of_a_hundred_thousand_instances_a_bounded_number_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calendar, "EVENTS", 1000)
    # Two years of 140 events a day.
    series = (
        event(str(number), "20240101T090000Z", "RRULE:FREQ=DAILY", f"SUMMARY:Series {number}")
        for number in range(140)
    )

    with serving(text(*series)) as host:
        reading = pull(host)

    # Of a thousand, those of the first days before the window and of the last days after it are not kept.
    assert len(reading.events) == 732 + 262
    assert [(each.reason, each.example) for each in reading.refused] == [
        ("too_many_events", "Series 1")
    ]


def test_a_calendar_whose_rules_take_too_long_is_read_in_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calendar, "READING_S", 0.0)

    with serving(text(event("1"), event("2"))) as host:
        reading = pull(host)

    assert (reading.events, reading.reasons) == ({}, ["takes_too_long"])


@pytest.mark.parametrize(
    ("rule", "reasons"),
    [
        ("RRULE:FREQ=SECONDLY", ["recurs_too_often"]),
        ("RRULE:FREQ=HOURLY;BYMINUTE=0,1,2,3,4", ["recurs_too_often"]),
        # Such a day never comes.
        ("RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", []),
    ],
)
def test_a_rule_that_never_ends_does_not_keep_the_pull(rule: str, reasons: list[str]) -> None:
    with serving(text(event("1", "20250601T090000Z", rule), event("2"))) as host:
        reading = pull(host)

    assert reading.reasons == reasons
    assert "ics:2" in reading.events


def test_a_zone_that_does_not_exist_is_that_of_the_person() -> None:
    body = text(event("1").replace("DTSTART:", "DTSTART;TZID=Mars/Base:").replace("00Z", "00"))

    with serving(body) as host:
        reading = pull(host)

    assert reading.events["ics:1"].starts_at == datetime(2025, 6, 16, 7, tzinfo=UTC)


def test_an_event_that_comes_twice_is_one() -> None:
    with serving(text(event("1"), event("1", "20250617T090000Z"))) as host:
        reading = pull(host)

    assert [each.starts_at.day for each in reading.events.values()] == [17]


def test_whole_days_are_those_of_the_calendar() -> None:
    body = text(
        "X-WR-TIMEZONE:Asia/Tokyo",
        event("1", "20250616").replace("DTSTART", "DTSTART;VALUE=DATE"),
    )

    with serving(body) as host:
        (found,) = pull(host).events.values()

    assert found.start_date == date(2025, 6, 16)
    assert found.starts_at == datetime(2025, 6, 15, 15, tzinfo=UTC)


@pytest.mark.parametrize("status", ["200 OK", "401 Unauthorized", "500 Internal Server Error"])
def test_no_address_and_no_password_appears_anywhere(
    status: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    written: list[Any] = []

    for body in (text(event("1")), text(event("1", "20250616T090000Z", "RRULE:FREQ=NEVER"))[:-20]):
        with serving(body, status=status, headers={"ETag": '"1"'}) as host:
            try:
                reading = pull(host, user="alice", password=PASSWORD)
            except PullFailed as error:
                written += [repr(error), str(error), repr(error.__cause__)]
            else:
                written += [json.dumps(reading.state), *reading.refused]
                written += [event.calendar for event in reading.events.values()]

    assert written
    for secret in ("0f9e8d7c6b5a", PASSWORD, "YWxpY2U6Y29y", host.url()):
        assert secret not in f"{written} {caplog.text}"

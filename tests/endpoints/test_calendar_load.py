"""GET /api/v1/calendar/load."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tests.conftest import Person
from tests.endpoints.histories import PLACES, History, carol_with
from tests.endpoints.timeline import EPOCH, Span, days, instant, percent

Rows = psycopg.Connection[Any]

PATH = "/api/v1/calendar/load"
MINUTE = 60_000
HOUR = 60 * MINUTE
STEP = 5 * MINUTE
"""All events of the property begin and end at a multiple of it."""


@dataclass(frozen=True)
class Event:
    """An event of a calendar, in milliseconds since EPOCH."""

    start: int
    end: int
    status: str = "confirmed"
    response: str | None = "accepted"
    is_all_day: bool = False

    @property
    def counts(self) -> bool:
        """Whether it is a meeting that the person attends."""
        is_attended = self.status == "confirmed" and self.response == "accepted"
        return is_attended and not self.is_all_day and self.start < self.end


def ask(api: TestClient, person: Person, first: str, last: str, **params: str) -> dict[str, Any]:
    answer = api.get(
        PATH,
        params={"from": first, "to": last} | params,
        headers=person.headers("read:content"),
    )
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def add(owner: Rows, person: Person, events: Iterable[Event]) -> None:
    """Write events into one calendar."""
    row = owner.execute(
        """
        insert into content.calendar (user_id, name, provider)
        values (%s, 'Work', 'google')
        returning calendar_id
        """,
        [person.user_id],
    ).fetchone()
    assert row is not None
    with owner.cursor() as cursor:
        cursor.executemany(
            """
            insert into content.calendar_event (
                user_id, calendar_id, starts_at, ends_at, status, response, start_date, end_date
            )
            values (%s, %s, %s, %s, %s, %s, %s, %s)
            """,
            [
                (
                    person.user_id,
                    row[0],
                    instant(event.start),
                    instant(event.end),
                    event.status,
                    event.response,
                    *(("2025-06-16", "2025-06-17") if event.is_all_day else (None, None)),
                )
                for event in events
            ],
        )


def at(clock: str) -> int:
    """Return a time of 2025-06-16, a Monday, in UTC."""
    hours, minutes = clock.split(":")
    return int(hours) * HOUR + int(minutes) * MINUTE


def test_a_day_by_hand(api: TestClient, owner: Rows, alice: Person, bob: Person) -> None:
    add(
        owner,
        alice,
        [
            Event(at("09:00"), at("10:00")),
            # Begins before the first one ends: half an hour counts once.
            Event(at("09:30"), at("10:30")),
            # 5 minutes after the end of both.
            Event(at("10:35"), at("11:00")),
            # Gaps of 20, 60 and 45 minutes.
            Event(at("11:20"), at("12:00")),
            Event(at("13:00"), at("13:30")),
            Event(at("14:15"), at("14:30")),
            # No meetings.
            Event(at("15:00"), at("15:30"), status="tentative"),
            Event(at("15:00"), at("15:30"), status="cancelled"),
            Event(at("15:00"), at("15:30"), response="declined"),
            Event(at("15:00"), at("15:30"), response=None),
            Event(at("00:00"), at("24:00"), is_all_day=True),
            Event(at("15:00"), at("15:00")),
        ],
    )
    add(owner, bob, [Event(at("15:00"), at("17:00"))])

    body = ask(api, alice, "2025-06-16", "2025-06-16")

    free = {
        "starts_at": "2025-06-16T14:30:00.000Z",
        "ends_at": "2025-06-16T17:00:00.000Z",
        "duration_ms": 9_000_000,
    }
    measures = {
        "meeting_ms": 12_000_000,
        "event_count": 6,
        # The second and the third, of five that follow another.
        "back_to_back_count": 2,
        "back_to_back_percent": 40,
        "gaps_under_30_min_ms": 1_500_000,
        "gaps_under_60_min_ms": 4_200_000,
        "working_ms": 28_800_000,
        "free_ms": 16_800_000,
        "longest_free": free,
    }
    assert body == {
        "range": {"from": "2025-06-16", "to": "2025-06-16"},
        "tz": "UTC",
        "working_time": {"from": "09:00", "to": "17:00", "days": [1, 2, 3, 4, 5]},
        "definition": {"back_to_back_ms": 600_000, "free_block_ms": 7_200_000},
        "calendar_count": 1,
        "data": [
            measures
            | {
                "date": "2025-06-16",
                "first_meeting_at": "2025-06-16T09:00:00.000Z",
                "last_meeting_ends_at": "2025-06-16T14:30:00.000Z",
                "longest_stretch_ms": 5_400_000,
                "free_blocks": [free],
            }
        ],
        "totals": measures | {"free_block_count": 1, "days": 1, "days_with_meetings": 1},
    }


def test_back_to_back_ends_at_ten_minutes(api: TestClient, owner: Rows, alice: Person) -> None:
    add(
        owner,
        alice,
        [
            Event(at("09:00"), at("10:00")),
            Event(at("10:10") - 1, at("11:00")),
            Event(at("11:10"), at("12:00")),
        ],
    )

    body = ask(api, alice, "2025-06-16", "2025-06-16")

    assert body["totals"]["back_to_back_count"] == 1
    assert body["totals"]["back_to_back_percent"] == 50


def test_a_meeting_over_midnight_is_one_of_both_days_and_one_of_the_range(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    add(owner, alice, [Event(at("22:00"), at("26:00"))])

    body = ask(api, alice, "2025-06-16", "2025-06-18")

    assert [(day["meeting_ms"], day["event_count"]) for day in body["data"]] == [
        (2 * HOUR, 1),
        (2 * HOUR, 1),
        (0, 0),
    ]
    assert (body["totals"]["event_count"], body["totals"]["days_with_meetings"]) == (1, 2)


def test_days_without_working_time_have_no_free_time(api: TestClient, alice: Person) -> None:
    weekend = ask(api, alice, "2025-06-13", "2025-06-14")
    saturday = ask(api, alice, "2025-06-13", "2025-06-14", work_days="6", work_to="24:00")

    assert [day["free_ms"] for day in weekend["data"]] == [8 * HOUR, 0]
    assert weekend["data"][1]["longest_free"] is None
    assert [day["free_ms"] for day in saturday["data"]] == [0, 15 * HOUR]
    assert saturday["totals"]["longest_free"]["ends_at"] == "2025-06-15T00:00:00.000Z"
    assert (weekend["calendar_count"], weekend["totals"]["event_count"]) == (0, 0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("work_from", "17:00"),
        ("work_from", "9:00"),
        ("work_to", "24:01"),
        ("work_days", "0"),
        ("work_days", "1,1"),
        ("work_days", "1;2"),
    ],
)
def test_a_working_time_that_cannot_be_is_refused(
    api: TestClient, alice: Person, name: str, value: str
) -> None:
    params = {"from": "2025-06-16", "to": "2025-06-16", name: value}

    answer = api.get(PATH, params=params, headers=alice.headers("read:content"))

    assert (answer.status_code, answer.json()["parameter"]) == (400, name)


Draw = Callable[[st.SearchStrategy[Any]], Any]


@st.composite
def calendars(draw: Draw) -> tuple[str, date, list[Event]]:
    """Draw a zone, the first of three days, and events near them."""
    zone, first = draw(st.sampled_from(PLACES))
    begin = days(first, first, zone)[0].start // STEP * STEP
    events = draw(
        st.lists(
            st.builds(
                lambda start, length, status, response, is_all_day: Event(
                    begin + start * STEP,
                    begin + (start + length) * STEP,
                    status,
                    response,
                    is_all_day,
                ),
                st.integers(-60, 3 * 288),
                st.sampled_from([0, 1, 3, 6, 6, 12, 12, 24, 300]),
                st.sampled_from(["confirmed"] * 4 + ["tentative"]),
                st.sampled_from(["accepted"] * 4 + ["declined"]),
                st.sampled_from([False] * 6 + [True]),
            ),
            max_size=15,
        )
    )
    return zone, first, events


def runs(steps: set[int]) -> list[tuple[int, int]]:
    """Return steps that follow one another as (start, end)."""
    edges = sorted(step for step in steps if step - STEP not in steps)
    ends = sorted(step + STEP for step in steps if step + STEP not in steps)
    return list(zip(edges, ends, strict=True))


def expected(day: Span, zone: str, meetings: list[Event]) -> dict[str, Any]:
    """Return measures of a day, step by step."""
    steps = range(day.start, day.end, STEP)
    own = [e for e in meetings if e.start < day.end and e.end > day.start]
    busy = {step for step in steps if any(e.start <= step < e.end for e in own)}
    gaps = [after - before for (_, before), (after, _) in pairwise(runs(busy))]
    clipped = sorted((max(e.start, day.start), min(e.end, day.end)) for e in own)
    follows = [
        start < max(end for _, end in clipped[:n]) + 10 * MINUTE
        for n, (start, _) in enumerate(clipped)
        if n
    ]
    work = {step for step in steps if is_worked(step, zone)}
    free = runs(work - busy)
    return {
        "date": str(day.date),
        "meeting_ms": len(busy) * STEP,
        "event_count": len(own),
        "longest_stretch_ms": max((end - start for start, end in runs(busy)), default=0),
        "back_to_back_count": sum(follows),
        "back_to_back_percent": percent(sum(follows), len(follows)),
        "gaps_under_30_min_ms": sum(gap for gap in gaps if gap < 30 * MINUTE),
        "gaps_under_60_min_ms": sum(gap for gap in gaps if gap < 60 * MINUTE),
        "working_ms": len(work) * STEP,
        "free_ms": len(work - busy) * STEP,
        "longest_free": max(map(block, free), key=lambda each: each["duration_ms"], default=None),
        "free_blocks": [block(each) for each in free if each[1] - each[0] >= 2 * HOUR],
    }


def is_worked(step: int, zone: str) -> bool:
    local = (EPOCH + timedelta(milliseconds=step)).astimezone(ZoneInfo(zone))
    return local.isoweekday() < 6 and "09:00" <= f"{local:%H:%M}" < "17:00"


def block(span: tuple[int, int]) -> dict[str, Any]:
    start, end = span
    return {"starts_at": instant(start), "ends_at": instant(end), "duration_ms": end - start}


@given(drawn=calendars())
def test_any_calendar_has_the_load_of_the_slow_model(
    api: TestClient, owner: Rows, drawn: tuple[str, date, list[Event]]
) -> None:
    zone, first, events = drawn
    last = first + timedelta(days=2)
    carol = carol_with(owner, History(zone, first, [], [], 0, 0))
    add(owner, carol, events)

    body = ask(api, carol, str(first), str(last), tz=zone)

    meetings = [event for event in events if event.counts]
    for row, day in zip(body["data"], days(first, last, zone), strict=True):
        assert row == row | expected(day, zone, meetings)
    totals = body["totals"]
    for name in (
        "meeting_ms",
        "free_ms",
        "working_ms",
        "back_to_back_count",
        "gaps_under_60_min_ms",
    ):
        assert totals[name] == sum(row[name] for row in body["data"])
    spans = days(first, last, zone)
    assert totals["event_count"] == len(
        [e for e in meetings if e.start < spans[-1].end and e.end > spans[0].start]
    )
    assert totals["free_block_count"] == sum(len(row["free_blocks"]) for row in body["data"])


def test_time_in_meetings_is_that_of_the_metric(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    add(owner, alice, [Event(at("09:00"), at("10:00")), Event(at("09:30"), at("10:30"))])
    now = datetime.now(ZoneInfo("UTC")).date()
    headers = alice.headers("read:activity", "read:content")

    metric = api.get(
        "/api/v1/account/correlation",
        params={"metric_a": "meeting_ms", "from": "2025-06-16", "to": f"{now}"},
        headers=headers,
    )

    assert ask(api, alice, "2025-06-16", "2025-06-16")["totals"]["meeting_ms"] == 5_400_000
    assert metric.json()["metric_a"]["average"] == 5_400_000

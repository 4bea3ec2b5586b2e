"""GET /api/v1/analytics/hourly-patterns."""

import asyncio
import json
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from resourceserver.endpoints.hours import ENDPOINTS, HourlyPatternsBody
from shared.pipeline import Step
from tests.conftest import Person
from tests.endpoints.histories import (
    add_coding,
    add_sessions,
    ask,
)
from tests.endpoints.timeline import (
    CodingSession,
    Session,
    since_epoch,
)

PATH = "/api/v1/analytics/hourly-patterns"
HOUR = 3_600_000
DAY = 24 * HOUR

Owner = psycopg.Connection[Any]


def on(now: str, owner: Owner, person: Person, weeks: int, tz: str) -> dict[str, Any]:
    """Return the answer at another time than now, which is the only time that the statements read."""
    (endpoint,) = (each for each in ENDPOINTS if each.name == "hourly_patterns")
    pinned = endpoint.query.replace("now()", f"timestamptz '{now}'")
    assert pinned != endpoint.query
    pinned_endpoint = replace(endpoint, query=pinned)
    asking = psycopg.RawCursor(owner)

    async def run(step: Step) -> bytes:
        statement, own = step
        given = {**own, "user_id": person.user_id}
        asking.execute(statement.text, [given[each] for each in statement.parameters])
        row = asking.fetchone()
        assert row is not None
        answer: str = row[0]
        return answer.encode()

    values = {"weeks": weeks, "tz": tz, "given_tz": tz}
    answer = asyncio.run(pinned_endpoint.read_with(run, values))
    HourlyPatternsBody.model_validate_json(answer)
    body: dict[str, Any] = json.loads(answer)
    return body


def averages(body: dict[str, Any]) -> dict[tuple[int, int], tuple[int, int]]:
    """Return average and divisor of every hour that has an average."""
    return {
        (row["day_of_week"], row["hour"]): (row["average_ms"], row["sample_count"])
        for row in body["data"]
        if row["average_ms"]
    }


def test_an_empty_account_has_an_empty_week(api: TestClient, alice: Person) -> None:
    body = ask(api, alice, PATH)

    assert body["weeks"] == 6
    assert body["tz"] == "UTC"
    assert body["weeks_with_data"] == 0
    assert [(row["day_of_week"], row["hour"]) for row in body["data"]] == [
        (day, hour) for day in range(1, 8) for hour in range(24)
    ]
    assert body["data"][0] == {
        "day_of_week": 1,
        "hour": 0,
        "average_ms": 0,
        "productive_average_ms": 0,
        "distracted_average_ms": 0,
        "coding_average_ms": 0,
        "sample_count": 0,
    }
    assert body["by_day"] == [
        {"day_of_week": day, "average_ms": 0, "sample_count": 0} for day in range(1, 8)
    ]


def test_the_window_is_whole_weeks_that_end_yesterday(
    api: TestClient, owner: Owner, alice: Person
) -> None:
    body = ask(api, alice, PATH, weeks="2", tz="Pacific/Kiritimati")

    row = owner.execute("select (now() at time zone 'Pacific/Kiritimati')::date").fetchone()
    assert row is not None
    assert body["range"] == {
        "from": str(row[0] - timedelta(days=14)),
        "to": str(row[0] - timedelta(days=1)),
    }


def test_today_and_the_day_before_the_window_do_not_count(
    api: TestClient, owner: Owner, alice: Person
) -> None:
    window = ask(api, alice, PATH, weeks="1")["range"]
    first = since_epoch(window["from"] + "T00:00:00Z")
    add_sessions(
        owner,
        alice,
        [
            Session("1", "laptop", "Before", first - HOUR, first),
            Session("2", "laptop", "First", first, first + 60_000),
            Session("3", "laptop", "Last", first + 7 * DAY - 120_000, first + 7 * DAY + 60_000),
            Session("4", "laptop", "Today", first + 7 * DAY + 60_000, first + 7 * DAY + 120_000),
        ],
    )

    body = ask(api, alice, PATH, weeks="1")

    assert body["range"] == window
    weekday = date.fromisoformat(window["from"]).isoweekday()
    before = (weekday - 2) % 7 + 1
    assert averages(body) == {(weekday, 0): (60_000, 1), (before, 23): (120_000, 1)}


def test_three_weeks_by_hand(owner: Owner, alice: Person) -> None:
    # 16 June 2025 is a Monday. The first tracked day is the one of 2 June.
    tuesday = -13 * DAY
    add_sessions(
        owner,
        alice,
        [
            Session(
                "1",
                "laptop",
                "Code",
                tuesday + 9 * HOUR,
                tuesday + 10 * HOUR,
                category="Development",
            ),
            Session(
                "2",
                "laptop",
                "Steam",
                tuesday + 9 * HOUR + 1_000,
                tuesday + 9 * HOUR + 2_001,
                category="Games",
            ),
            Session("3", "laptop", "Code", -7 * DAY + 9 * HOUR, -7 * DAY + 9 * HOUR + 90_000),
        ],
    )
    add_coding(
        owner,
        alice,
        [
            CodingSession(
                "1", "laptop", "svc", None, None, tuesday + 9 * HOUR, tuesday + 9 * HOUR + 5
            ),
            # This makes the day before the first tracked one.
            CodingSession("2", "laptop", "svc", None, None, tuesday - 2 * HOUR, tuesday - HOUR),
        ],
    )

    body = on("2025-06-16 12:00:00+00", owner, alice, 3, "UTC")

    assert body["range"] == {"from": "2025-05-26", "to": "2025-06-15"}
    assert body["weeks_with_data"] == 2
    rows = {(row["day_of_week"], row["hour"]): row for row in body["data"]}
    assert rows[2, 9] == {
        "day_of_week": 2,
        "hour": 9,
        "average_ms": 1_800_000,
        "productive_average_ms": 1_799_500,
        "distracted_average_ms": 501,
        "coding_average_ms": 3,
        "sample_count": 2,
    }
    assert rows[1, 9]["average_ms"] == 45_000
    assert rows[1, 9]["sample_count"] == 2
    assert rows[1, 22]["coding_average_ms"] == 1_800_000
    assert averages(body) == {(2, 9): (1_800_000, 2), (1, 9): (45_000, 2)}
    assert [(row["average_ms"], row["sample_count"]) for row in body["by_day"]] == [
        (45_000, 2),
        (1_800_000, 2),
        (0, 2),
        (0, 2),
        (0, 2),
        (0, 2),
        (0, 2),
    ]


def test_an_hour_that_clocks_left_out_did_not_occur(owner: Owner, alice: Person) -> None:
    # Berlin, the Sundays 23 and 30 March 2025; on the second, clocks go from 2 to 3.
    first = since_epoch("2025-03-23T00:00:00+01:00")
    add_sessions(
        owner,
        alice,
        [
            Session("1", "laptop", "Code", first, first + 4 * HOUR),
            Session("2", "laptop", "Code", first + 7 * DAY, first + 7 * DAY + 3 * HOUR),
        ],
    )

    body = on("2025-03-31 12:00:00+00", owner, alice, 2, "Europe/Berlin")

    assert averages(body) == {
        (7, 0): (HOUR, 2),
        (7, 1): (HOUR, 2),
        (7, 2): (HOUR, 1),
        (7, 3): (HOUR, 2),
    }


def test_an_hour_that_clocks_repeated_is_added_and_counted_once(
    owner: Owner, alice: Person
) -> None:
    # Berlin, the Sundays 19 and 26 October 2025; on the second, clocks go from 3 back to 2.
    first = since_epoch("2025-10-19T00:00:00+02:00")
    add_sessions(
        owner,
        alice,
        [
            Session("1", "laptop", "Code", first + 2 * HOUR, first + 3 * HOUR),
            Session("2", "laptop", "Code", first + 7 * DAY + 2 * HOUR, first + 7 * DAY + 4 * HOUR),
        ],
    )

    body = on("2025-10-27 12:00:00+00", owner, alice, 2, "Europe/Berlin")

    assert averages(body) == {(7, 2): (3 * HOUR // 2, 2)}
    assert body["by_day"][6] == {
        "day_of_week": 7,
        "average_ms": 3 * HOUR // 2,
        "sample_count": 2,
    }


def test_a_day_that_the_zone_skipped_did_not_occur(owner: Owner, alice: Person) -> None:
    # Apia had no Friday 30 December 2011: at midnight before it, Saturday began.
    midnight = since_epoch("2011-12-30T10:00:00+00:00")
    add_sessions(owner, alice, [Session("1", "laptop", "Code", midnight - HOUR, midnight + HOUR)])

    body = on("2012-01-03 12:00:00+00", owner, alice, 1, "Pacific/Apia")

    assert body["range"] == {"from": "2011-12-28", "to": "2012-01-03"}
    assert averages(body) == {(4, 23): (HOUR, 1), (6, 0): (HOUR, 1)}
    assert [(row["average_ms"], row["sample_count"]) for row in body["by_day"]] == [
        (0, 1),
        (0, 1),
        (0, 0),
        (HOUR, 1),
        (0, 0),
        (HOUR, 1),
        (0, 1),
    ]


def test_an_account_with_only_an_editor_has_averages_of_coding(owner: Owner, alice: Person) -> None:
    # Two Mondays, of which the first is the first tracked day.
    add_coding(
        owner,
        alice,
        [
            CodingSession("1", "laptop", "svc", None, None, -14 * DAY, -14 * DAY + HOUR),
            CodingSession("2", "laptop", "svc", None, None, -7 * DAY, -7 * DAY + HOUR // 2),
        ],
    )

    body = on("2025-06-16 12:00:00+00", owner, alice, 3, "UTC")

    rows = {(row["day_of_week"], row["hour"]): row for row in body["data"]}
    assert rows[1, 0] == {
        "day_of_week": 1,
        "hour": 0,
        "average_ms": 0,
        "productive_average_ms": 0,
        "distracted_average_ms": 0,
        "coding_average_ms": HOUR * 3 // 4,
        "sample_count": 2,
    }
    assert body["weeks_with_data"] == 2


def test_idle_time_and_sessions_without_length_begin_no_tracking(
    owner: Owner, alice: Person
) -> None:
    add_sessions(
        owner,
        alice,
        [
            Session("1", "laptop", "Idle", -14 * DAY, -14 * DAY + HOUR, idle=True),
            Session("2", "laptop", "Glance", -14 * DAY, -14 * DAY),
            Session("3", "laptop", "Code", -7 * DAY, -7 * DAY + HOUR),
        ],
    )
    add_coding(
        owner, alice, [CodingSession("1", "laptop", "svc", None, None, -14 * DAY, -14 * DAY)]
    )

    body = on("2025-06-16 12:00:00+00", owner, alice, 2, "UTC")

    assert averages(body) == {(1, 0): (HOUR, 1)}
    assert body["weeks_with_data"] == 1


def test_bob_sees_nothing_of_alices(
    api: TestClient, owner: Owner, alice: Person, bob: Person
) -> None:
    window = ask(api, bob, PATH, weeks="1")["range"]
    start = since_epoch(window["from"] + "T00:00:00Z")
    add_sessions(owner, alice, [Session("1", "laptop", "Code", start, start + HOUR)])

    body = ask(api, bob, PATH, weeks="1")

    assert body["weeks_with_data"] == 0
    assert {row["sample_count"] for row in body["data"]} == {0}


@pytest.mark.parametrize("weeks", ["0", "53", "-1", "1.5", "six", "", "9" * 5000])
def test_a_number_of_weeks_other_than_1_to_52_is_refused(
    api: TestClient, alice: Person, weeks: str
) -> None:
    answer = api.get(PATH, params={"weeks": weeks}, headers=alice.headers("read:activity"))

    assert answer.status_code == 400
    assert answer.json()["parameter"] == "weeks"


@pytest.mark.parametrize("weeks", ["1", "52"])
def test_one_week_and_a_year_of_weeks_are_accepted(
    api: TestClient, alice: Person, weeks: str
) -> None:
    body = ask(api, alice, PATH, weeks=weeks)

    assert body["weeks"] == int(weeks)

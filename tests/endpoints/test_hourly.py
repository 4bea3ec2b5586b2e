"""GET /api/v1/analytics/hourly, and the hours of a day."""

from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from tests.conftest import Person
from tests.endpoints.histories import add_coding, add_sessions, ask
from tests.endpoints.test_app_usage import event, post
from tests.endpoints.timeline import CodingSession, Session, since_epoch

PATH = "/api/v1/analytics/hourly"

Owner = psycopg.Connection[Any]


def test_a_day_by_hand(api: TestClient, owner: Owner, alice: Person) -> None:
    post(
        api,
        alice,
        [
            event("Code", "06:30:00", "08:15:00", category="Development"),
            event("Reddit", "07:10:00", "07:20:00", category="Social"),
            event("Slack", "07:20:00", "07:25:00.500", category="Communication"),
            event("Glance", "07:30:00", "07:30:00", category="News"),
            event("Before", "21:59:59", "22:00:00", category="Games"),
            event("After", "22:00:00", "22:00:01", category="Games"),
        ],
    )
    seven = 7 * 3_600_000
    add_coding(
        owner,
        alice,
        [CodingSession("1", "laptop", "svc", None, None, seven - 60_000, seven + 1_800_000)],
    )

    body = ask(api, alice, PATH, date="2025-06-16", tz="Europe/Berlin")

    assert body["date"] == "2025-06-16"
    assert body["tz"] == "Europe/Berlin"
    assert body["range"] == {"from": "2025-06-15T22:00:00.000Z", "to": "2025-06-16T22:00:00.000Z"}
    assert [hour["hour"] for hour in body["data"]] == list(range(24))
    assert body["data"][9] == {
        "hour": 9,
        "utc_offset": "+02:00",
        "starts_at": "2025-06-16T07:00:00.000Z",
        "ends_at": "2025-06-16T08:00:00.000Z",
        "total_ms": 3_600_000,
        "productive_ms": 2_699_500,
        "neutral_ms": 300_500,
        "distracted_ms": 600_000,
        "coding_ms": 1_800_000,
        "categories": [
            {"category": "Development", "productivity": "productive", "total_ms": 2_699_500},
            {"category": "Social", "productivity": "distracting", "total_ms": 600_000},
            {"category": "Communication", "productivity": "neutral", "total_ms": 300_500},
            {"category": "News", "productivity": "distracting", "total_ms": 0},
        ],
    }
    assert {hour["hour"]: hour["total_ms"] for hour in body["data"] if hour["total_ms"]} == {
        8: 1_800_000,
        9: 3_600_000,
        10: 900_000,
        23: 1_000,
    }
    assert body["data"][8]["coding_ms"] == 60_000
    assert body["totals"] == {"tracked_ms": 6_301_000}


def test_an_empty_account_has_all_hours(api: TestClient, alice: Person) -> None:
    body = ask(api, alice, PATH, date="2025-06-16")

    assert len(body["data"]) == 24
    assert body["data"][0] == {
        "hour": 0,
        "utc_offset": "+00:00",
        "starts_at": "2025-06-16T00:00:00.000Z",
        "ends_at": "2025-06-16T01:00:00.000Z",
        "total_ms": 0,
        "productive_ms": 0,
        "neutral_ms": 0,
        "distracted_ms": 0,
        "coding_ms": 0,
        "categories": [],
    }


def test_bob_sees_nothing_of_alices(api: TestClient, alice: Person, bob: Person) -> None:
    post(api, alice, [event("Code", "09:00:00", "10:00:00", category="Secret of alice")])

    body = ask(api, bob, PATH, date="2025-06-16")

    assert body["totals"] == {"tracked_ms": 0}
    assert all(hour["categories"] == [] for hour in body["data"])


@pytest.mark.parametrize(
    ("tz", "date", "first", "count", "odd"),
    [
        ("Europe/Berlin", "2025-03-30", (0, "+01:00", "2025-03-29T23:00:00.000Z"), 23, []),
        ("Europe/Berlin", "2025-10-26", (0, "+02:00", "2025-10-25T22:00:00.000Z"), 25, []),
        (
            "Australia/Lord_Howe",
            "2025-04-06",
            (0, "+11:00", "2025-04-05T13:00:00.000Z"),
            25,
            [(1, "+10:30", "2025-04-05T15:00:00.000Z", "2025-04-05T15:30:00.000Z")],
        ),
        (
            "Australia/Lord_Howe",
            "2025-10-05",
            (0, "+10:30", "2025-10-04T13:30:00.000Z"),
            24,
            [(2, "+11:00", "2025-10-04T15:30:00.000Z", "2025-10-04T16:00:00.000Z")],
        ),
        ("Asia/Kathmandu", "2025-01-01", (0, "+05:45", "2024-12-31T18:15:00.000Z"), 24, []),
        ("America/Sao_Paulo", "2017-10-15", (1, "-02:00", "2017-10-15T03:00:00.000Z"), 23, []),
        ("America/Havana", "2025-11-02", (0, "-04:00", "2025-11-02T04:00:00.000Z"), 25, []),
        ("Africa/Cairo", "2025-04-25", (1, "+03:00", "2025-04-24T22:00:00.000Z"), 23, []),
        # Clocks went back from one minute past midnight, so the day began twice.
        (
            "America/St_Johns",
            "2006-10-29",
            (0, "-02:30", "2006-10-29T02:30:00.000Z"),
            25,
            [(0, "-02:30", "2006-10-29T02:30:00.000Z", "2006-10-29T02:31:00.000Z")],
        ),
        # Local time differed from UTC by odd seconds.
        (
            "Africa/Monrovia",
            "1972-01-06",
            (0, "-00:44:30", "1972-01-06T00:44:30.000Z"),
            24,
            [],
        ),
        (
            "Africa/Monrovia",
            "1972-01-07",
            (0, "+00:00", "1972-01-07T00:44:30.000Z"),
            24,
            [(0, "+00:00", "1972-01-07T00:44:30.000Z", "1972-01-07T01:00:00.000Z")],
        ),
    ],
)
def test_a_day_has_the_hours_of_its_clocks(
    api: TestClient,
    alice: Person,
    tz: str,
    date: str,
    first: tuple[int, str, str],
    count: int,
    odd: list[tuple[int, str, str, str]],
) -> None:
    body = ask(api, alice, PATH, date=date, tz=tz)

    rows = [
        (hour["hour"], hour["utc_offset"], hour["starts_at"], hour["ends_at"])
        for hour in body["data"]
    ]
    assert rows[0][:3] == first
    assert len(rows) == count
    assert [row for row in rows if row[2][14:] != row[3][14:]] == odd
    assert (body["range"]["from"], body["range"]["to"]) == (rows[0][2], rows[-1][3])


HOUR = 3_600_000


@pytest.mark.parametrize(
    ("tz", "date", "starts_at", "lengths"),
    [
        ("Europe/Berlin", "2025-03-30", "2025-03-29T23:00:00.000Z", [HOUR] * 23),
        ("Europe/Berlin", "2025-10-26", "2025-10-25T22:00:00.000Z", [HOUR] * 25),
        (
            "Australia/Lord_Howe",
            "2025-04-06",
            "2025-04-05T13:00:00.000Z",
            [HOUR] * 2 + [HOUR // 2] + [HOUR] * 22,
        ),
        (
            "Australia/Lord_Howe",
            "2025-10-05",
            "2025-10-04T13:30:00.000Z",
            [HOUR] * 2 + [HOUR // 2] + [HOUR] * 21,
        ),
        ("Asia/Kathmandu", "2025-01-01", "2024-12-31T18:15:00.000Z", [HOUR] * 24),
        ("America/Sao_Paulo", "2017-10-15", "2017-10-15T03:00:00.000Z", [HOUR] * 23),
        ("America/Havana", "2025-11-02", "2025-11-02T04:00:00.000Z", [HOUR] * 25),
        ("Africa/Cairo", "2025-04-25", "2025-04-24T22:00:00.000Z", [HOUR] * 23),
        ("Pacific/Apia", "2011-12-30", "2011-12-30T10:00:00.000Z", []),
    ],
)
def test_activity_without_a_pause_fills_every_hour_of_the_clocks(
    api: TestClient,
    owner: Owner,
    alice: Person,
    tz: str,
    date: str,
    starts_at: str,
    lengths: list[int],
) -> None:
    before = since_epoch(starts_at) - HOUR
    after = before + 24 * HOUR
    add_sessions(
        owner,
        alice,
        [
            Session("1", "laptop", "Code", before, after),
            Session("2", "laptop", "Mail", after, after + 24 * HOUR),
        ],
    )

    hours = ask(api, alice, PATH, date=date, tz=tz)
    days = ask(api, alice, "/api/v1/analytics/daily", start=date, end=date, tz=tz)

    assert [hour["total_ms"] for hour in hours["data"]] == lengths
    assert [(day["starts_at"], day["tracked_ms"]) for day in days["data"]] == [
        (starts_at, sum(lengths))
    ]


def test_an_hour_that_clocks_skip_is_not_listed(api: TestClient, alice: Person) -> None:
    body = ask(api, alice, PATH, date="2025-03-30", tz="Europe/Berlin")

    assert [(hour["hour"], hour["utc_offset"]) for hour in body["data"]][:4] == [
        (0, "+01:00"),
        (1, "+01:00"),
        (3, "+02:00"),
        (4, "+02:00"),
    ]


def test_an_hour_that_clocks_repeat_is_listed_twice(api: TestClient, alice: Person) -> None:
    body = ask(api, alice, PATH, date="2025-10-26", tz="Europe/Berlin")

    assert [(hour["hour"], hour["utc_offset"]) for hour in body["data"]][1:5] == [
        (1, "+02:00"),
        (2, "+02:00"),
        (2, "+01:00"),
        (3, "+01:00"),
    ]


def test_a_day_that_the_zone_skipped_has_no_hours(api: TestClient, alice: Person) -> None:
    post(
        api,
        alice,
        [{"app": "Code", "started_at": "2011-12-30T09:00:00Z", "ended_at": "2011-12-30T11:00:00Z"}],
    )

    body = ask(api, alice, PATH, date="2011-12-30", tz="Pacific/Apia")

    assert body == {
        "date": "2011-12-30",
        "tz": "Pacific/Apia",
        "range": {"from": "2011-12-30T10:00:00.000Z", "to": "2011-12-30T10:00:00.000Z"},
        "data": [],
        "totals": {"tracked_ms": 0},
        "unreported": None,
    }


@pytest.mark.parametrize("tz", ["CET", "MET", "EET", "WET"])
def test_zones_that_postgres_reads_as_fixed_offsets_change_their_clocks(
    api: TestClient, alice: Person, tz: str
) -> None:
    body = ask(api, alice, PATH, date="2025-03-30", tz=tz)

    assert len(body["data"]) == 23


def test_time_without_a_report_is_that_of_the_day_timeline(
    api: TestClient, owner: Owner, alice: Person
) -> None:
    six = since_epoch("2025-06-16T06:00:00Z")
    add_sessions(
        owner,
        alice,
        [
            Session("1", "laptop", "Code", six, six + 3_600_000),
            Session("2", "laptop", "Code", six + 3_900_000, six + 7_200_000),
        ],
    )
    day = {"date": "2025-06-16", "tz": "Europe/Berlin"}

    body = ask(api, alice, PATH, **day, include_unreported="true")

    assert body["unreported"] == [
        {
            "starts_at": f"2025-06-{start}:00.000Z",
            "ends_at": f"2025-06-{end}:00.000Z",
            "duration_ms": ms,
        }
        for start, end, ms in (
            ("15T22:00", "16T06:00", 28_800_000),
            ("16T07:00", "16T07:05", 300_000),
            ("16T08:00", "16T22:00", 50_400_000),
        )
    ]
    timeline = ask(api, alice, "/api/v1/analytics/day-timeline", **day)
    assert body["unreported"] == timeline["data"]["unreported"]
    assert ask(api, alice, PATH, **day) == {**body, "unreported": None}


def test_a_day_that_the_zone_skipped_has_no_time_without_a_report(
    api: TestClient, alice: Person
) -> None:
    body = ask(api, alice, PATH, date="2011-12-30", tz="Pacific/Apia", include_unreported="true")

    assert (body["data"], body["unreported"]) == ([], [])

"""GET /api/v1/analytics/day-timeline."""

from collections import defaultdict
from itertools import groupby
from typing import Any

import psycopg
from hypothesis import given
from starlette.testclient import TestClient

from tests.conftest import Person
from tests.endpoints.histories import History, add_coding, add_sessions, ask, carol_with, histories
from tests.endpoints.timeline import (
    CodingSession,
    Session,
    days,
    instant,
    productivity,
    segments,
)

PATH = "/api/v1/analytics/day-timeline"
SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE

Owner = psycopg.Connection[Any]


def at(hours: float) -> str:
    """Return the instant so many hours after the start of 2025-06-16 in UTC."""
    return instant(round(hours * HOUR))


def code(start: float, end: float) -> Session:
    """Return a session of an editor, from hours to hours."""
    return Session(
        f"{start}",
        "laptop",
        "Code",
        round(start * HOUR),
        round(end * HOUR),
        category="Development",
    )


def test_what_phones_counted_stands_beside_the_stretches_and_in_no_total(
    api: TestClient, owner: Owner, alice: Person, bob: Person
) -> None:
    add_sessions(owner, alice, [code(9, 10)])
    before = ask(api, alice, PATH, date="2025-06-16")
    counted = [
        *((alice, "2025-06-16", "Pixel", "chat", "Chat", 120_000),),
        *((alice, "2025-06-16", "Pixel", "maps", None, 300_000),),
        *((alice, "2025-06-17", "Pixel", "maps", None, 60_000),),
        *((bob, "2025-06-16", "Pixel", "news", None, 60_000),),
    ]
    for person, date, device, app, name, duration_ms in counted:
        owner.execute(
            "insert into activity.screen_time (user_id, source, provider_key, date, device, app, name,"
            " duration_ms, counted_at) values (%s, 'phone', %s, %s, %s, %s, %s, %s, now())",
            [person.user_id, f"{date} {app}", date, device, app, name, duration_ms],
        )

    after = ask(api, alice, PATH, date="2025-06-16")

    assert (before.pop("screen_time"), before.pop("screen_time_count")) == ([], 0)
    assert after.pop("screen_time_count") == 2
    assert after.pop("screen_time") == [
        {
            "device": "Pixel",
            "app": "maps",
            "name": None,
            "duration_ms": 300_000,
            "source": "phone",
        },
        {
            "device": "Pixel",
            "app": "chat",
            "name": "Chat",
            "duration_ms": 120_000,
            "source": "phone",
        },
    ]
    assert after == before


def test_the_longest_times_of_phones_are_listed_and_all_are_counted(
    api: TestClient, owner: Owner, alice: Person
) -> None:
    owner.execute(
        "insert into activity.screen_time (user_id, source, provider_key, date, device, app, duration_ms,"
        " counted_at) select %s, 'phone', n::text, '2025-06-16', 'Pixel', 'app ' || n, n * 1000, now()"
        " from generate_series(1, 103) as n",
        [alice.user_id],
    )

    found = ask(api, alice, PATH, date="2025-06-16")

    assert found["screen_time_count"] == 103
    assert [row["duration_ms"] for row in found["screen_time"]] == [
        n * 1000 for n in range(103, 3, -1)
    ]


def test_a_day_by_hand(api: TestClient, owner: Owner, alice: Person) -> None:
    add_sessions(
        owner,
        alice,
        [
            code(9, 10.5),
            # The cell from 10:00 to 10:02 has 90 s of the editor and 30 s of news: it is the editor's.
            Session(
                "paper",
                "laptop",
                "Paper",
                10 * HOUR + 30 * SECOND,
                10 * HOUR + 60 * SECOND,
                category="News",
            ),
            # That from 10:14 to 10:16 has 50 s of the editor and 70 s of chess: it is that of chess.
            Session(
                "chess",
                "laptop",
                "Chess",
                10 * HOUR + 14 * MINUTE,
                10 * HOUR + 14 * MINUTE + 70 * SECOND,
                category="Games",
            ),
            Session("away", "laptop", "Code", 11 * HOUR, 12 * HOUR, idle=True),
        ],
    )
    add_coding(
        owner,
        alice,
        [CodingSession("1", "laptop", "svc", "Python", "a.py", 9 * HOUR, 9 * HOUR + 7 * MINUTE)],
    )

    body = ask(api, alice, PATH, date="2025-06-16")

    assert body["range"] == {"from": at(0), "to": at(24)}
    assert body["data"]["apps"] == [
        {
            "starts_at": at(9),
            "ends_at": at(10 + 14 / 60),
            "category": "Development",
            "productivity": "productive",
            "total_ms": 74 * MINUTE,
            "category_ms": 74 * MINUTE - 30 * SECOND,
            "app": "Code",
            "app_count": 2,
        },
        {
            "starts_at": at(10 + 14 / 60),
            "ends_at": at(10 + 16 / 60),
            "category": "Games",
            "productivity": "distracting",
            "total_ms": 2 * MINUTE,
            "category_ms": 70 * SECOND,
            "app": "Chess",
            "app_count": 2,
        },
        {
            "starts_at": at(10 + 16 / 60),
            "ends_at": at(10.5),
            "category": "Development",
            "productivity": "productive",
            "total_ms": 14 * MINUTE,
            "category_ms": 14 * MINUTE,
            "app": "Code",
            "app_count": 1,
        },
    ]
    assert body["data"]["coding"] == [
        {
            "starts_at": at(9),
            "ends_at": at(9 + 7 / 60),
            "project": "svc",
            "total_ms": 7 * MINUTE,
        }
    ]
    # Time away is a report.
    assert body["data"]["unreported"] == [
        {"starts_at": at(0), "ends_at": at(9), "duration_ms": 9 * HOUR},
        {"starts_at": at(10.5), "ends_at": at(11), "duration_ms": HOUR // 2},
        {"starts_at": at(12), "ends_at": at(24), "duration_ms": 12 * HOUR},
    ]
    assert body["totals"] == {
        "tracked_ms": 90 * MINUTE,
        "coding_ms": 7 * MINUTE,
        "unreported_ms": 21 * HOUR + HOUR // 2,
    }


def test_a_night_out_belongs_to_the_day_before(
    api: TestClient, owner: Owner, alice: Person
) -> None:
    add_sessions(
        owner,
        alice,
        # A pause of four hours in the evening is shorter than the night, which begins at 01:20 and is six.
        [code(9, 18.5), code(22.5, 25 + 20 / 60), code(31 + 20 / 60, 40)],
    )

    monday = ask(api, alice, PATH, date="2025-06-16")
    tuesday = ask(api, alice, PATH, date="2025-06-17")

    assert monday["activity"] == {
        "first_at": at(9),
        "last_at": at(25 + 20 / 60),
        "begins": "gap",
        "ends": "gap",
    }
    assert tuesday["activity"] == {
        "first_at": at(31 + 20 / 60),
        "last_at": at(40),
        "begins": "gap",
        "ends": "gap",
    }


def test_without_a_gap_of_three_hours_midnight_separates_days(
    api: TestClient, owner: Owner, alice: Person
) -> None:
    # Coding counts as activity. The longest gap between 18:00 and 12:00 has 2 h 59 min.
    add_sessions(owner, alice, [code(10, 23.9), code(26 + 59 / 60, 37)])
    add_coding(
        owner,
        alice,
        [CodingSession("1", "laptop", "svc", None, None, round(23.9 * HOUR), 24 * HOUR)],
    )

    monday = ask(api, alice, PATH, date="2025-06-16")["activity"]
    tuesday = ask(api, alice, PATH, date="2025-06-17")["activity"]

    assert (monday["last_at"], monday["ends"]) == (at(24), "midnight")
    assert (tuesday["first_at"], tuesday["begins"]) == (at(26 + 59 / 60), "midnight")


def test_a_gap_counts_up_to_an_instant(api: TestClient, owner: Owner, alice: Person) -> None:
    add_sessions(owner, alice, [code(9, 19)])

    at_ten = ask(api, alice, PATH, date="2025-06-16", until=at(21.9))
    later = ask(api, alice, PATH, date="2025-06-16", until=at(22))
    before = ask(api, alice, PATH, date="2025-06-17", until=at(23))

    assert (at_ten["activity"]["last_at"], at_ten["activity"]["ends"]) == (at(19), "midnight")
    assert (later["activity"]["last_at"], later["activity"]["ends"]) == (at(19), "gap")
    assert later["totals"]["unreported_ms"] == 12 * HOUR
    assert before["totals"]["unreported_ms"] == 0
    assert before["activity"]["first_at"] is None


@given(history=histories())
def test_stretches_are_those_of_the_model(api: TestClient, owner: Owner, history: History) -> None:
    carol = carol_with(owner, history)
    [day] = days(history.date, history.date, history.zone)
    step = 600 * SECOND

    body = ask(api, carol, PATH, date=str(history.date), tz=history.zone, resolution_s="600")

    cells: dict[int, dict[tuple[str, int], int]] = defaultdict(lambda: defaultdict(int))
    edges: dict[int, list[int]] = defaultdict(list)
    for start, end, session in segments(history.sessions, day.start, day.end):
        for n in range((start - day.start) // step, (end - 1 - day.start) // step + 1):
            first = max(start, day.start + n * step)
            last = min(end, day.start + (n + 1) * step)
            cells[n][session.category, session.score] += last - first
            edges[n] += [first, last]
    owners = [
        (n, min(cells[n], key=lambda each: (-cells[n][each], each[0].encode())))
        for n in sorted(cells)
    ]
    expected = []
    for (place, (category, score)), group in groupby(
        enumerate(owners), key=lambda each: (each[1][0] - each[0], each[1][1])
    ):
        assert place is not None
        numbers = [n for _, (n, _) in group]
        expected.append(
            {
                "starts_at": instant(min(edges[numbers[0]])),
                "ends_at": instant(max(edges[numbers[-1]])),
                "category": category,
                "productivity": productivity(score),
                "total_ms": sum(sum(cells[n].values()) for n in numbers),
                "category_ms": sum(cells[n][category, score] for n in numbers),
            }
        )
    rows = [
        {name: row[name] for name in row if name not in ("app", "app_count")}
        for row in body["data"]["apps"]
    ]
    assert rows == expected
    assert body["totals"]["tracked_ms"] == sum(row["total_ms"] for row in expected)
    coded = sum(end - start for start, end, _ in segments(history.coding, day.start, day.end))
    assert body["totals"]["coding_ms"] == coded

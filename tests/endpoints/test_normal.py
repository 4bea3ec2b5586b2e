"""GET /api/v1/analytics/normal and /api/v1/analytics/day-difference."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import psycopg
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from resourceserver.timeline.normal import Normal
from shared.settings import Settings
from tests.conftest import Person
from tests.endpoints.histories import PLACES, History, add_sessions, carol_with
from tests.endpoints.test_summaries import make_all, make_due, post
from tests.endpoints.timeline import (
    CodingSession,
    Session,
    days,
    instant,
    owned_ms,
    per_category,
    rounded,
    since_epoch,
)

Rows = psycopg.Connection[Any]

NORMAL = "/api/v1/analytics/normal"
DIFFERENCE = "/api/v1/analytics/day-difference"
HOUR = 3_600_000
WEEK = 7 * 24 * HOUR
NINE = 9 * HOUR


def ask(api: TestClient, person: Person, path: str, *scopes: str, **params: str) -> dict[str, Any]:
    answer = api.get(path, params=params, headers=person.headers("read:activity", *scopes))
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def track(owner: Rows, person: Person, *sessions: tuple[str, str, int, int]) -> None:
    """Write app sessions: an application, a category, start and length."""
    add_sessions(
        owner,
        person,
        [
            Session(f"{app} {start}", "laptop", app, start, start + length, category=category)
            for app, category, start, length in sessions
        ],
    )


def mondays(*hours: int | None) -> list[tuple[str, str, int, int]]:
    """Return a session of so many hours from nine on each of the Mondays before 2025-06-16, in order."""
    return [
        ("Code", "Development", NINE - (len(hours) - n) * WEEK, length * HOUR)
        for n, length in enumerate(hours)
        if length is not None
    ]


def test_a_monday_by_hand(api: TestClient, owner: Rows, alice: Person, bob: Person) -> None:
    track(
        owner,
        alice,
        *mondays(3, 4, 4, 5, None, 5, 6, 7),
        ("Code", "Development", NINE, 13 * HOUR // 2),
    )
    # Other days of the week, and other people, do not count.
    track(owner, alice, ("Code", "Development", NINE - 24 * HOUR, 12 * HOUR))
    track(owner, bob, ("Code", "Development", NINE - 4 * WEEK, 12 * HOUR))

    body = ask(api, alice, NORMAL, date="2025-06-16")

    assert {
        name: body[name] for name in ("date", "tz", "day_of_week", "is_whole_day", "range")
    } == {
        "date": "2025-06-16",
        "tz": "UTC",
        "day_of_week": 1,
        "is_whole_day": True,
        "range": {"from": "2025-06-16T00:00:00.000Z", "to": "2025-06-17T00:00:00.000Z"},
    }
    assert [(day["date"], day["reported"]) for day in body["days"]] == [
        ("2025-04-21", True),
        ("2025-04-28", True),
        ("2025-05-05", True),
        ("2025-05-12", True),
        ("2025-05-19", False),
        ("2025-05-26", True),
        ("2025-06-02", True),
        ("2025-06-09", True),
    ]
    rows = {row["metric"]: row for row in body["data"]}
    assert rows["tracked_ms"] == {
        "metric": "tracked_ms",
        "unit": "ms",
        "value": 23_400_000,
        "days": 7,
        "median": 18_000_000,
        "lower_quartile": 14_400_000,
        "upper_quartile": 19_800_000,
        "usual_from": 11_700_000,
        "usual_to": 22_500_000,
        "difference": 5_400_000,
        "difference_percent": 30,
        "comparison": "more_than_usual",
    }
    assert rows["distracted_ms"] == {
        "metric": "distracted_ms",
        "unit": "ms",
        "value": 0,
        "days": 7,
        "median": 0,
        "lower_quartile": 0,
        "upper_quartile": 0,
        "usual_from": 0,
        "usual_to": 300_000,
        "difference": 0,
        "difference_percent": None,
        "comparison": "usual",
    }
    assert rows["focus_ms"] == rows["tracked_ms"] | {"metric": "focus_ms"}
    assert body["omitted"] == [
        {"metric": "meeting_ms", "scope": "read:content"},
        {"metric": "asleep_ms", "scope": "read:health"},
        {"metric": "health:steps", "scope": "read:health"},
    ]
    assert list(rows) == ["tracked_ms", "productive_ms", "distracted_ms", "focus_ms", "coding_ms"]


def test_whole_days_come_from_stored_summaries_that_are_up_to_date(
    api: TestClient, deployment: Settings, owner: Rows, alice: Person
) -> None:
    for day in ("2025-06-02", "2025-06-09", "2025-06-16"):
        post(api, alice, ("Code", "Development", f"{day}T09:00:00Z", f"{day}T10:00:00Z"))
    make_due(deployment)
    # So that the answer tells where it comes from.
    owner.execute("update activity.daily_summary set tracked_ms = 7")

    def tracked(**more: str) -> tuple[int, int]:
        row = ask(api, alice, NORMAL, date="2025-06-16", **more)["data"][0]
        return row["value"], row["median"]

    assert tracked() == (7, 7)
    assert tracked(until="2025-06-16T23:00:00Z") == (HOUR, HOUR)
    assert tracked(tz="Europe/Berlin") == (HOUR, HOUR)

    post(api, alice, ("Code", "Development", "2025-06-16T12:00:00Z", "2025-06-16T13:00:00Z"))

    assert tracked() == (2 * HOUR, 7)


def test_a_part_of_a_day_is_compared_with_the_same_hours(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    track(owner, alice, *mondays(1, 2, 3, 4), ("Code", "Development", NINE, 8 * HOUR))

    body = ask(api, alice, NORMAL, date="2025-06-16", until="2025-06-16T11:30:00Z")

    assert body["is_whole_day"] is False
    assert body["range"]["to"] == "2025-06-16T11:30:00.000Z"
    assert body["days"][-1]["until"] == "2025-06-09T11:30:00.000Z"
    (tracked,) = [row for row in body["data"] if row["metric"] == "tracked_ms"]
    # Of the other days, 1, 2, 2.5 and 2.5 hours lie before half past eleven.
    assert (tracked["value"], tracked["median"], tracked["days"]) == (9_000_000, 8_100_000, 4)
    assert (tracked["difference"], tracked["difference_percent"]) == (900_000, 11.11)


def test_the_same_hours_are_those_of_the_local_clock(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    body = ask(
        api,
        alice,
        NORMAL,
        date="2025-10-27",
        tz="Europe/Berlin",
        until="2025-10-27T10:00:00Z",
    )

    # Clocks went back on 2025-10-26.
    assert body["range"]["from"] == "2025-10-26T23:00:00.000Z"
    assert body["days"][-1]["until"] == "2025-10-20T09:00:00.000Z"


def test_an_instant_that_is_not_on_the_day_counts_as_the_nearest(
    api: TestClient, alice: Person
) -> None:
    ends = {
        until: ask(api, alice, NORMAL, date="2025-06-16", until=until)["range"]["to"]
        for until in ("1800-01-01T00:00:00Z", "2025-06-16T23:59:59Z", "9999-12-31T00:00:00Z")
    }

    assert list(ends.values()) == [
        "2025-06-16T00:00:00.000Z",
        "2025-06-16T23:59:59.000Z",
        "2025-06-17T00:00:00.000Z",
    ]


def test_a_day_that_nobody_reported_has_no_value_and_is_not_compared(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    track(owner, alice, *mondays(1, 2, 3, 4))

    body = ask(api, alice, NORMAL, date="2025-06-16")
    difference = ask(api, alice, DIFFERENCE, date="2025-06-16")

    tracked = body["data"][0]
    assert (tracked["value"], tracked["difference"], tracked["comparison"]) == (None, None, None)
    assert (tracked["days"], tracked["median"]) == (4, 9_000_000)
    assert difference["totals"] == {
        "tracked_ms": None,
        "normal_ms": None,
        "difference_ms": None,
        "days": 4,
    }
    assert difference["data"] == {"apps": [], "categories": []}


def test_a_day_of_the_future_has_no_value(api: TestClient, owner: Rows, alice: Person) -> None:
    track(owner, alice, *mondays(1, 2, 3, 4))

    body = ask(api, alice, NORMAL, date="9998-12-28")

    assert {row["value"] for row in body["data"]} == {None}
    assert body["range"]["to"] == body["range"]["from"]


def test_nights_and_steps_are_compared_if_the_token_may_read_them(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    track(owner, alice, *mondays(1, 2, 3, 4), ("Code", "Development", NINE, 8 * HOUR))
    owner.execute(
        """
        with source as (
            insert into health.source (user_id, provider, name, kind)
            values (%(user_id)s, 'apple_health', 'Watch', 'watch')
            returning source_id
        ),
        metric as (
            insert into health.metric (user_id, metric_type, unit, aggregation)
            values (%(user_id)s, 'steps', 'count', 'sum')
        ),
        night as (
            insert into health.sleep (
                user_id, source_id, started_at, ended_at, utc_offset, in_bed_ms, asleep_ms
            )
            select %(user_id)s, source_id, ended_at - interval '8 hours', ended_at, '+00:00', 28800000,
                   asleep_ms
              from source,
                   (
                       values (timestamptz '2025-06-16 06:00Z', 7 * 3600000),
                              (timestamptz '2025-06-09 06:00Z', 6 * 3600000),
                              -- On a Sunday.
                              (timestamptz '2025-06-08 06:00Z', 1 * 3600000)
                   ) as slept (ended_at, asleep_ms)
        )
        insert into health.sample (user_id, source_id, metric_type, started_at, ended_at, value)
        select %(user_id)s, source_id, 'steps', at, at + interval '1 hour', steps
          from source,
               (
                   values (timestamptz '2025-06-16 10:00Z', 1000),
                          (timestamptz '2025-06-16 11:00Z', 500),
                          (timestamptz '2025-06-10 12:00Z', 40000),
                          (timestamptz '2025-06-09 10:00Z', 700),
                          (timestamptz '2025-06-09 18:00Z', 9000),
                          (timestamptz '2025-06-02 23:00Z', 300)
               ) as walked (at, steps)
        """,
        {"user_id": alice.user_id},
    )

    body = ask(
        api,
        alice,
        NORMAL,
        "read:health",
        "read:content",
        date="2025-06-16",
        until="2025-06-16T11:30:00Z",
    )

    rows = {row["metric"]: (row["value"], row["days"], row["median"]) for row in body["data"]}
    assert rows["asleep_ms"] == (7 * HOUR, 1, 6 * HOUR)
    # On 2 June there were steps, and none before half past eleven: not known to be none.
    assert rows["health:steps"] == (1250, 1, 700)
    assert rows["meeting_ms"] == (0, 4, 0)
    assert body["omitted"] == []


def test_a_difference_by_hand(api: TestClient, owner: Rows, alice: Person) -> None:
    track(
        owner,
        alice,
        # One of these days counts for nothing: nobody reported it.
        ("Code", "Development", NINE - 3 * WEEK, 4 * HOUR),
        ("Mail", "Communication", NINE - 3 * WEEK + 4 * HOUR, 1),
        ("Code", "Development", NINE - 2 * WEEK, 2 * HOUR),
        ("Chess", "Games", NINE - 2 * WEEK + 2 * HOUR, HOUR),
        ("Code", "Development", NINE - WEEK, 3 * HOUR),
        ("Mail", "Communication", NINE - WEEK + 3 * HOUR, 1),
        ("Code", "Development", NINE, HOUR),
        ("Figma", "Design", NINE + HOUR, HOUR // 2),
    )

    body = ask(api, alice, DIFFERENCE, date="2025-06-16")

    # The mean of 4 h, 1 ms; 3 h; 3 h, 1 ms.
    assert body["totals"] == {
        "tracked_ms": 5_400_000,
        "normal_ms": 12_000_001,
        "difference_ms": -6_600_001,
        "days": 3,
    }
    assert body["definition"] == {"weeks": 8, "most_rows": 20}
    assert body["data"]["apps"] == [
        {
            "category": "Development",
            "productivity": "productive",
            "total_ms": 3_600_000,
            "normal_ms": 10_800_000,
            "difference_ms": -7_200_000,
            "days": 3,
            "change": "less",
            "app": "Code",
        },
        {
            "category": "Design",
            "productivity": "productive",
            "total_ms": 1_800_000,
            "normal_ms": 0,
            "difference_ms": 1_800_000,
            "days": 0,
            "change": "new",
            "app": "Figma",
        },
        {
            "category": "Games",
            "productivity": "distracting",
            "total_ms": 0,
            "normal_ms": 1_200_000,
            "difference_ms": -1_200_000,
            "days": 1,
            "change": "absent",
            "app": "Chess",
        },
        {
            "category": "Communication",
            "productivity": "neutral",
            "total_ms": 0,
            # Two thirds of a millisecond.
            "normal_ms": 1,
            "difference_ms": -1,
            "days": 2,
            "change": "absent",
            "app": "Mail",
        },
    ]
    assert [
        (row["category"], row["difference_ms"], row["change"]) for row in body["data"]["categories"]
    ] == [
        ("Development", -7_200_000, "less"),
        ("Design", 1_800_000, "new"),
        ("Games", -1_200_000, "absent"),
        ("Communication", -1, "absent"),
    ]


def test_the_smallest_differences_are_one_row(api: TestClient, owner: Rows, alice: Person) -> None:
    minute = 60_000
    track(owner, alice, ("Code", "Development", NINE - WEEK, HOUR))
    track(
        owner,
        alice,
        ("Code", "Development", NINE, HOUR),
        *(
            (f"app {n:02}", "Games", NINE + HOUR + n * HOUR // 4, (n + 1) * minute // 2)
            for n in range(25)
        ),
    )

    body = ask(api, alice, DIFFERENCE, date="2025-06-16")

    apps = body["data"]["apps"]
    assert [row["app"] for row in apps] == [*(f"app {n:02}" for n in range(24, 4, -1)), None]
    # Code and the five applications with half a minute to two and a half.
    assert apps[-1] == {
        "app": None,
        "category": None,
        "productivity": None,
        "total_ms": HOUR + 15 * minute // 2,
        "normal_ms": HOUR,
        "difference_ms": 15 * minute // 2,
        "days": None,
        "change": None,
    }
    assert body["totals"]["difference_ms"] == sum(row["difference_ms"] for row in apps)
    assert [row["change"] for row in body["data"]["categories"]] == ["new", "same"]


Draw = Callable[[st.SearchStrategy[Any]], Any]


@st.composite
def weekdays(draw: Draw) -> tuple[History, str | None]:
    """Draw sessions on a day and the same weekdays before it, and an instant on the day or none.

    Some last over midnight, and lengths in odd milliseconds make means that are not whole.
    """
    zone, day = draw(st.sampled_from(PLACES))
    starts = [
        days(day - timedelta(days=7 * n), day - timedelta(days=7 * n), zone)[0].start
        for n in range(9)
    ]
    drawn = draw(
        st.lists(
            st.tuples(
                st.sampled_from([0, 0, *range(9)]),
                st.integers(-2, 25),
                st.sampled_from([0, 1, 977, 60_001, 977_033, 1_800_000, 9_000_500]),
                st.sampled_from(["x", "Y", "é", "z"]),
                st.sampled_from(["Development", "Reference", "News", "Games", "Own", "own"]),
                st.booleans(),
            ),
            max_size=25,
        )
    )
    apps, coding = list[Session](), list[CodingSession]()
    for n, (week, hour, length, app, category, is_coding) in enumerate(drawn):
        start = starts[week] + hour * HOUR
        if is_coding:
            coding.append(
                CodingSession(f"{n:02}", "laptop", app, None, None, start, start + length)
            )
        else:
            apps.append(Session(f"{n:02}", "laptop", app, start, start + length, category=category))
    until = draw(
        st.none() | st.integers(0, 24 * 60).map(lambda minute: starts[0] + minute * 60_000)
    )
    history = History(zone, day, apps, coding, 0, 0)
    return history, None if until is None else instant(until)


def spans(body: dict[str, Any], history: History) -> list[tuple[int, int]]:
    """Return the parts of the nine days that count, the day itself last; their ends are the answer's."""
    ends = [*(day["until"] for day in body["days"]), body["range"]["to"]]
    return [
        (days(day, day, history.zone)[0].start, since_epoch(end))
        for n, end in enumerate(ends)
        for day in [history.date - timedelta(days=7 * (8 - n))]
    ]


def is_reported(history: History, weeks: int) -> bool:
    """Tell whether any session begins on a day or reaches into it."""
    day = history.date - timedelta(days=7 * weeks)
    (span,) = days(day, day, history.zone)
    times = [
        *((s.started, s.ended) for s in history.sessions),
        *((s.started, s.ended) for s in history.coding),
    ]
    return span.start < span.end and any(
        span.start <= started < span.end or started < span.start < ended for started, ended in times
    )


@given(drawn=weekdays())
def test_normal_and_difference_are_those_of_the_slow_model(
    api: TestClient, deployment: Settings, owner: Rows, drawn: tuple[History, str | None]
) -> None:
    history, until = drawn
    carol = carol_with(owner, history)
    params = {"date": str(history.date), "tz": history.zone} | ({"until": until} if until else {})

    body = ask(api, carol, NORMAL, **params)
    difference = ask(api, carol, DIFFERENCE, **params)

    counted = spans(body, history)
    known = [is_reported(history, 8 - n) for n in range(9)]
    assert [day["reported"] for day in body["days"]] == known[:-1]
    for name in ("date", "tz", "day_of_week", "range", "is_whole_day", "days"):
        assert difference[name] == body[name]
    values = {
        "tracked_ms": [sum(owned_ms(history.sessions, *span).values()) for span in counted],
        "distracted_ms": [
            sum(
                row["total_ms"] for row in per_category(history.sessions, *span) if row["score"] < 0
            )
            for span in counted
        ],
        "coding_ms": [sum(owned_ms(history.coding, *span).values()) for span in counted],
    }
    for row in body["data"]:
        if row["metric"] in values:
            *before, value = values[row["metric"]]
            reported = [each for each, is_known in zip(before, known, strict=False) if is_known]
            expected = Normal.of(reported, decimals=0, least=300_000)
            assert row["value"] == (value if known[-1] else None)
            assert (row["days"], row["median"]) == (expected.days, expected.median)
            assert (row["usual_from"], row["usual_to"]) == (expected.usual_from, expected.usual_to)
            assert row["comparison"] == expected.compare(row["value"])
    check_difference(difference, history.sessions, counted, known)
    owner.execute(
        "update identity.user set timezone = %s where user_id = %s", [history.zone, carol.user_id]
    )
    make_all(deployment, carol)
    assert ask(api, carol, NORMAL, **params) == body


def check_difference(
    body: dict[str, Any],
    sessions: Sequence[Session],
    counted: list[tuple[int, int]],
    known: list[bool],
) -> None:
    """Check a difference against the time that sessions own in the parts of the nine days that count."""
    before = [span for span, is_known in zip(counted[:-1], known, strict=False) if is_known]
    totals = body["totals"]
    assert totals["days"] == len(before)
    if not known[-1] or not before:
        assert totals["difference_ms"] is None
        assert body["data"] == {"apps": [], "categories": []}
        return
    for name, rows in (("app", body["data"]["apps"]), ("category", body["data"]["categories"])):
        total, earlier = spent(sessions, counted[-1:], name), spent(sessions, before, name)
        assert totals["tracked_ms"] == sum(total.values())
        assert totals["normal_ms"] == int(rounded(sum(earlier.values()), len(before)))
        assert {row[name] for row in rows} == {*total, *earlier}
        for row in rows:
            assert row["total_ms"] == total[row[name]]
            # Less than a millisecond from the exact mean.
            assert abs(row["normal_ms"] * len(before) - earlier[row[name]]) < len(before)
            assert row["difference_ms"] == row["total_ms"] - row["normal_ms"]
        for column in ("total_ms", "normal_ms", "difference_ms"):
            assert (
                sum(row[column] for row in rows)
                == totals["tracked_ms" if column == "total_ms" else column]
            )
        sizes = [abs(row["difference_ms"]) for row in rows]
        assert sizes == sorted(sizes, reverse=True)


def spent(sessions: Sequence[Session], counted: list[tuple[int, int]], name: str) -> dict[str, int]:
    """Return the time of each application or category, if it has any."""
    times: dict[str, int] = defaultdict(int)
    for span in counted:
        for session, ms in owned_ms(sessions, *span).items():
            times[getattr(session, name)] += ms
    return defaultdict(int, {each: ms for each, ms in times.items() if ms})

"""GET /api/v1/insights, /api/v1/recordings, /api/v1/watching/genres and /api/v1/calendar/events."""

import json
from typing import Any

import psycopg
from starlette.testclient import TestClient

from tests.conftest import Person

Rows = psycopg.Connection[Any]

INSIGHTS = "/api/v1/insights"
RECORDINGS = "/api/v1/recordings"
GENRES = "/api/v1/watching/genres"
CALENDAR = "/api/v1/calendar/events"
JUNE_16 = {"from": "2025-06-16T00:00Z", "to": "2025-06-17T00:00Z"}


def ask(api: TestClient, person: Person, path: str, **params: str) -> dict[str, Any]:
    answer = api.get(path, params=params, headers=person.headers("read:content"))
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def test_insights_by_hand(api: TestClient, owner: Rows, alice: Person) -> None:
    highlight = {
        "kind": "change",
        "metric": "productive_ms",
        "text": "12 % more productive time than the week before",
        "value": 402_300_000,
        "previous": 359_000_000,
        "change_percent": 12.06,
    }
    rows = owner.execute(
        """
        insert into content.insight
               (user_id, week_start, week_end, tz, title, summary, highlights, model, generated_at)
        values (%(user_id)s, '2025-06-09', '2025-06-15', 'Europe/Berlin', 'A focused week', '# Well done',
                %(highlights)s, 'm-1', '2025-06-16 04:00Z'),
               -- The week before, written once more later.
               (%(user_id)s, '2025-06-02', '2025-06-08', 'Europe/Berlin', 'A week off', '', '[]',
                null, '2025-06-20 04:00Z')
        returning insight_id
        """,
        {"user_id": alice.user_id, "highlights": json.dumps([highlight])},
    ).fetchall()

    body = ask(api, alice, INSIGHTS)

    assert body == {
        "data": [
            {
                "id": str(rows[0][0]),
                "week_start": "2025-06-09",
                "week_end": "2025-06-15",
                "tz": "Europe/Berlin",
                "title": "A focused week",
                "summary": "# Well done",
                "highlights": [highlight],
                "model": "m-1",
                "generated_at": "2025-06-16T04:00:00.000Z",
            },
            {
                "id": str(rows[1][0]),
                "week_start": "2025-06-02",
                "week_end": "2025-06-08",
                "tz": "Europe/Berlin",
                "title": "A week off",
                "summary": "",
                "highlights": [],
                "model": None,
                "generated_at": "2025-06-20T04:00:00.000Z",
            },
        ],
        "count": 2,
        "limit": 12,
        "has_more": False,
        "next_cursor": None,
    }


def test_the_newest_week_is_first_whenever_its_text_was_written(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    owner.execute(
        """
        insert into content.insight
               (user_id, week_start, week_end, tz, title, summary, generated_at)
        values (%(user_id)s, '2025-06-02', '2025-06-08', 'UTC', '', '', '2025-07-02'),
               (%(user_id)s, '2025-06-09', '2025-06-15', 'UTC', '', '', '2025-07-01'),
               (%(user_id)s, '2025-05-26', '2025-06-01', 'UTC', '', '', '2025-07-03')
        """,
        {"user_id": alice.user_id},
    )

    body = ask(api, alice, INSIGHTS, limit="1")

    assert [row["week_start"] for row in body["data"]] == ["2025-06-09"]


def test_recordings_by_hand(api: TestClient, owner: Rows, alice: Person) -> None:
    segment = {"start_ms": 0, "end_ms": 4200, "speaker": None, "text": "Good morning."}
    rows = owner.execute(
        """
        insert into content.recording
               (user_id, recorded_at, duration_ms, title, language, source, transcript_status,
                transcript, transcript_segments)
        values (%(user_id)s, '2025-06-16 09:00Z', 184000, 'Standup notes', 'en', 'phone', 'ready',
                'Good morning.', %(segments)s),
               (%(user_id)s, '2025-06-16 08:00Z', 0, null, null, 'phone', default, null, default)
        returning recording_id
        """,
        {"user_id": alice.user_id, "segments": json.dumps([segment])},
    ).fetchall()

    body = ask(api, alice, RECORDINGS)

    assert body == {
        "data": [
            {
                "id": str(rows[0][0]),
                "recorded_at": "2025-06-16T09:00:00.000Z",
                "duration_ms": 184_000,
                "title": "Standup notes",
                "language": "en",
                "source": "phone",
                "transcript": {"status": "ready", "text": "Good morning.", "segments": [segment]},
            },
            {
                "id": str(rows[1][0]),
                "recorded_at": "2025-06-16T08:00:00.000Z",
                "duration_ms": 0,
                "title": None,
                "language": None,
                "source": "phone",
                "transcript": {"status": "none", "text": None, "segments": []},
            },
        ],
        "count": 2,
        "limit": 20,
        "has_more": False,
        "next_cursor": None,
    }


def watch(
    owner: Rows, person: Person, kind: str, genres: list[str], *plays: tuple[str, int]
) -> None:
    owner.execute(
        """
        with title as (
            insert into content.title (user_id, kind, name)
            values (%(user_id)s, %(kind)s, 'A title')
            returning title_id
        ),
        genre as (
            insert into content.title_genre (user_id, title_id, genre)
            select %(user_id)s, title_id, genre
              from title, unnest(%(genres)s::text[]) as genre
        )
        insert into content.play (user_id, title_id, watched_at, watch_ms)
        select %(user_id)s, title_id, watched_at, watch_ms
          from title, unnest(%(times)s::timestamptz[], %(lengths)s::bigint[]) as play (watched_at, watch_ms)
        """,
        {
            "user_id": person.user_id,
            "kind": kind,
            "genres": genres,
            "times": [at for at, _ in plays],
            "lengths": [length for _, length in plays],
        },
    )


def test_genres_by_hand(api: TestClient, owner: Rows, alice: Person, bob: Person) -> None:
    evening, later = "2025-06-16T20:00Z", "2025-06-17T20:00Z"
    watch(owner, alice, "show", ["drama", "crime"], (evening, 3_000_000), (later, 3_000_000))
    watch(owner, alice, "movie", ["drama"], (evening, 6_000_000))
    watch(owner, alice, "movie", [], (evening, 4_000_000))
    watch(owner, alice, "movie", ["never watched"])
    watch(owner, bob, "movie", ["secret"], (evening, 9_000_000))

    body = ask(api, alice, GENRES)

    assert body == {
        "data": [
            {
                "genre": "drama",
                "watch_ms": 12_000_000,
                "percent": 75,
                "play_count": 3,
                "movie_count": 1,
                "episode_count": 2,
                "title_count": 2,
                "last_watched_at": "2025-06-17T20:00:00.000Z",
            },
            {
                "genre": "crime",
                "watch_ms": 6_000_000,
                "percent": 37.5,
                "play_count": 2,
                "movie_count": 0,
                "episode_count": 2,
                "title_count": 1,
                "last_watched_at": "2025-06-17T20:00:00.000Z",
            },
            {
                "genre": "unknown",
                "watch_ms": 4_000_000,
                "percent": 25,
                "play_count": 1,
                "movie_count": 1,
                "episode_count": 0,
                "title_count": 1,
                "last_watched_at": "2025-06-16T20:00:00.000Z",
            },
        ],
        "totals": {
            "watch_ms": 16_000_000,
            "play_count": 4,
            "movie_count": 2,
            "episode_count": 2,
            "title_count": 3,
        },
    }


def test_genres_of_equal_time_are_in_byte_order_and_those_without_time_have_no_share(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    watch(owner, alice, "movie", ["a", "Z", "é"], ("2025-06-16T20:00Z", 0))

    body = ask(api, alice, GENRES)

    assert [(row["genre"], row["percent"]) for row in body["data"]] == [
        ("Z", None),
        ("a", None),
        ("é", None),
    ]


def test_an_account_without_plays_has_no_genres(api: TestClient, alice: Person) -> None:
    body = ask(api, alice, GENRES)

    assert body == {
        "data": [],
        "totals": {
            "watch_ms": 0,
            "play_count": 0,
            "movie_count": 0,
            "episode_count": 0,
            "title_count": 0,
        },
    }


def plan(
    owner: Rows, person: Person, start: str, end: str, status: str = "confirmed"
) -> tuple[str, str]:
    """Return the ids of a new event and of its calendar."""
    row = owner.execute(
        """
        with calendar as (
            insert into content.calendar (user_id, name, provider, timezone)
            values (%(user_id)s, 'Work', 'google', 'Europe/Berlin')
            returning calendar_id
        )
        insert into content.calendar_event (user_id, calendar_id, starts_at, ends_at, status)
        select %(user_id)s, calendar_id, %(start)s, %(end)s, %(status)s
          from calendar
        returning calendar_event_id, calendar_id
        """,
        {"user_id": person.user_id, "start": start, "end": end, "status": status},
    ).fetchone()
    assert row is not None
    return str(row[0]), str(row[1])


def test_a_meeting_by_hand(api: TestClient, owner: Rows, alice: Person) -> None:
    event, calendar = plan(owner, alice, "2025-06-16T12:00Z", "2025-06-16T13:00Z")
    owner.execute(
        """
        update content.calendar_event
           set title = 'Design review', location = 'Room 4', timezone = 'Europe/Berlin',
               response = 'accepted', organizer_name = 'Bob', attendee_count = 5,
               series_id = 's1', conference_url = 'https://meet.example.org/x',
               updated_at = '2025-06-01 08:00Z'
        """
    )

    body = ask(api, alice, CALENDAR, **JUNE_16)

    assert body == {
        "range": {"from": "2025-06-16T00:00:00.000Z", "to": "2025-06-17T00:00:00.000Z"},
        "data": [
            {
                "id": event,
                "calendar": {"id": calendar, "name": "Work", "provider": "google"},
                "title": "Design review",
                "description": None,
                "location": "Room 4",
                "starts_at": "2025-06-16T12:00:00.000Z",
                "ends_at": "2025-06-16T13:00:00.000Z",
                "duration_ms": 3_600_000,
                "all_day": False,
                "start_date": None,
                "end_date": None,
                "timezone": "Europe/Berlin",
                "status": "confirmed",
                "response": "accepted",
                "organizer": {"name": "Bob", "self": False},
                "attendee_count": 5,
                "recurring": True,
                "series_id": "s1",
                "conference_url": "https://meet.example.org/x",
                "updated_at": "2025-06-01T08:00:00.000Z",
            }
        ],
        "count": 1,
        "limit": 250,
        "has_more": False,
        "next_cursor": None,
    }


def test_an_all_day_event_has_dates_too(api: TestClient, owner: Rows, alice: Person) -> None:
    plan(owner, alice, "2025-06-15T22:00Z", "2025-06-17T22:00Z")
    owner.execute(
        "update content.calendar_event set start_date = '2025-06-16', end_date = '2025-06-18'"
    )

    (row,) = ask(api, alice, CALENDAR, **JUNE_16)["data"]

    assert row["all_day"]
    assert (row["start_date"], row["end_date"]) == ("2025-06-16", "2025-06-18")
    assert (row["starts_at"], row["duration_ms"]) == ("2025-06-15T22:00:00.000Z", 172_800_000)
    assert row["organizer"] == {"name": None, "self": False}
    assert (row["recurring"], row["series_id"]) == (False, None)


def test_events_that_overlap_the_range_are_listed_whole(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    weeks, _ = plan(owner, alice, "2025-05-01T00:00Z", "2025-06-16T00:00:00.001Z")
    day, _ = plan(owner, alice, "2025-06-15T00:00Z", "2025-06-16T00:01Z")
    hour, _ = plan(owner, alice, "2025-06-15T23:30Z", "2025-06-16T00:30Z")
    late, _ = plan(owner, alice, "2025-06-16T23:00Z", "2025-06-30T00:00Z")
    plan(owner, alice, "2025-05-01T00:00Z", "2025-06-16T00:00Z")
    plan(owner, alice, "2025-06-15T23:00Z", "2025-06-16T00:00Z")
    plan(owner, alice, "2025-06-17T00:00Z", "2025-06-17T01:00Z")

    body = ask(api, alice, CALENDAR, **JUNE_16)
    first = ask(api, alice, CALENDAR, **JUNE_16, limit="3")
    second = ask(api, alice, CALENDAR, **JUNE_16, limit="3", cursor=first["next_cursor"])

    assert [row["id"] for row in body["data"]] == [late, hour, day, weeks]
    assert [row["id"] for row in first["data"] + second["data"]] == [late, hour, day, weeks]


def test_cancelled_events_are_listed_on_request(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    cancelled, _ = plan(owner, alice, "2025-06-16T12:00Z", "2025-06-16T13:00Z", "cancelled")
    tentative, _ = plan(owner, alice, "2025-06-16T10:00Z", "2025-06-16T11:00Z", "tentative")
    long_cancelled, _ = plan(owner, alice, "2025-06-01T12:00Z", "2025-06-20T13:00Z", "cancelled")

    without = ask(api, alice, CALENDAR, **JUNE_16)
    all_but = ask(api, alice, CALENDAR, **JUNE_16, include_cancelled="false")
    every = ask(api, alice, CALENDAR, **JUNE_16, include_cancelled="true")

    assert [row["id"] for row in without["data"]] == [tentative]
    assert [row["id"] for row in all_but["data"]] == [tentative]
    assert [row["id"] for row in every["data"]] == [cancelled, tentative, long_cancelled]

"""GET /api/v1/music/history, /api/v1/music/daily and /api/v1/music/top."""

from typing import Any

import psycopg
from starlette.testclient import TestClient

from tests.conftest import Person

Rows = psycopg.Connection[Any]

HISTORY = "/api/v1/music/history"
DAILY = "/api/v1/music/daily"


def ask(
    api: TestClient, person: Person, path: str, start: str, end: str, **params: str
) -> dict[str, Any]:
    answer = api.get(
        path, params={"from": start, "to": end, **params}, headers=person.headers("read:music")
    )
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def listen(
    owner: Rows,
    person: Person,
    at: str,
    track: str = "Andromeda",
    artist: str = "Gorillaz",
    album: str | None = None,
    played_ms: int | None = None,
    duration_ms: int | None = None,
) -> None:
    owner.execute(
        """
        insert into music.listen
               (user_id, listened_at, track, artist, album, played_ms, duration_ms, source)
        values (%s, %s, %s, %s, %s, %s, %s, 'spotify')
        """,
        [person.user_id, at, track, artist, album, played_ms, duration_ms],
    )


def test_a_play_by_hand(api: TestClient, owner: Rows, alice: Person) -> None:
    listen(
        owner, alice, "2025-06-16T10:00Z", album="Humanz", played_ms=178_778, duration_ms=197_000
    )
    row = owner.execute(
        """
        update music.listen
           set artists = '{Gorillaz,D.R.A.M.}', is_skipped = false,
               spotify_uri = 'spotify:track:5qVrlcDXGJdoJpQNg5LLUo'
        returning listen_id
        """
    ).fetchone()
    assert row is not None

    body = ask(api, alice, HISTORY, "2025-06-16T00:00Z", "2025-06-17T00:00Z")

    assert body == {
        "range": {"from": "2025-06-16T00:00:00.000Z", "to": "2025-06-17T00:00:00.000Z"},
        "data": [
            {
                "id": str(row[0]),
                "listened_at": "2025-06-16T10:00:00.000Z",
                "track": "Andromeda",
                "artist": "Gorillaz",
                "artists": ["Gorillaz", "D.R.A.M."],
                "album": "Humanz",
                "played_ms": 178_778,
                "duration_ms": 197_000,
                "skipped": False,
                "source": "spotify",
                "ids": {
                    "spotify": "spotify:track:5qVrlcDXGJdoJpQNg5LLUo",
                    "isrc": None,
                    "recording_mbid": None,
                },
            }
        ],
        "count": 1,
        "limit": 100,
        "has_more": False,
        "next_cursor": None,
    }


def test_three_days_by_hand(api: TestClient, owner: Rows, alice: Person, bob: Person) -> None:
    # The played time counts, else the length of the track, else nothing.
    listen(owner, alice, "2025-06-16T10:00Z", "Andromeda", "Gorillaz", "Humanz", 100_000, 197_000)
    listen(owner, alice, "2025-06-16T10:05Z", "Andromeda", "Gorillaz", "Humanz", None, 197_000)
    listen(owner, alice, "2025-06-16T10:10Z", "Teardrop", "Massive Attack", "Mezzanine")
    # Tracks and albums of one name by two artists are two.
    listen(owner, alice, "2025-06-16T10:15Z", "Andromeda", "Weyes Blood", "Humanz", 1_000, None)
    # A play belongs to the day on which it began.
    listen(owner, alice, "2025-06-18T23:59:59.999Z", "Teardrop", "Massive Attack", None, 330_000)
    listen(owner, alice, "2025-06-19T00:00Z")
    listen(owner, bob, "2025-06-16T10:00Z", "Secret", "Bob", None, 1_000_000)

    body = ask(api, alice, DAILY, "2025-06-16T00:00Z", "2025-06-19T00:00Z")

    assert body == {
        "range": {"from": "2025-06-16T00:00:00.000Z", "to": "2025-06-19T00:00:00.000Z"},
        "tz": "UTC",
        "data": [
            {
                "date": "2025-06-16",
                "listened_ms": 298_000,
                "play_count": 4,
                "track_count": 3,
                "artist_count": 3,
                "album_count": 3,
                "top_artist": {"artist": "Gorillaz", "play_count": 2},
            },
            {
                "date": "2025-06-17",
                "listened_ms": 0,
                "play_count": 0,
                "track_count": 0,
                "artist_count": 0,
                "album_count": 0,
                "top_artist": None,
            },
            {
                "date": "2025-06-18",
                "listened_ms": 330_000,
                "play_count": 1,
                "track_count": 1,
                "artist_count": 1,
                "album_count": 0,
                "top_artist": {"artist": "Massive Attack", "play_count": 1},
            },
        ],
        "totals": {
            "listened_ms": 628_000,
            "play_count": 5,
            "track_count": 3,
            "artist_count": 3,
            "days": 3,
            "active_days": 2,
        },
    }


def test_the_first_of_artists_with_equal_plays_in_byte_order_is_the_top_artist(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    for artist in ("a", "Z", "É"):
        listen(owner, alice, "2025-06-16T10:00Z", artist=artist)

    body = ask(api, alice, DAILY, "2025-06-16T00:00Z", "2025-06-17T00:00Z")

    assert body["data"][0]["top_artist"] == {"artist": "Z", "play_count": 1}


def test_days_are_those_of_the_zone_that_overlap_the_range(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    listen(owner, alice, "2025-06-16T21:59Z")
    listen(owner, alice, "2025-06-16T22:00Z")

    body = ask(api, alice, DAILY, "2025-06-16T12:00Z", "2025-06-17T12:00Z", tz="Europe/Berlin")

    assert body["tz"] == "Europe/Berlin"
    assert [(row["date"], row["play_count"]) for row in body["data"]] == [
        ("2025-06-16", 1),
        ("2025-06-17", 1),
    ]
    assert (body["totals"]["days"], body["totals"]["active_days"]) == (2, 2)


def test_a_range_of_no_length_has_no_days(api: TestClient, owner: Rows, alice: Person) -> None:
    listen(owner, alice, "2025-06-16T10:00Z")

    body = ask(api, alice, DAILY, "2025-06-16T10:00Z", "2025-06-16T10:00Z")

    assert body["data"] == []
    assert body["totals"] == {
        "listened_ms": 0,
        "play_count": 0,
        "track_count": 0,
        "artist_count": 0,
        "days": 0,
        "active_days": 0,
    }


def test_the_most_played_by_hand(api: TestClient, owner: Rows, alice: Person) -> None:
    listen(owner, alice, "2025-06-16T10:00Z", "One", "A", "First", played_ms=100_000)
    listen(owner, alice, "2025-06-16T11:00Z", "One", "B", played_ms=60_000)
    # Not played to a known length: the length of the track counts.
    listen(owner, alice, "2025-06-16T12:00Z", "Two", "B", duration_ms=40_000)
    listen(owner, alice, "2025-06-17T00:00Z", "Two", "B", duration_ms=40_000)
    top = "/api/v1/music/top"
    day = "2025-06-16T00:00Z", "2025-06-17T00:00Z"

    artists = ask(api, alice, top, *day)
    tracks = ask(api, alice, top, *day, by="track")
    albums = ask(api, alice, top, *day, by="album")

    # Both have listened for as long; the one with more plays is first.
    assert artists["data"] == [
        {"name": "B", "artist": None, "listened_ms": 100_000, "play_count": 2, "percent": 50},
        {"name": "A", "artist": None, "listened_ms": 100_000, "play_count": 1, "percent": 50},
    ]
    assert artists["totals"] == {
        "listened_ms": 200_000,
        "play_count": 3,
        "count": 2,
        "artist_count": 2,
    }
    assert (tracks["totals"]["count"], tracks["totals"]["artist_count"]) == (3, 2)
    assert [(row["name"], row["artist"], row["percent"]) for row in tracks["data"]] == [
        ("One", "A", 50),
        ("One", "B", 30),
        ("Two", "B", 20),
    ]
    assert [(row["name"], row["artist"], row["percent"]) for row in albums["data"]] == [
        ("First", "A", 100)
    ]
    assert albums["totals"] == {
        "listened_ms": 100_000,
        "play_count": 1,
        "count": 1,
        "artist_count": 1,
    }

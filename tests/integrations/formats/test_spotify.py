"""What becomes of Spotify's histories."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from resourceserver.integrations.formats.spotify import ACCOUNT_DATA, EXTENDED
from resourceserver.integrations.records import Listen
from tests.integrations import samples
from tests.integrations.memory import Reading, read
from tests.integrations.samples import spotify_play

ANDROMEDA = Listen(
    # The minute of 12:34 UTC, since 1970.
    key="28049074:178778:Andromeda",
    listened_at=datetime(2023, 5, 1, 12, 31, 57, 222000, tzinfo=UTC),
    track="Andromeda",
    artist="Gorillaz",
    album="Humanz",
    played_ms=178778,
    is_skipped=False,
    spotify_uri="spotify:track:7rU6Iebxzlvqy5t857bKFq",
)


def read_plays(*plays: Any) -> Reading:
    return read(EXTENDED, json.dumps(plays))


def test_a_play_began_before_its_timestamp() -> None:
    assert read(EXTENDED, samples.spotify_extended().content).records == [ANDROMEDA]


def test_a_play_of_the_account_data_has_the_key_of_the_extended_history() -> None:
    [listen] = read(ACCOUNT_DATA, samples.spotify_account_data().content).records

    assert listen == Listen(
        key=ANDROMEDA.key,
        listened_at=datetime(2023, 5, 1, 12, 31, 1, 222000, tzinfo=UTC),
        track="Andromeda",
        artist="Gorillaz",
        played_ms=178778,
    )


@pytest.mark.parametrize(
    ("play", "is_skipped"),
    [
        ({"ms_played": 29_999, "skipped": True, "reason_end": "trackdone"}, True),
        ({"ms_played": 29_999, "skipped": False, "reason_end": "fwdbtn"}, True),
        ({"ms_played": 29_999, "skipped": None, "reason_end": None}, True),
        ({"ms_played": 29_999, "reason_end": "logout"}, True),
        ({"ms_played": 29_999, "reason_end": "unknown"}, True),
        ({"ms_played": 29_999, "reason_end": "trackdone"}, False),
        ({"ms_played": 29_999, "reason_end": "backbtn"}, False),
        ({"ms_played": 30_000, "skipped": True, "reason_end": "fwdbtn"}, False),
    ],
)
def test_a_play_is_skipped_if_the_person_ended_it_within_half_a_minute(
    play: dict[str, Any], is_skipped: bool
) -> None:
    [listen] = read_plays(spotify_play(**play)).records

    assert listen.is_skipped is is_skipped


def test_episodes_and_audiobooks_are_counted_and_not_kept() -> None:
    no_track = {"master_metadata_track_name": None, "spotify_track_uri": None}

    reading = read_plays(
        spotify_play(**no_track, episode_name="Episode 1", episode_show_name="A show"),
        spotify_play(**no_track, audiobook_title="A book"),
        spotify_play(**no_track),
        spotify_play(),
    )

    assert reading.reasons == ["episodes_are_not_kept", "audiobooks_are_not_kept", "missing_track"]
    assert reading.records == [ANDROMEDA]


def test_podcasts_of_the_account_data_are_counted_and_not_kept() -> None:
    play = {"endTime": "2023-05-01 12:34", "podcastName": "A", "episodeName": "B", "msPlayed": 1}
    book = {"endTime": "2023-05-01 12:34", "audiobookName": "A", "authorName": "B", "msPlayed": 1}

    reading = read(ACCOUNT_DATA, json.dumps([play, book]))

    assert reading.reasons == ["episodes_are_not_kept", "audiobooks_are_not_kept"]


@pytest.mark.parametrize(
    ("play", "reason"),
    [
        ({"ts": None}, "missing_time"),
        ({"ts": "broken-date"}, "invalid_time"),
        ({"ts": "0001-01-01T00:00:00Z"}, "invalid_time"),
        ({"ms_played": None}, "missing_duration"),
        ({"ms_played": -5}, "missing_duration"),
        ({"ms_played": [1]}, "missing_duration"),
        ({"master_metadata_album_artist_name": " "}, "missing_artist"),
    ],
)
def test_a_broken_play_is_refused_without_its_network_address(
    play: dict[str, Any], reason: str
) -> None:
    reading = read_plays(spotify_play(**play), spotify_play())

    assert reading.reasons == [reason]
    assert "198.51.100.7" not in reading.refused[0].example
    assert "Andromeda" in reading.refused[0].example
    assert reading.records == [ANDROMEDA]


def test_elements_that_are_no_objects_are_refused() -> None:
    assert read_plays(5, None, [spotify_play()]).reasons == ["not_an_object"] * 3


def test_times_without_a_zone_and_numbers_as_text_are_understood() -> None:
    reading = read_plays(spotify_play(ts="2023-05-01 12:34:56", ms_played="178778"))

    assert reading.records == [ANDROMEDA]


def test_a_year_of_four_nines_is_read() -> None:
    [listen] = read_plays(spotify_play(ts="9999-12-31T23:59:59Z")).records

    assert listen.listened_at.year == 9999


def test_a_track_with_a_long_name_has_a_short_key() -> None:
    first, second = read_plays(
        spotify_play(master_metadata_track_name="x" * 500),
        spotify_play(master_metadata_track_name="x" * 499 + "y"),
    ).records

    assert first.key != second.key
    assert len(first.key) <= 200

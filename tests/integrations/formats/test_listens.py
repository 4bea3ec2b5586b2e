"""What becomes of the listens that Last.fm, ListenBrainz and others count."""

import json
from datetime import UTC, datetime

import pytest

from resourceserver.integrations.format import Format
from resourceserver.integrations.formats import lastfm, listenbrainz, scrobbles, tidal
from resourceserver.integrations.records import Listen
from tests.integrations import samples
from tests.integrations.memory import read, recognise

AT = datetime(2011, 2, 8, 22, 50, 32, tzinfo=UTC)
MBID = "5b11f4ce-a62d-471e-81fc-a69a8278c7da"
BOTH = ("Gorillaz", "D.R.A.M.")
LISTEN = Listen("1297205432:Gorillaz:Andromeda", AT, "Andromeda", "Gorillaz", album="Humanz")
BY_BOTH = LISTEN._replace(
    key="1297205432:Gorillaz, D.R.A.M.:Andromeda",
    artist="Gorillaz, D.R.A.M.",
    artists=BOTH,
    duration_ms=197_000,
)


@pytest.mark.parametrize(
    ("format_", "expected"),
    [
        (lastfm.TABLE, LISTEN._replace(key="21620090:Gorillaz:Andromeda", recording_mbid=MBID)),
        (lastfm.PAGES, LISTEN._replace(key="21620090:Gorillaz:Andromeda", recording_mbid=MBID)),
        (
            listenbrainz.LINES,
            LISTEN._replace(
                key="1297205432:Gorillaz feat. D.R.A.M.:Andromeda",
                artist="Gorillaz feat. D.R.A.M.",
                artists=BOTH,
                duration_ms=197_000,
                spotify_uri="spotify:track:7rU6Iebxzlvqy5t857bKFq",
                isrc="GBAYE1700123",
                recording_mbid=MBID,
            ),
        ),
        (scrobbles.MALOJA, BY_BOTH._replace(played_ms=178_000)),
        (scrobbles.KOITO, BY_BOTH),
        (scrobbles.LIBREFM_CSV, LISTEN),
        (scrobbles.LIBREFM_TSV, LISTEN),
        (
            scrobbles.PANO,
            LISTEN._replace(listened_at=AT.replace(microsecond=123_000), duration_ms=197_000),
        ),
        # An hour later by the clock of a player in Berlin.
        (scrobbles.ROCKBOX, LISTEN._replace(duration_ms=197_000, is_skipped=False)),
        (
            tidal.TIDAL,
            LISTEN._replace(
                key="21620090:Gorillaz:Andromeda", listened_at=AT.replace(second=0), album=None
            ),
        ),
    ],
)
def test_a_listen_is_read(format_: Format, expected: Listen) -> None:
    sample = getattr(samples, format_.name)()

    assert read(format_, sample.content).records == [expected]


def test_last_fm_to_csv_knows_minutes() -> None:
    first, second = read(lastfm.CSV, samples.lastfm_csv().content).records

    assert first == LISTEN._replace(
        key="21620090:Gorillaz:Andromeda", listened_at=AT.replace(second=0)
    )
    assert (second.artist, second.album) == ("Sigur Rós", None)


def test_the_array_of_listenbrainz_is_as_its_lines() -> None:
    lines = read(listenbrainz.LINES, samples.listenbrainz().content)

    assert read(listenbrainz.ARRAY, samples.listenbrainz_array().content) == lines


def test_the_address_of_a_play_on_spotify_names_its_track() -> None:
    listen = samples.listenbrainz_listen()
    info = listen["track_metadata"]["additional_info"]
    info["origin_url"] = info.pop("spotify_id")

    [record] = read(listenbrainz.LINES, json.dumps(listen)).records

    assert record.spotify_uri == "spotify:track:7rU6Iebxzlvqy5t857bKFq"


def test_pages_of_the_interface_are_read_alone_and_in_an_array() -> None:
    [page] = json.loads(samples.lastfm_pages().content)
    alone = {"recenttracks": page}

    for content in (alone, [alone]):
        assert len(read(lastfm.PAGES, json.dumps(content)).records) == 1
    assert recognise(lastfm.PAGES, json.dumps(alone)) == 1.0


def test_a_player_that_knows_utc_says_so() -> None:
    content = samples.rockbox().content.replace(b"UNKNOWN", b"UTC").replace(b"\tL\t", b"\tS\t")

    [listen] = read(scrobbles.ROCKBOX, content).records

    assert (listen.listened_at.hour, listen.is_skipped) == (23, True)


def test_tracks_that_people_love_are_no_listens() -> None:
    line = samples.pano_scrobbler().content

    reading = read(scrobbles.PANO, line.replace(b'"scrobble"', b'"love"') + line)

    assert (len(reading.records), reading.refused) == (1, [])


@pytest.mark.parametrize(
    ("format_", "content", "reasons"),
    [
        (lastfm.CSV, "a,b\n,b,c,08 Feb 2011 22:50\n", ["too_few_columns", "missing_artist"]),
        (
            lastfm.CSV,
            "a,b,c,\na,b,c,08 Foo 2011 22:50\na,b,c,31 Feb 2011 22:50\n",
            ["missing_time", "invalid_time", "invalid_time"],
        ),
        (
            lastfm.TABLE,
            "uts,artist,track\n,a,b\nx,a,b\n1,a\n",
            ["invalid_time"] * 2 + ["missing_track"],
        ),
        (lastfm.PAGES, '[{"track": [5, {"name": "a"}]}]', ["not_an_object", "missing_time"]),
        (
            listenbrainz.LINES,
            '{"listened_at": 1}\nnot json\n' + "[" * 100_000 + "\n[]\n",
            ["not_an_object", "line_is_no_json", "line_is_no_json", "not_an_object"],
        ),
        (
            listenbrainz.ARRAY,
            '[{"listened_at": "x", "track_metadata": {}}]',
            ["invalid_time"],
        ),
        (
            scrobbles.MALOJA,
            '{"scrobbles": [{"time": 1, "track": {"title": "a", "artists": "b"}}]}',
            ["missing_artist"],
        ),
        (
            scrobbles.KOITO,
            '{"listens": [{"listened_at": "2011-02-08T22:50:32Z", "track": {"aliases": [1]}}]}',
            ["missing_track"],
        ),
        (scrobbles.LIBREFM_CSV, "Time,Artist,Track\nnow,a,b\n", ["invalid_time"]),
        (scrobbles.LIBREFM_TSV, "1297205432\tAndromeda\n", ["too_few_columns"]),
        (scrobbles.PANO, '{"timeMs": 1e300, "track": "a", "artist": "b"}', ["invalid_time"]),
        (scrobbles.ROCKBOX, "#AUDIOSCROBBLER/1.1\na\tb\n", ["too_few_columns"]),
        (
            tidal.TIDAL,
            "artist_name,track_title,entry_date,time_zone\n"
            "a,b,,UTC\na,b,02/30/2011 22:50,UTC\na,b,8 Feb 2011,UTC\n,b,08/02/2011 22:50,UTC\n"
            "a,,08/02/2011 22:50,UTC\na,b,08/02/2011 22:50,Mars\na,b,08/02/2011 22:50,Europe\n",
            ["missing_time", "invalid_time", "invalid_time", "missing_artist", "missing_track"]
            + ["unknown_zone"] * 2,
        ),
        (tidal.TIDAL, "track_title,entry_date\na,08/02/2011 22:50\n", ["missing_artist"]),
    ],
)
def test_what_is_no_listen_is_refused(format_: Format, content: str, reasons: list[str]) -> None:
    reading = read(format_, content)

    assert (reading.records, reading.reasons) == ([], reasons)


def test_text_in_utf_16_and_with_nul_is_read() -> None:
    content = "\ufeff" + 'Goril\0laz,Humanz,Andromeda,"08 Feb 2011 22:50"\r\n'

    records = read(lastfm.CSV, content.encode("utf-16-le")).records

    assert [each.artist for each in records] == ["Gorillaz"]


def test_a_quotation_mark_in_a_table_with_tabs_is_a_character_as_any_other() -> None:
    lines = (
        '1297205432\t"Heroes"\tDavid Bowie',
        '1297205732\t"Untitled\tNobody',
        "1297206032\tC\tD",
    )

    reading = read(scrobbles.LIBREFM_TSV, "\n".join(lines))

    assert [each.track for each in reading.records] == ['"Heroes"', '"Untitled', "C"]


@pytest.mark.parametrize(
    ("time", "zone", "expected"),
    [
        ("08/02/2011 22:50", "", "22:50:00"),
        ("8/2/2011 9:05", "null", "09:05:00"),
        ("08/02/2011 22:50:32", "Asia/Tokyo", "13:50:32"),
        ("2011-02-08 22:50:32", "Asia/Tokyo", "13:50:32"),
        ("2011-02-08T22:50:32.000+02:00", "Asia/Tokyo", "20:50:32"),
    ],
)
def test_times_of_tidal_are_of_the_zone_beside_them(time: str, zone: str, expected: str) -> None:
    content = f"entry_date,time_zone,artist_name,track_title\n{time},{zone},a,b\n"

    [listen] = read(tidal.TIDAL, content).records

    assert listen.listened_at.isoformat() == f"2011-02-08T{expected}+00:00"


def test_times_of_tidal_need_no_column_of_zones() -> None:
    content = "artist_name,track_title,entry_date\na,b,08/02/2011 22:50\n"

    [listen] = read(tidal.TIDAL, content).records

    assert listen.listened_at == AT.replace(second=0)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_table_of_tidal_may_begin_with_a_byte_order_mark(encoding: str) -> None:
    text = samples.tidal().content.decode().replace("Gorillaz", "Sigur Rós")

    [listen] = read(tidal.TIDAL, text.encode(encoding)).records

    assert recognise(tidal.TIDAL, text.encode(encoding)) == 1.0
    assert listen.artist == "Sigur Rós"


def test_letters_of_another_encoding_are_replaced() -> None:
    content = samples.tidal().content.replace(b"Gorillaz", b"Sigur R\xf3s")

    [listen] = read(tidal.TIDAL, content).records

    assert recognise(tidal.TIDAL, content) == 1.0
    assert listen.artist == "Sigur R\ufffds"


@pytest.mark.parametrize("column", ["artist_name", "track_title", "entry_date"])
def test_a_table_without_a_column_of_tidal_is_another(column: str) -> None:
    content = samples.tidal().content.replace(column.encode(), b"other")

    assert recognise(tidal.TIDAL, content) == 0.0

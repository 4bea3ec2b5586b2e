"""What becomes of what people watched."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from resourceserver.integrations.format import Format, named
from resourceserver.integrations.formats import FORMATS
from resourceserver.integrations.formats.watching import (
    IMDB,
    LETTERBOXD,
    NETFLIX,
    NETFLIX_DAYS,
    TRAKT,
)
from resourceserver.integrations.records import Play, Title
from tests.integrations import samples
from tests.integrations.memory import read, recognise
from tests.integrations.samples import trakt_play

PARIS = Title("movie", "Paris, Texas")
DARK = Title("show", "Dark")
NOON_IN_BERLIN = datetime(2023, 11, 15, 11, tzinfo=UTC)
HEADER = "Profile Name,Start Time,Duration,Attributes,Title,Supplemental Video Type,Bookmark\n"


def test_netflix_activity_is_plays_with_their_length() -> None:
    assert read(NETFLIX, samples.netflix().content).records == [
        Play(
            key="1699993100:Alice:Dark: Season 2: Endings (Episode 3)",
            title=DARK,
            watched_at=datetime(2023, 11, 14, 20, 18, 20, tzinfo=UTC),
            watch_ms=3_067_000,
            season=2,
            episode=3,
        ),
        Play(
            key="1700078400:Alice:Paris, Texas",
            title=PARIS,
            watched_at=datetime(2023, 11, 15, 20, tzinfo=UTC),
            watch_ms=7_080_000,
        ),
    ]


@pytest.mark.parametrize(
    ("written", "kind", "name", "season"),
    [
        ("Dark: Staffel 1: Geheimnisse", "show", "Dark", 1),
        ("Lupin: Partie 3: Chapitre 2", "show", "Lupin", 3),
        ("Queen: Limited Series: Openings", "show", "Queen", None),
        ("Star: Wars: Part 2: Name", "show", "Star: Wars", 2),
        ("Mission: Impossible", "movie", "Mission: Impossible", None),
        ("Dune: Part 2", "movie", "Dune: Part 2", None),
        ("Party: Seasoned: Cook", "movie", "Party: Seasoned: Cook", None),
    ],
)
def test_a_title_with_a_season_in_it_is_of_a_show(
    written: str, kind: str, name: str, season: int | None
) -> None:
    row = f'A,2023-11-14 20:18:20,0:51:07,,"{written}",,\n'

    [play] = read(NETFLIX, HEADER + row).records

    assert (play.title.kind, play.title.name, play.season) == (kind, name, season)


def test_trailers_and_what_played_by_itself_are_counted_and_not_kept() -> None:
    reading = read(
        NETFLIX,
        HEADER
        + "A,2023-11-14 20:00:00,00:01:30,,Dune,TRAILER,\n"
        + "A,2023-11-14 20:00:00,00:00:59,Autoplayed: user action: None;,Dune,,\n"
        + "A,2023-11-14 20:00:00,00:01:00,Autoplayed: user action: None;,Dune,,\n",
    )

    assert reading.reasons == ["trailers_are_not_kept", "played_by_itself"]
    assert [each.watch_ms for each in reading.records] == [60_000]


def test_a_day_is_at_noon_in_the_zone_of_the_profile() -> None:
    [_, netflix] = read(NETFLIX_DAYS, samples.netflix_days().content).records
    [letterboxd] = read(LETTERBOXD, samples.letterboxd().content).records
    [imdb] = read(IMDB, samples.imdb().content).records

    assert netflix == Play("2023-11-15:Paris, Texas", PARIS, NOON_IN_BERLIN, 0, is_of_a_day=True)
    assert letterboxd == Play("2023-11-15:Paris, Texas:1984", PARIS, NOON_IN_BERLIN, 0)
    assert imdb == Play(
        "tt0087884",
        PARIS._replace(genres=("drama", "road movie")),
        NOON_IN_BERLIN,
        8_700_000,
    )


@pytest.mark.parametrize(
    ("dates", "days"),
    [
        (["1/2/24", "1/31/24"], ["2024-01-02", "2024-01-31"]),
        (["01/02/2024", "31/01/2024"], ["2024-02-01", "2024-01-31"]),
        (["1.2.24", "3.4.24"], ["2024-02-01", "2024-04-03"]),
        (["2024-02-01", "2024-01-31"], ["2024-02-01", "2024-01-31"]),
        (["1/2/24"], ["2024-01-02"]),
    ],
)
def test_the_order_of_dates_is_that_of_the_whole_file(dates: list[str], days: list[str]) -> None:
    content = "Title,Date\n" + "".join(f'"X","{each}"\n' for each in dates)

    records = read(NETFLIX_DAYS, content).records

    assert [each.key for each in records] == [f"{day}:X" for day in days]


@pytest.mark.parametrize(
    ("content", "confidence"),
    [
        ('"Title","Date"\r\n"Paris, Texas","15.11.23"\r\n', 0.6),
        ("Title,Date\nDark,2023-11-15\n", 0.6),
        ("Title,Date\nDentist,next Monday\n", 0.0),
        ("Title,Date\nDentist,2023-11-15T10:00:00Z\n", 0.0),
        ("Title,Date\nDentist\n", 0.0),
        ("Title,Date\n", 0.0),
    ],
)
def test_a_table_of_titles_and_days_can_be_one_of_netflix(content: str, confidence: float) -> None:
    assert recognise(NETFLIX_DAYS, content) == confidence


def test_trakt_knows_genres_and_runtimes() -> None:
    watched_at = datetime(2023, 11, 14, 21, 9, 27, tzinfo=UTC)

    assert read(TRAKT, samples.trakt().content).records == [
        Play(
            key="1982348",
            title=Title("show", "Dark", ("drama", "crime")),
            watched_at=watched_at,
            watch_ms=3_300_000,
            season=2,
            episode=3,
        ),
        Play("1982349", PARIS._replace(genres=("drama",)), watched_at, 8_700_000),
    ]


@pytest.mark.parametrize(
    ("play", "reason"),
    [
        (5, "not_an_object"),
        (trakt_play(id=None), "missing_id"),
        (trakt_play(watched_at=None), "missing_time"),
        (trakt_play(watched_at="1970-01-01T00:00:00.000Z"), "missing_time"),
        (trakt_play(type="season"), "neither_movie_nor_episode"),
        (trakt_play(show=None), "not_an_object"),
        (trakt_play(show={"title": ""}), "missing_title"),
    ],
)
def test_a_broken_play_of_trakt_is_refused(play: Any, reason: str) -> None:
    reading = read(TRAKT, json.dumps([play, trakt_play(episode={}, show={"title": "Dark"})]))

    assert reading.reasons == [reason]
    assert [(each.title, each.watch_ms) for each in reading.records] == [(DARK, 0)]


@pytest.mark.parametrize(
    ("format_", "content", "reason"),
    [
        (NETFLIX, HEADER + "A,2023-11-14 20:00:00,long,,X,,\n", "invalid_duration"),
        (NETFLIX, HEADER + "A,,00:10:00,,X,,\n", "missing_time"),
        (NETFLIX, HEADER + "A,0001-13-01,00:10:00,,X,,\n", "invalid_time"),
        (NETFLIX, HEADER + "A\n", "missing_title"),
        (NETFLIX_DAYS, "Title,Date\nX,\n", "missing_time"),
        (NETFLIX_DAYS, "Title,Date\nX,13/13/24\n", "invalid_time"),
        (NETFLIX_DAYS, "Title,Date\n,1/1/24\n", "missing_title"),
        (LETTERBOXD, "Name,Watched Date\n,2023-11-15\n", "missing_title"),
        (LETTERBOXD, "Name,Watched Date\nX,\n", "missing_time"),
        (LETTERBOXD, "Name,Watched Date\nX,0001-13-01\n", "invalid_time"),
        (IMDB, "Const,Title,Your Rating,Date Rated\n,X,9,2023-11-15\n", "missing_id"),
        (IMDB, "Const,Title,Your Rating,Date Rated\ntt1,X,,2023-11-15\n", "not_rated"),
        (IMDB, "Const,Title,Your Rating,Date Rated\ntt1,X,9,soon\n", "invalid_time"),
        (
            *(
                IMDB,
                "Const,Title,Your Rating,Date Rated,Title Type\ntt1,X,9,2023-11-15,TV Series\n",
            ),
            "not_one_play",
        ),
    ],
)
def test_a_row_that_says_no_play_is_refused(format_: Format, content: str, reason: str) -> None:
    reading = read(format_, content)

    assert (reading.records, reading.reasons) == ([], [reason])


def test_an_episode_on_imdb_is_of_its_show() -> None:
    content = (
        "Const,Title,Your Rating,Date Rated,Title Type,Runtime (mins)\n"
        "tt2301451,Breaking Bad: Ozymandias,10,2023-11-15,TV Episode,48\n"
    )

    [play] = read(IMDB, content).records

    assert (play.title, play.watch_ms) == (Title("show", "Breaking Bad"), 2_880_000)


HOUSEHOLD = samples.netflix().content + (
    b"Ben,2023-11-14 20:30:00,00:51:07,,Dark: Season 2: Endings (Episode 3),,TV,00:51:07,00:51:07,DE\n"
)


def test_a_file_of_several_profiles_is_no_persons_until_one_is_chosen() -> None:
    unchosen = read(NETFLIX, HOUSEHOLD)
    chosen, unknown = named("netflix:Alice", FORMATS), named("netflix:Zoe", FORMATS)

    assert unchosen.records == []
    assert unchosen.unreadable == (
        "it has the profiles Alice, Ben: choose one with --as netflix:PROFILE"
    )
    assert chosen is not None
    assert read(chosen, HOUSEHOLD).records == read(NETFLIX, samples.netflix().content).records
    assert read(chosen, HOUSEHOLD).reasons == ["other_profile"]
    assert unknown is not None
    assert read(unknown, HOUSEHOLD).unreadable == unchosen.unreadable
    assert named("trakt:Alice", FORMATS) is None
    assert named("netflix:", FORMATS) is None

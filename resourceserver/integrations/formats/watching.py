"""What people watched: Netflix, Trakt, Letterboxd, and ratings on IMDb.

| file | when | how long |
|---|---|---|
| Netflix `ViewingActivity.csv` | to the second | yes |
| Netflix `NetflixViewingHistory.csv` | the day | no |
| Trakt history | to the second | the runtime |
| Letterboxd `diary.csv` | the day | no |
| IMDb `ratings.csv` | the day of the rating | the runtime |

A play of which only the day is known is at noon of that day in the zone of the profile, and one whose
length is unknown takes no time.

The first file of Netflix has all profiles of a household, and nothing in it says whose it is. If it has
several, the person chooses one (``--as netflix:PROFILE``), and the plays of the others are refused.
The second file is of one profile. It holds the same plays as the first: a play of which only the day is known
is not kept beside one of the same title on that day, whichever comes first.

Netflix has no word for what is a show: a title with a season in it is one.
"""

import csv
import io
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from functools import partial
from typing import Any, Final

from resourceserver.integrations import values
from resourceserver.integrations.format import File, Format, Head, Person, Reader, Unreadable
from resourceserver.integrations.reading import instant_ms, items, table
from resourceserver.integrations.records import Play, Record, Refused, Title
from resourceserver.integrations.values import Flaw

_MOST_PROFILES: Final = 8
AUTOPLAYED_MS: Final = 60_000
"""What began by itself and was watched for less is no play."""

Records = Iterator[Record | Refused]


def _noon(day: date, person: Person) -> datetime:
    return values.utc(datetime.combine(day, time(12), person.zone))


def _iso_day(written: str | None) -> date:
    if not written:
        raise Flaw("missing_time")
    try:
        return date.fromisoformat(written)
    except ValueError as error:
        raise Flaw("invalid_time") from error


def _genres(names: Any) -> tuple[str, ...]:
    if not isinstance(names, list):
        return ()
    return tuple(name.lower() for each in names if (name := values.text(each)))


def _runtime_ms(*minutes: Any) -> int:
    """Return the first runtime that is known; 0 if none is."""
    known = (values.number(each) or 0 for each in minutes)
    return next((round(each * 60_000) for each in known if 0 < each < 1e6), 0)


# Netflix


_SEASON: Final = re.compile(
    r"(?:Season|Series|Part|Volume|Chapter|Book|Collection|Staffel|Teil|Saison|Partie|Temporada|"
    r"Parte|Stagione|Seizoen|Deel|Sezon|Säsong|Sesong|Sæson|Kausi|Сезон|シーズン|시즌)\s*(\d+)?"
    r"|Limited Series|Miniseries|Miniserie|Mini-série",
    re.IGNORECASE,
)
_EPISODE: Final = re.compile(
    r"(?:Episode|Folge|Épisode|Episodio|Aflevering|Avsnitt)\s+(\d+)", re.IGNORECASE
)


def _title(written: str) -> tuple[Title, int | None, int | None]:
    """Return the title, season and episode of ``Show: Season 2: Name (Episode 3)``."""
    parts = [part.strip() for part in written.split(":")]
    for at, part in enumerate(parts[1:], 1):
        season = _SEASON.fullmatch(part)
        if season and at + 1 < len(parts):
            number = season.group(1)
            episode = _EPISODE.search(": ".join(parts[at + 1 :]))
            return (
                Title("show", ": ".join(parts[:at])),
                int(number) if number else None,
                int(episode.group(1)) if episode else None,
            )
    return Title("movie", written), None, None


def _read_netflix(file: File, _person: Person, profile: str | None = None) -> Records:
    profiles = sorted({row.get("Profile Name", "") for row in table(file)})
    if profile not in profiles and (profile is not None or len(profiles) > 1):
        raise Unreadable(
            f"it has the profiles {', '.join(profiles[:_MOST_PROFILES])}:"
            " choose one with --as netflix:PROFILE"
        )
    for row in table(file):
        try:
            if profile is not None and row.get("Profile Name") != profile:
                raise Flaw("other_profile")
            yield _netflix(row)
        except Flaw as flaw:
            yield values.refused(flaw, ",".join(row.values()))


def _of_profile(profile: str) -> Reader:
    return partial(_read_netflix, profile=profile)


def _netflix(row: dict[str, str]) -> Play:
    if row.get("Supplemental Video Type"):
        raise Flaw("trailers_are_not_kept")
    written = row.get("Title")
    if not written:
        raise Flaw("missing_title")
    watch_ms = _clock_ms(row.get("Duration", ""))
    if "Autoplayed" in row.get("Attributes", "") and watch_ms < AUTOPLAYED_MS:
        raise Flaw("played_by_itself")
    watched_at = values.utc(values.wall_time(row.get("Start Time")).replace(tzinfo=UTC))
    title, season, episode = _title(written)
    return Play(
        key=values.key(instant_ms(watched_at) // 1000, row.get("Profile Name"), written),
        title=title,
        watched_at=watched_at,
        watch_ms=watch_ms,
        season=season,
        episode=episode,
    )


def _clock_ms(written: str) -> int:
    found = re.fullmatch(r"(\d{1,3}):(\d\d):(\d\d)", written)
    if found is None:
        raise Flaw("invalid_duration")
    hours, minutes, seconds = map(int, found.groups())
    return ((hours * 60 + minutes) * 60 + seconds) * 1000


_DAY: Final = re.compile(r"(\d{1,4})([/.\-])(\d{1,2})\2(\d{2,4})")


def _read_netflix_days(file: File, person: Person) -> Records:
    is_day_first = _is_day_first(file)
    for row in table(file):
        try:
            written = row.get("Title")
            if not written:
                raise Flaw("missing_title")
            day = _day(row.get("Date", ""), is_day_first)
            title, season, episode = _title(written)
            key = values.key(day, written)
            yield Play(key, title, _noon(day, person), 0, season, episode, is_of_a_day=True)
        except Flaw as flaw:
            yield values.refused(flaw, ",".join(row.values()))


def _is_day_first(file: File) -> bool:
    """Whether dates are 31/12/24, not 12/31/24: Netflix writes them as the language of the profile does."""
    for row in table(file):
        found = _DAY.fullmatch(row.get("Date", ""))
        if found:
            first, separator, second, _ = found.groups()
            if int(first) > 12 or separator == ".":
                return True
            if int(second) > 12:
                return False
    return False


def _day(written: str, is_day_first: bool) -> date:
    found = _DAY.fullmatch(written)
    if found is None:
        raise Flaw("invalid_time" if written else "missing_time")
    first, second, third = (int(found.group(number)) for number in (1, 3, 4))
    if len(found.group(1)) == 4:
        year, month, day = first, second, third
    else:
        day, month = (first, second) if is_day_first else (second, first)
        year = third if third > 99 else 2000 + third
    try:
        return date(year, month, day)
    except ValueError as error:
        raise Flaw("invalid_time") from error


# Trakt


def _read_trakt(file: File, _person: Person) -> Records:
    for value in items(file, "item"):
        try:
            yield _trakt(values.members(value))
        except Flaw as flaw:
            yield values.refused(flaw, value)


def _trakt(given: dict[str, Any]) -> Play:
    number = values.count(given.get("id"))
    if number is None:
        raise Flaw("missing_id")
    watched_at = values.instant(given.get("watched_at"))
    if watched_at.year <= 1970:
        # So Trakt writes that nobody knows when.
        raise Flaw("missing_time")
    if given.get("type") == "movie":
        movie = values.members(given.get("movie"))
        title = _named("movie", movie)
        return Play(values.key(number), title, watched_at, _runtime_ms(movie.get("runtime")))
    if given.get("type") != "episode":
        raise Flaw("neither_movie_nor_episode")
    episode, show = values.members(given.get("episode")), values.members(given.get("show"))
    return Play(
        key=values.key(number),
        title=_named("show", show),
        watched_at=watched_at,
        watch_ms=_runtime_ms(episode.get("runtime"), show.get("runtime")),
        season=values.count(episode.get("season")),
        episode=values.count(episode.get("number")),
    )


def _named(kind: Any, given: dict[str, Any]) -> Title:
    name = values.text(given.get("title"))
    if name is None:
        raise Flaw("missing_title")
    return Title(kind, name, _genres(given.get("genres")))


# Letterboxd


def _read_letterboxd(file: File, person: Person) -> Records:
    for row in table(file):
        try:
            name = row.get("Name")
            if not name:
                raise Flaw("missing_title")
            day = _iso_day(row.get("Watched Date") or row.get("Date"))
            key = values.key(day, name, row.get("Year"))
            yield Play(key, Title("movie", name), _noon(day, person), 0)
        except Flaw as flaw:
            yield values.refused(flaw, ",".join(row.values()))


# IMDb


def _read_imdb(file: File, person: Person) -> Records:
    for row in table(file):
        try:
            yield _imdb(row, person)
        except Flaw as flaw:
            yield values.refused(flaw, ",".join(row.values()))


def _imdb(row: dict[str, str], person: Person) -> Play:
    const, name = row.get("Const"), row.get("Title")
    if not const:
        raise Flaw("missing_id")
    if not name:
        raise Flaw("missing_title")
    if not row.get("Your Rating"):
        raise Flaw("not_rated")
    kind = row.get("Title Type", "").replace(" ", "").lower()
    if kind in {"tvseries", "tvminiseries", "podcastseries", "videogame", "videogames"}:
        raise Flaw("not_one_play")
    genres = _genres(row.get("Genres", "").split(","))
    show, colon, _ = name.partition(": ")
    is_episode = kind == "tvepisode" and bool(colon)
    return Play(
        key=values.key(const),
        title=Title("show" if is_episode else "movie", show if is_episode else name, genres),
        watched_at=_noon(_iso_day(row.get("Date Rated")), person),
        watch_ms=_runtime_ms(row.get("Runtime (mins)")),
    )


# How they are recognised


def _columns(head: Head) -> set[str]:
    return {column.strip('" ') for column in head.text.partition("\n")[0].strip().split(",")}


def _is_netflix(head: Head) -> float:
    return 1.0 if {"Start Time", "Duration", "Title", "Bookmark"} <= _columns(head) else 0.0


def _is_netflix_days(head: Head) -> float:
    if _columns(head) != {"Title", "Date"}:
        return 0.0
    try:
        row = next(csv.DictReader(io.StringIO(head.text), skipinitialspace=True), {})
    except csv.Error:
        return 0.0
    # Many tables have these columns, so any other format is surer of its own.
    return 0.6 if _DAY.fullmatch((row.get("Date") or "").strip()) else 0.0


def _is_trakt(head: Head) -> float:
    text = head.text
    is_array = re.match(r"\s*\[\s*\{", text)
    return 1.0 if is_array and '"watched_at"' in text and '"action"' in text else 0.0


def _is_letterboxd(head: Head) -> float:
    columns = _columns(head)
    return 1.0 if {"Name", "Letterboxd URI", "Watched Date"} <= columns else 0.0


def _is_imdb(head: Head) -> float:
    columns = _columns(head)
    return 1.0 if {"Const", "Your Rating", "Date Rated", "Title"} <= columns else 0.0


NETFLIX: Final = Format(
    name="netflix",
    title="Netflix, viewing activity of all data",
    source="netflix",
    records=(Play,),
    recognise=_is_netflix,
    read=_read_netflix,
    read_one=_of_profile,
)
NETFLIX_DAYS: Final = Format(
    name="netflix_days",
    title="Netflix, viewing activity of one profile",
    source="netflix",
    records=(Play,),
    recognise=_is_netflix_days,
    read=_read_netflix_days,
)
TRAKT: Final = Format(
    name="trakt",
    title="Trakt history",
    source="trakt",
    records=(Play,),
    recognise=_is_trakt,
    read=_read_trakt,
)
LETTERBOXD: Final = Format(
    name="letterboxd",
    title="Letterboxd diary",
    source="letterboxd",
    records=(Play,),
    recognise=_is_letterboxd,
    read=_read_letterboxd,
)
IMDB: Final = Format(
    name="imdb",
    title="IMDb ratings",
    source="imdb",
    records=(Play,),
    recognise=_is_imdb,
    read=_read_imdb,
)

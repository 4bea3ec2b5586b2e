"""Music: plays of tracks, and listening by day."""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from resourceserver import timeline
from resourceserver.api.bodies import (
    Body,
    CalendarDay,
    Count,
    InstantRangeEcho,
    Listing,
    Milliseconds,
    Percent,
    Timestamp,
)
from resourceserver.api.endpoint import Endpoint
from resourceserver.api.parameters import InstantRange, InstantRangeInZone, Listed, at_most
from shared import queries

_HERE: Final = Path(__file__).parent
_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = queries.load(_TIMELINE / "timeline.sql", _HERE / "rows.sql", _HERE / "music.sql")


class ListenPage(InstantRange, Listed):
    """The range of plays, and the page of the list."""

    limit: Annotated[int, at_most(1000)] = Field(
        default=100, ge=0, description="Most rows of the answer; more than 1000 are 1000."
    )


class ListenIds(Body):
    """The ids of a track in other services."""

    spotify: str | None
    """The URI of the track at Spotify; null where it is unknown."""
    isrc: str | None
    """The International Standard Recording Code; null where it is unknown."""
    recording_mbid: str | None
    """The id of the recording in MusicBrainz."""


class Listen(Body):
    """One play of a track."""

    id: str
    listened_at: Timestamp
    """When the play began."""
    track: str
    """The title of the track."""
    artist: str
    artists: list[str]
    """All artists of the track."""
    album: str | None
    """The album; null where it is unknown."""
    played_ms: Milliseconds | None
    """The time that was played."""
    duration_ms: Milliseconds | None
    """The length of the whole track."""
    skipped: bool | None
    """Whether it was skipped; null where it is unknown."""
    source: str
    ids: ListenIds
    """Ids of the track in other services."""


class HistoryBody(Listing):
    """Plays, the newest first."""

    range: InstantRangeEcho
    data: list[Listen]


class TopArtist(Body):
    """The artist with most plays."""

    artist: str
    play_count: Count


class ListeningDay(Body):
    """One calendar day; a play belongs to the day on which it began."""

    date: CalendarDay
    listened_ms: Milliseconds
    """The played time of each play, or the length of the track where that is unknown."""
    play_count: Count
    track_count: Count
    artist_count: Count
    album_count: Count
    """Different albums."""
    top_artist: TopArtist | None
    """The artist with most plays; null on a day without plays."""


class ListeningTotals(Body):
    """Totals of the whole range; a track that was played on two days counts once."""

    listened_ms: Milliseconds
    play_count: Count
    track_count: Count
    artist_count: Count
    days: Count
    """Days that overlap the range."""
    active_days: Count
    """Days on which anything was played."""


class MusicDailyBody(Body):
    """Every day that overlaps the range, in order."""

    range: InstantRangeEcho
    tz: str
    data: list[ListeningDay]
    totals: ListeningTotals


By = Literal["artist", "album", "track"]


class TopParams(InstantRange):
    """The range of plays, and by what they are added up."""

    by: By = Field(default="artist", description="By what plays are added up.")


class TopRow(Body):
    """One artist, album or track."""

    name: str
    artist: str | None
    """The artist of the album or track; null for artists."""
    listened_ms: Milliseconds
    """The played time of each play, or the length of the track where that is unknown."""
    play_count: Count
    percent: Percent | None
    """Share of the listening time of all rows; null where there is none."""


class TopTotals(Body):
    """Sums over all artists, albums or tracks, also over those that are not listed."""

    listened_ms: Milliseconds
    play_count: Count
    count: Count
    """Different artists, albums or tracks."""
    artist_count: Count
    """Different artists of these."""


class MusicTopBody(Body):
    """Artists, albums or tracks, those with most listening time first, at most 100."""

    range: InstantRangeEcho
    by: By
    """By what plays are added up."""
    data: list[TopRow]
    totals: TopTotals


ENDPOINTS: Final = [
    Endpoint(
        name="music_history",
        path="/api/v1/music/history",
        scope="read:music",
        summary="Tracks played, with artist and album, the newest first.",
        params=ListenPage,
        body=HistoryBody,
        query=SQL["music_history"],
    ),
    Endpoint(
        name="music_daily",
        path="/api/v1/music/daily",
        scope="read:music",
        summary="Listening totals per day.",
        params=InstantRangeInZone,
        body=MusicDailyBody,
        query=SQL["music_daily"],
    ),
    Endpoint(
        name="music_top",
        path="/api/v1/music/top",
        scope="read:music",
        summary="Artists, albums or tracks with most listening time.",
        params=TopParams,
        body=MusicTopBody,
        query=SQL["music_top"],
    ),
]

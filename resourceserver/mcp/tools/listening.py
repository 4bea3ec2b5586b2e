"""The tool get_listening: music plays added up by artist, album, track or day."""

from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from resourceserver import timeline
from resourceserver.api.bodies import Body, Count, Milliseconds, Percent, Timestamp
from resourceserver.api.parameters import Listed
from resourceserver.endpoints import music
from resourceserver.mcp import tool
from resourceserver.mcp.arguments import WHOLE, InPeriod, Ranked
from resourceserver.mcp.tool import MOST_ROWS, Page, Part, Tool

_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = tool.load(Path(__file__).with_name("listening.sql"), _TIMELINE / "timeline.sql")

MOST_RECENT: Final = 3


class Listening(Ranked, InPeriod):
    """By what to add plays up, and how many rows to return."""

    group_by: Literal["artist", "album", "track", "day"] = Field(
        default="artist",
        description="Days are in order, the others most time first.",
    )
    top: Annotated[int, Field(ge=1, le=MOST_ROWS), WHOLE] = Field(
        default=10, description="Most rows; other sums up the rest."
    )

    def values(self) -> dict[str, Any]:
        """Return the values with the first page of the endpoint's list of plays."""
        return super().values() | Listed().values() | {"limit": MOST_RECENT}


class ListeningRow(Body):
    """One artist, album, track or day."""

    name: str
    artist: str | None
    """The artist of the album or track; null for the rest."""
    listened_ms: Milliseconds
    play_count: Count
    percent: Percent | None
    """Share of all listening time; null if that is 0."""


class OtherListening(Body):
    """Sums of the rows after these."""

    rows: Count
    listened_ms: Milliseconds
    play_count: Count


class RecentPlay(Body):
    """One play, without what only programs need; ``GET /api/v1/music/history`` has all members."""

    listened_at: Timestamp
    track: str
    artist: str
    album: str | None
    played_ms: Milliseconds | None
    skipped: bool | None


class ListeningAnswer(Page):
    """Plays added up, their totals, and the newest of them."""

    group_by: Literal["artist", "album", "track", "day"]
    data: list[ListeningRow]
    other: OtherListening | None
    """Sums of the rows after these; left out if there are none."""
    totals: music.ListeningTotals
    recent: list[RecentPlay]
    """The newest plays of the range, at most three."""


def _with_totals(answer: dict[str, Any]) -> dict[str, Any]:
    daily, history = answer.pop("music_daily"), answer.pop("music_history")
    return answer | {
        "totals": daily["totals"],
        "recent": [
            {name: play[name] for name in RecentPlay.model_fields} for play in history["data"]
        ],
        "has_more": answer["truncated"],
        "other": answer["other"] if answer["other"]["rows"] else None,
    }


TOOLS: Final = [
    Tool(
        name="get_listening",
        title="Listening",
        description="Music that the person listened to, and for how long, by artist, album, track or day. Use"
        " it for 'Who were my top artists in May?' and 'What did I play last?'. Not for recordings or films"
        " (get_content).",
        scope="read:music",
        arguments=Listening,
        answer=ListeningAnswer,
        frame=SQL["period"],
        parts=(
            Part(SQL["get_listening"]),
            tool.part(music.ENDPOINTS, "music_daily"),
            tool.part(music.ENDPOINTS, "music_history"),
        ),
        finish=_with_totals,
        rows="data",
    )
]

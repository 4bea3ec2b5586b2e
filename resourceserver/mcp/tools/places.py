"""The tool get_places: check-ins, visits, places and distances."""

from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from resourceserver import timeline
from resourceserver.api.bodies import Body, Count, Milliseconds, Timestamp
from resourceserver.endpoints.location import Latitude, Longitude
from resourceserver.mcp import names, tool
from resourceserver.mcp.arguments import OBJECT, Arguments, InPeriod, Paged, Text
from resourceserver.mcp.tool import ROWS, Page, Part, Tool
from resourceserver.mcp.tools import measures

_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = tool.load(
    Path(__file__).with_name("places.sql"),
    Path(__file__).with_name("names.sql"),
    _TIMELINE / "metrics.sql",
)

ROWS_BESIDE_POINTS: Final = 10
"""The most check-ins and visits in an answer with points."""


class Near(BaseModel):
    """A circle on the ground."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    latitude: Latitude
    longitude: Longitude
    radius_m: Annotated[float, Field(ge=1, le=20_100_000)] = 500


class Places(Paged, InPeriod):
    """Which stays to search, and whether to return points."""

    search: Text | None = Field(
        default=None,
        description="Text in name, kind, address, city or note, in any case, or two-letter country code.",
    )
    near: Annotated[Near, OBJECT] | None = Field(
        default=None, description="Only within this circle."
    )
    raw: bool = Field(
        default=False,
        description="Also return at most 500 points of the location history.",
    )

    def values(self) -> dict[str, Any]:
        """Return the values with the members of the circle; numbers with a fraction as text."""
        rest = super().values()
        near = rest.pop("near") or dict.fromkeys(Near.model_fields)
        circle = {
            name: None if value is None else f"{value:.7f}"  # to the centimetre, as svc.degrees
            for name, value in near.items()
        }
        return rest | circle | {"limit": ROWS_BESIDE_POINTS if self.raw else ROWS}


class Stay(Body):
    """A check-in at a place, or a visit to one."""

    type: Literal["check_in", "visit"]
    status: Literal["suggested", "confirmed"]
    """Visits may be guesses until the person confirms them."""
    started_at: Timestamp
    ended_at: Timestamp | None
    duration_ms: Milliseconds | None
    utc_offset: str | None
    """The offset of local time at the place, such as +02:00."""
    name: str
    category: str | None
    address: str | None
    city: str | None
    country_code: str | None
    latitude: Latitude | None
    longitude: Longitude | None
    note: str | None


class Place(Body):
    """A place, with the number and the time of its stays."""

    name: str
    category: str | None
    city: str | None
    country_code: str | None
    stayed_ms: Milliseconds
    """Within the range; where visits overlap, their time is counted once. Check-ins have none."""
    visit_count: Count
    check_in_count: Count
    last_at: Timestamp
    """The start of the last stay of the range."""


class OtherPlaces(Body):
    """Sums of the places that were left out."""

    places: Count
    stayed_ms: Milliseconds
    visit_count: Count
    check_in_count: Count


class Point(Body):
    """One point of the location history."""

    at: Timestamp
    latitude: Latitude
    longitude: Longitude
    accuracy_m: float | None


class PlacesAnswer(Page):
    """Matching stays, the newest first, and the ten places with most time. Texts have at most 500 characters,
    and those of places 200."""

    data: list[Stay]
    count: Count
    """The number of matching stays, including those that are not in data."""
    places: list[Place]
    other: OtherPlaces
    place_count: Count
    distance_text: str | None
    """distance_m in words."""
    distance_m: float | None
    """The distance of all days of the range, whatever the search; null without any point, and for more than
    366 days."""
    point_count: Count | None
    """The number of matching points, including those that are not listed; null if they were not requested."""
    points: list[Point]
    """In order of time."""


def _searches(given: Arguments) -> bool:
    return isinstance(given, Places) and given.search is not None


def _finished(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer with as many evenly chosen points as fit."""
    names.unmatched(answer.pop("names"))
    answer["distance_text"] = measures.distance(answer["distance_m"])
    points = answer["points"]
    count = len(points)
    while count > 1 and tool.is_too_long(answer):
        count = count * 9 // 10
        places = [n * (len(points) - 1) // max(count - 1, 1) for n in range(count)]
        answer = answer | {"points": [points[place] for place in places], "truncated": True}
    return answer


TOOLS: Final = [
    Tool(
        name="get_places",
        title="Places",
        description="Where the person was: check-ins and visits, newest first, time in each place, distance."
        " Use it for 'When was I last in Rome?' (search, period all), 'How long was I at the office?' and"
        " 'Where was I on Tuesday?'. Not for planned trips, which are in the calendar (get_content).",
        scope="read:location",
        arguments=Places,
        answer=PlacesAnswer,
        frame=SQL["period"],
        parts=(
            Part(SQL["get_places"]),
            Part(SQL["names_of_places"], name="names", is_wanted=_searches),
        ),
        finish=_finished,
        rows="data",
    )
]

"""Where somebody was, as an assistant tells of it."""

from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from resourceserver import timeline
from resourceserver.api.bodies import Body, Count, Milliseconds, Timestamp
from resourceserver.endpoints.location import Latitude, Longitude
from resourceserver.mcp import names, tool
from resourceserver.mcp.arguments import OBJECT, Arguments, InPeriod, Text
from resourceserver.mcp.tool import MOST_ROWS, Answer, Part, Tool
from resourceserver.mcp.tools import measures

_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = tool.load(
    Path(__file__).with_name("places.sql"),
    Path(__file__).with_name("names.sql"),
    _TIMELINE / "metrics.sql",
)

ROWS_BESIDE_POINTS: Final = 10
"""How many check-ins and visits are told where points need the room."""


class Near(BaseModel):
    """A circle on the ground."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    latitude: Latitude = Field(description="Of its middle, in degrees of WGS 84.")
    longitude: Longitude = Field(description="Of its middle.")
    radius_m: Annotated[float, Field(ge=1, le=20_100_000)] = Field(
        default=500, description="How far around it, in metres."
    )


class Places(InPeriod):
    """What to look for, and whether to tell of points."""

    search: Text | None = Field(
        default=None,
        description="Only places that have this text in their name, kind, address or city, or whose country"
        " has this two-letter code, and stays with it in their note; literally but for case.",
    )
    near: Annotated[Near, OBJECT] | None = Field(
        default=None, description="Only what lies within a circle, points too."
    )
    raw: bool = Field(
        default=False,
        description="Whether points of the location history come along, evenly chosen ones, 500 at most;"
        " then there are ten rows of stays at most.",
    )

    def values(self) -> dict[str, Any]:
        """Return, in place of the circle, each of its members; numbers with a fraction as text."""
        rest = super().values()
        near = rest.pop("near") or dict.fromkeys(Near.model_fields)
        circle = {
            name: None if value is None else f"{value:.7f}"  # to the centimetre, as svc.degrees
            for name, value in near.items()
        }
        return rest | circle | {"limit": ROWS_BESIDE_POINTS if self.raw else MOST_ROWS}


class Stay(Body):
    """A check-in at a place, or a visit to one."""

    type: Literal["check_in", "visit"]
    status: Literal["suggested", "confirmed"]
    """Visits may be a guess until the person says."""
    started_at: Timestamp
    ended_at: Timestamp | None
    duration_ms: Milliseconds | None
    utc_offset: str | None
    """Of local time at the place, such as +02:00."""
    name: str
    category: str | None
    address: str | None
    city: str | None
    country_code: str | None
    latitude: Latitude | None
    longitude: Longitude | None
    note: str | None


class Place(Body):
    """A place, and what stays there come to."""

    name: str
    category: str | None
    city: str | None
    country_code: str | None
    stayed_ms: Milliseconds
    """Within the range, times of visits that overlap counted once; check-ins take none."""
    visit_count: Count
    check_in_count: Count
    last_at: Timestamp
    """When the last stay of the range began."""


class OtherPlaces(Body):
    """What the places leave out."""

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


class PlacesAnswer(Answer):
    """Stays that fit, the newest first, and the ten places with most time. Texts have 500 characters at most,
    and those of places 200."""

    data: list[Stay]
    count: Count
    """How many fit, shown or not."""
    places: list[Place]
    other: OtherPlaces
    place_count: Count
    distance_text: str | None
    """distance_m in words."""
    distance_m: float | None
    """All the way of each day of the range, whatever is searched for; null where no point is known, and for
    more than 366 days."""
    point_count: Count | None
    """How many points fit, shown or not; null where they were not asked for."""
    points: list[Point]
    """In order of time."""


def _searches(given: Arguments) -> bool:
    return isinstance(given, Places) and given.search is not None


def _finished(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer with as many points as have room, evenly chosen."""
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
        description="Where the person was in a period: check-ins and visits, how long in each place, how many"
        " places and how far they went. Use it for 'When was I last in Rome?' (search, and period all: the"
        " first row is the newest), 'How long was I at the office?' and 'Where was I on Tuesday?'. Not for"
        " planned trips, which are in the calendar.",
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

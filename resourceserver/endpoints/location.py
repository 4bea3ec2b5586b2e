"""Where somebody was: points, and the places they checked in at or stayed at."""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from resourceserver import timeline
from resourceserver.api.bodies import (
    Body,
    Device,
    InstantRangeEcho,
    Listing,
    Milliseconds,
    Percent,
    Timestamp,
)
from resourceserver.api.endpoint import Endpoint
from resourceserver.api.parameters import InstantRange, Listed, at_most
from shared import queries

_HERE: Final = Path(__file__).parent
_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = queries.load(_TIMELINE / "timeline.sql", _HERE / "rows.sql", _HERE / "location.sql")

Latitude = Annotated[float, Field(ge=-90, le=90)]
Longitude = Annotated[float, Field(ge=-180, le=180)]


class LocationPage(InstantRange, Listed):
    """Which points."""

    limit: Annotated[int, at_most(10000)] = Field(
        default=1000, ge=0, description="Most rows of the answer; more than 10000 are 10000."
    )


class LocationEventPage(InstantRange, Listed):
    """Which check-ins and visits."""

    limit: Annotated[int, at_most(1000)] = Field(
        default=100, ge=0, description="Most rows of the answer; more than 1000 are 1000."
    )


class Location(Body):
    """One point of the location history, in degrees of WGS 84."""

    id: str
    recorded_at: Timestamp
    latitude: Latitude
    longitude: Longitude
    accuracy_m: float | None
    altitude_m: float | None
    vertical_accuracy_m: float | None
    speed_mps: float | None
    course_deg: float | None
    """Clockwise from north."""
    battery_percent: Percent | None
    activity: str | None
    """What the device took it for: walking, in a car."""
    device: Device | None
    source: str


class LocationsBody(Listing):
    """Points, the newest first."""

    range: InstantRangeEcho
    data: list[Location]


class Place(Body):
    """A place that somebody has been to."""

    id: str
    name: str
    category: str | None
    latitude: Latitude | None
    longitude: Longitude | None
    address: str | None
    city: str | None
    country_code: str | None
    """Two letters of ISO 3166-1."""


class LocationEvent(Body):
    """A check-in at a place, or a visit to one."""

    id: str
    type: Literal["check_in", "visit"]
    status: Literal["suggested", "confirmed", "declined"]
    """Visits may be a guess until somebody says; check-ins are confirmed."""
    started_at: Timestamp
    ended_at: Timestamp | None
    duration_ms: Milliseconds | None
    utc_offset: str | None
    """Of local time at the place, such as +02:00."""
    place: Place
    note: str | None
    source: str


class LocationEventsBody(Listing):
    """Check-ins in the range and visits that overlap it, the newest first."""

    range: InstantRangeEcho
    data: list[LocationEvent]


ENDPOINTS: Final = [
    Endpoint(
        name="locations",
        path="/api/v1/locations",
        scope="read:location",
        summary="Location history, the newest point first.",
        params=LocationPage,
        body=LocationsBody,
        query=SQL["locations"],
    ),
    Endpoint(
        name="location_events",
        path="/api/v1/locations/events",
        scope="read:location",
        summary="Check-ins and visits with place and status, the newest first.",
        params=LocationEventPage,
        body=LocationEventsBody,
        query=SQL["location_events"],
    ),
]

"""Location history: points, check-ins and visits."""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from resourceserver import timeline
from resourceserver.api.bodies import (
    Body,
    Count,
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
SQL: Final = queries.load(
    _TIMELINE / "timeline.sql",
    _TIMELINE / "metrics.sql",
    _HERE / "rows.sql",
    _HERE / "location.sql",
)

Latitude = Annotated[float, Field(ge=-90, le=90)]
Longitude = Annotated[float, Field(ge=-180, le=180)]


class LocationPage(InstantRange, Listed):
    """The range of points, and the page of the list."""

    limit: Annotated[int, at_most(10000)] = Field(
        default=1000, ge=0, description="Most rows of the answer; more than 10000 are 10000."
    )


class LocationEventPage(InstantRange, Listed):
    """The range of check-ins and visits, and the page of the list."""

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
    """Radius within which the point probably lies, in metres."""
    altitude_m: float | None
    """Height above sea level, in metres."""
    vertical_accuracy_m: float | None
    """The probable error of the height, in metres."""
    speed_mps: float | None
    """Speed, in metres a second."""
    course_deg: float | None
    """The direction in degrees, clockwise from north."""
    battery_percent: Percent | None
    """Charge of the battery, in percent."""
    activity: str | None
    """The kind of movement that the device recognised, such as walking or in a car."""
    device: Device | None
    source: str
    timezone: str | None
    """The time zone at the point, as its IANA name; null until it has been looked up."""


class LocationsBody(Listing):
    """Points, the newest first."""

    range: InstantRangeEcho
    data: list[Location]


class Place(Body):
    """A place of a check-in or visit."""

    id: str
    name: str
    category: str | None
    """The kind of place, as the source names it."""
    latitude: Latitude | None
    longitude: Longitude | None
    address: str | None
    """The street address; null where it is unknown."""
    city: str | None
    """The city; null where it is unknown."""
    country_code: str | None
    """The country, as two letters of ISO 3166-1."""


class LocationEvent(Body):
    """A check-in at a place, or a visit to one."""

    id: str
    type: Literal["check_in", "visit"]
    """A check-in or a visit."""
    status: Literal["suggested", "confirmed", "declined"]
    """Visits may be guesses until the person confirms them; check-ins are confirmed."""
    started_at: Timestamp
    ended_at: Timestamp | None
    """When the visit ended; null for check-ins."""
    duration_ms: Milliseconds | None
    """The length of the visit, in milliseconds; null for check-ins."""
    utc_offset: str | None
    """The offset of local time at the place, such as +02:00."""
    place: Place
    """The place."""
    note: str | None
    """The person's note; null without one."""
    source: str
    """Who says so; `derived` for a visit that follows from the points of the location history."""


class LocationEventsBody(Listing):
    """Check-ins in the range and visits that overlap it, the newest first."""

    range: InstantRangeEcho
    data: list[LocationEvent]


class StayedPlace(Body):
    """A place, with the number and the time of its stays."""

    place: Place
    """The place."""
    stayed_ms: Milliseconds
    """Within the range; where visits overlap, their time is counted once. Check-ins have none."""
    visit_count: Count
    """Visits that overlap the range."""
    check_in_count: Count
    """Check-ins in the range."""
    last_at: Timestamp
    """The start of the last stay."""


class PlacesTotals(Body):
    """Sums over all places, also over those that are not listed."""

    place_count: Count
    """Different places."""
    stayed_ms: Milliseconds
    """The sum of the time in each place."""
    visit_count: Count
    """Visits to all places."""
    check_in_count: Count
    """Check-ins at all places."""


class PlacesBody(Body):
    """Places of check-ins and visits, most time first, at most 500. Declined visits do not count."""

    range: InstantRangeEcho
    data: list[StayedPlace]
    totals: PlacesTotals


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
    Endpoint(
        name="places",
        path="/api/v1/locations/places",
        scope="read:location",
        summary="Places of check-ins and visits, and the time in each.",
        params=InstantRange,
        body=PlacesBody,
        query=SQL["places"],
    ),
]

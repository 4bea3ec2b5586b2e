"""Devices: the trackers that send the caller's activity, and when each last did."""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from resourceserver import timeline
from resourceserver.api.bodies import Body, Count, Listing, Timestamp
from resourceserver.api.endpoint import Endpoint
from resourceserver.api.parameters import Flag, Listed, at_most
from shared import queries

_HERE: Final = Path(__file__).parent
_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = queries.load(_TIMELINE / "timeline.sql", _HERE / "rows.sql", _HERE / "devices.sql")


class DevicePage(Listed):
    """The page of the list of devices."""

    limit: Annotated[int, at_most(1000)] = Field(
        default=100, ge=0, description="Most rows of the answer; more than 1000 are 1000."
    )
    include_retired: Flag = Field(
        default=False, description="Whether retired devices are listed too."
    )


class Tracker(Body):
    """One device, and the events that its trackers have sent."""

    id: str
    name: str
    """The name of the device, as its trackers send it."""
    display_name: str | None
    """What the person calls it; null if they have given it no other name."""
    platform: str | None
    source: str | None
    """The tracker that sent last; null if it did not send its name."""
    streams: list[Literal["app_sessions", "coding_sessions"]]
    """The kinds of events that it has sent."""
    first_seen_at: Timestamp
    """When the device first sent anything."""
    last_sync_at: Timestamp | None
    """When its last batch was accepted, even if it had nothing new."""
    last_event_at: Timestamp | None
    """The end of its newest event."""
    event_count: Count
    """The number of its events, each counted once."""
    status: Literal["active", "stale"]
    """Active if the device has sent something within 24 hours."""
    retired_at: Timestamp | None
    """When the person retired it; null if they did not, or if it has sent something since."""


class DevicesBody(Listing):
    """The caller's devices, the newest first."""

    data: list[Tracker]


ENDPOINTS: Final = [
    Endpoint(
        name="devices",
        path="/api/v1/devices",
        scope="read:activity",
        summary="Registered trackers and their last sync.",
        params=DevicePage,
        body=DevicesBody,
        query=SQL["devices"],
        is_quick=True,
    ),
]

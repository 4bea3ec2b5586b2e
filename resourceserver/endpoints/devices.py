"""Devices: who sends what is known of the caller's activity, and whether it still does."""

from pathlib import Path
from typing import Final, Literal

from resourceserver.api.bodies import Body, Count, Timestamp
from resourceserver.api.endpoint import Endpoint
from resourceserver.api.parameters import NoParams
from shared import queries

SQL: Final = queries.load(Path(__file__).with_name("devices.sql"))


class Tracker(Body):
    """One device, and what its trackers have sent."""

    id: str
    name: str
    platform: str | None
    source: str | None
    """The tracker that sent last; null where it did not say its name."""
    streams: list[Literal["app_sessions", "coding_sessions"]]
    """What kinds of events it has sent."""
    first_seen_at: Timestamp
    last_sync_at: Timestamp | None
    """When its last batch was accepted, with anything new in it or not."""
    last_event_at: Timestamp | None
    """The end of its newest event."""
    event_count: Count
    """How many events it has sent, each counted once."""
    status: Literal["active", "stale"]
    """Active is what has sent something within 24 hours."""


class DevicesBody(Body):
    """The caller's devices, the one that sent something last first."""

    data: list[Tracker]
    count: Count


ENDPOINTS: Final = [
    Endpoint(
        name="devices",
        path="/api/v1/devices",
        scope="read:activity",
        summary="Registered trackers and their last sync.",
        params=NoParams,
        body=DevicesBody,
        query=SQL["devices"],
        is_quick=True,
    ),
]

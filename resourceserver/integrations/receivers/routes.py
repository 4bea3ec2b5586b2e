"""The routes of the receivers that the operator has switched on (SVC_RECEIVERS)."""

from collections.abc import Callable, Mapping
from typing import Final

from starlette.routing import Route

from resourceserver.api.session import Reader
from resourceserver.integrations.receivers import (
    listenbrainz,
    osmand,
    overland,
    owntracks,
    wakatime,
)
from resourceserver.integrations.receivers.health import route as health
from resourceserver.integrations.receivers.receiving import Receiving

Routes = Callable[[Receiving, Reader], list[Route]]

BY_KIND: Final[Mapping[str, Routes]] = {
    "wakatime": wakatime.routes,
    "listenbrainz": listenbrainz.routes,
    "owntracks": owntracks.routes,
    "overland": overland.routes,
    "osmand": osmand.routes,
    "health": health.routes,
}
"""The function of each kind that returns its routes; the reader is for what an application may read."""


def routes(receiving: Receiving | None, reader: Reader) -> list[Route]:
    """Return the routes of all receivers that are switched on; without ``receiving`` none is."""
    if receiving is None:
        return []
    return [
        route
        for kind in receiving.chosen.receivers
        if kind in BY_KIND
        for route in BY_KIND[kind](receiving, reader)
    ]

"""Foursquare Swarm's export of check-ins, `checkins1.json` and following, and pages of its interface."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from resourceserver.integrations import values
from resourceserver.integrations.format import File, Format, Head, Person
from resourceserver.integrations.reading import elements, utc_offset
from resourceserver.integrations.records import Place, PlaceEvent, Record, Refused
from resourceserver.integrations.values import Flaw


def _read(file: File, _person: Person) -> Iterator[Record | Refused]:
    paths = ("items.item", "item", "response.checkins.items.item")
    for _, value in elements(file, *paths):
        try:
            yield _check_in(values.members(value))
        except Flaw as flaw:
            yield values.refused(flaw, value)


def _check_in(given: dict[str, Any]) -> PlaceEvent:
    key = values.text(given.get("id"))
    if key is None:
        raise Flaw("missing_id")
    minutes = values.number(given.get("timeZoneOffset"))
    return PlaceEvent(
        key=values.key(key),
        type="check_in",
        status="confirmed",
        started_at=_instant(given.get("createdAt")),
        ended_at=None,
        place=_place(given),
        utc_offset=None if minutes is None else utc_offset(minutes * 60),
        note=values.text(given.get("shout")),
    )


def _instant(value: Any) -> datetime:
    """Return the instant of seconds since 1970, or of a time in UTC that does not say so."""
    if values.number(value) is not None:
        return values.epoch(value)
    parsed = values.wall_time(value)
    return values.utc(parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC))


def _place(given: dict[str, Any]) -> Place:
    venue = given.get("venue")
    venue = venue if isinstance(venue, dict) else {}
    location = venue.get("location")
    location = location if isinstance(location, dict) else {}
    latitude = values.number(location.get("lat", given.get("lat")))
    longitude = values.number(location.get("lng", given.get("lng")))
    has_position = latitude is not None and longitude is not None
    # A venue that Foursquare deleted is only a position.
    position = f"{latitude:.4f}, {longitude:.4f}" if has_position else None
    name = values.text(venue.get("name")) or position
    if name is None:
        raise Flaw("missing_venue")
    categories = venue.get("categories")
    first = categories[0] if isinstance(categories, list) and categories else None
    country = values.text(location.get("cc"))
    return Place(
        key=values.key(values.text(venue.get("id")) or name),
        name=name,
        category=values.text(first.get("name")) if isinstance(first, dict) else None,
        latitude=latitude if has_position else None,
        longitude=longitude if has_position else None,
        address=values.text(location.get("address")),
        city=values.text(location.get("city")),
        country_code=country if country and re.fullmatch("[A-Z]{2}", country) else None,
    )


def _recognise(head: Head) -> float:
    text = head.text
    if '"createdAt"' not in text or '"venue"' not in text:
        return 0.0
    if re.search(r'"type"\s*:\s*"checkin"', text):
        return 1.0
    return 0.9 if '"timeZoneOffset"' in text else 0.0


SWARM: Final = Format(
    name="swarm",
    title="Foursquare Swarm check-ins",
    source="swarm",
    records=(PlaceEvent,),
    recognise=_recognise,
    read=_read,
)

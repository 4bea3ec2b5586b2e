"""The receiver of OsmAnd, Traccar's application and GPSLogger: a place in the query, in a form, or as JSON.

The three send to any address and nothing but it, so the key is a part of the path. Names and units are those
of Traccar's protocol for OsmAnd, whose speed is in knots; the addresses that this service gives out
(``shared/setups.py``) have names with their units instead. Each application repeats what was not answered
with success, before anything newer, so a place that cannot be read is counted and answered like any other.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from resourceserver.api.errors import PRIVATE
from resourceserver.api.session import Reader
from resourceserver.integrations import tracks, values
from resourceserver.integrations.format import Person
from resourceserver.integrations.receivers import delivery, messages, points
from resourceserver.integrations.receivers.receiving import Receiving
from resourceserver.integrations.records import Point, Refused
from resourceserver.integrations.values import Flaw

PATH: Final = "/receive/osmand/{key}"
MOST_BYTES: Final = 4 * 1024 * 1024
"""The most bytes of a body: Traccar's application can send all places that waited at once."""
_NAUTICAL_MILE_M: Final = 1852
_MOST_FIELDS: Final = 100
_SECONDS: Final = 2**31
"""Numbers below it are seconds since 1970, as in Traccar's protocol; others are milliseconds."""
_LOST_PLUS: Final = re.compile(r"(T[\d:.]+) (\d\d:?\d\d)\Z")
"""The end of a time whose plus was not escaped: in a query it means a space."""


def routes(receiving: Receiving, _reader: Reader) -> list[Route]:
    """Return the route of the receiver."""

    async def receive_osmand(request: Request) -> Response:
        opened = await receiving.open(request, "osmand", request.path_params["key"])
        # A program that only looks whether the address exists measures nothing.
        if request.method != "HEAD":
            take = partial(read, query=request.url.query)
            await delivery.write(receiving, request, opened, take, most_bytes=MOST_BYTES)
        return Response(b"", headers=PRIVATE)

    return [Route(PATH, receive_osmand, methods=["GET", "POST"], name="receive_osmand")]


def read(body: bytes | bytearray, person: Person, query: str = "") -> list[Point | Refused]:
    """Return the places of a request: those of its JSON, or else that of its form and its query."""
    if body.lstrip()[:1] in (b"{", b"["):
        return _of_document(body, person)
    form = str(body, "utf-8", "replace").strip()
    if not query and not form:
        # The address was opened in a browser.
        return []
    try:
        # A template for the body can name some fields, and one for the address the others.
        fields = _fields(query) | _fields(form)
    except Flaw as flaw:
        return [values.refused(flaw, form or query)]
    return [points.point(partial(_of_fields, person=person), fields, person)]


def _fields(text: str) -> dict[str, str]:
    """Return the fields of a query or a form, the first of each name. Raises Flaw."""
    try:
        pairs = parse_qsl(text, max_num_fields=_MOST_FIELDS, errors="replace")
    except ValueError as error:
        raise Flaw("too_many_fields") from error
    return dict(reversed(pairs))


def _of_fields(fields: Mapping[str, str], person: Person) -> Point:
    latitude, _, longitude = (_first(fields, ("location",)) or "").partition(",")
    knots = tracks.at_least_zero(fields.get("speed"))
    return tracks.point(
        _time(fields.get("timestamp"), person),
        fields.get("lat") or latitude,
        fields.get("lon") or longitude,
        # OsmAnd fills hdop with metres.
        accuracy_m=tracks.at_least_zero(_first(fields, ("accuracy_m", "accuracy", "hdop"))),
        altitude_m=values.number(_first(fields, ("altitude_m", "altitude"))),
        speed_mps=tracks.at_least_zero(fields.get("speed_mps"))
        if knots is None
        else knots * _NAUTICAL_MILE_M / 3600,
        course_deg=tracks.at_least_zero(_first(fields, ("course_deg", "bearing", "heading"))),
        battery_percent=_percent(_first(fields, ("battery_percent", "batt"))),
        device=_first(fields, ("device", "id", "deviceid")),
    )


def _of_document(body: bytes | bytearray, person: Person) -> list[Point | Refused]:
    try:
        message = values.members(messages.document(body))
    except Flaw as flaw:
        return [values.refused(flaw, str(body[: values.EXAMPLE_LENGTH], "utf-8", "replace"))]
    # The application can be set to send all that waited at once.
    location = message.get("location")
    locations = location if isinstance(location, list) else [location]
    take = partial(_of_location, device=message.get("device_id"), person=person)
    return points.points(take, locations, person)


def _of_location(value: Any, device: Any, person: Person) -> Point:
    location = values.members(value)
    coordinates = values.members(location.get("coords"))
    battery = _member(location, "battery").get("level")
    level = tracks.at_least_zero(battery)
    activity = points.name(_member(location, "activity").get("type"))
    return tracks.point(
        _time(location.get("timestamp"), person),
        coordinates.get("latitude"),
        coordinates.get("longitude"),
        accuracy_m=tracks.at_least_zero(coordinates.get("accuracy")),
        altitude_m=values.number(coordinates.get("altitude")),
        vertical_accuracy_m=tracks.at_least_zero(coordinates.get("altitude_accuracy")),
        speed_mps=tracks.at_least_zero(coordinates.get("speed")),
        course_deg=tracks.at_least_zero(coordinates.get("heading")),
        # A share of one; of a value above one nothing is known.
        battery_percent=round(level * 100) if level is not None and level <= 1 else None,
        activity=None if activity == "unknown" else activity,
        device=points.name(device),
    )


def _time(value: Any, person: Person) -> datetime:
    """Return the instant of a number of seconds or milliseconds, or of an ISO 8601 text. Raises Flaw."""
    number = values.number(value)
    if number is not None:
        return values.epoch(number, 1 if abs(number) < _SECONDS else 1000)
    if isinstance(value, str):
        value = _LOST_PLUS.sub(r"\1+\2", value.strip())
    return values.instant_in(value, person.zone)


def _percent(value: Any) -> int | None:
    number = tracks.at_least_zero(value)
    return round(number) if number is not None and number <= 100 else None


def _first(fields: Mapping[str, str], names: Iterable[str]) -> str | None:
    return next((fields[name] for name in names if fields.get(name)), None)


def _member(given: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = given.get(name)
    return value if isinstance(value, dict) else {}

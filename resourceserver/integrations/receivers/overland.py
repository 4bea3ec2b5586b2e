"""The receiver of Overland: GeoJSON points in batches, each with the time at which it was measured.

Only ``{"result": "ok"}`` makes the application forget a batch; after any other answer it sends the same batch
again and nothing else. So a batch that cannot be read is counted, and answered like any other. A member
``set`` in the answer would change settings of the phone, and is never sent.
"""

from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from resourceserver.api.errors import PRIVATE
from resourceserver.api.session import Reader
from resourceserver.integrations import values
from resourceserver.integrations.format import Person
from resourceserver.integrations.formats import geojson
from resourceserver.integrations.receivers import delivery, messages, points
from resourceserver.integrations.receivers.receiving import Receiving
from resourceserver.integrations.records import Point, Refused
from resourceserver.integrations.values import Flaw

PATH: Final = "/receive/overland"
MOST_BYTES: Final = 4 * 1024 * 1024
"""The most bytes of a batch: the application sends up to 1,000 points of about 600 bytes each."""


def routes(receiving: Receiving, _reader: Reader) -> list[Route]:
    """Return the route of the receiver."""

    async def receive_overland(request: Request) -> Response:
        await delivery.deliver(receiving, request, "overland", read, most_bytes=MOST_BYTES)
        return Response(b'{"result":"ok"}', headers=PRIVATE, media_type="application/json")

    return [Route(PATH, receive_overland, methods=["POST"], name="receive_overland")]


def read(body: bytes | bytearray, person: Person) -> list[Point | Refused]:
    """Return the points of a batch; ``current`` and ``trip`` beside them repeat what the points say."""
    try:
        batch = values.members(messages.document(body))
        locations = batch.get("locations")
        if not isinstance(locations, list):
            raise Flaw("no_locations")
    except Flaw as flaw:
        return [values.refused(flaw, str(body[: values.EXAMPLE_LENGTH], "utf-8", "replace"))]
    take = partial(geojson.overland_point, person=person)
    return points.points(take, locations, person)

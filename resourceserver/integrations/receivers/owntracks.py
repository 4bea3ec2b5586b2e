"""The receiver of OwnTracks, in its mode HTTP: a message for each place, status or region.

An answer other than 200 with an array stops the queue of the Android application for ever, or makes the one
of the iPhone throw its message away. So whatever a message is, the answer is 200 with an empty array; what
cannot be read is counted. Messages that say nothing of where the person is, such as those of regions, are
left without a count: the application sends them all the time.
"""

from functools import partial
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from resourceserver.api.arrival import TooSlow
from resourceserver.api.errors import PRIVATE, DatabaseUnavailable, TooManyRequests
from resourceserver.api.session import Reader
from resourceserver.integrations import values
from resourceserver.integrations.format import Person
from resourceserver.integrations.formats import geojson
from resourceserver.integrations.receivers import delivery, messages, points
from resourceserver.integrations.receivers.delivery import ENCRYPTED
from resourceserver.integrations.receivers.receiving import Receiving, TooManyWrongKeys
from resourceserver.integrations.records import Point, Refused
from resourceserver.integrations.values import Flaw

PATH: Final = "/receive/owntracks"
MOST_BYTES: Final = 1024 * 1024
"""The most bytes of a message: one with all regions or with a picture of the person is far below it."""
_KINDS: Final = frozenset(
    (
        *("beacon", "card", "cmd", "configuration", "dump", "lwt", "request", "status", "steps"),
        *("transition", "waypoint", "waypoints"),
    )
)
"""The application's other kinds of messages."""


class SendLater(DatabaseUnavailable):
    """too much at once; send this again"""


def routes(receiving: Receiving, _reader: Reader) -> list[Route]:
    """Return the route of the receiver."""

    async def receive_owntracks(request: Request) -> Response:
        device = _header(request, "x-limit-d") or request.query_params.get("d")
        try:
            await delivery.deliver(
                receiving,
                request,
                "owntracks",
                partial(read, device=device),
                most_bytes=MOST_BYTES,
            )
        except (TooManyRequests, TooManyWrongKeys, TooSlow) as error:
            # The iPhone throws a message away after any status from 400 to 499.
            raise SendLater from error
        return Response(b"[]", headers=PRIVATE, media_type="application/json")

    return [Route(PATH, receive_owntracks, methods=["POST"], name="receive_owntracks")]


def _header(request: Request, name: str) -> str:
    """Return a header in UTF-8, as telephones write their names."""
    return request.headers.get(name, "").encode("latin-1").decode("utf-8", "replace")


def read(
    body: bytes | bytearray, person: Person, device: str | None = None
) -> list[Point | Refused]:
    """Return the point of a message, if it is one; ``device`` is the name that the header has."""
    # A friend who is removed is published as nothing at all.
    if not body.strip():
        return []
    try:
        message = values.members(messages.document(body))
    except Flaw as flaw:
        return [values.refused(flaw, str(body[: values.EXAMPLE_LENGTH], "utf-8", "replace"))]
    kind = message.get("_type")
    if kind == "encrypted":
        return [Refused(ENCRYPTED, "")]
    if isinstance(kind, str) and kind in _KINDS:
        return []
    return [points.point(partial(_point, device=points.name(device)), message, person)]


def _point(message: Any, device: str | None) -> Point:
    point = geojson.owntracks_point(message)
    return point if device is None else point._replace(device=device)

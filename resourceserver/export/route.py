"""Export: everything of one person that a token opens, written while it is read.

    credential ──► parameters ──► place ──► session ──► rows, batch by batch ──► end
     401, 403         400       429, 503    401, 503        or broken off

An answer that has begun can no longer say that something went wrong. It is broken off then, without the end
that HTTP's chunks have, and no client can take what came for the whole. The same happens to a client that
stops taking it: its transaction keeps the database from cleaning up, and others from its place. A client that
is only slow is broken off when another person waits for a place.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from types import GenericAlias
from typing import Annotated, Any, Final, cast
from uuid import UUID
from zoneinfo import ZoneInfo

from pydantic import Field, create_model
from pydantic.config import JsonDict
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from resourceserver.api import parameters, session
from resourceserver.api.bodies import Body, CalendarDay, Timestamp
from resourceserver.api.errors import PRIVATE, DatabaseUnavailable, ParameterProblem
from resourceserver.api.operation import Operation
from resourceserver.api.packing import Packing
from resourceserver.api.session import Reader
from resourceserver.api.turns import Turns
from resourceserver.export import reading
from resourceserver.export.formats import FORMATS
from resourceserver.export.reading import SCOPE, Export, ExportParams
from resourceserver.export.resources import RESOURCES
from shared.pool import Pool
from shared.settings import Settings
from shared.web import error_log

PATH: Final = "/api/v1/export"

PER_PERSON: Final = 2
"""Most exports of one person at the same time in one process."""
STALLED_S: Final = 30.0
"""How long a client may take for one piece before it is given up."""
SLOW_S: Final = 30.0
"""How long a client may be slow while another person waits for its place."""
LOWEST_RATE: Final = 64 * 1024
"""Bytes a second; a client that takes less is slow."""
PATIENCE_S: Final = 60.0
"""How long an export waits for a place: longer than a slow client keeps one that is waited for."""
LONGEST_S: Final = 3600.0
"""How long an export may take, however steadily it is taken."""


class Busy(DatabaseUnavailable):
    """as many exports are under way as there may be at once; try again in a while"""


class ExportUser(Body):
    """Whose data it is; more than the id where the token opens the profile."""

    id: str
    email: str | None
    display_name: str | None
    timezone: str | None
    is_admin: bool | None
    week_starts_on: int | None
    """An ISO weekday: 1 is Monday."""
    created_at: Timestamp | None


class ExportRange(Body):
    """The calendar days that were asked for, both included; null where nobody asked."""

    from_: CalendarDay | None = Field(alias="from")
    to: CalendarDay | None


def _without_default(schema: JsonDict) -> None:
    """Leave the default out of a description: what is not there was not opened, and may have rows."""
    del schema["default"]


_ROWS: Final[dict[str, Any]] = {
    each.name: (
        GenericAlias(list, (each.row,)),
        Field(
            default=[],
            description=f"There with the scope `{each.scope}`.",
            json_schema_extra=_without_default,
        ),
    )
    for each in RESOURCES
}
ExportResources: Final = create_model(
    "ExportResources",
    __base__=Body,
    __doc__="The rows of each resource that the token opens; one that it does not open is not there.",
    **_ROWS,
)
ExportBody: Final = create_model(
    "ExportBody",
    __base__=Body,
    __doc__="Everything, resource by resource. Sessions are the events that trackers sent; other"
    " rows look as in the endpoints that have them.",
    exported_at=Annotated[Timestamp, Field(description="When the export began.")],
    user=Annotated[ExportUser, Field(description="The token's owner.")],
    range=ExportRange,
    tz=str,
    resources=(ExportResources, Field(description="Lists of rows by resource.")),
    pending_days=Annotated[
        list[CalendarDay],
        Field(
            description="Days that wait to be summed up, within minutes: their rows in daily_summaries are"
            " provisional or missing."
        ),
    ],
    omitted=Annotated[list[str], Field(description="What the token does not open.")],
)


EXPORT: Final = Operation(
    name="export",
    path=PATH,
    tag="Activity",
    summary="Everything that the token opens, as a file.",
    answers={200: ExportBody},
    scope=SCOPE,
    params=ExportParams,
    problems=(Busy(),),
    media_types={
        "text/csv": "One table for all resources (RFC 4180).",
        "application/x-ndjson": "A row a line, each with its resource.",
        "application/zip": "One CSV file for each resource.",
    },
    headers={
        "Content-Disposition": "A name for the file.",
        "Export-Omitted": "What the token does not open, in formats that have no place for it too.",
        "Export-Pending-Days": "How many days wait to be summed up.",
    },
)


@dataclass
class TransferRate:
    """How fast a client takes an answer, from the time that sending to it takes."""

    taken: int = 0
    spent_s: float = 0.0

    def is_slow(self, taken: int, spent_s: float) -> bool:
        """Count what was sent; tell once in ``SLOW_S`` whether the client was slow."""
        self.taken += taken
        self.spent_s += spent_s
        if self.spent_s < SLOW_S:
            return False
        is_slow = self.taken < LOWEST_RATE * self.spent_s
        self.taken, self.spent_s = 0, 0.0
        return is_slow


@dataclass(frozen=True)
class _Answer:
    """An export as it is sent (ASGI). However that ends, its place and connection are free then."""

    turns: Turns
    user_id: UUID
    exports: Pool
    export: Export
    params: ExportParams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it. Raises psycopg.Error, which breaks it off."""

        rate = TransferRate()

        async def send_in_time(message: Message) -> None:
            started = time.monotonic()
            async with asyncio.timeout(STALLED_S):
                await send(message)
            is_slow = rate.is_slow(len(message.get("body", b"")), time.monotonic() - started)
            if is_slow and self.turns.is_awaited_by_another(self.user_id):
                raise TimeoutError

        try:
            media_type, written = FORMATS[self.params.format]
            headers = _headers(self.params) | {
                "Export-Omitted": ", ".join(self.export.omitted),
                "Export-Pending-Days": str(len(self.export.pending_days)),
            }
            streamed = StreamingResponse(
                written(self.export), headers=headers, media_type=media_type
            )
            async with asyncio.timeout(LONGEST_S):
                await streamed(scope, receive, send_in_time)
        except TimeoutError:
            # Nobody takes it, or nobody gives it. An answer that is left without its end is broken off.
            error_log.warning("request_id=%s export given up", scope["svc.request_id"])
        finally:
            self.turns.give_back(self.user_id)
            await self.exports.give_back(self.export.connection)


def _headers(params: ExportParams) -> dict[str, str]:
    today = datetime.now(ZoneInfo(params.tz)).date()
    name = f"activity-export-{today}.{params.format}"
    return PRIVATE | {"Content-Disposition": f'attachment; filename="{name}"'}


async def _nothing() -> AsyncIterator[bytes]:
    # A first piece that is not the last, so that HEAD has the headers of a body of many pieces.
    yield b""


def routes(chosen: Settings, reader: Reader, exports: Pool) -> list[Route]:
    """Return the routes of the export, which pages of the authorization server may use too.

    ``exports`` are connections of the ``reader`` role.
    """
    turns = Turns(chosen.export_connections, PER_PERSON, PATIENCE_S, full=Busy)

    async def answer(request: Request) -> Response:
        scopes = (SCOPE, *ExportParams.scopes(request.query_params))
        who = session.credential(request, scopes, (chosen.base_url,))
        try:
            params = cast("ExportParams", parameters.parse(ExportParams, request.query_params))
        except ParameterProblem:
            # Mistakes in parameters are reported only after the token has been checked.
            await reader.check(who)
            raise
        if request.method == "HEAD":
            await reader.check(who)
            media_type, _ = FORMATS[params.format]
            return StreamingResponse(_nothing(), headers=_headers(params), media_type=media_type)
        user_id = who.token.user_id
        await reader.know(who)
        await turns.take(user_id)
        try:
            export = await reading.begin(exports, who, params)
        except BaseException:
            turns.give_back(user_id)
            raise
        reader.accept(who)
        return cast("Response", _Answer(turns, user_id, exports, export, params))

    return [Route(EXPORT.path, answer, name=EXPORT.name, middleware=[Middleware(Packing)])]

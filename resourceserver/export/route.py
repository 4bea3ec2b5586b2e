"""The route of the export: all data of one person that a token may read, written while it is read.

    credential ──► parameters ──► place ──► session ──► rows, batch by batch ──► end
     401, 403         400       429, 503    401, 503        or broken off

An answer that has begun can no longer report an error. It is then broken off, without the last chunk of HTTP,
so no client can take it for complete. The same happens if a client stops reading: its transaction keeps the
database from cleaning up, and its place from other people. A client that is only slow is broken off when
another person waits for a place.
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
"""The time that a client may take for one piece before the export is broken off."""
SLOW_S: Final = 30.0
"""The time that a client may be slow while another person waits for its place."""
LOWEST_RATE: Final = 64 * 1024
"""Bytes a second; a client that reads less is slow."""
PATIENCE_S: Final = 60.0
"""How long an export waits for a place: longer than a slow client may keep a place that is waited for."""
LONGEST_S: Final = 3600.0
"""The time limit of an export."""


class Busy(DatabaseUnavailable):
    """as many exports are under way as there may be at once; try again in a while"""


class ExportUser(Body):
    """The owner of the data; only the id if the token may not read the profile."""

    id: str
    email: str | None
    display_name: str | None
    timezone: str | None
    is_admin: bool | None
    week_starts_on: int | None
    """An ISO weekday: 1 is Monday."""
    created_at: Timestamp | None


class ExportRange(Body):
    """The requested calendar days, both included; null for an end that was not requested."""

    from_: CalendarDay | None = Field(alias="from")
    to: CalendarDay | None


def _without_default(schema: JsonDict) -> None:
    """Remove the default from the schema: a resource without rows here may have some that were not read."""
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
    __doc__="The rows of each resource that the token may read; others are absent.",
    **_ROWS,
)
ExportBody: Final = create_model(
    "ExportBody",
    __base__=Body,
    __doc__="All data, by resource. Sessions are the events that trackers sent; other"
    " rows look as in the endpoints that have them.",
    exported_at=Annotated[Timestamp, Field(description="When the export began.")],
    user=Annotated[ExportUser, Field(description="The token's owner.")],
    range=ExportRange,
    tz=str,
    resources=(ExportResources, Field(description="Lists of rows by resource.")),
    pending_days=Annotated[
        list[CalendarDay],
        Field(
            description="Days that will be summed up within minutes: their rows in daily_summaries are"
            " provisional or missing."
        ),
    ],
    removed_before=Annotated[
        CalendarDay | None,
        Field(
            description="Sessions that ended before this day, in UTC, have been removed because of their age;"
            " their sums remain. Null where none has."
        ),
    ],
    omitted=Annotated[list[str], Field(description="Resources that the token may not read.")],
)


EXPORT: Final = Operation(
    name="export",
    path=PATH,
    tag="Activity",
    summary="All data that the token may read, as a file.",
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
        "Export-Omitted": "Resources that the token may not read, in formats that do not name them.",
        "Export-Pending-Days": "The number of days that will be summed up within minutes.",
        "Export-Removed-Before": "The day before which sessions have been removed; empty if none has.",
    },
)


@dataclass
class TransferRate:
    """The rate at which a client takes an answer, from the time that sending takes."""

    taken: int = 0
    spent_s: float = 0.0

    def is_slow(self, taken: int, spent_s: float) -> bool:
        """Count sent bytes; return once in ``SLOW_S`` whether the client was slow."""
        self.taken += taken
        self.spent_s += spent_s
        if self.spent_s < SLOW_S:
            return False
        is_slow = self.taken < LOWEST_RATE * self.spent_s
        self.taken, self.spent_s = 0, 0.0
        return is_slow


@dataclass(frozen=True)
class _Answer:
    """An export that is being sent (ASGI). At its end, however it ends, place and connection are free."""

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
                "Export-Removed-Before": self.export.removed_before or "",
            }
            streamed = StreamingResponse(
                written(self.export), headers=headers, media_type=media_type
            )
            async with asyncio.timeout(LONGEST_S):
                await streamed(scope, receive, send_in_time)
        except TimeoutError:
            # The client does not read, or the database does not answer. The answer is broken off.
            error_log.warning("request_id=%s export given up", scope["svc.request_id"])
        finally:
            self.turns.give_back(self.user_id)
            await self.exports.give_back(self.export.connection)


def _headers(params: ExportParams) -> dict[str, str]:
    today = datetime.now(ZoneInfo(params.tz)).date()
    name = f"activity-export-{today}.{params.format}"
    return PRIVATE | {"Content-Disposition": f'attachment; filename="{name}"'}


async def _nothing() -> AsyncIterator[bytes]:
    # The first piece is not the last one, so the answer to HEAD has the headers of a body in chunks.
    yield b""


def turns_of(chosen: Settings) -> Turns:
    """Return the places for exports in a process."""
    return Turns(chosen.export_connections, PER_PERSON, PATIENCE_S, full=Busy, name="exports")


def routes(chosen: Settings, reader: Reader, exports: Pool, turns: Turns) -> list[Route]:
    """Return the routes of the export, which pages of the authorization server may use too.

    ``exports`` are connections of the ``reader`` role, and ``turns`` the places for them.
    """

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

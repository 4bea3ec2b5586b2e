"""The parameters of an export, and the one transaction that reads it.

The transaction sees the data as of one moment, on a connection of its own, so that a long export delays
nobody. Rows come through a cursor, a batch at a time, and only as fast as the client takes them; so memory
does not grow with the amount of data.

It reads the primary, never a replica. There, the replay of the log cancels any transaction whose locks are in
its way, and what a client has received of an export cannot be repeated elsewhere.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Final, Literal, Self, TypeVar, cast

import psycopg
from psycopg import sql
from psycopg.pq.abc import PGresult
from psycopg.rows import dict_row
from pydantic import Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError
from starlette.datastructures import QueryParams

from resourceserver.api import session
from resourceserver.api.endpoint import Endpoint
from resourceserver.api.errors import DatabaseUnavailable, Unauthorized
from resourceserver.api.parameters import Day, Params, Zone, known_zone, some_of
from resourceserver.api.session import Credential
from resourceserver.export.resources import PROFILE, RESOURCES, SQL, Resource
from shared import pipeline
from shared.pipeline import Step
from shared.pool import Connection, Pool

SCOPE: Final = "read:activity"

BATCH: Final = 64 * 1024
"""The number of characters of rows that are fetched at once, about."""
FIRST_ROWS: Final = 10
"""The number of rows that are fetched before their length is known."""

T = TypeVar("T")

_NAMES: Final = tuple(resource.name for resource in RESOURCES)


class ExportParams(Params):
    """The resources to export, and the format."""

    format: Literal["json", "csv", "ndjson", "zip"] = Field(
        default="json",
        description="One JSON object, one CSV file, JSON line by line, or a zip file of CSV files.",
    )
    from_: Day | None = Field(
        default=None,
        alias="from",
        description="First calendar day; default: the first of all data.",
    )
    to: Day | None = Field(
        default=None, description="Last calendar day, included; default: the last of all data."
    )
    tz: Zone = Field(default="UTC", description="IANA time zone in which days begin.")
    resources: Annotated[
        tuple[str, ...] | None,
        some_of(_NAMES),
        WithJsonSchema({"type": "string", "pattern": "^({0})(,({0}))*$".format("|".join(_NAMES))}),
    ] = Field(
        default=None,
        description="Names with commas between them; default: every resource that the token may read.",
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.from_ is not None and self.to is not None and self.from_ > self.to:
            raise PydanticCustomError("order", "must not be after to", {"parameter": "from"})
        return self

    @classmethod
    def scopes(cls, given: QueryParams) -> tuple[str, ...]:
        """Return the scopes of the named resources, without the endpoint's own."""
        named = {name for text in given.getlist("resources") for name in text.split(",")}
        needed = dict.fromkeys(each.scope for each in RESOURCES if each.name in named)
        return tuple(scope for scope in needed if scope != SCOPE)


@dataclass(frozen=True)
class Export:
    """One export, whose transaction has begun."""

    connection: Connection
    about: Mapping[str, Any]
    """The owner, the range and the time of the export."""
    resources: list[Resource]
    omitted: list[str]
    """The requested resources that the token may not read."""
    pending_days: list[str]
    """The days whose summaries are exported as provisional, or not at all."""
    removed_before: str | None
    """The day before which the person's sessions have been removed because of their age."""
    params: Mapping[str, Any]
    """The parameters of the statements of rows."""

    async def batches(self, resource: Resource) -> AsyncIterator[list[str]]:
        """Yield the rows of a resource as JSON, as many at once as have about ``BATCH`` characters.

        Raises psycopg.Error, and TimeoutError if the database does not answer.
        """
        if isinstance(resource.rows, Endpoint):
            if rows := await rows_of_answer(self.connection, resource.rows, self.params):
                yield rows
            return
        # psycopg's cursor object is not used: after an interrupted export, nothing could close it properly.
        await self._run(sql.SQL(SQL["open_rows"]).format(rows=sql.SQL(resource.rows)), self.params)
        most = FIRST_ROWS
        while rows := await self._run(sql.SQL(SQL["fetch_rows"]).format(count=most)):
            yield rows
            if len(rows) < most:
                break
            most = min(max(1, most * BATCH // sum(map(len, rows))), resource.most_rows)
        await self._run(sql.SQL(SQL["close_rows"]))

    async def _run(
        self, statement: sql.SQL | sql.Composed, params: Mapping[str, Any] | None = None
    ) -> list[str]:
        """Return the only column of the result of ``statement``."""
        cursor = await in_time(self.connection.execute(statement, params))
        return [row for (row,) in await cursor.fetchall()] if cursor.description else []


async def in_time(answer: Awaitable[T]) -> T:
    """Return the result of a statement. Raises TimeoutError.

    The server's own limit cannot end a statement if the server, or the network to it, has stopped.
    """
    async with asyncio.timeout(session.PATIENT_S):
        return await answer


async def rows_of_answer(
    connection: psycopg.AsyncConnection[Any], endpoint: Endpoint, params: Mapping[str, Any]
) -> list[str]:
    """Return the rows of an endpoint's answer, each as JSON."""
    user_id = params["user_id"]

    async def ask(step: Step) -> bytes:
        statement, values = step
        given = {**values, "user_id": user_id}
        raw = psycopg.AsyncRawCursor(connection)
        await in_time(
            raw.execute(statement.text.decode(), [given[name] for name in statement.parameters])
        )
        (answer,) = await raw.fetchone() or ("",)
        return cast("str", answer).encode()

    body = (await endpoint.read_with(ask, params)).decode()
    if not body:
        return []
    cursor = await in_time(connection.execute(SQL["rows_of_answer"], {"answer": body}))
    return [row for (row,) in await cursor.fetchall()]


async def begin(exports: Pool, who: Credential, params: ExportParams) -> Export:
    """Return an export on one of ``exports``, which are connections of the ``reader`` role.

    Raises Unauthorized, InsufficientScope and DatabaseUnavailable. The caller must give its connection
    back, which ends the transaction.
    """
    try:
        connection = await exports.take()
    except psycopg.OperationalError as error:
        raise session.problem(error, who) from error
    try:
        async with asyncio.timeout(session.QUICK_S):
            return await _begin(connection, who, params)
    except BaseException as error:
        await exports.give_back(connection)
        if isinstance(error, TimeoutError):
            raise DatabaseUnavailable from error
        if isinstance(error, psycopg.Error):
            raise session.problem(error, who, params=("tz",)) from error
        raise


async def _begin(connection: Connection, who: Credential, params: ExportParams) -> Export:
    await connection.execute(SQL["begin"])
    # A migration that excludes older code holds this lock. Waiting for it takes no snapshot, while
    # `open_session` would wait with the transaction's only one, and check the version as it was before.
    with pipeline.first_statement():
        await connection.execute(SQL["lock_version"])
        # The first statement that takes a snapshot. All later ones see the data as of this moment.
        opened = await connection.execute(session.SQL["open_token_session"], who.parameters())
    # A statement that was executed has a result.
    session.note(who, cast("PGresult", opened.pgresult))
    await connection.execute(SQL["allow_slow_client"])
    user_id = {"user_id": who.token.user_id}
    days = {"from": params.from_, "to": params.to}
    cursor = connection.cursor(row_factory=dict_row)
    await cursor.execute(SQL["head"], {**user_id, **days, "tz": known_zone(params.tz)})
    head = cast("dict[str, Any]", await cursor.fetchone())
    profile = await rows_of_answer(connection, cast("Endpoint", PROFILE.rows), user_id)
    if not profile:
        # The account was deleted after its token was looked up.
        raise Unauthorized.invalid_token(who.scopes)
    user = json.loads(profile[0])
    if PROFILE.scope not in head["scopes"]:
        user = dict.fromkeys(user) | {"id": user["id"]}
    wanted = [
        each for each in RESOURCES if params.resources is None or each.name in params.resources
    ]
    period = {"from": params.from_ or "-infinity", "to": params.to or "infinity"}
    pending_days: list[str] = []
    if any(each.name == "daily_summaries" for each in wanted):
        pending = await connection.execute(SQL["pending_days"], {**user_id, **period})
        pending_days = [day for (day,) in await pending.fetchall()]
    removed = await (await connection.execute(SQL["removed_before"], user_id)).fetchone()
    return Export(
        connection,
        about={
            "exported_at": head["exported_at"],
            "user": user,
            "range": {name: _spelled(day) for name, day in days.items()},
            "tz": params.tz,
        },
        resources=[each for each in wanted if each.scope in head["scopes"]],
        omitted=[each.name for each in wanted if each.scope not in head["scopes"]],
        pending_days=pending_days,
        removed_before=None if removed is None else removed[0],
        params={
            **user_id,
            **period,
            "pending_days": pending_days,
            "starts_at": head["starts_at"],
            "ends_at": head["ends_at"],
            # Periods of goals begin in the person's own zone.
            "tz": None,
            "given_tz": None,
        },
    )


def _spelled(day: date | None) -> str | None:
    return None if day is None else day.isoformat()

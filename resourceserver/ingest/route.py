"""Ingest: what trackers send, validated event by event and written in one transaction.

    credential ──► media type ──► body ──► batch ──► verdict ──► transaction ──► counts
     401, 403         415     408, 413, 429  400, 413              401, 429       200
                                400, 503                             503

The credential is checked before the body is read, so that a stranger's megabytes are never taken
in, and again in the transaction that writes, so that a token revoked meanwhile writes nothing.
These are three round trips: the second carries session, devices and events, the third what follows
from those that were new. Whatever fails, nothing of the batch was written, and the tracker may send it
again.

A person may have so many devices and no more. Only the transaction knows which ones are new, so it decides
which events are rejected for that reason.
"""

import asyncio
import itertools
import json
import os
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import date, timedelta
from enum import StrEnum
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

import psycopg
from psycopg.errors import ForeignKeyViolation, InsufficientPrivilege, NotNullViolation
from psycopg.pq.abc import PGresult
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from resourceserver.api import session
from resourceserver.api.bodies import Body, Count, Timestamp
from resourceserver.api.errors import PRIVATE, DatabaseUnavailable, Problem, Unauthorized
from resourceserver.api.operation import INGEST, Operation
from resourceserver.api.session import Credential, Reader
from resourceserver.api.turns import Turns
from resourceserver.ingest import event_schema, events, fields
from resourceserver.ingest.events import APP_SESSIONS, CODING_SESSIONS, Row, Stream, Verdict
from shared import pipeline, queries
from shared.pipeline import Pipelines, Results, Sequel, Step
from shared.settings import Settings

STATEMENTS: Final = {
    name: pipeline.statement(text)
    for name, text in queries.load(Path(__file__).with_name("ingest.sql")).items()
}

Columns = dict[str, str]
"""Parameters of the statements that write a batch: JSON arrays, one value an event."""
_Validated = tuple[Verdict, Columns]

STREAMS: Final = (APP_SESSIONS, CODING_SESSIONS)
"""The streams that are open. The statement ``add_<stream>`` of each writes its events."""

MEDIA_TYPE: Final = "application/json"
MOST_AT_ONCE: Final = 2
"""How many batches of one person are written at once."""
MOST_WAITING: Final = 16
"""How many batches of one person wait to be read on or written; each is in memory while it does."""
MAX_BODY: Final = 40 * 1024 * 1024
"""Most bytes of a body, both as it comes and inflated."""
_SMALL: Final = 32 * 1024
"""Bytes of a body that is validated without a thread: about a hundred events, in about a millisecond."""
_PIECE: Final = 256 * 1024
"""Most bytes that are inflated before other requests get their turn."""
LARGE_BODIES: Final = 6
"""How many larger bodies there are at once, one of each person."""
GRACE_S: Final = 10.0
LOWEST_RATE: Final = 16 * 1024
"""How a body must come: a client may take ``GRACE_S`` and a second for so many bytes."""
LONGEST_S: Final = 300.0
"""How long a body may take to come, however steadily it does."""


class UnsupportedMediaType(Problem):
    """A body of a type or an encoding that is not read here."""

    status = 415
    code = "unsupported_media_type"


class PayloadTooLarge(Problem):
    """the body is larger than 40 MiB"""

    status = 413
    code = "payload_too_large"


class TooSlow(Problem):
    """the body comes too slowly"""

    status = 408
    code = "invalid_request"


class Busy(DatabaseUnavailable):
    """other large batches are being written; send this one again"""


class BatchTooLarge(Problem):
    """A batch of more events than one request may hold."""

    status = 413
    code = "batch_too_large"
    parameter = "events"


class InvalidJSON(Problem):
    """the body is not JSON"""

    status = 400
    code = "invalid_json"


class InvalidRequest(Problem):
    """A body that is JSON and no batch."""

    status = 400
    code = "invalid_request"

    def __init__(self, message: str, parameter: str | None) -> None:
        """Name the field at fault, None for the body itself."""
        super().__init__(message)
        self.parameter = parameter


# mypy knows only members that are written out.
RejectionCode = StrEnum("RejectionCode", {code.upper(): code for code in events.CODES})  # type: ignore[misc]
RejectionCode.__doc__ = "Why an event is rejected, in the order in which reasons are tried."


class Rejection(Body):
    """Why one event was not written."""

    index: Count
    """Its place in the request's array."""
    code: RejectionCode
    """Why, for programs."""
    message: str
    """The field, and what is wrong with it."""


class IngestResult(Body):
    """What became of a batch; the three add up to the number of its events."""

    accepted: Count
    """How many were written."""
    duplicates: Count
    """How many were there already, by their idempotency keys."""
    rejected: list[Rejection]
    """The events that were not written, by index."""
    server_time: Timestamp
    """The server's clock, by which a tracker sees how wrong its own is."""


def operation(stream: Stream) -> Operation:
    """Return what is described of the route of ``stream``."""
    words = stream.name.replace("_", " ")
    return Operation(
        name=f"ingest_{stream.name}",
        path=f"/api/v1/ingest/{stream.name.replace('_', '-')}",
        tag=INGEST,
        summary=f"Write {words}; each event is judged by itself.",
        answers={200: IngestResult},
        method="POST",
        scope=f"ingest:{stream.name}",
        request=event_schema.batch(stream),
        problems=(
            InvalidJSON(),
            InvalidRequest("events: must be an array", "events"),
            BatchTooLarge(f"events: 1001 given, at most {events.MAX_EVENTS} are allowed"),
            PayloadTooLarge(),
            TooSlow(),
            UnsupportedMediaType("Content-Type: must be application/json"),
            Busy(),
        ),
    )


@dataclass
class Load:
    """What the bodies that are being taken in cost this process, all streams together."""

    writing: Turns
    """Who may write a batch."""
    large: Turns
    """Who may have a large body in memory, from its first bytes beyond a small one until it is written."""
    validating: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a large body is validated."""


def routes(chosen: Settings, reader: Reader, writers: Pipelines) -> list[Route]:
    """Return a route for each stream; ``writers`` are connections of the ``ingester`` role."""
    load = Load(
        Turns(chosen.ingest_connections, MOST_AT_ONCE, most_waiting=MOST_WAITING),
        Turns(LARGE_BODIES, 1, full=Busy, most_waiting=MOST_WAITING),
    )
    return [_route(stream, chosen, reader, writers, load) for stream in STREAMS]


def _route(
    stream: Stream, chosen: Settings, reader: Reader, writers: Pipelines, load: Load
) -> Route:
    described = operation(stream)
    scopes = (f"ingest:{stream.name}",)

    async def answer(request: Request) -> Response:
        who = session.credential(request, scopes, (chosen.base_url,))
        await reader.check(who)
        async with AsyncExitStack() as held:
            place = load.large.place(who.token.user_id)
            body = await read_body(request, lambda: held.enter_async_context(place))
            now_ms = time.time_ns() // 1_000_000
            validate = partial(_validate, stream, body, now_ms=now_ms, full_urls=chosen.full_urls)
            verdict, columns = (
                validate() if len(body) <= _SMALL else await _in_turn(validate, load.validating)
            )
            # A large body keeps its place until it is written: what was read from it waits here in memory.
            async with load.writing.place(who.token.user_id):
                written = await write(writers, who, stream, verdict.rows, columns)
        result = _result(verdict, written, now_ms)
        return Response(result, headers=PRIVATE, media_type="application/json")

    return Route(described.path, answer, methods=[described.method], name=described.name)


async def _in_turn(validate: Callable[[], _Validated], validating: asyncio.Lock) -> _Validated:
    """Run ``validate`` in a thread and return its result. Raises what it raises.

    In a thread, so that the milliseconds of a full batch hold no other request up; in turn, since
    more threads would only share one processor and add up their memory. At most one body of each person
    waits here, so the wait is short.
    """
    async with validating:
        return await asyncio.to_thread(validate)


async def read_body(request: Request, take_place: Callable[[], Awaitable[None]]) -> bytearray:
    """Return the request's body, inflated; ``take_place`` is awaited before a large one is read on.

    Raises UnsupportedMediaType, PayloadTooLarge, InvalidJSON, TooSlow and what ``take_place`` does. Never
    more than ``MAX_BODY`` is taken in, whatever length is announced. A small body needs no place, so that
    large ones cannot keep ordinary trackers out.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != MEDIA_TYPE:
        raise UnsupportedMediaType(f"Content-Type: must be {MEDIA_TYPE}")
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", "x-gzip"):
        raise UnsupportedMediaType("Content-Encoding: must be gzip, or none")
    # Any number of zeros may come first, and Python reads no integer of more than 4300 digits.
    announced = request.headers.get("content-length", "").lstrip("0")
    if announced.isdecimal() and (len(announced) > 18 or int(announced) > MAX_BODY):
        raise PayloadTooLarge
    body = bytearray()
    pieces = _bounded(_in_time(request.stream()))
    if encoding != "identity":
        pieces = _bounded(_inflated(pieces))
    try:
        async for piece in pieces:
            was_small = len(body) <= _SMALL
            body += piece
            if was_small and len(body) > _SMALL:
                await take_place()
    except ClientDisconnect as error:
        # Nobody is there to read this, but our log shall not show it as a failure of ours.
        raise InvalidJSON("the body ended early") from error
    return body


async def _in_time(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield ``pieces``. Raises TooSlow if the client takes too long; our own time does not count."""
    size, spent_s = 0, 0.0
    while True:
        allowed_s = min(GRACE_S + size / LOWEST_RATE, LONGEST_S)
        started = time.monotonic()
        try:
            async with asyncio.timeout(allowed_s - spent_s):
                piece = await anext(pieces, None)
        except TimeoutError as error:
            raise TooSlow from error
        if piece is None:
            return
        spent_s += time.monotonic() - started
        size += len(piece)
        yield piece


async def _bounded(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield ``pieces``. Raises PayloadTooLarge as soon as they exceed ``MAX_BODY``."""
    size = 0
    async for piece in pieces:
        size += len(piece)
        if size > MAX_BODY:
            raise PayloadTooLarge
        yield piece


async def _inflated(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield what the single gzip member in ``pieces`` holds (RFC 1952), piece by piece.

    Raises InvalidJSON where it is damaged, ends early or is followed by anything.
    """
    inflater = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        async for piece in pieces:
            rest = piece
            while rest:
                inflated = inflater.decompress(rest, _PIECE)
                rest = inflater.unconsumed_tail
                yield inflated
                await asyncio.sleep(0)
            # What follows the member is not read on, for zlib would copy each piece with all before it.
            if inflater.unused_data:
                break
    except zlib.error as error:
        raise InvalidJSON("the body is not gzip") from error
    if not inflater.eof or inflater.unused_data:
        raise InvalidJSON("the body is not one whole gzip member")


def _validate(stream: Stream, body: bytearray, *, now_ms: int, full_urls: bool) -> _Validated:
    verdict = judge(stream, body, now_ms=now_ms, full_urls=full_urls)
    return verdict, columns_of(stream, verdict.rows)


def judge(stream: Stream, body: bytearray, *, now_ms: int, full_urls: bool) -> Verdict:
    """Return what becomes of the events in ``body``.

    Raises PayloadTooLarge, InvalidJSON, InvalidRequest and BatchTooLarge, for the batch as a whole.
    """
    if not events.is_parsable(body):
        raise PayloadTooLarge(f"the body holds more than {events.MAX_MARKS} values")
    try:
        batch = events.read_batch(events.parse(body))
    except events.NotJSONError as error:
        raise InvalidJSON from error
    except events.MalformedBatchError as error:
        raise InvalidRequest(str(error), error.field) from error
    except events.BatchTooLargeError as error:
        raise BatchTooLarge(str(error)) from error
    return events.judge(stream, batch, now_ms=now_ms, full_urls=full_urls)


def columns_of(stream: Stream, rows: list[Row]) -> Columns:
    """Return the parameters by which ``rows`` and their devices are written."""
    add = STATEMENTS[f"add_{stream.name}"]
    return {
        "id": fields.compact(_ids(len(rows))),
        "devices": fields.compact(_devices(rows)),
    } | {
        name: fields.compact([row.get(name) for row in rows])
        for name in add.parameters
        if name not in ("id", "user_id", "source", "most_devices")
    }


class Written(NamedTuple):
    """What became of the rows of a batch."""

    new: int
    """How many were new."""
    refused_devices: frozenset[str]
    """Devices that could not be added; their rows were not written."""


async def write(
    writers: Pipelines, who: Credential, stream: Stream, rows: list[Row], columns: Columns
) -> Written:
    """Write ``rows``, given as ``columns``, in one transaction.

    Raises Unauthorized, InsufficientScope and DatabaseUnavailable; then nothing was written.
    """
    if not rows:
        return Written(0, frozenset())
    common = {
        "user_id": who.token.user_id,
        "source": rows[0]["source"],
        "most_devices": events.MAX_DEVICES,
    }
    steps = (
        (session.OPEN_SESSION, who.parameters()),
        (STATEMENTS["lock_new_devices"], columns | common),
        (STATEMENTS["add_devices"], columns | common),
        (STATEMENTS[f"add_{stream.name}"], columns | common),
    )
    then = (STATEMENTS["mark_days"], STATEMENTS["count_up"])

    def consequences(results: Results) -> Sequence[Step]:
        refused = _refused(results)
        kept = [row for row in rows if row["device"] not in refused] if refused else rows
        values = common | {"stream": stream.name} | _consequences(kept, results[3])
        return [(statement, values) for statement in then]

    try:
        # Never twice by ourselves: only the tracker can tell that a batch was not answered.
        results = await writers.run(steps, sequel=Sequel(then, consequences), may_repeat=False)
    except (ForeignKeyViolation, NotNullViolation) as error:
        # The device or the whole account was deleted between two statements of ours.
        raise DatabaseUnavailable from error
    except InsufficientPrivilege as error:
        # The token was revoked while the batch waited: the policies see no session any more.
        raise Unauthorized.invalid_token(who.scopes) from error
    except psycopg.InternalError as error:
        # A quota that is used up, files over their limit, a server that only reads: none of it is the
        # batch's fault, and all of it may pass.
        raise DatabaseUnavailable from error
    except psycopg.Error as error:
        raise session.problem(error, who) from error
    return Written(results[3].ntuples, _refused(results))


def _refused(results: Results) -> frozenset[str]:
    """Return the names of the devices that ``add_devices`` has not made."""
    names = results[2]
    return frozenset((names.get_value(n, 0) or b"").decode() for n in range(names.ntuples))


def _devices(rows: list[Row]) -> list[dict[str, str | None]]:
    """Return each device named in ``rows``, with the first platform that is named beside it."""
    platforms: dict[str, str | None] = {}
    for row in rows:
        name = row["device"]
        platforms[name] = platforms.get(name) or row.get("platform")
    return [{"name": name, "platform": platform} for name, platform in platforms.items()]


def _ids(count: int) -> list[str]:
    """Return new random ids: UUIDs of version 4 (RFC 9562, section 5.4).

    Asking the system for random bytes once is ten times faster than once for each; some builds of
    Postgres open a file for each of theirs.
    """
    digits = os.urandom(16 * count).hex()
    return [
        f"{digits[n : n + 12]}4{digits[n + 13 : n + 16]}8{digits[n + 17 : n + 32]}"
        for n in range(0, len(digits), 32)
    ]


_DAY_MS: Final = 86_400_000


def _consequences(rows: list[Row], written: PGresult) -> dict[str, Any]:
    """Return which days in UTC the new ones of ``rows`` touch, and what each device has sent.

    ``written`` has the keys of those that were new. An event's end is no part of it; one without
    length touches the day of its start.
    """
    new = rows
    if written.ntuples < len(rows):
        keys = {written.get_value(n, 0) for n in range(written.ntuples)}
        new = [row for row in rows if row["idempotency_key"].encode() in keys]
    days = set()
    newest: dict[str, int] = {}
    counts = dict.fromkeys((row["device"] for row in rows), 0)
    for row in new:
        device, started, ended = row["device"], row["started_ms"], row["ended_ms"]
        days.add(started // _DAY_MS)
        days.add(max(ended - 1, started) // _DAY_MS)
        newest[device] = max(ended, newest.get(device, ended))
        counts[device] += 1
    return {
        "days": [str(date(1970, 1, 1) + timedelta(day)) for day in days],
        "counts": fields.compact(
            [
                {"device": device, "newest_ms": newest.get(device), "count": count}
                for device, count in counts.items()
            ]
        ),
    }


def _result(verdict: Verdict, written: Written, now_ms: int) -> bytes:
    """Return the answer's body. A valid event that was not written is a duplicate of one that was."""
    rejected = verdict.rejected
    if written.refused_devices:
        beyond = (_beyond_the_ceiling(row, written.refused_devices) for row in verdict.rows)
        rejected = sorted(
            [*rejected, *itertools.chain.from_iterable(beyond)], key=itemgetter("index")
        )
    valid = len(verdict.rows) + verdict.repeated + len(verdict.rejected) - len(rejected)
    return json.dumps(
        {
            "accepted": written.new,
            "duplicates": valid - written.new,
            "rejected": rejected,
            "server_time": fields.timestamp(now_ms),
        }
    ).encode()


def _beyond_the_ceiling(row: Row, refused: frozenset[str]) -> list[dict[str, Any]]:
    """Return why the events of ``row`` are rejected, if its device is one of ``refused``."""
    if row["device"] not in refused:
        return []
    message = f"device: is new, and the account has {events.MAX_DEVICES} devices already"
    return [
        {"index": index, "code": "too_many_devices", "message": message} for index in row["indexes"]
    ]

"""The routes of ingest: events of trackers, validated one by one and written in one transaction.

    credential ──► disk ──► media type ──► body ──► batch ──► verdict ──► transaction ──► counts
     401, 403      503         415     408, 413, 429  400, 413              401, 429       200
                                         400, 503                             503

The credential is checked before the body is read, so that a request without a valid token cannot send
megabytes, and again in the transaction that writes, so that a token revoked meanwhile writes nothing. These
are three round trips: the second carries session, devices and events, the third the writes that depend on
which events were new. After any failure, nothing of the batch is written, and the tracker may send it again.

The number of devices of a person is limited. Only the transaction knows which devices are new, so it decides
which events are rejected for that reason.
"""

import asyncio
import itertools
import json
import os
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import date, timedelta
from enum import StrEnum
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

import psycopg
from psycopg.errors import ForeignKeyViolation, InsufficientPrivilege, NotNullViolation
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from resourceserver.api import session
from resourceserver.api.arrival import TooSlow, in_time
from resourceserver.api.bodies import Body, Count, Timestamp
from resourceserver.api.errors import (
    PRIVATE,
    DatabaseUnavailable,
    Problem,
    StorageFull,
    Unauthorized,
)
from resourceserver.api.operation import INGEST, Operation
from resourceserver.api.session import Credential, Reader, Served
from resourceserver.api.turns import Turns
from resourceserver.ingest import event_schema, events, fields
from resourceserver.ingest.events import APP_SESSIONS, CODING_SESSIONS, Row, Stream, Verdict
from shared import pipeline, priority, queries
from shared.metrics import INGESTED, REJECTIONS
from shared.pipeline import Pipelines, Results, Sequel, Step
from shared.settings import Settings
from shared.storage import Storage

STATEMENTS: Final = {
    name: pipeline.statement(text)
    for name, text in queries.load(Path(__file__).with_name("ingest.sql")).items()
}

Columns = dict[str, str | None]
"""The parameters of the statements that write a batch: JSON arrays with one value for each event, and None
for what no event has."""
_Validated = tuple[Verdict, Columns]
_Done = TypeVar("_Done")

STREAMS: Final = (APP_SESSIONS, CODING_SESSIONS)
"""The streams that accept events. The statement ``add_<stream>`` of each writes its events."""

MEDIA_TYPE: Final = "application/json"
MOST_AT_ONCE: Final = 2
"""The most batches of one person that are written at once."""
MOST_WAITING: Final = 16
"""The most batches of one person that wait to be read or written; each waits in memory."""
MAX_BODY: Final = 40 * 1024 * 1024
"""Most bytes of a body, both as sent and inflated."""
_SMALL: Final = 32 * 1024
"""Bytes of a body that is validated without a thread: about a hundred events, in about a millisecond."""
_PIECE: Final = 64 * 1024
"""Most bytes that are inflated before other requests get their turn: in less than 0.2 ms."""
LARGE_BODIES: Final = 6
"""The most larger bodies at once, one of each person."""
REST: Final = 4.0
"""The rest of a person after a large body while others are served, by the processor time that it took."""
LONGEST_REST_S: Final = 1.0
"""The longest rest, in seconds."""


class UnsupportedMediaType(Problem):
    """A body of a type or an encoding that is not accepted."""

    status = 415
    code = "unsupported_media_type"


class PayloadTooLarge(Problem):
    """the body is larger than 40 MiB"""

    status = 413
    code = "payload_too_large"


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


class EndedEarly(InvalidJSON):
    """the body ended early"""


class InvalidRequest(Problem):
    """A body that is JSON but no batch."""

    status = 400
    code = "invalid_request"

    def __init__(self, message: str, parameter: str | None) -> None:
        """Keep the name of the wrong field, None for the body itself."""
        super().__init__(message)
        self.parameter = parameter


# mypy knows only members that are written out.
RejectionCode = StrEnum("RejectionCode", {code.upper(): code for code in events.CODES})  # type: ignore[misc]
RejectionCode.__doc__ = "Why an event is rejected, in the order in which reasons are tried."


class Rejection(Body):
    """Why one event was not written."""

    index: Count
    """The index of the event in the request's array."""
    code: RejectionCode
    """The reason, for programs."""
    message: str
    """The field, and the reason in words."""


class IngestResult(Body):
    """The result of a batch; the three members add up to the number of its events."""

    accepted: Count
    """The number of events that were written."""
    duplicates: Count
    """The number of events whose idempotency keys existed already."""
    rejected: list[Rejection]
    """The events that were not written, by index."""
    server_time: Timestamp
    """The server's clock, with which a tracker can check its own."""


def operation(stream: Stream) -> Operation:
    """Return the description of the route of ``stream``."""
    words = stream.name.replace("_", " ")
    return Operation(
        name=f"ingest_{stream.name}",
        path=f"/api/v1/ingest/{stream.name.replace('_', '-')}",
        tag=INGEST,
        summary=f"Write {words}; each event is validated by itself.",
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
            StorageFull(),
        ),
    )


@dataclass
class Load:
    """The load of this process by bodies that are being read, of all streams together."""

    writing: Turns
    """The places for batches that are written."""
    large: Turns
    """The places for large bodies in memory, from the end of their small part until they are written."""
    storage: Storage
    """The disk of the database."""
    thread: ThreadPoolExecutor = field(
        default_factory=partial(
            ThreadPoolExecutor,
            max_workers=1,
            thread_name_prefix="large-batches",
            initializer=partial(priority.give_way, priority.LITTLE_LOWER),
        )
    )
    """Validates large bodies and renders their answers. It gives way to the thread that answers requests,
    which would otherwise wait for a processor at each turn of its loop."""


@dataclass
class LargeBody:
    """The place of a large body, and the work on it.

    While others are served too, the person gets the next place only after a rest, which is a multiple of the
    processor time of the work. The thread shares the interpreter with the one that answers requests, so each
    request waits for it several times: without the rest, one person could keep it busy all the time.
    """

    turns: Turns
    served: Served
    person: UUID
    took_s: float = 0.0
    """The processor time of the work so far."""

    async def __aenter__(self) -> None:
        """Wait for a place. Raises what ``Turns.take`` does."""
        await self.turns.take(self.person)

    async def __aexit__(self, *_: object) -> None:
        """Give the place back, at once or after the rest."""
        if self.took_s and self.served.is_shared():
            self.turns.give_back_after(self.person, min(REST * self.took_s, LONGEST_REST_S))
        else:
            self.turns.give_back(self.person)

    async def run(self, thread: ThreadPoolExecutor, work: Callable[[], _Done]) -> _Done:
        """Run ``work`` in the thread for large bodies and return its result. Raises what it raises.

        In a thread, so that the milliseconds of a full batch delay no other request; one at a time, since
        more threads would only share one processor and add up their memory. At most one body of each person
        waits here, so the wait is short.
        """

        def measured() -> _Done:
            begun_s = time.thread_time()
            try:
                return work()
            finally:
                self.took_s += time.thread_time() - begun_s

        return await asyncio.get_running_loop().run_in_executor(thread, measured)


def load_of(chosen: Settings, storage: Storage) -> Load:
    """Return the load of a process, in which nothing is read yet."""
    return Load(
        Turns(chosen.ingest_connections, MOST_AT_ONCE, name="batches", most_waiting=MOST_WAITING),
        Turns(LARGE_BODIES, 1, full=Busy, name="large_batches", most_waiting=MOST_WAITING),
        storage,
    )


def routes(chosen: Settings, reader: Reader, writers: Pipelines, load: Load) -> list[Route]:
    """Return a route for each stream; ``writers`` are connections of the ``ingester`` role."""
    return [_route(stream, chosen, reader, writers, load) for stream in STREAMS]


def _route(
    stream: Stream, chosen: Settings, reader: Reader, writers: Pipelines, load: Load
) -> Route:
    described = operation(stream)
    scopes = (f"ingest:{stream.name}",)

    async def answer(request: Request) -> Response:
        who = session.credential(request, scopes, (chosen.base_url,))
        await reader.check(who)
        if load.storage.is_full():
            raise StorageFull
        async with AsyncExitStack() as held:
            place = LargeBody(load.large, reader.served, who.token.user_id)
            body = await read_body(request, lambda: held.enter_async_context(place))
            now_ms = time.time_ns() // 1_000_000
            validate = partial(_validate, stream, body, now_ms=now_ms, full_urls=chosen.full_urls)
            is_small = len(body) <= _SMALL
            verdict, columns = validate() if is_small else await place.run(load.thread, validate)
            # A large body keeps its place until it is written, because its rows wait in memory.
            async with load.writing.place(who.token.user_id):
                written = await write(
                    writers, who, stream, verdict.rows, columns, gives_way=not is_small
                )
            render = partial(_rendered, stream, verdict, written, now_ms)
            rendered = render() if is_small else await place.run(load.thread, render)
        return Response(rendered, headers=PRIVATE, media_type="application/json")

    return Route(described.path, answer, methods=[described.method], name=described.name)


async def read_body(
    request: Request,
    take_place: Callable[[], Awaitable[None]],
    *,
    media_types: tuple[str, ...] | None = (MEDIA_TYPE,),
    most_bytes: int = MAX_BODY,
) -> bytearray:
    """Return the request's body, inflated; ``take_place`` is awaited before the rest of a large one is read.

    Raises UnsupportedMediaType, PayloadTooLarge, InvalidJSON, TooSlow and what ``take_place`` does. At most
    ``most_bytes`` are read, whatever length is announced. A small body needs no place, so that large ones
    cannot delay ordinary trackers. Without ``media_types`` a body of any type is read.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_types is not None and media_type not in media_types:
        raise UnsupportedMediaType(f"Content-Type: must be {' or '.join(media_types)}")
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", "x-gzip"):
        raise UnsupportedMediaType("Content-Encoding: must be gzip, or none")
    # The number may begin with any number of zeros, and Python reads no integer of more than 4300 digits.
    announced = request.headers.get("content-length", "").lstrip("0")
    if announced.isdecimal() and (len(announced) > 18 or int(announced) > most_bytes):
        raise _too_large(most_bytes)
    body = bytearray()
    pieces = _bounded(in_time(request.stream()), most_bytes)
    if encoding != "identity":
        pieces = _bounded(_inflated(pieces), most_bytes)
    try:
        async for piece in pieces:
            was_small = len(body) <= _SMALL
            body += piece
            if was_small and len(body) > _SMALL:
                await take_place()
    except ClientDisconnect as error:
        # The client is gone. The problem keeps this from being logged as an error of the server.
        raise EndedEarly from error
    return body


async def _bounded(pieces: AsyncIterator[bytes], most_bytes: int) -> AsyncIterator[bytes]:
    """Yield ``pieces``. Raises PayloadTooLarge as soon as they exceed ``most_bytes``."""
    size = 0
    async for piece in pieces:
        size += len(piece)
        if size > most_bytes:
            raise _too_large(most_bytes)
        yield piece


def _too_large(most_bytes: int) -> PayloadTooLarge:
    if most_bytes == MAX_BODY:
        return PayloadTooLarge()
    return PayloadTooLarge(f"the body is larger than {most_bytes} bytes")


async def _inflated(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the contents of the single gzip member in ``pieces`` (RFC 1952), piece by piece.

    Raises InvalidJSON if it is damaged, ends early or is followed by anything.
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
            # Data after the member is not read: zlib would copy each piece together with all before it.
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
    """Return the verdict on the events in ``body``.

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
    """Return the parameters of the statements that write ``rows`` and their devices."""
    add = STATEMENTS[f"add_{stream.name}"]
    return {
        "id": fields.compact(_ids(len(rows))),
        "devices": fields.compact(_devices(rows)),
    } | {
        name: _column([row.get(name) for row in rows])
        for name in add.parameters
        if name not in ("id", "user_id", "source", "most_devices", "import_id")
    }


def _column(values: list[Any]) -> str | None:
    # Most trackers send half of the fields. Arrays of nulls took a quarter of the time that the database
    # needs for a batch.
    return fields.compact(values) if values.count(None) < len(values) else None


class Written(NamedTuple):
    """The result of writing the rows of a batch."""

    new: int
    """The number of new rows."""
    refused_devices: frozenset[str]
    """Devices that could not be added; their rows were not written."""
    too_old: Sequence[Row] = ()
    """Rows that were not written because sessions of their time are removed."""
    closed_before: str = ""
    """The first day whose sessions are accepted, if there is one."""


async def write(
    writers: Pipelines,
    who: Credential,
    stream: Stream,
    rows: list[Row],
    columns: Columns,
    *,
    gives_way: bool = False,
) -> Written:
    """Write ``rows``, given as ``columns``, in one transaction.

    It takes a connection that gives way to others if ``gives_way`` and one is free.
    Raises Unauthorized, InsufficientScope and DatabaseUnavailable; then nothing was written.
    """
    if not rows:
        return Written(0, frozenset())
    common = {
        "user_id": who.token.user_id,
        "source": rows[0]["source"],
        "most_devices": events.MAX_DEVICES,
        "import_id": None,
    }
    steps = (
        (session.OPEN_SESSION, who.parameters()),
        (STATEMENTS["lock_new_devices"], columns | common),
        (STATEMENTS["add_devices"], columns | common),
        (STATEMENTS[f"add_{stream.name}"], columns | common),
        (STATEMENTS["closed_before"], common),
    )
    then = (STATEMENTS["mark_days"], STATEMENTS["count_up"])

    def following(results: Results) -> Sequence[Step]:
        refused = _refused(results)
        kept = [row for row in rows if row["device"] not in refused] if refused else rows
        new = _new(results)
        values = common | {"stream": stream.name} | consequences(kept, new)
        return [(statement, values) for statement in then]

    try:
        # A write is never repeated here: only the tracker knows that a batch was not answered.
        results = await writers.run(
            steps, sequel=Sequel(then, following), may_repeat=False, gives_way=gives_way
        )
    except (ForeignKeyViolation, NotNullViolation) as error:
        # The device or the whole account was deleted between two statements.
        raise DatabaseUnavailable from error
    except InsufficientPrivilege as error:
        # The token was revoked while the batch waited: the policies see no session any more.
        raise Unauthorized.invalid_token(who.scopes) from error
    except psycopg.InternalError as error:
        # A full quota, files over their limit, a read-only server: the batch did not cause these, and all of
        # them may be temporary.
        raise DatabaseUnavailable from error
    except psycopg.Error as error:
        raise session.problem(error, who) from error
    closed = results[4].get_value(0, 0) if results[4].ntuples else None
    if closed is None:
        return Written(results[3].ntuples, _refused(results))
    day, refused = closed.decode(), _refused(results)
    old = too_old(rows, _new(results), refused, date.fromisoformat(day))
    return Written(results[3].ntuples, refused, old, day)


def _new(results: Results) -> set[str]:
    """Return the keys of the events that were new."""
    written = results[3]
    return {(written.get_value(n, 0) or b"").decode() for n in range(written.ntuples)}


def too_old(
    rows: Sequence[Row], new_keys: Set[str], refused: Set[str], closed_before: date
) -> list[Row]:
    """Return the rows that were left out because they begin before ``closed_before``, in UTC.

    One of a refused device is left out for that.
    """
    first_ms = (closed_before - date(1970, 1, 1)).days * _DAY_MS
    return [
        row
        for row in rows
        if row["started_ms"] < first_ms
        and row["idempotency_key"] not in new_keys
        and row["device"] not in refused
    ]


def _refused(results: Results) -> frozenset[str]:
    """Return the names of the devices that ``add_devices`` has not added."""
    names = results[2]
    return frozenset((names.get_value(n, 0) or b"").decode() for n in range(names.ntuples))


def _devices(rows: list[Row]) -> list[dict[str, str | None]]:
    """Return each device named in ``rows``, with the first platform that an event of it has."""
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


def consequences(
    rows: list[Row], new_keys: Set[str], longer_keys: Set[str] = frozenset()
) -> dict[str, Any]:
    """Return the days in UTC of the new ``rows``, and the number of new events of each device.

    ``new_keys`` has the keys of the new ones, ``longer_keys`` those of sessions that became longer, which are
    counted already. A session does not include its end; one without length belongs to the day of its start.
    """
    written_keys = new_keys | longer_keys
    written = [row for row in rows if row["idempotency_key"] in written_keys]
    days = set()
    oldest: dict[str, int] = {}
    newest: dict[str, int] = {}
    counts = dict.fromkeys((row["device"] for row in rows), 0)
    for row in written:
        device, started, ended = row["device"], row["started_ms"], row["ended_ms"]
        days.add(started // _DAY_MS)
        days.add(max(ended - 1, started) // _DAY_MS)
        oldest[device] = min(started, oldest.get(device, started))
        newest[device] = max(ended, newest.get(device, ended))
        counts[device] += row["idempotency_key"] in new_keys
    return {
        "days": [str(date(1970, 1, 1) + timedelta(day)) for day in days],
        "counts": fields.compact(
            [
                {
                    "device": device,
                    "oldest_ms": oldest.get(device),
                    "newest_ms": newest.get(device),
                    "count": count,
                }
                for device, count in counts.items()
            ]
        ),
    }


def _rendered(stream: Stream, verdict: Verdict, written: Written, now_ms: int) -> str:
    """Return the body of the answer, and count the events of the batch."""
    result = _result(verdict, written, now_ms)
    _count(stream, result)
    return json.dumps(result)


def _result(verdict: Verdict, written: Written, now_ms: int) -> dict[str, Any]:
    """Return the answer. A valid event that was not written is a duplicate of one that was."""
    rejected = verdict.rejected
    if written.refused_devices or written.too_old:
        beyond = (_beyond_the_ceiling(row, written.refused_devices) for row in verdict.rows)
        old = (_before_the_limit(row, written.closed_before) for row in written.too_old)
        rejected = sorted(
            [*rejected, *itertools.chain.from_iterable(itertools.chain(beyond, old))],
            key=itemgetter("index"),
        )
    valid = len(verdict.rows) + verdict.repeated + len(verdict.rejected) - len(rejected)
    return {
        "accepted": written.new,
        "duplicates": valid - written.new,
        "rejected": rejected,
        "server_time": fields.timestamp(now_ms),
    }


def _count(stream: Stream, result: dict[str, Any]) -> None:
    """Count the events of a batch for metrics."""
    INGESTED.add(stream.name, "accepted", amount=result["accepted"])
    INGESTED.add(stream.name, "duplicate", amount=result["duplicates"])
    INGESTED.add(stream.name, "rejected", amount=len(result["rejected"]))
    for each in result["rejected"]:
        REJECTIONS.add(stream.name, each["code"])


def _beyond_the_ceiling(row: Row, refused: frozenset[str]) -> list[dict[str, Any]]:
    """Return the rejections of the events of ``row``, if its device is one of ``refused``."""
    if row["device"] not in refused:
        return []
    message = f"device: is new, and the account has {events.MAX_DEVICES} devices already"
    return [
        {"index": index, "code": "too_many_devices", "message": message} for index in row["indexes"]
    ]


def _before_the_limit(row: Row, closed_before: str) -> list[dict[str, Any]]:
    """Return the rejections of the events of ``row``, whose sessions are removed."""
    message = f"started_at: is before {closed_before}, and sessions of that time are kept here as sums only"
    return [
        {"index": index, "code": "timestamp_out_of_range", "message": message}
        for index in row["indexes"]
    ]

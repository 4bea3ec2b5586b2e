"""The description of ingest for trackers: streams, fields, keys and limits.

It needs no credential and no database. The limits are those that ingest itself uses, and the schemas are made
of the fields that validate events.
"""

from typing import Any, Final, Literal

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from resourceserver.api.bodies import Body, Count, Milliseconds, Timestamp
from resourceserver.api.operation import INGEST, Operation
from resourceserver.ingest import event_schema, events, fields, route
from resourceserver.ingest.events import APP_SESSIONS, CODING_SESSIONS, Stream
from shared import API_VERSION

EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    APP_SESSIONS.name: {
        "idempotency_key": "laptop:42",
        "started_at": "2025-06-16T09:00:00Z",
        "ended_at": "2025-06-16T09:01:24Z",
        "app": "Code",
        "title": "main.py",
    },
    CODING_SESSIONS.name: {
        "idempotency_key": "laptop:code:7",
        "started_at": "2025-06-16T09:00:00Z",
        "duration_ms": 84_000,
        "project": "svc",
        "language": "Python",
        "file": "main.py",
    },
}
"""A valid event of each stream."""


class IngestEndpoint(Body):
    """The endpoint of a stream."""

    method: str
    """The HTTP method."""
    path: str


class Idempotency(Body):
    """The rule by which two events are the same."""

    field: str
    """The member with the key."""
    required: bool
    """Whether each event needs a key."""
    max_length: Count
    """Most characters of a key."""
    unique_per: Literal["user and stream"]
    """The scope of a key: it identifies one event within it."""
    derived_from: list[str]
    """The fields that identify an event without a key."""
    algorithm: Literal["sha256"]
    """The hash from which the server derives a key for an event without one."""
    on_repeat: Literal["ignored"]
    """What happens to an event whose key exists: the stored event stays unchanged."""


class BatchLimits(Body):
    """Limits of one request, and of one event."""

    max_events: Count
    """Most events of one request."""
    max_body_bytes: Count
    """Most bytes of a body, both before and after it is inflated."""
    max_session_ms: Milliseconds
    """Longest session, in milliseconds."""
    max_future_ms: Milliseconds
    """How far ahead of the server's clock an event may be."""
    min_timestamp: Timestamp
    """Earliest time of an event."""


class IngestStream(Body):
    """One kind of event, and the way to send it."""

    name: str
    """The name of the stream, as in scopes."""
    endpoint: IngestEndpoint
    """The endpoint for the events."""
    scope: str
    """The scope that a token needs."""
    content_type: str
    """The media type of the body."""
    event_schema: dict[str, Any]
    """JSON Schema, draft 2020-12."""
    idempotency: Idempotency
    """How repeated events are recognised."""
    limits: BatchLimits
    example: dict[str, Any]
    """A valid event."""


class ClientFields(Body):
    """The members of `client`."""

    name: str
    """The type of the tracker's name."""


class RequestFields(Body):
    """The members of a request, in words."""

    events: str
    """The type of the list of events."""
    client: ClientFields
    """The tracker, as an object."""


class IngestRequest(Body):
    """The members of a request."""

    fields: RequestFields


class ResultFields(Body):
    """The members of an answer."""

    fields: list[str]
    """The members of an answer."""


class RejectionReason(Body):
    """A reason why an event may be rejected."""

    code: route.RejectionCode
    message: str


class Advice(Body):
    """Recommendations for trackers."""

    flush_interval_ms: Milliseconds
    """How often to send a batch, in milliseconds."""
    retry: str
    """When to send a batch again."""


class IngestSchemaBody(Body):
    """The streams of events, and the way to send them."""

    version: str
    """The version of this interface."""
    streams: list[IngestStream]
    """The kinds of events that can be sent."""
    request: IngestRequest
    """What a request must look like."""
    result: ResultFields
    """What the answer to it looks like."""
    rejection_codes: list[RejectionReason]
    """Reasons for a rejection, in the order in which they are tried."""
    advice: Advice
    """When to send, and when to send again."""


INGEST_SCHEMA: Final = Operation(
    name="ingest_schema",
    path="/api/v1/ingest/schema",
    tag=INGEST,
    summary="The streams, fields, keys and limits of events that trackers send.",
    answers={200: IngestSchemaBody},
)


def document() -> IngestSchemaBody:
    """Return the document."""
    return IngestSchemaBody(
        version=API_VERSION,
        streams=[_stream(stream) for stream in route.STREAMS],
        request=IngestRequest(
            fields=RequestFields(
                events=f"array, {events.MAX_EVENTS} items at most",
                client=ClientFields(name="string, optional"),
            )
        ),
        result=ResultFields(fields=list(route.IngestResult.model_fields)),
        rejection_codes=[
            RejectionReason(code=route.RejectionCode(code), message=message)
            for code, message in events.CODES.items()
        ],
        advice=Advice(
            flush_interval_ms=60_000,
            retry="same keys, exponential backoff from 1 s to 5 min on 429/5xx",
        ),
    )


def _stream(stream: Stream) -> IngestStream:
    described = route.operation(stream)
    return IngestStream(
        name=stream.name,
        endpoint=IngestEndpoint(method=described.method, path=described.path),
        scope=str(described.scope),
        content_type=route.MEDIA_TYPE,
        event_schema={"$schema": event_schema.DIALECT} | event_schema.of(stream),
        idempotency=Idempotency(
            field="idempotency_key",
            required="idempotency_key" in stream.required,
            max_length=events.MAX_KEY,
            unique_per="user and stream",
            derived_from=["stream", "device", *stream.identity, "started_at"],
            algorithm="sha256",
            on_repeat="ignored",
        ),
        limits=BatchLimits(
            max_events=events.MAX_EVENTS,
            max_body_bytes=route.MAX_BODY,
            max_session_ms=events.MAX_SESSION_MS,
            max_future_ms=events.MAX_FUTURE_MS,
            min_timestamp=fields.timestamp(events.MIN_TIMESTAMP_MS),
        ),
        example=EXAMPLES[stream.name],
    )


def routes() -> list[Route]:
    """Return the route of the document, which is rendered once."""
    body = document().model_dump_json().encode()

    async def answer(_: Request) -> Response:
        headers = {"Cache-Control": "public, max-age=300"}
        return Response(body, headers=headers, media_type="application/json")

    return [Route(INGEST_SCHEMA.path, answer, name=INGEST_SCHEMA.name)]

"""ActivityWatch: its buckets and their events, read through its REST API on this machine.

Four properties of its server decide how this module reads:

- The newest events come first, and ``limit`` keeps the newest. So to read forward, it requests spans that
  are short enough for one answer.
- The server cuts events at ``start`` and at ``end``, and the key of a cut event would differ. So an event
  that began before a span belongs to an earlier span, and one that the end may have cut is requested by
  its id.
- With ``start``, the server finds no event that began more than a day before.
- A heartbeat prolongs the newest event of a bucket. So every other event has ended.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import quote

import httpx2
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from resourceserver.ingest import fields
from resourceserver.integrations.activitywatch import span_of

_LARGEST_ANSWER: Final = 64 * 2**20
_MARGIN_MS: Final = 1000
"""Requests begin this much earlier: ActivityWatch computes ends in floating point and may miss an edge."""


class ActivityWatchError(Exception):
    """ActivityWatch cannot be reached, or the server is another program; the message is one line."""


class UnreadableBucketError(Exception):
    """A bucket that ActivityWatch lists but does not return; the message is one line."""


class Bucket(BaseModel):
    """The events of one watcher on one host."""

    model_config = ConfigDict(frozen=True)

    id: str
    type: str
    client: str = ""
    hostname: str = ""


class Event(BaseModel):
    """A stretch of time; the members of ``data`` depend on the type of the bucket."""

    model_config = ConfigDict(frozen=True)

    id: int
    timestamp: AwareDatetime
    # The limits of ActivityWatch itself.
    duration: Annotated[float, Field(ge=-1e14, le=1e14, allow_inf_nan=False)]
    data: dict[str, Any] = {}

    @property
    def start_ms(self) -> int:
        """The start in milliseconds since 1970, rounded down."""
        return span_of(self.timestamp, self.duration).start_ms

    @property
    def end_ms(self) -> int:
        """The end, or the current end of an event that still grows."""
        return span_of(self.timestamp, self.duration).end_ms


class Slice(NamedTuple):
    """The events that began before ``end_ms`` and after the previous slice, in the order of their starts."""

    events: list[Event]
    end_ms: int


_BUCKETS: Final = TypeAdapter(dict[str, Bucket])
_EVENTS: Final = TypeAdapter(list[Event])


@dataclass(frozen=True)
class ActivityWatch:
    """One server of ActivityWatch."""

    http: httpx2.Client
    """A client with the address of the server."""
    page: int = 1000
    """The most events of an answer."""

    def device_id(self) -> str:
        """Return the id of the server, which does not depend on its address."""
        status, answer = self._get("/api/0/info")
        if status == HTTPStatus.OK and isinstance(answer, dict):
            device_id = answer.get("device_id")
            if isinstance(device_id, str):
                return device_id
        raise ActivityWatchError(f"{self.http.base_url} is not an ActivityWatch server")

    def buckets(self) -> list[Bucket]:
        """Return all buckets, in the order of their ids."""
        status, answer = self._get("/api/0/buckets/")
        if status != HTTPStatus.OK:
            raise ActivityWatchError(f"{self.http.base_url} answered {status}")
        try:
            buckets = _BUCKETS.validate_python(answer)
        except ValidationError as error:
            raise ActivityWatchError(
                f"{self.http.base_url} is not an ActivityWatch server"
            ) from error
        return [buckets[bucket_id] for bucket_id in sorted(buckets)]

    def last_before(self, bucket: str, at_ms: int) -> Event | None:
        """Return the newest event that began at ``at_ms`` or before, whole. Raises UnreadableBucketError."""
        # The server adds a millisecond to the requested end.
        events = self._events(bucket, limit="1", end=fields.timestamp(at_ms - 1))
        return self._whole(bucket, events[0], at_ms - 1) if events else None

    def slices(
        self, bucket: str, start_ms: int, end_ms: int, *, with_earlier: bool = False
    ) -> Iterator[Slice]:
        """Yield all events that begin in this span, uncut and in order, a page at a time.

        ``with_earlier`` adds to the first slice the events that reach into the span and began at most a day
        before it; their starts may be cut. A slice is read when the caller takes it. Raises
        UnreadableBucketError.
        """
        width_ms, limit = end_ms - start_ms, self.page
        while start_ms < end_ms:
            until_ms = min(start_ms + width_ms, end_ms)
            events = self._events(
                bucket,
                limit=str(limit),
                start=fields.timestamp(start_ms - _MARGIN_MS),
                end=fields.timestamp(until_ms),
            )
            if len(events) >= limit and (
                with_earlier or min(event.start_ms for event in events) >= start_ms
            ):
                # The answer may lack older events: halve the span, or double the limit for one millisecond.
                limit = limit if width_ms > 1 else 2 * limit
                width_ms = max(1, (until_ms - start_ms) // 2)
                continue
            uncut = [
                whole
                for event in events
                if (with_earlier or start_ms <= event.start_ms)
                and event.start_ms < until_ms
                and (whole := self._whole(bucket, event, until_ms))
            ]
            yield Slice(sorted(uncut, key=lambda event: (event.start_ms, event.id)), until_ms)
            start_ms, width_ms, limit = until_ms, 2 * width_ms, self.page
            with_earlier = False

    def _whole(self, bucket: str, event: Event, cut_ms: int) -> Event | None:
        """Return ``event`` uncut, if an answer may have cut it at ``cut_ms``; None if it was deleted."""
        if event.end_ms < cut_ms:
            return event
        status, answer = self._get(f"{_path(bucket)}/{event.id}")
        if status == HTTPStatus.NOT_FOUND:
            return None
        return self._validated(bucket, status, [answer])[0]

    def _events(self, bucket: str, **parameters: str) -> list[Event]:
        status, answer = self._get(_path(bucket), parameters)
        return self._validated(bucket, status, answer)

    def _validated(self, bucket: str, status: int, answer: Any) -> list[Event]:
        if status != HTTPStatus.OK:
            raise UnreadableBucketError(
                f"{bucket!r} cannot be read: ActivityWatch answered {status}"
            )
        try:
            return _EVENTS.validate_python(answer)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"]))
            message = f"{bucket!r} cannot be read: {place}: {first['msg']}"
            raise UnreadableBucketError(message) from error

    def _get(self, path: str, parameters: dict[str, str] | None = None) -> tuple[int, Any]:
        """Return status and JSON of an answer; None if it is no JSON or larger than 64 MiB."""
        content = bytearray()
        try:
            with self.http.stream("GET", path, params=parameters) as answer:
                for chunk in answer.iter_bytes():
                    content += chunk
                    if len(content) > _LARGEST_ANSWER:
                        return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, None
        except (httpx2.RequestError, httpx2.InvalidURL, UnicodeError) as error:
            reason = str(error) or type(error).__name__
            raise ActivityWatchError(f"{self.http.base_url} cannot be reached: {reason}") from error
        try:
            return answer.status_code, json.loads(content)
        except (ValueError, RecursionError):
            return answer.status_code, None


def _path(bucket: str) -> str:
    # An address cannot contain a lone surrogate; the server then answers that it has no such bucket.
    return f"/api/0/buckets/{quote(bucket, safe='', errors='replace')}/events"

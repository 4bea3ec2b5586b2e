"""Events of trackers: the rules for a batch and its events, and the rows to store.

    body ──parse──► JSON value ──read_batch──► Batch ──judge──► Verdict: rows and rejected entries
     NotJSONError ◄───┘              └──► MalformedBatchError, BatchTooLargeError

Each stream is one declaration: its fields in order, and those that identify an event. An event may break
several rules at once. The reported rule is the first in the order of ``CODES``, and within a code the first
in the order of the stream's fields; therefore all flaws of an event are collected before one is chosen.

This module knows nothing of the database or the web. Times are milliseconds since 1970, in UTC.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from resourceserver.ingest import fields
from resourceserver.ingest.fields import Flaw

MAX_EVENTS: Final = 1000
MAX_SESSION_MS: Final = 86_400_000
MAX_FUTURE_MS: Final = 3_600_000
MAX_DISAGREEMENT_MS: Final = 1000
"""The largest difference between ``ended_at`` and ``started_at`` plus ``duration_ms``."""
MIN_TIMESTAMP_MS: Final = 946_684_800_000
"""2000-01-01T00:00:00Z."""
MAX_KEY: Final = 200
MAX_DEVICE: Final = 128
MAX_DEVICES: Final = 1000
"""The most devices of one person."""
MAX_NAME: Final = 255
MAX_SOURCE: Final = 128
MAX_MARKS: Final = 3_000_000
"""Most commas, colons and opening brackets between the strings of a body. A thousand events at all
their limits have fewer: the 4096 bytes of ``metadata`` contain at most 2730 of them."""
MAX_URL: Final = 2048

CODES: Final[dict[str, str]] = {
    "not_an_object": "the event is not a JSON object",
    "missing_field": "a required field is absent or null",
    "invalid_type": "a value is of another JSON type than its field",
    "invalid_timestamp": "a time is not RFC 3339 with an offset, or does not exist",
    "timestamp_out_of_range": "a time lies before 2000-01-01, or in months of which only sums are kept",
    "timestamp_in_future": "a time lies more than an hour ahead of the server's clock",
    "invalid_interval": "the session ends before it starts",
    "duration_mismatch": "ended_at and duration_ms differ by more than a second",
    "duration_too_long": "the session lasts longer than 24 hours",
    "empty_string": "a required name or an idempotency key is blank",
    "string_too_long": "a name or an idempotency key is over its limit",
    "invalid_value": "a value cannot be stored, or is not an allowed one",
    "too_many_devices": "the event names a new device, and the account has as many as it may have",
}
"""Reasons for a rejection, in the order in which they are tried. When a batch is written, the last one is
detected, and times in months of which only sums are kept."""

_RANK: Final = {code: rank for rank, code in enumerate(CODES)}


@dataclass(frozen=True)
class Stream:
    """One kind of event that trackers send."""

    name: str
    """The name in scopes and derived keys: ``app_sessions``."""
    fields: Mapping[str, fields.Kind]
    """The fields in the order in which they are tried; others are ignored."""
    required: tuple[str, ...]
    """The required fields, besides one of ``ended_at`` and ``duration_ms``."""
    identity: tuple[str, ...]
    """The fields that identify an event of a device and start if it has no key of its own."""


_WHEN: Final[dict[str, fields.Kind]] = {
    "idempotency_key": fields.Key(MAX_KEY),
    "started_at": fields.Instant(may_be_blank=False),
    "ended_at": fields.Instant(),
    "duration_ms": fields.Duration(),
}
_WHERE: Final[dict[str, fields.Kind]] = {
    "device": fields.Name(MAX_DEVICE),
    "platform": fields.Choice(
        ("macos", "windows", "linux", "android", "ios", "web", "other"),
    ),
    "utc_offset": fields.Offset(),
    "metadata": fields.Extra(4096),
}

APP_SESSIONS: Final = Stream(
    name="app_sessions",
    fields={
        **_WHEN,
        "app": fields.Name(MAX_NAME, may_be_blank=False),
        "title": fields.Text(1024),
        "url": fields.Address(MAX_URL),
        "category": fields.Name(64, is_cut=True),
        "idle": fields.Flag(),
        **_WHERE,
    },
    required=("started_at", "app"),
    identity=("app",),
)

CODING_SESSIONS: Final = Stream(
    name="coding_sessions",
    fields={
        **_WHEN,
        **_WHERE,
        "project": fields.Name(MAX_NAME, may_be_blank=False),
        "language": fields.Name(64, is_cut=True),
        "file": fields.Text(1024, keeps_end=True),
        "branch": fields.Name(255, is_cut=True),
        "editor": fields.Name(64, is_cut=True),
        # Editors send ever new words here, and their time matters more than the word.
        "activity": fields.Choice(
            (
                "coding",
                "debugging",
                "building",
                "testing",
                "reviewing",
                "writing_docs",
                "ai_coding",
                "other",
            ),
            otherwise="other",
        ),
        "lines_added": fields.Count(10_000_000),
        "lines_removed": fields.Count(10_000_000),
        "is_write": fields.Flag(),
    },
    required=("started_at", "project"),
    identity=("project", "language", "file"),
)


class NotJSONError(Exception):
    """The body is not JSON."""


class MalformedBatchError(Exception):
    """A body that is JSON but no batch; ``field`` is the wrong field, None for the body itself."""

    def __init__(self, field: str | None, problem: str) -> None:
        """Keep the field's name apart; the message begins with it."""
        self.field = field
        super().__init__(f"{field or 'the body'}: {problem}")


class BatchTooLargeError(Exception):
    """A batch of more events than one request may hold."""


class Batch(NamedTuple):
    """The contents of a request."""

    events: list[Any]
    device: str
    """The device of events that name none: the client's name up to its first slash, or default."""
    source: str | None
    """The client's whole name, cut to ``MAX_SOURCE``."""


Row = dict[str, Any]
"""One event to store: the cleaned values of its fields, except the times, which are ``started_ms`` and
``ended_ms``. ``idempotency_key``, ``device``, ``source`` and ``indexes`` are always present; ``indexes`` are
the places of all events of the batch that have its key."""


class Verdict(NamedTuple):
    """The result of validation: rows, repeated and rejected add up to the number of events."""

    rows: list[Row]
    repeated: int
    """The number of valid events with the key of an earlier valid event of the batch, which is kept."""
    rejected: list[dict[str, Any]]
    """Rejections as the answer has them: ``index``, ``code`` and ``message``, ascending by index."""


def is_parsable(body: bytes | bytearray) -> bool:
    """Tell whether ``body`` has no more values than ``parse`` can build in reasonable memory.

    A value takes two bytes of JSON and up to two hundred of memory, so a body within the size limit could
    fill a gigabyte, in many events or in a single one, before it is validated.
    """
    # Most batches are too short to exceed the limit; counting would take longer than parsing them.
    if len(body) <= MAX_MARKS or _marks(body) <= MAX_MARKS:
        return True
    # Perhaps most marks are in strings. Without escapes, every other piece between quotes is a string.
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks, is_inside = 0, False
    for start in range(0, len(plain), _STRETCH):
        pieces = plain[start : start + _STRETCH].split(b'"')
        marks += _marks(b"".join(pieces[is_inside::2]))
        is_inside ^= len(pieces) % 2 == 0
        if marks > MAX_MARKS:
            return False
    return True


_STRETCH: Final = 256 * 1024


def _marks(text: bytes | bytearray) -> int:
    return sum(map(text.count, (b",", b":", b"[", b"{")))


def parse(body: bytes | bytearray) -> Any:
    """Return the JSON value in ``body``. The last of equal keys in an object wins. Raises NotJSONError.

    A number outside the range of a double becomes infinite and half of a surrogate pair is kept, so that only
    the event that contains it is rejected. Therefore the parser is the standard library's: pydantic's is a
    fifth faster, but refuses the whole body because of half of a surrogate pair.
    """
    try:
        return _DECODER.decode(str(body, "utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise NotJSONError from error


def _integer(digits: str) -> int | float:
    # Numbers of up to 308 digits are in range. Python reads no integer of more than 4300 digits.
    return int(digits) if len(digits) <= 308 else float(digits)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_int=_integer, parse_constant=_refuse)


def read_batch(document: Any) -> Batch:
    """Return the batch of a request. Raises MalformedBatchError, and then BatchTooLargeError.

    Null counts as absent, so ``client`` and its name may be null.
    """
    if not isinstance(document, dict):
        raise MalformedBatchError(None, "must be a JSON object")
    events = document.get("events")
    if not isinstance(events, list):
        raise MalformedBatchError("events", "must be an array")
    client = document.get("client")
    if not isinstance(client, dict | None):
        raise MalformedBatchError("client", "must be an object")
    name = client.get("name") if client else None
    if not isinstance(name, str | None):
        raise MalformedBatchError("client.name", "must be a string")
    if name is not None and not fields.is_storable(name):
        raise MalformedBatchError("client.name", fields.UNSTORABLE)
    if len(events) > MAX_EVENTS:
        raise BatchTooLargeError(f"events: {len(events)} given, at most {MAX_EVENTS} are allowed")
    return Batch(events, _default_device(name or ""), (name or "")[:MAX_SOURCE].strip() or None)


def _default_device(client_name: str) -> str:
    device = client_name.partition("/")[0].strip()
    return fields.normal(device, MAX_DEVICE)[:MAX_DEVICE].rstrip() or "default"


def judge(stream: Stream, batch: Batch, *, now_ms: int, full_urls: bool) -> Verdict:
    """Return the rows of the valid events of ``batch``, each key once, and the rejections of the others.

    ``now_ms`` is the server's clock. Unless ``full_urls``, addresses are shortened as
    ``web_address`` describes.
    """
    rows: dict[str, Row] = {}
    rejected: list[dict[str, Any]] = []
    for index, event in enumerate(batch.events):
        row, flaws = _read_event(stream, event, now_ms)
        if flaws:
            code, message = _first(stream, flaws)
            rejected.append({"index": index, "code": code, "message": message})
            continue
        row.setdefault("device", batch.device)
        row["source"] = batch.source
        if "url" in row:
            row["url"], row["domain"] = web_address(row["url"], full_urls=full_urls)
        if "idempotency_key" not in row:
            row["idempotency_key"] = derived_key(stream, row)
        row = rows.setdefault(row["idempotency_key"], row)
        row.setdefault("indexes", []).append(index)
    repeated = len(batch.events) - len(rejected) - len(rows)
    return Verdict(list(rows.values()), repeated, rejected)


_Flaws = list[tuple[str, Flaw]]
"""The flaws of an event, each with the name of its field."""


def _read_event(stream: Stream, event: Any, now_ms: int) -> tuple[Row, _Flaws]:
    """Return the row of ``event``, which is complete only if there are no flaws."""
    if not isinstance(event, dict):
        return {}, [("event", Flaw("not_an_object", "must be a JSON object"))]
    row: Row = {}
    flaws: _Flaws = []
    for name in stream.required:
        if event.get(name) is None:
            flaws.append((name, Flaw("missing_field", "is required")))
    for name, value in event.items():
        kind = stream.fields.get(name)
        if kind is None:
            flaws += _surplus_flaws(name, value)
        elif value is not None:
            try:
                clean = kind.read(value)
            except Flaw as flaw:
                flaws.append((name, flaw))
                continue
            if clean is not None:
                row[name] = clean
    flaws += _settle_times(row, flaws, now_ms)
    return row, flaws


def _first(stream: Stream, flaws: _Flaws) -> tuple[str, str]:
    """Return code and message of the flaw that is reported: the first by code, then by field."""
    places = {name: place for place, name in enumerate(stream.fields)}
    name, flaw = min(
        flaws, key=lambda each: (_RANK[each[1].code], places.get(each[0], len(places)))
    )
    return flaw.code, f"{name}: {flaw}"


def _settle_times(row: Row, flaws: _Flaws, now_ms: int) -> _Flaws:
    """Turn the times of ``row`` into ``started_ms`` and ``ended_ms``; return their flaws.

    ``flaws`` are those found before. A time that could not be read gets no further flaw. The other times are
    still checked, because a time out of range has a code that comes before that of an invalid duration.
    """
    started = row.pop("started_at", None)
    ended = row.pop("ended_at", None)
    duration = row.pop("duration_ms", None)
    has_end = ended is not None or duration is not None
    if not has_end and not {"ended_at", "duration_ms"}.intersection(name for name, _ in flaws):
        return [("ended_at", Flaw("missing_field", "this or duration_ms is required"))]
    if started is None:
        return []
    if not has_end:
        # The event is rejected in any case. An end at its start causes no further flaw.
        ended = started
    ends = started + duration if ended is None else ended
    row["started_ms"], row["ended_ms"] = started, ends
    length, latest = ends - started, now_ms + MAX_FUTURE_MS
    given = length if duration is None else duration
    if (
        MIN_TIMESTAMP_MS <= started <= ends <= latest
        and length <= MAX_SESSION_MS
        and 0 <= given <= MAX_SESSION_MS
        and abs(length - given) <= MAX_DISAGREEMENT_MS
    ):
        return []
    # An end that is computed from the duration obeys the same rules; flaws name the field that was sent.
    end, end_is = ("duration_ms", "gives an end") if ended is None else ("ended_at", "is")
    early, future = "before 2000-01-01", "more than 1 hour ahead of the server's clock"
    found = [
        (started < MIN_TIMESTAMP_MS, "started_at", "timestamp_out_of_range", f"is {early}"),
        (ends < MIN_TIMESTAMP_MS, end, "timestamp_out_of_range", f"{end_is} {early}"),
        (started > latest, "started_at", "timestamp_in_future", f"is {future}"),
        (ends > latest, end, "timestamp_in_future", f"{end_is} {future}"),
        (length < 0, end, "invalid_interval", f"{end_is} before started_at"),
        (given < 0, "duration_ms", "invalid_interval", "is negative"),
        (
            abs(length - given) > MAX_DISAGREEMENT_MS,
            "duration_ms",
            "duration_mismatch",
            "differs from ended_at by more than 1 second",
        ),
        (length > MAX_SESSION_MS, end, "duration_too_long", f"{end_is} more than 24 hours later"),
        (given > MAX_SESSION_MS, "duration_ms", "duration_too_long", "is more than 24 hours"),
    ]
    return [(name, Flaw(code, words)) for is_broken, name, code, words in found if is_broken]


def _surplus_flaws(name: str, value: Any) -> _Flaws:
    """Return the flaws of a field that the stream does not know."""
    problem = fields.unfit(value, level=2, is_stored=False)
    if problem is None:
        return []
    # The name is text of the tracker, and not every text may be repeated in an answer.
    label = name if name.isidentifier() and len(name) <= 64 else "event"
    return [(label, Flaw("invalid_value", problem))]


def derived_key(stream: Stream, row: Row) -> str:
    """Return the idempotency key of an event that came without one.

    It is ``d1:`` and the first 40 hexadecimal digits of the SHA-256 of what JavaScript's
    ``JSON.stringify([stream, device, what, started_ms])`` gives, where ``what`` is the field that
    identifies the event, or an array of them where there are several, absent ones as null. What
    changes between a first send, a retry and an import (title, address, end, client version) is
    left out. Keys are kept for ever, so another recipe needs another prefix.
    """
    parts = [row.get(name) for name in stream.identity]
    what = parts[0] if len(parts) == 1 else parts
    text = fields.compact([stream.name, row["device"], what, row["started_ms"]])
    return f"d1:{sha256(text.encode()).hexdigest()[:40]}"


_HOST: Final = re.compile(r"[^\s<>\"\\^`{|}%.][^\s<>\"\\^`{|}%]*")


def web_address(address: str, *, full_urls: bool) -> tuple[str | None, str | None]:
    """Return the address to store and its domain; nothing for an address that is not http(s).

    Userinfo, query and fragment often contain secrets and are dropped unless ``full_urls``. The domain is the
    host in lower case without port and leading ``www.``, as in ActivityWatch and RescueTime.
    """
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None, None
    if parts.scheme not in ("http", "https") or host is None or not _HOST.fullmatch(host):
        return None, None
    if not full_urls:
        name = f"[{host}]" if ":" in host else host
        address = f"{parts.scheme}://{name}{'' if port is None else f':{port}'}{parts.path}"
    # In lower case, one letter of the host may become two.
    if len(address) > MAX_URL:
        return None, None
    domain = host.rstrip(".")
    bare = domain.removeprefix("www.")
    return address, bare if "." in bare else domain

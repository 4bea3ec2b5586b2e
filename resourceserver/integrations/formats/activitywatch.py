"""ActivityWatch's export of buckets, as its page and ``/api/0/export`` write it.

A file is read twice: first for the times of presence, which may stand behind the windows that they cut.

ActivityWatch's server in Rust writes the ids of events, so the sessions of a file are known if the bridge has
sent them. The server in Python leaves the ids out. What an event holds stands for its id then, and its
sessions are other ones than those of the bridge: a person brings one of the two.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from resourceserver.integrations import reading, values
from resourceserver.integrations.activitywatch import (
    EDITORS,
    PRESENCE,
    PRESENT,
    WINDOWS,
    Span,
    cut,
    editor_name,
    piece_key,
    project_name,
    span_of,
    union,
)
from resourceserver.integrations.format import File, Format, Head, Person, Unreadable
from resourceserver.integrations.records import AppSession, CodingSession, Record, Refused
from resourceserver.integrations.values import Flaw

SPANS: Final = 500_000
"""Most times of presence of one host."""

_NAME: Final = 255
_DEVICE: Final = 128
_LONGEST_S: Final = 1e9
_ALWAYS: Final = (Span(-(2**62), 2**62),)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MEMBERS: Final = ("id", "type", "client", "hostname")
_PATHS: Final = {f"buckets.*.{name}": name for name in _MEMBERS}
_EVENTS: Final = "buckets.*.events.item"
_WRONG_ORDER: Final = (
    "a bucket does not begin with its id or does not end with its events, as ActivityWatch writes them;"
    " export the buckets again, and change nothing in the file"
)
_BUCKETS: Final = re.compile(r'^\s*\{\s*"buckets"\s*:\s*\{')


class _Unusable(Unreadable):
    """Nothing of the file can be used, not even what stands before this point."""


@dataclass
class _Bucket:
    """What a file says of a bucket before its events."""

    id: str = ""
    type: str = ""
    client: str = ""
    hostname: str = ""

    @property
    def device(self) -> str:
        return (values.text(self.hostname) or "unknown")[:_DEVICE]


def _buckets(file: File) -> Iterator[tuple[_Bucket, Any]]:
    """Yield each bucket without an event, as soon as its type is known, and then with each event.

    Raises _Unusable if a bucket does not begin with its id, or does not end with its events.
    """
    bucket = _Bucket()
    known: set[str] = set()
    for path, value in reading.elements(file, *_PATHS, _EVENTS):
        if path == _EVENTS:
            if not {"id", "type"} <= known:
                raise _Unusable(_WRONG_ORDER)
            known.add("events")
            yield bucket, value
            continue
        name = _PATHS[path]
        if name == "id":
            bucket, known = _Bucket(), set()
        elif "id" not in known or "events" in known:
            raise _Unusable(_WRONG_ORDER)
        known.add(name)
        setattr(bucket, name, value if isinstance(value, str) else "")
        if name == "type":
            yield bucket, None


def _presence(file: File) -> dict[str, list[Span]]:
    """Return the times of presence by host. What is broken is reported when the file is read again."""
    presence: dict[str, list[Span]] = {}
    try:
        for bucket, event in _buckets(file):
            if bucket.type != PRESENCE or not isinstance(event, dict):
                continue
            spans = presence.setdefault(bucket.hostname, [])
            if _data(event).get("status") == PRESENT:
                with suppress(Flaw):
                    spans.append(_span(event))
            if len(spans) > SPANS:
                spans[:] = union(spans)
                if len(spans) > SPANS // 2:
                    raise _Unusable(f"a host has more than {SPANS // 2} times of presence")
    except _Unusable:
        raise
    except Unreadable:
        pass
    return {host: union(spans) for host, spans in presence.items()}


def _span(event: dict[str, Any]) -> Span:
    duration = values.number(event.get("duration"))
    if duration is None or not 0 <= duration <= _LONGEST_S:
        raise Flaw("invalid_duration")
    return span_of(values.instant(event.get("timestamp")), duration)


def _data(event: dict[str, Any]) -> dict[str, Any]:
    data = event.get("data")
    return data if isinstance(data, dict) else {}


def _read(file: File, _person: Person) -> Iterator[Record | Refused]:
    presence = _presence(file)
    for bucket, event in _buckets(file):
        if event is None:
            if bucket.type not in {WINDOWS, EDITORS, PRESENCE}:
                yield Refused(
                    "bucket_without_sessions", values.example(f"{bucket.id} ({bucket.type})")
                )
        elif bucket.type in {WINDOWS, EDITORS}:
            try:
                yield from _sessions(bucket, values.members(event), presence)
            except Flaw as flaw:
                yield values.refused(flaw, event)


def _sessions(
    bucket: _Bucket, event: dict[str, Any], presence: dict[str, list[Span]]
) -> Iterator[AppSession | CodingSession]:
    is_window = bucket.type == WINDOWS
    # As in the bridge: windows of a host without a presence watcher are whole, and so are all editors.
    present = presence.get(bucket.hostname, _ALWAYS) if is_window else _ALWAYS
    for piece in cut(_span(event), present):
        key = values.key(piece_key(bucket.id, _identity(event), piece.start_ms))
        times = (_instant(piece.start_ms), _instant(piece.end_ms))
        if is_window:
            yield _app_session(key, times, bucket, _data(event))
        else:
            yield _coding_session(key, times, bucket, _data(event))


def _identity(event: dict[str, Any]) -> object:
    """Return the id of an event, or a digest of what it holds: events of one millisecond differ in that."""
    if event.get("id") is not None:
        return event["id"]
    held = json.dumps(_data(event), sort_keys=True).encode()
    return hashlib.sha256(held).hexdigest()[:16]


def _app_session(
    key: str, times: tuple[datetime, datetime], bucket: _Bucket, data: dict[str, Any]
) -> AppSession:
    return AppSession(
        key,
        *times,
        device=bucket.device,
        # The time of an unknown program counts too.
        app=(values.text(data.get("app")) or "unknown")[:_NAME],
        title=values.text(data.get("title")),
        url=values.text(data.get("url")),
    )


def _coding_session(
    key: str, times: tuple[datetime, datetime], bucket: _Bucket, data: dict[str, Any]
) -> CodingSession:
    return CodingSession(
        key,
        *times,
        device=bucket.device,
        project=project_name(values.text(data.get("project")))[:_NAME],
        language=values.text(data.get("language")),
        file=values.text(data.get("file")),
        branch=values.text(data.get("branch")),
        editor=values.text(editor_name(bucket.client)),
    )


def _instant(at_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=at_ms)


def _recognise(head: Head) -> float:
    return 1.0 if _BUCKETS.search(head.text) else 0.0


ACTIVITYWATCH: Final = Format(
    name="activitywatch",
    title="ActivityWatch, export of buckets",
    source="activitywatch",
    records=(AppSession, CodingSession),
    recognise=_recognise,
    read=_read,
    is_proven=True,
)

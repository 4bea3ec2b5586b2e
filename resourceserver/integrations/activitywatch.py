"""The conversion of ActivityWatch's events, which the bridge and the reader of its exports share.

Windows are clipped to the times at which the presence watcher of the same host recorded activity. The key of
a piece consists of its bucket, its event and its own start, so a piece from a file is recognised if the
bridge has already sent it.
"""

import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final, NamedTuple

from resourceserver.integrations.beats import SESSION_MS

WINDOWS: Final = "currentwindow"
EDITORS: Final = "app.editor.activity"
PRESENCE: Final = "afkstatus"
"""The types of buckets that are read."""
PRESENT: Final = "not-afk"

_LONGEST_NAME: Final = 128
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class Span(NamedTuple):
    """The time between two instants, in milliseconds since 1970."""

    start_ms: int
    end_ms: int


def span_of(timestamp: datetime, duration_s: float) -> Span:
    """Return the time of an event, its edges rounded down."""
    start_us = (timestamp - _EPOCH) // _MICROSECOND
    return Span(start_us // 1000, (start_us + round(duration_s * 1e6)) // 1000)


def union(spans: Iterable[Span]) -> list[Span]:
    """Return the time that ``spans`` cover as ordered spans that neither overlap nor touch."""
    merged: list[Span] = []
    for span in sorted(span for span in spans if span.start_ms < span.end_ms):
        if merged and span.start_ms <= merged[-1].end_ms:
            merged[-1] = Span(merged[-1].start_ms, max(merged[-1].end_ms, span.end_ms))
        else:
            merged.append(span)
    return merged


def cut(span: Span, presence: Sequence[Span]) -> list[Span]:
    """Return the parts of ``span`` within ``presence``, which is a result of ``union``, in order.

    No part is longer than the longest session that ingest accepts.
    """
    pieces = []
    nearest = bisect_right(presence, span.start_ms, key=lambda present: present.end_ms)
    for present in islice(presence, nearest, None):
        if present.start_ms >= span.end_ms:
            break
        first = max(span.start_ms, present.start_ms)
        end = min(span.end_ms, present.end_ms)
        pieces += [Span(at, min(at + SESSION_MS, end)) for at in range(first, end, SESSION_MS)]
    return pieces


def piece_key(bucket: str, event: object, start_ms: int) -> str:
    """Return the key of a piece. A bucket name that ingest refuses in keys is replaced by a digest."""
    if len(bucket) > _LONGEST_NAME or not bucket.isprintable():
        bucket = hashlib.sha256(bucket.encode("utf-8", "surrogatepass")).hexdigest()
    return f"aw:{bucket}:{event}:{start_ms}"


def project_name(project: str | None) -> str:
    """Return the name of a project, the last part of its path if the editor sent a directory."""
    return re.split(r"[/\\]", (project or "").rstrip("/\\"))[-1].strip() or "unknown"


def editor_name(client: str) -> str:
    """Return the name of an editor, derived from the name of its watcher."""
    return client.removeprefix("aw-watcher-")

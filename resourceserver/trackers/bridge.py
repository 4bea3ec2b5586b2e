"""The bridge from ActivityWatch: what its watchers saw, sent as sessions once it can no longer change.

Windows become app sessions, cut to the times at which the presence watcher of the same host saw somebody;
a host without such a watcher has its windows sent whole. Time without anybody is not sent at all, and
neither is what has no length. Editors become coding sessions, whole, as ActivityWatch itself counts them.

The first write of a session wins, so a piece is sent when its end is certain. Events of a bucket are taken
in the order in which they began, up to the first that is not settled:

    event ── a later one in its bucket, presence known beyond its end ──► settled: sent, passed for good
      │
      └── neither, for an hour ──► sent as far as it is known; if it grows after all, what it grew by is a
                                   piece of its own

Each piece has a key made of its bucket, its event and its own start, so that whatever is sent twice is
there once. Without the state file everything is sent again, and counted as duplicates; it alone knows
which event was sent before it was settled, so what that one grows by later is lost with it.
"""

import hashlib
import json
import os
import re
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from resourceserver.ingest import fields
from resourceserver.ingest.events import MAX_DEVICE, MAX_NAME, MAX_SESSION_MS
from resourceserver.trackers.activitywatch import (
    ActivityWatch,
    Bucket,
    Event,
    UnreadableBucketError,
)
from resourceserver.trackers.posting import Poster, Rejection, Result

STREAMS: Final = {"currentwindow": "app-sessions", "app.editor.activity": "coding-sessions"}
"""What is sent, and as what, by the type of a bucket."""
_PRESENCE: Final = "afkstatus"

_REST_MS: Final = 60_000
"""Watchers report a little late and, several in one bucket, not quite in order."""
_SILENCE_MS: Final = 3_600_000
"""After which nobody waits for the end of an event any longer."""
_CLOCKS_DIFFER_MS: Final = 86_400_000
"""By no more than this."""
_ALWAYS_MS: Final = 2**62
_LONGEST_NAME: Final = 128


class BridgeError(Exception):
    """A state file that cannot be used; the message is one line."""


class Span(NamedTuple):
    """From one instant to another, in milliseconds since 1970."""

    start_ms: int
    end_ms: int


def union(spans: Iterable[Span]) -> list[Span]:
    """Return what ``spans`` cover, in order, as spans that neither overlap nor touch."""
    merged: list[Span] = []
    for span in sorted(span for span in spans if span.start_ms < span.end_ms):
        if merged and span.start_ms <= merged[-1].end_ms:
            merged[-1] = Span(merged[-1].start_ms, max(merged[-1].end_ms, span.end_ms))
        else:
            merged.append(span)
    return merged


def cut(span: Span, presence: Sequence[Span]) -> list[Span]:
    """Return the pieces of ``span`` that lie within ``presence``, which is a union, in order.

    No piece is longer than the longest session that ingest takes.
    """
    pieces = []
    nearest = bisect_right(presence, span.start_ms, key=lambda present: present.end_ms)
    for present in islice(presence, nearest, None):
        if present.start_ms >= span.end_ms:
            break
        first = max(span.start_ms, present.start_ms)
        end = min(span.end_ms, present.end_ms)
        pieces += [
            Span(at, min(at + MAX_SESSION_MS, end)) for at in range(first, end, MAX_SESSION_MS)
        ]
    return pieces


class Tail(BaseModel):
    """An event that was sent before it was settled."""

    model_config = ConfigDict(frozen=True)

    event: int
    sent_ms: int
    """Up to where."""


class Place(BaseModel):
    """How far a bucket has been sent."""

    model_config = ConfigDict(frozen=True)

    next_ms: int = 0
    """Everything that began before is done with."""
    tail: Tail | None = None


class _Kept(BaseModel):
    """The state file: places by route and bucket."""

    routes: dict[str, dict[str, Place]] = {}


@dataclass(frozen=True)
class State:
    """Where a bridge was, in a small file that it may share with others."""

    path: Path
    route: str
    """From which ActivityWatch to which account."""

    def places(self) -> dict[str, Place]:
        """Return the places by bucket, none where there is no file. Raises BridgeError."""
        return self._read().routes.get(self.route, {})

    def keep(self, bucket: str, place: Place) -> None:
        """Write one place down, at once or not at all. Raises BridgeError."""
        # What others wrote meanwhile stays. If two write at the same moment one place is forgotten, and
        # what came after it is sent again.
        kept = self._read()
        kept.routes.setdefault(self.route, {})[bucket] = place
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            _replace(self.path, kept.model_dump_json(exclude_none=True))
        except OSError as error:
            raise BridgeError(f"{self.path} cannot be written: {error.strerror}") from error

    def _read(self) -> _Kept:
        try:
            return _Kept.model_validate_json(self.path.read_bytes())
        except FileNotFoundError:
            return _Kept()
        except OSError as error:
            raise BridgeError(f"{self.path} cannot be read: {error.strerror}") from error
        except ValidationError as error:
            message = f"{self.path} is no state of a bridge; without it everything is sent again"
            raise BridgeError(message) from error


def _replace(path: Path, text: str) -> None:
    """Put ``text`` into a file, so that after a crash it holds all of it or what it held before."""
    descriptor, draft = tempfile.mkstemp(prefix=f"{path.name}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(draft)
        raise


@dataclass(frozen=True)
class _Horizon:
    """What is known of a bucket at one moment."""

    now_ms: int
    newest_ms: int
    """When its newest event began."""
    presence_ms: int
    """Up to where presence is known and stays as it is."""

    def reach(self, event: Event) -> tuple[int, bool]:
        """Return up to where ``event`` may be sent, and whether it is settled."""
        if (
            event.start_ms < self.newest_ms
            and event.end_ms < self.presence_ms
            and event.end_ms <= self.now_ms - _REST_MS
        ):
            return event.end_ms, True
        known_ms = min(event.end_ms, self.presence_ms)
        return (known_ms if known_ms <= self.now_ms - _SILENCE_MS else event.start_ms), False


class _Piece(NamedTuple):
    event: Event
    span: Span


def _plan(
    events: list[Event], presence: list[Span], horizon: _Horizon, place: Place
) -> tuple[list[_Piece], Place | None]:
    """Return what may be sent, and the place of the first event that is not settled."""
    pieces: list[_Piece] = []
    for event in events:
        sent_ms = event.start_ms
        if place.tail is not None and place.tail.event == event.id:
            sent_ms = place.tail.sent_ms
        reach_ms, is_settled = horizon.reach(event)
        pieces += [_Piece(event, span) for span in cut(Span(sent_ms, reach_ms), presence)]
        if not is_settled:
            sent_ms = max(sent_ms, reach_ms)
            tail = Tail(event=event.id, sent_ms=sent_ms) if sent_ms > event.start_ms else None
            return pieces, Place(next_ms=event.start_ms, tail=tail)
    return pieces, None


@dataclass(frozen=True)
class Bridge:
    """Sends what one ActivityWatch holds to one account."""

    source: ActivityWatch
    posters: Mapping[str, Poster]
    """By stream."""
    state_file: Path
    account: str
    """Whose, and where, so that a state file may serve several."""
    say: Callable[[str], None]
    """Takes a line for whoever reads along."""
    now_ms: Callable[[], int]
    unreadable: set[str] = field(default_factory=set)
    """The buckets that could not be read the last time."""
    waiting: set[str] = field(default_factory=set)
    """Those that wait for a watcher of presence which has been silent for long."""

    def run(self) -> Iterator[tuple[str, Result]]:
        """Send everything that is settled; yield the stream and result of each request.

        A bucket that cannot be read is named, once, and does not hold up the others. Raises
        ActivityWatchError, PostingError, BridgeError.
        """
        state = State(self.state_file, f"{self.source.device_id()} to {self.account}")
        places = state.places()
        buckets = self.source.buckets()
        for bucket in buckets:
            if bucket.type in STREAMS:
                place = places.get(bucket.id, Place())
                keep = partial(state.keep, bucket.id)
                try:
                    for result in self._catch_up(bucket, _watchers(bucket, buckets), place, keep):
                        yield STREAMS[bucket.type], result
                except UnreadableBucketError as error:
                    self._note(self.unreadable, bucket.id, str(error))
                else:
                    self.unreadable.discard(bucket.id)

    def _note(self, noted: set[str], bucket: str, line: str) -> None:
        """Say ``line`` about a bucket that was not in this state before."""
        if bucket not in noted:
            noted.add(bucket)
            self.say(line)

    def _catch_up(
        self,
        bucket: Bucket,
        watchers: list[Bucket] | None,
        place: Place,
        keep: Callable[[Place], None],
    ) -> Iterator[Result]:
        # The order matters: what is the newest event may grow while others are read, and what was there
        # before it may not. So the newest ones are looked at first.
        now_ms = self.now_ms()
        if place.next_ms > now_ms:
            # Noted while the clock was ahead. What was sent then is counted as duplicates.
            place = Place()
        presence_ms = _ALWAYS_MS if watchers is None else self._presence_ms(watchers, now_ms)
        newest = self.source.last_before(bucket.id, now_ms)
        if newest is None:
            return
        if newest.start_ms - presence_ms > _SILENCE_MS:
            line = f"{bucket.id!r} waits for a later word on whether somebody was there"
            self._note(self.waiting, bucket.id, line)
        else:
            self.waiting.discard(bucket.id)
        if presence_ms <= place.next_ms:
            return
        horizon = _Horizon(now_ms, newest.start_ms, presence_ms)
        for found in self.source.slices(bucket.id, place.next_ms, newest.start_ms + 1):
            latest_ms = now_ms + _CLOCKS_DIFFER_MS
            events = [event for event in found.events if event.end_ms <= latest_ms]
            presence = self._presence(watchers, events, presence_ms)
            pieces, stop = _plan(events, presence, horizon, place)
            yield from self._post(bucket, pieces)
            following = stop or Place(next_ms=found.end_ms)
            for event in found.events:
                if event.end_ms > latest_ms and event.start_ms < following.next_ms:
                    yield self._leave_out(bucket, event)
            if following != place:
                keep(following)
            if stop:
                return
            place = following

    def _presence_ms(self, watchers: list[Bucket], now_ms: int) -> int:
        """Return up to where all ``watchers`` have spoken but those that have been silent for long."""
        newest = [self.source.last_before(watcher.id, now_ms) for watcher in watchers]
        known = [min(event.end_ms, now_ms) for event in newest if event]
        latest_ms = max(known, default=0)
        return min((each for each in known if latest_ms - each <= _SILENCE_MS), default=0)

    def _presence(
        self, watchers: list[Bucket] | None, events: list[Event], known_ms: int
    ) -> list[Span]:
        """Return when somebody was there, as far as it is known, for the time of ``events``."""
        if not events:
            return []
        start_ms = events[0].start_ms
        end_ms = min(max(event.end_ms for event in events), known_ms)
        if watchers is None:
            return [Span(start_ms, end_ms)]
        seen: list[Event] = []
        for watcher in watchers:
            # It may have begun more than a day before, and the server finds it only like this.
            if earlier := self.source.last_before(watcher.id, start_ms):
                seen.append(earlier)
            for found in self.source.slices(watcher.id, start_ms, end_ms, with_earlier=True):
                seen += found.events
        return union(
            Span(event.start_ms, min(event.end_ms, known_ms))
            for event in seen
            if event.data.get("status") == "not-afk"
        )

    def _post(self, bucket: Bucket, pieces: list[_Piece]) -> Iterator[Result]:
        make = _app_session if bucket.type == "currentwindow" else _coding_session
        events = [make(bucket, piece) for piece in pieces]
        for result in self.posters[STREAMS[bucket.type]].post(list(map(json.dumps, events))):
            for number, code, message in result.rejected:
                self.say(f"{events[number]['idempotency_key']}: {code}: {message}")
            yield result

    def _leave_out(self, bucket: Bucket, event: Event) -> Result:
        rejection = Rejection(0, "timestamp_in_future", "ended_at: is more than a day from now")
        key = _key(bucket, event, event.start_ms)
        self.say(f"{key}: {rejection.code}: {rejection.message}")
        return Result(1, 0, 0, [rejection])


def _watchers(bucket: Bucket, buckets: list[Bucket]) -> list[Bucket] | None:
    """Return the buckets by which the time of ``bucket`` is cut; None if it is sent whole."""
    if bucket.type != "currentwindow":
        return None
    same_host = [each for each in buckets if each.hostname == bucket.hostname]
    return [each for each in same_host if each.type == _PRESENCE] or None


def _app_session(bucket: Bucket, piece: _Piece) -> dict[str, Any]:
    data = piece.event.data
    app = _text(data, "app")
    return _session(bucket, piece) | _given(
        # A window of nobody knows which program is time all the same.
        app=app[:MAX_NAME] if app else "unknown",
        title=_text(data, "title"),
        url=_text(data, "url"),
    )


def _coding_session(bucket: Bucket, piece: _Piece) -> dict[str, Any]:
    data = piece.event.data
    # Some editors tell the name of a project and some its directory.
    project = re.split(r"[/\\]", (_text(data, "project") or "").rstrip("/\\"))[-1].strip()
    return _session(bucket, piece) | _given(
        project=project[:MAX_NAME] or "unknown",
        language=_text(data, "language"),
        file=_text(data, "file"),
        branch=_text(data, "branch"),
        editor=_clean(bucket.client.removeprefix("aw-watcher-")),
    )


def _session(bucket: Bucket, piece: _Piece) -> dict[str, Any]:
    return {
        "idempotency_key": _key(bucket, piece.event, piece.span.start_ms),
        "started_at": fields.timestamp(piece.span.start_ms),
        "ended_at": fields.timestamp(piece.span.end_ms),
    } | _given(device=_clean(bucket.hostname)[:MAX_DEVICE])


def _key(bucket: Bucket, event: Event, start_ms: int) -> str:
    """Return the key of a piece; a bucket whose name ingest would refuse in one has its digest there."""
    name = bucket.id
    if len(name) > _LONGEST_NAME or not name.isprintable():
        name = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"aw:{name}:{event.id}:{start_ms}"


def _given(**values: str | None) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}


def _text(data: dict[str, Any], name: str) -> str | None:
    value = data.get(name)
    return _clean(value) if isinstance(value, str) else None


def _clean(text: str) -> str:
    """Return ``text`` without what no database can hold, and no time is lost for."""
    return fields.storable(text).strip()

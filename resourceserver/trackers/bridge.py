"""The bridge from ActivityWatch: it sends the events of its watchers as sessions once they have ended.

Windows become app sessions, cut to the times at which the presence watcher of the same host recorded
activity. The windows of a host without such a watcher are sent whole. Time away and events without duration
are not sent. Events of editors become coding sessions, uncut, as ActivityWatch itself counts them.

The service keeps the first version of a session, so a piece is sent when its end is certain. The events of a
bucket are read in the order of their starts, up to the first one that is not settled:

    event ── a later event in its bucket, presence known beyond its end ──► settled: sent, never read again
      │
      └── neither, for an hour ──► sent up to its current end; if it grows later, the rest is another piece

The key of a piece consists of its bucket, its event and its own start, so the service stores a repeated
piece once. Without the state file everything is sent again, and counted as duplicates. Only the state file
knows which event was sent before it was settled; without it, the later growth of that event is lost.
"""

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from resourceserver.ingest import fields
from resourceserver.ingest.events import MAX_DEVICE, MAX_NAME
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
    union,
)
from resourceserver.trackers.activitywatch import (
    ActivityWatch,
    Bucket,
    Event,
    UnreadableBucketError,
)
from resourceserver.trackers.posting import Poster, Rejection, Result

STREAMS: Final = {WINDOWS: "app-sessions", EDITORS: "coding-sessions"}
"""The streams of the bucket types that are sent."""

_REST_MS: Final = 60_000
"""How long an event must have ended: watchers report late and, several in one bucket, out of order."""
_SILENCE_MS: Final = 3_600_000
"""How long the bridge waits for a later event before it sends an event that is not settled."""
_MOST_AHEAD_MS: Final = 86_400_000
"""How far in the future an event may end, since clocks differ."""
_ALWAYS_MS: Final = 2**62


class BridgeError(Exception):
    """A state file that cannot be used; the message is one line."""


class Tail(BaseModel):
    """An event that was sent before it was settled."""

    model_config = ConfigDict(frozen=True)

    event: int
    sent_ms: int
    """The end of the part that was sent."""


class Position(BaseModel):
    """Which part of a bucket has been sent."""

    model_config = ConfigDict(frozen=True)

    next_ms: int = 0
    """All events that began before this instant have been sent and are settled."""
    tail: Tail | None = None


class _StateFile(BaseModel):
    """The contents of the state file: positions by route and bucket."""

    routes: dict[str, dict[str, Position]] = {}


@dataclass(frozen=True)
class State:
    """The positions of a bridge, in a small file that several bridges may share."""

    path: Path
    route: str
    """The ids of the ActivityWatch server and of the account."""

    def positions(self) -> dict[str, Position]:
        """Return the positions by bucket, none without a file. Raises BridgeError."""
        return self._read().routes.get(self.route, {})

    def write(self, bucket: str, position: Position) -> None:
        """Write the position of one bucket atomically. Raises BridgeError."""
        # Reading again keeps the positions of other bridges. If two write at the same moment, one position
        # is lost, and the events after it are sent again.
        state = self._read()
        state.routes.setdefault(self.route, {})[bucket] = position
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            _replace(self.path, state.model_dump_json(exclude_none=True))
        except OSError as error:
            raise BridgeError(f"{self.path} cannot be written: {error.strerror}") from error

    def _read(self) -> _StateFile:
        try:
            return _StateFile.model_validate_json(self.path.read_bytes())
        except FileNotFoundError:
            return _StateFile()
        except OSError as error:
            raise BridgeError(f"{self.path} cannot be read: {error.strerror}") from error
        except ValidationError as error:
            message = f"{self.path} is not a state file; remove it to send everything again"
            raise BridgeError(message) from error


def _replace(path: Path, text: str) -> None:
    """Write ``text`` to a file; after a crash, the file has either the new text or the old one."""
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
    """The state of a bucket at one moment."""

    now_ms: int
    newest_ms: int
    """The start of its newest event."""
    presence_ms: int
    """The instant up to which presence is known and no longer changes."""

    def reach(self, event: Event) -> tuple[int, bool]:
        """Return the instant up to which ``event`` may be sent, and whether it is settled."""
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
    events: list[Event], presence: list[Span], horizon: _Horizon, position: Position
) -> tuple[list[_Piece], Position | None]:
    """Return the pieces that may be sent, and the position of the first event that is not settled."""
    pieces: list[_Piece] = []
    for event in events:
        sent_ms = event.start_ms
        if position.tail is not None and position.tail.event == event.id:
            sent_ms = position.tail.sent_ms
        reach_ms, is_settled = horizon.reach(event)
        pieces += [_Piece(event, span) for span in cut(Span(sent_ms, reach_ms), presence)]
        if not is_settled:
            sent_ms = max(sent_ms, reach_ms)
            tail = Tail(event=event.id, sent_ms=sent_ms) if sent_ms > event.start_ms else None
            return pieces, Position(next_ms=event.start_ms, tail=tail)
    return pieces, None


@dataclass(frozen=True)
class Bridge:
    """Sends the events of one ActivityWatch to one account."""

    source: ActivityWatch
    posters: Mapping[str, Poster]
    """The poster of each stream."""
    state_file: Path
    account: str
    """Server and account, so that a state file may serve several."""
    say: Callable[[str], None]
    """Prints a line for the user."""
    now_ms: Callable[[], int]
    unreadable: set[str] = field(default_factory=set)
    """The buckets that could not be read in the last run."""
    waiting: set[str] = field(default_factory=set)
    """The buckets that wait for a presence watcher which has been silent for long."""

    def run(self) -> Iterator[tuple[str, Result]]:
        """Send everything that may be sent; yield the stream and the result of each request.

        A bucket that cannot be read is reported once, and the others are still sent. Raises
        ActivityWatchError, PostingError, BridgeError.
        """
        state = State(self.state_file, f"{self.source.device_id()} to {self.account}")
        positions = state.positions()
        buckets = self.source.buckets()
        for bucket in buckets:
            if bucket.type in STREAMS:
                position = positions.get(bucket.id, Position())
                write = partial(state.write, bucket.id)
                watchers = _watchers(bucket, buckets)
                try:
                    for result in self._catch_up(bucket, watchers, position, write):
                        yield STREAMS[bucket.type], result
                except UnreadableBucketError as error:
                    self._report(self.unreadable, bucket.id, str(error))
                else:
                    self.unreadable.discard(bucket.id)

    def _report(self, reported: set[str], bucket: str, line: str) -> None:
        """Print ``line`` unless it was printed about this bucket before."""
        if bucket not in reported:
            reported.add(bucket)
            self.say(line)

    def _catch_up(
        self,
        bucket: Bucket,
        watchers: list[Bucket] | None,
        position: Position,
        write: Callable[[Position], None],
    ) -> Iterator[Result]:
        # The order matters: the newest event may grow while others are read, and the events before it
        # may not. So the newest ones are read first.
        now_ms = self.now_ms()
        if position.next_ms > now_ms:
            # Written while the clock was ahead. Events that were sent then are counted as duplicates.
            position = Position()
        presence_ms = _ALWAYS_MS if watchers is None else self._presence_ms(watchers, now_ms)
        newest = self.source.last_before(bucket.id, now_ms)
        if newest is None:
            return
        if newest.start_ms - presence_ms > _SILENCE_MS:
            line = (
                f"{bucket.id!r} waits for its presence watcher, which has sent nothing for an hour"
            )
            self._report(self.waiting, bucket.id, line)
        else:
            self.waiting.discard(bucket.id)
        if presence_ms <= position.next_ms:
            return
        horizon = _Horizon(now_ms, newest.start_ms, presence_ms)
        for part in self.source.slices(bucket.id, position.next_ms, newest.start_ms + 1):
            latest_ms = now_ms + _MOST_AHEAD_MS
            events = [event for event in part.events if event.end_ms <= latest_ms]
            presence = self._presence(watchers, events, presence_ms)
            pieces, stop = _plan(events, presence, horizon, position)
            yield from self._post(bucket, pieces)
            following = stop or Position(next_ms=part.end_ms)
            for event in part.events:
                if event.end_ms > latest_ms and event.start_ms < following.next_ms:
                    yield self._reject(bucket, event)
            if following != position:
                write(following)
            if stop:
                return
            position = following

    def _presence_ms(self, watchers: list[Bucket], now_ms: int) -> int:
        """Return the instant up to which all ``watchers`` have reported, without those silent for long."""
        newest = [self.source.last_before(watcher.id, now_ms) for watcher in watchers]
        known = [min(event.end_ms, now_ms) for event in newest if event]
        latest_ms = max(known, default=0)
        return min((each for each in known if latest_ms - each <= _SILENCE_MS), default=0)

    def _presence(
        self, watchers: list[Bucket] | None, events: list[Event], known_ms: int
    ) -> list[Span]:
        """Return the times of presence, as far as they are known, within the time of ``events``."""
        if not events:
            return []
        start_ms = events[0].start_ms
        end_ms = min(max(event.end_ms for event in events), known_ms)
        if watchers is None:
            return [Span(start_ms, end_ms)]
        reports: list[Event] = []
        for watcher in watchers:
            # ``slices`` does not find an event that began more than a day before.
            if earlier := self.source.last_before(watcher.id, start_ms):
                reports.append(earlier)
            for part in self.source.slices(watcher.id, start_ms, end_ms, with_earlier=True):
                reports += part.events
        return union(
            Span(event.start_ms, min(event.end_ms, known_ms))
            for event in reports
            if event.data.get("status") == PRESENT
        )

    def _post(self, bucket: Bucket, pieces: list[_Piece]) -> Iterator[Result]:
        make = _app_session if bucket.type == WINDOWS else _coding_session
        events = [make(bucket, piece) for piece in pieces]
        for result in self.posters[STREAMS[bucket.type]].post(list(map(json.dumps, events))):
            for number, code, message in result.rejected:
                self.say(f"{events[number]['idempotency_key']}: {code}: {message}")
            yield result

    def _reject(self, bucket: Bucket, event: Event) -> Result:
        """Report an event that ingest would reject for its end in the future."""
        rejection = Rejection(0, "timestamp_in_future", "ended_at: is more than a day from now")
        key = _key(bucket, event, event.start_ms)
        self.say(f"{key}: {rejection.code}: {rejection.message}")
        return Result(1, 0, 0, [rejection])


def _watchers(bucket: Bucket, buckets: list[Bucket]) -> list[Bucket] | None:
    """Return the presence watchers of the host of ``bucket``; None if its events are sent uncut."""
    if bucket.type != WINDOWS:
        return None
    same_host = [each for each in buckets if each.hostname == bucket.hostname]
    return [each for each in same_host if each.type == PRESENCE] or None


def _app_session(bucket: Bucket, piece: _Piece) -> dict[str, Any]:
    data = piece.event.data
    app = _text(data, "app")
    return _session(bucket, piece) | _present(
        # The time of an unknown program counts too.
        app=app[:MAX_NAME] if app else "unknown",
        title=_text(data, "title"),
        url=_text(data, "url"),
    )


def _coding_session(bucket: Bucket, piece: _Piece) -> dict[str, Any]:
    data = piece.event.data
    return _session(bucket, piece) | _present(
        project=project_name(_text(data, "project"))[:MAX_NAME],
        language=_text(data, "language"),
        file=_text(data, "file"),
        branch=_text(data, "branch"),
        editor=_clean(editor_name(bucket.client)),
    )


def _session(bucket: Bucket, piece: _Piece) -> dict[str, Any]:
    return {
        "idempotency_key": _key(bucket, piece.event, piece.span.start_ms),
        "started_at": fields.timestamp(piece.span.start_ms),
        "ended_at": fields.timestamp(piece.span.end_ms),
    } | _present(device=_clean(bucket.hostname)[:MAX_DEVICE])


def _key(bucket: Bucket, event: Event, start_ms: int) -> str:
    return piece_key(bucket.id, event.id, start_ms)


def _present(**values: str | None) -> dict[str, str]:
    """Return the values that are neither None nor empty."""
    return {name: value for name, value in values.items() if value}


def _text(data: dict[str, Any], name: str) -> str | None:
    value = data.get(name)
    return _clean(value) if isinstance(value, str) else None


def _clean(text: str) -> str:
    """Return ``text`` without characters that the database refuses, so that the event is accepted."""
    return fields.storable(text).strip()

"""Coding sessions from beats: the signals that editors send while a person works in them.

Consecutive beats of one device, project, language and kind of entity belong to one session if less than
``GAP_MS`` is between them. A session ends with its last beat, which adds no time.

    beats ──► sorted within a window ──► one open run for each group ──► sessions

The key of a session consists of its project, its language and the time of its first beat. A later file in
which the session lasts longer therefore lengthens the same row.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from resourceserver.integrations import values
from resourceserver.integrations.records import CodingSession, Refused

GAP_MS: Final = 15 * 60_000
"""The shortest time between two beats that separates two sessions."""
SESSION_MS: Final = 86_400_000
"""The longest session."""
WINDOW: Final = 10_000
"""The most beats by which a beat may be out of order."""
OPEN_RUNS: Final = 1_000
"""The most open groups. If another one begins, the group that waits longest for a beat is closed."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Beat(NamedTuple):
    """A signal that a person worked in an entity: a file, an application or a domain."""

    at_ms: int
    """Milliseconds since 1970."""
    device: str
    project: str
    language: str | None = None
    kind: str | None = None
    """The kind of its entity, such as ``file``."""
    file: str | None = None
    branch: str | None = None
    editor: str | None = None
    activity: str | None = None
    is_write: bool = False
    lines_added: int | None = None
    lines_removed: int | None = None


@dataclass
class _Run:
    """A session that may still grow."""

    start_ms: int
    end_ms: int
    is_write: bool = False
    lines_added: int | None = None
    lines_removed: int | None = None
    files: set[str | None] = field(default_factory=set)
    branches: set[str | None] = field(default_factory=set)
    editors: set[str | None] = field(default_factory=set)
    activities: Counter[str] = field(default_factory=Counter)

    def takes(self, at_ms: int, gap_ms: int) -> bool:
        """Tell whether a beat at this time belongs to the session."""
        start_ms, end_ms = min(self.start_ms, at_ms), max(self.end_ms, at_ms)
        return (
            self.start_ms - gap_ms < at_ms < self.end_ms + gap_ms
            and end_ms - start_ms <= SESSION_MS
        )

    def add(self, beat: Beat) -> None:
        self.start_ms = min(self.start_ms, beat.at_ms)
        self.end_ms = max(self.end_ms, beat.at_ms)
        self.is_write = self.is_write or beat.is_write
        self.lines_added = _sum(self.lines_added, beat.lines_added)
        self.lines_removed = _sum(self.lines_removed, beat.lines_removed)
        # Two values are enough to know that the beats of the session do not share one.
        for kept, value in (
            (self.files, beat.file),
            (self.branches, beat.branch),
            (self.editors, beat.editor),
        ):
            if len(kept) < 2:
                kept.add(value)
        if beat.activity:
            self.activities[beat.activity] += 1


_Group = tuple[str, str, str | None, str | None]


def coding_sessions(
    beats: Iterable[Beat | Refused], gap_ms: int = GAP_MS
) -> Iterator[CodingSession | Refused]:
    """Yield the sessions of beats, which may be out of order by up to ``WINDOW`` beats.

    Each Refused among the beats is yielded unchanged.
    """
    runs: dict[_Group, _Run] = {}
    swept_ms = 0
    for beat in _in_order(beats):
        if isinstance(beat, Refused):
            yield beat
            continue
        if beat.at_ms - swept_ms >= gap_ms:
            swept_ms = beat.at_ms
            ended = [group for group, run in runs.items() if run.end_ms + gap_ms <= beat.at_ms]
            for group in ended:
                yield _session(group, runs.pop(group))
        group = (beat.device, beat.project, beat.language, beat.kind)
        run = runs.pop(group, None)
        if run is not None and not run.takes(beat.at_ms, gap_ms):
            yield _session(group, run)
            run = None
        if run is None:
            run = _Run(beat.at_ms, beat.at_ms)
            if len(runs) >= OPEN_RUNS:
                oldest = next(iter(runs))
                yield _session(oldest, runs.pop(oldest))
        run.add(beat)
        # The run was popped, so it is now the last of the dictionary; the first one waits longest for a beat.
        runs[group] = run
    for group, run in runs.items():
        yield _session(group, run)


def _in_order(beats: Iterable[Beat | Refused]) -> Iterator[Beat | Refused]:
    waiting: list[tuple[int, int, Beat]] = []
    # The number keeps beats of the same instant in order, so the heap never compares the beats themselves.
    for number, beat in enumerate(beats):
        if isinstance(beat, Refused):
            yield beat
            continue
        entry = (beat.at_ms, number, beat)
        if len(waiting) < WINDOW:
            heapq.heappush(waiting, entry)
        else:
            yield heapq.heappushpop(waiting, entry)[2]
    while waiting:
        yield heapq.heappop(waiting)[2]


def _session(group: _Group, run: _Run) -> CodingSession:
    device, project, language, _ = group
    return CodingSession(
        key=values.key("wk", project, language, run.start_ms),
        started_at=_EPOCH + timedelta(milliseconds=run.start_ms),
        ended_at=_EPOCH + timedelta(milliseconds=run.end_ms),
        device=device,
        project=project,
        language=language,
        file=_only(run.files),
        branch=_only(run.branches),
        editor=_only(run.editors),
        activity=run.activities.most_common(1)[0][0] if run.activities else None,
        lines_added=run.lines_added,
        lines_removed=run.lines_removed,
        is_write=run.is_write,
    )


def _only(kept: set[str | None]) -> str | None:
    """Return the value that all beats share, or None."""
    return next(iter(kept)) if len(kept) == 1 else None


def _sum(total: int | None, more: int | None) -> int | None:
    return total if more is None else (total or 0) + more

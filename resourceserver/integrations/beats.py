"""Coding sessions from beats: the signals that editors send while a person works in them.

Consecutive beats of one device, project, language and kind of entity belong to one session if less than
``GAP_MS`` is between them. A session ends with its last beat, which adds no time; a single beat is a session
without length.

    beats of a file ──► sorted within a window ──► one open run for each group ──► sessions
    beats of an editor and the runs of stored sessions ──► joined ──► sessions

A run can be joined with another one, and the result does not depend on the order. So a beat that comes late
needs the sessions next to it, and not the beats of which they were made.

The key of a session consists of its project, its language and the time of its first beat. A later file in
which the session lasts longer therefore lengthens the same row.
"""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from resourceserver.integrations import values
from resourceserver.integrations.records import CodingSession, Refused

GAP_MS: Final = 15 * 60_000
"""The shortest time between two beats that separates two sessions."""
SESSION_MS: Final = 86_400_000
"""The longest session."""
MOST_LINES: Final = 10_000_000
"""The most lines that a session adds or removes."""
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
    utc_offset: str | None = None
    counters: tuple[tuple[str, int], ...] = ()
    """Further counts, by name, of which a session has the sums."""


@dataclass(slots=True)
class Run:
    """What beats of one group have in common: a session that may still grow."""

    start_ms: int
    end_ms: int
    file: str | None = None
    """The value that all its beats share, or None; so are the next two."""
    branch: str | None = None
    editor: str | None = None
    utc_offset: str | None = None
    """That of the first beat."""
    is_write: bool = False
    lines_added: int | None = None
    lines_removed: int | None = None
    activities: dict[str, int] = field(default_factory=dict)
    """How many beats had which activity."""
    counters: dict[str, int] = field(default_factory=dict)
    beat_count: int = 1

    @classmethod
    def of(cls, beat: Beat) -> "Run":
        """Return the run of a single beat."""
        return cls(
            beat.at_ms,
            beat.at_ms,
            beat.file,
            beat.branch,
            beat.editor,
            beat.utc_offset,
            beat.is_write,
            beat.lines_added,
            beat.lines_removed,
            {beat.activity: 1} if beat.activity else {},
            dict(beat.counters),
        )

    @property
    def activity(self) -> str | None:
        """The most frequent activity; of several, the first in the order of their names."""
        if not self.activities:
            return None
        return min(self.activities, key=lambda name: (-self.activities[name], name))

    def is_near(self, other: "Run", gap_ms: int) -> bool:
        """Tell whether less than a gap is between the two."""
        return self.start_ms - gap_ms < other.end_ms and other.start_ms < self.end_ms + gap_ms

    def fits(self, other: "Run") -> bool:
        """Tell whether a session of both is not too long."""
        return max(self.end_ms, other.end_ms) - min(self.start_ms, other.start_ms) <= SESSION_MS

    def join(self, other: "Run") -> None:
        """Add all beats of another run to this one."""
        if other.start_ms < self.start_ms:
            self.start_ms, self.utc_offset = other.start_ms, other.utc_offset
        elif other.start_ms == self.start_ms and other.utc_offset != self.utc_offset:
            # The order of the two does not matter, not even for beats of the same instant.
            self.utc_offset = max(self.utc_offset or "", other.utc_offset or "")
        self.end_ms = max(self.end_ms, other.end_ms)
        # None stays None: beats without a value and beats of several values share none.
        self.file = self.file if self.file == other.file else None
        self.branch = self.branch if self.branch == other.branch else None
        self.editor = self.editor if self.editor == other.editor else None
        self.is_write = self.is_write or other.is_write
        self.lines_added = _sum(self.lines_added, other.lines_added)
        self.lines_removed = _sum(self.lines_removed, other.lines_removed)
        for totals, counts in (
            (self.activities, other.activities),
            (self.counters, other.counters),
        ):
            for name, count in counts.items():
                totals[name] = totals.get(name, 0) + count
        self.beat_count += other.beat_count


class Overlong(Exception):
    """Joined runs are longer than a session, and where to divide them is known from their beats alone."""


def joined(runs: Iterable[Run], gap_ms: int, *, may_divide: bool) -> list[Run]:
    """Return the runs of one group, joined where less than a gap is between them.

    A session that would be too long ends with its last beat within ``SESSION_MS``. Raises Overlong if such an
    end is within one of ``runs``; unless ``may_divide``, the session then ends before that run.
    """
    found: list[Run] = []
    for run in sorted(runs, key=lambda each: (each.start_ms, each.end_ms)):
        last = found[-1] if found else None
        if last is None or not last.is_near(run, gap_ms):
            found.append(_copy(run))
        elif last.fits(run):
            last.join(run)
        elif may_divide and run.start_ms - last.start_ms <= SESSION_MS:
            raise Overlong
        else:
            found.append(_copy(run))
    return found


def _copy(run: Run) -> Run:
    return replace(run, activities=run.activities.copy(), counters=run.counters.copy())


Group = tuple[str, str, str | None, str | None]
"""Device, project, language and kind of entity: what all beats of a session share."""


def group_of(beat: Beat) -> Group:
    """Return the group of a beat."""
    return (beat.device, beat.project, beat.language, beat.kind)


def coding_sessions(
    beats: Iterable[Beat | Refused], gap_ms: int = GAP_MS
) -> Iterator[CodingSession | Refused]:
    """Yield the sessions of beats, which may be out of order by up to ``WINDOW`` beats.

    Each Refused among the beats is yielded unchanged.
    """
    runs: dict[Group, Run] = {}
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
        group, single = group_of(beat), Run.of(beat)
        run = runs.pop(group, None)
        if run is not None and not (run.is_near(single, gap_ms) and run.fits(single)):
            yield _session(group, run)
            run = None
        if run is not None:
            run.join(single)
        else:
            run = single
            if len(runs) >= OPEN_RUNS:
                oldest = next(iter(runs))
                yield _session(oldest, runs.pop(oldest))
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


def _session(group: Group, run: Run) -> CodingSession:
    device, project, language, _ = group
    return CodingSession(
        key=key(group, run),
        started_at=_EPOCH + timedelta(milliseconds=run.start_ms),
        ended_at=_EPOCH + timedelta(milliseconds=run.end_ms),
        device=device,
        project=project,
        language=language,
        file=run.file,
        branch=run.branch,
        editor=run.editor,
        activity=run.activity,
        lines_added=run.lines_added,
        lines_removed=run.lines_removed,
        is_write=run.is_write,
        utc_offset=run.utc_offset,
    )


def key(group: Group, run: Run) -> str:
    """Return the key of the session of a run."""
    _, project, language, _ = group
    return values.key("wk", project, language, run.start_ms)


def _sum(total: int | None, more: int | None) -> int | None:
    return total if more is None else min((total or 0) + more, MOST_LINES)

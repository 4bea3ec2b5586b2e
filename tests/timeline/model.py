"""A slow and simple model of rollups, beside tests/endpoints/timeline.py.

All times are whole milliseconds since EPOCH, which is a midnight in UTC.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from tests.endpoints.timeline import EPOCH, CodingSession, S, Session, counted, segments

QUARTER: Final = 900_000
HOUR: Final = 3_600_000
DAY: Final = 86_400_000


@dataclass(frozen=True)
class Slot:
    """A quarter of an hour, an hour, a day or a month in UTC."""

    grain: int
    start: int
    end: int


Kind = tuple[str, ...]
"""The key by which sessions are summed up."""


@dataclass(frozen=True)
class Part:
    """The sums of sessions of one kind in a slot: of one that crosses its edge, or of all others."""

    grain: int
    starts_at: int
    kind: Kind
    session: str | None
    owned_ms: int
    longest_ms: int
    first_at: int
    last_at: int


@dataclass(frozen=True)
class Count:
    """The numbers of sessions of one kind that start in a slot or began before, and the lines of the
    former."""

    grain: int
    starts_at: int
    kind: Kind
    started: int
    continued: int
    added: int = 0
    removed: int = 0


def slots(sessions: Sequence[S]) -> list[Slot]:
    """Return all slots that a session counts in, each once."""
    found = set()
    for s in sessions:
        for grain, length in ((1, QUARTER), (2, HOUR), (3, DAY)):
            for start in range(s.started // length * length, max(s.ended, s.started + 1), length):
                found.add(Slot(grain, start, start + length))
                found.add(month(start))
    return sorted(found, key=lambda slot: (slot.grain, slot.start))


def month(at: int) -> Slot:
    """Return the month that contains an instant."""
    first = (EPOCH + timedelta(milliseconds=at)).replace(
        day=1, hour=0, minute=0, second=0, microsecond=0
    )
    following = datetime(first.year + first.month // 12, first.month % 12 + 1, 1, tzinfo=UTC)
    start, end = ((edge - EPOCH) // timedelta(milliseconds=1) for edge in (first, following))
    return Slot(4, start, end)


def clipped(owned: list[tuple[int, int, S]], start: int, end: int) -> Iterator[tuple[int, int, S]]:
    """Yield the parts of segments between two instants, clipped to them."""
    for left, right, session in owned:
        if left < end and right > start:
            yield max(left, start), min(right, end), session


def parts(sessions: Sequence[S], kind: Callable[[S], Kind]) -> tuple[set[Part], set[Count]]:
    """Return the owned time of each slot, and the number of its sessions."""
    active = [s for s in sessions if not s.idle]
    edges = [edge for s in active for edge in (s.started, s.ended)]
    owned = segments(active, min(edges, default=0), max(edges, default=0))
    found: set[Part] = set()
    counts: set[Count] = set()
    for slot in slots(active):
        groups = defaultdict(list)
        for left, right, s in clipped(owned, slot.start, slot.end):
            reaches_over = s.started < slot.start or s.ended > slot.end
            groups[kind(s), s.key if reaches_over else None].append((left, right, s))
        for (of_kind, key), pieces in groups.items():
            times: dict[S, int] = defaultdict(int)
            for left, right, s in pieces:
                times[s] += right - left
            first, last = min(left for left, _, _ in pieces), max(right for _, right, _ in pieces)
            sums = sum(times.values()), max(times.values())
            found.add(Part(slot.grain, slot.start, of_kind, key, *sums, first, last))
        present = defaultdict(list)
        for s in counted(active, slot.start, slot.end):
            present[kind(s)].append(s)
        for of_kind, of_it in present.items():
            starting = [s for s in of_it if s.started >= slot.start]
            numbers = len(starting), len(of_it) - len(starting)
            counts.add(Count(slot.grain, slot.start, of_kind, *numbers, *lines(starting)))
    return found, counts


def lines(sessions: Sequence[Session | CodingSession]) -> tuple[int, int]:
    """Return how many lines coding sessions added and removed; others did neither."""
    coding = [s for s in sessions if isinstance(s, CodingSession)]
    return sum(s.added or 0 for s in coding), sum(s.removed or 0 for s in coding)


def app_kind(session: Session) -> Kind:
    """Return the label of an app session."""
    return session.app, session.category


def coding_kind(session: CodingSession) -> Kind:
    """Return the key of a coding session."""
    return session.project, session.language or "unknown"

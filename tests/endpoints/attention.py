"""A slow and simple model of context switches and focus streaks, on the whole timeline of a person.

All times are whole milliseconds since EPOCH.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.endpoints.timeline import Session, segments

LONGEST_GAP = 300_000
SHORTEST_RUN = 1000
SHORTEST_STREAK = 600_000
DISTRACTION = 30_000
NEUTRAL = 120_000


@dataclass(frozen=True)
class Segment:
    """A stretch of time without a break that one session owns."""

    start: int
    end: int
    session: Session

    @property
    def length(self) -> int:
        """How long it is."""
        return self.end - self.start

    @property
    def score(self) -> int:
        """The score of its category."""
        return self.session.score


def whole_timeline(sessions: Sequence[Session]) -> list[Segment]:
    """Return all owned time, in order; neighbours of the same session are one segment."""
    whole: list[Segment] = []
    edges = [edge for s in sessions for edge in (s.started, s.ended)]
    for start, end, session in segments(sessions, min(edges, default=0), max(edges, default=0)):
        if whole and whole[-1].session is session and whole[-1].end == start:
            whole[-1] = Segment(whole[-1].start, end, session)
        else:
            whole.append(Segment(start, end, session))
    return whole


Run = list[Segment]


def own_ms(run: Run) -> int:
    """Return how much time a run owns."""
    return sum(segment.length for segment in run)


def joined(runs: list[Run]) -> list[Run]:
    """Join each run to the one before if both are of one application and near each other."""
    result: list[Run] = []
    for run in runs:
        before = result[-1][-1] if result else None
        if (
            before is not None
            and before.session.app == run[0].session.app
            and run[0].start - before.end <= LONGEST_GAP
        ):
            result[-1] = result[-1] + run
        else:
            result.append(run)
    return result


@dataclass(frozen=True)
class Switch:
    """The start of an application after another one."""

    at: int
    from_app: str
    to_app: str
    from_category: str
    to_category: str
    before_ms: int


def switches(timeline: list[Segment]) -> list[Switch]:
    """Return the switches of a timeline, in order."""
    spells = joined([[segment] for segment in timeline])
    runs = joined([spell for spell in spells if own_ms(spell) >= SHORTEST_RUN])
    return [
        Switch(
            after[0].start,
            before[0].session.app,
            after[0].session.app,
            # The first of the longest.
            max(before, key=lambda segment: segment.length).session.category,
            max(after, key=lambda segment: segment.length).session.category,
            own_ms(before),
        )
        for before, after in pairwise(runs)
        if before[0].session.app != after[0].session.app
        and after[0].start - before[-1].end <= LONGEST_GAP
    ]


@dataclass(frozen=True)
class Streak:
    """Segments without a break of focus, the first and the last of them productive; and the break after
    them."""

    parts: list[Segment]
    reason: str
    at: int
    breaker: Segment | None = None
    gap_ms: int | None = None

    @property
    def start(self) -> int:
        """When it starts."""
        return self.parts[0].start

    @property
    def end(self) -> int:
        """When it ends."""
        return self.parts[-1].end

    @property
    def productive_ms(self) -> int:
        """How much of it is productive."""
        return sum(part.length for part in self.parts if part.score >= 1)

    def top(self, names: dict[Segment, str]) -> str:
        """Return the name under which most of its time was spent, of several the first."""
        spent = Counter[str]()
        for part in self.parts:
            spent[names[part]] += part.length
        return min(spent, key=lambda name: (-spent[name], name.encode()))


def streaks(timeline: list[Segment], now: int) -> list[Streak]:
    """Return the streaks of a timeline, in order."""
    found: list[Streak] = []
    rest = timeline
    while rest:
        if rest[0].score < 1:
            rest = rest[1:]
            continue
        streak, taken = first_streak(rest, now)
        if streak.end - streak.start >= SHORTEST_STREAK:
            found.append(streak)
        rest = rest[taken:]
    return found


def first_streak(timeline: list[Segment], now: int) -> tuple[Streak, int]:
    """Return the streak that starts with the first segment, and how many segments it took to break it."""
    last = 0
    for n, segment in enumerate(timeline[1:], start=1):
        before = timeline[n - 1]
        parts = timeline[: last + 1]
        if segment.start - before.end > LONGEST_GAP:
            return Streak(parts, "idle", before.end, gap_ms=segment.start - before.end), n
        if segment.score >= 1:
            last = n
            continue
        since = timeline[last + 1 : n + 1]
        if segment.score < 0 and sum(s.length for s in since if s.score < 0) >= DISTRACTION:
            return Streak(parts, "distraction", segment.start, segment), n + 1
        if segment.score == 0 and sum(s.length for s in since if s.score == 0) > NEUTRAL:
            return Streak(parts, "neutral", segment.start, segment), n + 1
    end = timeline[-1].end
    reason = "ongoing" if now - end < LONGEST_GAP else "end_of_data"
    return Streak(timeline[: last + 1], reason, end), len(timeline)

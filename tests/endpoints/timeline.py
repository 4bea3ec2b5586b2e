"""A slow and obvious model of who owns the time (contract: the latest start wins)."""

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Session:
    """One session; times are milliseconds since some instant."""

    key: str
    device: str
    app: str
    started: int
    ended: int
    idle: bool = False


def owner(sessions: list[Session], at: int) -> Session | None:
    """Return the session that owns the millisecond that begins at ``at``."""
    running = [s for s in sessions if not s.idle and s.started <= at < s.ended]
    if not running:
        return None
    latest = max(s.started for s in running)
    return min(
        (s for s in running if s.started == latest),
        key=lambda s: (s.device.encode(), s.app.encode(), s.key.encode()),
    )


def owned_ms(sessions: list[Session], start: int, end: int) -> dict[Session, int]:
    """Return how long each session owns the time between ``start`` and ``end``.

    Between two neighbouring edges nothing begins or ends, so asking once for each such stretch is the
    same as asking for every millisecond.
    """
    edges = {start, end} | {s.started for s in sessions} | {s.ended for s in sessions}
    inside = sorted(edge for edge in edges if start <= edge <= end)
    owned: dict[Session, int] = defaultdict(int)
    for left, right in pairwise(inside):
        session = owner(sessions, left)
        if session is not None:
            owned[session] += right - left
    return owned


def counted(sessions: list[Session], start: int, end: int) -> list[Session]:
    """Return the sessions that count in the half-open range, also those that own nothing of it."""
    return [
        s
        for s in sessions
        if not s.idle
        and start < end
        and s.started < end
        and (s.ended > start or (s.started == s.ended and s.started >= start))
    ]


def app_usage(sessions: list[Session], start: int, end: int) -> list[tuple[str, int, int, int]]:
    """Return (app, total, sessions, longest session) per app, longest first."""
    owned = owned_ms(sessions, start, end)
    present = counted(sessions, start, end)
    rows = []
    for app in {s.app for s in present}:
        of_app = [s for s in present if s.app == app]
        times = [owned.get(s, 0) for s in of_app]
        rows.append((app, sum(times), len(of_app), max(times)))
    return sorted(rows, key=lambda row: (-row[1], row[0].encode()))

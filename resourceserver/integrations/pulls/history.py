"""Walking through a history that a service gives from the newest entry to the oldest, a page at a time.

What has not been read yet is a list of gaps, the newest first. A gap lies between two times, and a page of it
begins below its upper end:

    now ···· gap ····· newest known ───── read ───── gap ····· the beginning

A pull adds the gap between now and the newest known entry and closes gaps from the newest, until its requests
are used up. Times make a better cursor than numbers of pages, which change with each entry that is added.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from resourceserver.integrations.pulls.pulling import Item
from resourceserver.integrations.pulls.service import Service, member

DAY_S: Final = 24 * 60 * 60
MOST_GAPS: Final = 8
"""The most gaps; beyond them, the two oldest become one."""

Gap = tuple[int | None, int | None]
"""The time before which, and the time after which, entries are unread; None for now and for the beginning."""


class Entry(NamedTuple):
    """One entry of a page; its time in seconds is None if it cannot be read."""

    at: int | None
    items: Iterable[Item]


class Page(NamedTuple):
    """The newest entries before a time."""

    entries: list[Entry]
    is_last: bool = False
    """Whether the service has certainly no older ones in the gap."""


Pages = Callable[[int | None, int | None], Page]
"""Returns a page of the gap between two times."""


def walk(
    state: dict[str, Any],
    name: str,
    pages: Pages,
    service: Service,
    *,
    now: int,
    overlap_s: int,
    reserve: int = 0,
) -> Iterator[Item]:
    """Yield what is in the gaps of a history, which ``state`` has under a name.

    The newest ``overlap_s`` seconds of what is known are read again, for entries that arrived late. At least
    ``reserve`` requests are left over.
    """
    history = state.get(name)
    newest, gaps = _whole(member(history, "newest")), _gaps(member(history, "gaps"))
    gaps.insert(0, (None, _end(newest, gaps, overlap_s)))
    if len(gaps) > MOST_GAPS:
        (before, _), (_, after) = gaps[-2:]
        gaps[-2:] = [(before, after)]
    while gaps and service.requests_left > reserve:
        before, after = gaps[0]
        page = pages(before, after)
        entries = [
            entry
            for entry in page.entries
            if entry.at is None or before is None or entry.at < before
        ]
        for entry in entries:
            yield from entry.items
        times = [entry.at for entry in entries if entry.at is not None]
        # An entry of the future must not hide those that are added until then.
        newest = max(
            [min(at, now) for at in times] + ([] if newest is None else [newest]), default=None
        )
        gaps[:1] = [] if page.is_last else _rest(gaps[0], min(times, default=None))
        state[name] = {"newest": newest, "gaps": [list(gap) for gap in gaps]}


def _end(newest: int | None, gaps: list[Gap], overlap_s: int) -> int | None:
    """Return the end of the gap that begins now."""
    if newest is None:
        return None
    after = newest - overlap_s
    # What lies below the beginning of an older gap is read as a part of that.
    return after if not gaps or gaps[0][0] is None else max(after, gaps[0][0] - 1)


def _rest(gap: Gap, oldest: int | None) -> list[Gap]:
    """Return what is left of a gap after a page whose oldest entry has this time; nothing if it is closed."""
    before, after = gap
    if oldest is None or oldest <= 0 or (after is not None and oldest <= after):
        return []
    # The next page can have more entries of the same second, unless the whole page was of that second.
    following = oldest + 1
    return [(oldest if before is not None and following >= before else following, after)]


def _gaps(stored: Any) -> list[Gap]:
    if not isinstance(stored, list):
        return []
    return [
        (_whole(gap[0]), _whole(gap[1]))
        for gap in stored
        if isinstance(gap, list) and len(gap) == 2
    ][:MOST_GAPS]


def _whole(stored: Any) -> int | None:
    return stored if isinstance(stored, int) and not isinstance(stored, bool) else None


def walk_listens(state: dict[str, Any], pages: Pages, service: Service, now: int) -> Iterator[Item]:
    """Walk through listens, which a player that was offline submits late.

    Each pull reads the last day again, and one pull a day the last month.
    """
    wide_at = _whole(state.get("wide_at"))
    is_wide = wide_at is None or not 0 <= now - wide_at < DAY_S
    overlap_s = 30 * DAY_S if is_wide else DAY_S
    yield from walk(state, "history", pages, service, now=now, overlap_s=overlap_s)
    if is_wide:
        state["wide_at"] = now


def is_short(before: int | None, after: int | None, now: int) -> bool:
    """Return whether a gap has few listens, so that a small page is enough."""
    return after is not None and (now if before is None else before) - after < 3 * DAY_S

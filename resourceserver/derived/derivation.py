"""The job that derives visits, time zones and offsets of sleeps from where a person was.

    an import writes points ──► days are marked ──quiet for two minutes, or at its end──► derived again

Every write of points, visits and sleeps marks its days in the same transaction, and so does the undo of an
import. The job reads the marks, derives a week of marked days at most in one transaction, a command twelve
weeks, and removes the marks that nobody has set again since. Running it twice changes nothing. One process at
a time works on a person.

Visits are searched in the points from the last visit that the marked days cannot change, up to the first one
after them that is found as it is stored, or to three hours without points: a stay depends neither on the
points before the stay before it, nor on those before such a gap (stays.py). Visits that a source states come
first: their points are left out, and derived visits fill the time that none of them covers.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

import psycopg

from resourceserver.derived import stays, zones
from resourceserver.derived.places import Place, Places
from resourceserver.derived.stays import ALONE, GAP, SLOT, Stay, Stays
from resourceserver.timeline import rounds
from shared import pipeline, queries, schema
from shared.jobs import Job
from shared.pool import Connection

log = logging.getLogger("svc.derived")

SQL: Final = queries.load(Path(__file__).with_name("derivation.sql"))

INTERVAL: Final = timedelta(seconds=30)
QUIET: Final = timedelta(minutes=2)
"""How long a day must be without writes before the job derives it again: an import writes on for a while."""
AT_ONCE: Final = timedelta(0)
"""A quiet time for marks of any age."""
SLEEP_BOUND: Final = timedelta(hours=48)
"""How long before the end of a sleep the person must have been seen to give it an offset, as in the SQL."""
_DAYS: Final = 7
"""The most days of one transaction. With a point a second they have 600,000 points, which take seconds."""
_DAYS_OF_COMMAND: Final = 84
"""The same of a command, which has no limit of time. Each transaction reads all places of the person."""
_POINTS: Final = 5000
"""The points of one page. Computing takes the event loop some milliseconds for each."""
_SPAN: Final = timedelta(days=366)
"""The most days from the first to the last of marked days with gaps between them."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_END: Final = datetime.max.replace(microsecond=999_000, tzinfo=UTC)
"""The last instant that a row may have."""

Mark = tuple[date, datetime]
"""A day in UTC, and the time of its mark."""


@dataclass(frozen=True)
class Progress:
    """The state between a person's turns."""

    after: date = date.min
    """The last marked day that had its turn."""
    at_once: int = _DAYS


def job(interval: timedelta = INTERVAL) -> Job:
    """Return the background job that derives. It needs connections of the ``worker`` role."""
    return Job(derive_due, interval, log, "visits are derived later")


async def derive_due(
    worker: Connection, turn: timedelta = rounds.TURN, quiet: timedelta = QUIET
) -> int:
    """Derive the marked days of all people; return their number.

    People take turns of about a week of days. If the days take longer than ``turn``, they are derived one by
    one, and a single day that does is left for the next run, as are the days of a person that fail. Raises
    psycopg.Error unless the error is about one person.
    """
    days = 0

    async def take_one(user_id: UUID, progress: Progress | None) -> Progress | None:
        nonlocal days
        try:
            done, rest = await take_turn(worker, user_id, progress, turn, quiet)
        except psycopg.Error as error:
            if worker.broken or schema.mismatch_of(error):
                raise
            log.warning("visits of %s are derived later: %s", user_id, error.sqlstate)
            return None
        days += done
        return rest

    await rounds.go_round(lambda after: people_due(worker, after, quiet), take_one)
    return days


async def people_due(worker: Connection, after: UUID, quiet: timedelta = QUIET) -> list[UUID]:
    """Return at most ``rounds.PEOPLE`` ids after one, of people with marked days."""
    with pipeline.first_statement():
        cursor = await worker.execute(
            SQL["people_due"],
            {"after": after, "quiet": quiet, "limit": rounds.PEOPLE, **schema.VERSION},
        )
    return [user_id for (user_id,) in await cursor.fetchall()]


async def take_turn(
    worker: Connection,
    user_id: UUID,
    progress: Progress | None = None,
    turn: timedelta = rounds.TURN,
    quiet: timedelta = QUIET,
) -> tuple[int, Progress | None]:
    """Derive a week of marked days of one person at most, unless another process does so now.

    Returns their number, and the state for the person's next turn, None if no day was left. Raises
    psycopg.Error.
    """
    progress = progress or Progress()
    window = None
    try:
        async with asyncio.timeout(turn.total_seconds()), worker.transaction():
            window = await _next_days(worker, user_id, progress, quiet, lock="take_turn")
            if window is None:
                return 0, None
            await _derive_days(worker, user_id, window)
    except TimeoutError:
        log.warning("the visits of %s take too long and are put off", user_id)
        if window is None:
            return 0, None
        if len(window.marks) > 1:
            return 0, replace(progress, at_once=1)
        return 0, Progress(window.last, at_once=1)
    return len(window.marks), replace(progress, after=window.last)


async def derive(worker: Connection, user_id: UUID) -> int:
    """Derive all marked days of one person now; return their number. Raises psycopg.Error."""
    days, progress = 0, Progress(at_once=_DAYS_OF_COMMAND)
    while True:
        async with worker.transaction():
            window = await _next_days(worker, user_id, progress, AT_ONCE, lock="await_turn")
            if window is None:
                return days
            await _derive_days(worker, user_id, window)
        days, progress = days + len(window.marks), replace(progress, after=window.last)


async def _next_days(
    worker: Connection, user_id: UUID, progress: Progress, quiet: timedelta, *, lock: str
) -> "_Window | None":
    """Open the transaction of a turn; return its days, or None.

    They are without a gap, or few points are between the first and the last of them: these are read again in
    less time than a window for each day takes, and nothing changes on days that are not marked.
    """
    await worker.execute(SQL["begin_for"], {"user_id": user_id, **schema.VERSION})
    await worker.execute(SQL["wait_longer"])
    await worker.execute(SQL["read_by_index"])
    if await _value(worker, lock, user_id=user_id) is False:
        return None
    limit = progress.at_once + 1
    values = {"user_id": user_id, "after": progress.after, "quiet": quiet, "limit": limit}
    marks: list[Mark] = await _rows(worker, "read_marks", values)
    if not marks:
        return None
    together = marks[: progress.at_once]
    without_gap = _count_without_gap(together)
    if without_gap < len(together):
        begins_at = datetime.combine(marks[0][0], time(), UTC)
        values = {"user_id": user_id, "from": begins_at, "points": _POINTS}
        many_at: datetime | None = await _value(worker, "many_points_at", **values)
        together = [
            mark
            for number, mark in enumerate(together)
            if number < without_gap
            or (mark[0] - marks[0][0] < _SPAN and (many_at is None or mark[0] < many_at.date()))
        ]
    following = marks[len(together) : len(together) + 1]
    is_followed = bool(following) and following[0][0] - together[-1][0] == timedelta(days=1)
    return _Window.of(together, is_followed=is_followed)


def _count_without_gap(marks: Sequence[Mark]) -> int:
    """Return how many of the first marked days follow each other."""
    first = marks[0][0]
    following = takewhile(
        lambda numbered: numbered[1][0] - first == timedelta(numbered[0]), enumerate(marks)
    )
    return sum(1 for _ in following)


async def _derive_days(worker: Connection, user_id: UUID, window: "_Window") -> None:
    """Derive the days of a window, and remove their marks."""
    zone = await _value(worker, "zone_of_profile", user_id=user_id)
    if zone is not None:
        await _derive_visits(worker, user_id, window)
        await _set_zones(worker, user_id, window)
        await _set_offsets(worker, user_id, window, zone)
    await worker.execute(
        SQL["remove_marks"],
        {
            "user_id": user_id,
            "dates": [day for day, _ in window.marks],
            "marked_at": [at for _, at in window.marks],
        },
    )


@dataclass(frozen=True)
class _Window:
    """Some marked days, and those between them."""

    marks: Sequence[Mark]
    begins_at: datetime
    ends_at: datetime
    is_followed: bool
    """Whether the day after them is marked as well."""

    @property
    def last(self) -> date:
        """Return the last of them."""
        return self.marks[-1][0]

    @classmethod
    def of(cls, marks: Sequence[Mark], *, is_followed: bool) -> "_Window":
        """Return the window of these marks."""
        last = datetime.combine(marks[-1][0], time(), UTC)
        ends_at = min(last, _END - timedelta(days=1)) + timedelta(days=1)
        return cls(marks, datetime.combine(marks[0][0], time(), UTC), ends_at, is_followed)


@dataclass
class _Search:
    """The stays in the points of a window and around it, all of which begin between two instants."""

    begins_at: datetime
    ends_at: datetime = _END
    stays: list[Stay] = field(default_factory=list)


async def _derive_visits(worker: Connection, user_id: UUID, window: _Window) -> None:
    """Write the visits of a window, and the places that these need."""
    search = await _search(worker, user_id, window)
    extent = {"user_id": user_id, "from": search.begins_at, "to": search.ends_at}
    stored = [
        row
        for row in await _rows(worker, "visits_between", {**extent, "is_derived": True})
        if _instant(row[1]) >= search.begins_at
    ]
    if not (stored or search.stays):
        return
    places = await _places(worker, user_id)
    by_key = {key: (event_id, place_id) for event_id, _, _, key, place_id in stored}
    check_ins = [
        (at, place_id, stays.vector(latitude, longitude))
        for at, place_id, latitude, longitude in await _rows(worker, "check_ins_between", extent)
    ]
    added: list[tuple[Any, ...]] = []
    moved: list[tuple[UUID, UUID]] = []
    for stay in search.stays:
        event_id, kept = by_key.pop(_key(stay), (None, None))
        while check_ins and check_ins[0][0] < stay.started_at:
            check_ins.pop(0)
        during = [(each[1], each[2]) for each in check_ins if each[0] <= stay.ended_at]
        place = places.of(stay.centre, during, kept)
        place.is_used = True
        if event_id is None:
            added.append((stay.started_at, stay.ended_at, _offset(stay, place), place.place_id))
        elif kept != place.place_id:
            moved.append((event_id, place.place_id))
    if by_key:
        gone = [event_id for event_id, _ in by_key.values()]
        await worker.execute(SQL["remove_visits"], {"user_id": user_id, "event_ids": gone})
    await _write(worker, user_id, places.new, added, moved)
    await _tidy(worker, user_id, places, left={place_id for *_, place_id in stored})


async def _write(
    worker: Connection,
    user_id: UUID,
    new: Sequence[Place],
    added: Sequence[tuple[Any, ...]],
    moved: Sequence[tuple[UUID, UUID]],
) -> None:
    """Write new places and visits, and visits that are at another place now."""
    if new:
        degrees = [stays.position(place.centre) for place in new]
        values = {
            "place_ids": [place.place_id for place in new],
            "keys": [str(place.place_id) for place in new],
            "names": [place.name for place in new],
            "latitudes": [round(latitude, 5) for latitude, _ in degrees],
            "longitudes": [round(longitude, 5) for _, longitude in degrees],
        }
        await worker.execute(SQL["add_places"], {"user_id": user_id, **values})
    if added:
        names = ("started_at", "ended_at", "utc_offsets", "place_ids")
        columns = {
            name: list(column) for name, column in zip(names, zip(*added, strict=True), strict=True)
        }
        await worker.execute(SQL["add_visits"], {"user_id": user_id, **columns})
    if moved:
        event_ids, place_ids = (list(column) for column in zip(*moved, strict=True))
        await worker.execute(
            SQL["move_visit"],
            {"user_id": user_id, "event_ids": event_ids, "place_ids": place_ids},
        )


async def _tidy(worker: Connection, user_id: UUID, places: Places, left: set[UUID]) -> None:
    """Move visits from derived places to stated ones that stand beside them, and remove unused places.

    A place whose visits have moved stays, so that the next visit there finds the same stated place. ``left``
    are the places that visits may have left.
    """
    beside = {place.place_id: places.stated_beside(place) for place in places if place.is_derived}
    renamed = {
        place.place_id: other.place_id
        for place in places
        if place.is_used and (other := beside.get(place.place_id)) is not None
    }
    if renamed:
        values = {"old_ids": list(renamed), "new_ids": list(renamed.values())}
        await worker.execute(SQL["move_visits"], {"user_id": user_id, **values})
    unused = [
        place.place_id
        for place in places
        if place.is_derived
        and beside[place.place_id] is None
        and (not place.is_used or place.place_id in left)
    ]
    if unused:
        values = {"place_ids": unused}
        await worker.execute(SQL["remove_places"], {"user_id": user_id, **values})


async def _search(worker: Connection, user_id: UUID, window: _Window) -> _Search:
    """Search stays from before a window on, up to where nothing can differ from what is stored."""
    found = Stays()
    search = await _begin_search(worker, user_id, window, found)
    ends_at = _ms(window.ends_at)
    covered = -(2**63)
    # The last instant up to which the marked days can have changed what the next point finds.
    known_at = ends_at
    async with aclosing(_pages(worker, user_id, search.begins_at, window.ends_at)) as pages:
        async for points, stated in pages:
            intervals = iter([*stated, (2**63, 0)])
            begins, until = next(intervals)
            for at, latitude, longitude, accuracy_m in points:
                if begins <= at:
                    while begins <= at:
                        covered = max(covered, until)
                        search.stays += found.cut(begins, covered)
                        if begins >= ends_at:
                            search.ends_at = _instant(begins)
                            return search
                        begins, until = next(intervals)
                    known_at = max(known_at, covered)
                if at - known_at > GAP:
                    # Whatever the marked days hold, the search begins anew at this point.
                    search.ends_at = _instant(at)
                    search.stays += found.finish()
                    return search
                if at > known_at:  # noqa: PLR1730 -- a call for each point takes longer
                    known_at = at
                if at < covered:
                    continue
                stay = found.add(at, latitude, longitude, accuracy_m)
                if stay is not None:
                    search.stays.append(stay)
                    if stay.ended_at >= ends_at and await _value(
                        worker, "has_visit", user_id=user_id, key=_key(stay)
                    ):
                        search.ends_at = _instant(stay.ended_at)
                        return search
                if at >= ends_at and window.is_followed and found.settled_at >= ends_at:
                    search.ends_at = _instant(found.settled_at)
                    return search
            # A stated visit after the last points still ends a stay.
            while begins < 2**63:
                covered = max(covered, until)
                search.stays += found.cut(begins, covered)
                begins, until = next(intervals)
    search.stays += found.finish()
    return search


async def _begin_search(
    worker: Connection, user_id: UUID, window: _Window, finder: Stays
) -> _Search:
    """Begin a search at the last visit that the window cannot change."""
    values = {"user_id": user_id, "from": window.begins_at}
    margin = timedelta(milliseconds=GAP + ALONE)
    since = max(window.begins_at, datetime.min.replace(tzinfo=UTC) + margin) - margin
    rows = await _rows(worker, "last_visit_before", {**values, "since": since})
    search = _Search(datetime.min.replace(tzinfo=UTC))
    if rows:
        last_at = _ms(rows[0][0])
        if rows[0][1]:
            search.begins_at = rows[0][0]
            finder.cut(last_at, last_at)
        else:
            search.begins_at = _instant((last_at // SLOT + 1) * SLOT)
    return search


class _Page(NamedTuple):
    """Some points in order, and the stated visits that begin up to their end."""

    points: Sequence[tuple[int, float, float, float | None]]
    stated: Sequence[tuple[int, int]]


async def _pages(
    worker: Connection, user_id: UUID, begins_at: datetime, ends_at: datetime
) -> AsyncGenerator[_Page, None]:
    """Yield pages from one instant on. While the caller searches a page, the database reads the next one.

    A page after ``ends_at`` is read only when the caller asks for it. A search ends early only in a page that
    reaches beyond ``ends_at``. No page may be on its way then: cancelling its statement would abort the
    transaction. The caller must close the generator, because the connection is in use until then.
    """
    reading = asyncio.create_task(_page(worker, user_id, begins_at, is_first=True))
    try:
        while True:
            page, until = await reading
            if until is None:
                yield page
                return
            if until < ends_at:
                reading = asyncio.create_task(_page(worker, user_id, until))
                # The task sends its first statement before the caller takes the event loop for itself.
                await asyncio.sleep(0)
            yield page
            if until >= ends_at:
                reading = asyncio.create_task(_page(worker, user_id, until))
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _page(
    worker: Connection, user_id: UUID, from_at: datetime, *, is_first: bool = False
) -> tuple[_Page, datetime | None]:
    """Return the page from one instant on, and where the next one begins; None after the last one."""
    values = {"user_id": user_id, "from": from_at, "limit": _POINTS}
    # Numbers in binary cost both sides a fraction of numbers in text.
    points = await _rows(worker, "points_from", values, binary=True)
    is_last = len(points) < _POINTS
    until = _instant(points[-1][0] + 1) if points else from_at
    # After the last point, the stated visits count that end what goes on.
    to = _instant(_ms(until) + GAP) if is_last else until
    values = {"user_id": user_id, "from": from_at, "to": to, "is_derived": False}
    rows = await _rows(worker, "visits_between", values)
    stated = [row[1:3] for row in rows if is_first or _instant(row[1]) >= from_at]
    return _Page(points, stated), None if is_last else until


async def _places(worker: Connection, user_id: UUID) -> Places:
    """Return the places that were derived, and those where a source states a visit.

    Places of check-ins alone are left out: next to a home there are many.
    """
    visited = {
        place_id: (is_used, is_stated)
        for place_id, is_used, is_stated in await _rows(
            worker, "visited_places", {"user_id": user_id}
        )
    }
    places = Places()
    for place_id, latitude, longitude, is_derived in await _rows(
        worker, "known_places", {"user_id": user_id}
    ):
        is_used, is_stated = visited.get(place_id, (False, False))
        if is_derived or is_stated:
            places.add(Place(place_id, stays.vector(latitude, longitude), is_derived, is_used))
    return places


async def _set_zones(worker: Connection, user_id: UUID, window: _Window) -> None:
    """Look up the zones of points that have none: those of the time before points had zones."""
    values = {
        "user_id": user_id,
        "from": window.begins_at,
        "to": window.ends_at,
        "limit": _POINTS,
    }
    while rows := await _rows(worker, "points_without_zone", values):
        located = [
            (point_id, zones.zone(latitude, longitude) or "UTC")
            for point_id, latitude, longitude in rows
        ]
        point_ids, names = (list(column) for column in zip(*located, strict=True))
        await worker.execute(
            SQL["set_zones"], {"user_id": user_id, "point_ids": point_ids, "zones": names}
        )
        if len(rows) < _POINTS:
            return


async def _set_offsets(worker: Connection, user_id: UUID, window: _Window, profile: str) -> None:
    """Write the offsets that sources do not say: of where the person was, or else of the profile's zone."""
    values = {
        "user_id": user_id,
        "from": window.begins_at,
        "to": min(window.ends_at, _END - SLEEP_BOUND) + SLEEP_BOUND,
    }
    # Of the marked days alone, each with the two after it: the profile's zone may have changed since others.
    near = {
        day.toordinal() + after for day, _ in window.marks for after in range(SLEEP_BOUND.days + 1)
    }
    changed = []
    for sleep_id, ended_at, stored, latitude, longitude in await _rows(
        worker, "sleeps_between", values
    ):
        if ended_at.astimezone(UTC).toordinal() not in near:
            continue
        zone = None if latitude is None else zones.zone(latitude, longitude)
        offset = zones.offset(zone or profile, ended_at)
        if offset != stored:
            changed.append((sleep_id, offset))
    if changed:
        sleep_ids, offsets = (list(column) for column in zip(*changed, strict=True))
        await worker.execute(
            SQL["set_offsets"], {"user_id": user_id, "sleep_ids": sleep_ids, "offsets": offsets}
        )


def _key(stay: Stay) -> str:
    """Return the key of a visit: it is the same one if its instants are."""
    return f"{stay.started_at}-{stay.ended_at}"


def _offset(stay: Stay, place: Place) -> str | None:
    zone = place.zone
    return None if zone is None else zones.offset(zone, _instant(stay.started_at))


def _instant(ms: int) -> datetime:
    return _EPOCH + min(ms, _ms(_END)) * _MS


def _ms(at: datetime) -> int:
    return (at - _EPOCH) // _MS


async def _rows(
    worker: Connection, name: str, values: dict[str, Any], *, binary: bool = False
) -> list[Any]:
    return await (await worker.execute(SQL[name], values, binary=binary)).fetchall()


async def _value(worker: Connection, name: str, **values: Any) -> Any:
    row = await (await worker.execute(SQL[name], values)).fetchone()
    return None if row is None else row[0]

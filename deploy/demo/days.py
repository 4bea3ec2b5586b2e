"""The days of the invented life: when the person wakes, works, travels and sleeps.

A day depends only on the seed, the date and the position of the day within the whole time. So the same seed
and days give the same life, down to the ids of its rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from random import Random
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from deploy.demo.world import AMSTERDAM, LISBON, Town

Row = dict[str, Any]
"""A row of a table: values by column, without ``user_id``."""
Block = tuple[datetime, datetime]
"""A stretch of time, in UTC."""

HOUR: Final = timedelta(hours=1)
MINUTE: Final = timedelta(minutes=1)
_FRIDAY: Final = 5
_SATURDAY: Final = 6
_TRIPS: Final = (0.35, 0.8)
"""When trips begin, as shares of the whole time."""
_LONGEST_TRIP: Final = 7
_VERSION_BITS: Final = 0xF << 76


@dataclass(frozen=True)
class Day:
    """One calendar day in the zone of the town where the person was."""

    date: date
    share: float
    """The share of the whole time that has passed, from 0 to 1."""
    town: Town
    zone: ZoneInfo
    is_trip: bool
    fell_asleep_at: datetime
    """Usually on the evening before; this and all other times are UTC."""
    woke_at: datetime
    bed_at: datetime

    @property
    def is_workday(self) -> bool:
        """Whether the person works on this day."""
        return self.date.isoweekday() < _SATURDAY and not self.is_trip

    def at(self, hour: float) -> datetime:
        """Return the instant at which local clocks show ``hour``, to the millisecond."""
        local = datetime.combine(self.date, time(), self.zone) + timedelta(hours=hour)
        instant = local.astimezone(UTC)
        return instant.replace(microsecond=instant.microsecond // 1000 * 1000)

    def offset(self, at: datetime) -> str:
        """Return the offset of local time from UTC at ``at``, such as ``+02:00``."""
        ahead = int((at.astimezone(self.zone).utcoffset() or timedelta()).total_seconds()) // 60
        return f"{'-' if ahead < 0 else '+'}{abs(ahead) // 60:02}:{abs(ahead) % 60:02}"

    def awake(self, begin: float, end: float) -> Block:
        """Return the part of the local hours from ``begin`` to ``end`` in which the person is awake."""
        return max(self.at(begin), self.woke_at), min(self.at(end), self.bed_at)


@dataclass(frozen=True)
class Life:
    """The account, the seed and the days of a life."""

    user_id: UUID
    seed: int
    first: date
    last: date
    home_zone: str
    """The time zone of the days at home."""

    @property
    def length(self) -> int:
        """The number of days."""
        return (self.last - self.first).days + 1

    @property
    def home(self) -> Town:
        """The town where the person lives: always the same one, whatever its time zone."""
        return AMSTERDAM._replace(zone=self.home_zone)

    def rng(self, topic: str, day: date | None = None) -> Random:
        """Return the random numbers of a topic, for one day or for the whole life."""
        return Random(f"{self.seed} {topic} {day}")  # noqa: S311 -- an invented life is no secret

    def chapter(self, topic: str, day: Day) -> "Chapter":
        """Return a topic of one day."""
        return Chapter(self, day, self.rng(topic, day.date))

    def row_id(self, rng: Random) -> UUID:
        """Return an id that differs from those of other accounts.

        Its version, 8, marks the row as invented: the service's own ids have version 4.
        """
        random = UUID(int=rng.getrandbits(128) ^ self.user_id.int, version=4)
        # The UUID class of Python 3.11 knows no version 8 (RFC 9562, section 5.8).
        return UUID(int=random.int & ~_VERSION_BITS | 8 << 76)

    def days(self) -> Iterator[Day]:
        """Yield all days in order."""
        evening = self._bed(self.first - timedelta(days=1))
        for number in range(self.length):
            day = self._day(self.first + timedelta(days=number), evening)
            yield day
            evening = day.bed_at

    def _day(self, day: date, fell_asleep_at: datetime) -> Day:
        zone = ZoneInfo(self._town(day).zone)
        rng = self.rng("wake", day)
        is_lazy = day.isoweekday() >= _SATURDAY or self._is_trip(day)
        hour = rng.gauss(8.6, 0.6) if is_lazy else rng.gauss(7.1, 0.3)
        wanted = (datetime.combine(day, time(), zone) + timedelta(hours=hour)).astimezone(UTC)
        # A change of time zone moves the hour at which the person wakes up.
        woke_at = max(min(wanted, fell_asleep_at + 9.5 * HOUR), fell_asleep_at + 4.5 * HOUR)
        return Day(
            date=day,
            share=((day - self.first).days + 0.5) / self.length,
            town=self._town(day),
            zone=zone,
            is_trip=self._is_trip(day),
            fell_asleep_at=fell_asleep_at,
            woke_at=woke_at.replace(microsecond=0),
            bed_at=max(self._bed(day), woke_at + 10 * HOUR),
        )

    def _bed(self, day: date) -> datetime:
        rng = self.rng("bed", day)
        is_late = day.isoweekday() in (_FRIDAY, _SATURDAY) or self._is_trip(day)
        hour = rng.gauss(24.3, 0.6) if is_late else rng.gauss(23.2, 0.4)
        zone = ZoneInfo(self._town(day).zone)
        local = datetime.combine(day, time(), zone) + timedelta(hours=hour)
        return local.astimezone(UTC).replace(microsecond=0)

    def trips(self) -> list[tuple[date, date]]:
        """Return the first and the last day of each trip."""
        length = max(1, min(_LONGEST_TRIP, self.length // 4))
        begins = [self.first + timedelta(days=int(self.length * share)) for share in _TRIPS]
        return [(begin, begin + timedelta(days=length - 1)) for begin in begins]

    def _is_trip(self, day: date) -> bool:
        return any(begin <= day <= end for begin, end in self.trips())

    def _town(self, day: date) -> Town:
        if not self._is_trip(day):
            return self.home
        return AMSTERDAM if self.home_zone == LISBON.zone else LISBON


@dataclass(frozen=True)
class Chapter:
    """One topic of one day, with its own random numbers."""

    life: Life
    day: Day
    rng: Random

    def row_id(self) -> UUID:
        """Return an id for a row."""
        return self.life.row_id(self.rng)

"""All rows of the invented life, in pieces of some days that can be written one after the other."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Final
from uuid import UUID

from deploy.demo import body, desk, outings, standing, world
from deploy.demo.days import HOUR, Day, Life, Row

Piece = dict[str, list[Row]]
"""Rows by table; a table comes after those to which its rows refer."""

DAYS_OF_A_PIECE: Final = 14


@dataclass(frozen=True)
class Fixtures:
    """Rows that the rows of single days refer to, by name."""

    devices: dict[str, UUID]
    sources: dict[str, UUID]
    places: dict[str, Row]
    titles: dict[str, UUID]
    phone_id: UUID
    work_calendar_id: UUID


@dataclass(frozen=True)
class Story:
    """The rows of a life up to the instant ``until``."""

    life: Life
    until: datetime
    coding_ms: Counter[date] = field(default_factory=Counter)
    """The coding time of each day that was yielded."""

    def pieces(self) -> Iterator[tuple[int, Piece]]:
        """Yield rows with the number of their days: first those of no day, last those computed from days."""
        fixtures, piece = self._beginning()
        yield 0, piece
        piece = defaultdict(list)
        count = 0
        for day in self.life.days():
            for table, rows in self._day(day, fixtures):
                piece[table] += filter(self._is_past, rows)
            count += 1
            if count == DAYS_OF_A_PIECE:
                yield count, piece
                piece, count = defaultdict(list), 0
        piece["content.insight"] += filter(
            self._is_past, standing.insights(self.life, self.coding_ms)
        )
        yield count, piece

    def _is_past(self, row: Row) -> bool:
        return all(at <= self.until for at in row.values() if isinstance(at, datetime))

    def _beginning(self) -> tuple[Fixtures, Piece]:
        life = self.life
        rng = life.rng("beginning")
        since = next(life.days()).at(8)
        devices = {name: life.row_id(rng) for name in (world.LAPTOP, world.PHONE)}
        sources = {name: life.row_id(rng) for name in body.SOURCES}
        titles = {name: life.row_id(rng) for name in (*world.SHOWS, *world.MOVIES)}
        phone_id, work_id, own_id = (life.row_id(rng) for _ in range(3))
        places = outings.places(life, rng)
        genres = world.SHOWS | world.MOVIES
        piece: Piece = {
            "activity.device": [
                {
                    "device_id": devices[name],
                    "name": name,
                    "platform": platform,
                    "first_seen_at": since,
                }
                for name, platform in ((world.LAPTOP, "linux"), (world.PHONE, "android"))
            ],
            "activity.goal": list(standing.goals(life, rng, since)),
            "activity.category_rule": list(standing.category_rules(life, rng)),
            "activity.category_score": list(standing.category_scores()),
            "health.source": [
                {
                    "source_id": sources[name],
                    "provider": provider,
                    "name": name,
                    "device": device,
                    "kind": kind,
                    "platform": platform,
                    "priority": priority,
                }
                for name, (provider, device, kind, platform, priority) in body.SOURCES.items()
            ],
            "health.metric": [
                {"metric_type": name, "unit": unit, "aggregation": aggregation}
                for name, (unit, aggregation) in body.METRICS.items()
            ],
            "location.device": [{"device_id": phone_id, "name": "phone", "platform": "android"}],
            "location.place": list(places.values()),
            "content.title": [
                {"title_id": titles[name], "source": "trakt", "kind": kind, "name": name}
                for kind, names in (("show", world.SHOWS), ("movie", world.MOVIES))
                for name in names
            ],
            "content.title_genre": [
                {"title_id": titles[name], "genre": genre}
                for name in genres
                for genre in genres[name]
            ],
            "content.calendar": [
                {
                    "calendar_id": row_id,
                    "name": name,
                    "provider": provider,
                    "timezone": life.home_zone,
                }
                for row_id, name, provider in (
                    (work_id, "Work", "google"),
                    (own_id, "Own", "caldav"),
                )
            ],
            "content.calendar_event": list(
                filter(self._is_past, standing.whole_day_events(life, rng, own_id))
            ),
        }
        rows, imports, parts = standing.connections(life, rng, since, self.until)
        piece["profile.connection"], piece["profile.import"] = rows, imports
        piece["profile.import_part"] = parts
        return Fixtures(devices, sources, places, titles, phone_id, work_id), piece

    def _day(self, day: Day, fixtures: Fixtures) -> Iterator[tuple[str, Iterable[Row]]]:
        life = self.life
        yield "activity.app_session", desk.app_sessions(life, day, fixtures.devices)
        coded = list(desk.coding_sessions(life, day, fixtures.devices))
        for row in filter(self._is_past, coded):
            length = row["ended_at"] - row["started_at"]
            self.coding_ms[day.date] += length // timedelta(milliseconds=1)
        yield "activity.coding_session", coded
        yield "activity.screen_time", desk.screen_times(life, day, fixtures.devices)
        yield "code.event", desk.code_events(life, day)
        for night, recovery, cycle in body.sleeps(life, day, fixtures.sources[body.STRAP]):
            if self._is_past(night):
                yield "health.sleep", [night]
                yield "health.recovery", [] if recovery is None else [recovery]
                yield "health.cycle", [] if cycle is None else [cycle]
        yield "health.heart_rate", body.heart_rates(life, day, fixtures.sources[body.WATCH])
        yield "health.sample", body.samples(life, day, fixtures.sources)
        yield "music.listen", outings.listens(life, day)
        yield "location.point", outings.points(life, day, fixtures.places, fixtures.phone_id)
        yield "location.event", outings.location_events(life, day, fixtures.places)
        yield "content.recording", outings.recordings(life, day)
        yield "content.play", outings.plays(life, day, fixtures.titles)
        yield "content.calendar_event", desk.calendar_events(life, day, fixtures.work_calendar_id)


def memberships(life: Life, since: datetime) -> tuple[Row, Row, Piece]:
    """Return an organization, a team of it, and the person's membership in both."""
    rng = life.rng("organization")
    organization_id, team_id = life.row_id(rng), life.row_id(rng)
    organization = {
        "organization_id": organization_id,
        "name": "Lantern Works",
        "slug": f"lantern-works-{organization_id.hex[:12]}",
        "created_at": since,
    }
    team = {
        "organization_id": organization_id,
        "team_id": team_id,
        "name": "Tides",
        "created_at": since,
    }
    belongs: Piece = {
        "profile.membership": [
            {"organization_id": organization_id, "role": "member", "joined_at": since + HOUR}
        ],
        "profile.team_membership": [
            {"team_id": team_id, "role": "lead", "joined_at": since + 2 * HOUR}
        ],
    }
    return organization, team, belongs

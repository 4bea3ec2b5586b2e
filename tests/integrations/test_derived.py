"""What is derived from where a person was: visits and their places, time zones, offsets of sleeps."""

import asyncio
import json
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql
from starlette.testclient import TestClient

from deploy.operators import imports
from resourceserver.derived import derivation
from resourceserver.integrations.formats import own
from resourceserver.integrations.imports import undo
from resourceserver.integrations.records import Place, PlaceEvent, Point, Sensor, Sleep
from resourceserver.timeline import rounds
from shared import database, schema
from shared.settings import Settings
from tests.conftest import Person
from tests.integrations.bringing import Importer, counts
from tests.mcp.assistant import Assistant

Rows = psycopg.Connection[Any]
Derive = Callable[[], int]

DAY: Final = datetime(2025, 6, 16, tzinfo=UTC)
METRE: Final = 1 / 111_195
"""Degrees of latitude."""
HOME: Final = (52.52, 13.405)
OFFICE: Final = (52.54, 13.405)
TOKYO: Final = (35.68, 139.69)


def at(clock: str, day: int = 0) -> datetime:
    """Return an instant of a day in UTC."""
    hours, minutes = map(int, clock.split(":"))
    return DAY + timedelta(days=day, hours=hours, minutes=minutes)


def points(
    start: datetime,
    end: datetime,
    where: tuple[float, float] = HOME,
    every: timedelta = timedelta(minutes=5),
) -> list[Point]:
    """Return points at one place."""
    count = (end - start) // every
    return [
        Point(f"{start + n * every}", start + n * every, *where, accuracy_m=5.0)
        for n in range(count + 1)
    ]


def visit(
    start: datetime, end: datetime, name: str, where: tuple[float, float], **members: Any
) -> PlaceEvent:
    """Return a visit that a source states."""
    place = Place(name, name, None, *where)
    return PlaceEvent(f"{start}", "visit", "suggested", start, end, place)._replace(**members)


def sleep(start: datetime, end: datetime, **members: Any) -> Sleep:
    """Return a sleep."""
    ms = (end - start) // timedelta(milliseconds=1)
    return Sleep(f"{start}", start, end, Sensor("watch"), ms, ms)._replace(**members)


@pytest.fixture
def derive(deployment: Settings, alice: Person) -> Derive:
    """Derives all marked days of alice, and returns their number."""

    async def run() -> int:
        async with rounds.connected(database.login(deployment, "worker")) as worker:
            return await derivation.derive(worker, alice.user_id)

    return lambda: asyncio.run(run())


def visits(owner: Rows) -> list[tuple[str, str, str, str]]:
    """Return all visits: when they began and ended, what the place is called, and who says so."""
    return owner.execute(
        "select to_char(event.started_at, 'DD HH24:MI'), to_char(event.ended_at, 'DD HH24:MI'),"
        " place.name, event.source"
        " from location.event join location.place using (user_id, place_id)"
        " where type = 'visit' order by event.started_at"
    ).fetchall()


def stored(owner: Rows) -> list[tuple[Any, ...]]:
    """Return all derived visits and places with their ids."""
    return owner.execute(
        "select event.*, place.name from location.event join location.place using (user_id, place_id)"
        " where event.source = 'derived' order by event.started_at"
    ).fetchall()


def marks(owner: Rows) -> list[str]:
    return [
        day
        for (day,) in owner.execute(
            "select date::text from location.derivation_due order by date"
        ).fetchall()
    ]


def undone(importer: Importer, import_id: Any) -> None:
    with closing(psycopg.connect(importer.settings.database_url or "", autocommit=True)) as own:
        undo.undo(own, importer.person.user_id, import_id)


def test_visits_follow_from_points_and_days_are_derived_once(
    importer: Importer, owner: Rows, derive: Derive, tmp_path: Path
) -> None:
    day = [
        *points(at("06:00"), at("08:00")),
        *points(at("09:00"), at("12:00"), OFFICE),
        *points(at("13:00"), at("13:10"), HOME),
    ]

    receipt = importer.take(tmp_path / "points", *day)
    marked = marks(owner)
    days = derive()

    assert counts(receipt) == (len(day), len(day), 0, 0, 0)
    assert (marked, days, marks(owner)) == (["2025-06-16"], 1, [])
    assert visits(owner) == [
        ("16 06:00", "16 08:00", "52.52000, 13.40500", "derived"),
        ("16 09:00", "16 12:00", "52.54000, 13.40500", "derived"),
        ("16 13:00", "16 13:10", "52.52000, 13.40500", "derived"),
    ]
    before = stored(owner)
    assert {row[-1] for row in before} == {"52.52000, 13.40500", "52.54000, 13.40500"}
    importer.take(tmp_path / "points", *day)
    assert marks(owner) == []
    owner.execute(
        "insert into location.derivation_due select user_id, %s from identity.user", [DAY]
    )
    assert derive() == 1
    assert stored(owner) == before
    assert owner.execute("select distinct timezone, source from location.point").fetchall() == [
        ("Europe/Berlin", "any")
    ]
    assert owner.execute("select distinct utc_offset, status from location.event").fetchall() == [
        ("+02:00", "suggested")
    ]


def test_points_that_come_later_change_the_visits_around_them(
    importer: Importer, owner: Rows, derive: Derive, tmp_path: Path
) -> None:
    importer.take(
        tmp_path / "first",
        *points(at("22:00"), at("23:55")),
        *points(at("04:00", 1), at("06:00", 1)),
        *points(at("10:00", 1), at("11:00", 1), OFFICE),
    )
    derive()
    assert [row[:2] for row in visits(owner)] == [
        ("16 22:00", "16 23:55"),
        ("17 04:00", "17 06:00"),
        ("17 10:00", "17 11:00"),
    ]
    kept = stored(owner)[2]

    later = importer.take(tmp_path / "later", *points(at("01:00", 1), at("03:00", 1)))
    derive()

    assert [row[:2] for row in visits(owner)] == [
        ("16 22:00", "17 06:00"),
        ("17 10:00", "17 11:00"),
    ]
    assert stored(owner)[1] == kept
    undone(importer, later["import_id"])
    assert marks(owner) == ["2025-06-17"]
    derive()
    assert [row[:2] for row in visits(owner)] == [
        ("16 22:00", "16 23:55"),
        ("17 04:00", "17 06:00"),
        ("17 10:00", "17 11:00"),
    ]


def test_a_derived_place_goes_with_its_last_visit(
    importer: Importer, owner: Rows, derive: Derive, tmp_path: Path
) -> None:
    importer.take(tmp_path / "first", *points(at("06:00"), at("08:00")))
    later = importer.take(tmp_path / "later", *points(at("09:00"), at("10:00"), OFFICE))
    derive()
    assert len(visits(owner)) == 2

    undone(importer, later["import_id"])
    derive()

    places = owner.execute("select name from location.place").fetchall()
    assert places == [("52.52000, 13.40500",)]


def test_stated_visits_come_first_and_name_the_places_of_others(
    importer: Importer, owner: Rows, derive: Derive, tmp_path: Path
) -> None:
    importer.take(
        tmp_path / "points",
        *points(at("06:00"), at("12:00")),
        *points(at("06:00", 9), at("07:00", 9)),
        *points(at("10:00", 9), at("11:00", 9), OFFICE),
        *points(at("06:00", 12), at("07:00", 12)),
    )
    derive()
    beside = (HOME[0] + 40 * METRE, HOME[1])

    stated = importer.take(tmp_path / "visits", visit(at("05:50"), at("09:00"), "Home", beside))
    derive()

    assert visits(owner) == [
        ("16 05:50", "16 09:00", "Home", "any"),
        ("16 09:00", "16 12:00", "Home", "derived"),
        ("25 06:00", "25 07:00", "Home", "derived"),
        ("25 10:00", "25 11:00", "52.54000, 13.40500", "derived"),
        ("28 06:00", "28 07:00", "Home", "derived"),
    ]
    # A later version of the file says that it ended later, and then that it was not so.
    importer.take(tmp_path / "visits", visit(at("05:50"), at("11:50"), "Home", beside))
    derive()
    assert visits(owner)[:2] == [
        ("16 05:50", "16 11:50", "Home", "any"),
        ("25 06:00", "25 07:00", "Home", "derived"),
    ]
    declined = visit(at("05:50"), at("09:00"), "Home", beside, status="declined")
    importer.take(tmp_path / "visits", declined)
    derive()
    assert [row[:2] for row in visits(owner)[:2]] == [
        ("16 05:50", "16 09:00"),
        ("16 09:00", "16 12:00"),
    ]
    undone(importer, stated["import_id"])
    derive()
    assert visits(owner) == [
        ("16 06:00", "16 12:00", "52.52000, 13.40500", "derived"),
        ("25 06:00", "25 07:00", "52.52000, 13.40500", "derived"),
        ("25 10:00", "25 11:00", "52.54000, 13.40500", "derived"),
        ("28 06:00", "28 07:00", "52.52000, 13.40500", "derived"),
    ]


def test_a_change_of_one_day_is_followed_into_the_next(
    importer: Importer,
    owner: Rows,
    derive: Derive,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(derivation, "_POINTS", 7)
    importer.take(
        tmp_path / "points",
        *points(at("22:00"), at("02:00", 1)),
        *points(at("04:00", 1), at("05:00", 1), OFFICE),
    )
    derive()

    importer.take(tmp_path / "visit", visit(at("21:00"), at("23:58"), "Home", HOME))
    days = derive()

    assert (days, [row[:2] for row in visits(owner)]) == (
        1,
        [
            ("16 21:00", "16 23:58"),
            ("17 00:00", "17 02:00"),
            ("17 04:00", "17 05:00"),
        ],
    )


def test_a_search_that_is_broken_off_reads_nothing_more(
    importer: Importer,
    alice: Person,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(derivation, "_POINTS", 7)
    importer.take(tmp_path / "points", *points(at("06:00"), at("08:00")))

    async def run() -> tuple[int, int]:
        async with (
            rounds.connected(database.login(importer.settings, "worker")) as worker,
            worker.transaction(force_rollback=True),
        ):
            person = {"user_id": alice.user_id, **schema.VERSION}
            await worker.execute(derivation.SQL["begin_for"], person)
            pages = derivation._pages(worker, alice.user_id, DAY, at("00:00", 1))
            page = await anext(pages)
            # The next page is on its way now, and the connection may soon be another person's.
            await pages.aclose()
            return len(page.points), len(asyncio.all_tasks())

    assert asyncio.run(run()) == (7, 1)


def test_a_stay_goes_on_after_one_point_outside_and_three_hours_on_the_next_day(
    importer: Importer, owner: Rows, derive: Derive, tmp_path: Path
) -> None:
    jump = points(at("21:05"), at("21:05"), OFFICE)
    importer.take(tmp_path / "evening", *points(at("18:02"), at("20:52")), *jump)
    derive()

    importer.take(tmp_path / "night", *points(at("00:01", 1), at("02:01", 1)))
    derive()

    assert visits(owner) == [("16 18:02", "17 02:01", "52.52000, 13.40500", "derived")]


def test_the_search_ends_where_three_hours_without_points_follow(
    importer: Importer, owner: Rows, derive: Derive, tmp_path: Path
) -> None:
    days = (points(at("06:00", day), at("07:00", day)) for day in (0, 2))
    importer.take(tmp_path / "points", *(each for day in days for each in day))
    # Without a mark, a day is derived only if the search reaches it.
    owner.execute("delete from location.derivation_due where date = '2025-06-18'")

    derive()

    assert [row[:2] for row in visits(owner)] == [("16 06:00", "16 07:00")]


@pytest.mark.parametrize(
    ("points_at_once", "span_days", "expected"),
    [
        (5000, 366, [["16", "18", "19", "22", "26"]]),
        # With more points between them, each needs a search of its own.
        (2, 366, [["16"], ["18", "19"], ["22"], ["26"]]),
        (30, 366, [["16"], ["18", "19"], ["22", "26"]]),
        (5000, 5, [["16", "18", "19"], ["22", "26"]]),
    ],
)
def test_days_with_few_points_between_them_are_derived_together(
    importer: Importer,
    owner: Rows,
    derive: Derive,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    points_at_once: int,
    span_days: int,
    expected: list[list[str]],
) -> None:
    days = (0, 2, 3, 6, 10)
    importer.take(
        tmp_path / "points",
        *(each for day in days for each in points(at("06:00", day), at("07:00", day))),
        # Of the day between two marked ones.
        *points(at("06:00", 1), at("07:00", 1), OFFICE),
    )
    derive()
    first = stored(owner)
    together: list[list[str]] = []
    of_days = derivation._derive_days

    async def note(worker: Any, user_id: Any, window: Any) -> None:
        together.append([f"{day:%d}" for day, _ in window.marks])
        await of_days(worker, user_id, window)

    monkeypatch.setattr(derivation, "_derive_days", note)
    monkeypatch.setattr(derivation, "_POINTS", points_at_once)
    monkeypatch.setattr(derivation, "_SPAN", timedelta(days=span_days))
    for day in days:
        owner.execute(
            "insert into location.derivation_due select user_id, %s from identity.user",
            [at("00:00", day)],
        )

    assert derive() == len(days)

    assert together == expected
    assert stored(owner) == first
    assert len(first) == len(days) + 1


def test_a_check_in_names_the_visit_during_which_it_was(
    importer: Importer, owner: Rows, derive: Derive, tmp_path: Path
) -> None:
    cafe = visit(at("09:30"), at("09:30"), "Café X", OFFICE)._replace(
        type="check_in", status="confirmed", ended_at=None
    )

    importer.take(
        tmp_path / "all",
        *points(at("09:00"), at("10:00"), OFFICE),
        *points(at("09:00", 1), at("10:00", 1), OFFICE),
        cafe,
    )
    derive()

    assert visits(owner) == [
        ("16 09:00", "16 10:00", "Café X", "derived"),
        ("17 09:00", "17 10:00", "52.54000, 13.40500", "derived"),
    ]


def test_a_sleep_without_an_offset_has_that_of_where_the_person_was(
    importer: Importer, owner: Rows, derive: Derive, tmp_path: Path
) -> None:
    unknown = sleep(at("15:00"), at("22:00"))
    far = visit(at("10:00", 19), at("10:00", 30), "Hotel", TOKYO)
    importer.take(
        tmp_path / "sleeps",
        unknown,
        sleep(at("22:00", 1), at("23:00", 1), utc_offset="-03:00"),
        sleep(at("22:00", 9), at("23:00", 9)),
        sleep(at("15:00", 25), at("22:00", 25)),
        far,
    )
    derive()

    def offsets() -> list[str]:
        return [
            offset
            for (offset,) in owner.execute(
                "select utc_offset from health.sleep order by ended_at"
            ).fetchall()
        ]

    # The profile's zone is UTC, the importer's Europe/Berlin.
    assert offsets() == ["+00:00", "-03:00", "+00:00", "+09:00"]

    brought = importer.take(tmp_path / "points", *points(at("23:00", -1), at("23:10", -1), TOKYO))
    # The sleep of this day is more than 48 hours later.
    owner.execute(
        "insert into location.derivation_due select user_id, %s from identity.user",
        [at("00:00", 9)],
    )
    derive()
    assert offsets() == ["+09:00", "-03:00", "+00:00", "+09:00"]

    again = importer.take(tmp_path / "again", unknown)
    assert (counts(again), offsets()[0]) == ((1, 0, 1, 0, 0), "+09:00")
    undone(importer, brought["import_id"])
    derive()
    assert offsets() == ["+00:00", "-03:00", "+00:00", "+09:00"]


def test_an_undo_marks_days_of_utc_whatever_the_zone_of_its_login(
    importer: Importer,
    owner: Rows,
    derive: Derive,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brought = importer.take(tmp_path / "file", visit(at("10:00"), at("10:00", 1), "Hotel", TOKYO))
    derive()
    monkeypatch.setenv("PGTZ", "America/New_York")

    undone(importer, brought["import_id"])

    assert marks(owner) == ["2025-06-16", "2025-06-17"]


def test_a_sleep_between_marked_days_keeps_its_offset(
    importer: Importer, owner: Rows, derive: Derive, tmp_path: Path
) -> None:
    days = (0, 5, 10)
    owner.execute("update identity.user set timezone = 'Asia/Tokyo'")
    importer.take(tmp_path / "file", *(sleep(at("00:00", day), at("08:00", day)) for day in days))
    derive()
    owner.execute("update identity.user set timezone = 'America/Lima'")
    for day in (0, 10):
        owner.execute(
            "insert into location.derivation_due select user_id, %s from identity.user",
            [at("00:00", day)],
        )

    assert derive() == 2

    offsets = owner.execute("select utc_offset from health.sleep order by ended_at").fetchall()
    assert offsets == [("-05:00",), ("+09:00",), ("-05:00",)]


def test_a_visit_that_ended_within_two_days_before_a_sleep_says_its_offset(
    importer: Importer, owner: Rows, derive: Derive, tmp_path: Path
) -> None:
    seen = visit(at("10:00"), at("20:00"), "Hotel", TOKYO)
    importer.take(tmp_path / "file", seen, sleep(at("04:00", 2), at("12:00", 2)))

    derive()

    assert owner.execute("select utc_offset from health.sleep").fetchall() == [("+09:00",)]


def test_points_without_a_zone_get_one_when_their_day_is_derived(
    owner: Rows, alice: Person, derive: Derive
) -> None:
    owner.execute(
        "insert into location.point (user_id, recorded_at, latitude, longitude, source)"
        " values (%s, %s, %s, %s, 'old')",
        [alice.user_id, DAY, *TOKYO],
    )
    owner.execute("insert into location.derivation_due values (%s, %s)", [alice.user_id, DAY])

    derive()

    assert owner.execute("select timezone from location.point").fetchall() == [("Asia/Tokyo",)]


@pytest.mark.parametrize("day", ["0001-01-02", "9999-12-31"])
def test_days_at_both_ends_of_time_can_be_derived(
    owner: Rows, alice: Person, derive: Derive, day: str
) -> None:
    owner.execute(
        "insert into location.point (user_id, recorded_at, latitude, longitude, source)"
        " select %s, at, 52.52, 13.405, 'x'"
        " from generate_series(%s::timestamptz, %s::timestamptz, interval '7 minutes 59.999 s') as at",
        [alice.user_id, f"{day} 00:00Z", f"{day} 23:59:59.999Z"],
    )
    owner.execute("insert into location.derivation_due values (%s, %s)", [alice.user_id, day])

    days = derive()

    assert (days, len(visits(owner))) == (1, 1)


SPANS: Final = st.lists(
    st.tuples(
        st.integers(0, 60 * 60),
        st.integers(1, 12 * 60),
        st.sampled_from([HOME, OFFICE, TOKYO]),
        st.sampled_from([2, 4, 10, 60]),
        st.booleans(),
    ),
    min_size=2,
    max_size=8,
)


class Parts:
    """Parts of alice's life, each of which is written and removed with the marks of its days."""

    def __init__(self, owner: Rows, alice: Person) -> None:
        self.owner, self.user_id = owner, alice.user_id
        owner.execute("delete from location.place")
        owner.execute("delete from location.point")

    def add(self, number: int, span: tuple[int, int, tuple[float, float], int, bool]) -> None:
        start, length, where, every, is_stated = span
        values = {
            "user_id": self.user_id,
            "start": DAY + timedelta(minutes=start),
            "end": DAY + timedelta(minutes=start + length),
            "every": timedelta(minutes=every),
            "latitude": where[0],
            "longitude": where[1],
            "source": f"part {number}",
        }
        self.owner.execute(
            """
            with place as (
                insert into location.place (user_id, name, latitude, longitude)
                values (%(user_id)s, 'x', %(latitude)s, %(longitude)s)
                returning place_id
            )
            insert into location.event (user_id, type, status, started_at, ended_at, place_id, source)
            select %(user_id)s, 'visit', 'suggested', %(start)s, %(end)s, place_id, %(source)s
              from place
            """
            if is_stated
            else """
            insert into location.point (user_id, recorded_at, latitude, longitude, source)
            select %(user_id)s, at, %(latitude)s, %(longitude)s, %(source)s
              from generate_series(%(start)s, %(end)s, %(every)s) as at
            """,
            values,
        )
        self.mark(number)

    def mark(self, number: int) -> None:
        self.owner.execute(
            """
            insert into location.derivation_due (user_id, date)
            select distinct %(user_id)s::uuid, day::date
              from (
                       select started_at, ended_at from location.event where source = %(source)s
                        union all
                       select recorded_at, recorded_at from location.point where source = %(source)s
                   ) as part (started_at, ended_at)
             cross join generate_series(
                       date_trunc('day', started_at), ended_at, interval '1 day'
                   ) as day
                on conflict do nothing
            """,
            {"user_id": self.user_id, "source": f"part {number}"},
        )

    def remove(self, number: int) -> None:
        self.mark(number)
        for table in ("event", "point"):
            self.owner.execute(
                sql.SQL("delete from {} where source = %s").format(
                    sql.Identifier("location", table)
                ),
                [f"part {number}"],
            )


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(spans=SPANS, removed=st.integers(0, 7))
def test_the_order_of_imports_makes_no_difference(
    owner: Rows,
    alice: Person,
    deployment: Settings,
    monkeypatch: pytest.MonkeyPatch,
    spans: Any,
    removed: int,
) -> None:
    """Derived part by part, one of which is removed again, or all that remains at once."""
    parts = Parts(owner, alice)
    # Pages of few points, since a page of the usual size has all of them.
    monkeypatch.setattr(derivation, "_POINTS", 7)

    async def run() -> tuple[list[Any], list[Any]]:
        async with rounds.connected(database.login(deployment, "worker")) as worker:
            for number, span in enumerate(spans):
                parts.add(number, span)
                await derivation.derive(worker, alice.user_id)
            parts.remove(removed % len(spans))
            await derivation.derive(worker, alice.user_id)
            one_by_one = [row[:2] for row in visits(owner)]
            owner.execute("delete from location.event where source = 'derived'")
            for number in range(len(spans)):
                parts.mark(number)
            await derivation.derive(worker, alice.user_id)
            return one_by_one, [row[:2] for row in visits(owner)]

    one_by_one, at_once = asyncio.run(run())
    assert one_by_one == at_once


def gpx(track: list[Point]) -> str:
    """Return a file of a track."""
    lines = "".join(
        f'<trkpt lat="{point.latitude}" lon="{point.longitude}">'
        f"<time>{point.recorded_at:%Y-%m-%dT%H:%M:%SZ}</time></trkpt>"
        for point in track
    )
    return (
        '<?xml version="1.0"?><gpx version="1.1" creator="x"'
        ' xmlns="http://www.topografix.com/GPX/1/1">'
        f"<trk><trkseg>{lines}</trkseg></trk></gpx>"
    )


def records(track: list[Point]) -> str:
    """Return Google's file of them."""
    locations = [
        {
            "latitudeE7": round(point.latitude * 1e7),
            "longitudeE7": round(point.longitude * 1e7),
            "accuracy": 12,
            "timestamp": f"{point.recorded_at:%Y-%m-%dT%H:%M:%SZ}",
        }
        for point in track
    ]
    return json.dumps({"locations": locations})


@pytest.mark.parametrize(
    ("name", "written"), [("track.gpx", gpx), ("Records.json", records)], ids=["gpx", "google"]
)
def test_the_command_derives_and_endpoints_and_tools_show_it(
    name: str,
    written: Callable[[list[Point]], str],
    deployment: Settings,
    alice: Person,
    api: TestClient,
    tmp_path: Path,
) -> None:
    path = tmp_path / name
    path.write_text(
        written([*points(at("06:00"), at("08:00")), *points(at("09:00"), at("12:00"), OFFICE)])
    )

    done = CliRunner().invoke(
        imports.import_files, [str(path), "--user", alice.email], obj=deployment
    )

    assert done.exit_code == 0, done.output
    day = {"from": "2025-06-16T00:00:00Z", "to": "2025-06-17T00:00:00Z"}
    events = api.get("/api/v1/locations/events", params=day, headers=alice.headers()).json()
    assert [
        (row["started_at"][11:16], row["duration_ms"] // 60_000, row["utc_offset"], row["source"])
        for row in events["data"]
    ] == [("09:00", 180, "+02:00", "derived"), ("06:00", 120, "+02:00", "derived")]
    listed = api.get("/api/v1/locations", params=day, headers=alice.headers()).json()
    assert {row["timezone"] for row in listed["data"]} == {"Europe/Berlin"}
    answer = Assistant(api, alice.headers()).ask(
        "get_places", **{"from": "2025-06-16", "to": "2025-06-16"}
    )
    assert [(place["name"], place["stayed_ms"] // 60_000) for place in answer["places"]] == [
        ("52.54000, 13.40500", 180),
        ("52.52000, 13.40500", 120),
    ]
    (receipt,) = json.loads(
        CliRunner().invoke(imports.list_imports, [alice.email, "--json"], obj=deployment).stdout
    )
    gone = CliRunner().invoke(imports.import_files, ["--undo", receipt["import"]], obj=deployment)
    assert gone.exit_code == 0, gone.output
    events = api.get("/api/v1/locations/events", params=day, headers=alice.headers()).json()
    assert events["data"] == []


def test_an_own_export_has_derived_visits_and_brings_them_back(
    importer: Importer,
    owner: Rows,
    alice: Person,
    api: TestClient,
    derive: Derive,
    tmp_path: Path,
) -> None:
    importer.take(
        tmp_path / "all",
        *points(at("06:00"), at("08:00")),
        sleep(at("00:00"), at("08:00")),
    )
    derive()
    answer = api.get("/api/v1/export", headers=alice.headers())
    (tmp_path / "export").write_bytes(answer.content)
    before = stored(owner)

    receipt = importer.run(tmp_path / "export", own.OWN_JSON)

    assert counts(receipt) == (27, 0, 27, 0, 0)
    assert (derive(), stored(owner)) == (0, before)


def test_of_two_at_once_one_derives_and_nothing_is_doubled(
    importer: Importer, owner: Rows, deployment: Settings, tmp_path: Path
) -> None:
    importer.take(
        tmp_path / "points",
        *(each for day in range(40) for each in points(at("06:00", day), at("08:00", day))),
    )

    async def both() -> list[int]:
        login = database.login(deployment, "worker")
        async with rounds.connected(login) as one, rounds.connected(login) as other:
            return await asyncio.gather(
                *(derivation.derive(each, importer.person.user_id) for each in (one, other))
            )

    assert sum(asyncio.run(both())) == 40
    assert len(visits(owner)) == 40


def test_the_job_waits_until_days_are_quiet(
    importer: Importer, owner: Rows, deployment: Settings, tmp_path: Path
) -> None:
    importer.take(tmp_path / "points", *points(at("06:00"), at("08:00")))

    async def run() -> int:
        async with rounds.connected(database.login(deployment, "worker")) as worker:
            return await derivation.derive_due(worker)

    early = asyncio.run(run())
    owner.execute("update location.derivation_due set marked_at = now() - interval '3 minutes'")

    assert (early, asyncio.run(run()), len(visits(owner))) == (0, 1, 1)


def test_a_day_that_takes_too_long_holds_up_no_other(
    owner: Rows, alice: Person, deployment: Settings
) -> None:
    owner.execute(
        "insert into location.point (user_id, recorded_at, latitude, longitude, source)"
        " select %s, %s + n * interval '1 day', 52.52, 13.405, 'x' from generate_series(0, 3) as n",
        [alice.user_id, DAY],
    )
    owner.execute(
        "insert into location.derivation_due select user_id, recorded_at::date from location.point"
    )

    async def run() -> int:
        async with rounds.connected(database.login(deployment, "worker")) as worker:
            turn = timedelta(seconds=2)
            return await derivation.derive_due(worker, turn, derivation.AT_ONCE)

    with owner.transaction():
        # The zone of this point cannot be written.
        owner.execute(
            "select from location.point where recorded_at = %s for update",
            [DAY + timedelta(days=1)],
        )
        days = asyncio.run(run())

    assert (days, marks(owner)) == (3, ["2025-06-17"])

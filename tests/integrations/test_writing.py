"""Each type of record: what its row is, and what comes again."""

import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import uuid4
from zoneinfo import ZoneInfo

import psycopg
import pytest

from resourceserver.integrations.imports import writing
from resourceserver.integrations.imports.arrays import Array, ArrayDumper
from resourceserver.integrations.records import (
    AppSession,
    Calendar,
    CalendarEvent,
    CodeEvent,
    CodingSession,
    Cycle,
    HeartRate,
    Listen,
    Place,
    PlaceEvent,
    Play,
    Point,
    Record,
    Recording,
    Recovery,
    Sample,
    ScreenTime,
    Sensor,
    Sleep,
    Sourced,
    Title,
    TranscriptSegment,
)
from tests.conftest import Person
from tests.integrations.bringing import Importer, counts

Rows = psycopg.Connection[Any]

AT: Final = datetime(2025, 6, 16, 7, 30, 0, 123_000, tzinfo=UTC)
HOUR: Final = timedelta(hours=1)
WATCH: Final = Sensor("Apple Watch", "Watch6,2", "watch", "watchos")
CAFE: Final = Place("cafe", "Café X", "Café", 52.371, 4.891, "Street 1", "Amsterdam", "NL")

EXAMPLES: Final[dict[str, tuple[Record, Record | None]]] = {
    "music.listen": (
        Listen(
            *("a", AT, "Andromeda", "Gorillaz", ("Gorillaz", 'D"R\\A'), "Humanz", 178_778, 197_000),
            *(False, "spotify:track:1", "GB", "6b4e1b26-9f4c-4d3c-8a93-0d1e2f3a4b5c"),
        ),
        None,
    ),
    "health.sample": (Sample("a", "steps", AT, AT + HOUR, 212, WATCH, "+02:00"), None),
    "health.heart_rate": (HeartRate("a", AT, 61, WATCH, (982, 975)), None),
    "health.sleep": (
        Sleep(
            *("a", AT, AT + 8 * HOUR, WATCH, 28_800_000, 26_100_000, None),
            recovery=Recovery("pending"),
            cycle=Cycle(AT, None, 11.4, 21),
        ),
        Sleep(
            *("a", AT, AT + 8 * HOUR, WATCH, 28_800_000, 26_100_000, None),
            recovery=Recovery("scored", 66, 52, 48.2, 96.1, 33.7),
            cycle=Cycle(AT, None, 11.4, 21),
        ),
    ),
    "location.point": (
        Point("a", AT, 52.37, 4.89, 12, 3.1, 4, 1.4, 210, 81, "walking", "phone"),
        None,
    ),
    "location.event": (
        PlaceEvent("a", "visit", "suggested", AT, None, CAFE, "+02:00", "note"),
        PlaceEvent("a", "visit", "confirmed", AT, AT + HOUR, CAFE._replace(name="Y"), "+02:00"),
    ),
    "content.play": (
        Play("a", Title("show", "Dark", ("drama", "mystery")), AT, 3_600_000, 1, 2),
        None,
    ),
    "content.calendar_event": (
        CalendarEvent(
            *("a", Calendar("work", "Work", "Europe/Berlin"), AT, AT + HOUR, "confirmed", "Review"),
            start_date=date(2025, 6, 16),
            end_date=date(2025, 6, 17),
            updated_at=AT,
        ),
        CalendarEvent(
            *("a", Calendar("work", "Office"), AT, AT + HOUR, "cancelled", "Review"),
            updated_at=AT + HOUR,
        ),
    ),
    "content.recording": (
        Recording(
            "a", AT, 184_000, "Notes", "en", "hello", (TranscriptSegment(0, 9, None, "hello"),)
        ),
        Recording(
            "a", AT, 184_000, "Notes", "en", "Hello", (TranscriptSegment(0, 9, None, "Hello"),)
        ),
    ),
    "code.event": (
        CodeEvent("a", "commit", "pushed", AT, "me/svc", True, "Fix", None, "main", "9fceb02"),
        CodeEvent("a", "commit", "pushed", AT, "me/svc", True, "Fix", additions=41, deletions=7),
    ),
    "activity.screen_time": (
        ScreenTime("a", date(2025, 6, 16), "Pixel", "org.mozilla.firefox", 60_000, AT, "Firefox"),
        ScreenTime(
            *("a", date(2025, 6, 16), "Pixel", "org.mozilla.firefox", 120_000, AT + HOUR),
            *("Firefox", AT),
        ),
    ),
    "activity.app_session": (AppSession("a", AT, AT + HOUR, "laptop", "Code", "main.py"), None),
    "activity.coding_session": (CodingSession("a", AT, AT + HOUR, "laptop", "svc", "Python"), None),
}
"""For the table of each type a record, and a later version of it where the newer wins."""


@pytest.mark.parametrize("table", EXAMPLES)
def test_a_record_is_written_once(
    importer: Importer, owner: Rows, tmp_path: Path, table: str
) -> None:
    record, later = EXAMPLES[table]

    first = importer.take(tmp_path / "first", record, record)
    again = importer.take(tmp_path / "again", record)
    newer = None if later is None else importer.take(tmp_path / "later", later, later)

    in_one_batch = (2, 1, 1, 0, 0)
    assert counts(first) == in_one_batch
    is_of_a_day = table == "activity.screen_time"
    assert first["first_at"] == f"2025-06-16T{'00:00:00.000' if is_of_a_day else '07:30:00.123'}Z"
    assert counts(again) == (1, 0, 1, 0, 0)
    if newer is not None:
        assert counts(newer) == (2, 0, 1, 1, 0)
    rows = owner.execute(f"select import_id::text from {table}").fetchall()  # noqa: S608 -- named above
    assert rows == [(first["import_id"],)]


@pytest.mark.parametrize(
    ("table", "record"),
    [
        ("health.sample", Sample("steps:{:03}", "steps", AT, AT, 1, WATCH)),
        ("health.heart_rate", HeartRate("{:03}", AT, 61, WATCH)),
        ("location.point", Point("{:03}", AT, 52.37, 4.89)),
    ],
)
def test_records_between_and_beside_known_ones_are_each_written_once(
    importer: Importer, owner: Rows, tmp_path: Path, table: str, record: Any
) -> None:
    def numbered(*numbers: int) -> list[Any]:
        return [record._replace(key=record.key.format(number)) for number in numbers]

    first = importer.take(tmp_path / "first", *numbered(*range(0, 40, 2)))
    between = importer.take(tmp_path / "between", *numbered(*range(10, 20)))
    beside = importer.take(tmp_path / "beside", *numbered(50, 52, 51, 52))
    after = importer.take(tmp_path / "after", *numbered(*range(60, 70)))

    assert counts(first) == (20, 20, 0, 0, 0)
    assert counts(between) == (10, 5, 5, 0, 0)
    assert counts(beside) == (4, 3, 1, 0, 0)
    assert counts(after) == (10, 10, 0, 0, 0)
    assert owner.execute(f"select count(*) from {table}").fetchone() == (38,)  # noqa: S608 -- named above


@pytest.mark.parametrize("kind", ["samples", "heart_rates", "points"])
def test_first_and_last_keys_are_those_of_the_order_of_their_index(kind: str) -> None:
    # By the rules of a language, by which other databases than that of the tests compare, a comes before B. A
    # range from a to B is empty in an index that compares byte by byte, so that no known key would be found.
    ends = re.findall(r"\b(min|max)\((.*?)\)", writing.SQL[f"add_new_{kind}"])

    assert ends == [("min", 'key collate "C"'), ("max", 'key collate "C"')]


def test_after_a_refused_batch_the_keys_of_the_next_ones_are_looked_up(
    owner: Rows, alice: Person
) -> None:
    owner.adapters.register_dumper(Array, ArrayDumper)
    target = writing.Target(
        owner, alice.user_id, uuid4(), ZoneInfo("Europe/Berlin"), False, adds_at_once=True
    )

    def write(key: str, bpm: int) -> int:
        prepared = writing.prepare(HeartRate, [HeartRate(key, AT, bpm, WATCH)])
        with owner.transaction():
            target.begin()
            return writing.add_heart_rates(target, "any", prepared).added

    assert write("a", 60) == 1
    assert target.batches_to_look_up == {"heart_rates": 0}
    with pytest.raises(psycopg.DataError):
        write("b", 100_000)
    assert target.batches_to_look_up == {"heart_rates": 16}
    assert write("b", 60) == 1
    assert target.batches_to_look_up == {"heart_rates": 15}


def test_new_samples_of_a_metric_are_written_beside_known_ones_of_another(
    importer: Importer, tmp_path: Path
) -> None:
    steps = Sample("steps:1", "steps", AT, AT, 1, WATCH)
    floors = Sample("floors:1", "floors", AT, AT, 1, WATCH)

    importer.take(tmp_path / "first", steps, floors)
    receipt = importer.take(
        tmp_path / "second", floors, steps._replace(key="steps:2"), floors._replace(key="floors:2")
    )

    assert counts(receipt) == (3, 2, 1, 0, 0)


def test_a_code_event_keeps_what_a_newer_file_does_not_know(
    importer: Importer, owner: Rows, tmp_path: Path
) -> None:
    event, later = EXAMPLES["code.event"]
    assert later is not None
    importer.take(tmp_path / "host", event)
    newer = importer.take(tmp_path / "clone", later)
    again = importer.take(tmp_path / "again", CodeEvent("a", "commit", "pushed", AT, "me/svc"))

    assert counts(newer) == (1, 0, 0, 1, 0)
    assert counts(again) == (1, 0, 1, 0, 0)
    columns = "is_private, title, ref, sha, additions, deletions"
    rows = owner.execute(f"select {columns} from code.event")  # noqa: S608 -- named above
    assert rows.fetchall() == [(True, "Fix", "main", "9fceb02", 41, 7)]


def test_a_record_with_a_source_of_its_own_keeps_it(
    importer: Importer, owner: Rows, tmp_path: Path
) -> None:
    play = EXAMPLES["music.listen"][0]

    receipt = importer.take(
        tmp_path / "file",
        Sourced("spotify", play),
        play,
        Sourced("\0", play),
        Sourced("spotify", play),
    )

    assert counts(receipt) == (4, 2, 1, 0, 1)
    rows = owner.execute("select source from music.listen order by 1").fetchall()
    assert rows == [("any",), ("spotify",)]


def test_the_newest_count_of_a_day_is_kept_whichever_file_comes_first(
    importer: Importer, owner: Rows, tmp_path: Path
) -> None:
    older, newer = EXAMPLES["activity.screen_time"]
    assert isinstance(newer, ScreenTime)
    latest = newer._replace(counted_at=AT + 2 * HOUR)
    between = newer._replace(counted_at=AT + HOUR, duration_ms=90_000)

    importer.take(tmp_path / "both", newer, older)
    receipts = [
        importer.take(tmp_path / name, record)
        for name, record in (("older", older), ("latest", latest), ("between", between))
    ]

    # The latest has the same minutes, so it changes nothing, and yet the one between comes too late.
    assert [counts(receipt) for receipt in receipts] == [(1, 0, 1, 0, 0)] * 3
    rows = owner.execute("select duration_ms, counted_at from activity.screen_time").fetchall()
    assert rows == [(120_000, AT + 2 * HOUR)]


def test_an_older_version_of_a_calendar_event_changes_nothing(
    importer: Importer, owner: Rows, tmp_path: Path
) -> None:
    older, newer = EXAMPLES["content.calendar_event"]
    assert newer is not None
    importer.take(tmp_path / "newer", newer)

    receipt = importer.take(tmp_path / "older", older)

    assert counts(receipt) == (1, 0, 1, 0, 0)
    assert owner.execute("select status from content.calendar_event").fetchall() == [("cancelled",)]


def test_coordinates_do_not_replace_the_name_of_a_place(
    importer: Importer, owner: Rows, tmp_path: Path
) -> None:
    def named(place: str, name: str) -> str | None:
        visit = PlaceEvent(
            f"{place} {name}", "visit", "suggested", AT, None, CAFE._replace(key=place, name=name)
        )
        importer.take(tmp_path / "visit", visit)
        row = owner.execute(
            "select name from location.place where provider_key = %s", [place]
        ).fetchone()
        return None if row is None else row[0]

    assert named("a", "Café X") == "Café X"
    assert named("a", "52.3710, 4.8910") == "Café X"
    assert named("a", "Café Y") == "Café Y"
    assert named("b", "-52.3710, 4.8910") == "-52.3710, 4.8910"
    assert named("b", "-52.3712, 4.8913") == "-52.3712, 4.8913"
    assert named("b", "7, Main Street") == "7, Main Street"


def test_a_file_that_does_not_say_the_address_of_a_place_leaves_it(
    importer: Importer, owner: Rows, tmp_path: Path
) -> None:
    full = CAFE._replace(key="a", address="7, Main Street", city="Delft", country_code="NL")
    bare = Place("a", full.name, None, None, None)
    visit = PlaceEvent("1", "visit", "suggested", AT, None, full)

    importer.take(tmp_path / "full", visit)
    receipt = importer.take(tmp_path / "bare", visit._replace(place=bare))

    assert counts(receipt) == (1, 0, 1, 0, 0)
    rows = owner.execute(
        "select category, latitude, longitude, address, city, country_code"
        " from location.place where provider_key = 'a'"
    ).fetchall()
    assert rows == [(full.category, full.latitude, full.longitude, "7, Main Street", "Delft", "NL")]


def test_an_older_version_in_the_same_batch_changes_nothing(
    importer: Importer, owner: Rows, tmp_path: Path
) -> None:
    newer = EXAMPLES["content.calendar_event"][0]
    assert isinstance(newer, CalendarEvent)
    newer = newer._replace(title="Review, moved", updated_at=AT)

    importer.take(tmp_path / "both", newer, newer._replace(title="Review", updated_at=AT - HOUR))

    rows = owner.execute("select title from content.calendar_event").fetchall()
    assert rows == [("Review, moved",)]


def test_totals_of_a_day_grow_and_single_measurements_do_not_change(
    importer: Importer, owner: Rows, tmp_path: Path
) -> None:
    total = Sample("day", "steps", AT, AT + HOUR, 100, WATCH, is_daily_total=True)
    single = Sample("one", "steps", AT, AT + HOUR, 100, WATCH)
    importer.take(tmp_path / "first", total, single)

    receipt = importer.take(
        tmp_path / "later", total._replace(value=200.5), single._replace(value=200.5)
    )

    assert counts(receipt) == (2, 0, 1, 1, 0)
    rows = owner.execute("select provider_key, value from health.sample order by 1").fetchall()
    assert rows == [("day", 200.5), ("one", 100)]


@pytest.mark.parametrize("is_timed_first", [True, False], ids=["timed first", "days first"])
def test_a_play_of_a_day_is_not_kept_beside_the_play_with_its_time(
    importer: Importer, owner: Rows, tmp_path: Path, *, is_timed_first: bool
) -> None:
    dark, paris = Title("show", "Dark"), Title("movie", "Paris, Texas")
    # In Berlin, the first lies on the day before.
    timed = [
        Play("1:Al:Dark 1", dark, datetime(2025, 6, 15, 21, tzinfo=UTC), 1000, 1, 1),
        Play("2:Al:Dark 2", dark, datetime(2025, 6, 16, 18, tzinfo=UTC), 2000, 1, 2),
        Play("3:Al:Dark 3", dark, datetime(2025, 6, 16, 19, tzinfo=UTC), 3000, 1, 3),
        Play("4:Al:Dark 3", dark, datetime(2025, 6, 16, 20, tzinfo=UTC), 4000, 1, 3),
    ]
    noon = datetime(2025, 6, 16, 10, tzinfo=UTC)
    of_days = [
        Play(f"2025-06-16:{name}", title, noon, 0, is_of_a_day=True)
        for name, title in (("Dark 2", dark), ("Dark 3", dark), ("Paris, Texas", paris))
    ]
    files = [timed, of_days] if is_timed_first else [of_days, timed]

    receipts = [importer.take(tmp_path / "file", *plays) for plays in files]
    again = [importer.take(tmp_path / "again", *plays) for plays in files]

    assert [counts(each) for each in receipts] == (
        [(4, 4, 0, 0, 0), (3, 1, 2, 0, 0)] if is_timed_first else [(3, 3, 0, 0, 0), (4, 2, 0, 2, 0)]
    )
    assert [counts(each)[1:4] for each in again] == [(0, len(plays), 0) for plays in files]
    rows = owner.execute("select provider_key, watch_ms from content.play order by 1").fetchall()
    assert rows == [
        ("1:Al:Dark 1", 1000),
        ("2025-06-16:Paris, Texas", 0),
        ("2:Al:Dark 2", 2000),
        ("3:Al:Dark 3", 3000),
        ("4:Al:Dark 3", 4000),
    ]


def test_the_total_of_a_day_in_an_older_file_changes_nothing(
    importer: Importer, owner: Rows, tmp_path: Path
) -> None:
    whole = Sample("day", "steps", AT, AT + 24 * HOUR, 9000, WATCH, is_daily_total=True)
    corrected = whole._replace(key="other", value=8000)
    importer.take(tmp_path / "newer", whole, corrected)

    receipt = importer.take(
        tmp_path / "older",
        whole._replace(value=100),
        whole._replace(value=70),
        # It reached less far into the day.
        corrected._replace(value=8500, ended_at=AT + 12 * HOUR),
    )

    assert counts(receipt) == (3, 0, 3, 0, 0)
    rows = owner.execute("select provider_key, value from health.sample order by 1").fetchall()
    assert rows == [("day", 9000), ("other", 8000)]


def test_the_newest_total_of_a_day_in_one_batch_is_kept(
    importer: Importer, owner: Rows, tmp_path: Path
) -> None:
    total = Sample("day", "steps", AT, AT + 24 * HOUR, 9000, WATCH, is_daily_total=True)

    importer.take(tmp_path / "file", total, total._replace(value=100))

    assert owner.execute("select value from health.sample").fetchall() == [(9000,)]


def test_all_values_of_a_record_reach_its_row(
    importer: Importer, owner: Rows, tmp_path: Path
) -> None:
    for table, (record, later) in EXAMPLES.items():
        importer.take(tmp_path / table, later or record)

    def row(statement: str) -> Any:
        return owner.execute(statement).fetchone()

    assert row(
        "select listened_at, track, artist, artists, album, played_ms, duration_ms, is_skipped,"
        " spotify_uri, isrc, recording_mbid::text, source from music.listen"
    ) == (
        *EXAMPLES["music.listen"][0][1:4],
        ["Gorillaz", 'D"R\\A'],
        *EXAMPLES["music.listen"][0][5:],
        "any",
    )
    assert row(
        "select metric_type, started_at, ended_at, value, utc_offset, name, device, kind, platform,"
        " priority, unit, aggregation from health.sample join health.source using (user_id, source_id)"
        " join health.metric using (user_id, metric_type)"
    ) == ("steps", AT, AT + HOUR, 212, "+02:00", *WATCH, "count", "sum")
    assert row("select recorded_at, bpm, rr_intervals_ms from health.heart_rate") == (
        *(AT, 61, [982, 975]),
    )
    assert row(
        "select sleep.started_at, sleep.ended_at, in_bed_ms, asleep_ms, utc_offset, state, score,"
        " hrv_rmssd_ms, strain, strain_scale_max from health.sleep"
        " join health.recovery using (user_id, sleep_id) join health.cycle using (user_id, sleep_id)"
    ) == (AT, AT + 8 * HOUR, 28_800_000, 26_100_000, "+02:00", "scored", 66, 48.2, 11.4, 21)
    assert (
        row(
            "select recorded_at, latitude, longitude, accuracy_m, altitude_m, vertical_accuracy_m,"
            " speed_mps, course_deg, battery_percent, activity, name, platform"
            " from location.point join location.device using (user_id, device_id)"
        )
        == EXAMPLES["location.point"][0][1:]
    )
    assert row(
        "select type, status, started_at, ended_at, note, name, category, latitude, country_code"
        " from location.event join location.place using (user_id, place_id)"
    ) == ("visit", "confirmed", AT, AT + HOUR, None, "Y", "Café", 52.371, "NL")
    assert row(
        "select kind, name, season, episode, watched_at, watch_ms,"
        " (select array_agg(genre order by genre) from content.title_genre)"
        " from content.play join content.title using (user_id, title_id)"
    ) == ("show", "Dark", 1, 2, AT, 3_600_000, ["drama", "mystery"])
    assert row(
        "select title, status, starts_at, start_date, updated_at, name, calendar.timezone, provider"
        " from content.calendar_event join content.calendar using (user_id, calendar_id)"
    ) == ("Review", "cancelled", AT, None, AT + HOUR, "Office", "UTC", "any")
    assert row(
        "select recorded_at, duration_ms, title, language, transcript, transcript_status,"
        " transcript_segments from content.recording"
    ) == (
        *(AT, 184_000, "Notes", "en", "Hello", "ready"),
        [{"start_ms": 0, "end_ms": 9, "speaker": None, "text": "Hello"}],
    )
    assert row("select provider, action, additions, ref from code.event") == (
        "any",
        "pushed",
        41,
        None,
    )
    assert row(
        "select started_at, ended_at, app, title, source, name"
        " from activity.app_session join activity.device using (user_id, device_id)"
    ) == (AT, AT + HOUR, "Code", "main.py", "any", "laptop")
    assert row("select project, language from activity.coding_session") == ("svc", "Python")


def test_sessions_are_marked_and_counted_as_those_of_trackers(
    importer: Importer, owner: Rows, tmp_path: Path
) -> None:
    late = AppSession("late", AT + 16 * HOUR, AT + 17 * HOUR, "laptop", "Code")
    too_long = AppSession("long", AT, AT + 25 * HOUR, "laptop", "Code")

    receipt = importer.take(tmp_path / "file", late, too_long)

    assert counts(receipt) == (2, 1, 0, 0, 1)
    assert receipt["refused"][0]["reason"] == "duration_too_long"
    for table in ("activity.summary_due", "activity.rollup_due"):
        rows = owner.execute(f"select date::text from {table} order by 1").fetchall()  # noqa: S608
        assert rows == [("2025-06-16",), ("2025-06-17",)]
    assert owner.execute("select stream, event_count from activity.device_stream").fetchall() == [
        ("app_sessions", 1)
    ]


def test_days_from_which_visits_and_offsets_follow_are_marked_when_they_change(
    importer: Importer, owner: Rows, tmp_path: Path
) -> None:
    def marked(*brought: Record) -> list[int]:
        owner.execute("delete from location.derivation_due")
        importer.take(tmp_path / "file", *brought)
        rows = owner.execute("select date from location.derivation_due order by date").fetchall()
        return [(day - AT.date()).days for (day,) in rows]

    point = Point("a", AT, 52.37, 4.89)
    visit = PlaceEvent("a", "visit", "suggested", AT, AT + 72 * HOUR, CAFE)
    slept = Sleep("a", AT, AT + 20 * HOUR, WATCH, 28_800_000, 26_100_000)

    assert marked(point, Point("b", AT + 24 * HOUR, 52.37, 4.89)) == [0, 1]
    assert marked(point._replace(recorded_at=AT - 24 * HOUR)) == []
    assert marked(visit) == [0, 1, 2, 3]
    assert marked(visit) == []
    assert marked(visit._replace(ended_at=AT)) == [0, 1, 2, 3]
    assert marked(visit._replace(ended_at=AT + 2400 * HOUR)) == [*range(32), 100]
    assert marked(slept._replace(key="b", utc_offset="+01:00")) == []
    assert marked(slept) == [1]
    assert marked(slept) == []


def test_an_offset_that_a_source_does_not_say_replaces_none(
    importer: Importer, owner: Rows, tmp_path: Path
) -> None:
    slept = Sleep("a", AT, AT + 8 * HOUR, WATCH, 28_800_000, 26_100_000)

    def offset(*brought: Record) -> tuple[tuple[int, ...], tuple[Any, ...] | None]:
        receipt = importer.take(tmp_path / "file", *brought)
        row = owner.execute("select utc_offset, is_offset_derived from health.sleep").fetchone()
        return counts(receipt)[1:4], row

    assert offset(slept) == ((1, 0, 0), ("+02:00", True))
    # An export of one's own has the offset that was derived.
    assert offset(slept._replace(utc_offset="+02:00")) == ((0, 1, 0), ("+02:00", True))
    assert offset(slept._replace(utc_offset="+09:00")) == ((0, 0, 1), ("+09:00", False))
    assert offset(slept) == ((0, 1, 0), ("+09:00", False))
    assert offset(slept._replace(asleep_ms=1)) == ((0, 0, 1), ("+09:00", False))


def test_a_point_has_the_time_zone_of_where_it_is(
    importer: Importer, owner: Rows, tmp_path: Path
) -> None:
    importer.take(
        tmp_path / "file", Point("a", AT, 52.37, 4.89), Point("b", AT + HOUR, 35.68, 139.69)
    )

    assert owner.execute("select timezone from location.point order by recorded_at").fetchall() == [
        ("Europe/Amsterdam",),
        ("Asia/Tokyo",),
    ]


def test_a_session_that_goes_on_in_a_newer_file_is_longer(
    importer: Importer, owner: Rows, tmp_path: Path
) -> None:
    app = AppSession("app", AT, AT + HOUR, "laptop", "Code")
    coding = CodingSession("coding", AT, AT + HOUR, "laptop", "svc", lines_added=3)
    sent = CodingSession("sent", AT, AT + HOUR, "laptop", "svc")
    importer.take(tmp_path / "first", app, coding, sent)
    owner.execute(
        "update activity.coding_session set import_id = null where idempotency_key = 'sent'"
    )
    owner.execute("delete from activity.rollup_due")
    end = AT + 20 * HOUR
    longer = (
        app._replace(ended_at=end),
        coding._replace(ended_at=end, lines_added=5),
        sent._replace(ended_at=end),
    )

    newer = importer.take(tmp_path / "newer", *longer)
    older = importer.take(tmp_path / "older", app, coding)

    assert counts(newer) == (3, 0, 1, 2, 0)
    assert counts(older) == (2, 0, 2, 0, 0)
    assert owner.execute("select ended_at from activity.app_session").fetchall() == [
        (AT + 20 * HOUR,)
    ]
    rows = owner.execute(
        "select idempotency_key, ended_at, lines_added from activity.coding_session order by 1"
    ).fetchall()
    # What a tracker sent stays as it is.
    assert rows == [("coding", AT + 20 * HOUR, 5), ("sent", AT + HOUR, None)]
    assert owner.execute("select date::text from activity.rollup_due order by 1").fetchall() == [
        ("2025-06-16",),
        ("2025-06-17",),
    ]
    assert owner.execute(
        "select stream, event_count, last_event_at from activity.device_stream order by 1"
    ).fetchall() == [
        ("app_sessions", 1, AT + 20 * HOUR),
        ("coding_sessions", 2, AT + 20 * HOUR),
    ]


def test_each_point_of_a_batch_has_its_own_device(
    importer: Importer, owner: Rows, tmp_path: Path
) -> None:
    devices = ("phone", "watch", None, "phone", "tablet")

    importer.take(
        tmp_path / "file",
        *(
            Point(str(number), AT + number * HOUR, 52.37, 4.89, device=device)
            for number, device in enumerate(devices)
        ),
    )

    rows = owner.execute(
        """
        select device.name
          from location.point
          left join location.device using (user_id, device_id)
         order by recorded_at
        """
    ).fetchall()
    assert [name for (name,) in rows] == list(devices)

"""Rules that several statements and functions must agree on: one definition each, which all readers follow.

A test changes a copy of the definition, loads the readers with it, and checks that each of them changes.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from deploy.migrate import SQL_DIR
from shared import queries
from tests.conftest import Person, person

ROOT: Final = Path(__file__).parent.parent.parent
RESOURCES: Final = ROOT / "resourceserver"
TIMELINE: Final = (
    "timeline/timeline.sql",
    "timeline/segments.sql",
    "timeline/kept.sql",
    "timeline/reported.sql",
)
FILES: Final = {
    "endpoints": (
        *TIMELINE,
        *(f"endpoints/{name}.sql" for name in ("rows", "activity", "attention", "coding")),
        *(f"endpoints/{name}.sql" for name in ("sessions", "correlation")),
    ),
    "rollups": (*TIMELINE, "timeline/rollups.sql"),
    "frame": ("mcp/frame.sql",),
    "tools": (
        *(*TIMELINE, "endpoints/rows.sql", "mcp/frame.sql"),
        *("mcp/tools/filter.sql", "mcp/tools/sessions.sql"),
    ),
}
"""Statements that are loaded together."""
DAY: Final = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(
    days=3
)
"""Recent, since suggestions for category rules read the last 30 days."""
HOUR_MS: Final = 3_600_000

Rows = psycopg.Connection[Any]
Read = Callable[["Readers"], Any]


@dataclass(frozen=True)
class Readers:
    """All statements, from a copy of their files, and their results for one person."""

    db: Rows
    reader: Person
    statements: Mapping[str, str]

    def row(self, name: str, **values: Any) -> Any:
        """Return the JSON that a statement answers about the day."""
        given = {
            "from": DAY,
            "to": DAY + timedelta(days=1),
            "date": DAY.date(),
            "tz": "UTC",
            "given_tz": "UTC",
            "adjust": "none",
            "limit": 100,
            "cursor": None,
            "cursor_at": "9999-01-01 00:00Z",
            "lag": 0,
            "is_counted": True,
            "cursor_id": "ffffffff-ffff-ffff-ffff-ffffffffffff",
            "app": None,
            "category": None,
            "user_id": self.reader.user_id,
        }
        found = self.db.execute(self.statements[name].encode(), given | values).fetchone()
        assert found is not None
        return json.loads(found[0])

    def renew(self) -> None:
        """Write the quarters of an hour and the days' timelines, and remove the marks of the days."""
        days = {"user_id": self.reader.user_id, "from": DAY.date(), "to": DAY.date()}
        for name in ("forget_days", "add_labels", "make_app_quarters", "make_coding_quarters"):
            self.db.execute(self.statements[name].encode(), days)
        for unit, grain in (("hour", 2), ("day", 3)):
            for name in ("add_up_app", "add_up_coding"):
                self.db.execute(
                    self.statements[name].encode(), days | {"unit": unit, "grain": grain}
                )


@pytest.fixture
def load(db: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Readers]:
    """Return a function that loads all readers with a change of the files."""
    someone = person(db, "alice")
    write_day(db, someone)

    def loaded(path: str = "", old: str = "", new: str = "") -> Readers:
        copy = tmp_path / f"copy{len(list(tmp_path.iterdir()))}"
        for source in (*RESOURCES.rglob("*.sql"), *queries.SHARED):
            target = copy / source.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
        if path:
            text = (copy / path).read_text()
            assert old in text
            (copy / path).write_text(text.replace(old, new))
        shared = tuple(copy / each.relative_to(ROOT) for each in queries.SHARED)
        monkeypatch.setattr(queries, "SHARED", shared)
        statements = {
            name: text
            for files in FILES.values()
            for name, text in queries.load(
                *(copy / "resourceserver" / each for each in files)
            ).items()
        }
        db.execute(queries.written_out(SQL_DIR / "functions" / "categories.sql").encode())
        monkeypatch.undo()
        return Readers(db, someone, statements)

    return loaded


def write_day(db: Rows, someone: Person) -> None:
    """Write a day on which two devices begin sessions at the same instant."""
    db.execute(
        "insert into activity.device (user_id, name) values (%(id)s, 'laptop'), (%(id)s, 'phone')",
        {"id": someone.user_id},
    )
    for device, name, starts, ends in (
        ("laptop", "Written", 9, 11),
        ("phone", "Played", 9, 11),
        ("phone", "Read", 11, 12),
    ):
        values = {
            "id": someone.user_id,
            "device": device,
            "name": name,
            "starts": DAY + timedelta(hours=starts),
            "ends": DAY + timedelta(hours=ends),
        }
        for table, column in (("app_session", "app"), ("coding_session", "project")):
            db.execute(
                f"""
                insert into activity.{table} (
                    user_id, device_id, idempotency_key, {column}, started_at, ended_at
                )
                select user_id, device_id, %(name)s, %(name)s, %(starts)s, %(ends)s
                  from activity.device
                 where user_id = %(id)s
                   and name = %(device)s
                """,  # noqa: S608 -- ours
                values,
            )
    # Without rollups, sessions are read.
    db.execute(
        "insert into activity.rollup_due (user_id, date) values (%s, %s) on conflict do nothing",
        [someone.user_id, DAY.date()],
    )


def times(rows: list[Any], name: str) -> dict[str, int]:
    return {row[name]: row["total_ms"] for row in rows if row["total_ms"]}


def app_rollup(readers: Readers) -> dict[str, int]:
    readers.renew()
    return dict(
        readers.db.execute(
            """
            select label.app, sum(part.owned_ms)::bigint
              from activity.app_time as part
              join activity.label as label using (user_id, label_id)
             where part.user_id = %s and part.grain = 1
             group by 1 having sum(part.owned_ms) > 0
            """,
            [readers.reader.user_id],
        ).fetchall()
    )


def coding_rollup(readers: Readers) -> dict[str, int]:
    readers.renew()
    return dict(
        readers.db.execute(
            """
            select project, sum(owned_ms)::bigint
              from activity.coding_time
             where user_id = %s and grain = 1
             group by 1 having sum(owned_ms) > 0
            """,
            [readers.reader.user_id],
        ).fetchall()
    )


def suggested(readers: Readers) -> dict[str, int]:
    """Return the time that suggestions for category rules count."""
    return dict(
        readers.db.execute(
            "select app, total_ms from svc.recent_time(%s) where total_ms > 0",
            [readers.reader.user_id],
        ).fetchall()
    )


OWNERS: Final[dict[str, Read]] = {
    "sums of sessions": lambda all_: times(all_.row("app_usage")["data"], "app"),
    "switches": lambda all_: (
        {row["from_app"]: row["before_ms"] for row in all_.row("context_switches")["data"]}
        | {"Read": HOUR_MS}
    ),
    "rollups": app_rollup,
    "suggestions": suggested,
    "sums of coding": lambda all_: times(all_.row("coding")["data"]["projects"], "project"),
    "rollups of coding": coding_rollup,
}


@pytest.mark.parametrize("reader", OWNERS)
def test_every_reader_follows_the_order_of_owners(
    load: Callable[..., Readers], reader: str
) -> None:
    definition = 'device.name collate "C"'

    changed = OWNERS[reader](load("shared/definitions.sql", f"{definition} desc", definition))

    assert changed == {"Played": 2 * HOUR_MS, "Read": HOUR_MS}


@pytest.mark.parametrize("reader", OWNERS)
def test_the_first_device_owns_the_time_of_two_sessions_with_one_start(
    load: Callable[..., Readers], reader: str
) -> None:
    assert OWNERS[reader](load()) == {"Written": 2 * HOUR_MS, "Read": HOUR_MS}


def known_to_function(readers: Readers) -> set[tuple[str, str]]:
    return set(
        readers.db.execute(
            "select known_as, decided_by from svc.judge(%s, '{Written}', '{null}', '{null}', '{null}')",
            [readers.reader.user_id],
        ).fetchall()
    )


def renewed(readers: Readers) -> Readers:
    """Have rollups answer for the day."""
    readers.renew()
    readers.db.execute(
        "delete from activity.rollup_due where user_id = %s", [readers.reader.user_id]
    )
    return readers


CATEGORIES: Final[dict[str, Read]] = {
    "sums of sessions": lambda all_: {row["category"] for row in all_.row("app_usage")["data"]},
    "sums of rollups": lambda all_: {
        row["category"] for row in renewed(all_).row("app_usage")["data"]
    },
    "lists": lambda all_: {row["category"] for row in all_.row("app_sessions")["data"]},
    "switches": lambda all_: {row["to_category"] for row in all_.row("context_switches")["data"]},
    "suggestions": lambda all_: {category for category, _ in known_to_function(all_)},
}


@pytest.mark.parametrize("reader", CATEGORIES)
def test_every_reader_follows_the_rule_for_categories(
    load: Callable[..., Readers], reader: str
) -> None:
    read = CATEGORIES[reader]

    before = read(load())
    changed = read(load("shared/definitions.sql", "'Uncategorized'", "'Planted'"))

    assert (before, changed) == ({"Uncategorized"}, {"Planted"})


def test_the_reason_for_a_category_follows_the_rule_too(load: Callable[..., Readers]) -> None:
    changed = load(
        "shared/definitions.sql",
        "lower(rule_inputs.app),\n",
        "lower('code'),\n",
    )

    assert known_to_function(changed) == {("Development", "app")}


def gaps(readers: Readers) -> int:
    given = dict.fromkeys(("period", "first_instant", "last_instant", "first_local", "last_local"))
    days = {"first_day": DAY.date(), "last_day": DAY.date(), "most_days": None}
    readers.db.execute("select set_config('svc.scopes', '', true)")
    found = readers.row("period", **given, **days)
    return sum(gap["days"] for gap in found["data_gaps"])


def unreported(readers: Readers) -> int:
    names = {"metric_a": "tracked_ms", "metric_b": "coding_ms", "method": "pearson"}
    dates = {"from": DAY.date(), "to": DAY.date()}
    return 1 - len(readers.row("correlation", **names, **dates)["reported"])


@pytest.mark.parametrize("read", [gaps, unreported])
def test_every_reader_follows_the_rule_for_days_without_a_report(
    load: Callable[..., Readers], read: Read
) -> None:
    changed = load("shared/definitions.sql", "started_at < day.ends_at\n", "false\n")

    assert (read(load()), read(changed)) == (0, 1)


@pytest.mark.parametrize(
    ("old", "new", "grain"),
    [
        ("svc.duration_ms(coalesce(sum(owned), interval '0')) as owned_ms", "7 as owned_ms", 1),
        ("sum(owned_ms)::bigint as owned_ms", "7 as owned_ms", 3),
    ],
)
def test_rollups_of_applications_and_of_coding_have_the_same_rows(
    load: Callable[..., Readers], old: str, new: str, grain: int
) -> None:
    readers = load("resourceserver/timeline/rollups.sql", old, new)

    readers.renew()

    for table in ("app_time", "coding_time"):
        owned = readers.db.execute(
            f"select distinct owned_ms from activity.{table} where user_id = %s and grain = %s",  # noqa: S608
            [readers.reader.user_id, grain],
        ).fetchall()
        assert owned == [(7,)]


def listed_titles(readers: Readers) -> set[str]:
    return {row["title"] for row in readers.row("app_sessions")["data"]}


def listed_titles_of_tool(readers: Readers) -> set[str]:
    frame = {
        "frame_tz": "UTC",
        "frame_today": DAY.date(),
        "frame_week_starts_on": 1,
        "frame_first_day": DAY.date(),
        "frame_last_day": DAY.date(),
        "frame_starts_at": DAY,
        "frame_ends_at": DAY + timedelta(days=1),
    }
    given = {
        "kind": "app",
        "apps": [],
        "domains": [],
        "categories": [],
        "productivity": [],
        "projects": [],
    }
    more: dict[str, Any] = {"languages": [], "search": None}
    return {row["title"] for row in readers.row("list_sessions", **frame, **given, **more)["data"]}


@pytest.mark.parametrize("read", [listed_titles, listed_titles_of_tool])
def test_every_list_has_the_columns_of_session_rows(
    load: Callable[..., Readers], read: Read
) -> None:
    column = "       session.title,\n       session.url,\n       session.domain,\n"

    changed = load(
        "resourceserver/endpoints/rows.sql",
        column,
        column.replace("session.title", "'planted' as title"),
    )

    assert read(changed) == {"planted"}

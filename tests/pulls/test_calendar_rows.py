"""What remains of a calendar in the database when it changes, and when it cannot be read."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import psycopg
import pytest
from psycopg import sql

from resourceserver.integrations.formats.icalendar import ICALENDAR
from resourceserver.integrations.pulls import calendar
from shared.settings import Settings
from tests import https
from tests.conftest import Person
from tests.https import Host, Request, plain
from tests.integrations.bringing import Importer, counts
from tests.pulls.calendars import PASSWORD, PATH, Worker, event, text

Rows = psycopg.Connection[Any]

TODAY: Final = datetime.now(UTC).replace(hour=9, minute=0, second=0, microsecond=0)


def at(days: int, hour: int = 9) -> str:
    """Return a time some days from today."""
    return f"{(TODAY + timedelta(days=days)).replace(hour=hour):%Y%m%dT%H%M%SZ}"


def key(uid: str, days: int, hour: int = 9) -> str:
    """Return the key of an instance."""
    return f"ics:{uid}:{int((TODAY + timedelta(days=days)).replace(hour=hour).timestamp())}000"


@dataclass
class Served:
    """A host, whose answer tests change."""

    host: Host
    answer: list[tuple[bytes, ...]] = field(default_factory=list)

    def have(self, *events: str) -> None:
        """Answer with these events from now on."""
        self.answer[:] = [plain(text(*events).encode())]


@pytest.fixture
def served() -> Iterator[Served]:
    """A host with a calendar."""
    answer: list[tuple[bytes, ...]] = []

    def answer_get(request: Request) -> tuple[bytes, ...]:
        return answer[0]

    with https.host(answer_get) as host:
        yield Served(host, answer)


@pytest.fixture
def worker(deployment: Settings, owner: Rows, alice: Person, served: Served) -> Worker:
    """The calendar of alice at that host."""
    return Worker.of(deployment, owner, alice, served.host.url(PATH))


def test_changes_of_a_calendar_are_followed(worker: Worker, served: Served) -> None:
    daily = event("series", at(0), "RRULE:FREQ=DAILY;COUNT=4")
    served.have(event("moved", at(1)), event("gone", at(-1)), event("off", at(2)), daily)
    first = worker.pull(served.host)

    served.have(
        event("moved", at(5), "SUMMARY:Later"),
        event("off", at(2), "STATUS:CANCELLED"),
        event("series", at(0), "RRULE:FREQ=DAILY;COUNT=4", f"EXDATE:{at(1)}"),
        event("series", at(2, 15), f"RECURRENCE-ID:{at(2)}"),
        # Beyond the window.
        event("series", at(500), f"RECURRENCE-ID:{at(3)}"),
    )
    second = worker.pull(served.host)
    third = worker.pull(served.host)

    assert first == "read=7 new=7 changed=0"
    assert second == "read=4 new=0 changed=3"
    assert third == "read=0 new=0 changed=0"
    assert worker.events() == {
        "ics:moved": (TODAY + timedelta(days=5), "confirmed"),
        "ics:off": (TODAY + timedelta(days=2), "cancelled"),
        key("series", 0): (TODAY, "confirmed"),
        key("series", 2): ((TODAY + timedelta(days=2)).replace(hour=15), "confirmed"),
    }
    assert worker.row()["reached"] == "live"


def test_a_series_that_begins_at_another_time_is_moved_as_a_whole(
    worker: Worker, served: Served
) -> None:
    served.have(event("series", at(0), "RRULE:FREQ=DAILY;COUNT=3"))
    worker.pull(served.host)

    served.have(event("series", at(0, 11), "RRULE:FREQ=DAILY;COUNT=3"))
    worker.pull(served.host)

    assert sorted(worker.events()) == [key("series", day, 11) for day in range(3)]


def test_the_window_ends_where_removal_ends(worker: Worker, served: Served) -> None:
    served.have(
        event("before", at(-367)),
        event("first", at(-365)),
        event("last", at(365)),
        event("after", at(367)),
    )
    worker.pull(served.host)
    found = worker.events().keys()
    served.have()
    worker.pull(served.host)

    assert found == {"ics:first", "ics:last"}
    assert worker.events() == {}


def test_an_instance_that_is_no_longer_moved_is_where_its_series_has_it(
    worker: Worker, served: Served
) -> None:
    series = event("series", at(0), "RRULE:FREQ=DAILY;COUNT=2", f"LAST-MODIFIED:{at(-9)}")
    moved = event("series", at(5), f"RECURRENCE-ID:{at(1)}", f"LAST-MODIFIED:{at(-1)}")
    served.have(series, moved)
    worker.pull(served.host)

    served.have(series)
    worker.pull(served.host)

    assert worker.events()[key("series", 1)] == (TODAY + timedelta(days=1), "confirmed")


def test_events_of_a_calendar_that_became_empty_are_removed(worker: Worker, served: Served) -> None:
    served.have(event("1", at(0)), event("2", at(300)))
    worker.pull(served.host)

    served.have()
    worker.pull(served.host)

    assert worker.events() == {}


@pytest.mark.parametrize("damage", ["cut off", "a page", "too many", "too long", "an error"])
def test_nothing_is_removed_while_a_calendar_cannot_be_read_whole(
    worker: Worker, served: Served, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    served.have(event("1", at(0)), event("2", at(1)))
    worker.pull(served.host)
    whole = text(event("3", at(2)), event("4", at(3)))

    broken = {
        "cut off": plain(whole[:-30].encode()),
        "a page": plain(b"<!doctype html><title>Sign in</title>"),
        "an error": plain(b"", status="500 Internal Server Error"),
    }
    served.answer[:] = [broken.get(damage, plain(whole.encode()))]
    if damage == "too many":
        monkeypatch.setattr(calendar, "EVENTS", 1)
    if damage == "too long":
        monkeypatch.setattr(calendar, "READING_S", 0.0)
    worker.pull(served.host)

    assert {"ics:1", "ics:2"} <= worker.events().keys()
    problems = {"cut off": "incomplete", "a page": "not_a_calendar", "an error": "server_error"}
    assert worker.row()["problem"] == problems.get(damage)
    refusals = worker.owner.execute("select reason from profile.import_refusal").fetchall()
    reasons = {"too many": "too_many_events", "too long": "takes_too_long"}
    assert (reasons.get(damage, ""),) in [*refusals, ("",)]


def test_events_of_a_file_stay_and_are_changed_by_the_pull(
    worker: Worker, served: Served, deployment: Settings, alice: Person, tmp_path: Path
) -> None:
    events = event("1", at(0)), event("2", at(1), "RRULE:FREQ=DAILY;COUNT=2")
    file = tmp_path / "work.ics"
    file.write_text(text(*events))
    Importer(deployment, alice, ZoneInfo("UTC")).run(file, ICALENDAR)

    served.have(*events)
    same = worker.pull(served.host)
    served.have(event("1", at(0), "STATUS:TENTATIVE"))
    changed = worker.pull(served.host)

    assert (same, changed) == ("read=3 new=0 changed=0", "read=1 new=0 changed=1")
    assert {name: status for name, (_, status) in worker.events().items()} == {
        "ics:1": "tentative",
        key("2", 1): "confirmed",
        key("2", 2): "confirmed",
    }


def test_an_import_of_the_file_after_the_pull_brings_nothing_new(
    worker: Worker, served: Served, deployment: Settings, alice: Person, tmp_path: Path
) -> None:
    events = event("1", at(0)), event("2", at(1), "RRULE:FREQ=DAILY;COUNT=2")
    served.have(*events)
    worker.pull(served.host)

    file = tmp_path / "work.ics"
    file.write_text(text(*events))
    receipt = Importer(deployment, alice, ZoneInfo("UTC")).run(file, ICALENDAR)

    assert counts(receipt) == (3, 0, 3, 0, 0)


def test_neither_address_nor_password_is_stored_in_the_clear(
    deployment: Settings, owner: Rows, alice: Person, served: Served
) -> None:
    worker = Worker.of(
        deployment, owner, alice, served.host.url(PATH), user="alice", password=PASSWORD
    )
    served.have(event("1", at(0)), event("2", at(1), "RRULE:FREQ=SECONDLY"))
    worker.pull(served.host)

    tables = owner.execute(
        """
        select nspname,
               relname
          from pg_class
          join pg_namespace on pg_namespace.oid = relnamespace
         where relkind = 'r'
           and nspname in ('profile', 'content', 'svc', 'identity')
        """
    ).fetchall()
    rows = sql.SQL("select each::text from {} as each")
    stored = "".join(
        str(owner.execute(rows.format(sql.Identifier(*name))).fetchall()) for name in tables
    )
    assert "ics:1" in stored
    for secret in ("0f9e8d7c6b5a", PASSWORD, "calendar.example"):
        assert secret not in stored

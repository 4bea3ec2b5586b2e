"""The pull of an account at Radicale, a CalDAV server that nobody here wrote, over TLS."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import psycopg
import pytest

from resourceserver.integrations.formats.icalendar import ICALENDAR
from resourceserver.integrations.pulls import caldav
from shared.fetcher import Answer, FetchFailed
from shared.settings import Settings
from tests import https
from tests.conftest import Person
from tests.https import Host
from tests.integrations.bringing import Importer, counts
from tests.pulls.calendars import PASSWORD, Worker, event, text
from tests.waiting import wait_for

Rows = psycopg.Connection[Any]

TODAY: Final = datetime.now(UTC).replace(hour=9, minute=0, second=0, microsecond=0)

MAKE: Final = """<?xml version="1.0"?>
<C:mkcalendar xmlns="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav"><set><prop>
<displayname>{name}</displayname>
<C:supported-calendar-component-set><C:comp name="{component}"/></C:supported-calendar-component-set>
</prop></set></C:mkcalendar>
"""


def at(days: int, hour: int = 9) -> str:
    """Return a time some days from today."""
    return f"{(TODAY + timedelta(days=days)).replace(hour=hour):%Y%m%dT%H%M%SZ}"


def key(uid: str, days: int, hour: int = 9) -> str:
    """Return the key of an instance."""
    return f"ics:{uid}:{int((TODAY + timedelta(days=days)).replace(hour=hour).timestamp())}000"


class Radicale:
    """A server that runs, as the calendar application of a person reaches it."""

    def __init__(self, host: Host) -> None:
        """Speak to the server at ``host``."""
        self.host = host

    def send(self, method: str, path: str, body: str = "", **headers: str) -> Answer:
        """Send a request as alice."""
        return self.host.fetcher().fetch(
            method,
            self.host.url(path),
            headers=caldav.authorization("alice", PASSWORD) | headers,
            body=body.encode() or None,
        )

    def make(self, path: str, name: str, component: str = "VEVENT") -> None:
        """Make a calendar."""
        made = self.send("MKCALENDAR", path, MAKE.format(name=name, component=component))
        assert made.status == 201

    def put(self, path: str, *events: str) -> None:
        """Store the events of one UID."""
        assert self.send("PUT", path, text(*events)).status in (201, 204)

    def delete(self, path: str) -> None:
        """Remove what is there."""
        assert self.send("DELETE", path).status == 200

    def is_up(self) -> bool:
        """Return whether the server answers."""
        try:
            return self.send("OPTIONS", "/").status == 200
        except FetchFailed:
            return False


@pytest.fixture(scope="module")
def radicale(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Radicale]:
    """A server with an account for alice."""
    directory = tmp_path_factory.mktemp("radicale")
    certificate = https._issued((*https.NAMES, https.LOOPBACK), directory / "host.pem")
    (directory / "users").write_text(f"alice:{PASSWORD}\n")
    with closing(socket.create_server((https.LOOPBACK, 0))) as listener:
        port = listener.getsockname()[1]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "radicale", "--config", ""),
                *("--server-hosts", f"{https.LOOPBACK}:{port}", "--server-ssl"),
                *("--server-certificate", certificate, "--server-key", certificate),
                *("--auth-type", "htpasswd", "--auth-delay", "0"),
                *("--auth-htpasswd-filename", directory / "users"),
                *("--auth-htpasswd-encryption", "plain"),
                *("--storage-filesystem-folder", directory / "storage"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    running = Radicale(Host(port))
    try:
        wait_for(lambda: running.is_up() or process.poll() is not None, "Radicale answers")
        assert process.poll() is None, (directory / "log").read_text()
        yield running
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def home(radicale: Radicale) -> Iterator[Radicale]:
    """The account of alice with two calendars and a list of tasks, all of them empty."""
    radicale.make("/alice/team/", "Team")
    radicale.make("/alice/family/", "Family")
    radicale.make("/alice/tasks/", "Tasks", "VTODO")
    yield radicale
    for name in ("team", "family", "tasks"):
        radicale.delete(f"/alice/{name}/")


@pytest.fixture
def worker(deployment: Settings, owner: Rows, alice: Person, radicale: Radicale) -> Worker:
    """The account of alice, connected by the address of the server alone."""
    address = radicale.host.url("")
    return Worker.of(deployment, owner, alice, address, user="alice", password=PASSWORD)


def test_an_account_is_found_and_followed(worker: Worker, home: Radicale) -> None:
    daily = event("daily", at(-1), "RRULE:FREQ=DAILY;COUNT=4", "SUMMARY:Stand-up")
    home.put("/alice/team/daily.ics", daily)
    home.put("/alice/family/old.ics", event("old", at(-800), f"DTEND:{at(-800, 10)}"))
    home.put("/alice/family/gone.ics", event("gone", at(3)))
    home.put("/alice/tasks/task.ics", "BEGIN:VTODO\r\nUID:task\r\nSUMMARY:Pay\r\nEND:VTODO")
    first = worker.pull(home.host)

    second = worker.pull(home.host)

    home.put(
        "/alice/team/daily.ics",
        daily,
        event("daily", at(0, 15), f"RECURRENCE-ID:{at(0)}"),
        event("daily", at(1), f"RECURRENCE-ID:{at(1)}", "STATUS:CANCELLED"),
    )
    home.delete("/alice/family/gone.ics")
    third = worker.pull(home.host)

    assert first == "read=5 new=5 changed=0"
    assert second == "read=0 new=0 changed=0"
    assert third == "read=4 new=0 changed=2"
    assert worker.events() == {
        key("daily", -1): (TODAY - timedelta(days=1), "confirmed"),
        key("daily", 0): (TODAY.replace(hour=15), "confirmed"),
        key("daily", 1): (TODAY + timedelta(days=1), "cancelled"),
        key("daily", 2): (TODAY + timedelta(days=2), "confirmed"),
    }


def test_a_calendar_that_was_deleted_takes_its_events_along(worker: Worker, home: Radicale) -> None:
    home.put("/alice/team/1.ics", event("1", at(0)))
    home.put("/alice/family/2.ics", event("2", at(0)))
    worker.pull(home.host)

    home.delete("/alice/family/")
    worker.pull(home.host)
    home.make("/alice/family/", "Family")

    assert worker.events().keys() == {"ics:1"}


def test_a_file_of_the_calendar_has_what_the_pull_has(
    worker: Worker, home: Radicale, deployment: Settings, alice: Person, tmp_path: Path
) -> None:
    home.put("/alice/team/1.ics", event("1", at(0), "SUMMARY:Review"))
    home.put(
        "/alice/team/2.ics",
        event("2", at(0), "RRULE:FREQ=DAILY;COUNT=3"),
        event("2", at(5), f"RECURRENCE-ID:{at(1)}"),
    )
    worker.pull(home.host)

    file = tmp_path / "team.ics"
    file.write_bytes(home.send("GET", "/alice/team/").body)
    receipt = Importer(deployment, alice, ZoneInfo("UTC")).run(file, ICALENDAR)

    assert counts(receipt) == (4, 0, 4, 0, 0)
    calendars = worker.owner.execute("select name from content.calendar").fetchall()
    assert calendars == [("Team",)]


def test_a_calendar_is_read_by_its_own_address_too(
    deployment: Settings, owner: Rows, alice: Person, home: Radicale
) -> None:
    home.put("/alice/team/1.ics", event("1", at(0)))
    home.put("/alice/family/2.ics", event("2", at(0)))
    address = home.host.url("/alice/team/").replace("https://", "webcal://")
    worker = Worker.of(deployment, owner, alice, address, user="alice", password=PASSWORD)

    worker.pull(home.host)

    assert worker.events().keys() == {"ics:1"}


def test_a_wrong_password_is_refused(
    deployment: Settings, owner: Rows, alice: Person, home: Radicale
) -> None:
    worker = Worker.of(deployment, owner, alice, home.host.url("/"), user="alice", password="wrong")

    line = worker.pull(home.host)

    assert line.startswith("problem=key_refused ")
    assert worker.row()["reached"] == "refused"

"""``svc today``, ``svc week``, ``svc apps`` and ``svc export``: the API's answers in a terminal."""

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from shared.settings import Settings
from tests import processes
from tests.client import NO_TLS
from tests.conftest import Person
from tests.person.conftest import MakeTerminal, Terminal

READ = ("read:activity", "read:profile")


@pytest.fixture(scope="module")
def served(deployment: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a resource server."""
    directory = tmp_path_factory.mktemp("resource")
    url = f"http://localhost:{processes.free_ports(1)[0]}"
    chosen = Settings(**(vars(deployment) | {"base_url": url}))
    logins = processes.role_urls(chosen, processes.RESOURCE_ROLES)
    log = directory / "resource.log"
    with processes.running(["resource", "serve"], chosen, logins, f"{url}/healthz", log):
        yield url


@pytest.fixture
def server(served: str, owner: psycopg.Connection[Any]) -> str:
    """The resource server on committed data, which is removed after the test."""
    assert owner
    return served


def signed_in(terminal: Terminal, token: str) -> Terminal:
    """Let the person be signed in with this access token."""
    address = terminal.settings.base_url
    terminal.store(
        {
            "version": 1,
            "server": address,
            "issuer": "http://localhost:1",
            "token_endpoint": "http://localhost:1/oauth/token",
            "revocation_endpoint": None,
            "client_id": "svc_client_0000000000000000000000",
            "scope": " ".join(READ),
            "is_in_keyring": False,
            "tokens": {
                "access_token": token,
                "refresh_token": "svc_rt_none",
                "expires_at": time.time() + 3600,
            },
        }
    )
    return terminal


@pytest.fixture
def terminal(server: str, alice: Person, make_terminal: MakeTerminal) -> Terminal:
    """A terminal of alice's, whose zone is Europe/Berlin."""
    alice.connection.execute(
        "update identity.user set timezone = 'Europe/Berlin' where user_id = %s", [alice.user_id]
    )
    return signed_in(make_terminal(server), alice.token(*READ))


def session(number: int, start: str, end: str, app: str) -> dict[str, Any]:
    """Return an app session in Berlin's summer time."""
    return {
        "idempotency_key": f"laptop:{number}",
        "started_at": f"{start}+02:00",
        "ended_at": f"{end}+02:00",
        "app": app,
    }


@pytest.fixture
def week_of_june(server: str, alice: Person) -> None:
    """Two days with data in 2025-W25, and a minute after its end."""
    events = [
        session(1, "2025-06-16T09:00:00", "2025-06-16T11:30:00", "Code"),
        session(2, "2025-06-16T11:30:00", "2025-06-16T12:00:00", "\u202e漢字\x1b[2J"),
        session(3, "2025-06-22T23:00:00", "2025-06-23T00:00:00", "Code"),
        session(4, "2025-06-23T00:00:00", "2025-06-23T00:01:00", "Later"),
    ]
    answer = httpx2.post(
        f"{server}/api/v1/ingest/app-sessions",
        json={"events": events, "client": {"name": "test/1"}},
        headers=alice.headers("ingest:app_sessions"),
        verify=NO_TLS,
    )
    assert answer.json()["accepted"] == 4, answer.text


@pytest.mark.usefixtures("week_of_june")
def test_a_week_has_its_days_and_applications(terminal: Terminal) -> None:
    done = terminal.run("week", "2025-W25", "--limit", "1")

    assert done.exit_code == 0, done.output
    assert done.stdout == (
        "2025-W25, 2025-06-16 to 2025-06-22, Europe/Berlin\n"
        "\n"
        "DAY         TRACKED  PRODUCTIVE  DISTRACTED  CODING  FIRST   LAST\n"
        "Mon 16 Jun      3 h  2 h 30 min         0 s     0 s  09:00  12:00\n"
        "Tue 17 Jun        -           -           -       -      -      -\n"
        "Wed 18 Jun        -           -           -       -      -      -\n"
        "Thu 19 Jun        -           -           -       -      -      -\n"
        "Fri 20 Jun        -           -           -       -      -      -\n"
        "Sat 21 Jun        -           -           -       -      -      -\n"
        "Sun 22 Jun      1 h         1 h         0 s     0 s  23:00  24:00\n"
        "Total           4 h  3 h 30 min         0 s     0 s\n"
        "\n"
        "      TIME    SHARE  CATEGORY     APPLICATION\n"
        "3 h 30 min  87.50 %  Development  Code\n"
    )
    assert done.stderr == "1 application more: see --limit\n"


@pytest.mark.usefixtures("week_of_june")
def test_applications_are_printed_without_what_a_terminal_interprets(terminal: Terminal) -> None:
    done = terminal.run("apps", "--last", "3700d")

    assert done.exit_code == 0, done.output
    lines = [re.split(" {2,}", line.strip()) for line in done.stdout.splitlines()[2:]]
    assert lines[0] == ["TIME", "SHARE", "CATEGORY", "APPLICATION"]
    assert lines[2] == ["30 min", "12.45 %", "Uncategorized", "漢字[2J"]


@pytest.mark.usefixtures("week_of_june")
def test_json_is_the_answer_of_the_api_unchanged(terminal: Terminal, alice: Person) -> None:
    weekly = terminal.run("week", "2025-W25", "--json")
    applications = terminal.run("apps", "--json", "--tz", "UTC")

    headers = alice.headers("read:activity")
    daily = httpx2.get(
        f"{terminal.settings.base_url}/api/v1/analytics/daily",
        params={"from": "2025-06-16", "to": "2025-06-22", "tz": "Europe/Berlin"},
        headers=headers,
        verify=NO_TLS,
    )
    usage = httpx2.get(
        f"{terminal.settings.base_url}/api/v1/analytics/app-usage",
        params={"from": "2025-06-15T22:00:00.000Z", "to": "2025-06-22T22:00:00.000Z"},
        headers=headers,
        verify=NO_TLS,
    )
    assert weekly.stdout == f'{{"daily": {daily.text}, "app_usage": {usage.text}}}\n'
    assert json.loads(applications.stdout)["data"] == []


def test_today_prints_the_day_of_the_profiles_zone(terminal: Terminal, alice: Person) -> None:
    empty = terminal.run("today")
    assert empty.exit_code == 0, empty.output
    assert empty.stdout.endswith("Europe/Berlin\n\nNo activity is recorded today yet.\n")

    figures = json.loads(terminal.run("today", "--json").stdout)

    assert list(figures) == ["daily", "focus_streaks", "app_usage", "goals"]
    assert figures["daily"]["tz"] == "Europe/Berlin"
    (day,) = figures["daily"]["data"]
    assert figures["app_usage"]["range"] == {"from": day["starts_at"], "to": day["ends_at"]}


def test_a_missing_scope_is_named(terminal: Terminal, alice: Person) -> None:
    signed_in(terminal, alice.token("read:profile"))

    done = terminal.run("today")

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == (
        "Error: this needs the scope read:activity, which was not granted: run 'svc login' and tick it\n"
    )


def test_without_a_login_nothing_is_written(make_terminal: MakeTerminal) -> None:
    terminal = make_terminal("http://localhost:1")

    done = terminal.run("week")

    assert (done.exit_code, done.stderr) == (1, "Error: not signed in: run 'svc login'\n")
    assert not terminal.settings.config_dir.exists()


@pytest.mark.parametrize("content", ["", "[]", '{"version": 1}', '{"version": 2}', "\x00"])
def test_a_damaged_login_is_an_error_in_one_line(make_terminal: MakeTerminal, content: str) -> None:
    terminal = make_terminal("http://localhost:1")
    terminal.store({})
    terminal.file.write_text(content)

    done = terminal.run("apps")

    assert done.exit_code == 1
    assert done.stderr.endswith(": run 'svc login'\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [("week", "2026-W60"), ("week", "w"), ("apps", "--last", "7"), ("apps", "--last", "9999w")],
)
def test_periods_that_do_not_exist_are_refused(
    make_terminal: MakeTerminal, words: tuple[str, ...]
) -> None:
    done = make_terminal("http://localhost:1").run(*words)

    assert done.exit_code == 2
    assert "is not a" in done.stderr


def test_an_export_is_saved_for_the_person_alone(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    first = terminal.run("export")
    again = terminal.run("export")

    (file,) = tmp_path.glob("*.json")
    assert first.exit_code == 0, first.output
    assert first.stdout == f"{file.name}: {file.stat().st_size} bytes\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.read_text())["user"]["email"] == "alice@example.org"
    assert again.stderr == (
        f"Error: {file.name} exists: choose another name with --out, or add --force\n"
    )
    table = terminal.run("export", "--format", "csv", "--out", "-")
    assert table.stdout.startswith("resource,")
    assert "Left out, because their scopes were not granted: code_events" in table.stderr
    assert list(tmp_path.glob("*.part")) == []


def test_an_export_is_private_and_whole_beside_the_rest_of_another_one(
    terminal: Terminal, tmp_path: Path
) -> None:
    file, rest = tmp_path / "all.json", tmp_path / "all.json.part"
    rest.write_text("of an export that still runs")
    rest.chmod(0o644)

    done = terminal.run("export", "--out", str(file))

    assert done.exit_code == 0, done.output
    assert file.stat().st_mode & 0o777 == 0o600
    assert rest.read_text() == "of an export that still runs"


@contextmanager
def broken_server() -> Iterator[str]:
    """Run a server that breaks its answers off; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b'5\r\n{"a":\r\n')
            self.close_connection = True

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 -- the library's
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_an_export_that_is_broken_off_leaves_no_file(
    make_terminal: MakeTerminal, tmp_path: Path
) -> None:
    file = tmp_path / "all.json"
    with broken_server() as address:
        terminal = signed_in(make_terminal(address), "svc_dt_x")

        done = terminal.run("export", "--tz", "UTC", "--out", str(file))

    assert done.exit_code == 1
    assert done.stderr.startswith(f"Error: {address} has broken the export off: ")
    assert list(tmp_path.glob("all*")) == []

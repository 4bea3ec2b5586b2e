"""Processes with settings that they cannot use: each ends with one line that names them."""

import subprocess
from pathlib import Path

import pytest

from tests.deploy.runner import SELF

SERVERS = ["auth serve", "resource serve"]
PROCESSES = [*SERVERS, "resource work", "up", "migrate"]
KEY = "secret" * 6
NO_LOGIN = "host=127.0.0.1 port=1 password=hunter2"


def line_of(completed: subprocess.CompletedProcess[str]) -> str:
    """Return the one line of a process that could not start."""
    assert completed.returncode == 1
    assert completed.stdout.splitlines()[1:] == []
    (line,) = completed.stderr.splitlines()
    assert "hunter2" not in line
    assert KEY not in line
    return line


@pytest.mark.parametrize("process", PROCESSES)
def test_a_process_names_all_settings_that_it_cannot_use(process: str, data_dir: Path) -> None:
    variables = {
        "SVC_DATA_DIR": str(data_dir),
        "DATABASE_URL": "postgresql://svc:hunter2@/?foo=bar",
        "SVC_COOKIE_KEY": KEY,
        "SVC_BASE_URL": "https://svc.example/api",
        "SVC_QUICK_CONNECTIONS": "0",
    }

    line = line_of(SELF.run(variables, *process.split()))

    assert line == (
        "svc: SVC_BASE_URL: 'https://svc.example/api' must have no path: each server needs a host name or"
        " a port of its own, because browsers keep cookies, passkeys and the permissions of pages by origin,"
        " and both servers answer at /.well-known; DATABASE_URL is not a connection string of PostgreSQL;"
        " SVC_QUICK_CONNECTIONS: '0' is not a whole number between 1 and 1000"
    )
    assert not data_dir.exists()


@pytest.mark.parametrize("process", [each for each in PROCESSES if each != "up"])
def test_a_process_without_a_database_names_what_is_missing(process: str, data_dir: Path) -> None:
    line = line_of(SELF.run({"SVC_DATA_DIR": str(data_dir)}, *process.split()))

    missing = {
        "migrate": "DATABASE_URL is not set, and no embedded PostgreSQL is running",
    }.get(
        process, f"no database: 'svc up' is not running on SVC_DATA_DIR, which is {data_dir}; start"
    )
    assert line.startswith(f"svc: {missing}")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_authorization_server_names_the_key_that_is_missing(
    data_dir: Path, workers: str
) -> None:
    variables = {"SVC_DATA_DIR": str(data_dir), "SVC_AUTHSERVER_DATABASE_URL": NO_LOGIN}

    line = line_of(SELF.run(variables, "auth", "serve", "--workers", workers))

    assert line == (
        f"svc: {data_dir}/secrets.json is missing: run 'svc migrate' first, or set SVC_DATA_DIR to the"
        " directory in which it has run, or SVC_COOKIE_KEY"
    )


def test_a_resource_server_with_receivers_needs_the_login_of_the_importer(data_dir: Path) -> None:
    roles = ("READER", "INGESTER", "WORKER")
    logins = {f"SVC_{role}_DATABASE_URL": NO_LOGIN for role in roles}

    completed = SELF.run(
        {"SVC_DATA_DIR": str(data_dir), "SVC_RECEIVERS": "wakatime"} | logins, "resource", "serve"
    )

    assert "SVC_IMPORTER_DATABASE_URL" in line_of(completed)


@pytest.mark.parametrize(
    ("listen", "said"),
    [
        ("127.0.0.1:9", "127.0.0.1:9"),
        ("[::1]:{port}", "[::1]:{port}"),
    ],
)
@pytest.mark.parametrize("process", SERVERS)
def test_a_server_is_not_started_where_its_public_address_does_not_lead(
    data_dir: Path, ports: tuple[int, int], process: str, listen: str, said: str
) -> None:
    name, port = (
        ("SVC_AUTH_URL", ports[0]) if process == "auth serve" else ("SVC_BASE_URL", ports[1])
    )
    roles = ("AUTHSERVER", "READER", "INGESTER", "WORKER")
    variables = {
        "SVC_DATA_DIR": str(data_dir),
        "SVC_COOKIE_KEY": KEY,
        name: f"http://127.0.0.1:{port}",
        **{f"SVC_{role}_DATABASE_URL": NO_LOGIN for role in roles},
    }

    line = line_of(SELF.run(variables, *process.split(), "--listen", listen.format(port=port)))

    assert line == (
        f"svc: {name} is http://127.0.0.1:{port}, where nobody would reach this server: --listen has it"
        f" listen on {said.format(port=port)}; set both to the same address and port, or name the reverse"
        " proxy between them in SVC_TRUSTED_PROXIES"
    )


def test_nothing_is_started_where_a_public_address_does_not_lead(
    data_dir: Path, ports: tuple[int, int]
) -> None:
    variables = {
        "SVC_DATA_DIR": str(data_dir),
        "SVC_AUTH_URL": f"http://localhost:{ports[0]}",
        "SVC_AUTH_LISTEN": f"[::1]:{ports[0] + 1000}",
        "SVC_BASE_URL": f"http://localhost:{ports[1]}",
    }

    line = line_of(SELF.run(variables, "up"))

    assert line.startswith(
        f"svc: SVC_AUTH_URL is http://localhost:{ports[0]}, where nobody would reach"
    )
    assert not data_dir.exists()


@pytest.mark.parametrize("process", ["migrate", "resource work"])
def test_variables_that_are_no_settings_are_named_with_the_nearest_setting(
    process: str, data_dir: Path
) -> None:
    variables = {
        "SVC_DATA_DIR": str(data_dir),
        "SVC_BACKUPS_DIR": "/backups",
        "SVC_COOKIE_KEY": KEY,
        "SVC_DASHBOARD_KEY_FILE": "",
        "SVC_TOKEN": "a token of a person's own commands",
        "SVC_ZZ": "on",
    }

    warnings = SELF.run(variables, *process.split()).stderr

    assert warnings.splitlines()[:2] == [
        "svc: SVC_BACKUPS_DIR is no setting and has no effect; did you mean SVC_BACKUP_DIR?",
        "svc: SVC_ZZ is no setting and has no effect",
    ]
    # It goes on to the next thing, which is the missing database.
    assert "embedded PostgreSQL is running" in warnings or "no database" in warnings

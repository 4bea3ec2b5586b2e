"""``svc up`` from the outside: real processes, ports and signals."""

import json
import os
import re
import select
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import psycopg
import pytest

from shared import sealing, sealing_keys
from shared.settings import Settings
from tests.deploy.runner import (
    SELF,
    Runner,
    addresses,
    get,
    kernel_file,
    memory,
    wait_until_gone,
)
from tests.waiting import wait_for

each_loopback = pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


Start = Callable[..., Runner]
Owner = psycopg.Connection[tuple[object, ...]]


ANOTHER_DATABASES: Final = {
    "PGSERVICE": "none",
    "PGHOST": "db.example",
    "PGHOSTADDR": "192.0.2.1",
    "PGPORT": "1",
    "PGOPTIONS": "--none=none",
    "PGTARGETSESSIONATTRS": "none",
}


# The reason why two servers cannot have one address, to listen on or as public address.
EACH: Final = (
    "each server needs an address of its own, which SVC_AUTH_LISTEN and SVC_BASE_LISTEN can name"
)
ORIGIN: Final = (
    "each server needs a host name or a port of its own, because browsers keep cookies, passkeys and the "
    "permissions of pages by origin, and both servers answer at /.well-known"
)

METADATA: Final = "/.well-known/oauth-authorization-server"


@pytest.fixture
def start(ports: tuple[int, int]) -> Iterator[Start]:
    """Start runners on this test's ports; those that still run after the test are stopped."""
    with ExitStack() as running:

        def start_one(data_dir: Path, **variables: str) -> Runner:
            chosen = {"SVC_DATA_DIR": str(data_dir)} | addresses(ports) | variables
            return running.enter_context(Runner(data_dir.parent, chosen))

        yield start_one


@pytest.fixture(scope="module")
def standing(standing_data_dir: Path, standing_ports: tuple[int, int]) -> Iterator[Runner]:
    """A runner for tests that do not change it, with a receiver, and with variables of another database.

    Its servers may open more connections than its database takes: 97 for the resource server and 11 for the
    other one; the database takes 97.
    """
    chosen = {"SVC_DATA_DIR": str(standing_data_dir)} | addresses(standing_ports)
    chosen |= ANOTHER_DATABASES | {"SVC_PATIENT_CONNECTIONS": "79", "SVC_RECEIVERS": "wakatime"}
    with Runner(standing_data_dir.parent, chosen) as runner:
        runner.wait_until_up()
        yield runner


def test_the_data_directory_is_printed_first(standing: Runner, standing_data_dir: Path) -> None:
    first = standing.out.read_text().splitlines()[0]

    assert first == f"Data directory: {standing_data_dir}"


@each_loopback
def test_both_servers_answer_on_both_loopback_addresses(
    standing: Runner, host: str, standing_ports: tuple[int, int]
) -> None:
    issuer = get(host, standing_ports[0], METADATA)
    probe = get(host, standing_ports[1], "/healthz")

    assert issuer[0] == 200
    assert json.loads(issuer[1])["issuer"] == f"http://localhost:{standing_ports[0]}"
    assert probe[0] == 200
    assert json.loads(probe[1])["database"]["status"] == "ok"


def test_both_addresses_are_printed(standing: Runner, standing_ports: tuple[int, int]) -> None:
    output = standing.out.read_text()

    assert f"Authorization server   http://localhost:{standing_ports[0]}\n" in output
    assert f"Resource server        http://localhost:{standing_ports[1]}\n" in output


def test_the_printed_curl_command_works(standing: Runner, standing_ports: tuple[int, int]) -> None:
    (url,) = re.findall(r"^ +curl (\S+)$", standing.out.read_text(), re.MULTILINE)
    parts = urlsplit(url)

    assert parts.port == standing_ports[1]
    assert get("127.0.0.1", standing_ports[1], parts.path)[0] == 200


def test_the_link_for_the_first_account_stands_last_and_alone_and_works(
    standing: Runner, standing_ports: tuple[int, int]
) -> None:
    output = standing.out.read_text()
    (url,) = re.findall(r"\n\n    (http\S+/join\S+)\n\n\Z", output)
    parts = urlsplit(url)

    status, page = get("127.0.0.1", standing_ports[0], f"{parts.path}?{parts.query}")

    assert parts.netloc == f"localhost:{standing_ports[0]}"
    assert status == 200
    assert b'name="email"' in page


def test_the_link_for_the_first_account_is_printed_once_and_logged_nowhere(
    standing: Runner, standing_ports: tuple[int, int], standing_data_dir: Path
) -> None:
    (url,) = re.findall(r"^ +(http\S+)$", standing.out.read_text(), re.MULTILINE)
    parts = urlsplit(url)
    link = parts.query.removeprefix("link=").encode()
    get("127.0.0.1", standing_ports[0], f"{parts.path}?{parts.query}")
    wait_for(
        lambda: "route=show_join" in standing.out.read_text() + standing.err.read_text(),
        "the log line of the request",
    )

    files = [path for path in standing_data_dir.rglob("*") if path.is_file()]

    assert (standing.out.read_bytes() + standing.err.read_bytes()).count(link) == 1
    assert files
    assert [path for path in files if link in path.read_bytes()] == []


@on_linux
def test_each_server_gets_the_logins_of_its_own_roles_alone(standing: Runner) -> None:
    assert logins_of(standing, "auth serve") == ["SVC_AUTHSERVER_DATABASE_URL"]
    assert logins_of(standing, "resource serve") == [
        "SVC_IMPORTER_DATABASE_URL",
        "SVC_INGESTER_DATABASE_URL",
        "SVC_READER_DATABASE_URL",
        "SVC_WORKER_DATABASE_URL",
    ]


def logins_of(runner: Runner, words: str) -> list[str]:
    """Return the names of a server's variables that contain a login."""
    contents = memory(runner.child(words))
    # Patterns that begin with the same bytes are searched for ten times as fast as alternatives.
    variables = [
        (prefix + name, value)
        for prefix in (b"SVC_", b"PG", b"DATABASE")
        for name, value in re.findall(rb"\0%b(\w+)=([^\0]+)" % prefix, contents)
    ]
    return sorted(
        {
            name.decode()
            for name, value in variables
            if value.startswith(b"postgresql:") or b"user=" in value or b"PASS" in name
        }
    )


def test_the_servers_are_in_other_sessions_than_the_terminal(standing: Runner) -> None:
    children = [pid for pid, _ in standing.children()]

    assert [os.getsid(pid) for pid in children] == children


def test_other_commands_find_the_running_database(standing: Runner) -> None:
    answer = standing.run("psql", "-At", "-c", "select current_database()")
    migrated = standing.run("migrate")
    listed = standing.run("token", "list", "nobody@example.org")

    assert (answer.stdout, answer.stderr) == ("svc\n", "")
    assert (migrated.returncode, migrated.stderr) == (0, "")
    assert listed.stderr == "Error: there is no account nobody@example.org\n"


def test_a_second_runner_on_the_same_directory_is_refused(
    standing: Runner, ports: tuple[int, int], standing_data_dir: Path
) -> None:
    second = SELF.run({"SVC_DATA_DIR": str(standing_data_dir)} | addresses(ports), "up")

    assert second.returncode == 1
    assert second.stderr == (
        f"svc: data directory {standing_data_dir} is in use by process {standing.process.pid}: "
        "stop that one first, or choose another directory with SVC_DATA_DIR\n"
    )
    assert standing.process.poll() is None


def test_the_end_of_the_terminal_stops_everything(start: Start, used_data_dir: Path) -> None:
    # Before the servers answer, which takes most of a start; other tests stop servers that answer.
    runner = start(used_data_dir)
    runner.wait_for("Starting the resource server")
    children = wait_for(lambda: child_ids(runner, 3), "three child processes")

    runner.process.send_signal(signal.SIGHUP)

    assert runner.wait() == 0
    wait_until_gone(*children)
    assert not (used_data_dir / "postgres" / "postmaster.pid").exists()


def child_ids(runner: Runner, count: int) -> list[int]:
    """Return the ids of the runner's child processes once there are so many."""
    pids = [pid for pid, _ in runner.children()]
    return pids if len(pids) == count else []


def test_ctrl_c_at_a_terminal_stops_everything_and_a_second_one_changes_nothing(
    used_data_dir: Path, ports: tuple[int, int]
) -> None:
    terminal, end = os.openpty()
    script = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    process = subprocess.Popen(
        [sys.executable, "-c", script + "os.execv(sys.argv[1], sys.argv[1:])", *SELF.command, "up"],
        stdin=end,
        stdout=end,
        stderr=end,
        env=SELF.variables | {"SVC_DATA_DIR": str(used_data_dir)} | addresses(ports),
        start_new_session=True,
    )
    os.close(end)
    read_until(terminal, b"Ctrl-C stops everything")

    os.write(terminal, b"\x03")
    read_until(terminal, b"Stopping")
    os.write(terminal, b"\x03")
    rest = read_until(terminal, b"Stopped")

    assert process.wait(timeout=60) == 0
    assert b"Traceback" not in rest
    os.close(terminal)


def read_until(terminal: int, text: bytes) -> bytes:
    """Return the output of a terminal up to ``text``, for which it waits a minute at most."""
    seen = b""
    until = time.monotonic() + 60
    while text not in seen:
        readable, _, _ = select.select([terminal], [], [], max(0.0, until - time.monotonic()))
        assert readable, seen
        seen += os.read(terminal, 4096)
    return seen


@each_loopback
@pytest.mark.parametrize("taken", [0, 1])
def test_a_port_that_is_taken_is_named(
    start: Start, data_dir: Path, ports: tuple[int, int], host: str, taken: int
) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as other:
        other.bind((host, ports[taken]))
        other.listen()

        runner = start(data_dir)

        assert runner.wait() == 1
    name = ("SVC_AUTH_URL", "SVC_BASE_URL")[taken]
    address = "[::1]" if ":" in host else host
    assert runner.err.read_text() == (
        f"svc: {name}: cannot listen on {address}:{ports[taken]}: Address already in use\n"
    )
    assert not data_dir.exists()


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (
            {"SVC_BASE_LISTEN": "127.0.0.1:{auth}"},
            "SVC_AUTH_URL and SVC_BASE_LISTEN both say to listen on localhost:{auth}: " + EACH,
        ),
        (
            {"SVC_AUTH_LISTEN": "0.0.0.0:{base}"},
            "SVC_AUTH_LISTEN and SVC_BASE_URL both say to listen on 0.0.0.0:{base}: " + EACH,
        ),
        (
            {
                "SVC_BASE_METRICS_LISTEN": "127.0.0.1:9420",
                "SVC_WORKER_METRICS_LISTEN": "0.0.0.0:9420",
            },
            "SVC_BASE_METRICS_LISTEN and SVC_WORKER_METRICS_LISTEN both say to listen on "
            "127.0.0.1:9420: each of them needs an address of its own",
        ),
        (
            {"SVC_AUTH_METRICS_LISTEN": "127.0.0.1:{base}"},
            "SVC_BASE_URL and SVC_AUTH_METRICS_LISTEN both say to listen on localhost:{base}: "
            "each of them needs an address of its own",
        ),
        (
            {"SVC_AUTH_URL": "https://a.example", "SVC_BASE_URL": "https://b.example"},
            "SVC_AUTH_URL and SVC_BASE_URL both say to listen on localhost:443: " + EACH,
        ),
        (
            {"SVC_AUTH_URL": "https://a.example", "SVC_BASE_URL": "https://A.example:443"},
            "SVC_AUTH_URL and SVC_BASE_URL are both https://a.example: " + ORIGIN,
        ),
        (
            {"SVC_BASE_URL": "https://a.example/api"},
            "SVC_BASE_URL: 'https://a.example/api' must have no path: " + ORIGIN,
        ),
        (
            {"SVC_AUTH_LISTEN": "192.0.2.1:{auth}"},
            "SVC_AUTH_LISTEN: cannot listen on 192.0.2.1:{auth}: Cannot assign requested address",
        ),
        (
            {"SVC_BASE_LISTEN": "127.0.0.1:65536"},
            "SVC_BASE_LISTEN: '127.0.0.1:65536' must end with a port between 1 and 65535",
        ),
    ],
)
def test_invalid_addresses_are_refused_in_one_line(
    start: Start, data_dir: Path, ports: tuple[int, int], variables: dict[str, str], message: str
) -> None:
    given = {name: value.format(auth=ports[0], base=ports[1]) for name, value in variables.items()}

    runner = start(data_dir, **given)

    assert runner.wait() == 1
    assert runner.err.read_text() == f"svc: {message.format(auth=ports[0], base=ports[1])}\n"
    assert not data_dir.exists()


def test_a_server_alone_names_the_option_of_an_unusable_address(
    standing: Runner, ports: tuple[int, int]
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", ports[0]))
        other.listen()
        taken = standing.run("auth", "serve", "--listen", f"127.0.0.1:{ports[0]}")
    malformed = standing.run("resource", "serve", "--listen", "127.0.0.1:1", "--listen", "api:80")

    assert (taken.returncode, taken.stderr) == (
        1,
        f"svc: --listen: cannot listen on 127.0.0.1:{ports[0]}: Address already in use\n",
    )
    assert (malformed.returncode, malformed.stderr) == (
        1,
        "svc: --listen: 'api:80' must look like 127.0.0.1:8400, [::1]:8400 or localhost:8400\n",
    )


@pytest.mark.parametrize("server", ["auth", "resource"])
def test_a_server_refuses_the_keys_of_the_worker(standing: Runner, server: str) -> None:
    private = sealing.new_private_key()
    variables = standing.variables | {"SVC_SEALING_PRIVATE_KEYS": private}

    refused = standing.login.run(variables, server, "serve")

    assert refused.returncode == 1
    assert refused.stderr.startswith(
        "svc: SVC_SEALING_PRIVATE_KEYS is set: it is for the worker alone"
    )
    assert private not in refused.stderr


def test_a_data_directory_that_cannot_be_created_is_named(start: Start, data_dir: Path) -> None:
    data_dir.write_text("a file")

    runner = start(data_dir, SVC_DATA_DIR=f"{data_dir}/below")

    assert runner.wait() == 1
    assert runner.err.read_text() == (
        f"svc: data directory {data_dir}/below cannot be written: Not a directory ({data_dir})\n"
    )


def test_a_database_that_does_not_answer_is_named(
    start: Start, data_dir: Path, ports: tuple[int, int]
) -> None:
    url = f"postgresql://owner:secret@127.0.0.1:{ports[0]}/svc"

    runner = start(data_dir, DATABASE_URL=url)

    assert runner.wait() == 1
    (line,) = runner.err.read_text().splitlines()
    assert line.startswith("svc: DATABASE_URL cannot be reached: ")
    assert "Connection refused" in line
    assert "secret" not in line


def test_servers_that_may_open_too_many_connections_run_with_a_warning(
    standing: Runner, standing_ports: tuple[int, int]
) -> None:
    lines = [line for line in standing.err.read_text().splitlines() if "max_connections" in line]

    assert len(lines) == 1
    assert "up to 108 connections are opened, and the database takes 97" in lines[0]
    assert get("127.0.0.1", standing_ports[1], "/healthz")[0] == 200


@on_linux
def test_database_url_selects_a_database_whose_owner_no_server_gets(
    start: Start, data_dir: Path, deployment: Settings, owner: Owner, ports: tuple[int, int]
) -> None:
    assert deployment.database_url is not None
    data_dir.mkdir()
    # The roles belong to the whole server of this test run, and so do their passwords.
    secrets = (deployment.data_dir / "secrets.json").read_text()
    (data_dir / "secrets.json").write_text(secrets)
    private = sealing.new_private_key()
    runner = start(
        data_dir,
        DATABASE_URL=deployment.database_url,
        PGPASSWORD="owners",
        SVC_SEALING_PRIVATE_KEYS=private,
    )
    runner.wait_until_up()

    probe = get("127.0.0.1", ports[1], "/healthz")

    assert probe[0] == 200
    assert {path.name for path in data_dir.iterdir()} == {"secrets.json", "uploads"}
    assert len(runner.children()) == 2
    assert private not in kernel_file(runner.process.pid, "environ")
    for pid, _ in runner.children():
        assert private.encode() not in memory(pid)
    assert logins_of(runner, "auth serve") == ["SVC_AUTHSERVER_DATABASE_URL"]
    assert logins_of(runner, "resource serve") == [
        "SVC_INGESTER_DATABASE_URL",
        "SVC_READER_DATABASE_URL",
        "SVC_WORKER_DATABASE_URL",
    ]
    assert runner.stop() == 0
    assert not owner.closed


def test_a_role_of_another_database_needs_database_url(start: Start, data_dir: Path) -> None:
    runner = start(data_dir, SVC_READER_DATABASE_URL="postgresql://reader@db.example/svc")

    assert runner.wait() == 1
    assert "SVC_READER_DATABASE_URL is set and DATABASE_URL is not" in runner.err.read_text()


def test_a_signal_ends_a_migration_that_waits(
    start: Start, data_dir: Path, deployment: Settings
) -> None:
    assert deployment.database_url is not None
    data_dir.mkdir()
    secrets = (deployment.data_dir / "secrets.json").read_text()
    (data_dir / "secrets.json").write_text(secrets)
    with psycopg.connect(deployment.database_url) as other:
        other.execute("select pg_advisory_xact_lock(7382042)")
        runner = start(data_dir, DATABASE_URL=deployment.database_url)
        wait_for(
            lambda: waiting(other) == 1 or runner.process.poll() is not None,
            "a migration that waits",
        )

        status = runner.stop()

    assert (status, runner.err.read_text()) == (0, "")


def waiting(connection: psycopg.Connection[tuple[object, ...]]) -> object:
    row = connection.execute(
        "select count(*) from pg_locks"
        " where locktype = 'advisory' and objid = 7382042 and not granted"
        "   and database = (select oid from pg_database where datname = current_database())"
    ).fetchone()
    assert row is not None
    return row[0]


def test_a_server_that_dies_is_started_again_until_the_fifth_time_within_a_minute(
    used_data_dir: Path, ports: tuple[int, int]
) -> None:
    with quick_runner(used_data_dir, ports) as runner:
        runner.wait_until_up()
        children = [pid for pid, _ in runner.children()]
        servers = [runner.child("auth serve")]
        for wait in ("0.01", "0.02", "0.04", "0.08"):
            os.kill(servers[-1], signal.SIGKILL)
            runner.wait_for_error(f"{DEATH}; starting it again in {wait} s\n")
            servers.append(successor(runner, servers[-1]))
            if len(servers) == 2:
                wait_for(lambda: answers(ports[0], METADATA), "an answer")
        os.kill(servers[-1], signal.SIGKILL)

        assert runner.wait() == 1
    last = runner.err.read_text().splitlines()[-1]
    # The server's last lines follow, if it wrote any.
    assert last.startswith(f"{DEATH}, the 5th time within a minute")
    assert len(set(servers)) == 5
    wait_until_gone(*children, *servers)


DEATH: Final = "svc: the authorization server has ended by itself with signal SIGKILL"


def quick_runner(data_dir: Path, ports: tuple[int, int]) -> Runner:
    """Start a runner that starts a server again after a short wait.

    Its minute lasts an hour, since starting four servers takes most of a minute on a busy machine.
    """
    return paced_runner(data_dir, ports, "first_wait_s=0.01, most_ends_within_s=3600")


def paced_runner(data_dir: Path, ports: tuple[int, int], policy: str) -> Runner:
    """Start a runner whose supervisor has another restart policy."""
    return changed_runner(
        data_dir, ports, f"startup.RESTART_POLICY = startup.RestartPolicy({policy})"
    )


def changed_runner(data_dir: Path, ports: tuple[int, int], change: str) -> Runner:
    """Start a runner in whose process a line of Python runs first."""
    login = replace(SELF, change=f"from deploy.runner import startup; {change}")
    chosen = {"SVC_DATA_DIR": str(data_dir)} | addresses(ports)
    return Runner(data_dir.parent, chosen, login=login)


@on_linux
def test_a_worker_takes_turns_beside_the_servers_and_is_started_again(
    used_data_dir: Path, ports: tuple[int, int]
) -> None:
    chosen = {"SVC_DATA_DIR": str(used_data_dir), "SVC_JOBS": "on"} | addresses(ports)
    older = sealing_keys.make(used_data_dir)
    sealing_keys.add(used_data_dir)
    with Runner(used_data_dir.parent, chosen) as runner:
        runner.wait_until_up()
        newest = sealing_keys.read(used_data_dir)
        # The runner itself has to know the settings of all, to start one of them again.
        memories = {command: memory(pid) for pid, command in runner.children()}
        memories["svc up"] = kernel_file(runner.process.pid, "environ").encode()
        resource_server = memory(runner.child("resource serve"))
        logins = logins_of(runner, "resource work")
        runner.wait_for_error(TAKES_TURNS)
        os.kill(runner.child("resource work"), signal.SIGKILL)
        runner.wait_for_error(
            "svc: the worker has ended by itself with signal SIGKILL; starting it again in 0.5 s\n"
        )
        runner.run("psql", "-c", "select svc.make_due(gen_random_uuid(), 'summaries')")
        # The command returns when the worker that was started again has taken the turn.
        taken = runner.run("psql", "-c", "set statement_timeout = '60s'", "-c", NO_TURN_IS_LEFT)
        assert (taken.returncode, taken.stderr) == (0, "")

        assert runner.stop() == 0
    output = runner.err.read_text()
    assert b"\0SVC_WORKER=on\0" in resource_server
    assert_only_the_worker_has_the_key(memories, newest)
    assert newest != older
    assert stat.S_IMODE((used_data_dir / "sealing.json").stat().st_mode) == 0o600
    assert logins == ["SVC_IMPORTER_DATABASE_URL", "SVC_WORKER_DATABASE_URL"]
    assert output.count(TAKES_TURNS) == 2
    assert output.count("this worker has ended\n") == 1
    assert "no worker" not in output


TAKES_TURNS: Final = (
    "this worker takes turns: import, pull, rollups, summaries, visits, undo, retention\n"
)
NO_TURN_IS_LEFT: Final = """
    do $$
    begin
        while exists (select from svc.turn) loop
            perform pg_sleep(0.01);
        end loop;
    end
    $$
"""


def assert_only_the_worker_has_the_key(
    memories: dict[str, bytes], private_keys: tuple[str, ...]
) -> None:
    (private,) = private_keys
    public = f"SVC_SEALING_PUBLIC_KEY={sealing.public_key_of(private)}"
    owners = [command for command, contents in memories.items() if private.encode() in contents]
    informed = [command for command, contents in memories.items() if public.encode() in contents]

    assert len(memories) == 5
    assert ["resource work" in command for command in owners] == [True]
    assert sorted(" ".join(command.split()[-2:]) for command in informed) == [
        "auth serve",
        "resource serve",
        "resource work",
    ]


def test_only_the_ends_of_the_last_minute_count(
    used_data_dir: Path, ports: tuple[int, int]
) -> None:
    restart_policy = "first_wait_s=0.01, most_ends=2, most_ends_within_s=0"
    with paced_runner(used_data_dir, ports, restart_policy) as runner:
        runner.wait_until_up()
        first = runner.child("auth serve")
        os.kill(first, signal.SIGKILL)
        second = successor(runner, first)
        os.kill(second, signal.SIGKILL)
        successor(runner, second)

        assert runner.stop() == 0
    assert runner.err.read_text().count(f"{DEATH}; starting it again in 0.01 s\n") == 2


def successor(runner: Runner, pid: int) -> int:
    """Return the authorization server that runs instead of another."""

    def others() -> list[int]:
        return [each for each, words in runner.children() if "auth serve" in words and each != pid]

    wait_for(lambda: others() or runner.process.poll() is not None, "another authorization server")
    (found,) = others()
    return found


def test_a_server_that_cannot_start_again_ends_everything_with_its_last_words(
    used_data_dir: Path, ports: tuple[int, int]
) -> None:
    with quick_runner(used_data_dir, ports) as runner:
        runner.wait_until_up()
        children = [pid for pid, _ in runner.children()]
        # The port is taken before the runner notices that the server is gone.
        os.kill(runner.process.pid, signal.SIGSTOP)
        try:
            os.kill(runner.child("resource serve"), signal.SIGKILL)
            other = wait_for(lambda: listener(ports[1]), "the port")
        finally:
            os.kill(runner.process.pid, signal.SIGCONT)

        assert other is not None
        with other:
            assert runner.wait() == 1
    output = runner.err.read_text()
    last = output.splitlines()[-1]
    assert output.count("; starting it again in ") == 4
    assert "resource server has ended by itself with status 1, the 5th time within a minute" in last
    assert f"SVC_BASE_URL: cannot listen on 127.0.0.1:{ports[1]}: Address already in use" in last
    wait_until_gone(*children)


def listener(port: int) -> socket.socket | None:
    """Return a socket that listens on a port, or None where the port is taken."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
        listening.listen()
    except OSError:
        listening.close()
        return None
    return listening


def test_a_server_that_waits_for_its_next_start_does_not_delay_the_end(
    used_data_dir: Path, ports: tuple[int, int]
) -> None:
    with paced_runner(used_data_dir, ports, "first_wait_s=3600") as runner:
        runner.wait_until_up()
        os.kill(runner.child("auth serve"), signal.SIGKILL)
        runner.wait_for_error(f"{DEATH}; starting it again in 3600 s\n")

        assert runner.stop() == 0


def test_a_server_that_hangs_is_killed(used_data_dir: Path, ports: tuple[int, int]) -> None:
    with paced_runner(used_data_dir, ports, "stop_timeout_s=0.5") as runner:
        runner.wait_until_up()
        children = [pid for pid, _ in runner.children()]
        os.kill(runner.child("resource serve"), signal.SIGSTOP)

        status = runner.stop()

    assert status == 0
    wait_until_gone(*children)


def test_a_server_that_cannot_start_is_named_with_its_last_words(
    used_data_dir: Path, ports: tuple[int, int]
) -> None:
    # Another program takes the port after the runner has checked it.
    late = "startup._check_addresses = lambda *given: None"
    with socket.socket() as other:
        other.bind(("127.0.0.1", ports[1]))
        other.listen()
        with changed_runner(used_data_dir, ports, late) as runner:
            status = runner.wait()

    last = runner.err.read_text().splitlines()[-1]
    assert status == 1
    assert last.startswith("svc: the resource server has ended by itself with status 1: ")
    assert f"SVC_BASE_URL: cannot listen on 127.0.0.1:{ports[1]}: " in last


def test_a_signal_during_the_change_to_the_supervisor_stops_everything(
    used_data_dir: Path, ports: tuple[int, int]
) -> None:
    interrupted = (
        "os, replace = startup.os, startup.os.execve; "
        "os.execve = lambda *given: (os.kill(os.getpid(), 15), replace(*given))"
    )
    with changed_runner(used_data_dir, ports, interrupted) as runner:
        status = runner.wait()

    assert (status, runner.err.read_text()) == (0, "")
    assert runner.out.read_text().endswith("Stopped\n")
    assert not (used_data_dir / "postgres" / "postmaster.pid").exists()


def test_a_runner_ends_when_its_starter_has_ended(start: Start, used_data_dir: Path) -> None:
    runner = start(used_data_dir)
    runner.wait_for("Starting the resource server")
    children = wait_for(lambda: child_ids(runner, 3), "three child processes")

    runner.let_go()

    assert runner.wait() == 0
    wait_until_gone(*children)


def test_a_database_that_dies_ends_the_rest(start: Start, used_data_dir: Path) -> None:
    runner = start(used_data_dir)
    runner.wait_until_up()
    children = [pid for pid, _ in runner.children()]

    os.kill(runner.child("/bin/postgres"), signal.SIGKILL)

    assert runner.wait() == 1
    assert "svc: PostgreSQL has ended by itself" in runner.err.read_text()
    wait_until_gone(*children)


def test_the_servers_of_a_killed_runner_end_and_no_data_is_lost(
    start: Start, used_data_dir: Path, ports: tuple[int, int]
) -> None:
    killed = start(used_data_dir)
    killed.wait_until_up()
    servers = [killed.child("auth serve"), killed.child("resource serve")]
    postgres = killed.child("/bin/postgres")
    added = killed.run(
        *("user", "add", "alice@example.org", "--password-stdin"),
        stdin="correct horse battery staple\n",
    )
    assert added.returncode == 0, added.stderr

    killed.process.send_signal(signal.SIGKILL)
    killed.wait()
    wait_until_gone(*servers)
    runner = start(used_data_dir)
    runner.wait_until_up()

    output = runner.out.read_text()
    assert "Stopping a PostgreSQL that a crash left running" in output
    assert output.endswith(f"\n\nYour pages:\n\n    http://localhost:{ports[1]}/\n\n")
    wait_until_gone(postgres)
    assert runner.stop() == 0


def test_a_closed_standard_output_ends_nothing(ports: tuple[int, int], used_data_dir: Path) -> None:
    process = subprocess.Popen(
        [*SELF.command, "up"],
        env=SELF.variables | {"SVC_DATA_DIR": str(used_data_dir)} | addresses(ports),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    wait_for(lambda: answers(ports[1]) or process.poll() is not None, "an answer")

    process.terminate()

    assert process.wait(timeout=60) == 0


def answers(port: int, path: str = "/healthz") -> bool:
    try:
        return get("127.0.0.1", port, path)[0] == 200
    except OSError:
        return False

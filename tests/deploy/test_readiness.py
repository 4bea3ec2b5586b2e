"""What a service manager learns: real processes, and a socket such as systemd's."""

import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

import httpx2
import pytest

from shared import readiness, settings
from shared.settings import Settings
from tests.client import NO_TLS
from tests.deploy.runner import Runner, addresses, get
from tests.processes import AUTH_ROLES, RESOURCE_ROLES, free_ports, role_urls, running

LIMIT_S: Final = 60.0


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket of a service manager."""
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(LIMIT_S)
        yield listener


def unread(manager: socket.socket) -> list[str]:
    """Return the lines that have come and were not received yet."""
    lines = []
    while select.select([manager], [], [], 0)[0]:
        lines.append(manager.recv(4096).decode())
    return lines


def behind_a_proxy(deployment: Settings, manager: socket.socket) -> Settings:
    """Return the settings of servers whose public addresses are not where they listen."""
    proxies = ("127.0.0.1",)
    return replace(
        deployment, notify_socket=manager.getsockname(), jobs=False, trusted_proxies=proxies
    )


def test_svc_up_is_ready_when_both_servers_answer_and_says_that_it_stops(
    own_data_dir: Path, ports: tuple[int, int], manager: socket.socket
) -> None:
    chosen = {"SVC_DATA_DIR": str(own_data_dir), "SVC_JOBS": "on"} | addresses(ports)
    chosen["NOTIFY_SOCKET"] = manager.getsockname()
    with Runner(own_data_dir.parent, chosen) as runner:
        first = manager.recv(4096)
        statuses = [get("127.0.0.1", port, "/readyz")[0] for port in ports]
        runner.wait_until_up()
        # Neither the servers nor the worker send anything, for the manager would take it for the whole.
        before_the_end = unread(manager)
        status = runner.stop()

    assert (first, statuses, before_the_end) == (b"READY=1", [200, 200], [])
    assert (status, unread(manager)) == (0, ["STOPPING=1"])


@pytest.mark.parametrize(
    ("arguments", "roles"),
    [
        (["auth", "serve"], AUTH_ROLES),
        (["resource", "serve", "--workers=2"], RESOURCE_ROLES),
    ],
    ids=["authorization server", "two processes of the resource server"],
)
def test_a_server_is_ready_when_it_answers_and_says_that_it_stops(
    deployment: Settings,
    tmp_path: Path,
    manager: socket.socket,
    arguments: list[str],
    roles: tuple[str, ...],
) -> None:
    (port,) = free_ports(1)
    chosen = behind_a_proxy(deployment, manager)
    ready = f"http://127.0.0.1:{port}/readyz"
    listen = f"--listen=127.0.0.1:{port}"

    with running([*arguments, listen], chosen, role_urls(chosen, roles), ready, tmp_path / "log"):
        first = manager.recv(4096)
        status = httpx2.get(ready, verify=NO_TLS).status_code
        before_the_end = unread(manager)

    assert (first, status, before_the_end) == (b"READY=1", 200, [])
    assert unread(manager) == ["STOPPING=1"]


def test_a_server_without_its_database_is_not_ready(
    deployment: Settings, tmp_path: Path, manager: socket.socket
) -> None:
    port, unused = free_ports(2)
    chosen = behind_a_proxy(deployment, manager)
    nowhere = f"postgresql://svc_authserver:none@127.0.0.1:{unused}/svc"
    ready = f"http://127.0.0.1:{port}/readyz"
    arguments = ["auth", "serve", f"--listen=127.0.0.1:{port}"]

    with running(arguments, chosen, {"authserver": nowhere}, ready, tmp_path / "log"):
        status = httpx2.get(ready, verify=NO_TLS, timeout=30).status_code
        while_it_runs = unread(manager)

    assert (status, while_it_runs) == (503, [])


def test_a_worker_is_ready_when_it_takes_turns_and_says_that_it_stops(
    deployment: Settings, tmp_path: Path, manager: socket.socket
) -> None:
    chosen = replace(deployment, notify_socket=manager.getsockname())
    logins = role_urls(chosen, ("worker", "importer"))
    lifeline, held = os.pipe()
    own = replace(chosen, database_url=None, lifeline=lifeline)
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "deploy.cli", "resource", "work"],
            env={"PATH": os.environ["PATH"]} | settings.environment(own, logins),
            pass_fds=[lifeline],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    os.close(lifeline)
    first = manager.recv(4096)
    # The end of the pipe ends it like SIGTERM.
    os.close(held)

    assert (process.wait(LIMIT_S), first) == (0, b"READY=1")
    assert unread(manager) == ["STOPPING=1"]


def test_a_socket_without_a_file_begins_with_an_at_sign() -> None:
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as listener:
        listener.bind(f"\0svc-test-notify-{free_ports(1)[0]}")
        listener.settimeout(LIMIT_S)
        name = listener.getsockname()[1:].decode()

        readiness.send(f"@{name}", readiness.READY)

        assert listener.recv(4096) == b"READY=1"


def test_a_manager_that_is_gone_does_not_end_the_process(tmp_path: Path) -> None:
    readiness.send(str(tmp_path / "none"), readiness.READY)

"""The servers as an operator runs them: processes of their own, on free ports of this machine.

Each gets only the logins of its own roles in its environment. Its output goes to a file, which a failing
start prints.
"""

import atexit
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final

import httpx2

from shared import database, listening, settings
from shared.listening import Address, Listen
from shared.settings import Settings
from tests import copies
from tests.client import NO_TLS

AUTH_ROLES: Final = ("authserver",)
RESOURCE_ROLES: Final = ("reader", "ingester", "importer", "worker")

METADATA: Final = "/.well-known/oauth-authorization-server"

_FIRST_PORT: Final = 20_000
_LAST_PORT: Final = 31_999
_PORTS_OF_WORKER: Final = 1_000
_STARTS_WITHIN_S: Final = 60.0
_STOPS_WITHIN_S: Final = 60.0


@dataclass(frozen=True)
class Service:
    """Both servers as people and applications reach them, and the files with their output."""

    settings: Settings
    auth_log: Path
    resource_log: Path
    resource_pid: int

    @property
    def auth_url(self) -> str:
        """The address of the authorization server: the issuer."""
        return self.settings.auth_url

    @property
    def base_url(self) -> str:
        """The address of the resource server."""
        return self.settings.base_url


@contextmanager
def service(deployment: Settings, directory: Path, *, workers: int = 1) -> Iterator[Service]:
    """Run both servers on the database of ``deployment``; ``workers`` are the authorization server's."""
    auth_port, base_port = free_ports(2)
    chosen = replace(
        deployment,
        auth_url=f"http://localhost:{auth_port}",
        base_url=f"http://localhost:{base_port}",
    )
    auth_log, resource_log = directory / "auth.log", directory / "resource.log"
    with (
        running(
            ["auth", "serve", f"--workers={workers}"],
            chosen,
            role_urls(chosen, AUTH_ROLES),
            f"{chosen.auth_url}{METADATA}",
            auth_log,
        ),
        running(
            ["resource", "serve"],
            chosen,
            role_urls(chosen, RESOURCE_ROLES),
            f"{chosen.base_url}/healthz",
            resource_log,
        ) as resource_pid,
    ):
        yield Service(chosen, auth_log, resource_log, resource_pid)


def role_urls(chosen: Settings, roles: Sequence[str]) -> dict[str, str]:
    """Return the connection string of each of these roles."""
    return {role: database.role_url(chosen, role) for role in roles}


@contextmanager
def running(
    arguments: list[str],
    chosen: Settings,
    logins: Mapping[str, str],
    url: str,
    log: Path,
    *,
    module: str = "deploy.cli",
    directory: Path | None = None,
) -> Iterator[int]:
    """Run ``svc``, or another module, until the end of the block; yields its process id.

    ``directory`` has the code, if it is another version. The block begins when ``url`` has answered, with any
    status. Raises RuntimeError with the output of the process if it ends before, or does not answer in time.
    """
    # However the tests end, this pipe is closed then, which ends the server.
    lifeline, held = os.pipe()
    try:
        with log.open("wb") as written:
            variables = _environment(replace(chosen, lifeline=lifeline), logins)
            process = _started(arguments, module, directory, variables, lifeline, written.fileno())
        try:
            _wait_until_it_answers(process, url, log)
            yield process.pid
        finally:
            _stop(process)
    finally:
        os.close(lifeline)
        os.close(held)


def _started(
    arguments: list[str],
    module: str,
    directory: Path | None,
    variables: Mapping[str, str],
    lifeline: int,
    log: int,
) -> subprocess.Popen[bytes] | copies.Copy:
    has_workers = any(word.startswith("--workers") and word != "--workers=1" for word in arguments)
    if copies.ARE_POSSIBLE and module == "deploy.cli" and directory is None and not has_workers:
        with Path(os.devnull).open("rb") as nothing:
            files = (nothing.fileno(), log, log)
            return copies.Copy(arguments, env=variables, files=files, pass_fds=[lifeline])
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        env=variables,
        cwd=directory,
        pass_fds=[lifeline],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        # Its workers share this group, so that they can be ended with it.
        start_new_session=True,
    )


def run(arguments: list[str], chosen: Settings, logins: Mapping[str, str]) -> str:
    """Return the output of a command of ``svc``. Raises CalledProcessError if it fails."""
    variables = _environment(chosen, logins)
    if copies.ARE_POSSIBLE:
        completed = copies.run(arguments, env=variables)
        sys.stderr.write(completed.stderr)
    else:
        completed = subprocess.run(
            [sys.executable, "-m", "deploy.cli", *arguments],
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_STARTS_WITHIN_S,
        )
    completed.check_returncode()
    return completed.stdout.strip()


def free_ports(count: int) -> list[int]:
    """Return different ports on which no process listens, and which no other process of tests gets.

    They lie below the ephemeral ports, which the system gives to connections: nothing takes one before its
    server listens. A port stays reserved until this process ends.
    """
    ports = list(islice(_PORTS, count))
    if len(ports) < count:
        raise RuntimeError(f"no free port is left between {_FIRST_PORT} and {_LAST_PORT}")
    return ports


def neighbouring_ports(count: int) -> int:
    """Return the first of several neighbouring ports of this kind."""
    first, found = 0, 0
    while found < count:
        (port,) = free_ports(1)
        first, found = (first, found + 1) if port == first + found else (port, 1)
    return first


def _reserved_ports() -> Iterator[int]:
    """Yield ports, each with a name that one process at a time can hold."""
    reserved = ExitStack()
    atexit.register(reserved.close)
    # Workers of a parallel run begin at different ports, and meet only where a range is used up.
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    ports = deque(range(_FIRST_PORT, _LAST_PORT + 1))
    ports.rotate(-worker * _PORTS_OF_WORKER)
    for port in ports:
        name = socket.socket(socket.AF_UNIX)
        try:
            # Only Linux has names without a file. Elsewhere no two runs of the tests may use ports at once.
            if sys.platform == "linux":
                name.bind(f"\0svc-test-port-{port}")
            listeners = listening.bind(Listen("tests", (Address("localhost", port),)))
        except (OSError, listening.AddressError):
            name.close()
            continue
        for listener in listeners:
            listener.close()
        reserved.enter_context(name)
        yield port


_PORTS: Final = _reserved_ports()


def _environment(chosen: Settings, logins: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process that may log in as these roles only."""
    foreign = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SVC_", "DATABASE_URL", "PG"))
    }
    return foreign | settings.environment(replace(chosen, database_url=None), logins)


def _wait_until_it_answers(
    process: subprocess.Popen[bytes] | copies.Copy, url: str, log: Path
) -> None:
    until = time.monotonic() + _STARTS_WITHIN_S
    with httpx2.Client(timeout=5, verify=NO_TLS) as client:
        while process.poll() is None and time.monotonic() < until:
            try:
                client.get(url)
            except httpx2.TransportError:
                # A process that begins to listen sends no signal, so the port must be tried again and again.
                time.sleep(0.01)
            else:
                # If it has ended, another process answers on its port.
                if process.poll() is None:
                    return
    state = "runs" if process.poll() is None else f"has ended with {process.returncode}"
    raise RuntimeError(
        f"no answer from {url}, whose server {state}: {log.read_text(errors='replace')}"
    )


def _stop(process: subprocess.Popen[bytes] | copies.Copy) -> None:
    """Ask the process to end and wait; if it does not, it is killed, and that is an error."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOPS_WITHIN_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise

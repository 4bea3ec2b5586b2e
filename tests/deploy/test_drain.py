"""The end of a server process: it announces it, answers on and stops; a rolling restart loses no request."""

import os
import re
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx2
import psycopg
import pytest

from shared.settings import Settings
from tests import processes
from tests.client import NO_TLS
from tests.conftest import Person
from tests.deploy.schemas import Load
from tests.waiting import wait_for

Rows = psycopg.Connection[Any]

ROOT: Final = Path(__file__).parent.parent.parent
ROLES: Final = {"auth": processes.AUTH_ROLES, "resource": processes.RESOURCE_ROLES}
AS_LONG_AS_THE_TEST: Final = 300


@dataclass(frozen=True)
class Running:
    """A process of one of the two servers."""

    url: str
    pid: int

    @property
    def address(self) -> str:
        """Where it listens."""
        return self.url.removeprefix("http://")


@contextmanager
def server(
    command: str, chosen: Settings, log: Path, port: int | None = None, *, workers: int = 1
) -> Iterator[Running]:
    """Run one of the two servers until the end of the block; it may end before."""
    port = port or processes.free_ports(1)[0]
    url = f"http://127.0.0.1:{port}"
    if not chosen.trusted_proxies:
        # A server is reached where it listens.
        is_auth = command == "auth"
        chosen = replace(chosen, auth_url=url) if is_auth else replace(chosen, base_url=url)
    with processes.running(
        [command, "serve", f"--listen=127.0.0.1:{port}", f"--workers={workers}"],
        chosen,
        processes.role_urls(chosen, ROLES[command]),
        f"{url}/healthz",
        log,
    ) as pid:
        yield Running(url, pid)


def has_stopped(running: Running) -> bool:
    """Whether nobody accepts connections at its address any more."""
    host, port = running.address.split(":")
    try:
        socket.create_connection((host, int(port))).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.parametrize("command", ["auth", "resource"])
def test_a_server_announces_its_end_answers_on_and_stops(
    command: str, deployment: Settings, tmp_path: Path
) -> None:
    chosen = replace(deployment, drain_s=AS_LONG_AS_THE_TEST)
    with (
        server(command, chosen, tmp_path / "log") as running,
        httpx2.Client(base_url=running.url, verify=NO_TLS, timeout=60) as client,
    ):
        before = client.get("/readyz")
        os.kill(running.pid, signal.SIGTERM)
        wait_for(lambda: client.get("/readyz").status_code == 503, "it announces its end")
        ready, alive, other = (client.get(path) for path in ("/readyz", "/healthz", "/nowhere"))
        os.kill(running.pid, signal.SIGTERM)
        wait_for(lambda: has_stopped(running), "the second signal stops it")

    assert (before.status_code, before.headers.get("connection")) == (200, None)
    assert (ready.json()["error"], ready.headers["retry-after"]) == ("draining", "1")
    assert alive.status_code == 200
    assert [each.headers["connection"] for each in (ready, alive, other)] == ["close"] * 3


def test_a_server_stops_when_its_drain_is_over(deployment: Settings, tmp_path: Path) -> None:
    chosen = replace(deployment, drain_s=1)
    with server("auth", chosen, tmp_path / "log") as running:
        os.kill(running.pid, signal.SIGTERM)
        wait_for(lambda: has_stopped(running), "the drain is over")


def test_ctrl_c_at_the_terminal_stops_at_once(deployment: Settings, tmp_path: Path) -> None:
    chosen = replace(deployment, drain_s=AS_LONG_AS_THE_TEST)
    with server("auth", chosen, tmp_path / "log") as running:
        os.kill(running.pid, signal.SIGINT)
        wait_for(lambda: has_stopped(running), "Ctrl-C")


# Rolling restarts


class Visits:
    """Requests of one client to the authorization server, which needs no person for them."""

    def __init__(self, url: str) -> None:
        """Begin."""
        self.url = url
        self.statuses: list[int] = []
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        with httpx2.Client(base_url=self.url, timeout=60, verify=NO_TLS) as client:
            while not self.is_over.is_set():
                self.statuses.append(client.get(processes.METADATA).status_code)
                revoked = client.post("/oauth/revoke", data={"token": "x", "client_id": "y"})
                self.statuses.append(revoked.status_code)

    def wait_for_more(self, count: int = 4) -> None:
        """Wait until so many more requests have been answered."""
        enough = len(self.statuses) + count
        wait_for(lambda: len(self.statuses) >= enough, "requests are answered")

    def end(self) -> None:
        """Stop after the current answer."""
        self.is_over.set()
        self.thread.join()


@contextmanager
def load(url: str, auth_url: str, person: Person) -> Iterator[list[Load | Visits]]:
    """Clients that keep their connections and repeat nothing: a lost request ends one, which fails a wait."""
    clients: list[Load | Visits] = []
    clients += [Load(url, person.headers(), f"client-{number}") for number in range(3)]
    clients += [Visits(auth_url) for _ in range(2)]
    try:
        yield clients
    finally:
        for each in clients:
            each.end()


def check(clients: list[Load | Visits], owner: Rows, person: Person) -> int:
    """Check that each request was answered and each event stored; return the number of requests."""
    writes = answers = 0
    for each in clients:
        if isinstance(each, Visits):
            assert set(each.statuses) == {200}
            answers += len(each.statuses)
        else:
            assert {answer.status for answer in each.answers} == {200}
            writes += sum(answer.kind == "write" for answer in each.answers)
            answers += len(each.answers)
    stored = owner.execute(
        "select count(*) from activity.app_session where user_id = %s", [person.user_id]
    ).fetchone()
    assert stored == (writes,)
    return answers


def wait_for_all(clients: list[Load | Visits], count: int = 4) -> None:
    """Wait until each client has more answers."""
    for each in clients:
        each.wait_for_more(count)


def children(pid: int) -> set[str]:
    """Return the worker processes of a server. Python's tracker of resources is another child."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {
        each for each in found if b"spawn_main" in (Path("/proc") / each / "cmdline").read_bytes()
    }


def has_two_workers(pid: int) -> bool:
    """Whether both worker processes have started."""
    return len(children(pid)) == 2


def have_ended(pid: int, former: set[str]) -> bool:
    """Whether none of the former worker processes runs any more."""
    return not children(pid) & former


@pytest.mark.long
@pytest.mark.timeout(600)
def test_worker_processes_are_replaced_and_no_client_notices(
    deployment: Settings,
    alice: Person,
    owner: Rows,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    chosen = replace(deployment, drain_s=2)
    with (
        server("resource", chosen, tmp_path / "resource", workers=2) as resource,
        server("auth", chosen, tmp_path / "auth", workers=2) as auth,
        load(resource.url, auth.url, alice) as clients,
    ):
        for running in (resource, auth):
            wait_for(partial(has_two_workers, running.pid), "two processes")
            wait_for_all(clients)
            before = children(running.pid)
            os.kill(running.pid, signal.SIGHUP)
            wait_for(partial(have_ended, running.pid, before), "both are replaced", 300)
            wait_for_all(clients)

    record_property("requests during rolling restarts", check(clients, owner, alice))


@dataclass(frozen=True)
class Upstreams:
    """The addresses of two processes of each server, and the ports of the proxy in front of them."""

    auth: tuple[int, int]
    resource: tuple[int, int]
    auth_front: int
    resource_front: int


def nginx(ports: Upstreams, directory: Path) -> list[str]:
    """Write nginx's configuration without TLS, and return the command that runs it."""
    text = (ROOT / "deploy/proxy/nginx.conf").read_text()
    for old, (first, second) in {"8400": ports.auth, "8401": ports.resource}.items():
        text = text.replace(
            f"server 127.0.0.1:{old} max_fails=0;",
            f"server 127.0.0.1:{first} max_fails=0; server 127.0.0.1:{second} max_fails=0;",
        )
    redirect, auth, resource = re.findall(r"^server \{.*?^\}\n", text, re.MULTILINE | re.DOTALL)
    text = text.replace(redirect, "")
    for each, port in ((auth, ports.auth_front), (resource, ports.resource_front)):
        plain = re.sub(r"^    (listen|ssl_).*\n", "", each, flags=re.MULTILINE)
        text = text.replace(
            each, plain.replace("server {", f"server {{ listen 127.0.0.1:{port};", 1)
        )
    temporary = "".join(
        f"{kind}_temp_path {directory}/{kind}; "
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    file = directory / "nginx.conf"
    file.write_text(
        f"{'user root; ' if os.geteuid() == 0 else ''}daemon off; pid {directory}/pid;"
        f"events {{}} http {{ access_log off; {temporary}\n{text}\n}}"
    )
    return ["nginx", "-e", "stderr", "-c", str(file)]


def caddy(ports: Upstreams, directory: Path) -> list[str]:
    """Write Caddy's configuration without TLS, and return the command that runs it."""
    text = (ROOT / "deploy/proxy/Caddyfile").read_text()
    text = text.replace("# import several_processes", "import several_processes")
    for old, (first, second) in {"8400": ports.auth, "8401": ports.resource}.items():
        text = text.replace(
            f"reverse_proxy 127.0.0.1:{old}", f"reverse_proxy 127.0.0.1:{first} 127.0.0.1:{second}"
        )
    for name, port in (("auth", ports.auth_front), ("api", ports.resource_front)):
        text = text.replace(f"\n{name}.example.org {{", f"\nhttp://127.0.0.1:{port} {{")
    file = directory / "Caddyfile"
    file.write_text("{\n\tadmin off\n\tdefault_bind 127.0.0.1\n}\n" + text)
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(file)]


# However the tests end, the shell's standard input is closed then, and it ends the proxy.
WITH_LIFELINE: Final = '"$@" & proxy=$!; read -r line; kill $proxy; wait $proxy'


@contextmanager
def in_front(command: list[str], url: str, directory: Path) -> Iterator[None]:
    """Run a proxy until the end of the block."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin"
    assert shutil.which(command[0], path=path), f"as root: apt-get install {command[0]}"
    log = directory / "proxy.log"
    with (
        log.open("w") as output,
        subprocess.Popen(
            ["sh", "-c", WITH_LIFELINE, "sh", *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env={"PATH": path, "HOME": str(directory)},
        ) as process,
    ):
        try:
            wait_for(lambda: answers(url) or process.poll() is not None, "an answer of the proxy")
            assert process.poll() is None, log.read_text()
            yield
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=60)


def answers(url: str) -> bool:
    """Whether a server is ready behind this address."""
    try:
        return httpx2.get(f"{url}/readyz", verify=NO_TLS).status_code == 200
    except httpx2.TransportError:
        return False


def has_answered(log: Path) -> bool:
    """Whether a process has answered requests of clients, other than probes."""
    return "method=POST" in log.read_text()


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("proxy", [nginx, caddy], ids=["nginx", "caddy"])
def test_processes_behind_a_proxy_are_restarted_and_no_client_notices(
    proxy: Callable[[Upstreams, Path], list[str]],
    deployment: Settings,
    alice: Person,
    owner: Rows,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    first_auth, second_auth, first, second, auth_front, front = processes.free_ports(6)
    ports = Upstreams((first_auth, second_auth), (first, second), auth_front, front)
    chosen = replace(
        deployment,
        drain_s=6,
        auth_url=f"http://127.0.0.1:{auth_front}",
        base_url=f"http://127.0.0.1:{front}",
        trusted_proxies=("127.0.0.1",),
    )
    with ExitStack() as stack:

        def start(command: str, port: int) -> Running:
            log = tmp_path / f"{command}-{port}"
            return stack.enter_context(server(command, chosen, log, port))

        pairs = [
            (start("resource", ports.resource[number]), start("auth", ports.auth[number]))
            for number in (0, 1)
        ]
        stack.enter_context(in_front(proxy(ports, tmp_path), chosen.base_url, tmp_path))
        # The clients end before the processes that were started again.
        with load(chosen.base_url, chosen.auth_url, alice) as clients:
            for number, (resource, auth) in enumerate(pairs):
                wait_for_all(clients)
                for each in (resource, auth):
                    os.kill(each.pid, signal.SIGTERM)
                wait_for(partial(has_stopped, resource), "the resource server has stopped", 120)
                wait_for(partial(has_stopped, auth), "the authorization server has stopped", 120)
                wait_for_all(clients)
                start("resource", ports.resource[number])
                start("auth", ports.auth[number])
                # The proxy asks every two seconds which processes are ready.
                for command, pair in (("resource", ports.resource), ("auth", ports.auth)):
                    log = tmp_path / f"{command}-{pair[number]}"
                    wait_for(
                        partial(has_answered, log), "the proxy sends requests to the new process"
                    )

    record_property("requests during restarts behind a proxy", check(clients, owner, alice))

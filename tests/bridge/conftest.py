"""A real and empty ActivityWatch, the resource server as a process, and a bridge between them.

`make test` installs ActivityWatch into a separate environment.
"""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx2
import psycopg
import pytest

from resourceserver.trackers.activitywatch import ActivityWatch
from resourceserver.trackers.bridge import Bridge
from resourceserver.trackers.posting import STREAMS, Poster, Result
from shared.settings import Settings
from tests import processes
from tests.conftest import Person
from tests.waiting import wait_for

PROGRAM: Final = Path(__file__).parent / ".venv" / "bin" / "aw-server"

WINDOWS: Final = "aw-watcher-window_laptop"
PRESENCE: Final = "aw-watcher-afk_laptop"
EDITOR: Final = "aw-watcher-vscode_laptop"


def at(time_of_day: str) -> str:
    """Return an instant of 16 June 2025, or of the day that ``time_of_day`` begins with."""
    date, _, clock = time_of_day.rpartition("T")
    return f"{date or '2025-06-16'}T{clock}Z"


def ms(time_of_day: str) -> int:
    """Return the same in milliseconds since 1970."""
    return round(datetime.fromisoformat(at(time_of_day)).timestamp() * 1000)


def event(time_of_day: str, seconds: float, **data: Any) -> dict[str, Any]:
    """Return an event as watchers send it."""
    return {"timestamp": at(time_of_day), "duration": seconds, "data": data}


@dataclass
class Watch:
    """A server of ActivityWatch, and its watchers' side of the API."""

    directory: Path
    port: int
    process: subprocess.Popen[bytes] | None = None
    has_beaten: bool = False
    http: httpx2.Client = field(init=False)

    def __post_init__(self) -> None:
        """Choose its port."""
        self.http = httpx2.Client(base_url=self.address, timeout=30)

    @property
    def address(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it with its earlier data, and wait until it answers."""
        places = ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [PROGRAM, "--host", "127.0.0.1", "--port", str(self.port)],
                env=os.environ | dict.fromkeys(places, str(self.directory)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        wait_for(self.answers, "ActivityWatch to answer")

    def answers(self) -> bool:
        """Return whether it answers; fail with its log if it has ended."""
        assert self.process is not None
        assert self.process.poll() is None, (self.directory / "log").read_text()
        try:
            self.http.get("/api/0/info").raise_for_status()
        except httpx2.TransportError:
            return False
        return True

    def stop(self) -> None:
        """Interrupt it, or kill it if it does not end within five seconds."""
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            # Its data is on disk already, and its regular end is not tested here.
            self.process.kill()
            self.process.wait()

    def clear(self) -> None:
        """Remove all its buckets."""
        for bucket in self.http.get("/api/0/buckets/").json():
            self.http.delete(f"{path(bucket)}?force=1")
        # The server continues to prolong the newest event of a deleted bucket, and its API has no
        # words for a bucket with a slash in its name.
        if self.has_beaten or self.http.get("/api/0/buckets/").json():
            self.has_beaten = False
            self.stop()
            shutil.rmtree(self.directory / "activitywatch")
            self.start()

    def delete(self, bucket: str) -> None:
        """Delete a bucket."""
        self.http.delete(f"{path(bucket)}?force=1").raise_for_status()

    def post(self, url: str, content: str) -> None:
        """Post JSON."""
        headers = {"Content-Type": "application/json"}
        self.http.post(url, content=content, headers=headers).raise_for_status()

    def make(
        self, bucket: str, kind: str, *, host: str = "laptop", client: str | None = None
    ) -> None:
        """Create a bucket."""
        description = {"type": kind, "client": client or bucket.rsplit("_", 1)[0], "hostname": host}
        self.http.post(path(bucket), json=description).raise_for_status()

    def insert(self, bucket: str, *events: dict[str, Any]) -> None:
        """Write events unchanged."""
        # In ASCII, which is the only way to send a lone surrogate.
        self.post(f"{path(bucket)}/events", json.dumps(events))

    def beat(self, bucket: str, time_of_day: str, **data: Any) -> None:
        """Write one heartbeat, which prolongs the newest event if both are equal."""
        self.has_beaten = True
        url = f"{path(bucket)}/heartbeat?pulsetime=70"
        self.http.post(url, json=event(time_of_day, 0, **data)).raise_for_status()

    def events(self, bucket: str) -> list[dict[str, Any]]:
        """Return all events of a bucket, oldest first."""
        answer = self.http.get(f"{path(bucket)}/events").raise_for_status()
        return list(reversed(answer.json()))

    def ask(self, query: str, *, date: str = "2025-06-16") -> Any:
        """Return the result of a query in ActivityWatch's own language about a day."""
        body = {"query": [query], "timeperiods": [f"{date}T00:00:00Z/{date}T23:59:59.999Z"]}
        answer = self.http.post("/api/0/query/", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()[0]


def path(bucket: str) -> str:
    return f"/api/0/buckets/{quote(bucket, safe='')}"


@pytest.fixture(scope="module")
def standing_watch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    """One server for the tests of a module, as long as none stops it."""
    if not PROGRAM.exists():
        pytest.fail("ActivityWatch is not installed; make test does it", pytrace=False)
    watch = Watch(tmp_path_factory.mktemp("activitywatch"), processes.free_ports(1)[0])
    watch.start()
    yield watch
    watch.stop()
    watch.http.close()


@pytest.fixture
def watch(standing_watch: Watch) -> Watch:
    """ActivityWatch without any bucket."""
    standing_watch.clear()
    return standing_watch


@contextmanager
def resource_server(deployment: Settings, directory: Path, port: int) -> Iterator[str]:
    """Run the resource server alone; yields its address."""
    url = f"http://localhost:{port}"
    chosen = Settings(**(vars(deployment) | {"base_url": url}))
    logins = processes.role_urls(chosen, processes.RESOURCE_ROLES)
    arguments = ["resource", "serve"]
    with processes.running(arguments, chosen, logins, f"{url}/healthz", directory / "resource.log"):
        yield url


@pytest.fixture(scope="module")
def served(deployment: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a resource server."""
    directory = tmp_path_factory.mktemp("resource")
    with resource_server(deployment, directory, processes.free_ports(1)[0]) as url:
        yield url


@pytest.fixture
def server(served: str, owner: psycopg.Connection[Any]) -> str:
    """The resource server on committed data, which is removed after the test."""
    assert owner
    return served


@dataclass
class Crossing:
    """A bridge that a test can run several times, and the lines that it prints."""

    watch: Watch
    server: str
    token: str
    state_file: Path
    account: str = "account"
    page: int = 100
    """Smaller than a real page, so that fewer events fill several."""
    lines: list[str] = field(default_factory=list)

    def run(self, time_of_day: str) -> dict[str, tuple[int, int, int]]:
        """Run it once at a time of its clock; return accepted, duplicates and rejected by stream."""
        sums: dict[str, tuple[int, int, int]] = {}
        for stream, result in self.results(time_of_day):
            accepted, duplicates, rejected = sums.get(stream, (0, 0, 0))
            sums[stream] = (
                accepted + result.accepted,
                duplicates + result.duplicates,
                rejected + len(result.rejected),
            )
        return sums

    def results(self, time_of_day: str) -> Generator[tuple[str, Result]]:
        """Run it once and yield its results."""
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json",
        }
        client = '{"name":"svc-bridge/test"}'
        with (
            httpx2.Client(base_url=self.watch.address, timeout=30) as source,
            httpx2.Client(base_url=self.server, headers=headers, timeout=30) as http,
        ):
            posters = {
                stream: Poster(http, f"/api/v1/ingest/{stream}", client, 0, self.lines.append)
                for stream in STREAMS
            }
            yield from Bridge(
                ActivityWatch(source, self.page),
                posters,
                self.state_file,
                self.account,
                self.lines.append,
                now_ms=lambda: ms(time_of_day),
            ).run()


@pytest.fixture
def crossing(watch: Watch, server: str, alice: Person, tmp_path: Path) -> Crossing:
    """A bridge to alice's account."""
    token = alice.token("ingest:app_sessions", "ingest:coding_sessions")
    return Crossing(watch, server, token, tmp_path / "state" / "bridge.json")


def sessions(person: Person) -> list[tuple[str, str, str]]:
    """Return a person's app sessions by start: app, start and end in UTC."""
    return person.connection.execute(
        """
        select app,
               to_char(started_at at time zone 'UTC', 'HH24:MI:SS.MS'),
               to_char(ended_at at time zone 'UTC', 'HH24:MI:SS.MS')
          from activity.app_session
         where user_id = %s
      order by started_at, idempotency_key
        """,
        [person.user_id],
    ).fetchall()


def keys(person: Person) -> list[str]:
    """Return the keys of a person's app sessions, by start."""
    rows = person.connection.execute(
        """
        select idempotency_key from activity.app_session
         where user_id = %s order by started_at, idempotency_key
        """,
        [person.user_id],
    )
    return [key for (key,) in rows]

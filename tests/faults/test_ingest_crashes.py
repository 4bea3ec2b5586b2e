"""Batches and imports whose database or server is killed, or whose database has a full volume."""

import json
import os
import resource
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx2
import psycopg
import pytest
from click.testing import CliRunner, Result

from deploy.migrate import migrate
from deploy.operators import imports
from deploy.postgres.embedded import EmbeddedPostgres
from resourceserver.integrations.format import File
from resourceserver.integrations.format import Person as Reader
from resourceserver.integrations.imports import running
from shared import database
from shared.settings import Settings
from tests import processes
from tests.client import NO_TLS
from tests.conftest import Person, owning, person
from tests.faults import crashing
from tests.faults.proxy import Direction, Proxy, Trap, proxy
from tests.faults.tracker import (
    SCOPES,
    Answer,
    Rows,
    Tracker,
    assert_whole,
    each_stream,
    length_of_exchange,
    serving,
    spread,
    through,
)
from tests.integrations.bringing import of_listens
from tests.volumes import mounted

MIB = 1024 * 1024

each_direction = pytest.mark.parametrize("direction", ["asked", "answered"])


@dataclass
class Cluster:
    """A Postgres of this module, to be killed and to run out of space."""

    directory: Path
    has_volume: bool
    """Whether the directory is a small volume of its own."""
    postgres: EmbeddedPostgres = field(init=False)
    settings: Settings = field(init=False)

    def __post_init__(self) -> None:
        """Store the server. Processes die here and no machine does, so it need not sync."""
        # Little of the write-ahead log is kept, so that a small volume has room for a large table.
        settings = {
            "fsync": "off",
            "autovacuum": "off",
            "max_wal_size": "48MB",
            "min_wal_size": "32MB",
        }
        self.postgres = EmbeddedPostgres(self.directory / "postgres", settings=settings)

    @property
    def filler(self) -> Path:
        """The file that fills the rest of the volume."""
        return self.directory / "filler"

    def kill(self) -> None:
        """Kill all processes of Postgres at once, so that none of them does anything more."""
        crashing.kill(self.postgres)

    def restart(self) -> None:
        """Start Postgres again, in any state."""
        # A regular stop would first write everything out, for which there may be no room.
        with suppress(FileNotFoundError):
            self.kill()
        self.postgres.stop()
        self.postgres.start()

    def fill(self) -> None:
        """Leave no room on the volume."""
        with self.filler.open("wb", buffering=0) as filler, suppress(OSError):
            while filler.write(bytes(MIB)):
                pass

    @contextmanager
    def owner(self) -> Iterator[Rows]:
        """A connection of the owner, for the time between two crashes."""
        url = self.settings.database_url or ""
        with closing(psycopg.connect(url, autocommit=True)) as opened:
            yield opened

    def assert_whole(self, user_id: UUID, sender: Tracker) -> None:
        """Compare the stored rows with the answers."""
        with self.owner() as opened:
            assert_whole(opened, user_id, [sender])


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A Postgres of this module's own, on a small volume of its own if the tests may mount one."""
    directory = Path(tempfile.mkdtemp(prefix="svc-crash-"))
    try:
        with mounted(directory, "-t", "tmpfs", "-o", "size=256m", "tmpfs") as has_volume:
            # The server runs as another account if the tests run as root.
            directory.chmod(0o755)
            made = Cluster(directory, has_volume)
            with made.postgres:
                made.settings = Settings(
                    database_url=made.postgres.url, data_dir=directory / "deployment", jobs=False
                )
                migrate(made.settings, lambda _: None)
                yield made
    finally:
        shutil.rmtree(directory)


@pytest.fixture
def dweller(cluster: Cluster) -> Iterator[Person]:
    """Alice, in that Postgres; her connection does not outlive the first crash."""
    with cluster.owner() as opened:
        yield person(opened, "alice")
    cluster.filler.unlink(missing_ok=True)
    with owning(cluster.settings):
        pass


@pytest.fixture
def way_there(cluster: Cluster) -> Iterator[Proxy]:
    """A proxy to that Postgres."""
    with proxy(database.role_url(cluster.settings, "reader")) as opened:
        yield opened


@each_stream
@each_direction
@pytest.mark.proof
def test_a_database_killed_after_any_number_of_bytes_keeps_what_was_accepted(
    cluster: Cluster, way_there: Proxy, dweller: Person, count: int, record_property: Any,
    stream: str, direction: Direction,
) -> None:  # fmt: skip
    kills = count // 3
    with serving(cluster.settings, way_there) as client:
        sender = through(client, dweller, stream)
        sender.mend = cluster.restart
        sender.send(0)
        length = length_of_exchange(way_there, direction, sender, 1)

        for number, after in enumerate(spread(length, kills), 2):
            way_there.trap = Trap(direction, after, cluster.kill)
            if sender.send(number) == "answered":
                cluster.restart()
            assert way_there.trap is None, "the database was not killed"

    record_property("databases killed", kills)
    cluster.assert_whole(dweller.user_id, sender)


@each_stream
@pytest.mark.proof
def test_a_server_killed_after_any_number_of_bytes_leaves_only_whole_batches(
    deployment: Settings, way: Proxy, alice: Person, count: int, record_property: Any,
    tmp_path: Path, stream: str,
) -> None:  # fmt: skip
    (port,) = processes.free_ports(1)
    chosen = replace(deployment, base_url=f"http://127.0.0.1:{port}")
    logins = {role: way.url(database.role_url(chosen, role)) for role in ("reader", "ingester")}
    # The test reads the marks of days, so the jobs must not remove them.
    logins["worker"] = "host=127.0.0.1 port=1 dbname=nowhere"
    headers = {"Content-Type": "application/json"} | alice.headers(*SCOPES)
    pids: list[int] = []

    def post(where: str, content: bytes) -> Answer | None:
        try:
            answer = httpx2.post(
                f"{chosen.base_url}{where}", content=content, headers=headers, verify=NO_TLS
            )
        except httpx2.TransportError:
            return None
        return Answer(answer.status_code, answer.json())

    with ExitStack() as server:

        def start() -> None:
            server.close()
            probe, log = f"{chosen.base_url}/healthz", tmp_path / "resource.log"
            pids.append(
                server.enter_context(
                    processes.running(["resource", "serve"], chosen, logins, probe, log)
                )
            )

        sender = Tracker(stream, post, mend=start)
        start()
        sender.send(0)
        directions: tuple[Direction, Direction] = ("asked", "answered")
        cuts = [
            (direction, after)
            for number, direction in enumerate(directions, 1)
            for after in spread(length_of_exchange(way, direction, sender, number), count // 6)
        ]
        for number, (direction, after) in enumerate(cuts, 3):
            way.trap = Trap(direction, after, lambda: os.kill(pids[-1], signal.SIGKILL))
            if sender.send(number) == "answered":
                start()
            assert way.trap is None, "the server was not killed"

    record_property("servers killed", len(cuts))
    assert_whole(alice.connection, alice.user_id, [sender])


# No room


@each_stream
def test_a_full_volume_fails_only_the_batch(
    cluster: Cluster, way_there: Proxy, dweller: Person, record_property: Any, stream: str
) -> None:
    if not cluster.has_volume:
        pytest.skip("only root may mount a small volume; elsewhere the size of files is limited")
    with serving(cluster.settings, way_there) as client:
        sender = through(client, dweller, stream)
        sender.padding, sender.mend = 1500, cluster.filler.unlink
        sender.send(0)

        cluster.fill()
        became = [sender.send(number) for number in range(1, 60) if cluster.filler.exists()]
        sender.send(60)

    record_property("volumes without room", 1)
    # Batches were written while tables had free space, and then there was none.
    assert became == ["answered"] * (len(became) - 1) + ["lost"]
    cluster.assert_whole(dweller.user_id, sender)


@each_stream
def test_a_database_that_stopped_on_a_full_volume_continues_with_all_data(
    cluster: Cluster, way_there: Proxy, dweller: Person, record_property: Any, stream: str
) -> None:
    if not cluster.has_volume:
        pytest.skip(
            "only root may mount a small volume, and nothing else ends a database like this"
        )

    def make_room() -> None:
        cluster.filler.unlink(missing_ok=True)
        cluster.restart()

    with serving(cluster.settings, way_there) as client:
        sender = through(client, dweller, stream)
        sender.mend = make_room
        sender.send(0)

        cluster.fill()
        became: list[str] = []
        while cluster.filler.exists():
            # The next write needs a file of the write-ahead log, and some may exist already.
            with suppress(psycopg.OperationalError), cluster.owner() as opened:
                opened.execute("select pg_switch_wal()")
            became.append(sender.send(1 + len(became)))

    record_property("volumes without room", 1)
    assert became == ["answered"] * (len(became) - 1) + ["lost"]
    cluster.assert_whole(dweller.user_id, sender)


@each_stream
def test_a_file_that_may_not_grow_fails_only_the_batch(
    cluster: Cluster, way_there: Proxy, dweller: Person, record_property: Any, stream: str
) -> None:
    with cluster.owner() as opened:
        opened.execute(MUCH[stream])
    with serving(cluster.settings, way_there) as client:
        sender = through(client, dweller, stream)
        sender.padding, sender.mend = 1500, cluster.restart
        sender.send(0)

        became: list[str] = []
        try:
            cluster.postgres.stop()
            # A file of the log is as large as that, and can still be written.
            with files_up_to(16 * MIB):
                cluster.postgres.start()
            while "lost" not in became:
                became.append(sender.send(1 + len(became)))
        finally:
            cluster.restart()

    record_property("files that may not grow", 1)
    assert became == ["answered"] * (len(became) - 1) + ["lost"]
    cluster.assert_whole(dweller.user_id, sender)


@contextmanager
def files_up_to(most: int) -> Iterator[None]:
    """Limit files of this process to ``most`` bytes, and those of processes that start meanwhile."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


MUCH = {
    stream: f"""
        with neighbour as (
            insert into identity.user (email)
            values ('bob@example.org')
            returning user_id
        ), laptop as (
            insert into activity.device (user_id, name)
            select user_id, 'laptop' from neighbour
            returning user_id, device_id
        )
        insert into activity.{table}
               (user_id, device_id, idempotency_key, {what}, {text}, started_at, ended_at)
        select user_id, device_id, number, 'x', repeat('x', 1000), '2025-06-16', '2025-06-16'
          from laptop cross join generate_series(1, 20000) as number
        """  # noqa: S608 - ours
    for stream, table, what, text in (
        ("app_sessions", "app_session", "app", "title"),
        ("coding_sessions", "coding_session", "project", "file"),
    )
}
"""Makes the table of a stream 20 MB long."""


# Imports


PLAYS = 20_000


def bring(
    cluster: Cluster,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    midway: Callable[[], object] = lambda: None,
) -> Result:
    """Import plays with ``svc import``; something happens once half of them are read."""
    plain = of_listens()

    def read(file: File, person: Reader) -> Iterator[Any]:
        for number, record in enumerate(plain.read(file, person)):
            if number == PLAYS // 2:
                midway()
            yield record

    path = folder / "a.plays"
    path.write_text("\n".join(map(str, range(PLAYS))))
    monkeypatch.setattr(imports, "FORMATS", (replace(plain, read=read),))
    words = [str(path), "--user", "alice@example.org", "--json"]
    return CliRunner().invoke(imports.import_files, words, obj=cluster.settings)


def assert_each_once(cluster: Cluster, done: Result) -> None:
    assert done.exit_code == 0, done.output
    receipt = json.loads(done.stdout)
    with cluster.owner() as opened:
        rows = opened.execute("select count(*) from music.listen").fetchone()
    assert rows == (PLAYS,)
    assert receipt["records"] == {
        "read": PLAYS, "new": PLAYS, "known": 0, "changed": 0, "refused": 0
    }  # fmt: skip


def test_an_import_whose_database_is_killed_midway_is_done(
    cluster: Cluster, dweller: Person, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert dweller
    done = bring(cluster, tmp_path, monkeypatch, cluster.restart)

    assert_each_once(cluster, done)


def test_an_import_on_a_full_volume_is_continued_by_the_next_run(
    cluster: Cluster, dweller: Person, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if not cluster.has_volume:
        pytest.skip("only root may mount a small volume")
    assert dweller
    with monkeypatch.context() as patch:
        patch.setattr(running, "PATIENCE_S", 0.0)
        stopped = bring(cluster, tmp_path, monkeypatch, cluster.fill)
    cluster.filler.unlink()
    # Without room for its log, the database stops.
    cluster.restart()

    done = bring(cluster, tmp_path, monkeypatch)

    assert stopped.exit_code == 1
    assert "import the same file again to continue" in stopped.stderr
    assert "Traceback" not in stopped.output
    assert_each_once(cluster, done)

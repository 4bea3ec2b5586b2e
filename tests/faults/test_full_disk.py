"""A database on a small disk that fills up: what is refused, what goes on, and that nothing is lost.

The disk is a file system in memory, which root may mount. Elsewhere the reserve is larger than any disk.
"""

import asyncio
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, cast

import httpx2
import psycopg
import pytest

import authserver.app
import resourceserver.app
from deploy.migrate import migrate
from deploy.postgres.embedded import EmbeddedPostgres
from resourceserver.uploads import route as uploads
from resourceserver.worker import kinds
from resourceserver.worker.running import Worker
from resourceserver.worker.turns import Outcome, Turn
from shared import database, storage, tokens
from shared.jobs import Job
from shared.pool import Connection, Pool
from shared.settings import Settings, SettingsError
from shared.storage import MIB, Storage
from tests import connecting, processes
from tests.client import NO_TLS, AppClient
from tests.conftest import FAST, Person, person
from tests.deploy.conftest import reachable_directory
from tests.volumes import mounted
from tests.waiting import wait_for, wait_for_async

RESERVE: Final = 192
"""The MiB that the servers of these tests keep free: more than is written in the second between two looks."""
MORE_THAN_ANY_DISK: Final = 10**9 - 1
INGEST: Final = "/api/v1/ingest/app-sessions"


@dataclass(frozen=True)
class SmallDisk:
    """A disk of 640 MiB with a database, and files that fill it."""

    mount: Path
    chosen: Settings
    alice: Person

    @property
    def free(self) -> int:
        """The free bytes."""
        disk = os.statvfs(self.mount)
        return disk.f_bavail * disk.f_frsize

    @contextmanager
    def filled(self, leave: int) -> Iterator[None]:
        """Fill the disk up to ``leave`` bytes for the time of a block."""
        ballast = self.mount / "ballast"
        with ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, self.free - leave)
        try:
            yield
        finally:
            ballast.unlink()

    @property
    def stored(self) -> int:
        """The number of sessions in the database."""
        row = self.alice.connection.execute("select count(*) from activity.app_session").fetchone()
        assert row is not None
        return int(row[0])


@pytest.fixture(scope="module")
def small() -> Iterator[SmallDisk]:
    """A small disk with a database that runs."""
    with reachable_directory() as mount:
        volume = mounted(mount, "-t", "tmpfs", "-o", "size=640m,mode=755", "tmpfs")
        with volume as is_mounted:
            if not is_mounted:
                pytest.skip("only an administrator may mount a file system")
            data_dir = mount / "data"
            # Otherwise the log of the database alone could fill such a disk.
            bounded = FAST | {"max_wal_size": "48MB", "min_wal_size": "32MB"}
            with EmbeddedPostgres(data_dir, settings=bounded) as server:
                chosen = Settings(
                    database_url=server.url,
                    data_dir=data_dir,
                    storage_dir=server.cluster,
                    storage_reserve_mib=RESERVE,
                    jobs=False,
                )
                migrate(chosen, lambda _: None)
                with psycopg.connect(server.url, autocommit=True) as owner:
                    yield SmallDisk(mount, chosen, person(owner, "alice"))
                assert server.poll() is None


@contextmanager
def serving(chosen: Settings, log: Path) -> Iterator[httpx2.Client]:
    """Run a resource server for the time of a block."""
    (port,) = processes.free_ports(1)
    own = replace(chosen, base_url=f"http://localhost:{port}")
    logins = processes.role_urls(own, processes.RESOURCE_ROLES)
    with (
        processes.running(["resource", "serve"], own, logins, f"{own.base_url}/readyz", log),
        httpx2.Client(base_url=own.base_url, verify=NO_TLS, timeout=60) as client,
    ):
        yield client


def batch(number: int, title: str = "a title") -> dict[str, Any]:
    """Return the batch of this number: 1,000 sessions of a minute."""
    start = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(minutes=1000 * number)
    return {
        "events": [
            {
                "idempotency_key": f"{number}-{n}",
                "device": "laptop",
                "app": "editor",
                "title": f"{title} {n}",
                "started_at": (start + timedelta(minutes=n)).isoformat(),
                "ended_at": (start + timedelta(minutes=n + 1)).isoformat(),
            }
            for n in range(1000)
        ]
    }


def test_a_full_disk_refuses_events_before_postgres_has_to_stop(
    small: SmallDisk, tmp_path: Path
) -> None:
    headers = small.alice.headers()
    stored, accepted = small.stored, 0
    with serving(small.chosen, tmp_path / "log") as client:
        # Batches come one after the other until the disk has nothing but its reserve and little more.
        with small.filled(leave=(RESERVE + 4) * MIB):
            for number in range(60):
                answer = client.post(INGEST, headers=headers, json=batch(number, "long " * 80))
                if answer.status_code != 200:
                    break
                accepted += answer.json()["accepted"]
            health, ready = client.get("/healthz"), client.get("/readyz")
            read = client.get("/api/v1/devices", headers=headers)
            left = small.free
        wait_for(
            lambda: client.post(INGEST, headers=headers, json=batch(99)).status_code == 200,
            "events to be accepted again",
        )
        after = client.get("/healthz").json()["storage"]

    assert answer.status_code == 503
    assert answer.json() == {
        "error": "storage_full",
        "message": "the disk of this service is full; try again later",
    }
    assert answer.headers["retry-after"] == "60"
    assert 0 < left < RESERVE * MIB
    assert small.stored - stored == accepted + 1000 > 1000
    assert (health.status_code, health.json()["status"]) == (200, "ok")
    assert health.json()["storage"]["status"] == "full"
    assert 0 < health.json()["storage"]["free_mib"] < RESERVE
    assert (ready.status_code, read.status_code) == (200, 200)
    assert after["status"] == "ok"
    logged = (tmp_path / "log").read_text()
    assert "the database has no space left" not in logged
    assert logged.count("the disk of the database is full") == 1
    assert logged.count("there is space again") == 1


def test_a_disk_that_the_server_cannot_see_is_full_when_postgres_says_so(
    small: SmallDisk, tmp_path: Path
) -> None:
    headers = small.alice.headers()
    unseen = replace(small.chosen, storage_dir=None)
    with serving(unseen, tmp_path / "log") as client:
        # A new file of its log has room for what these batches write before their tables cannot grow.
        small.alice.connection.execute("select pg_switch_wal()")
        small.alice.connection.execute("checkpoint")
        stored, accepted = small.stored, 0
        with small.filled(leave=0):
            for number in range(100, 108):
                answer = client.post(INGEST, headers=headers, json=batch(number, "long " * 80))
                if answer.status_code != 200:
                    break
                accepted += answer.json()["accepted"]
            storage_then = client.get("/healthz").json()["storage"]
            read = client.get("/api/v1/devices", headers=headers)
        refused = number
        again = client.post(INGEST, headers=headers, json=batch(refused))

    assert (answer.status_code, answer.json()["error"]) == (503, "storage_full")
    assert storage_then == {"status": "unknown", "free_mib": None}
    assert read.status_code == 200
    assert (again.status_code, again.json()["accepted"]) == (200, 1000)
    assert small.stored - stored == accepted + 1000
    assert "SQLSTATE 53100" in (tmp_path / "log").read_text()


@pytest.fixture
def full(deployment: Settings, tmp_path: Path) -> Settings:
    """Settings whose reserve is larger than any disk."""
    return replace(
        deployment,
        base_url="http://testserver",
        storage_dir=tmp_path,
        storage_reserve_mib=MORE_THAN_ANY_DISK,
        upload_dir=tmp_path,
        upload_free_mib=1,
        receivers=("wakatime", "listenbrainz", "owntracks", "overland", "osmand", "health"),
    )


def test_everything_that_writes_much_is_refused_and_reads_go_on(
    full: Settings, alice: Person, owner: psycopg.Connection[Any]
) -> None:
    ticket = tokens.mint(tokens.UPLOAD, alice.user_id)
    owner.execute(
        "insert into profile.upload (user_id, ticket_hash) values (%s, %s)",
        [alice.user_id, ticket.hash],
    )
    key = {
        kind: connecting.connect(owner, alice, kind).key
        for kind in ("listenbrainz", "owntracks", "health", "osmand")
    }
    listen = {"listen_type": "single", "payload": []}
    point = {"_type": "location", "lat": 1, "lon": 2, "tst": 1700000000}
    coding = "/api/v1/ingest/coding-sessions"
    tus = {"Authorization": f"Bearer {ticket.text}", "Tus-Resumable": "1.0.0"}

    def bearer(kind: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key[kind]}"}

    with AppClient(resourceserver.app.create(full)) as client:
        refused = [
            client.post(INGEST, headers=alice.headers(), json=batch(0)),
            client.post(coding, headers=alice.headers(), json={"events": []}),
            client.post(uploads.PATH, headers={**tus, "Upload-Length": "4"}),
            client.post(uploads.PATH, data={"ticket": ticket.text}, files={"file": ("a", b"x")}),
            client.post("/receive/health", headers=bearer("health"), json={}),
            client.post("/receive/owntracks", headers=bearer("owntracks"), json=point),
            client.post(
                "/1/submit-listens",
                headers={"Authorization": f"Token {key['listenbrainz']}"},
                json=listen,
            ),
        ]
        unknown = client.post(INGEST, json=batch(0))
        health = client.get("/healthz").json()
        answered = [
            client.get(path, headers=alice.headers()).status_code
            for path in ("/readyz", "/api/v1/me", "/api/v1/export")
        ]

    assert [each.status_code for each in refused] == [503] * 7
    assert [each.headers["retry-after"] for each in refused] == ["60"] * 7
    assert [each.json().get("error") for each in refused[:6]] == ["storage_full"] * 6
    assert refused[6].json() == {
        "code": 503,
        "error": "the disk of this service is full; try again later",
    }
    # Strangers learn nothing of the disk from a write.
    assert unknown.status_code == 401
    assert health["storage"]["status"] == "full"
    assert answered == [200, 200, 200]
    assert owner.execute("select status from profile.upload").fetchall() == [("ticket",)]


def test_the_authorization_server_works_on_a_full_disk(full: Settings) -> None:
    with AppClient(authserver.app.create(replace(full, cookie_key="k" * 32))) as client:
        health = client.get("/healthz")
        registered = client.post(
            "/oauth/register", json={"redirect_uris": ["http://localhost/back"]}
        )

    assert (health.status_code, health.json()["storage"]["status"]) == (200, "full")
    assert registered.status_code == 201


def test_a_full_disk_is_looked_at_once_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    look = os.statvfs

    def counted(path: Path) -> os.statvfs_result:
        looks.append(path)
        return look(path)

    monkeypatch.setattr(os, "statvfs", counted)
    disk = Storage(tmp_path, 0)

    assert [disk.is_full() for _ in range(1000)] == [False] * 1000
    assert looks == [tmp_path]


def test_a_disk_that_has_space_again_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(storage, "_LOOK_EVERY_S", 0.0)
    caplog.set_level(logging.INFO, "svc.storage")
    disk = Storage(tmp_path, MORE_THAN_ANY_DISK * MIB)

    were_full = [disk.is_full(), disk.is_full()]
    disk.reserve_bytes = 0
    are_full = [disk.is_full(), disk.is_full()]

    assert (were_full, are_full) == ([True, True], [False, False])
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]
    assert caplog.messages[1].startswith("there is space again: ")


def test_a_disk_that_cannot_be_looked_at_stops_the_start(tmp_path: Path) -> None:
    chosen = Settings(storage_dir=tmp_path / "missing")

    with pytest.raises(SettingsError, match=r"^SVC_STORAGE_DIR: the free space at .*missing"):
        storage.check_setting(chosen)


def test_a_worker_takes_only_turns_that_free_space(
    full: Settings, deployment: Settings, owner: psycopg.Connection[Any], alice: Person
) -> None:
    served: list[str] = []

    async def serve(turn: Turn) -> Outcome:
        served.append(turn.kind)
        return Outcome()

    async def run() -> list[Any]:
        stop = asyncio.Event()
        async with Pool.to(
            database.login(deployment, "worker"), size=1, is_patient=True
        ) as control:
            # The kinds are the real ones; only their handlers are of this test.
            listed = kinds.kinds(control, chosen=full)
            replaced = {name: replace(kind, handle=serve) for name, kind in listed.items()}
            worker = Worker(replaced, control, storage=Storage.of(full))
            task = asyncio.create_task(worker.run(stop))
            await wait_for_async(lambda: served, "a turn that frees space")
            stop.set()
            await task
        return owner.execute("select kind, attempts from svc.turn order by kind").fetchall()

    for kind in ("import", "pull", "rollups", "summaries", "visits", "undo"):
        owner.execute("select svc.make_due(%s, %s)", [alice.user_id, kind])
    waiting = asyncio.run(run())

    assert served == ["undo"]
    assert waiting == [
        ("import", 0),
        ("pull", 0),
        ("rollups", 0),
        ("summaries", 0),
        ("visits", 0),
    ]


def test_the_job_of_a_server_without_a_worker_pauses_too(full: Settings) -> None:
    runs: list[str] = []

    async def work(_: Connection) -> None:
        runs.append("run")

    job = Job(work, timedelta(minutes=1), logging.getLogger("svc.tests"), "failed")
    roomy = Storage.of(replace(full, storage_reserve_mib=0))

    asyncio.run(_run(storage.unless_full(job, Storage.of(full))))
    assert runs == []
    asyncio.run(_run(storage.unless_full(job, roomy)))
    assert runs == ["run"]


async def _run(job: Job) -> None:
    # The job of the test uses no connection.
    await job.work(cast("Connection", None))

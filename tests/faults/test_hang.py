"""A database whose processes are all stopped: it neither answers nor closes a connection, and goes on later.

What is counted are probes and their verdicts, never seconds.
"""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from starlette.testclient import TestClient

import authserver.app
import resourceserver.app
from authserver import rows
from authserver.people.passwords import Hasher
from deploy.migrate import migrate
from deploy.postgres import postmaster
from deploy.postgres.embedded import EmbeddedPostgres
from resourceserver.api import session
from shared import hang, tokens
from shared.settings import Settings
from tests import limits
from tests.client import AppClient
from tests.conftest import FAST, owning, person
from tests.oauth.conftest import CHEAP
from tests.waiting import wait_for

HANG_S: Final = 60
"""A request without an answer for this long counts as hanging."""
READS: Final = (
    "me",
    "devices",
    "analytics/daily?from=2025-06-16&to=2025-06-17",
    "sessions/apps?from=2025-06-16T00:00:00Z&to=2025-06-17T00:00:00Z",
)

REFRESH: Final = {
    "grant_type": "refresh_token",
    "client_id": "svc_client_0000000000000000000000",
    "refresh_token": tokens.mint(tokens.REFRESH, tokens.NOBODY).text,
}


@pytest.fixture
def postgres() -> Iterator[EmbeddedPostgres]:
    """A Postgres of this test's own."""
    directory = Path(tempfile.mkdtemp(prefix="svc-hang-"))
    # The server runs as an account of its own where the tests run as root.
    directory.chmod(0o755)
    try:
        with EmbeddedPostgres(directory / "postgres", settings=FAST) as running:
            yield running
    finally:
        shutil.rmtree(directory)


@contextmanager
def stopped(postgres: EmbeddedPostgres) -> Iterator[None]:
    """Stop all processes of ``postgres`` until the end of the block."""
    main = postmaster.read_pid_file(postgres.cluster)
    assert main is not None
    # It is stopped before its children are listed, so that no further one starts.
    os.kill(main.pid, signal.SIGSTOP)
    pids = [main.pid]
    try:
        children = Path(f"/proc/{main.pid}/task/{main.pid}/children").read_text(encoding="ascii")
        for pid in map(int, children.split()):
            os.kill(pid, signal.SIGSTOP)
            pids.append(pid)
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.fixture
def verdicts(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the database hung, each time that two probes have said so or one was answered."""
    known: list[bool] = []
    decide = hang._hangs

    async def noted(*given: Any) -> bool:
        verdict = await decide(*given)
        known.append(verdict)
        return verdict

    monkeypatch.setattr(hang, "_hangs", noted)
    # No connection is given up for its own long wait.
    monkeypatch.setattr(session, "QUICK_S", 600.0)
    monkeypatch.setattr(session, "PATIENT_S", 600.0)
    monkeypatch.setattr(resourceserver.app, "PATIENT_S", 600.0)
    monkeypatch.setattr(rows, "_ANSWER_TIMEOUT_S", 600.0)
    return known


def test_requests_beside_a_stopped_database_are_503_after_two_probes_and_both_servers_recover(
    postgres: EmbeddedPostgres, verdicts: list[bool]
) -> None:
    chosen = Settings(
        database_url=postgres.url, data_dir=postgres.data_dir.parent / "deployment", jobs=False
    )
    migrate(chosen, lambda _: None)
    api = AppClient(resourceserver.app.create(chosen), raise_server_exceptions=False)
    pages = AppClient(
        authserver.app.create(chosen, hasher=Hasher(CHEAP)), raise_server_exceptions=False
    )
    with owning(chosen) as owner, api, pages, ThreadPoolExecutor() as background:
        headers = person(owner, "alice").headers()
        reads = [f"/api/v1/{path}" for path in READS]

        def read(path: str) -> int:
            return api.get(path, headers=headers).status_code

        def refresh() -> int:
            return pages.post("/oauth/token", data=REFRESH).status_code

        before = [*(read(path) for path in reads), refresh()]
        ready = pages.get("/readyz").status_code
        verdicts.clear()
        with limits.short(), stopped(postgres):
            waiting = [background.submit(read, path) for path in reads]
            waiting.append(background.submit(refresh))
            first = [each.result(HANG_S) for each in waiting]
            seen = list(verdicts)
            later = [*(read(path) for path in reads * 3), refresh()]
            probes = [client.get("/healthz").status_code for client in (api, pages)]
        for path in reads:
            wait_for(partial(is_answered, api, path, headers), f"{path} again")
        wait_for(lambda: refresh() == 401, "refreshes again")
        for client in (api, pages):
            wait_for(partial(is_answered, client, "/healthz"), "a healthy server")
            wait_for(partial(is_answered, client, "/readyz"), "a server that is ready")

    assert (before, ready) == ([200] * 4 + [401], 200)
    assert first == [503] * 5
    # The first verdict ended all of them. This test may have been late to look.
    assert seen
    assert all(seen)
    assert later == [503] * 13
    assert probes == [503] * 2
    assert verdicts[-1] is False


def is_answered(client: TestClient, path: str, headers: dict[str, str] | None = None) -> bool:
    return client.get(path, headers=headers or {}).status_code == 200

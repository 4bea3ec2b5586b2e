"""Pulls whose database hangs."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import psycopg
import pytest

from resourceserver.integrations.pulls import turn
from resourceserver.integrations.pulls.pulling import Pulled, Source
from resourceserver.integrations.pulls.turn import Pulls
from resourceserver.integrations.records import CodeEvent
from shared import database, sealing
from shared.fetcher import Fetcher
from shared.sealing import Opener
from shared.settings import Settings
from tests.conftest import Person
from tests.connecting import connect
from tests.faults.proxy import Proxy

HANG_S: Final = 60
"""A pull that has not ended for this long hangs."""


@pytest.fixture
def pulls(deployment: Settings, way: Proxy) -> Iterator[Pulls]:
    """The pulls of a worker, which reaches its database only through the proxy."""
    urls = {role: way.url(database.role_url(deployment, role)) for role in ("worker", "importer")}
    opener = Opener([sealing.new_private_key()])
    own = Pulls.to(replace(deployment, role_urls=urls), {}, opener, Fetcher().fetch)
    yield own
    own.close()


def test_a_pull_fails_while_the_database_hangs_and_goes_on_later(
    pulls: Pulls,
    way: Proxy,
    owner: psycopg.Connection[Any],
    alice: Person,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connect(owner, alice, "github")

    def pull(_: Source) -> Pulled:
        return Pulled([commit])

    def hanging(_: Source) -> Pulled:
        way.stop()
        return Pulled([commit])

    commit = CodeEvent("sha", "commit", "pushed", datetime(2026, 1, 15, tzinfo=UTC), "alice/notes")
    pulls.by_kind = {"github": pull}
    before = pulls.take(alice.user_id, threading.Event())
    monkeypatch.setattr(turn, "LONGEST_S", 0.5)
    with ThreadPoolExecutor() as background:
        try:
            for each in (hanging, pull):
                owner.execute("update profile.connection set next_pull_at = now()")
                pulls.by_kind = {"github": each}
                taken = background.submit(pulls.take, alice.user_id, threading.Event())
                with pytest.raises(psycopg.OperationalError):
                    taken.result(HANG_S)
        finally:
            way.restore()
    monkeypatch.undo()
    owner.execute("update profile.connection set next_pull_at = now()")
    after = pulls.take(alice.user_id, threading.Event())

    assert before.line.endswith("read=1 new=1 changed=0")
    assert after.line.endswith("read=1 new=0 changed=0")

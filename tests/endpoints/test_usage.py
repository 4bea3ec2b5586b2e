"""When tokens were used last: in memory first, then on their grants, true to the minute."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

import resourceserver.app
from resourceserver.api import usage
from resourceserver.api.usage import Usage
from shared import SCHEMA_VERSION, database, schema, tokens
from shared.pool import Pool
from shared.settings import Settings
from shared.tokens import Token
from tests import limits
from tests.client import AppClient
from tests.conftest import Connect, Person
from tests.waiting import wait_for

Rows = psycopg.Connection[Any]


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def token_of(person: Person) -> Token:
    found = tokens.parse(tokens.ACCESS, person.token())
    assert found is not None
    return found


def last_uses(owner: Rows) -> list[datetime | None]:
    rows = owner.execute("select last_used_at from oauth.grant order by created_at").fetchall()
    return [at for (at,) in rows]


def at(minute: int, second: int = 0) -> float:
    return datetime(2026, 3, 1, 12, minute, second, tzinfo=UTC).timestamp()


def write(chosen: Settings, recorded: Usage) -> None:
    """Write ``noted`` down once, as the server does."""

    async def run(workers: Pool) -> None:
        async with workers.connection() as worker:
            await recorded.write(worker)

    with_worker(chosen, run)


def with_worker(chosen: Settings, use: Callable[[Pool], Awaitable[None]]) -> None:
    async def run() -> None:
        login = database.login(chosen, "worker")
        async with Pool.to(login, size=1) as workers:
            await use(workers)

    asyncio.run(run())


def test_a_read_is_recorded_to_the_minute_when_the_server_ends(
    deployment: Settings, alice: Person, owner: Rows
) -> None:
    token = alice.token("read:profile")
    before = datetime.now(UTC).replace(second=0, microsecond=0)
    chosen = replace(deployment, base_url="http://testserver")

    with AppClient(resourceserver.app.create(chosen)) as server:
        assert server.get("/api/v1/me", headers=bearer(token)).status_code == 200
        meanwhile = last_uses(owner)
    (recorded,) = last_uses(owner)

    assert meanwhile == [None]
    assert recorded is not None
    assert before <= recorded <= datetime.now(UTC)
    assert (recorded.second, recorded.microsecond) == (0, 0)


def test_ingest_is_a_use(deployment: Settings, alice: Person, owner: Rows) -> None:
    token = alice.token("ingest:app_sessions")
    chosen = replace(deployment, base_url="http://testserver")

    with AppClient(resourceserver.app.create(chosen)) as server:
        answer = server.post(
            "/api/v1/ingest/app-sessions", json={"events": []}, headers=bearer(token)
        )

    assert answer.status_code == 200
    assert None not in last_uses(owner)


def test_a_refused_request_is_not_recorded(
    deployment: Settings, alice: Person, owner: Rows
) -> None:
    narrow = alice.token("read:music")
    expired = alice.token("read:profile", expires="-1 second")
    foreign = alice.token("read:profile", resource="http://elsewhere")
    unknown = tokens.mint(tokens.ACCESS, alice.user_id).text
    chosen = replace(deployment, base_url="http://testserver")

    with AppClient(resourceserver.app.create(chosen)) as server:
        statuses = [
            server.get("/api/v1/me", headers=bearer(token)).status_code
            for token in (narrow, expired, foreign, unknown)
        ]

    assert statuses == [403, 401, 401, 401]
    assert last_uses(owner) == [None, None, None]


def test_a_running_server_records_uses(deployment: Settings, alice: Person, owner: Rows) -> None:
    chosen = replace(deployment, base_url="http://testserver", jobs=True)
    app = resourceserver.app.create(chosen, note_uses_every=timedelta(milliseconds=50))

    with AppClient(app) as server:
        server.get("/api/v1/me", headers=alice.headers("read:profile"))
        wait_for(lambda: last_uses(owner) != [None], "the last use to be written")


def test_an_older_report_replaces_no_newer_one(
    deployment: Settings, alice: Person, owner: Rows
) -> None:
    token = token_of(alice)

    for used_at in (at(5, 59), at(4, 30), at(5, 10)):
        write(deployment, Usage({token.hash: (token.user_id, used_at)}))

    assert last_uses(owner) == [datetime(2026, 3, 1, 12, 5, tzinfo=UTC)]


def test_a_further_use_within_the_minute_writes_nothing(
    deployment: Settings, alice: Person, owner: Rows
) -> None:
    token = token_of(alice)
    versions = []

    for used_at in (at(5, 10), at(5, 59), at(6)):
        write(deployment, Usage({token.hash: (token.user_id, used_at)}))
        versions += owner.execute("select ctid::text from oauth.grant").fetchall()

    assert versions[0] == versions[1] != versions[2]


def test_the_newest_use_of_two_tokens_of_a_grant_counts(
    deployment: Settings, alice: Person, owner: Rows
) -> None:
    first = token_of(alice)
    second = tokens.mint(tokens.ACCESS, alice.user_id)
    owner.execute(
        "insert into oauth.access_token (user_id, token_hash, grant_id, scopes, last_four) "
        "select user_id, %s, grant_id, scopes, last_four from oauth.access_token",
        [second.hash],
    )

    write(
        deployment,
        Usage({first.hash: (first.user_id, at(9)), second.hash: (second.user_id, at(8))}),
    )

    assert last_uses(owner) == [datetime(2026, 3, 1, 12, 9, tzinfo=UTC)]


def test_unknown_tokens_are_skipped(
    deployment: Settings, alice: Person, bob: Person, owner: Rows
) -> None:
    token, gone = token_of(alice), token_of(bob)
    owner.execute("delete from identity.user where user_id = %s", [bob.user_id])
    recorded = Usage(
        {
            gone.hash: (gone.user_id, at(1)),
            # Alice's token under bob's name: the key is both.
            token.hash: (bob.user_id, at(2)),
        }
    )

    write(deployment, recorded)

    assert last_uses(owner) == [None]
    assert recorded.waiting == {}


def test_a_locked_grant_is_skipped_and_written_later(
    deployment: Settings, alice: Person, bob: Person, owner: Rows
) -> None:
    held, free = token_of(alice), token_of(bob)
    recorded = Usage({held.hash: (held.user_id, at(1)), free.hash: (free.user_id, at(2))})

    with owner.transaction():
        owner.execute(
            "select from oauth.grant where user_id = %s for no key update", [alice.user_id]
        )
        write(deployment, recorded)
        waiting = set(recorded.waiting)
    write(deployment, recorded)

    assert waiting == {held.hash}
    assert last_uses(owner) == [
        datetime(2026, 3, 1, 12, 1, tzinfo=UTC),
        datetime(2026, 3, 1, 12, 2, tzinfo=UTC),
    ]
    assert recorded.waiting == {}


def test_a_refresh_in_progress_does_not_block_the_write(
    deployment: Settings, alice: Person, owner: Rows
) -> None:
    token = token_of(alice)
    recorded = Usage({token.hash: (token.user_id, at(1))})

    with owner.transaction():
        owner.execute("select from oauth.grant for key share")
        write(deployment, recorded)

    assert last_uses(owner) == [datetime(2026, 3, 1, 12, 1, tzinfo=UTC)]


def test_a_use_during_the_write_is_written_later(deployment: Settings, alice: Person) -> None:
    token = token_of(alice)
    recorded = Usage({token.hash: (token.user_id, at(1))})

    async def use(workers: Pool) -> None:
        async with workers.connection() as worker:
            writing = asyncio.create_task(recorded.write(worker))
            await asyncio.sleep(0)
            recorded.note(token)
            await writing

    with_worker(deployment, use)

    assert set(recorded.waiting) == {token.hash}
    assert recorded.waiting[token.hash][1] > at(1)


def test_without_the_database_uses_wait_and_no_request_fails(
    deployment: Settings, alice: Person, owner: Rows
) -> None:
    nowhere = replace(deployment, role_urls={"worker": "host=127.0.0.1 port=1 dbname=svc"})
    token = token_of(alice)
    recorded = Usage({token.hash: (token.user_id, at(1))})

    with limits.short(), pytest.raises(psycopg.OperationalError):
        write(nowhere, recorded)
    waiting = dict(recorded.waiting)
    write(deployment, recorded)

    assert waiting == {token.hash: (token.user_id, at(1))}
    assert last_uses(owner) == [datetime(2026, 3, 1, 12, 1, tzinfo=UTC)]


def test_a_server_whose_worker_has_no_database_still_answers_and_ends(
    deployment: Settings,
    alice: Person,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Longer than the worker waits for its connection.
    monkeypatch.setattr(usage, "_LAST_WRITE_S", 20.0)
    monkeypatch.setattr(schema, "_LOG", schema.RateLimitedLog())
    chosen = replace(
        deployment,
        base_url="http://testserver",
        role_urls={"worker": "host=127.0.0.1 port=1 dbname=svc"},
    )

    with limits.short():
        app = resourceserver.app.create(chosen)
    with AppClient(app) as server:
        answer = server.get("/api/v1/me", headers=alice.headers("read:profile"))

    assert answer.status_code == 200
    assert "the database does not answer" in caplog.text
    assert "when tokens were used last" not in caplog.text


def test_memory_is_bounded_and_known_tokens_are_still_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(usage, "MOST", 2)
    first, second, third = (tokens.mint(tokens.ACCESS, tokens.NOBODY) for _ in range(3))
    recorded = Usage({first.hash: (tokens.NOBODY, at(1)), second.hash: (tokens.NOBODY, at(1))})

    recorded.note(third)
    recorded.note(first)

    assert set(recorded.waiting) == {first.hash, second.hash}
    assert recorded.waiting[first.hash][1] > at(1)


def test_uses_beyond_one_statement_are_all_written(
    deployment: Settings, alice: Person, owner: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "BATCH", 2)
    used = [token_of(alice) for _ in range(5)]

    write(deployment, Usage({token.hash: (token.user_id, at(3)) for token in used}))

    assert last_uses(owner) == [datetime(2026, 3, 1, 12, 3, tzinfo=UTC)] * 5


def test_the_worker_learns_no_token_by_recording_uses(connect_as: Connect, alice: Person) -> None:
    token = token_of(alice)

    answer = connect_as("worker").execute(
        "select * from svc.note_uses(%s, %s, array[now()], %s)",
        [[token.user_id], [token.hash], SCHEMA_VERSION],
    )

    assert answer.fetchall() == []


def test_an_outdated_server_still_raises_its_error(
    deployment: Settings, alice: Person, owner: Rows
) -> None:
    recorded = Usage()
    recorded.note(token_of(alice))
    (before,) = owner.execute("select oldest_code from svc.schema_version").fetchall()

    async def fail(workers: Pool) -> None:
        async with usage.written_at_the_end(recorded, workers):
            raise ValueError("of the block")

    owner.execute("update svc.schema_version set oldest_code = 9000")
    try:
        with pytest.raises(ValueError, match="of the block"):
            with_worker(deployment, fail)
    finally:
        owner.execute("update svc.schema_version set oldest_code = %s", before)
    assert recorded.waiting

"""Long reads on a real streaming replica: whether it is used, and that nobody can see that it is."""

import asyncio
import json
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

import resourceserver.app
from deploy.doctor import database as doctor
from deploy.doctor.deployment import Deployment
from deploy.migrate import migrate
from deploy.operators.imports import import_files
from deploy.postgres.embedded import EmbeddedPostgres
from resourceserver.api.session import Credential, Reader
from resourceserver.endpoints import ENDPOINTS
from resourceserver.worker import retention
from resourceserver.worker.turns import Outcome, Turn
from shared import database, pipeline, schema, tokens
from shared.pipeline import Pipelines, Step
from shared.pool import Pool
from shared.settings import Settings
from tests import limits, replica
from tests.client import AppClient
from tests.conftest import Person, for_tests, person
from tests.waiting import wait_for, wait_for_async

FAST: Final = {"fsync": "off", "full_page_writes": "off"}
INGEST: Final = "/api/v1/ingest/app-sessions"
USAGE: Final = "/api/v1/analytics/app-usage?from=2025-06-16T00:00:00Z&to=2025-06-17T00:00:00Z"
HOUR: Final = {
    "idempotency_key": "laptop:42",
    "started_at": "2025-06-16T09:00:00Z",
    "ended_at": "2025-06-16T10:00:00Z",
    "app": "Code",
}
SESSIONS: Final = "/api/v1/sessions/apps?from=2025-06-16T00:00:00Z&to=2025-06-17T00:00:00Z"
USAGE_STATEMENT: Final = next(
    each for each in ENDPOINTS if each.name == "app_usage"
).statement.text.decode()[:300]


@dataclass(frozen=True)
class Pair:
    """A primary, its replica, and the settings of a server that uses both."""

    primary: EmbeddedPostgres
    replica: EmbeddedPostgres
    chosen: Settings
    owner: psycopg.Connection[Any]

    def ask_replica(self, statement: str) -> Any:
        """Return the first value of a statement at the replica."""
        with closing(psycopg.connect(self.replica.url, autocommit=True)) as connection:
            cursor = connection.execute(statement)
            row = cursor.fetchone() if cursor.description else None
        return None if row is None else row[0]

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The replica does not change for the time of the block."""
        replica.catch_up(self.primary.url, self.replica.url)
        self.ask_replica("select pg_wal_replay_pause()")
        wait_for(
            lambda: self.ask_replica("select pg_get_wal_replay_pause_state()") == "paused",
            "the replay pauses",
        )
        try:
            yield
        finally:
            self.ask_replica("select pg_wal_replay_resume()")


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """Both servers, for all tests of this module; the last one promotes the replica."""
    settings = FAST | replica.STREAMED
    with replica.streaming(settings) as (primary, copy):
        directory = str(Path(primary.data_dir).parent)
        chosen = for_tests(primary.url, directory)
        migrate(chosen, lambda _: None)
        chosen = replace(
            chosen,
            base_url="http://testserver",
            reader_replica_url=replica.address(copy.url),
        )
        with closing(psycopg.connect(primary.url, autocommit=True)) as owner:
            pair = Pair(primary, copy, chosen, owner)
            pair.ask_replica("alter system set hot_standby_feedback = on")
            pair.ask_replica("select pg_reload_conf()")
            yield pair


@pytest.fixture
def alice(pair: Pair) -> Iterator[Person]:
    """A person with an account at the primary."""
    pair.owner.execute("delete from identity.user")
    yield person(pair.owner, "alice")
    pair.owner.execute("delete from identity.user")


def status(client: TestClient) -> str:
    """Return the state of the replica, as the server reports it."""
    answer = client.get("/healthz")
    assert answer.status_code == 200, answer.text
    ready = client.get("/readyz")
    assert ready.status_code == 200, ready.text
    reported: str = answer.json()["replica"]["status"]
    return reported


def wait_for_replica(client: TestClient) -> None:
    """Wait until the server uses the replica."""
    wait_for(lambda: status(client) == "ok", "the replica is used")


@pytest.fixture
def client(pair: Pair) -> Iterator[TestClient]:
    """A resource server that uses the replica."""
    with AppClient(resourceserver.app.create(pair.chosen)) as opened:
        wait_for_replica(opened)
        yield opened


def findings(pair: Pair) -> list[str]:
    """Return what the doctor says of the replica."""
    return [each.text for each in doctor.replica(Deployment(pair.chosen))]


def apps(client: TestClient, headers: dict[str, str]) -> list[str]:
    """Return the applications that a person has used, by a long read."""
    answer = client.get(USAGE, headers=headers)
    assert answer.status_code == 200, answer.text
    return [each["app"] for each in answer.json()["data"]]


def last_at(server: EmbeddedPostgres, statement: str) -> int:
    """Return how many connections of readers to the server have run this statement last."""
    with closing(psycopg.connect(server.url, autocommit=True)) as connection:
        row = connection.execute(
            "select count(*) from pg_stat_activity"
            " where application_name = 'svc reader' and starts_with(query, %s)",
            [statement],
        ).fetchone()
    assert row is not None
    count: int = row[0]
    return count


def test_long_reads_are_answered_by_the_replica_and_exports_by_the_primary(
    pair: Pair, client: TestClient, alice: Person
) -> None:
    headers = alice.headers()
    client.post(INGEST, json={"events": [HOUR]}, headers=headers)
    replica.catch_up(pair.primary.url, pair.replica.url)

    def read_there() -> bool:
        """Read again until the replica was quick enough; on a busy machine it is not each time."""
        assert apps(client, headers) == ["Code"]
        assert '"Code"' in client.get("/api/v1/export?format=ndjson", headers=headers).text
        return last_at(pair.replica, USAGE_STATEMENT) == 1

    wait_for(read_there, "the replica answers a long read")
    # An export ends with ROLLBACK. A lock in the replay would break one off that has begun at the replica.
    assert last_at(pair.replica, "ROLLBACK") == 0
    assert last_at(pair.primary, "ROLLBACK") == 1

    def measured() -> list[Any]:
        """Return the lag in milliseconds once it is known: a slow primary leaves it unknown for a while."""
        state = client.get("/healthz").json()["replica"]
        return [state["lag_ms"]] if state["status"] == "ok" and state["lag_ms"] is not None else []

    (lag_ms,) = wait_for(measured, "a look measures the lag")
    assert isinstance(lag_ms, int)
    # A look ends within seconds, so even a busy machine stays far below an hour. The time since 1970 is
    # longer, and so is usually the time since the machine was started.
    assert 0 <= lag_ms < 3_600_000


@pytest.mark.parametrize(
    ("uses_replica", "path", "trips"),
    [
        (False, "/api/v1/me", [2]),
        (True, "/api/v1/me", [2]),
        (False, USAGE, [2]),
        (True, USAGE, [2, 3]),
    ],
)
def test_only_a_long_read_takes_a_round_trip_more_and_only_with_a_replica(
    pair: Pair,
    alice: Person,
    monkeypatch: pytest.MonkeyPatch,
    uses_replica: bool,
    path: str,
    trips: list[int],
) -> None:
    headers = alice.headers()
    seen: list[int] = []
    run = Pipelines.run

    async def counted(self: Pipelines, steps: Sequence[Step], **options: Any) -> Any:
        if len(steps) > 1 and schema.STEP not in steps:
            # The watch sends either one statement, or the check of the schema with others.
            seen.append(len(steps))
        return await run(self, steps, **options)

    chosen = pair.chosen if uses_replica else replace(pair.chosen, reader_replica_url=None)
    with AppClient(resourceserver.app.create(chosen)) as client:
        if uses_replica:
            wait_for_replica(client)
        client.get(path, headers=headers)
        monkeypatch.setattr(Pipelines, "run", counted)
        # However long a busy machine takes.
        monkeypatch.setattr("shared.replica.WAIT_MS", 20_000)
        assert client.get(path, headers=headers).status_code == 200

    assert seen == trips


def test_a_batch_is_read_back_before_the_replica_has_it(
    pair: Pair, client: TestClient, alice: Person
) -> None:
    headers = alice.headers()
    with pair.paused():
        # Another process wrote it: this server has not seen the request.
        with AppClient(resourceserver.app.create(pair.chosen)) as other:
            assert other.post(INGEST, json={"events": [HOUR]}, headers=headers).status_code == 200

        seen = apps(client, headers)
        exported = client.get("/api/v1/export?format=ndjson", headers=headers)

        assert seen == ["Code"]
        assert '"Code"' in exported.text
        assert wait_for(lambda: status(client) == "behind", "the replica is behind")
        assert findings(pair) == [
            "the replica of SVC_READER_REPLICA_URL is not used: the server has not replayed the log so far"
        ]
    wait_for_replica(client)
    assert findings(pair) == ["the replica has what the primary has"]


@pytest.mark.parametrize(
    ("write", "path", "text"),
    [
        pytest.param(
            "insert into activity.goal (user_id, title, metric, comparison, target, period)"
            " values (%s, 'Deep work', 'tracked_ms', 'at_least', 3600000, 'day')",
            "/api/v1/goals",
            "Deep work",
            id="goal",
        ),
        pytest.param(
            "insert into activity.category_rule (user_id, priority, field, match, pattern, category)"
            " values (%s, 1, 'app', 'exact', 'code', 'Handicraft')",
            USAGE,
            "Handicraft",
            id="category rule",
        ),
        pytest.param(
            "update activity.device set display_name = 'Desk' where user_id = %s",
            "/api/v1/devices",
            "Desk",
            id="name of a device",
        ),
        pytest.param(
            "insert into profile.connection (user_id, kind, data, name, import_id)"
            " values (%s, 'owntracks', 'location', 'Pocket', gen_random_uuid())",
            "/api/v1/integrations",
            "Pocket",
            id="connection",
        ),
        pytest.param(
            "update identity.user set timezone = 'Asia/Tokyo' where user_id = %s",
            "/api/v1/me",
            "Asia/Tokyo",
            id="time zone",
        ),
        pytest.param(
            "update activity.app_session set app = 'Vim' where user_id = %s",
            SESSIONS,
            "Vim",
            id="session",
        ),
    ],
)
def test_what_a_person_changes_is_read_back_before_the_replica_has_it(
    pair: Pair, client: TestClient, alice: Person, write: str, path: str, text: str
) -> None:
    headers = alice.headers()
    assert client.post(INGEST, json={"events": [HOUR]}, headers=headers).status_code == 200
    before = client.get(path, headers=headers)
    wait_for_replica(client)
    with pair.paused():
        pair.owner.execute(write, [alice.user_id])
        after = client.get(path, headers=headers)

    assert (before.status_code, after.status_code) == (200, 200)
    assert (text in before.text, text in after.text) == (False, True)


LISTEN: Final = {
    "listened_at": 1750060800,
    "track_metadata": {"artist_name": "Nina Simone", "track_name": "Sinnerman"},
}
PLAYS: Final = "/api/v1/music/history?from=2025-06-16T00:00:00Z&to=2025-06-17T00:00:00Z"


def test_an_import_and_its_undoing_are_read_back_before_the_replica_has_them(
    pair: Pair, client: TestClient, alice: Person, tmp_path: Path
) -> None:
    headers = alice.headers()
    path = tmp_path / "listens.jsonl"
    path.write_text(json.dumps(LISTEN))

    def artists() -> list[str]:
        answer = client.get(PLAYS, headers=headers)
        assert answer.status_code == 200, answer.text
        return [each["artist"] for each in answer.json()["data"]]

    def bring(*words: str) -> str:
        done = CliRunner().invoke(import_files, words, obj=pair.chosen)
        assert done.exit_code == 0, done.output
        return done.stdout

    before = artists()
    with pair.paused():
        bring(str(path), f"--user={alice.email}")
        brought = artists()
        import_id = pair.owner.execute("select import_id from profile.import").fetchone()
        assert import_id is not None
        bring("--undo", str(import_id[0]))
        undone = artists()

    assert (before, brought, undone) == ([], ["Nina Simone"], [])


def test_what_a_worker_removes_is_gone_before_the_replica_has_removed_it(
    pair: Pair, client: TestClient, alice: Person
) -> None:
    headers = alice.headers()
    assert client.post(INGEST, json={"events": [HOUR]}, headers=headers).status_code == 200
    pair.owner.execute("delete from activity.rollup_due; delete from activity.summary_due")

    async def take_turn() -> Outcome:
        login = database.login(pair.chosen, "worker")
        async with Pool.to(login, size=1, is_patient=True, prepare=True) as workers:
            return await retention.handler(workers, 1)(Turn(alice.user_id, "retention", 1))

    def sessions() -> list[str]:
        answer = client.get(SESSIONS, headers=headers)
        assert answer.status_code == 200, answer.text
        return [each["app"] for each in answer.json()["data"]]

    asyncio.run(take_turn())
    pair.owner.execute("update activity.raw_limit set closed_at = now() - interval '1 day'")
    before = sessions()
    with pair.paused():
        outcome = asyncio.run(take_turn())
        after = sessions()

    assert outcome.log.endswith(" app_sessions=1 coding_sessions=0")
    assert (before, after) == (["Code"], [])


def test_a_revoked_or_narrowed_token_reads_nothing_while_the_replica_still_accepts_it(
    pair: Pair, client: TestClient, alice: Person
) -> None:
    revoked, narrowed, deleted = alice.headers(), alice.headers(), alice.headers()
    for headers in (revoked, narrowed, deleted):
        apps(client, headers)
    hash_of = {name: tokens_hash(headers) for name, headers in [("a", revoked), ("b", narrowed)]}

    with pair.paused():
        pair.owner.execute(
            "update oauth.grant set revoked_at = now() where grant_id ="
            " (select grant_id from oauth.access_token where token_hash = %s)",
            [hash_of["a"]],
        )
        pair.owner.execute(
            "update oauth.access_token set scopes = '{read:profile}' where token_hash = %s",
            [hash_of["b"]],
        )
        statuses = [client.get(USAGE, headers=each).status_code for each in (revoked, narrowed)]
        exports = [
            client.get("/api/v1/export", headers=each).status_code for each in (revoked, narrowed)
        ]
        before = client.get(USAGE, headers=deleted).status_code
        pair.owner.execute("select svc.end_account(%s, '::1', 'request')", [alice.user_id])
        after = client.get(USAGE, headers=deleted).status_code

    assert statuses == [401, 403]
    assert exports == [401, 403]
    assert (before, after) == (200, 401)


def tokens_hash(headers: dict[str, str]) -> bytes:
    """Return the stored hash of the token in these headers."""
    token = tokens.parse(tokens.ACCESS, headers["Authorization"].removeprefix("Bearer "))
    assert token is not None
    return token.hash


def test_no_read_fails_while_the_replica_is_killed_and_it_is_used_again_when_it_is_back(
    pair: Pair, client: TestClient, alice: Person
) -> None:
    headers = alice.headers()
    apps(client, headers)
    statuses: list[int] = []
    ends = threading.Event()

    def read() -> None:
        while not ends.is_set():
            statuses.append(client.get(USAGE, headers=headers).status_code)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for each in readers:
        each.start()
    process = pair.replica._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    wait_for(lambda: status(client) == "away", "the replica is away")
    count = len(statuses)
    wait_for(lambda: len(statuses) > count + 5, "more reads")
    process.wait()
    pair.replica.stop()
    pair.replica.start()
    wait_for_replica(client)
    ends.set()
    for each in readers:
        each.join()

    assert set(statuses) == {200}
    apps(client, headers)
    assert last_at(pair.replica, USAGE_STATEMENT) > 0


@contextmanager
def stopped(server: EmbeddedPostgres) -> Iterator[None]:
    """No process of the server runs for the time of the block; its connections stay open, and are silent."""
    process = server._process
    assert process is not None
    pids = [process.pid, *children(process.pid)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def children(parent: int) -> list[int]:
    """Return the processes that ``parent`` has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        # A process may end while the others are read.
        with suppress(OSError):
            _, _, after_name = path.read_text().rpartition(") ")
            if int(after_name.split()[1]) == parent:
                found.append(int(path.parent.name))
    return found


def test_a_replica_that_is_silent_costs_no_read(
    pair: Pair, client: TestClient, alice: Person
) -> None:
    headers = alice.headers()
    apps(client, headers)

    def status_of(_: int) -> int:
        return client.get(USAGE, headers=headers).status_code

    with ThreadPoolExecutor(4) as readers:
        with limits.short(), stopped(pair.replica):
            # They are sent to the replica, which has been well until now.
            waiting = readers.map(status_of, range(4))
            wait_for(lambda: status(client) == "away", "the replica is away")
            statuses = [*waiting, client.get(USAGE, headers=headers).status_code]
            exported = client.get("/api/v1/export", headers=headers).status_code
            reasons = findings(pair)
        wait_for_replica(client)

    assert statuses == [200, 200, 200, 200, 200]
    assert exported == 200
    assert len(reasons) == 1
    assert "the replica of SVC_READER_REPLICA_URL is not used" in reasons[0]
    assert findings(pair) == ["the replica has what the primary has"]


def test_a_silent_replica_is_noticed_while_the_primary_hangs(pair: Pair, alice: Person) -> None:
    assert asyncio.run(states_while_both_are_silent(pair)) == ["ok", "away", "ok"]


async def states_while_both_are_silent(pair: Pair) -> list[str]:
    """Return the states of the replica while the primary, then the replica too, and then none is silent."""
    reader = Reader.of(pair.chosen)

    async def becomes(wanted: str) -> str:
        await wait_for_async(lambda: reader.replica_state.status == wanted, f"it is {wanted}")
        return reader.replica_state.status

    try:
        async with reader.replica_watched():
            await becomes("ok")
            reader.quick.halt()
            # A look without the primary does not know how far the replica is behind.
            await wait_for_async(lambda: reader.replica_state.lag_ms is None, "a look")
            states: list[str] = [reader.replica_state.status]
            with stopped(pair.replica):
                states.append(await becomes("away"))
            reader.quick.resume()
            states.append(await becomes("ok"))
            return states
    finally:
        reader.close()


def test_a_read_that_the_replay_cancels_is_repeated_at_the_primary(
    pair: Pair, alice: Person
) -> None:
    answer = asyncio.run(read_until_canceled(pair, alice))

    assert answer.endswith(b"false")


async def read_until_canceled(pair: Pair, alice: Person) -> bytes:
    """Return the answer of a read that the replay of the log cancels at the replica."""
    pair.ask_replica("alter system set max_standby_streaming_delay = 0")
    pair.ask_replica("select pg_reload_conf()")
    # It holds a lock on the table for half a minute, but only at the replica.
    slow = pipeline.statement(
        "select (select count(*) from reference.category) || "
        "coalesce(pg_sleep(case when pg_is_in_recovery() then 30 else 0 end)::text, '')"
        " || pg_is_in_recovery()"
    )
    token = tokens.parse(tokens.ACCESS, alice.token())
    assert token is not None
    who = Credential(token, (), ("http://testserver",))
    reader = Reader.of(pair.chosen)
    try:
        async with reader.replica_watched():
            await wait_for_async(lambda: reader.replica_state.status == "ok", "the replica is used")
            reading = asyncio.create_task(reader.read(who, slow, {}, is_quick=False))
            await asyncio.to_thread(
                wait_for,
                lambda: pair.ask_replica(
                    "select count(*) from pg_stat_activity where wait_event = 'PgSleep'"
                    " and application_name = 'svc reader'"
                ),
                "the read sleeps",
            )
            await asyncio.to_thread(
                pair.owner.execute, "begin; lock table reference.category; commit"
            )
            return await reading
    finally:
        reader.close()
        pair.ask_replica("alter system reset max_standby_streaming_delay")
        pair.ask_replica("select pg_reload_conf()")


def test_the_doctor_says_that_the_replica_lets_the_primary_remove_rows(pair: Pair) -> None:
    pair.ask_replica("alter system set hot_standby_feedback = off")
    pair.ask_replica("select pg_reload_conf()")
    try:
        assert wait_for(
            lambda: [each for each in findings(pair) if "hot_standby_feedback" in each],
            "the doctor sees the setting",
        ) == [
            "hot_standby_feedback is off at the replica, so long reads may be canceled there, and are then"
            " repeated at the primary"
        ]
    finally:
        pair.ask_replica("alter system set hot_standby_feedback = on")
        pair.ask_replica("select pg_reload_conf()")


def test_a_replica_without_the_newest_functions_is_used_once_it_has_replayed_them(
    pair: Pair, client: TestClient, alice: Person
) -> None:
    headers = alice.headers()
    (definition,) = pair.owner.execute(
        "select pg_get_functiondef('svc.await_replay'::regproc)"
    ).fetchone() or ("",)
    # As before migration 47.
    pair.owner.execute("drop function svc.await_replay")
    wait_for(lambda: status(client) == "away", "the replica is away")
    with pair.paused():
        pair.owner.execute(definition)
        pair.owner.execute("revoke all on function svc.await_replay from public")
        pair.owner.execute("grant execute on function svc.await_replay to svc_reader")
        seen = apps(client, headers)
        before = status(client)

    wait_for_replica(client)
    assert (seen, before) == ([], "away")


@pytest.mark.parametrize(
    ("role", "waits"),
    [
        # Settings, goals, categories and connections.
        ("authserver", "on"),
        ("ingester", "on"),
        # It ends imports and pulls, and writes what a deletion leaves.
        ("worker", "on"),
        # It writes the batches of a running import. A receiver's session waits (test_connection_rows).
        ("importer", "off"),
    ],
)
def test_the_position_covers_what_a_role_has_committed(pair: Pair, role: str, waits: str) -> None:
    with closing(psycopg.connect(database.role_url(pair.chosen, role))) as connection:
        row = connection.execute("show synchronous_commit").fetchone()

    assert row == (waits,)


def test_a_server_is_used_only_as_a_replica_of_this_primary(pair: Pair, client: TestClient) -> None:
    row = pair.owner.execute("select cluster, timeline, log_end from svc.log_position()").fetchone()
    assert row is not None
    cluster, timeline, log_end = row
    refused = []
    with closing(psycopg.connect(pair.replica.url, autocommit=True)) as connection:
        for given in (
            (cluster + 1, timeline, log_end),
            (cluster, timeline + 1, log_end),
            (cluster, timeline, "FFFF/0"),
        ):
            with pytest.raises(psycopg.Error) as error:
                connection.execute("select svc.await_replay(%s, %s, %s, 1)", given)
            refused.append(error.value.sqlstate)
    with pytest.raises(psycopg.Error) as error:
        pair.owner.execute("select svc.await_replay(%s, %s, %s, 1)", row)
    refused.append(error.value.sqlstate)

    assert refused == ["57SV3", "57SV3", "57SV4", "57SV3"]
    assert status(client) == "ok"


def test_the_log_has_no_end_for_a_replica_where_its_last_record_may_be_cut(pair: Pair) -> None:
    pair.owner.execute("select pg_switch_wal()")

    switched = pair.owner.execute(
        "select cluster is not null, log_end from svc.log_position()"
    ).fetchone()
    pair.owner.execute("set synchronous_commit = off")
    risky = pair.owner.execute("select cluster, log_end from svc.log_position()").fetchone()
    pair.owner.execute("reset synchronous_commit")
    # The next commit ends the log with a whole record.
    pair.owner.execute("update svc.schema_version set version = version")

    assert switched == (True, None)
    assert risky == (None, None)


def test_a_promoted_replica_is_not_used_any_more(
    pair: Pair, client: TestClient, alice: Person, caplog: pytest.LogCaptureFixture
) -> None:
    headers = alice.headers()
    apps(client, headers)
    pair.ask_replica("select pg_promote()")
    pair.ask_replica("delete from oauth.access_token")
    seen = apps(client, headers)
    wait_for(lambda: status(client) == "away", "the replica is away")

    assert seen == []
    assert apps(client, headers) == []
    lines = [each.getMessage() for each in caplog.records if each.name == "svc.replica"]
    assert [line for line in lines if "not used" in line] == [
        "the replica of SVC_READER_REPLICA_URL is not used: all reads go to the primary"
        " (the server is not in recovery)"
    ]

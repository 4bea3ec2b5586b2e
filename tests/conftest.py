"""One Postgres a run, one template database, one clone a worker; and the people of the tests.

The server is the embedded one, or the one that TEST_DATABASE_URL names: a login that may create roles
and databases. No part of the service is replaced by a stand-in.
"""

import asyncio
import gc
import os
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import hypothesis
import psycopg
import psycopg.rows
import pytest
from psycopg import pq, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from starlette.testclient import TestClient

import resourceserver.app
from deploy.migrate import migrate
from deploy.postgres.embedded import EmbeddedPostgres
from resourceserver.timeline import rollups
from shared import database, tokens
from shared.scopes import SCOPES
from shared.settings import Settings, read_secrets
from tests import citus, copies, limits, pooler, replica
from tests.client import AppClient
from tests.workers import Original

# How many examples a property is tried with: by `make test`, by .ci/run once more, and by `make proof`, which
# draws others each time. The first two begin with the same ones, so a change fails for a reason of its own.
# Fixtures serve all examples of a test; those that write start from an account of their own.
for profile, examples in {"suite": 10, "bounded": 40, "proof": 5000}.items():
    hypothesis.settings.register_profile(
        profile,
        max_examples=examples,
        derandomize=profile != "proof",
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
    )
hypothesis.settings.load_profile("suite")

# Clients of tests, and of programs that they start, speak plain HTTP or have the certificate that they trust.
# Otherwise each client reads all certificates of the system, for 25 ms.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)

limits.lengthen()

TEMPLATE = f"svc_test_{os.getpid()}"
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
MOST_WORKERS: Final = 8


@dataclass
class Server:
    """The Postgres of this run and the template database on it, created at the first use."""

    directory: Path | None = None
    embedded: EmbeddedPostgres | None = None
    replica: EmbeddedPostgres | None = None
    """Its replica, if the run has one (tests/replica.py)."""
    url: str = ""

    def start(self) -> None:
        """Start the server, unless one is named, and create the template."""
        if self.directory is not None:
            return
        self.directory = Path(tempfile.mkdtemp(prefix="svc-test-"))
        # The embedded server runs as another account if the tests run as root.
        self.directory.chmod(0o755)
        self.url = os.environ.get("TEST_DATABASE_URL", "")
        if not self.url:
            # The servers and tests of one worker hold some thirty connections at once.
            settings = FAST | {"max_connections": f"{60 * MOST_WORKERS}"}
            settings |= replica.STREAMED if replica.IS_ON else {}
            self.embedded = EmbeddedPostgres(self.directory / "postgres", settings=settings)
            self.embedded.start()
            self.url = self.embedded.url
        self._administer(sql.SQL("create database {}"), TEMPLATE)
        migrate(
            Settings(
                database_url=make_conninfo(self.url, dbname=TEMPLATE),
                data_dir=self.directory / "deployment",
            ),
            lambda _: None,
        )
        with psycopg.connect(self.url, dbname=TEMPLATE, autocommit=True) as connection:
            # Tests count the applications. Those about the dashboard store it again.
            connection.execute("delete from oauth.client")
        if replica.IS_ON:
            assert self.embedded is not None, "only the embedded server gets a replica"
            self.replica = replica.copy(self.embedded, self.directory / "replica", settings)

    @property
    def whereabouts(self) -> tuple[str, str, str, str]:
        """What a worker needs to know: the server, the template, the directory, and the replica if any."""
        replica = "" if self.replica is None else self.replica.url
        return self.url, TEMPLATE, str(self.directory), replica

    def stop(self) -> None:
        """Stop the server and remove its directory."""
        if self.directory is None:
            return
        if self.replica is not None:
            self.replica.stop()
        if self.embedded is not None:
            self.embedded.stop()
        else:
            self._administer(sql.SQL("drop database if exists {} with (force)"), TEMPLATE)
        shutil.rmtree(self.directory)

    def _administer(self, statement: sql.SQL, name: str) -> None:
        administer(self.url, statement, name)


def administer(url: str, statement: sql.SQL, *names: str) -> None:
    """Run a statement about whole databases."""
    with closing(psycopg.connect(url, dbname="postgres", autocommit=True)) as connection:
        connection.execute(statement.format(*map(sql.Identifier, names)))


SERVER = Server()


class WorkerSetup:
    """Starts the server and the workers of a parallel run, and tells each worker where the server is."""

    def __init__(self) -> None:
        self.original: Original | None = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_setupnodes(self, config: pytest.Config, specs: Any) -> None:
        """Start the server while the process that is copied for each worker imports the tests."""
        if copies.ARE_POSSIBLE:
            self.original = Original(config.invocation_params.args)
            for spec in specs:
                spec.python = self.original.program
        SERVER.start()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Hand over where the server is."""
        node.workerinput["server"] = SERVER.whereabouts

    def pytest_unconfigure(self) -> None:
        """End the process that was copied."""
        if self.original is not None:
            self.original.end()


def pytest_xdist_auto_num_workers() -> int:
    """Use two workers more than there are cores: tests also wait for servers, browsers and locks."""
    return min((os.cpu_count() or 1) + 2, MOST_WORKERS)


def pytest_configure(config: pytest.Config) -> None:
    """Register the hand-over, which only parallel runs have, and end in order after a signal."""
    # Nothing of what is collected becomes garbage, so looking for it takes a tenth of the time for nothing.
    gc.disable()
    config.pluginmanager.register(WorkerSetup())
    # In the background of a script SIGINT is ignored, and after nohup SIGHUP. Each program of a test would
    # inherit that, but not a handler.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
    if not hasattr(config, "workerinput"):
        signal.signal(signal.SIGTERM, partial(interrupt, config))


LONGEST_FIRST: Final = (
    "test_suite.py",
    "deploy/test_up.py",
    "people/test_throttle.py",
    "faults/test_export.py",
    "deploy",
    "browser",
    "bridge",
    "sql/test_plans.py",
    "endpoints/test_any_story.py",
    "faults",
    "timeline",
    "mcp",
    "endpoints",
    "oauth",
    "people",
)
"""Folders and files that take long, and all others after them: the last file of a run should be short."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put files that take long first, so that no worker waits for another at the end.

    Tests that take more than 20 s run in ``make proof`` alone, those about single connections without a
    pooler, and those that count round trips without a replica.
    """
    if config.getoption("--hypothesis-profile") not in ("bounded", "proof"):
        long = [item for item in items if item.get_closest_marker("long") is not None]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]
    for marker, is_left_out in (("direct", pooler.IS_ON), ("single", replica.IS_ON)):
        if is_left_out:
            marked = [item for item in items if item.get_closest_marker(marker) is not None]
            config.hook.pytest_deselected(items=marked)
            items[:] = [item for item in items if item not in marked]

    def rank(item: pytest.Item) -> int:
        ranks = (
            place
            for place, name in enumerate(LONGEST_FIRST)
            if item.nodeid.startswith(f"tests/{name}")
        )
        return min(ranks, default=len(LONGEST_FIRST))

    items.sort(key=rank)


def pytest_collection_finish() -> None:
    """Leave what was collected, which stays to the end, out of all garbage collections.

    Looking for garbage first would take half a second and find little.
    """
    gc.freeze()
    gc.enable()


def interrupt(config: pytest.Config, *_: object) -> None:
    """End the run as Ctrl-C does: by itself, SIGTERM would leave the server and its directory behind."""
    # Python swallows an exception where nobody can catch it, as in a destructor. Then these end the run.
    for name in ("session", "dsession"):
        if (running := config.pluginmanager.get_plugin(name)) is not None:
            running.shouldstop = "SIGTERM"
    raise KeyboardInterrupt


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how often each counted event has happened: cuts, and other faults that were survived."""
    counts = Counter[str]()
    for report in terminalreporter.stats.get("passed", []):
        counts.update(dict(report.user_properties) if report.when == "call" else {})
    for what, count in sorted(counts.items()):
        terminalreporter.write_line(f"SURVIVED {count} {what}")


def pytest_unconfigure() -> None:
    """Stop the server if this process started it."""
    SERVER.stop()


@pytest.fixture(scope="session")
def deployment(request: pytest.FixtureRequest) -> Iterator[Settings]:
    """The settings of this worker's own deployment."""
    cluster = os.environ.get("SVC_TEST_CITUS_URL")
    if cluster:
        with tempfile.TemporaryDirectory(prefix="svc-test-") as directory:
            yield citus.prepared(for_tests(cluster, directory))
        return
    with cloned(request.config, os.environ.get("PYTEST_XDIST_WORKER", "main")) as settings:
        yield settings


@contextmanager
def cloned(config: pytest.Config, name: str) -> Iterator[Settings]:
    """A deployment for the time of a block: a clone of the template, migrated."""
    handed_over = getattr(config, "workerinput", {}).get("server")
    if handed_over is None:
        SERVER.start()
        handed_over = SERVER.whereabouts
    url, template, directory, replica_url = handed_over
    clone = f"{template}_{name}"
    administer(url, sql.SQL("create database {} template {}"), clone, template)
    chosen = for_tests(make_conninfo(url, dbname=clone), directory)
    if replica_url:
        chosen = replace(chosen, reader_replica_url=replica.address(replica_url))
    try:
        if pooler.IS_ON:
            with _pooled(chosen) as behind_a_pooler:
                yield behind_a_pooler
        else:
            yield chosen
    finally:
        drop(url, clone)


def for_tests(url: str, directory: str) -> Settings:
    """Return the settings of a deployment with the database ``url``."""
    return Settings(
        database_url=url,
        data_dir=Path(directory) / "deployment",
        # Background jobs are off: tests of jobs run them, or switch them on.
        jobs=False,
        commit="abc1234",
        dashboard_key="the long key of the cookies of tests",
    )


@contextmanager
def _pooled(chosen: Settings) -> Iterator[Settings]:
    """The same deployment, whose servers' roles log in through a pooler."""
    secrets = read_secrets(chosen.data_dir).passwords
    logins = {role: f"svc_{role}" for role in secrets}
    url = chosen.database_url or ""
    name = str(conninfo_to_dict(url)["dbname"])
    with pooler.pooler(url, {logins[role]: secrets[role] for role in secrets}) as address:
        role_urls = {
            role: make_conninfo(address, user=login, dbname=name) for role, login in logins.items()
        }
        yield replace(chosen, role_urls=role_urls)


def drop(url: str, name: str) -> None:
    """Drop a database of which the servers' connections are closed by now.

    Without force, which a login that is not a superuser may not use on them. Postgres waits five seconds for
    the last one to close; a statement whose client is gone may run until its own limit of twenty.
    """
    for _ in range(6):
        with suppress(psycopg.errors.ObjectInUse):
            administer(url, sql.SQL("drop database {}"), name)
            return
    administer(url, sql.SQL("drop database {}"), name)


@dataclass
class Owner:
    """One connection of the tables' owner for many tests, and another that deletes all that a test has made.

    Connecting takes longer than most tests, so both are kept, and the tests' is reset before each test.
    """

    url: str
    kept: psycopg.Connection[Any] | None = None
    deleting: psycopg.Connection[Any] | None = None

    def connection(self) -> psycopg.Connection[Any]:
        """Return the connection outside of any transaction and without settings of its own."""
        if self.kept is not None and not self.kept.closed:
            with suppress(psycopg.OperationalError):
                _reset(self.kept)
                return self.kept
        self.close()
        # Tests alter tables, so a prepared statement could be outdated.
        self.kept = psycopg.connect(self.url, autocommit=True, prepare_threshold=None)
        return self.kept

    def delete_everything(self) -> None:
        """Delete all people and their data, and the rows about strangers."""
        # A transaction that the test has left open would keep its locks.
        self.connection()
        if self.deleting is not None:
            try:
                self.deleting.execute("select pg_temp.delete_everything()")
                return
            except psycopg.OperationalError:
                # Tests may end the connections of a role.
                if not self.deleting.closed:
                    raise
        self.deleting = psycopg.connect(self.url, autocommit=True, prepare_threshold=None)
        # Data of people does not refer to the account (sql/migrations/0011_account.sql).
        tables = self.deleting.execute("select svc.tables_of_people()::text").fetchall()
        of_people = ["identity.user", *(name for (name,) in tables)]
        statements = "".join(
            f"delete from {name}; "  # noqa: S608 -- a name from the catalogue
            for name in (*of_people, *_OTHERS)
        )
        # Most of what the statements cost is their planning, and the function keeps their plans.
        self.deleting.execute(
            "create function pg_temp.delete_everything() returns void language plpgsql"
            f" as $$ begin {statements} end $$"
        )
        self.deleting.execute("select pg_temp.delete_everything()")

    def close(self) -> None:
        """Close the connections that there are."""
        for connection in (self.kept, self.deleting):
            if connection is not None:
                connection.close()


_OTHERS: Final = (
    "profile.organization",
    "identity.departed_user",
    "oauth.client",
    "identity.invitation",
    "identity.provider_sign_in",
    "identity.provider_logout",
    "identity.security_event",
    "identity.throttle",
    "svc.upload_directory",
)


def _reset(connection: psycopg.Connection[Any]) -> None:
    if connection.info.transaction_status != pq.TransactionStatus.IDLE:
        connection.rollback()
    connection.autocommit = True
    connection.row_factory = psycopg.rows.tuple_row
    connection.execute("reset all; reset role; select pg_advisory_unlock_all(); discard temp")


@pytest.fixture(scope="session")
def kept_owner(deployment: Settings) -> Iterator[Owner]:
    """The owner of this worker's database."""
    with closing(Owner(deployment.database_url or "")) as kept:
        yield kept


@pytest.fixture(scope="session")
def kept_for_rollbacks(deployment: Settings) -> Iterator[Owner]:
    """The same with another connection, whose transactions are never committed."""
    with closing(Owner(deployment.database_url or "")) as kept:
        yield kept


@pytest.fixture
def db(kept_for_rollbacks: Owner) -> Iterator[psycopg.Connection[Any]]:
    """A connection of the owner whose transaction is rolled back."""
    connection = kept_for_rollbacks.connection()
    # A rollback leaves prepared statements.
    connection.execute("discard all")
    connection.autocommit = False
    yield connection
    connection.rollback()


@pytest.fixture
def owner(kept_owner: Owner) -> Iterator[psycopg.Connection[Any]]:
    """A connection of the owner that commits; all rows of the test are deleted after it."""
    yield kept_owner.connection()
    kept_owner.delete_everything()


@contextmanager
def owning(deployment: Settings) -> Iterator[psycopg.Connection[Any]]:
    """The same until the end of the block, for fixtures that last longer than a test."""
    with closing(Owner(deployment.database_url or "")) as kept:
        yield kept.connection()
        kept.delete_everything()


Connect = Callable[[str], psycopg.Connection[Any]]


@pytest.fixture
def connect_as(deployment: Settings) -> Iterator[Connect]:
    """Opens connections as one of the servers' roles, as the servers themselves do."""
    opened: list[psycopg.Connection[Any]] = []

    def connect(role: str) -> psycopg.Connection[Any]:
        connection = psycopg.connect(database.role_url(deployment, role), autocommit=True)
        database.prepare_nothing_if_pooled(connection)
        opened.append(connection)
        return connection

    yield connect
    for connection in opened:
        connection.close()


@pytest.fixture
def ending_as(kept_owner: Owner, connect_as: Connect) -> Connect:
    """Opens connections that may end those of a role.

    A role may end its own, even if the login of the tests may not; on the embedded server it is the other way
    round.
    """

    def connect(role: str) -> psycopg.Connection[Any]:
        owner = kept_owner.connection()
        row = owner.execute("select current_setting('svc.is_embedded', true)").fetchone()
        return owner if row == ("on",) else connect_as(role)

    return connect


def assign(
    connection: psycopg.Connection[Any], name: str, value: str, *, is_local: bool = True
) -> None:
    """Set a parameter by a statement; the servers' roles may not call set_config."""
    connection.execute(
        sql.SQL("set {} {} = {}").format(
            sql.SQL("local" if is_local else "session"),
            sql.Identifier(*name.split(".")),
            sql.Literal(value),
        )
    )


@dataclass(frozen=True)
class Person:
    """A person with an account, who can create tokens."""

    user_id: UUID
    email: str
    connection: psycopg.Connection[Any] = field(repr=False)

    def token(self, *scopes: str, resource: str | None = None, expires: str | None = None) -> str:
        """Return the text of a new API token; ``expires`` is an interval from now."""
        token = tokens.mint(tokens.ACCESS, self.user_id)
        granted = list(scopes or SCOPES)
        self.connection.execute(
            """
            with made as (
                insert into oauth.grant (user_id, name, scopes, resource)
                values (%(user_id)s, 'test', %(scopes)s, %(resource)s)
                returning user_id, grant_id
            )
            insert into oauth.access_token (user_id, token_hash, grant_id, scopes, last_four, expires_at)
            select user_id, %(hash)s, grant_id, %(scopes)s, %(last_four)s, now() + %(expires)s::interval
              from made
            """,
            {
                "user_id": self.user_id,
                "hash": token.hash,
                "scopes": granted,
                "resource": resource,
                "last_four": token.last_four,
                "expires": expires,
            },
        )
        return token.text

    def headers(self, *scopes: str) -> dict[str, str]:
        """Return the headers of a request with a new token."""
        return {"Authorization": f"Bearer {self.token(*scopes)}"}


def person(connection: psycopg.Connection[Any], name: str) -> Person:
    """Create an account."""
    email = f"{name}@example.org"
    row = connection.execute(
        "insert into identity.user (email) values (%s) returning user_id", [email]
    ).fetchone()
    assert row is not None
    return Person(row[0], email, connection)


@pytest.fixture
def alice(owner: psycopg.Connection[Any]) -> Person:
    """A normal user."""
    return person(owner, "alice")


@pytest.fixture
def bob(owner: psycopg.Connection[Any]) -> Person:
    """Another user, who must never see anything of alice's."""
    return person(owner, "bob")


@pytest.fixture(scope="session")
def resource_client(deployment: Settings) -> Iterator[TestClient]:
    """The resource server, called without a network but with everything else."""
    chosen = replace(deployment, base_url="http://testserver")
    with AppClient(resourceserver.app.create(chosen), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def short_wait() -> Iterator[None]:
    """Let servers soon give up a database that does not answer (tests/limits.py)."""
    with limits.short():
        yield


@pytest.fixture
def api(resource_client: TestClient, owner: psycopg.Connection[Any]) -> TestClient:
    """The resource server on data that is committed, and gone after the test."""
    assert not owner.closed
    return resource_client


MakeRollups = Callable[[], int]


@dataclass
class RollupWorker:
    """One connection that makes rollups for many tests: with its statements prepared, it takes a quarter."""

    url: str
    runner: asyncio.Runner
    kept: psycopg.AsyncConnection[Any] | None = None

    def make_due(self) -> int:
        """Make the rollups of all marked days; return how many days those were."""
        return self.runner.run(self._make_due())

    async def _make_due(self) -> int:
        return await rollups.make_due(await self._connection(), quiet=timedelta(0))

    async def _connection(self) -> psycopg.AsyncConnection[Any]:
        if self.kept is not None:
            # Tests may end the connections of a role.
            with suppress(psycopg.OperationalError):
                await self.kept.execute("")
                return self.kept
            await self.kept.close()
        self.kept = await psycopg.AsyncConnection.connect(
            self.url, autocommit=True, prepare_threshold=None if pooler.IS_ON else 0
        )
        return self.kept

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self.kept is not None:
            self.runner.run(self.kept.close())


@pytest.fixture(scope="session")
def rollup_worker(deployment: Settings) -> Iterator[RollupWorker]:
    """The connection by which tests make rollups."""
    with asyncio.Runner() as runner:
        # Tests count the connections that servers have open, by the name of their application.
        login = make_conninfo(database.login(deployment, "worker"), application_name="tests")
        worker = RollupWorker(login, runner)
        yield worker
        worker.close()


@pytest.fixture
def make_rollups(rollup_worker: RollupWorker) -> MakeRollups:
    """Rolls up everybody's marked days at once, however long they have been quiet, and returns their number.

    Ingest marks days; tests that write sessions in SQL call ``mark_all_days``.
    """
    return rollup_worker.make_due


def mark_all_days(owner: psycopg.Connection[Any]) -> None:
    """Mark all days of everybody, as every writer of sessions must."""
    owner.execute("select svc.mark_all_days(user_id) from identity.user order by user_id")

"""Brings roles and schema up to date: what ``svc migrate`` does, and ``svc up`` before its servers start.

There are two kinds of files. The numbered files in ``sql/migrations/`` define tables; each runs once and
never changes again. The standing files (views, session, policies and so on) define everything else; one
runs again when its text differs from the text that ran last.

Each migration is one transaction, and the standing files together are the last one. So when a run is
interrupted, the next run continues where it stopped. Any number may run at once: each transaction takes a
lock first, and then reads which files have been applied.

The last transaction also stores the dashboard as an application of the authorization server. Its only
redirect URI follows from SVC_BASE_URL, so a changed address needs a run.

Servers may run meanwhile. A statement that needs a lock which a reader or writer holds waits 1 s for it at
most, because others queue behind it. Then the transaction is rolled back, and tried again after a pause.

A connection pooler is refused: it could give a connection to another client between two transactions, and it
ends what takes long.
"""

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import IsolationLevel
from psycopg.conninfo import make_conninfo
from psycopg.errors import DeadlockDetected, LockNotAvailable

from shared import dashboard, database, queries, settings
from shared.settings import Settings

SQL_DIR: Final = Path(__file__).parent.parent / "sql"
OLDEST_SERVER: Final = 150000
"""PostgreSQL 15, as ``server_version_num`` counts."""
PAUSES_S: Final = (1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 30.0, 30.0, 30.0)
"""Pauses between attempts to get a lock."""

# Files in the order of their dependencies: policies name functions and tables, grants name everything.
_GRANTS: Final = "grants.sql"
_STANDING: Final = (
    *("views.sql", "functions/versions.sql", "session.sql", "functions/replica.sql"),
    "functions/formats.sql",
    *("functions/imports.sql", "policies.sql", "functions/retention.sql", "functions/deletion.sql"),
    *("functions/usage.sql", "functions/summaries.sql", "functions/rollups.sql"),
    *("functions/turns.sql", "functions/derived.sql", "functions/sign_ins.sql"),
    "functions/categories.sql",
    *("functions/uploads.sql", "functions/devices.sql", "functions/import_list.sql"),
    *("functions/connections.sql", "functions/calendar_pull.sql", "functions/undo.sql"),
    *("functions/health_messages.sql", "functions/goals.sql", "functions/beats.sql"),
    *("functions/provider.sql", "functions/export_rows.sql", _GRANTS),
)
_EMBEDDED_SERVER: Final = SQL_DIR / "embedded" / "server.sql"
_EMBEDDED_DATABASE: Final = SQL_DIR / "embedded" / "database.sql"
_FIRST_VERSION: Final = 19
"""The first migration whose file says which versions of the code can use the schema after it."""
_USABLE: Final = re.compile(r"-- Usable from version (\d+) on\.\n")
_STATEMENTS: Final = queries.load(SQL_DIR / "migrate.sql")

Connection = psycopg.Connection[tuple[Any, ...]]


class MigrationError(Exception):
    """A database that cannot be brought up to date; the message is one line that says why."""


def migrate(
    chosen: Settings,
    say: Callable[[str], None],
    *,
    directory: Path = SQL_DIR,
    pauses_s: Sequence[float] = PAUSES_S,
) -> None:
    """Bring roles, passwords and schema at ``chosen.database_url`` up to date; ``say`` reports each step.

    The files are those of ``directory``; ``pauses_s`` are the pauses between attempts to get a lock.
    Raises MigrationError where the server cannot be reached, is too old or refuses, SettingsError where the
    generated passwords cannot be stored.
    """
    if chosen.database_url is None:
        raise MigrationError("DATABASE_URL is not set, and no embedded PostgreSQL is running")
    generated = settings.make_secrets(chosen.data_dir)
    try:
        _make_roles(chosen, chosen.database_url, generated.passwords)
        with _connected(chosen.database_url) as connection:
            _Migrator(connection, say, directory, pauses_s, chosen.base_url).run()
    except psycopg.Error as error:
        raise MigrationError(f"the database cannot be prepared: {_one_line(error)}") from error


def make_roles(chosen: Settings) -> None:
    """Create the roles that are missing, and let their owner create objects in the database at
    ``chosen.database_url``: all that a dump needs before it is restored.

    Raises MigrationError, psycopg.Error, SettingsError as ``migrate`` does.
    """
    if chosen.database_url is None:
        raise MigrationError("DATABASE_URL is not set, and no embedded PostgreSQL is running")
    generated = settings.make_secrets(chosen.data_dir)
    _make_roles(chosen, chosen.database_url, generated.passwords)
    with _connected(chosen.database_url) as database:
        database.execute(_STATEMENTS["grant_owner_access"])


def _is_embedded(connection: Connection) -> bool:
    """Whether the server is embedded, so that rights can be revoked from everybody without harming other
    programs."""
    row = connection.execute(_STATEMENTS["is_embedded"]).fetchone()
    return row is not None and bool(row[0])


@contextmanager
def _connected(url: str) -> Iterator[Connection]:
    """A connection for one block. Raises MigrationError for one that leads to a pooler."""
    with closing(psycopg.connect(url, autocommit=True, prepare_threshold=None)) as connection:
        if database.is_pooled(connection):
            raise MigrationError(database.POOLED)
        # The list of applied files is read after the wait for the lock, and must then be current.
        connection.isolation_level = IsolationLevel.READ_COMMITTED
        yield connection


def _make_roles(chosen: Settings, url: str, passwords: Mapping[str, str]) -> None:
    with _connected(make_conninfo(url, dbname="postgres")) as server:
        row = server.execute(_STATEMENTS["server_version"]).fetchone()
        if row is None or row[0] < OLDEST_SERVER:
            raise MigrationError("PostgreSQL 15 or newer is needed")
        with server.transaction():
            server.execute(_STATEMENTS["lock_cluster"])
            server.execute((SQL_DIR / "roles.sql").read_text(encoding="utf-8"))
            if _is_embedded(server):
                server.execute(_EMBEDDED_SERVER.read_text(encoding="utf-8"))
            for role, password in passwords.items():
                if role not in chosen.role_urls:
                    # libpq sends the SCRAM verifier, so that no server log contains the password.
                    server.pgconn.change_password(f"svc_{role}".encode(), password.encode())


@dataclass
class _Migrator:
    """Applies the files of ``directory`` that have not been applied in their current form."""

    database: Connection
    say: Callable[[str], None]
    directory: Path
    pauses_s: Sequence[float]
    base_url: str
    said: set[str] = field(default_factory=set)

    def run(self) -> None:
        """Apply everything. Raises MigrationError and psycopg.Error."""
        self._retry_on_lock(self._prepare)
        migrations = sorted((self.directory / "migrations").glob("[0-9]*.sql"))
        for _ in migrations:
            if not self._retry_on_lock(lambda: self._migrate(migrations)):
                break
        self._retry_on_lock(lambda: self._renew(migrations))
        with self._transaction():
            for (zone,) in self.database.execute(_STATEMENTS["wrong_zones"]).fetchall():
                self.say(f"warning: the server's time zone data is wrong or too old for {zone}")

    def _retry_on_lock(self, work: Callable[[], bool]) -> bool:
        """Return the result of ``work``, tried again when it did not get a lock in time.

        Raises MigrationError when the last attempt fails too.
        """
        for pause_s in self.pauses_s:
            try:
                return work()
            except (LockNotAvailable, DeadlockDetected) as error:
                self.say(
                    f"waiting for a lock that another session holds; trying again in {pause_s:.0f} s "
                    f"({_one_line(error)})"
                )
            time.sleep(pause_s)
        try:
            return work()
        except (LockNotAvailable, DeadlockDetected) as error:
            raise MigrationError(
                "another session holds a lock that is needed, and has not released it: run 'svc migrate' "
                f"again when long queries and exports have ended ({_one_line(error)})"
            ) from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """A transaction of the owner that alone may change the schema."""
        with self.database.transaction():
            self._lock()
            self.database.execute(_STATEMENTS["become_owner"])
            yield

    def _lock(self) -> None:
        if not self._value("try_lock_schema"):
            self._say_once("another 'svc migrate' is running on this database; waiting for it")
            self.database.execute(_STATEMENTS["lock_schema"])
        self.database.execute(_STATEMENTS["limit_waiting"])

    def _prepare(self) -> bool:
        """Grant the owner its rights and create the ledger."""
        with self.database.transaction():
            self._lock()
            self.database.execute(_STATEMENTS["grant_owner_access"])
            if _is_embedded(self.database):
                self.database.execute(_EMBEDDED_DATABASE.read_text(encoding="utf-8"))
            self.database.execute(_STATEMENTS["become_owner"])
            self.database.execute(_STATEMENTS["prepare_ledger"])
        return True

    def _migrate(self, migrations: Sequence[Path]) -> bool:
        """Apply the next migration; return False when all have been applied."""
        with self._transaction():
            pending = _pending(migrations, self._applied())
            if pending:
                self._raise_oldest_code(_oldest_code(pending[0]))
                self._apply(pending[0], pending[0].read_text(encoding="utf-8"))
        return bool(pending)

    def _raise_oldest_code(self, oldest_code: int) -> None:
        """Refuse servers of an earlier version, before the migration changes what they rely on."""
        if oldest_code > _FIRST_VERSION and oldest_code > self._value("oldest_code"):
            self.database.execute(_STATEMENTS["lock_schema_version"])
            self.database.execute(_STATEMENTS["raise_oldest_code"], {"oldest_code": oldest_code})

    def _renew(self, migrations: Sequence[Path]) -> bool:
        """Apply the standing files that have changed, all or none; return False when none has changed."""
        with self._transaction():
            applied = self._applied()
            if _pending(migrations, applied):
                raise MigrationError("another run has changed the schema: run 'svc migrate' again")
            standing = {
                self.directory / name: queries.written_out(self.directory / name)
                for name in _STANDING
            }
            changed = [
                path for path, text in standing.items() if applied.get(path.name) != _digest(text)
            ]
            # A recreated function has no grants, so grants.sql must run in the same transaction.
            if changed and changed[-1].name != _GRANTS:
                changed.append(self.directory / _GRANTS)
            for path in changed:
                self._apply(path, standing[path])
            self.database.execute(
                _STATEMENTS["record_version"], {"version": version_of(migrations[-1])}
            )
            self.database.execute(
                _STATEMENTS["store_dashboard"],
                {
                    "client_id": dashboard.DASHBOARD_CLIENT_ID,
                    "client_name": dashboard.CLIENT_NAME,
                    "redirect_uri": dashboard.redirect_uri(self.base_url),
                },
            )
        return bool(changed)

    def _apply(self, path: Path, text: str) -> None:
        self._say_once(f"applying {path.name}")
        try:
            self.database.execute(text.encode())
        except psycopg.Error as error:
            error.add_note(f"sql/{path.relative_to(self.directory)}")
            raise
        self.database.execute(
            _STATEMENTS["record_file"], {"name": path.name, "digest": _digest(text)}
        )

    def _applied(self) -> dict[str, str]:
        return dict(self.database.execute(_STATEMENTS["applied_files"]).fetchall())

    def _value(self, statement: str) -> Any:
        row = self.database.execute(_STATEMENTS[statement]).fetchone()
        return None if row is None else row[0]

    def _say_once(self, line: str) -> None:
        if line not in self.said:
            self.said.add(line)
            self.say(line)


def _pending(migrations: Sequence[Path], applied: Mapping[str, str]) -> list[Path]:
    """Return the migrations that have not been applied.

    Raises MigrationError for a schema that is newer than this code, or that other files have created.
    """
    # The ledger has only the names of standing files, so that they may move to another folder.
    known = {path.name for path in migrations} | {Path(name).name for name in _STANDING}
    newer = sorted(applied.keys() - known)
    if newer:
        raise MigrationError(f"the database is newer than this program: it has {newer[0]}")
    pending: list[Path] = []
    for path in migrations:
        if path.name not in applied:
            pending.append(path)
        elif pending:
            raise MigrationError(
                f"sql/migrations/{pending[0].name} must run before {path.name}, which was applied"
            )
        elif applied[path.name] != _digest(path.read_text(encoding="utf-8")):
            raise MigrationError(f"sql/migrations/{path.name} was changed after it was applied")
    return pending


def version_of(migration: Path) -> int:
    """Return the number in the name of a migration. Raises MigrationError if it has none."""
    found = re.match(r"\d{4}(?=_)", migration.name)
    if found is None:
        raise MigrationError(f"sql/migrations/{migration.name} has no number of four digits")
    return int(found[0])


def _oldest_code(migration: Path) -> int:
    """Return the oldest version of the code that can use the schema after a migration.

    Raises MigrationError where the file does not state it, or states a version later than its own.
    """
    own = version_of(migration)
    if own < _FIRST_VERSION:
        return 0
    found = _USABLE.match(migration.read_text(encoding="utf-8"))
    if found is None or int(found[1]) > own:
        raise MigrationError(
            f"sql/migrations/{migration.name} must begin with '-- Usable from version N on.', where N is "
            f"at most {own}"
        )
    return int(found[1])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _one_line(error: psycopg.Error) -> str:
    said = " ".join(str(error).split()) or type(error).__name__
    return ": ".join([*getattr(error, "__notes__", ()), said])

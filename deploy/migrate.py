"""Brings roles and schema up to date: what ``svc migrate`` does, and each start before its servers.

Two kinds of files: ``sql/migrations/`` hold tables, are numbered, run once and never change again;
the others (session, formats, policies, retention, deletion, usage, summaries, rollups,
categories, grants) say what holds now and run again whenever their text differs from what ran last.
All of it is under a lock, so any number of servers may start at once.
"""

import hashlib
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

import psycopg

from shared import queries, settings
from shared.settings import Settings

SQL_DIR: Final = Path(__file__).parent.parent / "sql"
OLDEST_SERVER: Final = 150000
"""PostgreSQL 15, as ``server_version_num`` counts."""

# Policies name functions and tables, grants name everything; so they come in this order.
_STANDING: Final = (
    *("session.sql", "formats.sql", "policies.sql"),
    *("retention.sql", "deletion.sql", "usage.sql", "summaries.sql", "rollups.sql"),
    *("categories.sql", "grants.sql"),
)
_STATEMENTS: Final = queries.load(SQL_DIR / "migrate.sql")


class MigrationError(Exception):
    """A database that cannot be brought up to date; the message is one line that says why."""


def migrate(chosen: Settings, say: Callable[[str], None]) -> None:
    """Make roles, passwords and schema at ``chosen.database_url``; ``say`` is told what is done.

    Raises MigrationError where the server cannot be reached, is too old or refuses, SettingsError
    where the generated passwords cannot be kept.
    """
    if chosen.database_url is None:
        raise MigrationError("DATABASE_URL is not set, and no embedded PostgreSQL is running")
    generated = settings.make_secrets(chosen.data_dir)
    try:
        _make_roles(chosen, chosen.database_url, generated.passwords)
        _apply_files(chosen.database_url, say)
    except psycopg.Error as error:
        raise MigrationError(f"the database cannot be prepared: {_one_line(error)}") from error


def _make_roles(chosen: Settings, url: str, passwords: Mapping[str, str]) -> None:
    with closing(psycopg.connect(url, dbname="postgres", autocommit=True)) as server:
        row = server.execute(_STATEMENTS["server_version"]).fetchone()
        if row is None or row[0] < OLDEST_SERVER:
            raise MigrationError("PostgreSQL 15 or newer is needed")
        server.execute(_STATEMENTS["lock_cluster"])
        server.execute((SQL_DIR / "roles.sql").read_text(encoding="utf-8"))
        for role, password in passwords.items():
            if role not in chosen.role_urls:
                # libpq sends the SCRAM verifier, so that the password stands in no server log.
                server.pgconn.change_password(f"svc_{role}".encode(), password.encode())
        server.execute(_STATEMENTS["unlock_cluster"])


def _apply_files(url: str, say: Callable[[str], None]) -> None:
    with closing(psycopg.connect(url, autocommit=True)) as database:
        database.execute(_STATEMENTS["lock_schema"])
        database.execute(_STATEMENTS["admit_owner"])
        database.execute(_STATEMENTS["become_owner"])
        database.execute(_STATEMENTS["prepare_ledger"])
        applied: dict[str, str] = dict(database.execute(_STATEMENTS["applied_files"]).fetchall())
        migrations = sorted((SQL_DIR / "migrations").glob("[0-9]*.sql"))
        pending = _pending(migrations, applied)
        standing = [SQL_DIR / name for name in _STANDING]
        # All or none of them: what one makes, another closes to those who have no business with it.
        is_stale = any(applied.get(path.name) != _digest(path) for path in standing)
        for path in [*pending, *(standing if pending or is_stale else ())]:
            say(f"applying {path.name}")
            with database.transaction():
                database.execute(path.read_text(encoding="utf-8"))
                database.execute(
                    _STATEMENTS["record_file"], {"name": path.name, "digest": _digest(path)}
                )
        for (zone,) in database.execute(_STATEMENTS["wrong_zones"]).fetchall():
            say(f"warning: the server's time zone data is wrong or too old for {zone}")


def _pending(migrations: list[Path], applied: Mapping[str, str]) -> list[Path]:
    """Return the migrations that did not run yet.

    Raises MigrationError for a schema that is newer than we are, or that was made by other files.
    """
    known = {path.name for path in migrations} | set(_STANDING)
    newer = sorted(applied.keys() - known)
    if newer:
        raise MigrationError(f"the database is newer than this program: it has {newer[0]}")
    pending: list[Path] = []
    for path in migrations:
        if path.name not in applied:
            pending.append(path)
        elif pending:
            raise MigrationError(
                f"sql/migrations/{pending[0].name} has to come before {path.name}, which was applied"
            )
        elif applied[path.name] != _digest(path):
            raise MigrationError(f"sql/migrations/{path.name} was changed after it was applied")
    return pending


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _one_line(error: psycopg.Error) -> str:
    return " ".join(str(error).split()) or type(error).__name__

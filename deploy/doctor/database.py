"""The checks of the database: logins, the server, roles, row-level security and the schema."""

import time
from collections.abc import Iterator
from typing import Final

import psycopg

from deploy.doctor.checks import CannotExamine, Finding, failed, passed, skipped
from deploy.doctor.deployment import SQL, Deployment, one_line
from deploy.migrate import OLDEST_SERVER
from shared import SCHEMA_VERSION, dashboard, database, schema
from shared import replica as replicas
from shared.settings import ROLES, Settings, SettingsError

RUNTIME_ROLES: Final = [f"svc_{role}" for role in ROLES]
DATA_ROLES: Final = [role for role in RUNTIME_ROLES if role != "svc_authserver"]
"""The roles that reach data of people, one person at a time."""
CLOCK_S: Final = 10.0
"""How far two clocks may differ: tokens and codes live for a minute or longer."""
_MIGRATE: Final = "Run 'svc migrate' of this version, which restores it."
# Each table has policies and rights of its own, which this file alone knows.
_POLICIES: Final = (
    "As the owner ('svc psql'): delete from svc.applied_file where name = 'policies.sql'; and run"
    " 'svc migrate' of this version, which then writes all policies again."
)
_DURABLE: Final = {"fsync": "on", "full_page_writes": "on"}
_ROLE_SETTINGS: Final = {"timezone": "UTC", "search_path": '""', "lock_timeout": "5s"}


def logins(deployment: Deployment) -> Iterator[Finding]:
    """Whether each role of the servers can log in, as itself and with its settings."""
    for role in ROLES:
        try:
            with deployment.login(role) as connection:
                row = connection.execute(SQL["login"]).fetchone() or {}
        except SettingsError as error:
            yield failed(
                f"svc_{role}: {error}", "Run 'svc migrate', or set the login of this role."
            )
            continue
        except psycopg.Error as error:
            yield failed(
                f"svc_{role} cannot log in: {one_line(error)}",
                "Check that the database runs and the login is right; 'svc migrate' sets passwords again.",
            )
            continue
        wrong = [name for name, value in _ROLE_SETTINGS.items() if row[name] != value]
        if row["role"] != f"svc_{role}":
            yield failed(
                f"the login of {role} is {row['role']}, and not svc_{role}",
                f"Give SVC_{role.upper()}_DATABASE_URL the login svc_{role}, which has no other rights.",
            )
        elif wrong or row["statement_timeout"] == "0":
            name = wrong[0] if wrong else "statement_timeout"
            yield failed(
                f"svc_{role} has {name} = {row[name]!r}, which the queries do not expect", _MIGRATE
            )
        else:
            yield passed(f"svc_{role} logs in")


def server(deployment: Deployment) -> Iterator[Finding]:
    """Whether the server is new enough, in UTF-8, and has the right time."""
    with deployment.catalogue() as connection:
        began = time.time()
        row = connection.execute(SQL["server"]).fetchone() or {}
        ahead = row["clock"] - (began + time.time()) / 2
    if row["number"] < OLDEST_SERVER:
        yield failed(
            f"PostgreSQL {row['version']} is too old", "Upgrade it to PostgreSQL 15 or newer."
        )
    elif row["encoding"] != "UTF8":
        yield failed(
            f"the database has the encoding {row['encoding']}",
            "Create a database with the encoding UTF8, and move the data there.",
        )
    elif abs(ahead) > CLOCK_S:
        yield failed(
            f"the clock of the database differs by {ahead:+.0f} s from the clock here",
            "Synchronise both clocks by NTP, because tokens expire by the clock of the database.",
        )
    else:
        yield passed(f"PostgreSQL {row['version']}, its clock {ahead:+.1f} s from the clock here")


def server_settings(deployment: Deployment) -> Iterator[Finding]:
    """Whether commits are durable and connections suffice."""
    names = [*_DURABLE, "synchronous_commit", "max_connections"]
    with deployment.catalogue() as connection:
        rows = connection.execute(SQL["settings"], {"names": names}).fetchall()
    known = {row["name"]: row["setting"] for row in rows}
    lost = [name for name, value in _DURABLE.items() if known[name] != value]
    if known["synchronous_commit"] == "off":
        lost.append("synchronous_commit")
    if lost:
        yield failed(
            f"{', '.join(lost)} is off, so a crash can lose what was accepted, or damage the database",
            f"Set {' and '.join(lost)} to on in postgresql.conf, and reload the server.",
        )
    short = database.connection_shortages(*_most_connections(deployment.chosen))
    for line in short:
        yield failed(line, "Raise max_connections, or lower SVC_..._CONNECTIONS.")
    if not lost and not short:
        yield passed(f"commits are durable, and max_connections is {known['max_connections']}")


def _most_connections(chosen: Settings) -> tuple[dict[str, str], dict[str, int]]:
    """Return logins and the most connections of both servers and a worker, by role."""
    needed = dict(chosen.connections)
    for role, count in chosen.connections_of_worker.items():
        needed[role] = needed.get(role, 0) + count
    urls = {}
    for role in needed:
        try:
            urls[role] = database.role_url(chosen, role)
        except SettingsError:
            # The check of logins reports it.
            continue
    return urls, {role: needed[role] for role in urls}


def roles(deployment: Deployment) -> Iterator[Finding]:
    """Whether no role of the servers has more rights than it needs."""
    with deployment.catalogue() as connection:
        everyone = {"roles": [*RUNTIME_ROLES, "svc_owner"]}
        attributes = connection.execute(SQL["roles"], everyone).fetchall()
        memberships = connection.execute(SQL["memberships"], {"roles": RUNTIME_ROLES}).fetchall()
        owned = connection.execute(SQL["owned"], {"roles": RUNTIME_ROLES}).fetchall()
    missing = {*everyone["roles"]} - {row["rolname"] for row in attributes}
    is_right = True
    for name in sorted(missing):
        is_right = False
        yield failed(f"the role {name} does not exist", "Run 'svc migrate', which creates it.")
    for row in attributes:
        name = row["rolname"]
        strong = [
            attribute.removeprefix("rol")
            for attribute in (
                "rolsuper",
                "rolbypassrls",
                "rolcreaterole",
                "rolcreatedb",
                "rolreplication",
            )
            if row[attribute]
        ]
        if strong:
            is_right = False
            words = " ".join(f"no{each}".replace("nosuper", "nosuperuser") for each in strong)
            yield failed(
                f"{name} has {', '.join(strong)}: it passes by the rules that keep people apart",
                f"As a superuser: alter role {name} {words};",
            )
        if name == "svc_owner" and row["rolcanlogin"]:
            is_right = False
            yield failed("svc_owner can log in", "As a superuser: alter role svc_owner nologin;")
    for row in memberships:
        is_right = False
        yield failed(
            f"{row['member']} is a member of {row['granted']}, and has its rights",
            f"As a superuser: revoke {row['granted']} from {row['member']};",
        )
    for row in owned[:5]:
        is_right = False
        yield failed(
            f"{row['owner']} owns {row['name']}, and can change or open it",
            "As a superuser: give it to svc_owner (alter ... owner to svc_owner).",
        )
    if is_right:
        yield passed("no role of a server has more rights than it needs, and none owns anything")


def row_security(deployment: Deployment) -> Iterator[Finding]:
    """Whether every table of user data is closed by its policies."""
    with deployment.catalogue() as connection:
        tables = connection.execute(SQL["user_tables"], {"roles": DATA_ROLES}).fetchall()
    if not tables:
        raise CannotExamine("there are no tables of user data", _MIGRATE)
    is_right = True
    for row in tables:
        name = row["name"]
        if not row["is_enabled"]:
            is_right = False
            yield failed(
                f"row-level security is off for {name}: each person can read everybody's rows",
                f"As the owner ('svc psql'): alter table {name} enable row level security;",
            )
        elif not row["has_own_rows"]:
            is_right = False
            yield failed(
                f"{name} lacks the policy own_rows",
                _POLICIES,
            )
        for policy in row["open_policies"]:
            is_right = False
            yield failed(
                f"the policy {policy} lets everybody reach all rows of {name}",
                f"As the owner ('svc psql'): drop policy {policy} on {name};",
            )
    if is_right:
        yield passed(f"{len(tables)} tables of user data are closed by their policies")


def versions(deployment: Deployment) -> Iterator[Finding]:
    """Whether code and schema fit each other."""
    try:
        with deployment.login("reader") as connection:
            schema.check(connection)
    except (psycopg.Error, SettingsError) as error:
        mismatch = schema.mismatch_of(error) if isinstance(error, psycopg.Error) else None
        if mismatch is schema.OUTDATED_SCHEMA:
            yield failed(
                f"the schema is too old for this version of the code ({SCHEMA_VERSION})",
                "Run 'svc migrate' of this version.",
            )
        elif mismatch is schema.OUTDATED_SERVER:
            yield failed(
                f"this version of the code ({SCHEMA_VERSION}) is too old for the schema",
                "Run the version of svc that migrated the database last.",
            )
        else:
            raise CannotExamine(
                "svc_reader cannot log in", "Correct the failure of 'database logins' first."
            ) from error
        return
    yield passed(f"it fits this version of the code ({SCHEMA_VERSION})")


def replica(deployment: Deployment) -> Iterator[Finding]:
    """Whether the replica of the reader has what the primary has, and can answer long reads."""
    try:
        url = database.replica_login(deployment.chosen)
    except SettingsError as error:
        raise CannotExamine(
            str(error), "Correct the failure of 'database logins' first."
        ) from error
    if url is None:
        yield skipped("the resource server has none (SVC_READER_REPLICA_URL)")
        return
    try:
        with deployment.login("reader") as connection:
            position = connection.execute(replicas.SQL["log_position"]).fetchone() or {}
    except (psycopg.Error, SettingsError) as error:
        raise CannotExamine(
            "the primary cannot say what a replica must have",
            "Correct the failures of 'database logins' and 'schema' first.",
        ) from error
    if position["cluster"] is None:
        yield failed(
            "no replica is used, because the primary is in recovery or its synchronous_commit is off",
            "Let the reader log in at the primary, and set synchronous_commit to on there.",
        )
        return
    if position["log_end"] is None:
        # Nothing has been committed for seconds, so there is nothing to wait for.
        position["log_end"] = "0/0"
    try:
        with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection_there:
            awaited = {**position, "wait_ms": replicas.MOST_LAG_MS}
            connection_there.execute(replicas.SQL["await_replay"], awaited)
            row = connection_there.execute(replicas.SQL["keeps_rows"]).fetchone()
    except psycopg.Error as error:
        reason = (error.diag.message_primary or one_line(error)).strip()
        yield failed(
            f"the replica of SVC_READER_REPLICA_URL is not used: {reason}",
            "Look at the log of PostgreSQL there, and whether it streams from the reader's database; a new"
            ' copy is made by pg_basebackup (docs/OPERATING.md, "Reads from a replica").',
        )
        return
    if row != (True,):
        yield failed(
            "hot_standby_feedback is off at the replica, so long reads may be canceled there, and are then"
            " repeated at the primary",
            "Set hot_standby_feedback to on in the replica's postgresql.conf, and reload it.",
        )
    else:
        yield passed("the replica has what the primary has")


def dashboard_address(deployment: Deployment) -> Iterator[Finding]:
    """Whether people come back to the dashboard after signing in."""
    with deployment.owner() as connection:
        row = connection.execute(
            SQL["dashboard"], {"client_id": dashboard.DASHBOARD_CLIENT_ID}
        ).fetchone()
    expected = dashboard.redirect_uri(deployment.chosen.base_url)
    if row is None or row["redirect_uris"] != [expected]:
        yield failed(
            "people cannot sign in to the dashboard: the database has another redirect URI than "
            f"{expected}",
            "Run 'svc migrate' with the present SVC_BASE_URL.",
        )
    else:
        yield passed(f"people return to {expected}")

"""The checks from inside, on the operator's machine with the settings of the servers: the list of all."""

import stat
from collections.abc import Iterator
from typing import Final

from deploy.doctor import counting, database, work
from deploy.doctor.checks import Check, Finding, failed, passed
from deploy.doctor.deployment import SQL, Deployment
from shared import settings
from shared.settings import SettingsError


def _addresses(deployment: Deployment) -> Iterator[Finding]:
    chosen = deployment.chosen
    if chosen.is_https and not chosen.trusted_proxies:
        yield failed(
            f"{chosen.auth_url} is behind a proxy, and SVC_TRUSTED_PROXIES names none: all clients count as"
            " one",
            "Set SVC_TRUSTED_PROXIES to the address from which the proxy connects.",
        )
    elif chosen.is_https != chosen.base_url.startswith("https://"):
        yield failed(
            f"of {chosen.auth_url} and {chosen.base_url} only one is https",
            "Serve both over https, because a token that travels in plain text can be read.",
        )
    else:
        yield passed(f"{chosen.auth_url} and {chosen.base_url}")


def _secrets(deployment: Deployment) -> Iterator[Finding]:
    chosen = deployment.chosen
    try:
        settings.signing_key(chosen)
        complete = settings.sealing_key(chosen) is not None
    except SettingsError as error:
        yield failed(str(error), "Run 'svc migrate', or set SVC_COOKIE_KEY and SVC_DASHBOARD_KEY.")
        return
    if not complete:
        yield failed(
            "there is no key for the cookies of the dashboard",
            "Run 'svc migrate', which makes one, or set SVC_DASHBOARD_KEY.",
        )
        return
    for name in ("secrets.json", "sealing.json"):
        path = chosen.data_dir / name
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
        except OSError:
            continue
        if mode & 0o077:
            yield failed(
                f"{path} has mode {mode:04o}, and others of this machine can read it",
                f"Run 'chmod 600 {path}', and rotate the keys in it.",
            )
            return
    yield passed("cookies can be signed and sealed, and nobody else can read the keys")


def _client_addresses(deployment: Deployment) -> Iterator[Finding]:
    with deployment.owner() as connection:

        def counted_at(key_hashes: list[bytes]) -> dict[bytes, str]:
            rows = connection.execute(SQL["counted_at"], {"key_hashes": key_hashes}).fetchall()
            return {bytes(row["key_hash"]): row["forgotten_at"] for row in rows}

        yield counting.examine(deployment.chosen, counted_at)


CHECKS: Final[tuple[Check[Deployment], ...]] = (
    Check("addresses", _addresses),
    Check("keys of cookies", _secrets),
    Check("database logins", database.logins),
    Check("database", database.server),
    Check("database settings", database.server_settings),
    Check("roles", database.roles),
    Check("row-level security", database.row_security),
    Check("schema", database.versions),
    Check("replica", database.replica),
    Check("dashboard", database.dashboard_address),
    Check("jobs", work.jobs),
    Check("old years", work.old_years),
    Check("backups", work.backups_written),
    Check("sealing keys", work.sealing_key),
    Check("disk", work.disk),
    Check("client addresses", _client_addresses),
)
"""All checks from inside, in the order in which a failure explains later ones."""

"""The invitation for the first account, which ``svc up`` prints and ``svc user first-link`` renews."""

from datetime import timedelta
from pathlib import Path
from typing import Final

import psycopg

import authserver
from shared import database, queries, schema, tokens
from shared.settings import Settings

_INVITE: Final = queries.load(
    *(
        Path(authserver.__file__).parent / name
        for name in ("people/accounts.sql", "people/sessions.sql", "events.sql")
    )
)["invite_first_account"]
_LIFETIME: Final = timedelta(hours=24)


def link(chosen: Settings) -> str | None:
    """Return a new invitation link for the first account, or None if an account exists.

    Earlier links stop working. Raises psycopg.Error, SettingsError.
    """
    token = tokens.mint(tokens.LINK, tokens.NOBODY)
    url = database.role_url(chosen, "authserver")
    with psycopg.connect(url, connect_timeout=5) as connection:
        schema.check(connection)
        created = connection.execute(
            _INVITE, {"invitation_hash": token.hash, "lifetime": _LIFETIME}
        ).fetchone()
    return None if created is None else f"{chosen.auth_url}/join?link={token.text}"

"""One token, one query, one round trip: the only way in which a request reads the database.

A read is two statements in one pipeline on an autocommit connection, which Postgres runs as one
implicit transaction: the first opens the token's session, the second asks the question under
row-level security. An error in the first skips the second. So a revoked token is refused at once, no
credential is cached, and nothing carries over to the connection's next user.

Two traps, both met: ``connection.transaction()`` inside a pipeline costs four round trips; and the
two statements folded into one can silently answer nothing (sql/session.sql).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg_pool import PoolTimeout
from starlette.requests import Request

from resourceserver.errors import DatabaseUnavailable, InsufficientScope, Unauthorized
from shared import database, queries, tokens
from shared.database import Pool
from shared.tokens import Token

SQL: Final = queries.load(Path(__file__).with_name("session.sql"))


@dataclass(frozen=True)
class Credential:
    """A well-formed token and what the request needs of it."""

    token: Token
    scopes: tuple[str, ...]
    resources: tuple[str, ...]
    """The audiences that are accepted; a token bound to none of them is refused."""

    def parameters(self) -> dict[str, Any]:
        """Return the arguments of ``open_session``."""
        return {
            "user_id": self.token.user_id,
            "token_hash": self.token.hash,
            "scopes": list(self.scopes),
            "resources": list(self.resources),
        }


def credential(request: Request, scopes: tuple[str, ...], resources: tuple[str, ...]) -> Credential:
    """Return the credential of a request (RFC 6750, section 2.1). Raises Unauthorized."""
    given = request.headers.getlist("authorization")
    scheme, _, text = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    if scheme.lower() != "bearer":
        raise Unauthorized(scopes)
    token = tokens.parse(tokens.ACCESS, text.strip(" "))
    if token is None:
        raise Unauthorized.invalid_token(scopes)
    return Credential(token, scopes, resources)


@dataclass(frozen=True)
class Reader:
    """Answers questions as the ``reader`` role."""

    pool: Pool

    async def read(self, who: Credential, query: str, params: Mapping[str, Any]) -> bytes:
        """Return the single value of ``query``'s single row, as Postgres wrote it.

        The query sees ``user_id`` beside ``params``. Raises Unauthorized, InsufficientScope and
        DatabaseUnavailable.
        """
        return await self._run(who, query, {**params, "user_id": who.token.user_id})

    async def check(self, who: Credential) -> None:
        """Open and leave the session: raises what ``read`` would for this credential."""
        await self._run(who, SQL["nothing"], {})

    async def _run(self, who: Credential, query: str, params: Mapping[str, Any]) -> bytes:
        try:
            return await database.revive(self.pool, lambda: self._pipeline(who, query, params))
        except psycopg.Error as error:
            raise problem(error, who) from error

    async def _pipeline(self, who: Credential, query: str, params: Mapping[str, Any]) -> bytes:
        async with self.pool.connection() as connection:
            async with connection.pipeline():
                await connection.execute(SQL["open_session"], who.parameters())
                cursor = await connection.execute(query, params)
            result = cursor.pgresult
            value = result.get_value(0, 0) if result is not None else None
            return value or b""


def problem(error: psycopg.Error, who: Credential) -> Exception:
    """Return what a client is told of a database error; ours are recognised by SQLSTATE alone."""
    match error.sqlstate:
        case "SV401":
            return Unauthorized.invalid_token(who.scopes)
        case "SV403":
            return InsufficientScope(who.scopes, error.diag.message_primary or "")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | PoolTimeout):
        return DatabaseUnavailable()
    return error

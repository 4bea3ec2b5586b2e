"""Reads with the key of a connection: what an application shows of its person's own data.

The person allows it when the key is created ("may also show my totals"). A read is two statements, as with a
token (``resourceserver/api/session.py``): the first opens the session of the key, the second asks.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import psycopg

from resourceserver.api import session
from resourceserver.api.errors import Problem, TookTooLong
from resourceserver.api.session import Reader
from resourceserver.integrations.receivers.receiving import Opened, WrongKey
from shared import pipeline, queries, schema
from shared.pipeline import Statement

_OPEN: Final = pipeline.statement(
    queries.load(Path(__file__).with_name("reading.sql"))["open_reading_key"]
)


class MayNotRead(Problem):
    """the key may not read this; allow it when you create a key in Settings"""

    status = 403
    code = "insufficient_scope"


async def read(
    reader: Reader, opened: Opened, scope: str, statement: Statement, params: Mapping[str, Any]
) -> bytes:
    """Return the single value of the statement's single row, as Postgres wrote it.

    The statement has the parameter ``user_id`` besides ``params``. Raises WrongKey, MayNotRead,
    TooManyRequests and DatabaseUnavailable.
    """
    values = {**params, "user_id": opened.user_id}
    opening = {
        "key_hash": opened.key_hash,
        "kind": opened.kind,
        "scope": scope,
        "limit_ms": session.QUICK_MS,
        **schema.VERSION,
    }
    person = opened.user_id.int
    try:
        async with asyncio.timeout(session.QUICK_S):
            await reader.quick_turns.take(person)
            try:
                steps = ((_OPEN, opening), (statement, values))
                _, result = await reader.quick.run(steps, person=person)
            finally:
                reader.quick_turns.give_back(person)
    except TimeoutError as error:
        raise TookTooLong from error
    except psycopg.Error as error:
        match error.sqlstate:
            case "SV401":
                raise WrongKey from error
            case "SV403":
                raise MayNotRead from error
        raise session.unavailable(error) from error
    return result.get_value(0, 0) or b""

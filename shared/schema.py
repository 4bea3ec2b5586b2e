"""The check whether code and database schema fit each other, and the errors if they do not.

The database decides: it refuses code that is older than the schema allows (57SV1), and code that is newer
than the schema (57SV2). A schema that lacks the objects of the check itself is too old as well. No request
causes this, and every request fails. So the answer is 503, and the log says what to do, once a minute. A
failed connection is reported in the same way, because the database may not exist yet.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg

from shared import SCHEMA_VERSION, pipeline, queries
from shared.pipeline import Step

log = logging.getLogger("svc.schema")

CHECK: Final = queries.load(Path(__file__).with_name("schema.sql"))["check_version"]
VERSION: Final[Mapping[str, int]] = {"version": SCHEMA_VERSION}
"""The parameter of ``CHECK``, and of other statements that check the version themselves."""
STEP: Final[Step] = (pipeline.statement(CHECK), VERSION)
"""The check as the first step of a round trip."""

LOG_EVERY_S: Final = 60.0


@dataclass(frozen=True)
class Mismatch:
    """A reason why a server cannot work with the schema, or cannot reach it."""

    code: str
    """The code of the error body."""
    message: str
    """The message for the client."""
    advice: str
    """The log line for the operator."""


OUTDATED_SERVER: Final = Mismatch(
    "outdated_server",
    "this server is older than the database; try again in a while",
    "this server is too old for the schema: start the version that the schema was made for",
)
OUTDATED_SCHEMA: Final = Mismatch(
    "database_unavailable",
    "the database is not ready for this server; try again in a while",
    "the schema is too old for this server: run 'svc migrate' of this version",
)
NOT_CONNECTED: Final = Mismatch(
    "database_unavailable",
    "the database does not answer",
    "the database does not answer; if it is new, run 'svc migrate'",
)
_BY_SQLSTATE: Final = {"57SV1": OUTDATED_SERVER, "57SV2": OUTDATED_SCHEMA}


@dataclass
class RateLimitedLog:
    """Writes each line at most once a minute."""

    to: logging.Logger = log
    written_at: dict[str, float] = field(default_factory=dict)

    def write(self, line: str, reason: str) -> None:
        """Write ``line`` to the log with the ``reason``, unless it was written within the last minute."""
        now = time.monotonic()
        if now - self.written_at.get(line, -LOG_EVERY_S) >= LOG_EVERY_S:
            self.written_at[line] = now
            self.to.error("%s (%s)", line, reason)


_LOG: Final = RateLimitedLog()


def check(connection: psycopg.Connection[Any]) -> None:
    """Check the version as the first statement on user data of a transaction. Raises psycopg.Error."""
    with pipeline.first_statement():
        connection.execute(CHECK, VERSION)


def mismatch_of(error: psycopg.Error) -> Mismatch | None:
    """Return which mismatch of code and schema ``error`` reports; None for any other error."""
    if isinstance(error, pipeline.NotConnectedError):
        return NOT_CONNECTED
    if isinstance(error, pipeline.MissingObjectError):
        return OUTDATED_SCHEMA
    return _BY_SQLSTATE.get(error.sqlstate or "")


def log_mismatch(error: psycopg.Error) -> Mismatch | None:
    """Return ``mismatch_of(error)``, and write it to the log, at most once a minute."""
    found = mismatch_of(error)
    if found is not None:
        reason = " ".join((error.diag.message_primary or str(error)).split())
        _LOG.write(
            found.advice, reason if error.sqlstate is None else f"{error.sqlstate}: {reason}"
        )
    return found

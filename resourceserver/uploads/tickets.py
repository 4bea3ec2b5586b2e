"""Tickets: what the token of one upload opens, in the database.

A ticket has the form of every token (shared/tokens.py) and a prefix of its own, so neither opens what the
other does. Each statement looks it up anew; no ticket is cached.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast
from uuid import UUID

import psycopg

from resourceserver.api import session
from resourceserver.api.errors import Problem
from shared import pipeline, schema, tokens
from shared.pipeline import Pipelines
from shared.tokens import Token

SQL: Final = pipeline.load(Path(__file__).with_name("tickets.sql"))

Outcome = Literal["begun", "not_valid", "exists", "too_many", "too_much"]
Status = Literal["ticket", "receiving", "complete", "taken", "ended"]


class TicketNeeded(Problem):
    """a ticket of an upload is required"""

    status = 401
    code = "unauthorized"
    headers: Mapping[str, str] = {"WWW-Authenticate": 'Bearer realm="uploads"'}


class TicketUnknown(TicketNeeded):
    """the ticket is unknown or malformed"""

    headers: Mapping[str, str] = {
        "WWW-Authenticate": 'Bearer realm="uploads", error="invalid_token"'
    }


@dataclass(frozen=True)
class Upload:
    """An upload as the database knows it."""

    upload_id: UUID
    status: Status
    length: int
    received: int
    is_valid: bool
    """Whether its ticket still opens it."""


def parse(text: str) -> Token:
    """Return the ticket in ``text``. Raises TicketNeeded."""
    if not text:
        raise TicketNeeded
    ticket = tokens.parse(tokens.UPLOAD, text)
    if ticket is None:
        raise TicketUnknown
    return ticket


@dataclass(frozen=True)
class Tickets:
    """Uploads in the database, with connections of the ``ingester`` role."""

    writers: Pipelines
    most_bytes: int
    """The most bytes of all files of a person that are not imported yet."""

    async def find(self, ticket: Token) -> Upload:
        """Return the upload of a ticket. Raises TicketUnknown and DatabaseUnavailable."""
        row = await self._run("find", ticket)
        if row is None:
            raise TicketUnknown
        upload_id, status, length, received, is_valid = row
        return Upload(
            UUID(upload_id), cast("Status", status), int(length), int(received), is_valid == "t"
        )

    async def begin(
        self,
        ticket: Token,
        *,
        file_name: str,
        form: str | None,
        length: int,
        may_restart: bool = False,
    ) -> Outcome:
        """Begin an upload; return the outcome. Raises DatabaseUnavailable."""
        row = await self._run(
            "begin_upload",
            ticket,
            file_name=file_name,
            format=form,
            length=length,
            most_bytes=self.most_bytes,
            may_restart=may_restart,
        )
        return cast("Outcome", row[0] if row else "not_valid")

    async def advance(
        self, ticket: Token, *, before: int, received: int, length: int
    ) -> str | None:
        """Note how much of an upload is here; return its new status, None if nothing was noted.

        Raises DatabaseUnavailable.
        """
        row = await self._run("advance", ticket, before=before, received=received, length=length)
        return row[0] or None if row else None

    async def release(self, ticket: Token) -> None:
        """Give the ticket of an upload back that broke off. Raises DatabaseUnavailable."""
        await self._run("release", ticket)

    async def _run(self, name: str, ticket: Token, **values: Any) -> list[str] | None:
        """Return the row of a statement, with empty texts for nulls; None without a row."""
        common = {"user_id": ticket.user_id, "ticket_hash": ticket.hash, **schema.VERSION}
        try:
            # A write is not repeated: only the client knows how much of the file the server has noted.
            results = await self.writers.run(
                [(SQL[name], common | values)], may_repeat=name == "find"
            )
        except psycopg.Error as error:
            raise session.unavailable(error) from error
        if not results[0].ntuples:
            return None
        row = (results[0].get_value(0, column) for column in range(results[0].nfields))
        return ["" if value is None else value.decode() for value in row]

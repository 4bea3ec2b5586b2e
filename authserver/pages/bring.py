"""Settings → Bring your data: which files can be brought and how to get them, and what became of each import.

The role of this server cannot read data of people; it calls functions that check the sign-in session
themselves (``sql/functions/import_list.sql``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from authserver import forms, rows
from authserver.people.sessions import Visit
from authserver.rows import Parameters
from authserver.web.page import Page
from authserver.web.server import Server
from shared import sources
from shared.sources import FileFormat

SQL: Final = rows.load("pages/bring.sql")

PATH: Final = "/settings/bring"
PAGE_SIZE: Final = 20
"""How many imports a page lists."""


@dataclass(frozen=True)
class Import:
    """An import with its receipt."""

    import_id: UUID
    file_name: str
    status: str
    problem: str | None
    started_at: datetime
    finished_at: datetime | None
    formats: Sequence[str] | None
    records: int
    added: int
    known: int
    changed: int
    refused: int
    first_at: datetime | None
    last_at: datetime | None
    part_count: int
    finished_count: int
    problem_count: int
    problems: Sequence[Mapping[str, str]] | None
    """The first members that could not be read to their end, and why."""
    refusals: Sequence[Mapping[str, Any]] | None
    """The reasons of refusals, each with the number of records and examples."""
    ignored: int
    ignored_names: Sequence[str]
    """The first names of members that no format recognises."""

    @property
    def known_formats(self) -> list[FileFormat]:
        """What the file was recognised as."""
        # A newer worker may know formats that this server does not know yet.
        return [sources.FORMATS.get(name, FileFormat(name, name)) for name in self.formats or ()]


async def show(server: Server, request: Request) -> Response:
    """Show the imports with their receipts, and the sources."""
    query = forms.decode(request.scope["query_string"])
    visit = await server.visit(request, PATH)
    return await _answer(server, visit, before=_id(query.get("before")))


def _id(text: str | None) -> UUID | None:
    """Return an id from an address, or None for anything else."""
    try:
        return UUID(text or "")
    except ValueError:
        return None


async def _answer(
    server: Server, visit: Visit, *, before: UUID | None = None, status: int = 200
) -> Response:
    given = {**_session_parameters(visit), "most": PAGE_SIZE + 1, "before": before}
    imports = await rows.every(server.database, Import, SQL["imports"], given)
    content = {
        "imports": imports[:PAGE_SIZE],
        "has_more": len(imports) > PAGE_SIZE,
        "is_first_page": before is None,
        "groups": sources.GROUPS,
        "sentence": sentence,
    }
    return server.pages.render(
        Page("bring.html", content, status, current_path=PATH), visit.browser
    )


def _session_parameters(visit: Visit) -> Parameters:
    session = visit.browser.session
    return {"user_id": session.user_id, "session_hash": session.hash}


def sentence(reason: str) -> str:
    """Return the reason of a refusal, a code such as ``missing_time``, as words."""
    return reason.replace("_", " ").capitalize()

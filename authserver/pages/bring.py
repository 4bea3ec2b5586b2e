"""Settings → Bring your data: which files can be brought and how to get them, uploads, and imports.

    page ──fresh sign-in──► ticket ──the browser itself──► resource server ──► worker ──► receipt on the page

Files never pass through this server. A ticket allows one upload to the resource server. With JavaScript the
browser requests a ticket when a file is uploaded, sends the file in pieces, and continues an upload after an
interruption, for which it gets another ticket. Without JavaScript a ticket is a hidden field of a form that
sends one file.

The role of this server cannot read data of people; it calls functions that check the sign-in session
themselves (``sql/functions/import_list.sql``, ``sql/functions/uploads.sql``). An import is only marked as
undone here, and the worker removes its records (``sql/functions/undo.sql``).
"""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from authserver import forms, rows
from authserver.errors import InvalidRequest, NotFound
from authserver.forms import Form
from authserver.pages import confirm, sign_in
from authserver.people.sessions import ConfirmationNeeded, OldSignIn, StaleForm, Visit
from authserver.rows import Parameters
from authserver.web.page import Page
from authserver.web.server import Server
from shared import sources, tokens
from shared.sources import FileFormat
from shared.tokens import Token

SQL: Final = rows.load("pages/bring.sql")

PATH: Final = "/settings/bring"
PAGE_SIZE: Final = 20
"""How many imports a page lists."""
UPLOADS: Final = "/api/v1/imports/"
"""Where the resource server receives uploads."""

_DONE: Final = {
    "canceled": "The upload is canceled.",
    "undone": "The records of that import are being removed. This may take some minutes.",
}
_TICKET_GONE: Final = (
    "That form had ended: it sends one file, within 24 hours. Nothing was uploaded; begin again."
)
_PROBLEMS: Final = {
    "payload_too_large": "The file is too large: for this service, or beside your other files that are not "
    "imported yet.",
    "storage_full": "The disk of this service is full, so the file was not kept. Try again later.",
    "storage_unavailable": "This service cannot receive files at the moment.",
    "not_found": _TICKET_GONE,
    "unauthorized": _TICKET_GONE,
    "invalid_parameter": "Choose a file that is not empty, with a name of at most 255 characters.",
    "database_unavailable": "The service is busy, so the file was not kept. Try again in a while.",
}
"""The message for each code with which the resource server sends a browser back."""
_UPLOAD_FAILED: Final = "The upload did not work, and nothing of it was kept. Try again."
_NOT_UNDONE: Final = {
    "running": "That import is being read at the moment. Wait until it has ended.",
    "gone": "The records of that import are removed already.",
}
"""The message for each problem of an import that cannot be undone (``svc.request_undo``)."""
_UPLOAD_GONE: Final = "That upload is over already, or its import has begun."
_RECENT: Final = timedelta(days=1)
"""For how long the page lists uploads that ended without an import."""


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
    def is_busy(self) -> bool:
        """Whether it changes without anything that the person does."""
        return self.status == "running" or self.is_being_removed

    @property
    def is_being_removed(self) -> bool:
        """Whether the worker still has to remove its records."""
        return self.status == "undone" and self.finished_at is None

    @property
    def can_be_undone(self) -> bool:
        """Whether it may have records that can be removed."""
        return self.status in ("done", "failed", "interrupted") and self.added > 0

    @property
    def known_formats(self) -> list[FileFormat]:
        """What the file was recognised as."""
        # The name of a profile may follow that of the format. A newer worker may know formats that this
        # server does not know yet.
        return [
            sources.FORMATS.get(name.partition(":")[0], FileFormat(name, name))
            for name in self.formats or ()
        ]


@dataclass(frozen=True)
class Upload:
    """An upload whose import has not begun, or that ended without one."""

    upload_id: UUID
    status: str
    file_name: str
    format: str | None
    length: int
    received: int
    import_id: UUID | None
    problem: str | None
    expires_at: datetime
    ended_at: datetime | None

    @property
    def is_busy(self) -> bool:
        """Whether it changes without anything that the person does."""
        return self.status in ("complete", "taken")

    @property
    def is_listed(self) -> bool:
        """Whether it says something that no import says."""
        if self.import_id is not None or self.problem == "canceled":
            return False
        return self.ended_at is None or self.ended_at > datetime.now(UTC) - _RECENT

    def is_of(self, file_name: str, length: int, form: str | None) -> bool:
        """Whether it can be continued with this file."""
        wanted = (unicodedata.normalize("NFC", file_name).strip(), length, form)
        return self.status == "receiving" and (self.file_name, self.length, self.format) == wanted


@dataclass(frozen=True)
class Undoable:
    """An import that a person may undo."""

    import_id: UUID
    file_name: str
    status: str
    added: int


@dataclass(frozen=True)
class _Outcome:
    problem: str | None


@dataclass(frozen=True)
class _Created:
    upload_id: UUID


@dataclass(frozen=True)
class _Change:
    is_done: bool


async def show(server: Server, request: Request) -> Response:
    """Show the form, uploads, imports with their receipts, and the sources."""
    query = forms.decode(request.scope["query_string"])
    visit = await server.visit(request, PATH)
    code = query.get("problem")
    return await _answer(
        server,
        visit,
        before=_id(query.get("before")),
        done=_DONE.get(query.get("done") or ""),
        problem=None if code is None else _PROBLEMS.get(code, _UPLOAD_FAILED),
    )


async def upload(server: Server, request: Request) -> Response:
    """Show the form with which a browser without JavaScript uploads one file."""
    form, visit = await _read_form(server, request)
    try:
        server.check_fresh_form(request, form, visit)
    except StaleForm as error:
        return await _answer(server, visit, problem=confirm.problem(error), status=403)
    ticket = await _create(server, visit)
    if ticket is None:
        raise ConfirmationNeeded(visit.browser, PATH)
    content = {**_upload_content(server), "ticket": ticket.text}
    page = Page("bring_upload.html", content, may_upload=True, current_path=PATH)
    return server.pages.render(page, visit.browser)


async def create_ticket(server: Server, request: Request) -> Response:
    """Answer the script of the page: a ticket for a file, and the address of its upload if it has begun."""
    form, visit = await _read_form(server, request)
    name, length = form.get("name") or "", form.get("length") or ""
    if not name or not (length.isdecimal() and length.isascii()) or len(length) > 18:
        raise InvalidRequest("the parameters name and length must be those of a file")
    try:
        server.check_fresh_form(request, form, visit)
    except StaleForm as error:
        return _refused(error)
    uploads = await rows.every(
        server.database, Upload, SQL["uploads"], visit.browser.session_parameters
    )
    begun = [each for each in uploads if each.is_of(name, int(length), form.get("format"))]
    ticket = await (_renew(server, visit, begun[0]) if begun else _create(server, visit))
    if ticket is None:
        # The session has become too old, or the upload complete, since they were looked up.
        return _refused(OldSignIn())
    address = f"{server.settings.base_url}{UPLOADS}"
    location = f"{address}{begun[0].upload_id}" if begun else None
    return _json({"ticket": ticket.text, "location": location})


def _refused(error: StaleForm) -> Response:
    """Return the answer to the script for a form that is not accepted."""
    is_old = isinstance(error, OldSignIn)
    return _json({"is_old": is_old, "problem": None if is_old else sign_in.OUT_OF_DATE}, status=403)


def _json(content: Mapping[str, object], status: int = 200) -> Response:
    return JSONResponse(content, status, {"Cache-Control": "no-store"})


async def _create(server: Server, visit: Visit) -> Token | None:
    """Return the ticket of a new upload; None: the session has ended, or the sign-in is too old."""
    ticket = tokens.mint(tokens.UPLOAD, visit.person.user_id)
    given = {**visit.browser.session_parameters, "ticket_hash": ticket.hash}
    created = await rows.one(server.database, _Created, SQL["create_upload"], given)
    return None if created is None else ticket


async def _renew(server: Server, visit: Visit, begun: Upload) -> Token | None:
    """Return another ticket of an upload, as ``_create`` does."""
    ticket = tokens.mint(tokens.UPLOAD, visit.person.user_id)
    given = {"upload_id": begun.upload_id, "ticket_hash": ticket.hash}
    return ticket if await _change(server, visit, "renew_upload", given) else None


async def cancel(server: Server, request: Request) -> Response:
    """Cancel an upload that is not complete, or whose import has not begun."""
    form, visit = await _read_form(server, request)
    upload_id = _id(form.get("upload"))
    if upload_id is None:
        raise InvalidRequest("the parameter upload must be that of the page")
    if server.is_stale_form(request, form, visit):
        return await _answer(server, visit, problem=sign_in.OUT_OF_DATE, status=403)
    if not await _change(server, visit, "cancel_upload", {"upload_id": upload_id}):
        return await _answer(server, visit, problem=_UPLOAD_GONE, status=409)
    return server.pages.redirect_browser(f"{PATH}?done=canceled", visit.browser)


async def ask_undo(server: Server, request: Request) -> Response:
    """Ask whether to remove the records of an import."""
    visit = await server.visit(request, PATH, is_fresh=True)
    undoable = await _undoable(server, visit, forms.decode(request.scope["query_string"]))
    return _undo_page(server, visit, undoable)


async def undo(server: Server, request: Request) -> Response:
    """Mark an import as undone; the worker removes its records."""
    form, visit = await _read_form(server, request)
    undoable = await _undoable(server, visit, form)
    try:
        server.check_fresh_form(request, form, visit)
    except StaleForm as error:
        return _undo_page(server, visit, undoable, problem=confirm.problem(error), status=403)
    given = {**visit.browser.session_parameters, "import_id": undoable.import_id}
    outcome = await rows.one(server.database, _Outcome, SQL["request_undo"], given)
    problem = "signed_out" if outcome is None else outcome.problem
    if problem == "signed_out":
        raise ConfirmationNeeded(visit.browser, PATH)
    if problem is not None:
        return await _answer(server, visit, problem=_NOT_UNDONE[problem], status=409)
    return server.pages.redirect_browser(f"{PATH}?done=undone#lists", visit.browser)


async def _undoable(server: Server, visit: Visit, form: Form) -> Undoable:
    """Return the import that a link or form names. Raises NotFound, also for another person's."""
    given = {**visit.browser.session_parameters, "import_id": _id(form.get("import"))}
    if given["import_id"] is None:
        raise NotFound
    found = await rows.one(server.database, Undoable, SQL["import"], given)
    if found is None:
        raise NotFound
    return found


def _undo_page(
    server: Server,
    visit: Visit,
    undoable: Undoable,
    *,
    problem: str | None = None,
    status: int = 200,
) -> Response:
    content = {"undoable": undoable, "problem": problem}
    page = Page("bring_undo.html", content, status, current_path=PATH)
    return server.pages.render(page, visit.browser)


async def _change(server: Server, visit: Visit, statement: str, given: Parameters) -> bool:
    parameters = {**visit.browser.session_parameters, **given}
    changed = await rows.one(server.database, _Change, SQL[statement], parameters)
    return changed is not None and changed.is_done


async def _read_form(server: Server, request: Request) -> tuple[Form, Visit]:
    form = await forms.read(request)
    form.check()
    return form, await server.visit(request, PATH)


def _id(text: str | None) -> UUID | None:
    """Return an id from an address or a form, or None for anything else."""
    try:
        return UUID(text or "")
    except ValueError:
        return None


async def _answer(
    server: Server,
    visit: Visit,
    *,
    before: UUID | None = None,
    done: str | None = None,
    problem: str | None = None,
    status: int = 200,
) -> Response:
    session = visit.browser.session_parameters
    given = {**session, "most": PAGE_SIZE + 1, "before": before}
    # Archives may have a hundred thousand members, whose counts take a second to add up.
    imports = await rows.every(server.slow, Import, SQL["imports"], given)
    uploads = await rows.every(server.database, Upload, SQL["uploads"], session)
    listed = [each for each in uploads if each.is_listed and before is None]
    content = {
        **_upload_content(server),
        "done": done,
        "problem": problem,
        "can_upload": server.settings.upload_dir is not None,
        "uploads": listed,
        "continued": {each.import_id for each in uploads if each.status == "taken"},
        "is_busy": any(each.is_busy for each in imports) or any(each.is_busy for each in uploads),
        "imports": imports[:PAGE_SIZE],
        "has_more": len(imports) > PAGE_SIZE,
        "is_first_page": before is None,
        "sentence": sentence,
        "size": size,
    }
    page = Page("bring.html", content, status, may_upload=True, current_path=PATH)
    return server.pages.render(page, visit.browser)


def _upload_content(server: Server) -> dict[str, object]:
    """Return what both forms for uploads need."""
    return {
        "address": f"{server.settings.base_url}{UPLOADS}",
        "groups": sources.GROUPS,
        "profiled": sources.PROFILED,
        "most": size(server.settings.upload_mib * 2**20),
    }


def sentence(reason: str) -> str:
    """Return the reason of a refusal, a code such as ``missing_time``, as words."""
    return reason.replace("_", " ").capitalize()


def size(count: int) -> str:
    """Return a number of bytes as text for people."""
    if count < 1000:
        return f"{count} bytes"
    amount = count / 1000
    for unit in ("kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            break
        amount /= 1000
    return f"{amount:.1f} {unit}"

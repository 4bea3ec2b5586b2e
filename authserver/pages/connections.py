"""Settings → Connections: what keeps a person's data up to date by itself.

    list ──choose a kind──► form ──fresh sign-in──┬─► its key, once ──► waiting ──first record──► received
                                                  └─► sealed secrets, and the worker's first pull

An application that sends here has a key, which the database stores as a hash and a page shows once. For a
service from which the worker pulls, the person types addresses, passwords or tokens. They are sealed to the
workers' public key before they reach the database (``shared/sealing.py``), and no page ever shows them again.

As on the page of API tokens, the form contains a random draft id from which the connection id is computed, so
that a form that is submitted twice creates one connection. The form for a new key names the key that it
replaces, so that the reload of a page that shows a key replaces nothing.

The role of this server cannot read data of people; it calls functions that check the sign-in session
themselves (``sql/functions/connections.sql``).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from uuid import UUID, uuid4, uuid5

import psycopg
from starlette.requests import Request
from starlette.responses import Response

from authserver import events, forms, rows
from authserver.errors import InvalidRequest, NotFound
from authserver.events import Event
from authserver.forms import Form
from authserver.pages import back, confirm, connection_list, sign_in
from authserver.pages.connection_draft import Draft
from authserver.pages.connection_list import Connection
from authserver.people.sessions import ConfirmationNeeded, StaleForm, Visit
from authserver.rows import Parameters
from authserver.web import qr
from authserver.web.page import Page
from authserver.web.server import Server
from shared import keys
from shared.connections import KINDS, MOST, Kind
from shared.scopes import SCOPES
from shared.setups import setup

SQL: Final = rows.load("pages/connections.sql", "events.sql")

PATH: Final = "/settings/connections"

_DONE: Final = {
    "added": "It is connected. The service looks for the first time within a minute.",
    "paused": "The connection is paused.",
    "continued": "The connection goes on.",
    "entered": "It is sealed in place of what was there. The service looks now, which may take some minutes.",
    "pulled": "The service looks now. This may take some minutes.",
    "changed": "Saved. It applies to what the application sends from now on.",
    "ended": "The connection has ended.",
    "kept": "The connection has ended. What it brought remains.",
    "removed": "The connection has ended. What it brought is being removed, which may take some minutes.",
}
_DONE_LATER: Final = {
    "entered": "It is sealed in place of what was there. The service looks when it may: see Next look.",
    "pulled": "The service looks when it may: see Next look.",
}
"""The same while the other service wants to be left alone."""
_EVENTS: Final = {
    "add": "connection_added",
    "renew_key": "connection_key_renewed",
    "renew_secrets": "connection_key_renewed",
    "end": "connection_ended",
}
"""The security event that each of these statements records."""
_ALREADY_ADDED: Final = (
    "This form has added its connection already. A key is shown only once: if you do not have it, make a new "
    "key on the page of the connection, which is in the list below."
)
_ALREADY_RENEWED: Final = (
    "The connection has got another key since this form was opened, and a key is shown only once. If you do "
    "not have it, make a new one."
)
_TOO_MANY: Final = f"You have {MOST} connections, which is the most. Disconnect one first."
_PULLED_ALREADY: Final = (
    "The service did not look again: it looked less than a minute ago, or the connection is paused or has "
    "ended."
)
_OVER: Final = "The connection has ended already."
_NOTHING_TYPED: Final = "Nothing was typed, so all is as it was."
_CHOOSE: Final = "Choose what becomes of what it brought."
_SWITCHED_OFF: Final = (
    "{title} cannot be connected: the operator of this service has not switched it on."
)
_FORGOTTEN: Final = "Type it again: what is secret is not kept in the form."


@dataclass(frozen=True)
class _Outcome:
    problem: str | None


@dataclass(frozen=True)
class _Change:
    is_done: bool


async def show(server: Server, request: Request) -> Response:
    """Show the list and the kinds to connect, the form of a kind, or the connection that the query names."""
    query, linked, visit = await back.read_link(server, request, PATH, "connection", "new")
    done = _DONE.get(query.get("done") or "")
    if "connection" in linked:
        connection = await _connection(server, visit, linked["connection"])
        if connection.must_wait:
            done = _DONE_LATER.get(query.get("done") or "", done)
        return _one(server, visit, connection, done=done)
    if "new" in linked:
        kind = _kind(linked["new"])
        if not connection_list.can_connect(kind, server.settings):
            return await _list(server, visit, problem=_switched_off(kind), status=409)
        return _form(server, visit, _new(kind))
    return await _list(server, visit, done=done)


async def add(server: Server, request: Request) -> Response:
    """Add a connection and show its key, or show the form again with its problems."""
    form = await forms.read(request)
    form.check()
    view = back.path(form)
    draft = _draft(form)
    address = back.address(PATH, {"new": draft.kind.name}, view)
    visit = await server.visit(request, address, back=view)
    if not connection_list.can_connect(draft.kind, server.settings):
        return await _list(server, visit, problem=_switched_off(draft.kind), status=409)
    try:
        server.check_fresh_form(request, form, visit)
    except StaleForm as error:
        return _form(server, visit, draft, problem=confirm.problem(error), status=403)
    if draft.problems:
        return _form(server, visit, draft, problems=draft.problems, status=400)
    # With the draft id alone, a person could choose the id of another person's connection.
    connection_id = uuid5(visit.person.user_id, f"connection {draft.draft_id}")
    key = None if draft.kind.key is None else keys.new(draft.kind, visit.person.user_id)
    public = server.settings.sealing_public_key
    given = draft.parameters(visit.person.user_id, connection_id, key, public)
    try:
        problem = await _decide(server, request, visit, "add", given)
    except psycopg.errors.UniqueViolation:
        return await _list(server, visit, problem=_ALREADY_ADDED, status=409)
    if problem == "signed_out":
        raise ConfirmationNeeded(visit.browser, address)
    if problem is not None:
        return _form(server, visit, draft, problem=_TOO_MANY, status=409)
    return await _added(server, visit, connection_id, key)


async def _added(server: Server, visit: Visit, connection_id: UUID, key: str | None) -> Response:
    if key is None:
        return _redirect(server, visit, {"connection": str(connection_id), "done": "added"})
    return await _key_page(server, visit, connection_id, key)


async def renew_key(server: Server, request: Request) -> Response:
    """Give a connection a new key and show it."""
    form, visit, connection = await _read_form(server, request)
    try:
        created_at = datetime.fromisoformat(form.get("replaces") or "")
    except ValueError:
        raise InvalidRequest("the parameter replaces must be that of the page") from None
    if created_at.tzinfo is None:
        raise InvalidRequest("the parameter replaces must be that of the page")
    if connection.known_kind is None or connection.known_kind.key is None:
        raise NotFound
    try:
        server.check_fresh_form(request, form, visit)
    except StaleForm as error:
        return _one(server, visit, connection, problem=confirm.problem(error), status=403)
    key = keys.new(connection.known_kind, visit.person.user_id)
    given = {
        "connection_id": connection.connection_id,
        "key_hash": keys.hash_of(key),
        "key_created_at": created_at,
    }
    problem = await _decide(server, request, visit, "renew_key", given)
    if problem == "signed_out":
        raise ConfirmationNeeded(visit.browser, _address(visit, connection))
    if problem is not None:
        why = _OVER if connection.state == "stopped" else _ALREADY_RENEWED
        return _one(server, visit, connection, problem=why, status=409)
    return await _key_page(server, visit, connection.connection_id, key)


async def renew_secrets(server: Server, request: Request) -> Response:
    """Replace what opens the service of a connection; what is left empty stays as it is."""
    form, visit, connection = await _read_form(server, request)
    kind = connection.known_kind
    if kind is None or kind.way != "is_pulled":
        raise NotFound
    try:
        server.check_fresh_form(request, form, visit)
    except StaleForm as error:
        return _one(server, visit, connection, problem=confirm.problem(error), status=403)
    secrets = [each for each in kind.fields if each.is_secret]
    typed = {each.name: (form.get(f"field_{each.name}") or "").strip() for each in secrets}
    draft = Draft(kind, connection.name, {name: text for name, text in typed.items() if text})
    if not draft.typed:
        return _one(server, visit, connection, problem=_NOTHING_TYPED, status=400)
    if draft.typed_problems:
        return _one(server, visit, connection, problem=draft.typed_problems[0], status=400)
    if not connection_list.can_connect(kind, server.settings):
        return _one(server, visit, connection, problem=_switched_off(kind), status=409)
    public = server.settings.sealing_public_key
    given = draft.parameters(visit.person.user_id, connection.connection_id, None, public)
    problem = await _decide(server, request, visit, "renew_secrets", given)
    if problem == "signed_out":
        raise ConfirmationNeeded(visit.browser, _address(visit, connection))
    if problem is not None:
        return _one(server, visit, connection, problem=_OVER, status=409)
    query = {"connection": str(connection.connection_id), "done": "entered"}
    return _redirect(server, visit, query)


async def change_settings(server: Server, request: Request) -> Response:
    """Replace what a person chose about a connection through which an application sends."""
    form, visit, connection = await _read_form(server, request)
    fields, kind = connection.setting_fields, connection.known_kind
    if kind is None or not fields:
        raise NotFound
    if server.is_stale_form(request, form, visit):
        return _one(server, visit, connection, problem=sign_in.OUT_OF_DATE, status=403)
    typed = {
        each.name: (form.get(f"field_{each.name}") or "").strip() or each.default for each in fields
    }
    draft = Draft(kind, connection.name, {name: text for name, text in typed.items() if text})
    if draft.typed_problems:
        return _one(server, visit, connection, problem=draft.typed_problems[0], status=400)
    given = {"settings": json.dumps(dict(draft.typed))}
    if not await _change(server, visit, connection, "change_settings", given):
        return _one(server, visit, connection, problem=_OVER, status=409)
    query = {"connection": str(connection.connection_id), "done": "changed"}
    return _redirect(server, visit, query)


async def pause(server: Server, request: Request) -> Response:
    """Pause a connection, or let it go on."""
    form, visit, connection = await _read_form(server, request)
    what = form.get("what")
    if what not in ("pause", "continue"):
        raise InvalidRequest("the parameter what must be one of the page")
    if server.is_stale_form(request, form, visit):
        return _one(server, visit, connection, problem=sign_in.OUT_OF_DATE, status=403)
    if not await _change(server, visit, connection, "pause", {"is_paused": what == "pause"}):
        return _one(server, visit, connection, problem=_OVER, status=409)
    done = "paused" if what == "pause" else "continued"
    query = {"connection": str(connection.connection_id), "done": done}
    return _redirect(server, visit, query)


async def pull(server: Server, request: Request) -> Response:
    """Have the worker pull a connection now."""
    form, visit, connection = await _read_form(server, request)
    if server.is_stale_form(request, form, visit):
        return _one(server, visit, connection, problem=sign_in.OUT_OF_DATE, status=403)
    if not await _change(server, visit, connection, "pull", {}):
        return _one(server, visit, connection, problem=_PULLED_ALREADY, status=409)
    query = {"connection": str(connection.connection_id), "done": "pulled"}
    return _redirect(server, visit, query)


async def _change(
    server: Server, visit: Visit, connection: Connection, statement: str, given: Parameters
) -> bool:
    """Run a change that needs no fresh sign-in, and return whether it was done."""
    which = {"connection_id": connection.connection_id}
    parameters = {**visit.browser.session_parameters, **which, **given}
    changed = await rows.one(server.database, _Change, SQL[statement], parameters)
    return changed is not None and changed.is_done


async def ask_end(server: Server, request: Request) -> Response:
    """Ask whether to end a connection, and what becomes of what it brought."""
    _, linked, visit = await back.read_link(
        server, request, f"{PATH}/end", "connection", is_fresh=True
    )
    return _end_page(server, visit, await _connection(server, visit, linked.get("connection")))


async def end(server: Server, request: Request) -> Response:
    """End a connection, and have what it brought removed if so chosen."""
    form, visit, connection = await _read_form(server, request)
    what = form.get("what")
    try:
        server.check_fresh_form(request, form, visit)
    except StaleForm as error:
        return _end_page(server, visit, connection, problem=confirm.problem(error), status=403)
    if what not in ("keep", "remove"):
        return _end_page(server, visit, connection, problem=_CHOOSE, status=400)
    given = {"connection_id": connection.connection_id, "is_removed": what == "remove"}
    problem = await _decide(server, request, visit, "end", given)
    if problem == "signed_out":
        raise ConfirmationNeeded(visit.browser, _address(visit, connection))
    if problem is not None:
        return _one(server, visit, connection, problem=_OVER, status=409)
    kept = "kept" if connection.record_count else "ended"
    return _redirect(server, visit, {"done": kept if what == "keep" else "removed"})


async def _decide(
    server: Server, request: Request, visit: Visit, statement: str, given: Parameters
) -> str | None:
    """Run a statement that records a security event, and return why it was refused, or None."""
    origin = events.request_origin(request)
    event = Event(_EVENTS[statement], visit.person.user_id)
    parameters = {
        **visit.browser.session_parameters,
        **origin.parameters,
        **given,
        "event": event.event,
    }
    outcome = await rows.one(server.database, _Outcome, SQL[statement], parameters)
    problem = "signed_out" if outcome is None else outcome.problem
    if problem is None:
        events.write_log([event], origin)
    return problem


def _kind(text: str | None) -> Kind:
    """Return the kind that a link or form names. Raises NotFound."""
    kind = KINDS.get(text or "")
    if kind is None:
        raise NotFound
    return kind


def _switched_off(kind: Kind) -> str:
    return _SWITCHED_OFF.format(title=kind.title)


def _new(kind: Kind) -> Draft:
    typed = {each.name: each.default for each in kind.fields if each.default}
    return Draft(kind, kind.title, typed, draft_id=uuid4().hex)


def _draft(form: Form) -> Draft:
    """Return the values of the form. Raises InvalidRequest for values that the page cannot send."""
    kind = _kind(form.get("kind"))
    draft_id = form.get("draft")
    if draft_id is None:
        raise InvalidRequest("the parameter draft is missing")
    typed = {
        each.name: (form.get(f"field_{each.name}") or "").strip() or each.default
        for each in kind.fields
    }
    return Draft(
        kind=kind,
        draft_id=draft_id,
        name=(form.get("name") or "").strip(),
        typed={name: text for name, text in typed.items() if text},
        is_read=form.get("totals") == "on",
    )


async def _read_form(server: Server, request: Request) -> tuple[Form, Visit, Connection]:
    """Return a form about one connection. Raises NotFound, also for another person's."""
    form, visit = await back.read_form(server, request, PATH, "connection")
    return form, visit, await _connection(server, visit, form.get("connection"))


async def _connections(
    server: Server, visit: Visit, connection_id: UUID | None = None
) -> list[Connection]:
    given = {**visit.browser.session_parameters, "connection_id": connection_id}
    return await rows.every(server.database, Connection, SQL["connections"], given)


async def _connection(server: Server, visit: Visit, text: str | None) -> Connection:
    """Return the connection that a link or form names. Raises NotFound, also for another person's."""
    try:
        connection_id = UUID(text or "")
    except ValueError:
        raise NotFound from None
    listed = await _connections(server, visit, connection_id)
    if not listed:
        raise NotFound
    return listed[0]


def _address(visit: Visit, connection: Connection) -> str:
    return back.address(PATH, {"connection": str(connection.connection_id)}, visit.back)


def _redirect(server: Server, visit: Visit, query: Mapping[str, str]) -> Response:
    return server.pages.redirect_browser(back.address(PATH, query, visit.back), visit.browser)


async def _list(
    server: Server,
    visit: Visit,
    *,
    problem: str | None = None,
    done: str | None = None,
    status: int = 200,
) -> Response:
    chosen = server.settings
    listed = [each for each in await _connections(server, visit) if each.is_listed]
    content = {
        "back": visit.back,
        "problem": problem,
        "done": done,
        "now": datetime.now(UTC),
        "ago": connection_list.ago,
        "connections": [each for each in listed if each.state != "stopped"],
        "ended": [each for each in listed if each.state == "stopped"],
        "groups": connection_list.offered(chosen),
        "switched_off": connection_list.switched_off(chosen),
        "has_receivers": bool(chosen.receivers),
        "has_pulls": chosen.sealing_public_key is not None,
    }
    page = Page("connections.html", content, status, current_path=PATH)
    return server.pages.render(page, visit.browser)


def _form(
    server: Server,
    visit: Visit,
    draft: Draft,
    *,
    problems: Mapping[str, str] | None = None,
    problem: str | None = None,
    status: int = 200,
) -> Response:
    """Return the form for a new connection, without the secrets that were typed."""
    secret = {each.name for each in draft.kind.fields if each.is_secret}
    forgotten = (
        {name: _FORGOTTEN for name in draft.typed if name in secret} if status != 200 else {}
    )
    content = {
        "back": visit.back,
        "problem": problem or ("It was not connected. See below why." if problems else None),
        "problems": {**forgotten, **(problems or {})},
        "draft": draft,
        "values": {name: text for name, text in draft.typed.items() if name not in secret},
        "reads": SCOPES.get(draft.kind.reads or ""),
        "own_address": back.address(PATH, {"new": draft.kind.name}, visit.back),
    }
    page = Page("connection_new.html", content, status, current_path=f"{PATH}/new")
    return server.pages.render(page, visit.browser)


async def _key_page(server: Server, visit: Visit, connection_id: UUID, key: str) -> Response:
    """Return the page that shows a key for the only time, and waits for the first record."""
    (connection,) = await _connections(server, visit, connection_id)
    how = setup(connection.kind, server.settings.base_url, key)
    content = {
        **_one_content(server, visit, connection),
        "key": key,
        "setup": how,
        "code": None
        if how.qr is None
        else qr.svg(how.qr, f"QR code that sets up {connection.title}"),
    }
    page = Page("connection_key.html", content, may_ask_own_server=True, current_path=f"{PATH}/one")
    return server.pages.render(page, visit.browser)


def _one_content(server: Server, visit: Visit, connection: Connection) -> dict[str, object]:
    return {
        "back": visit.back,
        "connection": connection,
        "own_address": _address(visit, connection),
        "switched_off": connection_list.switched_off(server.settings),
        "now": datetime.now(UTC),
        "ago": connection_list.ago,
    }


def _one(
    server: Server,
    visit: Visit,
    connection: Connection,
    *,
    problem: str | None = None,
    done: str | None = None,
    status: int = 200,
) -> Response:
    """Return the page of one connection."""
    content = {**_one_content(server, visit, connection), "problem": problem, "done": done}
    page = Page(
        "connection.html", content, status, may_ask_own_server=True, current_path=f"{PATH}/one"
    )
    return server.pages.render(page, visit.browser)


def _end_page(
    server: Server,
    visit: Visit,
    connection: Connection,
    *,
    problem: str | None = None,
    status: int = 200,
) -> Response:
    if connection.state == "stopped" and connection.is_removed:
        return _one(server, visit, connection, problem=_OVER, status=409)
    content = {"back": visit.back, "connection": connection, "problem": problem}
    page = Page("connection_end.html", content, status, current_path=f"{PATH}/one")
    return server.pages.render(page, visit.browser)

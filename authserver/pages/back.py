"""The way back to the view of the dashboard whose link led to a page of settings.

The link names the view in the parameter ``back``: a path of the resource server, such as
``/day/2026-11-21``. The page keeps it through sign-in and through its forms, and links to it. Anything else
than such a path is dropped, so no link leads from these pages to another origin.

Pages to which the dashboard links read their links and forms here.
"""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from starlette.requests import Request

from authserver import forms
from authserver.forms import Form
from authserver.people.sessions import Visit
from authserver.web.server import Server

FIELD: Final = "back"

_VIEW: Final = re.compile(
    r"/(?:[A-Za-z0-9._~%-]+(?:/[A-Za-z0-9._~%-]+)*)?"
    r"(?:\?[A-Za-z0-9._~%:@/&=+,-]*)?"
    r"(?:#[A-Za-z0-9_-]*)?"
)
_MAX_CHARACTERS: Final = 300


def path(form: Form) -> str:
    """Return the path of the view that a query or form names, otherwise an empty text."""
    text = form.get(FIELD) or ""
    is_view = len(text) <= _MAX_CHARACTERS and _VIEW.fullmatch(text) is not None
    return text if is_view else ""


def texts(form: Form, *names: str) -> dict[str, str]:
    """Return the values of these parameters, without those that are missing, repeated or not text."""
    values = {name: form.get(name) or "" for name in names}
    return {name: value for name, value in values.items() if value and forms.is_text(value)}


def address(page: str, parameters: Mapping[str, str], view: str) -> str:
    """Return the address of a page with parameters, and with the view to go back to, if there is one."""
    query = urlencode({**parameters, **({FIELD: view} if view else {})})
    return f"{page}?{query}" if query else page


async def read_link(
    server: Server, request: Request, page: str, *names: str, is_fresh: bool = False
) -> tuple[Form, dict[str, str], Visit]:
    """Return the query of a page, what it says under ``names``, and who visits the page.

    Signing in and confirming it (``is_fresh``) return to the page with these parameters. Raises SignInNeeded,
    ConfirmationNeeded.
    """
    query = forms.decode(request.scope["query_string"])
    view, linked = path(query), texts(query, *names)
    destination = address(page, linked, view)
    visit = await server.visit(request, destination, is_fresh=is_fresh, back=view)
    return query, linked, visit


async def read_form(
    server: Server, request: Request, page: str, *names: str, ignoring: tuple[str, ...] = ()
) -> tuple[Form, Visit]:
    """Return a form of a page, and its sender. Signing in returns to the page with the parameters ``names``.

    Parameters in ``ignoring`` may be repeated. Raises InvalidRequest, SignInNeeded.
    """
    form = await forms.read(request)
    form.check(ignoring=ignoring)
    view = path(form)
    destination = address(page, texts(form, *names), view)
    return form, await server.visit(request, destination, back=view)

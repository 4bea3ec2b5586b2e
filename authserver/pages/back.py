"""The way back to the view of the dashboard whose link led to a page of settings.

The link names the view in the parameter ``back``: a path of the resource server, such as
``/day/2026-11-21``. The page keeps it through sign-in and through its forms, and links to it. Anything else
than such a path is dropped, so no link leads from these pages to another origin.
"""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from authserver import forms
from authserver.forms import Form

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

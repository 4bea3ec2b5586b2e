"""Client ids: those that registration issues, and addresses of client id metadata documents.

An address is an id as it stands: it is compared character by character and never normalized
(draft-ietf-oauth-client-id-metadata-document-02, section 3).
"""

import re
from typing import Final

from starlette.requests import Request

from authserver.oauth import redirects
from shared import tokens, web

MAX_LENGTH: Final = 500
"""The most characters of an address. It is stored with the client, and log lines and pages contain it."""

_CHARACTER: Final = r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})"
_ADDRESS: Final = re.compile(
    r"https://(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?P<port>:[0-9]{1,5})?"
    rf"(?P<path>/{_CHARACTER}*)(?:\?(?:{_CHARACTER}|\?)*)?"
)


def document_host(client_id: str) -> str | None:
    """Return the host, with its port if it has one, of a client id that is the address of a document.

    None: it is not one, such as an id from registration.
    """
    parts = _ADDRESS.fullmatch(client_id)
    if parts is None or len(client_id) > MAX_LENGTH or redirects.has_dot_segment(parts["path"]):
        return None
    return parts["host"] + (parts["port"] or "")


def is_address(client_id: str) -> bool:
    """Return whether a client id is the address of a document."""
    return document_host(client_id) is not None


def is_well_formed(client_id: str) -> bool:
    """Return whether a client id has one of the two forms. Any other is not looked up."""
    return tokens.is_client_id(client_id) or is_address(client_id)


def log(request: Request, client_id: str | None) -> None:
    """Add a well-formed client id to the log line of the request."""
    if client_id is not None and is_well_formed(client_id):
        web.notes(request).update(client_id=client_id)

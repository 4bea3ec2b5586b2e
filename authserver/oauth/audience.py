"""The resources that a token may be bound to (RFC 8707): the service, and its MCP endpoint alone."""

import re
from typing import Final

from authserver.errors import InvalidTarget
from authserver.forms import Form

_ADDRESS: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<host>[^/?#]+)(?P<rest>[^#]*)", re.ASCII
)


def mcp_endpoint(base_url: str) -> str:
    """Return the resource of tokens that open the MCP endpoint alone."""
    return f"{base_url}/mcp"


def known(parameters: Form, base_url: str) -> str | None:
    """Return the resource of a request in canonical form, or None if omitted. Raises InvalidTarget.

    The parameter may be repeated (RFC 8707, section 2). Tokens for ``base_url`` open its ``/mcp`` as well, so
    both together are ``base_url``.
    """
    given = {canonical(text, base_url) for text in parameters.all("resource") if text}
    return min(given, key=len, default=None)


def canonical(text: str, base_url: str) -> str:
    """Return the form in which a ``resource`` is stored.

    Scheme and host are case-insensitive, and a path of one slash equals an empty path. Raises
    InvalidTarget unless the result is ``base_url`` or its ``/mcp``.
    """
    parts = _ADDRESS.fullmatch(text) if text.isascii() else None
    if parts is None:
        raise InvalidTarget(
            "the resource must be an absolute URI without a fragment", parameter="resource"
        )
    rest = "" if parts["rest"] == "/" else parts["rest"]
    resource = f"{parts['scheme'].lower()}://{parts['host'].lower()}{rest}"
    endpoint = mcp_endpoint(base_url)
    if resource not in (base_url, endpoint):
        raise InvalidTarget(f"the resource must be {base_url} or {endpoint}", parameter="resource")
    return resource

"""The resources that a token may be bound to (RFC 8707): the service, and its MCP endpoint alone."""

import re
from typing import Final

from authserver.errors import InvalidTarget
from authserver.forms import Form

_ADDRESS: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<host>[^/?#]+)(?P<rest>[^#]*)", re.ASCII
)


def known(parameters: Form, base_url: str) -> str | None:
    """Return the ``resource`` parameter in canonical form, or None if omitted. Raises InvalidTarget."""
    given = parameters.get("resource")
    return None if given is None else canonical(given, base_url)


def canonical(text: str, base_url: str) -> str:
    """Return the form in which a ``resource`` is stored.

    Scheme and host are case-insensitive, and a path of one slash equals an empty path. Raises
    InvalidTarget unless the result is ``base_url`` or its ``/mcp``.
    """
    parts = _ADDRESS.fullmatch(text) if text.isascii() else None
    if parts is None:
        raise InvalidTarget("the resource must be an absolute URI without a fragment")
    rest = "" if parts["rest"] == "/" else parts["rest"]
    resource = f"{parts['scheme'].lower()}://{parts['host'].lower()}{rest}"
    if resource not in (base_url, f"{base_url}/mcp"):
        raise InvalidTarget(f"the resource must be {base_url} or {base_url}/mcp")
    return resource

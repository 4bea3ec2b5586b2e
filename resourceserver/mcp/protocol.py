"""The messages of the Model Context Protocol: JSON-RPC 2.0, one message in a request, in either era.

Revision 2026-07-28 has no handshake: every request names its revision in ``params._meta`` and repeats method
and tool in headers, and an error has an HTTP status. The older revisions begin with ``initialize``, and their
errors have status 200. A message belongs to the newer era if its body or its headers name that revision.

    body ── JSON ── envelope ── era ── revision ── headers ── _meta ── Message
            -32700   -32600            -32022,      -32020    -32602
                                       -32600

The first mistake in this order is reported. This module knows nothing of tools, tokens or the database.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from shared import VERSION, pages

MODERN: Final = "2026-07-28"
LEGACY: Final = ("2025-11-25", "2025-06-18")
"""Revisions that begin with ``initialize``, the newest first."""
REVISIONS: Final = (MODERN, *LEGACY)
_UNSPOKEN: Final = ("2025-03-26", "2024-11-05")
"""Revisions of the older era that would require batches or streams."""

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
RESOURCE_NOT_FOUND: Final = -32002
"""Only of the older era; the newer one has INVALID_PARAMS for it."""
HEADER_MISMATCH: Final = -32020
UNSUPPORTED_REVISION: Final = -32022
# The service's own codes lie outside the range that JSON-RPC reserves, and contain an HTTP status.
INSUFFICIENT_SCOPE: Final = 403
TOO_MANY_REQUESTS: Final = 429
UNAVAILABLE: Final = 503

_REVISION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
_CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
_SERVER_KEY: Final = "io.modelcontextprotocol/serverInfo"

APPS_EXTENSION: Final = "io.modelcontextprotocol/ui"

SERVER: Final = {"name": "svc", "title": "Personal Activity Analytics", "version": VERSION}
"""What every result of the newer era names; ``server_info`` has more."""
CAPABILITIES: Final[dict[str, Any]] = {
    "tools": {},
    "prompts": {},
    "resources": {},
    "extensions": {APPS_EXTENSION: {}},
}

REVISION_HEADER: Final = "MCP-Protocol-Version"
METHOD_HEADER: Final = "Mcp-Method"
NAME_HEADER: Final = "Mcp-Name"
_ROUTING: Final = {
    header.lower().encode(): header for header in (REVISION_HEADER, METHOD_HEADER, NAME_HEADER)
}
_REVISION_FIELD: Final = REVISION_HEADER.lower().encode()
_OLDER: Final = frozenset(("", *LEGACY, *_UNSPOKEN))
"""What the header REVISION_HEADER says in the older era."""

_NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The methods whose parameter the header NAME_HEADER repeats, and that parameter."""

_BASE64: Final = re.compile(r"=\?base64\?(.*)\?=")
NULL: Final = b"null"
"""The id of an answer to a message without a readable id."""
_LONGEST_QUOTE: Final = 100


class Refusal(Exception):
    """A message that is answered with an error."""

    def __init__(
        self, status: int, code: int, message: str, request_id: bytes, data: Any = None
    ) -> None:
        """Keep the HTTP status, the error and the id of the request."""
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.request_id = request_id
        self.data = data

    def body(self) -> bytes:
        """Return the error response (JSON-RPC 2.0, section 5)."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        # Escaped, since a client may have sent half of a surrogate pair, which no encoding can represent.
        return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (
            self.request_id,
            json.dumps(error).encode(),
        )


@dataclass(frozen=True)
class Message:
    """A request or a notification."""

    method: str
    params: Mapping[str, Any]
    is_modern: bool
    request_id: bytes | None
    """The id as the JSON text that the client sent; None for a notification."""

    def end(self) -> bytes:
        """Return what follows the result in a response: the id comes last, behind what is often the same."""
        return b',"id":%b}' % (self.request_id or NULL)

    def refusal(self, code: int, message: str, data: Any = None) -> Refusal:
        """Return the refusal of this message, with the status of its era."""
        status = 200
        if self.is_modern:
            status = 404 if code == METHOD_NOT_FOUND else 400
        return Refusal(status, code, message, self.request_id or NULL, data)


def members(**given: Any) -> bytes:
    """Return the members of an object, as JSON without the braces."""
    return json.dumps(given, ensure_ascii=False, separators=(",", ":")).encode()[1:-1]


def result(members: bytes, *, is_modern: bool, server: Mapping[str, Any] | None = None) -> bytes:
    """Return a response up to its id, whose result has these ``members``: JSON without the braces.

    In the newer era it names the server, and with ``server`` introduces it in full.
    """
    begin = b""
    if is_modern:
        begin = _MODERN_RESULT if server is None else _modern_result(server)
        begin += b"," if members else b""
    return b'{"jsonrpc":"2.0","result":{%b%b}' % (begin, members)


def _modern_result(server: Mapping[str, Any]) -> bytes:
    return members(resultType="complete", _meta={_SERVER_KEY: server})


_MARK: Final = Path(pages.__file__).parent / "static" / "mark.svg"
_MODERN_RESULT: Final = _modern_result(SERVER)


def server_info(base_url: str) -> dict[str, Any]:
    """Return how the server introduces itself: name, version, what it is, its page and its icon."""
    # As data, since hosts may load no icon from an address without https.
    drawn = base64.b64encode(_MARK.read_bytes()).decode()
    icon = {
        "src": f"data:image/svg+xml;base64,{drawn}",
        "mimeType": "image/svg+xml",
        "sizes": ["any"],
    }
    return SERVER | {
        "description": "Where a person's time went: applications, coding, focus, goals, calendar, code,"
        " health, music and places, read from the person's own activity service.",
        "websiteUrl": base_url,
        "icons": [icon],
    }


def quoted(text: str) -> str:
    """Return text of a client for use in a message: short, and in characters that every log can hold."""
    cut = text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…"
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in cut)


Fields = Mapping[bytes, Sequence[bytes]]
"""The values of each header of a request by its name in lower case."""


def fields(headers: Iterable[tuple[bytes, bytes]]) -> Fields:
    """Return the headers of a request, which are pairs of a name in lower case and a value."""
    by_name: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        by_name.setdefault(name, []).append(value)
    return by_name


@dataclass(frozen=True)
class Routing:
    """The MCP headers of a request."""

    revision: str | None
    method: str | None
    name: str | None
    repeated: str | None = None
    """A header that is given more than once, so that two readers may use different values."""
    revisions: tuple[str, ...] = ()
    """All revisions that the headers name."""

    @classmethod
    def of(cls, given: Fields) -> "Routing":
        """Return the routing in the headers of a request."""
        repeated = None
        firsts: list[str | None] = []
        for name, header in _ROUTING.items():
            values = given.get(name, ())
            # Web servers leave spaces at the end.
            firsts.append(values[0].decode("latin-1").strip(" \t") or None if values else None)
            if len(values) > 1 and repeated is None:
                repeated = header
        revisions = (each.decode("latin-1").strip(" \t") for each in given.get(_REVISION_FIELD, ()))
        revision, method, name_ = firsts
        return cls(revision, method, name_, repeated, tuple(revisions))

    @property
    def is_modern(self) -> bool:
        """Whether the headers name a revision that is not of the older era."""
        return not _OLDER.issuperset(self.revisions)


def read(body: bytes, given: Fields) -> Message:
    """Return the message of a request with these headers. Raises Refusal."""
    decoded = _decoded(body)
    routing = Routing.of(given)
    params = decoded.get("params", {}) if isinstance(decoded, dict) else {}
    meta = params.get("_meta") if isinstance(params, dict) else None
    if not isinstance(meta, dict):
        meta = {}
    is_modern = _REVISION_KEY in meta or routing.is_modern
    request_id, method = _envelope(decoded, is_modern=is_modern)
    message = Message(method, params, is_modern, request_id)
    if is_modern:
        _check_modern(message, routing, meta)
    else:
        _check_legacy(message, routing)
    if not isinstance(params, dict):
        raise message.refusal(INVALID_PARAMS, "params must be an object")
    return message


class _Number(float):
    """A number with a fraction or an exponent, and its spelling."""

    text: str

    @classmethod
    def read(cls, text: str) -> "_Number":
        """Return the number that ``text`` spells."""
        number = cls(text)
        number.text = text
        return number


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


# Made once: `json.loads` makes one for each call that has such arguments.
_DECODER: Final = json.JSONDecoder(parse_float=_Number.read, parse_constant=_no_constant)


def _decoded(body: bytes) -> Any:
    try:
        # Decoded first: the parser would accept other encodings too, which JSON between systems must not use
        # (RFC 8259, section 8.1).
        return _DECODER.decode(body.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        # A number with thousands of digits raises ValueError too.
        raise Refusal(400, PARSE_ERROR, "the body is not JSON", NULL) from error


def _envelope(decoded: Any, *, is_modern: bool) -> tuple[bytes | None, str]:
    """Return the id, in JSON, and the method of a message (JSON-RPC 2.0, section 4). Raises Refusal."""
    if isinstance(decoded, list):
        raise _not_a_message("batches are not supported; send one message in a request")
    if not isinstance(decoded, dict):
        raise _not_a_message("the body must be one JSON-RPC message, an object")
    if "method" not in decoded and ("result" in decoded or "error" in decoded):
        raise _not_a_message("responses are not supported; this server sends no requests")
    request_id = _id(decoded["id"], is_modern=is_modern) if "id" in decoded else None
    echoed = request_id or NULL
    if decoded.get("jsonrpc") != "2.0":
        raise _not_a_message('jsonrpc must be "2.0"', echoed)
    method = decoded.get("method")
    if not isinstance(method, str):
        raise _not_a_message("method must be a string", echoed)
    return request_id, method


def _id(given: Any, *, is_modern: bool) -> bytes:
    match given:
        case bool():
            pass
        case str() | int():
            return json.dumps(given).encode()
        case _Number() if given.is_integer() or not is_modern:
            return given.text.encode()
    allowed = "a string or an integer" if is_modern else "a string or a number"
    raise _not_a_message(f"id must be {allowed}")


def _not_a_message(reason: str, request_id: bytes = NULL) -> Refusal:
    return Refusal(400, INVALID_REQUEST, reason, request_id)


def _check_modern(message: Message, routing: Routing, meta: Mapping[str, Any]) -> None:
    revision = meta.get(_REVISION_KEY)
    is_said_twice = _REVISION_KEY in meta and routing.revision is not None
    if is_said_twice and revision != routing.revision:
        raise message.refusal(
            HEADER_MISMATCH, f"{REVISION_HEADER} is not the revision in params._meta"
        )
    requested = revision if isinstance(revision, str) else routing.revision
    if requested is not None and requested != MODERN:
        raise message.refusal(
            UNSUPPORTED_REVISION,
            f"unsupported revision: {quoted(requested)}",
            {"supported": [MODERN], "requested": requested},
        )
    _check_headers(message, routing)
    if message.request_id is None:
        # The protocol requires none of these members of a notification.
        return
    for key in (_REVISION_KEY, _CAPABILITIES_KEY):
        if key not in meta:
            raise message.refusal(INVALID_PARAMS, f"params._meta must have {key}")
    if not isinstance(meta[_CAPABILITIES_KEY], dict):
        raise message.refusal(
            INVALID_PARAMS, f"params._meta: {_CAPABILITIES_KEY} must be an object"
        )


def _check_headers(message: Message, routing: Routing) -> None:
    """Compare the headers that intermediaries route by with the body."""
    if routing.repeated is not None:
        raise message.refusal(HEADER_MISMATCH, f"{routing.repeated} is given more than once")
    if message.request_id is None and routing.method is None:
        # The header is required, but the notification has no effect here, so it is accepted without.
        return
    if routing.revision is None:
        raise message.refusal(HEADER_MISMATCH, f"{REVISION_HEADER} is missing")
    if routing.method != message.method:
        raise message.refusal(HEADER_MISMATCH, f"{METHOD_HEADER} must be the method of the message")
    parameter = _NAMED_BY.get(message.method)
    if parameter is None:
        return
    name = message.params.get(parameter) if isinstance(message.params, dict) else None
    if routing.name is None or _unwrapped(routing.name) != name:
        raise message.refusal(
            HEADER_MISMATCH, f"{NAME_HEADER} must be params.{parameter} of the message"
        )


def _unwrapped(value: str) -> str | None:
    """Return the decoded value of a header that may be in Base64; None if it is damaged."""
    wrapped = _BASE64.fullmatch(value)
    if wrapped is None:
        return value
    try:
        plain = base64.b64decode(wrapped[1], validate=True)
        # Another spelling of the same bytes is refused: programs that compare headers would see another name.
        return plain.decode() if base64.b64encode(plain).decode() == wrapped[1] else None
    except (binascii.Error, ValueError):
        return None


def _check_legacy(message: Message, routing: Routing) -> None:
    """Refuse an unsupported revision, which has a status of its own in this era too."""
    unspoken = next((each for each in routing.revisions if each in _UNSPOKEN), None)
    reason = None
    if unspoken is not None:
        reason = f"unsupported revision: {unspoken}; supported are {', '.join(REVISIONS)}"
    elif len(routing.revisions) > 1:
        reason = f"{REVISION_HEADER} is given more than once"
    if reason is not None:
        raise Refusal(400, INVALID_REQUEST, reason, message.request_id or NULL)

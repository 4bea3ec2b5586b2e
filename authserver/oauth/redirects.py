"""Redirect URIs: rules for registration, matching, and adding response parameters.

All functions treat a URI as text, without network access and without normalizing it, so that a browser is
redirected to exactly the text that was checked.
"""

import ipaddress
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote

from authserver.errors import InvalidRedirectURI

MAX_LENGTH: Final = 2048

_REFUSED: Final = (
    "javascript data vbscript file blob about view-source filesystem ws wss ftp mailto tel sms intent "
    "moz-extension res jar urn search-ms shell ssh ldap smb mhtml steam microsoft-edge edge devtools "
    "jscript livescript mocha"
)
REFUSED_SCHEMES: Final = frozenset(_REFUSED.split())
"""Schemes that run code, open files, or open something other than the client's application."""
_REFUSED_PREFIXES: Final = ("ms-", "itms", "chrome")
"""Families of such schemes: those of Windows, of Apple's stores, and of Chrome's own pages and extensions."""

RESPONSE_PARAMETERS: Final = frozenset(
    ("code", "state", "iss", "error", "error_description", "error_uri")
)
"""The parameters that the server adds; a registered query must not contain them."""

# RFC 3986, appendix B, narrowed to URIs that have a scheme and no fragment.
_URI: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?://(?P<authority>[^/?]*))?(?P<path>[^?]*)"
    r"(?:\?(?P<query>.*))?"
)
_CHARACTERS: Final = re.compile(r"(?:[A-Za-z0-9\-._~:/?\[\]@!$&'()+,;=]|%[0-9A-Fa-f]{2})+")
_AUTHORITY: Final = re.compile(
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9\-._~!$&'()+,;=]*)(?::(?P<port>[0-9]*))?"
)
_LOOPBACK: Final = re.compile(
    r"(?P<before>http://(?:127\.0\.0\.1|\[::1\]|localhost))(?::(?P<port>[0-9]{1,5}))?(?P<after>[/?].*)?",
    re.IGNORECASE,
)


def check(uri: str) -> None:
    """Check that ``uri`` may be registered. Raises InvalidRedirectURI with the reason."""
    _check_characters(uri)
    parts = _URI.fullmatch(uri)
    if parts is None:
        raise InvalidRedirectURI("a redirect URI must be absolute")
    scheme = parts["scheme"].lower()
    if scheme in REFUSED_SCHEMES or scheme.startswith(_REFUSED_PREFIXES):
        raise InvalidRedirectURI(f"a redirect URI must not have the scheme {scheme}")
    if "[" in parts["path"] + (parts["query"] or "") or "]" in parts["path"] + (
        parts["query"] or ""
    ):
        raise InvalidRedirectURI("a redirect URI may have brackets only around an IPv6 address")
    _check_authority(scheme, parts["authority"])
    if scheme not in ("http", "https") and not parts["authority"] and not parts["path"]:
        raise InvalidRedirectURI("a redirect URI must have something after its scheme")
    _check_path(parts["path"])
    _check_query(parts["query"] or "")


def _check_characters(uri: str) -> None:
    if not uri or len(uri) > MAX_LENGTH:
        raise InvalidRedirectURI(f"a redirect URI must be 1 to {MAX_LENGTH} characters long")
    if "#" in uri:
        raise InvalidRedirectURI("a redirect URI must have no fragment")
    if "*" in uri:
        raise InvalidRedirectURI("a redirect URI must have no wildcard: it is matched exactly")
    if _CHARACTERS.fullmatch(uri) is None:
        raise InvalidRedirectURI(
            "a redirect URI must be ASCII without spaces, control characters and backslashes"
        )
    if any(letter < " " or letter == "\x7f" for letter in unquote(uri, "latin-1")):
        raise InvalidRedirectURI("a redirect URI must have no encoded control characters")


def _check_authority(scheme: str, authority: str | None) -> None:
    """Check user, host and port, which private-use schemes may have as well."""
    if authority is None:
        if scheme in ("http", "https"):
            raise InvalidRedirectURI("a redirect URI of http or https must have a host")
        return
    if "@" in authority:
        raise InvalidRedirectURI("a redirect URI must have no user or password")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise InvalidRedirectURI("the host of a redirect URI is malformed")
    host, port = parts["host"].lower(), parts["port"]
    if port is not None and not (0 < len(port) <= 5 and 1 <= int(port) <= 65535):
        raise InvalidRedirectURI("the port of a redirect URI must be 1 to 65535")
    if host.startswith("[") and not _is_ipv6(host[1:-1]):
        raise InvalidRedirectURI("the host of a redirect URI is malformed")
    if scheme in ("http", "https") and not host:
        raise InvalidRedirectURI("a redirect URI of http or https must have a host")
    if scheme == "http" and host not in ("127.0.0.1", "[::1]", "localhost"):
        raise InvalidRedirectURI(
            "a redirect URI of http must have the host 127.0.0.1, [::1] or localhost"
        )


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _check_path(path: str) -> None:
    if has_dot_segment(path):
        raise InvalidRedirectURI("a redirect URI must have no . or .. segment")


def has_dot_segment(path: str) -> bool:
    """Return whether a path has a segment ``.`` or ``..``, however often it is encoded."""
    decoded = path
    # Servers behind the client may decode repeatedly. Each decoding shortens the path, so the loop ends.
    while (further := unquote(decoded, "latin-1")) != decoded:
        decoded = further
    return any(segment in (".", "..") for segment in re.split(r"[/\\;]", decoded))


def _check_query(query: str) -> None:
    names = {unquote(pair.partition("=")[0]) for pair in query.split("&")}
    taken = names & RESPONSE_PARAMETERS
    if taken:
        raise InvalidRedirectURI(f"the query of a redirect URI must not hold {min(taken)}")


def matches(registered: str, given: str, *, port_may_vary: bool) -> bool:
    """Return whether ``given`` equals the ``registered`` URI, character by character.

    With ``port_may_vary``, only the port of a registered http loopback URI may differ (RFC 8252, section
    7.3).
    """
    if given == registered:
        return True
    if not port_may_vary:
        return False
    registered_parts, given_parts = _LOOPBACK.fullmatch(registered), _LOOPBACK.fullmatch(given)
    if registered_parts is None or given_parts is None:
        return False
    if (
        registered_parts["before"] != given_parts["before"]
        or registered_parts["after"] != given_parts["after"]
    ):
        return False
    return given_parts["port"] is None or 1 <= int(given_parts["port"]) <= 65535


def with_parameters(uri: str, parameters: Mapping[str, str | None]) -> str:
    """Return ``uri`` with ``parameters`` added to its query. Parameters that are None are left out.

    Spaces are encoded as %20, which all query parsers decode to a space.
    """
    added = "&".join(
        f"{name}={quote(value, safe='')}" for name, value in parameters.items() if value is not None
    )
    if "?" not in uri:
        return f"{uri}?{added}"
    return f"{uri}{added}" if uri.endswith(("?", "&")) else f"{uri}&{added}"


def destination(uri: str) -> str:
    """Return the destination of ``uri`` for people: a host with its port, or the scheme of an app."""
    parts = _URI.fullmatch(uri)
    if parts is None or parts["scheme"].lower() not in ("http", "https"):
        return uri.partition(":")[0] + ":"
    return str(parts["authority"])


def is_loopback(uri: str) -> bool:
    """Return whether ``uri`` is an http or https address on the person's own device."""
    parts = _URI.fullmatch(uri)
    if parts is None or parts["scheme"].lower() not in ("http", "https"):
        return False
    return (
        re.fullmatch(
            r"(127\.0\.0\.1|\[::1\]|localhost)(:\d*)?", parts["authority"] or "", re.IGNORECASE
        )
        is not None
    )


def is_private_use(uri: str) -> bool:
    """Return whether ``uri`` opens an app on the person's device (RFC 8252, section 7.1)."""
    return uri.partition(":")[0].lower() not in ("http", "https")

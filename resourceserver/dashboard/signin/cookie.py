"""Sealed cookies: what the dashboard keeps in a browser. The browser can neither read nor change it.

    svc-dashboard-8401               the access token, until it expires
    svc-dashboard-8401-attempt-…     one for each sign-in that is under way in a tab
    svc-dashboard-8401-round         a sign-in has just ended: not a second one by itself

Over https the first name is ``__Host-svc-dashboard``: browsers then require Secure and this exact host
(RFC 6265bis, section 4.1.3.2). Over http the port is in the name, because all ports of a host share cookies.

The value is AES-256-GCM with a random nonce. Its authenticated data are the address of the deployment and the
name, so that no cookie can stand for another one. Any value that does not open counts as no cookie.
"""

import base64
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from starlette.requests import Request
from starlette.responses import Response

from shared import listening
from shared.settings import Settings

_PURPOSE: Final = b"svc dashboard cookie"
_NONCE_BYTES: Final = 12
_LONGEST: Final = 4096
"""The most characters of a value; browsers keep no longer ones."""
_MOST_CHARACTERS: Final = 16 * 1024
"""The most characters of all cookies of a request."""
_UNTIL: Final = "until"


@dataclass(frozen=True, repr=False)
class Cookies:
    """The cookies of the dashboard of one deployment."""

    name: str
    """The name of the cookie with the access token, with which the names of the others begin."""
    base_url: str
    cipher: AESGCM

    @property
    def round_name(self) -> str:
        """The name of the cookie that remains for a while after a sign-in, however it has ended."""
        return f"{self.name}-round"

    def attempt_name(self, state: str) -> str:
        """Return the name of the cookie of the attempt that has this state."""
        return f"{self.name}-attempt-{state.partition('.')[0]}"

    def encrypt(self, name: str, content: Mapping[str, str], lifetime_s: int) -> str:
        """Return the value of a cookie that ends after ``lifetime_s``, whatever the browser does."""
        plain = json.dumps({**content, _UNTIL: int(time.time()) + lifetime_s}).encode()
        nonce = os.urandom(_NONCE_BYTES)
        sealed = nonce + self.cipher.encrypt(nonce, plain, self._context(name))
        return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()

    def open(self, request: Request, name: str) -> Mapping[str, str] | None:
        """Return the content of a cookie of ``request``; None without one that is sealed and not over."""
        value = dict(_pairs(request)).get(name)
        if value is None or len(value) > _LONGEST:
            return None
        try:
            sealed = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
            plain = self.cipher.decrypt(
                sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], self._context(name)
            )
        except (ValueError, InvalidTag):
            return None
        content: dict[str, Any] = json.loads(plain)
        return content if time.time() < content.pop(_UNTIL) else None

    def set(
        self, response: Response, name: str, content: Mapping[str, str], lifetime_s: int
    ) -> None:
        """Let ``response`` set a cookie."""
        value = self.encrypt(name, content, lifetime_s)
        response.set_cookie(
            name, value, lifetime_s, secure=self._is_https, httponly=True, samesite="lax"
        )

    def delete(self, response: Response, name: str) -> None:
        """Let ``response`` end a cookie."""
        response.delete_cookie(name, secure=self._is_https, httponly=True, samesite="lax")

    def names(self, request: Request) -> list[str]:
        """Return the names of all cookies of the dashboard in ``request``, whatever their values are.

        Over http every program of the machine can set cookies here, also under names that no response may
        repeat. Such names are left out.
        """
        own = re.compile(rf"{re.escape(self.name)}(-attempt-[0-9a-f]{{16}}|-round)?")
        return [name for name in dict(_pairs(request)) if own.fullmatch(name)]

    @property
    def _is_https(self) -> bool:
        return self.base_url.startswith("https://")

    def _context(self, name: str) -> bytes:
        return f"{self.base_url} {name}".encode()


def cookies(chosen: Settings, key: str) -> Cookies:
    """Return the cookies of a deployment with ``key``, from which the key of the cipher is derived."""
    is_https = chosen.base_url.startswith("https://")
    return Cookies(
        "__Host-svc-dashboard"
        if is_https
        else f"svc-dashboard-{listening.port_of(chosen.base_url)}",
        chosen.base_url,
        AESGCM(HKDF(SHA256(), length=32, salt=None, info=_PURPOSE).derive(key.encode())),
    )


def _pairs(request: Request) -> Iterator[tuple[str, str]]:
    """Yield names and raw values of the cookies; the standard library unquotes them, in quadratic time."""
    text = "; ".join(request.headers.getlist("cookie"))
    if len(text) > _MOST_CHARACTERS:
        return
    for pair in text.split(";"):
        name, separator, value = pair.strip(" \t").partition("=")
        if separator:
            yield name, value

"""Compressed answers (RFC 9110, section 12.5.3), for bodies that are large enough to gain by it."""

import asyncio
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.gzip import GZipResponder, IdentityResponder
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from shared import priority

SMALLEST: Final = 1024
"""The smallest body that is compressed, in bytes."""
LEVEL: Final = 5
LARGE: Final = 64 * 1024
"""The smallest body that is compressed in a thread: one of 300 KB takes 3 ms."""
_GZIP: Final = 16
"""What zlib adds to the size of a window for the format of gzip."""


@dataclass(frozen=True)
class Packing:
    """Middleware that compresses large and streamed bodies for clients that accept gzip.

    Starlette's middleware only searches the header for the word gzip, and so compresses for clients that
    refuse it with a quality of 0.
    """

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        if accepts_gzip(Headers(scope=scope)):
            responder: ASGIApp = GZipResponder(self.app, SMALLEST, compresslevel=LEVEL)
        else:
            responder = IdentityResponder(self.app, SMALLEST)
        await responder(scope, receive, send)


def accepts_gzip(headers: Headers) -> bool:
    """Tell whether a client accepts gzip: by that name or by ``*``, and with a quality above 0."""
    return accepts([value for name, value in headers.raw if name == b"accept-encoding"])


def accepts(codings: Sequence[bytes]) -> bool:
    """Tell whether a client with these values of Accept-Encoding accepts gzip."""
    return _accepts_gzip(tuple(codings))


# Clients send very few different values.
@lru_cache(maxsize=64)
def _accepts_gzip(codings: tuple[bytes, ...]) -> bool:
    accepted = b",".join(codings).decode("latin-1").split(",")
    qualities = dict(map(_coding, accepted))
    return qualities.get("gzip", qualities.get("x-gzip", qualities.get("*", 0.0))) > 0


def _coding(element: str) -> tuple[str, float]:
    """Return a coding with its quality; an invalid one counts as 0, so that nothing is compressed."""
    name, _, parameter = element.partition(";")
    key, _, value = parameter.partition("=")
    try:
        quality = float(value) if key.strip().lower() == "q" else 1.0
    except ValueError:
        quality = 0.0
    return name.strip().lower(), quality


def compressed(body: bytes) -> bytes:
    """Return a body as a gzip member.

    The window is not longer than the body needs. zlib fills it with zeros first, and that takes several times
    as long for the longest window, with its tables 256 KB, as to compress a body of a kilobyte.
    """
    window = min(max(len(body).bit_length(), 9), zlib.MAX_WBITS)
    compressor = zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP + window, window - 7)
    return compressor.compress(body) + compressor.flush()


_THREADS: Final = ThreadPoolExecutor(
    2, "compression", partial(priority.give_way, priority.LITTLE_LOWER)
)
"""They give way to the thread that answers requests."""


async def _compressed(body: bytes) -> bytes:
    if len(body) < LARGE:
        return compressed(body)
    return await asyncio.get_running_loop().run_in_executor(_THREADS, compressed, body)


def packed(response: Response) -> Response:
    """Return a response that is compressed if its body is large and the client accepts gzip."""
    return response if len(response.body) < SMALLEST else _Packed(response)


class _Packed(Response):
    def __init__(self, response: Response) -> None:
        self.response = response
        self.raw_headers = response.raw_headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response, headers = self.response, MutableHeaders(raw=self.response.raw_headers)
        if "Content-Encoding" not in headers:
            headers.add_vary_header("Accept-Encoding")
            if accepts_gzip(Headers(scope=scope)):
                response.body = await _compressed(bytes(response.body))
                headers["Content-Encoding"] = "gzip"
                headers["Content-Length"] = str(len(response.body))
        await response(scope, receive, send)

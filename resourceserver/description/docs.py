"""``/docs``: the OpenAPI description as a page, which loads everything from this server.

The page and its script are ours, the renderer is Swagger UI (``static/swagger-ui/README.md``). The page
needs no credential and contains no data. A person who sends a request from it pastes a token, which stays
in the page.
"""

import gzip
import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from resourceserver.api.packing import accepts_gzip

PATH: Final = "/docs"
_STATIC: Final = Path(__file__).with_name("static")
_RENDERER: Final = _STATIC / "swagger-ui"
_TYPES: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
}
# The renderer sets styles of single elements, and its style sheet contains images as data.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@dataclass(frozen=True)
class Asset:
    """A file that the server sends to browsers."""

    path: Path

    @cached_property
    def plain(self) -> bytes:
        """The contents of the file."""
        return self.path.read_bytes()

    @cached_property
    def packed(self) -> bytes:
        """The contents, compressed once for all requests."""
        return gzip.compress(self.plain, mtime=0)

    @cached_property
    def tag(self) -> str:
        """The entity tag of this version of the file."""
        return f'"{hashlib.sha256(self.plain).hexdigest()[:16]}"'

    def answer(self, request: Request) -> Response:
        """Return the file, or 304 if the browser has this version (RFC 9110, section 13.1.2)."""
        headers = {
            "Cache-Control": "public, no-cache",
            "Content-Security-Policy": _POLICY,
            "ETag": self.tag,
            "Referrer-Policy": "no-referrer",
            "Vary": "Accept-Encoding",
        }
        if self.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        media_type = _TYPES[self.path.suffix]
        if not accepts_gzip(request.headers):
            return Response(self.plain, headers=headers, media_type=media_type)
        headers["Content-Encoding"] = "gzip"
        return Response(self.packed, headers=headers, media_type=media_type)


def routes() -> list[Route]:
    """Return the routes of the page and of the files that it loads."""
    files = {
        PATH: _STATIC / "docs.html",
        **{f"{PATH}/{name}": _STATIC / name for name in ("docs.css", "docs.js", "guide.css")},
        **{
            f"{PATH}/{name}": _RENDERER / name
            for name in ("swagger-ui-bundle.js", "swagger-ui.css")
        },
    }
    return [_route(path, Asset(file)) for path, file in files.items()]


def _route(path: str, asset: Asset) -> Route:
    async def docs(request: Request) -> Response:
        return asset.answer(request)

    return Route(path, docs, name="docs")

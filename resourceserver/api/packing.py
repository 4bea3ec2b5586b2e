"""Compressed answers (RFC 9110, section 12.5.3), for bodies that are large enough to gain by it."""

from typing import Final

from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

SMALLEST: Final = 1024
"""How many bytes a body has at least that is compressed."""
LEVEL: Final = 5


def packed(response: Response) -> Response:
    """Return a response that is compressed where its body is large and the client takes gzip."""
    return response if len(response.body) < SMALLEST else _Packed(response)


class _Packed(Response):
    def __init__(self, response: Response) -> None:
        self.response = response
        self.raw_headers = response.raw_headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        compressing = GZipMiddleware(self.response, minimum_size=SMALLEST, compresslevel=LEVEL)
        await compressing(scope, receive, send)

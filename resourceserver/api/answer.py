"""Answers of JSON to requests with a credential."""

from collections.abc import Mapping, Sequence
from typing import Final

from starlette.responses import Response

from resourceserver.api.errors import PRIVATE

RawHeaders = Sequence[tuple[bytes, bytes]]


def encoded(headers: Mapping[str, str]) -> RawHeaders:
    """Return headers as they are sent."""
    return [(name.lower().encode(), text.encode()) for name, text in headers.items()]


JSON: Final = {**PRIVATE, "Content-Type": "application/json"}
_USUAL: Final = encoded(JSON)


class JSONAnswer(Response):
    """An answer whose headers are encoded once and not for each request, but for its length."""

    def __init__(self, body: bytes, headers: RawHeaders = _USUAL, status_code: int = 200) -> None:
        """Take the body as it is sent, and the other headers."""
        self.status_code = status_code
        self.background = None
        self.body = body
        self.raw_headers = [(b"content-length", b"%d" % len(body)), *headers]

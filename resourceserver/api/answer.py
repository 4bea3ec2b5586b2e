"""Answers of JSON to requests with a credential."""

from collections.abc import Mapping, Sequence

from starlette.responses import Response

from resourceserver.api.errors import PRIVATE
from resourceserver.api.packing import LARGE, SMALLEST, accepts, compressed, packed

RawHeaders = Sequence[tuple[bytes, bytes]]


def encoded(headers: Mapping[str, str]) -> RawHeaders:
    """Return headers as they are sent."""
    return [(name.lower().encode(), text.encode()) for name, text in headers.items()]


class JSONAnswer(Response):
    """An answer whose headers are encoded once and not for each request, but for its length."""

    def __init__(self, body: bytes, headers: RawHeaders, status_code: int = 200) -> None:
        """Take the body as it is sent, and the other headers."""
        self.status_code = status_code
        self.background = None
        self.body = body
        self.raw_headers = [(b"content-length", b"%d" % len(body)), *headers]


class JSONAnswers:
    """Writes answers, which depend on these headers of a request."""

    def __init__(self, *vary: str) -> None:
        """Encode their headers."""
        usual = PRIVATE | {"Content-Type": "application/json", "Vary": ", ".join(vary)}
        large = usual | {"Vary": ", ".join((*vary, "Accept-Encoding"))}
        self._usual = encoded(usual)
        self._large = encoded(large)
        self._packed = encoded(large | {"Content-Encoding": "gzip"})

    def of(self, body: bytes, codings: Sequence[bytes], status_code: int = 200) -> Response:
        """Return an answer for a client that accepts these codings, compressed if that is worth it."""
        if len(body) < SMALLEST:
            return JSONAnswer(body, self._usual, status_code)
        if not accepts(codings):
            return JSONAnswer(body, self._large, status_code)
        if len(body) < LARGE:
            return self.packed(compressed(body), status_code)
        return packed(JSONAnswer(body, self._usual, status_code))

    def packed(self, body: bytes, status_code: int = 200) -> Response:
        """Return an answer whose body is compressed already."""
        return JSONAnswer(body, self._packed, status_code)

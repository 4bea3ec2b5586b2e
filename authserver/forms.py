"""Parameters of queries and form bodies, parsed as OAuth requires (RFC 6749, section 3.2).

A parameter with an empty value counts as omitted. A repeated parameter, or one that is not text, is
reported only when the caller calls ``Form.check``: the caller may have to act on the rest first.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from authserver.errors import BodyTooSlow, InvalidRequest, PayloadTooLarge

MAX_BODY_BYTES: Final = 64 * 1024
MAX_FIELDS: Final = 50
_BODY_TIMEOUT_S: Final = 10.0
_MAX_NAME_CHARACTERS: Final = 40


@dataclass(frozen=True, repr=False)
class Form:
    """The parameters of a request; a name may occur more than once."""

    values: Mapping[str, Sequence[str]]

    def get(self, name: str) -> str | None:
        """Return the only value of ``name``, or None if it is omitted, empty or repeated."""
        values = self.values.get(name, ())
        return values[0] if len(values) == 1 and values[0] else None

    def all(self, name: str) -> Sequence[str]:
        """Return every value of ``name``."""
        return self.values.get(name, ())

    def check(self, *, ignoring: tuple[str, ...] = ()) -> None:
        """Raise InvalidRequest if a parameter not in ``ignoring`` is repeated or not text."""
        for name, values in self.values.items():
            if name in ignoring:
                continue
            if len(values) > 1:
                raise InvalidRequest(
                    f"the parameter {_shortened(name)} is repeated", parameter=name
                )
            if not is_text(values[0]):
                raise InvalidRequest(
                    f"the parameter {_shortened(name)} is not text in UTF-8", parameter=name
                )


def _shortened(name: str) -> str:
    """Return a parameter's name, cut to a length that an error description can repeat."""
    return name[:_MAX_NAME_CHARACTERS]


def is_text(value: str) -> bool:
    """Return whether a decoded value was valid UTF-8 without NUL, which Postgres cannot store."""
    # Invalid bytes were decoded to lone surrogates, which cannot be encoded again.
    return "\0" not in value and (
        value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)
    )


def decode(encoded: bytes) -> Form:
    """Return the parameters of a query string or form body. Raises InvalidRequest for too many."""
    text = encoded.decode("utf-8", "surrogateescape")
    try:
        pairs = parse_qsl(
            text, keep_blank_values=True, errors="surrogateescape", max_num_fields=MAX_FIELDS
        )
    except ValueError as error:
        raise InvalidRequest(f"at most {MAX_FIELDS} parameters are accepted") from error
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return Form(values)


async def read(request: Request) -> Form:
    """Return the form that is the body of ``request``. Raises InvalidRequest, PayloadTooLarge."""
    if media_type(request) != "application/x-www-form-urlencoded":
        raise InvalidRequest("the body must be application/x-www-form-urlencoded")
    return decode(await read_body(request))


def media_type(request: Request) -> str:
    """Return the media type of the body without its parameters, in lower case."""
    given = request.headers.get("content-type", "")
    return given.partition(";")[0].strip().lower()


async def read_body(request: Request) -> bytes:
    """Return the body, which may be chunked. Raises PayloadTooLarge, BodyTooSlow, InvalidRequest."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > MAX_BODY_BYTES:
        raise PayloadTooLarge
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_TIMEOUT_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise PayloadTooLarge
    except TimeoutError:
        raise BodyTooSlow from None
    except ClientDisconnect:
        # The client has gone; an expected error keeps a stack trace out of the log.
        raise InvalidRequest("the body ended early") from None
    return bytes(body)

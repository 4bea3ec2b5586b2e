"""Parameters of queries and form bodies, read the way OAuth asks for (RFC 6749, section 3.2).

A parameter without a value counts as omitted; one that is repeated or is not text is a problem of its
own, which the caller raises when it has decided what the rest of the request means.
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
    """The parameters that came; the same name may have come more than once."""

    values: Mapping[str, Sequence[str]]

    def get(self, name: str) -> str | None:
        """Return the one value of ``name``, or None where it is omitted, empty or repeated."""
        values = self.values.get(name, ())
        return values[0] if len(values) == 1 and values[0] else None

    def all(self, name: str) -> Sequence[str]:
        """Return every value of ``name``."""
        return self.values.get(name, ())

    def check(self, *, ignoring: tuple[str, ...] = ()) -> None:
        """Raise InvalidRequest for a parameter that is repeated or not text, but not for ``ignoring``."""
        for name, values in self.values.items():
            if name in ignoring:
                continue
            if len(values) > 1:
                raise InvalidRequest(f"the parameter {_shortened(name)} is repeated")
            if not is_text(values[0]):
                raise InvalidRequest(f"the parameter {_shortened(name)} is not text in UTF-8")


def _shortened(name: str) -> str:
    """Return a parameter's name as an answer repeats it: no longer than any that there is."""
    return name[:_MAX_NAME_CHARACTERS]


def is_text(value: str) -> bool:
    """Tell whether a decoded value was valid UTF-8 and holds no NUL, which Postgres cannot store."""
    # What was not UTF-8 has become lone surrogates, which cannot be encoded again.
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
        raise InvalidRequest(f"at most {MAX_FIELDS} parameters are taken") from error
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
    """Return the body, which may be chunked, cut off at the limit. Raises PayloadTooLarge, BodyTooSlow."""
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
        # Nobody is left to read the answer; this one only keeps the log free of a stack trace.
        raise InvalidRequest("the body ended early") from None
    return bytes(body)

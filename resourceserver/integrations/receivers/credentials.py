"""Where applications put their key: in one of several schemes of the header Authorization."""

import base64
import binascii

from starlette.requests import Request

from shared import keys


def key(request: Request) -> str:
    """Return the key of a request, of whichever scheme; empty without one.

    Schemes are compared without regard to case. Basic has the key in either field, or alone without a colon
    (WakaTime's applications).
    """
    given = request.headers.getlist("authorization")
    scheme, _, text = given[0].strip().partition(" ") if len(given) == 1 else ("", "", "")
    match scheme.lower():
        case "bearer" | "token":
            return text.strip()
        case "basic":
            return _of_basic(text.strip())
    return ""


def _of_basic(text: str) -> str:
    try:
        fields = base64.b64decode(text, validate=True).decode("ascii").split(":", 1)
    except (binascii.Error, ValueError):
        return ""
    return next((each for each in fields if keys.hash_of(each) is not None), fields[-1])

"""What receivers share: JSON that applications send, the bounds of the instants in it, headers of answers.

A message can hold many records, and an application throws away or repeats only whole messages. So reading
stops as late as possible: a byte that is no UTF-8 costs one character, a value that is no number costs one
record, and only text that is no JSON costs the message.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from resourceserver.api.errors import DatabaseUnavailable, Problem, TooManyRequests
from resourceserver.integrations.values import Flaw

MOST_VALUES: Final = 1_000_000
"""Most values of a message: a value takes two bytes of JSON, and up to two hundred of memory."""

FIRST: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""The first instant that is believed: a device without a clock says 1970 or 1980."""
AHEAD: Final = timedelta(hours=1)
"""How far a device's clock may be ahead of the server's, as in ingest."""


def document(body: bytes | bytearray) -> Any:
    """Return the JSON value in ``body``. Raises Flaw.

    A number outside the range of a double becomes infinite, and ``NaN`` is a number, so that only the record
    with it is refused.
    """
    if sum(map(body.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise Flaw("too_many_values")
    try:
        return _DECODER.decode(str(body, "utf-8-sig", "replace"))
    except (ValueError, RecursionError) as error:
        raise Flaw("not_json") from error


def _integer(digits: str) -> int | float:
    # Numbers of up to 308 digits are in range. Python reads no integer of more than 4300 digits.
    return int(digits) if len(digits) <= 308 else float(digits)


_DECODER: Final = json.JSONDecoder(parse_int=_integer)


def check_time(at: datetime, now: datetime) -> None:
    """Raise Flaw if ``at`` cannot be when something was measured that arrives ``now``."""
    if at > now + AHEAD:
        raise Flaw("timestamp_in_future")
    if at < FIRST:
        raise Flaw("time_out_of_range")


def headers(problem: Problem) -> Mapping[str, str]:
    """Return the headers of a problem that is answered in an application's own words."""
    match problem:
        case TooManyRequests():
            return {"Retry-After": str(problem.retry_after_s), **problem.headers}
        case DatabaseUnavailable():
            return {"Retry-After": "1", **problem.headers}
    return problem.headers

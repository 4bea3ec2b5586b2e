"""Parsers for values in files of other services: numbers as text, missing members, times in several forms.

Functions return None for an optional value that is missing or invalid. They raise Flaw for a required one;
the reader then yields ``refused(flaw, ...)`` and continues.
"""

import hashlib
import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from resourceserver.integrations.records import KEY_LENGTH, Refused

EXAMPLE_LENGTH: Final = 200
"""The most characters that an example quotes."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Flaw(Exception):
    """A required value is missing or invalid; the message is the reason of a Refused."""


def refused(flaw: Flaw, value: Any) -> Refused:
    """Return the Refused that a reader yields for ``value``."""
    return Refused(str(flaw), example(value))


def example(value: Any) -> str:
    """Return the beginning of ``value``: of a text as it is, of any other value as JSON."""
    if isinstance(value, dict):
        # Scalar members identify an object best; nested lists could fill the whole example.
        value = {name: each for name, each in value.items() if not isinstance(each, dict | list)}
    if not isinstance(value, str):
        try:
            value = json.dumps(value, ensure_ascii=False, default=str)
        except (ValueError, RecursionError):
            value = f"a {type(value).__name__} that is nested too deeply"
    return str(value)[:EXAMPLE_LENGTH]


def members(value: Any) -> dict[str, Any]:
    """Return ``value`` if it is a JSON object. Raises Flaw."""
    if isinstance(value, dict):
        return value
    raise Flaw("not_an_object")


def text(value: Any) -> str | None:
    """Return text without NUL and surrounding white space; None if it is then empty, or is not text."""
    if not isinstance(value, str):
        return None
    return value.replace("\0", "").strip() or None


def number(value: Any) -> float | None:
    """Return a finite number, which may be written as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        parsed = float(value)
    except (ValueError, OverflowError):
        return None
    return parsed if math.isfinite(parsed) else None


def count(value: Any) -> int | None:
    """Return a count, rounded to a whole number; None if it is negative or not a number."""
    parsed = number(value)
    if parsed is None or parsed < 0:
        return None
    try:
        # Ids can have more digits than a floating-point number keeps.
        return round(parsed) if isinstance(value, float) else int(value)
    except ValueError:
        return round(parsed)


def instant(value: Any) -> datetime:
    """Return the instant of an ISO 8601 text with an offset. Raises Flaw."""
    parsed = wall_time(value)
    if parsed.tzinfo is None:
        raise Flaw("time_without_offset")
    return utc(parsed)


def instant_in(value: Any, zone: ZoneInfo) -> datetime:
    """Return the instant of an ISO 8601 text, without an offset a local time in ``zone``. Raises Flaw."""
    parsed = wall_time(value)
    return utc(parsed if parsed.tzinfo else parsed.replace(tzinfo=zone))


def wall_time(value: Any) -> datetime:
    """Return the time of an ISO 8601 text, aware if it has an offset, else naive. Raises Flaw."""
    written = text(value)
    if written is None:
        raise Flaw("missing_time")
    try:
        return datetime.fromisoformat(written)
    except ValueError as error:
        raise Flaw("invalid_time") from error


def epoch(value: Any, per_second: int = 1) -> datetime:
    """Return the instant of a time since 1970-01-01T00:00:00Z. Raises Flaw."""
    parsed = number(value)
    if parsed is None:
        raise Flaw("missing_time" if value is None else "invalid_time")
    try:
        return _EPOCH + timedelta(seconds=parsed / per_second)
    except OverflowError as error:
        raise Flaw("invalid_time") from error


def utc(at: datetime) -> datetime:
    """Return an aware time in UTC. Raises Flaw outside the years 1 to 9999."""
    try:
        return at.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise Flaw("invalid_time") from error


def later(at: datetime, **delta: float) -> datetime:
    """Return ``at`` plus a ``timedelta`` of these arguments. Raises Flaw outside the years 1 to 9999."""
    try:
        return at + timedelta(**delta)
    except (OverflowError, ValueError) as error:
        raise Flaw("invalid_time") from error


def key(*parts: object) -> str:
    """Return the parts, joined with colons, or a digest of them if the result is not a valid key."""
    joined = ":".join("" if part is None else str(part) for part in parts)
    if len(joined) <= KEY_LENGTH and joined.isprintable():
        return joined
    digest = hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()
    first = str(parts[0])
    return f"{first}:{digest}" if len(first) <= 32 and first.isprintable() else digest

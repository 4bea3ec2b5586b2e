"""Hooks for Schemathesis about parameters beyond OpenAPI; its command loads this module.

A format describes the form of a value, and not which values exist; nor can one parameter be bounded by
another. So this module generates valid values, and avoids invalid combinations of them.
"""

import base64
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import schemathesis
from hypothesis import strategies as st
from schemathesis.openapi.checks import RejectedPositiveData

from resourceserver.api.parameters import (
    MOST_DAYS,
    parse_cursor,
    parse_day,
    parse_instant,
    parse_zone,
)

_CLOCK: Final = re.compile("[0-9]{2}:[0-9]{2}")
_NOW: Final = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
MOMENTS: Final = st.datetimes(_NOW - timedelta(days=30), _NOW - timedelta(days=2))
"""Times with data in the account; and before yesterday, because a range without an end ends then."""
ZONES: Final = ("UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu")


def _cursor(at: datetime, row: UUID) -> str:
    milliseconds = int(at.replace(tzinfo=UTC).timestamp() * 1000)
    return base64.urlsafe_b64encode(f"{milliseconds},{row}".encode()).decode().rstrip("=")


schemathesis.openapi.format("date-time", MOMENTS.map(lambda at: f"{at.isoformat()}Z"))
schemathesis.openapi.format("date", MOMENTS.map(lambda at: at.date().isoformat()))
schemathesis.openapi.format("iana-timezone", st.sampled_from(ZONES))
schemathesis.openapi.format("cursor", st.builds(_cursor, MOMENTS, st.uuids()))


def _longest(path: str, query: dict[str, Any]) -> timedelta:
    """Return the length from which on a range is too long for an operation, which no schema can express."""
    if path == "/api/v1/analytics/hours":
        return timedelta(days=62)
    if path == "/api/v1/analytics/switch-costs":
        return timedelta(days=366)
    step = str(query.get("step_s", "300"))
    if path == "/api/v1/health/heart-rate-series" and re.fullmatch("[0-9]{1,6}", step):
        return timedelta(seconds=int(step) * 10_000)
    return timedelta(days=MOST_DAYS)


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Put a reversed range into order, move the start of one that is too long, lengthen a working time that
    ends before it begins, and name each of its days once.
    """
    query = case.query or {}
    for parse in (parse_instant, parse_day):
        try:
            length = parse(query["to"]) - parse(query["from"])
        except (KeyError, TypeError, ValueError):
            continue
        if length < timedelta():
            query["from"], query["to"] = query["to"], query["from"]
        if abs(length) >= _longest(case.operation.path, query):
            query["from"] = query["to"]
    work = query.get("work_from", "09:00"), query.get("work_to", "17:00")
    if (
        all(isinstance(each, str) and _CLOCK.fullmatch(each) for each in work)
        and work[0] >= work[1]
    ):
        query |= {"work_from": "00:00", "work_to": "24:00"}
    if re.fullmatch("[1-7](,[1-7])*", str(query.get("work_days"))):
        query["work_days"] = ",".join(dict.fromkeys(query["work_days"].split(",")))


@schemathesis.hook
def filter_case(context: Any, case: Any) -> bool:
    """Leave out batches that are malformed in their events alone: those are answered, event by event."""
    mode = case.meta.generation.mode if case.meta is not None else None
    if case.method != "POST" or mode != schemathesis.GenerationMode.NEGATIVE:
        return True
    return not _is_batch(case.body)


@schemathesis.hook
def filter_failure(context: Any, failure: Any, case: Any, response: Any) -> bool:
    """Ignore the refusal of a text that was made invalid as a zone or cursor.

    No schema can express that, so Schemathesis takes it for a valid one again.
    """
    query = case.query or {}
    are_read = all(_is_read(parse, query.get(name)) for name, parse in _READ_BY.items())
    return are_read or not isinstance(failure, RejectedPositiveData)


_READ_BY: Final = {"tz": parse_zone, "cursor": parse_cursor}


def _is_read(parse: Callable[[str], object], value: Any) -> bool:
    if not isinstance(value, str):
        return value is None
    try:
        parse(value)
    except ValueError:
        return False
    return True


def _is_batch(body: Any) -> bool:
    """Tell whether the service parses ``body``, even if it rejects the events."""
    if not isinstance(body, dict) or not isinstance(body.get("events"), list):
        return False
    client = body.get("client")
    name = client.get("name") if isinstance(client, dict) else None
    return (
        len(body["events"]) <= 1000
        and isinstance(client, dict | None)
        and isinstance(name, str | None)
    )

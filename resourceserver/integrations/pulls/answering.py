"""What an answer means that is not a success, for pulls of every kind."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final

from resourceserver.integrations import values
from resourceserver.integrations.pulls.pulling import PullFailed

LONGEST_WAIT: Final = timedelta(days=1)
"""The longest time that a server can ask us to wait."""


def failure(answer: Any, now: datetime) -> PullFailed:
    """Return why an answer, which is not a success, ends a pull."""
    if answer.status in (401, 403):
        return PullFailed("key_refused", is_refused=True)
    if answer.status in (404, 410):
        return PullFailed("not_found")
    if answer.status == 429:
        return PullFailed("rate_limited", wait(answer.headers, now))
    if answer.status >= 500:
        return PullFailed("server_error", wait(answer.headers, now))
    return PullFailed("unreadable")


def wait(headers: Mapping[str, str], now: datetime) -> timedelta | None:
    """Return the time of ``Retry-After`` (RFC 9110, section 10.2.3); None if there is none."""
    written = headers.get("Retry-After", "").strip()
    seconds = values.count(written)
    if seconds is not None:
        # As a number first: a timedelta cannot hold what a text can.
        return timedelta(seconds=min(seconds, LONGEST_WAIT.total_seconds()))
    at = _date(written)
    if at is None:
        return None
    # Both times are of the server's clock, if it says its own, so that a difference to ours does not matter.
    sent = _date(headers.get("Date", "")) or now
    return min(max(at - sent, timedelta(0)), LONGEST_WAIT)


def _date(written: str) -> datetime | None:
    try:
        at = parsedate_to_datetime(written)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, TypeError, OverflowError):
        return None

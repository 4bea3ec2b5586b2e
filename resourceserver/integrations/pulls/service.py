"""Requests of one pull to a service that answers in JSON.

Their number and time are bounded: a pull that has used them up ends, and the next one continues where its
state says. An answer that is not a success becomes a PullFailed, with the time that the service wants to be
left alone.
"""

import json
import logging
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from email.utils import format_datetime
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from resourceserver.integrations import values
from resourceserver.integrations.pulls import answering
from resourceserver.integrations.pulls.pulling import Item, Pulled, PullFailed, Source
from resourceserver.integrations.values import Flaw
from shared.fetcher import Answer, FetchFailed

log = logging.getLogger("svc.worker")

MOST_REQUESTS: Final = 60
"""The most requests of one pull."""
LONGEST_S: Final = 300
"""After this time a pull makes no more requests, so that a slow server does not delay other people."""


class Reply(NamedTuple):
    """An answer with an allowed status; ``value`` is its parsed JSON, or None without content."""

    status: int
    headers: Mapping[str, str]
    """In any case."""
    value: Any


class Service:
    """A service, with the headers of each request to it."""

    def __init__(self, source: Source, headers: Mapping[str, str]) -> None:
        """Prepare requests of a pull with the person's ``headers``."""
        self._fetch = source.fetch
        self._now = source.person.now
        self._headers = {"Accept": "application/json", **headers}
        self._made = 0
        self._deadline = time.monotonic() + LONGEST_S

    @property
    def requests_left(self) -> int:
        """How many more requests this pull may make."""
        return 0 if time.monotonic() >= self._deadline else MOST_REQUESTS - self._made

    def get(
        self,
        url: str,
        parameters: Mapping[str, object] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        allowed: Collection[int] = (),
    ) -> Reply:
        """Return the answer to a GET; of other statuses than success, only ``allowed`` ones are returned."""
        given = {name: each for name, each in (parameters or {}).items() if each is not None}
        address = f"{url}?{urlencode(given, doseq=True)}" if given else url
        return self._request("GET", address, headers or {}, None, allowed)

    def post(self, url: str, value: Any) -> Reply:
        """Return the answer to a POST of JSON."""
        headers = {"Content-Type": "application/json"}
        return self._request("POST", url, headers, json.dumps(value).encode(), ())

    def _request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        allowed: Collection[int],
    ) -> Reply:
        self._made += 1
        answer = self._fetch(method, url, headers={**self._headers, **headers}, body=body)
        is_success = 200 <= answer.status < 300
        if not is_success and answer.status not in allowed:
            raise self.failure(answer)
        try:
            value = json.loads(answer.body) if answer.body else None
        except (ValueError, RecursionError) as error:
            # The page of an error need not be JSON.
            if is_success:
                raise PullFailed("unreadable") from error
            value = None
        return Reply(answer.status, answer.headers, value)

    def failure(self, answer: Answer | Reply) -> PullFailed:
        """Return why an answer, which is not a success, ends a pull."""
        headers = answer.headers
        # GitHub answers 403 to a request beyond its limits.
        is_limited = answer.status == 429 or (
            answer.status == 403
            and ("Retry-After" in headers or headers.get("X-RateLimit-Remaining") == "0")
        )
        if is_limited:
            return self.limited(headers)
        if answer.status == 403:
            return PullFailed("access_denied", is_refused=True)
        return answering.failure(answer, self._now)

    def limited(self, headers: Mapping[str, str]) -> PullFailed:
        """Return the failure of a request beyond the limits of the service."""
        wait = answering.wait(headers, self._now)
        if wait is None:
            reset = {"Retry-After": _reset(headers), "Date": headers.get("Date", "")}
            wait = answering.wait(reset, self._now)
        return PullFailed("rate_limited", wait)


def _reset(headers: Mapping[str, str]) -> str:
    """Return when the service permits requests again, as Retry-After has it; empty if it does not say."""
    seconds = headers.get("X-RateLimit-Reset-In")
    if seconds is not None:
        return seconds
    try:
        at = values.epoch(headers.get("X-RateLimit-Reset") or headers.get("RateLimit-Reset"))
    except Flaw:
        return ""
    return format_datetime(at, usegmt=True)


def resumable(items: Iterable[Item], state: dict[str, Any]) -> Pulled:
    """Return a pull that a failure only ends early, if some of the state has changed before.

    The state of a pull that fails is not stored, so the next one would begin at the same place, and a service
    that permits a few requests an hour would never be read to its end. What still fails then is reported.
    """
    pulled = Pulled((), state)
    pulled.items = _resumable(items, pulled)
    return pulled


def _resumable(items: Iterable[Item], pulled: Pulled) -> Iterator[Item]:
    before = deepcopy(pulled.state)
    try:
        yield from items
    except (PullFailed, FetchFailed) as failure:
        if pulled.state == before:
            raise
        if isinstance(failure, PullFailed):
            if failure.is_refused:
                raise
            pulled.retry_after = failure.retry_after
        log.info("a pull ends early: %s", failure.code)


def member(value: Any, *names: str) -> Any:
    """Return the member at a path of names; None if there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def items(value: Any) -> list[Any]:
    """Return a value that has to be a list. Raises PullFailed."""
    if isinstance(value, list):
        return value
    raise PullFailed("unreadable")


def elements(value: Any) -> list[Any]:
    """Return a list; an empty one for anything else."""
    return value if isinstance(value, list) else []

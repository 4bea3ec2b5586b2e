"""Pulls from services that answer as their documentation says, by HTTPS and through the guarded fetcher."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit
from zoneinfo import ZoneInfo

from resourceserver.integrations.format import Person
from resourceserver.integrations.pulls.pulling import Pulled, PullFailed, Source
from resourceserver.integrations.records import Refused
from tests import https

NOW: Final = datetime(2026, 1, 15, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Call:
    """A request as a service reads it."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    value: Any
    """The JSON of its body."""


@dataclass(frozen=True)
class Answer:
    """An answer; a text is sent as it is, any other value as JSON."""

    value: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Answering = Callable[[Call], Answer]


@dataclass
class Service:
    """A service that runs: what it answers can be changed, and what it received is kept."""

    host: https.Host
    answering: Answering
    received: list[Call] = field(default_factory=list)

    @property
    def address(self) -> str:
        return self.host.url("")

    def pull(
        self,
        pull: Callable[[Source], Pulled],
        *,
        state: Mapping[str, Any] | None = None,
        settings: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        now: datetime = NOW,
    ) -> "Outcome":
        """Run a pull to its end or its failure."""
        self.received.clear()
        source = Source(
            settings=settings or {},
            secrets=secrets or {},
            state=json.loads(json.dumps(state or {})),
            person=Person(ZoneInfo("Europe/Berlin"), now),
            fetch=self.host.fetcher().fetch,
        )
        outcome = Outcome()
        try:
            pulled = pull(source)
            outcome.state = pulled.state
            for item in pulled.items:
                if isinstance(item, Refused):
                    outcome.refused.append(item)
                else:
                    outcome.records.append(item)
        except PullFailed as failure:
            outcome.failure = failure
        # What is kept has to survive the database.
        outcome.state = json.loads(json.dumps(outcome.state))
        return outcome


@dataclass
class Outcome:
    """What a pull yielded, and how it ended."""

    records: list[Any] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=dict)
    failure: PullFailed | None = None

    @property
    def problem(self) -> tuple[str, bool, timedelta | None] | None:
        """Code, whether the key is refused, and how long to wait."""
        failure = self.failure
        return None if failure is None else (failure.code, failure.is_refused, failure.retry_after)


@contextmanager
def service(answering: Answering) -> Iterator[Service]:
    """Run a service until the end of the block."""
    running: list[Service] = []

    def answer(request: https.Request) -> Iterable[bytes]:
        parts = urlsplit(request.target)
        call = Call(
            method=request.method,
            path=parts.path,
            query={name: ",".join(each) for name, each in parse_qs(parts.query).items()},
            headers=request.headers,
            value=json.loads(request.body) if request.body else None,
        )
        running[0].received.append(call)
        given = running[0].answering(call)
        body = given.value if isinstance(given.value, str) else json.dumps(given.value)
        return https.plain(
            b"" if given.status in {204, 304} else body.encode(),
            status=f"{given.status} {HTTPStatus(given.status).phrase}",
            headers={"Content-Type": "application/json", **given.headers},
        )

    with https.host(answer) as host:
        running.append(Service(host, answering))
        yield running[0]


def again(
    run: Callable[[Mapping[str, Any]], Outcome], most: int = 20
) -> tuple[list[Any], dict[str, Any]]:
    """Return the records of pulls, one after another, until one finds nothing; and the last state."""
    records: list[Any] = []
    state: dict[str, Any] = {}
    for _ in range(most):
        outcome = run(deepcopy(state))
        assert outcome.failure is None
        records += outcome.records
        if outcome.state == state:
            return records, state
        state = outcome.state
    raise AssertionError("the pulls have no end")

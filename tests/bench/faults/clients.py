"""The clients: readers, trackers, assistants and applications, each of which goes on whatever happens.

A client sends a request about once a second and keeps its connection. What it could not finish it sends
again, as a real one would: a tracker the same batch, an application the same refresh.
"""

import itertools
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import httpx2

from tests.client import NO_TLS
from tests.mcp.assistant import Assistant
from tests.oauth.visitor import Application, Visitor, parameters

PACE_S: Final = 1.0
"""The mean pause of a client between two requests."""
THINKING_S: Final = 3.0
"""The mean pause of an assistant, whose model reads each answer first. The longest, of 4.5 s, is shorter than
the 5 s after which client and server close an idle connection: a request could meet the close."""
BATCH: Final = 20
TIMEOUT_S: Final = 60.0
READS: Final = (
    "/api/v1/me",
    "/api/v1/analytics/app-usage?from=2025-10-20T00:00:00Z&to=2025-10-27T00:00:00Z",
    "/api/v1/analytics/daily?from=2025-10-20&to=2025-10-26&tz=Europe/Berlin",
    "/api/v1/devices",
    "/api/v1/goals",
)
TOOLS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("get_data_status", {}),
    ("get_day", {"date": "2025-10-21"}),
)


@dataclass(frozen=True)
class Answer:
    """What became of one request."""

    kind: str
    begun: float
    took_s: float
    status: int
    """0 if the connection broke before an answer."""
    may_retry: bool
    """Whether the answer has Retry-After."""
    error: str = ""


@dataclass(eq=False)
class Record:
    """All that happens to the clients."""

    answers: list[Answer] = field(default_factory=list)
    accepted: set[str] = field(default_factory=set)
    """Idempotency keys of the events that were accepted."""
    losses: list[str] = field(default_factory=list)
    """Tokens that were issued and did not work."""
    is_over: threading.Event = field(default_factory=threading.Event)

    def send(self, kind: str, request: Callable[[], httpx2.Response]) -> httpx2.Response | None:
        """Send a request, and return its answer if it has one that is no 5xx."""
        begun = time.monotonic()
        try:
            answer = request()
        except httpx2.TransportError as error:
            took_s = time.monotonic() - begun
            broken = Answer(kind, begun, took_s, 0, may_retry=False, error=type(error).__name__)
            self.answers.append(broken)
            return None
        took_s = time.monotonic() - begun
        is_error = answer.status_code >= 400
        self.answers.append(
            Answer(
                kind,
                begun,
                took_s,
                answer.status_code,
                may_retry="retry-after" in answer.headers,
                error=answer.text[:200] if is_error else "",
            )
        )
        return None if answer.status_code >= 500 else answer

    def pause(self, mean_s: float = PACE_S) -> None:
        """Wait as long as a client does between two requests."""
        self.is_over.wait(random.uniform(0.5, 1.5) * mean_s)


def read(record: Record, base_url: str, token: str) -> None:
    """Ask for one thing after the other."""
    headers = {"Authorization": f"Bearer {token}"}
    with httpx2.Client(
        base_url=base_url, headers=headers, timeout=TIMEOUT_S, verify=NO_TLS
    ) as client:
        for path in itertools.cycle(READS):
            if record.is_over.is_set():
                return
            record.send("read", partial(client.get, path))
            record.pause()


def track(record: Record, base_url: str, token: str, name: str) -> None:
    """Send one batch of events after the other, each until it is accepted."""
    headers = {"Authorization": f"Bearer {token}"}
    with httpx2.Client(
        base_url=base_url, headers=headers, timeout=TIMEOUT_S, verify=NO_TLS
    ) as client:
        for number in itertools.count():
            events = [_event(name, number * BATCH + each) for each in range(BATCH)]
            answer = None
            while answer is None:
                if record.is_over.is_set():
                    return
                answer = record.send(
                    "batch",
                    partial(client.post, "/api/v1/ingest/app-sessions", json={"events": events}),
                )
                record.pause()
            if answer.status_code == 200:
                record.accepted.update(event["idempotency_key"] for event in events)


def _event(name: str, number: int) -> dict[str, str]:
    day, minute = divmod(number, 1440)
    at = f"2025-10-{20 + day % 7:02d}T{minute // 60:02d}:{minute % 60:02d}"
    return {
        "idempotency_key": f"{name}-{number}",
        "device": name,
        "app": f"App {number % 20}",
        "started_at": f"{at}:00Z",
        "ended_at": f"{at}:30Z",
        "source": "load",
    }


def assist(record: Record, base_url: str, token: str) -> None:
    """Call tools."""
    with httpx2.Client(base_url=base_url, timeout=TIMEOUT_S, verify=NO_TLS) as client:
        assistant = Assistant(client, {"Authorization": f"Bearer {token}"})
        for tool, arguments in itertools.cycle(TOOLS):
            if record.is_over.is_set():
                return
            record.send("tool", partial(assistant.call, tool, **arguments))
            # It keeps all its answers, for tests.
            assistant.log.clear()
            record.pause(THINKING_S)


REFRESHES: Final = 4
"""How often an application refreshes a grant before its person consents again."""


def authorize(
    record: Record,
    urls: tuple[str, str],
    client_id: str,
    cookies: dict[str, str],
) -> None:
    """Be a person with an application: consent, exchange the code, refresh, and begin again."""
    auth_url, base_url = urls
    with (
        httpx2.Client(base_url=auth_url, timeout=TIMEOUT_S, verify=NO_TLS) as auth,
        httpx2.Client(base_url=base_url, timeout=TIMEOUT_S, verify=NO_TLS) as resource,
    ):
        visitor, application = Visitor(auth, dict(cookies)), Application(auth, client_id)
        while not record.is_over.is_set():
            pair = _consent(record, visitor, application)
            for _ in range(REFRESHES):
                if pair is None or record.is_over.is_set():
                    break
                _use(record, resource, pair)
                record.pause()
                pair = _refresh(record, application, pair)
            record.pause()


def _consent(record: Record, visitor: Visitor, application: Application) -> Any:
    """Return the token response of a new grant, or None if a step failed."""
    begun = record.send("consent", lambda: visitor.get(application.authorize_path()))
    if begun is None or begun.status_code != 303:
        return None
    page = record.send("consent", lambda: visitor.follow(begun))
    if page is None or page.status_code != 200:
        return None
    record.pause()
    decided = record.send("consent", lambda: visitor.submit(page, decision="allow"))
    if decided is None or decided.status_code != 303:
        return None
    code = parameters(decided).get("code")
    if code is None:
        return None
    answer = record.send("code", lambda: application.exchange(code[0]))
    return answer.json() if answer is not None and answer.status_code == 200 else None


def _use(record: Record, resource: httpx2.Client, pair: Any) -> None:
    """Check that the newest access token opens what it should."""
    headers = {"Authorization": f"Bearer {pair['access_token']}"}
    answer = record.send("token", lambda: resource.get("/api/v1/me", headers=headers))
    if answer is not None and answer.status_code == 401:
        record.losses.append("an access token that was issued does not work")


def _refresh(record: Record, application: Application, pair: Any) -> Any:
    """Refresh until there is an answer; None if the grant has ended."""
    began = time.monotonic()
    while not record.is_over.is_set():
        answer = record.send("refresh", lambda: application.refresh(pair["refresh_token"]))
        if answer is not None:
            if answer.status_code == 200:
                return answer.json()
            # The lost answer to a refresh can be had again for 30 s (SVC_REFRESH_RETRY_SECONDS).
            if time.monotonic() - began < 30:
                record.losses.append(f"a refresh token does not work: {answer.text[:80]}")
            return None
        record.pause()
    return None

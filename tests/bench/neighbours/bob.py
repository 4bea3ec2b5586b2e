"""Bob: an ordinary person, whose calls are timed.

His account holds two weeks of an invented life. A browser of his has signed in before, and an application
has a grant of his.
"""

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import httpx2
from httpx2 import Response

from tests.client import NO_TLS
from tests.oauth.visitor import Application, Visitor, forms
from tests.processes import Service

EMAIL: Final = "bob@example.org"
PASSWORD: Final = "an owl reads under the lamp"
HOME: Final = "203.0.113.7"
DAYS: Final = 14
"""How much of his life is in the account."""
TIMEOUT_S: Final = 60
_FIRST: Final = -20
"""The niceness of what runs before everything else."""
_EVENTS: Final = 10
_LARGE: Final = 400
"""Events of a batch that is larger than what is taken without a place for large bodies."""


@dataclass
class Bob:
    """Bob's browser, his application, and a program of his with a token."""

    auth: httpx2.Client
    resource: httpx2.Client
    browser: Visitor
    application: Application
    refresh_token: str
    batches: Iterator[int] = field(default_factory=itertools.count)

    @classmethod
    @contextmanager
    def at(
        cls, service: Service, client_id: str, access_token: str, refresh_token: str
    ) -> "Iterator[Bob]":
        """Bob as a client of ``service`` for the time of the block."""
        with (
            httpx2.Client(base_url=service.auth_url, timeout=TIMEOUT_S, verify=NO_TLS) as auth,
            httpx2.Client(base_url=service.base_url, timeout=TIMEOUT_S, verify=NO_TLS) as resource,
        ):
            resource.headers["Authorization"] = f"Bearer {access_token}"
            yield cls(auth, resource, Visitor(auth), Application(auth, client_id), refresh_token)


@contextmanager
def with_own_machine() -> Iterator[None]:
    """Let this process have a processor at once for the time of the block, if we may (Linux, as root).

    A real bob has a machine of his own. Here he would wait for a processor each time an answer has arrived,
    and that would count as time of the service.
    """
    group = Path("/proc/self/autogroup")
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    of_group = "0"
    try:
        with suppress(OSError):
            of_group = group.read_text().rpartition(" ")[2]
            os.setpriority(os.PRIO_PROCESS, 0, _FIRST)
            group.write_text(str(_FIRST))
        yield
    finally:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, usual)
            group.write_text(of_group)


Call = Callable[[Bob], Response]
"""A call of bob's, which ends with an answer."""


def read(bob: Bob) -> Response:
    """Ask how a week was spent."""
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    week = {"from": f"{today - timedelta(days=7):%FT%TZ}", "to": f"{today:%FT%TZ}"}
    return bob.resource.get("/api/v1/analytics/app-usage", params=week)


def list_devices(bob: Bob) -> Response:
    """Ask a quick question."""
    return bob.resource.get("/api/v1/devices")


def export_a_day(bob: Bob) -> Response:
    """Export yesterday, and take all of it."""
    yesterday = str(datetime.now(UTC).date() - timedelta(days=1))
    return bob.resource.get("/api/v1/export", params={"from": yesterday, "to": yesterday})


def send_a_batch(bob: Bob) -> Response:
    """Send what a tracker sends after some minutes."""
    return bob.resource.post("/api/v1/ingest/app-sessions", json=batch(bob, _EVENTS))


def send_a_large_batch(bob: Bob) -> Response:
    """Send what a tracker sends after a day without a network."""
    return bob.resource.post("/api/v1/ingest/app-sessions", json=batch(bob, _LARGE))


def batch(bob: Bob, count: int) -> dict[str, Any]:
    """Return a batch of so many events that nobody has sent before."""
    number = next(bob.batches)
    started = datetime.now(UTC) - timedelta(days=60)
    return {
        "events": [
            {
                "app": f"App {event % 7}",
                "title": "Notes of the meeting on Monday, with all comments - Editor",
                "started_at": f"{started + timedelta(minutes=event):%FT%TZ}",
                "duration_ms": 30_000,
                "idempotency_key": f"{bob.refresh_token[-8:]} {number} {event}",
            }
            for event in range(count)
        ]
    }


def call_a_tool(bob: Bob) -> Response:
    """Have an assistant look at today."""
    return bob.resource.post("/mcp", json=tool_call("get_day"), headers=MCP_HEADERS)


MCP_HEADERS: Final = {"Accept": "application/json", "MCP-Protocol-Version": "2025-11-25"}


def tool_call(name: str, **arguments: str) -> dict[str, Any]:
    """Return the message that calls a tool."""
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def sign_in(bob: Bob) -> Response:
    """Sign in on the page, as the browser in which bob signed in before."""
    known = {
        name: text for name, text in bob.browser.cookies.items() if not name.endswith("session")
    }
    bob.browser = Visitor(bob.auth, known)
    return enter(bob.browser, EMAIL, PASSWORD, HOME)


def enter(visitor: Visitor, email: str, password: str, address: str) -> Response:
    """Send the form of the sign-in page from an address."""
    headers = {"X-Forwarded-For": address}
    page = visitor.get("/sign-in", headers=headers)
    fields = dict(forms(page)[0].fields) | {"email": email, "password": password}
    return visitor.post("/sign-in", fields, headers=headers)


def refresh(bob: Bob) -> Response:
    """Refresh the grant of bob's application."""
    answer = bob.application.refresh(bob.refresh_token)
    if answer.status_code == 200:
        bob.refresh_token = answer.json()["refresh_token"]
    return answer


USUAL: Final[dict[str, Call]] = {
    "read": read,
    "batch": send_a_batch,
    "tool call": call_a_tool,
    "sign-in": sign_in,
}
"""The calls that are timed in every line."""
QUICK: Final = ("read", "batch", "devices")
"""Calls of some milliseconds that he may repeat often: they leave little behind, and nothing counts them."""

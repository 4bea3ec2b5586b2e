"""Ways to post events that an ordinary client does not have."""

import json
import socket
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import uvicorn
from starlette.testclient import TestClient
from starlette.types import Message

import resourceserver.app
from shared.settings import Settings
from tests.client import AppClient
from tests.waiting import wait_for

PATH = "/api/v1/ingest/app-sessions"
SCOPE = "ingest:app_sessions"

HOUR = {
    "idempotency_key": "laptop:42",
    "started_at": "2025-06-16T09:00:00Z",
    "ended_at": "2025-06-16T10:00:00Z",
    "app": "Code",
}


def numbered(numbers: Iterable[int]) -> list[dict[str, Any]]:
    """Events that differ in their keys alone."""
    return [HOUR | {"idempotency_key": f"laptop:{number}"} for number in numbers]


@dataclass
class Exchange:
    """One request whose body is generated while the server reads it."""

    api: TestClient
    headers: dict[str, str]
    chunks: Iterator[bytes]
    ends: bool
    """Whether the body has an end; else the client is gone after its last piece."""
    path: str = PATH
    taken: int = 0
    """The bytes that the server had requested before it answered."""
    sent: list[Message] = field(default_factory=list)

    async def run(self) -> None:
        """Run the application until it answers."""
        await self.api.app(
            {
                "type": "http",
                "asgi": {"version": "3.0"},
                "http_version": "1.1",
                "method": "POST",
                "scheme": "http",
                "path": self.path,
                "raw_path": self.path.encode(),
                "query_string": b"",
                "headers": [
                    (b"host", b"testserver"),
                    *(
                        (name.lower().encode(), each.encode())
                        for name, each in self.headers.items()
                    ),
                ],
            },
            self.receive,
            self.send,
        )

    async def receive(self) -> Message:
        """Hand the next piece of the body over."""
        chunk = next(self.chunks, None)
        if chunk is None and self.ends:
            return {"type": "http.request", "body": b"", "more_body": False}
        if chunk is None:
            return {"type": "http.disconnect"}
        if not self.sent:
            self.taken += len(chunk)
        return {"type": "http.request", "body": chunk, "more_body": True}

    async def send(self, message: Message) -> None:
        """Take a part of the answer."""
        self.sent.append(message)

    @property
    def status(self) -> int:
        """The status of the answer."""
        return int(self.sent[0]["status"])

    @property
    def body(self) -> Any:
        """The JSON of the answer."""
        return json.loads(b"".join(message.get("body", b"") for message in self.sent[1:]))


@pytest.fixture
def exchange(api: TestClient) -> Any:
    """Posts a body that is generated while the server reads it."""

    def post(headers: dict[str, str], chunks: Iterable[bytes], *, ends: bool = True) -> Exchange:
        made = Exchange(api, {"Content-Type": "application/json"} | headers, iter(chunks), ends)
        assert api.portal is not None
        api.portal.call(made.run)
        return made

    return post


@pytest.fixture
def full_url_api(deployment: Settings, owner: object) -> Iterator[TestClient]:
    """A resource server that keeps whole addresses."""
    assert owner
    chosen = replace(deployment, base_url="http://testserver", full_urls=True)
    with AppClient(resourceserver.app.create(chosen)) as client:
        yield client


@pytest.fixture(scope="session")
def served(deployment: Settings) -> Iterator[str]:
    """The address of a resource server that listens on the loopback interface."""
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    app = resourceserver.app.create(replace(deployment, base_url=address))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    wait_for(lambda: server.started, "the server to listen")
    yield address
    server.should_exit = True
    thread.join()
    listener.close()


@pytest.fixture
def address(served: str, owner: object) -> str:
    """The resource server on data that is committed, and gone after the test."""
    assert owner
    return served

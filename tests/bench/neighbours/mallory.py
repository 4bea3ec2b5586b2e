"""Mallory: a person with an account, and what she does to have the service for herself.

An attack is a function that does it once and returns what became of it. It is repeated by so many threads at
once, in two processes, until bob has been timed, and never longer or more often than the bounds below.
"""

import gzip
import multiprocessing
import os
import socket
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Final

import httpx2

from shared.listening import port_of
from tests.bench.neighbours.bob import MCP_HEADERS, PASSWORD, TIMEOUT_S, enter, tool_call
from tests.client import NO_TLS
from tests.oauth.visitor import Application, Visitor

LONGEST_S: Final = 60.0
"""How long an attack lasts at most, whatever bob does."""
MOST_TIMES: Final = 5000
"""How often each thread repeats it at most."""
PROCESSES: Final = 2
_LOOKS_EVERY_S: Final = 0.2
_PAUSE_S: Final = 0.05
"""What a refused client waits before it tries again."""
_HALF_OPEN: Final = 25
"""Connections that one thread holds."""
_CONTEXT: Final = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Target:
    """What mallory knows: the servers, a client, and tokens of her own."""

    auth_url: str
    base_url: str
    client_id: str
    email: str
    access_token: str
    refresh_tokens: tuple[str, ...]
    """Each of a grant of its own."""


@dataclass
class Mallory:
    """Mallory in one of her threads."""

    target: Target
    number: int
    """Which thread it is."""
    stop: Event
    auth: httpx2.Client
    resource: httpx2.Client
    refresh_token: str
    times: int = 0
    """How often she has done it before in this thread."""

    @property
    def address(self) -> str:
        """Where she comes from: one of twelve addresses."""
        return f"192.0.2.{self.number % 12}"

    def connect(self, *, receive_bytes: int | None = None) -> socket.socket:
        """Open a connection to the resource server, perhaps with a small buffer for what comes."""
        connection = socket.socket()
        if receive_bytes is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        connection.settimeout(_LOOKS_EVERY_S)
        connection.connect(("127.0.0.1", port_of(self.target.base_url)))
        return connection

    def head(self, request: str, *headers: str) -> bytes:
        """Return the head of a request with her token, without the empty line at its end."""
        lines = [f"{request} HTTP/1.1", "Host: localhost", *headers]
        return "\r\n".join(
            [*lines, f"Authorization: Bearer {self.target.access_token}\r\n"]
        ).encode()

    def answer(self, connection: socket.socket) -> str:
        """Wait for an answer as long as the attack lasts; return its status."""
        while not self.stop.is_set():
            with suppress(TimeoutError):
                return connection.recv(65536)[9:12].decode() or "closed"
        return "waiting"


Attack = Callable[[Mallory], str]


@contextmanager
def attacking(attack: Attack, target: Target, at_once: int) -> Iterator[Counter[str]]:
    """Attack until the end of the block; what became of it is counted in what this yields, then."""
    stop, tallies = _CONTEXT.Event(), _CONTEXT.Queue()
    processes = [
        _CONTEXT.Process(
            target=_attack, args=(attack, target, range(first, at_once, PROCESSES), stop, tallies)
        )
        for first in range(PROCESSES)
    ]
    outcomes: Counter[str] = Counter()
    for each in processes:
        each.start()
    try:
        yield outcomes
    finally:
        stop.set()
        for _ in processes:
            outcomes.update(tallies.get(timeout=TIMEOUT_S + LONGEST_S))
        for each in processes:
            each.join(10)


def _attack(
    attack: Attack,
    target: Target,
    numbers: Sequence[int],
    stop: Event,
    tallies: "Queue[Counter[str]]",
) -> None:
    _give_way()
    outcomes: Counter[str] = Counter()
    try:
        with ThreadPoolExecutor(len(numbers)) as threads:
            for each in threads.map(lambda number: _repeat(attack, target, number, stop), numbers):
                outcomes += each
    finally:
        tallies.put(outcomes)


def _give_way() -> None:
    """Leave the processor to the servers: in truth mallory has a machine of her own.

    Linux may share the processor between sessions first, and only then between the processes of a session
    (autogroup in sched(7)). So both priorities are lowered.
    """
    os.setsid()
    os.nice(19)
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text("19")


def _repeat(attack: Attack, target: Target, number: int, stop: Event) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    until = time.monotonic() + LONGEST_S
    with (
        httpx2.Client(base_url=target.auth_url, timeout=TIMEOUT_S, verify=NO_TLS) as auth,
        httpx2.Client(base_url=target.base_url, timeout=TIMEOUT_S, verify=NO_TLS) as resource,
    ):
        resource.headers["Authorization"] = f"Bearer {target.access_token}"
        refresh_token = target.refresh_tokens[number % len(target.refresh_tokens)]
        mallory = Mallory(target, number, stop, auth, resource, refresh_token)
        while not stop.is_set() and time.monotonic() < until and mallory.times < MOST_TIMES:
            try:
                outcome = attack(mallory)
            except (OSError, httpx2.TransportError):
                outcome = "cut"
            outcomes[outcome] += 1
            mallory.times += 1
            if outcome in {"429", "503", "cut"}:
                stop.wait(_PAUSE_S)
    return outcomes


def send_devices(mallory: Mallory) -> str:
    """Send events of a thousand devices that nobody has seen before, or list all devices."""
    if mallory.times % 2:
        return str(mallory.resource.get("/api/v1/devices?limit=1000").status_code)
    event = {"app": "Code", "started_at": "2025-06-16T09:00:00Z", "duration_ms": 1000}
    name = f"{mallory.number} {mallory.times}"
    events = [
        event | {"device": f"{name} {each}", "idempotency_key": f"{name} {each}"}
        for each in range(1000)
    ]
    answer = mallory.resource.post("/api/v1/ingest/app-sessions", json={"events": events})
    return str(answer.status_code)


def ask_long_questions(mallory: Mallory) -> str:
    """Ask about years, over REST or as an assistant."""
    if mallory.times % 2:
        message = tool_call("get_patterns", weeks="52")
        return str(mallory.resource.post("/mcp", json=message, headers=MCP_HEADERS).status_code)
    years = {"from": "2022-01-01T00:00:00Z", "to": "2025-01-01T00:00:00Z"}
    answer = mallory.resource.get("/api/v1/analytics/focus-streaks", params=years)
    return str(answer.status_code)


def ask_for_categories(mallory: Mallory) -> str:
    """Ask for categories that slow rules decide."""
    day = {"from": "2024-01-01T00:00:00Z", "to": "2024-01-02T00:00:00Z"}
    return str(mallory.resource.get("/api/v1/analytics/app-usage", params=day).status_code)


def export_slowly(mallory: Mallory) -> str:
    """Begin an export, and take little of it at a time."""
    with mallory.connect(receive_bytes=4096) as connection:
        connection.sendall(mallory.head("GET /api/v1/export") + b"\r\n")
        status = mallory.answer(connection)
        while status == "200" and not mallory.stop.wait(_LOOKS_EVERY_S):
            if not connection.recv(1024):
                return "cut"
    return status


def hold_an_upload(mallory: Mallory) -> str:
    """Announce a large body, send a little of it, and nothing more."""
    head = mallory.head(
        "POST /api/v1/ingest/app-sessions",
        "Content-Type: application/json",
        "Content-Length: 41943040",
    )
    with mallory.connect() as connection:
        connection.sendall(head + b"\r\n" + b" " * 65536)
        return mallory.answer(connection)


def send_a_bomb(mallory: Mallory) -> str:
    """Send three megabytes that are three gigabytes when they are inflated."""
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    answer = mallory.resource.post("/api/v1/ingest/app-sessions", content=bomb(), headers=headers)
    return str(answer.status_code)


@cache
def bomb() -> bytes:
    """Return three gigabytes of blanks, packed. The checksum at the end is missing."""
    packer = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    megabyte = packer.compress(b" " * 2**20) + packer.flush(zlib.Z_FULL_FLUSH)
    return gzip.compress(b"")[:10] + megabyte * 3000


def leave_heads_open(mallory: Mallory) -> str:
    """Begin many requests and end none; one of them goes on without an end."""
    with ExitStack() as open_:
        held = [open_.enter_context(mallory.connect()) for _ in range(_HALF_OPEN)]
        for each in held:
            each.sendall(mallory.head("GET /api/v1/me", "Accept: */*"))
        with suppress(OSError):
            held[0].sendall(b"X-Long: " + b"a" * 200_000)
        outcomes = {mallory.answer(each) for each in held}
    return " and ".join(sorted(outcomes))


def begin_authorizations(mallory: Mallory) -> str:
    """Send an authorization request without signing in, with the longest state."""
    application = Application(mallory.auth, mallory.target.client_id)
    path = application.authorize_path(state="s" * 4096)
    headers = {"X-Forwarded-For": mallory.address}
    return str(Visitor(mallory.auth).get(path, headers=headers).status_code)


def rotate(mallory: Mallory) -> str:
    """Refresh a grant over and over again."""
    application = Application(mallory.auth, mallory.target.client_id)
    answer = application.refresh(mallory.refresh_token)
    mallory.refresh_token = answer.json().get("refresh_token", mallory.refresh_token)
    return str(answer.status_code)


def sign_in_again(mallory: Mallory) -> str:
    """Sign in with her own password, in a new browser each time."""
    visitor = Visitor(mallory.auth)
    return str(enter(visitor, mallory.target.email, PASSWORD, mallory.address).status_code)


def guess(mallory: Mallory) -> str:
    """Guess bob's password and those of others, from twelve addresses."""
    number = mallory.times
    email = "bob@example.org" if number % 2 else f"p{number}@example.org"
    answer = enter(Visitor(mallory.auth), email, "a wrong password", mallory.address)
    return str(answer.status_code)

"""The cost of a call of a tool beside the same read over REST.

The resource server with two more tools, which run the statement of ``/api/v1/me``. The tool without a
range costs the protocol, and the framed one also the members of every answer, such as the days without a
report.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import click
from click.testing import CliRunner
from starlette.applications import Starlette

import resourceserver.app
from deploy.demo.command import demo
from resourceserver.endpoints import ENDPOINTS
from resourceserver.mcp.protocol import MODERN
from resourceserver.mcp.tool import FRAMES, Part, Tool
from resourceserver.mcp.tools import TOOLS, goals
from shared import log_lines, settings
from shared.settings import Settings
from tests import processes
from tests.bench import years
from tests.conftest import Person

_ME: Final = next(endpoint for endpoint in ENDPOINTS if endpoint.name == "me")
_WHO_AM_I: Final = Tool(
    name="who_am_i",
    title="Who am I",
    description=_ME.summary,
    scope=str(_ME.scope),
    arguments=goals.Current,
    answer=_ME.body,
    frame=FRAMES["recent"],
    parts=(Part(_ME.query),),
)
_WHO_AM_I_WITHOUT_RANGE: Final = replace(
    _WHO_AM_I,
    name="who_am_i_without_range",
    frame=None,
    is_framed=False,
    parts=(Part(_ME.query, ask=lambda _frame, _given: {}),),
    finish=lambda rows: dict(rows["answer"]),
)

Contestant = Callable[[], float]

LABELS: Final = {
    "tool me": "GET /api/v1/me",
    "tool ping": "POST /mcp, ping: the token and the protocol",
    "tool without range": "POST /mcp, the same question, no range",
    "tool call": "POST /mcp, the same question, framed",
    "tool status": "POST /mcp, get_data_status",
    "tool day": "POST /mcp, get_day",
    "tool list": "POST /mcp, tools/list",
}


def create() -> Starlette:
    """Return the application with the settings of the environment."""
    log_lines.configure("text", "resourceserver")
    return resourceserver.app.create(
        settings.read(), tools=[*TOOLS, _WHO_AM_I, _WHO_AM_I_WITHOUT_RANGE]
    )


@contextmanager
def serving(chosen: Settings, directory: Path) -> Iterator[int]:
    """Run the server; yields its port."""
    (port,) = processes.free_ports(1)
    with processes.running(
        ["tests.bench.assistants:create", "--factory", f"--port={port}", "--no-access-log"],
        chosen,
        processes.role_urls(chosen, processes.RESOURCE_ROLES),
        f"http://localhost:{port}/healthz",
        directory / "assistants.log",
        module="uvicorn",
    ):
        yield port


def live(chosen: Settings, alice: Person) -> None:
    """Give her five weeks of an invented life with rollups, so that the answer about a day is long."""
    done = CliRunner().invoke(demo, [alice.email, "--days=35"], obj=chosen)
    if done.exit_code != 0:
        raise click.ClickException(done.output)
    years.make_rollups(chosen)


def contestants(
    alice: Person, ask: Callable[[Callable[[], list[str]]], Contestant], connections: int
) -> dict[str, Contestant]:
    """Return the contestants; ``ask`` makes one that sends its request on each connection."""
    authorization = f"Host: localhost\r\nAuthorization: Bearer {alice.token()}\r\n"
    # As every client does; the list is long enough to be compressed.
    authorization += "Accept-Encoding: gzip\r\n"
    me = f"GET {_ME.path} HTTP/1.1\r\n{authorization}\r\n"
    return {
        "tool me": ask(lambda: [me] * connections),
        "tool ping": ask(lambda: [_ping(authorization)] * connections),
        "tool without range": ask(
            lambda: [_call("who_am_i_without_range", authorization)] * connections
        ),
        "tool call": ask(lambda: [_call("who_am_i", authorization)] * connections),
        "tool status": ask(lambda: [_call("get_data_status", authorization)] * connections),
        "tool day": ask(lambda: [_call("get_day", authorization)] * connections),
        "tool list": ask(lambda: [_request("tools/list", {}, authorization)] * connections),
    }


def _call(tool: str, authorization: str) -> str:
    headers = f"{authorization}Mcp-Name: {tool}\r\n"
    return _request("tools/call", {"name": tool, "arguments": {}}, headers)


def _ping(headers: str) -> str:
    """Return a request that reads nothing but the token: what every other message costs at least."""
    return _post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers)


def _request(method: str, params: dict[str, object], headers: str) -> str:
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params | {"_meta": meta}}
    return _post(message, f"{headers}MCP-Protocol-Version: {MODERN}\r\nMcp-Method: {method}\r\n")


def _post(message: dict[str, object], headers: str) -> str:
    body = json.dumps(message)
    return (
        f"POST /mcp HTTP/1.1\r\n{headers}Content-Type: application/json\r\n"
        "Accept: application/json, text/event-stream\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    )

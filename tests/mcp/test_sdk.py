"""The official client against the running servers, end to end, in both of its modes.

The person's side is the real pages, looked at and submitted over HTTP as a browser would.
"""

import asyncio
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextContent

from resourceserver.mcp.tools import TOOLS
from tests.conftest import Person
from tests.endpoints.test_recovery import WHOOP, sleep
from tests.mcp.test_sessions import device, use
from tests.oauth.program import Program, expire_access_tokens
from tests.processes import Service

Mode = Literal["auto", "legacy"]
REVISIONS: Final = {"auto": "2026-07-28", "legacy": "2025-11-25"}

each_mode = pytest.mark.parametrize("mode", ["auto", "legacy"])


@dataclass
class Talk:
    """The work of a program during one connection."""

    program: Program
    mode: Mode
    results: list[CallToolResult] = field(default_factory=list)
    listed: list[str] = field(default_factory=list)
    revision: str = ""
    instructions: str = ""

    def call(self, *names: str) -> list[dict[str, Any]]:
        """Connect, call these tools in turn, and return their answers."""
        asyncio.run(self._call(names))
        return [result.structured_content or {} for result in self.results]

    async def _call(self, names: tuple[str, ...]) -> None:
        url = f"{self.program.service.base_url}{self.program.path}"
        async with (
            self.program.http() as http,
            Client(streamable_http_client(url, http_client=http), mode=self.mode) as client,
        ):
            self.revision = client.protocol_version
            self.instructions = client.instructions or ""
            self.listed = [tool.name for tool in (await client.list_tools()).tools]
            self.results = [await client.call_tool(name, {}) for name in names]


@each_mode
def test_the_sdk_gets_a_token_and_calls_a_tool(
    service: Service, program: Program, alice: Person, mode: Mode
) -> None:
    talk = Talk(program, mode)

    (answer,) = talk.call("get_goals")

    assert talk.revision == REVISIONS[mode]
    assert talk.instructions.startswith("Today is ")
    assert talk.listed == [tool.name for tool in TOOLS]
    assert answer["count"] == 0
    assert program.sent[:5] == [
        "POST /mcp",
        "GET /.well-known/oauth-protected-resource/mcp",
        "GET /.well-known/oauth-authorization-server",
        "POST /oauth/register",
        "POST /oauth/token",
    ]
    assert set(program.sent[5:]) == {"POST /mcp"}
    (asked,) = program.asked
    assert asked["scope"] == "read:activity"
    assert asked["resource"] == f"{service.base_url}/mcp"
    assert program.kept.tokens is not None
    assert program.kept.tokens.scope == "read:activity"
    granted = alice.connection.execute("select resource, scopes from oauth.grant").fetchall()
    assert granted == [(f"{service.base_url}/mcp", ["read:activity"])]


@each_mode
def test_the_sdk_gets_the_further_scope_of_a_tool(program: Program, mode: Mode) -> None:
    goals, listening, again = Talk(program, mode).call(
        "get_goals", "get_listening", "get_listening"
    )

    assert goals["count"] == 0
    assert listening["totals"]["play_count"] == 0
    assert again["totals"] == listening["totals"]
    assert [asked["scope"] for asked in program.asked] == [
        "read:activity",
        "read:activity read:music",
    ]
    assert program.sent.count("POST /oauth/register") == 1
    assert program.kept.tokens is not None
    assert program.kept.tokens.scope == "read:activity read:music"


@each_mode
def test_from_nothing_to_an_answer_about_sleep_it_takes_one_consent_page(
    service: Service, program: Program, alice: Person, mode: Mode
) -> None:
    last_night = datetime.now(UTC) - timedelta(hours=2)
    sleep(alice.connection, alice, WHOOP, last_night, asleep_ms=25_200_000)
    program.further = ("read:health",)

    (answer,) = Talk(program, mode).call("get_health")

    assert [night["sleep"]["asleep_ms"] for night in answer["recovery"]] == [25_200_000]
    (asked,) = program.asked
    assert asked["scope"] == "read:activity"
    assert program.kept.tokens is not None
    assert program.kept.tokens.scope == "read:activity read:health"

    expire_access_tokens(alice)
    assert program.provider.context.token_expiry_time is not None
    program.provider.context.token_expiry_time -= 3601
    (again,) = Talk(program, mode).call("get_health")

    # The SDK sends no scope at refresh, which keeps what was granted.
    assert again["recovery"] == answer["recovery"]
    assert program.forms[-1]["grant_type"] == "refresh_token"
    assert "scope" not in program.forms[-1]
    assert program.kept.tokens.scope == "read:activity read:health"
    assert len(program.asked) == 1


@each_mode
def test_the_sdk_searches_and_fetches(program: Program, alice: Person, mode: Mode) -> None:
    use(alice, device(alice), "08:00", "08:20", "Firefox", title="Prices of gifts")

    async def talk() -> tuple[CallToolResult, CallToolResult]:
        url = f"{program.service.base_url}/mcp"
        async with (
            program.http() as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            # From the list, the client knows the schemas with which it checks answers.
            await client.list_tools()
            found = await client.call_tool("search", {"query": "gifts PRICES"})
            (row,) = (found.structured_content or {})["results"]
            return found, await client.call_tool("fetch", {"id": row["id"]})

    found, fetched = asyncio.run(talk())

    (row,) = (found.structured_content or {})["results"]
    document = fetched.structured_content or {}
    assert row["title"] == document["title"] == "Prices of gifts"
    assert row["url"] == document["url"]
    assert row["url"].startswith(f"{program.service.base_url}/day/2025-06-17?from=")
    (text,) = fetched.content
    assert isinstance(text, TextContent)
    assert json.loads(text.text) == document


@each_mode
def test_the_sdk_refreshes_by_itself_when_its_token_has_expired(
    program: Program, alice: Person, mode: Mode
) -> None:
    Talk(program, mode).call("get_goals")
    first = program.kept.tokens
    assert first is not None
    expire_access_tokens(alice)
    # The SDK relies on its own clock. On a 401 it starts the authorization again.
    assert program.provider.context.token_expiry_time is not None
    program.provider.context.token_expiry_time -= 3601
    program.sent.clear()

    (answer,) = Talk(program, mode).call("get_goals")

    assert answer["count"] == 0
    assert program.sent[0] == "POST /oauth/token"
    assert set(program.sent[1:]) == {"POST /mcp"}
    assert program.forms[-1]["grant_type"] == "refresh_token"
    assert program.forms[-1]["resource"] == f"{program.service.base_url}/mcp"
    assert len(program.asked) == 1
    assert program.kept.tokens is not None
    assert program.kept.tokens.access_token != first.access_token


@each_mode
def test_the_sdk_asks_its_person_again_after_a_revocation(program: Program, mode: Mode) -> None:
    Talk(program, mode).call("get_goals")
    assert program.kept.tokens is not None
    httpx2.post(
        f"{program.service.auth_url}/oauth/revoke",
        data={"token": program.kept.tokens.refresh_token},
    )

    (answer,) = Talk(program, mode).call("get_goals")

    assert answer["count"] == 0
    assert len(program.asked) == 2
    assert program.sent.count("POST /oauth/register") == 1


@each_mode
def test_the_sdk_reports_wrong_arguments_and_unknown_tools(program: Program, mode: Mode) -> None:
    async def talk() -> tuple[CallToolResult, MCPError]:
        url = f"{program.service.base_url}/mcp"
        async with (
            program.http() as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            wrong = await client.call_tool("get_patterns", {"weeks": 99})
            with pytest.raises(MCPError) as caught:
                await client.call_tool("get_everything", {})
            return wrong, caught.value

    wrong, missing = asyncio.run(talk())

    assert wrong.is_error is True
    assert "weeks: input should be less than or equal to 52" in str(wrong.content)
    assert missing.code == -32602
    assert missing.message.startswith("there is no such tool: get_everything; the nearest are ")

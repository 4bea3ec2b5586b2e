"""An assistant for these tests: it sends well-formed messages of either era, with the changes of a test."""

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from httpx2 import Client, Response

MODERN: Final = "2026-07-28"
LEGACY: Final = ("2025-11-25", "2025-06-18")
META: Final = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}

REQUIRED: Final[dict[str, dict[str, Any]]] = {
    "search": {"query": "meeting"},
    "fetch": {"id": "eAAAAAAAAAAAAAAAAAAAAAA"},
}
"""Arguments of tools that have required ones. Nobody has the record."""


def message(method: str, params: Any = None, **changed: Any) -> dict[str, Any]:
    """Return a request; a member with the value None is left out."""
    made = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params} | changed
    return {name: value for name, value in made.items() if value is not None}


def routed(method: str, name: str | None = None) -> dict[str, str]:
    """Return the headers that repeat parts of a message of the newer era."""
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    return headers if name is None else headers | {"Mcp-Name": name}


SUGGESTION: Final = "\nFor example: "
"""Begins the line with corrected arguments."""


@dataclass(frozen=True)
class Assistant:
    """A client with a token."""

    client: Client
    headers: dict[str, str]
    log: list[tuple[str, dict[str, Any], Response]] = field(default_factory=list)
    """The calls of tools, with their arguments and answers."""

    def post(self, body: Any, **headers: str | None) -> Response:
        """Send a body, JSON unless it is bytes, and headers, with ``_`` for ``-``; None removes one."""
        given: dict[str, str | None] = {"Content-Type": "application/json", **self.headers}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {name: value for name, value in given.items() if value is not None}
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.client.post("/mcp", content=content, headers=sent)

    def modern(self, method: str, params: Any = None, **changed: Any) -> Response:
        """Send a request of the newer era, with the required members."""
        params = {"_meta": META} | (params or {})
        name = params.get("name", params.get("uri"))
        return self.post(message(method, params, **changed), **routed(method, name))

    def legacy(self, method: str, params: Any = None, **changed: Any) -> Response:
        """Send a request of the older era."""
        return self.post(message(method, params, **changed))

    def call(self, tool: str, **arguments: Any) -> Response:
        """Call a tool; ``from_`` is ``from``."""
        given = {name.rstrip("_"): value for name, value in arguments.items()}
        response = self.modern("tools/call", {"name": tool, "arguments": given})
        self.log.append((tool, given, response))
        return response

    def ask(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return the answer of a tool that is called as it should be."""
        response = self.call(tool, **arguments)
        assert response.status_code == 200, response.text
        result: dict[str, Any] = response.json()["result"]
        assert not result["isError"], result
        answer: dict[str, Any] = result["structuredContent"]
        return answer

    def mistake(self, tool: str, **arguments: Any) -> str:
        """Return the error message of a tool about invalid arguments, without the suggestion at its end."""
        response = self.call(tool, **arguments)
        assert response.status_code == 200, response.text
        result = response.json()["result"]
        assert result["isError"] is True, result
        assert "structuredContent" not in result
        (said,) = result["content"]
        text: str = said["text"]
        return text.partition(SUGGESTION)[0]


def ends_of(answer: dict[str, Any]) -> dict[str, str]:
    """Return the instants of an answer's range, as parameters of an endpoint."""
    days, zone = answer["range"], ZoneInfo(answer["tz"])
    first = datetime.fromisoformat(days["from"])
    after = datetime.fromisoformat(days["to"]) + timedelta(days=1)
    return {
        "from": days.get("starts_at", first.replace(tzinfo=zone).isoformat()),
        "to": days.get("ends_at", after.replace(tzinfo=zone).isoformat()),
    }


def without_texts(value: Any) -> Any:
    """Return a part of an answer without the texts beside its durations and instants."""
    if isinstance(value, list):
        return [without_texts(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: without_texts(each)
        for name, each in value.items()
        if not name.endswith(("_local", "_text")) and name != "local"
    }


def as_rows(value: Any) -> Any:
    """Return rows of an endpoint as a tool has them: without ids and members that are null."""
    if isinstance(value, list):
        return [as_rows(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: as_rows(each) for name, each in value.items() if each is not None and name != "id"
    }


def error(response: Response) -> tuple[int, int, Any]:
    """Return status, code and id of an answer that must be an error."""
    body = response.json()
    assert set(body) == {"jsonrpc", "id", "error"}, body
    assert body["jsonrpc"] == "2.0"
    assert isinstance(body["error"]["message"], str)
    return response.status_code, body["error"]["code"], body["id"]

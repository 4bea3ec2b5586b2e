"""The headers by which intermediaries route requests of the newer era: they must agree with the body."""

import base64
from typing import Final

import pytest
from httpx2 import Headers, Response

from tests.mcp.assistant import META, MODERN, Assistant, error, message, routed

CALL: Final = message("tools/call", {"_meta": META, "name": "get_goals"})
LIST: Final = message("tools/list", {"_meta": META})


def wrapped(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


@pytest.mark.parametrize("missing", ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"])
def test_a_missing_header_is_refused(assistant: Assistant, missing: str) -> None:
    headers = routed("tools/call", "get_goals")
    del headers[missing]

    response = assistant.post(CALL, **headers)

    assert error(response) == (400, -32020, 7)
    assert missing in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("MCP-Protocol-Version", "2025-11-25"),
        ("MCP-Protocol-Version", "2025-03-26"),
        ("MCP-Protocol-Version", "2099-01-01"),
        ("MCP-Protocol-Version", ""),
        ("Mcp-Method", "tools/list"),
        ("Mcp-Method", "TOOLS/CALL"),
        ("Mcp-Method", "tools/call, tools/call"),
        ("Mcp-Method", wrapped("tools/call")),
        ("Mcp-Method", ""),
        ("Mcp-Name", "get_patterns"),
        ("Mcp-Name", "Get_Goals"),
        ("Mcp-Name", "get_goals, get_goals"),
        ("Mcp-Name", ""),
        ("Mcp-Name", wrapped("get_patterns")),
        ("Mcp-Name", "=?base64?not base64?="),
        ("Mcp-Name", "=?base64?Z2V0X2dvYWxz"),
        ("Mcp-Name", "=?base64?Z2V0X2dvYWxz?"),
        ("Mcp-Name", "=?BASE64?Z2V0X2dvYWxz?="),
        ("Mcp-Name", "=?base64?Z2V0X2dvYWx=?="),
        ("Mcp-Name", "=?base64?/w==?="),
    ],
)
def test_a_header_that_differs_from_the_body_is_refused(
    assistant: Assistant, header: str, value: str
) -> None:
    response = assistant.post(CALL, **(routed("tools/call", "get_goals") | {header: value}))

    assert error(response) == (400, -32020, 7)


@pytest.mark.parametrize(
    ("method", "params", "own", "other"),
    [
        ("prompts/get", {"name": "weekly_review"}, "weekly_review", "day_review"),
        ("resources/read", {"uri": "ui://svc/day"}, "ui://svc/day", "ui://svc/sleep"),
        ("resources/read", {"uri": "ui://svc/day", "name": "day"}, "ui://svc/day", "day"),
    ],
)
def test_prompts_and_resources_are_named_in_the_header_too(
    assistant: Assistant, method: str, params: dict[str, str], own: str, other: str
) -> None:
    body = message(method, {"_meta": META} | params)

    assert assistant.post(body, **routed(method, own)).status_code == 200
    assert error(assistant.post(body, **routed(method, other))) == (400, -32020, 7)
    assert error(assistant.post(body, **routed(method))) == (400, -32020, 7)


@pytest.mark.parametrize("name", [5, None, ["get_goals"], {}])
def test_a_name_only_in_the_header_is_a_difference(assistant: Assistant, name: object) -> None:
    params = {"_meta": META} if name is None else {"_meta": META, "name": name}

    response = assistant.post(
        message("tools/call", params), **routed("tools/call", "5" if name == 5 else "get_goals")
    )

    assert error(response) == (400, -32020, 7)


@pytest.mark.parametrize(
    "name", ["get_goals", " get_goals", "get_goals\t ", wrapped("get_goals")], ids=repr
)
def test_spaces_around_a_name_are_ignored_and_it_may_be_in_base64(
    assistant: Assistant, name: str
) -> None:
    response = assistant.post(CALL, **routed("tools/call", name))

    assert response.status_code == 200, response.text


@pytest.mark.parametrize(
    ("name", "status"), [("Z2V0X2xpc3RlbmluZw==", 200), ("Z2V0X2xpc3RlbmluZx==", 400)]
)
def test_a_name_has_only_one_spelling_in_base64(
    assistant: Assistant, name: str, status: int
) -> None:
    """Both decode to the same bytes, but programs that compare the header as text would see two names."""
    body = message("tools/call", {"_meta": META, "name": "get_listening"})

    response = assistant.post(body, **routed("tools/call", f"=?base64?{name}?="))

    assert response.status_code == status


def test_a_name_in_base64_is_compared_as_text(assistant: Assistant) -> None:
    body = message("tools/call", {"_meta": META, "name": "größe"})

    response = assistant.post(body, **routed("tools/call", wrapped("größe")))

    assert error(response) == (400, -32602, 7)


@pytest.mark.parametrize("case", [str.lower, str.upper, str.title])
def test_names_of_headers_may_have_any_case(assistant: Assistant, case: object) -> None:
    headers = {case(name): value for name, value in routed("tools/list").items()}  # type: ignore[operator] # all three are called

    assert assistant.post(LIST, **headers).status_code == 200


@pytest.mark.parametrize(
    "pairs",
    [
        (("Mcp-Method", "tools/list"),),
        (("Mcp-Method", "notifications/x"),) * 2,
        (("MCP-Protocol-Version", MODERN),),
    ],
    ids=["different", "method twice", "revision twice"],
)
def test_a_notification_whose_headers_differ_is_refused(
    assistant: Assistant, pairs: tuple[tuple[str, str], ...]
) -> None:
    body = message("notifications/x", {"_meta": META}, id=None)

    response = repeated(assistant, body, ("MCP-Protocol-Version", MODERN), *pairs)

    assert error(response) == (400, -32020, None)


def test_a_notification_whose_headers_agree_is_accepted(assistant: Assistant) -> None:
    body = message("notifications/x", {}, id=None)

    assert assistant.post(body, **routed("notifications/x")).status_code == 202


def test_other_methods_need_no_name(assistant: Assistant) -> None:
    assert assistant.post(LIST, **routed("tools/list")).status_code == 200
    assert assistant.post(LIST, **routed("tools/list", "whatever")).status_code == 200


def repeated(assistant: Assistant, body: object, *pairs: tuple[str, str]) -> Response:
    """Send headers of which some have the same name."""
    headers = Headers([*assistant.headers.items(), *pairs])
    return assistant.client.post("/mcp", json=body, headers=headers)


@pytest.mark.parametrize("header", ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"])
def test_a_repeated_header_is_refused_even_with_equal_values(
    assistant: Assistant, header: str
) -> None:
    headers = routed("tools/call", "get_goals")

    response = repeated(assistant, CALL, *headers.items(), (header.lower(), headers[header]))

    assert error(response) == (400, -32020, 7)
    assert header in response.json()["error"]["message"]


def test_a_revision_of_each_era_in_the_header_is_refused(assistant: Assistant) -> None:
    pairs = (("MCP-Protocol-Version", "2025-11-25"), ("MCP-Protocol-Version", MODERN))

    newer = repeated(assistant, LIST, ("Mcp-Method", "tools/list"), *reversed(pairs))
    older = repeated(assistant, message("ping"), pairs[0], pairs[0])

    assert error(newer) == (400, -32020, 7)
    assert error(older) == (400, -32600, 7)


def test_the_older_era_ignores_such_headers(assistant: Assistant) -> None:
    response = assistant.post(message("ping"), Mcp_Method="tools/list", Mcp_Name="x")

    assert response.json() == {"jsonrpc": "2.0", "id": 7, "result": {}}

"""Messages: status, code and id of the answer, row by row, in both eras."""

import json
import re
from base64 import b64encode
from pathlib import Path
from typing import Any, Final

import pytest
from httpx2 import Response

import shared.pages
from tests.mcp.assistant import LEGACY, META, MODERN, Assistant, error, message, routed

SERVER: Final = {"name": "svc", "title": "Personal Activity Analytics", "version": "1.0.0"}
MARK: Final = Path(shared.pages.__file__).parent / "static/mark.svg"
INTRODUCED: Final = SERVER | {
    "description": "Where a person's time went: applications, coding, focus, goals, calendar, code, health,"
    " music and places, read from the person's own activity service.",
    "websiteUrl": "http://testserver",
    "icons": [
        {
            "src": f"data:image/svg+xml;base64,{b64encode(MARK.read_bytes()).decode()}",
            "mimeType": "image/svg+xml",
            "sizes": ["any"],
        }
    ],
}
CAPABILITIES: Final[dict[str, Any]] = {
    "tools": {},
    "prompts": {},
    "resources": {},
    "extensions": {"io.modelcontextprotocol/ui": {}},
}
SERVER_KEY: Final = "io.modelcontextprotocol/serverInfo"
REVISION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"


def send(
    assistant: Assistant, era: str, method: str, params: Any = None, **changed: Any
) -> Response:
    return getattr(assistant, era)(method, params, **changed)  # type: ignore[no-any-return] # by name


# Results


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_result_is_200(assistant: Assistant, era: str) -> None:
    response = send(assistant, era, "tools/call", {"name": "get_goals"})

    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.headers["cache-control"] == "private, no-store"
    body = response.json()
    assert (body["jsonrpc"], body["id"]) == ("2.0", 7)
    assert body["result"]["structuredContent"]["count"] == 0


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_arguments_that_a_tool_refuses_are_200_with_is_error(
    assistant: Assistant, era: str
) -> None:
    response = send(
        assistant, era, "tools/call", {"name": "get_patterns", "arguments": {"weeks": 53}}
    )

    assert response.status_code == 200
    result = response.json()["result"]
    assert result["isError"] is True
    assert result["content"] == [
        {
            "type": "text",
            "text": 'weeks: input should be less than or equal to 52\nFor example: {"weeks": 52}',
        }
    ]


def test_every_result_of_the_newer_era_is_complete_and_names_the_server(
    assistant: Assistant,
) -> None:
    for response in (
        assistant.modern("tools/list"),
        assistant.modern("prompts/list"),
        assistant.modern("prompts/get", {"name": "weekly_review"}),
        assistant.modern("resources/list"),
        assistant.modern("resources/templates/list"),
        assistant.modern("resources/read", {"uri": "ui://svc/day"}),
        assistant.modern("tools/call", {"name": "get_goals"}),
        assistant.modern("tools/call", {"name": "get_goals", "arguments": {"tz": "nowhere"}}),
    ):
        result = response.json()["result"]

        assert result["resultType"] == "complete"
        assert result["_meta"] == {SERVER_KEY: SERVER}


def test_results_of_the_older_era_have_no_members_of_the_newer_one(assistant: Assistant) -> None:
    for response in (
        assistant.legacy("tools/list"),
        assistant.legacy("prompts/list"),
        assistant.legacy("prompts/get", {"name": "weekly_review"}),
        assistant.legacy("resources/list"),
        assistant.legacy("resources/templates/list"),
        assistant.legacy("resources/read", {"uri": "ui://svc/day"}),
        assistant.legacy("tools/call", {"name": "get_goals"}),
        assistant.legacy("initialize", {"protocolVersion": "2025-06-18"}),
    ):
        assert not response.json()["result"].keys() & {"resultType", "_meta", "ttlMs", "cacheScope"}


# Notifications


@pytest.mark.parametrize(
    "method", ["notifications/cancelled", "notifications/initialized", "anything"]
)
@pytest.mark.parametrize(
    "headers", [{}, {"MCP-Protocol-Version": MODERN}], ids=["legacy", "modern"]
)
def test_a_notification_is_202_and_empty(
    assistant: Assistant, headers: dict[str, str], method: str
) -> None:
    response = assistant.post(message(method, {}, id=None), **headers)

    assert response.status_code == 202
    assert response.content == b""
    assert "content-type" not in response.headers


def test_a_notification_in_an_unsupported_revision_is_refused(assistant: Assistant) -> None:
    newer = assistant.post(message("x", id=None), MCP_Protocol_Version="2099-01-01")
    older = assistant.post(message("x", id=None), MCP_Protocol_Version="2025-03-26")

    assert error(newer) == (400, -32022, None)
    assert error(older) == (400, -32600, None)


# Methods


@pytest.mark.parametrize(
    ("era", "method", "status"),
    [
        ("modern", "initialize", 404),
        ("modern", "ping", 404),
        ("modern", "resources/subscribe", 404),
        ("modern", "Tools/list", 404),
        ("modern", "subscriptions/listen", 404),
        ("legacy", "", 200),
        ("legacy", "server/discover", 200),
        ("legacy", "completion/complete", 200),
        ("legacy", "logging/setLevel", 200),
        ("legacy", "notifications/initialized", 200),
    ],
)
def test_an_unknown_method_is_refused(
    assistant: Assistant, era: str, method: str, status: int
) -> None:
    assert error(send(assistant, era, method)) == (status, -32601, 7)


@pytest.mark.parametrize(("era", "status"), [("modern", 400), ("legacy", 200)])
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "get_everything"}),
        ("tools/call", {"name": "Get_Goals"}),
        ("tools/call", {"name": " get_goals"}),
        ("tools/call", {"name": ""}),
        ("tools/call", {"name": "get_goals", "arguments": []}),
        ("tools/call", {"name": "get_goals", "arguments": "{}"}),
        ("tools/call", {"name": "get_goals", "arguments": None}),
        ("tools/list", {"cursor": "next"}),
        ("tools/list", {"cursor": 5}),
        ("prompts/list", {"cursor": "next"}),
        ("resources/list", {"cursor": "next"}),
        ("resources/templates/list", {"cursor": "next"}),
    ],
)
def test_an_unknown_name_in_params_is_refused(
    assistant: Assistant, era: str, status: int, method: str, params: dict[str, Any]
) -> None:
    response = assistant.post(
        message(method, {"_meta": META} | params if era == "modern" else params),
        **(routed(method, _wrapped(params.get("name"))) if era == "modern" else {}),
    )

    assert error(response) == (status, -32602, 7)


def _wrapped(name: str | None) -> str | None:
    # A name with spaces at an end, or an empty one, must be in Base64 in a header.
    return {" get_goals": "=?base64?IGdldF9nb2Fscw==?=", "": "=?base64??="}.get(name or "", name)


@pytest.mark.parametrize("name", [5, ["get_goals"], {"a": 1}, True])
def test_a_tool_name_that_is_no_text_is_refused(assistant: Assistant, name: Any) -> None:
    assert error(assistant.legacy("tools/call", {"name": name})) == (200, -32602, 7)


def test_a_call_without_the_name_of_a_tool_is_refused(assistant: Assistant) -> None:
    assert error(assistant.legacy("tools/call", {})) == (200, -32602, 7)


@pytest.mark.parametrize("params", [[], ["get_goals"], "x", 5, True, [[[]]]])
@pytest.mark.parametrize("method", ["tools/list", "nothing"])
def test_params_that_are_no_object_are_refused(
    assistant: Assistant, method: str, params: Any
) -> None:
    modern = assistant.post(message(method, params), **routed(method))
    legacy = assistant.post(message(method, params))

    assert error(modern) == (400, -32602, 7)
    assert error(legacy) == (200, -32602, 7)


def test_params_that_are_null_are_no_object(assistant: Assistant) -> None:
    body = b'{"jsonrpc":"2.0","id":7,"method":"ping","params":null}'

    assert error(assistant.post(body)) == (200, -32602, 7)


# Required members of a request of the newer era


@pytest.mark.parametrize("missing", [REVISION_KEY, CAPABILITIES_KEY])
def test_a_missing_field_of_meta_is_refused(assistant: Assistant, missing: str) -> None:
    meta = {name: value for name, value in META.items() if name != missing}

    response = assistant.post(message("tools/list", {"_meta": meta}), **routed("tools/list"))

    assert error(response) == (400, -32602, 7)
    assert missing in response.json()["error"]["message"]


@pytest.mark.parametrize("params", [None, {}, {"_meta": {}}, {"_meta": []}, {"_meta": "x"}])
def test_a_request_that_is_modern_by_its_header_needs_a_meta(
    assistant: Assistant, params: Any
) -> None:
    response = assistant.post(message("tools/list", params), **routed("tools/list"))

    assert error(response) == (400, -32602, 7)


@pytest.mark.parametrize("revision", [None, 5, [], {}, True, ""])
def test_a_revision_in_meta_that_differs_from_the_header_is_refused(
    assistant: Assistant, revision: Any
) -> None:
    meta = META | {REVISION_KEY: revision}

    response = assistant.post(message("tools/list", {"_meta": meta}), **routed("tools/list"))

    assert error(response) == (400, -32020, 7)


def test_capabilities_that_are_no_object_are_refused(assistant: Assistant) -> None:
    meta = META | {CAPABILITIES_KEY: []}

    response = assistant.post(message("tools/list", {"_meta": meta}), **routed("tools/list"))

    assert error(response) == (400, -32602, 7)


def test_a_client_need_not_name_itself(assistant: Assistant) -> None:
    assert assistant.modern("tools/list").status_code == 200


# Revisions


@pytest.mark.parametrize("revision", ["2099-01-01", "1.0", "2026-07-28 ", "2025-11-25", "é"])
def test_the_error_about_an_unsupported_revision_names_the_supported_one(
    assistant: Assistant, revision: str
) -> None:
    meta = META | {REVISION_KEY: revision}

    response = assistant.post(message("tools/list", {"_meta": meta}), Mcp_Method="tools/list")

    assert error(response) == (400, -32022, 7)
    assert response.json()["error"]["data"] == {"supported": [MODERN], "requested": revision}


def test_a_revision_only_in_the_header_counts_too(assistant: Assistant) -> None:
    response = assistant.post(message("tools/list", {}), MCP_Protocol_Version="2027-01-01")

    assert error(response) == (400, -32022, 7)
    assert response.json()["error"]["data"] == {"supported": [MODERN], "requested": "2027-01-01"}


@pytest.mark.parametrize("revision", ["2025-03-26", "2024-11-05"])
@pytest.mark.parametrize("method", ["initialize", "tools/list", "nothing"])
def test_an_unsupported_old_revision_is_400_in_the_older_era(
    assistant: Assistant, revision: str, method: str
) -> None:
    response = assistant.post(message(method, {}), MCP_Protocol_Version=revision)

    assert error(response) == (400, -32600, 7)
    assert revision in response.json()["error"]["message"]


@pytest.mark.parametrize("revision", [*LEGACY, ""])
def test_the_older_era_may_name_its_revision_in_the_header(
    assistant: Assistant, revision: str
) -> None:
    response = assistant.post(message("ping"), MCP_Protocol_Version=revision)

    assert response.status_code == 200
    assert response.json() == {"jsonrpc": "2.0", "id": 7, "result": {}}


def test_the_first_mistake_is_reported(assistant: Assistant) -> None:
    """Envelope, revision, headers, _meta, method: each is reported although everything after it is wrong
    too."""
    unknown = {REVISION_KEY: "2099-01-01"}
    no_id: dict[str, Any] = {"id": [], "params": {"_meta": unknown}}

    envelope = assistant.post(message("nothing", **no_id))
    revision = assistant.post(message("nothing", {"_meta": unknown}))
    headers = assistant.post(message("nothing", {"_meta": {REVISION_KEY: MODERN}}))
    meta = assistant.post(
        message("nothing", {"_meta": {REVISION_KEY: MODERN}}), **routed("nothing")
    )
    method = assistant.post(message("nothing", {"_meta": META}), **routed("nothing"))

    assert error(envelope) == (400, -32600, None)
    assert error(revision) == (400, -32022, 7)
    assert error(headers) == (400, -32020, 7)
    assert error(meta) == (400, -32602, 7)
    assert error(method) == (404, -32601, 7)


# Invalid messages


ENVELOPES: Final = [
    ("[]", None),
    ('[{"jsonrpc":"2.0","id":1,"method":"ping"}]', None),
    ('[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]', None),
    ('{"jsonrpc":"2.0","id":1,"result":{}}', None),
    ('{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}', None),
    ("{}", None),
    ("null", None),
    ("5", None),
    ('"ping"', None),
    ("true", None),
    ('{"id":1,"method":"ping"}', 1),
    ('{"jsonrpc":"1.0","id":1,"method":"ping"}', 1),
    ('{"jsonrpc":2.0,"id":1,"method":"ping"}', 1),
    ('{"jsonrpc":"2.0","id":1}', 1),
    ('{"jsonrpc":"2.0","id":1,"method":5}', 1),
    ('{"jsonrpc":"2.0","id":1,"method":null}', 1),
    ('{"jsonrpc":"2.0","id":1,"method":["ping"]}', 1),
    ('{"jsonrpc":"2.0","method":5}', None),
    ('{"jsonrpc":"2.0","id":null,"method":"ping"}', None),
    ('{"jsonrpc":"2.0","id":true,"method":"ping"}', None),
    ('{"jsonrpc":"2.0","id":false,"method":"ping"}', None),
    ('{"jsonrpc":"2.0","id":[],"method":"ping"}', None),
    ('{"jsonrpc":"2.0","id":[1],"method":"ping"}', None),
    ('{"jsonrpc":"2.0","id":{},"method":"ping"}', None),
]


@pytest.mark.parametrize(("body", "request_id"), ENVELOPES)
@pytest.mark.parametrize("headers", [{}, routed("ping")], ids=["legacy", "modern"])
def test_a_body_that_is_not_one_message_is_400(
    assistant: Assistant, headers: dict[str, str], body: str, request_id: Any
) -> None:
    response = assistant.post(body.encode(), **headers)

    assert error(response) == (400, -32600, request_id)


BROKEN: Final = [
    b"",
    b" ",
    b"{",
    b'{"jsonrpc":"2.0","id":1,"method":"ping"',
    b'{"jsonrpc":"2.0","id":1,"method":"ping"}x',
    b'{"jsonrpc":"2.0","id":1,"method":"ping",}',
    b"{'jsonrpc':'2.0'}",
    b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":Infinity}}',
    b'{"jsonrpc":"2.0","id":1,"method":"\xff"}',
    b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}',
    '{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16"),
    b'{"jsonrpc":"2.0","id":1,"method":"p\x00ing"}',
    b'{"jsonrpc":"2.0","id":' + b"1" * 5000 + b',"method":"ping"}',
    b"[" * 100_000,
    b'{"params":' * 20_000,
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}}",
]  # fmt: skip


@pytest.mark.parametrize("body", BROKEN, ids=range(len(BROKEN)))
@pytest.mark.parametrize("headers", [{}, routed("ping")], ids=["legacy", "modern"])
def test_malformed_or_deeply_nested_json_is_400(
    assistant: Assistant, headers: dict[str, str], body: bytes
) -> None:
    assert error(assistant.post(body, **headers)) == (400, -32700, None)


# Ids


@pytest.mark.parametrize(
    "written",
    [
        "0", "7", "-7", "12345678901234567890123", '""', '"7"', '"null"', '"é"', '"a\\u0000b"', "1.0", "1e3",
        '"\\ud83d\\ude00"', '"<script>"', '"' + "x" * 1000 + '"',
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_modern", [True, False], ids=["modern", "legacy"])
def test_an_id_is_returned_unchanged(
    assistant: Assistant, *, is_modern: bool, written: str
) -> None:
    params = json.dumps({"_meta": META} if is_modern else {})

    for method in ("tools/list", "nothing"):
        body = f'{{"jsonrpc":"2.0","id":{written},"method":"{method}","params":{params}}}'
        response = assistant.post(body.encode(), **(routed(method) if is_modern else {}))

        returned = response.json()["id"]
        assert (type(returned), returned) == (type(json.loads(written)), json.loads(written))


@pytest.mark.parametrize("written", ["1.5", "-0.25", "1234567890.1234567890", "1e-3"])
def test_a_fraction_is_an_id_only_in_the_older_era(assistant: Assistant, written: str) -> None:
    body = f'{{"jsonrpc":"2.0","id":{written},"method":"ping"}}'.encode()

    legacy = assistant.post(body)
    modern = assistant.post(body, **routed("ping"))

    assert legacy.text == f'{{"jsonrpc":"2.0","result":{{}},"id":{written}}}'
    assert error(modern) == (400, -32600, None)


def test_half_of_a_surrogate_pair_is_echoed_and_breaks_nothing(assistant: Assistant) -> None:
    for place in ('"id":"\\ud800","method":"x"', '"id":7,"method":"\\udfff"'):
        response = assistant.post(f'{{"jsonrpc":"2.0",{place}}}'.encode())

        assert response.status_code == 200
        assert response.json()["error"]["code"] == -32601


# The older era's handshake


@pytest.mark.parametrize(
    ("requested", "given"),
    [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-11-25"),
        ("2024-11-05", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("2099-01-01", "2025-11-25"),
        (5, "2025-11-25"),
        ([], "2025-11-25"),
        (None, "2025-11-25"),
    ],
)
def test_initialize_returns_the_requested_revision_or_the_newest(
    assistant: Assistant, requested: Any, given: str
) -> None:
    response = assistant.legacy(
        "initialize", {} if requested is None else {"protocolVersion": requested}
    )

    assert response.status_code == 200
    result = response.json()["result"]
    assert result["protocolVersion"] == given
    assert result["capabilities"] == CAPABILITIES
    assert result["serverInfo"] == INTRODUCED
    assert set(result) == {"protocolVersion", "capabilities", "serverInfo", "instructions"}


@pytest.mark.parametrize("session", [None, "a-session"])
def test_initialize_starts_no_session(assistant: Assistant, session: str | None) -> None:
    response = assistant.post(message("initialize", {}), Mcp_Session_Id=session)

    assert response.status_code == 200
    assert "mcp-session-id" not in response.headers


def test_ping_has_an_empty_result(assistant: Assistant) -> None:
    assert assistant.legacy("ping").json() == {"jsonrpc": "2.0", "id": 7, "result": {}}


# Discovery in the newer era, and the contents of both listings


def test_discovery_lists_revisions_and_capabilities(assistant: Assistant) -> None:
    response = assistant.modern("server/discover")

    assert response.status_code == 200
    result = response.json()["result"]
    instructions = result.pop("instructions")
    assert instructions.startswith("Today is ")
    assert result == {
        "resultType": "complete",
        "_meta": {SERVER_KEY: INTRODUCED},
        "supportedVersions": ["2026-07-28"],
        "capabilities": CAPABILITIES,
        "ttlMs": 300_000,
        "cacheScope": "private",
    }


@pytest.mark.parametrize(
    ("method", "member"),
    [
        ("tools/list", "tools"),
        ("prompts/list", "prompts"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
    ],
)
def test_a_list_is_one_page_that_may_be_cached_for_an_hour(
    assistant: Assistant, method: str, member: str
) -> None:
    modern = assistant.modern(method).json()["result"]
    again = assistant.modern(method, {"cursor": None}).json()["result"]
    legacy = assistant.legacy(method).json()["result"]

    assert (modern["ttlMs"], modern["cacheScope"]) == (3_600_000, "private")
    assert modern == again
    assert legacy == {member: modern[member]}


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_the_instructions_begin_with_the_date_in_the_persons_zone(
    assistant: Assistant, alice: Any, zone: str
) -> None:
    # Introductions are kept by zone, so this one must not be the next one's.
    assistant.modern("server/discover")
    assistant.legacy("initialize")
    alice.connection.execute("update identity.user set timezone = %s", [zone])
    (today,) = alice.connection.execute(
        "select to_char(now() at time zone %s, 'FMDay, YYYY-MM-DD')", [zone]
    ).fetchone()

    modern = assistant.modern("server/discover").json()["result"]["instructions"]
    legacy = assistant.legacy("initialize").json()["result"]["instructions"]

    assert modern.startswith(f"Today is {today}, in {zone},")
    assert legacy == modern


def test_the_instructions_say_how_to_get_what_was_left_out(assistant: Assistant) -> None:
    instructions = assistant.modern("server/discover").json()["result"]["instructions"]

    properties = [
        tool["inputSchema"]["properties"]
        for tool in assistant.modern("tools/list").json()["result"]["tools"]
    ]
    for argument in ("cursor", "period", "limit", "top"):
        assert re.search(rf"left out: [^.]*\b{argument}\b", instructions)
        assert any(argument in each for each in properties)


def test_the_instructions_name_existing_tools(assistant: Assistant) -> None:
    instructions = assistant.modern("server/discover").json()["result"]["instructions"]

    named = set(re.findall(r"\bget_\w+", instructions))

    tools = assistant.modern("tools/list").json()["result"]["tools"]
    assert named == {"get_day", "get_time_breakdown", "get_data_status"}
    assert named <= {tool["name"] for tool in tools}

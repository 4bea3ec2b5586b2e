"""Arbitrary messages and arguments: never an error of the server, never an undocumented code."""

import json
from collections.abc import Iterator
from typing import Any, Final, get_args

import pytest
from httpx2 import Response
from hypothesis import example, given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from resourceserver.mcp.arguments import Period
from resourceserver.mcp.tool import Tool
from resourceserver.mcp.tools import TOOLS
from shared.settings import Settings
from tests.conftest import owning, person
from tests.mcp.assistant import LEGACY, META, MODERN, Assistant, message, routed

CODES: Final = {
    200: {-32601, -32602},
    400: {-32700, -32600, -32602, -32020, -32022},
    404: {-32601},
}
"""The errors of messages with a valid token, by status."""


@pytest.fixture(scope="module")
def assistant(deployment: Settings, resource_client: TestClient) -> Iterator[Assistant]:
    """An assistant of an empty account. Nothing here writes, so one serves all examples."""
    with owning(deployment) as connection:
        yield Assistant(resource_client, person(connection, "alice").headers())


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None), max_size=20)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
methods = st.sampled_from(
    ["tools/call", "tools/list", "server/discover", "initialize", "ping", "notifications/x"]
)
names = st.sampled_from([tool.name for tool in TOOLS])
revisions = st.sampled_from([MODERN, *LEGACY, "2025-03-26", "2099-01-01", ""])
metas = st.just(META) | st.dictionaries(st.sampled_from([*META, "x"]), values)
params = st.fixed_dictionaries(
    {},
    optional={
        "_meta": metas | values,
        "name": names | values,
        "arguments": st.dictionaries(st.text(max_size=8), values, max_size=3) | values,
        "cursor": values,
        "protocolVersion": revisions | values,
    },
)
members = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | values,
        "id": st.integers() | st.text(max_size=5) | values,
        "method": methods | values,
        "params": params | values,
        "result": values,
        "error": values,
    },
)
# Random messages are mostly refused early; valid ones with one change get further.
messages = members | st.builds(
    lambda whole, changed: whole | changed,
    st.builds(message, methods, params),
    members,
)
headers = st.fixed_dictionaries(
    {},
    optional={
        "MCP-Protocol-Version": revisions,
        "Mcp-Method": methods,
        "Mcp-Name": names | st.just("=?base64?AA==?="),
    },
)


def check(response: Response, sent: Any) -> None:
    """Check that an answer is one of the possible ones."""
    if response.status_code == 202:
        assert response.content == b""
        assert isinstance(sent, dict)
        assert "id" not in sent
        return
    body = response.json()
    assert body["jsonrpc"] == "2.0"
    if "result" in body:
        assert (response.status_code, set(body)) == (200, {"jsonrpc", "id", "result"})
    else:
        assert set(body) == {"jsonrpc", "id", "error"}
        assert body["error"]["code"] in CODES[response.status_code]
    assert body["id"] == echoed(sent, body)


def echoed(sent: Any, body: dict[str, Any]) -> Any:
    """Return the id that an answer must have: the one sent, if it is valid."""
    if not isinstance(sent, dict) or ("method" not in sent and sent.keys() & {"result", "error"}):
        return None
    request_id = sent.get("id")
    if isinstance(request_id, bool) or not isinstance(request_id, str | int | float):
        return None
    # A fraction is an id in one era and not in the other.
    is_fraction = isinstance(request_id, float) and not request_id.is_integer()
    return body["id"] if is_fraction and body["id"] is None else request_id


@given(sent=messages | values, extra=headers)
@example(sent=message("tools/call", {"_meta": META, "name": "\ud800"}), extra={})
@example(sent=message("ping", id="\udfff"), extra={})
@example(sent=message("ping", id=10**400), extra={})
def test_any_message_gets_a_documented_answer(
    assistant: Assistant, sent: Any, extra: dict[str, str]
) -> None:
    response = assistant.post(json.dumps(sent).encode(), **extra)

    check(response, sent)


@given(body=st.binary(max_size=200))
def test_any_bytes_get_a_documented_answer(assistant: Assistant, body: bytes) -> None:
    try:
        sent = json.loads(body)
    except ValueError:
        sent = None

    response = assistant.post(body)

    check(response, sent)


texts = st.sampled_from(
    [
        "", "UTC", "Europe/Berlin", "nowhere", "2025-10-20", "2025-02-30", "2025-10-20T00:00:00Z",
        "9999-12-31", "0001-01-01", "9999-12-31T23:59:59.999Z", "1900-01-01T00:00:00+14:00", "last_7_days",
        "all", "\x00", "\ud800", "artist", "day",
    ]
)  # fmt: skip
periods = st.sampled_from(get_args(Period))
arguments = st.fixed_dictionaries(
    {},
    optional={
        "tz": texts | st.just("Pacific/Apia"),
        "weeks": st.integers(-1, 60) | values,
        "period": periods | texts,
        "from": texts | values,
        "to": texts | values,
        "group_by": texts,
        "top": st.integers(-1, 60) | values,
        "unknown": values,
    },
)


KNOWN: Final = {
    "query": texts | st.sampled_from(["a", "%", "_ \\\\"]),
    "id": st.sampled_from("sckqverip").map(
        lambda letter: letter + "A" * 22 + "A" * 8 * (letter in "sc")
    ),
    "period": periods,
    "tz": st.sampled_from(["UTC", "Asia/Kathmandu", "Pacific/Apia", "America/Sao_Paulo"]),
    "from": st.sampled_from(["2025-10-20", "2016-02-29", "1900-01-01"]),
    "to": st.sampled_from(["2025-10-20", "2025-11-03"]),
    "date": st.sampled_from(["2025-10-20", "1900-01-01", "9998-12-31"]),
    "at": st.sampled_from(["2025-10-20T14:15:00+02:00", "1900-01-01T00:00:00Z"]),
}


def fitting(name: str, schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Draw a value that fits the schema of an argument, in most cases."""
    fits: st.SearchStrategy[Any]
    match schema:
        case {"enum": known}:
            fits = st.sampled_from(known)
        case {"type": "array", "items": item}:
            fits = st.lists(fitting(name, item), min_size=1, max_size=2, unique=True)
        case {"type": "object", "properties": described}:
            fits = st.fixed_dictionaries(
                {}, optional={each: fitting(each, described[each]) for each in described}
            )
        case {"type": "integer", "minimum": least, "maximum": most}:
            fits = st.integers(least, most)
        case {"type": "number", "minimum": least, "maximum": most}:
            fits = st.floats(least, most)
        case {"type": "boolean"}:
            fits = st.booleans()
        case _:
            fits = KNOWN.get(name, st.text(min_size=1, max_size=5) | texts)
    return fits


@given(tool=st.sampled_from(TOOLS), data=st.data())
def test_any_values_of_a_tools_own_arguments_get_an_answer_or_an_error(
    assistant: Assistant, tool: Tool, data: st.DataObject
) -> None:
    own = {
        name: fitting(name, schema)
        for name, schema in tool.listing()["inputSchema"]["properties"].items()
    }
    # Either these or the period; contradictions come from the changes.
    left_out = data.draw(st.sampled_from([{"from", "to"}, {"period"}]))
    some = {name: each for name, each in own.items() if name not in left_out | {"cursor"}}
    changed = st.dictionaries(st.sampled_from(sorted(own)), texts | values, max_size=1)
    asked = data.draw(st.fixed_dictionaries({}, optional=some)) | data.draw(changed)

    response = assistant.call(tool.name, **{f"{name}_": each for name, each in asked.items()})

    assert response.status_code == 200, response.text
    assert isinstance(response.json()["result"]["isError"], bool)


@given(name=names, asked=arguments)
@example(
    name="get_listening", asked={"from": "1900-01-01T00:00:00Z", "to": "1900-01-01T00:00:00+00:00"}
)
@example(
    name="get_listening", asked={"from": "9998-12-31", "to": "9998-12-31", "tz": "Pacific/Apia"}
)
@example(
    name="get_listening", asked={"from": "9998-12-30T00:00:00Z", "to": "9998-12-31T23:59:59.999Z"}
)
@example(name="get_patterns", asked={"weeks": 1e300})
def test_any_arguments_get_an_answer_or_an_error(
    assistant: Assistant, name: str, asked: dict[str, Any]
) -> None:
    body = message("tools/call", {"_meta": META, "name": name, "arguments": asked})

    response = assistant.post(json.dumps(body).encode(), **routed("tools/call", name))

    assert response.status_code == 200
    result = response.json()["result"]
    (said,) = result["content"]
    assert said["type"] == "text"
    if result["isError"]:
        assert said["text"]
        assert "structuredContent" not in result
    else:
        assert json.loads(said["text"]) == result["structuredContent"]

"""Resources: the templates of MCP Apps, which a browser shows in tests/browser/test_apps.py."""

import re
from pathlib import Path

import pytest

from resourceserver.mcp import apps
from resourceserver.mcp.apps import APPS, App
from tests.mcp.assistant import META, Assistant, error, message, routed

MIME_TYPE = "text/html;profile=mcp-app"

each_app = pytest.mark.parametrize("app", APPS, ids=[app.name for app in APPS])


def test_every_template_is_listed(assistant: Assistant) -> None:
    listed = assistant.modern("resources/list").json()["result"]["resources"]

    assert [(each["uri"], each["name"], each["mimeType"]) for each in listed] == [
        ("ui://svc/day", "day", MIME_TYPE),
        ("ui://svc/breakdown", "breakdown", MIME_TYPE),
        ("ui://svc/sleep", "sleep", MIME_TYPE),
    ]
    assert all(each["title"] and each["description"] for each in listed)


@each_app
def test_a_template_is_one_page_that_loads_nothing(assistant: Assistant, app: App) -> None:
    modern = assistant.modern("resources/read", {"uri": app.uri}).json()["result"]
    legacy = assistant.legacy("resources/read", {"uri": app.uri}).json()["result"]

    (contents,) = modern["contents"]
    assert legacy == {"contents": [contents]}
    assert (modern["ttlMs"], modern["cacheScope"]) == (3_600_000, "private")
    assert contents["uri"] == app.uri
    assert contents["mimeType"] == MIME_TYPE
    assert contents["_meta"] == {"ui": {"csp": {}, "prefersBorder": True}}
    text = contents["text"]
    assert text.startswith("<!doctype html>")
    assert "{{" not in text
    assert not re.search(r"\b(src|href)=|url\(|@import|\bfetch\(|XMLHttpRequest|\bimport\b", text)
    assert re.findall(r"</?script", text) == ["<script", "</script"]


def test_no_script_writes_html() -> None:
    folder = Path(apps.__file__).with_name("templates")
    scripts = {path.name: path.read_text() for path in folder.glob("*.js")}

    assert set(scripts) == {"app.js", *(f"{app.name}.js" for app in APPS)}
    writes_html = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|setHTML|DOMParser|eval\("
    assert [name for name, text in scripts.items() if re.search(writes_html, text)] == []


def test_tools_name_their_templates_in_both_forms(assistant: Assistant) -> None:
    for era in (assistant.modern, assistant.legacy):
        tools = era("tools/list").json()["result"]["tools"]

        assert {tool["name"]: tool["_meta"] for tool in tools if "_meta" in tool} == {
            tool: {"ui": {"resourceUri": uri}, "ui/resourceUri": uri}
            for tool, uri in {
                "get_day": "ui://svc/day",
                "get_time_breakdown": "ui://svc/breakdown",
                "get_health": "ui://svc/sleep",
            }.items()
        }


@pytest.mark.parametrize(
    ("era", "status", "code"), [("modern", 400, -32602), ("legacy", 200, -32002)]
)
@pytest.mark.parametrize(
    "uri", ["ui://svc/week", "UI://svc/day", "ui://svc/day/", "file:///etc", ""]
)
def test_an_unknown_resource_is_refused_by_its_name(
    assistant: Assistant, era: str, status: int, code: int, uri: str
) -> None:
    header = {"": "=?base64??="}.get(uri, uri)
    params = {"_meta": META, "uri": uri} if era == "modern" else {"uri": uri}
    headers = routed("resources/read", header) if era == "modern" else {}

    response = assistant.post(message("resources/read", params), **headers)

    assert error(response) == (status, code, 7)
    assert response.json()["error"]["data"] == {"uri": uri}


@pytest.mark.parametrize("params", [{}, {"uri": 5}, {"uri": None}, {"uri": ["ui://svc/day"]}])
def test_a_uri_that_is_no_text_is_refused(assistant: Assistant, params: dict[str, object]) -> None:
    assert error(assistant.legacy("resources/read", params)) == (200, -32602, 7)


def test_prompts_and_templates_need_a_token(assistant: Assistant) -> None:
    for method in ("prompts/list", "prompts/get", "resources/list", "resources/read"):
        params = {"name": "day_review", "uri": "ui://svc/day"}
        response = assistant.post(message(method, params), Authorization="Bearer svc_dt_wrong")

        assert response.status_code == 401

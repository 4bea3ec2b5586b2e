"""The templates of MCP Apps in a real browser, inside the host library of the extension's makers.

The host is a page of one origin and each template a page of another, in a sandboxed frame with the content
security policy that hosts must use for a template that names no address. `make proof` installs the library.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
import pytest
from axe_playwright_python.sync_playwright import Axe
from click.testing import CliRunner
from playwright.sync_api import Browser, Frame, Page, Route, expect

from deploy.demo.command import demo
from tests import conftest
from tests.conftest import Person
from tests.mcp.assistant import META, message, routed
from tests.processes import Service

PROGRAMS: Final = Path(__file__).parents[1] / "mcp/conformance"
LIBRARY: Final = PROGRAMS / "node_modules/@modelcontextprotocol/ext-apps"
HOST: Final = "https://host.test"
TEMPLATES: Final = "https://templates.test"
POLICY: Final = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline';"
    " img-src 'self' data:; media-src 'self' data:; connect-src 'none'"
)
"""The policy for templates that name no addresses, from the extension's text."""
HOSTILE: Final = '<script>hacked = true</script><img src=x onerror="hacked = true">'
YESTERDAY: Final = datetime.now(UTC).date() - timedelta(days=1)
TYPES: Final = {".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript"}

pytestmark = [
    pytest.mark.foreign,
    pytest.mark.skipif(not LIBRARY.exists(), reason="the library is not here: make proof"),
]


@dataclass
class Host:
    """A host of MCP Apps in a browser, and an assistant of alice's at the running server."""

    page: Page
    service: Service
    headers: dict[str, str]
    templates: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the result of a request to the endpoint."""
        name = params.get("name", params.get("uri"))
        response = httpx2.post(
            f"{self.service.base_url}/mcp",
            json=message(method, {"_meta": META} | params),
            headers=self.headers | routed(method, name),
        )
        result: dict[str, Any] = response.json()["result"]
        return result

    def serve(self, route: Route) -> None:
        """Answer the browser: the host and its library on one origin, templates on the other."""
        address = urlsplit(route.request.url)
        if address.hostname == "templates.test":
            headers = {"Content-Security-Policy": POLICY, "Content-Type": "text/html"}
            route.fulfill(body=self.templates[address.path], headers=headers)
        elif address.path == "/":
            route.fulfill(path=PROGRAMS / "host.html", content_type="text/html")
        else:
            path = PROGRAMS / address.path.removeprefix("/")
            route.fulfill(path=path, content_type=TYPES[path.suffix])

    def show(self, tool: str, context: dict[str, Any], **arguments: Any) -> tuple[Any, Frame]:
        """Call a tool, show its answer with the template that it names, and return both."""
        (listed,) = [each for each in self.ask("tools/list")["tools"] if each["name"] == tool]
        uri = self.page.evaluate("tool => templateOf(tool)", listed)
        (contents,) = self.ask("resources/read", uri=uri)["contents"]
        assert contents["mimeType"] == "text/html;profile=mcp-app"
        self.templates[f"/{tool}"] = contents["text"]
        result = self.ask("tools/call", name=tool, arguments=arguments)
        assert not result["isError"], result
        introduced = self.page.evaluate(
            "given => show(given)",
            {"address": f"{TEMPLATES}/{tool}", "hostContext": context, "result": result},
        )
        assert introduced["name"].startswith("svc-")
        frame = next(each for each in self.page.frames if each.url.startswith(TEMPLATES))
        expect(frame.locator("h1")).to_be_visible()
        return result["structuredContent"], frame


@pytest.fixture(scope="module")
def person(deployment: Any) -> Iterator[Person]:
    """Alice with an invented life; names that she and others chose hold a script."""
    with conftest.owning(deployment) as connection:
        alice = conftest.person(connection, "alice")
        words = ["alice@example.org", "--days=10"]
        with ThreadPoolExecutor(1) as thread:
            # Playwright's event loop counts as running in this thread, and the command starts one.
            done = thread.submit(CliRunner().invoke, demo, words, obj=deployment).result()
        assert done.exit_code == 0, done.output
        connection.execute("update activity.goal set title = %s", [HOSTILE])
        connection.execute("update content.calendar_event set title = %s", [HOSTILE])
        yield alice


@pytest.fixture(scope="module")
def hostile_app(service: Service, person: Person) -> None:
    """An application of yesterday whose name holds a script."""
    noon = datetime.combine(YESTERDAY, time(12), UTC)
    event = {
        "idempotency_key": "hostile",
        "app": HOSTILE,
        "title": HOSTILE,
        "started_at": noon.isoformat(),
        "ended_at": (noon + timedelta(hours=9)).isoformat(),
    }
    response = httpx2.post(
        f"{service.base_url}/api/v1/ingest/app-sessions",
        json={"events": [event]},
        headers=person.headers("ingest:app_sessions"),
    )
    assert response.json()["accepted"] == 1, response.text


@pytest.fixture(scope="module")
def host(chromium: Browser, service: Service, person: Person) -> Iterator[Host]:
    """A host in a window as narrow as a telephone's."""
    context = chromium.new_context(viewport={"width": 320, "height": 900})
    page = context.new_page()
    opened = Host(page, service, person.headers())
    # The library logs each message as "debug".
    page.on(
        "console",
        lambda said: (
            opened.problems.append(said.text) if said.type in ("error", "warning") else None
        ),
    )
    page.on("pageerror", lambda error: opened.problems.append(str(error)))
    context.route("**/*", opened.serve)
    page.goto(f"{HOST}/")
    page.wait_for_function("window.isReady === true")
    yield opened
    context.close()


def check(host: Host, frame: Frame) -> None:
    """Expect a picture and tables that fit the window, in colours and with names that axe accepts."""
    assert frame.locator("svg[role=img] rect").count() > 0
    assert frame.locator("table caption").count() > 0
    assert frame.evaluate("document.documentElement.scrollWidth") <= 320
    assert frame.evaluate("document.scripts.length") == 1
    assert frame.evaluate("typeof hacked") == "undefined"
    host.page.wait_for_function(
        "height => heights.at(-1) === height",
        arg=frame.evaluate("Math.ceil(document.documentElement.getBoundingClientRect().height)"),
    )
    frame.evaluate(Axe().axe_script)
    assert (
        frame.evaluate(
            "async () => (await axe.run({iframes: false})).violations.map("
            "each => `${each.id}: ${each.nodes.map(node => node.html).join(' ')}`)"
        )
        == []
    )
    assert host.problems == []


def in_table(frame: Frame, *cells: str) -> None:
    """Expect a row with these cells, in this order."""
    rows = frame.locator("tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    assert any(row[: len(cells)] == list(cells) for row in rows), (cells, rows)


LIGHT: Final = {"theme": "light"}
DARK: Final = {
    "theme": "dark",
    "styles": {"variables": {"--color-background-primary": "rgb(1, 2, 3)"}},
}


def background(frame: Frame) -> Any:
    """Return the colour behind the page."""
    return frame.evaluate("getComputedStyle(document.body).backgroundColor")


def test_the_host_decides_between_light_and_dark(host: Host) -> None:
    _, light = host.show("get_time_breakdown", LIGHT)
    colours = [background(light)]
    _, dark = host.show("get_time_breakdown", {"theme": "dark"})
    colours.append(background(dark))
    check(host, dark)
    host.page.evaluate("context => bridge.setHostContext(context)", DARK)
    dark.wait_for_function("getComputedStyle(document.body).backgroundColor === 'rgb(1, 2, 3)'")

    assert colours == ["rgb(255, 255, 255)", "rgb(29, 33, 40)"]


@pytest.mark.usefixtures("hostile_app")
@pytest.mark.parametrize("context", [LIGHT, DARK], ids=["light", "dark"])
def test_a_day_is_drawn_beside_the_usual_one(host: Host, context: dict[str, Any]) -> None:
    answer, frame = host.show("get_day", context, date=str(YESTERDAY), tz="UTC")

    check(host, frame)
    tracked = next(each for each in answer["totals"] if each["metric"] == "tracked_ms")
    in_table(frame, f"Tracked {tracked['phrase']}", tracked["value_text"])
    (hostile,) = [each for each in answer["top_apps"] if each["name"] == HOSTILE]
    in_table(frame, HOSTILE, hostile["total_text"], f"{hostile['percent']:g} %")
    assert answer["goals"]
    in_table(frame, HOSTILE, answer["goals"][0]["value_text"], answer["goals"][0]["target_text"])


@pytest.mark.usefixtures("hostile_app")
@pytest.mark.parametrize("context", [LIGHT, DARK], ids=["light", "dark"])
def test_a_breakdown_is_drawn_by_its_keys(host: Host, context: dict[str, Any]) -> None:
    answer, frame = host.show("get_time_breakdown", context, tz="UTC")

    check(host, frame)
    (hostile,) = [each for each in answer["data"] if each["by"]["app"] == HOSTILE]
    in_table(frame, HOSTILE, hostile["total_text"])
    assert answer["totals"]["total_text"] in (frame.locator(".figure").text_content() or "")

    answer, frame = host.show("get_time_breakdown", context, group_by=["day", "category"])

    check(host, frame)
    assert len(answer["data"][0]["by"]) == 2
    in_table(frame, "Day · category", "Time", "Share")


@pytest.mark.parametrize("context", [LIGHT, DARK], ids=["light", "dark"])
def test_nights_and_metrics_are_drawn(host: Host, context: dict[str, Any]) -> None:
    answer, frame = host.show("get_health", context)

    check(host, frame)
    night = next(each for each in answer["recovery"] if each["recovery"] and each["sleep"])
    assert night["sleep"]["asleep_text"] in (frame.locator("tbody").first.text_content() or "")
    nights = [each["sleep"] for each in answer["recovery"] if each["sleep"]]
    longest = max(nights, key=lambda sleep: sleep["asleep_ms"])
    # The number at the top of the picture is the height of the highest column.
    highest = frame.locator("svg[role=img] text").first
    expect(highest).to_have_text(longest["asleep_text"])

    answer, frame = host.show("get_health", context, metrics=["steps", "asleep_ms"])

    check(host, frame)
    expect(frame.locator("h2")).to_have_text(["steps", "asleep"])


def test_an_error_and_an_answer_without_a_picture_are_text(host: Host) -> None:
    _, frame = host.show("get_day", LIGHT)
    for result in (
        {"isError": True, "content": [{"type": "text", "text": HOSTILE}]},
        {"content": [{"type": "text", "text": HOSTILE}]},
        {"content": [{"type": "text", "text": HOSTILE}], "structuredContent": {"totals": 5}},
    ):
        host.page.evaluate("result => bridge.sendToolResult(result)", result)
        expect(frame.locator("main")).to_have_text(HOSTILE)
        host.page.evaluate("bridge.sendToolCancelled({reason: 'test'})")
        expect(frame.locator("main")).to_have_text("The call was cancelled.")
    assert frame.evaluate("typeof hacked") == "undefined"
    assert host.page.evaluate("bridge.teardownResource({})") == {}
    assert host.problems == []

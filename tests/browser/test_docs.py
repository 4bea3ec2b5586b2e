"""The documentation page: it loads only files of this server, and can send requests."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

import httpx2
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

import resourceserver
from resourceserver.description import openapi
from resourceserver.description.guide import GUIDES
from tests.browser.conftest import WAITS_MS
from tests.browser.test_accessibility import Colours, broken_rules
from tests.conftest import Person
from tests.processes import Service

RENDERER: Final = Path(resourceserver.__file__).parent / "description" / "static" / "swagger-ui"


@pytest.fixture(scope="module")
def docs(chromium: Browser, service: Service) -> Iterator[Page]:
    """The page, opened once because it has 2 MB of scripts, on a phone and in dark mode.

    Afterwards it checks that there were no errors and that it sent requests only to its own server.
    """
    context = chromium.new_context(color_scheme="dark", viewport={"width": 360, "height": 800})
    context.set_default_timeout(WAITS_MS)
    page = context.new_page()
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{service.base_url}/docs")
    expect(page.locator(".opblock")).to_have_count(len(openapi.operations()))
    yield page
    context.close()
    assert said == []
    origins = {f"{parts.scheme}://{parts.netloc}" for parts in map(urlsplit, asked)}
    assert origins - {"data://"} == {service.base_url}


def test_every_operation_is_shown(docs: Page) -> None:
    shown = docs.locator(".opblock-summary-path").all_inner_texts()

    paths = [described.path for described in openapi.operations()]
    assert sorted(path.replace("\u200b", "") for path in shown) == sorted(paths)
    assert docs.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


# The page was opened in the dark, and follows when that changes.
@pytest.mark.parametrize(
    ("scheme", "background"), [("dark", "rgb(28, 32, 34)"), ("light", "rgba(0, 0, 0, 0)")]
)
def test_the_page_follows_light_and_dark_mode(
    docs: Page, scheme: Literal["light", "dark"], background: str
) -> None:
    docs.emulate_media(color_scheme=scheme)

    expect(docs.locator("html")).to_have_css("background-color", background)


def test_a_request_can_be_sent_with_a_token(docs: Page, alice: Person) -> None:
    docs.get_by_role("button", name="Authorize").click()
    # The other way to get a token needs a registered client, which this page is not.
    expect(docs.locator(".auth-container")).to_have_count(1)
    docs.locator(".auth-container input").fill(alice.token("read:profile"))
    docs.locator(".auth-btn-wrapper").get_by_role("button", name="Apply credentials").click()
    docs.locator(".auth-btn-wrapper").get_by_role("button", name="Close").click()
    operation = docs.locator("#operations-Profile-me")
    operation.locator(".opblock-summary-control").click()
    operation.get_by_role("button", name="Try it out").click()

    operation.get_by_role("button", name="Execute").click()

    answer = operation.locator(".live-responses-table .response").first
    expect(answer).to_contain_text("200")
    expect(answer).to_contain_text("alice@example.org")


def test_without_scripts_the_page_links_to_the_description(
    chromium: Browser, service: Service
) -> None:
    context = chromium.new_context(java_script_enabled=False)
    context.set_default_timeout(WAITS_MS)
    page = context.new_page()
    page.goto(f"{service.base_url}/docs")

    page.get_by_role("link", name="/openapi.json").click()

    assert page.url == f"{service.base_url}/openapi.json"
    context.close()


@pytest.mark.parametrize(
    "path", ["/docs", "/docs/docs.js", "/docs/docs.css", "/docs/swagger-ui-bundle.js"]
)
def test_the_page_can_run_only_its_own_scripts(
    service: Service, http: httpx2.Client, path: str
) -> None:
    answer = http.get(f"{service.base_url}{path}")
    again = http.get(f"{service.base_url}{path}", headers={"If-None-Match": answer.headers["etag"]})

    policy = dict(
        part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";")
    )
    assert answer.status_code == 200
    assert answer.headers["content-encoding"] == "gzip"
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert again.status_code == 304
    assert again.content == b""


def test_vendored_files_are_unchanged() -> None:
    lines = (RENDERER / "SHA256SUMS").read_text().splitlines()
    published = {name: digest for digest, name in (line.split() for line in lines)}

    ours = {"README.md", "SHA256SUMS"}
    there = {path.name: path for path in RENDERER.iterdir() if path.name not in ours}
    assert {
        name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in there.items()
    } == published


def test_the_guide_breaks_no_rule_of_accessibility_and_fits_a_small_phone(
    chromium: Browser, service: Service
) -> None:
    context = chromium.new_context(viewport={"width": 320, "height": 640})
    context.set_default_timeout(WAITS_MS)
    context.add_init_script(Axe().axe_script)
    page = context.new_page()
    colours = Colours()
    found = {}
    for guide in GUIDES:
        page.goto(f"{service.base_url}{guide.path}")
        wide = page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
        narrow = page.locator("article td:not(:first-child)").evaluate_all(
            "cells => cells.some(cell => cell.offsetWidth < 100)"
        )
        problems = {"wider than the window": wide, "narrow columns": narrow}
        found[guide.name] = [
            *broken_rules(page, colours),
            *(name for name, is_there in problems.items() if is_there),
        ]
    context.close()

    assert found == {guide.name: [] for guide in GUIDES}

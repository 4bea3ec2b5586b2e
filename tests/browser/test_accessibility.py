"""Accessibility of every page: contrast, small windows, and use by keyboard only."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page
from starlette.routing import Route

import authserver.app
from shared.settings import Settings
from tests.browser.conftest import WAITS_MS, with_and_without_scripts
from tests.browser.tour import Tour, server_with_provider

TEMPLATES: Final = Path(authserver.app.__file__).parent / "web" / "templates"

ON_THE_WAY: Final = {"/.well-known/oauth-authorization-server", "/healthz", "/readyz"}
"""Paths for GET that are not pages."""

FOR_SCRIPTS: Final = {"/welcome/seen"}
"""Those that the script of a page requests."""

HAVE_SCRIPTS: Final = {
    "join.html": "test_layout.py",
    "welcome.html": "test_first_hour.py",
    "sign_in.html": "test_authorization.py",
    "confirm.html": "test_old_sign_in.py, test_passkeys.py",
    "api_access.html": "test_api_access.py, test_old_sign_in.py",
    "account_download.html": "test_account.py",
    "bring.html": "test_bring.py",
    "connection.html": "test_connections.py",
    "connection_key.html": "test_connections.py",
    "connection_new.html": "test_connections.py",
    "account_download_token.html": "test_account.py",
    "sign_in_methods.html": "test_passkeys.py",
}
"""The pages with a script, and which tests of them run with JavaScript and without it."""

OF_COLOURS: Final = ["color-contrast", "link-in-text-block"]
"""The rules whose outcome depends on colours, which are all that differs between light and dark mode."""

WITHOUT_COLOURS: Final = {"rules": {rule: {"enabled": False} for rule in OF_COLOURS}}

READ_COLOURS: Final = """
() => {
    const behind = new Map([[null, ""]]);
    const surface = element => {
        if (!behind.has(element)) {
            const {backgroundColor, backgroundImage, opacity, position} = getComputedStyle(element);
            const own = [backgroundColor, backgroundImage, opacity, position].join(" ");
            const isBare = own === "rgba(0, 0, 0, 0) none 1 static";
            behind.set(element, surface(element.parentElement) + (isBare ? "" : `/${own}`));
        }
        return behind.get(element);
    };
    const hasText = element => element.matches("input, textarea, select, button") ||
        [...element.childNodes].some(({nodeType, data}) => nodeType === 3 && data.trim());
    const isOff = element => Boolean(element.closest(":disabled, [aria-disabled=true]")) ||
        Boolean(element.closest("label")?.control?.disabled);
    const around = ({parentElement: parent, textContent}) => parent && [
        getComputedStyle(parent).color, getComputedStyle(parent).display,
        parent.textContent.trim() === textContent.trim(),
    ];
    return [...new Set([...document.body.querySelectorAll("*")]
        .filter(element => hasText(element) && element.checkVisibility())
        .map(element => {
            const style = getComputedStyle(element);
            return JSON.stringify([
                style.color, style.fill, style.fontSize, style.fontWeight, style.fontStyle,
                style.borderBottom, style.textShadow, style.textDecorationLine, isOff(element),
                element.matches("a") && around(element), surface(element),
            ]);
        }))];
}
"""
"""Returns the distinct looks of all texts: what the rules of colours depend on, with the surfaces around
a text. It leaves out surfaces below a text that is placed over elements beside it."""


@pytest.fixture(scope="module")
def served(deployment: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """The settings of a running authorization server with a provider."""
    with server_with_provider(deployment, tmp_path_factory.mktemp("tour")) as chosen:
        yield chosen


# A walk through all pages takes a minute or more on a busy machine.
@pytest.mark.timeout(300)
@with_and_without_scripts
def test_no_page_breaks_a_rule_of_accessibility_or_is_wider_than_a_small_phone(
    scripts: bool, chromium: Browser, served: Settings, owner: psycopg.Connection[Any]
) -> None:
    context = chromium.new_context(
        java_script_enabled=scripts,
        viewport={"width": 320, "height": 640},
        reduced_motion="reduce",
    )
    context.set_default_timeout(WAITS_MS)
    if scripts:
        context.add_init_script(Axe().axe_script)
    page = context.new_page()
    tour = Tour(page, served, owner)
    colours = Colours()
    found = {}
    for name in tour.stops():
        # axe needs JavaScript. Without it this walk shows that every page can be left.
        rules = broken_rules(page, colours) if scripts else []
        wide = page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
        found[name] = [*rules, *(["wider than the window"] if wide else [])]
    context.close()

    assert {name: problems for name, problems in found.items() if problems} == {}
    assert pages_of(served) - tour.seen - FOR_SCRIPTS == ON_THE_WAY


# All other tests run with JavaScript alone: without a script a page is the same.
def test_each_page_with_a_script_is_named_with_its_tests_without_javascript() -> None:
    have_scripts = {path.name for path in TEMPLATES.iterdir() if "<script" in path.read_text()}

    assert have_scripts == HAVE_SCRIPTS.keys()


@dataclass
class Colours:
    """The looks of the texts of the pages on which axe has tried the rules of colours.

    These rules take axe most of its time, and their outcome for two texts of one look is the same.
    """

    tried: set[str] = field(default_factory=set)

    def are_new(self, page: Page) -> bool:
        """Tell whether a page has a text of a new look, and count it as tried from now on."""
        new = set(page.evaluate(READ_COLOURS)) - self.tried
        self.tried |= new
        return bool(new)


def broken_rules(page: Page, colours: Colours) -> list[str]:
    """Return the rules that a page breaks, with the elements: all in light colours, some in dark ones."""
    return [*broken_in_light(page, colours), *broken_in_dark(page, colours)]


def broken_in_light(page: Page, colours: Colours) -> list[str]:
    """Return the rules that a page breaks in light colours; those of colours are tried on new looks."""
    return run_axe(page, {} if colours.are_new(page) else WITHOUT_COLOURS)


def broken_in_dark(page: Page, colours: Colours) -> list[str]:
    """Return the rules of colours that a page breaks in dark colours, if it has new looks."""
    page.emulate_media(color_scheme="dark")
    broken = (
        run_axe(page, {"runOnly": {"type": "rule", "values": OF_COLOURS}})
        if colours.are_new(page)
        else []
    )
    page.emulate_media(color_scheme="light")
    return [f"dark: {each}" for each in broken]


def run_axe(page: Page, options: dict[str, Any]) -> list[str]:
    """Run axe, which the context has loaded, and return the rules that the page breaks."""
    chosen = {"resultTypes": ["violations"], "selectors": False} | options
    broken: list[str] = page.evaluate(
        f"""async () => (await axe.run({json.dumps(chosen)})).violations.map(
            ({{id, nodes}}) => `${{id}}: ${{nodes.map(({{html}}) => html).join(" ")}}`
        )"""
    )
    return broken


def pages_of(chosen: Settings) -> set[str]:
    """Return the paths that accept GET."""
    routes = authserver.app.create(chosen).routes
    return {
        route.path
        for route in routes
        if isinstance(route, Route) and "GET" in (route.methods or ())
    }

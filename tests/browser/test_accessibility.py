"""Every page as people meet it who see little, use a small window, or use the keyboard alone."""

from collections.abc import Iterator
from typing import Any, Final, Literal

import psycopg
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser
from starlette.routing import Route

import authserver.app
from shared.settings import Settings
from tests.browser.tour import Tour, service_with_provider
from tests.processes import Service

ON_THE_WAY: Final = {"/.well-known/oauth-authorization-server"}
"""What answers GET and is no page."""


@pytest.fixture(scope="module")
def service(deployment: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Both servers, and a provider."""
    with service_with_provider(deployment, tmp_path_factory.mktemp("tour")) as running:
        yield running


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_breaks_a_rule_of_accessibility_or_is_wider_than_a_small_phone(
    chromium: Browser,
    service: Service,
    owner: psycopg.Connection[Any],
    scheme: Literal["light", "dark"],
) -> None:
    context = chromium.new_context(
        color_scheme=scheme, viewport={"width": 320, "height": 640}, reduced_motion="reduce"
    )
    context.set_default_timeout(5000)
    tour = Tour(context.new_page(), service, owner)
    found = {}
    for name in tour.stops():
        rules = [
            f"{violation['id']}: {[node['html'] for node in violation['nodes']]}"
            for violation in Axe().run(tour.page).response["violations"]
        ]
        wide = tour.page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
        found[name] = [*rules, *(["wider than the window"] if wide else [])]
    context.close()

    assert {name: problems for name, problems in found.items() if problems} == {}
    assert pages_of(service.settings) - tour.seen == ON_THE_WAY


def pages_of(chosen: Settings) -> set[str]:
    """Return the paths that may be asked for with GET."""
    routes = authserver.app.create(chosen).routes
    return {
        route.path
        for route in routes
        if isinstance(route, Route) and "GET" in (route.methods or ())
    }

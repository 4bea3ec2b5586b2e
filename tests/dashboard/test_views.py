"""All views: each figure is the API's, and every address has a page."""

import gzip
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from html import unescape
from typing import Final
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from starlette.routing import Match
from starlette.testclient import TestClient

import authserver.app
from resourceserver.dashboard.figures import Answer
from resourceserver.dashboard.period import RANGES, Misaddressed
from resourceserver.dashboard.signin.cookie import Cookies
from resourceserver.dashboard.view import View
from resourceserver.dashboard.views import VIEWS
from resourceserver.endpoints import ENDPOINTS
from shared.settings import Settings
from tests.conftest import Person
from tests.dashboard.conftest import LAST, Page, Visit

PARTS: Final = {
    "{day}": f"{LAST.replace(day=23)}",
    "{week}": "2026-W43",
    "{month}": "2026-10",
    "{year}": "2026",
}
DOMAINS: Final = ("code", "music", "places", "content")
MOST_BYTES: Final = 60_000

by_name = pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)


def addresses(view: View, parts: Mapping[str, str] = PARTS) -> list[str]:
    """Return the addresses of a view, with a range if it has one."""
    found = []
    paths = [path.replace("{domain}", name) for path in view.paths for name in DOMAINS]
    for path in dict.fromkeys(paths):
        for part, value in parts.items():
            path = path.replace(part, value)  # noqa: PLW2901 -- it becomes the address
        found.append(path)
        if takes_a_range(view):
            found.append(f"{path}?from=2026-09-01&to={LAST}")
    return found


def takes_a_range(view: View) -> bool:
    """Tell whether the days of a view can be in its address."""
    try:
        address = view.address.parse({"path": "/", "from": "2026-09-01", "to": str(LAST)})
    except Misaddressed:
        return False
    return address.period(Calendar()).first == date(2026, 9, 1)


@dataclass(frozen=True)
class Calendar:
    today: date = LAST
    week_starts_on: int = 1


@pytest.fixture(scope="module")
def visit(ada: Person, resource_client: TestClient, sealing: Cookies) -> Visit:
    """Ada's browser, with a token for everything."""
    return Visit(resource_client, sealing, ada.token())


OpenOnce = Callable[[str], httpx2.Response]


@pytest.fixture(scope="module")
def open_once(visit: Visit) -> OpenOnce:
    """Opens an address for the first test that asks for it, and keeps the page for the others."""
    return cache(visit.open)


@by_name
def test_each_figure_is_the_one_of_the_api(view: View, visit: Visit, open_once: OpenOnce) -> None:
    count = 0
    for address in addresses(view):
        page = open_once(address)
        assert page.status_code == 200, address
        read = Page(page.text)
        answers = {
            name: Answer(name, url, visit.ask(url).json()) for name, url in read.sources.items()
        }
        for value, source in read.figures:
            name, _, pointer = source.partition("#")
            given = answers[name].at(pointer)
            assert value == (given if isinstance(given, str) else json.dumps(given)), source
        count += len(read.figures)
    assert count > 3


@by_name
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Midway"])
def test_questions_at_the_ends_of_the_calendar_are_ones_that_endpoints_take(
    view: View, zone: str
) -> None:
    # An exception at this point would cost a connection to the database.
    ranges: list[dict[str, str]] = [
        *({"from": day, "to": day} for day in ("1900-01-01", f"{LAST}", "9998-12-31")),
        *({"from": "1900-01-01"}, {"to": "1900-01-01"}, {"from": "9998-12-31"}),
    ]
    days = [{"day": day} for day in ("1900-01-01", "9998-12-31")]
    weeks = [{"week": week} for week in ("1900-W03", "9998-W51")]
    months = [{"month": month} for month in ("1900-02", "9998-11")]
    years = [{"year": year} for year in ("1900", "9998")]
    domains = [{"domain": name, "to": "1900-01-01"} for name in DOMAINS]
    known = {
        "tz": zone,
        "today": f"{LAST}",
        "now": f"{LAST}T10:00:00.123456Z",
        "week_starts_on": 7,
        "scopes": [scope for endpoint in ENDPOINTS for scope in endpoint.scopes],
    }
    count = 0
    for parts in ranges + days + weeks + months + years + domains:
        try:
            address = view.address.parse({"path": "/", **parts})
        except Misaddressed:
            continue
        question = view.page(address, {"path": "/", **parts}, "").question
        count += len(question.parts(known))
    assert count


def test_ranges_of_a_name_have_the_same_days_on_every_page(visit: Visit) -> None:
    found: dict[str, set[int]] = {}
    for view in VIEWS:
        for address in addresses(view):
            html = visit.open(address).text
            for links in re.findall(r'aria-label="Up to today">(.*?)</nav>', html, re.DOTALL):
                for link, name in re.findall(r'href="([^"]+)">([^<]+)</a>', links):
                    query = parse_qs(urlsplit(unescape(link)).query)
                    first, last = (date.fromisoformat(query[end][0]) for end in ("from", "to"))
                    found.setdefault(name, set()).add((last - first).days + 1)
                    assert visit.open(unescape(link)).status_code == 200

    assert found == {name: {days} for name, days in RANGES.items()}


def test_links_to_the_authorization_server_lead_to_pages_that_it_has(
    visit: Visit, nobody: Person, deployment: Settings
) -> None:
    empty = replace(visit, token=nobody.token())
    links = {
        link
        for view in VIEWS
        for address in addresses(view)
        for who in (visit, empty)
        for link in Page(who.open(address).text).links
        if link.startswith(f"{deployment.auth_url}/")
    }
    scopes = [
        {"type": "http", "method": "GET", "path": urlsplit(link).path, "headers": []}
        for link in sorted(links)
    ]

    routes = authserver.app.create(deployment).routes
    unknown = [
        scope["path"]
        for scope in scopes
        if all(route.matches(scope)[0] is not Match.FULL for route in routes)
    ]

    assert len(links) > 5
    assert unknown == []


@pytest.mark.parametrize("path", ["/trends", "/focus", "/body", "/together", "/explore/content"])
def test_a_view_of_any_days_has_a_form_for_them(path: str, visit: Visit) -> None:
    page = visit.open(f"{path}?from=2026-09-01&to={LAST}").text

    form = page.partition(f'<form class="choose" action="{path}" method="get">')[2]
    assert 'name="from" type="date" value="2026-09-01"' in form
    assert f'name="to" type="date" value="{LAST}"' in form


@pytest.mark.parametrize(
    "address",
    [
        f"/trends?from={PARTS['{day}']}&to={PARTS['{day}']}",
        f"/body?date={PARTS['{day}']}",
        f"/body?from={PARTS['{day}']}&to={PARTS['{day}']}",
    ],
)
def test_a_single_day_of_a_view_of_any_days_has_a_link_to_its_current_days(
    address: str, visit: Visit
) -> None:
    page = visit.open(address).text

    assert ">Up to today</a>" in page
    assert page.count(">Today</a>") == 1, "the menu alone leads to the page of today"


@by_name
def test_a_page_is_small_and_nothing_in_it_needs_a_looser_policy(
    view: View, open_once: OpenOnce
) -> None:
    for address in addresses(view):
        page = open_once(address)
        assert len(gzip.compress(page.content)) <= MOST_BYTES
        assert (
            re.search(r"<script(?! src=)|<style|\sstyle=|\son\w+=|javascript:", page.text) is None
        )
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert page.headers["cache-control"] == "private, no-cache"
        assert not [name for name in page.headers if name.startswith("access-control")]


@by_name
def test_a_view_without_a_scope_says_which_and_shows_the_rest(
    view: View,
    ada: Person,
    resource_client: TestClient,
    sealing: Cookies,
    open_once: OpenOnce,
) -> None:
    whole = open_once(addresses(view)[0])
    # Some questions are for other people, such as those without any data.
    asked = {urlsplit(url).path for url in Page(whole.text).sources.values()}
    scopes = {
        scope for endpoint in ENDPOINTS if endpoint.path in asked for scope in endpoint.scopes
    }
    assert scopes
    for scope in scopes:
        others = scopes - {scope} or {"ingest:health"}
        visit = Visit(resource_client, sealing, ada.token(*others))
        page = visit.open(addresses(view)[0])
        assert page.status_code == 200
        assert f"<code>{scope}</code>" in page.text
        assert "/sign-in?ask=1" in page.text


@by_name
def test_an_empty_account_has_every_page(
    view: View, nobody: Person, resource_client: TestClient, sealing: Cookies
) -> None:
    visit = Visit(resource_client, sealing, nobody.token())
    for address in addresses(view):
        assert visit.open(address).status_code == 200


@by_name
def test_a_page_that_has_not_changed_is_not_sent_again(view: View, visit: Visit) -> None:
    address = addresses(view)[-1]
    # The page of today changes with the minute, which may end between the two requests.
    for _ in range(3):
        first = visit.open(address)
        again = visit.open(address, **{"If-None-Match": first.headers["etag"]})
        if again.status_code == 304:
            break
    assert (again.status_code, again.content) == (304, b"")


@by_name
@pytest.mark.parametrize("zone", ["Mars/Olympus", "localtime", "+01:00", "Europe/Berlin\x00"])
def test_a_zone_that_does_not_exist_is_named(view: View, visit: Visit, zone: str) -> None:
    page = visit.open(addresses(view)[0] + f"?tz={zone.replace('+', '%2B')}".replace("\x00", "%00"))
    assert page.status_code == 404
    assert "time zone" in page.text


def test_the_links_of_the_menu_lead_to_views(open_once: OpenOnce) -> None:
    menu = [view.paths[0] for view in VIEWS if view.is_in_menu]
    links = Page(open_once("/").text).links
    assert [link for link in links if link in menu][: len(menu) + 1] == ["/", *menu]
    assert {open_once(path).status_code for path in menu} == {200}


def test_another_zone_stays_in_the_links_of_the_page(visit: Visit) -> None:
    page = Page(visit.open("/?tz=Asia/Tokyo").text)
    assert "tz=Asia%2FTokyo" in page.sources["normal"]
    assert "tz=Asia%2FTokyo" in page.sources["goals"]
    assert any(link.startswith("/day/") and "tz=Asia%2FTokyo" in link for link in page.links)


@by_name
def test_without_a_token_a_view_leads_to_the_authorization_server(
    view: View, visit: Visit, resource_client: TestClient
) -> None:
    for address in addresses(view):
        answer = resource_client.get(
            address, headers={"Accept": "text/html"}, follow_redirects=False
        )
        assert answer.status_code == 303
        assert "/oauth/authorize?" in answer.headers["location"]
        assert answer.content == b""

"""The dashboard in a browser: signing in, and what holds for every view, with data and without."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Any, Final

import httpx2
import psycopg
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from resourceserver.dashboard.period import week_name
from resourceserver.dashboard.signin.cookie import Cookies, cookies
from resourceserver.dashboard.view import View
from resourceserver.dashboard.views import VIEWS
from shared.settings import Settings, sealing_key
from tests import processes
from tests.browser.conftest import WAITS_MS
from tests.browser.test_accessibility import (
    WITHOUT_COLOURS,
    Colours,
    broken_in_dark,
    broken_in_light,
    run_axe,
)
from tests.browser.test_authorization import sign_in
from tests.conftest import Person, owning, person
from tests.dashboard.conftest import invent
from tests.dashboard.crowd import crowd
from tests.dashboard.test_views import PARTS, addresses, by_name, takes_a_range
from tests.faults.proxy import Proxy, proxy
from tests.midday import midday
from tests.oauth.conftest import store_dashboard
from tests.processes import Service

ABSURD: Final = (
    *("0000-00-00", "1899-12-31", "1900-01-01", "2026-02-30", "9999-12-31", "2026-11-21T00:00"),
    *("0000-W00", "1900-W01", "9999-W53", "2026-W54", "0000", "1900", "9999", "10000", "-1"),
    *("1900-01", "2026-13", "2026-1", "9999-12"),
    *("%00", "%ff", "%2e%2e", "%e2%80%ae", "\N{ARABIC-INDIC DIGIT TWO}026", "9" * 4000),
)
"""Values of the parts of an address; some of them name a time that has a page."""

RANGES: Final = (
    *("from=0001-01-01&to=9999-12-31", "from=1900-01-01&to=1909-12-31", "from=2090-01-01"),
    *("to=1899-12-31", "to=1900-01-01", "from=2026-02-30", "from=%00", "to=%ff", "from=&to="),
    *("from=2026-11-21&to=2026-11-20", "from=2026-11-21T00:00:00Z", "from=9999-12-31"),
)

QUERY: Final = "metric=%00&metric=x&by=%ff&domain=..%2f&kind=-1&page=9e9&until=never"
"""Parameters that no view has, or not with these values."""

NOTE_SHIFTS: Final = """
window.shifts = [];
new PerformanceObserver(list => {
    for (const {value, sources} of list.getEntries())
        if (value > 0.00001)
            shifts.push(`${value}: ${sources.map(({node}) => node?.parentElement?.outerHTML.slice(0, 200))}`);
}).observe({type: "layout-shift", buffered: true});
"""
"""Keeps what moves. A word that a busy machine draws a pixel beside its first place scores less than this."""

PASSED_BY: Final = """
() => [...document.querySelectorAll("a[href], button, summary, pre, [tabindex]")].filter(element => {
    if (!element.checkVisibility() || element.closest("pre:not([tabindex])")) return false;
    const twin = `a[href="${element.getAttribute("href")}"]:not([tabindex])`;
    // A table has the same link, with fewer keys to it; a day without anything (.n, .l0) has no row there.
    if (element.matches(".n, .l0") || element.tabIndex < 0 && document.querySelector(twin)) return false;
    element.focus();
    const {outlineStyle, outlineWidth} = getComputedStyle(element);
    return document.activeElement !== element || outlineStyle !== "solid" || outlineWidth !== "3px";
}).map(element => element.outerHTML.slice(0, 200))
"""
"""Finds what the keyboard does not reach, or reaches without a mark."""

WIDER: Final = """
() => {
    const wide = document.documentElement.scrollWidth > window.innerWidth;
    return [...document.querySelectorAll(wide ? "main *" : "empty")]
        .filter(element => element.getBoundingClientRect().right > window.innerWidth + 0.5)
        .map(element => element.outerHTML.slice(0, 200)).slice(-3)
        .concat(wide ? document.documentElement.scrollWidth : []);
}
"""
"""Finds what is wider than the window, if anything makes the page scroll sideways."""


CUT_OFF: Final = """
() => [...document.querySelectorAll("main .scroll, main .tiles > *, main figcaption")]
    .filter(element => element.scrollWidth > element.clientWidth + 1)
    .map(element => element.outerHTML.slice(0, 200))
"""
"""Finds what does not show all of its width."""

NARROWED: Final = """
() => {
    document.querySelectorAll("details").forEach(details => { details.open = true; });
    return [...document.querySelectorAll(".table tbody th")]
        .filter(cell => cell.getBoundingClientRect().width < 100)
        .map(cell => cell.outerHTML.slice(0, 200)).slice(0, 3);
}
"""
"""Opens all tables of charts, and finds names that have room for a few letters only."""


LONGEST_PAGE: Final = 15_000
"""The height in pixels of a page on a narrow phone, however long the titles and names in its lists are."""


@dataclass(frozen=True)
class Board:
    """The dashboard of a server whose database can go away, and a page of a browser."""

    settings: Settings
    way: Proxy
    page: Page
    people: dict[str, Person]
    tokens: dict[str, str] = field(repr=False)
    said: list[str]
    """What the console of the page says."""
    colours: Colours = field(default_factory=Colours)

    def enter(self, name: str) -> None:
        """Sign a person in, by a cookie as the dashboard sets it after a round to the other server."""
        cookie, value = signed_in(self.settings, self.tokens[name])
        self.page.context.add_cookies(
            [{"name": cookie, "value": value, "url": self.settings.base_url}]
        )

    def headers(self, name: str) -> dict[str, str]:
        """Return the headers of a person's browser, for requests without one."""
        cookie = "=".join(signed_in(self.settings, self.tokens[name]))
        return {"Accept": "text/html", "Cookie": cookie}

    def open(self, address: str, width: int) -> None:
        """Open an address of the dashboard in a window of this width."""
        self.page.set_viewport_size({"width": width, "height": 800})
        response = self.page.goto(f"{self.settings.base_url}{address}")
        assert response is not None
        assert response.status == 200, address

    def shifts(self) -> list[str]:
        """Return what has moved since the page was opened."""
        moved: list[str] = self.page.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => setTimeout(() => done(shifts))))"
        )
        return moved


def sealing(chosen: Settings) -> Cookies:
    """Return the cookies of a deployment's dashboard."""
    key = sealing_key(chosen)
    assert key is not None
    return cookies(chosen, key)


def signed_in(chosen: Settings, token: str) -> tuple[str, str]:
    """Return name and value of the cookie that signs a browser in to the dashboard."""
    own = sealing(chosen)
    return own.name, own.encrypt(own.name, {"token": token}, 3600)


@pytest.fixture(scope="module")
def board(
    chromium: Browser, deployment: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Board]:
    """A person with two months of an invented life, one with too much on a day, and one without data.

    It is between noon and 13:00 where they live.
    """
    noon = midday()
    directory = tmp_path_factory.mktemp("board")
    (port,) = processes.free_ports(1)
    chosen = replace(
        deployment, base_url=f"http://localhost:{port}", upload_dir=directory / "uploads"
    )
    with owning(deployment) as connection, ExitStack() as held:
        people = {name: person(connection, name) for name in ("ada", "crowded", "nobody")}
        connection.execute("update identity.user set timezone = %s", [str(noon.tzinfo)])
        # Playwright's event loop counts as running in this thread.
        with ThreadPoolExecutor(1) as other:
            other.submit(invent, deployment, people["ada"].email, "--days=61").result()
            day = (noon - timedelta(hours=12), noon)
            other.submit(
                crowd, connection, deployment, people["crowded"].user_id, *day, sessions=600
            ).result()
        way = held.enter_context(proxy(deployment.database_url or ""))
        logins = processes.role_urls(chosen, processes.RESOURCE_ROLES)
        held.enter_context(
            processes.running(
                ["resource", "serve"],
                chosen,
                {role: way.url(login) for role, login in logins.items()},
                f"{chosen.base_url}/healthz",
                directory / "resource.log",
            )
        )
        context = held.enter_context(chromium.new_context(reduced_motion="reduce"))
        context.set_default_timeout(WAITS_MS)
        context.add_init_script(NOTE_SHIFTS)
        context.add_init_script(Axe().axe_script)
        said: list[str] = []
        context.on("console", lambda message: said.append(message.text))
        context.on("weberror", lambda error: said.append(str(error.error)))
        tokens = {name: each.token() for name, each in people.items()}
        yield Board(chosen, way, context.new_page(), people, tokens, said)
        log = (directory / "resource.log").read_text()
        assert "Traceback" not in log


def addresses_of(view: View, day: date) -> list[str]:
    """Return the addresses of a view for the time of a day, without ranges."""
    named = {
        "{day}": f"{day}",
        "{week}": week_name(day),
        "{month}": f"{day:%Y-%m}",
        "{year}": f"{day.year}",
    }
    return [each for each in addresses(view, PARTS | named) if "?" not in each]


def address_of(view: View, day: date) -> str:
    """Return the last address of a view for the time of a day."""
    return addresses_of(view, day)[-1]


@by_name
def test_every_view_fits_and_stands_still_and_is_for_everybody(view: View, board: Board) -> None:
    page = board.page
    today = midday().date()
    visits = {
        "ada": address_of(view, today - timedelta(days=1)),
        "crowded": address_of(view, today),
        "nobody": address_of(view, today - timedelta(days=400)),
    }
    del board.said[:]
    found = {}
    for name, address in visits.items():
        board.enter(name)
        board.open(address, 320)
        problems = [f"moves: {each}" for each in board.shifts()]
        # Colours take axe most of its time; those of a crowded page are the same.
        problems += (
            run_axe(page, WITHOUT_COLOURS)
            if name == "crowded"
            else broken_in_light(page, board.colours)
        )
        problems += broken_in_dark(page, board.colours) if name == "ada" else []
        page.keyboard.press("Tab")
        problems += [f"no focus: {each}" for each in page.evaluate(PASSED_BY)]
        problems += [f"too wide: {each}" for each in page.evaluate(WIDER)]
        # A window of 1280 pixels at 200 %.
        page.set_viewport_size({"width": 640, "height": 400})
        problems += [f"too wide at 200 %: {each}" for each in page.evaluate(WIDER)]
        board.open(address, 1280)
        problems += [f"moves: {each}" for each in board.shifts()]
        found[name] = problems

    assert {name: problems for name, problems in found.items() if problems} == {}
    assert board.said == []


@pytest.mark.parametrize(
    "view", [view for view in VIEWS if takes_a_range(view)], ids=lambda view: view.name
)
def test_every_range_fits_and_stands_still(view: View, board: Board) -> None:
    last = midday().date()
    found = {}
    for name, days in {"ada": 60, "crowded": 1}.items():
        board.enter(name)
        query = f"?from={last - timedelta(days=days - 1)}&to={last}"
        for address in addresses_of(view, last):
            for width in (320, 1280):
                board.open(address + query, width)
                problems = [f"moves: {each}" for each in board.shifts()]
                problems += [f"too wide: {each}" for each in board.page.evaluate(WIDER)]
                found[f"{name} {address} {width}"] = problems

    assert {place: problems for place, problems in found.items() if problems} == {}


@by_name
def test_every_address_fits_on_a_narrow_phone(view: View, board: Board) -> None:
    page = board.page
    board.enter("crowded")
    found = {}
    for address in addresses_of(view, midday().date()):
        board.open(address, 320)
        found[address] = [f"too wide: {each}" for each in page.evaluate(WIDER)]
        height = page.evaluate("() => document.documentElement.scrollHeight")
        found[address] += [f"too long: {height}"] if height > LONGEST_PAGE else []
        found[address] += [f"too narrow: {each}" for each in page.evaluate(NARROWED)]
        found[address] += [f"too wide: {each}" for each in page.evaluate(WIDER)]

    assert {address: problems for address, problems in found.items() if problems} == {}


@by_name
def test_nothing_is_cut_off_on_paper(view: View, board: Board) -> None:
    board.enter("ada")
    board.page.emulate_media(media="print")
    board.open(address_of(view, midday().date() - timedelta(days=1)), 794)

    found = board.page.evaluate(CUT_OFF)

    board.page.emulate_media(media="screen")
    assert found == []


def test_the_state_of_each_source_is_on_a_narrow_page(board: Board) -> None:
    board.enter("ada")
    board.open("/sources", 390)

    hidden = board.page.evaluate(
        """() => [...document.querySelectorAll(".scroll")]
            .filter(element => element.scrollWidth > element.clientWidth)
            .map(element => element.getAttribute("aria-label"))"""
    )

    assert board.page.locator("td.words").count() > 1
    assert hidden == []


@by_name
def test_an_absurd_address_has_a_page(view: View, board: Board, http: httpx2.Client) -> None:
    parts = re.findall(r"\{\w+\}", "".join(view.paths))
    tried = [
        re.sub(r"\{\w+\}", value, path) for path in view.paths[-1:] if parts for value in ABSURD
    ]
    if takes_a_range(view):
        tried += [f"{view.paths[0]}?{query}" for query in RANGES]
    tried.append(f"{address_of(view, midday().date())}?{QUERY}")
    found = {}
    for address in tried:
        answer = http.get(board.settings.base_url + address, headers=board.headers("nobody"))
        is_page = answer.headers["content-type"].startswith("text/html")
        found[address] = (answer.status_code in (200, 404) and is_page) or answer.text[:200]

    assert {address: text for address, text in found.items() if text is not True} == {}


def test_a_cookie_of_another_deployment_or_audience_leads_to_the_sign_in(
    board: Board, http: httpx2.Client
) -> None:
    own = sealing(board.settings)
    others = [
        sealing(replace(board.settings, dashboard_key="another key")),
        sealing(replace(board.settings, base_url="http://localhost:1")),
        own,
    ]
    for_assistants = board.people["ada"].token(resource=f"{board.settings.base_url}/mcp")
    tokens = [board.tokens["ada"], board.tokens["ada"], for_assistants]
    answers = [
        http.get(
            f"{board.settings.base_url}/",
            headers={
                "Accept": "text/html",
                "Cookie": f"{own.name}={each.encrypt(own.name, {'token': token}, 600)}",
            },
        )
        for each, token in zip(others, tokens, strict=True)
    ]

    assert [answer.status_code for answer in answers] == [303, 303, 303]
    assert all("/oauth/authorize?" in answer.headers["location"] for answer in answers)


def test_without_a_database_a_page_says_so_and_loads_itself_again(board: Board) -> None:
    board.enter("ada")
    board.open("/", 1280)
    board.way.cut()

    response = board.page.reload()
    heading = board.page.get_by_role("heading", level=1)
    title = heading.inner_text()
    board.way.restore()

    assert response is not None
    assert response.status == 503
    assert title == "Your data cannot be read at the moment"
    expect(heading).to_have_text("Today")


def test_a_person_signs_in_once_is_not_interrupted_and_signs_out(
    page: Page, service: Service, person: str, owner: psycopg.Connection[Any]
) -> None:
    store_dashboard(owner, service.base_url)
    own = sealing(service.settings)
    week = f"{service.base_url}/week/2026-W47?tz=Asia/Tokyo"
    missing = page.get_by_text("Not all of this page is here")
    unread = page.get_by_role("checkbox", name="read:activity")

    def forget(*names: str) -> None:
        """End cookies, as time does."""
        for name in names:
            page.context.clear_cookies(name=name)

    # The first visit: sign in, consent to a part, and arrive where one wanted to go.
    page.goto(week)
    sign_in(page, person)
    unread.uncheck()
    page.get_by_role("button", name="Allow").click()
    expect(page).to_have_url(week)
    expect(page.get_by_role("heading", level=1)).to_have_text("Week")

    # A part that was left out is named where it is missing, and can be allowed later.
    page.get_by_role("link", name="Today", exact=True).click()
    expect(missing).to_contain_text("read:activity")
    page.get_by_role("link", name="Choose again").click()
    unread.check()
    page.get_by_role("button", name="Allow").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Today")
    expect(missing).to_have_count(0)

    # The token ends after an hour: nobody notices.
    forget(own.name, own.round_name)
    page.goto(week)
    expect(page).to_have_url(week)
    expect(page.get_by_role("heading", level=1)).to_have_text("Week")

    # After the access is revoked, the next page is the consent again.
    page.get_by_role("link", name="Settings").click()
    page.get_by_role("link", name="Connected apps").first.click()
    page.get_by_role("link", name="Revoke access").click()
    page.get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("status")).to_contain_text("The access is revoked.")
    forget(own.round_name)
    page.goto(week)
    page.get_by_role("button", name="Allow").click()
    expect(page).to_have_url(week)

    # Signing out, here and of the account.
    page.get_by_role("link", name="Sign out").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("You are signed out of the dashboard")
    names = {cookie["name"] for cookie in page.context.cookies(service.base_url)}
    assert not {name for name in names if name.startswith(own.name)}
    page.get_by_role("link", name="Sign out of your account").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    page.goto(week)
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")


def test_the_page_after_a_sign_out_removes_the_pages_that_the_browser_has_kept(
    page: Page, service: Service, owner: psycopg.Connection[Any]
) -> None:
    name, value = signed_in(service.settings, person(owner, "alice").token())
    # Kept pages depend on cookies, which all servers of one machine share: the other server's is set before.
    page.goto(f"{service.auth_url}/sign-in")
    page.context.add_cookies([{"name": name, "value": value, "url": service.base_url}])
    sources = page.goto(f"{service.base_url}/sources")

    page.goto(f"{service.auth_url}/sign-in")
    kept = page.go_back()
    page.goto(f"{service.auth_url}/sign-in?done=signed-out")
    removed = page.go_back()

    assert sources is not None
    assert kept is not None
    assert removed is not None
    request_id = sources.headers["x-request-id"]
    assert kept.headers["x-request-id"] == request_id
    assert removed.headers["x-request-id"] != request_id

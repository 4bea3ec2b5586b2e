"""Signing in to the dashboard, at a real authorization server, with a browser without JavaScript.

The view is a page of these tests, which says whose token opened it.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

import psycopg
import pytest
from httpx2 import Client, Response
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.responses import Response as Answer
from starlette.routing import Route

import resourceserver.app
from resourceserver.api.errors import Unauthorized
from resourceserver.api.session import Reader
from resourceserver.dashboard.signin.cookie import Cookies, cookies
from resourceserver.dashboard.signin.route import PRIVATE, SignIn
from shared import dashboard
from shared.scopes import SCOPES
from shared.settings import Settings
from tests import processes
from tests.client import NO_TLS, AppClient
from tests.conftest import Person
from tests.oauth.conftest import CHEAP, PASSWORD, visitor_of
from tests.oauth.visitor import forms

KEY: Final = "the long key of the cookies of tests"
VIEWS: Final = ("/", "/week/{week}")
WEEK: Final = "/week/2026-W47?metric=focus"
READ: Final = [scope for scope in SCOPES if scope.startswith("read:")]


@pytest.fixture(scope="module")
def settings(deployment: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """The settings of both servers, while the authorization server runs."""
    auth_port, base_port = processes.free_ports(2)
    chosen = replace(
        deployment,
        auth_url=f"http://localhost:{auth_port}",
        base_url=f"http://localhost:{base_port}",
        dashboard_key=KEY,
    )
    with authorization_server(chosen, tmp_path_factory.mktemp("auth") / "auth.log"):
        yield chosen


def authorization_server(chosen: Settings, log: Path, **logins: str) -> Any:
    """Run an authorization server until the end of a block."""
    return processes.running(
        ["auth", "serve", f"--listen=localhost:{urlsplit(chosen.auth_url).port}"],
        chosen,
        logins or processes.role_urls(chosen, processes.AUTH_ROLES),
        f"{chosen.auth_url}{processes.METADATA}",
        log,
    )


def application(chosen: Settings) -> Starlette:
    """Return the sign-in with a view."""
    signin = SignIn.of(chosen, VIEWS)
    reader = Reader.of(chosen)

    async def view(request: Request) -> Answer:
        who = signin.credential(request)
        if who is None:
            return signin.begin(request)
        try:
            await reader.check(who)
        except Unauthorized:
            return signin.begin(request)
        return PlainTextResponse(f"the week of {who.token.user_id}", headers=PRIVATE)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        reader.close()

    return Starlette(
        routes=[
            *(Route(path, view, methods=["GET", "POST"]) for path in VIEWS),
            *signin.routes(),
        ],
        lifespan=lifespan,
    )


@pytest.fixture(scope="module")
def app(settings: Settings) -> Iterator[Client]:
    """The resource server's part."""
    with AppClient(application(settings), settings.base_url) as client:
        yield client


@dataclass
class Browser:
    """A browser: it keeps the cookies of both servers together, since ports of a host share them."""

    app: Client
    auth: Client
    jar: CookieJar = field(default_factory=CookieJar)

    def get(self, url: str, **options: Any) -> Response:
        """Open an address, and follow no redirect."""
        return self._send("GET", url, **options)

    def follow(self, response: Response) -> Response:
        """Follow redirects, of which there must be few."""
        for _ in range(6):
            if response.status_code != 303:
                return response
            response = self.get(str(response.url.join(response.headers["location"])))
        raise AssertionError("endless redirects")

    def submit(self, page: Response, **fields: Any) -> Response:
        """Send the first form of a page."""
        form = forms(page)[0]
        unchanged = [(name, value) for name, value in form.fields if name not in fields]
        return self._send(
            "POST",
            str(page.url.join(form.action)),
            content=urlencode([*unchanged, *fields.items()]),
            headers={"Content-Type": "application/x-www-form-urlencoded"},
        )

    def consent(self, decision: str = "allow", path: str = WEEK) -> str:
        """Go to a view, decide at the authorization server, and return where that sends the browser."""
        page = self.follow(self.get(path))
        return self.submit(page, decision=decision).headers["location"]

    @property
    def cookies(self) -> dict[str, str]:
        """The cookies of the dashboard."""
        return {
            each.name: each.value or ""
            for each in self.jar
            if each.name.startswith("svc-dashboard")
        }

    def keep(self, name: str, value: str) -> None:
        """Put a cookie into the jar."""
        self.app.cookies = self.jar
        self.app.cookies.set(name, value, domain="localhost.local")

    def _send(self, method: str, url: str, **options: Any) -> Response:
        client = self.auth if url.startswith(str(self.auth.base_url).rstrip("/")) else self.app
        client.cookies = self.jar
        return client.request(method, url, follow_redirects=False, **options)


@pytest.fixture
def registered(owner: psycopg.Connection[Any], settings: Settings) -> None:
    """The dashboard as a client of the authorization server of these tests."""
    owner.execute(
        "insert into oauth.client (client_id, client_name, redirect_uris)"
        " values (%s, 'Dashboard', array[%s])"
        " on conflict (client_id) do update set redirect_uris = excluded.redirect_uris",
        [dashboard.DASHBOARD_CLIENT_ID, dashboard.redirect_uri(settings.base_url)],
    )


Open = Callable[[], Browser]


@pytest.fixture
def open_browser(
    settings: Settings, app: Client, alice: Person, registered: None
) -> Iterator[Open]:
    """Opens browsers in which alice is signed in to the authorization server."""
    with Client(base_url=settings.auth_url, verify=NO_TLS) as auth:

        def opened() -> Browser:
            browser = Browser(app, auth)
            for name, value in visitor_of(auth, settings, alice).cookies.items():
                browser.keep(name, value)
            return browser

        yield opened


@pytest.fixture
def browser(open_browser: Open) -> Browser:
    """One of them."""
    return open_browser()


def sealed(settings: Settings, token: str) -> str:
    """Return the value of the cookie with a token."""
    own = cookies(settings, KEY)
    return own.encrypt(own.name, {"token": token}, 600)


def leads_to_sign_in(response: Response, settings: Settings) -> bool:
    location = response.headers.get("location", "")
    return response.status_code == 303 and location.startswith(
        f"{settings.auth_url}/oauth/authorize?"
    )


def test_a_first_visit_leads_through_sign_in_and_consent_to_the_view(
    settings: Settings, open_browser: Open, alice: Person
) -> None:
    stranger = Browser(open_browser().app, open_browser().auth)
    alice.connection.execute(
        "insert into identity.password (user_id, password_hash) values (%s, %s)",
        [alice.user_id, CHEAP.hash(PASSWORD)],
    )

    first = stranger.get(WEEK)
    requested = parse_qs(urlsplit(first.headers["location"]).query)
    form = stranger.follow(first)
    consent = stranger.follow(stranger.submit(form, email=alice.email, password=PASSWORD))
    back = stranger.get(stranger.submit(consent, decision="allow").headers["location"])
    view = stranger.follow(back)

    assert requested["scope"] == [" ".join(READ)]
    assert requested["resource"] == [settings.base_url]
    assert back.headers["location"] == WEEK
    assert view.text == f"the week of {alice.user_id}"
    port = urlsplit(settings.base_url).port
    name = f"svc-dashboard-{port}"
    (header,) = [
        each for each in back.headers.get_list("set-cookie") if each.startswith(f"{name}=")
    ]
    assert header.endswith("; HttpOnly; Max-Age=3600; Path=/; SameSite=lax")
    assert sorted(stranger.cookies) == [name, f"{name}-round"]
    assert back.headers["cache-control"] == "private, no-store"
    assert back.headers["vary"] == "Cookie"
    assert "svc_dt_" not in str(back.headers)


@pytest.mark.parametrize(
    ("changed", "status", "title"),
    [
        ({"state": "x"}, 400, "This sign-in is no longer open"),
        ({"state": None}, 400, "This sign-in is no longer open"),
        ({"state": "{id}.x"}, 400, "This sign-in is no longer open"),
        ({"iss": "https://evil.example"}, 400, "This sign-in was refused"),
        ({"iss": None}, 400, "This sign-in was refused"),
        ({"code": None}, 400, "Signing in did not work"),
        ({"code": "svc_ac_nonsense"}, 400, "Signing in did not work"),
        ({"error": "server_error"}, 503, "The authorization server does not answer"),
        ({"error": "<script>"}, 400, "Signing in did not work"),
    ],
)
def test_a_wrong_answer_ends_in_a_page_with_a_link(
    settings: Settings,
    browser: Browser,
    changed: dict[str, str | None],
    status: int,
    title: str,
) -> None:
    given = parse_qs(urlsplit(browser.consent()).query)
    attempt_id = given["state"][0].partition(".")[0]
    sent = {name: values[0] for name, values in given.items()} | changed
    query = urlencode(
        {name: value.format(id=attempt_id) for name, value in sent.items() if value is not None}
    )

    page = browser.get(f"/signed-in?{query}")

    assert page.status_code == status
    assert title in page.text
    assert "<script>" not in page.text
    assert f"svc-dashboard-{urlsplit(settings.base_url).port}" not in browser.cookies
    assert 'href="/sign-in?to=%2F' in page.text


def test_after_a_failed_round_only_the_link_leads_to_another_one(
    settings: Settings, browser: Browser, alice: Person
) -> None:
    declined = browser.get(browser.consent("decline"))
    view = browser.get(WEEK)
    link = view.text.partition('href="/sign-in')[2].partition('"')[0]
    consent = browser.follow(browser.get(f"/sign-in{link}"))
    opened = browser.follow(browser.submit(consent, decision="allow"))

    assert (declined.status_code, view.status_code) == (403, 403)
    assert "You declined" in declined.text
    assert "location" not in view.headers
    assert opened.url.path == urlsplit(WEEK).path
    assert opened.text == f"the week of {alice.user_id}"


def test_a_verifier_of_another_attempt_is_refused(settings: Settings, browser: Browser) -> None:
    answer = browser.consent()
    (name,) = [name for name in browser.cookies if "-attempt-" in name]
    own: Cookies = cookies(settings, KEY)
    (state,) = parse_qs(urlsplit(answer).query)["state"]
    content = {"state": state, "verifier": "v" * 43, "path": "/"}
    browser.keep(name, own.encrypt(name, content, 600))

    page = browser.get(answer)

    assert page.status_code == 400
    assert "Signing in did not work" in page.text


def test_a_code_that_is_sent_twice_ends_the_access(browser: Browser) -> None:
    answer = browser.consent()
    (attempt,) = [item for item in browser.cookies.items() if "-attempt-" in item[0]]
    browser.get(answer)

    again = browser.get(answer)
    browser.keep(*attempt)
    replayed = browser.get(answer)
    view = browser.get(WEEK)

    assert "no longer open" in again.text
    assert "Signing in did not work" in replayed.text
    assert view.status_code == 403
    assert "Signing in did not last" in view.text


def test_two_tabs_at_once_both_arrive(browser: Browser) -> None:
    one, other = browser.get(WEEK), browser.get("/week/2026-W48")
    consents = [browser.follow(each) for each in (one, other)]

    views = [browser.follow(browser.submit(each, decision="allow")) for each in consents]

    assert [each.url.path for each in views] == ["/week/2026-W47", "/week/2026-W48"]
    assert [each.status_code for each in views] == [200, 200]


def test_a_cookie_without_a_token_leads_to_sign_in(settings: Settings, browser: Browser) -> None:
    browser.keep(cookies(settings, KEY).name, sealed(settings, "svc_dt_nonsense"))

    assert leads_to_sign_in(browser.get(WEEK), settings)


@pytest.mark.parametrize("reason", ["another resource", "revoked"])
def test_a_token_that_the_session_refuses_leads_to_one_more_round(
    settings: Settings, browser: Browser, alice: Person, reason: str
) -> None:
    resource = f"{settings.base_url}/mcp" if reason == "another resource" else settings.base_url
    token = alice.token("read:activity", resource=resource)
    if reason == "revoked":
        alice.connection.execute("update oauth.grant set revoked_at = now()")
    browser.keep(cookies(settings, KEY).name, sealed(settings, token))

    refused = browser.get(WEEK)

    assert leads_to_sign_in(refused, settings)


def test_the_token_in_the_cookie_opens_no_other_method(
    settings: Settings, browser: Browser, alice: Person
) -> None:
    value = sealed(settings, alice.token(resource=settings.base_url))
    browser.keep(cookies(settings, KEY).name, value)

    posted = browser.app.post("/", follow_redirects=False)

    assert browser.get("/").status_code == 200
    assert leads_to_sign_in(posted, settings)


def test_the_pages_say_which_server_does_not_answer(
    settings: Settings, open_browser: Open, tmp_path: Path
) -> None:
    dead, without_database = processes.free_ports(2)
    started = replace(settings, auth_url=f"http://localhost:{without_database}")
    login = f"host=localhost port={dead} user=svc_authserver dbname=svc"
    texts = []
    with authorization_server(started, tmp_path / "auth.log", authserver=login):
        for port in (dead, without_database):
            moved = replace(settings, auth_internal_url=f"http://localhost:{port}")
            with AppClient(application(moved), settings.base_url) as app:
                browser = replace(open_browser(), app=app)
                page = browser.get(browser.consent())
            texts.append(
                (page.status_code, "The authorization server does not answer" in page.text)
            )

    assert texts == [(503, True), (503, True)]


def test_without_a_key_a_page_says_that_the_dashboard_is_not_set_up(
    settings: Settings, tmp_path: Path
) -> None:
    logins = processes.role_urls(settings, ("reader", "worker"))
    bare = replace(settings, dashboard_key=None, data_dir=tmp_path, role_urls=logins)
    with AppClient(application(bare), settings.base_url) as app:
        pages = [app.get(path) for path in (WEEK, "/sign-in", "/signed-in?code=x")]
        signed_out = app.post("/sign-out")

    assert [page.status_code for page in pages] == [503, 503, 503]
    assert all("SVC_DASHBOARD_KEY" in page.text for page in pages)
    # Trying again would lead to the same page.
    assert all(f'href="{settings.auth_url}">Your account' in page.text for page in pages)
    assert signed_out.status_code == 200


def test_signing_out_needs_a_press_on_a_page_of_this_server(
    settings: Settings, browser: Browser
) -> None:
    browser.follow(browser.get(browser.consent()))
    own = set(browser.cookies)

    cookie = browser.cookies[f"svc-dashboard-{urlsplit(settings.base_url).port}"]
    page = browser.get("/sign-out")
    forged = [
        browser.app.post("/sign-out", headers=headers)
        for headers in ({"Sec-Fetch-Site": "same-site"}, {"Origin": settings.auth_url})
    ]
    kept = set(browser.cookies)
    pressed = browser.submit(page)
    signed_out = browser.follow(pressed)

    assert own == kept
    assert pressed.headers["clear-site-data"] == '"cache"'
    assert [each.status_code for each in forged] == [403, 403]
    assert browser.cookies == {}
    assert f'href="{settings.auth_url}/sign-out"' in signed_out.text
    assert leads_to_sign_in(browser.get(WEEK), settings)
    # A copy of the cookie opens nothing: its token is revoked.
    browser.keep(f"svc-dashboard-{urlsplit(settings.base_url).port}", cookie)
    assert leads_to_sign_in(browser.get(WEEK), settings)


def test_an_image_removes_kept_pages_and_lets_the_token_stay(
    settings: Settings, browser: Browser
) -> None:
    browser.follow(browser.get(browser.consent()))
    before = set(browser.cookies)

    image = browser.get("/signed-out.svg")

    assert (image.status_code, image.headers["content-type"]) == (200, "image/svg+xml")
    assert image.headers["clear-site-data"] == '"cache"'
    assert "no-store" in image.headers["cache-control"]
    name = f"svc-dashboard-{urlsplit(settings.base_url).port}"
    assert len(before) == 2
    assert set(browser.cookies) == {name}


def test_signing_out_ends_the_cookies_while_no_authorization_server_answers(
    settings: Settings, open_browser: Open, caplog: pytest.LogCaptureFixture
) -> None:
    (dead,) = processes.free_ports(1)
    moved = replace(settings, auth_internal_url=f"http://localhost:{dead}")
    browser = open_browser()
    browser.follow(browser.get(browser.consent()))

    with AppClient(application(moved), settings.base_url) as app:
        signed_out = replace(browser, app=app).submit(browser.get("/sign-out"))

    assert signed_out.status_code == 303
    assert browser.cookies == {}
    assert "revoking a token at sign-out failed: no response (ConnectError)" in caplog.messages


def test_the_question_can_be_shown_again(browser: Browser) -> None:
    response = browser.get(f"/sign-in?{urlencode({'ask': 1, 'to': WEEK})}")

    assert parse_qs(urlsplit(response.headers["location"]).query)["prompt"] == ["consent"]


def test_declining_another_choice_says_that_the_earlier_one_holds(browser: Browser) -> None:
    browser.follow(browser.get(browser.consent()))
    choice = browser.follow(browser.get(f"/sign-in?{urlencode({'ask': 1, 'to': WEEK})}"))

    declined = browser.follow(browser.submit(choice, decision="decline"))

    assert "Nothing was changed" in declined.text
    assert f'href="{WEEK}"' in declined.text
    assert browser.get(WEEK).status_code == 200


@pytest.mark.parametrize(
    "given",
    [
        *("//evil.example/week/", "https://evil.example", "/\\evil.example", "/week/\r\nX: y"),
        *(
            "week/2026-W47",
            "/settings",
            "/week/2026-W47/x",
            "/%2fevil.example",
            "/week/" + "9" * 600,
            "/week/é",
        ),
    ],
)
def test_after_sign_in_a_browser_goes_to_views_alone(settings: Settings, given: str) -> None:
    assert SignIn.of(settings, VIEWS).destination(given) == "/"


def test_another_name_of_this_machine_leads_to_the_one_that_keeps_the_cookies(
    settings: Settings, app: Client
) -> None:
    app.cookies.clear()
    port = urlsplit(settings.base_url).port
    response = app.get(WEEK, headers={"Host": f"127.0.0.1:{port}"}, follow_redirects=False)

    target = urlencode({"to": WEEK})
    assert response.headers["location"] == f"{settings.base_url}/sign-in?{target}"
    at_proxy = app.get(f"/sign-in?{target}", headers={"Host": "internal:1"}, follow_redirects=False)
    assert leads_to_sign_in(at_proxy, settings)


def test_a_browser_with_many_open_attempts_keeps_the_newest(
    settings: Settings, browser: Browser
) -> None:
    counts = []
    for _ in range(18):
        browser.get(WEEK)
        counts.append(len(browser.cookies))

    assert max(counts) == 16
    assert counts[-1] == 2


def test_attempts_with_long_addresses_leave_room_for_the_token(browser: Browser) -> None:
    browser.follow(browser.get(browser.consent()))
    # The cookie of a browser that the account knows. Other programs of the machine have some too.
    browser.keep("svc_known", f"{'0' * 32}-{'1' * 13}.{'x' * 43}")
    browser.keep("other", "x" * 1000)

    for _ in range(16):
        browser.get(f"/sign-in?{urlencode({'to': f'{WEEK}&x=' + '9' * 480})}")

    assert browser.get(WEEK).status_code == 200


def test_no_route_for_programs_reads_the_cookie(
    settings: Settings, alice: Person, tmp_path: Path
) -> None:
    app = resourceserver.app.create(replace(settings, upload_dir=tmp_path / "uploads"))
    name = cookies(settings, KEY).name
    value = sealed(settings, alice.token(resource=settings.base_url))
    opened: set[str] = set()
    refused: set[str] = set()
    with AppClient(app, settings.base_url, headers={"Cookie": f"{name}={value}"}) as client:
        for route in app.routes:
            if isinstance(route, Route) and route.path.startswith(("/api/", "/mcp")):
                path = route.path.replace("{", "").replace("}", "")
                for method in sorted(route.methods or {"POST"}):
                    response = client.request(method, path)
                    places = refused if response.status_code == 401 else opened
                    places.add(f"{method} {path}")

    assert opened == {
        *("GET /api/v1/capabilities", "HEAD /api/v1/capabilities"),
        *("GET /api/v1/ingest/schema", "HEAD /api/v1/ingest/schema"),
    }
    assert refused > {
        "GET /api/v1/me",
        "POST /mcp",
        "POST /api/v1/imports/",
        "POST /api/v1/ingest/app-sessions",
    }


def test_an_expired_token_is_replaced_without_a_question(browser: Browser, alice: Person) -> None:
    browser.follow(browser.get(browser.consent()))
    for name in browser.cookies:
        # The hour of the token is over, and so is the minute after the first round.
        browser.jar.clear("localhost.local", "/", name)

    view = browser.follow(browser.get(WEEK))

    assert view.text == f"the week of {alice.user_id}"

"""A real Chromium in front of the real servers, each a process of its own."""

import re
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import psycopg
import pytest
from argon2 import PasswordHasher
from playwright.sync_api import Browser, Page, Request, expect, sync_playwright

from authserver.people import sessions
from shared import sealing, tokens
from shared.connections import RECEIVERS
from shared.settings import Settings
from tests import processes
from tests.oauth.visitor import CHALLENGE, VERIFIER
from tests.processes import Service

PASSWORD = "an owl reads under the lamp"
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    # Pages are drawn by software, which needs no process of its own.
    "--in-process-gpu",
    # All pages of a context share a process. Otherwise a new page costs a quarter more: it begins in one
    # process and changes to another, since the pages of the service have an opener policy.
    "--renderer-process-limit=1",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

WAITS_MS = 60_000
"""For how long an action or an expectation waits at most, on a machine that is busy with other work."""

expect.set_options(timeout=WAITS_MS)

with_and_without_scripts = pytest.mark.parametrize(
    "scripts", [True, False], ids=["scripts", "no scripts"], indirect=True
)
"""For tests of pages that have a script. All others run once, with JavaScript; test_accessibility.py
asserts which pages have one, and walks through every page without JavaScript."""

without_scripts = pytest.mark.parametrize("scripts", [False], ids=["no scripts"], indirect=True)
"""Browser options without JavaScript."""


@pytest.fixture(scope="session")
def service(deployment: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Both servers, running until the last test of this worker."""
    directory = tmp_path_factory.mktemp("service")
    chosen = replace(
        deployment,
        upload_dir=directory / "uploads",
        receivers=RECEIVERS,
        sealing_public_key=sealing.public_key_of(sealing.new_private_key()),
    )
    with processes.service(chosen, directory) as running:
        yield running


def chromium_path() -> str:
    """Return the path of the system's Chromium.

    The headless shell is preferred: a new context with a page costs it a quarter of the time.
    """
    names = ("chromium-headless-shell", "chromium", "chromium-browser")
    path = next(filter(None, map(shutil.which, names)), None)
    assert path is not None, "Chromium is missing; as root: make chromium"
    return path


# Playwright's event loop counts as running in this thread until it is stopped, and no other test could
# start one of its own; so the browser lives no longer than the tests of this directory.
@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """The system's Chromium."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=ARGUMENTS)
        yield browser
        browser.close()


@dataclass
class Watch:
    """The requests, errors and messages of a browser, in all of its tabs."""

    errors: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)

    def note(self, sent: Request) -> None:
        """Remember a request, apart for a page itself, for what pages consist of and for data."""
        kinds = {"fetch": self.fetched, "document": self.opened}
        kinds.get(sent.resource_type, self.loaded).append(sent.url)


def origin(address: str) -> tuple[str, str | None, int | None]:
    """Return scheme, host and port of an address."""
    parts = urlsplit(address)
    return parts.scheme, parts.hostname, parts.port


@pytest.fixture
def scripts(request: pytest.FixtureRequest) -> bool:
    """Whether the browser runs JavaScript; see ``with_and_without_scripts``."""
    return bool(getattr(request, "param", True))


@dataclass
class KeptPages:
    """A page with JavaScript and one without, each in a context of its own, for many tests.

    A new page starts a process of Chromium, which takes as much computing as three requests.
    """

    browser: Browser
    pages: dict[bool, Page] = field(default_factory=dict)

    def page(self, *, scripts: bool) -> Page:
        """Return the page, in a new context if there is none."""
        if scripts not in self.pages:
            context = self.browser.new_context(java_script_enabled=scripts)
            context.set_default_timeout(WAITS_MS)
            self.pages[scripts] = context.new_page()
        return self.pages[scripts]

    def empty(self, *, scripts: bool) -> None:
        """Close all other tabs, and delete all cookies and permissions, for the next test."""
        kept = self.page(scripts=scripts)
        for other in kept.context.pages:
            if other is not kept:
                other.close()
        kept.context.clear_cookies()
        kept.context.clear_permissions()

    def drop(self, *, scripts: bool) -> None:
        """Close the page and its context, if there are any."""
        page = self.pages.pop(scripts, None)
        if page is not None:
            page.context.close()


@pytest.fixture(scope="package")
def kept_pages(chromium: Browser) -> KeptPages:
    """The pages that tests use one after the other."""
    return KeptPages(chromium)


@pytest.fixture
def own_context() -> None:
    """For tests that change more of the browser than its cookies, tabs and permissions.

    With it, ``page`` is in a context of its own.
    """


@pytest.fixture
def page(
    request: pytest.FixtureRequest,
    scripts: bool,
    kept_pages: KeptPages,
    service: Service,
    owner: psycopg.Connection[Any],
) -> Iterator[Page]:
    """A page of a browser without cookies.

    Afterwards it checks that there were no errors, that all pages were on this machine, that all their
    resources came from the service's two origins, and that scripts requested nothing but exports, uploads,
    connections and the first steps.
    """
    is_own = "own_context" in request.fixturenames
    if is_own:
        kept_pages.drop(scripts=scripts)
    page = kept_pages.page(scripts=scripts)
    watch = Watch()
    listeners: dict[str, Callable[[Any], None]] = {
        "console": lambda message: watch.errors.append(message.text),
        "weberror": lambda error: watch.errors.append(str(error.error)),
        "request": watch.note,
    }
    for event, listener in listeners.items():
        page.context.on(event, listener)  # type: ignore[call-overload] # The name is one of three.
    failed_before = request.session.testsfailed
    yield page
    if is_own or request.session.testsfailed > failed_before:
        kept_pages.drop(scripts=scripts)
    else:
        kept_pages.empty(scripts=scripts)
        for event, listener in listeners.items():
            page.context.remove_listener(event, listener)
    # The browser itself reports pages whose status is an error, that a test was faster at a field, and what
    # it forgets when a person signs out.
    usual = (
        "Failed to load resource",
        "Autofocus processing was blocked",
        "Clear-Site-Data header on",
    )
    assert [text for text in watch.errors if not text.startswith(usual)] == []
    assert {urlsplit(address).hostname for address in watch.opened} <= {"localhost", "127.0.0.1"}
    own_origins = {origin(service.auth_url), origin(service.base_url)}
    assert {origin(address) for address in watch.loaded} <= own_origins
    fetched = (f"{service.base_url}/api/v1/export", f"{service.base_url}/api/v1/imports/")
    own = [
        f"{service.auth_url}{path}"
        for path in ("/settings/bring", "/settings/connections", "/welcome")
    ]
    assert [each for each in watch.fetched if not each.startswith((*fetched, *own))] == []


@pytest.fixture(scope="session")
def password_hash() -> str:
    """The stored hash of PASSWORD."""
    return PasswordHasher().hash(PASSWORD)


@pytest.fixture
def person(owner: psycopg.Connection[Any], password_hash: str) -> str:
    """Alice's address; her password is PASSWORD."""
    row = owner.execute(
        "insert into identity.user (email) values ('alice@example.org') returning user_id"
    ).fetchone()
    assert row is not None
    owner.execute(
        "insert into identity.password (user_id, password_hash) values (%s, %s)",
        [row[0], password_hash],
    )
    return "alice@example.org"


class Addresses(Protocol):
    """The public addresses of both servers."""

    @property
    def auth_url(self) -> str:
        """The issuer."""

    @property
    def base_url(self) -> str:
        """The resource server."""


def expect_signed_in(page: Page, service: Addresses, email: str) -> None:
    """Expect the dashboard after signing in, or the first steps after joining; then open the settings."""
    # The dashboard may send the browser on, to its request for authorization.
    end = f"{re.escape(service.base_url)}/|{re.escape(service.auth_url)}/(oauth/|welcome)"
    expect(page).to_have_url(re.compile(f"^({end})"))
    page.goto(f"{service.auth_url}/settings")
    expect(page.get_by_text(f"Signed in as {email}")).to_be_visible()


OpenSignedIn = Callable[..., None]


@pytest.fixture
def open_signed_in(service: Service, owner: psycopg.Connection[Any], person: str) -> OpenSignedIn:
    """Opens a path of the authorization server in a browser where alice has just signed in.

    Her session is a row and a cookie, as sign-in creates them. A sign-in takes 0.2 s of computing, most of
    it for the password's hash, and has tests of its own (test_authorization.py).
    """
    signer = sessions.signer(service.settings)
    row = owner.execute("select user_id from identity.user where email = %s", [person]).fetchone()
    assert row is not None
    (user_id,) = row

    def open_page(page: Page, path: str = "/settings") -> None:
        session = tokens.mint(tokens.SESSION, user_id)
        owner.execute(
            "insert into identity.session (user_id, session_hash) values (%s, %s)",
            [user_id, session.hash],
        )
        page.context.add_cookies(
            [
                {
                    "name": signer.cookie_name,
                    "value": signer.cookies.sign(session.text).decode(),
                    "url": service.auth_url,
                    "httpOnly": True,
                    "sameSite": "Lax",
                }
            ]
        )
        address = path if "://" in path else f"{service.auth_url}{path}"
        page.goto(address)

    return open_page


@dataclass
class Application:
    """An application on the person's own device, listening on a loopback address."""

    service: Service
    http: httpx2.Client
    redirect_uri: str = ""
    client_id: str = ""
    answers: list[dict[str, str]] = field(default_factory=list)

    def register(self) -> None:
        """Register under a name."""
        response = self.http.post(
            f"{self.service.auth_url}/oauth/register",
            json={"client_name": "Weekly Report", "redirect_uris": [self.redirect_uri]},
        )
        self.client_id = response.json()["client_id"]

    def authorize_url(self, **changed: str) -> str:
        """Return the address to which the application sends the browser."""
        query = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "scope": "read:activity read:profile",
            "state": "xyz",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
        } | changed
        return f"{self.service.auth_url}/oauth/authorize?{urlencode(query)}"

    def exchange(self, code: str) -> dict[str, Any]:
        """Return the token response to a code."""
        response = self.http.post(
            f"{self.service.auth_url}/oauth/token",
            data={
                "grant_type": "authorization_code",
                "client_id": self.client_id,
                "redirect_uri": self.redirect_uri,
                "code": code,
                "code_verifier": VERIFIER,
            },
        )
        assert response.status_code == 200, response.text
        body: dict[str, Any] = response.json()
        return body

    def ask(self, path: str, token: str) -> httpx2.Response:
        """Send a request to the resource server."""
        return self.http.get(
            f"{self.service.base_url}{path}", headers={"Authorization": f"Bearer {token}"}
        )


@pytest.fixture(scope="session")
def http() -> Iterator[httpx2.Client]:
    """A shared HTTP client for requests without a browser; creating one takes 0.02 s."""
    # A kept connection may be closed by the server at the moment it is used again.
    with httpx2.Client(limits=httpx2.Limits(max_keepalive_connections=0)) as client:
        yield client


@pytest.fixture
def application(
    service: Service, http: httpx2.Client, owner: psycopg.Connection[Any]
) -> Iterator[Application]:
    """A registered application. Its callback redirects once more before the final page."""
    listening = Application(service, http)

    class Callback(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path == "/callback":
                listening.answers.append(
                    {name: values[0] for name, values in parse_qs(parts.query).items()}
                )
                self.send_response(302)
                self.send_header("Location", "/done")
                self.end_headers()
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>Done</title><p>You may close this window.")

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Callback) as callbacks:
        # Its end waits until it has looked again whether to stop.
        threading.Thread(target=callbacks.serve_forever, args=[0.02], daemon=True).start()
        listening.redirect_uri = f"http://127.0.0.1:{callbacks.server_port}/callback"
        listening.register()
        yield listening
        callbacks.shutdown()

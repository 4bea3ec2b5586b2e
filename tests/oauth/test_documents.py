"""Clients that are described by a document: authorization, consent, tokens, Settings."""

import asyncio
import gzip
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import psycopg
import pytest
from starlette.testclient import TestClient

import authserver.app
from authserver import rows
from authserver.errors import TooManyRequests
from authserver.oauth.clients import Client
from authserver.oauth.documents import Documents
from authserver.people import throttle
from authserver.people.passwords import Hasher
from shared.settings import Settings
from tests import https
from tests.client import AppClient
from tests.conftest import Person
from tests.https import Host
from tests.mcp.test_sdk import Talk
from tests.oauth.conftest import CHEAP, PASSWORD, Opens, visitor_of
from tests.oauth.program import Program, expire_access_tokens
from tests.oauth.visitor import CALLBACK, Application, Visitor, parameters
from tests.processes import Service

Rows = psycopg.Connection[Any]
PATH = "/client.json"
JSON = {"Content-Type": "application/json"}


@dataclass
class Publisher:
    """A host that publishes documents, and what it answers to any request."""

    host: Host = field(init=False)
    answer: tuple[bytes, ...] = ()
    now: float = 0.0
    """The time by which the server measures the age of what it has fetched."""

    def respond(self, _: https.Request) -> tuple[bytes, ...]:
        return self.answer or https.plain(b"", status="404 Not Found")

    @property
    def url(self) -> str:
        return self.host.url(PATH)

    @property
    def requests(self) -> int:
        return len(self.host.requests)

    def publish(self, *, headers: dict[str, str] | None = None, **members: Any) -> None:
        """Publish a valid document with changes."""
        document = valid(self.url) | members
        self.answer = https.plain(json.dumps(document).encode(), headers=JSON | (headers or {}))


def valid(url: str) -> dict[str, Any]:
    return {"client_id": url, "client_name": "Notebook", "redirect_uris": [CALLBACK]}


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    """A host with TLS that publishes one valid document."""
    publisher = Publisher()
    with https.host(publisher.respond) as publisher.host:
        publisher.publish()
        yield publisher


Serve = Callable[..., TestClient]


@pytest.fixture
def serve(settings: Settings, owner: Rows, publisher: Publisher) -> Iterator[Serve]:
    """Starts authorization servers that accept documents of the publisher."""
    assert not owner.closed
    started: list[AppClient] = []

    def start(**changed: Any) -> TestClient:
        app = authserver.app.create(
            replace(settings, **{"client_metadata_documents": True} | changed),
            hasher=Hasher(CHEAP),
            documents=Documents(publisher.host.fetcher, lambda: publisher.now),
        )
        client = AppClient(app, "http://localhost:8400", raise_server_exceptions=False)
        started.append(client)
        return client.__enter__()

    yield start
    for client in started:
        client.__exit__()


@pytest.fixture
def accepting(serve: Serve) -> TestClient:
    """An authorization server that accepts documents."""
    return serve()


@pytest.fixture
def notebook(accepting: TestClient, publisher: Publisher) -> Application:
    """The application that the publisher describes."""
    return Application(accepting, publisher.url)


@pytest.fixture
def browser(accepting: TestClient, settings: Settings, alice: Person) -> Visitor:
    """A browser in which alice is signed in."""
    return visitor_of(accepting, settings, alice)


class Through(httpx2.AsyncBaseTransport):
    """Passes requests of a program on to a server in this process."""

    def __init__(self, server: TestClient) -> None:
        self.server = server

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        content = await request.aread()
        answer = await asyncio.to_thread(
            self.server.request,
            request.method,
            str(request.url),
            content=content,
            headers=list(request.headers.items()),
            follow_redirects=False,
        )
        kept = [
            (name, value) for name, value in answer.headers.items() if name != "content-encoding"
        ]
        return httpx2.Response(answer.status_code, headers=kept, content=answer.content)


def test_the_sdk_comes_from_nothing_to_answers_without_registering(
    accepting: TestClient,
    api: TestClient,
    publisher: Publisher,
    browser: Visitor,
    settings: Settings,
    alice: Person,
) -> None:
    # As published documents do, it names no port.
    publisher.publish(redirect_uris=["http://127.0.0.1/callback"])
    program = Program(
        Service(settings, Path(), Path(), 0),
        browser,
        "/mcp",
        document=publisher.url,
        transports={settings.auth_url: Through(accepting), settings.base_url: Through(api)},
    )

    goals, listening = Talk(program, "auto").call("get_goals", "get_listening")
    first = program.kept.tokens
    assert first is not None
    expire_access_tokens(alice)
    assert program.provider.context.token_expiry_time is not None
    program.provider.context.token_expiry_time -= 3601
    (again,) = Talk(program, "auto").call("get_listening")

    assert (goals["count"], listening["totals"]["play_count"]) == (0, 0)
    assert again["totals"] == listening["totals"]
    assert [(each["client_id"], each["scope"]) for each in program.asked] == [
        (publisher.url, "read:activity"),
        (publisher.url, "read:activity read:music"),
    ]
    assert "POST /oauth/register" not in program.sent
    assert [form["grant_type"] for form in program.forms] == [
        "authorization_code",
        "authorization_code",
        "refresh_token",
    ]
    assert {form["client_id"] for form in program.forms} == {publisher.url}
    assert program.kept.tokens is not None
    assert program.kept.tokens.scope == "read:activity read:music"
    assert program.kept.tokens.access_token != first.access_token
    assert publisher.requests == 1


def test_an_application_gets_tokens_by_its_document_and_the_token_endpoint_fetches_nothing(
    notebook: Application, browser: Visitor, publisher: Publisher, status: Opens
) -> None:
    page = browser.follow(browser.get(notebook.authorize_path()))
    code = parameters(browser.submit(page, decision="allow"))["code"][0]
    publisher.answer = ()
    publisher.now = 100_000.0

    pair = notebook.exchange(code).json()
    renewed = notebook.refresh(pair["refresh_token"]).json()

    assert "<bdi>Notebook</bdi>" in page.text
    assert f"describes itself at <code>calendar.example:{publisher.host.port}</code>" in page.text
    assert "<code>app.example</code>" in page.text
    assert "Every program on this device" not in page.text
    assert status(renewed["access_token"]) == 200
    assert publisher.requests == 1


def test_a_document_is_fetched_after_the_sign_in(
    accepting: TestClient, notebook: Application, publisher: Publisher, alice: Person, owner: Rows
) -> None:
    owner.execute(
        "insert into identity.password (user_id, password_hash) values (%s, %s)",
        [alice.user_id, CHEAP.hash(PASSWORD)],
    )
    visitor = Visitor(accepting)
    sign_in = visitor.follow(visitor.get(notebook.authorize_path()))
    before = publisher.requests

    signed_in = visitor.submit(sign_in, email="alice@example.org", password=PASSWORD)
    page = visitor.follow(signed_in)

    assert before == 0
    assert publisher.requests == 1
    assert "<bdi>Notebook</bdi>" in page.text
    assert parameters(visitor.submit(page, decision="allow"))["state"] == ["xyz"]
    stored = owner.execute("select client_name, redirect_uris from oauth.client").fetchall()
    assert stored == [("Notebook", [CALLBACK])]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"client_name": None}, "client_name: Input should be a valid string"),
        (
            {"redirect_uris": ["https://other.example/"]},
            "is not one that the client has registered",
        ),
    ],
    ids=["an invalid document", "another redirect URI"],
)
@pytest.mark.parametrize("scope", ["read:profile", "read:nothing"])
def test_a_request_that_waited_for_the_sign_in_is_refused_without_a_redirect(
    accepting: TestClient,
    notebook: Application,
    publisher: Publisher,
    alice: Person,
    owner: Rows,
    changed: dict[str, Any],
    reason: str,
    scope: str,
) -> None:
    owner.execute(
        "insert into identity.password (user_id, password_hash) values (%s, %s)",
        [alice.user_id, CHEAP.hash(PASSWORD)],
    )
    publisher.publish(**changed)
    visitor = Visitor(accepting)
    waiting = visitor.get(notebook.authorize_path(scope=scope))
    # The page for an invalid scope has a link to the sign-in, after which the client would get the error.
    sign_in = re.search(r"/sign-in\?next=\w+", waiting.headers.get("location") or waiting.text)
    assert sign_in is not None

    form = visitor.get(sign_in[0])
    page = visitor.follow(visitor.submit(form, email="alice@example.org", password=PASSWORD))

    assert page.status_code == 400
    assert reason in page.text
    assert "location" not in page.headers


def test_a_redirect_uri_of_another_document_is_refused(
    notebook: Application, browser: Visitor
) -> None:
    page = browser.get(notebook.authorize_path(redirect_uri="https://evil.example/callback"))

    assert page.status_code == 400
    assert "is not one that the client has registered" in page.text
    assert "location" not in page.headers


def plain(body: bytes, **options: Any) -> tuple[bytes, ...]:
    return https.plain(body, **{"headers": JSON} | options)


BOMB = https.plain(gzip.compress(bytes(5_000_000)), headers=JSON | {"Content-Encoding": "gzip"})
HOSTILE_ANSWERS: list[tuple[tuple[bytes, ...], str]] = [
    (plain(b"{}", status="404 Not Found"), "the status of the answer is 404"),
    (plain(b"{}", status="201 Created"), "the status of the answer is 201"),
    (plain(b"{}", status="206 Partial Content"), "the status of the answer is 206"),
    (plain(b"", status="304 Not Modified"), "the status of the answer is 304"),
    (plain(b"{}", status="500 Oops"), "the status of the answer is 500"),
    (
        plain(b"", status="302 Found", headers={"Location": "https://other.example/"}),
        "redirects to another one",
    ),
    (
        plain(b"", status="308 Permanent Redirect", headers={"Location": "/elsewhere"}),
        "redirects to another one",
    ),
    (plain(b"{}", headers={"Content-Type": "text/html"}), "another media type"),
    (plain(b"{}", headers={"Content-Type": "application/jsonp"}), "another media type"),
    (plain(b"{}", headers={}), "another media type"),
    (plain(b" " * 5121), "too large"),
    (BOMB, "too large"),
    ((b"HTTP/1.1 200 OK\r\n", *[b"X-Many: a\r\n"] * 20_000), "too large"),
    ((*[b"HTTP/1.1 103 Early Hints\r\n\r\n"] * 20_000,), "too large"),
    (plain(b"[]"), "it is not a JSON object"),
    (plain(b"[" * 5000), "it is not a JSON object"),
    (plain(b'{"client_id": "\xff"}'), "it is not a JSON object"),
    (plain(b"null"), "it is not a JSON object"),
    (plain(b"{}", headers=JSON | {"Content-Encoding": "br"}), "not valid HTTP"),
    (plain(b"{}")[:1], "not valid HTTP"),
    ((b"SSH-2.0\r\n",), "not valid HTTP"),
]


@pytest.mark.parametrize(("answer", "reason"), HOSTILE_ANSWERS)
def test_the_page_says_why_a_document_cannot_be_used(
    notebook: Application,
    browser: Visitor,
    publisher: Publisher,
    answer: tuple[bytes, ...],
    reason: str,
) -> None:
    publisher.answer = answer

    page = browser.get(notebook.authorize_path())

    assert page.status_code == 400
    assert '<meta name="oauth-error" content="invalid_client">' in page.text
    assert reason in page.text
    assert publisher.url in page.text
    assert "location" not in page.headers
    assert publisher.requests == 1


HOSTILE_HOSTS = """
    127.0.0.1 127.0.0.1. 127.1 2130706433 0x7f000001 0177.0.0.1 localhost localhost. 0.0.0.0 10.0.0.1
    100.64.0.1 169.254.169.254 172.16.0.1 192.168.0.1 224.0.0.1 255.255.255.255
    [::1] [::ffff:127.0.0.1] [64:ff9b::7f00:1] [fd00::1]
"""


def test_no_hostile_address_is_ever_connected_to(
    settings: Settings, owner: Rows, alice: Person, publisher: Publisher
) -> None:
    # The networks in which the operator allows calendars are not for documents of strangers.
    allowing = replace(settings, client_metadata_documents=True, fetch_networks=("127.0.0.0/8",))
    app = authserver.app.create(allowing, hasher=Hasher(CHEAP))
    with AppClient(app, "http://localhost:8400") as client:
        visitor = visitor_of(client, settings, alice)

        pages = {
            host: visitor.get(
                Application(client, publisher.host.url(PATH, host)).authorize_path()
            ).text
            for host in HOSTILE_HOSTS.split()
        }

    reasons = ("leads to a network that is not public", "the address is not valid")
    assert [host for host, page in pages.items() if not any(map(page.__contains__, reasons))] == []
    assert publisher.requests == 0
    assert owner.execute("select client_id from oauth.client").fetchall() == []


def test_a_document_is_kept_for_an_hour_and_a_failure_for_a_minute(
    notebook: Application, browser: Visitor, publisher: Publisher
) -> None:
    def title(now: float) -> str:
        publisher.now = now
        response = browser.get(notebook.authorize_path())
        page = browser.follow(response) if response.status_code == 303 else response
        return next((name for name in ("Notebook", "Diary", "404") if name in page.text), "")

    publisher.answer = ()
    names = [title(0)]
    publisher.publish()
    names += [title(59), title(60)]
    publisher.publish(client_name="Diary")
    names += [title(60 + 3599), title(60 + 3600)]

    assert names == ["404", "404", "Notebook", "Notebook", "Diary"]
    assert publisher.requests == 3


@pytest.mark.parametrize(
    ("given", "setting", "status_code"),
    [
        ("http://localhost:41000/cb", None, 200),
        ("http://localhost/cb", False, 200),
        ("http://localhost:41000/cb", False, 400),
        ("http://127.0.0.1:41000/cb", None, 400),
        ("http://localhost:41000/cb/", None, 400),
    ],
)
def test_only_the_port_of_a_loopback_redirect_may_differ_unless_the_operator_forbids_it(
    serve: Serve,
    publisher: Publisher,
    settings: Settings,
    alice: Person,
    given: str,
    setting: bool | None,
    status_code: int,
) -> None:
    publisher.publish(redirect_uris=["http://localhost/cb"])
    client = serve(loopback_port_may_vary=setting)
    browser = visitor_of(client, settings, alice)
    application = Application(client, publisher.url, given)

    response = browser.get(application.authorize_path())
    page = browser.follow(response) if response.status_code == 303 else response

    assert page.status_code == status_code
    if status_code == 200:
        assert "Every program on this device can pretend" in page.text
        code = parameters(browser.submit(page, decision="allow"))["code"][0]
        changed = application.exchange(code, redirect_uri="http://localhost:41001/cb")
        assert changed.status_code == 400
        assert application.exchange(code).status_code == 200


def test_where_documents_are_off_the_client_is_unknown_and_nothing_is_fetched(
    server: TestClient, publisher: Publisher, alice_browser: Visitor
) -> None:
    application = Application(server, publisher.url)

    page = alice_browser.get(application.authorize_path())
    stranger = Visitor(server).get(application.authorize_path())

    assert (page.status_code, stranger.status_code) == (400, 400)
    assert "not one that was registered here" in page.text
    assert publisher.requests == 0


def test_the_metadata_says_whether_documents_are_accepted(
    server: TestClient, accepting: TestClient
) -> None:
    path = "/.well-known/oauth-authorization-server"

    on, off = accepting.get(path).json(), server.get(path).json()

    assert on == off | {"client_id_metadata_document_supported": True}


def test_fetches_are_counted_by_person(
    accepting: TestClient, browser: Visitor, publisher: Publisher
) -> None:
    pages = [
        browser.get(Application(accepting, f"{publisher.url}?{n}").authorize_path())
        for n in range(21)
    ]

    assert [page.status_code for page in pages] == [400] * 20 + [429]
    assert publisher.requests == 20


def test_concurrent_requests_share_one_fetch_and_a_person_has_four_at_once(
    settings: Settings, owner: Rows, publisher: Publisher
) -> None:
    assert not owner.closed
    fetched = Documents(publisher.host.fetcher)

    async def run() -> list[Any]:
        async with rows.connected(settings) as database:
            counts = throttle.throttle(settings, database)
            greedy = uuid4()
            people = [uuid4() for _ in range(6)] + [greedy] * 5
            return await asyncio.gather(
                *(fetched.client(publisher.url, counts, person) for person in people),
                return_exceptions=True,
            )

    outcomes = asyncio.run(run())

    assert publisher.requests == 1
    assert [type(each) for each in outcomes] == [Client] * 10 + [TooManyRequests]


def test_settings_list_the_application_with_its_host_and_revoke_it(
    accepting: TestClient, publisher: Publisher, browser: Visitor, status: Opens
) -> None:
    publisher.publish(client_id=f"{publisher.url}?a=1&b=%20")
    notebook = Application(accepting, f"{publisher.url}?a=1&b=%20")
    pair = notebook.pair(browser)
    page = browser.get("/settings/apps")
    link = page.text.partition('href="/settings/revoke?client=')[2].partition('"')[0]

    question = browser.get(f"/settings/revoke?client={link}")
    browser.submit(question, form=-1)

    assert f"describes itself at <code>calendar.example:{publisher.host.port}</code>" in page.text
    assert status(pair["access_token"]) == 401

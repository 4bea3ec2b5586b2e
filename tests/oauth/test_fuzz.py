"""Malformed requests to every route of both servers: checklist line 60.

The routes are those of the applications, so that new ones are covered automatically. Requests are passed
byte for byte, as a web server does, because a test client would correct them. Most are valid requests with
some damage: entirely random ones would be refused by the first check.
"""

import gzip
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import anyio
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.routing import Mount, Route
from starlette.testclient import TestClient
from starlette.types import Message

import authserver.app
import resourceserver.app
from authserver.people import sessions
from resourceserver.dashboard.signin.cookie import cookies
from resourceserver.dashboard.views import VIEWS
from shared import tokens
from shared.dashboard import SIGNED_OUT_IMAGE_PATH
from shared.scopes import SCOPES
from shared.settings import Settings
from tests.conftest import Person
from tests.examples import a_share
from tests.ingest.conftest import HOUR
from tests.oauth.conftest import PASSWORD, Welcome
from tests.oauth.visitor import CALLBACK, CHALLENGE, VERIFIER, Application

Rows = psycopg.Connection[Any]
Headers = tuple[tuple[bytes, bytes], ...]
Fields = list[tuple[bytes, bytes]]
Values = Mapping[str, Callable[[], str]]
"""The values for {name} in a request: created when it is sent, because many work only once."""


def paths(app: Starlette) -> list[str]:
    """Return a path of each route, each once."""
    found = [
        f"{route.path}/style.css" if isinstance(route, Mount) else route.path
        for route in app.routes
        if isinstance(route, Route | Mount)
    ]
    assert len(app.routes) == len(found)
    return list(dict.fromkeys(found))


# Applications that are used only for their routes.
NOWHERE: Final = Settings(
    cookie_key="0" * 64,
    device_authorization=True,
    role_urls=dict.fromkeys(
        ("authserver", "reader", "ingester", "worker"), "host=127.0.0.1 port=1"
    ),
)
AUTHORIZATION_PATHS: Final = paths(authserver.app.create(NOWHERE))
RESOURCE_PATHS: Final = paths(resourceserver.app.create(NOWHERE))
SEALING: Final = cookies(Settings(base_url="http://testserver"), "the key of the tests' cookies")
"""The cookies of the dashboard of the tests' resource server."""
PAGES: Final = (
    *(path for view in VIEWS for path in view.paths),
    *("/sign-in", "/signed-in", "/sign-out"),
)
"""The addresses of the resource server that are for people."""
WAYS_FROM_PAGES: Final = re.compile(
    r"http://testserver/sign-in\?to=\S*|http://localhost:8400/oauth/authorize\?\S*|/sign-out"
)
MACHINE_PATHS: Final = (
    *("/oauth/register", "/oauth/token", "/oauth/revoke"),
    "/oauth/device_authorization",
)
SCRIPT_PATHS: Final = ("/welcome/seen",)
"""What scripts of pages ask."""

FORM: Final = b"application/x-www-form-urlencoded"
JSON: Final = b"application/json"
BODY_LIMIT: Final = 64 * 1024


@dataclass(frozen=True)
class Sent:
    """A request, as a web server hands it to an application."""

    method: str
    path: str
    query: bytes = b""
    headers: Headers = ()
    pieces: tuple[bytes, ...] = field(default=(), repr=False)
    """The body, in pieces."""
    ends: bool = True
    """Whether the body is complete; otherwise the client disconnects after the last piece."""


@dataclass
class Answer:
    """A response."""

    status: int = 0
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = field(default=b"")

    def header(self, name: str) -> str | None:
        """Return a header that is present at most once."""
        found = [value for key, value in self.headers if key.lower() == name.encode()]
        assert len(found) <= 1, name
        return found[0].decode("latin-1") if found else None


def ask(client: TestClient, sent: Sent) -> Answer:
    """Run an application until it answers."""
    answer = Answer()
    pieces = list(sent.pieces)

    async def receive() -> Message:
        if pieces:
            body, *pieces[:] = pieces
            return {
                "type": "http.request",
                "body": body,
                "more_body": bool(pieces) or not sent.ends,
            }
        if sent.ends:
            # A client that has sent the whole body waits for the response.
            await anyio.sleep_forever()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            assert answer.status == 0
            answer.status, answer.headers = message["status"], list(message["headers"])
        else:
            answer.body += message.get("body", b"")

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": sent.method,
        "scheme": "http",
        "path": sent.path,
        "raw_path": quote(sent.path).encode(),
        "root_path": "",
        "query_string": sent.query,
        "headers": list(sent.headers),
        "client": ("127.0.0.1", 50000),
        "server": ("localhost", 8400),
        "state": {},
    }
    assert client.portal is not None
    client.portal.call(client.app, scope, receive, send)
    return answer


# The parts of requests.

ODD: Final = (
    b"",
    b"%",
    b"%zz",
    b"%u0041",
    b"%00",
    b"\x00",
    b"%ff%fe",
    b"\xff\xfe",
    b"%c0%af",  # a slash, overlong
    b"\xc0\xaf",
    b"%ed%a0%80",  # a lone surrogate
    b"\xed\xa0\x80",
    b"%f4%90%80%80",  # beyond the last character
    b"%0d%0aSet-Cookie:%20a=b",
    b"%e2%80%ae",
    b"+",
    b"'%20or%201=1%20--",
    b"%7b%7b7*7%7d%7d",
    b"../../etc/passwd",
    b"//evil.example",
    b"https://evil.example/",
    b"https:%2f%2fevil.example",
    b"-1",
    b"1e999",
    b"9" * 5000,
    b"[" * 5000,
    b"a" * 43,
    b"svc_client_0000000000000000000000",
    b"{client_id}",
    b"{code}",
    b"{refresh_token}",
    b"{access_token}",
    b"{request}",
    b"{link}",
    b"{csrf}",
)
VALUES: Final = st.one_of(st.sampled_from(ODD), st.binary(max_size=40))
NAMES: Final = st.one_of(
    st.sampled_from(
        b"grant_type code client_id redirect_uri code_verifier token refresh_token scope resource state "
        b"response_type code_challenge code_challenge_method email password next csrf request decision "
        b"link from to tz limit cursor user_id access_token".split()
    ),
    st.binary(max_size=12),
)
WHERE: Final = st.integers(0, 9)
DAMAGE: Final = st.lists(
    st.one_of(
        st.tuples(st.just("drop"), WHERE),
        st.tuples(st.just("repeat"), WHERE),
        st.tuples(st.just("cut"), WHERE),
        st.tuples(st.just("replace"), WHERE, VALUES),
        st.tuples(st.just("add"), NAMES, VALUES),
    ),
    max_size=3,
)


def damaged(good: Fields, damage: list[tuple[Any, ...]]) -> bytes:
    """Return an encoded form or query with ``damage``."""
    fields = list(good)
    for kind, *how in damage:
        if kind == "add":
            fields.append((how[0], how[1]))
        elif fields:
            at = how[0] % len(fields)
            name, value = fields[at]
            if kind == "drop":
                del fields[at]
            else:
                changed = {"repeat": value, "cut": value[:-1], "replace": how[-1]}[kind]
                fields[at : at + (kind != "repeat")] = [(name, changed)]
    return b"&".join(name + b"=" + value for name, value in fields)


def filled(template: bytes, values: Values) -> bytes:
    """Return ``template`` with its names replaced by values."""

    def value(match: re.Match[bytes]) -> bytes:
        name = match[1].decode()
        return values[name]().encode() if name in values else match[0]

    return re.sub(rb"\{(\w+)\}", value, template)


def fields(text: str) -> Fields:
    """Return the fields of a form that is written as it would be sent."""
    pairs = (pair.partition("=") for pair in text.split("&"))
    return [(name.encode(), value.encode()) for name, _, value in pairs]


GOOD_FORMS: Final = {
    "/oauth/token": (
        fields(
            "grant_type=authorization_code&code={code}&client_id={client_id}"
            f"&redirect_uri={quote(CALLBACK, safe='')}&code_verifier={VERIFIER}"
        ),
        fields("grant_type=refresh_token&refresh_token={refresh_token}&client_id={client_id}"),
    ),
    "/oauth/revoke": (
        fields("token={access_token}&client_id={client_id}"),
        fields("token={refresh_token}&token_type_hint=refresh_token"),
    ),
    "/oauth/consent": (
        fields("csrf={csrf}&request={request}&decision=allow&scope=read:activity"),
        fields("csrf={csrf}&request={request}&decision=decline"),
    ),
    "/sign-in": (
        fields(f"csrf={{csrf}}&next=&email=alice%40example.org&password={quote(PASSWORD)}"),
    ),
    "/join": (
        fields(f"csrf={{csrf}}&link={{link}}&email=c%40example.org&password={quote(PASSWORD)}"),
    ),
    "/settings/connections": (
        fields("csrf={csrf}&kind=wakatime&draft=0&name=Mine&field_gap_minutes=15&totals=on"),
        fields(
            "csrf={csrf}&kind=calendar&draft=1&name=Mine&field_address=https%3A%2F%2Fc.example%2Fa"
        ),
    ),
}
SOME_FORM: Final = (fields("csrf={csrf}&next=%2F"),)
GOOD_QUERIES: Final = {
    "/oauth/authorize": (
        fields(
            f"response_type=code&client_id={{client_id}}&redirect_uri={quote(CALLBACK, safe='')}"
            "&scope=read:activity+read:profile&state=xyz&resource=http%3A%2F%2Ftestserver"
            f"&code_challenge={CHALLENGE}&code_challenge_method=S256"
        ),
    ),
    "/oauth/consent": (fields("request={request}"),),
    "/join": (fields("link={link}"),),
    "/sign-in": (fields("next={request}"), fields("next=%2F")),
    "/settings/connections": (
        fields("new=wakatime&back=/sources"),
        fields("connection=00000000-0000-0000-0000-000000000000"),
    ),
}
SOME_QUERY: Final = (
    fields("from=2025-06-16T00:00:00Z&to=2025-06-17T00:00:00Z"),
    fields("from=2025-06-16&to=2025-06-22&tz=Europe%2FBerlin"),
)

TEXTS: Final = st.one_of(
    st.text(max_size=20),
    st.sampled_from(("\ud800", "\0", "\u202e", "a" * 101, "https://evil.example/", CALLBACK)),
)
ANY_JSON: Final = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)


def objects(good: Mapping[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return objects that are ``good``, but for some members that are anything at all."""
    return st.dictionaries(
        st.one_of(st.sampled_from(sorted(good)), TEXTS), ANY_JSON, max_size=2
    ).map(lambda wrong: {**good, **wrong})


CLIENT: Final = {"redirect_uris": [CALLBACK], "client_name": "App", "scope": "read:activity"}
JSON_BODIES: Final = st.one_of(
    objects(CLIENT),
    st.lists(objects(HOUR), max_size=3).map(lambda events: {"events": events}),
    objects({"events": [HOUR]}),
    ANY_JSON,
).map(lambda value: json.dumps(value).encode("utf-8", "surrogatepass"))
MANY_FIELDS: Final = st.sampled_from((49, 50, 51, 10_000)).map(
    lambda count: b"&".join(b"a%d=1" % number for number in range(count))
)
SIZES: Final = st.sampled_from((0, 0, 0, 0, BODY_LIMIT - 1, BODY_LIMIT, BODY_LIMIT + 1))
METHODS: Final = st.sampled_from(
    (
        "GET",
        "HEAD",
        "POST",
        "POST",
        "PUT",
        "PATCH",
        "DELETE",
        "OPTIONS",
        "TRACE",
        "PROPFIND",
        "\xe9",
    )
)
MEDIA_TYPES: Final = st.one_of(
    st.sampled_from(
        (
            FORM,
            FORM + b";charset=utf-7",
            JSON,
            JSON + b" ; a=b",
            b"multipart/form-data; boundary=x",
            b"multipart/form-data",
            b"text/plain",
            b"",
            b";",
            b"\xff",
        )
    ),
    st.none(),
)

# A web server refuses control characters.
HEADER_VALUES: Final = st.one_of(
    st.sampled_from(
        (
            b"",
            b"\xff\xfe",
            b"evil.example",
            b"localhost:8400@evil.example",
            b"localhost:99999999999",
            b"[::1",
            b"null",
            b"cross-site",
            b"Bearer",
            b"Bearer {access_token}",
            b"bearer  {access_token} ",
            b"Bearer {refresh_token}",
            b"Bearer {code}",
            b"Bearer \xc3\xa9",
            b"Basic Og==",
            b"Basic {client_id}",
            b"Digest username=x",
            b"gzip",
            b"deflate, br;q=0",
            b"-1",
            b"99999999999999999999",
            b"\xb2",  # a digit to Python, and no number
            b"bytes=0-1,2-3",
            b"bytes=99999-",
            b"bytes=x",
            b"chunked",
            b"*",
            b'"x"',
            b"a" * 4_000,
            b"a" * 33_000,
        )
    ),
    st.binary(max_size=40).map(lambda text: re.sub(rb"[\x00-\x08\x0a-\x1f\x7f]", b"", text)),
)
HEADER_NAMES: Final = st.sampled_from(
    b"host authorization authorization cookie origin referer sec-fetch-site user-agent accept "
    b"accept-encoding content-length content-encoding transfer-encoding expect range if-range "
    b"if-none-match if-modified-since x-request-id x-forwarded-host x-forwarded-for forwarded "
    b"access-control-request-method access-control-request-headers x".split()
)
HEADERS: Final = st.lists(st.tuples(HEADER_NAMES, HEADER_VALUES), max_size=4).map(tuple)
COOKIES: Final = st.sampled_from(
    (
        b"{name}={cookie}",
        b"{name}={cookie}",
        b"{name}={cookie}x",
        b"{name}=x{cookie}",
        b"{name}={cookie}; {name}={cookie}",
        b'{name}="{cookie}"',
        b"{name}=",
        b"{name}",
        b"{name}={cookie}\xff",
        b"{name}={access_token}",
        b"=;;=;{name}={cookie};",
        b"x={csrf}" + b";a=b" * 500,
        b'a="\\073; {name}={cookie}',
        b"\xff\xfe",
    )
)


@dataclass(frozen=True)
class Browser:
    """The cookie and form token of a browser, signed in or not."""

    cookie_name: str
    cookie: str
    form_token: Callable[[str], str]


@dataclass(frozen=True)
class Fuzzed:
    """The authorization server, and the values of valid requests to it."""

    client: TestClient
    signer: sessions.Signer
    owner: Rows
    alice: Person
    welcome: Welcome
    application: Application

    def browser(self, *, is_signed_in: bool) -> Browser:
        """Return a browser of alice, or an anonymous one."""
        if is_signed_in:
            cookie = self.welcome(self.alice).cookies[self.signer.cookie_name]
        else:
            text = tokens.mint(tokens.SESSION, tokens.NOBODY).text
            cookie = self.signer.cookies.sign(text).decode()
        session = tokens.parse(tokens.SESSION, cookie.rpartition(".")[0])
        assert session is not None
        return Browser(
            self.signer.cookie_name, cookie, lambda about: self.signer.form_token(session, about)
        )

    def values(self, path: str, browser: Browser) -> Values:
        """Return the values for the names in a request of this browser."""
        made: dict[str, str] = {}

        def once(name: str, make: Callable[[], str]) -> str:
            if name not in made:
                made[name] = make()
            return made[name]

        subject = {"/oauth/consent": "request", "/join": "link"}.get(path)
        values: dict[str, Callable[[], str]] = {
            "name": lambda: browser.cookie_name,
            "cookie": lambda: browser.cookie,
            "client_id": lambda: self.application.client_id,
            "code": lambda: once("code", lambda: self.application.code(self.welcome(self.alice))),
            "access_token": lambda: once("access_token", self.alice.token),
            "refresh_token": lambda: once(
                "refresh_token",
                lambda: str(self.application.pair(self.welcome(self.alice))["refresh_token"]),
            ),
            "request": lambda: once("request", lambda: self.waiting(browser)),
            "link": lambda: once("link", self.link),
        }
        values["csrf"] = lambda: browser.form_token(values[subject]() if subject else "")
        return values

    def waiting(self, browser: Browser) -> str:
        """Return the id of an authorization request that waits in this browser."""
        response = self.client.get(
            self.application.authorize_path(),
            headers={"Cookie": f"{browser.cookie_name}={browser.cookie}"},
            follow_redirects=False,
        )
        return str(response.headers["location"].partition("=")[2])

    def link(self) -> str:
        """Return an invitation link."""
        link = tokens.mint(tokens.LINK, tokens.NOBODY)
        self.owner.execute(
            "insert into identity.invitation (invitation_hash, expires_at) "
            "values (%s, now() + interval '1 day')",
            [link.hash],
        )
        return link.text


@pytest.fixture
def fuzzed(
    server: TestClient,
    settings: Settings,
    owner: Rows,
    alice: Person,
    welcome: Welcome,
    application: Application,
) -> Fuzzed:
    """The authorization server, as random requests find it."""
    return Fuzzed(server, sessions.signer(settings), owner, alice, welcome, application)


ALLOWED_IN_DESCRIPTIONS: Final = re.compile(r"[\x20-\x21\x23-\x5b\x5d-\x7e]+")
WAYS_ON: Final = re.compile(
    rf"(?:http://localhost:8400)?/(?![/\\])[!-~]*|{re.escape(CALLBACK)}\?[!-~]*"
)


def check_any(sent: Sent, answer: Answer) -> None:
    """Assert the properties of every response of both servers."""
    assert 200 <= answer.status < 500, (sent, answer)
    for name, value in answer.headers:
        assert not re.search(rb"[\r\n\0]", name + value), (sent, answer)
    assert answer.header("x-request-id"), sent
    assert answer.header("x-content-type-options") == "nosniff", sent


def check_authorization(sent: Sent, answer: Answer) -> None:
    """Assert that the authorization server gave an allowed response: an error, a page, or a redirect."""
    check_any(sent, answer)
    location = answer.header("location")
    assert location is None or WAYS_ON.fullmatch(location), (sent, location)
    if answer.status in (204, 303, 304) or sent.method == "HEAD":
        return
    media_type = answer.header("content-type")
    if sent.path in (*MACHINE_PATHS, "/healthz", "/readyz") or sent.path.startswith(
        "/.well-known/"
    ):
        if answer.status < 300 and sent.path == "/oauth/revoke":
            assert answer.body == b"", sent
            return
        assert media_type == "application/json", (sent, answer)
        body = json.loads(answer.body)
        if answer.status >= 400:
            assert body.keys() == {"error", "error_description"}, (sent, answer)
            assert re.fullmatch(r"[a-z_]+", body["error"]), (sent, answer)
            assert ALLOWED_IN_DESCRIPTIONS.fullmatch(body["error_description"]), (sent, answer)
    elif sent.path in SCRIPT_PATHS and answer.status in (200, 401):
        assert media_type == "application/json", (sent, answer)
        assert isinstance(json.loads(answer.body), dict), (sent, answer)
    elif sent.path.startswith("/static/") and answer.status not in (404, 405):
        # The framework reports a wrong Range header in plain text.
        assert (media_type or "").startswith(("text/", "multipart/byteranges;")), (sent, answer)
    else:
        assert media_type == "text/html; charset=utf-8", (sent, answer)
        assert answer.body.decode().startswith("<!doctype html>"), (sent, answer)


def check_resource(sent: Sent, answer: Answer) -> None:
    """Assert that the resource server answered as it may: with an object, which may be an error.

    Addresses for people may answer with a page, or with the way to sign in.
    """
    check_any(sent, answer)
    location = answer.header("location")
    if sent.path in PAGES:
        assert location is None or WAYS_FROM_PAGES.fullmatch(location), (sent, location)
    else:
        assert location is None, (sent, answer)
    if answer.status in (204, 303, 304) or sent.method == "HEAD":
        return
    if sent.path in PAGES and answer.header("content-type") == "text/html; charset=utf-8":
        assert answer.body.decode().startswith("<!doctype html>"), (sent, answer)
        return
    media_type = answer.header("content-type") or ""
    is_image = sent.path == SIGNED_OUT_IMAGE_PATH and media_type == "image/svg+xml"
    if is_image or (
        sent.path.startswith("/static/")
        and media_type.startswith(("text/", "multipart/byteranges;"))
    ):
        # A file of pages, or a part of it; the framework reports a wrong Range header in plain text.
        return
    if sent.path.startswith("/docs") and answer.status < 400:
        # The documentation page and its files.
        assert (answer.header("content-type") or "").startswith("text/"), (sent, answer)
        return
    assert answer.header("content-type") == "application/json", (sent, answer)
    if answer.status == 200 and not sent.ends:
        # A streamed response stops when the client disconnects.
        return
    body = answer.body
    if answer.header("content-encoding") == "gzip":
        body = gzip.decompress(body)
    content = json.loads(body)
    assert isinstance(content, dict), (sent, answer)
    if sent.path == "/mcp" and "jsonrpc" in content:
        # Errors in the message are reported in the protocol of the message.
        assert content.keys() == {"jsonrpc", "id", "error"}, (sent, answer)
        return
    if answer.status >= 400:
        assert content.keys() <= {"error", "message", "parameter"}, (sent, answer)
        assert re.fullmatch(r"[a-z_]+", content["error"]), (sent, answer)
        assert content["message"], (sent, answer)
    if answer.status == 401:
        assert (answer.header("www-authenticate") or "").startswith("Bearer "), (sent, answer)


each_authorization_path = pytest.mark.parametrize("path", AUTHORIZATION_PATHS)
each_resource_path = pytest.mark.parametrize("path", RESOURCE_PATHS)
OUR_HOST: Final = (b"host", b"localhost:8400")


@pytest.mark.checklist(60)
@each_authorization_path
@a_share(8)
@given(data=st.data())
def test_line_60_no_body_gets_anything_but_an_ordinary_answer(
    fuzzed: Fuzzed, path: str, data: st.DataObject
) -> None:
    good = data.draw(st.sampled_from(GOOD_FORMS.get(path, SOME_FORM)), "good")
    is_json = path == "/oauth/register"
    right_bodies = JSON_BODIES if is_json else DAMAGE.map(lambda damage: damaged(good, damage))
    body = data.draw(
        st.one_of(right_bodies, right_bodies, MANY_FIELDS, JSON_BODIES, st.binary(max_size=200)),
        "body",
    )
    right_type = JSON if is_json else FORM
    media_type = data.draw(st.one_of(st.just(right_type), st.just(right_type), MEDIA_TYPES), "type")
    size = data.draw(SIZES, "size")
    cut = data.draw(st.integers(0, 300), "cut")
    browser = fuzzed.browser(is_signed_in=data.draw(st.booleans(), "signed in"))
    values = fuzzed.values(path, browser)

    content = filled(body, values)
    if len(content) < size:
        content += b"&pad=" + b"a" * (size - len(content) - 5)
    sent = Sent(
        data.draw(st.sampled_from(("POST", "POST", "POST", "POST", "PUT", "GET")), "method"),
        path,
        b"",
        (
            OUR_HOST,
            (b"cookie", f"{browser.cookie_name}={browser.cookie}".encode()),
            *([] if media_type is None else [(b"content-type", media_type)]),
        ),
        (content[:cut], content[cut:]),
        ends=data.draw(st.sampled_from((True, True, True, False)), "ends"),
    )

    check_authorization(sent, ask(fuzzed.client, sent))


@pytest.mark.checklist(60)
@each_authorization_path
@a_share(8)
@given(data=st.data())
def test_line_60_no_query_and_no_header_gets_anything_but_an_ordinary_answer(
    fuzzed: Fuzzed, path: str, data: st.DataObject
) -> None:
    good = data.draw(st.sampled_from(GOOD_QUERIES.get(path, SOME_QUERY)), "good")
    query = data.draw(
        st.one_of(
            DAMAGE.map(lambda damage: damaged(good, damage)),
            DAMAGE.map(lambda damage: damaged(good, damage)),
            MANY_FIELDS,
            st.binary(max_size=200),
        ),
        "query",
    )
    headers = data.draw(st.one_of(st.just(()), HEADERS), "headers")
    cookie = data.draw(COOKIES, "cookie")
    browser = fuzzed.browser(is_signed_in=data.draw(st.booleans(), "signed in"))
    values = fuzzed.values(path, browser)
    sent = Sent(
        data.draw(st.one_of(st.just("GET"), METHODS), "method"),
        path,
        filled(query, values),
        (
            *(() if any(name == b"host" for name, _ in headers) else (OUR_HOST,)),
            (b"cookie", filled(cookie, values)),
            *((name, filled(value, values)) for name, value in headers),
        ),
        (b"",),
    )

    check_authorization(sent, ask(fuzzed.client, sent))


@given(path=st.text(st.characters(exclude_categories=["Cs"]), max_size=40), method=METHODS)
def test_an_unknown_path_gets_an_ordinary_answer_from_both_servers(
    server: TestClient, api: TestClient, path: str, method: str
) -> None:
    sent = Sent(method, f"/{path}", headers=(OUR_HOST,), pieces=(b"",))

    check_authorization(sent, ask(server, sent))
    check_resource(sent, ask(api, sent))


@pytest.mark.checklist(60)
@each_resource_path
@a_share(8)
@given(data=st.data())
def test_line_60_nothing_gets_anything_but_an_ordinary_answer_from_the_resource_server(
    api: TestClient, alice: Person, path: str, data: st.DataObject
) -> None:
    good = data.draw(st.sampled_from(SOME_QUERY), "good")
    query = data.draw(
        st.one_of(
            DAMAGE.map(lambda damage: damaged(good, damage)), MANY_FIELDS, st.binary(max_size=200)
        ),
        "query",
    )
    headers = data.draw(st.one_of(st.just(()), HEADERS), "headers")
    credential = data.draw(
        st.sampled_from(
            (
                (b"authorization", b"Bearer {access_token}"),
                (b"cookie", SEALING.name.encode() + b"={dashboard_cookie}"),
                None,
            )
        ),
        "credential",
    )
    body = data.draw(st.one_of(JSON_BODIES, JSON_BODIES, st.binary(max_size=200)), "body")
    if data.draw(st.booleans(), "packed"):
        body = gzip.compress(body)
        headers = (*headers, (b"content-encoding", b"gzip"))
    media_type = data.draw(st.one_of(st.just(JSON), st.just(JSON), MEDIA_TYPES), "type")
    values: Values = {
        "access_token": lambda: alice.token(*SCOPES),
        "dashboard_cookie": lambda: SEALING.encrypt(
            SEALING.name, {"token": alice.token(*SCOPES)}, 600
        ),
        "refresh_token": lambda: tokens.mint(tokens.REFRESH, alice.user_id).text,
        "code": lambda: tokens.mint(tokens.CODE, alice.user_id).text,
    }
    sent = Sent(
        data.draw(METHODS, "method"),
        path,
        filled(query, values),
        tuple(
            (name, filled(value, values))
            for name, value in (
                *(() if any(name == b"host" for name, _ in headers) else (OUR_HOST,)),
                *([] if credential is None else [credential]),
                *([] if media_type is None else [(b"content-type", media_type)]),
                *headers,
            )
        ),
        (body[:5], body[5:]),
        ends=data.draw(st.sampled_from((True, True, True, False)), "ends"),
    )

    check_resource(sent, ask(api, sent))

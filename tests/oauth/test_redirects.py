"""Redirect URIs: registration rules, matching, and response parameters."""

from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from authserver.errors import InvalidRedirectURI
from authserver.oauth import redirects


@pytest.mark.checklist(8)
@pytest.mark.parametrize(
    "uri",
    [
        "https://app.example/callback",
        "https://app.example",
        "https://app.example:8443/cb?tenant=1&x=%20y",
        "HTTPS://App.Example/cb",
        "https://[2001:db8::1]/cb",
        "https://xn--bcher-kva.example/cb",
        "http://127.0.0.1/cb",
        "http://127.0.0.1:3000/cb",
        "http://[::1]:3000/cb",
        "http://localhost:1/cb",
        "http://LOCALHOST:65535",
        "cursor://anysphere.cursor-mcp/oauth/callback",
        "com.example.app:/cb",
        "com.example.app:cb",
        "vscode://some.extension",
        "app+v1.x-y://cb",
        "https://app.example/" + "a" * 2028,
    ],
)
def test_https_loopback_http_and_private_use_schemes_are_accepted(
    server: TestClient, uri: str
) -> None:
    response = server.post("/oauth/register", json={"redirect_uris": [uri]})

    assert response.status_code == 201
    assert response.json()["redirect_uris"] == [uri]


@pytest.mark.checklist(5, 7)
@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("", "long"),
        ("https://app.example/" + "a" * 2029, "long"),
        ("/callback", "absolute"),
        ("//app.example/callback", "absolute"),
        ("app.example/callback", "absolute"),
        ("1app://cb", "absolute"),
        ("https://app.example/cb#", "fragment"),
        ("https://app.example/cb#part", "fragment"),
        ("https://alice@app.example/cb", "user"),
        ("https://alice:pw@app.example/cb", "user"),
        ("http://127.0.0.1@evil.example/cb", "user"),
        ("cursor://alice@host/cb", "user"),
        ("https://app.example/c\tb", "control"),
        ("https://app.example/c\nb", "control"),
        ("https://app.example/c b", "spaces"),
        (" https://app.example/cb", "spaces"),
        ("https://app.example/cb\x00", "control"),
        ("https://app.example/cb%0d%0aSet-Cookie:%20a=b", "control"),
        ("https://app.example/cb%00", "control"),
        ("https://app.example/%zz", "control"),
        ("https://app.example/%4", "control"),
        ("https:\\\\app.example/cb", "backslash"),
        ("https://app.example\\@evil.example/", "backslash"),
        ("https://bücher.example/cb", "ASCII"),
        ("https://app.example/é", "ASCII"),
        ("https://*.app.example/cb", "wildcard"),
        ("https://app.example/*", "wildcard"),
        ("https://app.example/./cb", "segment"),
        ("https://app.example/a/../cb", "segment"),
        ("https://app.example/..", "segment"),
        ("https://app.example/%2e%2e/cb", "segment"),
        ("https://app.example/.%2E/cb", "segment"),
        ("https://app.example/%252e%252e/cb", "segment"),
        ("https://app.example/a%2f..%2fcb", "segment"),
        ("https://app.example/a%5c..%5ccb", "segment"),
        ("https://app.example/..;/cb", "segment"),
        ("cursor://host/../cb", "segment"),
        ("https://app.example:0/cb", "port"),
        ("https://app.example:65536/cb", "port"),
        ("https://app.example:/cb", "port"),
        ("https://app.example:99999999999/cb", "port"),
        ("https://app.example:80a/cb", "malformed"),
        ("https://[2001:db8::1/cb", "malformed"),
        ("https://[nonsense]/cb", "malformed"),
        ("https://[::gg]/cb", "malformed"),
        ("https://[1.2.3.4]/cb", "malformed"),
        ("https://app.example/[x]", "brackets"),
        ("https://app%2eexample/cb", "malformed"),
        ("https:///cb", "host"),
        ("https:/cb", "host"),
        ("https:cb", "host"),
        ("https://:8443/cb", "host"),
        ("http://app.example/cb", "127.0.0.1"),
        ("http://127.0.0.2/cb", "127.0.0.1"),
        ("http://127.1/cb", "127.0.0.1"),
        ("http://0.0.0.0/cb", "127.0.0.1"),
        ("http://localhost./cb", "127.0.0.1"),
        ("http://localhost.evil.example/cb", "127.0.0.1"),
        ("http://[::ffff:127.0.0.1]/cb", "127.0.0.1"),
        ("cursor:", "after its scheme"),
        ("cursor://", "after its scheme"),
        ("https://app.example/cb?code=x", "code"),
        ("https://app.example/cb?a=b&iss=x", "iss"),
        ("https://app.example/cb?%73tate=x", "state"),
        ("https://app.example/cb?error", "error"),
    ],
)
def test_line_5_anything_else_is_refused_with_its_reason(
    server: TestClient, uri: str, reason: str
) -> None:
    response = server.post("/oauth/register", json={"redirect_uris": [uri]})

    assert response.status_code == 400
    assert response.json()["error"] == "invalid_redirect_uri"
    assert reason in response.json()["error_description"]


DANGEROUS_SCHEMES = (
    "javascript data vbscript file blob about view-source filesystem ws wss ftp mailto tel sms intent "
    "chrome chrome-extension moz-extension ms-appx res jar urn ms-settings ms-msdt search-ms shell ssh ldap "
    "smb mhtml itms itms-apps itmss steam microsoft-edge edge chrome-untrusted devtools jscript livescript "
    "mocha"
)


@pytest.mark.checklist(6)
@pytest.mark.parametrize("scheme", DANGEROUS_SCHEMES.split())
def test_line_6_dangerous_schemes_are_refused_however_they_are_written(
    server: TestClient, scheme: str
) -> None:
    for written in (
        f"{scheme}:x",
        f"{scheme.upper()}:x",
        f"{scheme.title()}://host/cb",
        f"{scheme[0]}\t{scheme[1:]}:x",
        f"{scheme}\n:x",
        f"\t{scheme}:x",
    ):
        response = server.post("/oauth/register", json={"redirect_uris": [written]})

        assert response.status_code == 400, written
        assert response.json()["error"] == "invalid_redirect_uri"


@given(st.text(max_size=80))
@example("https://app.example/\ud800")
@example("http:" + "/" * 70)
def test_the_check_accepts_or_refuses_any_text(text: str) -> None:
    try:
        redirects.check(text)
    except InvalidRedirectURI:
        return

    assert text.isascii()
    assert ":" in text
    assert not set("#*\\ \t\r\n\0") & set(text)


HOSTS = st.sampled_from(
    ["127.0.0.1", "[::1]", "localhost", "app.example", "127.0.0.1.evil.example", "evil.example", ""]
)
PARTS = st.text("abc./%2e5:@#?&=[]\\ ", max_size=12)


@given(st.sampled_from(["http", "https", "HTTP", "cursor", "javascript"]), HOSTS, PARTS, PARTS)
def test_an_accepted_uri_has_the_host_that_an_ordinary_parser_finds(
    scheme: str, host: str, after_host: str, path: str
) -> None:
    uri = f"{scheme}://{host}{after_host}/{path}"
    try:
        redirects.check(uri)
    except InvalidRedirectURI:
        return

    parts = urlsplit(uri)
    assert parts.scheme in {"http", "https", "cursor"}
    assert parts.username is None
    assert parts.fragment == ""
    assert ".." not in parts.path.split("/")
    if parts.scheme == "http":
        assert parts.hostname in {"127.0.0.1", "::1", "localhost"}


@pytest.mark.parametrize(
    "given_uri",
    [
        "https://app.example/callback/",
        "https://app.example/Callback",
        "https://APP.example/callback",
        "HTTPS://app.example/callback",
        "http://app.example/callback",
        "https://app.example:443/callback",
        "https://app.example/callback?",
        "https://app.example/callback?x=1",
        "https://app.example/call%62ack",
        "https://app.example/a/../callback",
        "https://app.example/./callback",
        "https://app.example/callbac",
        "https://app.example/callback2",
        "https://app.example.evil.example/callback",
        " https://app.example/callback",
        "https://app.example/callback#",
    ],
)
@pytest.mark.parametrize("port_may_vary", [False, True])
def test_a_uri_matches_character_by_character(given_uri: str, port_may_vary: bool) -> None:
    registered = "https://app.example/callback"

    assert redirects.matches(registered, registered, port_may_vary=port_may_vary)
    assert not redirects.matches(registered, given_uri, port_may_vary=port_may_vary)


@pytest.mark.parametrize(
    ("registered", "given_uri", "varied"),
    [
        ("http://127.0.0.1/cb", "http://127.0.0.1:51004/cb", True),
        ("http://127.0.0.1:3000/cb", "http://127.0.0.1:51004/cb", True),
        ("http://127.0.0.1:3000/cb", "http://127.0.0.1/cb", True),
        ("http://[::1]/cb", "http://[::1]:51004/cb", True),
        ("http://localhost/cb?a=b", "http://localhost:51004/cb?a=b", True),
        ("http://localhost", "http://localhost:51004", True),
        ("http://127.0.0.1/cb", "http://127.0.0.1:51004/cb2", False),
        ("http://127.0.0.1/cb", "http://localhost:51004/cb", False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:0/cb", False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:65536/cb", False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:/cb", False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:1@evil.example/cb", False),
        ("http://127.0.0.1/cb", "https://127.0.0.1:51004/cb", False),
        ("https://127.0.0.1/cb", "https://127.0.0.1:51004/cb", False),
        ("https://app.example/cb", "https://app.example:8443/cb", False),
        ("cursor://localhost/cb", "cursor://localhost:1/cb", False),
    ],
)
def test_with_the_setting_only_the_loopback_port_may_vary(
    registered: str, given_uri: str, varied: bool
) -> None:
    assert redirects.matches(registered, given_uri, port_may_vary=True) is varied
    assert redirects.matches(registered, given_uri, port_may_vary=False) is False


@pytest.mark.checklist(25)
def test_line_25_parameters_are_added_to_the_query_of_a_uri() -> None:
    added = {"code": "c", "state": None, "iss": "http://localhost:8400"}

    assert redirects.with_parameters("https://a.example/cb?x=%20y&z", added) == (
        "https://a.example/cb?x=%20y&z&code=c&iss=http%3A%2F%2Flocalhost%3A8400"
    )
    assert redirects.with_parameters("https://a.example/cb?", added) == (
        "https://a.example/cb?code=c&iss=http%3A%2F%2Flocalhost%3A8400"
    )
    assert redirects.with_parameters("com.example:/cb", added) == (
        "com.example:/cb?code=c&iss=http%3A%2F%2Flocalhost%3A8400"
    )


@pytest.mark.checklist(17)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
@example("+ & % é = # ? / \r\n")
def test_line_17_any_state_is_returned_unchanged(state: str) -> None:
    location = redirects.with_parameters("https://a.example/cb", {"state": state})

    assert location.isascii()
    assert location.isprintable()
    assert " " not in location
    assert parse_qsl(urlsplit(location).query, keep_blank_values=True) == [("state", state)]


@pytest.mark.parametrize(
    ("uri", "destination", "is_loopback", "is_private_use"),
    [
        ("https://app.example:8443/cb", "app.example:8443", False, False),
        ("http://127.0.0.1:3000/cb", "127.0.0.1:3000", True, False),
        ("https://localhost/cb", "localhost", True, False),
        ("http://[::1]:9/cb", "[::1]:9", True, False),
        ("https://localhost.example/cb", "localhost.example", False, False),
        ("cursor://anysphere/cb", "cursor:", False, True),
        ("com.example.app:/cb", "com.example.app:", False, True),
    ],
)
def test_the_destination_of_a_uri_is_shown_to_people(
    uri: str, destination: str, is_loopback: bool, is_private_use: bool
) -> None:
    assert redirects.destination(uri) == destination
    assert redirects.is_loopback(uri) is is_loopback
    assert redirects.is_private_use(uri) is is_private_use

"""The authorization endpoint: checklist lines 14 to 22 and 25."""

import re
from typing import Any
from urllib.parse import quote, urlencode

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tests.oauth.conftest import Register
from tests.oauth.visitor import CALLBACK, CHALLENGE, VERIFIER, Application, Visitor, parameters

Rows = psycopg.Connection[Any]

ISSUER = "http://localhost:8400"


@pytest.fixture
def allowed(application: Application, alice_browser: Visitor) -> Application:
    """The application, which alice has allowed once."""
    application.code(alice_browser)
    return application


def test_without_sign_in_the_browser_is_redirected_to_sign_in_and_not_to_the_client(
    visitor: Visitor, application: Application
) -> None:
    response = visitor.get(application.authorize_path())

    assert response.status_code == 303
    assert response.headers["location"].startswith("/sign-in?next=svc_rq_")


def test_a_signed_in_person_is_redirected_to_consent(
    alice_browser: Visitor, application: Application
) -> None:
    response = alice_browser.get(application.authorize_path())

    assert response.status_code == 303
    assert response.headers["location"].startswith("/oauth/consent?request=svc_rq_")


@pytest.mark.checklist(14)
@pytest.mark.parametrize(
    "changed",
    [
        {"client_id": None},
        {"client_id": ""},
        {"client_id": "svc_client_0000000000000000000000"},
        {"client_id": "svc_client_"},
        {"client_id": "' or 1=1 --"},
        {"client_id": "\0"},
        {"redirect_uri": None},
        {"redirect_uri": ""},
        {"redirect_uri": "https://evil.example/"},
    ],
)
def test_line_14_an_unusable_client_or_redirect_is_a_page_without_redirect(
    alice_browser: Visitor, application: Application, changed: dict[str, str | None]
) -> None:
    response = alice_browser.get(application.authorize_path(**changed))

    assert response.status_code == 400
    assert "location" not in response.headers
    assert "Request refused" in response.text


@pytest.mark.checklist(14)
@pytest.mark.parametrize("name", ["client_id", "redirect_uri"])
def test_line_14_a_repeated_client_or_redirect_is_a_page(
    alice_browser: Visitor, application: Application, name: str
) -> None:
    twice = application.authorize_parameters()[name]

    response = alice_browser.get(f"{application.authorize_path()}&{name}={quote(twice, safe='')}")

    assert response.status_code == 400
    assert "location" not in response.headers


CRAFTED = st.one_of(
    st.text(max_size=60),
    st.builds(
        "".join,
        st.lists(
            st.sampled_from(
                f"{CALLBACK}|https://|http://|//|app.example|evil.example|@|:443|/callback|/|\\"
                "|?|#|..|%2e%2e|%2f|;|\t| |*".split("|")
            ),
            max_size=6,
        ),
    ),
    st.builds(lambda end: CALLBACK + end, st.text(min_size=1, max_size=8)),
    st.builds(lambda start: start + CALLBACK, st.text(min_size=1, max_size=8)),
)


@pytest.mark.checklist(14)
@settings(max_examples=settings().max_examples * 3)
@given(crafted=CRAFTED.filter(lambda uri: uri != CALLBACK))
def test_line_14_no_crafted_redirect_is_ever_followed(
    alice_browser: Visitor, application: Application, crafted: str
) -> None:
    encoded = crafted.encode("utf-8", "surrogatepass")
    query = urlencode(application.authorize_parameters(redirect_uri=None))

    response = alice_browser.get(f"/oauth/authorize?{query}&redirect_uri={quote(encoded)}")

    assert response.status_code == 400
    assert "location" not in response.headers


@pytest.mark.checklist(15)
@pytest.mark.parametrize(
    "given_uri",
    [
        "https://app.example/callback/",
        "https://app.example/Callback",
        "https://app.example/callback?x=1",
        "https://app.example:443/callback",
        "https://app.example/call%62ack",
        "https://app.example/a/../callback",
    ],
)
def test_line_15_a_redirect_uri_matches_exactly(
    alice_browser: Visitor, application: Application, given_uri: str
) -> None:
    response = alice_browser.get(application.authorize_path(redirect_uri=given_uri))

    assert response.status_code == 400
    assert "location" not in response.headers


@pytest.mark.checklist(16, 19, 20, 22)
@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"response_type": None}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": "code token"}, "unsupported_response_type"),
        ({"response_type": "none"}, "unsupported_response_type"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge": ""}, "invalid_request"),
        ({"code_challenge": CHALLENGE[:42]}, "invalid_request"),
        ({"code_challenge": CHALLENGE + "A"}, "invalid_request"),
        ({"code_challenge": CHALLENGE[:42] + "="}, "invalid_request"),
        ({"code_challenge": CHALLENGE[:42] + "+"}, "invalid_request"),
        ({"code_challenge": CHALLENGE + "\n"}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": "s256"}, "invalid_request"),
        ({"response_mode": "fragment"}, "invalid_request"),
        ({"response_mode": "form_post"}, "invalid_request"),
        ({"scope": "read:everything"}, "invalid_scope"),
        ({"scope": 'read:activity "\\é'}, "invalid_scope"),
        ({"resource": "https://other.example"}, "invalid_target"),
        ({"resource": "http://testserver/mcp/"}, "invalid_target"),
        ({"resource": "http://testserver/mcp#x"}, "invalid_target"),
        ({"resource": "http://testserver#"}, "invalid_target"),
        ({"resource": "/mcp"}, "invalid_target"),
        ({"resource": "testserver"}, "invalid_target"),
        ({"state": "NUL\0"}, "invalid_request"),
        ({"unheard_of": "NUL\0"}, "invalid_request"),
    ],
)
def test_lines_16_19_20_other_errors_are_redirected_to_the_client_after_sign_in(
    alice_browser: Visitor,
    allowed: Application,
    changed: dict[str, str | None],
    error: str,
) -> None:
    response = alice_browser.get(allowed.authorize_path(**changed))

    assert response.status_code == 303
    assert response.headers["location"].startswith(f"{CALLBACK}?error={error}&")
    sent = parameters(response)
    assert sent["error"] == [error]
    assert sent["iss"] == [ISSUER]
    assert sent.get("state") == (None if "state" in changed else ["xyz"])
    assert all(
        " " <= letter <= "~" and letter not in '"\\' for letter in sent["error_description"][0]
    )


@pytest.mark.parametrize(
    ("scope", "resource", "error"),
    [("read:everything", None, "invalid_scope"), (None, "https://x.example", "invalid_target")],
)
def test_without_sign_in_an_error_is_a_page_that_leads_to_the_client_after_sign_in(
    visitor: Visitor, application: Application, scope: str, resource: str, error: str
) -> None:
    response = visitor.get(application.authorize_path(scope=scope, resource=resource))

    assert response.status_code == 400
    assert "location" not in response.headers
    assert f'<meta name="oauth-error" content="{error}">' in response.text
    assert f"<code>{error}</code>" in response.text
    assert 'href="/sign-in?next=svc_rq_' in response.text
    assert "Sign in and return to the app" in response.text


@pytest.mark.checklist(18, 20)
@pytest.mark.parametrize(
    ("sent", "resource"),
    [
        (["http://testserver"] * 2, "http://testserver"),
        (["http://testserver", "http://testserver/mcp"], "http://testserver"),
        (["http://testserver/mcp", "HTTP://TestServer/mcp", ""], "http://testserver/mcp"),
    ],
)
def test_a_resource_may_be_repeated(
    alice_browser: Visitor,
    application: Application,
    owner: psycopg.Connection[tuple[str]],
    sent: list[str],
    resource: str,
) -> None:
    query = urlencode([("resource", each) for each in sent])
    page = alice_browser.follow(alice_browser.get(f"{application.authorize_path()}&{query}"))
    code = parameters(alice_browser.submit(page, decision="allow"))["code"][0]
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "client_id": application.client_id,
        "redirect_uri": CALLBACK,
        "code_verifier": VERIFIER,
    }

    other = application.client.post("/oauth/token", data=form | {"resource": [*sent, "x:y"]})
    exchanged = application.client.post("/oauth/token", data=form | {"resource": sent})

    assert owner.execute("select resource from oauth.grant").fetchone() == (resource,)
    assert other.json()["error"] == "invalid_target"
    assert exchanged.status_code == 200


def test_a_repeated_resource_with_an_unknown_one_is_refused(
    alice_browser: Visitor, allowed: Application
) -> None:
    query = "resource=http://testserver&resource=https://other.example"

    response = alice_browser.get(f"{allowed.authorize_path()}&{query}")

    assert parameters(response)["error"] == ["invalid_target"]


def test_an_error_of_a_client_that_this_person_never_allowed_is_a_page_first(
    alice_browser: Visitor, allowed: Application, register: Register
) -> None:
    stranger = register("https://evil.example/", client_name="Weekly Report")

    page = alice_browser.get(stranger.authorize_path(scope="read:everything"))
    link = re.search(r'href="(/sign-in\?next=svc_rq_[^"]+)"', page.text)

    assert page.status_code == 400
    assert "location" not in page.headers
    assert "Return to the app" in page.text
    assert link is not None
    pressed = alice_browser.follow(alice_browser.get(link[1]))
    assert pressed.headers["location"].startswith("https://evil.example/?error=invalid_scope&")


def test_an_error_of_a_client_without_access_any_more_is_a_page_first(
    alice_browser: Visitor, allowed: Application, owner: Rows
) -> None:
    owner.execute("update oauth.grant set revoked_at = now()")

    page = alice_browser.get(allowed.authorize_path(scope="read:everything"))

    assert page.status_code == 400
    assert "location" not in page.headers


def test_a_redirect_uri_that_could_be_registered_earlier_is_refused(
    alice_browser: Visitor, application: Application, owner: Rows
) -> None:
    owner.execute("update oauth.client set redirect_uris = array['ms-settings:x']")

    page = alice_browser.get(application.authorize_path(redirect_uri="ms-settings:x"))

    assert page.status_code == 400
    assert "must not have the scheme ms-settings" in page.text


@pytest.mark.parametrize(
    ("changed", "displayed"),
    [
        ({"client_id": None}, ["The parameter client_id is missing"]),
        ({"client_id": "<b>x</b>"}, ["The client_id is not", "<bdi>&lt;b&gt;x&lt;/b&gt;</bdi>"]),
        ({"redirect_uri": None}, ["The parameter redirect_uri is missing"]),
        (
            {"redirect_uri": "https://evil.example/\u202e"},
            ["The redirect_uri is not one", "<bdi>https://evil.example/\ufffd</bdi>"],
        ),
        (
            {"redirect_uri": "http://127.0.0.1:4000/cb"},
            [
                "in its port alone",
                "SVC_LOOPBACK_PORT_MAY_VARY",
                "<bdi>http://127.0.0.1:4000/cb</bdi>",
            ],
        ),
        ({"response_type": "token"}, ["The response_type must be code", "<bdi>token</bdi>"]),
        ({"code_challenge_method": None}, ["The parameter code_challenge_method is missing"]),
        ({"scope": "read:everything"}, ["Unknown scope", "<bdi>read:everything</bdi>"]),
    ],
)
def test_the_page_of_an_error_names_the_parameter_and_shows_what_came(
    visitor: Visitor, register: Register, changed: dict[str, str | None], displayed: list[str]
) -> None:
    application = register("http://127.0.0.1:3000/cb")

    page = visitor.get(application.authorize_path(**changed))

    assert page.status_code == 400
    for text in displayed:
        assert text in page.text
    assert "\u202e" not in page.text


def test_the_page_of_a_repeated_parameter_shows_each_value(
    visitor: Visitor, application: Application
) -> None:
    page = visitor.get(f"{application.authorize_path()}&redirect_uri=https://evil.example/")

    assert "The parameter redirect_uri is repeated" in page.text
    assert f"<bdi>{CALLBACK}</bdi>" in page.text
    assert "<bdi>https://evil.example/</bdi>" in page.text


def test_markup_in_the_name_of_a_parameter_is_text_on_the_page(
    visitor: Visitor, application: Application
) -> None:
    repeated = urlencode([("<b>name</b>", "1"), ("<b>name</b>", "2")])

    page = visitor.get(f"{application.authorize_path()}&{repeated}")

    assert page.status_code == 400
    assert "The parameter &lt;b&gt;name&lt;/b&gt; is repeated" in page.text


@pytest.mark.checklist(17, 22)
@pytest.mark.parametrize("state", ["+ & % é", "a+b%20c", "\r\nSet-Cookie: a=b", "=?#/", "💾" * 50])
def test_line_17_state_is_returned_byte_for_byte_and_iss_once(
    alice_browser: Visitor, application: Application, state: str
) -> None:
    page = alice_browser.follow(
        alice_browser.get(application.authorize_path(state=state, response_mode="query"))
    )
    allowed = alice_browser.submit(page, decision="allow")
    page = alice_browser.follow(alice_browser.get(application.authorize_path(state=state)))
    declined = alice_browser.submit(page, decision="decline")
    refused = alice_browser.get(application.authorize_path(state=state, response_type="token"))

    for response in (allowed, declined, refused):
        assert response.status_code == 303
        assert parameters(response)["state"] == [state]
        assert parameters(response)["iss"] == [ISSUER]
        assert response.headers["location"].count("iss=") == 1
        assert "set-cookie" not in response.headers


@pytest.mark.parametrize("state", [None, ""])
def test_without_state_the_response_has_no_state(
    alice_browser: Visitor, application: Application, state: str | None
) -> None:
    page = alice_browser.follow(alice_browser.get(application.authorize_path(state=state)))

    response = alice_browser.submit(page, decision="allow")

    assert parameters(response).keys() == {"code", "iss"}


@pytest.mark.checklist(18)
@pytest.mark.parametrize(
    "name",
    ["response_type", "scope", "state", "code_challenge", "code_challenge_method", "x"],
)
def test_line_18_a_repeated_parameter_is_refused(
    alice_browser: Visitor, allowed: Application, name: str
) -> None:
    path = f"{allowed.authorize_path()}&{name}=a&{name}=b"

    response = alice_browser.get(path)

    assert parameters(response)["error"] == ["invalid_request"]
    assert name in parameters(response)["error_description"][0]


@pytest.mark.checklist(18)
def test_line_18_an_unknown_parameter_is_ignored(
    alice_browser: Visitor, application: Application
) -> None:
    response = alice_browser.get(application.authorize_path(prompt="none", nonce="n"))

    assert response.headers["location"].startswith("/oauth/consent?request=")


@pytest.mark.checklist(20, 22)
def test_line_20_declining_is_access_denied(
    alice_browser: Visitor, application: Application
) -> None:
    page = alice_browser.follow(alice_browser.get(application.authorize_path()))

    response = alice_browser.submit(page, decision="decline")

    assert response.status_code == 303
    assert parameters(response) == {
        "error": ["access_denied"],
        "error_description": ["The user declined."],
        "state": ["xyz"],
        "iss": [ISSUER],
    }


@pytest.mark.checklist(21, 22)
def test_lines_21_and_22_no_other_origin_reads_or_frames_it(
    alice_browser: Visitor, application: Application
) -> None:
    origin = {"Origin": "https://evil.example"}
    responses = [
        alice_browser.get(application.authorize_path(), headers=origin),
        alice_browser.get(application.authorize_path(scope="nothing"), headers=origin),
        alice_browser.get(application.authorize_path(client_id="x"), headers=origin),
        alice_browser.post("/oauth/authorize", headers=origin),
    ]

    assert [response.status_code for response in responses] == [303, 400, 400, 405]
    for response in responses:
        assert "access-control-allow-origin" not in response.headers
        assert response.headers["x-frame-options"] == "DENY"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert response.headers["cache-control"] == "no-store"


@pytest.mark.checklist(25)
def test_line_25_the_query_of_the_redirect_uri_is_kept(
    register: Register, alice_browser: Visitor
) -> None:
    application = register("https://app.example/cb?tenant=a%2Fb&x")
    page = alice_browser.follow(alice_browser.get(application.authorize_path()))
    other = alice_browser.follow(alice_browser.get(application.authorize_path()))

    allowed = alice_browser.submit(page, decision="allow")
    declined = alice_browser.submit(other, decision="decline")
    refused = alice_browser.get(application.authorize_path(response_type="token"))

    kept = "https://app.example/cb?tenant=a%2Fb&x&"
    assert allowed.headers["location"].startswith(f"{kept}code=svc_ac_")
    assert declined.headers["location"].startswith(f"{kept}error=access_denied&")
    assert refused.headers["location"].startswith(f"{kept}error=unsupported_response_type&")


@pytest.mark.parametrize(
    ("registered", "granted"),
    [
        (None, "read:activity"),
        ("read:profile read:music", "read:music read:profile"),
    ],
)
def test_without_scope_the_registered_scopes_or_the_default_are_requested(
    register: Register, alice_browser: Visitor, registered: str | None, granted: str
) -> None:
    application = register(scope=registered)

    pair = application.pair(alice_browser, scope=None)

    assert pair["scope"] == granted


def test_a_request_may_have_more_scopes_than_the_registration(
    register: Register, alice_browser: Visitor
) -> None:
    application = register(scope="read:profile")

    pair = application.pair(alice_browser, scope="read:health")

    assert pair["scope"] == "read:health"


@pytest.mark.parametrize(
    ("state", "status"),
    [("s" * 4_096, 303), ("s" * 4_097, 400), ("é" * 2_049, 400), ("s" * 20_000, 400)],
)
def test_a_state_of_more_than_four_kibibytes_is_a_page(
    alice_browser: Visitor, application: Application, owner: Rows, state: str, status: int
) -> None:
    response = alice_browser.get(application.authorize_path(state=state))

    assert response.status_code == status
    stored = owner.execute("select count(*) from oauth.authorization_request").fetchone()
    assert stored == (int(status == 303),)


def test_an_address_without_sign_in_has_a_hundred_waiting_requests_and_a_person_their_own(
    server: TestClient, alice_browser: Visitor, application: Application, owner: Rows
) -> None:
    path = application.authorize_path()
    statuses = [Visitor(server).get(path).status_code for _ in range(100)]

    refused = Visitor(server).get(path)
    with_error = Visitor(server).get(application.authorize_path(response_type="token"))
    of_alice = [alice_browser.get(path).status_code for _ in range(101)]
    stored = owner.execute("select count(*) from oauth.authorization_request").fetchone()

    assert statuses == [303] * 100
    assert (refused.status_code, with_error.status_code) == (429, 429)
    assert int(refused.headers["retry-after"]) >= 1
    assert of_alice == [303] * 100 + [429]
    assert stored == (200,)


@pytest.mark.parametrize(
    ("mode", "destination"),
    [("no-cors", "image"), ("cors", "empty"), ("navigate", "iframe"), ("navigate", "object")],
)
def test_a_part_of_a_page_is_no_authorization_request(
    visitor: Visitor, application: Application, owner: Rows, mode: str, destination: str
) -> None:
    headers = {"Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": destination}
    stored = "select count(*) from oauth.authorization_request"
    counted = "select count(*), max(forgotten_at) from identity.throttle"
    before = owner.execute(counted).fetchone()

    refused = visitor.get(application.authorize_path(), headers=headers)

    assert refused.status_code == 400
    assert owner.execute(stored).fetchone() == (0,)
    assert owner.execute(counted).fetchone() == before
    headers = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert visitor.get(application.authorize_path(), headers=headers).status_code == 303
    assert owner.execute(stored).fetchone() == (1,)


def test_fifty_one_parameters_are_a_page(alice_browser: Visitor, application: Application) -> None:
    more = "".join(f"&p{n}=1" for n in range(44))

    response = alice_browser.get(application.authorize_path() + more)

    assert response.status_code == 400
    assert "location" not in response.headers


def test_the_issuer_does_not_follow_the_host_header(
    server: TestClient, alice_browser: Visitor, allowed: Application
) -> None:
    response = alice_browser.get(
        allowed.authorize_path(response_type="token"),
        headers={"X-Forwarded-Host": "evil.example", "Forwarded": "host=evil.example"},
    )

    assert parameters(response)["iss"] == [ISSUER]


def test_a_pending_request_is_stored_without_its_id(
    visitor: Visitor, application: Application, owner: psycopg.Connection[tuple[str]]
) -> None:
    response = visitor.get(application.authorize_path())

    request_id = response.headers["location"].partition("next=")[2]
    rows = owner.execute("select t::text from oauth.authorization_request as t").fetchall()
    assert len(rows) == 1
    assert request_id not in rows[0][0]

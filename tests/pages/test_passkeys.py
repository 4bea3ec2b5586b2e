"""Passkeys over HTTP: adding them, signing in and confirming with them, and every invalid response."""

import base64
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from httpx2 import Response
from starlette.testclient import TestClient

import authserver.app
from authserver.people import passkeys, sessions, throttle
from authserver.people.passwords import Hasher
from shared import tokens
from shared.settings import Settings
from tests.client import AppClient
from tests.conftest import Connect, Person
from tests.oauth.conftest import CHEAP, Welcome
from tests.oauth.visitor import Application, Visitor, forms
from tests.pages.authenticator import (
    PRESENT,
    VERIFIED,
    Authenticator,
    options,
)
from tests.people.test_throttle import turn_back
from tests.waiting import wait_for_rivals

Rows = psycopg.Connection[Any]
PAGE = "/settings/account/sign-in"
REFUSED = "This passkey was not accepted."
EXPIRED = "That took too long, or the page was out of date."
UNREADABLE = "What the browser sent could not be read."


def passkey_form(page: Response) -> int:
    """The index of the form for passkeys, which comes after all others of its action."""
    return max(
        number
        for number, form in enumerate(forms(page))
        if "credential" in [name for name, _ in form.fields]
    )


def send(visitor: Visitor, page: Response, credential: str | None, **fields: Any) -> Response:
    return visitor.submit(page, form=passkey_form(page), credential=credential, **fields)


def add(visitor: Visitor, name: str = "Phone", **properties: Any) -> Authenticator:
    authenticator = Authenticator(**properties)
    page = visitor.get(PAGE)
    response = send(visitor, page, authenticator.make(options(page)), name=name)
    assert response.headers.get("location") == f"{PAGE}?done=added", response.text
    return authenticator


def sign_in(visitor: Visitor, authenticator: Authenticator, path: str = "/sign-in") -> Response:
    page = visitor.get(path)
    return send(visitor, page, authenticator.sign(options(page)))


def events(owner: Rows) -> list[str]:
    found = owner.execute(
        "select event from identity.security_event order by occurred_at, event_id"
    )
    return [event for (event,) in found]


@pytest.fixture
def passkey(alice_browser: Visitor) -> Authenticator:
    """A passkey of alice's."""
    return add(alice_browser)


def test_a_passkey_is_added_under_its_name_and_recorded(
    alice_browser: Visitor, owner: Rows
) -> None:
    add(alice_browser, "Blue <b>phone</b>")

    page = alice_browser.get(f"{PAGE}?done=added")
    assert "<bdi>Blue &lt;b&gt;phone&lt;/b&gt;</bdi>" in page.text
    assert "The passkey is added." in page.text
    assert "not yet" in page.text
    assert events(owner) == ["passkey_added"]
    kept = owner.execute("select transports, sign_count from identity.passkey").fetchall()
    assert kept == [(["internal", "hybrid"], 0)]


def test_a_passkey_alone_signs_in(
    visitor: Visitor, passkey: Authenticator, alice_browser: Visitor, owner: Rows
) -> None:
    response = sign_in(visitor, passkey)

    assert response.status_code == 303
    assert response.headers["location"] == "/"
    assert "alice@example.org" in visitor.get("/settings").text
    assert events(owner) == ["passkey_added", "signed_in"]
    assert owner.execute("select sign_count from identity.passkey").fetchone() == (1,)
    assert "not yet" not in alice_browser.get(PAGE).text


def test_sign_in_with_a_passkey_continues_to_the_pending_request(
    visitor: Visitor, passkey: Authenticator, application: Application
) -> None:
    page = visitor.follow(visitor.get(application.authorize_path()))

    response = send(visitor, page, passkey.sign(options(page)))

    assert response.headers["location"].startswith("/oauth/consent?request=")
    assert visitor.follow(response).status_code == 200


def test_the_browser_gets_a_new_session(visitor: Visitor, passkey: Authenticator) -> None:
    visitor.get("/sign-in")
    before = dict(visitor.cookies)

    sign_in(visitor, passkey)

    assert visitor.cookies != before


def test_an_authenticator_without_a_counter_signs_in_repeatedly(
    visitor: Visitor, alice_browser: Visitor
) -> None:
    authenticator = add(alice_browser, step=0)

    assert sign_in(visitor, authenticator).status_code == 303
    assert sign_in(Visitor(visitor.client), authenticator).status_code == 303


@pytest.mark.parametrize("count", [0, 2])
def test_a_counter_that_does_not_increase_is_refused_and_recorded(
    visitor: Visitor, passkey: Authenticator, owner: Rows, count: int
) -> None:
    copied = Authenticator(
        key=passkey.key,
        credential_id=passkey.credential_id,
        user_handle=passkey.user_handle,
        count=count,
    )
    for _ in range(3):
        sign_in(Visitor(visitor.client), passkey)

    response = sign_in(visitor, copied)

    assert response.status_code == 400
    assert REFUSED in response.text
    assert visitor.get("/settings").status_code == 303
    assert events(owner)[-2:] == ["passkey_refused", "sign_in_failed"]


def test_a_replayed_response_is_refused(
    visitor: Visitor, alice_browser: Visitor, owner: Rows
) -> None:
    # Without a counter, so that only the challenge can reveal the replay.
    authenticator = add(alice_browser, step=0)
    page = visitor.get("/sign-in")
    answer = authenticator.sign(options(page))
    stranger = Visitor(visitor.client, dict(visitor.cookies))

    first = send(visitor, page, answer)
    again = send(stranger, page, answer)

    assert first.status_code == 303
    assert again.status_code == 400
    assert REFUSED in again.text
    assert owner.execute("select count(*) from identity.session").fetchone() == (2,)


def test_of_eight_concurrent_uses_of_a_response_one_signs_in(
    visitor: Visitor, alice_browser: Visitor, owner: Rows
) -> None:
    authenticator = add(alice_browser, step=0)
    page = visitor.get("/sign-in")
    answer = authenticator.sign(options(page))
    rivals = [Visitor(visitor.client, dict(visitor.cookies)) for _ in range(8)]

    with ThreadPoolExecutor(8) as at_once:
        found = list(at_once.map(lambda rival: send(rival, page, answer).status_code, rivals))

    assert sorted(found) == [303] + [400] * 7
    assert owner.execute("select count(*) from identity.session").fetchone() == (2,)


def test_a_response_of_another_browser_is_refused(visitor: Visitor, passkey: Authenticator) -> None:
    stranger = Visitor(visitor.client)
    answer = passkey.sign(options(stranger.get("/sign-in")))

    response = send(visitor, visitor.get("/sign-in"), answer)

    assert response.status_code == 400
    assert EXPIRED in response.text


Answer = Callable[[Authenticator, dict[str, Any]], str]


@pytest.mark.parametrize(
    "answer",
    [
        lambda key, asked: key.sign(asked, origin="http://localhost:8401"),
        lambda key, asked: key.sign(asked, origin="https://localhost:8400"),
        lambda key, asked: key.sign(asked, origin="https://evil.example"),
        lambda key, asked: key.sign(asked, origin="http://localhost:8400.evil.example"),
        lambda key, asked: key.sign(asked, rp_id="evil.example"),
        lambda key, asked: key.sign(asked, flags=PRESENT),
        lambda key, asked: key.sign(asked, flags=VERIFIED),
        lambda key, asked: key.sign(asked, client_data={"type": "webauthn.create"}),
        lambda key, asked: key.sign(asked, client_data={"crossOrigin": True}),
        lambda key, asked: key.sign(asked, user_handle=b""),
        lambda key, asked: key.sign(asked, user_handle=bytes(16)),
        lambda key, asked: key.sign(asked, user_handle=bytes(64)),
        lambda key, asked: Authenticator(
            credential_id=key.credential_id, user_handle=key.user_handle
        ).sign(asked),
        lambda key, asked: Authenticator(key=key.key, user_handle=key.user_handle).sign(asked),
    ],
    ids=[
        "another port",
        "another scheme",
        "another origin",
        "an origin that begins alike",
        "another relying party",
        "nobody verified",
        "nobody present",
        "an answer to something else",
        "in a frame",
        "no user",
        "an unknown user",
        "a user of another shape",
        "another key",
        "another credential",
    ],
)
def test_a_response_that_does_not_match_is_refused(
    visitor: Visitor, passkey: Authenticator, answer: Answer
) -> None:
    page = visitor.get("/sign-in")

    response = send(visitor, page, answer(passkey, options(page)))

    assert response.status_code == 400
    assert REFUSED in response.text
    assert visitor.get("/settings").status_code == 303


def test_a_passkey_signs_in_only_to_its_own_account(
    visitor: Visitor, passkey: Authenticator, bob: Person, welcome: Welcome
) -> None:
    add(welcome(bob))
    page = visitor.get("/sign-in")

    response = send(visitor, page, passkey.sign(options(page), user_handle=bob.user_id.bytes))

    assert response.status_code == 400
    assert visitor.get("/settings").status_code == 303


@pytest.mark.parametrize(
    ("purpose", "lifetime", "refusal"),
    [
        ("sign in", timedelta(minutes=10), None),
        ("sign in", timedelta(0), EXPIRED),
        ("confirm", timedelta(minutes=10), EXPIRED),
        ("add", timedelta(minutes=10), EXPIRED),
    ],
)
def test_a_challenge_is_valid_for_its_purpose_and_for_ten_minutes(
    visitor: Visitor,
    passkey: Authenticator,
    settings: Settings,
    purpose: passkeys.Purpose,
    lifetime: timedelta,
    refusal: str | None,
) -> None:
    page = visitor.get("/sign-in")
    signer = sessions.signer(settings)
    session, _, signature = visitor.cookies[signer.cookie_name].rpartition(".")
    token = tokens.parse(tokens.SESSION, session)
    assert token is not None
    text = passkeys.new_challenge(signer, token, purpose, lifetime)
    asked = options(page) | {"challenge": base64.urlsafe_b64encode(text.encode()).decode()}

    response = send(visitor, page, passkey.sign(asked))

    assert signature
    assert response.status_code == (303 if refusal is None else 400)
    assert refusal is None or refusal in response.text


def test_a_forged_challenge_is_refused(visitor: Visitor, passkey: Authenticator) -> None:
    page = visitor.get("/sign-in")
    good = options(page)["challenge"]

    for challenge in ("", "YQ", good[:-8] + "AAAAAAAA", "é", "4pyT", "Li4", "A" * 5000):
        asked = options(page) | {"challenge": challenge}
        response = send(visitor, page, passkey.sign(asked))

        assert response.status_code in (400, 429), challenge
    assert visitor.get("/settings").status_code == 303


NESTED = "[" * 3000
MALFORMED = [
    "x",
    "null",
    "[]",
    "{}",
    "3",
    '"' + "a" * 20_000 + '"',
    NESTED,
    '{"id": 1, "rawId": 2, "type": 3, "response": 4}',
    '{"id": "a", "rawId": "a", "type": "public-key", "response": {}}',
    '{"id": "a", "rawId": "a", "type": "public-key", "response": {"clientDataJSON": null}}',
    "{" + '"a":' * 10,
    "\U0001f4a9",
    '{"id": NaN}',
]


def damaged(answer: str) -> list[str]:
    """Return valid responses, each with one malformed member."""
    results = []
    odd: tuple[Any, ...] = (None, 7, "", "*", "é", [], {}, "AAAA", "A" * 15_000)
    for member in ("id", "rawId", "type", "response"):
        results += [json.dumps(json.loads(answer) | {member: value}) for value in odd]
    for member in json.loads(answer)["response"]:
        for value in odd:
            given = json.loads(answer)
            given["response"][member] = value
            results.append(json.dumps(given))
    for value in (b"[" * 9000, b"{}", b"\xff", b"null", b'{"type":[],"challenge":{},"origin":0}'):
        given = json.loads(answer)
        given["response"]["clientDataJSON"] = base64.urlsafe_b64encode(value).decode()
        results.append(json.dumps(given))
    return results


def test_sign_ins_with_a_passkey_are_counted_by_person(
    visitor: Visitor, passkey: Authenticator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttle, "_FREE_SIGN_INS", 1)

    statuses = [sign_in(Visitor(visitor.client), passkey).status_code for _ in range(2)]

    assert statuses == [303, 429]


def test_malformed_responses_at_sign_in_get_a_page_with_a_message(
    visitor: Visitor, passkey: Authenticator, owner: Rows
) -> None:
    page = visitor.get("/sign-in")
    harmless = 0

    for answer in MALFORMED + damaged(passkey.sign(options(page))):
        owner.execute("delete from identity.throttle")
        response = send(visitor, page, answer)

        assert response.status_code in (400, 303), answer[:200]
        if response.status_code == 400:
            assert 'role="alert"' in response.text
        else:
            # An optional member.
            harmless += 1
            visitor = Visitor(visitor.client)
            page = visitor.get("/sign-in")
    assert harmless == 0


def test_malformed_responses_when_adding_get_a_page_with_a_message(
    alice_browser: Visitor, owner: Rows
) -> None:
    page = alice_browser.get(PAGE)
    good = Authenticator().make(options(page))
    attested = []
    for data in (b"\xff", b"\x9f" * 9000, b"\x81" * 9000, b"\xbf", b"\xa0", b"\xa1\x63fmt\x01"):
        given = json.loads(good)
        given["response"]["attestationObject"] = base64.urlsafe_b64encode(data).decode()
        attested.append(json.dumps(given))

    for answer in MALFORMED + attested + damaged(good):
        if '"transports"' in answer and '["internal", "hybrid"]' not in answer:
            continue
        response = send(alice_browser, page, answer, name="Phone")

        assert response.status_code == 400, answer[:200]
        assert 'role="alert"' in response.text
        assert 'value="Phone"' in response.text
    assert owner.execute("select count(*) from identity.passkey").fetchone() == (0,)


def test_a_credential_id_that_is_too_long_is_refused(alice_browser: Visitor) -> None:
    page = alice_browser.get(PAGE)
    authenticator = Authenticator(credential_id=b"x" * 1024)

    response = send(alice_browser, page, authenticator.make(options(page)), name="Phone")

    assert response.status_code == 400
    assert UNREADABLE in response.text


@pytest.mark.parametrize(
    "properties",
    [
        {"origin": "http://localhost:8401"},
        {"origin": "https://evil.example"},
        {"flags": PRESENT},
        {"flags": VERIFIED},
    ],
)
def test_a_response_that_does_not_match_is_not_added(
    alice_browser: Visitor, owner: Rows, properties: Any
) -> None:
    page = alice_browser.get(PAGE)

    response = send(
        alice_browser, page, Authenticator().make(options(page), **properties), name="Phone"
    )

    assert response.status_code == 400
    assert owner.execute("select count(*) from identity.passkey").fetchone() == (0,)


def test_one_response_adds_one_passkey(alice_browser: Visitor, owner: Rows) -> None:
    page = alice_browser.get(PAGE)
    answer = Authenticator().make(options(page))

    first = send(alice_browser, page, answer, name="Phone")
    owner.execute("delete from identity.passkey")
    again = send(alice_browser, page, answer, name="Phone")

    assert first.status_code == 303
    assert again.status_code == 400
    assert "was not added" in again.text
    assert owner.execute("select count(*) from identity.passkey").fetchone() == (0,)


def test_the_same_passkey_is_not_added_twice(
    alice_browser: Visitor, passkey: Authenticator
) -> None:
    page = alice_browser.get(PAGE)

    response = send(alice_browser, page, passkey.make(options(page)), name="Again")

    assert response.status_code == 400
    assert "Perhaps you have it already" in response.text
    excluded = options(page)["excludeCredentials"]
    assert [each["transports"] for each in excluded] == [["internal", "hybrid"]]


def test_an_account_has_at_most_twenty_passkeys(
    alice_browser: Visitor, alice: Person, owner: Rows
) -> None:
    page = alice_browser.get(PAGE)
    owner.execute(
        """
        insert into identity.passkey (user_id, credential_id, public_key, sign_count, name)
        select %s, n::text::bytea, 'k', 0, 'n' from generate_series(1, 20) as n
        """,
        [alice.user_id],
    )

    response = send(alice_browser, page, Authenticator().make(options(page)), name="One more")

    assert response.status_code == 400
    assert "data-options" not in response.text
    assert "You have the maximum number of passkeys." in response.text


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "Give it a name."),
        ("  ", "Give it a name."),
        ("n" * 101, "at most 100 characters"),
        ("n" * 10_000, "at most 100 characters"),
        ("photo\u202egnp.exe", "cannot be seen"),
    ],
)
def test_an_unacceptable_name_is_reported_beside_its_field(
    alice_browser: Visitor, owner: Rows, name: str, problem: str
) -> None:
    page = alice_browser.get(PAGE)

    response = send(alice_browser, page, Authenticator().make(options(page)), name=name)

    assert response.status_code == 400
    assert problem in response.text
    assert 'aria-describedby="name-problem' in response.text
    assert f'value="{name.strip()}"' in response.text
    assert owner.execute("select count(*) from identity.passkey").fetchone() == (0,)


def test_failed_responses_delay_their_address_and_no_account(
    visitor: Visitor, passkey: Authenticator, owner: Rows
) -> None:
    page = visitor.get("/sign-in")

    found = [send(visitor, page, "x").status_code for _ in range(20)]
    turn_back(owner)
    refused = sign_in(visitor, passkey)
    password = visitor.submit(
        visitor.get("/sign-in"), email="alice@example.org", password="an owl reads under the lamp"
    )

    assert found == [400] * 20
    assert refused.status_code == 429
    assert "Too many attempts with passkeys" in refused.text
    assert int(refused.headers["retry-after"]) >= 1
    assert password.status_code == 303


def test_accepted_responses_are_not_counted(visitor: Visitor, passkey: Authenticator) -> None:
    found = [sign_in(Visitor(visitor.client), passkey).status_code for _ in range(25)]

    assert found == [303] * 25


def test_the_sign_in_page_does_not_reveal_passkeys(
    visitor: Visitor, passkey: Authenticator, server: TestClient
) -> None:
    asked = options(visitor.get("/sign-in"))

    assert asked["allowCredentials"] == []
    assert asked["userVerification"] == "required"
    assert asked["rpId"] == "localhost"


def test_a_removed_passkey_is_refused(
    visitor: Visitor, passkey: Authenticator, owner: Rows
) -> None:
    page = visitor.get("/sign-in")
    owner.execute("delete from identity.passkey")

    response = send(visitor, page, passkey.sign(options(page)))

    assert response.status_code == 400
    assert visitor.get("/settings").status_code == 303


def test_a_sign_in_in_progress_ends_with_all_sessions(
    visitor: Visitor, passkey: Authenticator, owner: Rows, connect_as: Connect
) -> None:
    page = visitor.get("/sign-in")
    answer = passkey.sign(options(page))
    other = connect_as("authserver")

    with ThreadPoolExecutor(1) as beside:
        with other.transaction():
            other.execute("update identity.user set signed_out_at = now()")
            other.execute("delete from identity.session")
            under_way = beside.submit(send, visitor, page, answer)
            wait_for_rivals(owner, 1)
        response = under_way.result()

    assert response.status_code == 400
    assert owner.execute("select count(*) from identity.session").fetchone() == (0,)


@pytest.mark.parametrize("origin", ["http://127.0.0.1:8400", "https://[2001:db8::1]"])
def test_passkeys_are_not_offered_if_the_host_is_an_ip_address(
    alice_browser: Visitor,
    passkey: Authenticator,
    alice: Person,
    settings: Settings,
    owner: Rows,
    origin: str,
) -> None:
    chosen = replace(settings, auth_url=origin)
    (cookie,) = alice_browser.cookies.values()
    name = sessions.signer(chosen).cookie_name
    app = authserver.app.create(chosen, hasher=Hasher(CHEAP))

    with AppClient(app, origin, raise_server_exceptions=False) as client:
        browser = Visitor(client, {name: cookie})
        sign_in_page = Visitor(client).get("/sign-in")
        methods = browser.get(PAGE)
        owner.execute("update identity.session set authenticated_at = now() - interval '1 hour'")
        confirm = browser.get(f"/confirm?next={PAGE}")

    for page in (sign_in_page, methods, confirm):
        assert page.status_code == 200
        assert "data-passkey" not in page.text
        assert "passkey.js" not in page.text
    assert "passkey" not in sign_in_page.text
    assert "the address of this service is a number" in methods.text
    assert "maximum number of passkeys" not in methods.text
    # One that was added under another address is still listed, and can be removed.
    assert "<bdi>Phone</bdi>" in methods.text
    assert "Remove this passkey" in methods.text


def test_with_a_host_name_the_hint_about_addresses_is_missing(alice_browser: Visitor) -> None:
    page = alice_browser.get(PAGE)

    assert "data-passkey" in page.text
    assert "passkey.js" in page.text
    assert "address of this service is a number" not in page.text

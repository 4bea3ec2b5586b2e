"""Signing in and out, sessions and their cookies; checklist lines 56 (text) and 57.

How wrong passwords are slowed down is in ``test_throttle.py``.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.cookies import SimpleCookie
from typing import Any, Literal
from uuid import UUID

import psycopg
import pytest
from argon2 import PasswordHasher
from httpx2 import Response
from starlette.requests import Request
from starlette.testclient import TestClient

import authserver.app
from authserver.pages import sign_in
from authserver.people import passwords, sessions, throttle
from authserver.people.passwords import Hasher
from shared import tokens
from shared.settings import Settings
from tests.cli.terminal import Terminal
from tests.client import AppClient
from tests.conftest import Connect, Person
from tests.oauth.conftest import CHEAP, PASSWORD, Welcome
from tests.oauth.visitor import Application, Visitor, forms, parameters
from tests.waiting import wait_for_rivals

Rows = psycopg.Connection[Any]


@pytest.fixture
def alice_has_a_password(alice: Person, welcome: Welcome) -> Person:
    """Alice, with PASSWORD, signed in somewhere else."""
    welcome(alice)
    return alice


def enter(visitor: Visitor, email: str, password: str, path: str = "/sign-in") -> Response:
    return visitor.submit(visitor.get(path), email=email, password=password)


def test_the_correct_password_signs_in(visitor: Visitor, alice_has_a_password: Person) -> None:
    response = enter(visitor, "alice@example.org", PASSWORD)

    assert response.status_code == 303
    assert response.headers["location"] == "/"
    assert "alice@example.org" in visitor.get("/settings").text


def test_sign_ins_that_succeed_are_counted_by_person(
    visitor: Visitor, alice_has_a_password: Person, owner: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttle, "_FREE_SIGN_INS", 2)
    owner.execute("delete from identity.security_event")

    statuses = [
        enter(Visitor(visitor.client), "alice@example.org", PASSWORD).status_code for _ in range(2)
    ]
    refused = enter(Visitor(visitor.client), "alice@example.org", PASSWORD)
    owner.execute("update identity.throttle set delayed_until = null")
    later = enter(Visitor(visitor.client), "alice@example.org", PASSWORD)

    assert statuses == [303, 303]
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert later.status_code == 303
    recorded = owner.execute("select event, count(*) from identity.security_event group by event")
    assert recorded.fetchall() == [("signed_in", 3)]


def test_letter_case_and_spaces_around_an_address_do_not_matter(
    visitor: Visitor, alice_has_a_password: Person
) -> None:
    assert enter(visitor, " Alice@Example.ORG ", PASSWORD).status_code == 303


@pytest.mark.checklist(56)
def test_line_56_wrong_password_and_unknown_user_get_the_same_page(
    visitor: Visitor, alice_has_a_password: Person, bob: Person
) -> None:
    def page(email: str, password: str) -> tuple[int, str]:
        response = enter(visitor, email, password)
        # Each page has a challenge of its own for passkeys.
        text = re.sub(r'data-options="[^"]+"', "", response.text)
        return response.status_code, text.replace(email, "EMAIL")

    wrong = page("alice@example.org", "not the password")

    assert wrong[0] == 400
    assert "That did not work." in wrong[1]
    assert page("nobody@example.org", PASSWORD) == wrong
    assert page("bob@example.org", PASSWORD) == wrong
    assert page("alice@example.org", "p" * 1025) == wrong
    assert page("älice@example.org", PASSWORD) == wrong


@pytest.mark.parametrize(
    ("email", "password"), [("", PASSWORD), ("alice@example.org", ""), ("", "")]
)
def test_an_empty_field_signs_nobody_in(
    visitor: Visitor, alice_has_a_password: Person, email: str, password: str
) -> None:
    response = enter(visitor, email, password)

    assert response.status_code == 400
    assert visitor.get("/settings").status_code == 303


def test_the_form_keeps_the_typed_address_but_never_the_password(visitor: Visitor) -> None:
    response = enter(visitor, 'x"><b>@example.org', "hunter2 hunter2 hunter2")

    assert "x&#34;&gt;&lt;b&gt;@example.org" in response.text
    assert "hunter2" not in response.text


def test_a_password_hash_with_old_parameters_is_renewed(
    visitor: Visitor, alice: Person, owner: Rows
) -> None:
    weak = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1).hash(PASSWORD)
    owner.execute("insert into identity.password values (%s, %s)", [alice.user_id, weak])

    first = enter(visitor, "alice@example.org", PASSWORD)
    stored = owner.execute("select password_hash from identity.password").fetchone()
    second = enter(Visitor(visitor.client), "alice@example.org", PASSWORD)

    assert first.status_code == 303
    assert stored is not None
    assert stored[0].startswith("$argon2id$")
    assert stored[0] != weak
    assert second.status_code == 303


def test_the_cookies_are_out_of_reach_of_scripts_and_other_sites(
    visitor: Visitor, alice_has_a_password: Person
) -> None:
    response = enter(visitor, "alice@example.org", PASSWORD)

    lifetimes = {}
    for header in response.headers.get_list("set-cookie"):
        for name, cookie in SimpleCookie(header).items():
            assert cookie["httponly"] is True
            assert cookie["samesite"] == "lax"
            assert cookie["path"] == "/"
            assert cookie["domain"] == ""
            assert cookie["secure"] == ""
            lifetimes[name] = cookie["max-age"]
    assert lifetimes == {"svc_session": "2592000", "svc_known": "7776000"}


def test_a_browser_keeps_its_known_id_when_its_cookies_are_renewed(
    visitor: Visitor, alice_has_a_password: Person, owner: Rows
) -> None:
    enter(visitor, "alice@example.org", PASSWORD)
    first = visitor.cookies["svc_known"]
    owner.execute("update identity.session set seen_at = now() - interval '2 hours'")

    visitor.get("/settings")

    renewed = visitor.cookies["svc_known"]
    assert renewed != first
    assert renewed.partition("-")[0] == first.partition("-")[0]


@pytest.fixture
def https(settings: Settings) -> Iterator[TestClient]:
    """The same server as people reach it over https."""
    app = authserver.app.create(replace(settings, auth_url="https://auth.example"))
    with AppClient(app, "https://auth.example") as client:
        yield client


def test_over_https_the_cookie_is_limited_to_this_host(https: TestClient) -> None:
    response = https.get("/sign-in")

    name, _, rest = response.headers["set-cookie"].partition("=")
    assert name == "__Host-svc_session"
    assert "; Secure" in rest
    assert "; Path=/" in rest
    assert "omain" not in rest


def test_signing_in_gives_the_browser_a_new_session(
    visitor: Visitor, alice_has_a_password: Person
) -> None:
    visitor.get("/sign-in")
    planted = visitor.cookies["svc_session"]
    enter(visitor, "alice@example.org", PASSWORD)

    victim = Visitor(visitor.client, {"svc_session": planted})

    assert visitor.cookies["svc_session"] != planted
    assert victim.get("/settings").status_code == 303


def test_the_database_stores_only_the_hash_of_a_session(
    visitor: Visitor, alice_has_a_password: Person, owner: Rows
) -> None:
    enter(visitor, "alice@example.org", PASSWORD)

    text = visitor.cookies["svc_session"].rpartition(".")[0]
    stored = str(owner.execute("select s::text from identity.session as s").fetchall())
    token = tokens.parse(tokens.SESSION, text)
    assert token is not None
    assert token.hash.hex() in stored
    assert text[7:-6] not in stored


@pytest.mark.parametrize("change", ["unsigned", "bad signature", "other user", "no ASCII", "long"])
def test_a_forged_cookie_is_an_anonymous_session(
    alice_browser: Visitor, bob: Person, change: str
) -> None:
    good = alice_browser.cookies["svc_session"]
    text, _, signature = good.rpartition(".")
    forged = {
        "unsigned": text,
        "bad signature": f"{text}.{'A' if signature[0] != 'A' else 'B'}{signature[1:]}",
        "other user": f"{tokens.mint(tokens.SESSION, bob.user_id).text}.{signature}",
        "no ASCII": f"{text}.\u00e9",
        "long": f"{text}.{'A' * 5000}",
    }[change]

    response = Visitor(alice_browser.client).get(
        "/", headers={"Cookie": f"svc_session={forged}".encode()}
    )

    assert response.status_code == 303
    assert response.headers["location"] == "/sign-in"


def test_a_signed_cookie_without_a_session_is_anonymous(
    alice_browser: Visitor, owner: Rows
) -> None:
    owner.execute("delete from identity.session")

    assert alice_browser.get("/").headers["location"] == "/sign-in"


def test_a_session_ends_after_thirty_idle_days(alice_browser: Visitor, owner: Rows) -> None:
    owner.execute("update identity.session set seen_at = now() - interval '29 days 23 hours'")
    before = alice_browser.get("/settings")
    refreshed = owner.execute("select seen_at > now() - interval '1 minute' from identity.session")
    is_refreshed = refreshed.fetchone()
    owner.execute("update identity.session set seen_at = now() - interval '30 days 1 second'")

    after = alice_browser.get("/settings")

    assert before.status_code == 200
    assert "Max-Age=2592000" in before.headers["set-cookie"]
    assert is_refreshed == (True,)
    assert after.status_code == 303


def test_a_second_page_view_within_an_hour_writes_nothing(
    alice_browser: Visitor, owner: Rows
) -> None:
    before = owner.execute("select xmin::text, seen_at from identity.session").fetchall()

    response = alice_browser.get("/settings")

    assert "set-cookie" not in response.headers
    assert owner.execute("select xmin::text, seen_at from identity.session").fetchall() == before


def test_signing_out_ends_the_session_permanently(alice_browser: Visitor, owner: Rows) -> None:
    stolen = dict(alice_browser.cookies)

    response = alice_browser.submit(alice_browser.get("/settings"))

    assert response.headers["location"] == "/sign-in?done=signed-out"
    assert alice_browser.get("/settings").status_code == 303
    assert Visitor(alice_browser.client, stolen).get("/settings").status_code == 303
    assert owner.execute("select count(*) from identity.session").fetchone() == (0,)


@pytest.mark.parametrize("path", ["/sign-out", "/oauth/consent", "/join"])
def test_a_form_without_its_token_does_nothing(alice_browser: Visitor, path: str) -> None:
    link = tokens.mint(tokens.LINK, tokens.NOBODY).text
    request = tokens.mint(tokens.REQUEST, tokens.NOBODY).text

    response = alice_browser.post(path, {"link": link, "request": request, "decision": "allow"})

    assert response.status_code == 403
    assert "set-cookie" not in response.headers
    assert alice_browser.get("/settings").status_code == 200


def test_signing_in_needs_the_forms_token(visitor: Visitor, alice_has_a_password: Person) -> None:
    page = visitor.get("/sign-in")

    response = visitor.submit(page, email="alice@example.org", password=PASSWORD, csrf="x" * 43)

    assert response.status_code == 403
    assert "Please try again" in response.text
    assert visitor.submit(response, email="alice@example.org", password=PASSWORD).status_code == 303


def test_another_site_can_neither_sign_in_nor_touch_the_cookie(
    visitor: Visitor, alice_has_a_password: Person
) -> None:
    page = visitor.get("/sign-in")
    fields = dict(forms(page)[0].fields) | {"email": "alice@example.org", "password": PASSWORD}

    response = Visitor(visitor.client).post(
        "/sign-in",
        fields,
        headers={"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"},
    )

    assert response.status_code == 403
    assert "set-cookie" not in response.headers


def test_a_second_tab_that_signs_in_later_continues(
    visitor: Visitor, application: Application, alice_has_a_password: Person
) -> None:
    one = visitor.follow(visitor.get(application.authorize_path(state="1")))
    other = visitor.follow(visitor.get(application.authorize_path(state="2")))
    first = visitor.submit(one, email="alice@example.org", password=PASSWORD)

    second = visitor.submit(other, email="alice@example.org", password="whatever it is")

    for response, state in ((second, "2"), (first, "1")):
        consent = visitor.follow(response)
        assert consent.status_code == 200
        assert parameters(visitor.submit(consent, decision="allow"))["state"] == [state]


def test_a_person_signs_in_consents_and_the_client_gets_a_code(
    visitor: Visitor, application: Application, alice_has_a_password: Person
) -> None:
    sign_in_page = visitor.follow(visitor.get(application.authorize_path()))
    signed_in = visitor.submit(sign_in_page, email="alice@example.org", password=PASSWORD)
    consent = visitor.follow(signed_in)
    answer = visitor.submit(consent, decision="allow")

    assert "An application asks for access" in sign_in_page.text
    assert application.exchange(parameters(answer)["code"][0]).status_code == 200


@pytest.mark.checklist(17, 22)
def test_a_strangers_error_goes_to_the_client_after_sign_in(
    visitor: Visitor, application: Application, alice_has_a_password: Person
) -> None:
    refusal = visitor.get(application.authorize_path(scope="read:everything", state="+ & % é"))
    link = refusal.text.partition('href="/sign-in?next=')[2].partition('"')[0]
    signed_in = enter(visitor, "alice@example.org", PASSWORD, f"/sign-in?next={link}")

    response = visitor.follow(signed_in)

    assert response.status_code == 303
    assert response.headers["location"].startswith(
        "https://app.example/callback?error=invalid_scope&"
    )
    assert parameters(response)["state"] == ["+ & % é"]
    assert parameters(response)["iss"] == ["http://localhost:8400"]


def test_use_another_account_keeps_the_pending_request(
    alice_browser: Visitor,
    application: Application,
    welcome: Welcome,
    bob: Person,
) -> None:
    welcome(bob)
    page = alice_browser.follow(alice_browser.get(application.authorize_path()))

    signed_out = alice_browser.submit(page, form=1)
    signed_in = alice_browser.submit(
        alice_browser.follow(signed_out), email="bob@example.org", password=PASSWORD
    )
    consent = alice_browser.follow(signed_in)

    assert "bob@example.org" in consent.text
    assert "alice@example.org" not in consent.text
    assert "code" in parameters(alice_browser.submit(consent, decision="allow"))


@pytest.mark.checklist(57)
@pytest.mark.parametrize(
    "going_to",
    [
        "//evil.example",
        "https:evil.example",
        "https://evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "%2f%2fevil.example",
        "/%2f%2fevil.example",
        "\t//evil.example",
        "javascript:alert(1)",
        "/oauth/consent?request=x",
        "svc_rq_x",
        "/..//evil.example",
        "/\r\nLocation: https://evil.example",
    ],
)
def test_line_57_next_never_leaves_the_service(
    visitor: Visitor, alice_has_a_password: Person, alice_browser: Visitor, going_to: str
) -> None:
    page = visitor.get("/sign-in", params={"next": going_to})
    response = visitor.submit(page, email="alice@example.org", password=PASSWORD)
    already = alice_browser.get("/sign-in", params={"next": going_to})
    late = alice_browser.submit(page, email="", password="", next=going_to)

    assert sign_in.next_path(going_to) == "/"
    for each in (response, already, late):
        assert each.status_code == 303
        assert each.headers["location"] == "/"
    assert "evil" not in page.text


@pytest.mark.checklist(57)
@pytest.mark.parametrize("going_to", ["//evil.example", "https:evil.example", "/\\evil.example"])
def test_line_57_signing_out_never_leaves_the_service(
    alice_browser: Visitor, settings: Settings, going_to: str
) -> None:
    session = tokens.parse(tokens.SESSION, alice_browser.cookies["svc_session"].rpartition(".")[0])
    assert session is not None
    good = sessions.signer(settings).form_token(session, going_to)

    response = alice_browser.post("/sign-out", {"next": going_to, "csrf": good})

    assert response.status_code == 303
    assert response.headers["location"] == "/sign-in?done=signed-out"


@pytest.mark.checklist(57)
def test_a_request_id_with_a_forged_checksum_is_dropped() -> None:
    honest = tokens.mint(tokens.REQUEST, tokens.NOBODY)
    body = honest.text[:29] + "&x=//evil.example\r\n" + "0" * 24
    forged = body + tokens._checksum(body)

    assert sign_in.next_path(honest.text) == f"/oauth/consent?request={honest.text}"
    assert sign_in.next_path(forged) == "/"


COSTLY = 'a="' + "\\" * 120_000 + '"'
"""A cookie whose quotes would take the standard library most of a minute to undo."""


@pytest.mark.parametrize(
    "cookies",
    [
        "svc_session={}",
        "svc_session={}; other=1",
        "other=1;svc_session={}",
        " other ; ;=;svc_session={} ;",
        "svc_session=x; svc_session={}",
        'a="\\073; svc_session={}',
    ],
)
def test_the_session_is_found_among_other_cookies(
    settings: Settings, alice: Person, cookies: str
) -> None:
    assert in_cookies(settings, alice, cookies) == alice.user_id


@pytest.mark.parametrize(
    "cookies",
    [
        'svc_session="{}"',
        "SVC_SESSION={}",
        "xsvc_session={}",
        "svc_session ={}",
        'a="; svc_session=x{}"',
        f"{COSTLY}; svc_session={{}}",
        f"svc_session={{}}; {COSTLY}",
        "",
    ],
)
def test_cookies_are_read_without_unquoting(
    settings: Settings, alice: Person, cookies: str
) -> None:
    assert in_cookies(settings, alice, cookies) is None


def in_cookies(settings: Settings, person: Person, cookies: str) -> UUID | None:
    """Return the person whose session is read from a header with a valid one of ``person`` at {}."""
    signer = sessions.signer(settings)
    text = signer.cookies.sign(tokens.mint(tokens.SESSION, person.user_id).text).decode()
    header = (b"cookie", cookies.replace("{}", text).encode())

    session = signer.session_in(Request({"type": "http", "headers": [header]}))

    return None if session is None else session.user_id


class CountingHasher(PasswordHasher):
    """The real hasher, which counts its verifications."""

    def __init__(self) -> None:
        super().__init__(
            CHEAP.time_cost, CHEAP.memory_cost, CHEAP.parallelism, CHEAP.hash_len, CHEAP.salt_len
        )
        self.verified = 0

    def verify(self, *given: str | bytes) -> Literal[True]:
        self.verified += 1
        return super().verify(*given)


@pytest.mark.parametrize(
    "end",
    ["user set-password alice@example.org --password-stdin", "session revoke alice@example.org"],
)
@pytest.mark.parametrize(("is_sign_in_first", "status"), [(True, 303), (False, 400)])
def test_a_sign_in_that_began_before_all_sessions_were_ended_does_not_complete(
    visitor: Visitor,
    alice_has_a_password: Person,
    owner: Rows,
    connect_as: Connect,
    terminal: Terminal,
    end: str,
    is_sign_in_first: bool,
    status: int,
) -> None:
    page = visitor.get("/sign-in")

    def sign_in_now() -> int:
        return visitor.submit(page, email="alice@example.org", password=PASSWORD).status_code

    def end_all() -> int:
        return terminal.run(end, "seven green herons wade").exit_code

    rivals = (sign_in_now, end_all) if is_sign_in_first else (end_all, sign_in_now)
    with ThreadPoolExecutor(2) as threads:
        other = connect_as("authserver")
        with other.transaction():
            other.execute("select from identity.user for update")
            waiting = []
            for number, rival in enumerate(rivals, start=1):
                waiting.append(threads.submit(rival))
                wait_for_rivals(owner, number)
        first, second = (each.result(20) for each in waiting)

    assert (first, second) == ((status, 0) if is_sign_in_first else (0, status))
    assert owner.execute("select count(*) from identity.session").fetchone() == (0,)
    assert visitor.get("/settings").status_code == 303


def test_unknown_and_known_accounts_cost_the_same_work(
    settings: Settings, alice_has_a_password: Person, bob: Person
) -> None:
    counting = CountingHasher()
    app = authserver.app.create(
        settings, hasher=Hasher(counting, verify_for_strangers=counting.verify)
    )

    with AppClient(app, "http://localhost:8400") as client:
        for email in ("alice@example.org", bob.email, "nobody@example.org", "no address"):
            for password in ("not the password", "", "p" * 1025):
                counting.verified = 0

                response = enter(Visitor(client), email, password)

                assert response.status_code == 400
                assert counting.verified == 1, (email, password)


def test_too_many_concurrent_sign_ins_get_a_retry_after(
    visitor: Visitor, alice_has_a_password: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = visitor.get("/sign-in")
    monkeypatch.setattr(passwords, "_MAX_WAITING", 0)

    response = visitor.submit(page, email="alice@example.org", password=PASSWORD)

    assert response.status_code == 503
    assert response.headers["retry-after"] == "1"
    assert "The service is busy" in response.text


def test_any_user_agent_is_accepted(
    visitor: Visitor, alice_has_a_password: Person, owner: Rows
) -> None:
    page = visitor.get("/sign-in")
    fields = dict(forms(page)[0].fields) | {"email": "alice@example.org", "password": PASSWORD}

    response = visitor.post("/sign-in", fields, headers={"User-Agent": b"a\0b"})

    assert response.status_code == 303
    assert owner.execute(
        "select count(*) from identity.session where user_agent = 'ab'"
    ).fetchone() == (1,)

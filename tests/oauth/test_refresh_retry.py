"""Refreshes that are repeated because their answer was lost (SVC_REFRESH_RETRY_SECONDS), with two workers."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import httpx2
import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from psycopg import sql

from authserver.oauth import retry
from shared import tokens
from shared.settings import Settings
from tests import processes
from tests.conftest import Person
from tests.oauth.conftest import visitor_of
from tests.oauth.test_races import RIVALS, assert_dead, at_once, lose_the_reply, refresh, stored
from tests.oauth.visitor import CALLBACK, Application, Visitor
from tests.processes import Service

RETRY_S: Final = 30


@pytest.fixture(scope="module")
def service(deployment: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Both servers; a refresh can be repeated for thirty seconds."""
    chosen = replace(deployment, refresh_retry_s=RETRY_S)
    with processes.service(chosen, tmp_path_factory.mktemp("servers"), workers=2) as started:
        yield started


@pytest.fixture
def client(service: Service) -> Iterator[httpx2.Client]:
    """Sends one request after another to the authorization server."""
    with httpx2.Client(base_url=service.auth_url) as opened:
        yield opened


@pytest.fixture
def browser(service: Service, client: httpx2.Client, alice: Person) -> Visitor:
    """A browser in which alice is signed in."""
    return visitor_of(client, service.settings, alice)


def registered(client: httpx2.Client) -> Application:
    response = client.post("/oauth/register", json={"redirect_uris": [CALLBACK]})
    return Application(client, response.json()["client_id"])


@pytest.fixture
def application(client: httpx2.Client) -> Application:
    """A registered application."""
    return registered(client)


def answers_kept(alice: Person) -> int:
    """Return how many sealed answers the database has of alice's grants."""
    row = alice.connection.execute(
        "select count(*) from oauth.refresh_retry where user_id = %s", [alice.user_id]
    ).fetchone()
    assert row is not None
    count: int = row[0]
    return count


def let_the_time_pass(alice: Person) -> None:
    """Let the time end in which alice's clients can repeat a refresh."""
    alice.connection.execute(
        "update oauth.refresh_retry set expires_at = now() where user_id = %s", [alice.user_id]
    )


def use(service: Service, access_token: str, path: str = "/api/v1/me") -> int:
    headers = {"Authorization": f"Bearer {access_token}"}
    return httpx2.get(f"{service.base_url}{path}", headers=headers).status_code


def test_the_same_refresh_has_the_same_answer_until_its_time_is_over(
    service: Service, browser: Visitor, application: Application, alice: Person
) -> None:
    first = application.pair(browser)
    second = application.refresh(first["refresh_token"]).json()

    repeated = application.refresh(first["refresh_token"])
    other_text = application.refresh(first["refresh_token"], scope="")
    let_the_time_pass(alice)
    late = application.refresh(first["refresh_token"])

    assert repeated.status_code == 200
    assert repeated.json() | {"expires_in": 3600} == second
    assert repeated.headers["cache-control"] == "no-store"
    assert other_text.json()["access_token"] == second["access_token"]
    assert late.json()["error"] == "invalid_grant"
    assert_dead(service, application, second)


def test_of_eight_identical_refreshes_one_rotates_and_all_have_its_answer(
    service: Service, browser: Visitor, application: Application, alice: Person
) -> None:
    first = application.pair(browser)

    answers = at_once(service.auth_url, [refresh(application, first)] * RIVALS)

    assert [answer.status for answer in answers] == [200] * RIVALS
    pairs = {(each.body["access_token"], each.body["refresh_token"]) for each in answers}
    assert len(pairs) == 1
    assert (stored(alice).refresh_tokens, stored(alice).access_tokens) == (2, 2)
    assert use(service, answers[0].body["access_token"]) == 200
    assert application.refresh(answers[0].body["refresh_token"]).status_code == 200


@pytest.mark.parametrize("end", ["the first use", "the end of the time"])
def test_of_eight_rivals_that_come_too_late_none_gets_a_pair(
    service: Service, browser: Visitor, application: Application, alice: Person, end: str
) -> None:
    first = application.pair(browser)
    second = application.refresh(first["refresh_token"]).json()
    if end == "the first use":
        use(service, second["access_token"])
    else:
        let_the_time_pass(alice)

    answers = at_once(service.auth_url, [refresh(application, first)] * RIVALS)

    assert {(each.status, each.body["error"]) for each in answers} == {(400, "invalid_grant")}
    assert_dead(service, application, second)


@pytest.mark.parametrize(
    "changed",
    [
        {"client_id": "another"},
        {"client_id": None},
        {"scope": "read:activity"},
        {"scope": "read:activity read:profile"},
        {"resource": "the service"},
        {"resource": "https://other.example"},
    ],
    ids=lambda changed: "=".join(map(str, *changed.items())),
)
def test_another_refresh_revokes_the_grant(
    service: Service, browser: Visitor, application: Application, changed: dict[str, str | None]
) -> None:
    values = {"another": registered(application.client).client_id, "the service": service.base_url}
    first = application.pair(browser)
    second = application.refresh(first["refresh_token"]).json()

    other = application.refresh(
        first["refresh_token"],
        **{name: values.get(value or "", value) for name, value in changed.items()},
    )

    assert other.json()["error"] == "invalid_grant"
    assert_dead(service, application, second)


@pytest.mark.parametrize(
    ("path", "status_code"), [("/api/v1/me", 200), ("/api/v1/health/summary", 403)]
)
def test_the_first_use_of_the_new_access_token_ends_the_repetition_at_once(
    service: Service,
    browser: Visitor,
    application: Application,
    alice: Person,
    path: str,
    status_code: int,
) -> None:
    first = application.pair(browser)
    second = application.refresh(first["refresh_token"]).json()
    of_the_earlier_token = use(service, first["access_token"])
    before = answers_kept(alice)

    answered = use(service, second["access_token"], path)
    after = answers_kept(alice)
    repeated = application.refresh(first["refresh_token"])

    # The earlier access token says nothing about the answer that may be lost.
    assert (of_the_earlier_token, before) == (200, 1)
    assert (answered, after) == (status_code, 0)
    assert repeated.json()["error"] == "invalid_grant"
    assert_dead(service, application, second)


def test_the_use_of_the_new_refresh_token_ends_the_repetition(
    service: Service, browser: Visitor, application: Application, alice: Person
) -> None:
    first = application.pair(browser)
    second = application.refresh(first["refresh_token"]).json()
    third = application.refresh(second["refresh_token"]).json()
    kept = answers_kept(alice)

    repeated = application.refresh(first["refresh_token"])

    assert kept == 1
    assert repeated.json()["error"] == "invalid_grant"
    assert_dead(service, application, third)


@pytest.mark.parametrize("token", ["access_token", "refresh_token"])
def test_a_revocation_erases_the_answer(
    service: Service, browser: Visitor, application: Application, alice: Person, token: str
) -> None:
    first = application.pair(browser)
    second = application.refresh(first["refresh_token"]).json()

    application.revoke(second[token])

    assert answers_kept(alice) == 0
    assert application.refresh(first["refresh_token"]).status_code == 400
    assert_dead(service, application, second)


def test_a_client_that_has_lost_the_reply_stays_signed_in(
    service: Service, browser: Visitor, application: Application, alice: Person
) -> None:
    first = application.pair(browser)
    lose_the_reply(service, application, alice, first)

    repeated = application.refresh(first["refresh_token"])

    assert repeated.status_code == 200
    assert stored(alice).refresh_tokens == 2
    assert use(service, repeated.json()["access_token"]) == 200


def test_what_the_database_holds_opens_no_answer(
    service: Service, browser: Visitor, application: Application, alice: Person
) -> None:
    first = application.pair(browser)
    second = application.refresh(first["refresh_token"]).json()
    presented = tokens.parse(tokens.REFRESH, first["refresh_token"])
    assert presented is not None
    asked = (application.client_id, None, None)
    held = [
        value
        for table in ("refresh_retry", "refresh_token", "access_token", "authorization_code")
        for row in alice.connection.execute(
            sql.SQL("select * from oauth.{}").format(sql.Identifier(table))
        ).fetchall()
        for value in row
    ]
    kept = alice.connection.execute("select sealed from oauth.refresh_retry").fetchone()
    assert kept is not None
    sealed = kept[0]

    def opens(key: bytes) -> bool:
        try:
            AESGCM(key).decrypt(sealed[:12], sealed[12:], retry._associated(asked))
        except InvalidTag:
            return False
        return True

    def derived(material: bytes) -> bytes:
        return HKDF(SHA256(), 32, salt=None, info=b"refresh-retry").derive(material)

    materials = [value if isinstance(value, bytes) else str(value).encode() for value in held]
    materials += [value.hex().encode() for value in held if isinstance(value, bytes)]
    opened = [each for each in materials if opens(derived(each))]
    opened += [each for each in materials if len(each) == 32 and opens(each)]

    assert len(materials) > 30
    assert opened == []
    assert opens(derived(first["refresh_token"].encode()))
    pair = retry.unseal(presented, asked, sealed)
    assert pair is not None
    assert [each.text for each in pair] == [second["access_token"], second["refresh_token"]]

"""Refreshing with rotation: checklist lines 35 to 41."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import anyio
import psycopg
import pytest

from authserver import lineage, rows
from authserver.events import COMMAND
from authserver.oauth import grants
from authserver.oauth.grants import RefreshPresentation, TokenPair
from authserver.rows import Database
from shared import tokens
from shared.settings import Settings
from tests.conftest import Person
from tests.oauth.conftest import Opens, Register
from tests.oauth.visitor import Application, Visitor

Rows = psycopg.Connection[Any]


@pytest.mark.checklist(35)
def test_line_35_a_refresh_rotates_and_leaves_earlier_access_tokens_alive(
    application: Application, alice_browser: Visitor, status: Opens
) -> None:
    first = application.pair(alice_browser)

    response = application.refresh(first["refresh_token"])

    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-store"
    second = response.json()
    assert second["refresh_token"] != first["refresh_token"]
    assert second["expires_in"] == 3600
    assert second["scope"] == "read:activity read:profile"
    assert status(first["access_token"]) == 200
    assert status(second["access_token"]) == 200
    assert application.refresh(second["refresh_token"]).status_code == 200


@pytest.mark.checklist(36)
def test_line_36_a_rotated_token_revokes_the_grant(
    application: Application, alice_browser: Visitor, status: Opens
) -> None:
    first = application.pair(alice_browser)
    second = application.refresh(first["refresh_token"]).json()

    replayed = application.refresh(first["refresh_token"])

    assert replayed.status_code == 400
    assert replayed.json()["error"] == "invalid_grant"
    assert status(first["access_token"]) == 401
    assert status(second["access_token"]) == 401
    assert application.refresh(second["refresh_token"]).json()["error"] == "invalid_grant"


@pytest.mark.checklist(37)
def test_line_37_a_narrower_scope_narrows_the_grant_for_good(
    application: Application, alice_browser: Visitor
) -> None:
    first = application.pair(alice_browser, scope="read:activity read:profile read:music")

    narrowed = application.refresh(
        first["refresh_token"], scope="read:profile read:activity"
    ).json()
    kept = application.refresh(narrowed["refresh_token"]).json()
    widened = application.refresh(kept["refresh_token"], scope="read:activity read:music")
    after = application.refresh(kept["refresh_token"])

    assert narrowed["scope"] == "read:activity read:profile"
    assert kept["scope"] == "read:activity read:profile"
    assert widened.status_code == 400
    assert widened.json()["error"] == "invalid_scope"
    assert after.status_code == 200


@pytest.mark.checklist(37)
def test_a_narrowed_access_token_has_only_the_narrower_scope(
    application: Application, alice_browser: Visitor, status: Opens
) -> None:
    first = application.pair(alice_browser)

    narrowed = application.refresh(first["refresh_token"], scope="read:activity").json()

    assert status(narrowed["access_token"]) == 403


@pytest.mark.checklist(37)
def test_narrowing_narrows_the_older_access_tokens_of_the_grant_at_once(
    application: Application, alice_browser: Visitor, status: Opens
) -> None:
    first = application.pair(alice_browser, scope="read:activity read:profile")
    before = status(first["access_token"], "/api/v1/me")

    application.refresh(first["refresh_token"], scope="read:activity")

    assert (before, status(first["access_token"], "/api/v1/me")) == (200, 403)
    assert status(first["access_token"], "/api/v1/devices") == 200


@pytest.mark.checklist(37)
@pytest.mark.parametrize("scope", ["read:health", "read:activity read:health", "read:everything"])
def test_line_37_a_wider_or_unknown_scope_rotates_nothing(
    application: Application, alice_browser: Visitor, scope: str
) -> None:
    first = application.pair(alice_browser)

    refused = application.refresh(first["refresh_token"], scope=scope)

    assert refused.status_code == 400
    assert refused.json()["error"] == "invalid_scope"
    assert application.refresh(first["refresh_token"]).status_code == 200


@pytest.mark.checklist(38)
def test_line_38_a_current_token_by_another_client_changes_nothing(
    application: Application, register: Register, alice_browser: Visitor, status: Opens
) -> None:
    thief = register()
    pair = application.pair(alice_browser)

    refused = thief.refresh(pair["refresh_token"])

    assert refused.status_code == 400
    assert refused.json()["error"] == "invalid_grant"
    assert status(pair["access_token"]) == 200
    assert application.refresh(pair["refresh_token"]).status_code == 200


@pytest.mark.checklist(38)
@pytest.mark.parametrize("thief", ["another client", "svc_client_0000000000000000000000", "x"])
def test_line_38_a_rotated_token_by_any_client_revokes_the_grant(
    application: Application,
    register: Register,
    alice_browser: Visitor,
    status: Opens,
    thief: str,
) -> None:
    client_id = register().client_id if thief == "another client" else thief
    first = application.pair(alice_browser)
    second = application.refresh(first["refresh_token"]).json()

    replayed = application.refresh(first["refresh_token"], client_id=client_id)

    assert replayed.status_code == 400
    assert replayed.json()["error"] == "invalid_grant"
    assert status(second["access_token"]) == 401


@pytest.mark.parametrize(
    "changed",
    [
        {"client_id": None},
        {"scope": "read:everything"},
        {"scope": "read:health"},
        {"resource": "https://other.example"},
    ],
)
def test_a_rotated_token_revokes_the_grant_whatever_else_is_wrong(
    application: Application,
    alice_browser: Visitor,
    status: Opens,
    changed: dict[str, str | None],
) -> None:
    first = application.pair(alice_browser)
    second = application.refresh(first["refresh_token"]).json()

    replayed = application.refresh(first["refresh_token"], **changed)

    assert replayed.json()["error"] == "invalid_grant"
    assert status(second["access_token"]) == 401


@pytest.mark.checklist(39)
def test_line_39_of_eight_concurrent_refreshes_one_wins_and_the_grant_is_revoked(
    application: Application, alice_browser: Visitor, status: Opens
) -> None:
    for _ in range(5):
        pair = application.pair(alice_browser)

        with ThreadPoolExecutor(8) as rivals:
            responses = list(rivals.map(application.refresh, [pair["refresh_token"]] * 8))

        won = [response for response in responses if response.status_code == 200]
        lost = [response for response in responses if response.status_code == 400]
        assert len(won) == 1
        assert len(lost) == 7
        assert {response.json()["error"] for response in lost} == {"invalid_grant"}
        assert status(pair["access_token"]) == 401
        assert status(won[0].json()["access_token"]) == 401
        assert application.refresh(won[0].json()["refresh_token"]).status_code == 400


@pytest.mark.checklist(40)
def test_line_40_a_refresh_that_races_a_revocation_leaves_no_valid_token(
    application: Application, alice_browser: Visitor, status: Opens
) -> None:
    for _ in range(10):
        pair = application.pair(alice_browser)

        with ThreadPoolExecutor(2) as rivals:
            refreshing = rivals.submit(application.refresh, pair["refresh_token"])
            revoking = rivals.submit(application.revoke, pair["refresh_token"])
            refreshed, revoked = refreshing.result(), revoking.result()

        assert revoked.status_code == 200
        assert refreshed.status_code in (200, 400)
        assert status(pair["access_token"]) == 401
        if refreshed.status_code == 200:
            assert status(refreshed.json()["access_token"]) == 401
            assert application.refresh(refreshed.json()["refresh_token"]).status_code == 400


# The rows of a grant that is refreshed often.


def forget_rotated(owner: Rows) -> None:
    """Delete the rows of rotated tokens, as the janitor does after a day."""
    owner.execute("delete from oauth.refresh_token where rotated_at is not null")


@pytest.mark.parametrize("presents", ["token", "twice", "revoke"])
def test_a_replayed_token_without_a_row_still_revokes_its_grant(
    application: Application,
    alice_browser: Visitor,
    status: Opens,
    owner: Rows,
    presents: str,
) -> None:
    first = application.pair(alice_browser)
    second = application.refresh(first["refresh_token"]).json()
    other = application.pair(alice_browser)
    forget_rotated(owner)

    if presents == "token":
        assert application.refresh(first["refresh_token"]).json()["error"] == "invalid_grant"
    elif presents == "twice":
        sent = {"grant_type": "refresh_token", "refresh_token": [first["refresh_token"], "x"]}
        assert application.client.post("/oauth/token", data=sent).status_code == 400
    else:
        assert application.revoke(first["refresh_token"]).status_code == 200

    assert status(second["access_token"]) == 401
    assert application.refresh(second["refresh_token"]).json()["error"] == "invalid_grant"
    assert status(other["access_token"]) == 200


def test_a_token_that_is_not_signed_revokes_nothing(
    application: Application, alice_browser: Visitor, alice: Person, status: Opens, owner: Rows
) -> None:
    pair = application.pair(alice_browser)
    row = owner.execute("select grant_id from oauth.grant").fetchone()
    assert row is not None
    forged = tokens.mint(tokens.REFRESH, alice.user_id, row[0].bytes[:8] + bytes(24))

    refused = application.refresh(forged.text)
    application.revoke(forged.text)

    assert refused.json()["error"] == "invalid_grant"
    assert status(pair["access_token"]) == 200


def test_a_token_from_before_tokens_named_their_grant_gets_a_successor_that_does(
    application: Application, alice_browser: Visitor, alice: Person, status: Opens, owner: Rows
) -> None:
    application.pair(alice_browser)
    old = tokens.mint(tokens.REFRESH, alice.user_id)
    owner.execute("update oauth.refresh_token set token_hash = %s, names_grant = false", [old.hash])

    second = application.refresh(old.text).json()
    third = application.refresh(second["refresh_token"]).json()
    kept = owner.execute(
        "select names_grant from oauth.refresh_token order by issued_at"
    ).fetchall()
    owner.execute("delete from oauth.refresh_token where rotated_at is not null and names_grant")
    application.refresh(second["refresh_token"])

    assert kept == [(False,), (True,), (True,)]
    assert status(third["access_token"]) == 401


def rotate_often(owner: Rows, times: int, before: str) -> None:
    """Store rotations of the only grant, one second after another, the last one ``before`` now."""
    owner.execute(
        """
        insert into oauth.refresh_token
               (user_id, token_hash, grant_id, issued_at, expires_at, rotated_at)
        select user_id,
               sha256(number::text::bytea),
               grant_id,
               now() - interval '2 hours',
               now() + interval '90 days',
               now() - %s::interval - (%s - number) * interval '1 s'
          from oauth.grant,
               generate_series(1, %s) as number
        """,
        [before, times, times],
    )


def test_a_grant_is_refreshed_at_most_240_times_an_hour(
    application: Application, alice_browser: Visitor, owner: Rows
) -> None:
    pair = application.pair(alice_browser)
    rotate_often(owner, 239, "50 min")
    pair = application.refresh(pair["refresh_token"]).json()
    other = application.pair(alice_browser)

    refused = application.refresh(pair["refresh_token"])
    of_another_grant = application.refresh(other["refresh_token"])
    owner.execute("update oauth.refresh_token set rotated_at = rotated_at - interval '10 min'")
    later = application.refresh(pair["refresh_token"])

    assert refused.status_code == 429
    # The oldest rotation of 240 was 50 minutes and 238 seconds ago.
    assert 300 < int(refused.headers["retry-after"]) <= 10 * 60 - 238
    assert refused.json()["error"] == "temporarily_unavailable"
    assert of_another_grant.status_code == 200
    assert later.status_code == 200


class Passing:
    """The database itself; after its first answer an hour passes for all rotations."""

    def __init__(self, database: Database, owner: Rows) -> None:
        self.database = database
        self.owner = owner

    async def run(self, steps: list[Any], *, may_repeat: bool) -> Sequence[Any]:
        answers = await self.database.run(steps, may_repeat=may_repeat)
        self.owner.execute(
            "update oauth.refresh_token set rotated_at = rotated_at - interval '1 h'"
        )
        return answers


def test_a_limit_that_ends_while_its_refusal_is_explained_refuses_nothing(
    application: Application, alice_browser: Visitor, settings: Settings, owner: Rows
) -> None:
    pair = application.pair(alice_browser)
    rotate_often(owner, 2, "1 min")
    presented = RefreshPresentation(
        refresh_token=tokens.parse(tokens.REFRESH, pair["refresh_token"]),
        client_id=application.client_id,
        scopes=None,
        resource=None,
    )

    async def rotate() -> TokenPair:
        async with rows.connected(settings) as database:
            return await grants.rotate(
                cast("Database", Passing(database, owner)),
                lineage.lineage(settings),
                presented,
                COMMAND,
                refreshes_per_hour=2,
            )

    second = anyio.run(rotate)

    assert application.refresh(second.refresh_token.text).status_code == 200


@pytest.mark.checklist(41)
def test_line_41_a_refresh_token_expires_after_ninety_idle_days(
    application: Application, alice_browser: Visitor, owner: Rows
) -> None:
    pair = application.refresh(application.pair(alice_browser)["refresh_token"]).json()
    lifetimes = owner.execute(
        "select distinct expires_at - issued_at = interval '90 days' from oauth.refresh_token"
    ).fetchall()
    owner.execute("update oauth.refresh_token set expires_at = now() where rotated_at is null")

    response = application.refresh(pair["refresh_token"])

    assert lifetimes == [(True,)]
    assert response.status_code == 400
    assert response.json()["error"] == "invalid_grant"


def test_an_access_token_expires_after_an_hour(
    application: Application, alice_browser: Visitor, status: Opens, owner: Rows
) -> None:
    pair = application.pair(alice_browser)
    lifetime = owner.execute(
        "select extract(epoch from expires_at - issued_at)::int from oauth.access_token"
    ).fetchone()
    owner.execute("update oauth.access_token set expires_at = now()")

    assert lifetime == (3600,)
    assert status(pair["access_token"]) == 401
    assert application.refresh(pair["refresh_token"]).status_code == 200


@pytest.mark.parametrize("name", ["refresh_token", "client_id"])
def test_a_missing_parameter_is_an_invalid_request(
    application: Application, alice_browser: Visitor, name: str
) -> None:
    pair = application.pair(alice_browser)

    missing: dict[str, Any] = {"refresh_token": pair["refresh_token"]} | {name: ""}

    refused = application.refresh(**missing)

    assert refused.status_code == 400
    assert refused.json()["error"] == "invalid_request"
    assert application.refresh(pair["refresh_token"]).status_code == 200


@pytest.mark.checklist(34)
@pytest.mark.parametrize("client_id", ["svc_client_0000000000000000000000", "x"])
def test_line_34_an_unknown_client_is_401_and_the_token_stays_valid(
    application: Application, alice_browser: Visitor, client_id: str
) -> None:
    pair = application.pair(alice_browser)

    refused = application.refresh(pair["refresh_token"], client_id=client_id)

    assert refused.status_code == 401
    assert refused.json()["error"] == "invalid_client"
    assert application.refresh(pair["refresh_token"]).status_code == 200


@pytest.mark.parametrize("token", ["x", "svc_rt_" + "0" * 71])
@pytest.mark.parametrize("is_client_known", [True, False])
def test_a_token_that_was_never_issued_is_refused(
    application: Application, token: str, is_client_known: bool
) -> None:
    client_id = application.client_id if is_client_known else "x"

    response = application.refresh(token, client_id=client_id)

    assert (response.status_code, response.json()["error"]) == (
        (400, "invalid_grant") if is_client_known else (401, "invalid_client")
    )


@pytest.mark.parametrize("bound", [None, "http://testserver/mcp"])
def test_a_refresh_keeps_the_resource_of_the_grant(
    application: Application, alice_browser: Visitor, bound: str | None
) -> None:
    pair = application.pair(alice_browser, **({"resource": bound} if bound else {}))

    different = application.refresh(pair["refresh_token"], resource="http://testserver")
    absent = application.refresh(pair["refresh_token"])
    same = application.refresh(absent.json()["refresh_token"], resource=bound)

    assert different.status_code == 400
    assert different.json()["error"] == "invalid_target"
    assert absent.status_code == 200
    assert same.status_code == 200


def test_at_most_one_refresh_token_of_a_grant_is_current(
    application: Application, alice_browser: Visitor, owner: Rows
) -> None:
    first = application.pair(alice_browser)
    application.refresh(first["refresh_token"])

    current = owner.execute(
        "select count(*), count(*) filter (where rotated_at is null) from oauth.refresh_token"
    ).fetchone()

    assert current == (2, 1)


@pytest.mark.parametrize(
    "body",
    [
        "grant_type=refresh_token&refresh_token={token}&refresh_token=x&client_id={client_id}",
        "grant_type=refresh_token&refresh_token=x&refresh_token={token}&client_id={client_id}",
        "grant_type=authorization_code&refresh_token={token}&code=x&client_id={client_id}",
        "grant_type=password&refresh_token={token}",
    ],
)
@pytest.mark.parametrize("is_in_query", [False, True])
def test_a_rotated_token_is_detected_anywhere_in_a_request(
    application: Application,
    alice_browser: Visitor,
    status: Opens,
    body: str,
    is_in_query: bool,
) -> None:
    first = application.pair(alice_browser)
    second = application.refresh(first["refresh_token"]).json()
    fields = body.format(token=first["refresh_token"], client_id=application.client_id)

    replayed = application.client.post(
        f"/oauth/token?{fields}" if is_in_query else "/oauth/token",
        content="" if is_in_query else fields,
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )

    assert replayed.status_code == 400
    assert replayed.json()["error"] == "invalid_grant"
    assert status(second["access_token"]) == 401


def test_a_rotated_token_beside_a_good_code_revokes_and_the_code_is_not_spent(
    application: Application, alice_browser: Visitor, status: Opens
) -> None:
    first = application.pair(alice_browser)
    second = application.refresh(first["refresh_token"]).json()
    code = application.code(alice_browser)

    replayed = application.exchange(code, refresh_token=first["refresh_token"])

    assert replayed.json()["error"] == "invalid_grant"
    assert status(second["access_token"]) == 401
    assert application.exchange(code).status_code == 200


def test_of_a_concurrent_refresh_and_narrowing_refresh_one_wins_and_the_grant_is_revoked(
    application: Application, alice_browser: Visitor, status: Opens
) -> None:
    for _ in range(10):
        pair = application.pair(alice_browser)
        token = pair["refresh_token"]

        with ThreadPoolExecutor(2) as rivals:
            keeping = rivals.submit(application.refresh, token)
            narrowing = rivals.submit(application.refresh, token, scope="read:profile")
            responses = [keeping.result(), narrowing.result()]

        won, lost = sorted(responses, key=lambda response: response.status_code)
        assert won.status_code == 200
        assert lost.status_code == 400
        assert lost.json()["error"] == "invalid_grant"
        assert status(pair["access_token"]) == 401
        assert status(won.json()["access_token"]) == 401
        assert application.refresh(won.json()["refresh_token"]).status_code == 400

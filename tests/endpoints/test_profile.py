"""GET /api/v1/token, /me, /integrations, /orgs, /teams and /account/subscription below /api/v1."""

from typing import Any

import psycopg
from starlette.testclient import TestClient

from tests.conftest import Person
from tests.connecting import connect

Rows = psycopg.Connection[Any]


def ask(api: TestClient, person: Person, path: str) -> dict[str, Any]:
    answer = api.get(path, headers=person.headers("read:profile"))
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def test_an_api_token_by_hand(api: TestClient, owner: Rows, alice: Person, bob: Person) -> None:
    bob.token()
    token = alice.token("ingest:health", "ingest:app_sessions")
    owner.execute("update oauth.access_token set issued_at = '2025-06-16 09:00Z'")

    answer = api.get("/api/v1/token", headers={"Authorization": f"Bearer {token}"})

    assert answer.status_code == 200, answer.text
    assert answer.json() == {
        "data": {
            "kind": "api_token",
            "scopes": ["ingest:health", "ingest:app_sessions"],
            "resource": None,
            "name": "test",
            "application": None,
            "created_at": "2025-06-16T09:00:00.000Z",
            "expires_at": None,
        }
    }


def test_the_token_of_an_application_has_what_its_grant_still_has(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    token = alice.token("read:health", "read:music", resource="http://testserver")
    owner.execute(
        """
        with application as (
            insert into oauth.client (client_id, client_name, redirect_uris)
            values ('https://app.example/client', 'Ledger', '{https://app.example/back}')
            returning client_id
        ),
        ending as (
            update oauth.access_token
               set issued_at = '2025-06-16 09:00Z',
                   expires_at = '2999-01-02'
        )
        update oauth.grant
           set client_id = application.client_id,
               name = null,
               scopes = '{read:music}',
               expires_at = '2999-01-01'
          from application
        """
    )

    answer = api.get("/api/v1/token", headers={"Authorization": f"Bearer {token}"})

    assert answer.json() == {
        "data": {
            "kind": "oauth",
            "scopes": ["read:music"],
            "resource": "http://testserver",
            "name": "Ledger",
            "application": "https://app.example/client",
            "created_at": "2025-06-16T09:00:00.000Z",
            "expires_at": "2999-01-01T00:00:00.000Z",
        }
    }


def test_a_profile_by_hand(api: TestClient, owner: Rows, alice: Person, bob: Person) -> None:
    owner.execute(
        """
        update identity.user
           set display_name = 'Ann', timezone = 'Europe/Berlin', created_at = '2025-06-16 09:00Z'
         where email = 'alice@example.org'
        """
    )

    body = ask(api, alice, "/api/v1/me")

    assert body == {
        "data": {
            "id": str(alice.user_id),
            "email": "alice@example.org",
            "display_name": "Ann",
            "timezone": "Europe/Berlin",
            "is_admin": False,
            "week_starts_on": 1,
            "created_at": "2025-06-16T09:00:00.000Z",
        }
    }


def test_integrations_by_hand(api: TestClient, owner: Rows, alice: Person, bob: Person) -> None:
    owner.execute(
        """
        insert into profile.integration
        values (%(alice)s, 'whoop', 'health', 'expired', '2025-06-01 09:00Z', null, null),
               (%(alice)s, 'github', 'code', 'active', '2025-06-01 09:00Z', '2025-06-16 09:00Z', null),
               (%(alice)s, 'spotify', 'music', 'error', '2025-06-01 09:00Z', null, 'rate_limited'),
               (%(alice)s, 'trakt', 'watching', 'disconnected', null, null, null),
               (%(bob)s, 'swarm', 'location', 'active', null, null, null)
        """,
        {"alice": alice.user_id, "bob": bob.user_id},
    )

    body = ask(api, alice, "/api/v1/integrations")

    assert body["data"][0] == {
        "provider": "github",
        "kind": "code",
        "via": "connection",
        "name": None,
        "connected": True,
        "status": "active",
        "connected_at": "2025-06-01T09:00:00.000Z",
        "last_sync_at": "2025-06-16T09:00:00.000Z",
        "first_record_at": None,
        "last_record_at": None,
        "gaps": None,
        "refused": None,
        "last_error": None,
        "problem": None,
        "records": None,
    }
    assert [
        (row["provider"], row["connected"], row["status"], row["last_error"])
        for row in body["data"][1:]
    ] == [
        ("spotify", True, "error", "rate_limited"),
        ("trakt", False, "disconnected", None),
        ("whoop", False, "expired", None),
    ]
    assert body["count"] == 4
    assert "hunter2" not in str(body)


def test_connections_have_names_and_those_of_which_nothing_is_left_are_gone(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    kinds = ("calendar", "calendar", "overland", "overland", "owntracks")
    work, home, kept, removed, empty = (connect(owner, alice, kind) for kind in kinds)
    for connected, name, records in (
        (work, "Work", 0),
        (home, "Home", 3),
        (kept, "Kept", 3),
        (removed, "Removed", 3),
    ):
        owner.execute(
            """
            update profile.connection
               set name = %s,
                   record_count = %s,
                   last_pull_at = '2026-11-01 09:00Z',
                   problem = case when kind = 'calendar' and %s = 0 then 'not_found' end,
                   failing_since = case when kind = 'calendar' and %s = 0 then now() end
             where connection_id = %s
            """,
            [name, records, records, records, connected.connection_id],
        )
    for connected, is_removed in ((kept, False), (removed, True), (empty, False)):
        owner.execute(
            "select svc.stop_connection(%s, %s, %s)",
            [alice.user_id, connected.connection_id, is_removed],
        )

    body = ask(api, alice, "/api/v1/integrations")

    assert [(row["name"], row["status"], row["last_sync_at"]) for row in body["data"]] == [
        ("Work", "error", None),
        ("Home", "active", "2026-11-01T09:00:00.000Z"),
        ("Kept", "disconnected", "2026-11-01T09:00:00.000Z"),
    ]


def test_an_account_without_memberships_has_empty_lists(
    api: TestClient, owner: Rows, alice: Person, bob: Person
) -> None:
    owner.execute(
        """
        with acme as (
            insert into profile.organization (name, slug)
            values ('Acme', 'acme')
            returning organization_id
        ),
        core as (
            insert into profile.team (organization_id, name)
            select organization_id, 'Core' from acme
            returning team_id
        ),
        joined as (
            insert into profile.membership (user_id, organization_id, role)
            select %(bob)s, organization_id, 'owner' from acme
        )
        insert into profile.team_membership (user_id, team_id, role)
        select %(bob)s, team_id, 'lead' from core
        """,
        {"bob": bob.user_id},
    )

    assert ask(api, alice, "/api/v1/integrations") == {"data": [], "count": 0}
    assert ask(api, alice, "/api/v1/orgs") == {"data": [], "count": 0}
    assert ask(api, alice, "/api/v1/teams") == {"data": [], "count": 0}


def test_organizations_and_teams_by_hand(
    api: TestClient, owner: Rows, alice: Person, bob: Person
) -> None:
    rows = owner.execute(
        """
        insert into profile.organization (name, slug)
        values ('Zeta', 'zeta'), ('Acme', 'acme'), ('Bobs', 'bobs')
        returning organization_id
        """
    ).fetchall()
    zeta, acme, bobs = (row[0] for row in rows)
    rows = owner.execute(
        """
        insert into profile.team (organization_id, name)
        values (%(acme)s, 'Core'), (%(zeta)s, 'Design'), (%(bobs)s, 'Secret')
        returning team_id
        """,
        {"acme": acme, "zeta": zeta, "bobs": bobs},
    ).fetchall()
    core, design, secret = (row[0] for row in rows)
    owner.execute(
        """
        insert into profile.membership
        values (%(alice)s, %(zeta)s, 'member', '2025-06-01 09:00Z'),
               (%(alice)s, %(acme)s, 'admin', '2025-06-02 09:00Z'),
               (%(bob)s, %(bobs)s, 'owner', '2025-06-03 09:00Z'),
               (%(bob)s, %(acme)s, 'owner', '2025-06-03 09:00Z')
        """,
        {
            "alice": alice.user_id,
            "bob": bob.user_id,
            "zeta": zeta,
            "acme": acme,
            "bobs": bobs,
        },
    )
    owner.execute(
        """
        insert into profile.team_membership
        values (%(alice)s, %(core)s, 'member', '2025-06-04 09:00Z'),
               (%(bob)s, %(core)s, 'lead', '2025-06-05 09:00Z'),
               (%(bob)s, %(design)s, 'lead', '2025-06-05 09:00Z'),
               (%(bob)s, %(secret)s, 'lead', '2025-06-05 09:00Z')
        """,
        {
            "alice": alice.user_id,
            "bob": bob.user_id,
            "core": core,
            "design": design,
            "secret": secret,
        },
    )

    orgs = ask(api, alice, "/api/v1/orgs")
    teams = ask(api, alice, "/api/v1/teams")

    assert orgs == {
        "data": [
            {
                "id": str(acme),
                "name": "Acme",
                "slug": "acme",
                "role": "admin",
                "joined_at": "2025-06-02T09:00:00.000Z",
            },
            {
                "id": str(zeta),
                "name": "Zeta",
                "slug": "zeta",
                "role": "member",
                "joined_at": "2025-06-01T09:00:00.000Z",
            },
        ],
        "count": 2,
    }
    assert teams == {
        "data": [
            {
                "id": str(core),
                "name": "Core",
                "organization": {"id": str(acme), "name": "Acme"},
                "role": "member",
                "joined_at": "2025-06-04T09:00:00.000Z",
            }
        ],
        "count": 1,
    }


def test_a_member_of_only_a_team_sees_it_with_its_organization(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    owner.execute(
        """
        with acme as (
            insert into profile.organization (name, slug)
            values ('Acme', 'acme')
            returning organization_id
        ),
        core as (
            insert into profile.team (organization_id, name)
            select organization_id, 'Core' from acme
            returning team_id
        )
        insert into profile.team_membership (user_id, team_id, role)
        select %s, team_id, 'lead' from core
        """,
        [alice.user_id],
    )

    assert ask(api, alice, "/api/v1/teams")["data"][0]["organization"]["name"] == "Acme"
    assert ask(api, alice, "/api/v1/orgs") == {"data": [], "count": 0}


def test_an_account_without_a_subscription_is_self_hosted(
    api: TestClient, owner: Rows, alice: Person, bob: Person
) -> None:
    owner.execute(
        "insert into profile.subscription (user_id, plan, status, billing) values (%s, 'b', 'none', 'b')",
        [bob.user_id],
    )

    body = ask(api, alice, "/api/v1/account/subscription")

    assert body == {
        "data": {
            "plan": "self_hosted",
            "status": "active",
            "billing": "none",
            "interval": None,
            "current_period_start": None,
            "current_period_end": None,
            "cancel_at_period_end": False,
            "trial_ends_at": None,
            "seats": 1,
        }
    }


def test_a_subscription_by_hand(api: TestClient, owner: Rows, alice: Person) -> None:
    owner.execute(
        """
        insert into profile.subscription
        values (%s, 'team', 'trialing', 'card', 'month', '2025-06-01', '2025-07-01', true, '2025-06-15', 5)
        """,
        [alice.user_id],
    )

    body = ask(api, alice, "/api/v1/account/subscription")

    assert body == {
        "data": {
            "plan": "team",
            "status": "trialing",
            "billing": "card",
            "interval": "month",
            "current_period_start": "2025-06-01T00:00:00.000Z",
            "current_period_end": "2025-07-01T00:00:00.000Z",
            "cancel_at_period_end": True,
            "trial_ends_at": "2025-06-15T00:00:00.000Z",
            "seats": 5,
        }
    }

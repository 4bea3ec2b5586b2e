"""GET /api/v1/codehost/activity, its counts, and /api/v1/codehost/repositories."""

from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from tests.conftest import Person

Rows = psycopg.Connection[Any]

ACTIVITY = "/api/v1/codehost/activity"
COUNTS = "/api/v1/codehost/activity/counts"


def ask(api: TestClient, person: Person, path: str, **params: str) -> dict[str, Any]:
    answer = api.get(path, params=params, headers=person.headers("read:code"))
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def happen(
    owner: Rows,
    person: Person,
    at: str,
    kind: str = "commit",
    action: str = "pushed",
    *,
    repository: str = "me/svc",
    provider: str = "github",
    lines: tuple[int | None, int | None, int | None] = (None, None, None),
) -> str:
    row = owner.execute(
        """
        insert into code.event
               (user_id, provider, provider_key, type, action, occurred_at, repository,
                additions, deletions, changed_files)
        values (%s, %s, gen_random_uuid(), %s, %s, %s, %s, %s, %s, %s)
        returning event_id
        """,
        [person.user_id, provider, kind, action, at, repository, *lines],
    ).fetchone()
    assert row is not None
    return str(row[0])


def test_an_event_by_hand(api: TestClient, owner: Rows, alice: Person) -> None:
    commit = happen(owner, alice, "2025-06-16T09:00Z", lines=(41, 7, 3))
    owner.execute(
        """
        update code.event
           set is_private = true, title = 'Fix DST buckets', url = 'https://example.org/c/9fceb02',
               ref = 'main', sha = '9fceb02d0ae598e95dc970b74767f19372d61af8'
        """
    )
    review = happen(owner, alice, "2025-06-16T10:00Z", "review", "approved", provider="gitlab")
    owner.execute("update code.event set number = 7, state = 'open' where event_id = %s", [review])

    body = ask(api, alice, ACTIVITY, limit="50")

    assert body == {
        "data": [
            {
                "id": review,
                "type": "review",
                "action": "approved",
                "occurred_at": "2025-06-16T10:00:00.000Z",
                "provider": "gitlab",
                "repository": {"name": "me/svc", "private": None},
                "title": None,
                "url": None,
                "ref": None,
                "sha": None,
                "number": 7,
                "state": "open",
                "additions": None,
                "deletions": None,
                "changed_files": None,
            },
            {
                "id": commit,
                "type": "commit",
                "action": "pushed",
                "occurred_at": "2025-06-16T09:00:00.000Z",
                "provider": "github",
                "repository": {"name": "me/svc", "private": True},
                "title": "Fix DST buckets",
                "url": "https://example.org/c/9fceb02",
                "ref": "main",
                "sha": "9fceb02d0ae598e95dc970b74767f19372d61af8",
                "number": None,
                "state": None,
                "additions": 41,
                "deletions": 7,
                "changed_files": 3,
            },
        ],
        "count": 2,
        "limit": 50,
        "has_more": False,
        "next_cursor": None,
    }


@pytest.mark.parametrize(
    ("params", "days"),
    [
        ({}, [18, 17, 16]),
        ({"from": "2025-06-17T00:00Z"}, [18, 17]),
        ({"to": "2025-06-17T00:00Z"}, [16]),
        ({"from": "2025-06-17T00:00Z", "to": "2025-06-18T00:00Z"}, [17]),
        ({"from": "2025-06-17T00:00Z", "to": "2025-06-17T00:00Z"}, []),
    ],
)
def test_either_end_of_the_range_may_be_left_out(
    api: TestClient, owner: Rows, alice: Person, params: dict[str, str], days: list[int]
) -> None:
    for at in ("2025-06-16T00:00Z", "2025-06-17T00:00Z", "2025-06-18T00:00Z"):
        happen(owner, alice, at)

    body = ask(api, alice, ACTIVITY, **params)

    assert [int(row["occurred_at"][8:10]) for row in body["data"]] == days


def test_a_reversed_range_names_its_start(api: TestClient, alice: Person) -> None:
    answer = api.get(
        ACTIVITY,
        params={"from": "2025-06-18T00:00Z", "to": "2025-06-17T00:00Z"},
        headers=alice.headers("read:code"),
    )

    assert answer.status_code == 400
    assert answer.json()["parameter"] == "from"


def test_counts_by_hand(api: TestClient, owner: Rows, alice: Person, bob: Person) -> None:
    start, end = "2025-06-16T00:00:00.000Z", "2025-06-17T00:00:00.000Z"
    happen(owner, alice, "2025-06-16T00:00Z", lines=(100, 20, 3))
    happen(owner, alice, "2025-06-16T12:00Z", lines=(40, None, 2), repository="me/other")
    # The same name at another host is another repository.
    happen(owner, alice, "2025-06-16T13:00Z", provider="gitlab")
    happen(owner, alice, "2025-06-16T14:00Z", "pull_request", "opened", lines=(140, 20, 5))
    happen(owner, alice, "2025-06-16T15:00Z", "pull_request", "merged", lines=(140, 20, 5))
    happen(owner, alice, "2025-06-15T23:59:59.999Z", lines=(1, 1, 1))
    happen(owner, alice, "2025-06-17T00:00Z", "review", "approved")
    happen(owner, bob, "2025-06-16T12:00Z", lines=(7, 7, 7))

    body = ask(api, alice, COUNTS, **{"from": start, "to": end})

    assert body == {
        "range": {"from": start, "to": end},
        "data": [
            {
                "type": "commit",
                "count": 3,
                "additions": 140,
                "deletions": 20,
                "changed_files": 5,
                "repository_count": 3,
            },
            {
                "type": "pull_request",
                "count": 2,
                "additions": 280,
                "deletions": 40,
                "changed_files": 10,
                "repository_count": 1,
            },
            {
                "type": "review",
                "count": 0,
                "additions": 0,
                "deletions": 0,
                "changed_files": 0,
                "repository_count": 0,
            },
        ],
        "totals": {"count": 5, "additions": 140, "deletions": 20},
    }


def test_an_empty_account_has_all_three_types(api: TestClient, alice: Person) -> None:
    body = ask(api, alice, COUNTS, **{"from": "2025-06-16T00:00Z", "to": "2025-06-17T00:00Z"})

    assert [(row["type"], row["count"]) for row in body["data"]] == [
        ("commit", 0),
        ("pull_request", 0),
        ("review", 0),
    ]
    assert body["totals"] == {"count": 0, "additions": 0, "deletions": 0}


def test_repositories_by_hand(api: TestClient, owner: Rows, alice: Person) -> None:
    happen(owner, alice, "2025-06-16T09:00Z", lines=(41, 7, 3))
    happen(owner, alice, "2025-06-16T10:00Z", "pull_request", "opened", lines=(41, 7, 3))
    happen(owner, alice, "2025-06-16T11:00Z", "review", "approved", repository="me/other")
    # The same name at another provider is another repository; this one is not in the range.
    happen(owner, alice, "2025-06-17T00:00Z", provider="gitlab")

    body = ask(
        api,
        alice,
        "/api/v1/codehost/repositories",
        **{"from": "2025-06-16T00:00Z", "to": "2025-06-17T00:00Z"},
    )

    assert body["data"] == [
        {
            "name": "me/svc",
            "provider": "github",
            "commits": 1,
            "pull_requests": 1,
            "reviews": 0,
            "count": 2,
            "additions": 41,
            "deletions": 7,
        },
        {
            "name": "me/other",
            "provider": "github",
            "commits": 0,
            "pull_requests": 0,
            "reviews": 1,
            "count": 1,
            "additions": 0,
            "deletions": 0,
        },
    ]
    assert body["totals"] == {
        "count": 3,
        "additions": 41,
        "deletions": 7,
        "repository_count": 2,
    }

"""GET /api/v1/analytics/categories, and which category a session falls into."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from tests.conftest import Person, mark_all_days
from tests.endpoints.histories import add_sessions, ask
from tests.endpoints.test_app_usage import event, post
from tests.endpoints.timeline import Session

PATH = "/api/v1/analytics/categories"
DAY = {"start": "2025-06-16T00:00:00Z", "end": "2025-06-17T00:00:00Z"}

Owner = psycopg.Connection[Any]


def add_rule(
    owner: Owner,
    person: Person,
    field: str,
    match: str,
    pattern: str,
    category: str,
    priority: int = 0,
) -> None:
    owner.execute(
        """
        insert into activity.category_rule (user_id, priority, field, match, pattern, category)
        values (%s, %s, %s, %s, %s, %s)
        """,
        [person.user_id, priority, field, match, pattern, category],
    )
    mark_all_days(owner)


def times(body: dict[str, Any]) -> dict[str, int]:
    return {row["category"]: row["total_ms"] for row in body["data"]}


def test_two_hours_by_hand(api: TestClient, alice: Person) -> None:
    post(
        api,
        alice,
        [
            event("Code", "09:00:00", "10:00:00", category="Development"),
            event("Terminal", "10:00:00", "10:30:00", category="Development"),
            event("Slack", "09:15:00", "09:25:00", category="Communication"),
            event("Steam", "10:40:00", "10:45:00", category="Games"),
            event("Mystery", "10:50:00", "10:51:00"),
            event("Glance", "10:50:30", "10:50:30", category="News"),
            event("Idle", "10:55:00", "11:00:00", category="Design", idle=True),
        ],
    )

    body = ask(api, alice, PATH, start="2025-06-16T09:00:00Z", end="2025-06-16T13:00:00+02:00")

    assert body == {
        "range": {"from": "2025-06-16T09:00:00.000Z", "to": "2025-06-16T11:00:00.000Z"},
        "data": [
            {
                "category": "Development",
                "productivity": "productive",
                "score": 2,
                "total_ms": 4_800_000,
                "percent": 83.33,
                "app_count": 2,
                "session_count": 2,
            },
            {
                "category": "Communication",
                "productivity": "neutral",
                "score": 0,
                "total_ms": 600_000,
                "percent": 10.42,
                "app_count": 1,
                "session_count": 1,
            },
            {
                "category": "Games",
                "productivity": "distracting",
                "score": -2,
                "total_ms": 300_000,
                "percent": 5.21,
                "app_count": 1,
                "session_count": 1,
            },
            {
                "category": "Uncategorized",
                "productivity": "neutral",
                "score": 0,
                "total_ms": 60_000,
                "percent": 1.04,
                "app_count": 1,
                "session_count": 1,
            },
            {
                "category": "News",
                "productivity": "distracting",
                "score": -1,
                "total_ms": 0,
                "percent": 0.0,
                "app_count": 1,
                "session_count": 1,
            },
        ],
        "totals": {
            "tracked_ms": 5_760_000,
            "productive_ms": 4_800_000,
            "neutral_ms": 660_000,
            "distracted_ms": 300_000,
            "uncategorized_ms": 60_000,
        },
        "removed_before": None,
    }


def test_categories_with_the_same_time_are_in_byte_order(api: TestClient, alice: Person) -> None:
    post(
        api,
        alice,
        [
            event("1", "09:00:00", "09:01:00", category="a"),
            event("2", "09:01:00", "09:02:00", category="é"),
            event("3", "09:02:00", "09:03:00", category="B"),
        ],
    )

    body = ask(api, alice, PATH, **DAY)

    assert [row["category"] for row in body["data"]] == ["B", "a", "é"]


def test_an_empty_account_has_no_rows(api: TestClient, alice: Person) -> None:
    body = ask(api, alice, PATH, **DAY)

    assert body["data"] == []
    assert set(body["totals"].values()) == {0}


def test_sessions_without_time_have_rows_and_no_share(api: TestClient, alice: Person) -> None:
    post(api, alice, [event("Glance", "09:00:00", "09:00:00", category="News")])

    body = ask(api, alice, PATH, **DAY)

    assert [(row["category"], row["total_ms"], row["percent"]) for row in body["data"]] == [
        ("News", 0, None)
    ]


def test_bob_sees_nothing_of_alices(
    api: TestClient, owner: Owner, alice: Person, bob: Person
) -> None:
    add_rule(owner, alice, "app", "exact", "Code", "Secret of alice")
    post(api, alice, [event("Code", "09:00:00", "10:00:00")])
    post(api, bob, [event("Code", "09:00:00", "09:01:00", category="Development")])

    body = ask(api, bob, PATH, **DAY)

    assert times(body) == {"Development": 60_000}


@pytest.mark.parametrize(
    ("field", "match", "pattern", "matches"),
    [
        ("app", "exact", "fireFOX", True),
        ("app", "exact", "Fire", False),
        ("app", "contains", "REF", True),
        ("app", "contains", "chrome", False),
        ("app", "regex", "^fire(fox|bird)$", True),
        ("app", "regex", "^fox", False),
        ("title", "contains", "issue 7", True),
        ("title", "exact", "issue 7 · svc", True),
        ("title", "contains", "firefox", False),
        ("title", "regex", r"issue \d", True),
        ("domain", "exact", "github.com", True),
        ("domain", "exact", "hub.com", False),
        ("domain", "regex", r"(^|\.)github\.com$", True),
    ],
)
def test_a_rule_matches_its_field(
    api: TestClient,
    owner: Owner,
    alice: Person,
    field: str,
    match: str,
    pattern: str,
    matches: bool,
) -> None:
    add_rule(owner, alice, field, match, pattern, "Ruled")
    post(
        api,
        alice,
        [
            event(
                "Firefox",
                "09:00:00",
                "10:00:00",
                category="Reference",
                title="Issue 7 · svc",
                url="https://github.com/svc/svc/issues/7",
            )
        ],
    )

    body = ask(api, alice, PATH, **DAY)

    assert times(body) == {"Ruled" if matches else "Reference": 3_600_000}


def test_the_matching_rule_with_the_smallest_priority_decides(
    api: TestClient, owner: Owner, alice: Person
) -> None:
    add_rule(owner, alice, "app", "exact", "Firefox", "By app", priority=3)
    add_rule(owner, alice, "title", "contains", "music", "By title", priority=1)
    add_rule(owner, alice, "domain", "exact", "example.org", "By domain", priority=2)
    add_rule(owner, alice, "app", "exact", "Chrome", "Another app", priority=0)
    post(
        api,
        alice,
        [
            event("Firefox", "09:00:00", "09:01:00", title="Music", url="https://example.org/"),
            event("Firefox", "09:01:00", "09:03:00", title="Mail", url="https://example.org/"),
            event("Firefox", "09:03:00", "09:07:00"),
            event("Music", "09:07:00", "09:15:00", category="Entertainment"),
        ],
    )

    body = ask(api, alice, PATH, **DAY)

    assert times(body) == {
        "By title": 60_000,
        "By domain": 120_000,
        "By app": 240_000,
        "Entertainment": 480_000,
    }


@pytest.fixture
def service_rules(owner: Owner) -> Iterator[None]:
    """Two rules of the service itself."""
    owner.execute(
        """
        insert into reference.category_rule (field, pattern, category)
        values ('app', 'test browser', 'Reference'),
               ('domain', 'news.test.example', 'News')
        """
    )
    yield
    owner.execute(
        "delete from reference.category_rule where pattern in ('test browser', 'news.test.example')"
    )


@pytest.mark.usefixtures("service_rules")
def test_the_services_rules_decide_last_and_those_about_sites_first(
    api: TestClient, alice: Person
) -> None:
    post(
        api,
        alice,
        [
            event("Test Browser", "09:00:00", "09:01:00", url="https://news.test.example/1"),
            event("Test Browser", "09:01:00", "09:03:00"),
            event("Test Browser", "09:03:00", "09:07:00", category="Writing"),
        ],
    )

    body = ask(api, alice, PATH, **DAY)

    assert times(body) == {"News": 60_000, "Reference": 120_000, "Writing": 240_000}


def test_a_persons_own_score_replaces_the_services_at_once_for_all_history(
    api: TestClient, owner: Owner, alice: Person
) -> None:
    post(
        api,
        alice,
        [
            event("Steam", "09:00:00", "09:01:00", category="Games"),
            event("Paint", "09:01:00", "09:03:00", category="Painting"),
        ],
    )
    before = ask(api, alice, PATH, **DAY)
    owner.execute(
        "insert into activity.category_score (user_id, category, score) values (%s, 'Games', 1)",
        [alice.user_id],
    )

    after = ask(api, alice, PATH, **DAY)

    assert [(row["category"], row["score"], row["productivity"]) for row in before["data"]] == [
        ("Painting", 0, "neutral"),
        ("Games", -2, "distracting"),
    ]
    assert [(row["category"], row["score"], row["productivity"]) for row in after["data"]] == [
        ("Painting", 0, "neutral"),
        ("Games", 1, "productive"),
    ]
    assert after["totals"]["productive_ms"] == 60_000


def test_a_new_rule_changes_all_history_at_the_next_read(
    api: TestClient, owner: Owner, alice: Person
) -> None:
    post(api, alice, [event("Code", "09:00:00", "10:00:00", category="Development")])
    before = ask(api, alice, PATH, **DAY)
    add_rule(owner, alice, "app", "exact", "code", "Teaching")

    after = ask(api, alice, PATH, **DAY)

    assert times(before) == {"Development": 3_600_000}
    assert times(after) == {"Teaching": 3_600_000}


def test_ten_expressions_decide_for_five_thousand_titles(
    api: TestClient, owner: Owner, alice: Person
) -> None:
    for n in range(10):
        add_rule(owner, alice, "title", "regex", f"window .*{n}$", f"Ends in {n}", priority=n)
    add_sessions(
        owner,
        alice,
        [Session(str(n), "laptop", f"App {n}", n * 10, n * 10 + 10) for n in range(5000)],
    )
    owner.execute("update activity.app_session set title = 'window ' || idempotency_key")
    mark_all_days(owner)

    body = ask(api, alice, PATH, **DAY)

    assert times(body) == {f"Ends in {n}": 5000 for n in range(10)}


@pytest.mark.parametrize(("field", "pattern"), [("domain", ".*"), ("title", "^[^x]*$")])
def test_a_rule_about_an_absent_field_matches_nothing(
    api: TestClient, owner: Owner, alice: Person, field: str, pattern: str
) -> None:
    add_rule(owner, alice, field, "regex", pattern, "Ruled")
    post(api, alice, [event("Terminal", "09:00:00", "10:00:00", category="Development")])

    summed = ask(api, alice, PATH, **DAY)
    listed = ask(api, alice, "/api/v1/sessions/apps", **DAY)
    ruled = ask(api, alice, "/api/v1/sessions/apps", **DAY, category="Ruled")

    assert times(summed) == {"Development": 3_600_000}
    assert [row["category"] for row in listed["data"]] == ["Development"]
    assert ruled["data"] == []


def test_a_list_of_one_category_follows_the_rules_and_has_whole_pages(
    api: TestClient, owner: Owner, alice: Person
) -> None:
    add_rule(owner, alice, "title", "contains", "7", "Sevens")
    add_sessions(
        owner,
        alice,
        [Session(str(n), "laptop", "Code", n * 10, n * 10 + 10) for n in range(40)],
    )
    owner.execute("update activity.app_session set title = 'window ' || idempotency_key")
    mark_all_days(owner)
    path = "/api/v1/sessions/apps"

    first = ask(api, alice, path, **DAY, category="Sevens", limit=2)
    second = ask(api, alice, path, **DAY, category="Sevens", limit=2, cursor=first["next_cursor"])
    nothing = ask(api, alice, path, **DAY, category="sevens")

    assert [row["title"] for row in first["data"]] == ["window 37", "window 27"]
    assert [row["title"] for row in second["data"]] == ["window 17", "window 7"]
    assert (first["has_more"], second["has_more"]) == (True, False)
    assert nothing["data"] == []


def test_an_invalid_expression_matches_nothing(owner: Owner, alice: Person) -> None:
    with pytest.raises(psycopg.errors.InvalidRegularExpression):
        add_rule(owner, alice, "title", "regex", "a**", "Ruled")

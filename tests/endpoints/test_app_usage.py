"""GET /api/v1/analytics/app-usage."""

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tests.conftest import Person
from tests.endpoints import answers
from tests.endpoints.timeline import Session

PATH = "/api/v1/analytics/app-usage"
EPOCH = datetime(2025, 6, 16, tzinfo=UTC)


def instant(milliseconds: int) -> str:
    at = EPOCH + timedelta(milliseconds=milliseconds)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def event(app: str, start: str, end: str, **more: Any) -> dict[str, Any]:
    return {
        "app": app,
        "started_at": f"2025-06-16T{start}Z",
        "ended_at": f"2025-06-16T{end}Z",
        **more,
    }


def post(api: TestClient, person: Person, events: list[dict[str, Any]]) -> dict[str, Any]:
    answer = api.post(
        "/api/v1/ingest/app-sessions",
        json={"events": events, "client": {"name": "test/1"}},
        headers=person.headers("ingest:app_sessions"),
    )
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()
    return result


def ask(api: TestClient, person: Person, start: str, end: str) -> dict[str, Any]:
    answer = api.get(
        PATH, params={"from": start, "to": end}, headers=person.headers("read:activity")
    )
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def test_an_hour_by_hand(api: TestClient, alice: Person) -> None:
    post(
        api,
        alice,
        [
            event("Code", "09:00:00", "10:00:00", category="Development"),
            event("Slack", "09:15:00", "09:25:00", category="Communication"),
            event("Code", "10:00:00", "10:05:00", category="Writing"),
            event("Idle", "10:10:00", "10:20:00", idle=True),
            event("Glance", "09:30:00", "09:30:00"),
            event("Firefox", "10:30:00", "10:31:00", url="https://www.example.org/a"),
            event("Chrome", "10:31:00", "10:34:00", url="https://example.org/b", category="News"),
            event("Chrome", "10:34:00", "10:35:00", url="https://other.example/"),
        ],
    )

    body = ask(api, alice, "2025-06-16T09:00:00Z", "2025-06-16T11:30:00+01:00")
    sites = ask(api, alice, "2025-06-16T10:30:00Z", "2025-06-16T11:00:00Z")

    assert body == {
        "range": {"from": "2025-06-16T09:00:00.000Z", "to": "2025-06-16T10:30:00.000Z"},
        "data": [
            {
                "app": "Code",
                "category": "Development",
                "productivity": "productive",
                "total_ms": 3_300_000,
                "percent": 84.62,
                "session_count": 2,
                "longest_session_ms": 3_000_000,
                "first_used_at": "2025-06-16T09:00:00.000Z",
                "last_used_at": "2025-06-16T10:05:00.000Z",
            },
            {
                "app": "Slack",
                "category": "Communication",
                "productivity": "neutral",
                "total_ms": 600_000,
                "percent": 15.38,
                "session_count": 1,
                "longest_session_ms": 600_000,
                "first_used_at": "2025-06-16T09:15:00.000Z",
                "last_used_at": "2025-06-16T09:25:00.000Z",
            },
            {
                "app": "Glance",
                "category": "Uncategorized",
                "productivity": "neutral",
                "total_ms": 0,
                "percent": 0.0,
                "session_count": 1,
                "longest_session_ms": 0,
                "first_used_at": None,
                "last_used_at": None,
            },
        ],
        "domains": [],
        "totals": {
            "tracked_ms": 3_900_000,
            "app_count": 3,
            "session_count": 4,
            "domains_ms": 0,
            "without_domain_ms": 3_900_000,
        },
        "removed_before": None,
    }
    assert sites["domains"] == [
        {
            "domain": "example.org",
            "category": "News",
            "productivity": "distracting",
            "total_ms": 240_000,
            "percent": 80.0,
            "session_count": 2,
        },
        {
            "domain": "other.example",
            "category": "Uncategorized",
            "productivity": "neutral",
            "total_ms": 60_000,
            "percent": 20.0,
            "session_count": 1,
        },
    ]
    assert sites["totals"]["domains_ms"] == 300_000
    assert sites["totals"]["without_domain_ms"] == 0


def test_beyond_5000_applications_and_1000_websites_time_is_added_up(
    api: TestClient, alice: Person
) -> None:
    seconds = [EPOCH + timedelta(seconds=n) for n in range(5002)]
    events = [
        {
            "app": f"App {n:04}",
            "url": f"https://{n:04}.example/",
            "category": "Games" if n >= 5000 else "Writing",
            "started_at": at.isoformat(),
            "duration_ms": 1000,
        }
        for n, at in enumerate(seconds)
    ] + [event("Firefox", "12:00:00", "12:01:00")]
    for first in range(0, len(events), 1000):
        post(api, alice, events[first : first + 1000])

    body = ask(api, alice, "2025-06-16T00:00:00Z", "2025-06-17T00:00:00Z")

    assert len(body["data"]) == 5001
    assert [row["app"] for row in body["data"][:2]] == ["Firefox", "App 0000"]
    assert body["data"][5000] == {
        "app": None,
        "category": "Games",
        "productivity": "distracting",
        "total_ms": 3000,
        "percent": 0.06,
        "session_count": 3,
        "longest_session_ms": 1000,
        "first_used_at": "2025-06-16T01:23:19.000Z",
        "last_used_at": "2025-06-16T01:23:22.000Z",
    }
    assert [row["domain"] for row in body["domains"]] == [f"{n:04}.example" for n in range(1000)]
    assert body["totals"] == {
        "tracked_ms": 5_062_000,
        "app_count": 5003,
        "session_count": 5003,
        "domains_ms": 5_002_000,
        "without_domain_ms": 60_000,
    }


def test_an_empty_account_has_no_rows(api: TestClient, alice: Person) -> None:
    body = ask(api, alice, "2025-06-16T00:00:00Z", "2025-06-17T00:00:00Z")

    assert body["data"] == []
    assert body["domains"] == []
    assert set(body["totals"].values()) == {0}


def test_a_range_of_no_length_is_empty_even_within_a_session(
    api: TestClient, alice: Person
) -> None:
    post(api, alice, [event("Code", "09:00:00", "10:00:00")])

    body = ask(api, alice, "2025-06-16T09:30:00Z", "2025-06-16T09:30:00Z")

    assert body["data"] == []


def test_a_session_without_length_counts_at_the_start_of_a_range_and_not_at_its_end(
    api: TestClient, alice: Person
) -> None:
    post(
        api,
        alice,
        [event("First", "09:00:00", "09:00:00"), event("End", "10:00:00", "10:00:00")],
    )

    body = ask(api, alice, "2025-06-16T09:00:00Z", "2025-06-16T10:00:00Z")

    assert [(row["app"], row["session_count"]) for row in body["data"]] == [("First", 1)]


def test_bob_sees_nothing_of_alices(api: TestClient, alice: Person, bob: Person) -> None:
    post(api, alice, [event("Secret of alice", "09:00:00", "10:00:00")])

    body = ask(api, bob, "2025-06-16T00:00:00Z", "2025-06-17T00:00:00Z")

    assert body["data"] == []


def test_the_first_device_in_byte_order_owns_the_time_of_equal_starts(
    api: TestClient, alice: Person
) -> None:
    post(
        api,
        alice,
        [
            event("B", "09:00:00", "10:00:00", device="b"),
            event("A", "09:00:00", "10:00:00", device="a"),
            event("Upper", "09:00:00", "09:30:00", device="Z"),
        ],
    )

    body = ask(api, alice, "2025-06-16T09:00:00Z", "2025-06-16T10:00:00Z")

    assert [(row["app"], row["total_ms"]) for row in body["data"]] == [
        ("A", 1_800_000),
        ("Upper", 1_800_000),
        ("B", 0),
    ]


# Few distinct instants make equal starts, equal ends and zero lengths common; some lie a day away, so
# that sessions of nearly a day reach into ranges that begin long after them.
INSTANTS = st.builds(
    lambda n, days: n * 977 + days * 43_200_000,
    st.integers(0, 40),
    st.sampled_from([0, 0, 0, 1, 2]),
)
LENGTHS = st.one_of(
    st.integers(0, 40).map(lambda n: n * 977), st.sampled_from([0, 82_800_000, 86_400_000])
)
SESSIONS = st.lists(
    st.builds(
        lambda device, app, start, length, idle: (device, app, start, start + length, idle),
        st.sampled_from(["a", "B", "ä"]),
        st.sampled_from(["w", "Y", "é", "z"]),
        INSTANTS,
        LENGTHS,
        st.sampled_from([False, False, False, True]),
    ),
    max_size=25,
)


def with_sessions(
    api: TestClient,
    owner: psycopg.Connection[Any],
    sessions: list[tuple[str, str, int, int, bool]],
) -> tuple[Person, list[Session]]:
    """Return an account that has posted only ``sessions``, and the model's copy of them."""
    owner.execute("delete from identity.user where email = 'carol@example.org'")
    row = owner.execute(
        "insert into identity.user (email) values ('carol@example.org') returning user_id"
    ).fetchone()
    assert row is not None
    carol = Person(row[0], "carol@example.org", owner)
    model = [
        Session(f"{n:02}", device, app, start, end, idle)
        for n, (device, app, start, end, idle) in enumerate(sessions)
    ]
    post(
        api,
        carol,
        [
            {
                "idempotency_key": s.key,
                "device": s.device,
                "app": s.app,
                "started_at": instant(s.started),
                "ended_at": instant(s.ended),
                "idle": s.idle,
            }
            for s in model
        ],
    )
    return carol, model


@given(sessions=SESSIONS, edges=st.tuples(INSTANTS, INSTANTS))
def test_any_sessions_give_what_the_slow_model_gives(
    api: TestClient,
    owner: psycopg.Connection[Any],
    sessions: list[tuple[str, str, int, int, bool]],
    edges: tuple[int, int],
) -> None:
    carol, model = with_sessions(api, owner, sessions)
    start, end = sorted(edges)

    body = ask(api, carol, instant(start), instant(end))

    assert body == body | answers.app_usage(model, start, end)


def test_a_session_that_began_long_before_the_range_counts(api: TestClient, alice: Person) -> None:
    post(
        api,
        alice,
        [{"app": "Film", "started_at": "2025-06-15T10:00:00Z", "ended_at": "2025-06-16T09:30:00Z"}],
    )

    body = ask(api, alice, "2025-06-16T09:00:00Z", "2025-06-16T10:00:00Z")

    assert body["totals"]["tracked_ms"] == 1_800_000
    assert body["totals"]["session_count"] == 1


def test_app_and_then_key_decide_about_equal_starts_on_one_device(
    api: TestClient, alice: Person
) -> None:
    post(
        api,
        alice,
        [
            event("A", "09:00:00", "09:10:00", idempotency_key="2", category="Games"),
            event("A", "09:00:00", "09:10:00", idempotency_key="1", category="Writing"),
            event("B", "09:00:00", "09:20:00"),
        ],
    )

    body = ask(api, alice, "2025-06-16T09:00:00Z", "2025-06-16T10:00:00Z")

    assert [(row["app"], row["total_ms"], row["category"]) for row in body["data"]] == [
        ("A", 600_000, "Writing"),
        ("B", 600_000, "Uncategorized"),
    ]


def test_an_app_has_the_first_by_name_of_categories_with_the_same_time(
    api: TestClient, alice: Person
) -> None:
    post(
        api,
        alice,
        [
            event("A", "09:00:00", "09:10:00", category="Writing"),
            event("A", "10:00:00", "10:10:00", category="Design"),
        ],
    )

    body = ask(api, alice, "2025-06-16T09:00:00Z", "2025-06-16T11:00:00Z")

    assert [row["category"] for row in body["data"]] == ["Design"]

"""GET /api/v1/devices."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from starlette.testclient import TestClient

from resourceserver.endpoints.devices import SQL
from shared import SCHEMA_VERSION, pipeline, tokens
from tests.conftest import Connect, Person
from tests.endpoints.test_app_usage import event

PATH = "/api/v1/devices"


def ask(api: TestClient, person: Person) -> dict[str, Any]:
    answer = api.get(PATH, headers=person.headers("read:activity"))
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def send(api: TestClient, person: Person, stream: str, client: str, *events: Any) -> None:
    answer = api.post(
        f"/api/v1/ingest/{stream}",
        json={"events": events, "client": {"name": client}},
        headers=person.headers(f"ingest:{stream.replace('-', '_')}"),
    )
    assert answer.json()["rejected"] == []


def is_now(text: str) -> bool:
    """Whether a time is that of this test: none may run for longer than two minutes."""
    return abs(datetime.now(UTC) - datetime.fromisoformat(text)) < timedelta(minutes=2)


def test_a_device_has_the_kinds_and_times_of_its_events(api: TestClient, alice: Person) -> None:
    coding = event("", "10:00:00", "11:30:00", device="laptop") | {"project": "svc"}
    send(
        api,
        alice,
        "app-sessions",
        "aw-bridge/1.2",
        event("Code", "09:00:00", "10:00:00", device="laptop"),
        event("Code", "10:00:00", "11:00:00", device="laptop", platform="linux"),
    )
    send(api, alice, "coding-sessions", "svc-bridge/0.3", coding)
    send(api, alice, "app-sessions", "phone/2", event("Maps", "12:00:00", "12:10:00"))

    body = ask(api, alice)

    assert body["count"] == 2
    phone, laptop = body["data"]
    for device in (phone, laptop):
        assert is_now(device.pop("first_seen_at"))
        assert is_now(device.pop("last_sync_at"))
        assert len(device.pop("id")) == 36
    assert phone == {
        "name": "phone",
        "display_name": None,
        "platform": None,
        "source": "phone/2",
        "streams": ["app_sessions"],
        "last_event_at": "2025-06-16T12:10:00.000Z",
        "event_count": 1,
        "status": "active",
        "retired_at": None,
    }
    assert laptop == {
        "name": "laptop",
        "display_name": None,
        "platform": "linux",
        "source": "svc-bridge/0.3",
        "streams": ["app_sessions", "coding_sessions"],
        "last_event_at": "2025-06-16T11:30:00.000Z",
        "event_count": 3,
        "status": "active",
        "retired_at": None,
    }


def test_sessions_name_the_device_by_the_same_id(api: TestClient, alice: Person) -> None:
    send(api, alice, "app-sessions", "laptop/1", event("Code", "09:00:00", "10:00:00"))

    (device,) = ask(api, alice)["data"]
    sessions = api.get(
        "/api/v1/sessions/apps",
        params={"from": "2025-06-16T00:00:00Z", "to": "2025-06-17T00:00:00Z"},
        headers=alice.headers("read:activity"),
    ).json()

    assert sessions["data"][0]["device"]["id"] == device["id"]


def test_a_device_without_events_for_a_day_is_stale(
    api: TestClient, owner: psycopg.Connection[Any], alice: Person
) -> None:
    for name in ("a", "b"):
        send(api, alice, "app-sessions", name, event("Code", "09:00:00", "10:00:00"))
        send(api, alice, "app-sessions", name, event(name, "10:00:00", "11:00:00"))
    owner.execute(
        """
        update activity.device_stream
           set last_sync_at = now() - case name
                   when 'a' then interval '24 hours 1 second'
                   else interval '23 hours 59 minutes'
               end
          from activity.device
         where device.user_id = device_stream.user_id
           and device.device_id = device_stream.device_id
        """
    )

    body = ask(api, alice)

    assert [(device["name"], device["status"]) for device in body["data"]] == [
        ("b", "active"),
        ("a", "stale"),
    ]


def test_a_device_without_any_event_is_listed_as_stale(
    api: TestClient, owner: psycopg.Connection[Any], alice: Person
) -> None:
    owner.execute(
        "insert into activity.device (user_id, name, first_seen_at) values (%s, 'new', '2025-01-01')",
        [alice.user_id],
    )

    (device,) = ask(api, alice)["data"]

    assert device | {"id": ""} == {
        "id": "",
        "name": "new",
        "display_name": None,
        "platform": None,
        "source": None,
        "streams": [],
        "first_seen_at": "2025-01-01T00:00:00.000Z",
        "last_sync_at": None,
        "last_event_at": None,
        "event_count": 0,
        "status": "stale",
        "retired_at": None,
    }


def test_pages_list_each_device_once(
    api: TestClient, owner: psycopg.Connection[Any], alice: Person
) -> None:
    # One that was there before, three that came in the same moment, and two that never sent anything.
    send(api, alice, "app-sessions", "x", event("x", "09:00:00", "10:00:00", device="early"))
    events = [event("x", "09:00:00", "10:00:00", device=name) for name in ("a", "b", "c")]
    send(api, alice, "app-sessions", "x", *events)
    owner.execute(
        "insert into activity.device (user_id, name) values (%(id)s, 'new'), (%(id)s, 'newer')",
        {"id": alice.user_id},
    )
    headers = alice.headers("read:activity")

    pages, cursor = [], None
    for _ in range(3):
        params = {"limit": "2"} | ({"cursor": cursor} if cursor else {})
        pages.append(api.get(PATH, params=params, headers=headers).json())
        cursor = pages[-1]["next_cursor"]
        # It sends again while the pages are read, and is listed once all the same.
        send(api, alice, "app-sessions", "x", event("y", "11:00:00", "12:00:00", device="early"))

    names = [device["name"] for page in pages for device in page["data"]]
    assert [page["count"] for page in pages] == [2, 2, 2]
    assert [page["has_more"] for page in pages] == [True, True, False]
    assert (set(names[:2]), set(names[2:5]), names[5]) == (
        {"new", "newer"},
        {"a", "b", "c"},
        "early",
    )
    assert [device["name"] for device in ask(api, alice)["data"]] == names


def test_an_empty_account_has_no_devices(api: TestClient, alice: Person) -> None:
    assert ask(api, alice) == {
        "data": [],
        "count": 0,
        "limit": 100,
        "has_more": False,
        "next_cursor": None,
    }


def test_bob_sees_nothing_of_alices(api: TestClient, alice: Person, bob: Person) -> None:
    send(api, alice, "app-sessions", "laptop", event("Code", "09:00:00", "10:00:00"))

    assert ask(api, bob) == {
        "data": [],
        "count": 0,
        "limit": 100,
        "has_more": False,
        "next_cursor": None,
    }


def rows_compared(node: dict[str, Any]) -> Iterator[int]:
    """Yield the number of rows that each node of a plan has returned or left out, in all its runs."""
    left_out = sum(rows for name, rows in node.items() if name.startswith("Rows Removed by"))
    yield (node["Actual Rows"] + left_out) * node["Actual Loops"]
    for each in node.get("Plans", []):
        yield from rows_compared(each)


def test_many_devices_are_not_compared_with_each_other_where_few_were_expected(
    owner: psycopg.Connection[Any], alice: Person, connect_as: Connect
) -> None:
    token = tokens.parse(tokens.ACCESS, alice.token("read:activity"))
    assert token is not None
    reader = connect_as("reader")
    values = {
        "user_id": alice.user_id,
        "include_retired": "true",
        "cursor_at": "infinity",
        "cursor_id": "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "cursor": None,
        "limit": 1000,
    }
    wanted = pipeline.statement(SQL["devices"])
    marks = ", ".join(["%s"] * len(wanted.parameters))
    reader.execute(b"prepare listing as " + wanted.text)

    def plan() -> dict[str, Any]:
        with reader.transaction():
            reader.execute(
                "call svc.open_token_session(%s, %s, '{}', '{}', p_version => %s)",
                [alice.user_id, token.hash, SCHEMA_VERSION],
            )
            row = (
                psycopg.ClientCursor(reader)
                .execute(
                    f"explain (analyze, format json) execute listing ({marks})".encode(),
                    [values[name] for name in wanted.parameters],
                )
                .fetchone()
            )
        assert row is not None
        planned: dict[str, Any] = row[0][0]["Plan"]
        return planned

    # As in a new deployment: the plan is of a time when nobody had devices, and there are no statistics.
    plan()
    owner.execute(
        """
        with device as (
            insert into activity.device (user_id, name)
            select %s,
                   'device ' || number
              from generate_series(1, 1000) as number
            returning user_id,
                      device_id
        )
        insert into activity.device_stream (user_id, device_id, stream)
        select user_id,
               device_id,
               'app_sessions'
          from device
        """,
        [alice.user_id],
    )

    assert max(rows_compared(plan())) <= 10_000

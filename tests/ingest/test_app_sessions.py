"""POST /api/v1/ingest/app-sessions: counts, rows, devices, and their owners."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import RFC_4122

import pytest
from starlette.testclient import TestClient

from resourceserver.ingest import route
from resourceserver.ingest.events import APP_SESSIONS, CODES, judge, read_batch
from tests.conftest import Person
from tests.ingest.conftest import HOUR, PATH, SCOPE, numbered

KEYLESS = {name: value for name, value in HOUR.items() if name != "idempotency_key"}


def in_hours(hours: float) -> str:
    return (datetime.now(UTC) + timedelta(hours=hours)).isoformat()


def counts(answer: Any) -> tuple[int, int, int]:
    assert answer.status_code == 200, answer.text
    body = answer.json()
    return body["accepted"], body["duplicates"], len(body["rejected"])


def stored(person: Person, columns: str = "idempotency_key") -> list[Any]:
    return person.connection.execute(
        f"select {columns} from activity.app_session"  # noqa: S608 - columns are ours
        " where user_id = %s order by idempotency_key",
        [person.user_id],
    ).fetchall()


def test_an_event_is_stored_as_it_was_sent(api: TestClient, alice: Person) -> None:
    event = {
        "idempotency_key": " laptop:42 ",
        "started_at": "2025-06-16T11:00:00.1239+02:00",
        "duration_ms": 5000,
        "app": " Cafe\u0301 ",
        "title": "main.py \u2013 \U0001f4bb",
        "url": "https://user:secret@www.example.com/a?token=1#top",
        "category": "Development",
        "idle": True,
        "device": "laptop",
        "platform": "linux",
        "utc_offset": "+02:00",
        "metadata": {"b": 1, "a": [1.50, None, 1e3, 12345678901234567890]},
    }

    answer = api.post(
        PATH,
        json={"events": [event], "client": {"name": "aw-bridge/1.2"}},
        headers=alice.headers(SCOPE),
    )

    assert counts(answer) == (1, 0, 0)
    assert stored(
        alice,
        "idempotency_key, started_at, ended_at, app, title, url, domain, category, idle, utc_offset,"
        " source, metadata::text",
    ) == [
        (
            " laptop:42 ",
            datetime(2025, 6, 16, 9, 0, 0, 123000, UTC),
            datetime(2025, 6, 16, 9, 0, 5, 123000, UTC),
            "Caf\u00e9",
            "main.py \u2013 \U0001f4bb",
            "https://www.example.com/a",
            "example.com",
            "Development",
            True,
            "+02:00",
            "aw-bridge/1.2",
            '{"b":1,"a":[1.5,null,1000.0,12345678901234567890]}',
        )
    ]
    assert alice.connection.execute("select name, platform from activity.device").fetchall() == [
        ("laptop", "linux")
    ]


def test_absent_fields_are_null(api: TestClient, alice: Person) -> None:
    api.post(PATH, json={"events": [KEYLESS]}, headers=alice.headers(SCOPE))

    assert stored(
        alice, "idempotency_key, title, url, domain, category, idle, utc_offset, source, metadata"
    ) == [
        (
            "d1:6a2c2c7df90d22e44b92ee58135db96ca3d8c322",
            None,
            None,
            None,
            None,
            False,
            None,
            None,
            None,
        )
    ]
    assert alice.connection.execute("select name, platform from activity.device").fetchall() == [
        ("default", None)
    ]


def test_a_batch_with_every_kind_of_bad_event_keeps_the_good_ones(
    api: TestClient, alice: Person
) -> None:
    future = {"started_at": in_hours(1.1), "duration_ms": 0}
    events = [
        HOUR | {"idempotency_key": "first"},
        5,
        {},
        HOUR | {"duration_ms": "5"},
        HOUR | {"started_at": "2016-12-31T23:59:60Z"},
        HOUR | {"started_at": "1999-12-31T23:59:59.999Z"},
        HOUR | future | {"ended_at": None},
        HOUR | {"ended_at": "2025-06-16T08:59:59.999Z"},
        HOUR | {"duration_ms": 0},
        HOUR | {"ended_at": "2025-06-17T09:00:00.001Z"},
        HOUR | {"app": " "},
        HOUR | {"device": "x" * 129},
        HOUR | {"title": "\0"},
        HOUR | {"idempotency_key": "last"},
    ]

    answer = api.post(PATH, json={"events": events}, headers=alice.headers(SCOPE))

    assert counts(answer) == (2, 0, 12)
    assert answer.json()["rejected"] == [
        {"index": 1, "code": "not_an_object", "message": "event: must be a JSON object"},
        {"index": 2, "code": "missing_field", "message": "started_at: is required"},
        {"index": 3, "code": "invalid_type", "message": "duration_ms: must be a whole number"},
        {
            "index": 4,
            "code": "invalid_timestamp",
            "message": "started_at: is not an RFC 3339 date and time with an offset",
        },
        {
            "index": 5,
            "code": "timestamp_out_of_range",
            "message": "started_at: is before 2000-01-01",
        },
        {
            "index": 6,
            "code": "timestamp_in_future",
            "message": "started_at: is more than 1 hour ahead of the server's clock",
        },
        {"index": 7, "code": "invalid_interval", "message": "ended_at: is before started_at"},
        {
            "index": 8,
            "code": "duration_mismatch",
            "message": "duration_ms: differs from ended_at by more than 1 second",
        },
        {
            "index": 9,
            "code": "duration_too_long",
            "message": "ended_at: is more than 24 hours later",
        },
        {"index": 10, "code": "empty_string", "message": "app: is blank"},
        {
            "index": 11,
            "code": "string_too_long",
            "message": "device: is longer than 128 characters",
        },
        {
            "index": 12,
            "code": "invalid_value",
            "message": "title: holds a NUL character or half of a surrogate pair",
        },
    ]
    assert [entry["code"] for entry in answer.json()["rejected"]] == list(CODES)[:-1]
    assert stored(alice) == [("first",), ("last",)]


@pytest.mark.parametrize(
    "value", ["1e400", "-1e400", "9" * 5000, "[" * 32 + "]" * 32, '{"a":' * 500 + "1" + "}" * 500]
)
def test_a_value_that_cannot_be_stored_rejects_only_its_event(
    api: TestClient, alice: Person, value: str
) -> None:
    bad = f'{json.dumps(HOUR)[:-1]},"new":{value}}}'

    answer = api.post(
        PATH,
        content=f'{{"events":[{bad},{json.dumps(HOUR)}]}}',
        headers={"Content-Type": "application/json"} | alice.headers(SCOPE),
    )

    assert counts(answer) == (1, 0, 1)
    assert answer.json()["rejected"][0]["code"] == "invalid_value"


def test_a_retry_gives_duplicates_only(api: TestClient, alice: Person) -> None:
    batch = {"events": [*numbered(range(998)), KEYLESS, KEYLESS | {"title": "other"}]}
    headers = alice.headers(SCOPE)

    first = api.post(PATH, json=batch, headers=headers)
    second = api.post(PATH, json=batch, headers=headers)

    assert counts(first) == (999, 1, 0)
    assert counts(second) == (0, 1000, 0)
    assert len(stored(alice)) == 999


def test_the_first_write_of_a_key_wins(api: TestClient, alice: Person) -> None:
    headers = alice.headers(SCOPE)
    later = HOUR | {"app": "Other", "device": "phone", "ended_at": "2025-06-16T09:30:00Z"}
    api.post(PATH, json={"events": [HOUR | {"app": ""}, HOUR]}, headers=headers)

    answer = api.post(PATH, json={"events": [later, *numbered([43]), later]}, headers=headers)

    assert counts(answer) == (1, 2, 0)
    assert stored(alice, "idempotency_key, app, ended_at") == [
        ("laptop:42", "Code", datetime(2025, 6, 16, 10, tzinfo=UTC)),
        ("laptop:43", "Code", datetime(2025, 6, 16, 10, tzinfo=UTC)),
    ]


def test_two_people_may_use_the_same_key(api: TestClient, alice: Person, bob: Person) -> None:
    batch = {"events": [HOUR]}

    first = api.post(PATH, json=batch, headers=alice.headers(SCOPE))
    second = api.post(PATH, json=batch, headers=bob.headers(SCOPE))

    assert counts(first) == counts(second) == (1, 0, 0)
    assert stored(alice) == stored(bob) == [("laptop:42",)]
    rows = alice.connection.execute(
        "select count(*), count(distinct device_id) from activity.app_session"
    ).fetchone()
    assert rows == (2, 2)


def test_each_device_is_added_once(api: TestClient, alice: Person) -> None:
    headers = alice.headers(SCOPE)
    events = [
        HOUR | {"idempotency_key": "a", "device": "laptop"},
        HOUR | {"idempotency_key": "b", "device": " laptop ", "platform": "linux"},
        HOUR | {"idempotency_key": "b2", "device": "laptop", "platform": "windows"},
        HOUR | {"idempotency_key": "b3", "device": "laptop"},
        HOUR | {"idempotency_key": "c", "device": "Cafe\u0301"},
        HOUR | {"idempotency_key": "d"},
        HOUR | {"idempotency_key": "e", "device": "never", "app": ""},
    ]
    batch = {"events": events, "client": {"name": "phone/2.0"}}

    api.post(PATH, json=batch, headers=headers)
    api.post(PATH, json={"events": [HOUR], "client": {"name": "laptop"}}, headers=headers)

    devices = alice.connection.execute(
        "select name, platform, count(*) from activity.device join activity.app_session"
        ' using (user_id, device_id) group by name, platform order by name collate "C"'
    ).fetchall()
    assert devices == [("Caf\u00e9", None, 1), ("laptop", "linux", 5), ("phone", None, 1)]


def test_full_addresses_are_a_setting(alice: Person, full_url_api: TestClient) -> None:
    event = HOUR | {"url": "https://www.example.com/a?q#f"}

    full_url_api.post(PATH, json={"events": [event]}, headers=alice.headers(SCOPE))

    assert stored(alice, "url, domain") == [("https://www.example.com/a?q#f", "example.com")]


def test_each_session_gets_a_random_id_of_its_own(api: TestClient, alice: Person) -> None:
    api.post(PATH, json={"events": numbered(range(300))}, headers=alice.headers(SCOPE))

    ids = [
        found
        for (found,) in alice.connection.execute("select app_session_id from activity.app_session")
    ]
    assert len(set(ids)) == 300
    # RFC 9562, section 5.4: everything but version and variant is random.
    assert {(found.version, found.variant) for found in ids} == {(4, RFC_4122)}
    assert len({str(found)[:4] for found in ids}) > 250
    assert len({str(found)[-4:] for found in ids}) > 250


def test_fields_that_no_event_of_a_batch_has_are_not_sent_to_the_database() -> None:
    batch = read_batch({"events": numbered([1, 2])})
    rows = judge(APP_SESSIONS, batch, now_ms=2**42, full_urls=False).rows
    rows[1]["title"] = "Notes"

    columns = route.columns_of(APP_SESSIONS, rows)

    assert {name for name, values in columns.items() if values is None} == {
        "category",
        "domain",
        "idle",
        "metadata",
        "url",
        "utc_offset",
    }
    assert columns["title"] == '[null,"Notes"]'

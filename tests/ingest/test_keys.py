"""Idempotency keys of both streams: a later event with the same key changes nothing."""

from typing import Any

import pytest
from psycopg.rows import dict_row
from starlette.testclient import TestClient

from tests.conftest import Person

TABLES = {"app_sessions": "app_session", "coding_sessions": "coding_session"}
VALID = {
    "started_at": "2025-06-16T09:00:00Z",
    "ended_at": "2025-06-16T10:00:00Z",
    "app": "Code",
    "project": "svc",
}
OTHERWISE = {
    "started_at": "2025-06-16T09:30:00Z",
    "ended_at": "2025-06-16T09:45:00Z",
    "app": "Firefox",
    "project": "other",
    "title": "other",
    "url": "https://example.org/other",
    "category": "Writing",
    "idle": True,
    "device": "other",
    "platform": "linux",
    "utc_offset": "+02:00",
    "metadata": {"other": 1},
    "language": "Python",
    "file": "other.py",
    "branch": "other",
    "editor": "vim",
    "activity": "testing",
    "lines_added": 5,
    "lines_removed": 5,
    "is_write": True,
}

each_stream = pytest.mark.parametrize("stream", list(TABLES))


def post(api: TestClient, person: Person, stream: str, *events: Any) -> tuple[int, int, int]:
    """Return how many events were accepted, duplicates and rejected."""
    answer = api.post(
        f"/api/v1/ingest/{stream.replace('_', '-')}",
        json={"events": events, "client": {"name": "tracker/1"}},
        headers=person.headers(f"ingest:{stream}"),
    )
    assert answer.status_code == 200, answer.text
    result = answer.json()
    return result["accepted"], result["duplicates"], len(result["rejected"])


def rows(person: Person, stream: str) -> list[dict[str, Any]]:
    cursor = person.connection.cursor(row_factory=dict_row)
    return cursor.execute(
        f"select session.*, session.metadata::text as metadata from activity.{TABLES[stream]}"  # noqa: S608
        " as session order by idempotency_key"
    ).fetchall()


@each_stream
def test_keys_are_compared_as_they_are_sent(api: TestClient, alice: Person, stream: str) -> None:
    keys = ["k", " k", "k ", "K", "\u00e9", "e\u0301", "\u200b", "\U0001f511"]
    events = [VALID | {"idempotency_key": key} for key in keys]

    first = post(api, alice, stream, *events)
    second = post(api, alice, stream, *events)

    assert (first, second) == ((8, 0, 0), (0, 8, 0))
    assert {row["idempotency_key"] for row in rows(alice, stream)} == set(keys)


@each_stream
@pytest.mark.parametrize("name", OTHERWISE)
def test_an_event_once_written_never_changes(
    api: TestClient, alice: Person, stream: str, name: str
) -> None:
    event = VALID | {"idempotency_key": "k"}
    post(api, alice, stream, event)
    before = rows(alice, stream)

    later = post(api, alice, stream, event | {name: OTHERWISE[name]})

    assert later == (0, 1, 0)
    assert rows(alice, stream) == before


@each_stream
def test_the_first_valid_event_of_a_key_in_a_batch_is_written(
    api: TestClient, alice: Person, stream: str
) -> None:
    event = VALID | {"idempotency_key": "k"}

    result = post(
        api, alice, stream, event | {"duration_ms": -1}, event | {"utc_offset": "+01:00"}, event
    )

    assert result == (1, 1, 1)
    assert [row["utc_offset"] for row in rows(alice, stream)] == ["+01:00"]


@each_stream
def test_the_key_of_a_rejected_event_is_still_free(
    api: TestClient, alice: Person, stream: str
) -> None:
    event = VALID | {"idempotency_key": "k"}

    first = post(api, alice, stream, event | {"duration_ms": -1})
    second = post(api, alice, stream, event)

    assert (first, second) == ((0, 0, 1), (1, 0, 0))


@pytest.mark.parametrize(
    ("stream", "key"),
    [
        ("app_sessions", "d1:982485130d895dfec6ae6b4b40fc5ae8c4f57ba0"),
        ("coding_sessions", "d1:a6eab80c9fa6c2eefea64e452de9d9eddd662862"),
    ],
)
def test_a_tracker_may_derive_the_key_itself(
    api: TestClient, alice: Person, stream: str, key: str
) -> None:
    event = VALID | {"device": "laptop", "language": "Python", "file": "app/api.py"}

    first = post(api, alice, stream, event)
    second = post(api, alice, stream, event | {"idempotency_key": key})

    assert (first, second) == ((1, 0, 0), (0, 1, 0))

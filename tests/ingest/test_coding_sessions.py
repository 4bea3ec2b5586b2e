"""POST /api/v1/ingest/coding-sessions: stored rows and counts of a batch."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from click.testing import CliRunner
from starlette.testclient import TestClient

from resourceserver.ingest.events import CODES
from resourceserver.trackers.commands import ingest
from shared.settings import Settings
from tests.conftest import Person

PATH = "/api/v1/ingest/coding-sessions"
SCOPE = "ingest:coding_sessions"

HOUR = {
    "idempotency_key": "editor:42",
    "started_at": "2025-06-16T09:00:00Z",
    "ended_at": "2025-06-16T10:00:00Z",
    "project": "svc",
}
KEYLESS = {name: value for name, value in HOUR.items() if name != "idempotency_key"}


def counts(answer: Any) -> tuple[int, int, int]:
    assert answer.status_code == 200, answer.text
    body = answer.json()
    return body["accepted"], body["duplicates"], len(body["rejected"])


def stored(person: Person, columns: str = "idempotency_key") -> list[Any]:
    return person.connection.execute(
        f"select {columns} from activity.coding_session"  # noqa: S608 - columns are ours
        " where user_id = %s order by idempotency_key",
        [person.user_id],
    ).fetchall()


def test_an_event_is_stored_as_it_was_sent(api: TestClient, alice: Person) -> None:
    event = {
        "idempotency_key": "editor:42",
        "started_at": "2025-06-16T11:00:00.1239+02:00",
        "duration_ms": 5000,
        "project": " Cafe\u0301 ",
        "language": "Python",
        "file": "app/api.py",
        "branch": "main",
        "editor": "vscode",
        "activity": "yak shaving",
        "lines_added": 41,
        "lines_removed": 7,
        "is_write": True,
        "device": "laptop",
        "platform": "linux",
        "utc_offset": "+02:00",
        "metadata": {"b": 1, "a": [1.50, None]},
    }

    answer = api.post(
        PATH,
        json={"events": [event], "client": {"name": "svc-bridge/0.3"}},
        headers=alice.headers(SCOPE),
    )

    assert counts(answer) == (1, 0, 0)
    assert stored(
        alice,
        "idempotency_key, started_at, ended_at, project, language, file, branch, editor, activity,"
        " lines_added, lines_removed, is_write, utc_offset, source, metadata::text",
    ) == [
        (
            "editor:42",
            datetime(2025, 6, 16, 9, 0, 0, 123000, UTC),
            datetime(2025, 6, 16, 9, 0, 5, 123000, UTC),
            "Caf\u00e9",
            "Python",
            "app/api.py",
            "main",
            "vscode",
            "other",
            41,
            7,
            True,
            "+02:00",
            "svc-bridge/0.3",
            '{"b":1,"a":[1.5,null]}',
        )
    ]
    assert alice.connection.execute("select name, platform from activity.device").fetchall() == [
        ("laptop", "linux")
    ]


def test_absent_fields_are_null_and_the_activity_is_coding(api: TestClient, alice: Person) -> None:
    api.post(PATH, json={"events": [KEYLESS]}, headers=alice.headers(SCOPE))

    assert stored(
        alice,
        "idempotency_key, language, file, branch, editor, activity, lines_added, lines_removed,"
        " is_write, utc_offset, source, metadata",
    ) == [
        (
            "d1:705e6501438b4a6ff52e9bae8b2bb5a11ef62910",
            *(None, None, None, None),
            "coding",
            *(None, None, None, None, None, None),
        )
    ]


def test_a_batch_with_every_kind_of_bad_event_keeps_the_good_ones(
    api: TestClient, alice: Person
) -> None:
    future = (datetime.now(UTC) + timedelta(hours=1.1)).isoformat()
    events = [
        HOUR | {"idempotency_key": "first"},
        5,
        {},
        HOUR | {"lines_added": "5"},
        HOUR | {"started_at": "2016-12-31T23:59:60Z"},
        HOUR | {"started_at": "1999-12-31T23:59:59.999Z"},
        HOUR | {"started_at": future, "ended_at": None, "duration_ms": 0},
        HOUR | {"ended_at": "2025-06-16T08:59:59.999Z"},
        HOUR | {"duration_ms": 0},
        HOUR | {"ended_at": "2025-06-17T09:00:00.001Z"},
        HOUR | {"project": " "},
        HOUR | {"project": "x" * 256},
        HOUR | {"lines_removed": -1},
        HOUR | {"idempotency_key": "last"},
    ]

    answer = api.post(PATH, json={"events": events}, headers=alice.headers(SCOPE))

    assert counts(answer) == (2, 0, 12)
    assert [entry["index"] for entry in answer.json()["rejected"]] == list(range(1, 13))
    assert [entry["code"] for entry in answer.json()["rejected"]] == list(CODES)[:-1]
    assert stored(alice) == [("first",), ("last",)]


def test_a_retry_gives_duplicates_only_and_the_first_write_wins(
    api: TestClient, alice: Person
) -> None:
    headers = alice.headers(SCOPE)
    batch = {
        "events": [
            *[HOUR | {"idempotency_key": f"editor:{n}"} for n in range(998)],
            KEYLESS,
            KEYLESS | {"branch": "other"},
        ]
    }
    changed = [event | {"lines_added": 5} for event in batch["events"]]

    first = api.post(PATH, json=batch, headers=headers)
    second = api.post(PATH, json=batch, headers=headers)
    third = api.post(PATH, json={"events": changed}, headers=headers)

    assert counts(first) == (999, 1, 0)
    assert counts(second) == counts(third) == (0, 1000, 0)
    assert stored(alice, "lines_added") == [(None,)] * 999


def test_streams_and_people_have_separate_keys(api: TestClient, alice: Person, bob: Person) -> None:
    app = {
        "events": [{**KEYLESS, "app": "Code", "idempotency_key": "editor:42", "device": "laptop"}]
    }

    answers = [
        api.post(
            "/api/v1/ingest/app-sessions", json=app, headers=alice.headers("ingest:app_sessions")
        ),
        api.post(PATH, json={"events": [HOUR]}, headers=alice.headers(SCOPE)),
        api.post(PATH, json={"events": [HOUR]}, headers=bob.headers(SCOPE)),
    ]

    assert [counts(answer) for answer in answers] == [(1, 0, 0)] * 3
    assert stored(alice) == stored(bob) == [("editor:42",)]


def test_the_scope_of_the_other_stream_is_not_enough(api: TestClient, alice: Person) -> None:
    answer = api.post(PATH, json={"events": []}, headers=alice.headers("ingest:app_sessions"))

    assert answer.status_code == 403
    assert answer.json() == {
        "error": "insufficient_scope",
        "message": "ingest:coding_sessions is required",
    }


def test_a_full_batch_at_every_limit_fits(api: TestClient, alice: Person) -> None:
    events = [
        {
            "idempotency_key": f"{number:04}" + "\u00e9" * 196,
            "started_at": "2025-06-16T09:00:00.123456789+00:00",
            "ended_at": "2025-06-17T09:00:00.123456789+00:00",
            "duration_ms": 86_400_000,
            "device": "\u20ac" * 128,
            "platform": "windows",
            "utc_offset": "+02:00",
            "metadata": {"m": "\u00e9" * 2044},
            "project": "\u20ac" * 255,
            "language": "\u20ac" * 64,
            "file": "\u20ac" * 1024,
            "branch": "\u20ac" * 255,
            "editor": "\u20ac" * 64,
            "activity": "writing_docs",
            "lines_added": 10_000_000,
            "lines_removed": 10_000_000,
            "is_write": False,
        }
        for number in range(1000)
    ]
    body = json.dumps({"events": events, "client": {"name": "\u20ac" * 128}}, ensure_ascii=True)

    answer = api.post(
        PATH,
        content=body,
        headers={"Content-Type": "application/json"} | alice.headers(SCOPE),
    )

    assert len(body) < 40 * 1024 * 1024
    assert counts(answer) == (1000, 0, 0)


def test_the_command_posts_coding_sessions(address: str, alice: Person) -> None:
    token = alice.token(SCOPE)
    lines = "\n".join(json.dumps(HOUR | {"idempotency_key": f"{n}"}) for n in range(1500))

    runs = [
        CliRunner().invoke(
            ingest,
            ["-", "--stream", "coding-sessions", "--token", token],
            input=lines,
            obj=replace(Settings(), base_url=address),
        )
        for _ in range(2)
    ]

    assert [run.stdout for run in runs] == [
        "accepted 1500, duplicates 0, rejected 0\n",
        "accepted 0, duplicates 1500, rejected 0\n",
    ]
    assert len(stored(alice)) == 1500

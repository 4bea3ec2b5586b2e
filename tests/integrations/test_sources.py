"""What GET /api/v1/integrations says of files, connections, receivers and trackers."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
from psycopg.sql import SQL
from starlette.testclient import TestClient

from resourceserver.integrations.imports import undo
from resourceserver.integrations.imports.receipts import Receipt
from resourceserver.integrations.records import AppSession, Sourced
from shared.connections import KINDS
from tests.conftest import Person
from tests.connecting import connect
from tests.integrations.bringing import Importer, of_listens
from tests.mcp.assistant import Assistant

Rows = psycopg.Connection[Any]


def sources(api: TestClient, person: Person, *scopes: str) -> list[dict[str, Any]]:
    answer = api.get("/api/v1/integrations", headers=person.headers(*scopes))
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    assert body["count"] == len(body["data"])
    return list(body["data"])


def bring(importer: Importer, folder: Path, *lines: str) -> Receipt:
    """Import a file of plays, whose lines are minutes after 15:06:40 on June 15."""
    path = folder / "a.plays"
    path.write_text("\n".join(lines))
    return importer.run(path, of_listens())


def test_a_source_of_files_says_what_they_cover_and_what_was_refused(
    api: TestClient, importer: Importer, alice: Person, bob: Person, tmp_path: Path
) -> None:
    bring(importer, tmp_path, "0", "9", "x")
    bring(importer, tmp_path, "3000", "3001", "4000", "10000", "y", "z")
    bring(importer, tmp_path, "20000", "stop")
    receipt = bring(importer, tmp_path, "10001", "y", "z")

    found = sources(api, alice, "read:profile")

    assert found == [
        {
            "provider": "plays",
            "kind": "music",
            "via": "import",
            "name": None,
            "connected": False,
            "status": "disconnected",
            "connected_at": None,
            "last_sync_at": receipt["finished_at"],
            "first_record_at": "2025-06-15T15:06:40.000Z",
            "last_record_at": "2025-06-29T12:26:40.000Z",
            "gaps": [
                {"starts_at": "2025-06-15T15:15:40.000Z", "ends_at": "2025-06-17T17:06:40.000Z"},
                {"starts_at": "2025-06-22T13:47:40.000Z", "ends_at": "2025-06-29T12:26:40.000Z"},
            ],
            "refused": 2,
            "last_error": "bad",
            "problem": "2 of 3 records were refused",
            "records": {"read": 3, "new": 1, "known": 0, "changed": 0, "refused": 2},
        }
    ]
    assert sources(api, bob) == []


def test_only_the_longest_gaps_are_listed(
    api: TestClient, importer: Importer, alice: Person, tmp_path: Path
) -> None:
    for day in (0, 2, 5, 9, 14):
        bring(importer, tmp_path, str(day * 1440))

    (row,) = sources(api, alice)

    assert [gap["starts_at"][:10] for gap in row["gaps"]] == [
        "2025-06-17", "2025-06-20", "2025-06-24"
    ]  # fmt: skip


def test_a_file_that_could_not_be_read_to_its_end_is_the_last_error(
    api: TestClient, importer: Importer, alice: Person, tmp_path: Path
) -> None:
    bring(importer, tmp_path, "0", "x", "stop")

    (row,) = sources(api, alice)

    assert (row["refused"], row["last_error"], row["gaps"]) == (1, "unreadable", [])
    assert row["problem"] == (
        "1 of 1 files could not be read to the end; 1 of 2 records were refused"
    )


def test_a_source_whose_only_import_is_undone_is_gone(
    api: TestClient, importer: Importer, owner: Rows, alice: Person, tmp_path: Path
) -> None:
    receipt = bring(importer, tmp_path, "0")
    assert len(sources(api, alice)) == 1

    undo.undo(owner, alice.user_id, UUID(receipt["import_id"]))

    assert sources(api, alice) == []


def test_trackers_need_the_scope_of_their_sessions(
    api: TestClient, importer: Importer, owner: Rows, alice: Person, tmp_path: Path
) -> None:
    owner.execute(
        """
        with device as (
            insert into activity.device (user_id, name, first_seen_at)
            values (%(alice)s, 'desk', '2025-06-01 09:00Z'), (%(alice)s, 'lap', '2025-06-02 09:00Z')
            returning user_id, device_id, name
        )
        insert into activity.device_stream
        select user_id,
               device_id,
               'app_sessions',
               case name when 'desk' then 'bridge/1' end,
               case name when 'desk' then now() else '2025-06-03 09:00Z' end,
               '2025-06-03 08:00Z',
               1
          from device
        """,
        {"alice": alice.user_id},
    )
    at = datetime(2025, 6, 15, 12, tzinfo=UTC)
    importer.take(
        tmp_path / "a", AppSession("a", at, at + timedelta(minutes=5), "phone", "Firefox")
    )

    found = sources(api, alice, "read:profile", "read:activity")
    without = sources(api, alice, "read:profile")

    # The import counted its sessions for the phone, but no tracker has sent them.
    assert [(row["provider"], row["via"], row["kind"], row["status"]) for row in found] == [
        ("any", "import", "music", "disconnected"),
        ("bridge/1", "tracker", "activity", "active"),
        ("unknown", "tracker", "activity", "disconnected"),
    ]
    assert found[1]["connected_at"] == "2025-06-01T09:00:00.000Z"
    assert found[1]["last_record_at"] == "2025-06-03T08:00:00.000Z"
    assert [row["provider"] for row in without] == ["any"]


def test_a_connection_has_the_status_of_its_state(
    api: TestClient, owner: Rows, alice: Person, bob: Person
) -> None:
    failing = "problem = 'unreachable', failing_since = '2025-06-15 12:00Z'"
    refused = "problem = 'key_refused', failing_since = '2025-06-15 12:00Z', is_refused = true"
    changes = {
        "overland": "data = data",
        "wakatime": "last_record_at = '2025-06-15 12:00Z'",
        "github": f"{failing}, last_record_at = '2025-06-15 12:00Z'",
        "gitlab": refused,
        "calendar": f"{refused}, paused_at = now()",
        "lastfm": f"{failing}, paused_at = now(), stopped_at = now(), next_pull_at = null, record_count = 1",
    }
    for kind, change in changes.items():
        connected = connect(owner, alice, kind)
        statement = SQL("update profile.connection set {} where connection_id = %s")
        owner.execute(statement.format(SQL(change)), [connected.connection_id])

    rows = sources(api, alice)

    since = "since 2025-06-15T12:00:00.000Z"
    assert {
        row["provider"]: (row["status"], row["connected"], row["last_error"], row["problem"])
        for row in rows
    } == {
        "overland": ("active", True, None, None),
        "wakatime": ("active", True, None, None),
        "github": ("error", True, "unreachable", since),
        "gitlab": ("expired", False, "key_refused", since),
        "calendar": ("disconnected", False, "key_refused", since),
        "lastfm": ("disconnected", False, "unreachable", since),
    }
    assert sources(api, bob) == []


def test_a_connection_that_an_application_sends_to_is_a_receiver(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    for kind in KINDS:
        connect(owner, alice, kind)

    via = {row["provider"]: row["via"] for row in sources(api, alice)}

    assert via == {
        kind.name: "receiver" if kind.way == "sends" else "connection" for kind in KINDS.values()
    }
    status = Assistant(api, alice.headers()).ask("get_data_status")
    assert {row["provider"]: row["via"] for row in status["integrations"]} == via


def test_an_import_makes_no_tracker_look_alive(
    api: TestClient, importer: Importer, owner: Rows, alice: Person, tmp_path: Path
) -> None:
    at = datetime(2025, 6, 15, 12, tzinfo=UTC)
    early, late = (
        Sourced("bridge/1", AppSession(key, start, start + timedelta(minutes=5), "desk", "Firefox"))
        for key, start in (("early", at), ("late", at + timedelta(hours=2)))
    )
    event = {
        "started_at": "2025-06-15T13:00:00Z",
        "ended_at": "2025-06-15T13:05:00Z",
        "app": "Code",
        "device": "desk",
    }

    importer.take(tmp_path / "a", early)
    restored = sources(api, alice, "read:profile", "read:activity")
    devices = api.get("/api/v1/devices", headers=alice.headers()).json()["data"]
    api.post(
        "/api/v1/ingest/app-sessions",
        json={"client": {"name": "bridge/1"}, "events": [event]},
        headers=alice.headers("ingest:app_sessions"),
    ).raise_for_status()
    owner.execute("update activity.device_stream set last_sync_at = '2025-06-15 14:00Z'")
    importer.take(tmp_path / "b", late)
    later = sources(api, alice, "read:profile", "read:activity")

    assert [row["via"] for row in restored] == ["import"]
    (device,) = devices
    assert (device["source"], device["last_sync_at"], device["status"]) == (None, None, "stale")
    assert (device["event_count"], device["last_event_at"]) == (1, "2025-06-15T12:05:00.000Z")
    (tracker,) = [row for row in later if row["via"] == "tracker"]
    assert (tracker["provider"], tracker["status"], tracker["last_sync_at"]) == (
        "bridge/1", "disconnected", "2025-06-15T14:00:00.000Z"
    )  # fmt: skip
    assert (tracker["first_record_at"], tracker["last_record_at"]) == (
        "2025-06-15T12:00:00.000Z", "2025-06-15T14:05:00.000Z"
    )  # fmt: skip

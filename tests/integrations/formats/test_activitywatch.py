"""ActivityWatch's export: windows cut to presence, and editors."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from resourceserver.integrations.formats import activitywatch as module
from resourceserver.integrations.formats.activitywatch import ACTIVITYWATCH
from resourceserver.integrations.records import AppSession, CodingSession
from tests.integrations.memory import Reading, read, recognise

EIGHT_MS = 1750060800000


def bucket(kind: str, *events: Any, host: str = "laptop", client: str = "aw-watcher-x") -> Any:
    return {
        "id": f"{kind}_{host}",
        "name": None,
        "type": kind,
        "client": client,
        "hostname": host,
        "created": "2025-06-01T00:00:00+00:00",
        "data": {},
        "events": list(events),
    }


def event(number: int | None, at: str, duration: Any, **data: Any) -> dict[str, Any]:
    return {
        "id": number,
        "timestamp": f"2025-06-16T{at}+00:00",
        "duration": duration,
        "data": data,
    }


def window(number: int, at: str, duration: Any, app: str = "Code") -> dict[str, Any]:
    return event(number, at, duration, app=app, title="main.py")


def export(*buckets: Any) -> str:
    return json.dumps({"buckets": {each["id"]: each for each in buckets}})


def read_buckets(*buckets: Any) -> Reading:
    return read(ACTIVITYWATCH, export(*buckets))


def test_windows_are_cut_to_presence_which_may_stand_behind_them() -> None:
    reading = read_buckets(
        bucket("currentwindow", window(7, "08:00:00.250", 600.5)),
        bucket(
            "afkstatus",
            event(2, "08:06:00", 60, status="not-afk"),
            event(3, "08:05:00", 60, status="afk"),
            event(1, "07:00:00", 3900, status="not-afk"),
        ),
    )

    assert reading.refused == []
    assert reading.records == [
        AppSession(
            key=f"aw:currentwindow_laptop:7:{EIGHT_MS + 250}",
            started_at=datetime(2025, 6, 16, 8, 0, 0, 250_000, tzinfo=UTC),
            ended_at=datetime(2025, 6, 16, 8, 5, tzinfo=UTC),
            device="laptop",
            app="Code",
            title="main.py",
        ),
        AppSession(
            key=f"aw:currentwindow_laptop:7:{EIGHT_MS + 360_000}",
            started_at=datetime(2025, 6, 16, 8, 6, tzinfo=UTC),
            ended_at=datetime(2025, 6, 16, 8, 7, tzinfo=UTC),
            device="laptop",
            app="Code",
            title="main.py",
        ),
    ]


def test_a_host_without_a_presence_watcher_has_its_windows_whole() -> None:
    reading = read_buckets(
        bucket("afkstatus", event(1, "07:00:00", 60, status="not-afk"), host="other"),
        bucket("currentwindow", window(1, "08:00:00", 60)),
    )

    assert [(each.ended_at - each.started_at).seconds for each in reading.records] == [60]


def test_editors_are_coding_sessions() -> None:
    reading = read_buckets(
        bucket(
            "app.editor.activity",
            event(5, "08:00:00", 60, project="/code/svc/", language="python", file="/code/a.py"),
            client="aw-watcher-vim",
        )
    )

    assert reading.records == [
        CodingSession(
            key=f"aw:app.editor.activity_laptop:5:{EIGHT_MS}",
            started_at=datetime(2025, 6, 16, 8, tzinfo=UTC),
            ended_at=datetime(2025, 6, 16, 8, 1, tzinfo=UTC),
            device="laptop",
            project="svc",
            language="python",
            file="/code/a.py",
            editor="vim",
        )
    ]


def test_what_is_no_session_is_accounted_for() -> None:
    reading = read_buckets(
        bucket("web.tab.current", event(1, "08:00:00", 60), event(2, "08:00:00", 60)),
        bucket(
            "currentwindow",
            window(1, "08:00:00", "long"),
            window(2, "08:00:00", -1),
            window(3, "08:00:00", 1e300),
            {"id": 4, "duration": 1},
            "event",
            window(5, "08:00:00", 0),
            window(6, "08:00:00", "1.5", app=""),
        ),
    )

    assert reading.reasons == [
        "bucket_without_sessions",
        *("invalid_duration", "invalid_duration", "invalid_duration"),
        *("missing_time", "not_an_object"),
    ]
    assert reading.refused[0].example == "web.tab.current_laptop (web.tab.current)"
    assert [each.app for each in reading.records] == ["unknown"]


def test_a_truncated_export_keeps_the_sessions_before_the_break() -> None:
    content = export(bucket("currentwindow", window(1, "08:00:00", 60), window(2, "08:01:00", 60)))

    reading = read(ACTIVITYWATCH, content[:-40])

    assert len(reading.records) == 1
    assert "no JSON" in str(reading.unreadable)


@pytest.mark.parametrize(
    "order",
    [
        ["id", "events", "type", "client", "hostname"],
        ["id", "type", "events", "client", "hostname"],
        ["type", "id", "client", "hostname", "events"],
        # All members sorted by their names.
        ["client", "events", "hostname", "id", "type"],
    ],
)
def test_an_export_whose_events_stand_before_their_bucket_is_unreadable(order: list[str]) -> None:
    buckets = [
        bucket("currentwindow", window(1, "08:00:00", 60), host=host) for host in ("laptop", "desk")
    ]

    reading = read_buckets(*({name: each[name] for name in order} for each in buckets))

    # A part of the sessions would be worse than none: they would be of another device.
    assert (reading.records, reading.refused) == ([], [])
    assert "export the buckets again" in str(reading.unreadable)


def test_times_of_presence_are_joined_where_there_are_too_many_to_keep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SPANS", 4)
    windows = bucket("currentwindow", window(1, "08:00:00", 60))
    touching = [event(1, f"08:00:{second:02d}", 1, status="not-afk") for second in range(20)]
    apart = [event(1, f"08:00:{second:02d}", 1, status="not-afk") for second in range(0, 20, 2)]

    assert len(read_buckets(windows, bucket("afkstatus", *touching)).records) == 1
    assert "times of presence" in str(read_buckets(windows, bucket("afkstatus", *apart)).unreadable)


def test_exports_are_recognised() -> None:
    assert recognise(ACTIVITYWATCH, export(bucket("afkstatus"))) == 1.0
    assert recognise(ACTIVITYWATCH, '{"buckets": []}') == 0.0

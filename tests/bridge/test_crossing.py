"""Outages of either side and of the bridge: no session is lost or stored twice."""

import json
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from resourceserver.integrations.formats.activitywatch import ACTIVITYWATCH
from resourceserver.integrations.records import AppSession
from resourceserver.trackers.activitywatch import ActivityWatchError
from resourceserver.trackers.bridge import BridgeError
from resourceserver.trackers.posting import PostingError
from tests.bridge.conftest import (
    EDITOR,
    PRESENCE,
    WINDOWS,
    Crossing,
    Watch,
    event,
    keys,
    sessions,
)
from tests.conftest import Person
from tests.integrations.memory import read, recognise


def week(count: int) -> list[dict[str, Any]]:
    """Return a number of windows of a minute each, one after the other."""
    start = datetime(2025, 6, 9, tzinfo=UTC)
    return [
        {
            "timestamp": (start + timedelta(minutes=number)).isoformat(),
            "duration": 59,
            "data": {"app": f"App {number % 7}", "title": f"{number}"},
        }
        for number in range(count)
    ]


def test_after_a_week_without_the_server_all_events_are_sent_in_bounded_batches(
    watch: Watch, crossing: Crossing, alice: Person
) -> None:
    watch.make(WINDOWS, "currentwindow")
    watch.insert(WINDOWS, *week(2100))
    crossing = replace(crossing, page=1000)
    away = replace(crossing, server="http://127.0.0.1:1")

    with pytest.raises(PostingError, match=r"127\.0\.0\.1:1 cannot be reached"):
        away.run("00:00:00")
    results = [result for _, result in crossing.results("00:00:00")]
    again = crossing.run("00:01:00")

    assert sum(result.accepted for result in results) == 2100
    assert max(result.sent for result in results) <= 1000
    assert again == {}
    assert len(keys(alice)) == 2100


def test_the_export_of_activitywatch_has_the_sessions_that_the_bridge_sends(
    watch: Watch, crossing: Crossing, alice: Person
) -> None:
    watch.make(WINDOWS, "currentwindow")
    watch.make(PRESENCE, "afkstatus")
    watch.make(EDITOR, "app.editor.activity")
    watch.insert(WINDOWS, *week(60))
    # Present for three quarters of an hour, but for a minute and a half of it.
    start = datetime(2025, 6, 9, tzinfo=UTC)
    watch.insert(
        PRESENCE,
        *(
            {
                "timestamp": (start + timedelta(seconds=second)).isoformat(),
                "duration": length,
                "data": {"status": status},
            }
            for second, length, status in (
                (0, 630, "not-afk"),
                (630, 90, "afk"),
                (720, 1980, "not-afk"),
            )
        ),
    )
    watch.insert(EDITOR, event("00:05:00", 30, file="/a/b.py", project="/a", language="Python"))
    crossing.run("00:00:00")
    content = watch.http.get("/api/0/export").raise_for_status().content

    reading = read(ACTIVITYWATCH, content)

    found = sorted(
        (
            (each.app, f"{each.started_at:%H:%M:%S}.000", f"{each.ended_at:%H:%M:%S}.000")
            for each in reading.records
            if isinstance(each, AppSession)
        ),
        key=itemgetter(1),
    )
    assert (reading.unreadable, reading.reasons) == (None, [])
    assert recognise(ACTIVITYWATCH, content) == 1.0
    assert found == sessions(alice)
    assert len({each.key for each in reading.records}) == len(reading.records) == len(found) + 1


def test_events_of_one_millisecond_are_all_sent(
    watch: Watch, crossing: Crossing, alice: Person
) -> None:
    watch.make(WINDOWS, "currentwindow")
    watch.insert(WINDOWS, *[event("09:00:00", 1, app=f"{number}") for number in range(210)])
    watch.insert(WINDOWS, *[event("09:00:01", 1, app=f"{number}") for number in range(40)])
    watch.insert(WINDOWS, event("09:00:02", 1, app="Code"))

    done = crossing.run("09:10:00")

    assert done == {"app-sessions": (250, 0, 0)}


def test_a_lost_state_file_causes_no_double_sessions(
    watch: Watch, crossing: Crossing, alice: Person
) -> None:
    watch.make(WINDOWS, "currentwindow")
    watch.make(PRESENCE, "afkstatus")
    watch.insert(WINDOWS, *week(250))
    start = "2025-06-09T00:00:00Z"
    present = {"timestamp": start, "duration": 15_000, "data": {"status": "not-afk"}}
    watch.insert(PRESENCE, present)
    first = crossing.run("12:00:00")
    before = sessions(alice)
    crossing.state_file.unlink()

    again = crossing.run("12:00:00")

    assert first == {"app-sessions": (250, 0, 0)}
    assert again == {"app-sessions": (0, 250, 0)}
    assert sessions(alice) == before


def test_a_bridge_that_died_after_a_request_sends_the_rest(
    watch: Watch, crossing: Crossing, alice: Person
) -> None:
    watch.make(WINDOWS, "currentwindow")
    watch.insert(WINDOWS, *week(250))
    dying = crossing.results("00:00:00")
    next(dying)
    next(dying)
    dying.close()

    crossing.run("00:00:00")

    assert len(keys(alice)) == 250


def test_two_bridges_at_once_write_the_union(
    watch: Watch, crossing: Crossing, alice: Person, tmp_path: Path
) -> None:
    watch.make(WINDOWS, "currentwindow")
    watch.insert(WINDOWS, *week(250))
    counts = []

    def cross(mine: Crossing) -> None:
        counts.append(mine.run("00:00:00")["app-sessions"])

    rivals = [crossing, crossing, replace(crossing, state_file=tmp_path / "another.json")]
    threads = [threading.Thread(target=cross, args=[mine]) for mine in rivals]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(keys(alice)) == 250
    assert sum(accepted for accepted, _, _ in counts) == 250
    assert crossing.run("00:00:00") == {}


def test_a_restart_of_activitywatch_while_an_event_grows_loses_nothing(
    watch: Watch, crossing: Crossing, alice: Person
) -> None:
    watch.make(WINDOWS, "currentwindow")
    watch.make(EDITOR, "app.editor.activity")
    watch.beat(WINDOWS, "09:00:00", app="Code")
    watch.beat(WINDOWS, "09:00:30", app="Code")
    before = crossing.run("09:01:00")
    watch.stop()
    with pytest.raises(ActivityWatchError, match="cannot be reached"):
        crossing.run("09:01:30")
    watch.start()
    watch.beat(WINDOWS, "09:01:30", app="Code")
    watch.beat(WINDOWS, "09:01:31", app="Mail")
    watch.insert(EDITOR, event("09:00:00", 10, project="svc"), event("09:01:00", 5, project="svc"))

    after = crossing.run("09:10:00")

    assert before == {}
    assert after == {"app-sessions": (1, 0, 0), "coding-sessions": (1, 0, 0)}
    assert sessions(alice) == [("Code", "09:00:00.000", "09:01:30.000")]


def test_a_bucket_that_was_deleted_and_created_again_is_sent(
    watch: Watch, crossing: Crossing, alice: Person
) -> None:
    watch.make(WINDOWS, "currentwindow")
    watch.insert(WINDOWS, event("09:00:00", 60, app="a"), event("09:01:01", 60, app="b"))
    crossing.run("09:10:00")
    watch.delete(WINDOWS)
    without = crossing.run("09:11:00")
    watch.make(WINDOWS, "currentwindow")
    watch.insert(WINDOWS, event("09:00:00", 60, app="a"), event("09:20:00", 60, app="c"))
    watch.insert(WINDOWS, event("09:22:00", 60, app="d"))

    crossing.run("09:30:00")

    assert without == {}
    assert sessions(alice) == [
        ("a", "09:00:00.000", "09:01:00.000"),
        ("c", "09:20:00.000", "09:21:00.000"),
    ]


def test_two_accounts_in_one_state_file_have_separate_positions(
    watch: Watch, crossing: Crossing, alice: Person, bob: Person
) -> None:
    watch.make(WINDOWS, "currentwindow")
    watch.insert(WINDOWS, event("09:00:00", 60, app="a"), event("09:01:01", 60, app="b"))
    bobs = replace(crossing, token=bob.token("ingest:app_sessions"), account="bob")

    crossing.run("09:10:00")
    theirs = bobs.run("09:10:00")
    again = crossing.run("09:10:00"), bobs.run("09:10:00")

    assert theirs == {"app-sessions": (1, 0, 0)}
    assert again == ({}, {})
    assert sessions(bob) == sessions(alice) == [("a", "09:00:00.000", "09:01:00.000")]


@pytest.mark.parametrize(
    "content", ["", "{", '{"routes":5}', "[]", '{"routes":{"a":{"b":{"next_ms":"x"}}}}']
)
def test_a_foreign_file_is_not_overwritten(watch: Watch, crossing: Crossing, content: str) -> None:
    crossing.state_file.parent.mkdir()
    crossing.state_file.write_text(content)

    with pytest.raises(BridgeError, match="is not a state file"):
        crossing.run("09:00:00")

    assert crossing.state_file.read_text() == content


def test_a_state_file_that_cannot_be_written_is_named(
    watch: Watch, crossing: Crossing, alice: Person
) -> None:
    watch.make(WINDOWS, "currentwindow")
    watch.insert(WINDOWS, event("09:00:00", 60, app="a"), event("09:01:01", 60, app="b"))
    crossing.state_file.parent.write_text("a file where the directory would be")

    with pytest.raises(BridgeError, match=r"bridge\.json cannot be read: Not a directory"):
        crossing.run("09:10:00")


def test_the_state_file_is_small_and_contains_no_secret(watch: Watch, crossing: Crossing) -> None:
    watch.make(WINDOWS, "currentwindow")
    watch.insert(WINDOWS, event("09:00:00", 60, app="a"), event("09:01:01", 60, app="b"))

    crossing.run("09:10:00")

    [(route, places)] = json.loads(crossing.state_file.read_text())["routes"].items()
    assert route.endswith(" to account")
    assert places == {WINDOWS: {"next_ms": 1_750_064_461_000}}
    assert [path.name for path in crossing.state_file.parent.iterdir()] == ["bridge.json"]

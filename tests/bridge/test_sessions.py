"""Which events of ActivityWatch become sessions, and when."""

from typing import Any

import pytest

from tests.bridge.conftest import (
    EDITOR,
    PRESENCE,
    WINDOWS,
    Crossing,
    Watch,
    event,
    keys,
    ms,
    sessions,
)
from tests.conftest import Person


@pytest.fixture
def laptop(watch: Watch) -> Watch:
    """A host with watchers of windows and of presence that have written nothing yet."""
    watch.make(WINDOWS, "currentwindow")
    watch.make(PRESENCE, "afkstatus")
    return watch


def test_windows_are_cut_to_the_times_of_presence(
    laptop: Watch, crossing: Crossing, alice: Person
) -> None:
    laptop.insert(
        WINDOWS,
        event("09:00:00", 3600, app="Code", title="a"),
        event("10:00:00", 60, app="Mail", title="b"),
        event("11:00:00", 1, app="Code", title="c"),
    )
    laptop.insert(
        PRESENCE,
        event("08:55:00", 600, status="not-afk"),
        event("09:05:00", 1500, status="afk"),
        event("09:30:00", 1200, status="not-afk"),
        event("09:50:00", 5400, status="afk"),
        event("11:20:00", 60, status="not-afk"),
    )

    done = crossing.run("11:30:00")

    assert done == {"app-sessions": (2, 0, 0)}
    assert sessions(alice) == [
        ("Code", "09:00:00.000", "09:05:00.000"),
        ("Code", "09:30:00.000", "09:50:00.000"),
    ]
    first = laptop.events(WINDOWS)[0]["id"]
    assert keys(alice) == [
        f"aw:{WINDOWS}:{first}:{ms('09:00:00')}",
        f"aw:{WINDOWS}:{first}:{ms('09:30:00')}",
    ]


def test_the_windows_of_a_host_without_a_presence_watcher_are_sent_whole(
    laptop: Watch, crossing: Crossing, alice: Person
) -> None:
    laptop.make("aw-watcher-window_desk", "currentwindow", host="desk")
    laptop.insert(
        "aw-watcher-window_desk",
        event("09:00:00", 3600, app="Code"),
        event("10:00:00", 60, app="Mail"),
    )
    laptop.insert(PRESENCE, event("08:00:00", 60, status="not-afk"))

    crossing.run("10:10:00")

    assert sessions(alice) == [("Code", "09:00:00.000", "10:00:00.000")]


def test_a_session_has_title_address_device_and_source(
    laptop: Watch, crossing: Crossing, alice: Person
) -> None:
    laptop.make("aw-watcher-window_desk", "currentwindow", host="desk")
    laptop.insert(
        "aw-watcher-window_desk",
        event("09:00:00", 60, app="Safari", title="A page", url="https://example.org/a?b=c"),
        event("09:01:00", 1, app="Safari"),
    )

    crossing.run("09:10:00")

    stored = alice.connection.execute(
        """
        select app, title, url, device.name, source
          from activity.app_session join activity.device using (user_id, device_id)
        """
    ).fetchall()
    assert stored == [("Safari", "A page", "https://example.org/a", "desk", "svc-bridge/test")]


def test_work_in_an_editor_becomes_coding_sessions_regardless_of_presence(
    laptop: Watch, crossing: Crossing, alice: Person
) -> None:
    laptop.make(EDITOR, "app.editor.activity")
    laptop.insert(PRESENCE, event("08:00:00", 3 * 3600, status="afk"))
    laptop.insert(
        EDITOR,
        event(
            "09:00:00",
            90.5,
            project="/srv/alice/code/svc/",
            language="python",
            file="/srv/alice/code/svc/app.py",
            branch="main",
        ),
        event("09:02:00", 30, language="rust"),
        event("09:03:00", 1, project="other"),
    )

    done = crossing.run("09:10:00")

    assert done == {"coding-sessions": (2, 0, 0)}
    stored = alice.connection.execute(
        """
        select project, language, file, branch, editor, device.name,
               extract(epoch from ended_at - started_at)::float
          from activity.coding_session join activity.device using (user_id, device_id)
      order by started_at
        """
    ).fetchall()
    file = "/srv/alice/code/svc/app.py"
    assert stored == [
        ("svc", "python", file, "main", "vscode", "laptop", 90.5),
        ("unknown", "rust", None, None, "vscode", "laptop", 30.0),
    ]


def test_other_buckets_are_not_sent(watch: Watch, crossing: Crossing) -> None:
    watch.make("aw-watcher-web-firefox", "web.tab.current", host="unknown")
    watch.insert(
        "aw-watcher-web-firefox",
        event("09:00:00", 60, url="https://example.org", title="a"),
        event("09:01:00", 60, url="https://example.org", title="b"),
    )

    assert crossing.run("12:00:00") == {}


# When a session has ended


def test_the_newest_event_waits_for_a_later_one(
    laptop: Watch, crossing: Crossing, alice: Person
) -> None:
    for second in range(0, 60, 20):
        laptop.beat(PRESENCE, f"09:00:{second:02}", status="not-afk")
        laptop.beat(WINDOWS, f"09:00:{second:02}", app="Code")
    growing = crossing.run("09:05:00")
    for minute in range(1, 4):
        laptop.beat(PRESENCE, f"09:0{minute}:00", status="not-afk")
        laptop.beat(WINDOWS, f"09:0{minute}:00", app="Code")
    still_growing = crossing.run("09:08:00")
    laptop.beat(WINDOWS, "09:03:01", app="Mail")
    laptop.beat(PRESENCE, "09:03:30", status="not-afk")

    ended = crossing.run("09:09:00")

    assert growing == still_growing == {}
    assert ended == {"app-sessions": (1, 0, 0)}
    assert sessions(alice) == [("Code", "09:00:00.000", "09:03:00.000")]


def test_a_session_waits_until_presence_is_known_to_its_end(
    laptop: Watch, crossing: Crossing, alice: Person
) -> None:
    laptop.insert(WINDOWS, event("09:00:00", 600, app="Code"), event("09:10:01", 300, app="Mail"))
    laptop.beat(PRESENCE, "09:00:00", status="not-afk")
    laptop.beat(PRESENCE, "09:01:00", status="not-afk")
    unknown = crossing.run("09:20:00")
    for minute in range(2, 12):
        laptop.beat(PRESENCE, f"09:{minute:02}:00", status="not-afk")

    known = crossing.run("09:20:00")

    assert unknown == {}
    assert known == {"app-sessions": (1, 0, 0)}
    assert sessions(alice) == [("Code", "09:00:00.000", "09:10:00.000")]


def test_presence_that_is_reported_late_loses_nothing(
    laptop: Watch, crossing: Crossing, alice: Person
) -> None:
    laptop.insert(WINDOWS, event("09:00:00", 600, app="Code"), event("09:10:01", 300, app="Mail"))
    laptop.insert(PRESENCE, event("08:00:00", 60, status="not-afk"))
    days_later = crossing.run("2025-06-19T09:00:00")
    laptop.insert(
        PRESENCE,
        event("08:59:00", 300, status="not-afk"),
        event("09:04:00.001", 3600, status="afk"),
    )

    crossing.run("2025-06-19T09:01:00")

    assert days_later == {}
    assert sessions(alice) == [("Code", "09:00:00.000", "09:04:00.000")]
    assert crossing.lines == [
        f"{WINDOWS!r} waits for its presence watcher, which has sent nothing for an hour"
    ]


def test_an_event_that_comes_a_little_late_and_out_of_order_is_sent(
    watch: Watch, crossing: Crossing, alice: Person
) -> None:
    watch.make(WINDOWS, "currentwindow")
    watch.insert(WINDOWS, event("09:00:00", 10, app="a"), event("09:00:30", 10, app="c"))
    soon = crossing.run("09:01:09")
    watch.insert(WINDOWS, event("09:00:20", 5, app="b"))

    later = crossing.run("09:01:30")

    assert soon == {}
    assert later == {"app-sessions": (2, 0, 0)}
    assert [app for app, _, _ in sessions(alice)] == ["a", "b"]


def test_an_event_waits_at_most_an_hour_for_a_later_one(
    watch: Watch, crossing: Crossing, alice: Person
) -> None:
    watch.make(WINDOWS, "currentwindow")
    watch.insert(WINDOWS, event("09:00:00", 600, app="Code"))

    early = crossing.run("10:09:59")
    late = crossing.run("10:10:00")
    later = crossing.run("12:00:00")

    assert early == later == {}
    assert late == {"app-sessions": (1, 0, 0)}
    assert sessions(alice) == [("Code", "09:00:00.000", "09:10:00.000")]


def test_growth_after_an_hour_of_silence_is_another_piece(
    laptop: Watch, crossing: Crossing, alice: Person
) -> None:
    laptop.insert(WINDOWS, event("09:00:00", 600, app="Code"))
    laptop.insert(PRESENCE, event("08:00:00", 2 * 3600, status="not-afk"))
    crossing.run("12:00:00")
    laptop.beat(WINDOWS, "09:10:50", app="Code")
    crossing.run("12:01:00")
    laptop.beat(WINDOWS, "09:11:20", app="Code")
    laptop.beat(WINDOWS, "09:11:30", app="Mail")

    crossing.run("12:02:00")

    assert sessions(alice) == [
        ("Code", "09:00:00.000", "09:10:00.000"),
        ("Code", "09:10:00.000", "09:10:50.000"),
        ("Code", "09:10:50.000", "09:11:20.000"),
    ]


def test_all_events_before_a_machine_was_switched_off_are_sent(
    laptop: Watch, crossing: Crossing, alice: Person
) -> None:
    laptop.insert(WINDOWS, event("17:00:00", 1800, app="Code"))
    laptop.insert(PRESENCE, event("16:00:00", 5390, status="not-afk"))
    evening = crossing.run("22:00:00")
    laptop.insert(PRESENCE, event("2025-06-18T08:00:00", 600, status="not-afk"))
    laptop.insert(
        WINDOWS,
        event("2025-06-18T08:00:00", 300, app="Mail"),
        event("2025-06-18T08:05:01", 30, app="Code"),
    )

    days_later = crossing.run("2025-06-18T08:15:00")

    assert evening == {"app-sessions": (1, 0, 0)}
    assert days_later == {"app-sessions": (1, 0, 0)}
    assert sessions(alice) == [
        ("Code", "17:00:00.000", "17:29:50.000"),
        ("Mail", "08:00:00.000", "08:05:00.000"),
    ]


# Odd events


def test_events_without_duration_are_not_sent(
    watch: Watch, crossing: Crossing, alice: Person
) -> None:
    watch.make(WINDOWS, "currentwindow")
    watch.insert(
        WINDOWS,
        event("09:00:00", 0, app="a"),
        event("09:00:01", 0.0004, app="b"),
        event("09:00:02", 0.001, app="c"),
        event("09:00:03", -5, app="d"),
        event("09:00:04", 1, app="e"),
    )

    done = crossing.run("09:10:00")

    assert done == {"app-sessions": (1, 0, 0)}
    assert sessions(alice) == [("c", "09:00:02.000", "09:00:02.001")]


def test_the_time_of_an_event_without_data_counts(
    watch: Watch, crossing: Crossing, alice: Person
) -> None:
    watch.make(WINDOWS, "currentwindow", host="")
    watch.insert(
        WINDOWS,
        event("09:00:00", 1),
        event("09:00:02", 1, app=" ", title=""),
        event("09:00:04", 1, app=5, title=["a"], url=None),
        event("09:00:06", 1),
    )

    done = crossing.run("09:10:00")

    assert done == {"app-sessions": (3, 0, 0)}
    assert [app for app, _, _ in sessions(alice)] == ["unknown", "unknown", "unknown"]


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("a\0b", "a\ufffdb"),
        ("a\ud800b", "a\ufffdb"),
        (" 🦉 ", "🦉"),
        ("x" * 2000, "x" * 255),
    ],
)
def test_an_event_with_characters_that_the_database_refuses_is_sent(
    watch: Watch, crossing: Crossing, alice: Person, text: str, stored: str
) -> None:
    watch.make(WINDOWS, "currentwindow")
    watch.insert(WINDOWS, event("09:00:00", 1, app=text, title=text), event("09:00:02", 1, app="b"))

    done = crossing.run("09:10:00")

    assert done == {"app-sessions": (1, 0, 0)}
    assert [app for app, _, _ in sessions(alice)] == [stored]


@pytest.mark.parametrize(
    "bucket", ["with space", "50% (Ünï)?#[x]&y=z", "a:b:c", "..x", "x" * 240, "line\nbreak"]
)
def test_buckets_may_have_unusual_names(
    watch: Watch, crossing: Crossing, alice: Person, bucket: str
) -> None:
    imported(watch, bucket, event("09:00:00", 1, app="a"), event("09:00:02", 1, app="b"))

    done = crossing.run("09:10:00")
    crossing.state_file.unlink()
    again = crossing.run("09:10:00")

    assert done == {"app-sessions": (1, 0, 0)}
    assert again == {"app-sessions": (0, 1, 0)}
    [key] = keys(alice)
    if bucket.isprintable() and len(bucket) < 129:
        assert key.startswith(f"aw:{bucket}:")


def test_an_unreadable_bucket_is_named_once_and_the_others_are_sent(
    watch: Watch, crossing: Crossing, alice: Person
) -> None:
    imported(watch, "a/b", event("09:00:00", 1, app="a"), event("09:00:02", 1, app="b"))
    imported(watch, WINDOWS, event("09:00:00", 1, app="a"), event("09:00:02", 1, app="b"))

    done = crossing.run("09:10:00")

    assert done == {"app-sessions": (1, 0, 0)}
    assert crossing.lines == ["'a/b' cannot be read: ActivityWatch answered 404"]


def imported(watch: Watch, bucket: str, *events: dict[str, Any]) -> None:
    """Make a bucket in the way that takes any name."""
    description = {
        "id": bucket,
        "type": "currentwindow",
        "client": "aw-watcher-window",
        "hostname": "laptop",
        "created": "2025-06-16T00:00:00+00:00",
        "events": list(events),
    }
    watch.http.post("/api/0/import", json={"buckets": {bucket: description}}).raise_for_status()


def test_long_events_are_cut_into_days(laptop: Watch, crossing: Crossing, alice: Person) -> None:
    laptop.insert(
        WINDOWS,
        event("09:00:00", 60 * 3600, app="Code"),
        event("2025-06-18T21:00:01", 1, app="Mail"),
    )
    laptop.insert(PRESENCE, event("2025-06-10T00:00:00", 10 * 86400, status="not-afk"))

    done = crossing.run("2025-06-20T00:00:00")

    assert done["app-sessions"] == (4, 0, 0)
    assert sessions(alice) == [
        ("Code", "09:00:00.000", "09:00:00.000"),
        ("Code", "09:00:00.000", "09:00:00.000"),
        ("Code", "09:00:00.000", "21:00:00.000"),
        ("Mail", "21:00:01.000", "21:00:02.000"),
    ]


def test_events_of_a_clock_that_is_ahead_wait(
    watch: Watch, crossing: Crossing, alice: Person
) -> None:
    watch.make(WINDOWS, "currentwindow")
    watch.insert(
        WINDOWS,
        event("11:00:00", 600, app="Code"),
        event("11:10:01", 600, app="Mail"),
        event("11:20:02", 1, app="Code"),
    )

    before = crossing.run("09:00:00")
    meanwhile = crossing.run("11:15:00")
    after = crossing.run("11:25:00")

    assert before == {}
    assert meanwhile == {"app-sessions": (1, 0, 0)}
    assert after == {"app-sessions": (1, 0, 0)}


def test_correcting_a_clock_that_was_ahead_loses_nothing(
    watch: Watch, crossing: Crossing, alice: Person
) -> None:
    watch.make(WINDOWS, "currentwindow")
    watch.insert(WINDOWS, event("09:50:00", 600, app="Code"), event("10:00:01", 60, app="Mail"))
    crossing.run("10:05:00")
    watch.insert(WINDOWS, event("08:06:00", 600, app="Code"), event("08:16:01", 60, app="Mail"))

    early = crossing.run("08:20:00")
    late = crossing.run("10:30:00")

    assert early == {"app-sessions": (1, 0, 0)}
    assert late == {"app-sessions": (1, 1, 0)}
    assert sessions(alice) == [
        ("Code", "08:06:00.000", "08:16:00.000"),
        ("Mail", "08:16:01.000", "08:17:01.000"),
        ("Code", "09:50:00.000", "10:00:00.000"),
    ]


def test_overlapping_presence_counts_once(laptop: Watch, crossing: Crossing, alice: Person) -> None:
    laptop.insert(
        PRESENCE,
        event("08:00:00", 7200, status="not-afk"),
        event("08:30:00", 3600, status="not-afk"),
        event("08:59:59", 0, status="not-afk"),
        event("10:00:00", 60, status="afk"),
    )
    laptop.insert(
        WINDOWS,
        event("09:00:00", 600, app="Code"),
        event("09:35:00", 600, app="Mail"),
        event("09:50:00", 1, app="Code"),
    )

    done = crossing.run("11:00:00")

    assert done["app-sessions"] == (3, 0, 0)
    assert sessions(alice)[:2] == [
        ("Code", "09:00:00.000", "09:10:00.000"),
        ("Mail", "09:35:00.000", "09:45:00.000"),
    ]


def test_a_session_waits_for_the_slower_of_two_presence_watchers(
    laptop: Watch, crossing: Crossing, alice: Person
) -> None:
    laptop.make(f"{PRESENCE}_too", "afkstatus")
    laptop.insert(WINDOWS, event("09:00:00", 600, app="Code"), event("09:10:01", 60, app="Mail"))
    laptop.insert(PRESENCE, event("08:00:00", 60, status="not-afk"))
    laptop.insert(PRESENCE, event("08:55:00", 60, status="not-afk"))
    laptop.insert(f"{PRESENCE}_too", event("08:55:00", 1800, status="afk"))

    early = crossing.run("09:25:00")
    laptop.insert(PRESENCE, event("08:56:00", 1800, status="not-afk"))
    late = crossing.run("09:26:00")

    assert early == {}
    assert late == {"app-sessions": (1, 0, 0)}
    assert sessions(alice) == [("Code", "09:00:00.000", "09:10:00.000")]


def test_a_presence_watcher_that_has_stopped_is_ignored(
    laptop: Watch, crossing: Crossing, alice: Person
) -> None:
    laptop.make(f"{PRESENCE}_before", "afkstatus")
    laptop.insert(f"{PRESENCE}_before", event("07:00:00", 60, status="afk"))
    laptop.insert(PRESENCE, event("08:55:00", 1800, status="not-afk"))
    laptop.insert(WINDOWS, event("09:00:00", 600, app="Code"), event("09:10:01", 60, app="Mail"))

    done = crossing.run("09:25:00")

    assert done == {"app-sessions": (1, 0, 0)}


def test_events_that_end_far_in_the_future_are_named_once_and_the_others_are_sent(
    watch: Watch, crossing: Crossing, alice: Person
) -> None:
    watch.make(WINDOWS, "currentwindow")
    watch.insert(
        WINDOWS,
        event("09:00:00", 1e9, app="a"),
        event("09:00:01", 60, app="b"),
        event("09:02:00", 60, app="c"),
        event("2099-01-01T00:00:00", 60, app="d"),
    )
    first = watch.events(WINDOWS)[0]["id"]

    done = crossing.run("09:10:00")
    again = crossing.run("09:11:00")

    assert done == {"app-sessions": (1, 0, 1)}
    assert again == {}
    assert sessions(alice) == [("b", "09:00:01.000", "09:01:01.000")]
    assert crossing.lines == [
        f"aw:{WINDOWS}:{first}:{ms('09:00:00')}: timestamp_in_future:"
        " ended_at: is more than a day from now"
    ]


def test_a_rejected_event_is_named_once_and_the_others_are_sent(
    watch: Watch, crossing: Crossing, alice: Person
) -> None:
    watch.make(WINDOWS, "currentwindow")
    watch.insert(
        WINDOWS,
        event("1999-12-31T09:00:00", 60, app="a"),
        event("09:01:00", 60, app="b"),
        event("09:03:00", 60, app="c"),
    )

    done = crossing.run("09:10:00")
    again = crossing.run("09:10:00")

    assert done == {"app-sessions": (1, 0, 1)}
    assert again == {}
    assert len(crossing.lines) == 1
    assert "timestamp_out_of_range: started_at: " in crossing.lines[0]

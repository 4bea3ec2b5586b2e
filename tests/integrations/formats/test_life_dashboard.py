"""What becomes of the screen time of an Android phone."""

import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from resourceserver.integrations.formats import life_dashboard
from resourceserver.integrations.formats.life_dashboard import SCREEN_TIME
from resourceserver.integrations.records import ScreenTime
from tests.integrations.memory import ALICE, read, recognise
from tests.integrations.more_samples import screen_time, screen_time_message

EIGHT = datetime(2025, 6, 16, 8, tzinfo=UTC)
NINE = datetime(2025, 6, 16, 9, tzinfo=UTC)
FIREFOX = ScreenTime(
    key="2025-06-16:Google Pixel 8:org.mozilla.firefox",
    date=date(2025, 6, 16),
    device="Google Pixel 8",
    app="org.mozilla.firefox",
    duration_ms=45 * 60_000,
    counted_at=NINE,
    name="Firefox",
    last_used_at=EIGHT,
)


def days_of(*apps: Any) -> list[Any]:
    return [{"date": "2025-06-16", "apps": list(apps)}]


def test_the_minutes_of_each_application_and_day_are_read() -> None:
    apps = [{"package": "a", "minutes": 0.5}, {"package": "b", "minutes": 1440, "name": ""}]
    message = screen_time_message(screen_time=days_of(*apps), device=None)

    reading = read(SCREEN_TIME, json.dumps(message))

    assert read(SCREEN_TIME, screen_time().content).records == [FIREFOX]
    assert reading.records == [
        ScreenTime("2025-06-16::a", date(2025, 6, 16), "", "a", 30_000, NINE),
        ScreenTime("2025-06-16::b", date(2025, 6, 16), "", "b", 86_400_000, NINE),
    ]


@pytest.mark.parametrize("form", ["one", "array", "lines", "byte order mark"])
def test_a_file_has_one_message_or_several(form: str) -> None:
    first, second = screen_time_message(), screen_time_message(timestamp="2025-06-16T10:00:00Z")
    content = {
        "one": json.dumps(first),
        "array": json.dumps([first, second], indent=1),
        "lines": json.dumps(first) + "\n\n" + json.dumps(second) + "\n",
        "byte order mark": "\ufeff" + json.dumps(first),
    }[form]

    reading = read(SCREEN_TIME, content)

    assert recognise(SCREEN_TIME, content) == 1.0
    later = FIREFOX._replace(counted_at=NINE.replace(hour=10))
    assert reading.records == ([FIREFOX, later] if form in {"array", "lines"} else [FIREFOX])
    assert reading.refused == []


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"source": "health_connect"}, "not_screen_time"),
        ({"timestamp": None}, "missing_time"),
        ({"timestamp": "2025-06-16T09:00:00"}, "time_without_offset"),
        ({"screen_time": None}, "days_are_missing"),
        ({"screen_time": [5]}, "not_an_object"),
        ({"screen_time": [{"date": "16 June", "apps": []}]}, "invalid_time"),
        ({"screen_time": [{"date": "2025-06-16"}]}, "applications_are_missing"),
        ({"screen_time": days_of("a")}, "not_an_object"),
        ({"screen_time": days_of({"minutes": 5})}, "missing_application"),
        ({"screen_time": days_of({"package": "a"})}, "value_is_no_number"),
        ({"screen_time": days_of({"package": "a", "minutes": "x"})}, "value_is_no_number"),
        ({"screen_time": days_of({"package": "a", "minutes": 1e305})}, "value_is_no_number"),
        ({"screen_time": days_of({"package": "a", "minutes": "1e305"})}, "value_is_no_number"),
        (
            {"screen_time": days_of({"package": "a", "minutes": 1, "last_used": "x"})},
            "invalid_time",
        ),
    ],
)
def test_what_is_no_screen_time_is_refused(members: dict[str, Any], reason: str) -> None:
    messages = [screen_time_message(**members), screen_time_message()]

    reading = read(SCREEN_TIME, json.dumps(messages))

    assert [each.reason for each in reading.refused] == [reason]
    assert reading.records == [FIREFOX]


def test_what_a_wrong_clock_has_dated_is_refused() -> None:
    now = ALICE.now
    timestamps = [now + timedelta(hours=1), now + timedelta(hours=1, seconds=1)]
    messages = [screen_time_message(timestamp=at.isoformat()) for at in timestamps]
    days: list[Any] = [{"date": each, "apps": []} for each in ("2025-06-16", "2025-06-17")]

    reading = read(SCREEN_TIME, json.dumps([*messages, screen_time_message(screen_time=days)]))

    assert reading.records == [FIREFOX._replace(counted_at=timestamps[0])]
    assert reading.reasons == ["timestamp_in_future", "timestamp_in_future"]
    # Where it is 14 hours later than in UTC, the next day has begun.
    late = screen_time_message(timestamp="2025-06-16T10:00:00Z", screen_time=days)
    assert read(SCREEN_TIME, json.dumps(late)).reasons == []


def test_a_line_that_is_cut_off_is_refused_and_the_others_are_read() -> None:
    line = json.dumps(screen_time_message())

    reading = read(SCREEN_TIME, f"{line}\n{line[:-20]}\n{line}\n")

    assert reading.records == [FIREFOX, FIREFOX]
    assert [each.reason for each in reading.refused] == ["line_is_no_json"]


def test_a_single_message_that_is_too_long_is_read_line_by_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(life_dashboard, "MESSAGE_LENGTH", 100)

    assert read(SCREEN_TIME, json.dumps(screen_time_message())).records == [FIREFOX]
    assert read(SCREEN_TIME, screen_time().content).records == []


def test_messages_about_health_are_another_format() -> None:
    message = screen_time_message(source="health_connect")

    assert recognise(SCREEN_TIME, json.dumps(message)) == 0.0

"""The view Today: its strip of hours, and what it says without any data."""

from datetime import UTC, date, datetime
from typing import Any

import pytest

from resourceserver.dashboard.figures import Answer
from resourceserver.dashboard.period import Day
from resourceserver.dashboard.view import Scene
from resourceserver.dashboard.views.today import ago, busiest, strip

TODAY = date(2025, 6, 16)


class Calendar:
    """A calendar on that day."""

    today = TODAY
    week_starts_on = 1


def hour(number: int, ms: int) -> dict[str, Any]:
    return {
        "hour": number,
        "starts_at": f"2025-06-16T{number:02}:00:00.000Z",
        "ends_at": f"2025-06-16T{number + 1:02}:00:00.000Z",
        "total_ms": ms,
        "productive_ms": ms,
        "neutral_ms": 0,
        "distracted_ms": 0,
    }


def gap(start: str, end: str) -> dict[str, str]:
    return {"starts_at": f"2025-06-16T{start}Z", "ends_at": f"2025-06-16T{end}Z"}


def test_hours_without_a_report_are_hatched_and_those_to_come_are_empty() -> None:
    scene = Scene(
        tz="UTC",
        today=TODAY,
        now=datetime(2025, 6, 16, 11, 30, 0, 123_456, UTC),
        week_starts_on=1,
        scopes=frozenset(),
        period=Day(None).period(Calendar()),
        parts={},
    )
    hours = [hour(7, 0), hour(8, 0), hour(9, 1_800_000), hour(10, 0), hour(11, 0), hour(12, 0)]
    unreported = [gap("07:00:00.000", "08:15:00.000"), gap("10:55:00.000", "11:30:00.123")]

    chart = strip(
        scene,
        Answer("hours", "", {"data": hours}),
        Answer("timeline", "", {"data": {"unreported": unreported}}),
    )

    # Seven o'clock was not reported, nor was eleven until now. A part of eight and of ten was.
    assert [placed.bar.is_missing for placed in chart.placed] == [
        *(True, False, False, False, True, False)
    ]
    heights = [sum(piece.length for piece in placed.pieces) for placed in chart.placed]
    # The axis ends with half an hour, and its plot has 138 pixels.
    assert heights == [0, 0, 138, 0, 0, 0]


@pytest.mark.parametrize(
    ("instant", "words"),
    [
        ("2025-06-16T11:59:40Z", "less than a minute ago"),
        ("2025-06-16T12:00:20Z", "less than a minute ago"),
        ("2025-06-16T11:58:00Z", "2 min ago"),
        ("2025-06-15T12:00:00Z", "24 h ago"),
        ("2025-06-13T12:00:00Z", "3 days ago"),
        ("2025-06-16T12:05:00Z", "5 min ahead of the server's clock"),
        ("2025-06-18T12:00:00Z", "2 days ahead of the server's clock"),
    ],
)
def test_the_age_of_the_newest_event_is_in_words(instant: str, words: str) -> None:
    now = datetime(2025, 6, 16, 12, tzinfo=UTC)
    period = Day(None).period(Calendar())
    scene = Scene("UTC", now.date(), now, 1, frozenset(), period, {"path": "/"})

    assert ago(scene, instant) == words


@pytest.mark.parametrize(
    ("lengths", "place"),
    [
        ([0, 600_000, 1_800_000, 0], "/data/2"),
        ([1_800_000, 600_000, 1_800_000], None),
        ([0, 600_000, 0], None),
        ([0, 0], None),
    ],
)
def test_the_busiest_hour_is_named_if_it_is_the_only_one(
    lengths: list[int], place: str | None
) -> None:
    data = [hour(number, ms) for number, ms in enumerate(lengths)]

    assert busiest(Answer("hours", "", {"data": data})) == place

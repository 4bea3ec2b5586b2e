"""Questions about single sessions, focus, a usual week, and which data there is."""

import calendar
import statistics
from collections import Counter
from datetime import datetime, timedelta
from typing import Final

from tests.mcp.questions.life import (
    ZONE,
    Life,
    Row,
    at,
    clocks,
    instant,
    local,
    usual_clock,
)
from tests.mcp.questions.question import Question, on, one

WEEKS: Final = 6
"""How many weeks an average week is made of, unless the call says another number."""


def _under_way(life: Life, days_ago: int, first: int, last: int) -> list[Row]:
    """Return the sessions that overlap hours of a day, the newest first."""
    start, end = life.hours(life.ago(days_ago), first, last)
    return [
        row
        for row in life.overlapping("sessions/apps", (life.ago(days_ago + 1), life.today))
        if instant(row["started_at"]) < end and instant(row["ended_at"]) > start
    ]


def _running(life: Life, days_ago: int, hour: int) -> list[str]:
    then = life.hours(life.ago(days_ago), hour, hour)[0]
    return [
        row["app"]
        for row in _under_way(life, days_ago, hour - 1, hour + 1)
        if instant(row["started_at"]) <= then < instant(row["ended_at"])
    ]


def _newest(rows: list[Row], member: str, text: str) -> Row:
    return next(row for row in rows if text in (row[member] or ""))


def _focus_between(life: Life, start: datetime, end: datetime) -> int:
    """Return the time in streaks of focus between two instants."""
    return sum(
        max(
            min(instant(row["ended_at"]), end) - max(instant(row["started_at"]), start), timedelta()
        )
        // timedelta(milliseconds=1)
        for row in life.streaks((start.date(), end.date()))
    )


def _best_hour(life: Life) -> tuple[str, int, int]:
    """Return weekday, hour and mean of the hour with most productive time."""
    times: Counter[tuple[int, int]] = Counter()
    for day in life.past((life.ago(7 * WEEKS), life.ago(1))):
        for hour, ms in life.by_hour((day, day), "productive").items():
            times[day.weekday(), hour] += ms
    (weekday, hour), ms = min(times.items(), key=lambda each: (-each[1], each[0]))
    return calendar.day_name[weekday], hour, round(ms / WEEKS)


def _mean_of(life: Life, weekday: str) -> int:
    days = life.past((life.ago(7 * WEEKS), life.ago(1)))
    return round(
        statistics.mean(life.tracked((day, day)) for day in days if f"{day:%A}" == weekday)
    )


def _usual_start(life: Life) -> str:
    """Return the median of the local times at which the activity of a working day begins."""
    firsts = []
    for day in life.past((life.ago(7 * WEEKS), life.ago(1))):
        # What is done after midnight belongs to the evening before.
        begun = [
            piece.start
            for piece in life.pieces("apps", (day, day))
            if piece.start.astimezone(ZONE).hour >= 4
        ]
        firsts += begun[:1]
    return usual_clock(firsts)


SESSIONS: Final = (
    Question(
        "What was I doing yesterday at three in the afternoon?",
        on("list_sessions", lambda life: {"at": at(life.ago(1), "15:00")}),
        lambda answer: [row["app"] for row in answer["data"]],
        lambda life: _running(life, 1, 15),
    ),
    Question(
        "At what time, here, did I last open beam.py?",
        one("list_sessions", kind="coding", search="lamp/beam.py", period="all", limit=1),
        lambda answer: clocks(answer["data"])[:1],
        lambda life: [
            local(
                _newest(life.overlapping("sessions/coding", life.all), "file", "lamp/beam.py")[
                    "started_at"
                ]
            )
        ],
    ),
    Question(
        "Which videos did I see on YouTube last week?",
        one("list_sessions", period="last_week", filter={"domains": "youtube.com"}, limit=200),
        lambda answer: [(row["started_at"], row["title"]) for row in answer["data"]],
        lambda life: [
            (row["started_at"], row["title"])
            for row in life.overlapping("sessions/apps", life.week(1))
            if row["domain"] == "youtube.com"
        ],
    ),
    Question(
        "What did I do the day before yesterday between eight and nine in the evening?",
        on(
            "list_sessions",
            lambda life: {
                "from": at(life.ago(2), "20:00"),
                "to": at(life.ago(2), "21:00"),
                "limit": 20,
            },
        ),
        lambda answer: [row["started_at"] for row in answer["data"]][:20],
        lambda life: [row["started_at"] for row in _under_way(life, 2, 20, 21)][:20],
    ),
)

FOCUS: Final = (
    Question(
        "How often was I in focus in the last two weeks?",
        one("get_focus", period="last_14_days"),
        lambda answer: answer["totals"]["streak_count"],
        lambda life: len(life.streaks(life.last(14))),
    ),
    Question(
        "How often did I switch between programs yesterday?",
        one("get_focus", period="yesterday"),
        lambda answer: answer["switch_totals"]["switch_count"],
        lambda life: len(life.rows("analytics/context-switches", "at", life.yesterday)),
    ),
    Question(
        "Was the morning of yesterday a focused one?",
        on(
            "get_focus",
            lambda life: {"from": at(life.ago(1), "08:00"), "to": at(life.ago(1), "12:00")},
        ),
        lambda answer: answer["totals"]["focus_ms"],
        lambda life: _focus_between(life, *life.hours(life.ago(1), 8, 12)),
    ),
)

PATTERNS: Final = (
    Question(
        "Which hour of the week is my best one?",
        one("get_patterns"),
        lambda answer: tuple(
            answer["best_hours"][0][member] for member in ("name", "hour", "productive_average_ms")
        ),
        _best_hour,
    ),
    Question(
        "How long am I at the computer on a usual Sunday?",
        one("get_patterns"),
        lambda answer: {day["name"]: day["average_ms"] for day in answer["days"]}["Sunday"],
        lambda life: _mean_of(life, "Sunday"),
    ),
    Question(
        "When do I usually start the day?",
        one("get_patterns"),
        lambda answer: answer["usual_day"]["starts_at"],
        _usual_start,
    ),
)

STATUS: Final = (
    Question(
        "Since when do you know what I listen to and how I sleep?",
        one("get_data_status"),
        lambda answer: [
            row["first_day"] for row in answer["domains"] if row["domain"] in ("listening", "sleep")
        ],
        lambda life: [
            life.nights(life.all)[0]["date"],
            str(
                instant(life.rows("music/history", "listened_at")[-1]["listened_at"])
                .astimezone(ZONE)
                .date()
            ),
        ],
    ),
    Question(
        "Which of my devices report to you, and when was the last report of each?",
        one("get_data_status"),
        lambda answer: {row["name"]: row["last_sync_at"] for row in answer["devices"]},
        lambda life: {row["name"]: row["last_sync_at"] for row in life.get("devices")["data"]},
    ),
)

"""Questions about time in applications, on sites and in projects."""

from collections import Counter
from datetime import datetime, timedelta
from typing import Any, Final

from tests.mcp.questions.life import ZONE, Days, Life, at, productive
from tests.mcp.questions.question import Answer, Question, on, one


def by(answer: Answer, key: str) -> dict[str, int]:
    """Return the times of the rows of a breakdown by one of its keys, without empty ones."""
    times: Counter[str] = Counter()
    for row in answer["data"]:
        times[row["by"][key]] += row["total_ms"]
    return _texts(times)


def total(answer: Answer) -> Any:
    """Return the total time of a breakdown."""
    return answer["totals"]["total_ms"]


def _texts(times: Counter[Any]) -> dict[str, int]:
    return {str(key): ms for key, ms in times.items() if ms}


def _by_day(life: Life, days: Days) -> dict[str, int]:
    return _texts(Counter({day: life.tracked((day, day)) for day in life.past(days)}))


def _by_week(life: Life, days: Days, project: str) -> dict[str, int]:
    times: Counter[str] = Counter()
    for piece in life.pieces("coding", days):
        if piece.row["project"] == project:
            day = piece.start.astimezone(ZONE).date()
            times[str(day - timedelta(days=day.weekday()))] += piece.ms
    return dict(times)


def _of(life: Life, days: Days, member: str, *names: str) -> int:
    """Return the time in sessions whose member has one of these names."""
    spent = life.spent("apps", days, lambda row: row[member])
    return sum(spent[name] for name in names)


def _on_phone(life: Life, days: Days) -> dict[str, int]:
    spent = life.spent("apps", days, lambda row: (row["device"]["name"], row["app"]))
    return {app: ms for (device, app), ms in spent.items() if device == "phone"}


def _at_weekends(life: Life, days: Days) -> list[int]:
    """Return the productive time of Saturdays, and that of Sundays."""
    return [
        sum(
            life.how("productive", (day, day))
            for day in life.past(days)
            if day.isoweekday() == weekday
        )
        for weekday in (6, 7)
    ]


def _productive_between(life: Life, start: datetime, end: datetime) -> int:
    pieces = life.between("apps", start, end)
    return sum(piece.ms for piece in pieces if productive(piece.row) == "productive")


BREAKDOWN: Final = (
    Question(
        "How long was I at the computer on each day of this week?",
        one("get_time_breakdown", period="this_week", group_by="day"),
        lambda answer: by(answer, "day"),
        lambda life: _by_day(life, life.week()),
    ),
    Question(
        "How much YouTube was there in the last two weeks?",
        one("get_time_breakdown", period="last_14_days", filter={"domains": ["youtube.com"]}),
        total,
        lambda life: _of(life, life.last(14), "domain", "youtube.com"),
    ),
    Question(
        "How much did I code on each project this quarter?",
        one("get_time_breakdown", period="this_quarter", kind="coding"),
        lambda answer: by(answer, "project"),
        lambda life: _texts(life.spent("coding", life.quarter(), lambda row: row["project"])),
    ),
    Question(
        "Am I at the computer after 22:00 in the evening, and how long?",
        one("get_time_breakdown", period="last_30_days", group_by="hour"),
        lambda answer: [by(answer, "hour").get(hour, 0) for hour in ("22:00", "23:00")],
        lambda life: [life.by_hour(life.last(30))[hour] for hour in (22, 23)],
    ),
    Question(
        "What did I use my phone for last week?",
        one("get_time_breakdown", period="last_week", group_by=["device", "app"], top=100),
        lambda answer: {
            row["by"]["app"]: row["total_ms"]
            for row in answer["data"]
            if row["by"]["device"] == "phone" and row["total_ms"]
        },
        lambda life: _on_phone(life, life.week(1)),
    ),
    Question(
        "Do I work at weekends?",
        one(
            "get_time_breakdown",
            period="last_30_days",
            group_by="weekday",
            filter={"productivity": "productive"},
        ),
        lambda answer: [by(answer, "weekday").get(day, 0) for day in ("Saturday", "Sunday")],
        lambda life: _at_weekends(life, life.last(30)),
    ),
    Question(
        "How much time did I lose on social media last month?",
        one("get_time_breakdown", period="last_month", filter={"categories": "Social"}),
        total,
        lambda life: _of(life, life.month(1), "category", "Social"),
    ),
    Question(
        "Which programming language did I write most this month?",
        one("get_time_breakdown", period="this_month", kind="coding", group_by="language"),
        lambda answer: by(answer, "language"),
        lambda life: _texts(life.spent("coding", life.month(), lambda row: row["language"])),
    ),
    Question(
        "How did my work on harbour go, week by week?",
        one(
            "get_time_breakdown",
            period="last_30_days",
            group_by="week",
            filter={"projects": "harbour"},
        ),
        lambda answer: by(answer, "week"),
        lambda life: _by_week(life, life.last(30), "harbour"),
    ),
    Question(
        "What share of last week was distraction?",
        one("get_time_breakdown", period="last_week", group_by=["category"]),
        lambda answer: (answer["totals"]["distracted_ms"], total(answer)),
        lambda life: (life.how("distracting", life.week(1)), life.tracked(life.week(1))),
    ),
    Question(
        "How much time did chat and mail take me in the last 30 days?",
        one(
            "get_time_breakdown",
            period="last_30_days",
            filter={"apps": ["Slack", "Thunderbird"]},
        ),
        total,
        lambda life: _of(life, life.last(30), "app", "Slack", "Thunderbird"),
    ),
    Question(
        "How productive was I yesterday between nine and twelve?",
        on(
            "get_time_breakdown",
            lambda life: {"from": at(life.ago(1), "09:00"), "to": at(life.ago(1), "12:00")},
        ),
        lambda answer: answer["totals"]["productive_ms"],
        lambda life: _productive_between(life, *life.hours(life.ago(1), 9, 12)),
    ),
)

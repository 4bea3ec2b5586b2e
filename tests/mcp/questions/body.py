"""Questions about health, music and places."""

import statistics
from collections import Counter
from typing import Any, Final

from tests.mcp.questions.life import Days, Life, Row, at, clocks, instant, local, usual_clock
from tests.mcp.questions.question import Answer, Question, on, one

_EARTH_M: Final = 6_371_008.8


def summary(answer: Answer, member: str) -> Any:
    """Return a member of the summary of the only metric, None if the summary lacks it.

    A summary without values has no maximum, for example.
    """
    (metric,) = answer["metrics"]
    return metric["summary"].get(member)


def _of_nights(life: Life, days: Days, part: str, member: str) -> list[Any]:
    values = [(night[part] or {}).get(member) for night in life.nights(days)]
    return [value for value in values if value is not None]


def _best_recovery(life: Life) -> tuple[int, float | None]:
    """Return on how many days of this month there was a recovery, and the best one.

    Before the person wakes on the first of a month, there is none.
    """
    scores = _of_nights(life, life.month(), "recovery", "score")
    return len(scores), max(scores, default=None)


def _weights(life: Life) -> list[float]:
    """Return the first and the last weight."""
    rows = life.samples("weight_kg", life.last(30))
    return [rows[-1]["value"], rows[0]["value"]]


def _pulse_between(life: Life, days_ago: int, first: int, last: int) -> float:
    start, end = life.hours(life.ago(days_ago), first, last)
    rows = life.rows("health/heart-rate", "recorded_at", (life.ago(days_ago),) * 2)
    beats = [row["bpm"] for row in rows if start <= instant(row["recorded_at"]) < end]
    return round(float(statistics.mean(beats)), 1)


def _bedtime(life: Life) -> str:
    return usual_clock(
        [instant(night["sleep"]["started_at"]) for night in life.nights(life.last(30))]
    )


HEALTH: Final = (
    Question(
        "What was my highest pulse yesterday?",
        one("get_health", metrics="heart_rate", period="yesterday"),
        lambda answer: summary(answer, "maximum"),
        lambda life: max(life.pulse(life.yesterday)),
    ),
    Question(
        "How many steps did I take yesterday?",
        one("get_health", metrics=["steps"], period="yesterday"),
        lambda answer: round(summary(answer, "total")),
        lambda life: round(life.sum_of("steps", life.yesterday)),
    ),
    Question(
        "How has my weight changed in the last 30 days?",
        one("get_health", metrics=["weight_kg"], period="last_30_days"),
        lambda answer: [
            answer["metrics"][0]["series"][0]["value"],
            summary(answer, "latest"),
        ],
        _weights,
    ),
    Question(
        "How long did I sleep last night?",
        one("get_health", period="today"),
        lambda answer: [row["sleep"]["asleep_ms"] for row in answer["recovery"]],
        lambda life: _of_nights(life, (life.today, life.today), "sleep", "asleep_ms"),
    ),
    Question(
        "What was my best recovery this month?",
        one("get_health", metrics="recovery_score", period="this_month"),
        lambda answer: (summary(answer, "days_with_data"), summary(answer, "maximum")),
        _best_recovery,
    ),
    Question(
        "What was my pulse yesterday between two and four in the afternoon?",
        on(
            "get_health",
            lambda life: {
                "metrics": ["heart_rate"],
                "from": at(life.ago(1), "14:00"),
                "to": at(life.ago(1), "16:00"),
            },
        ),
        lambda answer: round(summary(answer, "mean"), 1),
        lambda life: _pulse_between(life, 1, 14, 16),
    ),
    Question(
        "What is my usual bedtime?",
        one("get_health", period="last_30_days"),
        lambda answer: answer["usual_night"]["starts_at"],
        _bedtime,
    ),
)


def _plays(life: Life, days: Days) -> list[Row]:
    return life.rows("music/history", "listened_at", days)


def _most_heard(life: Life, days: Days, member: str, most: int) -> list[tuple[str, int]]:
    heard: Counter[tuple[str, str]] = Counter()
    for play in _plays(life, days):
        heard[play[member], play["artist"]] += play["played_ms"]
    ranked = sorted(heard.items(), key=lambda each: (-each[1], each[0]))
    return [(name, ms) for (name, _), ms in ranked[:most]]


def ranked(answer: Answer) -> list[tuple[str, int]]:
    """Return the rows of listening."""
    return [(row["name"], row["listened_ms"]) for row in answer["data"]]


MUSIC: Final = (
    Question(
        "Which song did I listen to most this quarter?",
        one("get_listening", period="this_quarter", group_by="track", top=1),
        ranked,
        lambda life: _most_heard(life, life.quarter(), "track", 1),
    ),
    Question(
        "What did I play last?",
        one("get_listening"),
        lambda answer: answer["recent"][0]["track"],
        lambda life: _plays(life, life.last(7))[0]["track"],
    ),
)


def _place(row: Row, member: str = "name") -> Any:
    return row["place"][member]


PLACES: Final = (
    Question(
        "Was I at home or away last weekend?",
        on(
            "get_places",
            lambda life: dict(zip(("from", "to"), map(str, life.weekend()), strict=True)),
        ),
        lambda answer: [row["name"] for row in answer["data"]],
        lambda life: [_place(row) for row in life.visits(life.weekend())],
    ),
    Question(
        "How many different places did I visit in the last 30 days?",
        one("get_places", period="last_30_days"),
        lambda answer: answer["place_count"],
        lambda life: len({_place(row) for row in life.visits(life.last(30))}),
    ),
    Question(
        "At what time was I at the office on the last day at work?",
        one("get_places", search="lantern works", period="all"),
        lambda answer: clocks(answer["data"][0])[0],
        lambda life: local(
            next(
                row["started_at"] for row in life.visits(life.all) if _place(row) == "Lantern Works"
            )
        ),
    ),
)

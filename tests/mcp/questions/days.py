"""Questions about one day, two periods, goals, and whether two things go together."""

import statistics
from datetime import date, timedelta
from typing import Any, Final

from tests.mcp.questions.life import Days, Life, clocks, local
from tests.mcp.questions.question import Answer, Question, on, one


def total(answer: Answer, metric: str) -> dict[str, Any]:
    """Return one of the measures of a day."""
    (row,) = [row for row in answer["totals"] if row["metric"] == metric]
    found: dict[str, Any] = row
    return found


def sides(answer: Answer, metric: str) -> list[Any]:
    """Return the values of a metric in both periods; no value is no time."""
    (row,) = [row for row in answer["data"] if row["metric"] == metric]
    return [row[side].get("value") or 0 for side in ("a", "b")]


def _distracted_and_usual(life: Life) -> tuple[int, int]:
    before = [life.how("distracting", (life.ago(n),) * 2) for n in range(2, 30)]
    return life.how("distracting", life.yesterday), round(statistics.mean(before))


def _named_day(life: Life) -> date:
    """Return the day that is meant by the name of a weekday three days ago."""
    return life.ago(3)


def _first_use(life: Life, day: date) -> str:
    return local(next(life.pieces("apps", (day, day))).start.isoformat())


def _night(life: Life, day: date) -> list[str]:
    (night,) = life.nights((day, day))
    return [local(night["sleep"][end]) for end in ("started_at", "ended_at")]


DAY: Final = (
    Question(
        "How was yesterday?",
        one("get_day", date="yesterday"),
        lambda answer: (total(answer, "tracked_ms")["value"], total(answer, "coding_ms")["value"]),
        lambda life: (life.tracked(life.yesterday), life.coded(life.yesterday)),
    ),
    Question(
        "When did I start on that weekday?",
        on("get_day", lambda life: {"date": f"{_named_day(life):%A}".lower()}),
        lambda answer: next(
            text for text in clocks({k: v for k, v in answer.items() if k.startswith("first")})
        ),
        lambda life: _first_use(life, _named_day(life)),
    ),
    Question(
        "Was I more distracted yesterday than I usually am?",
        on("get_day", lambda life: {"date": str(life.ago(1))}),
        lambda answer: tuple(
            total(answer, "distracted_ms")[member] for member in ("value", "normal")
        ),
        _distracted_and_usual,
    ),
    Question(
        "When did I fall asleep before yesterday, and when did I wake up?",
        one("get_day", date="yesterday"),
        lambda answer: clocks(answer["sleep"]["night"])[:2],
        lambda life: _night(life, life.ago(1)),
    ),
)


def _project_sides(life: Life) -> dict[str, list[int]]:
    """Return the coding time of each project in the last four weeks, and in the four before."""
    spent = [
        life.spent("coding", (life.ago(first), life.ago(last)), lambda row: row["project"])
        for first, last in ((28, 1), (56, 29))
    ]
    return {name: [times[name] for times in spent] for name in spent[0] | spent[1]}


def _slack(life: Life, days: Days) -> int:
    spent = life.spent("apps", days, lambda row: row["app"])
    return int(spent["Slack"])


COMPARISON: Final = (
    Question(
        "How much did I work on each project in the last four weeks against the four before?",
        on(
            "compare_periods",
            lambda life: {
                "a": f"{life.ago(28)}/{life.ago(1)}",
                "b": f"{life.ago(56)}/{life.ago(29)}",
                "group_by": "project",
            },
        ),
        lambda answer: {
            row["by"]["project"]: [row[side].get("value") or 0 for side in ("a", "b")]
            for row in answer["data"]
        },
        _project_sides,
    ),
    Question(
        "Was last week better than the week before?",
        one("compare_periods", a="last_week"),
        lambda answer: sides(answer, "productive_ms") + sides(answer, "coding_ms"),
        lambda life: [
            *(life.how("productive", life.week(n)) for n in (1, 2)),
            *(life.coded(life.week(n)) for n in (1, 2)),
        ],
    ),
    Question(
        "Did I walk more last week than the week before?",
        one("compare_periods", a="last_week", metrics=["health:steps"]),
        lambda answer: [round(value) for value in sides(answer, "health:steps")],
        lambda life: [
            round(life.sum_of("steps", life.week(n)) / len(_walked(life, life.week(n))))
            for n in (1, 2)
        ],
    ),
    Question(
        "Do I spend more time in meetings than a month ago?",
        on(
            "compare_periods",
            lambda life: {
                "a": f"{life.ago(28)}/{life.ago(1)}",
                "b": f"{life.ago(56)}/{life.ago(29)}",
                "metrics": "meeting_ms",
            },
        ),
        lambda answer: sides(answer, "meeting_ms"),
        lambda life: [
            life.met((life.ago(28), life.ago(1))),
            life.met((life.ago(56), life.ago(29))),
        ],
    ),
    Question(
        "Was I less distracted yesterday than the day before?",
        one("compare_periods", a="yesterday", metrics="distracted_ms"),
        lambda answer: sides(answer, "distracted_ms"),
        lambda life: [life.how("distracting", (life.ago(n), life.ago(n))) for n in (1, 2)],
    ),
    Question(
        "Do I use Slack less than in the week before last?",
        one("compare_periods", a="last_week", filter={"apps": "Slack"}),
        lambda answer: sides(answer, "tracked_ms"),
        lambda life: [_slack(life, life.week(n)) for n in (1, 2)],
    ),
)


def _walked(life: Life, days: Days) -> list[date]:
    return [day for day in life.past(days) if life.samples("steps", (day, day))]


def _days_in_a_row(life: Life) -> int:
    """Return on how many finished days in a row there were at most 75 minutes of distraction."""
    days = [life.ago(n) for n in range(1, 69)]
    met = [life.how("distracting", (day, day)) <= 75 * 60_000 for day in days]
    return met.index(False) if False in met else len(met)


def _left_of_harbour(life: Life) -> int:
    spent = life.spent("coding", life.month(), lambda row: row["project"])["harbour"]
    return max(30 * 3_600_000 - spent, 0)


def _nights(life: Life) -> dict[str, int]:
    return {night["date"]: night["sleep"]["asleep_ms"] for night in life.nights(life.all)}


def _steps_and_sleep(life: Life) -> tuple[float, int]:
    """Return the correlation of the steps of a day with the night after it, and the number of pairs."""
    asleep = _nights(life)
    pairs = [
        (life.sum_of("steps", (day, day)), asleep[str(day + timedelta(days=1))])
        for day in life.past((life.ago(69), life.ago(2)))
        if _walked(life, (day, day)) and str(day + timedelta(days=1)) in asleep
    ]
    return round(statistics.correlation(*zip(*pairs, strict=True)), 2), len(pairs)


def pairing(answer: Answer) -> tuple[float, int]:
    """Return the coefficient and the number of days of a correlation."""
    (row,) = answer["data"]
    return round(row["coefficient"], 2), row["n"]


GOALS: Final = (
    Question(
        "How many days in a row did I keep distraction under my limit?",
        one("get_goals"),
        lambda answer: [row["streak"] for row in answer["data"] if "distraction" in row["title"]],
        lambda life: [_days_in_a_row(life)],
    ),
    Question(
        "How much is missing this month from what I wanted to do for harbour?",
        one("get_goals"),
        lambda answer: [
            row["progress"]["remaining"] for row in answer["data"] if "harbour" in row["title"]
        ],
        lambda life: [_left_of_harbour(life)],
    ),
    Question(
        "Do I sleep longer after a day with many steps?",
        one("correlate", metric_a="health:steps", metric_b="asleep_ms", lag=1, adjust="none"),
        pairing,
        _steps_and_sleep,
    ),
)

"""Questions about code hosts, the calendar, recordings and films, and about everything on a topic."""

from collections import Counter
from typing import Final

from tests.mcp.questions.life import Days, Life, Row
from tests.mcp.questions.question import Answer, Call, Question, one


def _events(life: Life, days: Days, kind: str) -> list[Row]:
    events = life.rows("codehost/activity", "occurred_at", days)
    return [event for event in events if event["type"] == kind]


def _merged(life: Life, days: Days) -> int:
    requests = _events(life, days, "pull_request")
    return len({event["number"] for event in requests if event["action"] == "merged"})


CODE: Final = (
    Question(
        "How many lines did I add to harbour this month?",
        one("get_code_activity", repository="harbour", period="this_month"),
        lambda answer: answer["totals"]["additions"],
        lambda life: sum(
            event["additions"]
            for event in _events(life, life.month(), "commit")
            if event["repository"]["name"] == "lantern-works/harbour"
        ),
    ),
    Question(
        "How many reviews did I write in the last two weeks, and did I approve?",
        one("get_code_activity", type="review", period="last_14_days"),
        lambda answer: {row["action"]: row["count"] for row in answer["actions"]},
        lambda life: Counter(event["action"] for event in _events(life, life.last(14), "review")),
    ),
    Question(
        "How many pull requests did I get merged this quarter?",
        one("get_code_activity", period="this_quarter"),
        lambda answer: answer["pull_requests_merged"],
        lambda life: _merged(life, life.quarter()),
    ),
)


def _recorded(life: Life, days: Days, text: str = "") -> list[Row]:
    rows = life.rows("recordings", "recorded_at", days)
    return [row for row in rows if text in f"{row['title']} {row['transcript']['text']}".lower()]


def _invited(life: Life, days: Days, response: str) -> list[str]:
    events = life.rows("calendar/events", "starts_at", days)
    return [event["title"] for event in events if event["response"] == response]


CONTENT: Final = (
    Question(
        "What is planned for the next seven days?",
        one("get_content", kind="calendar", period="next_7_days"),
        lambda answer: sorted(row["title"] for row in answer["data"]),
        lambda life: sorted(
            event["title"] for event in life.rows("calendar/events", "starts_at", life.next(7))
        ),
    ),
    Question(
        "Which invitations did I decline in the last 30 days?",
        one("get_content", kind="calendar", period="last_30_days", limit=50),
        lambda answer: [
            row["title"] for row in answer["data"] if row.get("response") == "declined"
        ],
        lambda life: _invited(life, life.last(30), "declined"),
    ),
    Question(
        "What have I noted down that I wanted to talk to Bob about?",
        one("get_content", kind="recordings", search="bob", period="all"),
        lambda answer: (answer["count"], answer["data"][0]["recorded_at"]),
        lambda life: (
            len(_recorded(life, life.all, "bob")),
            _recorded(life, life.all, "bob")[0]["recorded_at"],
        ),
    ),
)


def _said(life: Life, text: str) -> tuple[str, str]:
    """Return the time and the transcript of the newest recording with a text."""
    newest = _recorded(life, life.all, text)[0]
    return newest["recorded_at"], newest["transcript"]["text"]


def titles(answer: Answer) -> list[str]:
    """Return the titles of what a search finds, in small letters."""
    return [row["title"].casefold() for row in answer["results"]]


def _budgets(life: Life) -> list[Row]:
    rows = life.rows("sessions/apps", "started_at") + life.rows("calendar/events", "starts_at")
    return [row for row in rows if "budget" in (row["title"] or "").casefold()]


SEARCH: Final = (
    Question(
        "What do I have about the budget?",
        one("search", query="budget"),
        lambda answer: {"budget" in title for title in titles(answer)},
        lambda life: {bool(_budgets(life))},
    ),
    Question(
        "Where was that mail about calibrating the gauge?",
        one("search", query="calibration gauge"),
        lambda answer: any("gauge calibration" in title for title in titles(answer)),
        lambda life: any(
            row["title"] == "Re: Gauge calibration"
            for row in life.rows("sessions/apps", "started_at")
        ),
    ),
    Question(
        "What exactly does my note about the gauge say?",
        (
            # Words of the transcript: the newest note with this title may have none.
            Call("search", {"query": "gauge could say"}),
            Call("fetch", lambda _, found: {"id": found["results"][0]["id"]}),
        ),
        lambda _, answer: (answer["metadata"]["started_at"], answer["text"]),
        lambda life: _said(life, "the gauge could say how sure it is."),
    ),
)

REVIEWS: Final = (
    Question(
        "Help me plan my week: what is fixed, and which goals are open?",
        (Call("get_content", {"kind": "calendar", "period": "next_7_days"}), Call("get_goals", {})),
        lambda planned, goals: (
            len(planned["data"]),
            [row["progress"]["status"] for row in goals["data"]],
        ),
        lambda life: (
            len(life.rows("calendar/events", "starts_at", life.next(7))),
            [row["progress"]["status"] for row in life.get("goals")["data"]],
        ),
    ),
    Question(
        "Give me a review of last week: what changed, and what did I work on?",
        (
            Call("compare_periods", {"a": "last_week"}),
            Call("get_time_breakdown", {"period": "last_week", "kind": "coding"}),
        ),
        lambda changes, projects: (
            next(row["a"]["value"] for row in changes["data"] if row["metric"] == "tracked_ms"),
            projects["totals"]["total_ms"],
        ),
        lambda life: (life.tracked(life.week(1)), life.coded(life.week(1))),
    ),
)

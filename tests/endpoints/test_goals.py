"""GET /api/v1/goals."""

from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import errors
from starlette.testclient import TestClient

from shared.settings import Settings
from tests.conftest import Person
from tests.endpoints.attention import streaks, switches, whole_timeline
from tests.endpoints.histories import add_coding, add_sessions
from tests.endpoints.test_summaries import make_all, make_due, post
from tests.endpoints.timeline import (
    EPOCH,
    CodingSession,
    Session,
    counted,
    instant,
    owned_ms,
    percent,
)

Rows = psycopg.Connection[Any]

PATH = "/api/v1/goals"
HOUR = 3_600_000
DAY = 24 * HOUR


def ask(api: TestClient, person: Person, **query: str) -> list[dict[str, Any]]:
    answer = api.get(PATH, params=query, headers=person.headers("read:activity"))
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["count"] == len(body["data"])
    goals: list[dict[str, Any]] = body["data"]
    return goals


def add_goal(owner: Rows, person: Person, metric: str, **more: Any) -> None:
    """Add a goal; members that are not given have their simplest values."""
    goal = {
        "title": "goal",
        "comparison": "at_least",
        "target": HOUR,
        "period": "day",
        "days_of_week": [1, 2, 3, 4, 5, 6, 7],
        "categories": [],
        "apps": [],
        "projects": [],
        "languages": [],
    } | more
    owner.execute(
        """
        insert into activity.goal (
            user_id, metric, title, comparison, target, period, days_of_week, categories, apps, projects,
            languages, created_at
        )
        values (
            %(user_id)s, %(metric)s, %(title)s, %(comparison)s, %(target)s, %(period)s,
            %(days_of_week)s, %(categories)s, %(apps)s, %(projects)s, %(languages)s,
            -- Later than the ones before, whatever the clock says.
            now() + interval '1 second'
                * (select count(*) from activity.goal where user_id = %(user_id)s)
        )
        """,
        {"user_id": person.user_id, "metric": metric} | goal,
    )


def midnight(owner: Rows, zone: str = "UTC") -> int:
    """Return when today began, in milliseconds since EPOCH, as the database sees it."""
    row = owner.execute("select (now() at time zone %s)::date", [zone]).fetchone()
    assert row is not None
    return start_of(row[0], zone)


def start_of(day: date, zone: str) -> int:
    """Return the start of a day, in a zone whose days all have a midnight."""
    began = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone))
    return (began - EPOCH) // timedelta(milliseconds=1)


def day_of(at: int, zone: str = "UTC") -> date:
    return (EPOCH + timedelta(milliseconds=at)).astimezone(ZoneInfo(zone)).date()


def track(owner: Rows, person: Person, *sessions: tuple[str, int, int]) -> None:
    """Write app sessions: a category, and start and end."""
    add_sessions(
        owner,
        person,
        [
            Session(f"{category} {start}", "laptop", category, start, end, category=category)
            for category, start, end in sessions
        ],
    )


def code(owner: Rows, person: Person, *sessions: tuple[str, int, int]) -> None:
    """Write coding sessions: a project, and start and end."""
    add_coding(
        owner,
        person,
        [
            CodingSession(f"{project} {start}", "laptop", project, "Python", None, start, end)
            for project, start, end in sessions
        ],
    )


def test_a_goal_by_hand(api: TestClient, owner: Rows, alice: Person) -> None:
    today = midnight(owner)
    code(
        owner,
        alice,
        ("svc", today - 3 * DAY, today - 3 * DAY + 4 * HOUR),
        ("svc", today - 2 * DAY, today - 2 * DAY + 2 * HOUR),
        ("svc", today - DAY, today - DAY + 3 * HOUR),
        ("other", today - 2 * DAY + 5 * HOUR, today - 2 * DAY + 9 * HOUR),
        ("svc", today, today + 7 * HOUR // 3),
    )
    add_goal(owner, alice, "coding_ms", title="Code 3 h a day", target=3 * HOUR, projects=["svc"])

    (goal,) = ask(api, alice)

    assert goal | {"id": "", "created_at": ""} == {
        "id": "",
        "title": "Code 3 h a day",
        "metric": "coding_ms",
        "comparison": "at_least",
        "target": 10_800_000,
        "unit": "ms",
        "period": "day",
        "days_of_week": [1, 2, 3, 4, 5, 6, 7],
        "filter": {"categories": [], "apps": [], "projects": ["svc"], "languages": []},
        "enabled": True,
        "progress": {
            "period": {"from": str(day_of(today)), "to": str(day_of(today))},
            "tz": "UTC",
            "value": 8_400_000,
            "target": 10_800_000,
            "percent": 77.78,
            "status": "in_progress",
            "remaining": 2_400_000,
        },
        "streak": 1,
        "history": [
            {
                "from": str(day_of(today - ago * DAY)),
                "to": str(day_of(today - ago * DAY)),
                "value": value,
                "status": status,
            }
            for ago, value, status in [
                (7, 0, "missed"),
                (6, 0, "missed"),
                (5, 0, "missed"),
                (4, 0, "missed"),
                (3, 14_400_000, "met"),
                (2, 7_200_000, "missed"),
                (1, 10_800_000, "met"),
            ]
        ],
        "created_at": "",
    }


@pytest.mark.parametrize(
    ("comparison", "target", "status", "remaining"),
    [
        ("at_least", HOUR + 1, "in_progress", 1),
        ("at_least", HOUR, "met", 0),
        ("at_most", HOUR, "in_progress", 0),
        ("at_most", HOUR - 1, "exceeded", 0),
        ("at_most", 3 * HOUR, "in_progress", 2 * HOUR),
    ],
)
def test_the_status_of_the_current_period(
    api: TestClient,
    owner: Rows,
    alice: Person,
    comparison: str,
    target: int,
    status: str,
    remaining: int,
) -> None:
    today = midnight(owner)
    track(owner, alice, ("Development", today, today + HOUR))
    add_goal(owner, alice, "tracked_ms", comparison=comparison, target=target)

    (goal,) = ask(api, alice)

    assert (goal["progress"]["status"], goal["progress"]["remaining"]) == (status, remaining)
    assert goal["streak"] == 0


def test_a_maximum_is_met_when_the_period_is_over(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    today = midnight(owner)
    track(
        owner,
        alice,
        ("Games", today - 4 * DAY, today - 4 * DAY + HOUR + 1),
        ("Games", today - 3 * DAY, today - 3 * DAY + HOUR),
        ("Development", today - DAY, today - DAY + 9 * HOUR),
    )
    add_goal(owner, alice, "distracted_ms", comparison="at_most")

    (goal,) = ask(api, alice)

    assert [past["status"] for past in goal["history"]] == [
        "skipped",
        "skipped",
        "skipped",
        "exceeded",
        "met",
        "met",
        "met",
    ]
    assert goal["streak"] == 3


def test_periods_before_the_first_session_are_not_in_a_streak(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    today = midnight(owner)
    track(owner, alice, ("Development", today - 2 * DAY, today - 2 * DAY + HOUR))
    add_goal(owner, alice, "distracted_ms", comparison="at_most")

    (goal,) = ask(api, alice)

    assert [past["status"] for past in goal["history"]] == ["skipped"] * 5 + ["met"] * 2
    assert goal["streak"] == 2


@pytest.mark.parametrize(
    ("comparison", "target", "past", "present"),
    [
        ("at_most", HOUR, "skipped", "in_progress"),
        ("at_most", 0, "skipped", "in_progress"),
        ("at_least", 0, "skipped", "met"),
        ("at_least", 1, "missed", "in_progress"),
    ],
)
@pytest.mark.parametrize("period", ["day", "week", "month"])
def test_an_account_without_data_has_met_no_goal(
    api: TestClient,
    owner: Rows,
    alice: Person,
    period: str,
    comparison: str,
    target: int,
    past: str,
    present: str,
) -> None:
    add_goal(owner, alice, "tracked_ms", comparison=comparison, target=target, period=period)

    (goal,) = ask(api, alice)

    assert [finished["status"] for finished in goal["history"]] == [past] * 7
    assert goal["progress"]["status"] == present
    assert goal["streak"] == 0


def test_days_that_do_not_count_are_skipped_and_end_no_streak(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    today = midnight(owner)
    skipped = day_of(today - 2 * DAY).isoweekday()
    track(
        owner,
        alice,
        *(
            ("Development", today - ago * DAY, today - ago * DAY + 2 * HOUR)
            for ago in (1, 3, 4, 5, 6, 7, 8, 10)
        ),
    )
    add_goal(
        owner,
        alice,
        "productive_ms",
        days_of_week=[day for day in range(1, 8) if day != skipped],
    )

    (goal,) = ask(api, alice)

    statuses = {past["from"]: past["status"] for past in goal["history"]}
    assert statuses[str(day_of(today - 2 * DAY))] == "skipped"
    # Eight days ago is the last one of the streak; on the ninth, which is skipped too, nothing was done.
    assert goal["streak"] == 8


def test_today_may_be_a_day_that_does_not_count(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    today = midnight(owner)
    weekday = day_of(today).isoweekday()
    add_goal(owner, alice, "tracked_ms", days_of_week=[weekday % 7 + 1])

    (goal,) = ask(api, alice)

    assert goal["progress"]["status"] == "skipped"


def test_a_streak_may_be_longer_than_the_history(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    today = midnight(owner)
    track(
        owner,
        alice,
        *(
            ("Development", today - ago * DAY, today - ago * DAY + HOUR)
            for ago in range(1, 41)
            if ago != 31
        ),
    )
    add_goal(owner, alice, "tracked_ms")
    add_goal(owner, alice, "tracked_ms", period="week", target=7 * HOUR)

    goals = ask(api, alice)

    assert len(goals[0]["history"]) == 7
    assert goals[0]["streak"] == 30
    assert goals[1]["streak"] in {3, 4}


def test_without_history_the_current_period_is_the_same(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    today = midnight(owner)
    add_sessions(
        owner,
        alice,
        [
            Session(f"{day}", "laptop", "Code", today - day * DAY, today - day * DAY + HOUR)
            for day in (1, 2)
        ],
    )
    for period in ("day", "week", "month"):
        add_goal(owner, alice, "tracked_ms", period=period)
        add_goal(owner, alice, "tracked_ms", period=period, apps=["Chess"])

    whole, current = ask(api, alice), ask(api, alice, include_history="false")

    assert [goal["streak"] for goal in whole][:2] == [2, 0]
    assert [goal["progress"] for goal in current] == [goal["progress"] for goal in whole]
    assert [(goal["streak"], goal["history"]) for goal in current] == [(None, [])] * 6


def test_without_the_current_period_the_finished_ones_are_the_same(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    today = midnight(owner)
    add_sessions(
        owner,
        alice,
        [
            Session(f"{day}", "laptop", "Code", today - day * DAY, today - day * DAY + HOUR)
            for day in range(12)
        ],
    )
    for period in ("day", "week", "month"):
        add_goal(owner, alice, "tracked_ms", period=period)
        add_goal(owner, alice, "tracked_ms", period=period, apps=["Chess"])

    whole, finished = ask(api, alice), ask(api, alice, include_current="false")
    nothing = ask(api, alice, include_current="false", include_history="false")

    assert [goal["streak"] for goal in whole][:2] == [11, 0]
    assert finished == [goal | {"progress": None} for goal in whole]
    assert nothing == [goal | {"progress": None, "streak": None, "history": []} for goal in whole]


def test_finished_periods_come_from_stored_summaries_that_are_up_to_date(
    api: TestClient, deployment: Settings, owner: Rows, alice: Person
) -> None:
    today = midnight(owner)
    for ago in (1, 2, 3):
        start = instant(today - ago * DAY)
        post(api, alice, ("Code", "Development", start, instant(today - ago * DAY + HOUR)))
    add_goal(owner, alice, "tracked_ms")
    add_goal(owner, alice, "tracked_ms", categories=["Development"])
    make_due(deployment)
    # So that the answer tells where it comes from.
    owner.execute("update activity.daily_summary set tracked_ms = 7")

    def values(goal: int) -> list[int]:
        return [finished["value"] for finished in ask(api, alice)[goal]["history"]][-3:]

    assert (values(0), values(1)) == ([7, 7, 7], [HOUR, HOUR, HOUR])

    late = instant(today - 2 * DAY + 2 * HOUR)
    post(api, alice, ("Code", "Development", late, instant(today - 2 * DAY + 3 * HOUR)))

    assert (values(0)[1], values(1)) == (2 * HOUR, [HOUR, 2 * HOUR, HOUR])
    owner.execute("update identity.user set timezone = 'Asia/Kathmandu'")
    assert 7 not in values(0)


def test_periods_begin_in_the_zone_of_the_request(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    zone = "Asia/Kathmandu"
    today = midnight(owner, zone)
    track(owner, alice, ("Development", today - DAY - HOUR, today - DAY + HOUR // 2))
    add_goal(owner, alice, "tracked_ms")

    (goal,) = ask(api, alice, tz=zone)

    assert goal["progress"]["tz"] == zone
    assert goal["progress"]["period"]["from"] == str(day_of(today, zone))
    assert [day["value"] for day in goal["history"][-2:]] == [HOUR, HOUR // 2]
    assert ask(api, alice)[0]["progress"]["tz"] == "UTC"
    assert api.get(PATH, params={"tz": "Mars"}, headers=alice.headers()).status_code == 400


def test_a_week_begins_on_the_persons_own_day_in_their_own_zone(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    owner.execute(
        "update identity.user set timezone = 'Pacific/Auckland', week_starts_on = 7 where user_id = %s",
        [alice.user_id],
    )
    today = day_of(midnight(owner, "Pacific/Auckland"), "Pacific/Auckland")
    sunday = today - timedelta(days=today.isoweekday() % 7)
    began = start_of(sunday, "Pacific/Auckland")
    track(owner, alice, ("Development", began - HOUR, began + 2 * HOUR))
    add_goal(owner, alice, "tracked_ms", period="week")

    (goal,) = ask(api, alice)

    assert goal["progress"]["tz"] == "Pacific/Auckland"
    assert goal["progress"]["period"] == {
        "from": str(sunday),
        "to": str(sunday + timedelta(days=6)),
    }
    assert goal["progress"]["value"] == 2 * HOUR
    assert goal["history"][-1] == {
        "from": str(sunday - timedelta(days=7)),
        "to": str(sunday - timedelta(days=1)),
        "value": HOUR,
        "status": "met",
    }


def test_months_are_calendar_months(api: TestClient, owner: Rows, alice: Person) -> None:
    today = day_of(midnight(owner))
    first = today.replace(day=1)
    before = (first - timedelta(days=1)).replace(day=1)
    began = start_of(first, "UTC")
    track(owner, alice, ("Development", began - HOUR, began + HOUR))
    add_goal(owner, alice, "tracked_ms", period="month")

    (goal,) = ask(api, alice)

    assert goal["progress"]["period"]["from"] == str(first)
    assert goal["progress"]["value"] == HOUR
    assert goal["history"][-1]["from"] == str(before)
    assert goal["history"][-1]["to"] == str(first - timedelta(days=1))
    assert goal["history"][-1]["value"] == HOUR
    assert len(goal["history"]) == 7


def test_a_session_and_a_streak_over_midnight_count_once_in_a_week(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    today = day_of(midnight(owner))
    monday = today - timedelta(days=today.isoweekday() + 6)
    began = start_of(monday, "UTC")
    track(owner, alice, ("Development", began + DAY - HOUR, began + DAY + HOUR))
    add_goal(owner, alice, "session_count", period="week", target=1)
    add_goal(owner, alice, "longest_focus_ms", period="week")
    add_goal(owner, alice, "focus_ms", period="week")

    values = [goal["history"][-1]["value"] for goal in ask(api, alice)]

    assert values == [1, 2 * HOUR, 2 * HOUR]


def test_all_filters_must_match(api: TestClient, owner: Rows, alice: Person) -> None:
    today = midnight(owner)
    add_sessions(
        owner,
        alice,
        [
            Session("1", "laptop", "Code", today, today + HOUR, category="Development"),
            Session("2", "laptop", "Word", today + HOUR, today + 3 * HOUR, category="Writing"),
            Session("3", "laptop", "Code", today + 3 * HOUR, today + 7 * HOUR, category="Writing"),
            Session(
                "4", "laptop", "Mail", today + 7 * HOUR, today + 15 * HOUR, category="Business"
            ),
        ],
    )
    add_goal(owner, alice, "tracked_ms", apps=["Code", "Word"], categories=["Writing", "Business"])
    add_goal(owner, alice, "session_count", target=1, categories=["Writing"])

    time, sessions = ask(api, alice)

    assert time["progress"]["value"] == 6 * HOUR
    assert sessions["progress"]["value"] == 2
    assert (sessions["unit"], sessions["progress"]["percent"]) == ("count", 200.0)


def test_a_target_of_zero_has_no_percentage(api: TestClient, owner: Rows, alice: Person) -> None:
    add_goal(owner, alice, "distracted_ms", comparison="at_most", target=0)

    (goal,) = ask(api, alice)

    assert goal["progress"]["percent"] is None
    assert goal["progress"]["status"] == "in_progress"


def test_bob_sees_no_goal_of_alices(
    api: TestClient, owner: Rows, alice: Person, bob: Person
) -> None:
    today = midnight(owner)
    track(owner, alice, ("Development", today, today + HOUR))
    add_goal(owner, alice, "tracked_ms", title="alice's")
    add_goal(owner, bob, "tracked_ms", title="bob's")

    (goal,) = ask(api, bob)

    assert goal["title"] == "bob's"
    assert goal["progress"]["value"] == 0


@pytest.mark.parametrize(
    ("metric", "more"),
    [
        ("focus_ms", {"apps": ["Code"]}),
        ("coding_ms", {"categories": ["Development"]}),
        ("tracked_ms", {"projects": ["svc"]}),
        ("tracked_ms", {"languages": ["Python"]}),
        ("tracked_ms", {"period": "week", "days_of_week": [1, 2]}),
        ("commits", {}),
        ("tracked_ms", {"target": -1}),
        ("tracked_ms", {"days_of_week": []}),
        ("tracked_ms", {"days_of_week": [0]}),
    ],
)
def test_a_goal_without_meaning_cannot_be_stored(
    owner: Rows, alice: Person, metric: str, more: dict[str, Any]
) -> None:
    with pytest.raises(errors.CheckViolation):
        add_goal(owner, alice, metric, **more)


METRICS = [
    "tracked_ms", "productive_ms", "distracted_ms", "neutral_ms", "coding_ms", "app_switches",
    "session_count", "focus_ms", "longest_focus_ms",
]  # fmt: skip


def reached(goal: dict[str, Any], sessions: list[Session], start: int, end: int) -> int:
    """Return the sums of app sessions in a range, by the slow model."""
    metric = goal["metric"]
    match = [
        s
        for s in sessions
        if (not goal["apps"] or s.app in goal["apps"])
        and (not goal["categories"] or s.category in goal["categories"])
    ]
    if metric == "session_count":
        return len([s for s in counted(sessions, start, end) if s in match])
    timeline = whole_timeline(sessions)
    if metric == "app_switches":
        return len([s for s in switches(timeline) if start <= s.at < end])
    focus = [min(s.end, end) - max(s.start, start) for s in streaks(timeline, 0)]
    if metric == "focus_ms":
        return sum(length for length in focus if length > 0)
    if metric == "longest_focus_ms":
        return max([length for length in focus if length > 0], default=0)
    scores = {
        "tracked_ms": [-2, -1, 0, 1, 2],
        "productive_ms": [1, 2],
        "distracted_ms": [-2, -1],
        "neutral_ms": [0],
    }[metric]
    owned = owned_ms(sessions, start, end)
    return sum(ms for s, ms in owned.items() if s in match and s.score in scores)


def periods(kind: str, today: date, week_starts_on: int) -> list[tuple[date, date]]:
    """Return first and last days, the current period first."""
    if kind == "day":
        return [(today - timedelta(days=n), today - timedelta(days=n)) for n in range(40)]
    if kind == "week":
        first = today
        while first.isoweekday() != week_starts_on:
            first -= timedelta(days=1)
        return [
            (first - timedelta(days=7 * n), first - timedelta(days=7 * n - 6)) for n in range(12)
        ]
    first = today.replace(day=1)
    found = [(first, (first + timedelta(days=32)).replace(day=1) - timedelta(days=1))]
    while len(found) < 9:
        last = found[-1][0] - timedelta(days=1)
        found.append((last.replace(day=1), last))
    return found


def status(
    goal: dict[str, Any], first: date, value: int, *, is_over: bool, is_measured: bool
) -> str:
    if goal["period"] == "day" and first.isoweekday() not in goal["days_of_week"]:
        return "skipped"
    is_met_by_nothing = goal["comparison"] == "at_most" or goal["target"] == 0
    if is_over and not is_measured and is_met_by_nothing:
        return "skipped"
    if goal["comparison"] == "at_least":
        return "met" if value >= goal["target"] else "missed" if is_over else "in_progress"
    return "exceeded" if value > goal["target"] else "met" if is_over else "in_progress"


@st.composite
def goals(draw: Any) -> dict[str, Any]:
    metric = draw(st.sampled_from([name for name in METRICS if name != "coding_ms"]))
    period = draw(st.sampled_from(["day", "day", "week", "month"]))
    can_be_filtered = metric not in {"app_switches", "focus_ms", "longest_focus_ms"}
    targets = [0, 1, 2, 3] if "_ms" not in metric else [0, 1, HOUR // 2, HOUR, 2 * HOUR]
    some = st.lists(st.sampled_from(["Development", "Games", "Own"]), unique=True, max_size=2)
    return {
        "metric": metric,
        "comparison": draw(st.sampled_from(["at_least", "at_most"])),
        "target": draw(st.sampled_from(targets)),
        "period": period,
        "days_of_week": draw(
            st.just([1, 2, 3, 4, 5, 6, 7])
            if period != "day"
            else st.lists(st.integers(1, 7), unique=True, min_size=1)
        ),
        "apps": draw(some) if can_be_filtered else [],
        "categories": draw(some) if can_be_filtered else [],
    }


@given(
    sessions=st.lists(
        st.tuples(
            st.sampled_from(["Development", "Games", "Own"]),
            st.sampled_from(["Development", "Games", "Own"]),
            st.integers(-20 * 48, 0),
            st.sampled_from([0, 1_800_000, 1_800_000, HOUR, 5 * HOUR]),
            st.sampled_from([False, False, False, True]),
        ),
        max_size=30,
    ),
    wanted=st.lists(goals(), min_size=1, max_size=3),
    zone=st.sampled_from(["UTC", "Asia/Kathmandu", "Europe/Berlin"]),
    week_starts_on=st.integers(1, 7),
)
def test_any_goals_have_the_values_of_the_slow_model(
    api: TestClient,
    deployment: Settings,
    owner: Rows,
    sessions: list[tuple[str, str, int, int, bool]],
    wanted: list[dict[str, Any]],
    zone: str,
    week_starts_on: int,
) -> None:
    owner.execute("delete from identity.user where email = 'carol@example.org'")
    row = owner.execute(
        "insert into identity.user (email, timezone, week_starts_on)"
        " values ('carol@example.org', %s, %s) returning user_id",
        [zone, week_starts_on],
    ).fetchone()
    assert row is not None
    carol = Person(row[0], "carol@example.org", owner)
    now = midnight(owner, zone)
    model = [
        Session(
            f"{n:02}",
            "laptop",
            app,
            now + half * HOUR // 2,
            now + half * HOUR // 2 + ms,
            idle,
            category,
        )
        for n, (app, category, half, ms, idle) in enumerate(sessions)
    ]
    add_sessions(owner, carol, model)
    for goal in wanted:
        add_goal(owner, carol, **goal)

    answers = ask(api, carol)

    # Stored summaries change nothing.
    make_all(deployment, carol)
    assert ask(api, carol) == answers
    today = day_of(now, zone)
    first_day = day_of(min((s.started for s in model), default=0), zone) if model else None
    for goal, answer in zip(wanted, answers, strict=True):
        past = []
        for n, (first, last) in enumerate(periods(goal["period"], today, week_starts_on)):
            start, end = start_of(first, zone), start_of(last + timedelta(days=1), zone)
            value = reached(goal, model, start, end)
            is_measured = first_day is not None and last >= first_day
            how = status(goal, first, value, is_over=n > 0, is_measured=is_measured)
            past.append((first, last, value, how))
        streak = 0
        for _, _, _, how in past[1:]:
            if how in {"missed", "exceeded"}:
                break
            streak += how == "met"
        assert answer["history"] == [
            {"from": str(first), "to": str(last), "value": value, "status": how}
            for first, last, value, how in past[7:0:-1]
        ]
        assert answer["streak"] == streak
        first, last, value, how = past[0]
        assert answer["progress"] == {
            "period": {"from": str(first), "to": str(last)},
            "tz": zone,
            "value": value,
            "target": goal["target"],
            "percent": percent(value, goal["target"]),
            "status": how,
            "remaining": max(goal["target"] - value, 0),
        }

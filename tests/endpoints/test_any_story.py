"""Sums equal those of the slow model after any changes, and with any days rolled up."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

import resourceserver.ingest.route
from resourceserver.timeline import rollups, rounds
from shared import database, queries
from shared.settings import Settings
from tests.conftest import Person, person
from tests.endpoints import answers
from tests.endpoints.answers import Body
from tests.endpoints.histories import BACK, FORWARD, ODD, ORDINARY
from tests.endpoints.stories import (
    DAY,
    QUESTIONS,
    AddRule,
    DropRule,
    Leave,
    Look,
    MoveRule,
    Rebuild,
    Remove,
    RollUp,
    Rule,
    Send,
    SetScore,
    Share,
    Step,
    Story,
    categorized,
    midnight_of,
    stories,
)
from tests.endpoints.test_hourly_patterns import on
from tests.endpoints.timeline import EPOCH, CodingSession, Session, days, instant
from tests.sql.test_categories import insert

Owner = psycopg.Connection[Any]

INGEST: Final = queries.load(Path(resourceserver.ingest.route.__file__).with_name("ingest.sql"))
PARTS: Final = {
    "ordinary days": tuple(ORDINARY),
    "odd zones": tuple(ODD),
    "clocks go forward": tuple(FORWARD),
    "clocks go back": tuple(BACK),
}
STORIES: Final = {"suite": 5, "bounded": 30, "proof": 1250}
"""How many stories each part has, by profile. A change is accepted only after the bounded ones too."""


@dataclass(frozen=True)
class Stage:
    """The service and the model, to which steps are applied."""

    api: TestClient
    owner: Owner
    roll_up: Callable[[], int]
    """Rolls up everybody's marked days now and returns their number."""
    rebuild: Callable[[UUID], int]
    """Rolls up all days of a person."""


@pytest.fixture
def stage(deployment: Settings, api: TestClient, owner: Owner) -> Iterator[Stage]:
    with asyncio.Runner() as runner:
        open_ends = AsyncExitStack()
        worker = runner.run(
            open_ends.enter_async_context(rounds.connected(database.login(deployment, "worker")))
        )
        yield Stage(
            api,
            owner,
            lambda: runner.run(rollups.make_due(worker, quiet=timedelta(0))),
            lambda user_id: runner.run(rollups.rebuild(worker, user_id)),
        )
        runner.run(open_ends.aclose())


@dataclass
class Account:
    """An account, and the model's copy of its rows."""

    person: Person
    headers: dict[str, str]
    sent: dict[str, Session] = field(default_factory=dict)
    coded: dict[str, CodingSession] = field(default_factory=dict)
    rules: list[tuple[UUID, Rule]] = field(default_factory=list)
    scores: dict[str, int] = field(default_factory=dict)

    def sessions(self) -> list[Session]:
        """Return the stored sessions, in their current categories."""
        rules = [rule for _, rule in self.rules]
        return [categorized(session, rules, self.scores) for session in self.sent.values()]

    def coding(self) -> list[CodingSession]:
        """Return the stored coding sessions."""
        return list(self.coded.values())


def begin(stage: Stage) -> Account:
    """Delete the current account, forget it, and create another."""
    stage.owner.execute("select svc.end_account(user_id, null, null) from identity.user")
    stage.owner.execute("update identity.departed_user set deleted_at = now() - interval '2 days'")
    stage.owner.execute("select svc.forget_departed(1000000)")
    carol = person(stage.owner, "carol")
    return Account(carol, carol.headers())


def do(stage: Stage, account: Account, story: Story, step: Step) -> Account:
    """Apply a step of a story to the service and to the model; return the account after it."""
    match step:
        case Send(share):
            send(stage, account, story, share)
        case Remove(share):
            remove(stage, account, story, share)
        case RollUp(left):
            roll_up(stage, left)
        case Rebuild():
            stage.rebuild(account.person.user_id)
        case Look(questions=questions):
            for question in sorted(questions):
                answered(stage, account, question, step)
        case Leave():
            return begin(stage)
        case _:
            change(stage, account, step)
    return account


def send(stage: Stage, account: Account, story: Story, share: Share) -> None:
    """Send sessions. Stored ones change nothing."""
    sessions, coding = share.of(story.sessions), share.of(story.coding)

    apps = post(stage, account, "app-sessions", [app_event(s) for s in sessions])
    codes = post(stage, account, "coding-sessions", [coding_event(s) for s in coding])

    assert apps == len({s.key for s in sessions} - account.sent.keys())
    assert codes == len({s.key for s in coding} - account.coded.keys())
    account.sent |= {s.key: s for s in sessions}
    account.coded |= {s.key: s for s in coding}


def post(stage: Stage, account: Account, stream: str, events: list[dict[str, Any]]) -> int:
    """Post a batch and return how many of its events were new."""
    answer = stage.api.post(
        f"/api/v1/ingest/{stream}", json={"events": events}, headers=account.headers
    )
    assert answer.status_code == 200, answer.text
    result = answer.json()
    assert result["accepted"] + result["duplicates"] == len(events), result
    return int(result["accepted"])


def app_event(session: Session) -> dict[str, Any]:
    return {
        "idempotency_key": session.key,
        "device": session.device,
        "started_at": instant(session.started),
        "ended_at": instant(session.ended),
        "app": session.app,
        "idle": session.idle,
        "title": session.title,
        "url": session.domain and f"https://{session.domain}/",
        "category": session.category or None,
    }


def coding_event(session: CodingSession) -> dict[str, Any]:
    return {
        "idempotency_key": session.key,
        "device": session.device,
        "started_at": instant(session.started),
        "ended_at": instant(session.ended),
        "project": session.project,
        "language": session.language,
        "file": session.file,
        "lines_added": session.added,
        "lines_removed": session.removed,
    }


def remove(stage: Stage, account: Account, story: Story, share: Share) -> None:
    """Delete sessions and mark their days in the same transaction, as every deletion must."""
    keys = {
        "app_session": [s.key for s in share.of(story.sessions)],
        "coding_session": [s.key for s in share.of(story.coding)],
    }
    gone: list[Session | CodingSession] = [
        *(account.sent.pop(key) for key in keys["app_session"] if key in account.sent),
        *(account.coded.pop(key) for key in keys["coding_session"] if key in account.coded),
    ]
    touched = {at // DAY for s in gone for at in (s.started, max(s.ended - 1, s.started))}

    with stage.owner.transaction():
        for table, some in keys.items():
            stage.owner.execute(
                f"delete from activity.{table} where user_id = %s and idempotency_key = any (%s)",  # noqa: S608 -- ours
                [account.person.user_id, some],
            )
        stage.owner.execute(
            INGEST["mark_days"],
            {
                "user_id": account.person.user_id,
                "days": [EPOCH.date() + timedelta(days=day) for day in touched],
            },
        )


def roll_up(stage: Stage, left: Share | None) -> None:
    """Roll up all marked days but some, whose marks get a time in the future."""
    due = [
        day for (day,) in stage.owner.execute("select date from activity.rollup_due order by date")
    ]
    kept = left.of(due) if left else []
    stage.owner.execute(
        """
        update activity.rollup_due
           set marked_at = now() + case when date = any (%s) then interval '1 hour' else interval '0' end
        """,
        [kept],
    )

    made = stage.roll_up()

    assert made == len(due) - len(kept)


def change(stage: Stage, account: Account, step: Step) -> None:
    """Change rules and scores, as `svc category` does."""
    who, rules = account.person.user_id, account.rules
    match step:
        case AddRule(rule, place):
            problem, rule_id = insert(
                stage.owner,
                account.person,
                rule.field,
                rule.match,
                rule.pattern,
                rule.category,
                place,
            )
            assert (problem == "exists") == (rule in [each for _, each in rules])
            if rule_id is not None:
                rules.insert(len(rules) if place is None else place - 1, (rule_id, rule))
        case DropRule(place) if place < len(rules):
            stage.owner.execute("select svc.delete_rule(%s, %s)", [who, rules.pop(place)[0]])
        case MoveRule(place, by) if place < len(rules):
            moved = rules.pop(place)
            rules.insert(max(place + by, 0), moved)
            stage.owner.execute("select svc.move_rule(%s, %s, %s)", [who, moved[0], by])
        case SetScore(category, score):
            account.scores.pop(category, None)
            if score is not None:
                account.scores[category] = score
            stage.owner.execute("select svc.set_score(%s, %s, %s)", [who, category, score])


def answered(stage: Stage, account: Account, question: str, look: Look) -> Body:
    """Return the service's answer, which is the model's."""
    answer = ask(stage, account, question, look)
    expected = model(account, question, look)
    assert answer == answer | expected, question
    return answer


def ask(stage: Stage, account: Account, question: str, look: Look) -> Body:
    """Return the service's answer."""
    if question == "analytics/hourly-patterns":
        # It is about the weeks before now, and now is another time.
        noon = datetime(*look.today.timetuple()[:3], 12, tzinfo=ZoneInfo(look.zone)).isoformat()
        return on(noon, stage.owner, account.person, look.weeks, look.zone)
    span = {"from": instant(look.start), "to": instant(look.end)}
    parameters = {
        "analytics/daily": {"from": str(look.first), "to": str(look.last), "tz": look.zone},
        "analytics/daily-categories": span | {"tz": look.zone},
        "analytics/hourly": {"date": str(look.first), "tz": look.zone},
        "sessions/daily": span | {"tz": look.zone},
    }
    answer = stage.api.get(
        f"/api/v1/{question}", params=parameters.get(question, span), headers=account.headers
    )
    assert answer.status_code == 200, answer.text
    body: Body = answer.json()
    return answers.without_ids(body) if question == "sessions/by-app" else body


def model(account: Account, question: str, look: Look) -> Body:
    """Return the model's answer."""
    sessions, coding, zone = account.sessions(), account.coding(), look.zone
    span = look.start, look.end
    return {
        "analytics/app-usage": lambda: answers.app_usage(sessions, *span),
        "analytics/categories": lambda: answers.categories(sessions, *span),
        "analytics/coding": lambda: answers.coding(coding, *span),
        "analytics/context-switches": lambda: answers.context_switches(sessions, *span),
        "analytics/daily": lambda: answers.daily(sessions, coding, look.first, look.last, zone),
        "analytics/daily-categories": lambda: answers.daily_categories(sessions, *span, zone),
        "analytics/focus-streaks": lambda: answers.focus_streaks(
            sessions, *span, datetime.now(UTC)
        ),
        "analytics/hourly": lambda: answers.hourly(sessions, coding, look.first, zone),
        "analytics/hourly-patterns": lambda: answers.hourly_patterns(
            sessions, coding, look.today, look.weeks, zone
        ),
        "sessions/by-app": lambda: answers.by_app(sessions, *span),
        "sessions/daily": lambda: answers.sessions_daily(sessions, coding, *span, zone),
    }[question]()


def finish(stage: Stage, account: Account, story: Story) -> None:
    """Send every request about the same days, and some about their months."""
    spans = days(story.first, story.last, story.zone)
    edges = spans[0].start, spans[-1].end
    tomorrow = story.last + timedelta(days=1)
    look = Look(frozenset(QUESTIONS), story.zone, *edges, story.first, story.last, 1, tomorrow)

    hours = [
        answered(stage, account, "analytics/hourly", replace(look, first=day.date)) for day in spans
    ]
    answers = {
        question: answered(stage, account, question, look)
        for question in QUESTIONS
        if question != "analytics/hourly"
    }
    for question in ("analytics/app-usage", "analytics/categories", "analytics/coding"):
        answered(stage, account, question, months_of(look))

    check_sums_agree(answers, hours)


def months_of(look: Look) -> Look:
    """Return the same look at the whole months of its days."""
    first = look.first.replace(day=1)
    after = (look.last.replace(day=28) + timedelta(days=4)).replace(day=1)
    return replace(look, start=midnight_of(first), end=midnight_of(after))


def check_sums_agree(answers: dict[str, Body], hours: list[Body]) -> None:
    """Check that all sums of the time of some days agree."""
    totals = answers["analytics/daily"]["totals"]
    tracked = {
        "kinds": sum(totals[f"{kind}_ms"] for kind in ("productive", "neutral", "distracted")),
        "days": added_up(answers["analytics/daily"]["data"], "tracked_ms"),
        "applications": added_up(answers["analytics/app-usage"]["data"]),
        "categories": added_up(answers["analytics/categories"]["data"]),
        "categories of days": sum(
            added_up(day["categories"]) for day in answers["analytics/daily-categories"]["data"]
        ),
        "hours": sum(added_up(day["data"]) for day in hours),
        "categories of hours": sum(
            added_up(hour["categories"]) for day in hours for hour in day["data"]
        ),
        "sessions by application": added_up(answers["sessions/by-app"]["data"]),
        "sessions by day": added_up(answers["sessions/daily"]["data"], "tracked_ms"),
    }
    coding = {
        "days": added_up(answers["analytics/daily"]["data"], "coding_ms"),
        "projects": added_up(answers["analytics/coding"]["data"]["projects"]),
        "languages": added_up(answers["analytics/coding"]["data"]["languages"]),
        "hours": sum(added_up(day["data"], "coding_ms") for day in hours),
        "sessions by day": added_up(answers["sessions/daily"]["data"], "coding_ms"),
    }
    switches = answers["analytics/context-switches"]["totals"]["switch_count"]
    assert tracked == dict.fromkeys(tracked, totals["tracked_ms"])
    assert coding == dict.fromkeys(coding, totals["coding_ms"])
    assert switches == totals["app_switches"]


def added_up(rows: list[dict[str, Any]], name: str = "total_ms") -> int:
    """Return the sum of a column."""
    return sum(row[name] for row in rows)


@pytest.mark.parametrize("part", PARTS)
@settings(max_examples=STORIES[settings.get_current_profile_name()])
@given(data=st.data())
def test_any_story_has_the_answers_of_the_slow_model(
    stage: Stage, part: str, data: st.DataObject
) -> None:
    story = data.draw(stories(PARTS[part]))
    account = begin(stage)

    for step in story.steps:
        account = do(stage, account, story, step)

    finish(stage, account, story)

"""Settings → Goals: made, changed, paused and removed on a page."""

import html
import json
import re
from itertools import product
from typing import Any, get_args
from uuid import UUID

import psycopg
import pytest
from httpx2 import Response
from starlette.testclient import TestClient

from authserver.pages import goals
from resourceserver.timeline.metrics import ActivityMetric
from tests.conftest import Person
from tests.endpoints.test_goals import add_goal, ask
from tests.oauth.conftest import Welcome
from tests.oauth.visitor import Visitor, forms

Rows = psycopg.Connection[Any]

PATH = "/settings/goals"
HOUR = 3_600_000

SENTENCE = {
    "comparison": "at_least",
    "amount": "3",
    "unit": "hours",
    "metric": "coding_ms",
    "filter": "",
    "name": "",
    "period": "day",
    "days": "12345",
}


def number(page: Response, action: str, which: int = 0) -> int:
    """Return the index of a form of the page that is sent to ``action``."""
    found = [n for n, each in enumerate(forms(page)) if each.action.partition("#")[0] == action]
    return found[which]


def save(browser: Visitor, page: Response | None = None, **typed: Any) -> Response:
    page = browser.get(PATH) if page is None else page
    return browser.submit(page, form=number(page, PATH), **(SENTENCE | typed))


def change(
    browser: Visitor, which: int = 0, page: Response | None = None, **button: Any
) -> Response:
    page = browser.get(PATH) if page is None else page
    return browser.submit(page, form=number(page, f"{PATH}/change", which), **button)


def stored(owner: Rows, person: Person) -> list[tuple[Any, ...]]:
    return owner.execute(
        "select title, metric, comparison, target, period, days_of_week, is_enabled from activity.goal "
        "where user_id = %s order by created_at, title",
        [person.user_id],
    ).fetchall()


def only_goal(owner: Rows) -> UUID:
    row = owner.execute("select goal_id from activity.goal").fetchone()
    assert row is not None
    goal_id: UUID = row[0]
    return goal_id


def problem(page: Response, name: str) -> str:
    found = re.search(rf'id="{name}-problem">([^<]+)<', page.text)
    assert found is not None, page.text
    return html.unescape(found[1])


def test_a_goal_is_made_in_one_sentence(
    alice_browser: Visitor, owner: Rows, alice: Person, api: TestClient
) -> None:
    sent = save(alice_browser)

    page = alice_browser.follow(sent)
    assert "The goal is added." in page.text
    assert "<bdi>At least 3 h of coding on weekdays</bdi>" in page.text
    (goal,) = ask(api, alice)
    assert (goal["title"], goal["metric"], goal["comparison"], goal["target"], goal["period"]) == (
        *("At least 3 h of coding on weekdays", "coding_ms", "at_least", 3 * HOUR, "day"),
    )
    assert goal["days_of_week"] == [1, 2, 3, 4, 5]
    assert goal["enabled"] is True


@pytest.mark.parametrize(
    ("typed", "title"),
    [
        ({"amount": "1,5", "days": "1234567"}, "At least 1 h 30 min of coding a day"),
        (
            {"metric": "coding_ms", "filter": "projects", "name": "svc", "days": "67"},
            "At least 3 h of coding on the project svc on weekends",
        ),
        (
            {
                "comparison": "at_most",
                "amount": "90",
                "unit": "minutes",
                "metric": "tracked_ms",
                "filter": "categories",
                "name": " Games ",
                "period": "week",
                "days": "1234567",
            },
            "At most 1 h 30 min of tracked time in the category Games a week",
        ),
        (
            {"metric": "session_count", "unit": "times", "amount": "1", "period": "day"},
            "At least 1 session on weekdays",
        ),
        (
            {
                "metric": "app_switches",
                "unit": "times",
                "comparison": "at_most",
                "amount": "200",
                "days": "choose",
                "on": ["1", "3", "5"],
            },
            "At most 200 switches between applications on Mondays, Wednesdays and Fridays",
        ),
        (
            {"metric": "distracted_ms", "comparison": "at_most", "amount": "0", "days": "choose"}
            | {"on": "7"},
            "At most 0 min of distracting time on Sundays",
        ),
        ({"title": "Write more", "period": "month", "days": "1234567"}, "Write more"),
    ],
)
def test_the_sentence_says_what_the_goal_is(
    alice_browser: Visitor, owner: Rows, alice: Person, typed: dict[str, Any], title: str
) -> None:
    sent = save(alice_browser, **typed)

    assert sent.status_code == 303, sent.text
    assert [row[0] for row in stored(owner, alice)] == [title]


@pytest.mark.parametrize(
    ("typed", "name", "text"),
    [
        ({"amount": "three"}, "amount", "This must be a number such as 3 or 1.5."),
        ({"amount": ""}, "amount", "This must be a number such as 3 or 1.5."),
        ({"amount": "٣"}, "amount", "This must be a number such as 3 or 1.5."),
        ({"amount": "-1"}, "amount", "This must be a number such as 3 or 1.5."),
        ({"amount": "1e9"}, "amount", "This must be a number such as 3 or 1.5."),
        ({"amount": "9" * 5000}, "amount", "This must be a number such as 3 or 1.5."),
        ({"amount": "25"}, "amount", "No day is that long."),
        ({"amount": "0"}, "amount", "A goal of at least nothing is always met."),
        (
            {"metric": "session_count", "unit": "times", "amount": "1000001"},
            "amount",
            "This may be 1 000 000 at most.",
        ),
        (
            {"metric": "session_count", "unit": "times", "amount": "1.5"},
            "amount",
            "This must be a number such as 200.",
        ),
        ({"unit": "times"}, "unit", "Coding is counted in hours or minutes."),
        ({"metric": "app_switches"}, "unit", "Switches between applications is counted in times."),
        ({"period": "week"}, "days", "Days can be chosen only for a goal of each day."),
        ({"days": "choose"}, "days", "Tick at least one day."),
        (
            {"filter": "categories", "name": "Games"},
            "name",
            "Coding can be restricted to the project or the language only.",
        ),
        (
            {"metric": "focus_ms", "filter": "apps", "name": "Code"},
            "name",
            "Focus cannot be restricted: choose “all of it”.",
        ),
        ({"filter": "projects"}, "name", "Type the name."),
        ({"name": "svc"}, "name", "In the field “counting”, choose what this is the name of."),
        (
            {"filter": "projects", "name": "א" * 1024},
            "name",
            "This may have at most 255 characters.",
        ),
        ({"title": "א" * 1024}, "title", "A name has at most 100 characters; this one has 1024."),
        (
            {"title": "a\u202eb"},
            "title",
            "The name has characters in it that cannot be seen and change how it reads. Type it again.",
        ),
    ],
)
def test_a_wrong_field_says_why_and_keeps_its_value(
    alice_browser: Visitor, owner: Rows, typed: dict[str, Any], name: str, text: str
) -> None:
    refused = save(alice_browser, **typed)

    assert refused.status_code == 400
    assert problem(refused, name) == text
    shown = dict(forms(refused)[number(refused, PATH)].fields)
    assert {key: shown[key] for key in typed if key in shown} == {
        key: value for key, value in typed.items() if key in shown
    }
    assert owner.execute("select from activity.goal").fetchall() == []


@pytest.mark.parametrize(
    "typed",
    [
        {"metric": "steps"},
        {"metric": None},
        {"period": "year"},
        {"days": "12"},
        {"comparison": ["at_least", "at_most"]},
        {"name": "a\0b"},
        {"goal": "1"},
        {"goal": "{" + "0" * 32 + "}x"},
    ],
)
def test_values_that_the_page_cannot_send_are_refused(
    alice_browser: Visitor, typed: dict[str, Any]
) -> None:
    assert save(alice_browser, **typed).status_code == 400


def test_a_goal_is_changed_and_keeps_its_id(
    alice_browser: Visitor, owner: Rows, alice: Person
) -> None:
    save(alice_browser, amount="1.5", filter="languages", name="Rust")
    goal_id = only_goal(owner)

    page = alice_browser.get(f"{PATH}?goal={goal_id}")
    shown = dict(forms(page)[number(page, PATH)].fields)
    saved = save(alice_browser, page, amount="2", days="choose", on=["6", "7"])

    assert "Change a goal" in page.text
    assert (shown["amount"], shown["name"], shown["title"]) == ("90", "Rust", "")
    assert '<option value="minutes" selected>' in page.text
    assert "The goal is saved." in alice_browser.follow(saved).text
    assert only_goal(owner) == goal_id
    assert stored(owner, alice) == [
        *[
            (
                "At least 2 h of coding on weekends",
                "coding_ms",
                "at_least",
                2 * HOUR,
                "day",
                [6, 7],
                True,
            )
        ]
    ]


def test_a_goal_is_paused_and_continued(
    alice_browser: Visitor, owner: Rows, alice: Person, api: TestClient
) -> None:
    save(alice_browser)
    goal_id = str(only_goal(owner))

    paused = alice_browser.follow(change(alice_browser, pause=goal_id))
    after_pause = ask(api, alice)[0]["enabled"]
    again: dict[str, Any] = {"continue": goal_id}
    undone = alice_browser.follow(change(alice_browser, page=paused, **again))

    assert "The goal is paused." in paused.text
    assert '<span class="tag">paused</span>' in paused.text
    assert after_pause is False
    assert "The goal counts again." in undone.text
    assert ask(api, alice)[0]["enabled"] is True


def test_a_removed_goal_comes_back_whole(
    alice_browser: Visitor, owner: Rows, alice: Person, api: TestClient
) -> None:
    add_goal(
        *(owner, alice, "tracked_ms"),
        title='Two "things" <b>',
        comparison="at_most",
        days_of_week=[2, 4],
        categories=["Games", "News"],
        apps=["Steam"],
    )
    before = ask(api, alice)
    goal_id = str(only_goal(owner))
    change(alice_browser, pause=goal_id)

    removed = change(alice_browser, remove=goal_id)
    gone = ask(api, alice)
    undo = number(removed, f"{PATH}/restore")
    restored = alice_browser.submit(removed, form=undo)
    again = alice_browser.submit(removed, form=undo)

    assert "The goal is removed." in removed.text
    assert gone == []
    assert "The goal is back." in alice_browser.follow(restored).text
    assert again.status_code == 303
    (goal,) = ask(api, alice)
    assert goal | {"created_at": 0} == before[0] | {"enabled": False, "created_at": 0}


@pytest.mark.parametrize(
    "changed",
    [
        {"title": ""},
        {"title": "a\0"},
        {"metric": "steps"},
        {"target": -1},
        {"target": 10**13},
        {"period": "week"},
        {"days_of_week": [0]},
        {"days_of_week": []},
        {"categories": ["Games"]},
        {"languages": ["\ud800"]},
        {"user_id": "x"},
        {"goal_id": "x"},
    ],
)
def test_a_forged_goal_is_not_restored(
    alice_browser: Visitor, owner: Rows, changed: dict[str, Any]
) -> None:
    save(alice_browser)
    removed = change(alice_browser, remove=str(only_goal(owner)))
    undo = number(removed, f"{PATH}/restore")
    goal = json.loads(dict(forms(removed)[undo].fields)["removed"])

    refused = alice_browser.submit(removed, form=undo, removed=json.dumps(goal | changed))

    assert refused.status_code == 400
    assert owner.execute("select from activity.goal").fetchall() == []


def test_an_equal_goal_is_not_added_twice(
    alice_browser: Visitor, owner: Rows, alice: Person
) -> None:
    save(alice_browser)

    again = save(alice_browser)

    assert again.status_code == 400
    assert "You have a goal for exactly that already." in again.text
    assert len(stored(owner, alice)) == 1


def test_a_person_has_at_most_100_goals(alice_browser: Visitor, owner: Rows, alice: Person) -> None:
    owner.execute(
        "insert into activity.goal (user_id, title, metric, comparison, target, period) "
        "select %s, 'goal', 'focus_ms', 'at_least', n, 'day' from generate_series(1, 100) as n",
        [alice.user_id],
    )

    refused = save(alice_browser)

    assert refused.status_code == 400
    assert "There is room for 100 goals." in refused.text
    assert len(stored(owner, alice)) == 100


def test_bob_neither_sees_nor_changes_a_goal_of_alice(
    alice_browser: Visitor, welcome: Welcome, bob: Person, owner: Rows, alice: Person
) -> None:
    save(alice_browser, title="Alices secret")
    goal_id = str(only_goal(owner))
    bob_browser = welcome(bob)
    save(bob_browser, amount="1")
    before = stored(owner, alice)

    shown = bob_browser.get(f"{PATH}?goal={goal_id}")
    answers = [
        change(bob_browser, pause=goal_id).status_code,
        change(bob_browser, remove=goal_id).status_code,
    ]
    added = save(bob_browser, goal=goal_id, amount="2")

    assert (shown.status_code, "secret" in shown.text) == (404, False)
    assert answers == [409, 409]
    assert added.status_code == 303
    assert stored(owner, alice) == before


def test_a_form_of_another_session_changes_nothing(
    alice_browser: Visitor, owner: Rows, alice: Person
) -> None:
    page = alice_browser.get(f"{PATH}?back=/week/2026-W47")

    refused = save(alice_browser, page, csrf="x", amount="4")

    assert refused.status_code == 403
    assert 'value="4"' in refused.text
    assert "/week/2026-W47" in refused.text
    assert stored(owner, alice) == []


def test_the_page_knows_all_metrics_and_what_they_can_be_restricted_to(owner: Rows) -> None:
    kinds = [kind for kind in goals.FILTERS if kind]
    row = owner.execute(
        "select pg_get_constraintdef(oid) from pg_constraint "
        "where conname = 'goal_filters_what_can_be_filtered'"
    ).fetchone()

    assert set(goals.METRICS) == set(get_args(ActivityMetric))
    assert row is not None
    condition = row[0].replace("CHECK", "select", 1)
    columns = ", ".join(f"%({kind})s::text[] as {kind}" for kind in kinds)
    for metric, kind in product(goals.METRICS, kinds):
        values = dict.fromkeys(kinds, "{}") | {kind: "{a}", "metric": metric}
        accepted = owner.execute(
            f"{condition} from (select %(metric)s as metric, {columns}) as goal", values
        ).fetchone()
        assert accepted == (kind in goals.filters(metric),), (metric, kind)

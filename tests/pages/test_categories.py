"""Settings → Categories: time without a category, rules and scores."""

import asyncio
import html
import re
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import quote_plus
from uuid import UUID

import psycopg
import pytest
from httpx2 import Response
from starlette.testclient import TestClient

import authserver.app
from authserver import trials
from authserver.pages import categories
from shared import database, pipeline
from shared.pool import Connection
from shared.settings import Settings
from tests.client import AppClient
from tests.conftest import Person
from tests.oauth.conftest import Welcome
from tests.oauth.visitor import Form, Visitor, forms
from tests.sql.test_categories import fill, insert, patterns, record
from tests.waiting import wait_for

Rows = psycopg.Connection[Any]

PATH = "/settings/categories"


def form(page: Response, action: str) -> tuple[int, Form]:
    """Return the form of the page that is sent to ``action``, and its index."""
    for number, found in enumerate(forms(page)):
        if found.action.partition("#")[0] == f"{PATH}/{action}":
            return number, found
    raise AssertionError(f"no form for {action}")


def send(browser: Visitor, action: str, page: Response | None = None, **typed: Any) -> Response:
    shown = browser.get(PATH) if page is None else page
    return browser.submit(shown, form=form(shown, action)[0], **typed)


def rule(browser: Visitor, what: str = "add", **typed: Any) -> Response:
    given = {"field": "app", "match": "exact", "pattern": "Code", "category": "Writing"}
    return send(browser, "rules", what=what, **given | typed)


def stored(owner: Rows, person: Person) -> list[tuple[Any, ...]]:
    return owner.execute(
        "select field, match, pattern, category from activity.category_rule "
        "where user_id = %s order by priority",
        [person.user_id],
    ).fetchall()


def scored(owner: Rows, person: Person) -> list[tuple[Any, ...]]:
    return owner.execute(
        "select category, score from activity.category_score where user_id = %s", [person.user_id]
    ).fetchall()


def problem(page: Response, name: str) -> str:
    found = re.search(rf'id="{name}-problem">([^<]+)<', page.text)
    assert found is not None, page.text
    return html.unescape(found[1])


def section(page: Response, heading: str) -> str:
    """Return the text of a part of the page, without its tags."""
    found = re.search(rf"<h2>{heading}</h2>(.*?)</section>", page.text, re.DOTALL)
    assert found is not None
    return " ".join(html.unescape(re.sub("<[^>]+>", " ", found[1])).split())


def test_the_page_begins_with_time_without_a_category(
    alice_browser: Visitor, owner: Rows, alice: Person, bob: Person
) -> None:
    record(owner, alice, "Mystery", ago_h=9, hours=2.5)
    record(owner, alice, "Firefox", ago_h=5, domain="tides.example")
    record(owner, alice, "Firefox", ago_h=3, hours=0.001)
    record(owner, alice, "Code")
    record(owner, bob, "Bobs")

    page = alice_browser.get(PATH)

    assert re.findall("<h2>(.*?)</h2>", page.text) == [
        "Without a category",
        "Add a rule",
        "Your rules",
        "What is productive",
    ]
    shown = section(page, "Without a category")
    assert re.findall(r"(\S+) (Application|Site), (.*?) Put into", shown.partition("below")[2]) == [
        ("Mystery", "Application", "2 h 30 min in 1 session"),
        ("tides.example", "Site", "1 h in 1 session"),
    ]
    assert shown.endswith(
        "Firefox Application, less than a minute in 1 session "
        "A rule for it would apply to its sites too. Try a rule for window titles."
    )
    assert "Code" not in shown
    assert "Bobs" not in page.text


def test_one_button_puts_an_item_into_a_category_for_all_history(
    alice_browser: Visitor, owner: Rows, alice: Person, api: TestClient
) -> None:
    record(owner, alice, "Mystery Tool", ago_h=9)
    record(owner, alice, "Firefox", ago_h=5, domain="tides.example")

    sent = send(alice_browser, "put", category="Design", put="domain tides.example")
    again = alice_browser.follow(sent)
    send(alice_browser, "put", again, category="Writing", put="app Mystery Tool")

    assert sent.status_code == 303
    assert "Done. It applies to everything that was ever recorded." in again.text
    assert "<option selected>Design</option>" in again.text
    assert "tides.example" not in section(again, "Without a category")
    assert stored(owner, alice) == [
        ("domain", "exact", "tides.example", "Design"),
        ("app", "exact", "Mystery Tool", "Writing"),
    ]
    listed = api.get(
        "/api/v1/sessions/apps",
        params={"from": "2000-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z"},
        headers=alice.headers("read:activity"),
    )
    assert [row["category"] for row in listed.json()["data"]] == ["Design", "Writing"]


@pytest.mark.parametrize(
    "typed",
    [
        {"put": "title Secret"},
        {"put": "app "},
        {"put": "app %00"},
        {"put": "app %ff"},
        {"put": "app"},
        {"put": None},
        {"category": ""},
        {"category": None},
        {"category": "x" * 65},
        {"category": "a\u202eb"},
        {"put": "app " + "x" * 256},
    ],
)
def test_a_value_that_no_button_sends_is_refused(
    alice_browser: Visitor, owner: Rows, alice: Person, typed: dict[str, Any]
) -> None:
    record(owner, alice, "Mystery")

    sent = send(alice_browser, "put", **{"category": "Design", "put": "app Mystery"} | typed)

    assert sent.status_code == 400
    assert stored(owner, alice) == []


# A browser sends each of these line breaks as CR LF, and shows it as LF.
@pytest.mark.parametrize("name", ["Tide\nTable", "Tide\rTable", "Tide\r\nTable", "100%25 & more/"])
def test_one_button_puts_exactly_the_recorded_name_into_a_category(
    alice_browser: Visitor, owner: Rows, alice: Person, name: str
) -> None:
    record(owner, alice, name)
    page = alice_browser.get(PATH)
    found = re.search(r'name="put" value="([^"]+)"', page.text)
    assert found is not None
    value = html.unescape(found[1])

    sent = send(alice_browser, "put", page, category="Design", put=value)

    assert sent.status_code == 303
    assert not {"\r", "\n"} & set(value)
    assert stored(owner, alice) == [("app", "exact", name, "Design")]


def test_pressing_a_button_twice_reports_an_existing_rule(
    alice_browser: Visitor, owner: Rows, alice: Person
) -> None:
    record(owner, alice, "Mystery")
    page = alice_browser.get(PATH)

    for _ in range(2):
        sent = send(alice_browser, "put", page, category="Design", put="app Mystery")

    assert sent.status_code == 400
    assert "A rule for that exists already." in sent.text
    assert len(stored(owner, alice)) == 1


def test_a_rule_is_previewed_and_then_added(
    alice_browser: Visitor, owner: Rows, alice: Person
) -> None:
    record(owner, alice, "Firefox", ago_h=9, title="Tide table", hours=2)
    record(owner, alice, "Firefox", ago_h=6, title="Low tide <b>", domain="youtube.com")
    insert(owner, alice, "domain", "exact", "youtube.com", "Own")
    typed = {"field": "title", "match": "contains", "pattern": " TIDE ", "category": "Sea"}

    seen = rule(alice_browser, "preview", **typed)
    untouched = stored(owner, alice)
    number, again = form(seen, "rules")
    added = alice_browser.submit(
        seen, form=number, what="add", field="title", match="contains", category="Sea"
    )

    assert seen.status_code == 200
    shown = section(seen, "Add a rule")
    assert (
        "In the last 30 days this matches 3 h in 2 sessions . Your existing rules already decide about "
        "1 h of it, and come first."
    ).replace(" .", ".") in shown.replace(" .", ".")
    assert "Tide table 2 h in 1 session, now Uncategorized" in shown
    assert "Low tide <b> 1 h in 1 session, now Own" in shown
    assert "<b>" not in seen.text
    assert untouched == [("domain", "exact", "youtube.com", "Own")]
    assert dict(again.fields)["pattern"] == "TIDE"
    assert '<option value="title" selected>' in seen.text
    assert '<option value="contains" selected>' in seen.text
    assert added.headers["location"].startswith(f"{PATH}?done=added&rule=")
    assert "The rule is added." in alice_browser.follow(added).text
    assert stored(owner, alice)[1] == ("title", "contains", "TIDE", "Sea")


def test_a_rule_that_matches_nothing_says_so(alice_browser: Visitor) -> None:
    seen = rule(alice_browser, "preview", pattern="Nothing", category="")

    assert seen.status_code == 200
    assert "In the last 30 days this matches nothing." in seen.text


@pytest.mark.parametrize(
    ("typed", "name", "message"),
    [
        ({"pattern": ""}, "pattern", "Type the text to compare with."),
        ({"pattern": "  "}, "pattern", "Type the text to compare with."),
        ({"pattern": "x" * 256}, "pattern", "at most 255 characters"),
        ({"pattern": "x" * 10_000}, "pattern", "at most 255 characters"),
        ({"category": ""}, "category", "Give it a name."),
        ({"category": "x" * 65}, "category", "at most 64 characters; this one has 65"),
        ({"category": "a\u202eb"}, "category", "cannot be seen"),
        ({"category": "a\tb"}, "category", "cannot be seen"),
        ({"match": "regex", "pattern": "("}, "pattern", "not a regular expression"),
        ({"match": "regex", "pattern": r"(a)\1"}, "pattern", "may not contain back references"),
        ({"match": "regex", "pattern": "(?=.*(?=.*x))"}, "pattern", "may begin with (?:"),
        ({"match": "regex", "pattern": "(^|$)*" * 20}, "pattern", "cannot be repeated"),
        ({"match": "regex", "pattern": "((a?b?){15}){17}c"}, "pattern", "too large"),
        ({"match": "regex", "pattern": "(" * 16 + "a" + "+)" * 16}, "pattern", "too large"),
        ({"match": "regex", "pattern": r"[a-\x7ffffffe]"}, "pattern", "so many letters"),
    ],
)
def test_an_unacceptable_rule_is_reported_beside_its_field_and_kept(
    alice_browser: Visitor,
    owner: Rows,
    alice: Person,
    typed: dict[str, str],
    name: str,
    message: str,
) -> None:
    page = rule(alice_browser, **typed)

    kept = dict(form(page, "rules")[1].fields)
    assert page.status_code == 400
    assert message in problem(page, name)
    assert kept["pattern"] == typed.get("pattern", "Code").strip()
    assert kept["category"] == typed.get("category", "Writing")
    assert stored(owner, alice) == []


def test_a_hostile_expression_is_refused_in_the_preview_too(
    alice_browser: Visitor, owner: Rows, alice: Person
) -> None:
    record(owner, alice, "Code", title="a" * 1024)

    page = rule(alice_browser, "preview", match="regex", pattern="(?=.*(?=.*(?=.*x)))")

    assert page.status_code == 400
    assert "may begin with (?:" in problem(page, "pattern")


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("https://www.GitHub.com/svc?x=1", "github.com"),
        ("www.github.com", "github.com"),
        ("github.com.", "github.com"),
        ("github.com:443/x", "github.com"),
        ("www.com", "www.com"),
        ("gist.github.com", "gist.github.com"),
        ("http://[", "http://["),
    ],
)
def test_a_site_can_be_typed_as_a_url(
    alice_browser: Visitor, owner: Rows, alice: Person, typed: str, kept: str
) -> None:
    rule(alice_browser, field="domain", pattern=typed)

    assert stored(owner, alice) == [("domain", "exact", kept, "Writing")]


@pytest.mark.parametrize("field", ["app", "domain"])
def test_decomposed_letters_are_normalized_to_recorded_ones(
    alice_browser: Visitor, owner: Rows, alice: Person, field: str
) -> None:
    rule(alice_browser, field=field, pattern="cafe\u0301.example", category="Cafe\u0301")
    send(alice_browser, "scores", scored="Cafe\u0301", score="2")

    assert stored(owner, alice) == [(field, "exact", "caf\u00e9.example", "Caf\u00e9")]
    assert scored(owner, alice) == [("Caf\u00e9", 2)]


def test_titles_are_compared_without_unicode_normalization(
    alice_browser: Visitor, owner: Rows, alice: Person
) -> None:
    rule(alice_browser, field="title", match="contains", pattern="cafe\u0301")

    assert stored(owner, alice) == [("title", "contains", "cafe\u0301", "Writing")]


def test_too_many_combining_marks_are_refused_before_normalization(
    alice_browser: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = alice_browser.get(PATH)
    normalize, lengths = unicodedata.normalize, []

    def counted(form: Any, text: str) -> str:
        lengths.append(len(text))
        return normalize(form, text)

    monkeypatch.setattr(unicodedata, "normalize", counted)

    refused = send(alice_browser, "scores", page, scored="e" + "\u0301\u0316" * 5_000, score="2")

    assert refused.status_code == 400
    assert "at most 64 characters" in problem(refused, "scored")
    # The work grows with the square of the marks in a row, so a long text is refused before it.
    assert max(lengths, default=0) < 1000


@pytest.mark.parametrize(
    ("action", "typed"),
    [
        ("rules", {"field": "user", "match": "exact", "pattern": "x", "category": "x"}),
        ("rules", {"field": "app", "match": "like", "pattern": "x", "category": "x"}),
        ("rules", {"field": "app", "match": "exact", "pattern": "a\0", "category": "x"}),
        ("rules", {"field": "app", "match": "exact", "pattern": b"\xff", "category": "x"}),
        ("rules", {"field": "app", "match": "exact", "pattern": ["a", "b"], "category": "x"}),
        ("scores", {"scored": "Games", "score": "3"}),
        ("scores", {"scored": "Games", "score": "-2.0"}),
        ("scores", {"scored": "Games", "score": None}),
        ("order", {}),
        ("order", {"up": "1"}),
        ("order", {"sideways": "00000000-0000-4000-8000-000000000001"}),
    ],
)
def test_a_value_that_our_forms_cannot_send_is_a_clear_error(
    alice_browser: Visitor, owner: Rows, alice: Person, action: str, typed: dict[str, Any]
) -> None:
    insert(owner, alice, "app", "exact", "Code", "Own")

    sent = send(alice_browser, action, **typed)

    assert sent.status_code == 400
    assert stored(owner, alice) == [("app", "exact", "Code", "Own")]
    assert scored(owner, alice) == []


@pytest.mark.parametrize(
    ("what", "which", "order", "done"),
    [
        ("up", 1, "bac", "moved#rules"),
        ("down", 0, "bac", "moved#rules"),
        ("down", 1, "acb", "moved#rules"),
    ],
)
def test_rules_are_moved(
    alice_browser: Visitor,
    owner: Rows,
    alice: Person,
    what: str,
    which: int,
    order: str,
    done: str,
) -> None:
    rules = [insert(owner, alice, "app", "exact", pattern, "Own")[1] for pattern in "abc"]

    sent = send(alice_browser, "order", None, **{what: str(rules[which])})

    assert sent.headers["location"] == f"{PATH}?done={done}"
    assert patterns(owner, alice) == list(enumerate(order, 1))
    assert re.findall(r"\d\. Application is (\w)", section(alice_browser.get(PATH), "Your rules"))


def test_the_removal_of_a_rule_can_be_undone(
    alice_browser: Visitor, owner: Rows, alice: Person
) -> None:
    rules = [insert(owner, alice, "app", "exact", each, "Own")[1] for each in ("a", '"<b>', "c")]

    removed = send(alice_browser, "order", None, remove=str(rules[1]))
    left = patterns(owner, alice)
    (number,) = [n for n, each in enumerate(forms(removed)) if ("place", "2") in each.fields]
    restored = alice_browser.submit(removed, form=number, what="restore")

    assert removed.status_code == 200
    assert "The rule is removed." in removed.text
    assert left == [(1, "a"), (2, "c")]
    assert "The rule is back in its place." in alice_browser.follow(restored).text
    assert patterns(owner, alice) == [(1, "a"), (2, '"<b>'), (3, "c")]


SLOW = "[xy]*x[xy]{230}z|mystery"
"""Reading a long title of x and y takes a millisecond."""


def old_rules(owner: Rows, person: Person, *given: tuple[str, str]) -> list[str]:
    """Write expressions for applications as older versions did, without a trial, and return their ids."""
    return [
        str(row[0])
        for n, (expression, category) in enumerate(given, 1)
        for row in owner.execute(
            "insert into activity.category_rule (user_id, priority, field, match, pattern, category) "
            "values (%s, %s, 'app', 'regex', %s, %s) returning category_rule_id",
            [person.user_id, n, expression, category],
        )
    ]


def try_rules(settings: Settings) -> int:
    async def run() -> int:
        login = database.login(settings, "authserver")
        async with await Connection.connect(
            login, autocommit=True, prepare_threshold=None
        ) as connection:
            return await trials.try_rules(connection)

    return asyncio.run(run())


def decided(api: TestClient, person: Person) -> list[str]:
    listed = api.get(
        "/api/v1/sessions/apps",
        params={"from": "2000-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z"},
        headers=person.headers("read:activity"),
    )
    return [row["category"] for row in listed.json()["data"]]


def test_an_older_rule_that_is_too_slow_is_switched_off_and_its_owner_learns_it(
    alice_browser: Visitor,
    owner: Rows,
    alice: Person,
    bob: Person,
    api: TestClient,
    settings: Settings,
) -> None:
    record(owner, alice, "Mystery")
    old_rules(owner, alice, ("first", "A"), (SLOW, "Slow"), ("myst", "Fast"))
    old_rules(owner, bob, ("first", "A"))
    before = decided(api, alice)

    runs = [try_rules(settings) for _ in range(2)]

    assert runs == [1, 0]
    assert (before, decided(api, alice)) == (["Slow"], ["Fast"])
    assert re.findall(
        r"(\d)\. \S+ matches the expression \S+ → (\w+) (Switched off)?",
        section(alice_browser.get(PATH), "Your rules"),
    ) == [("1", "A", ""), ("2", "Slow", "Switched off"), ("3", "Fast", "")]
    happened = alice_browser.get("/settings/account/events").text
    assert happened.count("Category rules that take too long were switched off") == 1
    assert owner.execute(
        "select user_id from identity.security_event where event = 'rules_switched_off'"
    ).fetchall() == [(alice.user_id,)]


def test_the_server_tries_older_rules(settings: Settings, owner: Rows, alice: Person) -> None:
    old_rules(owner, alice, ("first", "A"))
    app = authserver.app.create(
        replace(settings, jobs=True), clean_every=timedelta(milliseconds=100)
    )
    tried = "select reading_us is not null from activity.category_rule"

    with AppClient(app):
        wait_for(lambda: owner.execute(tried).fetchone() == (True,), "the rule to be tried")


def test_a_rule_that_was_switched_off_is_changed_at_its_place(
    alice_browser: Visitor, owner: Rows, alice: Person, api: TestClient, settings: Settings
) -> None:
    record(owner, alice, "Mystery")
    slow = old_rules(owner, alice, (SLOW, "Slow"), ("myst", "Fast"))[0]
    try_rules(settings)

    editing = send(alice_browser, "order", None, edit=slow)
    chosen = {"what": "add", "field": "app", "match": "regex"}
    refused = send(alice_browser, "rules", editing, **chosen)
    left = stored(owner, alice)
    saved = send(alice_browser, "rules", refused, **chosen, pattern="[xy]*z|mystery")

    assert "Change a rule" in editing.text
    assert refused.status_code == 400
    assert "Some texts take too long" in problem(refused, "pattern")
    assert left == [("app", "regex", SLOW, "Slow"), ("app", "regex", "myst", "Fast")]
    assert "The rule is saved." in alice_browser.follow(saved).text
    assert stored(owner, alice) == [
        ("app", "regex", "[xy]*z|mystery", "Slow"),
        ("app", "regex", "myst", "Fast"),
    ]
    assert decided(api, alice) == ["Slow"]
    assert "Switched off" not in alice_browser.get(PATH).text


def test_all_expressions_of_a_person_share_one_limit(
    alice_browser: Visitor, owner: Rows, alice: Person
) -> None:
    insert(owner, alice, "title", "regex", "slow", "Own")
    owner.execute("update activity.category_rule set reading_us = 1500")

    refused = rule(alice_browser, match="regex", pattern="github")

    assert refused.status_code == 400
    assert "together" in problem(refused, "pattern")
    assert [row[2] for row in stored(owner, alice)] == ["slow"]


@pytest.mark.parametrize("added_by", ["rules", "put"])
def test_the_addition_of_a_rule_can_be_undone(
    alice_browser: Visitor, owner: Rows, alice: Person, added_by: str
) -> None:
    record(owner, alice, "Mystery")
    insert(owner, alice, "app", "exact", "Kept", "Own")
    if added_by == "rules":
        added = rule(alice_browser, pattern="Mystery")
    else:
        added = send(alice_browser, "put", category="Design", put="app Mystery")
    page = alice_browser.follow(added)
    both = patterns(owner, alice)

    # The first form after the menu is the one that undoes the change.
    (undo,) = re.findall(r'class="link" name="remove" value="([^"]+)">Undo', page.text)
    undone = alice_browser.submit(page, form=1, remove=undo)

    assert both == [(1, "Kept"), (2, "Mystery")]
    assert "The rule is removed." in undone.text
    assert patterns(owner, alice) == [(1, "Kept")]


def test_the_first_and_last_rule_have_no_button_beyond_the_list(
    alice_browser: Visitor, owner: Rows, alice: Person
) -> None:
    for pattern in "abc":
        insert(owner, alice, "app", "exact", pattern, "Own")

    labels = re.findall(r'aria-label="((?:Move|Remove)[^"]+)"', alice_browser.get(PATH).text)

    assert labels == [
        "Move down: Application is a",
        "Remove: Application is a",
        "Move up: Application is b",
        "Move down: Application is b",
        "Remove: Application is b",
        "Move up: Application is c",
        "Remove: Application is c",
    ]


@pytest.mark.parametrize("what", ["up", "down", "remove"])
def test_bobs_rules_cannot_be_changed(
    alice_browser: Visitor, owner: Rows, alice: Person, bob: Person, what: str
) -> None:
    insert(owner, alice, "app", "exact", "mine", "Own")
    bobs = [insert(owner, bob, "app", "exact", pattern, "Bobs")[1] for pattern in "abc"]

    sent = send(alice_browser, "order", None, **{what: str(bobs[1])})

    assert sent.status_code == 409
    assert "That rule does not exist any more." in sent.text
    assert patterns(owner, bob) == [(1, "a"), (2, "b"), (3, "c")]
    assert "Bobs" not in sent.text


def test_a_score_is_saved_shown_and_reset_to_the_default(
    alice_browser: Visitor, owner: Rows, alice: Person
) -> None:
    saved = send(alice_browser, "scores", scored="Games", score="1")
    page = alice_browser.follow(saved)
    kept = scored(owner, alice)
    own = alice_browser.follow(send(alice_browser, "scores", scored=" Sea ", score="-2"))
    send(alice_browser, "scores", scored="Games", score="usual")

    assert kept == [("Games", 1)]
    assert "The score is saved." in page.text
    assert "Games Productive (usually very distracting)" in section(page, "What is productive")
    assert "Sea Very distracting (usually neutral)" in section(own, "What is productive")
    assert scored(owner, alice) == [("Sea", -2)]


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("", "Give it a name."),
        ("x" * 65, "at most 64 characters"),
        ("a\u202eb", "cannot be seen"),
    ],
)
def test_an_invalid_category_of_a_score_is_reported_beside_its_field(
    alice_browser: Visitor, owner: Rows, alice: Person, typed: str, message: str
) -> None:
    page = send(alice_browser, "scores", scored=typed, score="-1")

    assert page.status_code == 400
    assert message in problem(page, "scored")
    assert dict(form(page, "scores")[1].fields)["scored"] == typed
    assert '<option value="-1" selected>' in page.text
    assert scored(owner, alice) == []


def test_the_limit_of_rules_is_reported(alice_browser: Visitor, owner: Rows, alice: Person) -> None:
    fill(owner, alice, 200, "exact")

    page = rule(alice_browser, pattern="another")

    assert page.status_code == 400
    assert "room for 200 rules" in problem(page, "pattern")
    assert page.text.count("Remove: Application is") == 200


ACTIONS = {
    "put": {"category": "Design", "put": "app Mystery"},
    "rules": {
        "what": "add",
        "pattern": "Code",
        "category": "Own",
        "field": "app",
        "match": "exact",
    },
    "order": {"remove": "00000000-0000-4000-8000-000000000001"},
    "scores": {"scored": "Games", "score": "1"},
}


@pytest.mark.parametrize("action", ACTIONS)
def test_a_form_of_another_session_is_shown_again_with_what_was_typed(
    alice_browser: Visitor, welcome: Welcome, owner: Rows, alice: Person, action: str
) -> None:
    record(owner, alice, "Mystery")
    insert(owner, alice, "app", "exact", "kept", "Own")
    page = welcome(alice).get(PATH)

    again = send(alice_browser, action, page, **ACTIONS[action])

    assert again.status_code == 403
    assert "This page was out of date. Please try again." in again.text
    assert [pattern for _, pattern in patterns(owner, alice)] == ["kept"]
    assert scored(owner, alice) == []
    if action == "rules":
        assert dict(form(again, "rules")[1].fields)["pattern"] == "Code"
    if action == "scores":
        assert dict(form(again, "scores")[1].fields)["scored"] == "Games"
    if action == "put":
        assert "<option selected>Design</option>" in again.text


@pytest.mark.parametrize("action", ACTIONS)
def test_a_form_from_elsewhere_changes_nothing(
    alice_browser: Visitor, owner: Rows, alice: Person, action: str
) -> None:
    csrf = dict(form(alice_browser.get(PATH), "rules")[1].fields)["csrf"]
    fields = {**ACTIONS[action], "csrf": csrf}
    path = f"{PATH}/{action}"

    by_site = alice_browser.post(path, fields, headers={"Sec-Fetch-Site": "cross-site"})
    by_origin = alice_browser.post(path, fields, headers={"Origin": "https://evil.example"})
    without = alice_browser.post(path, {**fields, "csrf": ""})

    assert [by_site.status_code, by_origin.status_code, without.status_code] == [403, 403, 403]
    assert stored(owner, alice) == scored(owner, alice) == []


@pytest.mark.parametrize("action", ACTIONS)
def test_without_sign_in_the_page_redirects_to_sign_in_and_back(
    visitor: Visitor, action: str
) -> None:
    for response in (visitor.get(PATH), visitor.post(f"{PATH}/{action}", ACTIONS[action])):
        assert response.status_code == 303
        assert response.headers["location"] == f"/sign-in?next={PATH}"


def test_only_rules_of_the_signed_in_person_change(
    alice_browser: Visitor, owner: Rows, alice: Person, bob: Person
) -> None:
    rule(alice_browser, user_id=str(bob.user_id))
    send(alice_browser, "scores", scored="Games", score="1", user_id=str(bob.user_id))

    assert stored(owner, bob) == scored(owner, bob) == []
    assert len(stored(owner, alice)) == len(scored(owner, alice)) == 1


@pytest.mark.parametrize(
    "name", ["<b>Sea</b>", "\"><script>alert('x')</script>", "{{ 7*7 }}", "البحر"]
)
def test_names_from_trackers_are_escaped(
    alice_browser: Visitor, owner: Rows, alice: Person, name: str
) -> None:
    record(owner, alice, name, ago_h=5)
    insert(owner, alice, "title", "contains", name, name)
    owner.execute("select svc.set_score(%s, %s, 1)", [alice.user_id, name])

    page = alice_browser.get(f"{PATH}?into={quote_plus(name)}&done={quote_plus(name)}")
    put = send(alice_browser, "put", page, category=name, put=f"app {name}")

    assert "<script>" not in page.text
    assert "<b>" not in page.text
    assert f"<bdi>{html.escape(name)}</bdi>".replace("&quot;", "&#34;").replace(
        "&#x27;", "&#39;"
    ) in (page.text)
    assert "49" not in section(page, "Your rules")
    assert put.status_code == 303
    assert stored(owner, alice)[1] == ("app", "exact", name, name)


def test_a_timeout_leaves_the_rest_of_the_page(
    alice_browser: Visitor, owner: Rows, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(owner, alice, "Mystery")
    rule(alice_browser, pattern="Code")
    hurried = pipeline.statement("set local statement_timeout = '50ms'")
    monkeypatch.setitem(categories.SQL, "limit_time", hurried)

    # No connection can read sessions for a while.
    with psycopg.connect(owner.info.dsn, password=owner.info.password) as holding:
        holding.execute("lock activity.app_session")
        page = alice_browser.get(PATH)
        previewed = rule(alice_browser, "preview", pattern="Mystery")
        rules = re.findall(r'name="remove" value="([^"]+)"', page.text)
        removed = send(alice_browser, "order", remove=rules[0])

    assert page.status_code == 200
    assert "takes too long at the moment" in page.text
    assert previewed.status_code == 503
    assert "taking too long" in problem(previewed, "pattern")
    assert removed.status_code == 200
    assert stored(owner, alice) == []


def test_after_a_timeout_no_second_slow_query_runs(
    alice_browser: Visitor, owner: Rows, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(owner, alice, "Mystery")
    page = alice_browser.get(PATH)
    number = form(page, "rules")[0]
    hurried = pipeline.statement("set local statement_timeout = '1s'")
    monkeypatch.setitem(categories.SQL, "limit_time", hurried)

    with psycopg.connect(owner.info.dsn, password=owner.info.password) as holding:
        holding.execute("lock activity.app_session")
        with ThreadPoolExecutor(1) as thread:
            previewing = thread.submit(
                lambda: alice_browser.submit(
                    page, form=number, what="preview", field="app", match="exact", pattern="Mystery"
                )
            )
            waits = set[Any]()

            def is_done() -> bool:
                # A statement waits for a whole second, so none is missed between two looks.
                waits.update(waiting_statements(owner))
                return previewing.done()

            wait_for(is_done, "the page")
        previewed = previewing.result()

    assert previewed.status_code == 503
    assert "takes too long at the moment" in previewed.text
    assert len(waits) == 1


def waiting_statements(owner: Rows) -> list[Any]:
    """Return which statements wait for a lock at this moment, by connection and begin."""
    return owner.execute(
        "select pid, query_start from pg_stat_activity "
        "where datname = current_database() and wait_event_type = 'Lock'"
    ).fetchall()


def test_a_change_during_a_job_asks_to_try_again(
    alice_browser: Visitor, owner: Rows, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(owner, alice, "Mystery")
    page = alice_browser.get(PATH)
    impatient = pipeline.statement("set local lock_timeout = '50ms'")
    monkeypatch.setitem(categories.SQL, "limit_time", impatient)

    with psycopg.connect(owner.info.dsn, password=owner.info.password) as job:
        job.execute(
            "select pg_advisory_xact_lock(hashtextextended('summaries of ' || %s::uuid, 0))",
            [alice.user_id],
        )
        busy = send(alice_browser, "rules", page, **ACTIONS["rules"])
        others = [
            send(alice_browser, action, page, **ACTIONS[action]) for action in ("put", "scores")
        ]
    done = send(alice_browser, "rules", page, **ACTIONS["rules"])

    assert busy.status_code == 503
    assert "taking too long" in problem(busy, "pattern")
    assert dict(form(busy, "rules")[1].fields)["pattern"] == "Code"
    assert [other.status_code for other in others] == [503, 503]
    assert all("taking too long" in other.text for other in others)
    assert "<option selected>Design</option>" in others[0].text
    assert dict(form(others[1], "scores")[1].fields)["scored"] == "Games"
    assert done.status_code == 303


@pytest.mark.parametrize(
    ("total_ms", "words"),
    [
        (0, "no time"),
        (1, "less than a minute"),
        (29_999, "less than a minute"),
        (30_000, "1 min"),
        (3_600_000, "1 h"),
        (5_430_000, "1 h 31 min"),
        (360_000_000, "100 h"),
    ],
)
def test_durations_are_formatted_for_people(total_ms: int, words: str) -> None:
    assert categories.spent(total_ms) == words


def test_addresses_on_the_page_contain_no_ids(
    alice_browser: Visitor, owner: Rows, alice: Person
) -> None:
    _, made = insert(owner, alice, "app", "exact", "Code", "Own")

    page = alice_browser.get(PATH)

    assert isinstance(made, UUID)
    assert str(alice.user_id) not in page.text
    assert not re.search(rf'(?:href|action)="[^"]*{made}', page.text)

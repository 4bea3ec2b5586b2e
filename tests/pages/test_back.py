"""From a view of the dashboard to settings and back."""

import re
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import psycopg
import pytest

from shared.settings import Settings
from tests.conftest import Person
from tests.oauth.conftest import PASSWORD, Welcome
from tests.oauth.visitor import Visitor, forms
from tests.pages.test_categories import stored
from tests.sql.test_categories import insert, record

Rows = psycopg.Connection[Any]

PATH = "/settings/categories"
VIEW = "/day/2026-11-21?tz=Europe/Berlin#apps"


def link(**parameters: str) -> str:
    return f"{PATH}?{urlencode({'back': VIEW, **parameters})}"


def links_back(text: str) -> list[str]:
    return re.findall(r'<a href="([^"]+)">Back to the dashboard</a>', text)


def test_one_press_puts_an_application_into_a_category_and_can_be_undone(
    alice_browser: Visitor, owner: Rows, alice: Person, settings: Settings
) -> None:
    record(owner, alice, "Code", ago_h=5, hours=2)

    page = alice_browser.get(link(app="Code"))
    sent = alice_browser.submit(page, form=1, category="Writing")
    after = alice_browser.follow(sent)
    added = stored(owner, alice)
    undone = alice_browser.submit(after, form=1, remove=_value(after.text, "remove"))

    assert "Application is <code><bdi>Code</bdi></code>" in page.text
    assert "<strong>2 h</strong> in 1 session, now <strong><bdi>Development</bdi>" in page.text
    assert added == [("app", "exact", "Code", "Writing")]
    assert "The rule is added." in after.text
    assert undone.status_code == 200
    assert stored(owner, alice) == []
    way_back = [f"{settings.base_url}{VIEW}"]
    assert [links_back(each.text) for each in (page, after, undone)] == [way_back] * 3


def _value(text: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]+)"', text)
    assert found is not None
    return found[1]


def test_a_rule_for_the_same_text_is_changed_and_that_can_be_undone(
    alice_browser: Visitor, owner: Rows, alice: Person
) -> None:
    insert(owner, alice, "domain", "exact", "tides.example", "Reference")
    insert(owner, alice, "app", "exact", "Code", "Development")

    page = alice_browser.get(link(domain="https://www.Tides.example/today"))
    after = alice_browser.follow(alice_browser.submit(page, form=2, category="Field work"))
    changed = stored(owner, alice)
    again = alice_browser.follow(alice_browser.submit(after, form=1, what="add"))

    assert "by a rule of yours" in page.text
    assert "before that <bdi>Reference</bdi>" in after.text
    assert changed == [
        ("domain", "exact", "tides.example", "Field work"),
        ("app", "exact", "Code", "Development"),
    ]
    assert stored(owner, alice)[0] == ("domain", "exact", "tides.example", "Reference")
    assert links_back(again.text) != []


def test_a_link_may_compare_window_titles_by_a_part(
    alice_browser: Visitor, owner: Rows, alice: Person
) -> None:
    page = alice_browser.get(link(title="Tide", match="contains"))
    alice_browser.submit(page, form=1, category="Reference")

    assert "there is nothing of it" in page.text
    assert f'href="{PATH}?back=/day/' in page.text
    assert stored(owner, alice) == [("title", "contains", "Tide", "Reference")]


def test_a_refused_category_keeps_the_form_and_the_way_back(
    alice_browser: Visitor, owner: Rows, alice: Person
) -> None:
    page = alice_browser.get(link(app="Code"))

    refused = alice_browser.submit(page, form=2, category="x" * 65)

    assert refused.status_code == 400
    assert f'value="{"x" * 65}"' in refused.text
    assert "has at most 64 characters" in refused.text
    assert links_back(refused.text) != []
    assert stored(owner, alice) == []


@pytest.mark.parametrize(
    "back",
    [
        "//evil.example/",
        "https://evil.example/",
        "/\\evil.example",
        "@evil.example",
        "\t/day",
        "/day\r\nX: y",
        "/day/%00/\0",
        '/"><script>',
        "javascript:alert(1)",
        "/" + "a" * 300,
        "day",
    ],
)
def test_only_a_path_of_the_dashboard_is_linked(alice_browser: Visitor, back: str) -> None:
    page = alice_browser.get(f"{PATH}?{urlencode({'app': 'Code', 'back': back})}")

    assert page.status_code == 200
    assert links_back(page.text) == []
    assert "evil" not in page.text


def test_a_repeated_way_back_is_dropped(alice_browser: Visitor) -> None:
    page = alice_browser.get(f"{link(app='Code')}&back=/week/2026-W47")

    assert (page.status_code, links_back(page.text)) == (200, [])


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("app=%00", 200),
        ("app=%ff", 200),
        ("app=&domain=", 200),
        ("app=a&app=b", 200),
        ("app=a&match=none", 200),
        ("title=(&match=regex", 400),
        ("app=" + quote("א" * 1024), 400),
        ("title=" + quote("א" * 1024), 400),
        ("domain=http://[", 200),
        ("was=" + "x" * 65 + "&done=saved&rule=none", 200),
    ],
)
def test_no_link_breaks_the_page(alice_browser: Visitor, query: str, status: int) -> None:
    assert alice_browser.get(f"{PATH}?{query}&back=/").status_code == status


def test_sign_in_returns_to_what_the_link_names(
    visitor: Visitor, welcome: Welcome, alice: Person, settings: Settings
) -> None:
    welcome(alice)
    title = "Tide & ebb + 100 % ≈ א"
    sent_away = visitor.get(link(title=title))
    page = visitor.follow(sent_away)
    signed_in = visitor.submit(page, email=alice.email, password=PASSWORD)

    assert sent_away.headers["location"].startswith("/sign-in?next=")
    location = urlsplit(signed_in.headers["location"])
    assert (location.netloc, location.path) == ("", PATH)
    assert dict(parse_qsl(location.query)) == {"title": title, "back": VIEW}
    assert links_back(visitor.follow(signed_in).text) == [f"{settings.base_url}{VIEW}"]


@pytest.mark.parametrize(
    "going_to",
    [
        f"{PATH}?back=/\r\nX: y",
        f"{PATH}?app=א",
        f"{PATH}?" + "a" * 7000,
        "/settings/account?app=Code",
        "/settings/nothing?app=Code",
        "//evil.example?app=Code",
        "/oauth/authorize?client_id=a",
    ],
)
def test_sign_in_leads_to_no_other_address(alice_browser: Visitor, going_to: str) -> None:
    answer = alice_browser.get(f"/sign-in?next={quote(going_to)}")

    assert answer.headers["location"] == "/"


def test_a_session_that_ended_keeps_the_way_back(alice_browser: Visitor, owner: Rows) -> None:
    page = alice_browser.get(link(app="Code"))
    owner.execute("delete from identity.session")

    sent = alice_browser.submit(page, form=1, category="Writing")

    assert "back%3D" in sent.headers["location"]
    assert len(forms(page)) == 3

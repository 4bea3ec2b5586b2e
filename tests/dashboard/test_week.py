"""The week: its grid where clocks change, its days without a report, and its words."""

import re
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
from starlette.testclient import TestClient

from resourceserver.dashboard.signin.cookie import Cookies
from tests.conftest import Person
from tests.dashboard.conftest import Page, Visit
from tests.endpoints.histories import add_sessions
from tests.endpoints.timeline import Session

HOUR = 3_600_000
MINUTE = 60_000
DAY = 24 * HOUR
MONDAY = 126 * DAY
"""Midnight of 20 October 2025 in UTC, two o'clock in Berlin. Clocks go back on the Sunday of its week."""


@pytest.fixture
def visit(
    api: TestClient, sealing: Cookies, owner: psycopg.Connection[None], alice: Person
) -> Visit:
    """Alice's browser, with three sessions in the week and one in the week before."""
    owner.execute("update identity.user set timezone = 'Europe/Berlin'")
    sunday = MONDAY + 6 * DAY
    add_sessions(
        owner,
        alice,
        [
            Session(
                "1", "laptop", "Code", MONDAY - 3 * DAY, MONDAY - 3 * DAY + HOUR, category="Games"
            ),
            Session(
                "2",
                "laptop",
                "Code",
                MONDAY + 8 * HOUR,
                MONDAY + 9 * HOUR + 30 * MINUTE,
                category="Development",
            ),
            Session(
                "3", "laptop", "Chess", MONDAY + 18 * HOUR, MONDAY + 19 * HOUR, category="Games"
            ),
            # From half past two to a quarter past two, when clocks go back from three to two.
            Session(
                "4",
                "laptop",
                "Code",
                sunday + 30 * MINUTE,
                sunday + 75 * MINUTE,
                category="Development",
            ),
        ],
    )
    return Visit(api, sealing, alice.token())


def text(html: str) -> str:
    """Return the words of a page, with single spaces."""
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_the_captions_say_when_most_of_it_was(visit: Visit) -> None:
    words = text(visit.open("/week/2025-W43").text)

    assert "3 h 15 min tracked, most on Monday: 2 h 30 min" in words
    assert "Best hour: Monday at 10:00 , 1 h productive" in words
    assert "1 h distracting, most on Monday: 1 h" in words
    assert "more than in the week before: 1 h" in words


def test_no_day_has_most_of_what_two_have_as_much_of(
    visit: Visit, owner: psycopg.Connection[None], alice: Person
) -> None:
    start = MONDAY + 2 * DAY + 8 * HOUR
    add_sessions(
        owner, alice, [Session("5", "laptop", "Chess", start, start + HOUR, category="Games")]
    )

    words = text(visit.open("/week/2025-W43").text)

    assert "2 h distracting, most on a day: 1 h" in words
    assert "tracked, most on Monday: 2 h 30 min" in words


def test_an_hour_that_comes_twice_is_one_cell_with_both_times(visit: Visit) -> None:
    html = visit.open("/week/2025-W43").text

    titles = re.findall(r'<g class="(\w+)"><title>([^<]*)</title>', html)
    # Sunday's 45 minutes are a level of three: the largest cell has an hour.
    assert ("l3", "Sun 26, 02:00: 30 min, then 15 min") in titles
    assert ("l4", "Mon 20, 10:00: 1 h") in titles
    assert ("l0", "Mon 20, 12:00: 0 min") in titles
    # 24 cells for each day, in each grid; the five days between were not reported.
    assert len(titles) == 2 * 7 * 24
    assert len([title for level, title in titles if level == "n"]) == 2 * 5 * 24
    assert ("n", "Tue 21, 09:00: no data reported") in titles


def test_a_day_links_to_its_page_and_stands_beside_the_one_a_week_before(visit: Visit) -> None:
    page = visit.open("/week/2025-W43?tz=Europe/Berlin")

    assert {f"/day/2025-10-{day}?tz=Europe%2FBerlin" for day in range(20, 27)} <= set(
        Page(page.text).links
    )
    back = [link for link in Page(page.text).links if "back=" in link]
    assert back
    assert {parse_qs(urlsplit(link).query)["back"][0] for link in back} == {
        "/week/2025-W43?tz=Europe%2FBerlin"
    }
    chart = page.text.partition('id="days"')[2].partition("</figure>")[0]
    assert chart.count('class="missing"') == 5
    # Only Friday has a mark of the week before.
    assert chart.count('class="usual"') == 2
    row = chart.partition("Fri 24</a>")[2].partition("</tr>")[0]
    assert text(row) == "no data no data no data no data no data 1 h"


def test_a_week_starts_on_the_day_of_the_profile(
    visit: Visit, owner: psycopg.Connection[None]
) -> None:
    owner.execute("update identity.user set week_starts_on = 7")

    page = visit.open("/week/2025-W43")

    assert "from=2025-10-19&amp;to=2025-10-25" in page.text
    assert "weeks from Sunday" in page.text


def test_a_week_without_a_report_says_so(visit: Visit) -> None:
    assert "No tracker reported anything in this week, so" in text(
        visit.open("/week/2025-W41").text
    )
    # Weeks in the years to come.
    assert "This week has not begun." in visit.open("/week/9998-W51").text

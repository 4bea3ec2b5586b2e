"""Month: the calendar of its days, and the sums beside the month before."""

import re

import psycopg
import pytest
from starlette.testclient import TestClient

from resourceserver.dashboard.signin.cookie import Cookies
from tests.conftest import Person
from tests.dashboard.conftest import Page, Visit
from tests.dashboard.test_week import DAY, HOUR, MONDAY, text
from tests.endpoints.histories import add_sessions
from tests.endpoints.timeline import Session


@pytest.fixture
def visit(
    api: TestClient, sealing: Cookies, owner: psycopg.Connection[None], alice: Person
) -> Visit:
    """Alice's browser, with sessions on three days of October 2025 and on one of September."""
    # 20 and 21 October, 1 October and 30 September.
    for day, length in ((0, 4 * HOUR), (1, HOUR), (-19, 2 * HOUR), (-20, 8 * HOUR)):
        start = MONDAY + day * DAY + 8 * HOUR
        session = Session(str(day), "laptop", "Code", start, start + length, category="Development")
        add_sessions(owner, alice, [session])
    return Visit(api, sealing, alice.token())


def test_each_day_has_its_square_in_the_week_in_which_it_lies(visit: Visit) -> None:
    page = visit.open("/month/2025-10").text

    table = page.partition('<table class="calendar">')[2].partition("</table>")[0]
    weeks = [text(row) for row in table.split("<tr>")[2:]]
    assert weeks[0] == "40 1 2:00 2 no data 3 no data 4 no data 5 no data"
    assert weeks[3].startswith("43 20 4:00 21 1:00 22 no data")
    assert len(weeks) == 5
    # A day with less tracked time has a thinner line, and one without a report is marked.
    assert re.findall(r'class="(l\d)"', table) == ["l2", "l4", "l1"]
    assert table.count('class="missing"') == 28
    assert table.count('class="none"') == 4
    assert {"/day/2025-10-20", "/week/2025-W43"} <= set(Page(page).links)


def test_the_sums_stand_beside_those_of_the_month_before(visit: Visit) -> None:
    words = text(visit.open("/month/2025-10").text)

    assert "7 h tracked, on 3 days with data; most on 20 Oct 2025 : 4 h" in words
    assert "Tracked 7 h less than in the month before: 8 h" in words
    assert "Coding 0 min as in the month before: 0 min" in words


def test_weeks_of_the_calendar_start_on_the_day_of_the_profile(
    visit: Visit, owner: psycopg.Connection[None]
) -> None:
    owner.execute("update identity.user set week_starts_on = 7")

    page = visit.open("/month/2025-10").text

    rows = page.partition('<table class="calendar">')[2].split("<tr>")
    assert text(rows[1].partition("</thead>")[0]) == "W Sun Mon Tue Wed Thu Fri Sat"
    assert text(rows[2]).startswith("40 1 2:00 2")
    assert rows[2].count('class="none"') == 3


def test_a_month_without_a_report_and_one_that_has_not_begun_say_so(visit: Visit) -> None:
    november = text(visit.open("/month/2025-11").text)

    assert "No tracker reported anything in this month, so nothing is known of it." in november
    assert "In the month before , 7 h was tracked." in november
    assert "This month has not begun." in visit.open("/month/9998-01").text

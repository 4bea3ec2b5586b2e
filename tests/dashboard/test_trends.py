"""Trends: the change of a level in words, and what an address may name."""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from resourceserver.dashboard.figures import Answer
from resourceserver.dashboard.metrics import METRICS
from resourceserver.dashboard.period import Misaddressed
from resourceserver.dashboard.signin.cookie import Cookies
from resourceserver.dashboard.view import Scene
from resourceserver.dashboard.views.trends import Series, asks, marks
from resourceserver.timeline import metrics
from tests.conftest import Person
from tests.dashboard.conftest import Page, Visit
from tests.endpoints.histories import add_sessions
from tests.endpoints.timeline import Session

HOUR = 3_600_000
DAY = 24 * HOUR
RANGE = "from=2025-06-16&to=2025-08-10"


@pytest.fixture
def visit(
    api: TestClient, sealing: Cookies, owner: psycopg.Connection[None], alice: Person
) -> Visit:
    """Alice's browser, with four weeks of two hours a day, and then four weeks of five hours."""
    add_sessions(
        owner,
        alice,
        [
            Session(
                f"{day}",
                "laptop",
                "Code",
                day * DAY + 9 * HOUR,
                # Days that are all alike have no noise, and so no change that is larger than it.
                day * DAY + 9 * HOUR + (2 if day < 28 else 5) * HOUR + day % 3 * 60_000,
                category="Development",
            )
            for day in range(56)
        ],
    )
    return Visit(api, sealing, alice.token())


def text(html: str) -> str:
    """Return the words of a page, with single spaces."""
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_a_change_is_dated_and_said_in_words(visit: Visit) -> None:
    page = visit.open(f"/trends?metric=productive_ms&by=day&{RANGE}").text

    assert ">14 Jul 2025</text>" in page
    words = text(page)
    assert "14 July 2025: more from then on, 5 h 1 min a day on average instead of 2 h 1 min" in (
        words
    )
    assert "( 28 days with data before it, since 16 June 2025, and 28 after it" in words
    assert "Productive: the median of 28 days rose from 2 h 1 min to 5 h 1 min" in words


def test_weeks_are_means_of_their_days_and_link_to_their_pages(visit: Visit) -> None:
    page = visit.open(f"/trends?by=week&{RANGE}&tz=UTC")

    assert "Tracked, mean of the days of a week" in page.text
    links = Page(page.text).links
    assert "/week/2025-W25?tz=UTC" in links
    assert len([link for link in links if link.startswith("/week/")]) == 2 * 8
    # The week of the first Monday: 14 h and 0 + 1 + 2 + 0 + 1 + 2 + 0 minutes.
    row = page.text.partition("16 Jun to 22 Jun 2025</a></bdi></th>")[2].partition("</tr>")[0]
    assert text(row) == "2 h 1 min 14 h 6 min 2 h 1 min 7"


def test_an_address_without_a_length_of_periods_has_one_that_suits_its_days(visit: Visit) -> None:
    def by(days: int) -> str:
        first = date(2025, 8, 10) - timedelta(days=days - 1)
        page = visit.open(f"/trends?from={first}&to=2025-08-10").text
        return "".join(re.findall(r'<option value="(day|week|month)" selected', page))

    assert [by(days) for days in (90, 365, 3 * 365, 3653)] == ["day", "week", "week", "month"]


def test_the_form_and_the_links_keep_what_was_chosen(visit: Visit) -> None:
    page = visit.open(f"/trends?metric=health:body_mass_kg&by=week&{RANGE}").text

    assert '<option value="health:body_mass_kg" selected>Body mass kg</option>' in page
    assert 'value="2025-06-16"' in page
    assert "/trends?metric=health%3Abody_mass_kg&amp;by=week&amp;from=2025-04-21" in page
    assert '<a href="/trends?metric=health%3Abody_mass_kg&amp;by=week">Up to today</a>' in page
    assert "There is no data about this metric in these days." in page


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("metric=happiness", "tracked_ms, productive_ms"),
        ("metric=health:Steps", "tracked_ms, productive_ms"),
        ("metric=tracked_ms%00", "tracked_ms, productive_ms"),
        ("by=year", "day, week, month"),
        ("from=yesterday", "must be a calendar day"),
    ],
)
def test_what_does_not_exist_is_a_page_that_lists_what_does(
    visit: Visit, query: str, says: str
) -> None:
    page = visit.open(f"/trends?{query}")

    assert page.status_code == 404
    assert says in page.text


def test_a_metric_that_may_not_be_read_cannot_be_chosen(
    api: TestClient, sealing: Cookies, alice: Person
) -> None:
    visit = Visit(api, sealing, alice.token("read:activity"))

    assert '<option value="asleep_ms" disabled>' in visit.open("/trends").text
    page = visit.open("/trends?metric=asleep_ms").text
    assert '<option value="asleep_ms" selected>' in page
    assert "<code>read:health</code>" in page
    assert "<figure" not in page


def test_every_metric_of_the_api_has_a_title() -> None:
    assert metrics.METRICS.keys() <= METRICS.keys()


def test_an_address_reads_any_metric_of_a_device() -> None:
    Series.parse({"path": "/trends", "metric": "health:steps"})
    with pytest.raises(Misaddressed):
        Series.parse({"path": "/trends", "metric": "health:"})


def test_a_day_that_is_not_over_is_left_out() -> None:
    def last(*, first: str, last: str) -> str:
        parts = {"path": "/trends", "from": first, "to": last}
        calendar = Calendar()
        scene = Scene(
            tz="Europe/Berlin",
            today=calendar.today,
            now=datetime(2025, 8, 10, 12, tzinfo=UTC),
            week_starts_on=1,
            scopes=frozenset({"read:activity"}),
            period=Series.parse(parts).period(calendar),
            parts=parts,
        )
        return asks(scene)["trend"].query["to"]

    assert last(first="2025-06-16", last="2025-08-09") == "2025-08-09"
    assert last(first="2025-06-16", last="2025-08-10") == "2025-08-09"
    assert last(first="2025-06-16", last="2026-01-01") == "2025-08-09"
    # A range needs a day.
    assert last(first="2025-08-11", last="2026-01-01") == "2025-08-11"


@dataclass(frozen=True)
class Calendar:
    today: date = date(2025, 8, 10)
    week_starts_on: int = 1


def trend(changes: list[str]) -> Answer:
    """Return a trend of 100 days from 1 January with changes."""
    days = [str(date(2025, 1, 1) + timedelta(days=n)) for n in range(100)]
    body: dict[str, Any] = {
        "data": [{"from": day, "to": day} for day in days],
        "change_points": [{"date": day} for day in changes],
    }
    return Answer("trend", "http://localhost/", body)


def test_marks_have_numbers_where_dates_have_no_room() -> None:
    assert [(mark.place, mark.label) for mark in marks(trend(["2025-01-21", "2025-02-15"]))] == [
        (20, "21 Jan 2025"),
        (45, "15 Feb 2025"),
    ]
    assert [(mark.place, mark.label) for mark in marks(trend(["2025-01-21", "2025-02-14"]))] == [
        (20, "1"),
        (44, "2"),
    ]

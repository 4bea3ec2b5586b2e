"""Year: a cell for each day that has been, and the sums of its months."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from resourceserver.dashboard.figures import Answer
from resourceserver.dashboard.metrics import find
from resourceserver.dashboard.period import Address
from resourceserver.dashboard.signin.cookie import Cookies
from resourceserver.dashboard.view import Scene
from resourceserver.dashboard.views.year import YearOfMetric, asks, days
from tests.conftest import Person
from tests.dashboard.conftest import Page, Visit
from tests.endpoints.histories import add_sessions
from tests.endpoints.timeline import Session

HOUR = 3_600_000


@dataclass(frozen=True)
class Calendar:
    today: date
    week_starts_on: int = 1


def scene_of(
    address: Address, today: str, parts: dict[str, str], week_starts_on: int = 1, tz: str = "UTC"
) -> Scene:
    """Return the scene of a page for a person without any scope."""
    calendar = Calendar(date.fromisoformat(today), week_starts_on)
    return Scene(
        tz=tz,
        today=calendar.today,
        now=datetime(2026, 11, 23, tzinfo=UTC),
        week_starts_on=week_starts_on,
        scopes=frozenset(),
        period=address.period(calendar),
        parts=parts,
    )


def scene(address: str, today: str, week_starts_on: int = 1) -> Scene:
    """Return the scene of an address such as ``2024 focus_ms``."""
    parts = dict(zip(("year", "metric"), address.split(), strict=False))
    return scene_of(YearOfMetric.parse(parts), today, parts, week_starts_on)


def trend(first: str, values: Sequence[float | None]) -> Answer:
    """Return the part of a trend's answer that a heat map is drawn from."""
    at = date.fromisoformat(first)
    rows = [{"from": f"{at + timedelta(n)}", "value": value} for n, value in enumerate(values)]
    body: dict[str, Any] = {"data": rows, "totals": {"total": 1}, "unit": "ms"}
    return Answer("focus_ms", "", json.loads(json.dumps(body)))


def test_a_leap_year_has_a_cell_for_each_day_from_its_first_weekday_on() -> None:
    drawn = days(scene("2024", "2026-11-23"), find("focus_ms"), trend("2024-01-01", [HOUR] * 366))
    from_sunday = days(
        scene("2024", "2026-11-23", 7), find("focus_ms"), trend("2024-01-01", [HOUR] * 366)
    )

    cells = {each.cell.href: (each.column, each.row) for each in drawn.drawing.placed}
    shifted = {each.cell.href: (each.column, each.row) for each in from_sunday.drawing.placed}
    # The first of January 2024 was a Monday.
    assert len(cells) == 366
    assert (cells["/day/2024-01-01"], shifted["/day/2024-01-01"]) == ((0, 0), (0, 1))
    assert (cells["/day/2024-02-29"], shifted["/day/2024-02-29"]) == ((8, 3), (8, 4))
    assert (cells["/day/2024-12-31"], shifted["/day/2024-12-31"]) == ((52, 1), (52, 2))


def test_today_is_not_a_day_with_least() -> None:
    drawn = days(scene("2026", "2026-01-02"), find("focus_ms"), trend("2026-01-01", [HOUR, 1000]))

    assert drawn.lowest == ["/data/0"]


def test_the_days_that_stand_out_are_known_ones() -> None:
    values = [3 * HOUR, None, 0, HOUR, 3 * HOUR, 2 * HOUR]
    drawn = days(scene("2025", "2025-01-07"), find("focus_ms"), trend("2025-01-01", values))

    # Of two equal days the earlier one comes first. A day without any focus is not the one with least.
    assert drawn.highest == ["/data/0", "/data/4", "/data/5", "/data/3", "/data/2"]
    assert drawn.lowest == ["/data/3", "/data/5", "/data/4", "/data/0"]
    levels = {each.cell.title: each.level for each in drawn.drawing.placed}
    assert levels["Thu 2 Jan: no data"] is None
    assert levels["Fri 3 Jan: 0 min"] == 0
    assert levels["Sun 5 Jan: 3 h"] == 4


def test_a_running_year_ends_today_and_one_of_the_future_asks_nothing() -> None:
    running = asks(scene("2026 focus_ms", "2026-03-01"))
    assert {name: (ask.query["to"], ask.query["by"]) for name, ask in running.items()} == {
        "focus_ms": ("2026-03-01", "day"),
        "months": ("2026-03-01", "month"),
    }
    assert asks(scene("2027", "2026-03-01")) == {}


@pytest.mark.parametrize(
    ("address", "previous"),
    [("2024", "/year/2023"), ("2024 health:steps", "/year/2023?metric=health%3Asteps")],
)
def test_the_year_before_has_the_same_metric(address: str, previous: str) -> None:
    assert scene(address, "2026-03-01").period.previous == previous


@pytest.fixture
def visit(alice: Person, api: TestClient, sealing: Cookies) -> Visit:
    """Alice's browser, with a token for everything."""
    return Visit(api, sealing, alice.token())


def test_a_year_of_a_metric_shows_days_months_and_their_sums(
    visit: Visit, alice: Person, owner: psycopg.Connection[Any]
) -> None:
    # From Monday, 16 June 2025: two hours on this day, and one hour two weeks and a day later.
    add_sessions(
        owner,
        alice,
        [
            Session("a", "laptop", "Code", HOUR, 3 * HOUR),
            Session("b", "laptop", "Code", 361 * HOUR, 362 * HOUR),
        ],
    )
    page = visit.open("/year/2025?metric=tracked_ms").text

    figures = {source: value for value, source in Page(page).figures}
    assert figures["tracked_ms#/totals/total"] == f"{3 * HOUR}"
    assert figures["months#/data/5/total"] == f"{2 * HOUR}"
    assert figures["months#/data/6/total"] == f"{HOUR}"
    assert "Most in June" in page
    # The first column begins on Monday, 30 December. All but two days are unknown.
    assert re.search(
        r'<a class="l4" href="/day/2025-06-16" tabindex="-1"><title>Mon 16 Jun: 2 h</title>'
        r'<path d="M24 0h.9"/>',
        page,
    )
    assert page.count('<a class="n" href="/day/2025-') == 363
    assert "/year/2024?metric=tracked_ms" in Page(page).links


def test_an_unknown_metric_and_years_without_data_have_pages(visit: Visit) -> None:
    wrong = visit.open("/year/2025?metric=happiness")
    assert wrong.status_code == 404
    assert "focus_ms or health:steps" in wrong.text
    assert "Nothing was reported in 1950" in visit.open("/year/1950").text
    assert "This year has not begun" in visit.open("/year/2999").text
    assert visit.open("/year/2025?metric=health:blood_glucose").status_code == 200


def test_a_review_has_what_there_is_and_leaves_out_the_rest(
    visit: Visit, alice: Person, owner: psycopg.Connection[Any]
) -> None:
    add_sessions(
        owner,
        alice,
        [
            Session("a", "laptop", "Code", HOUR, 3 * HOUR, category="Development"),
            Session("b", "laptop", "Chess", 361 * HOUR, 364 * HOUR, category="Games"),
        ],
    )
    page = visit.open("/year/2025/review").text

    figures = {source: value for value, source in Page(page).figures}
    assert figures["tracked#/totals/total"] == f"{5 * HOUR}"
    # Day 182 of the year, 1 July, counted from 0; and the month of it.
    assert figures["tracked#/data/181/value"] == f"{3 * HOUR}"
    assert figures["months#/data/6/total"] == f"{3 * HOUR}"
    assert figures["longest#/data/166/value"] == f"{2 * HOUR}"
    titles = re.findall(r"<li><h2>([^<]*)</h2>", page)
    assert titles == ["Tracked", "Best day", "Best month", "Focus", "Longest streak"]
    assert re.findall(r"<section>\s*<h2>([^<]*)</h2>", page) == ["Applications", "Categories"]
    assert "/year/2025" in Page(page).links


def test_a_review_without_data_says_so(visit: Visit) -> None:
    assert "Nothing was reported in 2025" in visit.open("/year/2025/review").text
    assert "This year has not begun" in visit.open("/year/2999/review").text

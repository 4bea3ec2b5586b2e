"""Focus: its figures by hand, and ranges that its endpoints would refuse."""

import re
from datetime import date, timedelta
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from resourceserver.dashboard.signin.cookie import Cookies
from resourceserver.dashboard.view import Ask
from resourceserver.dashboard.views.focus import Weeks, asks, read_period
from tests.conftest import Person
from tests.dashboard.conftest import Page, Visit
from tests.dashboard.test_year import scene_of
from tests.endpoints.test_focus_breaks import MINUTE, track

RANGE = "?from=2025-06-10&to=2025-06-20"


@pytest.fixture
def visit(alice: Person, api: TestClient, sealing: Cookies) -> Visit:
    """Alice's browser, with a token for everything."""
    return Visit(api, sealing, alice.token())


def test_streaks_breaks_switches_and_costs_by_hand(
    visit: Visit, alice: Person, owner: psycopg.Connection[Any]
) -> None:
    track(
        owner,
        alice,
        ("Code", "Development", 0, 20),
        ("Web", "Games", 20, 22),
        ("Code", "Development", 22, 47),
        ("Web", "Social", 47, 51),
        ("Code", "Development", 51, 61),
        # A pause, and then a streak until the end of the data.
        ("Code", "Development", 71, 86),
    )

    page = visit.open(f"/focus{RANGE}").text

    figures = {source: value for value, source in Page(page).figures}
    assert figures["breaks#/totals/focus_ms"] == f"{70 * MINUTE}"
    assert figures["breaks#/longest/duration_ms"] == f"{25 * MINUTE}"
    assert figures["breaks#/broken_count"] == "3"
    assert figures["costs#/totals/median_ms"] == f"{3 * MINUTE}"
    assert figures["switches#/pairs/0/count"] == "2"
    assert figures["switches#/totals/switch_count"] == "4"
    # The switches themselves, of which there may be thousands, are not read.
    assert visit.ask(Page(page).sources["switches"]).json()["data"] == []
    assert "Most focus on" in page
    assert [
        int(value) // MINUTE
        for source, value in figures.items()
        if source.startswith("breaks#/longest_streaks/") and source.endswith("/duration_ms")
    ] == [25, 20, 15, 10]
    # One application of two categories has a bar for each.
    assert ">Web, Games<" in page
    assert ">Web, Social<" in page
    assert ">A pause<" in page
    # Six days before the data and four after it were not reported.
    assert page.count('class="missing" x=') == 10


def test_long_names_are_shortened(
    visit: Visit, alice: Person, owner: psycopg.Connection[Any]
) -> None:
    long = "W" * 255
    track(
        owner,
        alice,
        (long, "Development", 0, 20),
        ("Web", "Games", 20, 22),
        (long, "Development", 22, 47),
    )

    page = visit.open(f"/focus{RANGE}").text

    text = re.sub(r"<title>.*?</title>|<[^>]+>", "", page)
    assert "W" * 39 + "…" in text
    assert "W" * 40 not in text


@pytest.mark.parametrize(
    ("first", "last", "read"),
    [
        ("2025-11-01", "2025-11-30", ("2025-11-01", "2025-11-30")),
        # The last year of a longer range; nothing of the future.
        ("2020-01-01", "2025-11-30", ("2024-12-01", "2025-11-30")),
        ("2026-01-01", "2027-11-30", ("2026-01-01", "2026-11-21")),
        ("2020-01-01", "2027-11-30", ("2025-11-22", "2026-11-21")),
    ],
)
def test_a_range_is_cut_to_the_last_year(first: str, last: str, read: tuple[str, str]) -> None:
    parts = {"path": "/focus", "from": first, "to": last}
    here = scene_of(Weeks.parse(parts), "2026-11-21", parts, tz="Europe/Berlin")

    period = read_period(here)
    assert (str(period.first), str(period.last)) == read
    for ask in asks(here).values():
        # The endpoint would refuse a longer range than it takes.
        assert Ask(ask.endpoint, ask.query).values


def test_the_last_four_weeks_are_the_usual_range() -> None:
    here = scene_of(Weeks.parse({"path": "/focus"}), "2026-11-21", {"path": "/focus"})
    assert here.period.days[0] == date(2026, 11, 21) - timedelta(days=27)


def test_a_long_range_says_what_it_leaves_out_and_the_future_is_empty(visit: Visit) -> None:
    page = visit.open("/focus?from=2020-01-01&to=2025-06-20").text
    assert "Friday, 21 June 2024 to Friday, 20 June 2025" in page
    # Nobody reported anything, which is not the same as no focus.
    assert "Nothing was reported in this time" in page
    assert Page(page).figures == []
    assert "This time has not begun" in visit.open("/focus?from=2998-01-01&to=2998-02-01").text

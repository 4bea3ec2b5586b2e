"""What goes with what: the sentence for each answer, and what an address may name."""

import re
from typing import Any, Final

import psycopg
import pytest
from starlette.testclient import TestClient

from resourceserver.dashboard.signin.cookie import Cookies
from tests.conftest import Person
from tests.dashboard.conftest import Page, Visit
from tests.endpoints.test_correlation import measure

Rows = psycopg.Connection[Any]

# Two weeks from a Sunday on, the second one with opposite signs: so 0 is the mean of each weekday.
UP: Final = (1, 1, -1, -1, 1, 1, -1, -1, -1, 1, 1, -1, -1, 1)
TURNS: Final = (1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1)


@pytest.fixture
def visit(alice: Person, api: TestClient, sealing: Cookies) -> Visit:
    """Alice's browser, with a token for everything."""
    return Visit(api, sealing, alice.token())


def words(html: str) -> str:
    """Return the text of a page, with single spaces and none before a comma."""
    text = " ".join(re.sub(r"<title>.*?</title>|<[^>]+>", " ", html).split())
    return re.sub(" ([,.;])", r"\1", text).replace("\N{MINUS SIGN}", "-")


@pytest.mark.parametrize(
    ("signs", "sentence", "numbers"),
    [
        (
            UP,
            "Days with higher mood than is usual for their weekday had higher tea",
            "A very strong correlation of 1.00; anything between 1.00 and 1.00 agrees",
        ),
        (
            tuple(-sign for sign in UP),
            "Days with higher mood than is usual for their weekday had lower tea",
            "A very strong correlation of -1.00; anything between -1.00 and -1.00 agrees",
        ),
        # A coefficient of -1/7 from 14 - 6 independent days: tanh(atanh(-1/7) ± 1.96/√5).
        (
            TURNS,
            "Not sure: 14 days do not say whether mood and tea go together",
            "The correlation of these days is -0.14, but anything between -0.77 and 0.62 agrees with"
            " them, also none. 14 days, which count as 8 independent ones.",
        ),
        (
            (0,) * 14,
            "Not sure: one of mood and tea was the same on all 14 days, as far as",
            "Each day is compared",
        ),
    ],
)
def test_the_sentence_follows_from_the_interval(
    signs: tuple[int, ...],
    sentence: str,
    numbers: str,
    visit: Visit,
    alice: Person,
    owner: Rows,
) -> None:
    # Sundays and Saturdays are 100 above the other days, which must not count.
    weekend = [100 if n % 7 in (0, 6) else 0 for n in range(14)]
    measure(owner, alice, "mood", [5 + up + rest for up, rest in zip(UP, weekend, strict=True)])
    measure(owner, alice, "tea", [3 + sign + 2 * n for sign, n in zip(signs, weekend, strict=True)])

    html = visit.open("/together?a=health:mood&b=health:tea&from=2025-06-01&to=2025-06-14").text

    text = words(html)
    assert sentence in text
    assert numbers in text
    assert html.count('<circle class="point"') == 14
    # The first day: 5 + 1 + 100 and its sign, at the right end of an axis from 0 to 150.
    assert "Sun 1 Jun: 106" in html
    assert 'cx="70.7%"' in html


def test_too_few_days_are_not_compared(visit: Visit, alice: Person, owner: Rows) -> None:
    measure(owner, alice, "mood", [1, 2])
    measure(owner, alice, "tea", [1, 2])

    page = visit.open("/together?a=health:mood&b=health:tea&from=2025-06-01&to=2025-06-14").text

    assert "Not sure: 2 days with both mood and tea are too few to compare" in words(page)
    assert "correlation of" not in words(page).partition("Each day")[0]


def test_a_single_day_is_counted_and_listed_and_not_drawn(
    visit: Visit, alice: Person, owner: Rows
) -> None:
    measure(owner, alice, "mood", [1])
    measure(owner, alice, "tea", [1])

    page = visit.open("/together?a=health:mood&b=health:tea&from=2025-06-01&to=2025-06-14").text

    assert "Not sure: 1 day with both mood and tea is too little to compare" in words(page)
    assert "<circle" not in page
    assert 'aria-labelledby="pair1-caption"' in page
    assert {source.partition("#")[2] for _, source in Page(page).figures} >= {
        "/points/0/a",
        "/points/0/b",
    }


def test_an_address_names_two_metrics_that_exist(visit: Visit) -> None:
    unknown = visit.open("/together?a=happiness&b=focus_ms")
    assert unknown.status_code == 404
    assert "“a” of the address must be one of tracked_ms, " in unknown.text
    assert visit.open("/together?a=focus_ms").status_code == 404
    assert visit.open("/together?from=2024-01-01&to=2025-12-31").status_code == 404

    same = visit.open("/together?a=focus_ms&b=focus_ms")
    assert same.status_code == 200
    assert "the same metric twice" in same.text
    assert Page(same.text).sources == {}


def test_a_grant_for_no_first_question_has_a_page_without_numbers(
    alice: Person, api: TestClient, sealing: Cookies
) -> None:
    # Each pair of the overview needs another scope; what follows them, which needs these alone, is asked.
    few = Visit(api, sealing, alice.token("read:activity", "read:music"))

    assert few.open("/together").status_code == 200


def test_a_choice_stays_in_the_form_and_in_the_links(visit: Visit) -> None:
    html = visit.open("/together?a=asleep_ms&b=commits&from=2025-06-11&to=2025-06-20").text

    assert re.findall(r'<option value="(\w+)" selected>', html) == ["asleep_ms", "commits"]
    assert "/together?a=asleep_ms&b=commits&from=2025-06-01&to=2025-06-10" in Page(html).links
    assert "metric_a=asleep_ms&metric_b=commits" in Page(html).sources["pair1"]
    assert "adjust=weekday" in Page(html).sources["pair1"]


def test_pairs_without_data_make_way_for_others(
    visit: Visit, alice: Person, api: TestClient, sealing: Cookies
) -> None:
    html = visit.open("/together").text
    assert "There is nothing to compare yet." in words(html)
    assert "metric_a=health%3Asteps" in Page(html).sources["pair4"]

    other = Visit(api, sealing, alice.token("read:activity", "read:content")).open("/together").text
    assert list(Page(other).sources) == ["pair2"]
    assert re.findall(r'<option value="(\w+)" selected>', other) == ["meeting_ms", "focus_ms"]
    assert "<code>read:health</code>, <code>read:music</code>" in " ".join(other.split())

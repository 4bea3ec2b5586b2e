"""Sleep and body: where nights lie on their axis, usual times in words, and values in their band."""

import re
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from resourceserver.dashboard.signin.cookie import Cookies
from tests.conftest import Person
from tests.dashboard.conftest import Page, Visit
from tests.endpoints.test_correlation import measure
from tests.endpoints.test_recovery import WHOOP, sleep

Rows = psycopg.Connection[Any]


@pytest.fixture
def visit(alice: Person, api: TestClient, sealing: Cookies) -> Visit:
    """Alice's browser, with a token for everything."""
    return Visit(api, sealing, alice.token())


def words(html: str) -> str:
    """Return the text of a page, with single spaces and no space before a comma."""
    text = " ".join(re.sub(r"<title>.*?</title>|<[^>]+>", " ", html).split())
    return text.replace(" ,", ",").replace("\N{NO-BREAK SPACE}", " ")


def bars(html: str) -> list[tuple[str, str, str, str]]:
    """Return address, title, place and width in percent of each night that was recorded."""
    return re.findall(
        r'<a href="(/day/[\d-]+)"><title>([^<]*)</title>'
        r'<rect class="c\d" x="([\d.]+)%" y="[\d.]+" width="([\d.]+)%"',
        html,
    )


def test_nights_lie_where_the_clock_beside_the_bed_says(
    visit: Visit, alice: Person, owner: Rows
) -> None:
    # Each sleep lasts eight hours: from 23:00 to Monday, and from 01:00 on Saturday.
    sleep(owner, alice, WHOOP, "2025-06-16T05:00Z", offset="+02:00", asleep_ms=27_000_000)
    sleep(owner, alice, WHOOP, "2025-06-17T13:00Z", is_nap=True, asleep_ms=1_200_000)
    sleep(owner, alice, WHOOP, "2025-06-21T07:00Z", offset="+02:00", asleep_ms=25_200_000)

    page = visit.open("/body?from=2025-06-15&to=2025-06-21").text

    # The axis has the 18 hours from 18:00 to 12:00; the newest night is the first one.
    assert bars(page) == [
        ("/day/2025-06-21", "Sat 21 Jun: 01:00 to 09:00, asleep for 7 h", "38.9", "44.4"),
        ("/day/2025-06-16", "Mon 16 Jun: 23:00 to 07:00, asleep for 7 h 30 min", "27.8", "44.4"),
    ]
    assert page.count('<rect class="missing" x="0%"') == 5
    text = words(page)
    assert "Asleep at 00:00 on a usual night, up at 08:00" in text
    assert "Asleep, on average 7 h 15 min usually 8 h from" in text
    assert "Regularity not known yet it takes two nights in a row" in text
    assert "2 h apart The middle of sleep is at 03:00 before work days and at 05:00" in text
    assert "Tue 17 Jun no data no data no data 20 min no data" in text


@pytest.mark.parametrize(
    ("end", "offset", "place", "width"),
    [
        # A sleep from 09:00 to 17:00 needs an axis of 24 hours, from 18:00 to 18:00.
        ("2025-06-16T17:00Z", "+00:00", "62.5", "33.3"),
        # Clocks went back at 03:00. The offset at the end counts for the whole night: from 22:00.
        ("2025-10-26T05:00Z", "+01:00", "22.2", "44.4"),
    ],
)
def test_the_axis_is_as_long_as_a_single_night_needs(
    end: str, offset: str, place: str, width: str, visit: Visit, alice: Person, owner: Rows
) -> None:
    sleep(owner, alice, WHOOP, end, offset=offset)

    page = visit.open(f"/body?from={end[:10]}&to={end[:10]}").text

    assert [bar[2:] for bar in bars(page)] == [(place, width)]
    assert "on the only night of these days" in words(page)
    assert "usual bedtime" not in page


def test_a_value_is_compared_with_the_band_of_the_days_before(
    visit: Visit, alice: Person, owner: Rows
) -> None:
    for day, value in enumerate([40, 41, 42, 43, 44, 45, 46, 60], start=1):
        night = sleep(owner, alice, WHOOP, f"2025-06-0{day}T06:00Z")
        owner.execute(
            "insert into health.recovery values (%s, %s, 'scored', null, null, %s, null, null)",
            [alice.user_id, night, value],
        )
    measure(owner, alice, "weight_kg", [72, 73])
    owner.execute("update health.metric set unit = 'kg'")

    html = visit.open("/body?from=2025-06-01&to=2025-06-09").text
    text = words(html)

    # Quartiles of 40 to 46.
    assert "60 ms on Sun 8 Jun, above your band of 41.5 to 44.5 ms" in text
    assert "Sun 8 Jun: 60 ms, above your band" in html
    assert "Resting heart rate" not in text
    assert "Regularity 100 of 100 asleep or awake as 24 hours before for 168 h of 168 h" in text
    assert "Weight 72 to 73 kg on 2 days 72.5 kg on average" in text


def test_no_data_and_no_scope_are_said_in_words(
    visit: Visit, alice: Person, api: TestClient, sealing: Cookies
) -> None:
    assert "No night was recorded in these days." in words(visit.open("/body").text)

    other = Visit(api, sealing, alice.token("read:activity")).open("/body").text
    assert "<code>read:health</code>" in other
    assert Page(other).figures == []
    assert "<h2>" not in other


def test_longer_ranges_are_refused_with_the_longest_one(visit: Visit) -> None:
    page = visit.open("/body?from=2025-01-01&to=2025-12-31")

    assert page.status_code == 404
    assert "A range has at most 92 days." in page.text
    assert visit.open("/body?from=9998-12-31&to=9998-12-31").status_code == 200
    assert visit.open("/body?from=1900-01-01&to=1900-01-02").status_code == 200
    assert visit.open("/body?to=1900-01-01&tz=Asia/Tokyo").status_code == 200

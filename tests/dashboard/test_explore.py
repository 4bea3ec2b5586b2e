"""Explore: what each domain has besides its figures."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from resourceserver.dashboard.signin.cookie import Cookies
from resourceserver.dashboard.views.explore import LISTS, area, areas
from shared.settings import Settings
from tests.conftest import Person
from tests.dashboard.conftest import LAST, Page, Visit
from tests.dashboard.crowd import crowd

OCTOBER = f"from=2026-10-01&to={LAST}"


@pytest.fixture
def visit(ada: Person, resource_client: TestClient, sealing: Cookies) -> Visit:
    return Visit(resource_client, sealing, ada.token())


@pytest.mark.parametrize("domain", ["code", "music", "places", "content"])
def test_a_domain_has_a_year_a_chart_and_a_list(domain: str, visit: Visit) -> None:
    page = visit.open(f"/explore/{domain}?{OCTOBER}")

    assert page.text.count("<figure") == 2
    assert 'id="year"' in page.text
    assert 'id="list"' in page.text
    # The year ends with the range.
    assert "from=2025-10-26&to=2026-10-25" in Page(page.text).sources["year"]
    assert "/day/2026-10-24" in Page(page.text).links


def test_the_first_page_lists_the_domains(visit: Visit) -> None:
    links = Page(visit.open("/explore").text).links

    for domain in ("code", "music", "places", "content"):
        assert f"/explore/{domain}" in links


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("/explore/sports", "code, music, places, content"),
        ("/explore/code?cursor=x", "next_cursor"),
        ("/explore/content?list=films", "calendar, recordings, insights"),
        ("/explore/places?area=91,0", "52.37,4.90"),
        ("/explore/places?area=1e9,0", "52.37,4.90"),
        ("/explore/music?from=2026-10-02&to=2026-10-01", "ends before it begins"),
    ],
)
def test_a_wrong_address_says_what_is_expected(address: str, words: str, visit: Visit) -> None:
    page = visit.open(address)

    assert page.status_code == 404
    assert words in page.text


def test_all_pages_of_a_list_are_read_by_links(visit: Visit) -> None:
    address, seen = f"/explore/music?{OCTOBER}", []
    for _ in range(60):
        page = visit.open(address)
        assert page.status_code == 200
        read = Page(page.text)
        seen += [value for value, source in read.figures if source.endswith("/listened_at")]
        following = [link for link in read.links if "cursor=" in link]
        if not following:
            break
        (address,) = following
        # The range stays, also when another day begins meanwhile.
        assert OCTOBER in address

    total = visit.ask(
        "/api/v1/music/daily?from=2026-09-30T22:00:00Z&to=2026-10-25T23:00:00Z&tz=Europe/Berlin"
    ).json()["totals"]["play_count"]
    assert len(seen) == total > 60
    assert seen == sorted(set(seen), reverse=True)


def test_a_zone_and_a_list_stay_in_links(visit: Visit) -> None:
    page = Page(visit.open(f"/explore/content?{OCTOBER}&list=recordings&tz=Asia/Tokyo").text)

    earlier = [link for link in page.links if "to=2026-09-30" in link]
    assert len(earlier) == 1
    assert "list=recordings" in earlier[0]
    assert "tz=Asia%2FTokyo" in earlier[0]
    assert "/api/v1/recordings" in page.sources["list"]


def test_the_map_has_a_circle_for_each_place_and_no_address_of_anybody(visit: Visit) -> None:
    page = visit.open(f"/explore/places?{OCTOBER}")
    figure = page.text[page.text.index('id="map"') :].split("</figure>", 1)[0]

    circles = re.findall(r'<circle class="(?:stay|ring)" cx="[\d.]+%"', figure)
    assert len(circles) == figure.count('<th scope="row">') > 3
    assert "http" not in figure
    assert re.findall(r'(?:src|srcset)="(?!/static/)', page.text) == []


def test_a_part_of_the_map_is_that_around_its_middle() -> None:
    def row(
        name: str, city: str | None, latitude: float | None, longitude: float
    ) -> dict[str, object]:
        return {"place": {"name": name, "city": city, "latitude": latitude, "longitude": longitude}}

    rows = [
        row("Office", "Amsterdam", 52.3688, 4.9116),
        row("Café", "Haarlem", 52.38, 4.64),
        row("Ferry", None, 38.7, -9.14),
        row("Somewhere", None, None, 0),
    ]

    assert areas(rows) == [("Amsterdam", (52.37, 4.91)), ("Ferry", (38.7, -9.14))]
    assert area({"area": "52.37,4.91"}) == (52.37, 4.91)
    assert area({"area": "52.37"}) is None


def test_an_empty_account_has_words_in_the_place_of_charts(
    ada: Person, nobody: Person, resource_client: TestClient, sealing: Cookies
) -> None:
    visit = Visit(resource_client, sealing, nobody.token())

    assert "Nothing was played" in visit.open("/explore/music").text
    assert "No visit and no check-in" in visit.open("/explore/places").text
    assert "Nothing was reported from a code host" in visit.open("/explore/code").text
    assert "Nothing was watched yet" in visit.open("/explore/content").text
    # Zeros would be wrong: nobody has looked.
    assert visit.open("/explore").text.count("nothing reported") == 4


def test_titles_and_names_of_a_thousand_letters_are_shortened(
    api: TestClient,
    sealing: Cookies,
    alice: Person,
    owner: psycopg.Connection[Any],
    deployment: Settings,
) -> None:
    day = datetime(2025, 6, 16, tzinfo=UTC)
    crowd(owner, deployment, alice.user_id, day, day + timedelta(hours=12), sessions=10)
    visit = Visit(api, sealing, alice.token())
    lists = ("code", "music", "places", *(f"content?list={name}" for name in LISTS))
    found = {}

    for each in lists:
        mark = "&" if "?" in each else "?"
        page = visit.open(f"/explore/{each}{mark}from=2025-06-10&to=2025-06-20").text
        text = re.sub(r"<title>.*?</title>|<[^>]+>", "\n", page)
        found[each] = ("W" * 38 in text, re.findall(r"(.{1,4}?)\1{200,}", text))

    assert found == dict.fromkeys(lists, (True, []))

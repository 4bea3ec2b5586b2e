"""The heart rate of a day, and of parts of it from nearer."""

from datetime import timedelta

import psycopg
import pytest
from starlette.testclient import TestClient

from resourceserver.dashboard.signin.cookie import Cookies
from resourceserver.dashboard.views.heart import LENGTHS
from tests.conftest import Person
from tests.dashboard.conftest import Page, Visit
from tests.dashboard.test_body import words

DAY = "/body?date=2025-06-16&tz=Europe/Berlin"
PART = f"{DAY}&from=2025-06-16T08:00:00Z&to=2025-06-16T08:30:00Z"


@pytest.fixture
def visit(
    api: TestClient, sealing: Cookies, owner: psycopg.Connection[None], alice: Person
) -> Visit:
    """Alice's browser, with a reading each minute from 10:00 to 11:00 in Berlin: 60 bpm, 61, and so on."""
    owner.execute(
        """
        insert into health.heart_rate (user_id, recorded_at, bpm)
        select %s, timestamptz '2025-06-16T08:00:00Z' + n * interval '1 minute', 60 + n
          from generate_series(0, 59) as n
        """,
        [alice.user_id],
    )
    return Visit(api, sealing, alice.token())


def test_the_nearer_the_shorter_are_the_steps(visit: Visit) -> None:
    far, near = (visit.open(address).text for address in (DAY, PART))

    assert "From 60 to 119 bpm, 89.5 bpm on average" in words(far)
    assert "average of 10 minutes" in far
    assert "From 60 to 89 bpm at 10:00 to 10:30, 74.5 bpm on average" in words(near)
    assert "average of a minute" in near
    assert "10:29:00 1 89 89 89" in words(near)


def test_each_figure_of_a_part_is_the_one_of_the_api(visit: Visit) -> None:
    page = Page(visit.open(PART).text)

    answers = {name: visit.ask(url).json() for name, url in page.sources.items()}
    assert sorted(answers) == ["heart", "near"]
    rows = [(value, source) for value, source in page.figures if source.startswith("near#/data/")]
    assert len(rows) == 30 * 5
    for value, source in rows:
        _, _, _, number, member = source.partition("#")[2].replace("/", "/ /", 1).split("/")
        assert value == str(answers["near"]["data"][int(number)][member])


def test_links_lead_nearer_beside_and_back(visit: Visit) -> None:
    day, part = (Page(visit.open(address).text) for address in (DAY, PART))

    of_day = [link for link in day.links if "&from=" in link]
    assert len(of_day) == timedelta(days=1) / LENGTHS[0]
    around = [link for link in part.links if "&from=" in link]
    # Before, after, and the two hours that contain it.
    assert [link.partition("&from=")[2].partition("&tz")[0] for link in around] == [
        "2025-06-16T07%3A30%3A00Z&to=2025-06-16T08%3A00%3A00Z",
        "2025-06-16T08%3A30%3A00Z&to=2025-06-16T09%3A00%3A00Z",
        "2025-06-16T08%3A00%3A00Z&to=2025-06-16T10%3A00%3A00Z",
    ]
    assert "/body?date=2025-06-16&tz=Europe%2FBerlin" in part.links
    for link in {*of_day, *around}:
        assert visit.open(link).status_code == 200


def test_a_time_without_readings_and_a_wrong_one_say_so(visit: Visit) -> None:
    early = f"{DAY}&from=2025-06-16T01:00:00Z&to=2025-06-16T02:00:00Z"
    assert "No heart rate was reported at 03:00 to 04:00." in words(visit.open(early).text)
    for wrong in (
        "/body?date=2025-06-31",
        f"{DAY}&from=2025-06-16T01:00:00Z",
        f"{DAY}&from=x&to=y",
    ):
        assert visit.open(wrong).status_code == 404

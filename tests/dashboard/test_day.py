"""The view Day: positions on its axis, its first and last activity, and the sessions behind a stretch."""

import gzip
import html
import re
from typing import Any, Final

import psycopg
import pytest
from starlette.testclient import TestClient

from deploy.demo import command
from resourceserver.dashboard.signin.cookie import Cookies
from tests.conftest import MakeRollups, Person, mark_all_days
from tests.dashboard.conftest import Page, Visit
from tests.endpoints.histories import add_coding, add_sessions
from tests.endpoints.timeline import CodingSession, Session

HOUR: Final = 3_600_000
MOST_BYTES: Final = 60_000

Owner = psycopg.Connection[Any]


@pytest.fixture
def visit(api: TestClient, alice: Person, sealing: Cookies) -> Visit:
    """Alice's browser, with a token for everything; her zone is UTC."""
    return Visit(api, sealing, alice.token())


def used(app: str, start: float, end: float, category: str = "Development") -> Session:
    """Return a session on 2025-06-16, from hours to hours."""
    return Session(
        f"{app} {start}",
        "laptop",
        app,
        round(start * HOUR),
        round(end * HOUR),
        category=category,
    )


def test_a_stretch_is_at_its_place_and_leads_to_its_sessions(
    visit: Visit, owner: Owner, alice: Person
) -> None:
    add_sessions(owner, alice, [used("Code", 6, 9), used("Chess", 9, 9.5, "Games")])
    add_coding(
        owner, alice, [CodingSession("1", "laptop", "svc", None, None, 18 * HOUR, 24 * HOUR)]
    )

    page = visit.open("/day/2025-06-16").text

    link = "/day/2025-06-16?from=2025-06-16T06:00:00.000Z&to=2025-06-16T09:00:00.000Z#sessions"
    # A quarter of the day, and an eighth of it long.
    assert (
        f'<a href="{html.escape(link)}"><title>06:00 to 09:00: Development, Code</title>'
        '<rect class="c1" x="25%" y="20" width="12.5%"' in page
    )
    assert '<title>09:00 to 09:30: Games, Chess</title><rect class="c3" x="37.5%"' in page
    assert "<title>18:00 to 24:00: svc</title>" not in page
    assert '<title>18:00 to 00:00: svc</title><rect class="c6" x="75%"' in page
    # Nobody reported anything between the games and the code.
    assert re.search(r'<rect class="missing" x="39\.6%" y="20" width="35\.4%"', page)
    assert link in Page(page).links

    part = visit.open(link.removesuffix("#sessions")).text

    assert "<h2>06:00 to 09:00</h2>" in part
    figures = {source: value for value, source in Page(part).figures}
    assert figures["by_app#/totals/tracked_ms"] == str(3 * HOUR)
    assert figures["sessions#/data/0/duration_ms"] == str(3 * HOUR)
    assert "sessions#/data/1/duration_ms" not in figures
    category = "/settings/categories?app=Code&back=%2Fday%2F2025-06-16"
    assert any(each.endswith(category) for each in Page(part).links)


@pytest.mark.parametrize(
    ("end", "stands_out"), [(9, False), (10, False), (11, True)], ids=["only", "tie", "most"]
)
def test_an_application_has_more_than_any_other_only_if_it_has(
    visit: Visit, owner: Owner, alice: Person, end: int, stands_out: bool
) -> None:
    chess = [used("Chess", 12, 12 + end - 9, "Games")] if end > 9 else []
    add_sessions(owner, alice, [used("Code", 9, 10), *chess])

    page = visit.open("/day/2025-06-16").text

    assert ("more than with any other" in page) is stands_out


def tile(page: str, title: str) -> str:
    """Return the words of a tile."""
    match = re.search(rf"<h2>{title}</h2>(.*?)</li>", page, re.DOTALL)
    assert match is not None
    return " ".join(html.unescape(re.sub("<[^>]+>", " ", match[1])).split())


@pytest.mark.parametrize("weeks", [3, 4])
def test_what_is_usual_takes_four_days_also_for_a_day_without_data(
    visit: Visit, owner: Owner, alice: Person, weeks: int
) -> None:
    for week in range(1, weeks + 1):
        at = -24 * 7 * week
        add_sessions(owner, alice, [used("Code", at + 9, at + 12)])

    page = visit.open("/day/2025-06-16").text

    assert tile(page, "Tracked") == ("no data usually 3 h" if weeks == 4 else "no data")
    once = "What is usual stands here after 4 Mondays with data."
    assert (once in page) == (weeks < 4)


def test_what_a_phone_counted_stands_below_the_axis(
    visit: Visit, owner: Owner, alice: Person
) -> None:
    assert "Counted by phones" not in visit.open("/day/2025-06-16").text
    owner.execute(
        "insert into activity.screen_time (user_id, source, provider_key, date, device, app, name,"
        " duration_ms, counted_at)"
        " select %s, 's', n, '2025-06-16', 'Pixel', 'org.app' || n, nullif('<App> ' || n, '<App> 1'),"
        "        (30 - n) * 60000, now()"
        "   from generate_series(1, 21) as n",
        [alice.user_id],
    )

    page = visit.open("/day/2025-06-16").text

    assert "Counted by phones" in page
    assert "<bdi>org.app1</bdi>" in page
    assert "<bdi>&lt;App&gt; 20</bdi>" in page
    assert "&lt;App&gt; 21" not in page
    assert "these are the 20 longest times" in page
    figures = {source: value for value, source in Page(page).figures}
    assert figures["timeline#/screen_time/0/duration_ms"] == str(29 * 60_000)


def test_a_day_without_a_report_has_no_zeros(visit: Visit, owner: Owner, alice: Person) -> None:
    add_sessions(owner, alice, [used("Code", 33, 36)])

    page = visit.open("/day/2025-06-16")

    values = {source: value for value, source in Page(page.text).figures}
    assert "No tracker reported anything on this day." in page.text
    assert "timeline#/totals/tracked_ms" not in values
    assert "0 min" not in page.text
    assert "timeline#/totals/tracked_ms" in visit.open("/day/2025-06-17").text


@pytest.mark.parametrize(
    ("day", "words"),
    [
        ("2025-06-15", "The first data of a tracker is from 16 Jun 2025, 23:00."),
        ("2025-06-17", "There is data of trackers before this day and after it"),
        ("2025-06-19", "The newest data of a tracker is from 18 Jun 2025, 12:00."),
    ],
)
def test_a_day_without_a_report_says_why(
    day: str, words: str, visit: Visit, owner: Owner, alice: Person
) -> None:
    add_sessions(owner, alice, [used("Code", 23, 24), used("Code", 57, 60)])
    owner.execute(command.SQL["count_streams"], {"user_id": alice.user_id})

    page = re.sub(r"<[^>]+>", "", visit.open(f"/day/{day}").text)

    assert words in page
    assert "so nothing is known" not in visit.open("/day/2025-06-16").text


@pytest.mark.parametrize(
    ("hours", "day", "words"),
    [
        ((24, 25), "2025-06-16", "The first data of a tracker is from 17 Jun 2025, 00:00."),
        ((23, 24), "2025-06-17", "The newest data of a tracker is from 17 Jun 2025, 00:00."),
        ((0, 1, 48, 48), "2025-06-17", "There is data of trackers before this day and after it"),
    ],
    ids=["the first data at its end", "the newest at its start", "the newest at its end"],
)
def test_data_at_the_edge_of_a_day_is_not_of_it(
    hours: tuple[float, ...], day: str, words: str, visit: Visit, owner: Owner, alice: Person
) -> None:
    pairs = zip(hours[::2], hours[1::2], strict=True)
    add_sessions(owner, alice, [used("Code", start, end) for start, end in pairs])
    owner.execute(command.SQL["count_streams"], {"user_id": alice.user_id})

    assert words in re.sub(r"<[^>]+>", "", visit.open(f"/day/{day}").text)


def test_a_calendar_has_no_meetings_also_on_a_day_without_a_report(
    visit: Visit, owner: Owner, alice: Person
) -> None:
    without = visit.open("/day/2025-06-16").text
    owner.execute(
        """
        insert into content.calendar (user_id, name, provider, provider_key)
        values (%s, 'Work', 'test', 'work')
        """,
        [alice.user_id],
    )

    page = visit.open("/day/2025-06-16").text

    assert "No tracker has sent anything yet." in page
    values = {source: value for value, source in Page(page).figures}
    assert values["meetings#/totals/event_count"] == "0"
    assert "meetings#/totals/event_count" not in {source for _, source in Page(without).figures}
    assert "None on this day: music, places, heart rate." in page
    assert "None on this day: meetings, music, places, heart rate." in without


def test_a_day_before_any_tracker_says_so(visit: Visit) -> None:
    assert "No tracker has sent anything yet." in visit.open("/day/2025-06-16").text


def test_activity_ends_with_the_long_gap(visit: Visit, owner: Owner, alice: Person) -> None:
    add_sessions(owner, alice, [used("Code", 9, 18), used("Code", 23, 25.5), used("Code", 33, 40)])

    monday, tuesday = (visit.open(f"/day/2025-06-{day}").text for day in (16, 17))

    assert re.search(r"first activity at <data [^>]*>09:00</data>, last at", monday)
    assert re.search(r"last at <data [^>]*>01:30</data> on the next day", monday)
    assert re.search(r"first activity at <data [^>]*>09:00</data>", tuesday)


@pytest.mark.parametrize(
    ("day", "noon"),
    [("2025-03-30", "47.8%"), ("2025-06-16", "50%"), ("2025-10-26", "52%")],
    ids=["23 hours", "24 hours", "25 hours"],
)
def test_noon_is_where_it_is_on_that_day(visit: Visit, day: str, noon: str) -> None:
    page = visit.open(f"/day/{day}?tz=Europe/Berlin").text

    assert re.search(rf'<text x="{noon}"[^>]*>12</text>', page)


def test_a_day_that_the_zone_skipped_has_a_page(visit: Visit) -> None:
    page = visit.open("/day/2011-12-30?tz=Pacific/Apia")

    assert page.status_code == 200
    assert "has no time" in page.text
    assert "so nothing is known" not in page.text


def test_a_crowded_day_is_small_and_says_what_it_leaves_out(
    visit: Visit, owner: Owner, alice: Person, make_rollups: MakeRollups
) -> None:
    owner.execute(
        """
        with device as (
            insert into activity.device (user_id, name) values (%(user)s, 'laptop')
            returning device_id
        )
        insert into activity.app_session
               (user_id, idempotency_key, device_id, started_at, ended_at, app, title, category)
        select %(user)s, n::text, device_id,
               timestamptz '2025-06-16 00:00Z' + n * interval '10 s',
               timestamptz '2025-06-16 00:00Z' + (n + 1) * interval '10 s',
               repeat(chr(1488 + n %% 20), 200) || n %% 500,
               repeat(chr(1488 + n %% 20), 500) || repeat(chr(8203), 20) || repeat(chr(8238), 504),
               case n / 12 %% 3 when 0 then 'Development' when 1 then 'Games' else 'News' end
          from device, generate_series(0, 8639) as n
        """,
        {"user": alice.user_id},
    )
    mark_all_days(owner)

    make_rollups()

    page = visit.open("/day/2025-06-16?from=2025-06-16T08:00:00Z&to=2025-06-16T09:00:00Z")

    assert page.status_code == 200
    assert len(gzip.compress(page.content)) <= MOST_BYTES
    assert "Shortened: the table has the 60 longest" in page.text
    assert "Shortened: these are the newest" in page.text
    # Letters without a picture are gone, and names are cut and isolated.
    assert not set(page.text) & {"\u200b", "\u202e"}
    assert re.search("[\u05d0-\u05ea]{81}", page.text) is None
    assert "<bdi>\u2068" in page.text


@pytest.mark.parametrize(
    "part",
    [
        "from=2025-06-16T08:00:00Z",
        "to=2025-06-16T08:00:00Z",
        "from=yesterday&to=2025-06-16T08:00:00Z",
        "from=2025-06-16T08:00:00Z&to=2025-06-16T07:00:00Z",
        "from=2025-06-16T08:00:00Z&to=2025-06-19T08:00:00Z",
        "from=0001-01-01T00:00:00Z&to=0001-01-01T01:00:00Z&tz=America/New_York",
        "from=9999-12-31T22:00:00Z&to=9999-12-31T23:00:00Z&tz=Asia/Tokyo",
    ],
)
def test_a_part_that_is_none_has_no_page(visit: Visit, part: str) -> None:
    assert visit.open(f"/day/2025-06-16?{part}").status_code == 404


@pytest.mark.parametrize(
    "part",
    [
        "from=2025-06-16t08:00:00z&to=2025-06-16t09:00:00z",
        "from=20250616T0800Z&to=2025-06-16T11:00:00,0%2B02:00",
    ],
)
def test_a_part_may_be_written_in_each_way_that_the_api_knows(visit: Visit, part: str) -> None:
    assert "<h2>08:00 to 09:00</h2>" in visit.open(f"/day/2025-06-16?{part}").text


@pytest.mark.parametrize("day", ["1900-01-01", "9998-12-31"])
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Midway"])
def test_the_ends_of_the_calendar_have_pages(visit: Visit, day: str, zone: str) -> None:
    assert visit.open(f"/day/{day}?tz={zone}").status_code == 200

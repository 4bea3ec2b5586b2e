"""The view Today: its strip of hours, and what it says without any data."""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from resourceserver.dashboard.figures import Answer
from resourceserver.dashboard.period import Day
from resourceserver.dashboard.signin.cookie import Cookies
from resourceserver.dashboard.view import Scene
from resourceserver.dashboard.views.today import ago, busiest, strip
from tests.conftest import Person
from tests.dashboard.conftest import Visit
from tests.endpoints.histories import add_sessions
from tests.endpoints.timeline import Session, since_epoch
from tests.midday import midday

TODAY = date(2025, 6, 16)


class Calendar:
    """A calendar on that day."""

    today = TODAY
    week_starts_on = 1


def hour(number: int, ms: int) -> dict[str, Any]:
    return {
        "hour": number,
        "starts_at": f"2025-06-16T{number:02}:00:00.000Z",
        "ends_at": f"2025-06-16T{number + 1:02}:00:00.000Z",
        "total_ms": ms,
        "productive_ms": ms,
        "neutral_ms": 0,
        "distracted_ms": 0,
    }


def gap(start: str, end: str) -> dict[str, str]:
    return {"starts_at": f"2025-06-16T{start}Z", "ends_at": f"2025-06-16T{end}Z"}


def test_hours_without_a_report_are_hatched_and_those_to_come_are_empty() -> None:
    scene = Scene(
        tz="UTC",
        today=TODAY,
        now=datetime(2025, 6, 16, 11, 30, 0, 123_456, UTC),
        week_starts_on=1,
        scopes=frozenset(),
        period=Day(None).period(Calendar()),
        parts={},
    )
    hours = [hour(7, 0), hour(8, 0), hour(9, 1_800_000), hour(10, 0), hour(11, 0), hour(12, 0)]
    unreported = [gap("07:00:00.000", "08:15:00.000"), gap("10:55:00.000", "11:30:00.123")]

    chart = strip(
        scene,
        Answer("hours", "", {"data": hours, "unreported": unreported}),
    )

    # Seven o'clock was not reported, nor was eleven until now. A part of eight and of ten was.
    assert [placed.bar.is_missing for placed in chart.placed] == [
        *(True, False, False, False, True, False)
    ]
    heights = [sum(piece.length for piece in placed.pieces) for placed in chart.placed]
    # The axis ends with half an hour, and its plot has 138 pixels.
    assert heights == [0, 0, 138, 0, 0, 0]


@pytest.mark.parametrize(
    ("instant", "words"),
    [
        ("2025-06-16T11:59:40Z", "less than a minute ago"),
        ("2025-06-16T12:00:20Z", "less than a minute ago"),
        ("2025-06-16T11:58:00Z", "2 min ago"),
        ("2025-06-15T12:00:00Z", "24 h ago"),
        ("2025-06-13T12:00:00Z", "3 days ago"),
        ("2025-06-16T12:05:00Z", "5 min ahead of the server's clock"),
        ("2025-06-18T12:00:00Z", "2 days ahead of the server's clock"),
    ],
)
def test_the_age_of_the_newest_event_is_in_words(instant: str, words: str) -> None:
    now = datetime(2025, 6, 16, 12, tzinfo=UTC)
    period = Day(None).period(Calendar())
    scene = Scene("UTC", now.date(), now, 1, frozenset(), period, {"path": "/"})

    assert ago(scene, instant) == words


@pytest.mark.parametrize(
    ("lengths", "place"),
    [
        ([0, 600_000, 1_800_000, 0], "/data/2"),
        ([1_800_000, 600_000, 1_800_000], None),
        ([0, 600_000, 0], None),
        ([0, 0], None),
    ],
)
def test_the_busiest_hour_is_named_if_it_is_the_only_one(
    lengths: list[int], place: str | None
) -> None:
    data = [hour(number, ms) for number, ms in enumerate(lengths)]

    assert busiest(Answer("hours", "", {"data": data})) == place


def track(
    owner: psycopg.Connection[Any], person: Person, usual_minutes: int, *, app: str = "Code"
) -> datetime:
    """Track an hour before 11:00 today, and other lengths on usual days. Return noon."""
    noon = midday()
    owner.execute(
        "update identity.user set timezone = %s where user_id = %s",
        [str(noon.tzinfo), person.user_id],
    )
    ends = [noon - timedelta(hours=1, weeks=week) for week in range(9)]
    lengths = [60, *[usual_minutes] * 8]
    spans = [
        (end - timedelta(minutes=minutes), end) for end, minutes in zip(ends, lengths, strict=True)
    ]
    # With the hours after this time, usual days are longer than today is so far.
    spans += [(end + timedelta(hours=3), end + timedelta(hours=10)) for end in ends[1:]]
    add_sessions(
        owner,
        person,
        [
            Session(f"{n}", "laptop", app, since_epoch(f"{start}"), since_epoch(f"{end}"))
            for n, (start, end) in enumerate(spans)
        ],
    )
    owner.execute(
        """
        insert into activity.device_stream (user_id, device_id, stream, last_event_at, event_count)
        select user_id, device_id, 'app_sessions', %s, 9
          from activity.device
         where user_id = %s
        """,
        [noon, person.user_id],
    )
    return noon


@pytest.mark.parametrize(
    ("usual_minutes", "words"),
    [(60, "as on"), (10, "more than on"), (180, "less than on")],
)
def test_the_caption_compares_the_day_with_usual_ones_up_to_this_time(
    usual_minutes: int,
    words: str,
    api: TestClient,
    sealing: Cookies,
    alice: Person,
    owner: psycopg.Connection[Any],
) -> None:
    noon = track(owner, alice, usual_minutes)

    page = Visit(api, sealing, alice.token()).open("/").text

    caption = re.sub(r"<[^>]+>", "", page.split('"hours-caption">')[1].split("</figcaption>")[0])
    assert " ".join(caption.split()) == (
        f"1 h tracked so far, {words} a usual {noon:%A} up to this time"
    )


def test_long_names_are_shortened_where_a_day_is_explained(
    api: TestClient, sealing: Cookies, alice: Person, owner: psycopg.Connection[Any]
) -> None:
    track(owner, alice, 180, app="W" * 255)

    page = Visit(api, sealing, alice.token()).open("/").text

    why = page.split('<section id="why">')[1].split("</section>")[0]
    assert f"<bdi>{'W' * 39}…</bdi>" in why.replace("\u2068", "").replace("\u2069", "")
    assert "W" * 40 not in why

"""get_content: events, recordings, insights and plays, worked out by hand, and how long texts are cut."""

import json
from typing import Any, Final

import psycopg
import pytest

from tests.conftest import Person
from tests.mcp.assistant import Assistant, without_texts

Rows = psycopg.Connection[Any]

JUNE: Final = {"from_": "2025-06-16", "to": "2025-06-18", "tz": "Europe/Berlin"}


def meet(owner: Rows, alice: Person, title: str, start: str, end: str, **known: Any) -> None:
    values = {
        "status": "confirmed", "response": "accepted", "description": None, "start_date": None,
        "end_date": None, "location": None, "organizer": None,
    }  # fmt: skip
    owner.execute(
        """
        with calendar as (
            insert into content.calendar (user_id, name, provider)
            values (%(user_id)s, 'Work', 'google')
            returning calendar_id
        )
        insert into content.calendar_event
               (user_id, calendar_id, title, description, location, organizer_name, starts_at, ends_at,
                start_date, end_date, status, response, attendee_count)
        select %(user_id)s, calendar_id, %(title)s, %(description)s, %(location)s, %(organizer)s,
               %(start)s, %(end)s, %(start_date)s, %(end_date)s, %(status)s, %(response)s, 3
          from calendar
        """,
        {"user_id": alice.user_id, "title": title, "start": start, "end": end} | values | known,
    )


def record(owner: Rows, alice: Person, at: str, title: str | None, transcript: str | None) -> None:
    owner.execute(
        """
        insert into content.recording
               (user_id, recorded_at, duration_ms, title, source, transcript_status, transcript)
        values (%s, %s, 90000, %s, 'phone', %s, %s)
        """,
        [alice.user_id, at, title, "ready" if transcript else "none", transcript],
    )


def watch(owner: Rows, alice: Person, at: str, name: str, *genres: str) -> None:
    owner.execute(
        """
        with title as (
            insert into content.title (user_id, kind, name)
            values (%(user_id)s, 'show', %(name)s)
            returning title_id
        ),
        genre as (
            insert into content.title_genre (user_id, title_id, genre)
            select %(user_id)s, title_id, genre
              from title
             cross join unnest(%(genres)s::text[]) as genre
        )
        insert into content.play (user_id, title_id, season, episode, watched_at, watch_ms)
        select %(user_id)s, title_id, 1, 2, %(at)s, 2400000
          from title
        """,
        {"user_id": alice.user_id, "name": name, "genres": list(genres), "at": at},
    )


def explain(owner: Rows, alice: Person, monday: str, sunday: str, title: str, text: str) -> None:
    owner.execute(
        "insert into content.insight (user_id, week_start, week_end, tz, title, summary, generated_at) "
        "values (%s, %s, %s, 'Europe/Berlin', %s, %s, now())",
        [alice.user_id, monday, sunday, title, text],
    )


def titles(answer: dict[str, Any]) -> list[str | None]:
    return [row.get("title") for row in answer["data"]]


def test_meetings_are_counted_with_their_time(
    assistant: Assistant, owner: Rows, alice: Person
) -> None:
    # The 16th begins at 22:00 in UTC, so half of the first one is before it.
    meet(owner, alice, "Night", "2025-06-15T21:00Z", "2025-06-15T23:00Z")
    meet(owner, alice, "Review", "2025-06-17T08:00Z", "2025-06-17T10:00Z", location="Room 4")
    meet(owner, alice, "Standup", "2025-06-17T09:30Z", "2025-06-17T10:30Z")
    meet(owner, alice, "Asked", "2025-06-17T12:00Z", "2025-06-17T13:00Z", response="tentative")
    meet(owner, alice, "Away", "2025-06-16T22:00Z", "2025-06-17T22:00Z",
         start_date="2025-06-17", end_date="2025-06-18")  # fmt: skip
    meet(owner, alice, "Off", "2025-06-17T14:00Z", "2025-06-17T15:00Z", status="cancelled")
    meet(owner, alice, "After", "2025-06-18T22:00Z", "2025-06-18T23:00Z")
    meet(owner, alice, "Fair", "2025-06-01T08:00Z", "2025-06-30T08:00Z", response="declined")

    answer = assistant.ask("get_content", kind="calendar", **JUNE)
    about = assistant.ask("get_content", kind="calendar", search="room 4", **JUNE)

    assert titles(answer) == ["Asked", "Standup", "Review", "Away", "Night", "Fair"]
    # Night's hour, and half past ten from eight with Standup laid over Review.
    assert answer["totals"] == {
        "calendar": {
            "event_count": 6, "meeting_count": 3, "meeting_ms": 12_600_000, "meeting_text": "3 h 30 min",
        },
    }  # fmt: skip
    assert (about["totals"]["calendar"]["meeting_count"], titles(about)) == (1, ["Review"])
    assert about["totals"]["calendar"]["meeting_text"] == "2 h"
    assert without_texts(about["data"][0]) == {
        "kind": "calendar", "title": "Review", "location": "Room 4", "calendar": "Work",
        "starts_at": "2025-06-17T08:00:00.000Z", "ends_at": "2025-06-17T10:00:00.000Z",
        "duration_ms": 7_200_000, "all_day": False,
        "status": "confirmed", "response": "accepted",
        "organizer_is_self": False, "attendee_count": 3, "recurring": False,
    }  # fmt: skip


@pytest.fixture
def days(owner: Rows, alice: Person) -> None:
    """One row of each kind about pricing, and one about something else."""
    meet(owner, alice, "Pricing", "2025-06-16T08:00Z", "2025-06-16T09:00Z")
    meet(owner, alice, "Lunch", "2025-06-16T10:00Z", "2025-06-16T11:00Z", description="No PRICING!")
    record(owner, alice, "2025-06-17T08:00Z", None, "We talked about pricing.")
    record(owner, alice, "2025-06-17T09:00Z", "Other", None)
    explain(owner, alice, "2025-06-09", "2025-06-15", "Before", "Pricing")
    explain(owner, alice, "2025-06-16", "2025-06-22", "Week", "Much about **pricing**.")
    watch(owner, alice, "2025-06-18T19:00Z", "The Price", "drama", "pricing")
    watch(owner, alice, "2025-06-18T20:00Z", "Nothing")


@pytest.mark.usefixtures("days")
def test_a_search_covers_all_texts_literally_and_in_any_case(assistant: Assistant) -> None:
    answer = assistant.ask("get_content", search="pRiCiNg", **JUNE)
    nothing = assistant.ask("get_content", search="pric_ng", **JUNE)

    assert titles(answer) == ["The Price", None, "Lunch", "Pricing", "Week"]
    assert [row["kind"] for row in answer["data"]] == [
        "watching", "recordings", "calendar", "calendar", "insights"
    ]  # fmt: skip
    assert answer["count"] == 5
    assert answer["data"][1]["text"] == "We talked about pricing."
    assert answer["data"][0]["genres"] == ["drama", "pricing"]
    assert nothing["data"] == []


@pytest.mark.usefixtures("days")
@pytest.mark.parametrize(
    ("kind", "expected", "totals"),
    [
        ("calendar", ["Lunch", "Pricing"], {"event_count": 2, "meeting_count": 2}),
        ("recordings", ["Other", None], {"recording_count": 2, "duration_text": "3 min"}),
        ("insights", ["Week"], {"insight_count": 1}),
        ("watching", ["Nothing", "The Price"], {"play_count": 2, "watch_text": "1 h 20 min"}),
    ],
)
def test_a_requested_kind_is_the_only_one(
    assistant: Assistant, kind: str, expected: list[str], totals: dict[str, Any]
) -> None:
    answer = assistant.ask("get_content", kind=kind, **JUNE)

    assert titles(answer) == expected
    assert answer["totals"][kind].items() >= totals.items()
    assert [name for name, each in answer["totals"].items() if each is not None] == [kind]


@pytest.mark.usefixtures("days")
def test_a_limit_keeps_the_newest_rows_and_counts_all(assistant: Assistant) -> None:
    answer = assistant.ask("get_content", limit=2, **JUNE)

    assert titles(answer) == ["Nothing", "The Price"]
    assert (answer["count"], answer["truncated"]) == (7, True)


# Long texts


def test_a_long_text_is_cut_to_five_hundred_characters(
    assistant: Assistant, owner: Rows, alice: Person
) -> None:
    record(owner, alice, "2025-06-16T08:00Z", "Just", "é" * 500)
    record(owner, alice, "2025-06-16T07:00Z", "Long", "é" * 501)

    just, long = assistant.ask("get_content", **JUNE)["data"]

    assert just["text"] == "é" * 500
    assert not just.keys() & {"is_cut", "text_from", "text_length"}
    assert (long["text"], long["is_cut"]) == ("é" * 500, True)
    assert (long["text_from"], long["text_length"]) == (1, 501)


def test_a_long_text_is_cut_around_the_match(
    assistant: Assistant, owner: Rows, alice: Person
) -> None:
    record(owner, alice, "2025-06-16T08:00Z", "Talk", "a" * 9000 + "Pricing is hard." + "b" * 9000)

    (row,) = assistant.ask("get_content", search="PRICING", **JUNE)["data"]

    assert row["text"] == "a" * 150 + "Pricing is hard." + "b" * 334
    assert (row["text_from"], row["text_length"], row["is_cut"]) == (8851, 18_016, True)


def test_a_text_of_up_to_five_hundred_characters_is_whole_wherever_the_match_is(
    assistant: Assistant, owner: Rows, alice: Person
) -> None:
    record(owner, alice, "2025-06-16T08:00Z", "Talk", "a" * 300 + "Pricing" + "b" * 90)

    (row,) = assistant.ask("get_content", search="pricing", **JUNE)["data"]

    assert row["text"] == "a" * 300 + "Pricing" + "b" * 90
    assert "is_cut" not in row


def test_a_long_text_is_whole_on_request(assistant: Assistant, owner: Rows, alice: Person) -> None:
    record(owner, alice, "2025-06-16T08:00Z", "Talk", "a" * 20_000)

    (row,) = assistant.ask("get_content", full=True, **JUNE)["data"]

    assert len(row["text"]) == 20_000
    assert "is_cut" not in row


@pytest.mark.parametrize("letter", ["a", "é", '"', "\\", "\n", "\x01", "😀"])
def test_a_text_that_does_not_fit_is_cut_and_marked(
    assistant: Assistant, owner: Rows, alice: Person, letter: str
) -> None:
    record(owner, alice, "2025-06-16T08:00Z", "Talk", letter * 100_000)
    record(owner, alice, "2025-06-16T07:00Z", "Older", "short")

    response = assistant.call("get_content", **{"full": True} | JUNE)

    answer = response.json()["result"]["structuredContent"]
    assert answer["data"][0]["is_cut"] is True
    assert answer["data"][0]["text_length"] == 100_000
    assert set(answer["data"][0]["text"]) == {letter}
    assert 48 * 1024 < len(response.content) <= 64 * 1024
    assert json.loads(response.json()["result"]["content"][0]["text"]) == answer


def test_the_newest_of_several_texts_that_fill_an_answer_is_kept(
    assistant: Assistant, alice: Person, owner: Rows
) -> None:
    for hour in range(8, 20):
        record(owner, alice, f"2025-06-17T{hour:02}:00:00Z", f"At {hour}", "word " * 6000)

    answer = assistant.ask("get_content", full=True, **JUNE)

    (row,) = answer["data"]
    assert (row["title"], row["is_cut"], row["text_length"]) == ("At 19", True, 30_000)
    assert len(row["text"]) > 20_000
    assert (answer["count"], answer["truncated"]) == (12, True)


def test_rows_that_do_not_fit_are_left_out_and_the_answer_is_truncated(
    assistant: Assistant, owner: Rows, alice: Person
) -> None:
    for hour in range(20):
        record(owner, alice, f"2025-06-16T{hour:02}:00Z", f"T{hour}", '"' * 3000)

    response = assistant.call("get_content", **{"full": True} | JUNE)

    answer = response.json()["result"]["structuredContent"]
    assert titles(answer) == ["T19", "T18", "T17"]
    assert (answer["count"], answer["truncated"]) == (20, True)
    assert len(response.content) <= 64 * 1024


# Invalid arguments


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"kind": "music"},
            "kind: input should be 'calendar', 'recordings', 'insights' or 'watching'",
        ),
        ({"search": ""}, "search: must have between 1 and 1024 characters"),
        ({"search": ["pricing"]}, "search: must be a string"),
        ({"limit": 0}, "limit: input should be greater than or equal to 1"),
        ({"limit": 51}, "limit: input should be less than or equal to 50"),
        ({"limit": 1.5}, "limit: input should be a valid integer"),
        ({"full": "true"}, "full: input should be a valid boolean"),
        (
            {"period": "today", "from_": "2025-06-16", "to": "2025-06-17"},
            "give either period, or from",
        ),
    ],
)
def test_a_wrong_argument_is_named(
    assistant: Assistant, arguments: dict[str, Any], message: str
) -> None:
    assert assistant.mistake("get_content", **arguments).startswith(message)

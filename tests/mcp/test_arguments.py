"""Periods: the days of a request, by name, as days or as instants."""

from datetime import date, timedelta
from typing import Any, Final

import pytest
from starlette.testclient import TestClient

from resourceserver.mcp import arguments
from resourceserver.mcp.arguments import Arguments, ArgumentsProblem, Text
from tests.conftest import Person
from tests.mcp.assistant import Assistant

TOOL: Final = "get_listening"
"""One of the tools with a period."""


@pytest.fixture
def today(alice: Person) -> date:
    """Return alice's today; her weeks begin on Sunday."""
    alice.connection.execute("update identity.user set timezone = 'Asia/Tokyo', week_starts_on = 7")
    row = alice.connection.execute("select (now() at time zone 'Asia/Tokyo')::date").fetchone()
    assert row is not None
    day: date = row[0]
    return day


def range_of(assistant: Assistant, **arguments: Any) -> tuple[str, str]:
    answer = assistant.ask(TOOL, **arguments)["range"]
    return answer["from"], answer["to"]


def days(alice: Person, first: str, last: str) -> tuple[str, str]:
    """Return two days, each an SQL expression of ``today``."""
    row = alice.connection.execute(
        f"select ({first})::date::text, ({last})::date::text "  # noqa: S608 -- from this file
        "from (select (now() at time zone 'Asia/Tokyo')::date as today) as clock"
    ).fetchone()
    assert row is not None
    return row[0], row[1]


SUNDAY: Final = "today - extract(dow from today)::integer"


@pytest.mark.parametrize(
    ("period", "first", "last"),
    [
        (None, "today - 6", "today"),
        ("today", "today", "today"),
        ("yesterday", "today - 1", "today - 1"),
        ("this_week", SUNDAY, "today"),
        ("last_week", f"{SUNDAY} - 7", f"{SUNDAY} - 1"),
        ("this_month", "date_trunc('month', today)", "today"),
        (
            "last_month",
            "date_trunc('month', today) - interval '1 month'",
            "date_trunc('month', today) - interval '1 day'",
        ),
        ("last_7_days", "today - 6", "today"),
        ("this_quarter", "date_trunc('quarter', today)", "today"),
        (
            "last_quarter",
            "date_trunc('quarter', today) - interval '3 months'",
            "date_trunc('quarter', today) - interval '1 day'",
        ),
        (
            "last_year",
            "date_trunc('year', today) - interval '1 year'",
            "date_trunc('year', today) - interval '1 day'",
        ),
        ("last_14_days", "today - 13", "today"),
        ("last_30_days", "today - 29", "today"),
        ("last_90_days", "today - 89", "today"),
        ("this_year", "date_trunc('year', today)", "today"),
        ("all", "today", "today"),
    ],
)
def test_a_period_has_days_of_the_persons_zone(
    assistant: Assistant, alice: Person, today: date, period: str | None, first: str, last: str
) -> None:
    assert range_of(assistant, period=period) == days(alice, first, last)


def test_all_begins_with_the_first_measurement(
    assistant: Assistant, alice: Person, today: date
) -> None:
    # In Tokyo it is the second already.
    alice.connection.execute(
        "insert into music.listen (user_id, listened_at, track, artist, source) "
        "values (%s, '2024-03-01T15:00:00Z', 'Song', 'Band', 'spotify')",
        [alice.user_id],
    )

    assert range_of(assistant, period="all") == ("2024-03-02", today.isoformat())


def test_all_may_begin_with_the_calendar_or_an_insight(
    assistant: Assistant, alice: Person, today: date
) -> None:
    def meet(at: str) -> None:
        alice.connection.execute(
            "with calendar as ("
            "insert into content.calendar (user_id, name, provider) values (%(user_id)s, 'Work', 'google') "
            "returning calendar_id) "
            "insert into content.calendar_event (user_id, calendar_id, starts_at, ends_at, status) "
            "select %(user_id)s, calendar_id, %(at)s, %(at)s, 'confirmed' from calendar",
            {"user_id": alice.user_id, "at": at},
        )

    meet("2999-01-01T12:00:00Z")
    with_plans_alone = range_of(assistant, period="all")
    meet("2024-03-01T15:00:00Z")
    with_a_past = range_of(assistant, period="all")
    alice.connection.execute(
        "insert into content.insight (user_id, week_start, week_end, tz, title, summary, generated_at) "
        "values (%s, '2024-02-26', '2024-03-03', 'Asia/Tokyo', 'Week', 'Text', now())",
        [alice.user_id],
    )

    assert with_plans_alone == (today.isoformat(), today.isoformat())
    assert with_a_past == ("2024-03-02", today.isoformat())
    assert range_of(assistant, period="all") == ("2024-02-26", today.isoformat())


def test_all_does_not_reveal_the_first_day_of_data_without_its_scope(
    api: TestClient, alice: Person
) -> None:
    alice.connection.execute(
        "insert into code.event (user_id, provider, provider_key, type, action, occurred_at, repository) "
        "values (%s, 'github', 'x', 'commit', 'pushed', '2020-01-01T12:00:00Z', 'svc')",
        [alice.user_id],
    )
    alice.connection.execute(
        "insert into music.listen (user_id, listened_at, track, artist, source) "
        "values (%s, '2024-03-01T12:00:00Z', 'Song', 'Band', 'spotify')",
        [alice.user_id],
    )
    few = Assistant(api, alice.headers("read:activity", "read:music"))
    more = Assistant(api, alice.headers("read:activity", "read:music", "read:code"))

    assert range_of(few, period="all")[0] == "2024-03-01"
    assert range_of(more, period="all")[0] == "2020-01-01"


def test_a_range_of_days_includes_both_ends(assistant: Assistant) -> None:
    answer = assistant.ask(TOOL, from_="2025-03-29", to="2025-03-30", tz="Europe/Berlin")

    assert answer["range"] == {"from": "2025-03-29", "to": "2025-03-30"}
    assert answer["totals"]["days"] == 2


def test_a_range_of_instants_excludes_its_end_and_has_the_days_it_overlaps(
    assistant: Assistant,
) -> None:
    answer = assistant.ask(
        TOOL,
        from_="2025-06-16T20:00:00Z",
        to="2025-06-17T22:00:00+00:00",
        tz="Europe/Berlin",
    )

    assert answer["range"] == {
        "from": "2025-06-16",
        "to": "2025-06-17",
        "starts_at": "2025-06-16T20:00:00.000Z",
        "starts_local": "Mon 2025-06-16 22:00",
        "ends_at": "2025-06-17T22:00:00.000Z",
        "ends_local": "Wed 2025-06-18 00:00",
    }


@pytest.mark.parametrize(
    ("first", "last", "is_whole"),
    [
        ("2025-06-16T00:00:00+02:00", "2025-06-18T00:00:00+02:00", True),
        ("2025-06-16T00:00", "2025-06-18T00:00", True),
        ("2025-06-16T00:00:00+02:00", "2025-06-17T23:59:59+02:00", False),
        ("2025-06-16T00:00:30", "2025-06-18T00:00", False),
    ],
)
def test_the_instants_of_a_range_are_left_out_if_its_days_are_whole(
    assistant: Assistant, first: str, last: str, is_whole: bool
) -> None:
    answer = assistant.ask(TOOL, from_=first, to=last, tz="Europe/Berlin")

    assert ("starts_at" not in answer["range"], "ends_at" not in answer["range"]) == (
        is_whole,
        is_whole,
    )


@pytest.mark.parametrize(
    ("first", "last", "starts_at", "ends_at", "note"),
    [
        (
            "2025-06-16T22:00",
            "2025-06-17 07:30:15.5",
            "2025-06-16T20:00:00.000Z",
            "2025-06-17T05:30:15.500Z",
            None,
        ),
        # The clock is put back at three, so half past two occurs twice, and put forward at two in March.
        (
            "2025-10-26T02:30", "2025-10-26T03:30", "2025-10-26T00:30:00.000Z", "2025-10-26T02:30:00.000Z",
            "2025-10-26 02:30 occurs twice in Europe/Berlin: the first is meant",
        ),
        (
            "2025-03-30T02:30", "2025-03-30T03:45", "2025-03-30T01:30:00.000Z", "2025-03-30T01:45:00.000Z",
            "2025-03-30 02:30 does not occur in Europe/Berlin: 03:30 is meant",
        ),
    ],
)  # fmt: skip
def test_a_time_without_an_offset_is_a_local_one(
    assistant: Assistant, first: str, last: str, starts_at: str, ends_at: str, note: str | None
) -> None:
    of = assistant.ask(TOOL, from_=first, to=last, tz="Europe/Berlin")["range"]

    assert (of["starts_at"], of["ends_at"], of.get("note")) == (starts_at, ends_at, note)


def test_a_local_time_is_one_of_the_persons_zone(assistant: Assistant, today: date) -> None:
    of = assistant.ask("list_sessions", at="2025-06-17T14:15")["range"]

    assert (of["starts_at"], of["starts_local"]) == (
        "2025-06-17T05:15:00.000Z",
        "Tue 2025-06-17 14:15",
    )


def test_an_empty_range_has_the_day_of_its_instant(assistant: Assistant) -> None:
    at = "2025-06-16T20:00:00Z"

    assert range_of(assistant, from_=at, to=at) == ("2025-06-16", "2025-06-16")


def test_future_days_are_not_yet_and_not_gaps(assistant: Assistant) -> None:
    today = date.fromisoformat(assistant.ask(TOOL, period="today")["range"]["to"])
    tomorrow, last = str(today + timedelta(days=1)), str(today + timedelta(days=7))

    answer = assistant.ask(TOOL, from_=str(today), to=last)
    over = assistant.ask(TOOL, from_="2025-06-16", to="2025-06-17")

    assert answer["not_yet"] == {"from": tomorrow, "to": last}
    assert [gap for gap in answer["data_gaps"] if gap["to"] > str(today)] == []
    assert "not_yet" not in over


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("get_time_breakdown", {"from_": "2099-01-01", "to": "2099-01-07"}),
        ("get_health", {"from_": "2099-01-01", "to": "2099-01-07"}),
        ("get_day", {"date": "2099-01-01"}),
        ("correlate", {"from_": "2099-01-01", "to": "2099-01-07"}),
        ("compare_periods", {"a": "2099-01-01", "b": "2025-06-16"}),
        ("compare_periods", {"a": "2025-06-16", "b": "2099-01-01"}),
    ],
)
def test_a_range_in_the_future_is_an_error(
    assistant: Assistant, tool: str, given: dict[str, str]
) -> None:
    assert assistant.mistake(tool, **given).startswith("2099-01-01 is not yet: today is ")


def test_the_next_seven_days_begin_tomorrow(assistant: Assistant, today: date) -> None:
    answer = assistant.ask("get_content", kind="calendar", period="next_7_days")

    assert (answer["range"]["from"], answer["range"]["to"]) == (
        str(today + timedelta(days=1)),
        str(today + timedelta(days=7)),
    )
    assert assistant.mistake(TOOL, period="next_7_days").endswith(
        "but what get_content has of the calendar"
    )


@pytest.mark.parametrize(
    ("tool", "listed", "word"),
    [
        ("get_time_breakdown", {"group_by": ["day"]}, {"group_by": "day"}),
        (
            "get_time_breakdown",
            {"filter": {"productivity": ["productive"]}},
            {"filter": {"productivity": "productive"}},
        ),
        (
            "list_sessions",
            {"filter": {"languages": ["unknown"]}},
            {"filter": {"languages": "unknown"}},
        ),
        ("get_health", {"metrics": ["hrv_rmssd_ms"]}, {"metrics": "hrv_rmssd_ms"}),
        ("compare_periods", {"metrics": ["coding_ms"]}, {"metrics": "coding_ms"}),
    ],
)
def test_one_word_is_a_list_of_one(
    assistant: Assistant, tool: str, listed: dict[str, Any], word: dict[str, Any]
) -> None:
    answers = [assistant.ask(tool, **given) for given in (listed, word)]

    for answer in answers:
        del answer["generated_at"], answer["generated_local"]
    assert answers[0] == answers[1]


def test_one_word_of_another_type_is_no_list(assistant: Assistant) -> None:
    assert assistant.mistake("get_health", metrics=5) == "metrics: input should be a valid list"


def test_the_calendar_has_future_days(assistant: Assistant) -> None:
    answer = assistant.ask("get_content", kind="calendar", from_="2099-01-01", to="2099-01-07")

    assert answer["not_yet"] == {"from": "2099-01-01", "to": "2099-01-07"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"period": "all", "from_": "2025-06-16", "to": "2025-06-17"}, "give either period, or from and to"),
        ({"period": "today", "to": "2025-06-17"}, "give either period, or from and to"),
        ({"from_": "2025-06-16"}, "from and to are needed together"),
        ({"to": "2025-06-16"}, "from and to are needed together"),
        ({"from_": "2025-06-17", "to": "2025-06-16"}, "from must not be after to"),
        (
            {"from_": "2025-06-16", "to": "2025-06-17T00:00:00Z"},
            "from and to must both be days, or both instants",
        ),
        ({"from_": "2010-01-01", "to": "2025-06-17"}, "from and to must have at most 3700 days"),
        # From this day on, 3,700 days end with 17 February 2020.
        ({"from_": "2010-01-01", "to": "2020-02-18"}, "from and to must have at most 3700 days"),
        (
            {"from_": "0001-01-01T00:00:00Z", "to": "0001-01-02T00:00:00Z"},
            "from and to must be between 1900-01-01 and 9998-12-31",
        ),
        ({"from_": "2025-02-30", "to": "2025-03-01"}, "from: is not a day that exists"),
        ({"from_": "yesterday", "to": "2025-03-01"}, "from: must be a calendar day, such as 2025-06-16"),
        ({"from_": 5, "to": "2025-03-01"}, "from: must be a string"),
        ({"from_": [], "to": "2025-03-01"}, "from: must be a string"),
        (
            {"from_": "2025-03-01T10:00:00", "to": "2025-03-01T11:00:00Z"},
            "from and to must both have an offset, or neither",
        ),
        ({"top": 0}, "top: input should be greater than or equal to 1"),
        ({"top": 51}, "top: input should be less than or equal to 50"),
        ({"top": "5"}, "top: input should be a valid integer"),
        ({"top": 5.5}, "top: input should be a valid integer"),
        ({"top": True}, "top: input should be a valid integer"),
        ({"group_by": "Artist"}, "group_by: input should be 'artist', 'album', 'track' or 'day'"),
    ],
)  # fmt: skip
def test_contradictory_arguments_are_an_error(
    assistant: Assistant, given: dict[str, Any], said: str
) -> None:
    assert assistant.mistake(TOOL, **given) == said


def test_the_error_about_an_unknown_period_lists_the_known_ones(assistant: Assistant) -> None:
    said = assistant.mistake(TOOL, period="last_8_days")

    assert said.startswith(
        "period: input should be 'today', 'yesterday', 'this_week', 'last_week',"
    )
    assert said.endswith("'next_7_days' or 'all'")


def test_a_whole_number_may_have_a_fraction_of_zero(assistant: Assistant) -> None:
    assert assistant.ask("get_patterns", weeks=6.0)["weeks"] == 6


def test_null_counts_as_absent_in_every_optional_argument(assistant: Assistant) -> None:
    assert assistant.ask("get_patterns", weeks=None)["weeks"] == 6
    assert assistant.ask(TOOL, group_by=None, top=None)["group_by"] == "artist"
    assert assistant.mistake("get_goals", weeks=None).startswith("weeks: there is no such argument")


class Search(Arguments):
    text: Text | None = None


@pytest.mark.parametrize("text", ["\ud800", 5, ["a"]])
def test_text_that_cannot_be_encoded_is_refused(text: object) -> None:
    with pytest.raises(ArgumentsProblem, match=r"^text: must be a string\n"):
        arguments.parse(Search, {"text": text})


@pytest.mark.parametrize("text", ["a\x00b", "", "x" * 1025])
def test_text_that_cannot_be_stored_or_is_too_long_is_refused(text: str) -> None:
    with pytest.raises(ArgumentsProblem, match=r"^text: "):
        arguments.parse(Search, {"text": text})


def test_text_may_have_any_letters() -> None:
    assert arguments.parse(Search, {"text": "größer 😀"}).values() == {"text": "größer 😀"}

"""Durations in words and local times, in answers of tools and in their schemas."""

from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest
from jsonschema import Draft202012Validator

from resourceserver.mcp import texts
from shared import durations

BERLIN: Final = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("duration_ms", "words"),
    [
        (0, "0 s"),
        (499, "0 s"),
        (500, "1 s"),
        (59_499, "59 s"),
        (59_500, "1 min"),
        (89_999, "2 min"),
        (60_000 * 31, "31 min"),
        (60_000 * 59 + 29_499, "59 min"),
        (60_000 * 59 + 30_000, "1 h"),
        (3_600_000, "1 h"),
        (9_060_000, "2 h 31 min"),
        (3_600_000 * 51 + 60_000 * 3, "51 h 3 min"),
        (-9_060_000, "-2 h 31 min"),
        (-1_000, "-1 s"),
        (-499, "0 s"),
    ],
)
def test_a_duration_has_hours_and_minutes(duration_ms: int, words: str) -> None:
    assert durations.text(duration_ms) == words


@pytest.mark.parametrize(
    ("instant", "zone", "text"),
    [
        ("2026-11-16T06:12:00.000Z", "Europe/Berlin", "Mon 2026-11-16 07:12"),
        ("2026-11-15T23:30:59.999Z", "Europe/Berlin", "Mon 2026-11-16 00:30"),
        ("2026-07-01T00:00:00.000Z", "America/New_York", "Tue 2026-06-30 20:00"),
        ("2026-07-01T00:00:00.000Z", "Asia/Kathmandu", "Wed 2026-07-01 05:45"),
        ("9999-12-31T23:30:00.000Z", "Pacific/Kiritimati", None),
        ("10000-01-01T00:00:00.000Z", "UTC", None),
    ],
)
def test_an_instant_has_the_weekday_and_the_time_of_a_zone(
    instant: str, zone: str, text: str | None
) -> None:
    assert texts.local(instant, ZoneInfo(zone)) == text


def test_a_text_follows_each_duration_and_instant_and_nothing_else_changes() -> None:
    answer = {
        "total_ms": 9_060_000,
        "last_ms": None,
        "count": 5,
        "hours_ms": [1, 2],
        "rows": [{"spent_ms": 1000, "name": "x_ms", "at": "2026-11-16"}, "text", 7],
        "seen_at": "2026-11-16T06:12:00.000Z",
        "gone_at": None,
        "broken_by": {"at": "2026-07-16T06:12:00.000Z"},
    }

    added = texts.add_texts(answer, BERLIN)

    assert list(added) == [
        *("total_ms", "total_text", "last_ms", "last_text", "count", "hours_ms", "rows"),
        *("seen_at", "seen_local", "gone_at", "gone_local", "broken_by"),
    ]
    assert added == {
        "total_ms": 9_060_000,
        "total_text": "2 h 31 min",
        "last_ms": None,
        "last_text": None,
        "count": 5,
        "hours_ms": [1, 2],
        "rows": [
            {"spent_ms": 1000, "spent_text": "1 s", "name": "x_ms", "at": "2026-11-16"},
            "text",
            7,
        ],
        "seen_at": "2026-11-16T06:12:00.000Z",
        "seen_local": "Mon 2026-11-16 07:12",
        "gone_at": None,
        "gone_local": None,
        "broken_by": {"at": "2026-07-16T06:12:00.000Z", "local": "Thu 2026-07-16 08:12"},
    }


def test_answers_with_texts_fit_their_described_schema() -> None:
    nullable = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    schema: dict[str, Any] = {
        "type": "object",
        "additionalProperties": False,
        "required": ["total_ms", "last_ms", "hours_ms", "seen_at"],
        "properties": {
            "total_ms": {"type": "integer"},
            "last_ms": nullable,
            "hours_ms": {"type": "array"},
            "maybe_ms": {"type": "integer"},
            "seen_at": {"type": "string", "format": "date-time"},
        },
    }
    described = texts.describe_texts(schema)

    validator = Draft202012Validator(described)

    assert described["required"] == [
        *("total_ms", "total_text", "last_ms", "last_text", "hours_ms", "seen_at", "seen_local")
    ]
    assert list(described["properties"]) == [
        *("total_ms", "total_text", "last_ms", "last_text", "hours_ms", "maybe_ms", "maybe_text"),
        *("seen_at", "seen_local"),
    ]
    answer = {
        "total_ms": 5, "last_ms": None, "hours_ms": [1], "seen_at": "2026-11-16T06:12:00.000Z"
    }  # fmt: skip
    assert validator.is_valid(texts.add_texts(answer, BERLIN))
    assert not validator.is_valid(answer)

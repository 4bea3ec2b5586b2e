"""Durations in words, in answers of tools and in their schemas."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from resourceserver.mcp import durations


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


def test_words_follow_each_duration_and_nothing_else_changes() -> None:
    answer = {
        "total_ms": 9_060_000,
        "last_ms": None,
        "count": 5,
        "hours_ms": [1, 2],
        "rows": [{"spent_ms": 1000, "name": "x_ms"}, "text", 7],
    }

    added = durations.add_texts(answer)

    assert list(added) == [
        "total_ms",
        "total_text",
        "last_ms",
        "last_text",
        "count",
        "hours_ms",
        "rows",
    ]
    assert added == {
        "total_ms": 9_060_000,
        "total_text": "2 h 31 min",
        "last_ms": None,
        "last_text": None,
        "count": 5,
        "hours_ms": [1, 2],
        "rows": [{"spent_ms": 1000, "spent_text": "1 s", "name": "x_ms"}, "text", 7],
    }


def test_answers_with_words_fit_their_described_schema() -> None:
    nullable = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    schema: dict[str, Any] = {
        "type": "object",
        "additionalProperties": False,
        "required": ["total_ms", "last_ms", "hours_ms"],
        "properties": {
            "total_ms": {"type": "integer"},
            "last_ms": nullable,
            "hours_ms": {"type": "array"},
            "maybe_ms": {"type": "integer"},
        },
    }
    described = durations.describe_texts(schema)

    validator = Draft202012Validator(described)

    assert described["required"] == ["total_ms", "total_text", "last_ms", "last_text", "hours_ms"]
    assert list(described["properties"]) == [
        "total_ms", "total_text", "last_ms", "last_text", "hours_ms", "maybe_ms", "maybe_text"
    ]  # fmt: skip
    assert validator.is_valid(
        durations.add_texts({"total_ms": 5, "last_ms": None, "hours_ms": [1]})
    )
    assert not validator.is_valid({"total_ms": 5, "last_ms": None, "hours_ms": [1]})

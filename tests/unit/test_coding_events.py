"""Validation of coding events; tests of app events cover the rules that both share."""

import math
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resourceserver.ingest.events import CODES, CODING_SESSIONS, Row, judge, read_batch

NOON_MS = 1_750_075_200_000
"""2025-06-16T12:00:00Z, the server's clock in these tests."""

HOUR = {"started_at": "2025-06-16T09:00:00Z", "ended_at": "2025-06-16T10:00:00Z", "project": "svc"}


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in HOUR.items() if key != name}


def stored(event: dict[str, Any], *, client: Any = None) -> Row:
    """The row of an event that must be valid."""
    batch = read_batch({"events": [event], "client": client})
    verdict = judge(CODING_SESSIONS, batch, now_ms=NOON_MS, full_urls=False)
    assert verdict.rejected == []
    return verdict.rows[0]


def rejection(event: Any) -> tuple[str, str]:
    """The code and message of an event that must be invalid."""
    batch = read_batch({"events": [event]})
    verdict = judge(CODING_SESSIONS, batch, now_ms=NOON_MS, full_urls=False)
    assert verdict.rows == []
    [entry] = verdict.rejected
    return entry["code"], entry["message"]


def test_the_smallest_event_is_stored() -> None:
    # JSON.stringify(["coding_sessions", "default", ["svc", null, null], 1750064400000])
    assert stored(HOUR) == {
        "idempotency_key": "d1:705e6501438b4a6ff52e9bae8b2bb5a11ef62910",
        "started_ms": 1_750_064_400_000,
        "ended_ms": 1_750_068_000_000,
        "project": "svc",
        "device": "default",
        "source": None,
        "indexes": [0],
    }


def test_every_field_is_stored() -> None:
    event = {
        "idempotency_key": " editor:42 ",
        "started_at": "2025-06-16T11:00:00.1239+02:00",
        "duration_ms": 5000.0,
        "project": "\t Cafe\u0301 ",
        "language": " Python ",
        "file": " app/api.py",
        "branch": " main ",
        "editor": " vscode ",
        "activity": "debugging",
        "lines_added": 41,
        "lines_removed": 7.0,
        "is_write": True,
        "device": " laptop ",
        "platform": "linux",
        "utc_offset": "-03:30",
        "metadata": {"a": [1, 2.5, None, "\u20ac"]},
        "app": "\0",
        "idle": "of another stream",
    }

    assert stored(event, client={"name": "svc-bridge/0.3"}) == {
        "idempotency_key": " editor:42 ",
        "started_ms": 1_750_064_400_123,
        "ended_ms": 1_750_064_405_123,
        "project": "Caf\u00e9",
        "language": "Python",
        "file": " app/api.py",
        "branch": "main",
        "editor": "vscode",
        "activity": "debugging",
        "lines_added": 41,
        "lines_removed": 7,
        "is_write": True,
        "device": "laptop",
        "source": "svc-bridge/0.3",
        "indexes": [0],
        "platform": "linux",
        "utc_offset": "-03:30",
        "metadata": {"a": [1, 2.5, None, "\u20ac"]},
    }


def test_null_and_blank_are_absent_in_optional_fields() -> None:
    optional = CODING_SESSIONS.fields.keys() - {"started_at", "ended_at", "project"}
    texts = ("language", "file", "branch", "editor", "activity", "device", "platform", "utc_offset")

    assert stored(HOUR | dict.fromkeys(optional)) == stored(HOUR)
    assert stored(HOUR | dict.fromkeys(texts, " \t\u00a0")) == stored(HOUR)
    assert stored(HOUR | dict.fromkeys(texts, "")) == stored(HOUR)


def test_long_names_are_cut_and_of_a_long_path_the_end_is_kept() -> None:
    row = stored(
        HOUR
        | {
            "language": "l" * 65,
            "branch": "b" * 256,
            "editor": "e" * 65,
            "file": "a" + "\U0001f4bb" * 1023 + "/b",
        }
    )

    assert row["language"] == "l" * 64
    assert row["branch"] == "b" * 255
    assert row["editor"] == "e" * 64
    assert row["file"] == "\U0001f4bb" * 1022 + "/b"


def test_values_at_their_limits_are_stored_whole() -> None:
    event = HOUR | {
        "idempotency_key": "k" * 200,
        "project": "\u00e9" * 255,
        "language": "l" * 64,
        "file": "f" * 1024,
        "branch": "b" * 255,
        "editor": "e" * 64,
        "lines_added": 10_000_000,
        "lines_removed": 0,
        "device": "d" * 128,
        "metadata": {"m": "x" * 4088},
    }

    row = stored(event)

    assert {name: row[name] for name in event if name in row} == {
        name: value for name, value in event.items() if not name.endswith("_at")
    }


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("coding", "coding"),
        ("debugging", "debugging"),
        ("building", "building"),
        ("testing", "testing"),
        ("reviewing", "reviewing"),
        ("writing_docs", "writing_docs"),
        ("ai_coding", "ai_coding"),
        ("other", "other"),
        ("Debugging", "other"),
        ("meeting", "other"),
        ("x" * 5000, "other"),
    ],
)
def test_an_unknown_activity_is_stored_as_other(sent: str, kept: str) -> None:
    assert stored(HOUR | {"activity": sent})["activity"] == kept


@pytest.mark.parametrize(
    ("event", "code", "message"),
    [
        ([], "not_an_object", "event: must be a JSON object"),
        ({}, "missing_field", "started_at: is required"),
        (without("project"), "missing_field", "project: is required"),
        (HOUR | {"project": None}, "missing_field", "project: is required"),
        (without("ended_at"), "missing_field", "ended_at: this or duration_ms is required"),
        (
            {"started_at": HOUR["started_at"]},
            "missing_field",
            "ended_at: this or duration_ms is required",
        ),
        (HOUR | {"project": 5}, "invalid_type", "project: must be a string"),
        (HOUR | {"language": 5}, "invalid_type", "language: must be a string"),
        (HOUR | {"file": ["a.py"]}, "invalid_type", "file: must be a string"),
        (HOUR | {"branch": False}, "invalid_type", "branch: must be a string"),
        (HOUR | {"editor": {}}, "invalid_type", "editor: must be a string"),
        (HOUR | {"activity": 1}, "invalid_type", "activity: must be a string"),
        (HOUR | {"lines_added": "5"}, "invalid_type", "lines_added: must be a whole number"),
        (HOUR | {"lines_added": True}, "invalid_type", "lines_added: must be a whole number"),
        (HOUR | {"lines_removed": 5.5}, "invalid_type", "lines_removed: must be a whole number"),
        (HOUR | {"lines_removed": ""}, "invalid_type", "lines_removed: must be a whole number"),
        (HOUR | {"is_write": 1}, "invalid_type", "is_write: must be true or false"),
        (
            HOUR | {"started_at": "2025-06-16T09:00:00"},
            "invalid_timestamp",
            "started_at: is not an RFC 3339 date and time with an offset",
        ),
        (
            HOUR | {"started_at": "1999-12-31T23:59:59.999Z"},
            "timestamp_out_of_range",
            "started_at: is before 2000-01-01",
        ),
        (
            HOUR | {"ended_at": "2025-06-16T13:00:00.001Z"},
            "timestamp_in_future",
            "ended_at: is more than 1 hour ahead of the server's clock",
        ),
        (
            HOUR | {"ended_at": "2025-06-16T08:59:59.999Z"},
            "invalid_interval",
            "ended_at: is before started_at",
        ),
        (
            HOUR | {"duration_ms": 3_601_001},
            "duration_mismatch",
            "duration_ms: differs from ended_at by more than 1 second",
        ),
        (
            {"started_at": "2025-06-15T09:00:00Z", "duration_ms": 86_400_001, "project": "x"},
            "duration_too_long",
            "duration_ms: gives an end more than 24 hours later",
        ),
        (HOUR | {"project": " \t"}, "empty_string", "project: is blank"),
        (HOUR | {"idempotency_key": " "}, "empty_string", "idempotency_key: is blank"),
        (
            HOUR | {"project": "x" * 256},
            "string_too_long",
            "project: is longer than 255 characters",
        ),
        (
            HOUR | {"device": "x" * 129},
            "string_too_long",
            "device: is longer than 128 characters",
        ),
        (
            HOUR | {"lines_added": -1},
            "invalid_value",
            "lines_added: must be between 0 and 10000000",
        ),
        (
            HOUR | {"lines_removed": 10_000_001},
            "invalid_value",
            "lines_removed: must be between 0 and 10000000",
        ),
        (
            HOUR | {"lines_removed": math.inf},
            "invalid_value",
            "lines_removed: holds a number outside the range of a double",
        ),
        (
            HOUR | {"activity": "a\0"},
            "invalid_value",
            "activity: holds a NUL character or half of a surrogate pair",
        ),
        (
            HOUR | {"file": "\ud800" + "x" * 2000},
            "invalid_value",
            "file: holds a NUL character or half of a surrogate pair",
        ),
        (
            HOUR | {"branch": "b" * 300 + "\0"},
            "invalid_value",
            "branch: holds a NUL character or half of a surrogate pair",
        ),
        (HOUR | {"utc_offset": "+2"}, "invalid_value", "utc_offset: must look like +02:00"),
    ],
)
def test_an_event_that_breaks_a_rule_is_rejected_with_its_code(
    event: Any, code: str, message: str
) -> None:
    assert rejection(event) == (code, message)


@pytest.mark.parametrize(
    ("event", "reported"),
    [
        (without("project") | {"started_at": 5}, "missing_field: project"),
        ({"ended_at": 5, "project": 5}, "missing_field: started_at"),
        (HOUR | {"is_write": 1, "lines_added": "x"}, "invalid_type: lines_added"),
        (HOUR | {"device": 5, "project": 5}, "invalid_type: device"),
        (HOUR | {"project": "", "device": "x" * 129}, "empty_string: project"),
        (HOUR | {"project": "x" * 256, "device": "x" * 129}, "string_too_long: device"),
        (HOUR | {"platform": "x", "lines_added": -1}, "invalid_value: platform"),
        (HOUR | {"lines_added": -1, "file": "\0"}, "invalid_value: file"),
    ],
)
def test_the_first_flaw_by_code_and_then_by_field_is_reported(event: Any, reported: str) -> None:
    code, message = rejection(event)

    assert f"{code}: {message.split(':')[0]}" == reported


def test_the_derived_key_is_of_project_language_and_file_as_they_are_stored() -> None:
    event = HOUR | {"project": " svc ", "language": "Python\n", "file": "app/api.py"}
    more = {"branch": "main", "editor": "vim", "activity": "testing", "lines_added": 5}

    keys = {
        stored(changed, client={"name": "laptop/1"})["idempotency_key"]
        for changed in (event, event | more, event | {"ended_at": "2025-06-16T09:00:01Z"})
    }

    assert keys == {"d1:a6eab80c9fa6c2eefea64e452de9d9eddd662862"}


def test_the_derived_key_equals_that_of_javascript_for_any_characters() -> None:
    event = HOUR | {
        "started_at": "2000-01-01T00:00:00.123Z",
        "ended_at": None,
        "duration_ms": 0,
        "project": "Cafe\u0301",
        "language": '"C\\#"\u2028\x7f',
        "file": "a\x01\t\b/\u00fc.py",
        "device": "B\u00fcro \U0001f4bb",
    }

    assert stored(event)["idempotency_key"] == "d1:b43d68e27293fdeecdb6188cf9c5944f5223cca9"
    assert (
        stored(event | {"file": None})["idempotency_key"]
        == "d1:61c361eba536e374fcc468f141393e3208a9af56"
    )


def test_another_language_or_file_gives_another_key() -> None:
    events = [
        HOUR,
        HOUR | {"language": "SQL"},
        HOUR | {"file": "SQL"},
        HOUR | {"language": "SQL", "file": "SQL"},
        HOUR | {"project": "other"},
        HOUR | {"device": "phone"},
        HOUR | {"started_at": "2025-06-16T09:00:00.001Z"},
    ]

    assert len({stored(event)["idempotency_key"] for event in events}) == len(events)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
any_text = st.text(st.characters(exclude_categories=()), max_size=5)
plausible = {
    "project": any_text | st.just("p" * 256),
    "language": any_text | st.just("\u0390" * 65),
    "file": any_text | st.just("f" * 1025),
    "branch": any_text,
    "editor": any_text,
    "activity": any_text | st.sampled_from(["testing", "coding"]),
    "lines_added": st.integers(-1, 10_000_001) | st.floats(),
    "lines_removed": st.integers(-1, 10_000_001),
    "is_write": st.booleans(),
    "duration_ms": st.integers(-1, 90_000_000),
    "device": any_text,
}
changes = st.sampled_from([*plausible]).flatmap(
    lambda name: st.tuples(st.just(name), plausible[name] | anything)
)


@given(st.lists(anything | st.lists(changes, max_size=3).map(lambda c: HOUR | dict(c)), max_size=4))
def test_the_counts_of_any_batch_add_up_and_no_row_breaks_a_limit(sent: list[Any]) -> None:
    batch = read_batch({"events": sent})

    verdict = judge(CODING_SESSIONS, batch, now_ms=NOON_MS, full_urls=False)

    assert len(verdict.rows) + verdict.repeated + len(verdict.rejected) == len(sent)
    assert all(entry["code"] in CODES for entry in verdict.rejected)
    for row in verdict.rows:
        assert row["started_ms"] <= row["ended_ms"] <= row["started_ms"] + 86_400_000
        assert 1 <= len(row["project"]) <= 255
        assert len(row.get("language") or "") <= 64
        assert len(row.get("file") or "") <= 1024
        assert len(row.get("branch") or "") <= 255
        assert len(row.get("editor") or "") <= 64
        assert 0 <= row.get("lines_added", 0) <= 10_000_000
        assert 0 <= row.get("lines_removed", 0) <= 10_000_000
        assert datetime.fromtimestamp(row["started_ms"] / 1000, UTC).year == 2025

import json
import math
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resourceserver.ingest.events import (
    APP_SESSIONS,
    CODES,
    CODING_SESSIONS,
    BatchTooLargeError,
    MalformedBatchError,
    NotJSONError,
    Row,
    derived_key,
    is_parsable,
    judge,
    parse,
    read_batch,
    web_address,
)

NOON_MS = 1_750_075_200_000
"""2025-06-16T12:00:00Z, the server's clock in these tests."""

HOUR = {"started_at": "2025-06-16T09:00:00Z", "ended_at": "2025-06-16T10:00:00Z", "app": "Code"}


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in HOUR.items() if key != name}


def stored(event: dict[str, Any], *, client: Any = None, full_urls: bool = False) -> Row:
    """The row of an event that must be valid."""
    batch = read_batch({"events": [event], "client": client})
    verdict = judge(APP_SESSIONS, batch, now_ms=NOON_MS, full_urls=full_urls)
    assert verdict.rejected == []
    return verdict.rows[0]


def rejection(event: Any) -> tuple[str, str]:
    """The code and message of an event that must be invalid."""
    batch = read_batch({"events": [event]})
    verdict = judge(APP_SESSIONS, batch, now_ms=NOON_MS, full_urls=False)
    assert verdict.rows == []
    [entry] = verdict.rejected
    return entry["code"], entry["message"]


# Parsing


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"events":[NaN]}',
        b'{"events":[Infinity]}',
        b'{"events":[-Infinity]}',
        b'{"events":["\xff"]}',
        b'{"events":["\xed\xa0\x80"]}',
        b'{"events":[01]}',
        b'{"events":["a\x00b"]}',
        b"{'events':[]}",
        b'{"events":[]} x',
        '{"events":[]}'.encode("utf-16"),
        b"[" * 200_000 + b"]" * 200_000,
    ],
)
def test_a_body_that_is_not_json_is_refused(body: bytes) -> None:
    with pytest.raises(NotJSONError):
        parse(body)


def test_the_last_of_equal_keys_wins() -> None:
    assert parse(b'{"events":1,"events":[]}') == {"events": []}


def test_a_byte_order_mark_is_ignored() -> None:
    assert parse(b'\xef\xbb\xbf{"events":[]}') == {"events": []}


def test_numbers_beyond_a_double_reject_only_their_event() -> None:
    assert parse(b"[1e999,-1e999]") == [math.inf, -math.inf]
    assert parse(b"[" + b"9" * 400 + b"]") == [math.inf]
    assert parse(b"[-" + b"9" * 100_000 + b"]") == [-math.inf]
    assert parse(b"[" + b"9" * 308 + b"]") == [10**308 - 1]


@pytest.mark.parametrize(
    "body",
    [
        b'{"events":[' + b"{}," * 1_500_001 + b"{}]}",
        b'{"events":[{"x":[' + b"0," * 3_000_000 + b"0]}]}",
        b'{"events":[{"x":[' + b'"a,\\",b\\\\",' * 3_000_000 + b"0]}]}",
        b"[" * 3_000_001,
    ],
    ids=["events", "integers", "strings", "brackets"],
)
def test_a_body_of_millions_of_values_is_not_parsed(body: bytes) -> None:
    assert not is_parsable(body)


@pytest.mark.parametrize("text", [b",", b'\\",', b"[\\\\,", b'\\\\\\"{:'])
def test_punctuation_in_strings_is_not_counted(text: bytes) -> None:
    strings = b'["' + text * (8_000_000 // len(text)) + b'"]'

    assert is_parsable(strings)


def test_a_thousand_events_at_the_limit_of_metadata_are_parsed() -> None:
    event = b'{"metadata":{"m":[' + b"[]," * 1360 + b"0]}}"

    assert is_parsable(b'{"events":[' + b",".join([event] * 1000) + b"]}")


# Batches


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "the body: must be a JSON object"),
        (None, "the body: must be a JSON object"),
        ({}, "events: must be an array"),
        ({"events": None}, "events: must be an array"),
        ({"events": {}}, "events: must be an array"),
        ({"events": [], "client": []}, "client: must be an object"),
        ({"events": [], "client": "x"}, "client: must be an object"),
        ({"events": [], "client": {"name": 5}}, "client.name: must be a string"),
        ({"events": [], "client": {"name": False}}, "client.name: must be a string"),
        (
            {"events": [], "client": {"name": "a\0"}},
            "client.name: holds a NUL character or half of a surrogate pair",
        ),
        (
            {"events": [], "client": {"name": "\ud800"}},
            "client.name: holds a NUL character or half of a surrogate pair",
        ),
    ],
)
def test_a_malformed_batch_names_the_field(document: Any, message: str) -> None:
    with pytest.raises(MalformedBatchError) as raised:
        read_batch(document)

    assert str(raised.value) == message


def test_a_malformed_client_is_reported_before_the_size_of_the_batch() -> None:
    with pytest.raises(MalformedBatchError):
        read_batch({"events": [0] * 1001, "client": 5})


def test_more_than_a_thousand_events_are_too_many() -> None:
    assert len(read_batch({"events": [0] * 1000}).events) == 1000
    with pytest.raises(BatchTooLargeError, match=r"^events: 1001 given"):
        read_batch({"events": [0] * 1001})


@pytest.mark.parametrize(
    ("client", "device", "source"),
    [
        (None, "default", None),
        ({}, "default", None),
        ({"name": None}, "default", None),
        ({"name": "  "}, "default", None),
        ({"name": "/1.2"}, "default", "/1.2"),
        ({"name": "aw-bridge/1.2/x"}, "aw-bridge", "aw-bridge/1.2/x"),
        ({"name": " Cafe\u0301 /1"}, "Caf\u00e9", "Cafe\u0301 /1"),
        ({"name": "x" * 200}, "x" * 128, "x" * 128),
    ],
)
def test_the_client_gives_source_and_default_device(client: Any, device: str, source: str) -> None:
    batch = read_batch({"events": [], "client": client})

    assert (batch.device, batch.source) == (device, source)


# Stored values


def test_the_smallest_event_is_stored() -> None:
    assert stored(HOUR) == {
        "idempotency_key": "d1:6a2c2c7df90d22e44b92ee58135db96ca3d8c322",
        "started_ms": 1_750_064_400_000,
        "ended_ms": 1_750_068_000_000,
        "app": "Code",
        "device": "default",
        "source": None,
        "indexes": [0],
    }


def test_every_field_is_stored() -> None:
    event = {
        "idempotency_key": " laptop:42 ",
        "started_at": "2025-06-16T11:00:00.1239+02:00",
        "ended_at": "2025-06-16T09:00:05z",
        "duration_ms": 4877.0,
        "app": "\t Cafe\u0301 ",
        "title": " main.py ",
        "url": "https://user:secret@www.Example.com:8443/a;b?token=1#top",
        "category": " Development ",
        "idle": True,
        "device": " laptop ",
        "platform": "linux",
        "utc_offset": "-03:30",
        "metadata": {"a": [1, 2.5, None, "\u20ac"]},
        "new_in_a_later_version": {"ignored": "\0"},
    }

    assert stored(event) == {
        "idempotency_key": " laptop:42 ",
        "started_ms": 1_750_064_400_123,
        "ended_ms": 1_750_064_405_000,
        "app": "Caf\u00e9",
        "title": " main.py ",
        "url": "https://www.example.com:8443/a;b",
        "domain": "example.com",
        "category": "Development",
        "idle": True,
        "device": "laptop",
        "source": None,
        "indexes": [0],
        "platform": "linux",
        "utc_offset": "-03:30",
        "metadata": {"a": [1, 2.5, None, "\u20ac"]},
    }


def test_null_and_blank_are_absent_in_optional_fields() -> None:
    optional = APP_SESSIONS.fields.keys() - {"started_at", "ended_at", "app"}
    texts = ("title", "url", "category", "device", "platform", "utc_offset")

    assert stored(HOUR | dict.fromkeys(optional)) == stored(HOUR)
    assert stored(HOUR | dict.fromkeys(texts, " \t\u00a0")) == stored(HOUR)
    assert stored(HOUR | dict.fromkeys(texts, "")) == stored(HOUR)


def test_a_blank_end_is_replaced_by_the_duration() -> None:
    assert stored(HOUR | {"ended_at": " ", "duration_ms": 5})["ended_ms"] == 1_750_064_400_005


def test_an_end_comes_from_the_duration() -> None:
    assert stored(without("ended_at") | {"duration_ms": 86_400_000 - 75_600_000}) == stored(
        HOUR | {"ended_at": "2025-06-16T12:00:00Z"}
    )


@pytest.mark.parametrize("duration", [3_599_000, 3_600_000, 3_601_000])
def test_ended_at_wins_over_a_duration_that_agrees_within_a_second(duration: int) -> None:
    assert stored(HOUR | {"duration_ms": duration})["ended_ms"] == 1_750_068_000_000


def test_long_texts_are_cut_and_a_long_address_is_dropped() -> None:
    row = stored(
        HOUR
        | {
            "title": "\U0001f4bb" * 1025,
            "category": "c" * 65,
            "url": "https://example.com/" + "x" * 2029,
        }
    )

    assert row["title"] == "\U0001f4bb" * 1024
    assert row["category"] == "c" * 64
    assert row.get("url") is None
    assert row.get("domain") is None


def test_values_at_their_limits_are_stored_whole() -> None:
    event = HOUR | {
        "idempotency_key": "k" * 200,
        "app": "\u00e9" * 255,
        "title": "t" * 1024,
        "url": "https://example.com/" + "x" * 2028,
        "category": "c" * 64,
        "device": "d" * 128,
        "metadata": {"m": "x" * 4088},
    }

    row = stored(event)

    assert {name: row[name] for name in event if name in row} == {
        name: value for name, value in event.items() if not name.endswith("_at")
    }


def test_decomposed_names_are_measured_composed() -> None:
    assert stored(HOUR | {"app": "e\u0301" * 255})["app"] == "\u00e9" * 255
    # One code point composed, four decomposed: the greatest ratio there is.
    assert stored(HOUR | {"app": "\u03b1\u0313\u0300\u0345" * 255})["app"] == "\u1f82" * 255


def test_names_that_only_look_alike_remain_different() -> None:
    assert stored(HOUR | {"app": "\ufb01sh\u2460"})["app"] == "\ufb01sh\u2460"


def test_a_megabyte_of_combining_marks_is_refused_at_once() -> None:
    assert rejection(HOUR | {"app": "a" + "\u0301\u0316" * 500_000})[0] == "string_too_long"
    assert len(stored(HOUR | {"category": "a" + "\u0301\u0316" * 500_000})["category"]) == 64


@pytest.mark.parametrize(
    ("written", "at"),
    [
        ("2025-06-16T09:00:00Z", 1_750_064_400_000),
        ("2025-06-16t09:00:00z", 1_750_064_400_000),
        ("2025-06-16T09:00:00.9Z", 1_750_064_400_900),
        ("2025-06-16T09:00:00.12Z", 1_750_064_400_120),
        ("2025-06-16T09:00:00.9999999999Z", 1_750_064_400_999),
        ("2025-06-16T09:00:00-00:00", 1_750_064_400_000),
        ("2025-06-16T00:30:00-08:30", 1_750_064_400_000),
        ("2025-06-17T08:59:00+23:59", 1_750_064_400_000),
        ("2024-02-29T23:59:59.999Z", 1_709_251_199_999),
        ("2000-01-01T00:00:00Z", 946_684_800_000),
        ("1999-12-31T23:00:00-01:00", 946_684_800_000),
    ],
)
def test_instants_are_read_to_the_millisecond(written: str, at: int) -> None:
    assert stored({"started_at": written, "duration_ms": 0, "app": "Code"})["started_ms"] == at


# Rejections: the smallest example of each code, and the limits


@pytest.mark.parametrize("event", [None, 5, "x", [], [HOUR], True])
def test_an_event_must_be_an_object(event: Any) -> None:
    assert rejection(event) == ("not_an_object", "event: must be a JSON object")


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({}, "started_at: is required"),
        (without("started_at"), "started_at: is required"),
        (HOUR | {"started_at": None}, "started_at: is required"),
        (without("ended_at"), "ended_at: this or duration_ms is required"),
        (HOUR | {"ended_at": None}, "ended_at: this or duration_ms is required"),
        (HOUR | {"ended_at": ""}, "ended_at: this or duration_ms is required"),
        ({"started_at": HOUR["started_at"]}, "ended_at: this or duration_ms is required"),
        (without("app"), "app: is required"),
        (HOUR | {"app": None}, "app: is required"),
    ],
)
def test_required_fields_must_be_present(event: Any, message: str) -> None:
    assert rejection(event) == ("missing_field", message)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("idempotency_key", 5, "must be a string"),
        ("started_at", 1_750_064_400, "must be a string"),
        ("ended_at", [], "must be a string"),
        ("duration_ms", "5", "must be a whole number"),
        ("duration_ms", "", "must be a whole number"),
        ("duration_ms", 5.5, "must be a whole number"),
        ("duration_ms", True, "must be a whole number"),
        ("app", {}, "must be a string"),
        ("title", 5, "must be a string"),
        ("url", ["https://example.com"], "must be a string"),
        ("category", False, "must be a string"),
        ("idle", 1, "must be true or false"),
        ("idle", "", "must be true or false"),
        ("idle", "true", "must be true or false"),
        ("device", 0, "must be a string"),
        ("platform", 1e999, "must be a string"),
        ("utc_offset", 120, "must be a string"),
        ("metadata", [], "must be an object"),
        ("metadata", "", "must be an object"),
    ],
)
def test_values_must_be_of_their_type(name: str, value: Any, words: str) -> None:
    assert rejection(HOUR | {name: value}) == ("invalid_type", f"{name}: {words}")


@pytest.mark.parametrize(
    "written",
    [
        "",
        "yesterday",
        "2025-06-16",
        "2025-06-16T09:00:00",
        "2025-06-16T09:00Z",
        "2025-06-16 09:00:00Z",
        "20250616T090000Z",
        "2025-06-16T09:00:00+02",
        "2025-06-16T09:00:00+0200",
        "2025-06-16T09:00:00+24:00",
        "2025-06-16T09:00:00+02:60",
        "2025-06-16T09:00:00.Z",
        "2025-06-16T09:00:00,5Z",
        "2025-06-16T24:00:00Z",
        "2025-06-16T09:60:00Z",
        "2016-12-31T23:59:60Z",
        "2025-02-29T09:00:00Z",
        "1900-02-29T09:00:00Z",
        "2025-13-01T09:00:00Z",
        "0000-00-00T00:00:00Z",
        "2025-06-16T09:00:00Z\n",
        " 2025-06-16T09:00:00Z",
        "\u0662025-06-16T09:00:00Z",
        "+2025-06-16T09:00:00Z",
        "12025-06-16T09:00:00Z",
        "2025-W25-1T09:00:00Z",
        "1750064400",
    ],
)
def test_a_timestamp_must_be_rfc_3339_and_exist(written: str) -> None:
    code, message = rejection(HOUR | {"started_at": written})

    assert code == "invalid_timestamp"
    assert message.startswith("started_at: is ")


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (HOUR | {"started_at": "1999-12-31T23:59:59.999Z"}, "started_at: is before 2000-01-01"),
        (HOUR | {"started_at": "2000-01-01T00:00:00+00:01"}, "started_at: is before 2000-01-01"),
        (HOUR | {"started_at": "0000-02-29T00:00:00Z"}, "started_at: is before 2000-01-01"),
        (HOUR | {"ended_at": "1999-12-31T23:59:59.999Z"}, "ended_at: is before 2000-01-01"),
    ],
)
def test_times_before_2000_are_rejected(event: Any, message: str) -> None:
    assert rejection(event) == ("timestamp_out_of_range", message)


FUTURE = "more than 1 hour ahead of the server's clock"


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (
            {"started_at": "2025-06-16T13:00:00.001Z", "ended_at": "2025-06-16T13:00:00.001Z"},
            f"started_at: is {FUTURE}",
        ),
        ({"ended_at": "2025-06-16T13:00:00.001Z"}, f"ended_at: is {FUTURE}"),
        ({"ended_at": "9999-12-31T23:59:59-23:59"}, f"ended_at: is {FUTURE}"),
        ({"ended_at": None, "duration_ms": 14_400_001}, f"duration_ms: gives an end {FUTURE}"),
        ({"ended_at": None, "duration_ms": 10**300}, f"duration_ms: gives an end {FUTURE}"),
    ],
)
def test_times_more_than_an_hour_ahead_are_rejected(times: Any, message: str) -> None:
    assert rejection(HOUR | times) == ("timestamp_in_future", message)


def test_times_up_to_an_hour_ahead_are_accepted() -> None:
    row = stored(HOUR | {"started_at": "2025-06-16T13:00:00Z", "ended_at": "2025-06-16T13:00:00Z"})

    assert row["started_ms"] == row["ended_ms"] == NOON_MS + 3_600_000


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ({"ended_at": "2025-06-16T08:59:59.999Z"}, "ended_at: is before started_at"),
        ({"ended_at": None, "duration_ms": -1}, "duration_ms: gives an end before started_at"),
        ({"duration_ms": -1}, "duration_ms: is negative"),
    ],
)
def test_a_session_must_not_end_before_it_starts(times: Any, message: str) -> None:
    assert rejection(HOUR | times) == ("invalid_interval", message)


@pytest.mark.parametrize("duration", [3_598_999, 3_601_001, 0, 10**300])
def test_end_and_duration_must_agree(duration: int) -> None:
    assert rejection(HOUR | {"duration_ms": duration}) == (
        "duration_mismatch",
        "duration_ms: differs from ended_at by more than 1 second",
    )


YESTERDAY = {"started_at": "2025-06-14T09:00:00Z", "app": "Code"}


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ({"ended_at": "2025-06-15T09:00:00.001Z"}, "ended_at: is more than 24 hours later"),
        ({"duration_ms": 86_400_001}, "duration_ms: gives an end more than 24 hours later"),
        (
            {"ended_at": "2025-06-15T09:00:00Z", "duration_ms": 86_400_001},
            "duration_ms: is more than 24 hours",
        ),
    ],
)
def test_a_session_lasts_a_day_at_most(times: Any, message: str) -> None:
    assert rejection(YESTERDAY | times) == ("duration_too_long", message)


def test_a_session_of_24_hours_is_stored() -> None:
    row = stored(YESTERDAY | {"ended_at": "2025-06-15T09:00:00Z", "duration_ms": 86_400_000})

    assert row["ended_ms"] - row["started_ms"] == 86_400_000


@pytest.mark.parametrize(("name", "value"), [("app", ""), ("app", " \u2003\n"), *[
    ("idempotency_key", blank) for blank in ("", " ", "\n\t", "\u00a0")
]])  # fmt: skip
def test_names_and_keys_must_not_be_blank(name: str, value: str) -> None:
    assert rejection(HOUR | {name: value}) == ("empty_string", f"{name}: is blank")


@pytest.mark.parametrize(
    ("name", "limit"), [("app", 255), ("device", 128), ("idempotency_key", 200)]
)
def test_names_and_keys_must_not_be_too_long(name: str, limit: int) -> None:
    assert rejection(HOUR | {name: "x" * (limit + 1)}) == (
        "string_too_long",
        f"{name}: is longer than {limit} characters",
    )


def nested(levels: int) -> Any:
    return [] if levels == 1 else [nested(levels - 1)]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        *[
            (name, f"a{bad}b", "holds a NUL character or half of a surrogate pair")
            for name in ("app", "title", "url", "category", "device")
            for bad in ("\0", "\ud800", "\udfff", "\udc00\ud800")
        ],
        ("title", "x" * 1024 + "\0", "holds a NUL character or half of a surrogate pair"),
        ("idempotency_key", "a\0", "holds a control character"),
        ("idempotency_key", "a\n", "holds a control character"),
        ("idempotency_key", "a\x7f", "holds a control character"),
        ("idempotency_key", "a\x85b", "holds a control character"),
        ("idempotency_key", "a\ud800", "holds a NUL character or half of a surrogate pair"),
        ("duration_ms", math.inf, "holds a number outside the range of a double"),
        (
            "platform",
            "Linux",
            "must be one of macos, windows, linux, android, ios, web, other",
        ),
        ("utc_offset", "Z", "must look like +02:00"),
        ("utc_offset", "+2:00", "must look like +02:00"),
        ("utc_offset", "+24:00", "must look like +02:00"),
        ("utc_offset", "02:00", "must look like +02:00"),
        ("utc_offset", "+02:00\n", "must look like +02:00"),
        ("metadata", {"m": "x" * 4089}, "is larger than 4096 bytes"),
        ("metadata", {"m": "\u20ac" * 1363}, "is larger than 4096 bytes"),
        ("metadata", {"m": "\0"}, "holds a NUL character or half of a surrogate pair"),
        ("metadata", {"\ud800": 1}, "holds a NUL character or half of a surrogate pair"),
        ("metadata", {"m": [{"m": "\udfff"}]}, "holds a NUL character or half of a surrogate pair"),
        ("metadata", {"m": [-math.inf]}, "holds a number outside the range of a double"),
        ("metadata", {"m": nested(31)}, "is nested deeper than 32 levels"),
        ("unknown", math.inf, "holds a number outside the range of a double"),
        ("unknown", nested(32), "is nested deeper than 32 levels"),
        ("unknown", nested(900), "is nested deeper than 32 levels"),
    ],
)
def test_values_that_cannot_be_stored_are_rejected(name: str, value: Any, words: str) -> None:
    assert rejection(HOUR | {name: value}) == ("invalid_value", f"{name}: {words}")


def test_thirty_two_levels_are_stored() -> None:
    assert "metadata" in stored(HOUR | {"metadata": {"m": nested(30)}, "unknown": nested(31)})


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "", "x" * 65, "a b"])
def test_a_field_whose_name_cannot_be_repeated_is_not_named(name: str) -> None:
    assert rejection(HOUR | {name: math.inf}) == (
        "invalid_value",
        "event: holds a number outside the range of a double",
    )


@pytest.mark.parametrize(
    ("event", "reported"),
    [
        ({"started_at": 5}, "missing_field: ended_at"),
        (without("ended_at") | {"app": None}, "missing_field: ended_at"),
        (HOUR | {"app": 5, "started_at": "x"}, "invalid_type: app"),
        (HOUR | {"ended_at": 5, "started_at": 5}, "invalid_type: started_at"),
        (HOUR | {"duration_ms": 5.5, "ended_at": "x"}, "invalid_type: duration_ms"),
        (
            HOUR | {"ended_at": "x", "started_at": "1970-01-01T00:00:00Z"},
            "invalid_timestamp: ended_at",
        ),
        (
            {"started_at": "2025-06-16T14:00:00Z", "ended_at": "1970-01-01T00:00:00Z", "app": ""},
            "timestamp_out_of_range: ended_at",
        ),
        (
            {"started_at": "2025-06-16T14:00:00Z", "ended_at": "2025-06-16T09:00:00Z", "app": ""},
            "timestamp_in_future: started_at",
        ),
        (
            HOUR | {"ended_at": "2025-06-16T08:00:00Z", "duration_ms": 5, "app": ""},
            "invalid_interval: ended_at",
        ),
        (HOUR | {"duration_ms": 86_400_001}, "duration_mismatch: duration_ms"),
        (YESTERDAY | {"app": "", "duration_ms": 86_400_001}, "duration_too_long: duration_ms"),
        (HOUR | {"app": "", "idempotency_key": "x" * 201}, "empty_string: app"),
        (HOUR | {"app": "", "idempotency_key": " "}, "empty_string: idempotency_key"),
        (HOUR | {"device": "x" * 129, "title": "\0"}, "string_too_long: device"),
        (HOUR | {"device": "x" * 129, "app": "x" * 256}, "string_too_long: app"),
        (HOUR | {"metadata": {"m": "\0"}, "platform": "x"}, "invalid_value: platform"),
        (
            HOUR | {"unknown": math.inf, "started_at": "1970-01-01T00:00:00Z"},
            "timestamp_out_of_range: started_at",
        ),
        (HOUR | {"unknown": math.inf, "metadata": {"m": "\0"}}, "invalid_value: metadata"),
        (
            HOUR | {"duration_ms": math.inf, "ended_at": "2025-06-16T08:00:00Z"},
            "invalid_interval: ended_at",
        ),
        (
            {"started_at": "1990-01-01T00:00:00Z", "app": "x", "duration_ms": math.inf},
            "timestamp_out_of_range: started_at",
        ),
        (
            {"started_at": "2999-01-01T00:00:00Z", "app": "x", "duration_ms": math.inf},
            "timestamp_in_future: started_at",
        ),
        (
            {"started_at": "2025-06-16T09:00:00Z", "app": "x", "duration_ms": math.inf},
            "invalid_value: duration_ms",
        ),
    ],
)
def test_the_first_flaw_by_code_and_then_by_field_is_reported(event: Any, reported: str) -> None:
    code, message = rejection(event)

    assert f"{code}: {message.split(':')[0]}" == reported


# Keys


@pytest.mark.parametrize(
    ("device", "app", "started_ms", "key"),
    [
        ("laptop", "Code", 1_750_064_400_000, "d1:982485130d895dfec6ae6b4b40fc5ae8c4f57ba0"),
        ("default", "Code", 1_750_064_400_123, "d1:7ede4554b3dfce7c82ea24d39ace88ee753c8620"),
        (
            "B\u00fcro",
            "Caf\u00e9",
            1_750_064_400_000,
            "d1:c5e295ae16333fdaf14b0afc2be6f1f3809b3a09",
        ),
        (
            "B\u00fcro \U0001f4bb",
            '"Notiz\\\u2028\x7f\x85\x01\n\t\b/',
            946_684_800_000,
            "d1:b79167a5c01a1135359207c97c817686ae994636",
        ),
    ],
)
def test_derived_keys_equal_those_of_javascript(
    device: str, app: str, started_ms: int, key: str
) -> None:
    row = {"device": device, "app": app, "started_ms": started_ms, "title": "x", "ended_ms": 0}

    assert derived_key(APP_SESSIONS, row) == key


@pytest.mark.parametrize(
    ("language", "file", "key"),
    [
        ("Python", "app/api.py", "d1:a6eab80c9fa6c2eefea64e452de9d9eddd662862"),
        (None, None, "d1:0e1cfb492fd508ea69019c68955b8888aad6ce5e"),
    ],
)
def test_a_stream_may_be_identified_by_several_fields(
    language: str | None, file: str | None, key: str
) -> None:
    row = {"device": "laptop", "project": "svc", "started_ms": 1_750_064_400_000}
    row |= {"language": language, "file": file}

    assert derived_key(CODING_SESSIONS, row) == key


def test_the_derived_key_is_of_the_cleaned_names() -> None:
    event = HOUR | {"app": " Cafe\u0301\n", "title": "a", "url": "https://example.com"}

    row = stored(event, client={"name": " Bu\u0308ro /7"})

    assert row["idempotency_key"] == "d1:c5e295ae16333fdaf14b0afc2be6f1f3809b3a09"


def test_the_first_valid_event_of_a_key_wins_within_a_batch() -> None:
    events = [
        HOUR | {"idempotency_key": "k", "app": ""},
        HOUR | {"idempotency_key": "k", "app": "First"},
        HOUR | {"idempotency_key": "k", "app": "Second"},
        HOUR | {"idempotency_key": "K", "app": "Other"},
    ]

    verdict = judge(APP_SESSIONS, read_batch({"events": events}), now_ms=NOON_MS, full_urls=False)

    assert [row["app"] for row in verdict.rows] == ["First", "Other"]
    assert verdict.repeated == 1
    assert [entry["index"] for entry in verdict.rejected] == [0]


# Addresses


@pytest.mark.parametrize(
    ("address", "url", "domain"),
    [
        ("https://example.com", "https://example.com", "example.com"),
        ("HTTPS://WWW.Example.COM/A", "https://www.example.com/A", "example.com"),
        ("http://localhost:3000/x?y", "http://localhost:3000/x", "localhost"),
        ("https://u:p@example.com/?q#f", "https://example.com/", "example.com"),
        ("https://u@evil@example.com/", "https://example.com/", "example.com"),
        ("https://example.com#u:p@x", "https://example.com", "example.com"),
        ("https://[2001:DB8::1]:80/", "https://[2001:db8::1]:80/", "2001:db8::1"),
        ("https://b\u00fccher.example/", "https://b\u00fccher.example/", "b\u00fccher.example"),
        ("https://www.example.com./", "https://www.example.com./", "example.com"),
        ("https://www.com/", "https://www.com/", "www.com"),
        ("file:///etc/passwd", None, None),
        ("chrome://settings", None, None),
        ("javascript:alert(1)", None, None),
        ("about:blank", None, None),
        ("example.com", None, None),
        ("https:///path", None, None),
        ("https:/u:p@example.com/", None, None),
        ("https:u:p@example.com", None, None),
        ("https://u:p/w@example.com/", None, None),
        ("https://[::1", None, None),
        ("https://example.com:99999/", None, None),
        ("https://ex ample.com/", None, None),
        ("https://./", None, None),
        (
            "https://\u0130" + "x" * 20 + "/",
            "https://i\u0307" + "x" * 20 + "/",
            "i\u0307" + "x" * 20,
        ),
    ],
)
def test_addresses_keep_no_secret(address: str, url: str | None, domain: str | None) -> None:
    assert web_address(address, full_urls=False) == (url, domain)


def test_full_addresses_are_kept_if_the_setting_says_so() -> None:
    row = stored(HOUR | {"url": " https://u:p@www.Example.com/a?q#f "}, full_urls=True)

    assert row["url"] == "https://u:p@www.Example.com/a?q#f"
    assert row["domain"] == "example.com"
    assert web_address("file:///etc/passwd", full_urls=True) == (None, None)


def test_an_address_that_grows_over_the_limit_is_dropped() -> None:
    assert web_address("https://" + "\u0130" * 2040, full_urls=False) == (None, None)


# Properties

any_text = st.text(st.characters(exclude_categories=()))
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=6,
)
instants = st.sampled_from(
    ["2025-06-16T09:00:00Z", "2025-06-16T11:00:00.5+01:00", "2025-06-15T09:00:00Z", "1999-01-01T0"]
)
plausible = {
    "idempotency_key": st.text(max_size=3),
    "started_at": instants,
    "ended_at": instants,
    "duration_ms": st.integers(-1, 90_000_000),
    "app": st.text(max_size=3) | st.text(min_size=250, max_size=260),
    "title": st.text() | st.just("t" * 1025),
    "url": st.text().map(lambda text: f"https://{text}") | st.just("https://\u0130/" + "x" * 2037),
    "category": st.text(),
    "idle": st.booleans(),
    "device": st.text(),
    "platform": st.sampled_from(["linux", "Linux", ""]),
    "utc_offset": st.sampled_from(["+02:00", "-23:59", "+9:00"]),
    "metadata": st.dictionaries(any_text, anything, max_size=3),
}
changes = st.sampled_from([*plausible]).flatmap(
    lambda name: st.tuples(st.just(name), plausible[name] | anything)
)
changed = st.lists(changes, max_size=3).map(lambda pairs: HOUR | dict(pairs))
events = anything | changed | changed | changed


@given(st.lists(events, max_size=4), st.none() | st.text(), st.booleans())
def test_the_counts_of_any_batch_add_up_and_no_row_breaks_a_limit(
    sent: list[Any], client: str | None, full_urls: bool
) -> None:
    batch = read_batch({"events": sent, "client": {"name": client and client.replace("\0", "")}})

    verdict = judge(APP_SESSIONS, batch, now_ms=NOON_MS, full_urls=full_urls)

    assert len(verdict.rows) + verdict.repeated + len(verdict.rejected) == len(sent)
    indexes = [entry["index"] for entry in verdict.rejected]
    assert indexes == sorted(set(indexes))
    for entry in verdict.rejected:
        assert entry["code"] in CODES
        assert entry["message"].encode()
    assert len({row["idempotency_key"] for row in verdict.rows}) == len(verdict.rows)
    for row in verdict.rows:
        assert_within_limits(row)


def assert_within_limits(row: Row) -> None:
    assert 946_684_800_000 <= row["started_ms"] <= row["ended_ms"] <= NOON_MS + 3_600_000
    assert row["ended_ms"] - row["started_ms"] <= 86_400_000
    assert 1 <= len(row["idempotency_key"]) <= 200
    assert 1 <= len(row["app"]) <= 255
    assert 1 <= len(row["device"]) <= 128
    assert len(row.get("title") or "") <= 1024
    assert len(row.get("url") or "") <= 2048
    assert len(row.get("category") or "") <= 64
    assert unicodedata.is_normalized("NFC", row["app"])
    assert row["app"] == row["app"].strip()
    spelled = json.dumps(row, ensure_ascii=False)
    assert "\\u0000" not in spelled.replace("\\\\", "")
    assert spelled.encode()
    assert (
        len(json.dumps(row.get("metadata"), separators=(",", ":"), ensure_ascii=False).encode())
        <= 4096
    )


@given(st.binary(max_size=200) | anything.map(lambda value: json.dumps(value).encode()))
def test_any_body_is_read_or_refused(body: bytes) -> None:
    try:
        read_batch(parse(body))
    except (NotJSONError, MalformedBatchError):
        return

"""The published schema of events, compared with what ingest accepts."""

import json
from datetime import datetime
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from starlette.testclient import TestClient

from resourceserver.description.openapi import EXAMPLES
from resourceserver.ingest import events, fields, route
from resourceserver.ingest import schema as ingest_schema
from resourceserver.ingest.events import Stream, judge, read_batch
from tests.conftest import Person

PATH: Final = "/api/v1/ingest/schema"
NOON_MS: Final = 1_750_075_200_000
"""2025-06-16T12:00:00Z."""

DOCUMENT: Final = json.loads(ingest_schema.document().model_dump_json())
APP_SESSIONS, CODING_SESSIONS = DOCUMENT["streams"]

each_stream = pytest.mark.parametrize(
    "stream", DOCUMENT["streams"], ids=lambda stream: stream["name"]
)
each_pair = pytest.mark.parametrize(
    ("stream", "published"),
    list(zip(route.STREAMS, DOCUMENT["streams"], strict=True)),
    ids=[stream.name for stream in route.STREAMS],
)


def post(api: TestClient, person: Person, stream: dict[str, Any], *sent: Any) -> Any:
    """The results of events that were sent according to the document."""
    answer = api.request(
        stream["endpoint"]["method"],
        stream["endpoint"]["path"],
        content=json.dumps({"events": sent}),
        headers={"Content-Type": stream["content_type"]} | person.headers(stream["scope"]),
    )
    return answer.json()


def test_it_needs_no_credential_and_may_be_cached(api: TestClient) -> None:
    answer = api.get(PATH)

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "public, max-age=300"
    assert answer.json() == DOCUMENT


def test_the_example_of_the_description_is_the_document_itself() -> None:
    assert json.loads((EXAMPLES / "ingest_schema.json").read_text()) == DOCUMENT


def test_it_describes_the_stream_of_app_sessions() -> None:
    assert {name: value for name, value in APP_SESSIONS.items() if name != "event_schema"} == {
        "name": "app_sessions",
        "endpoint": {"method": "POST", "path": "/api/v1/ingest/app-sessions"},
        "scope": "ingest:app_sessions",
        "content_type": "application/json",
        "idempotency": {
            "field": "idempotency_key",
            "required": False,
            "max_length": 200,
            "unique_per": "user and stream",
            "derived_from": ["stream", "device", "app", "started_at"],
            "algorithm": "sha256",
            "on_repeat": "ignored",
        },
        "limits": {
            "max_events": 1000,
            "max_body_bytes": 41943040,
            "max_session_ms": 86400000,
            "max_future_ms": 3600000,
            "min_timestamp": "2000-01-01T00:00:00.000Z",
        },
        "example": {
            "idempotency_key": "laptop:42",
            "started_at": "2025-06-16T09:00:00Z",
            "ended_at": "2025-06-16T09:01:24Z",
            "app": "Code",
            "title": "main.py",
        },
    }


def test_coding_sessions_differ_in_address_scope_fields_and_identity() -> None:
    assert CODING_SESSIONS["name"] == "coding_sessions"
    assert CODING_SESSIONS["endpoint"]["path"] == "/api/v1/ingest/coding-sessions"
    assert CODING_SESSIONS["scope"] == "ingest:coding_sessions"
    assert CODING_SESSIONS["limits"] == APP_SESSIONS["limits"]
    assert CODING_SESSIONS["idempotency"] == APP_SESSIONS["idempotency"] | {
        "derived_from": ["stream", "device", "project", "language", "file", "started_at"]
    }


def test_it_describes_a_request_and_its_answer() -> None:
    codes = DOCUMENT["rejection_codes"]

    assert list(DOCUMENT) == [
        "version", "streams", "request", "result", "rejection_codes", "advice",
    ]  # fmt: skip
    assert DOCUMENT["version"] == "1.0.0"
    assert DOCUMENT["request"] == {
        "fields": {"events": "array, 1000 items at most", "client": {"name": "string, optional"}}
    }
    assert DOCUMENT["result"] == {"fields": ["accepted", "duplicates", "rejected", "server_time"]}
    assert [entry["code"] for entry in codes] == list(events.CODES)
    assert codes[1] == {
        "code": "missing_field",
        "message": "a required field is absent or null",
    }
    assert DOCUMENT["advice"] == {
        "flush_interval_ms": 60000,
        "retry": "same keys, exponential backoff from 1 s to 5 min on 429/5xx",
    }


def test_the_schema_of_an_app_session_describes_its_fields() -> None:
    schema = APP_SESSIONS["event_schema"]

    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["type"] == "object"
    assert schema["required"] == ["started_at", "app"]
    assert [branch["required"] for branch in schema["anyOf"]] == [["ended_at"], ["duration_ms"]]
    assert set(schema["properties"]) == {
        "idempotency_key", "started_at", "ended_at", "duration_ms", "app", "title", "url",
        "category", "idle", "device", "platform", "utc_offset", "metadata",
    }  # fmt: skip
    assert schema["properties"]["platform"]["anyOf"] == [
        {
            "type": "string",
            "enum": ["macos", "windows", "linux", "android", "ios", "web", "other"],
        },
        {"type": "string", "pattern": r"^\s*$"},
        {"type": "null"},
    ]
    assert schema["properties"]["duration_ms"] == {
        "type": ["integer", "null"],
        "description": "Its length, in milliseconds.",
        "minimum": 0,
        "maximum": 86400000,
    }


@each_stream
def test_the_schema_of_an_event_is_valid_by_its_own_dialect(stream: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(stream["event_schema"])

    assert stream["event_schema"]["$schema"] == Draft202012Validator.META_SCHEMA["$id"]


def test_the_example_of_each_stream_is_accepted(api: TestClient, alice: Person) -> None:
    document = api.get(PATH).json()

    results = [
        post(api, alice, stream, stream["example"]) | {"server_time": None}
        for stream in document["streams"]
    ]

    counts = {"accepted": 1, "duplicates": 0, "rejected": [], "server_time": None}
    assert results == [counts, counts]


@each_stream
def test_the_example_fits_its_schema(stream: dict[str, Any]) -> None:
    Draft202012Validator(stream["event_schema"]).validate(stream["example"])


def without_end(stream: dict[str, Any]) -> dict[str, Any]:
    """An event of a minute without a key, to which something may be added."""
    left_out = ("idempotency_key", "ended_at", "duration_ms")
    rest = {name: value for name, value in stream["example"].items() if name not in left_out}
    return rest | {"duration_ms": 60_000}


@each_stream
def test_limits_are_those_of_the_document(
    api: TestClient, alice: Person, stream: dict[str, Any]
) -> None:
    limits, event = stream["limits"], without_end(stream)
    earliest = datetime.fromisoformat(limits["min_timestamp"])
    key = "k" * stream["idempotency"]["max_length"]
    within = [
        event | {"duration_ms": limits["max_session_ms"]},
        event | {"started_at": limits["min_timestamp"]},
        event | {"idempotency_key": key},
    ]
    beyond = [
        event | {"duration_ms": limits["max_session_ms"] + 1},
        event | {"started_at": earliest.replace(year=earliest.year - 1).isoformat()},
        event | {"idempotency_key": key + "k"},
    ]

    taken = post(api, alice, stream, *within)
    refused = post(api, alice, stream, *beyond)
    full = post(api, alice, stream, *[event] * limits["max_events"])
    overfull = post(api, alice, stream, *[event] * (limits["max_events"] + 1))

    assert taken["accepted"] == 3
    assert [entry["code"] for entry in refused["rejected"]] == [
        "duration_too_long",
        "timestamp_out_of_range",
        "string_too_long",
    ]
    assert full["duplicates"] == 1000
    assert overfull["error"] == "batch_too_large"


@pytest.mark.parametrize(
    ("stream", "changes"),
    [
        (
            APP_SESSIONS,
            {
                "device": "phone", "app": "Terminal", "started_at": "2025-06-16T09:00:01Z",
                "title": "x", "url": "https://example.com", "category": "x", "idle": True,
                "platform": "linux", "utc_offset": "+02:00", "metadata": {"x": 1},
                "duration_ms": 1,
            },
        ),
        (
            CODING_SESSIONS,
            {
                "device": "phone", "project": "x", "started_at": "2025-06-16T09:00:01Z",
                "language": "x", "file": "x", "branch": "x", "editor": "x", "activity": "testing",
                "lines_added": 1, "lines_removed": 1, "is_write": True, "platform": "linux",
                "utc_offset": "+02:00", "metadata": {"x": 1}, "duration_ms": 1,
            },
        ),
    ],
    ids=["app_sessions", "coding_sessions"],
)  # fmt: skip
def test_events_without_a_key_are_identified_by_the_documented_fields(
    api: TestClient, alice: Person, stream: dict[str, Any], changes: dict[str, Any]
) -> None:
    event = without_end(stream)
    post(api, alice, stream, event)

    new = {
        name
        for name in changes
        if post(api, alice, stream, event | {name: changes[name]})["accepted"]
    }

    assert new == set(stream["idempotency"]["derived_from"]) - {"stream"}
    assert set(changes) >= set(stream["event_schema"]["properties"]) - {
        "idempotency_key",
        "ended_at",
    }


# The schema and ingest

BY_SHAPE: Final = {
    "missing_field",
    "invalid_type",
    "invalid_timestamp",
    "empty_string",
    "string_too_long",
    "invalid_value",
}
"""Codes of events that do not fit their schema. Those of other codes may fit: no schema adds times up."""

letters = st.sampled_from("aZ0é/:\0\n\t \x1c\x85\u0301\u03b1\u2003\u4e00\ufeff\U0001f600")
any_text = st.text(letters, max_size=6)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_text,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.just("a"), inner),
    max_leaves=3,
)  # fmt: skip
instants = st.builds(
    "{}{}{}".format,
    st.sampled_from(["2025-06-16T09:00:00", "2025-06-16t09:00:59.1234", "2025-06-16T24:00:00"])
    | st.sampled_from(["2025-06-16", "2025-06-16T09:00:60", "2025-06-16 09:00:00"]),
    st.sampled_from(["Z", "z", "+00:00", "-23:59", "+24:00", ""]),
    st.sampled_from(["", "", " ", "\n"]),
)
choices = st.sampled_from(["linux", "Linux", "linux\n", "testing", "", " \n"])
offsets = st.sampled_from(["+02:00", "-23:59", "+02:00\n", "+24:00", "+2", "", " "])


def texts(limit: int) -> st.SearchStrategy[str]:
    """Texts at the limit or just beyond it; an e and an acute accent compose to one character."""
    most = "a" * limit
    edges = [most, f"{most}a", f" {most}\n", f" {most}a\n", "e\u0301" * limit, f"{most[1:]} a"]
    return st.sampled_from([*edges, "", " \n", "a\0", "a\x85b", "\x9f"])


def numbers(limit: int) -> st.SearchStrategy[Any]:
    """Numbers at both limits, just beyond them, and halves."""
    return st.sampled_from([-1, 0, 0.0, 0.5, 5, 5.0, limit, float(limit), limit + 1])


def values(kind: fields.Kind) -> st.SearchStrategy[Any]:
    """Values for a field, of which most have its type."""
    match kind:
        case fields.Key() | fields.Name() | fields.Text() | fields.Address():
            typical = texts(kind.limit)
        case fields.Duration():
            typical = numbers(events.MAX_SESSION_MS)
        case fields.Count():
            typical = numbers(kind.limit)
        case _:
            typical = instants | choices | offsets
    return typical | anything


def rejection_of(stream: Stream, event: Any) -> tuple[str | None, str]:
    """Return code and message of the rejection of ``event``; None and nothing if it is accepted."""
    batch = read_batch({"events": [event]})
    rejected = judge(stream, batch, now_ms=NOON_MS, full_urls=False).rejected
    return (rejected[0]["code"], rejected[0]["message"]) if rejected else (None, "")


def compare(stream: Stream, schema: dict[str, Any], event: dict[str, Any]) -> None:
    """Assert that the schema and ingest agree about the shape of an event."""
    code, message = rejection_of(stream, event)
    name = message.partition(":")[0]
    is_unstated = (code == "string_too_long" and max(event[name]) >= "\u0300") or (
        code == "invalid_value" and name in ("metadata", "unknown")
    )
    fits = Draft202012Validator(schema).is_valid(event)
    if code is None:
        assert fits, event
    elif code in BY_SHAPE and not is_unstated:
        assert not fits, (code, message)


@each_pair
@given(data=st.data())
def test_an_event_that_is_accepted_fits_its_schema_and_one_of_another_shape_does_not(
    stream: Stream, published: dict[str, Any], data: st.DataObject
) -> None:
    schema, example = published["event_schema"], published["example"]
    drawn = data.draw(
        st.fixed_dictionaries({name: values(kind) for name, kind in stream.fields.items()})
    )
    left_out = data.draw(st.sets(st.sampled_from([*drawn])))

    for name, value in drawn.items():
        compare(stream, schema, example | {name: value})
        compare(stream, schema, {each: example[each] for each in example if each != name})
    compare(stream, schema, {name: drawn[name] for name in drawn if name not in left_out})


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"started_at": "2025-02-29T09:00:00Z"}, "invalid_timestamp"),
        ({"started_at": "1999-12-31T23:59:59Z"}, "timestamp_out_of_range"),
        ({"started_at": "2025-06-17T09:00:00Z"}, "timestamp_in_future"),
        ({"ended_at": "2025-06-16T08:59:59Z"}, "invalid_interval"),
        ({"duration_ms": 1}, "duration_mismatch"),
        ({"metadata": {"a": "\0"}}, "invalid_value"),
        ({"metadata": {"a": "a" * 4096}}, "invalid_value"),
        ({"unknown": json.loads("[" * 32 + "]" * 32)}, "invalid_value"),
        ({"app": "\u0301" * 256}, "string_too_long"),
        ({"app": "\ud800"}, "invalid_value"),
    ],
)  # fmt: skip
def test_rules_outside_the_schema_reject_events_that_fit_it(
    changes: dict[str, Any], code: str
) -> None:
    event = APP_SESSIONS["example"] | changes

    assert rejection_of(events.APP_SESSIONS, event)[0] == code
    assert Draft202012Validator(APP_SESSIONS["event_schema"]).is_valid(event)


@pytest.mark.parametrize("event", [None, True, 5, "x", [], [[]]])
@each_pair
def test_a_value_that_is_no_object_fits_no_schema(
    stream: Stream, published: dict[str, Any], event: Any
) -> None:
    assert rejection_of(stream, event)[0] == "not_an_object"
    assert not Draft202012Validator(published["event_schema"]).is_valid(event)

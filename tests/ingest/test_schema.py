"""What trackers find out before they send anything, held against what becomes of what they then send."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from starlette.testclient import TestClient

from resourceserver.description.openapi import EXAMPLES
from resourceserver.ingest import events, route
from resourceserver.ingest import schema as ingest_schema
from resourceserver.ingest.events import Stream, judge, read_batch
from tests.conftest import Person

PATH: Final = "/api/v1/ingest/schema"
NOON_MS: Final = 1_750_075_200_000
"""2025-06-16T12:00:00Z."""
NINE: Final = datetime(2025, 6, 16, 9, tzinfo=UTC)

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
    """What becomes of events that are sent as the document says."""
    answer = api.request(
        stream["endpoint"]["method"],
        stream["endpoint"]["path"],
        content=json.dumps({"events": sent}),
        headers={"Content-Type": stream["content_type"]} | person.headers(stream["scope"]),
    )
    return answer.json()


def test_it_needs_no_credential_and_may_be_kept_for_a_while(api: TestClient) -> None:
    answer = api.get(PATH)

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "public, max-age=300"
    assert answer.json() == DOCUMENT


def test_the_example_of_the_description_is_the_document_itself() -> None:
    assert json.loads((EXAMPLES / "ingest_schema.json").read_text()) == DOCUMENT


def test_it_says_how_app_sessions_are_sent() -> None:
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


def test_coding_sessions_differ_in_address_scope_fields_and_what_tells_them_apart() -> None:
    assert CODING_SESSIONS["name"] == "coding_sessions"
    assert CODING_SESSIONS["endpoint"]["path"] == "/api/v1/ingest/coding-sessions"
    assert CODING_SESSIONS["scope"] == "ingest:coding_sessions"
    assert CODING_SESSIONS["limits"] == APP_SESSIONS["limits"]
    assert CODING_SESSIONS["idempotency"] == APP_SESSIONS["idempotency"] | {
        "derived_from": ["stream", "device", "project", "language", "file", "started_at"]
    }


def test_it_says_what_a_request_and_an_answer_are_made_of() -> None:
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


def test_the_schema_of_an_app_session_says_what_it_has() -> None:
    schema = APP_SESSIONS["event_schema"]

    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["type"] == "object"
    assert schema["required"] == ["started_at", "app"]
    assert [branch["required"] for branch in schema["anyOf"]] == [["ended_at"], ["duration_ms"]]
    assert set(schema["properties"]) == {
        "idempotency_key", "started_at", "ended_at", "duration_ms", "app", "title", "url",
        "category", "idle", "device", "platform", "utc_offset", "metadata",
    }  # fmt: skip
    assert schema["properties"]["app"] == {"type": "string", "maxLength": 255, "pattern": r"\S"}
    assert schema["properties"]["duration_ms"] == {
        "type": ["integer", "null"],
        "minimum": 0,
        "maximum": 86400000,
    }


@each_stream
def test_the_schema_of_an_event_is_valid_by_its_own_dialect(stream: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(stream["event_schema"])

    assert stream["event_schema"]["$schema"] == Draft202012Validator.META_SCHEMA["$id"]


def test_the_example_of_each_stream_is_taken_as_it_stands(api: TestClient, alice: Person) -> None:
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
def test_limits_are_where_the_document_says(
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
def test_events_without_a_key_differ_by_what_the_document_says_and_nothing_else(
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


# The schema and the judge

UNSAID: Final = {
    "invalid_timestamp",
    "timestamp_out_of_range",
    "timestamp_in_future",
    "invalid_interval",
    "duration_mismatch",
    "duration_too_long",
    "invalid_value",
}
"""Why an event may be rejected that fits its schema."""

any_text = st.text(max_size=5) | st.sampled_from(["", " ", "\0", "\ud800", "x" * 300, "x" * 1025])
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=6,
)


def values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that fit the schema of a property."""
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return st.one_of([_values(kind, schema) for kind in types])


def _values(kind: str, schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    if kind == "string":
        return _strings(schema)
    if kind == "integer":
        whole = st.integers(schema["minimum"], schema["maximum"])
        return whole | whole.map(float) | st.integers(0, 60_000)
    return {
        "null": st.none(),
        "boolean": st.booleans(),
        "object": st.dictionaries(any_text, anything, max_size=3),
    }[kind]


def _strings(schema: dict[str, Any]) -> st.SearchStrategy[str]:
    if "enum" in schema:
        return st.sampled_from([word for word in schema["enum"] if word is not None])
    if schema.get("format") == "date-time":
        # Within an hour, so that most ends come after their starts or soon before.
        return st.integers(0, 3600).map(
            lambda seconds: (NINE + timedelta(seconds=seconds)).isoformat()
        )
    if "maxLength" not in schema:
        return st.from_regex(schema["pattern"], fullmatch=True)
    return (st.text(max_size=5) | st.just("x" * schema["maxLength"])).filter(
        lambda text: "pattern" not in schema or bool(text.strip())
    )


def fitting(schema: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Events that fit ``schema``."""
    made = {name: values(of) for name, of in schema["properties"].items()}
    always = [*schema["required"], *schema["anyOf"][0]["required"]]
    return st.fixed_dictionaries(
        {name: made[name].filter(lambda value: value is not None) for name in always},
        optional={name: strategy for name, strategy in made.items() if name not in always},
    )


def code_of(stream: Stream, event: Any) -> str | None:
    """Why the server rejects ``event``, None where it takes it."""
    rejected = judge(
        stream, read_batch({"events": [event]}), now_ms=NOON_MS, full_urls=False
    ).rejected
    return str(rejected[0]["code"]) if rejected else None


@each_pair
@given(data=st.data())
def test_what_is_drawn_from_the_schema_is_rejected_for_nothing_that_a_schema_can_say(
    stream: Stream, published: dict[str, Any], data: st.DataObject
) -> None:
    event = data.draw(fitting(published["event_schema"]))

    code = code_of(stream, event)

    assert Draft202012Validator(published["event_schema"]).is_valid(event)
    assert code is None or code in UNSAID


@each_pair
@given(data=st.data())
def test_the_schema_and_the_judge_agree_about_whatever_a_tracker_makes_of_the_example(
    stream: Stream, published: dict[str, Any], data: st.DataObject
) -> None:
    schema, event = published["event_schema"], dict(published["example"])
    for name in data.draw(st.lists(st.sampled_from([*schema["properties"]]), max_size=3)):
        event[name] = data.draw(values(schema["properties"][name]) | anything)
        if data.draw(st.booleans()):
            del event[name]

    code = code_of(stream, event)

    misfits = list(Draft202012Validator(schema).iter_errors(event))
    if not misfits:
        assert code is None or code in UNSAID
    elif code is None:
        # What the server is more generous about than its schema.
        for misfit in misfits:
            (name,) = misfit.absolute_path
            assert misfit.validator == "maxLength" or name == "activity" or not event[name].strip()


@pytest.mark.parametrize("event", [None, True, 5, "x", [], [[]]])
@each_pair
def test_what_is_no_object_fits_no_schema(
    stream: Stream, published: dict[str, Any], event: Any
) -> None:
    assert code_of(stream, event) == "not_an_object"
    assert not Draft202012Validator(published["event_schema"]).is_valid(event)

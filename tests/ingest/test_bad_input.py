"""Arbitrary input: three counts that add up or the one right refusal, and no row that breaks a limit."""

import json
import math
import re
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.rows import dict_row
from starlette.testclient import TestClient

from resourceserver.ingest.events import APP_SESSIONS, CODES, CODING_SESSIONS, Stream
from tests.conftest import Person

each_stream = pytest.mark.parametrize(
    "stream", [APP_SESSIONS, CODING_SESSIONS], ids=lambda stream: stream.name
)

any_text = st.text(st.characters(exclude_categories=()), max_size=8)


def values(floats: st.SearchStrategy[float]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none() | st.booleans() | st.integers() | floats | any_text,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
        max_leaves=6,
    )


anything = values(st.floats(allow_nan=False, allow_infinity=False))
anything_in_python = values(st.floats())
"""The same with NaN and Infinity, which JSON does not have."""


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def about(limit: int) -> st.SearchStrategy[str]:
    """Texts around a limit, of characters with one or four bytes, or that become fewer when composed."""
    characters = st.sampled_from(["x", "x", "\U0001f4bb", "e\u0301", "\u0390", " "])
    return st.builds(lambda each, by: each * (limit + by), characters, st.integers(0, 1))


instants = st.sampled_from(
    [
        "2025-06-16T09:00:00Z",
        "2025-06-17T08:59:59.999Z",
        "2025-06-17T11:00:00.0005+02:00",
        "2025-06-17T09:00:00.001Z",
        "2000-01-01T00:00:00Z",
        "1999-12-31T23:59:59.999Z",
        "2016-12-31T23:59:60Z",
        "2025-02-29T09:00:00Z",
        "2999-01-01T00:00:00Z",
        "2025-06-16 09:00:00",
        "",
    ]
)
numbers = st.sampled_from([0, -1, 5.0, 5.5, 86_400_000, 86_400_001, 10**7, 10**7 + 1, 10**400])
fields: dict[str, st.SearchStrategy[Any]] = {
    "idempotency_key": about(200) | any_text,
    "started_at": instants,
    "ended_at": instants,
    "duration_ms": numbers,
    "app": about(255) | any_text,
    "project": about(255) | any_text,
    "title": about(1024) | any_text,
    "url": st.builds("https://{}".format, about(2040) | any_text)
    | st.just("HTTP://u:p@www.Example.com:80/a?b#c"),
    "category": about(64) | any_text,
    "idle": st.booleans(),
    "device": about(128) | any_text,
    "platform": st.sampled_from(["linux", "Linux", "beos", ""]),
    "utc_offset": st.sampled_from(["+02:00", "-23:59", "+24:00", "Z", ""]),
    "metadata": st.sampled_from(
        [
            {"m": "x" * 4088},
            {"m": "x" * 4089},
            {"m": "\u20ac" * 1362},
            {"m": "\u20ac" * 1363},
            {"m": nested(30)},
            {"m": nested(31)},
            {"m\0": 1},
            {"m": [1.50, None, -0.0, 10**400]},
        ]
    ),
    "language": about(64) | any_text,
    "file": about(1024) | any_text,
    "branch": about(255) | any_text,
    "editor": about(64) | any_text,
    "activity": st.sampled_from(["testing", "napping", "a\0", ""]),
    "lines_added": numbers,
    "lines_removed": numbers,
    "is_write": st.booleans(),
    "unknown": st.builds(nested, st.integers(30, 33)) | numbers,
}


def valid(stream: Stream) -> dict[str, Any]:
    return dict.fromkeys(stream.required, "x") | {
        "started_at": "2025-06-16T09:00:00Z",
        "ended_at": "2025-06-16T09:00:01Z",
    }


def near(stream: Stream) -> st.SearchStrategy[dict[str, Any]]:
    """Events that are valid but for a field or two, if that."""
    changes = st.sampled_from([*stream.fields, "unknown"]).flatmap(
        lambda name: st.tuples(st.just(name), st.one_of(*[fields[name]] * 7, anything))
    )
    return st.lists(changes, max_size=2).map(lambda changed: valid(stream) | dict(changed))


names = st.none() | about(128) | st.sampled_from(["/", " laptop /1", "e\u0301/2", "x" * 300])
clients = st.none() | st.builds(lambda name: {"name": name}, names)


@dataclass(frozen=True)
class Tracker:
    """Sends any bytes as the tracker of one stream."""

    api: TestClient
    person: Person
    stream: Stream
    headers: dict[str, str]

    def post(self, body: bytes) -> Any:
        """Post ``body`` as JSON without any check."""
        path = f"/api/v1/ingest/{self.stream.name.replace('_', '-')}"
        headers = {"Content-Type": "application/json"} | self.headers
        return self.api.post(path, content=body, headers=headers)

    def assert_answered_rightly(self, body: Any) -> None:
        """Post ``body`` to an empty account, and check the answer and the rows.

        If it has events, a valid one is added to them, which is written in any case.
        """
        self.person.connection.execute("delete from activity.device")
        refusal = refusal_of(body)
        if refusal is None:
            body = body | {"events": [*body["events"], valid(self.stream)]}
        answer = self.post(json.dumps(body).encode())
        if refusal is not None:
            assert answer.status_code == 400
            assert (answer.json()["error"], answer.json().get("parameter")) == refusal
            return
        assert answer.status_code == 200, answer.text
        result = answer.json()
        indexes = [entry["index"] for entry in result["rejected"]]
        assert result["accepted"] + result["duplicates"] + len(indexes) == len(body["events"])
        assert indexes == sorted(set(indexes))
        assert set(indexes) <= set(range(len(body["events"]) - 1))
        assert result["accepted"] > 0
        for entry in result["rejected"]:
            assert entry["code"] in CODES
            assert re.match(r"\w+: \w", entry["message"])
        rows = self.rows()
        assert len(rows) == result["accepted"]
        for row in rows:
            assert_within_limits(row)

    def rows(self) -> list[dict[str, Any]]:
        """Return the stored rows of this stream."""
        return (
            self.person.connection.cursor(row_factory=dict_row)
            .execute(
                "select session.*, session.metadata::text as metadata, name as device, platform"  # noqa: S608
                f" from activity.{self.stream.name.removesuffix('s')} as session"
                " join activity.device using (user_id, device_id)"
            )
            .fetchall()
        )


@pytest.fixture
def tracker(api: TestClient, alice: Person, stream: Stream) -> Tracker:
    return Tracker(api, alice, stream, alice.headers(f"ingest:{stream.name}"))


@each_stream
@given(data=st.data())
def test_any_batch_of_events_that_are_nearly_right_is_counted_or_refused(
    tracker: Tracker, data: st.DataObject
) -> None:
    drawn = data.draw(st.lists(near(tracker.stream), min_size=8, max_size=16))
    # Else most would have the same key.
    events = [{"idempotency_key": f"{number}"} | event for number, event in enumerate(drawn)]
    body = {"events": [*events, data.draw(anything)], "client": data.draw(clients)}

    tracker.assert_answered_rightly(body)


@each_stream
@given(
    body=anything_in_python
    | st.dictionaries(st.sampled_from(["events", "client", "x"]), anything_in_python)
)
def test_any_json_is_counted_or_refused(tracker: Tracker, body: Any) -> None:
    tracker.assert_answered_rightly(body)


@each_stream
@given(body=st.binary(max_size=64) | st.text(max_size=32).map(str.encode))
def test_any_bytes_are_refused(tracker: Tracker, body: bytes) -> None:
    answer = tracker.post(body)

    assert (answer.status_code, answer.json()["error"]) in (
        (400, "invalid_json"),
        (400, "invalid_request"),
    )


def refusal_of(body: Any) -> tuple[str, str | None] | None:
    """Return the code and the parameter with which a body is refused as a whole, if it is."""
    if has_no_json(body):
        return "invalid_json", None
    if not isinstance(body, dict):
        return "invalid_request", None
    if not isinstance(body.get("events"), list):
        return "invalid_request", "events"
    client = body.get("client")
    if not (client is None or isinstance(client, dict)):
        return "invalid_request", "client"
    name = None if client is None else client.get("name")
    if not (name is None or (isinstance(name, str) and is_text(name))):
        return "invalid_request", "client.name"
    return None


def has_no_json(value: Any) -> bool:
    """Tell whether a value contains NaN or Infinity, which JSON does not have."""
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(map(has_no_json, value.values()))
    return isinstance(value, list) and any(map(has_no_json, value))


def is_text(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= each <= "\udfff" for each in text)


LONGEST = {
    "idempotency_key": 200,
    "app": 255,
    "project": 255,
    "title": 1024,
    "url": 2048,
    "category": 64,
    "device": 128,
    "source": 128,
    "language": 64,
    "file": 1024,
    "branch": 255,
    "editor": 64,
}
NAMES = ("app", "project", "category", "device", "language", "branch", "editor")
PLATFORMS = (None, "macos", "windows", "linux", "android", "ios", "web", "other")
ACTIVITIES = (
    "coding",
    "debugging",
    "building",
    "testing",
    "reviewing",
    "writing_docs",
    "ai_coding",
    "other",
)


def assert_within_limits(row: dict[str, Any]) -> None:
    assert datetime(2000, 1, 1, tzinfo=UTC) <= row["started_at"] <= row["ended_at"]
    assert row["ended_at"] <= row["started_at"] + timedelta(hours=24)
    assert row["ended_at"] <= datetime.now(UTC) + timedelta(hours=1)
    assert row["started_at"].microsecond % 1000 == row["ended_at"].microsecond % 1000 == 0
    texts = {name: row[name] for name in LONGEST if row.get(name) is not None}
    for name, text in texts.items():
        assert 1 <= len(text) <= LONGEST[name], name
        assert text.strip(), name
    for name in NAMES:
        name_in_row = texts.get(name, "x")
        assert name_in_row == name_in_row.strip()
        assert unicodedata.is_normalized("NFC", name_in_row)
    assert not re.search("[\0-\x1f\x7f-\x9f]", row["idempotency_key"])
    assert re.match(r"https?://[^/?#@]+(/[^?#]*)?\Z", texts.get("url", "http://x"))
    assert row["platform"] in PLATFORMS
    assert re.fullmatch(r"[+-]([01]\d|2[0-3]):[0-5]\d", row["utc_offset"] or "+00:00")
    assert len((row["metadata"] or "").encode()) <= 4096
    assert isinstance(json.loads(row["metadata"] or "{}"), dict)
    assert row.get("activity", "other") in ACTIVITIES
    for name in ("lines_added", "lines_removed"):
        assert 0 <= (row.get(name) or 0) <= 10_000_000

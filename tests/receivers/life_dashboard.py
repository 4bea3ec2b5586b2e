"""Messages of Life Dashboard Companion for tests: a schema of what it sends, and strategies.

The schema is written from the application's description of its messages (`docs/webhook.md` and
`docs/webhook-schema.json` in its repository), for the types that are kept.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from hypothesis import strategies as st
from jsonschema import Draft7Validator

START: Final = datetime(2026, 3, 1, tzinfo=UTC)
"""The earliest instant of the strategies' measurements."""
HOUR: Final = timedelta(hours=1)
SLOTS: Final = 48
"""The hours in which there are measurements."""

_TEXT: Final = {"type": "string"}
_TIME: Final = {"type": "string", "format": "date-time"}
_NUMBER: Final = {"type": "number"}
_INTEGER: Final = {"type": "integer"}


def _object(required: Mapping[str, Any], optional: Mapping[str, Any], *, more: bool) -> Any:
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": more,
    }


def _record(**required: Any) -> Any:
    return _object(required, {"source": _TEXT, "uuid": _TEXT}, more=True)


def _at(**required: Any) -> Any:
    return _record(**required, time=_TIME)


def _during(**required: Any) -> Any:
    return _record(**required, start_time=_TIME, end_time=_TIME)


def _bucket(**required: Any) -> Any:
    window = {"bucket_start": _TIME, "bucket_end": _TIME, "sample_count": _INTEGER}
    sources = {"sources": {"type": "array", "items": _TEXT}}
    return _object(window | required, sources, more=False)


_SUMMED: Final = _bucket(total=_NUMBER)
_AVERAGED: Final = _bucket(avg=_NUMBER, min=_NUMBER, max=_NUMBER)
_STAGE: Final = _object(
    {"stage": _TEXT, "start_time": _TIME, "end_time": _TIME},
    {"duration_seconds": _INTEGER},
    more=True,
)
_SLEEP: Final = _object(
    {"session_end_time": _TIME, "duration_seconds": _INTEGER},
    {"stages": {"type": "array", "items": _STAGE}, "source": _TEXT, "uuid": _TEXT},
    more=True,
)
_DAY: Final = _object(
    {"date": {"type": "string", "format": "date"}},
    {
        "steps": _INTEGER,
        "distance_meters": _NUMBER,
        "active_calories": _NUMBER,
        "total_calories": _NUMBER,
    },
    more=False,
)
_LISTS: Final = {
    "steps": {"oneOf": [_during(count=_INTEGER), _SUMMED]},
    "distance": {"oneOf": [_during(meters=_NUMBER), _SUMMED]},
    "active_calories": {"oneOf": [_during(calories=_NUMBER), _SUMMED]},
    "heart_rate": {"oneOf": [_at(bpm=_INTEGER), _AVERAGED]},
    "oxygen_saturation": {"oneOf": [_at(percentage=_NUMBER), _AVERAGED]},
    "respiratory_rate": {"oneOf": [_at(rate=_NUMBER), _AVERAGED]},
    "heart_rate_variability": {
        "oneOf": [_at(heart_rate_variability_millis=_NUMBER), _AVERAGED],
    },
    "weight": _at(kilograms=_NUMBER),
    "blood_pressure": _at(systolic=_NUMBER, diastolic=_NUMBER),
    "hydration": _during(liters=_NUMBER),
    "sleep": _SLEEP,
    "daily_totals": _DAY,
}
_MESSAGE: Final = _object(
    {
        "timestamp": _TIME,
        "app_version": _TEXT,
        "source": {"enum": ["health_connect", "healthkit_ios", "screen_time"]},
    },
    {name: {"type": "array", "items": items} for name, items in _LISTS.items()},
    more=True,
)
VALIDATOR: Final = Draft7Validator(_MESSAGE)


class Part(NamedTuple):
    """An element of one of the lists of a message."""

    list_name: str
    element: dict[str, Any]
    is_bucket: bool
    """Whether it is added each time that it comes, so that it is in one message alone."""


def message(parts: list[Part], number: int) -> dict[str, Any]:
    """Return the message with these parts; each number gives another message."""
    made: dict[str, Any] = {
        "timestamp": _written(START + 2 * SLOTS * HOUR + timedelta(seconds=number)),
        "app_version": "2.4.0",
        "source": "health_connect",
    }
    for part in parts:
        made.setdefault(part.list_name, []).append(part.element)
    VALIDATOR.validate(made)
    return made


def _written(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


_SUMS: Final = {
    "steps": ("count", st.integers(0, 20_000)),
    "distance": ("meters", st.floats(0, 50_000).map(lambda value: round(value, 2))),
    "active_calories": ("calories", st.floats(0, 4_000).map(lambda value: round(value, 3))),
}
_MEANS: Final = {
    "heart_rate": ("bpm", st.integers(30, 220), st.floats(30, 220)),
    "oxygen_saturation": ("percentage", st.floats(70, 100), st.floats(70, 100)),
    "heart_rate_variability": (
        *("heart_rate_variability_millis", st.floats(5, 200)),
        st.floats(5, 200),
    ),
}


@st.composite
def parts(draw: st.DrawFn) -> list[Part]:
    """Return measurements: in each hour of each type records, or the parts of one bucket, or nothing."""
    found = []
    for name in [*_SUMS, *_MEANS]:
        for slot in draw(st.sets(st.integers(0, SLOTS - 1), max_size=4)):
            at = START + slot * HOUR
            if draw(st.booleans()):
                found += _buckets(draw, name, at)
            else:
                found.append(Part(name, _drawn_record(draw, name, at), is_bucket=False))
    return found


def _drawn_record(draw: st.DrawFn, name: str, at: datetime) -> dict[str, Any]:
    element: dict[str, Any] = {}
    if name in _SUMS:
        member, numbers = _SUMS[name]
        element[member] = draw(numbers)
        element |= {"start_time": _written(at), "end_time": _written(at + HOUR)}
    else:
        member, numbers, _ = _MEANS[name]
        element |= {member: draw(numbers), "time": _written(at)}
    if draw(st.booleans()):
        element["uuid"] = str(draw(st.uuids()))
    element["source"] = "com.example.watch"
    return element


def _buckets(draw: st.DrawFn, name: str, at: datetime) -> list[Part]:
    made = []
    for _ in range(draw(st.integers(1, 3))):
        element: dict[str, Any] = {
            "bucket_start": _written(at),
            "bucket_end": _written(at + HOUR),
            "sample_count": draw(st.integers(1, 100)),
            "sources": ["com.example.watch"],
        }
        if name in _SUMS:
            element["total"] = draw(_SUMS[name][1])
        else:
            mean = draw(_MEANS[name][2])
            element |= {"avg": mean, "min": mean - 1, "max": mean + 1}
        made.append(Part(name, element, is_bucket=True))
    return made


@st.composite
def deliveries(draw: st.DrawFn, measured: list[Part]) -> list[dict[str, Any]]:
    """Return messages with these parts, in any split and order, some of which come again."""
    count = draw(st.integers(1, 4))
    split: list[list[Part]] = [[] for _ in range(count)]
    for part in measured:
        first = draw(st.integers(0, count - 1))
        split[first].append(part)
        if not part.is_bucket and draw(st.booleans()):
            split[draw(st.integers(0, count - 1))].append(part)
    messages = [message(some, number) for number, some in enumerate(split)]
    again = draw(st.lists(st.sampled_from(messages), max_size=2))
    return draw(st.permutations([*messages, *again]))

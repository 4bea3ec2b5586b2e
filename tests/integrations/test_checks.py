"""What is refused before it is written: whatever passes, the database takes."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resourceserver.integrations.imports import checks
from resourceserver.integrations.records import (
    HeartRate,
    Listen,
    Point,
    Record,
    Sample,
    Sensor,
    Sleep,
)
from tests.integrations.bringing import Importer, counts
from tests.integrations.test_writing import EXAMPLES

AT: Final = datetime(2025, 6, 16, tzinfo=UTC)
WATCH: Final = Sensor("watch")
SAMPLE: Final = Sample("a", "steps", AT, AT, 1, WATCH)
POINT: Final = Point("a", AT, 52.37, 4.89, 12, 3.5, 4, 1.4, 210)
LISTEN: Final = Listen("a", AT, "track", "artist")


@pytest.mark.parametrize("record", [SAMPLE, HeartRate("a", AT, 61, WATCH), POINT])
@pytest.mark.parametrize(("key", "reason"), [("  ", "empty_name"), (7, "invalid_value")])
def test_a_key_of_a_frequent_type_is_a_text_and_not_blank(
    record: Any, key: Any, reason: str
) -> None:
    is_usual = checks.QUICK[type(record)]
    # The rules note the sensor or the device, after which a check is quick.
    assert checks.refusal(record) is None
    assert is_usual(record)

    assert not is_usual(record._replace(key=key))
    assert checks.refusal(record._replace(key=key)) == reason


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (LISTEN, None),
        (LISTEN._replace(track="a\0"), "unstorable_text"),
        (LISTEN._replace(artists=("\ud800",)), "unstorable_text"),
        (LISTEN._replace(track=" "), "empty_name"),
        (LISTEN._replace(track="x" * 1025), "text_too_long"),
        (LISTEN._replace(key=""), "empty_name"),
        (LISTEN._replace(key="x" * 201), "text_too_long"),
        (LISTEN._replace(listened_at=datetime(1, 1, 1, tzinfo=UTC)), "time_out_of_range"),
        (LISTEN._replace(listened_at=datetime(9999, 12, 31, tzinfo=UTC)), "time_out_of_range"),
        (LISTEN._replace(listened_at=datetime(2025, 6, 16)), "invalid_time"),  # noqa: DTZ001 -- no zone
        (LISTEN._replace(played_ms=-1), "value_out_of_range"),
        (LISTEN._replace(recording_mbid="x"), "invalid_value"),
        (SAMPLE, None),
        (SAMPLE._replace(metric_type="luck"), "unknown_metric"),
        (SAMPLE._replace(value=float("nan")), "invalid_value"),
        (SAMPLE._replace(value=float("inf")), "invalid_value"),
        (SAMPLE._replace(value=1e-16), "value_out_of_range"),
        (SAMPLE._replace(ended_at=AT - timedelta(1)), "ends_before_start"),
        (SAMPLE._replace(ended_at=AT + timedelta(3)), "lasts_too_long"),
        (SAMPLE._replace(started_at=datetime(2025, 6, 16)), "invalid_time"),  # noqa: DTZ001 -- no zone
        (SAMPLE._replace(sensor=Sensor("\0")), "unstorable_text"),
        (SAMPLE._replace(utc_offset="+19:00"), "invalid_value"),
        (HeartRate("a", AT, 401, WATCH), "value_out_of_range"),
        (HeartRate("a", AT, 61.5, WATCH), "invalid_value"),  # type: ignore[arg-type] # what a reader may do
        (HeartRate("a", AT, 61, WATCH, None), "invalid_value"),  # type: ignore[arg-type] # what a reader may do
        (Sleep("a", AT, AT, WATCH, 1, 1), "ends_before_start"),
        (POINT, None),
        (POINT._replace(key=""), "empty_name"),
        (POINT._replace(key="x" * 201), "text_too_long"),
        (POINT._replace(key="a\0"), "unstorable_text"),
        (POINT._replace(recorded_at=datetime(1, 1, 1, tzinfo=UTC)), "time_out_of_range"),
        (POINT._replace(latitude=float("nan")), "value_out_of_range"),
        (POINT._replace(latitude=90.1), "value_out_of_range"),
        (POINT._replace(longitude=-180.1), "value_out_of_range"),
        (POINT._replace(accuracy_m=-1), "value_out_of_range"),
        (POINT._replace(altitude_m=float("inf")), "value_out_of_range"),
        (POINT._replace(vertical_accuracy_m=1e9), "value_out_of_range"),
        (POINT._replace(speed_mps=-0.5), "value_out_of_range"),
        (POINT._replace(speed_mps=True), "invalid_value"),
        (POINT._replace(course_deg=361), "value_out_of_range"),
        (POINT._replace(battery_percent=101), "value_out_of_range"),
        (POINT._replace(activity="x" * 1025), "text_too_long"),
        (POINT._replace(device="\0"), "unstorable_text"),
    ],
)
def test_a_record_that_the_database_would_refuse_is_refused_with_a_reason(
    record: Record, reason: str | None
) -> None:
    assert checks.refusal(record) == reason
    is_usual = checks.QUICK.get(type(record))
    assert is_usual is None or is_usual(record) == (reason is None)


WILD: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.text(max_size=8),
    st.just("x" * 1500),
    st.sampled_from(["a", "steps", "+02:00", "NL", "Europe/Berlin", "confirmed", "pushed", "\0"]),
    st.integers(-(2**40), 2**40),
    st.integers(0, 100),
    st.floats(),
    st.datetimes(timezones=st.sampled_from([UTC, None])),
    st.just(AT),
    st.dates(),
    st.just(()),
)
"""Values that readers should not yield, beside some that they should."""


RIGHT: Final = [later or record for record, later in EXAMPLES.values()]


EXTREMES: Final = st.sampled_from(
    [2**40, 2**31, -1, 361, 1001, 1e9, -1e9, 1e300, 1e-300, float("nan"), float("inf"), 0.5]
)


@st.composite
def changed_records(draw: st.DrawFn) -> Any:
    """Return a right record with a few of its values replaced, numbers mostly by numbers."""
    record: Any = draw(st.sampled_from(RIGHT))
    values = {"key": draw(st.sampled_from("ab"))}
    for field in draw(st.lists(st.sampled_from(record._fields[1:]), max_size=2)):
        is_number = type(getattr(record, field)) in (int, float)
        values[field] = draw(EXTREMES if is_number and draw(st.booleans()) else WILD)
    return record._replace(**values)


@given(yielded=st.lists(changed_records(), min_size=5, max_size=40))
def test_whatever_readers_yield_the_sums_are_exact_and_the_database_takes_the_rest(
    importer: Importer, tmp_path: Path, yielded: list[Any]
) -> None:
    receipt = importer.take(tmp_path / "file", *yielded)

    read, new, known, changed, refused = counts(receipt)
    assert read == len(yielded) == new + known + changed + refused
    # Ingest refuses some sessions that pass the checks here.
    assert refused >= sum(checks.refusal(record) is not None for record in yielded)
    assert refused == sum(each["count"] for each in receipt["refused"])
    assert receipt["status"] == "done"


HARD: Final[tuple[Any, ...]] = (
    *(
        None,
        True,
        False,
        "",
        " ",
        "a",
        "\0",
        "\ud800",
        "x" * 201,
        "x" * 1025,
        7,
        "+02:00",
        (),
        (1,),
    ),
    *(
        0,
        -1,
        0.5,
        -0.5,
        91,
        -91.0,
        101,
        181.0,
        -181.0,
        361,
        401,
        2**40,
        1.1e6,
        1.1e8,
        -1.1e8,
        1.1e15,
    ),
    *(1e300, 1e-300, float("nan"), float("inf"), -float("inf"), 10**400),
    *(AT, AT - timedelta(3), AT + timedelta(3), AT.replace(tzinfo=None), AT.date()),
    *(datetime(1899, 12, 31, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)),
    *(Sensor("\0"), Sensor("new"), ("watch",)),
)
"""Values at and beyond limits, and of other types."""


@pytest.mark.parametrize("record", [SAMPLE, HeartRate("a", AT, 61, WATCH), POINT])
def test_a_quick_check_passes_only_what_the_rules_pass(record: Any) -> None:
    # The rules note the sensor or the device, after which a check is quick.
    assert checks.refusal(record) is None
    changed = [record._replace(**{name: value}) for name in record._fields for value in HARD]

    quick = [each for each in changed if _is_quick(each, record)]

    assert [each for each in quick if checks.refusal(each) is not None] == []
    assert len(quick) > len(HARD) / 20


def _is_quick(record: Any, other: Any) -> bool:
    """Return whether a record passes the quick check, and assert that those of columns say the same."""
    is_quick = checks.QUICK[type(record)](record)
    has_usual_texts, are_usual = checks.COLUMNS[type(record)]
    for rows in ([record], [record, other], [other, record, other], [other, record]):
        assert (has_usual_texts(record) and are_usual(rows)) is is_quick, record
    return is_quick

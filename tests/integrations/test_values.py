"""Values as foreign files write them."""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from resourceserver.integrations import values
from resourceserver.integrations.values import Flaw


def test_a_key_is_its_parts_or_a_digest_where_that_is_no_key() -> None:
    assert values.key("ics", "a@b", None, 5) == "ics:a@b::5"
    for parts in (("ics", "x" * 200), ("ics", "a\nb"), ("ics", "\ud800")):
        assert len(values.key(*parts)) == 68
        assert values.key(*parts).startswith("ics:")
    assert len(values.key("x" * 201)) == len(values.key("a\nb")) == 64


@pytest.mark.parametrize(
    ("value", "number"),
    [(5, 5.0), ("5.5", 5.5), (" 5 ", 5.0), (True, None), ("x", None), ("1e400", None), ([], None)],
)
def test_numbers_may_be_text_and_must_be_finite(value: Any, number: float | None) -> None:
    assert values.number(value) == number


def test_huge_whole_numbers_are_no_numbers() -> None:
    assert values.number(10**400) is None
    assert values.number("9" * 5000) is None
    assert values.count(-1) is None
    assert values.count("2.6") == 3


def test_large_whole_numbers_keep_every_digit() -> None:
    # A floating-point number holds 2**53 and 2**53 + 2, and nothing between them.
    assert values.count(2**53 + 1) == values.count(f" {2**53 + 1}") == 2**53 + 1
    assert values.count(True) is values.count(10**400) is values.count("9" * 5000) is None


@pytest.mark.parametrize(
    "text", ["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "noon", "2025-02-30T00:00Z"]
)
def test_times_that_utc_cannot_express_are_flaws(text: str) -> None:
    with pytest.raises(Flaw, match="invalid_time"):
        values.instant(text)


def test_times_without_an_offset_are_local_or_a_flaw() -> None:
    local = values.instant_in("2025-06-16 10:00", ZoneInfo("Europe/Berlin"))

    assert local == datetime(2025, 6, 16, 8, tzinfo=UTC)
    with pytest.raises(Flaw, match="time_without_offset"):
        values.instant("2025-06-16 10:00")
    with pytest.raises(Flaw, match="missing_time"):
        values.instant(None)
    for value in (1e300, "1e300", float("inf"), "x"):
        with pytest.raises(Flaw, match="invalid_time"):
            values.epoch(value)


def test_examples_are_short_and_need_no_whole_value() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    assert values.example({"a": 1, "long": [1] * 1000}) == '{"a": 1}'
    assert values.example("x" * 1000) == "x" * 200
    assert values.example(deep) == "a list that is nested too deeply"

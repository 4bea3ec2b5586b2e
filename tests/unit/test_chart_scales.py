"""Axes have round numbers, and labels of any letters keep to their place."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resourceserver.dashboard.charts.scale import (
    COUNT,
    DURATION,
    NUMBER,
    PERCENT,
    Unit,
    labelled,
    runs,
    scale,
)
from resourceserver.dashboard.charts.svg import cut

HOUR = 3_600_000
MINUTE = 60_000
sizes = st.floats(-1e300, 1e300) | st.integers(-(10**15), 10**15)


@pytest.mark.parametrize(
    ("values", "unit", "expected"),
    [
        ([0, 3 * HOUR], DURATION, ["0", "1 h", "2 h", "3 h"]),
        ([50 * MINUTE], DURATION, ["0", "15 min", "30 min", "45 min", "1 h"]),
        ([90 * MINUTE], DURATION, ["0", "30 min", "1 h", "1.5 h"]),
        ([400 * HOUR], DURATION, ["0", "100 h", "200 h", "300 h", "400 h"]),
        ([12_000], DURATION, ["0", "5 s", "10 s", "15 s"]),
        ([-HOUR, HOUR], DURATION, ["\u22121 h", "\u221230 min", "0", "30 min", "1 h"]),
        ([3], COUNT, ["0", "1", "2", "3"]),
        ([1], COUNT, ["0", "1"]),
        ([91.7], PERCENT, ["0 %", "25 %", "50 %", "75 %", "100 %"]),
        ([40_000], NUMBER, ["0", "10 k", "20 k", "30 k", "40 k"]),
        ([], DURATION, ["0", "1 s"]),
        ([0, 0], COUNT, ["0", "1"]),
    ],
)
def test_an_axis_has_round_numbers(
    values: Sequence[float], unit: Unit, expected: list[str]
) -> None:
    axis = scale(values, unit)

    assert [tick.label for tick in axis.ticks_across()] == expected


def test_an_axis_without_zero_goes_from_one_round_number_to_another() -> None:
    axis = scale([52, 61], Unit(" bpm"), from_zero=False)

    assert [tick.label for tick in axis.ticks_across()] == ["50 bpm", "55 bpm", "60 bpm", "65 bpm"]


@given(st.lists(sizes, max_size=20), st.sampled_from([DURATION, COUNT, PERCENT]), st.booleans())
def test_every_value_lies_on_its_axis(values: list[float], unit: Unit, from_zero: bool) -> None:
    axis = scale(values, unit, from_zero=from_zero)
    ticks = axis.ticks_across()

    assert all(-1e-9 <= axis.share(value) <= 1 + 1e-9 for value in values)
    assert 2 <= len(ticks) <= 7
    assert [tick.position for tick in ticks] == sorted({tick.position for tick in ticks})


def test_labels_below_an_axis_have_room_and_more_of_it_where_it_is_wide() -> None:
    days = [f"{day} Nov" for day in range(1, 31)]

    assert labelled(["00"] * 24) == {place: place % 4 == 0 for place in range(0, 24, 2)}
    assert labelled(days) == {place: place % 12 == 0 for place in range(0, 30, 3)}
    assert labelled([]) == {}


def test_stretches_of_a_list_are_found() -> None:
    assert runs([True, True, False, True]) == [(0, 2), (3, 4)]


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("Editor", "Editor"),
        ("An application with a long name", "An application …"),
        ("\N{ZERO WIDTH SPACE}" * 1024, "(no visible name)"),
        ("", "(no visible name)"),
        ("\N{RIGHT-TO-LEFT OVERRIDE}abc", "abc"),
        ("\u05d0\u05d1", "\u2068\u05d0\u05d1\u2069"),
        ("\u05d0" * 1024, "\u2068" + "\u05d0" * 15 + "…\u2069"),
        ("a" + "\N{COMBINING ACUTE ACCENT}" * 1024, None),
        ("a\x00\nb", "a b"),
        ("one\ntwo", "one two"),
        ("one\ttwo\r\n", "one two"),
        ("\u6f22" * 8, "\u2068" + "\u6f22" * 8 + "\u2069"),
        ("\u6f22" * 9, "\u2068" + "\u6f22" * 7 + "…\u2069"),
    ],
)
def test_a_label_is_cut_and_isolated(label: str, expected: str | None) -> None:
    result = cut(label, 16)

    assert expected is None or result == expected
    assert len(result) <= 34

"""Grids, lines and dots are where their numbers say, with gaps where nobody reported."""

import gzip
from datetime import date, timedelta

import pytest

from resourceserver.dashboard.charts import (
    Cell,
    Change,
    Dot,
    Point,
    Range,
    band,
    line,
    scatter,
    week,
    year,
)
from tests.unit.drawing import each, texts

HOUR = 3_600_000


def test_levels_of_a_grid_follow_its_values() -> None:
    chart = week("w", [("Mon", [Cell(value) for value in (0, 1, 25, 26, 51, 76, 100, None)])])

    assert [placed.level for placed in chart.placed] == [0, 1, 1, 2, 3, 4, 4, None]
    assert [len(each(chart, style)) for style in ("l0", "l1", "l4", "n")] == [1, 2, 2, 1]


def test_one_extreme_day_does_not_pale_the_others() -> None:
    cells = {date(2026, 1, 1) + timedelta(number): Cell(10) for number in range(40)}
    chart = year("y", date(2026, 1, 1), date(2026, 12, 31), cells | {date(2026, 3, 1): Cell(9999)})

    assert {placed.level for placed in chart.placed} == {4}


def test_levels_of_values_that_are_never_near_zero_begin_at_the_smallest() -> None:
    hours = [0, 6, 6.4, 6.5, 7, 7.6, 8, 99, None]
    cells = {
        date(2026, 1, 1) + timedelta(number): Cell(value) for number, value in enumerate(hours)
    }
    days = date(2026, 1, 1), date(2026, 1, 9)

    levels = [placed.level for placed in year("y", *days, cells, from_zero=False).placed]
    assert levels == [0, 1, 1, 1, 1, 1, 1, 4, None]
    del cells[date(2026, 1, 8)]
    levels = [placed.level for placed in year("y", *days, cells, from_zero=False).placed]
    assert levels == [0, 1, 1, 1, 2, 4, 4, None]


def test_the_tab_key_does_not_stop_at_each_day_of_a_year() -> None:
    first = date(2026, 1, 1)
    markup = year("y", first, first, {first: Cell(1, "Thu 1 Jan: 1 min", "/day/2026-01-01")}).svg()

    assert 'href="/day/2026-01-01" tabindex="-1"' in markup


@pytest.mark.parametrize(
    ("week_starts_on", "first", "last", "columns"),
    [(0, (0, 3), (52, 3), 53), (6, (0, 4), (52, 4), 53)],
)
def test_a_day_of_the_year_is_in_its_week_and_row(
    week_starts_on: int, first: tuple[int, int], last: tuple[int, int], columns: int
) -> None:
    days = {day: Cell(1) for day in (date(2026, 1, 1), date(2026, 12, 31))}
    chart = year("y", date(2026, 1, 1), date(2026, 12, 31), days, week_starts_on=week_starts_on)

    assert [(placed.column, placed.row) for placed in chart.placed] == [first, last]
    assert chart.columns == columns
    assert [label.words for label in chart.above][:3] == ["Jan", "Feb", "Mar"]
    assert len(chart.above) == 12


@pytest.mark.parametrize("value", [5.0, None])
def test_the_heat_map_of_a_year_is_small(value: float | None) -> None:
    first = date(2028, 1, 1)
    days = [first + timedelta(number) for number in range(366)]
    cells = {day: Cell(value, f"{day:%a %d %b}: 5 h 12 min", f"/day/{day}") for day in days}
    markup = str(year("focus", first, days[-1], cells).svg()).encode()

    assert markup.count(b"<a ") == 366
    assert len(markup) <= 42 * 1024
    assert len(gzip.compress(markup)) <= 4 * 1024


def test_an_hour_of_the_second_kind_has_a_line_through_it() -> None:
    chart = week("w", [("Mon", [Cell(1), Cell(1, is_other=True), None])], other="distracting")

    assert len(each(chart, "through")) == 1
    assert [key.words for key in chart.legend][1:] == ["distracting"]


def test_a_line_has_gaps_where_nobody_reported() -> None:
    values = [HOUR, 2 * HOUR, None, None, 0, None, HOUR, HOUR]
    chart = line("l", [Point(str(number), value) for number, value in enumerate(values)])

    assert chart.path.count("M") == 2
    assert chart.gaps == ((25, 50), (62.5, 75))
    assert [spot.y is None for spot in chart.spots] == [value is None for value in values]
    assert chart.spots[1].y == pytest.approx(18)
    assert chart.spots[4].y == pytest.approx(18 + chart.plot)


def test_a_point_between_gaps_is_a_dot_in_a_long_series_too() -> None:
    values = [None if number in {50, 52} else HOUR for number in range(100)]
    chart = line("l", [Point(str(number), value) for number, value in enumerate(values)])

    assert [mark.get("cx") for mark in each(chart, "dot")] == ["51.5%"]


def test_change_points_are_at_their_place_with_their_date() -> None:
    points = [Point(str(number), number, usual=2) for number in range(10)]
    chart = line("l", points, changes=[Change(4, "5 Nov"), Change(40, "never")])

    assert [mark.get("x1") for mark in each(chart, "change")] == ["45%"]
    assert texts(chart, "change-label") == ["5 Nov"]
    assert chart.usual_path.count("L") == 9


def test_a_value_outside_its_range_is_a_ring() -> None:
    chart = band("b", [Range("1", 50, 40, 60), Range("2", 35, 40, 60), Range("3", 61, 40, 60)])

    assert [spot.is_outside for spot in chart.spots] == [False, True, True]
    assert (len(each(chart, "outside")), len(each(chart, "dot"))) == (2, 1)
    assert [key.words for key in chart.legend] == ["own normal range", "outside of it"]


def test_a_band_leaves_out_days_without_a_range() -> None:
    chart = band(
        "b", [Range("1", 50, 40, 60), Range("2", 50), Range("3", 50, 40, 60), Range("4", 1)]
    )

    assert chart.band_path.count("M") == 2


def test_dots_lie_at_their_values() -> None:
    chart = scatter("s", [Dot(0, -10), Dot(10, 10)], x_words="sleep", y_words="mood")

    assert [(x, y) for x, y, _ in chart.placed] == [(0, 192), (100, 22)]

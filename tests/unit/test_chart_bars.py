"""Bars and stretches of time are where their numbers say."""

import gzip
from datetime import UTC, date, datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from resourceserver.dashboard.charts import (
    MISSING,
    Bar,
    Night,
    Row,
    Stretch,
    bars,
    nights,
    ribbon,
    top,
)
from tests.unit.drawing import each, parse

HOUR = 3_600_000
BERLIN = ZoneInfo("Europe/Berlin")


def test_bars_are_as_high_as_their_values() -> None:
    chart = bars("b", [Bar("1", HOUR), Bar("2", 2 * HOUR), Bar("3", 0)])

    heights = [sum(piece.length for piece in placed.pieces) for placed in chart.placed]
    assert heights[1] == pytest.approx(chart.plot)
    assert heights[0] == pytest.approx(chart.plot / 2)
    assert heights[2] == 0
    assert [placed.across for placed in chart.placed] == pytest.approx([29 / 3, 43, 229 / 3])


def test_a_bar_that_nobody_reported_is_hatched_and_zero_is_not() -> None:
    chart = bars("b", [Bar("1", None), Bar("2", 0)])

    assert [mark.get("fill") for mark in each(chart, "missing")] == ["url(#b-hatch)"]
    assert [mark.get("height") for mark in each(chart, "part")] == ["0"]
    assert [key.words for key in chart.legend] == ["no data reported"]


def test_parts_are_stacked_from_the_axis_outwards() -> None:
    chart = bars(
        "b", [Bar("1", parts=[HOUR, 2 * HOUR, HOUR], usual=2 * HOUR)], parts=["a", "b", "c"]
    )

    (placed,) = chart.placed
    first, second, third = placed.pieces
    assert first.start + first.length == pytest.approx(10 + chart.plot)
    assert second.start + second.length == pytest.approx(first.start)
    assert third.start == pytest.approx(10)
    assert placed.usual == pytest.approx(10 + chart.plot / 2)
    assert [key.words for key in chart.legend] == ["a", "b", "c", "usual"]


def test_negative_bars_go_down_from_zero() -> None:
    chart = bars("b", [Bar("1", HOUR), Bar("2", -HOUR)])

    up, down = (placed.pieces[0] for placed in chart.placed)
    assert up.start + up.length == pytest.approx(down.start)
    assert up.length == pytest.approx(down.length)


def test_the_longest_lying_bar_fills_the_width() -> None:
    chart = top("t", [Bar("a", 4, usual=2), Bar("b", 1), Bar("c", parts=[1, 1]), Bar("d", None)])

    lengths = [[piece.length for piece in placed.pieces] for placed in chart.placed]
    assert lengths == [[100], [25], [25, 25], []]
    assert chart.placed[0].usual == 50
    assert len(each(chart, "missing")) == 1


def test_two_names_that_are_too_long_for_a_line_have_two() -> None:
    chart = top(
        "t",
        [
            Bar("Code", 4, second="→ Firefox", text="4"),
            Bar("Visual Studio Code", 2, second="→ Google Chrome", text="2"),
            Bar("Mail", 1, second="→ Code", text="1"),
        ],
    )

    words = {node.text: float(node.attrib["y"]) for node in each(chart, "row-label")}
    assert [name.strip("\u2068\u2069") for name in words if name] == [
        *("Code → Firefox", "Visual Studio Code", "→ Google Chrome", "Mail → Code")
    ]
    # Rows are 38 pixels high, and a second line adds 16.
    assert list(words.values()) == [12, 38 + 12, 38 + 12 + 16, 38 + 54 + 12]
    assert [float(node.attrib["y"]) for node in each(chart, "track")] == [17, 38 + 33, 38 + 54 + 17]
    assert chart.height == 38 + 54 + 38


def test_a_stretch_lies_at_its_time() -> None:
    start = datetime(2026, 11, 21, tzinfo=BERLIN)
    stretch = Stretch(start + timedelta(hours=6), start + timedelta(hours=12))
    chart = ribbon("r", start, start + timedelta(days=1), [Row("Code", [stretch])])

    (placed,) = chart.rows[0].placed
    assert (placed.x, placed.width) == pytest.approx((25, 25))
    assert [mark.label for mark in chart.hours] == [
        "00",
        "03",
        "06",
        "09",
        "12",
        "15",
        "18",
        "21",
        "24",
    ]


def test_a_stretch_across_midnight_is_cut_and_one_of_another_day_left_out() -> None:
    start = datetime(2026, 11, 21, tzinfo=UTC)
    hours = [(-2, 6), (18, 30), (25, 26), (-3, 0), (12, 12)]
    stretches = [
        Stretch(start + timedelta(hours=low), start + timedelta(hours=high)) for low, high in hours
    ]
    chart = ribbon("r", start, start + timedelta(days=1), [Row("Code", stretches)])

    assert [placed.x for placed in chart.rows[0].placed] == pytest.approx([0, 75, 50])
    assert [placed.width for placed in chart.rows[0].placed] == pytest.approx([25, 25, 0.2])


def test_a_crowded_row_is_a_path_for_each_kind() -> None:
    start = datetime(2026, 11, 21, tzinfo=UTC)
    stretches = [
        Stretch(
            start + timedelta(seconds=40 * number),
            start + timedelta(seconds=40 * number + 20),
            number % 2 + 1,
            "Editor",
            "/explore",
        )
        for number in range(2000)
    ]
    chart = ribbon("r", start, start + timedelta(days=1), [Row("Code", stretches)])

    assert [mark.get("class") for mark in parse(chart).iter("path")] == ["hatch", "c1", "c2"]
    assert len(gzip.compress(str(chart.svg()).encode())) < 12 * 1024


@pytest.mark.parametrize(
    ("day", "hours", "expected"),
    [
        (date(2026, 3, 29), 23, [0, 2, 5, 8, 11, 14, 17, 20, 23]),
        (date(2026, 10, 25), 25, [0, 4, 7, 10, 13, 16, 19, 22, 25]),
    ],
)
def test_a_day_of_23_or_25_hours_has_its_hours_at_their_places(
    day: date, hours: int, expected: list[int]
) -> None:
    start = datetime.combine(day, time(), BERLIN)
    end = datetime.combine(day + timedelta(days=1), time(), BERLIN)
    chart = ribbon("r", start, end, [Row("Code", [Stretch(start, end)])])

    assert [mark.label for mark in chart.hours] == [
        "00",
        "03",
        "06",
        "09",
        "12",
        "15",
        "18",
        "21",
        "24",
    ]
    assert [mark.x for mark in chart.hours] == pytest.approx([100 * at / hours for at in expected])
    assert chart.rows[0].placed[0].width == pytest.approx(100)


def test_an_hour_that_comes_twice_has_one_label() -> None:
    start = datetime(2026, 10, 25, tzinfo=BERLIN)
    chart = ribbon("r", start, start.replace(hour=5), [], every=1)

    assert [mark.label for mark in chart.hours] == ["00", "01", "02", "03", "04", "05"]
    assert [mark.x for mark in chart.hours] == pytest.approx(
        [100 * at / 6 for at in (0, 1, 2, 4, 5, 6)]
    )


def test_nights_lie_by_the_clock_beside_the_bed() -> None:
    tokyo = timezone(timedelta(hours=9))
    sleep = Stretch(
        datetime(2026, 11, 20, 21, tzinfo=tokyo), datetime(2026, 11, 21, 3, tzinfo=tokyo)
    )
    chart = nights(
        "n",
        [Night(date(2026, 11, 20), "Fri", [sleep]), Night(date(2026, 11, 21), "Sat", [])],
        usual=[(time(0, 0), "usual bedtime")],
    )

    first, second = chart.rows
    assert (first.placed[0].x, first.placed[0].width) == pytest.approx((100 / 6, 100 / 3))
    assert [(placed.stretch.kind, placed.width) for placed in second.placed] == [(MISSING, 100.0)]
    assert [mark.x for mark in chart.marks] == pytest.approx([100 / 3])
    assert [key.words for key in chart.legend] == ["asleep", "no data reported"]

"""Figures: the text of a number, its raw value, and the place where the API has it."""

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resourceserver.dashboard.figures import (
    Answer,
    Figures,
    count,
    duration,
    escaped,
    hours,
    metres,
)

FIGURES = Figures("Europe/Berlin")


def answer(body: dict[str, Any]) -> Answer:
    return Answer("daily", "http://localhost/api/v1/analytics/daily", body)


def test_a_figure_has_its_raw_value_and_its_place() -> None:
    known = answer({"data": [{"tracked_ms": 18_720_000}]})
    assert FIGURES.figure(known, "/data/0/tracked_ms", "duration") == (
        '<data value="18720000" data-figure="tracked_ms" data-from="daily#/data/0/tracked_ms">'
        "5 h 12 min</data>"
    )


def test_null_is_absent_and_not_zero() -> None:
    known = answer({"steps": None, "zero": 0})
    assert "no data" in FIGURES.figure(known, "/steps", "count")
    assert ">0<" in FIGURES.figure(known, "/zero", "count")


def test_a_unit_with_a_plural_follows_its_number() -> None:
    known = answer({"days": [0, 1, 2]})
    figures = [FIGURES.figure(known, f"/days/{n}", "count", ("day", "days")) for n in range(3)]
    assert [re.findall(r">(.*)<", each) for each in figures] == [
        ["0\u00a0days"],
        ["1\u00a0day"],
        ["2\u00a0days"],
    ]


def test_a_figure_that_the_answer_does_not_have_is_a_mistake() -> None:
    with pytest.raises(LookupError):
        FIGURES.figure(answer({"data": []}), "/data/0", "count")


def test_a_row_is_found_by_its_members() -> None:
    known = answer({"data": [{"metric": "a", "n": 1}, {"metric": "b", "n": 2}]})
    assert known.row("/data", metric="b") == "/data/1"
    assert known.row("/data", metric="b", n=1) is None


class Reader(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.attributes: dict[str, str | None] = {}
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert (tag, self.attributes) == ("data", {})
        self.attributes = dict(attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


@given(
    st.text(st.characters(codec="utf-8"), min_size=1),
    st.integers(-(10**12), 10**12) | st.text(st.characters(codec="utf-8"), min_size=1),
)
def test_any_name_and_value_are_read_again_from_the_page(key: str, value: int | str) -> None:
    known = answer({"by": {key: value}})
    pointer = f"/by/{escaped(key)}"
    assert known.at(pointer) == value
    html = FIGURES.figure(known, pointer, "text")
    found = Reader(str(html).replace("\r", "&#13;")).attributes
    assert found["value"] == (value if isinstance(value, str) else json.dumps(value))
    assert found["data-from"] == f"daily#{pointer}"


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 min"),
        (400, "0 min"),
        (40_000, "40 s"),
        (60_000, "1 min"),
        (3_600_000, "1 h"),
        (18_720_000, "5 h 12 min"),
        (-2_400_000, "\u221240 min"),
        (100 * 3_600_000, "100 h"),
        (2097 * 3_600_000 + 60_000, "2\u202f097 h 1 min"),
        (3_599_999, "1 h"),
    ],
)
def test_durations(ms: int, text: str) -> None:
    assert duration(ms) == text


def test_hours_and_minutes_without_words() -> None:
    assert [hours(ms) for ms in (0, 29_999, 3_599_999, 16_169_600, 18_720_000)] == [
        *("0:00", "0:00", "1:00", "4:30", "5:12"),
    ]


def test_numbers_and_distances() -> None:
    assert count(1234567) == "1\u202f234\u202f567"
    assert count(48.25) == "48.2"
    assert count(9830.6) == "9\u202f831"
    assert count(3174934.04) == "3\u202f174\u202f934"
    assert count(-3) == "\u22123"
    assert (metres(999), metres(12_345)) == ("999 m", "12.3 km")


def test_times_are_those_of_the_page() -> None:
    known = answer({"at": "2026-07-01T22:30:00Z"})
    assert FIGURES.text(known["at"], "time") == "00:30"
    assert FIGURES.text(known["at"], "moment") == "2 Jul 2026, 00:30"

"""What holds for every kind of chart, and for the figure around it."""

import re
from datetime import UTC, date, datetime, time, timedelta, timezone
from pathlib import Path
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from resourceserver.dashboard import charts
from resourceserver.dashboard.charts import (
    Bar,
    Cell,
    Change,
    Chart,
    Dot,
    Night,
    Point,
    Range,
    Row,
    Stretch,
    Table,
    band,
    bars,
    line,
    nights,
    ribbon,
    scatter,
    top,
    week,
    year,
)
from resourceserver.dashboard.charts.escaping import escaped
from resourceserver.dashboard.charts.svg import cut
from tests.unit.drawing import parse

HERE = Path(charts.__file__).parent
HOUR = 3_600_000
NAMED = {name: getattr(charts, name) for name in charts.__all__}
TIMES = {"date": date, "datetime": datetime, "time": time, "timezone": timezone}

sizes = st.floats(-1e300, 1e300) | st.integers(-(10**15), 10**15)
labels = st.text(max_size=60)


def everything(label: str, size: float, href: str = "") -> list[Chart]:
    """Return a chart of each kind with a label and a value."""
    start = datetime(2026, 11, 21, tzinfo=UTC)
    stretch = Stretch(start, start + timedelta(hours=1), 2, label, href)
    return [
        bars(
            "a", [Bar(label, size, usual=size, title=label, href=href), Bar(label)], parts=[label]
        ),
        top("b", [Bar(label, size, title=label, href=href, text=label), Bar(label)]),
        ribbon(
            "c", start, start + timedelta(days=1), [Row(label, [stretch], label)], kinds=[label]
        ),
        nights("d", [Night(date(2026, 11, 20), label, [stretch])], usual=[(time(1), label)]),
        week("e", [(label, [Cell(size, label, href), Cell(None, label, href)])]),
        year(
            "f", date(2026, 1, 1), date(2026, 12, 31), {date(2026, 2, 3): Cell(size, label, href)}
        ),
        line("g", [Point(label, size, size, label, href)], changes=[Change(0, label)]),
        band("h", [Range(label, size, size, size, label, href), Range(label, None)]),
        scatter("i", [Dot(size, size, label, href)], x_words=label, y_words=label),
    ]


def environment() -> Environment:
    """Return the environment in which the macro is drawn."""
    return Environment(
        loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined
    )


def render(chart: Chart, table: Table, caption: str = "A sentence") -> str:
    """Return the figure of a chart."""
    source = '{% from "charts/chart.html" import chart %}{{ chart(drawing, caption, table) }}'
    return environment().from_string(source).render(drawing=chart, table=table, caption=caption)


@given(labels, sizes)
def test_any_label_and_value_gives_well_formed_markup_with_short_coordinates(
    label: str, size: float
) -> None:
    for chart in everything(label, size, f"/{quote(label)}"):
        for element in parse(chart).iter():
            for name in ("x", "y", "width", "height", "x1", "x2", "y1", "y2", "cx", "cy"):
                assert re.fullmatch(r"(-?\d+(\.\d)?%?)?", element.get(name, "")), element.attrib
            assert "style" not in element.attrib
            assert not re.search(r"\.\d{3}|e", element.get("d", ""))


def test_labels_are_escaped_everywhere() -> None:
    for chart in everything('<b>"&', HOUR, 'javascript"<b>'):
        assert "<b>" not in str(chart.svg())


def test_marks_with_an_address_are_links_and_then_the_chart_is_no_image() -> None:
    for chart, linked in zip(
        everything("a", HOUR), everything("a", HOUR, "/day/2026-11-21"), strict=True
    ):
        assert parse(chart).get("role") == "img"
        assert parse(linked).get("role") == "group"
        links = [link.get("href") for link in parse(linked).iter("a")]
        assert set(links) == {"/day/2026-11-21"}
        assert parse(chart).get("aria-labelledby") == f"{chart.name}-caption"


def test_every_link_has_a_name() -> None:
    charts_of_links: list[Chart] = [
        bars("a", [Bar("Mon", 1, href="/day/1")]),
        top("b", [Bar("Mon", 1, href="/day/1")]),
        week("c", [("Mon", [Cell(1, href="/day/1")])]),
        line("d", [Point("Mon", 1, href="/day/1")]),
        scatter("e", [Dot(1, 1, href="/day/1")], x_words="sleep", y_words="mood"),
    ]

    names = [link.findtext("title") for chart in charts_of_links for link in parse(chart).iter("a")]
    assert names == ["Mon", "Mon", "/day/1", "Mon", "/day/1"]


@pytest.mark.parametrize(
    "chart",
    [
        bars("a", []),
        top("b", []),
        ribbon("c", datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC), []),
        nights("d", []),
        week("e", []),
        year("f", date(2026, 1, 1), date(2026, 12, 31), {}),
        line("g", []),
        band("h", []),
        scatter("i", [], x_words="sleep", y_words="mood"),
    ],
)
def test_a_chart_of_nothing_keeps_its_place(chart: Chart) -> None:
    root = parse(chart)

    assert float(root.get("height", "")) > 0
    assert root.get("width") == "100%"


def test_a_figure_has_its_sentence_drawing_legend_and_table() -> None:
    chart = bars("hours", [Bar("09", None)])
    html = render(
        chart,
        Table(["Hour", "Time"], [["<09>", Markup('<data value="5">5 min</data>')]]),
        Markup('<data value="1">1 h</data> of focus'),
    )

    assert '<figcaption id="hours-caption"><data value="1">1 h</data> of focus</figcaption>' in html
    assert "no data reported</li>" in html
    assert '<th scope="row"><bdi>&lt;09&gt;</bdi></th><td><data value="5">5 min</data></td>' in html
    assert " style=" not in html


def test_a_call_block_gives_the_rows_of_the_table() -> None:
    source = (
        '{% from "charts/chart.html" import chart %}'
        '{% call chart(drawing, "A sentence", {"header": ["Hour"], "rows": []}) %}'
        "<tr><td>12</td></tr>{% endcall %}"
    )
    html = environment().from_string(source).render(drawing=bars("b", [Bar("12", 5)]))

    assert "<tbody><tr><td>12</td></tr></tbody>" in re.sub(r">\s+<", "><", html)


def test_every_class_has_a_rule_in_the_style_sheet() -> None:
    rules = (HERE.parents[2] / "shared" / "pages" / "static" / "charts.css").read_text()
    classes = {
        name
        for chart in everything("a", HOUR)
        for element in parse(chart).iter()
        for name in element.get("class", "").split()
    }

    # An area that is hatched has the pattern for its colour.
    assert {name for name in classes if f".{name}" not in rules} <= {
        "missing",
        "below",
        "axis-above",
    }


def test_the_examples_of_the_documentation_work() -> None:
    examples = re.findall(r"```python\n(.*?)```", (HERE / "README.md").read_text(), re.DOTALL)
    scope: dict[str, Any] = {**NAMED, **TIMES, "ZoneInfo": ZoneInfo}
    for each in examples:
        exec(each, scope)  # noqa: S102 -- the text is a file of this repository

    drawn = {type(value).__name__ for value in scope.values() if hasattr(value, "svg")}
    assert {"Bars", "Grid", "Line", "Ribbon", "Scatter", "TopBars"} <= drawn


@given(st.text())
@example("a & b")
@example("a < b")
@example("a > b")
@example('a "b"')
@example("it's")
def test_a_text_is_escaped_as_in_templates(text: str) -> None:
    assert escaped(text) == str(escape(text))


def test_a_number_with_narrow_spaces_keeps_them_in_a_title() -> None:
    title = cut("Sun 22 Nov: 8\u202f123\u00a0steps", 60)

    assert title == "\u2068Sun 22 Nov: 8\u202f123\u00a0steps\u2069"


def test_spaces_at_the_ends_of_a_label_are_left_out() -> None:
    assert cut("\u00a08\u202f123 ", 60) == "\u20688\u202f123\u2069"

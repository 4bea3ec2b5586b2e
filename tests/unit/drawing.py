"""What tests of charts read from their markup."""

from xml.etree import ElementTree

from resourceserver.dashboard.charts.svg import Chart


def parse(chart: Chart) -> ElementTree.Element:
    """Return the root of a chart's markup, which must be well-formed."""
    return ElementTree.fromstring(str(chart.svg()))  # noqa: S314 # It is our own.


def each(chart: Chart, style: str) -> list[ElementTree.Element]:
    """Return the elements of a class."""
    return [element for element in parse(chart).iter() if style in element.get("class", "").split()]


def texts(chart: Chart, style: str) -> list[str]:
    """Return the texts of a class."""
    return [element.text or "" for element in each(chart, style)]

"""Charts of the dashboard, drawn on the server as SVG.

Each kind of chart is one function, which takes values and returns their geometry: a frozen dataclass of
positions, ticks and labels. Its method ``svg`` returns the markup. The macro ``chart`` of
``charts/chart.html`` puts it into a ``<figure>`` with its sentence and its table. README.md has examples.

Positions on the x axis are percentages and those on the y axis are pixels. So a chart is as wide as its
page while letters, and the height that is kept for it, stay the same at every width.
"""

from resourceserver.dashboard.charts.bars import Bar, bars, top
from resourceserver.dashboard.charts.grid import Cell, week, year
from resourceserver.dashboard.charts.line import Change, Point, Range, band, line
from resourceserver.dashboard.charts.map import Spot, places
from resourceserver.dashboard.charts.ribbon import MISSING, Night, Row, Stretch, nights, ribbon
from resourceserver.dashboard.charts.scale import COUNT, DURATION, NUMBER, PERCENT, Unit, unit_of
from resourceserver.dashboard.charts.scatter import Dot, scatter
from resourceserver.dashboard.charts.svg import Chart, Table

__all__ = [
    "COUNT",
    "DURATION",
    "MISSING",
    "NUMBER",
    "PERCENT",
    "Bar",
    "Cell",
    "Change",
    "Chart",
    "Dot",
    "Night",
    "Point",
    "Range",
    "Row",
    "Spot",
    "Stretch",
    "Table",
    "Unit",
    "band",
    "bars",
    "line",
    "nights",
    "places",
    "ribbon",
    "scatter",
    "top",
    "unit_of",
    "week",
    "year",
]

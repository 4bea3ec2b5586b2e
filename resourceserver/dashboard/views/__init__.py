"""The views of the dashboard, one module each beside its template, in the order of the menu."""

from typing import Final

from resourceserver.dashboard.view import View
from resourceserver.dashboard.views import (
    body,
    day,
    explore,
    focus,
    month,
    review,
    sources,
    today,
    together,
    trends,
    week,
    year,
)

VIEWS: Final[list[View]] = [
    today.VIEW,
    day.VIEW,
    week.VIEW,
    month.VIEW,
    trends.VIEW,
    focus.VIEW,
    year.VIEW,
    review.VIEW,
    body.VIEW,
    together.VIEW,
    explore.VIEW,
    sources.VIEW,
]

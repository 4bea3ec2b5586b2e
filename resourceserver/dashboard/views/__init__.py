"""The views of the dashboard, one module each beside its template, in the order of the menu."""

from typing import Final

from resourceserver.dashboard.view import View
from resourceserver.dashboard.views import sources, today

VIEWS: Final[list[View]] = [today.VIEW, sources.VIEW]

"""Templates: each process compiles them once, those of the dashboard before the first request."""

from pathlib import Path
from typing import Any, cast

from resourceserver.dashboard.route import Dashboard
from resourceserver.dashboard.views import VIEWS
from shared.pages.layout import Layout
from shared.settings import Settings


def test_applications_of_a_process_share_the_code_of_templates() -> None:
    one, other = (Layout(("authserver.web",)).templates() for _ in range(2))

    code = one.get_template("error.html").root_render_func.__code__

    assert other.get_template("error.html").root_render_func.__code__ is code


def test_the_templates_of_all_views_are_compiled_before_the_first_visit(tmp_path: Path) -> None:
    chosen = Settings(data_dir=tmp_path, dashboard_key="0" * 64)
    nothing = cast("Any", None)
    dashboard = Dashboard(chosen, reader=nothing, views=VIEWS, start=nothing)

    dashboard.routes()

    compiled = {name for _, name in dashboard.templates.cache or {}}
    assert {"today.html", "review.html", "charts/chart.html", "dashboard.html"} <= compiled

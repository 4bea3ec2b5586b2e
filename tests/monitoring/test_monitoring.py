"""Dashboard and alerts ask for metrics and labels that there are; promtool tries the alerts."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from prometheus_client import generate_latest

from shared import metrics, metrics_server

ROOT: Final = Path(__file__).parent.parent.parent
MONITORING: Final = ROOT / "deploy" / "monitoring"
OF_TARGETS: Final = {"job", "instance"}
"""Labels that Prometheus adds to each metric."""
PROMTOOL: Final = shutil.which("promtool")

LABELS: Final[dict[str, set[str]]] = {
    **{each.name: set(each.labels) for each in (*metrics.COUNTERS, *metrics.GAUGES)},
    **{each.count: set(each.labels) for each in metrics.DURATIONS},
    **{f"{each.duration}_bucket": {each.labels[0], "le"} for each in metrics.DURATIONS},
    **{f"{each.duration}_sum": {each.labels[0]} for each in metrics.DURATIONS},
    **{f"{each.duration}_count": {each.labels[0]} for each in metrics.DURATIONS},
    **{f"process_{name}": set() for name in ("cpu_seconds_total", "resident_memory_bytes")},
    **{f"process_{name}": set() for name in ("open_fds", "max_fds")},
    "up": set(),
}
"""The labels of each metric."""

_NAME: Final = re.compile(r"\b(?:svc_\w+|process_\w+_\w+|up)\b(?:\{([^}]*)\})?")
_BY: Final = re.compile(r"\bby \(([^)]*)\)")


def expressions() -> Iterator[tuple[str, str, str]]:
    """Yield each query: where it is, the expression, and the text that names labels."""
    dashboard = json.loads((MONITORING / "grafana.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            labels = " ".join(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            yield panel["title"], target["expr"], labels
    for alert in (MONITORING / "alerts.yml").read_text().split("- alert: ")[1:]:
        title, _, rest = alert.partition("\n")
        expression = rest.partition("expr:")[2].partition("\n        for:")[0]
        expression = expression.partition("\n        labels:")[0]
        yield title, expression, " ".join(re.findall(r"\$labels\.(\w+)", rest))


QUERIES: Final = list(expressions())


@pytest.mark.parametrize(("title", "expression", "shown"), QUERIES)
def test_a_query_names_metrics_and_labels_that_there_are(
    title: str, expression: str, shown: str
) -> None:
    names = [(match[0].partition("{")[0], match[1] or "") for match in _NAME.finditer(expression)]
    known: set[str] = set(OF_TARGETS)
    for name, selector in names:
        assert name in LABELS, f"{title}: {name}"
        own = LABELS[name] | OF_TARGETS
        asked = set(re.findall(r"(\w+)(?==~?\"|!=\"|!~\")", selector))
        assert asked <= own, f"{title}: {name} has no {asked - own}"
        known |= own
    grouped = {each.strip() for by in _BY.findall(expression) for each in by.split(",")}
    assert names, title
    assert grouped | set(shown.split()) <= known, title
    # What is grouped has no other labels that could be shown.
    assert not grouped or set(shown.split()) <= grouped, title


def test_every_metric_of_ours_is_in_the_dashboard() -> None:
    dashboard = (MONITORING / "grafana.json").read_text()
    asked = set(re.findall(r"\bsvc_\w+", dashboard))
    # The numbers of a histogram can be computed from its buckets.
    counted = {name for name in LABELS if name.endswith(("_seconds_count", "_seconds_sum"))}

    assert {name for name in LABELS if name.startswith("svc_")} - counted - asked == set()


def test_what_a_process_exposes_is_what_the_code_lists() -> None:
    known = metrics_server.registry()
    try:
        exposed = {
            line.split()[2]: line.split()[3]
            for line in generate_latest(known).decode().splitlines()
            if line.startswith("# TYPE svc_") and "_created" not in line
        }
    finally:
        metrics_server.stop_counting()

    assert exposed == {
        **{each.name: "counter" for each in metrics.COUNTERS},
        **{each.count: "counter" for each in metrics.DURATIONS},
        **{each.duration: "histogram" for each in metrics.DURATIONS},
        **{each.name: "gauge" for each in metrics.GAUGES},
    }


def test_panels_of_the_dashboard_do_not_overlap() -> None:
    panels: list[dict[str, Any]] = json.loads((MONITORING / "grafana.json").read_text())["panels"]
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) == 23
    assert len({panel["id"] for panel in panels}) == len(panels)


@pytest.mark.foreign
@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed; make proof does it")
@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "config", str(MONITORING / "prometheus.yml")],
        ["test", "rules", str(Path(__file__).with_name("alerts.yml"))],
    ],
)
def test_promtool_accepts_the_configuration_and_each_alert_fires_for_its_cause(
    arguments: list[str],
) -> None:
    ran = subprocess.run([str(PROMTOOL), *arguments], capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stdout + ran.stderr

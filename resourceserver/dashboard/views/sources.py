"""Sources: every tracker, connection and import, when its last record came, and how to connect another."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from resourceserver.dashboard.period import Calendar, Day, Period
from resourceserver.dashboard.view import Answers, Ask, Asks, Scene, View
from shared import connections
from shared.sources import SOURCES

KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "tracker": ("Trackers", "Programs on your machines that send what you do."),
    "connection": (
        "Connections",
        "Applications and accounts at other services from which new data comes by itself.",
    ),
    "import": ("Files", "What other services held about you, brought as files."),
}
"""The ways in which data comes by their names in the API: their titles, and what they are. Receivers are
shown with connections."""
TITLES: Final = {
    **{source.key.replace("-", "_"): source.title for source in SOURCES},
    **{kind.name: kind.title for kind in connections.KINDS.values()},
}
"""What people call a service, by the name of its provider in the API; others have that name."""
STATES: Final[Mapping[str, str]] = {
    "active": "live",
    "error": "failing",
    "expired": "key refused",
    "disconnected": "paused or disconnected",
}
"""The states of connections in words, by their status in the API."""
MOST_DEVICES: Final = 100


@dataclass(frozen=True)
class Always:
    """An address without a period."""

    @classmethod
    def parse(cls, parts: Mapping[str, str]) -> Self:  # noqa: ARG003 -- every address is right
        """Return the address."""
        return cls()

    def period(self, calendar: Calendar) -> Period:
        """Return today, without any other period beside it."""
        today = Day(None).period(calendar)
        return Period(today.first, today.last, "All sources", "/sources")


def asks(_: Scene) -> Asks:
    """Return the questions about what sends data."""
    return {
        "integrations": Ask("integrations"),
        "devices": Ask("devices", {"limit": str(MOST_DEVICES), "include_retired": "true"}),
    }


def show(_: Scene, answers: Answers) -> dict[str, Any]:
    """Return the rows of the API under their ways."""
    rows: dict[str, list[tuple[str, Mapping[str, Any]]]] = {kind: [] for kind in KINDS}
    if "integrations" in answers:
        for n, row in enumerate(answers["integrations"]["data"]):
            # People find both on one page of the settings.
            kind = "connection" if row["via"] == "receiver" else row["via"]
            rows.setdefault(kind, []).append((f"/data/{n}", row))
    return {
        "kinds": KINDS,
        "rows": rows,
        "titles": TITLES,
        "state": state,
        "since": since,
        "advice": advice,
        "problem": problem,
    }


def state(row: Mapping[str, Any]) -> str:
    """Return the state of a connection in words."""
    # A pull that found nothing is a sync too. What was connected by older versions has neither a first record
    # nor a number of refused ones.
    is_empty = row["first_record_at"] is None and row["refused"] is not None
    if row["status"] == "active" and (is_empty or row["last_sync_at"] is None):
        return "waiting for the first record"
    return STATES[row["status"]]


def since(row: Mapping[str, Any]) -> str:
    """Return the instant since which a connection fails; an empty text for one that does not."""
    is_failing = row["status"] in ("error", "expired")
    return (row["problem"] or "").removeprefix("since ") if is_failing else ""


def advice(row: Mapping[str, Any]) -> str:
    """Return what is wrong with a connection and what to do about it; an empty text for nothing known."""
    problem = connections.PROBLEMS.get(row["last_error"] or "")
    return "" if problem is None else f"{problem.what} {problem.what_to_do}"


def problem(row: Mapping[str, Any]) -> str:
    """Return the problem of the newest import of files, without its last part about refused records."""
    parts = str(row["problem"]).split("; ")
    return "; ".join(parts[:-1] if row["refused"] and len(parts) > 1 else parts)


VIEW: Final = View(
    name="sources",
    title="Sources",
    paths=("/sources",),
    address=Always,
    endpoints=("integrations", "devices"),
    asks=asks,
    show=show,
)

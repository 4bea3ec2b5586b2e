"""Coding time from editors, by project and by language.

Coding sessions own time among themselves, as application sessions do; the two are never added up.
"""

from pathlib import Path
from typing import Final

from resourceserver import timeline
from resourceserver.api.bodies import (
    Body,
    Count,
    InstantRangeEcho,
    Milliseconds,
    OfSums,
    Percent,
    Timestamp,
)
from resourceserver.api.endpoint import Endpoint
from resourceserver.api.parameters import InstantRange
from shared import queries

_HERE: Final = Path(__file__).parent
_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = queries.load(_TIMELINE / "timeline.sql", _HERE / "rows.sql", _HERE / "coding.sql")


class LanguageOfProject(Body):
    """One language's time in a project."""

    language: str
    """The programming language; ``unknown`` where the editor named none."""
    total_ms: Milliseconds
    percent: Percent | None
    """Of the project's time; null where there is none."""


class Project(Body):
    """One project's coding time in the range."""

    project: str
    """The project, as trackers name it."""
    total_ms: Milliseconds
    percent: Percent | None
    """Of all coding time; null where there is none."""
    session_count: Count
    last_coded_at: Timestamp | None
    """Null where the project owned no time."""
    languages: list[LanguageOfProject]
    """Longest first."""


class Language(Body):
    """One language's coding time in the range; ``unknown`` if the editor named none."""

    language: str
    """The programming language; ``unknown`` where the editor named none."""
    total_ms: Milliseconds
    percent: Percent | None
    """Of all coding time; null where there is none."""
    session_count: Count


class Coding(Body):
    """The same coding time by project and by language, longest first."""

    projects: list[Project]
    """Coding time by project, longest first."""
    languages: list[Language]
    """Coding time by language, longest first."""


class CodingTotals(Body):
    """Sums over the range."""

    coding_ms: Milliseconds
    session_count: Count
    project_count: Count
    """Different projects."""
    language_count: Count
    """Different languages."""
    lines_added: Count
    """Lines that were added in sessions that start in the range."""
    lines_removed: Count
    """Lines that were removed in sessions that start in the range."""


class CodingBody(OfSums):
    """Coding time by project and by language."""

    range: InstantRangeEcho
    data: Coding
    """The coding time of the range, by project and by language."""
    totals: CodingTotals


ENDPOINTS: Final = [
    Endpoint(
        name="coding",
        path="/api/v1/analytics/coding",
        scope="read:activity",
        summary="Coding time by project and language, longest first.",
        params=InstantRange,
        body=CodingBody,
        query=SQL["coding"],
    ),
]

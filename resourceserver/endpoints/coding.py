"""Coding: what editors report, by project and by language.

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
    Percent,
    Timestamp,
)
from resourceserver.api.endpoint import Endpoint
from resourceserver.api.parameters import InstantRange
from shared import queries

_HERE: Final = Path(__file__).parent
_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = queries.load(_TIMELINE / "timeline.sql", _HERE / "coding.sql")


class LanguageOfProject(Body):
    """One language's time in a project."""

    language: str
    total_ms: Milliseconds
    percent: Percent | None
    """Of the project's time; null where there is none."""


class Project(Body):
    """One project's coding time in the range."""

    project: str
    total_ms: Milliseconds
    percent: Percent | None
    """Of all coding time; null where there is none."""
    session_count: Count
    last_coded_at: Timestamp | None
    """Null where the project owned no time."""
    languages: list[LanguageOfProject]
    """Longest first."""


class Language(Body):
    """One language's coding time in the range; ``unknown`` where the editor told none."""

    language: str
    total_ms: Milliseconds
    percent: Percent | None
    """Of all coding time; null where there is none."""
    session_count: Count


class Coding(Body):
    """The same coding time twice, longest first."""

    projects: list[Project]
    languages: list[Language]


class CodingTotals(Body):
    """Sums over the range."""

    coding_ms: Milliseconds
    session_count: Count
    project_count: Count
    language_count: Count
    lines_added: Count
    """By sessions that start in the range, as are the lines removed."""
    lines_removed: Count


class CodingBody(Body):
    """Coding time by project and by language."""

    range: InstantRangeEcho
    data: Coding
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

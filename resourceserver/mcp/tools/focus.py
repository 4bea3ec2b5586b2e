"""Attention, as an assistant tells of it: where it held, and what took it away."""

from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, StrictBool

from resourceserver import endpoints, timeline
from resourceserver.api.bodies import Body, Count, Milliseconds, Percent, Timestamp
from resourceserver.api.parameters import Listed
from resourceserver.endpoints import attention
from resourceserver.endpoints.attention import (
    ContextSwitch,
    FocusStreak,
    StreakTotals,
    SwitchPair,
    SwitchTotals,
)
from resourceserver.mcp import tool
from resourceserver.mcp.arguments import InPeriod
from resourceserver.mcp.tool import ENTRY, MOST_ROWS, Answer, Part, Tool

_ENDPOINTS: Final = Path(endpoints.__file__).parent
_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = tool.load(
    Path(__file__).with_name("focus.sql"),
    _TIMELINE / "timeline.sql",
    _TIMELINE / "segments.sql",
    _ENDPOINTS / "attention.sql",
)

MOST_BREAKERS: Final = 20
MOST_PAIRS: Final = 10


class Focus(InPeriod):
    """Whether to list switches one by one."""

    include_switches: StrictBool = Field(
        default=False,
        description="Whether to list the newest switches between applications one by one as well.",
    )

    def values(self) -> dict[str, Any]:
        """Return, beside the rest, what the endpoints' lists begin with."""
        return super().values() | Listed().values() | {"limit": MOST_ROWS}


class Breaker(Body):
    """What broke streaks of focus."""

    reason: Literal["distraction", "neutral", "idle"]
    """Too much distracting or too much neutral time, or a pause."""
    app: str | None
    """The application that did; null for a pause."""
    category: str | None
    count: Count
    percent: Percent
    """Of all streaks that were broken."""
    average_before_ms: Milliseconds
    """How long the streaks that it broke had lasted."""


class Longest(Body):
    """The longest streak, whole even where it reaches out of the range."""

    started_at: Timestamp
    ended_at: Timestamp
    duration_ms: Milliseconds


class FocusAnswer(Answer):
    """Streaks of focus, what broke them, and switches between applications."""

    totals: StreakTotals
    longest: Longest | None
    """Null where there is none."""
    breakers: list[Breaker]
    """The 20 most frequent ones, the most frequent first."""
    data: list[FocusStreak]
    """Streaks that overlap the range, the newest first, 50 at most."""
    switch_totals: SwitchTotals
    pairs: list[SwitchPair]
    """The 10 most frequent ones, the most frequent first."""
    switches: list[ContextSwitch]
    """The newest first, 50 at most; none unless include_switches is true."""


def _most_frequent(answer: dict[str, Any]) -> dict[str, Any]:
    switching = answer.pop("context_switches")
    is_listed = answer.pop("include_switches")
    return answer | {
        "breakers": answer["breakers"][:MOST_BREAKERS],
        "switch_totals": switching["totals"],
        "pairs": switching["pairs"][:MOST_PAIRS],
        "switches": switching["data"] if is_listed else [],
        "truncated": answer["truncated"] or (is_listed and switching["has_more"]),
    }


TOOLS: Final = [
    Tool(
        name="get_focus",
        title="Focus and distraction",
        description="When the person worked with focus, what broke it, and how often they switched between"
        " applications: streaks of productive work, what ended them ranked by how often it did, totals of"
        " switches and the commonest pairs of applications. Use it for 'What distracts me?', 'How long can"
        " I focus?' and 'How often did I switch on Monday?'. Not for how much time an application or a"
        " category took.",
        scope=ENTRY,
        arguments=Focus,
        answer=FocusAnswer,
        frame=SQL["period"],
        parts=(
            Part(SQL["get_focus"], further=attention.SWITCHES_OF_STREAKS),
            tool.part(attention.ENDPOINTS, "context_switches"),
        ),
        finish=_most_frequent,
        rows="data",
        other_rows=("switches", "pairs", "breakers"),
    )
]

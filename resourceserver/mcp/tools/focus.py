"""The tool get_focus: streaks of focus, what broke them, and switches."""

from typing import Any, Final, Literal

from pydantic import Field, StrictBool

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
from resourceserver.mcp.arguments import Arguments, InPeriod, Paged
from resourceserver.mcp.tool import ENTRY, ROWS, Page, Part, Tool

SQL: Final = tool.load()

MOST_STREAKS: Final = 5
MOST_BREAKERS: Final = 5
MOST_PAIRS: Final = 5


class Focus(Paged, InPeriod):
    """Whether to list switches one by one."""

    include_switches: StrictBool = Field(
        default=False,
        description="Also list the newest switches.",
    )

    def values(self) -> dict[str, Any]:
        """Return the values with the length of a page."""
        return super().values() | {"limit": MOST_STREAKS}


class Breaker(Body):
    """A reason for the end of streaks of focus."""

    reason: Literal["distraction", "neutral", "idle"]
    """Too much distracting or too much neutral time, or a pause."""
    app: str | None
    """The application in use; null for a pause."""
    category: str | None
    count: Count
    percent: Percent
    """Share of all broken streaks."""
    average_before_ms: Milliseconds
    """The total length of the streaks that it broke."""


class Longest(Body):
    """The longest streak, whole even if only a part lies in the range."""

    started_at: Timestamp
    ended_at: Timestamp
    duration_ms: Milliseconds


class FocusAnswer(Page):
    """Streaks of focus, what broke them, and switches between applications.

    What is not in pages is on the first one alone, and left out of others.
    """

    totals: StreakTotals | None
    longest: Longest | None
    """Null where there is none."""
    breakers: list[Breaker] | None
    """The 5 most frequent reasons, the most frequent first."""
    data: list[FocusStreak]
    """Streaks that overlap the range, the newest first."""
    switch_totals: SwitchTotals | None
    pairs: list[SwitchPair] | None
    """The 5 most frequent pairs, the most frequent first."""
    switches: list[ContextSwitch] | None
    """The newest 20; empty unless include_switches is true."""


def _lists_switches(given: Arguments) -> bool:
    return isinstance(given, Focus) and given.cursor is None and given.include_switches


def _counts_switches(given: Arguments) -> bool:
    return isinstance(given, Focus) and given.cursor is None and not given.include_switches


def _most_frequent(answer: dict[str, Any]) -> dict[str, Any]:
    listed, counted = answer.pop("context_switches"), answer.pop("counted_switches")
    switching = listed or counted
    for streak in answer["data"]:
        streak["cursor"] = attention.cursor_after(streak)
    if switching is None:
        return answer | {"totals": None, "longest": None, "breakers": None}
    return answer | {
        "breakers": answer["breakers"][:MOST_BREAKERS],
        "switch_totals": switching["totals"],
        "pairs": switching["pairs"][:MOST_PAIRS],
        "switches": switching["data"],
        "truncated": answer["truncated"] or switching["has_more"],
    }


TOOLS: Final = [
    Tool(
        name="get_focus",
        title="Focus and distraction",
        description="Streaks of productive work, what broke them, most often first, and switches between"
        " applications with the commonest pairs. Use it for 'What distracts me?', 'How long can I focus?' and"
        " 'How often did I switch on Monday?'. Not for the time of an application or category.",
        scope=ENTRY,
        arguments=Focus,
        answer=FocusAnswer,
        frame=SQL["period"],
        parts=(
            Part(attention.SQL["usable_spans"], further=attention.FOCUS),
            # Streaks come in pages, and switches do not.
            tool.part(
                attention.ENDPOINTS,
                "context_switches",
                is_wanted=_lists_switches,
                own=Listed().values() | {"limit": ROWS},
            ),
            # The same without a list, which is kept for long periods.
            Part(
                attention.SQL["switch_totals"],
                name="counted_switches",
                is_wanted=_counts_switches,
                own={"limit": 0},
            ),
        ),
        finish=_most_frequent,
        rows="data",
        other_rows=("switches", "pairs", "breakers"),
    )
]

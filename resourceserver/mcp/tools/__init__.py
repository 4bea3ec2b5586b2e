"""Every tool of the MCP endpoint, in the order in which they are listed."""

from typing import Final

from resourceserver.mcp.tool import Tool
from resourceserver.mcp.tools import (
    breakdown,
    code,
    comparison,
    content,
    correlate,
    day,
    focus,
    goals,
    health,
    listening,
    patterns,
    places,
    search,
    sessions,
    status,
)

TOOLS: Final[list[Tool]] = [
    *status.TOOLS,
    *day.TOOLS,
    *breakdown.TOOLS,
    *comparison.TOOLS,
    *focus.TOOLS,
    *patterns.TOOLS,
    *sessions.TOOLS,
    *goals.TOOLS,
    *correlate.TOOLS,
    *code.TOOLS,
    *health.TOOLS,
    *listening.TOOLS,
    *places.TOOLS,
    *content.TOOLS,
    *search.TOOLS,
]

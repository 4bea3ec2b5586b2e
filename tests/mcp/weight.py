"""What the list of tools costs: ``python -m tests.mcp.weight`` prints it by tool.

An assistant's program sends name, description and input schema of every tool to its model, in every
conversation. A token is about four bytes of such text.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from resourceserver.mcp.tool import Tool
from resourceserver.mcp.tools import TOOLS


@dataclass(frozen=True)
class Weight:
    """Bytes of one tool in the list."""

    name: str
    whole: int
    seen: int
    """What a model sees."""
    arguments: int
    answer: int

    @property
    def tokens(self) -> int:
        """The tokens of what a model sees."""
        return tokens(self.seen)


def tokens(size: int) -> int:
    """Return about how many tokens a text of so many bytes has."""
    return -(-size // 4)


def of(tool: Tool) -> Weight:
    """Return the weight of one tool."""
    listed = tool.listing()
    seen = {name: listed[name] for name in ("name", "description", "inputSchema")}
    parts = (listed, seen, listed["inputSchema"], listed["outputSchema"])
    return Weight(tool.name, *map(_size, parts))


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def total(weights: Iterable[Weight]) -> Weight:
    """Return the sums."""
    columns = [(each.whole, each.seen, each.arguments, each.answer) for each in weights]
    return Weight("together", *map(sum, zip(*columns, strict=True)))


def table() -> str:
    """Return the weights of all tools, the heaviest for a model first."""
    weights = sorted(map(of, TOOLS), key=lambda each: -each.seen)
    head = ("tool", "bytes", "seen", "tokens", "arguments", "answer")
    rows = [
        (each.name, each.whole, each.seen, each.tokens, each.arguments, each.answer)
        for each in (*weights, total(weights))
    ]
    return "\n".join(
        f"{row[0]:20}" + "".join(f"{column:>10}" for column in row[1:]) for row in (head, *rows)
    )


if __name__ == "__main__":
    print(table())  # noqa: T201 # the table is what this command is for

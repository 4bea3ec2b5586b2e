"""A question: how a person asks it, the calls that answer it, and the values that the answer must have."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.mcp.questions.life import Life

Arguments = dict[str, Any]
Answer = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """A call as an assistant would choose it by the descriptions."""

    tool: str
    arguments: Arguments | Callable[..., Arguments]
    """The arguments, or a function that returns them from the life and the answers before."""


@dataclass(frozen=True)
class Question:
    """One question of a person."""

    text: str
    calls: Sequence[Call]
    read: Callable[..., Any]
    """Returns the values from the answers of the calls."""
    expected: Callable[[Life], Any]
    """Returns the same values from the rows of the life."""


def one(tool: str, **arguments: Any) -> tuple[Call, ...]:
    """Return a single call; ``from_`` is ``from``."""
    return (Call(tool, {name.rstrip("_"): value for name, value in arguments.items()}),)


def on(tool: str, arguments: Callable[[Life], Arguments]) -> tuple[Call, ...]:
    """Return a single call whose arguments depend on the current day."""
    return (Call(tool, arguments),)

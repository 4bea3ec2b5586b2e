"""What the pulls of code hosts share."""

from datetime import datetime
from typing import Any, Final

from resourceserver.integrations import values
from resourceserver.integrations.reading import instant_ms

TOO_LONG: Final = frozenset({"server_error", "timed_out", "too_large"})
"""The failures of a request for the commits of a repository whose history is too long for the service."""


def change_key(repository: str, number: int, action: str, at: datetime) -> str:
    """Return the key of what happened to a pull request; that of a commit is its hash."""
    return values.key(f"{repository}#{number}", action, instant_ms(at))


def lines(value: Any, *, is_merge: bool) -> int | None:
    """Return a count of lines: 0 for a merge, as git counts it, since its commits have the same lines."""
    return 0 if is_merge else values.count(value)


def plain(value: Any) -> str | None:
    """Return a text that can be kept in a state; None for anything else."""
    return (
        value if isinstance(value, str) and value.isprintable() and 0 < len(value) <= 1000 else None
    )

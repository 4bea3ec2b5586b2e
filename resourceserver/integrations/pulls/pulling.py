"""What a pull is: a function that asks a service for what is new since its last state.

It runs in a thread of the worker, and does nothing but fetch and read. What it yields is checked and written
like the records of a file (``turn``). A worker may be killed at any moment, and another one pulls again from
the last state: so the keys of records must be the same each time.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple, Protocol

from resourceserver.integrations.format import Person
from resourceserver.integrations.imports.writing import Target
from resourceserver.integrations.records import Record, Refused, Sourced
from shared.fetcher import Answer

Item = Record | Sourced | Refused


class Fetch(Protocol):
    """``Fetcher.fetch`` (``shared.fetcher``)."""

    def __call__(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] = ...,
        body: bytes | None = ...,
        types: tuple[str, ...] | None = ...,
        most_bytes: int = ...,
        within_s: float = ...,
        redirects: int = ...,
    ) -> Answer:
        """Return the answer of a public server. Raises FetchFailed."""


class Source(NamedTuple):
    """What a pull needs to know."""

    settings: Mapping[str, str]
    """What the person chose, by field of the kind."""
    secrets: Mapping[str, str]
    """The same of secret fields, opened."""
    state: Mapping[str, Any]
    """What the last pull left, as JSON; empty at first."""
    person: Person
    fetch: Fetch


@dataclass
class Pulled:
    """What a pull finds."""

    items: Iterable[Item]
    """May fetch page after page while it is iterated."""
    state: dict[str, Any] = field(default_factory=dict)
    """Stored after all items are written; it may be filled while ``items`` is iterated. At most about 100 KB
    as JSON."""
    finish: Callable[[Target], None] | None = None
    """Runs in the transaction of the last items, such as for the removal of what the source no longer has."""
    retry_after: timedelta | None = None
    """How long the service wants to be left alone; it may be set while ``items`` is iterated."""


class PullFailed(Exception):
    """The service did not give what was asked for. What was yielded before is kept."""

    def __init__(
        self, code: str, retry_after: timedelta | None = None, *, is_refused: bool = False
    ) -> None:
        """Keep the code of ``shared.connections.PROBLEMS``, and when the service wants to be asked again.

        ``is_refused``: it does not accept the key or the password.
        """
        super().__init__(code)
        self.code = code
        self.retry_after = retry_after
        self.is_refused = is_refused


Pull = Callable[[Source], Pulled]
"""Raises PullFailed and FetchFailed, here or while its items are iterated."""

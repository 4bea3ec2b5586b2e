"""The order of the lists of API tokens and applications, and the search in them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from authserver.forms import Form
from authserver.oauth.grants import Grant

SEARCH_ABOVE: Final = 10
"""A list with more rows than this has a search field."""


@dataclass(frozen=True)
class Search:
    """The search of a list."""

    text: str
    is_offered: bool
    total: int
    """The number of rows without the search."""

    def finds(self, *texts: str | None) -> bool:
        """Return whether one of ``texts`` contains the searched text. Upper and lower case are the same."""
        return any(self.text.casefold() in (text or "").casefold() for text in texts)


def search(query: Form, total: int) -> Search:
    """Return the search of a page whose list has ``total`` rows."""
    is_offered = total > SEARCH_ABOVE
    return Search((query.get("search") or "").strip() if is_offered else "", is_offered, total)


def last_used_first(granted: Sequence[Grant]) -> list[Grant]:
    """Return the grants by their last use, latest first; then those never used, newest first."""
    return sorted(granted, key=last_use, reverse=True)


def last_use(grant: Grant) -> tuple[bool, datetime]:
    """Return the sort key of a grant; a later use is greater."""
    return (grant.last_used_at is not None, grant.last_used_at or grant.created_at)

"""The scopes of the service and what each lets an application do.

Reading is granted per domain, writing per stream. The order here is the order in which scopes are
shown, stored and returned everywhere.
"""

from collections.abc import Iterable
from typing import Final

SCOPES: Final[dict[str, str]] = {
    "read:activity": "See which apps and sites you use, your coding time, devices and goals",
    "read:code": "See your commits, pull requests and reviews",
    "read:health": "See your health samples, heart rate, sleep and recovery",
    "read:location": "See where you have been and your check-ins",
    "read:music": "See what you listen to",
    "read:content": "See your recordings and transcripts, insights, watch history and calendar",
    "read:profile": "See your name, e-mail address, time zone and connected services",
    "ingest:app_sessions": "Add application usage to your history",
    "ingest:coding_sessions": "Add coding sessions to your history",
    "ingest:health": "Add health samples to your history",
    "ingest:heartbeats": "Add editor heartbeats to your history",
}
"""Every scope and the sentence that people read when they are asked for it."""

DOMAINS: Final[dict[str, tuple[str, ...]]] = {
    "Activity": (
        "read:activity",
        "ingest:app_sessions",
        "ingest:coding_sessions",
        "ingest:heartbeats",
    ),
    "Code hosting": ("read:code",),
    "Health": ("read:health", "ingest:health"),
    "Location": ("read:location",),
    "Music": ("read:music",),
    "Content": ("read:content",),
    "Profile": ("read:profile",),
}
"""The parts of somebody's data, as people are shown them, and the scopes of each."""

DEFAULT: Final = "read:activity"
"""What an application gets that neither asks for a scope nor registered one."""


class UnknownScopeError(ValueError):
    """A scope that this service does not have."""

    def __init__(self, names: Iterable[str]) -> None:
        """Keep the unknown names, sorted."""
        self.names = tuple(sorted(names))
        super().__init__(f"unknown scope: {', '.join(self.names)}")


def parse(text: str) -> tuple[str, ...]:
    """Return the scopes of a space-separated list in canonical order, each once.

    The list may be empty (RFC 6749, section 3.3). Raises UnknownScopeError where a name is not ours.
    """
    return ordered(text.split(" ")) if text.strip(" ") else ()


def by_domain(names: Iterable[str]) -> dict[str, list[str]]:
    """Return ``names`` under the domains that they belong to, both in canonical order."""
    asked = set(names)
    grouped = {
        domain: [scope for scope in scopes if scope in asked] for domain, scopes in DOMAINS.items()
    }
    return {domain: scopes for domain, scopes in grouped.items() if scopes}


def ordered(names: Iterable[str]) -> tuple[str, ...]:
    """Return ``names`` in canonical order, each once. Raises UnknownScopeError."""
    asked = {name for name in names if name}
    unknown = asked - SCOPES.keys()
    if unknown:
        raise UnknownScopeError(unknown)
    return tuple(scope for scope in SCOPES if scope in asked)

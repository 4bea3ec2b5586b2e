"""The scopes of the service, each with a sentence for people.

Reading is granted per domain, writing per stream. Lists of scopes have this order everywhere: on pages, in
storage and in answers.
"""

from collections.abc import Iterable
from typing import Final

_DECLARED: Final = (
    (
        "read:activity",
        "Activity",
        "See which apps and sites you use, your coding time, devices and goals",
    ),
    ("read:code", "Code hosting", "See your commits, pull requests and reviews"),
    ("read:health", "Health", "See your health samples, heart rate, sleep and recovery"),
    ("read:location", "Location", "See where you have been and your check-ins"),
    ("read:music", "Music", "See what you listen to"),
    (
        "read:content",
        "Content",
        "See your recordings and transcripts, insights, watch history and calendar",
    ),
    ("read:profile", "Profile", "See your name, e-mail address, time zone and connected services"),
    ("ingest:app_sessions", "Activity", "Add application usage to your history"),
    ("ingest:coding_sessions", "Activity", "Add coding sessions to your history"),
    ("ingest:health", "Health", "Add health samples to your history"),
    ("ingest:heartbeats", "Activity", "Add editor heartbeats to your history"),
)
"""One line for each scope: its name, the domain of data that it belongs to, and its sentence. Lists, pages,
metadata and descriptions are derived from it."""

SCOPES: Final = {scope: sentence for scope, _, sentence in _DECLARED}
"""Every scope and the sentence that people read on the consent page."""

WITHOUT_ENDPOINT: Final = frozenset(("ingest:health", "ingest:heartbeats"))
"""Scopes that can be granted but that no endpoint accepts yet. Pages mark them."""

DOMAINS: Final = {
    domain: tuple(scope for scope, its_domain, _ in _DECLARED if its_domain == domain)
    for domain in dict.fromkeys(domain for _, domain, _ in _DECLARED)
}
"""The domains of a person's data, as pages list them, and the scopes of each."""

READING: Final = tuple(scope for scope in SCOPES if scope.startswith("read:"))
"""The scopes that give access to data of a person."""

DEFAULT: Final = "read:activity"
"""The scope of an application that requests none and registered none."""


class UnknownScopeError(ValueError):
    """A scope that this service does not have."""

    def __init__(self, names: Iterable[str]) -> None:
        """Keep the unknown names, sorted."""
        self.names = tuple(sorted(names))
        super().__init__(f"unknown scope: {', '.join(self.names)}")


def parse(text: str) -> tuple[str, ...]:
    """Return the scopes of a space-separated list in canonical order, each once.

    The list may be empty (RFC 6749, section 3.3). Raises UnknownScopeError for an unknown name.
    """
    return ordered(text.split(" ")) if text.strip(" ") else ()


def by_domain(names: Iterable[str]) -> dict[str, list[str]]:
    """Return ``names`` under the domains that they belong to, both in canonical order."""
    requested = set(names)
    grouped = {
        domain: [scope for scope in scopes if scope in requested]
        for domain, scopes in DOMAINS.items()
    }
    return {domain: scopes for domain, scopes in grouped.items() if scopes}


def ordered(names: Iterable[str]) -> tuple[str, ...]:
    """Return ``names`` in canonical order, each once. Raises UnknownScopeError."""
    requested = {name for name in names if name}
    unknown = requested - SCOPES.keys()
    if unknown:
        raise UnknownScopeError(unknown)
    return tuple(scope for scope in SCOPES if scope in requested)

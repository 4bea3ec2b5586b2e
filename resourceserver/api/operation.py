"""The declaration of an operation for the description of the API.

That of a read endpoint is made from its declaration (endpoint.py). Other operations have their own beside the
handler, which takes name, path and bodies from there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel

from resourceserver.api.errors import Problem
from resourceserver.api.parameters import NoParams, Params

INGEST: Final = "Ingest"
SERVICE: Final = "Service"
PROFILE: Final = "Profile"


@dataclass(frozen=True)
class Operation:
    """One method of one path."""

    name: str
    path: str
    tag: str
    """The part of the service, or the domain of data, that it belongs to."""
    summary: str
    answers: Mapping[int, type[BaseModel]]
    """The JSON bodies of the operation itself, by status."""
    method: str = "GET"
    scope: str | None = None
    takes_any_token: bool = False
    """Whether it needs a token but no scope of it."""
    params: type[Params] = NoParams
    request: Mapping[str, Any] | None = None
    """The schema of its JSON request."""
    problems: tuple[Problem, ...] = ()
    """Its problems besides those of any token and any parameter."""
    media_types: Mapping[str, str] = field(default_factory=dict)
    """Media types of its answers besides JSON, each with a description."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers of a successful answer, besides those of every answer."""

    @property
    def scopes(self) -> tuple[str, ...] | None:
        """The scopes that every request needs; None if it needs no token."""
        if self.scope is None:
            return () if self.takes_any_token else None
        return (self.scope,)

"""What the description says of one method of one path.

A read endpoint's is made of its declaration (endpoint.py). What is no 'parameters in, rows out' declares
its own beside its handler, which takes name, path and bodies from there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel

from resourceserver.api.errors import Problem
from resourceserver.api.parameters import NoParams, Params

INGEST: Final = "Ingest"
SERVICE: Final = "Service"


@dataclass(frozen=True)
class Operation:
    """One method of one path."""

    name: str
    path: str
    tag: str
    """The part of the service, or of somebody's data, that it belongs to."""
    summary: str
    answers: Mapping[int, type[BaseModel]]
    """The JSON that it answers by itself, by status."""
    method: str = "GET"
    scope: str | None = None
    params: type[Params] = NoParams
    request: Mapping[str, Any] | None = None
    """The schema of the JSON that it takes."""
    problems: tuple[Problem, ...] = ()
    """What may go wrong besides what may go wrong with any token and any parameter."""
    media_types: Mapping[str, str] = field(default_factory=dict)
    """In which others than JSON it answers, each with what that holds."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """What stands in headers of a good answer, beside what every answer has there."""

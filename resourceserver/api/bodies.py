"""Shapes that the answers of several endpoints share.

Postgres writes the answers; these models describe them, and the tests validate every answer with them. A
server needs their schemas only for its descriptions, so they are built at the first use, not at the start.
"""

import ast
import inspect
import sys
from datetime import date
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, StringConstraints
from pydantic_core import CoreSchema

Timestamp = Annotated[
    str,
    StringConstraints(pattern=r"^\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"),
    Field(json_schema_extra={"format": "date-time"}),
]
"""An instant in UTC, always with three decimals."""
CalendarDay = Annotated[date, Field(strict=False)]
Milliseconds = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]
Percent = Annotated[float, Field(ge=0, le=100)]
Productivity = Literal["productive", "neutral", "distracting"]


class Body(BaseModel):
    """An object of an answer: it has exactly these members, and always all of them."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Give each member the docstring below it as its description.

        pydantic's own ``use_attribute_docstrings`` searches the source when each class is defined, which
        took a third of the time in which a server starts.
        """
        for name, member in cls.model_fields.items():
            (defining, *_) = (each for each in cls.__mro__ if name in inspect.get_annotations(each))
            if member.description is None:
                described = _descriptions(defining.__module__)
                member.description = described.get(defining.__name__, {}).get(name)
        return handler(source)


@cache
def _descriptions(module: str) -> dict[str, dict[str, str]]:
    """Return the text under each attribute of each class of a module."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {
        each.name: {
            attribute: inspect.cleandoc(text)
            for pair in pairwise(each.body)
            for attribute, text in _described(*pair)
        }
        for each in tree.body
        if isinstance(each, ast.ClassDef)
    }


def _described(statement: ast.stmt, following: ast.stmt) -> list[tuple[str, str]]:
    """Return the attribute that a statement declares with the docstring after it, if there are both."""
    match statement, following:
        case (
            ast.AnnAssign(target=ast.Name(id=attribute)),
            ast.Expr(value=ast.Constant(value=str(text))),
        ):
            return [(attribute, text)]
    return []


class InstantRangeEcho(Body):
    """The requested range, normalised; ``to`` is not part of it."""

    from_: Timestamp = Field(alias="from")
    to: Timestamp


class DayRangeEcho(Body):
    """The requested calendar days, both included."""

    from_: CalendarDay = Field(alias="from")
    to: CalendarDay


class Listing(Body):
    """The members that every list with pages has."""

    count: Count
    """The number of rows of this page."""
    limit: Count
    """The largest number of rows that the page could have."""
    has_more: bool
    next_cursor: str | None
    """The ``cursor`` of the next page; null on the last one."""


class OfSums(Body):
    """The member that sums of sessions have, for any range of instants."""

    removed_before: Timestamp | None
    """Single sessions that ended before this have been removed, so the time between an end of the range and
    the nearest quarter of an hour inside it is missing. Null where nothing is missing: each end of the range
    is on a quarter of an hour, or is not before this."""


class Device(Body):
    """The device of a row."""

    id: str
    name: str
    platform: str | None

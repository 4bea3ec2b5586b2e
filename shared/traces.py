"""Tracebacks in the log, without what the database quotes of the data.

An error of Postgres has details such as the values of a row that a constraint refuses, and the message of one
about a value quotes it. Neither may be in a log, so only the code, what it is about, and the rest remains.
"""

import logging
import traceback
from collections.abc import Iterator
from types import TracebackType
from typing import Final

import psycopg

_OF_A_VALUE: Final = "22"
"""The class of the codes of errors about a value."""
_CAUSE: Final = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT: Final = "\nDuring handling of the above exception, another exception occurred:\n\n"

_Info = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class Formatter(logging.Formatter):
    """Formats records as usual, but for errors of the database in their tracebacks."""

    def formatException(self, ei: _Info) -> str:  # noqa: N802 -- the name in the standard library
        """Return the traceback of an exception and of those that led to it."""
        return "" if ei[1] is None else "".join(_lines(ei[1], set())).rstrip("\n")


def _lines(error: BaseException, seen: set[int]) -> Iterator[str]:
    seen.add(id(error))
    before, link = error.__cause__, _CAUSE
    if before is None and not error.__suppress_context__:
        before, link = error.__context__, _CONTEXT
    if before is not None and id(before) not in seen:
        yield from _lines(before, seen)
        yield link
    if error.__traceback__ is not None:
        yield "Traceback (most recent call last):\n"
        yield from traceback.format_tb(error.__traceback__)
    if isinstance(error, psycopg.Error) and error.sqlstate is not None:
        yield f"{type(error).__module__}.{type(error).__qualname__}: {_described(error)}\n"
    else:
        yield from traceback.format_exception_only(error)
    for each in error.exceptions if isinstance(error, BaseExceptionGroup) else ():
        yield from _lines(each, seen)


def _described(error: psycopg.Error) -> str:
    """Return what an error of the database says, but for what may be data."""
    about = error.diag
    parts = [error.sqlstate or ""]
    if not parts[0].startswith(_OF_A_VALUE):
        parts.append(about.message_primary or "")
    parts += [
        f"{name} {value}"
        for name, value in (
            ("schema", about.schema_name),
            ("table", about.table_name),
            ("column", about.column_name),
            ("constraint", about.constraint_name),
        )
        if value
    ]
    return "; ".join(parts)

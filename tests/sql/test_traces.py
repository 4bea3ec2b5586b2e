"""Errors of the database in the log."""

import io
import logging
from typing import Any, LiteralString

import psycopg
import pytest

from shared import traces
from tests.conftest import Person


def logged(error: BaseException) -> str:
    """Return what is written about an exception."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(traces.Formatter())
    info = (type(error), error, error.__traceback__)
    handler.emit(logging.LogRecord("svc.error", logging.ERROR, __file__, 1, "failed", (), info))
    return written.getvalue()


def fail(owner: psycopg.Connection[Any], statement: LiteralString) -> None:
    """Fail because of an error of the database."""
    try:
        owner.execute(statement)
    except psycopg.Error as error:
        raise LookupError("later") from error


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        (
            "insert into identity.user (email) values ('alice@example.org')",
            "UniqueViolation: 23505; duplicate key value violates unique constraint",
        ),
        ("select 'alice@example.org'::integer", "InvalidTextRepresentation: 22P02\n"),
    ],
)
def test_what_an_error_quotes_of_the_data_is_not_logged(
    owner: psycopg.Connection[Any], alice: Person, statement: LiteralString, reason: str
) -> None:
    with pytest.raises(LookupError) as raised:
        fail(owner, statement)

    text = logged(raised.value)

    assert text.startswith("failed\nTraceback")
    assert f"psycopg.errors.{reason}" in text
    assert "The above exception was the direct cause" in text
    assert text.rstrip().endswith("LookupError: later")
    assert alice.email not in text


def fail_twice() -> None:
    try:
        raise KeyError("first")
    except KeyError:
        raise ValueError("second")  # noqa: B904 -- the log has what was handled then


def test_other_exceptions_are_logged_as_usual() -> None:
    with pytest.raises(ValueError, match="second") as raised:
        fail_twice()

    error = raised.value
    usual = logging.Formatter().formatException((ValueError, error, error.__traceback__))
    assert logged(error) == f"failed\n{usual}\n"

"""The form of a log line, which is written by hand for speed."""

import io
import logging
from datetime import UTC, datetime

from shared import web


def record(message: str, at: datetime, *arguments: object) -> logging.LogRecord:
    made = logging.LogRecord("svc.access", logging.INFO, __file__, 1, message, arguments, None)
    made.created = at.timestamp()
    made.msecs = at.microsecond // 1000
    return made


def test_a_line_equals_that_of_the_logging_module() -> None:
    written = io.StringIO()
    handler = web.LineHandler(written)
    usual = logging.Formatter(web.LOG_FORMAT)
    handler.setFormatter(usual)
    records = [
        record("status=%d of %s", datetime(2026, 3, 29, 1, 59, 59, 7000, UTC), 200, "alice"),
        record("100 %", datetime(2026, 3, 29, 1, 59, 59, 999000, UTC)),
        record("später", datetime(2026, 3, 29, 2, 0, 0, 0, UTC)),
        record("earlier again", datetime(2026, 3, 29, 1, 0, 0, 0, UTC)),
    ]

    for each in records:
        handler.emit(each)

    assert written.getvalue().splitlines() == [usual.format(each) for each in records]


def test_an_exception_is_written_below_its_line() -> None:
    written = io.StringIO()
    handler = web.LineHandler(written)
    handler.setFormatter(logging.Formatter(web.LOG_FORMAT))
    try:
        raise KeyError("unknown")
    except KeyError as error:
        failed = logging.LogRecord(
            "svc.error", logging.ERROR, __file__, 1, "failed", (), (KeyError, error, None)
        )
    handler.emit(failed)

    first, *_, last = written.getvalue().splitlines()
    assert first.endswith(" ERROR svc.error failed")
    assert last == "KeyError: 'unknown'"


def test_a_record_of_a_request_has_all_that_a_formatter_may_name() -> None:
    usual = logging.LogRecord("svc.access", logging.INFO, __file__, 1, "100 %", (), None)
    line = web.AccessRecord("100 %")

    assert vars(usual).keys() - vars(line).keys() == set()
    assert logging.Formatter("%(levelname)s %(filename)s %(message)s").format(line) == (
        "INFO web.py 100 %"
    )

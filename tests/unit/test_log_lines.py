"""The form of a log line, which is written by hand for speed."""

import io
import json
import logging
from datetime import UTC, datetime

from hypothesis import example, given
from hypothesis import strategies as st

from shared import log_lines, web


def record(message: str, at: datetime, *arguments: object) -> logging.LogRecord:
    made = logging.LogRecord("svc.access", logging.INFO, __file__, 1, message, arguments, None)
    made.created = at.timestamp()
    made.msecs = at.microsecond // 1000
    return made


def test_a_line_equals_that_of_the_logging_module() -> None:
    written = io.StringIO()
    handler = log_lines.LineHandler(written)
    usual = logging.Formatter(log_lines.LOG_FORMAT)
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
    handler = log_lines.LineHandler(written)
    handler.setFormatter(logging.Formatter(log_lines.LOG_FORMAT))
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


def as_json(*records: logging.LogRecord) -> list[dict[str, object]]:
    written = io.StringIO()
    handler = log_lines.JSONHandler("resourceserver", written)
    for each in records:
        handler.emit(each)
    return [json.loads(line) for line in written.getvalue().splitlines()]


def test_in_json_each_pair_is_a_member_and_what_follows_them_is_the_message() -> None:
    at = datetime(2026, 3, 29, 1, 59, 59, 7000, UTC)

    lines = as_json(
        record("request_id=%s route=me status=200 duration_ms=0.7 client_id=-", at, "00001234"),
        record("kind=import attempt=2 import_status=done", at),
        record("request_id=5f unexpected error, grant_id=7", at),
        record("first line\nrequest_id=forged", at),
        record("time=0 logger=forged", at),
    )

    common = {
        "time": "2026-03-29T01:59:59.007Z",
        "level": "INFO",
        "logger": "svc.access",
        "process": "resourceserver",
    }
    assert lines == [
        common | {"request_id": "00001234", "route": "me"} | {"status": 200, "duration_ms": 0.7},
        common | {"kind": "import", "attempt": 2, "import_status": "done"},
        common | {"request_id": "5f", "message": "unexpected error, grant_id=7"},
        common | {"message": "first line\nrequest_id=forged"},
        common | {"message": "time=0 logger=forged"},
    ]


def test_in_json_an_exception_is_a_member_of_its_line() -> None:
    try:
        raise KeyError("unknown")
    except KeyError as error:
        failed = logging.LogRecord(
            "svc.error", logging.ERROR, __file__, 1, "failed", (), (KeyError, error, None)
        )
        (line,) = as_json(failed)

    assert line["message"] == "failed"
    assert str(line["exception"]).splitlines()[-1] == "KeyError: 'unknown'"


WORDS = st.text('abz_=- \n9."é', max_size=12)


@given(st.lists(WORDS | st.sampled_from(["status=12", "route=me", "a=-", "wait_s=1.5"])))
@example(["status=12 ", "a= ", "b=c"])
def test_json_says_what_the_text_says_and_nothing_more(parts: list[str]) -> None:
    message = " ".join(parts)

    (line,) = as_json(record("%s", datetime(2026, 3, 29, tzinfo=UTC), message))

    said = {name: value for name, value in line.items() if name not in log_lines.STANDARD}
    words = str(line.get("message", ""))
    assert message.endswith(words)
    pairs = message.removesuffix(words).split()
    assert said == {
        name: number(value) if isinstance(said.get(name), int | float) else value
        for name, _, value in (pair.partition("=") for pair in pairs)
        if value != "-"
    }


def number(text: str) -> float:
    return float(text)

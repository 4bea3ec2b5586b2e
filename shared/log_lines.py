"""Log lines of all processes: as text, or as JSON with the same values (SVC_LOG_FORMAT).

A message begins with ``key=value`` pairs, and words may follow them. In JSON each pair is a member:

    2026-11-23 16:06:16,123 INFO svc.access request_id=5f route=healthz method=GET status=200 …
    {"time":"2026-11-23T16:06:16.123Z","level":"INFO","logger":"svc.access","process":"resourceserver",
     "request_id":"5f","route":"healthz","method":"GET","status":200,…}

No line contains a secret in either form, because no message does.
"""

import json
import logging
import re
import time
from typing import Final, TextIO

from shared import traces
from shared.settings import LogFormat

LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"

_PAIR: Final = re.compile(r"([a-z][a-z_]*)=(\S*)(?: |$)")
_NUMBER: Final = re.compile(r"\d{1,15}(?:\.\d{1,6})?")
_NUMBERS: Final = frozenset(
    ("status", "duration_ms", "attempt", "days", "imports", "read", "new", "changed", "wait_s")
)
"""The pairs whose values are numbers in JSON. All others are texts: an id may happen to be all digits, and
programs that index logs expect one type for each name."""
STANDARD: Final = ("time", "level", "logger", "process", "message", "exception")
"""The members that are not from pairs."""


class LineHandler(logging.StreamHandler[TextIO]):
    """Writes a record in the format of LOG_FORMAT; the general formatter takes three times as long.

    Every request writes one. The text of a second is formatted once for all its lines.
    """

    _second = -1
    _time = ""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line, and more where it has an exception."""
        if record.exc_info or record.stack_info:
            return super().format(record)
        second = int(record.created)
        if second != self._second:
            self._time = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
            self._second = second
        return f"{self._time},{int(record.msecs):03} {record.levelname} {record.name} {record.getMessage()}"


class JSONHandler(logging.StreamHandler[TextIO]):
    """Writes each record as one JSON object on one line."""

    def __init__(self, process: str, stream: TextIO | None = None) -> None:
        """Take the name of the kind of process, such as ``worker``."""
        super().__init__(stream)
        self._process = process
        self._traces = traces.Formatter()

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a JSON object, its time in UTC."""
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(int(record.created)))
        line: dict[str, object] = {
            "time": f"{at}.{int(record.msecs):03}Z",
            "level": record.levelname,
            "logger": record.name,
            "process": self._process,
        }
        pairs, words = _pairs_and_words(record.getMessage())
        line |= pairs
        if words:
            line["message"] = words
        if record.exc_info:
            line["exception"] = self._traces.formatException(record.exc_info)
        return json.dumps(line, separators=(",", ":"))


def _pairs_and_words(message: str) -> tuple[dict[str, object], str]:
    """Return the pairs with which a message begins, but for empty ones, and the words after them."""
    pairs: dict[str, object] = {}
    end = 0
    while (pair := _PAIR.match(message, end)) is not None and pair[1] not in STANDARD:
        end = pair.end()
        name, value = pair.groups()
        if value != "-":
            is_number = name in _NUMBERS and _NUMBER.fullmatch(value)
            pairs[name] = float(value) if is_number and "." in value else value
            if is_number and "." not in value:
                pairs[name] = int(value)
    return pairs, message[end:]


def configure(form: LogFormat, process: str) -> None:
    """Send the log lines of a process, and the web server's warnings, to standard error."""
    handler: logging.Handler
    if form == "json":
        handler = JSONHandler(process)
    else:
        handler = LineHandler()
        handler.setFormatter(traces.Formatter(LOG_FORMAT))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    # The lines contain none of these values, and each request would compute them. These are the switches
    # that the logging HOWTO documents, the private one included.
    logging._srcfile = None  # noqa: SLF001 -- the HOWTO names it, and there is no public one
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    for noisy in ("httpx2", "httpcore2", "psycopg"):
        logging.getLogger(noisy).setLevel(logging.ERROR)

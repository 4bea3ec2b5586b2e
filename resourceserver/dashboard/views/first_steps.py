"""An account without any data: its page of today shows the way to the first event, and waits for it."""

from resourceserver.dashboard.figures import Answer
from resourceserver.dashboard.view import Answers, Ask, Asks


def asks(answers: Answers) -> Asks:
    """Return the question whether there is any source of data, if no device has sent an event."""
    if "devices" in answers and not has_event(answers["devices"]):
        return {"sources": Ask("integrations")}
    return {}


def has_event(devices: Answer) -> bool:
    """Tell whether a device of the first page of the list, which has the newest ones, has sent an event."""
    return any(row["last_event_at"] for row in devices["data"])


def is_empty(answers: Answers) -> bool:
    """Tell whether there is no source of data."""
    return "sources" in answers and not answers["sources"]["data"]

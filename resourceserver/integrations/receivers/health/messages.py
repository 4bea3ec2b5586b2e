"""Messages about health: recognising the application that sent one, and reading what it contains."""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, Final, NamedTuple

from resourceserver.integrations.format import Person
from resourceserver.integrations.receivers.health import (
    auto_export,
    connect_webhook,
    life_dashboard,
)
from resourceserver.integrations.receivers.health.items import Item, StageOf
from resourceserver.integrations.records import HeartRate, Refused, Sample, Sleep
from resourceserver.integrations.values import example

MOST_AHEAD: Final = timedelta(hours=1)
"""How far the clock of a phone may be ahead, as for the events of trackers."""
_LONGEST_NUMBER: Final = 400
_ZONES: Final = timedelta(hours=26)
"""The most that local times of two zones are apart."""

Reader = Callable[[dict[str, Any], Person], Iterator[Item]]


class Unrecognised(Exception):
    """The body is not a message of an application that this address serves; the message says why."""


class Application(NamedTuple):
    """An application that sends messages."""

    name: str
    """Its name for people."""
    source: str
    """The source of its records."""
    read: Reader
    grows: bool = False
    """Whether of two samples with one key the one that ends later counts, and not the newer one."""


LIFE_DASHBOARD: Final = Application(
    "Life Dashboard Companion", life_dashboard.SOURCE, life_dashboard.read
)
AUTO_EXPORT: Final = Application("Health Auto Export", auto_export.SOURCE, auto_export.read)
CONNECT_WEBHOOK: Final = Application(
    "Health Connect Webhook", connect_webhook.SOURCE, connect_webhook.read, grows=True
)


class Message(NamedTuple):
    """A message, and the application that sent it."""

    application: Application
    content: dict[str, Any]

    def items(self, person: Person) -> Iterator[Item]:
        """Yield what the message contains. What lies in the future is refused."""
        latest = person.now + MOST_AHEAD
        for item in self.application.read(self.content, person):
            if isinstance(item, Refused) or _at(item) <= latest:
                yield item
            else:
                yield Refused("timestamp_in_future", example(str(item)))


def _at(item: Any) -> Any:
    match item:
        case HeartRate():
            return item.recorded_at
        case StageOf():
            return item.stage.ended_at
        case Sleep():
            return item.ended_at
        case Sample(is_daily_total=True):
            # In the phone's zone the day can have begun.
            return item.started_at - _ZONES
        case _:
            return item.started_at


def parse(body: bytes | bytearray) -> Message:
    """Return the message of a body. Raises Unrecognised."""
    content = _json(bytes(body).decode("utf-8-sig", "replace"))
    if not isinstance(content, dict):
        raise Unrecognised("the body is no JSON object")
    if isinstance(content.get("data"), dict):
        return Message(AUTO_EXPORT, content)
    if "timestamp" in content and "app_version" in content:
        if "source" in content:
            return Message(LIFE_DASHBOARD, content)
        return Message(CONNECT_WEBHOOK, content)
    raise Unrecognised(
        "the body is no message of Life Dashboard Companion, Health Auto Export or Health Connect Webhook"
    )


def _json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_nothing)
    except json.JSONDecodeError as error:
        raise Unrecognised(f"the body is no JSON: {error.msg} at character {error.pos}") from error
    except RecursionError as error:
        raise Unrecognised("the body is nested too deeply") from error
    except ValueError:
        # A whole number with thousands of digits. Once more, without it.
        return json.loads(text, parse_constant=_nothing, parse_int=_int)


def _nothing(_: str) -> None:
    """Return what stands for a number that is none: ``NaN`` and ``Infinity`` are no JSON."""


def _int(digits: str) -> int | None:
    return int(digits) if len(digits) <= _LONGEST_NUMBER else None

"""Messages about health: recognising the application that sent one, and reading what it contains."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from resourceserver.integrations import values
from resourceserver.integrations.format import Person
from resourceserver.integrations.receivers.health import (
    auto_export,
    connect_webhook,
    life_dashboard,
)
from resourceserver.integrations.receivers.health.items import Item, StageOf
from resourceserver.integrations.receivers.health.quantities import is_sum
from resourceserver.integrations.receivers.messages import check_time, document
from resourceserver.integrations.records import (
    METRICS,
    HeartRate,
    Refused,
    Sample,
    ScreenTime,
    Sleep,
)
from resourceserver.integrations.values import Flaw, example

_ZONES: Final = timedelta(hours=26)
"""The most that local times of two zones are apart."""

_FLAWS: Final = {
    "not_json": "the body is no JSON",
    "too_many_values": "the body is too long: it has more than a million values",
    "not_an_object": "the body is no JSON object",
}

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
    grows: Callable[[Sample], bool]
    """Whether of two samples with one key the one that ends later counts, or else the larger one, and not the
    newer one."""


LIFE_DASHBOARD: Final = Application(
    "Life Dashboard Companion",
    life_dashboard.SOURCE,
    life_dashboard.read,
    lambda sample: sample.is_daily_total,
)
AUTO_EXPORT: Final = Application(
    "Health Auto Export",
    auto_export.SOURCE,
    auto_export.read,
    # A message that is sent again may come after a newer one, which has a larger sum.
    lambda sample: METRICS[sample.metric_type][1] == "sum",
)
CONNECT_WEBHOOK: Final = Application(
    "Health Connect Webhook",
    connect_webhook.SOURCE,
    connect_webhook.read,
    lambda sample: is_sum(sample.metric_type),
)


class Message(NamedTuple):
    """A message, and the application that sent it."""

    application: Application
    content: dict[str, Any]

    def items(self, person: Person) -> Iterator[Item]:
        """Yield what the message contains; what a clock that is wrong has dated is refused."""
        for item in self.application.read(self.content, person):
            if not isinstance(item, Refused):
                try:
                    _check_time(item, person.now)
                except Flaw as flaw:
                    yield Refused(str(flaw), example(str(item)))
                    continue
            yield item


def _check_time(item: Any, now: datetime) -> None:
    """Raise Flaw for an item that is dated too early, or later than now."""
    match item:
        case HeartRate():
            check_time(item.recorded_at, now)
        case StageOf():
            check_time(item.stage.ended_at, now)
        case Sleep():
            check_time(item.ended_at, now)
        case Sample(is_daily_total=True):
            # In the phone's zone the day can have begun.
            check_time(item.started_at, now + _ZONES)
        case ScreenTime():
            # Its reader, which files have too, has compared it with the clock.
            pass
        case _:
            check_time(item.started_at, now)


def parse(body: bytes | bytearray) -> Message:
    """Return the message of a body. Raises Unrecognised."""
    try:
        content = values.members(document(body))
    except Flaw as flaw:
        raise Unrecognised(_FLAWS[str(flaw)]) from flaw
    if isinstance(content.get("data"), dict):
        return Message(AUTO_EXPORT, content)
    if "timestamp" in content and "app_version" in content:
        if "source" in content:
            return Message(LIFE_DASHBOARD, content)
        return Message(CONNECT_WEBHOOK, content)
    raise Unrecognised(
        "the body is no message of Life Dashboard Companion, Health Auto Export or Health Connect Webhook"
    )

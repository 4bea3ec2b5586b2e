"""Health Connect Webhook for Android.

Its records have no ids, so a record is known by its metric, its instants and the application that wrote it.
What it has summed up, over some minutes or over a day, names no application: it is known by its metric and
its start, since the end of today's moves on. Of two sums with the same start, the one that ends later counts,
and of two with the same end the larger one, because the first part of a day that has left the window of 48
hours comes again with less.
"""

from collections.abc import Iterator
from datetime import datetime, time, timedelta
from typing import Any, Final, Literal

from resourceserver.integrations import values
from resourceserver.integrations.format import Person
from resourceserver.integrations.reading import instant_ms
from resourceserver.integrations.receivers.health import quantities, sessions
from resourceserver.integrations.receivers.health.items import Item, attempt
from resourceserver.integrations.receivers.health.quantities import Quantity
from resourceserver.integrations.records import HeartRate, Sample, Sensor

SOURCE: Final = "health_connect_webhook"
_NAME: Final = "Health Connect"
_KEY_NAME: Final = 80
_HOUR: Final = timedelta(hours=1)
_MINUTE: Final = timedelta(minutes=1)
_PHONE, _WATCH = 2, 1
"""The types of devices in Health Connect."""


def read(message: dict[str, Any], person: Person) -> Iterator[Item]:
    """Yield what a message contains."""
    for name, element in quantities.elements(message, frozenset()):
        yield from attempt(_items(name, element, person), name, element)


def _items(name: str, element: Any, person: Person) -> Iterator[Item]:
    quantities.check_type(name)
    given = values.members(element)
    sensor = _sensor(given.get("metadata"))
    if name == quantities.SLEEP:
        yield sessions.sleep(given, None, sensor, sensor.name)
        return
    if name == quantities.HEART_RATE:
        at = values.instant(given.get("time"))
        bpm = round(quantities.number(given.get("bpm", given.get("avg")), name))
        yield HeartRate(values.key(instant_ms(at), sensor.name), at, bpm, sensor)
        return
    started_at, ended_at = quantities.times(given)
    if name == quantities.MINDFULNESS:
        lasted_ms = (ended_at - started_at) / quantities.MS
        key = values.key("mindful_ms", instant_ms(started_at), instant_ms(ended_at), sensor.name)
        yield Sample(key, "mindful_ms", started_at, ended_at, lasted_ms, sensor)
        return
    for quantity in quantities.TYPES[name]:
        # Over some minutes, measured values are averaged, without the name of the value.
        metric, members, factor = quantity
        members = members if quantities.is_sum(metric) else (*members, "avg")
        value = quantities.value_of(given, Quantity(metric, members, factor))
        is_summed = "metadata" not in given and quantities.is_sum(metric)
        end = () if is_summed else (instant_ms(ended_at),)
        yield Sample(
            key=values.key(metric, instant_ms(started_at), *end, sensor.name),
            metric_type=metric,
            started_at=started_at,
            ended_at=ended_at,
            value=value,
            sensor=sensor,
            is_daily_total=is_summed and _is_of_a_day(started_at, ended_at, person),
        )


def _is_of_a_day(started_at: datetime, ended_at: datetime, person: Person) -> bool:
    """Return whether a sum is that of a day: it begins with the day and is no window of some minutes."""
    lasts = ended_at - started_at
    if lasts <= _HOUR and not lasts % _MINUTE:
        return False
    try:
        return started_at.astimezone(person.zone).time() == time()
    except OverflowError:
        return False


def _sensor(metadata: Any) -> Sensor:
    """Return what measured: the application that wrote the record, and the model of its device."""
    given = metadata if isinstance(metadata, dict) else {}
    device = given.get("device")
    device = device if isinstance(device, dict) else {}
    kind: Literal["watch", "phone", "other"] = "other"
    if device.get("type") == _WATCH:
        kind = "watch"
    elif device.get("type") == _PHONE:
        kind = "phone"
    model = values.text(device.get("model"))
    return Sensor(
        name=(values.text(given.get("data_origin")) or _NAME)[:_KEY_NAME],
        device=model and model[:_KEY_NAME],
        kind=kind,
        platform="android",
    )

"""Points as receivers of locations take them: where a person was is kept, even if details of it are wrong."""

import re
from collections.abc import Callable
from typing import Any, Final

from resourceserver.integrations import values
from resourceserver.integrations.format import Person
from resourceserver.integrations.receivers.messages import check_time
from resourceserver.integrations.records import KEY_LENGTH, Point, Refused
from resourceserver.integrations.values import Flaw

_RANGES: Final = {
    "accuracy_m": (0.0, 1e8),
    "altitude_m": (-1e8, 1e8),
    "vertical_accuracy_m": (0.0, 1e8),
    "speed_mps": (0.0, 1e6),
    "course_deg": (0.0, 360.0),
    "battery_percent": (0, 100),
}
"""Details that can be left out, with the range outside which a value means that it is unknown."""
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")


MOST: Final = 10_000
"""The most points of a message that are read; applications send up to 1,000."""


def points(read: Callable[[Any], Point], given: list[Any], person: Person) -> list[Point | Refused]:
    """Return what ``point`` does for each message of a list."""
    items = [point(read, each, person) for each in given[:MOST]]
    if len(given) > MOST:
        items.append(Refused("too_many_points", f"{len(given)} in one message"))
    return items


def point(read: Callable[[Any], Point], message: Any, person: Person) -> Point | Refused:
    """Return the point that ``read`` makes of a message, without details that cannot be true."""
    try:
        taken = read(message)
        check_time(taken.recorded_at, person.now)
    except Flaw as flaw:
        return values.refused(flaw, message)
    unknown: dict[str, Any] = {
        name: None
        for name, (low, high) in _RANGES.items()
        if (value := getattr(taken, name)) is not None and not low <= value <= high
    }
    return taken._replace(activity=name(taken.activity), device=name(taken.device), **unknown)


def name(value: Any) -> str | None:
    """Return a name that can be stored, cut to the length of a key; None if nothing of it is left."""
    written = values.text(value)
    return values.text(_UNSTORABLE.sub("", written)[:KEY_LENGTH]) if written else None

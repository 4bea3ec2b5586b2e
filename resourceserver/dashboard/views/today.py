"""Today: the day so far."""

from typing import Final

from resourceserver.dashboard.period import Day
from resourceserver.dashboard.view import Ask, Asks, Scene, View


def asks(scene: Scene) -> Asks:
    """Return the questions about the day."""
    return {
        "daily": Ask("daily", scene.day_query),
        "apps": Ask("app_usage", scene.instant_query),
        "devices": Ask("devices"),
    }


VIEW: Final = View(
    name="today",
    title="Today",
    paths=("/",),
    address=Day,
    endpoints=("daily", "app_usage", "devices"),
    asks=asks,
)

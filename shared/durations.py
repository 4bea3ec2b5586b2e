"""Durations in words."""


def text(duration_ms: int) -> str:
    """Return a duration in words, such as ``2 h 31 min``; seconds are only for less than a minute."""
    sign = "-" if duration_ms < 0 else ""
    seconds = (abs(duration_ms) + 500) // 1000
    if seconds < 60:
        return f"{sign if seconds else ''}{seconds} s"
    hours, minutes = divmod((seconds + 30) // 60, 60)
    if hours == 0:
        return f"{sign}{minutes} min"
    return f"{sign}{hours} h {minutes} min" if minutes else f"{sign}{hours} h"

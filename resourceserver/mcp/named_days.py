"""Days by their names, as people say them to an assistant."""

from datetime import date
from typing import Final

from resourceserver.api import parameters

WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
DAYS_AGO: Final = {"today": 0, "yesterday": 1}


def parse(text: str) -> date | str:
    """Return a calendar day, or the word for one. Raises ValueError."""
    word = text.lower()
    if word in DAYS_AGO or word in WEEKDAYS:
        return word
    try:
        return parameters.parse_day(text)
    except ValueError as error:
        raise ValueError(f"{error}; or today, yesterday, or a weekday such as monday") from error

"""The rate limit of one person, against assistants that repeat calls in a loop."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from typing import Final
from uuid import UUID

WINDOW_S: Final = 60.0
MOST: Final = 100_000
"""The most people who are counted at a time, some 15 MB. Others are not limited until the minute is over."""


@dataclass
class RateLimit:
    """Counts requests of each person, in the memory of one process, from one full minute to the next."""

    per_minute: int
    """The requests that are answered in a minute; 0 means no limit."""
    clock: Callable[[], float] = time.monotonic
    _window: int = 0
    _counts: dict[UUID, int] = field(default_factory=dict, repr=False)

    def wait_s(self, person: UUID) -> int:
        """Count a request; return 0, or after how many seconds the person may try again."""
        if self.per_minute == 0:
            return 0
        now = self.clock()
        window = int(now / WINDOW_S)
        if window != self._window:
            self._window = window
            self._counts = {}
        count = self._counts.get(person, 0)
        if count >= self.per_minute:
            return max(1, ceil((window + 1) * WINDOW_S - now))
        if count or len(self._counts) < MOST:
            self._counts[person] = count + 1
        return 0

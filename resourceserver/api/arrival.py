"""The time that the body of a request may take to arrive."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Final

from resourceserver.api.errors import Problem

GRACE_S: Final = 10.0
LOWEST_RATE: Final = 16 * 1024
"""The minimum rate of a body: a client may take ``GRACE_S`` and a second for so many bytes."""
LONGEST_S: Final = 300.0
"""The time limit of a body at any rate, by default."""


class TooSlow(Problem):
    """the body comes too slowly"""

    status = 408
    code = "invalid_request"


async def in_time(
    pieces: AsyncIterator[bytes], *, longest_s: float | None = None, pause_s: float | None = None
) -> AsyncIterator[bytes]:
    """Yield ``pieces``. Raises TooSlow if the client takes too long; the server's own time does not count.

    All of them may take ``longest_s``, by default ``LONGEST_S``, and the next one ``pause_s`` at most.
    """
    longest_s = LONGEST_S if longest_s is None else longest_s
    size, spent_s = 0, 0.0
    while True:
        allowed_s = min(GRACE_S + size / LOWEST_RATE, longest_s) - spent_s
        started = time.monotonic()
        try:
            async with asyncio.timeout(allowed_s if pause_s is None else min(allowed_s, pause_s)):
                piece = await anext(pieces, None)
        except TimeoutError as error:
            raise TooSlow from error
        if piece is None:
            return
        spent_s += time.monotonic() - started
        size += len(piece)
        yield piece

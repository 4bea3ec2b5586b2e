"""Places that go round by person, so that one person's load is that person's.

    alice's  9th … 4th ──┐            ┌──► 3 places of alice at most
    bob's          1st ──┼─► rounds ──┼──► bob's
    carol's  2nd   1st ──┘            └──► carol's; further ones as they become free

A place is what a request needs to be served: a connection of its own for a long question, a batch or an
export, a share of a connection for a quick question, or memory for a large body. A free place goes to the
waiting person who holds the fewest places, and among equals to the one who was served longest ago. So a
person without a place never waits behind another person's second request.

A request that waits too long is refused with the reason that applies: a person who holds places has asked
for too much (429); for a person who holds none the server is full (503).

A request counts for the owner of its token only after the database has accepted the token
(``Reader.know``). A token contains the id of its owner, and anybody could write another person's id into a
token.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from resourceserver.api.errors import DatabaseUnavailable, ServerFull, TooManyRequests

Person = Hashable

MOST_WAITING: Final = 100
"""How many requests of one person may wait, as a rule."""
PATIENCE_S: Final = 15.0
"""How long a request waits for a place, as a rule."""
RETRY_AFTER_S: Final = 5
"""When to ask again after having asked for too much."""


@dataclass(eq=False)
class Turns:
    """A number of places in this process, and who waits for one."""

    places: int
    """How many there are."""
    most: int
    """How many of them one person may have, unless there are so few that nothing would be left for others."""
    patience_s: float | None = None
    """How long a request waits for a place; None for the usual time."""
    full: type[DatabaseUnavailable] = ServerFull
    """What is raised where others have all places."""
    most_waiting: int = MOST_WAITING
    """How many requests of one person may wait; further ones are refused at once."""
    held: Counter[Person] = field(default_factory=Counter)
    """How many places each person has."""
    waiting: dict[Person, deque[asyncio.Future[None]]] = field(default_factory=dict)
    """The requests of each person that wait, those of the person who was served longest ago first."""

    def __post_init__(self) -> None:
        """Keep a place for others, where there are several."""
        self.most = min(self.most, max(1, self.places - 1))

    def is_awaited_by_another(self, person: Person) -> bool:
        """Tell whether somebody waits who holds no place, while ``person`` does."""
        return any(other != person and not self.held[other] for other in self.waiting)

    async def take(self, person: Person) -> None:
        """Wait for a place, which must be given back.

        Raises TooManyRequests if the person holds places already, else what ``full`` names.
        """
        if not self.waiting and self._may_have(person):
            self.held[person] += 1
            return
        waiting = self.waiting.setdefault(person, deque())
        if len(waiting) >= self.most_waiting:
            raise TooManyRequests(RETRY_AFTER_S)
        place = asyncio.get_running_loop().create_future()
        waiting.append(place)
        self._hand_out()
        try:
            async with asyncio.timeout(PATIENCE_S if self.patience_s is None else self.patience_s):
                await place
        except BaseException as error:
            self._leave(person, place)
            if not isinstance(error, TimeoutError):
                raise
            if self.held[person]:
                raise TooManyRequests(RETRY_AFTER_S) from error
            raise self.full from error

    def give_back(self, person: Person) -> None:
        """Let somebody else have the place."""
        self.held[person] -= 1
        if not self.held[person]:
            del self.held[person]
        self._hand_out()

    @asynccontextmanager
    async def place(self, person: Person) -> AsyncIterator[None]:
        """Have a place for the time of the block. Raises what ``take`` does."""
        await self.take(person)
        try:
            yield
        finally:
            self.give_back(person)

    def _may_have(self, person: Person) -> bool:
        return self.held.total() < self.places and self.held[person] < self.most

    def _leave(self, person: Person, place: asyncio.Future[None]) -> None:
        """Stop waiting; a place that was handed over at the same moment goes to the next."""
        if place.done() and not place.cancelled():
            self.give_back(person)
            return
        place.cancel()
        waiting = self.waiting.get(person)
        if waiting is not None and place in waiting:
            waiting.remove(place)
            if not waiting:
                del self.waiting[person]

    def _hand_out(self) -> None:
        """Hand free places to those whose turn it is."""
        while True:
            ready = [person for person in self.waiting if self._may_have(person)]
            if not ready:
                return
            # The order of a dictionary is that of insertion, and the first of several smallest is taken.
            person = min(ready, key=lambda each: self.held[each])
            waiting = self.waiting.pop(person)
            while waiting and waiting[0].done():
                # It was cancelled, or has waited too long, and leaves only when its task runs again.
                waiting.popleft()
            if not waiting:
                continue
            place = waiting.popleft()
            if waiting:
                self.waiting[person] = waiting
            self.held[person] += 1
            place.set_result(None)

"""Places that go round by person, so that the load of one person delays only that person.

    alice's  9th … 4th ──┐            ┌──► 3 places of alice at most
    bob's          1st ──┼─► rounds ──┼──► bob's
    carol's  2nd   1st ──┘            └──► carol's; further ones when they become free

A place is what a request needs to be served: a connection of its own for a long question, a batch or an
export, a share of a connection for a quick question, or memory for a large body. A free place goes to the
waiting person who holds the fewest places, and among equals to the one who was served longest ago. So a
person without a place never waits behind another person's second request.

A request that waits too long is refused with the reason that applies: a person who holds places has sent too
many requests (429); for a person who holds none the server is full (503).

A request counts for the owner of its token only after the database has accepted the token
(``Reader.know``). A token contains the id of its owner, and a forged token could contain another person's
id.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Hashable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from resourceserver.api.errors import DatabaseUnavailable, ServerFull, TooManyRequests
from shared import metrics
from shared.metrics import Reading

Person = Hashable

MOST_WAITING: Final = 100
"""The most waiting requests of one person, by default."""
PATIENCE_S: Final = 15.0
"""How long a request waits for a place, by default."""
RETRY_AFTER_S: Final = 5
"""The delay after which a refused client may try again."""


@dataclass(eq=False)
class Turns:
    """A number of places in this process, and the requests that wait for one."""

    places: int
    """The number of places."""
    most: int
    """The most places of one person. One place fewer if otherwise none would be left for others."""
    patience_s: float | None = None
    """How long a request waits for a place; None for the usual time."""
    full: type[DatabaseUnavailable] = ServerFull
    """The error to raise if others hold all places."""
    name: str = "requests_at_once"
    """What metrics call it."""
    most_waiting: int = MOST_WAITING
    """The most waiting requests of one person; further ones are refused at once."""
    held: Counter[Person] = field(default_factory=Counter)
    """The number of places that each person holds."""
    waiting: dict[Person, deque[asyncio.Future[None]]] = field(default_factory=dict)
    """The waiting requests of each person, those of the person who was served longest ago first."""

    def __post_init__(self) -> None:
        """Keep a place for others if there are several."""
        self.most = min(self.most, max(1, self.places - 1))

    def is_awaited_by_another(self, person: Person) -> bool:
        """Tell whether a person without a place waits while ``person`` holds one."""
        return any(other != person and not self.held[other] for other in self.waiting)

    async def take(self, person: Person) -> None:
        """Wait for a place, which must be given back.

        Raises TooManyRequests if the person already holds places, else the error of ``full``.
        """
        if not self.waiting and self._may_have(person):
            self.held[person] += 1
            return
        waiting = self.waiting.setdefault(person, deque())
        if len(waiting) >= self.most_waiting:
            raise TooManyRequests(RETRY_AFTER_S, limit=self.name)
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
                raise TooManyRequests(RETRY_AFTER_S, limit=self.name) from error
            raise self.full from error

    def give_back(self, person: Person) -> None:
        """Give the place to the next waiting person."""
        self.held[person] -= 1
        if not self.held[person]:
            del self.held[person]
        self._hand_out()

    def give_back_after(self, person: Person, pause_s: float) -> None:
        """Give the place back after ``pause_s`` seconds; until then the person cannot take it again."""
        asyncio.get_running_loop().call_later(pause_s, self.give_back, person)

    @asynccontextmanager
    async def place(self, person: Person) -> AsyncIterator[None]:
        """Hold a place for the time of the block. Raises what ``take`` does."""
        await self.take(person)
        try:
            yield
        finally:
            self.give_back(person)

    def load(self) -> Iterator[Reading]:
        """Yield how many places are held and how many requests wait, for metrics."""
        name = (self.name,)
        yield metrics.QUEUE_PLACES, name, self.places
        yield metrics.QUEUE_HELD, name, self.held.total()
        yield metrics.QUEUE_WAITING, name, sum(map(len, self.waiting.values()))
        yield metrics.QUEUE_PEOPLE, name, len(self.waiting)

    def _may_have(self, person: Person) -> bool:
        return self.held.total() < self.places and self.held[person] < self.most

    def _leave(self, person: Person, place: asyncio.Future[None]) -> None:
        """Stop waiting; a place that was given at the same moment goes to the next."""
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
        """Give free places to the people whose turn it is."""
        while True:
            ready = [person for person in self.waiting if self._may_have(person)]
            if not ready:
                return
            # A dictionary is in the order of insertion, and min() returns the first of several smallest.
            person = min(ready, key=lambda each: self.held[each])
            waiting = self.waiting.pop(person)
            while waiting and waiting[0].done():
                # It was canceled or waited too long, and is removed when its task runs again.
                waiting.popleft()
            if not waiting:
                continue
            place = waiting.popleft()
            if waiting:
                self.waiting[person] = waiting
            self.held[person] += 1
            place.set_result(None)

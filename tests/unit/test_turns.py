"""Places that go round by person."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from resourceserver.api.errors import ServerFull, TooManyRequests
from resourceserver.api.turns import Turns


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


async def ask(places: Turns, served: list[str], *names: str) -> list[asyncio.Task[None]]:
    """Request places in this order; each request notes its name when it gets one, and keeps it."""

    async def one(name: str) -> None:
        await places.take(name[0])
        served.append(name)

    tasks = [asyncio.create_task(one(name)) for name in names]
    await asyncio.sleep(0)
    return tasks


async def give_back(places: Turns, person: str) -> None:
    """Give a place back, and let the request that gets it run."""
    places.give_back(person)
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def test_one_person_has_a_limited_number_of_places_and_others_have_the_rest() -> None:
    async def test() -> None:
        places, served = Turns(5, 3), list[str]()
        await ask(places, served, "a1", "a2", "a3", "a4", "a5", "b1", "c1", "d1")

        assert served == ["a1", "a2", "a3", "b1", "c1"]

    run(test())


def test_places_go_round_and_first_to_people_without_one() -> None:
    async def test() -> None:
        places, served = Turns(3, 2), list[str]()
        tasks = await ask(places, served, "a1", "a2", "b1", "a3", "b2", "b3", "a4", "c1")
        for person in ("a", "a", "b", "c", "b"):
            await give_back(places, person)

        # carol has waited least long and has none; then the fewest places decide, then the longest wait.
        assert served == ["a1", "a2", "b1", "c1", "a3", "b2", "a4", "b3"]
        assert all(task.done() for task in tasks)
        assert places.waiting == {}

    run(test())


def test_one_of_few_places_is_left_for_others() -> None:
    async def test() -> None:
        places, served = Turns(2, 3), list[str]()
        tasks = await ask(places, served, "a1", "a2", "b1")

        assert served == ["a1", "b1"]
        tasks[1].cancel()

    run(test())


def test_the_refusal_after_a_long_wait_names_the_holder_of_the_places() -> None:
    async def test() -> None:
        places, served = Turns(2, 1, patience_s=0.01), list[str]()
        await ask(places, served, "a1", "b1")
        again, other = await ask(places, served, "a2", "c1")

        with pytest.raises(TooManyRequests):
            await again
        with pytest.raises(ServerFull):
            await other
        assert places.waiting == {}
        await give_back(places, "a")
        await places.take("c")

    run(test())


def test_a_canceled_request_takes_no_place() -> None:
    async def test() -> None:
        places, served = Turns(1, 1), list[str]()
        await ask(places, served, "a1")
        gone, handed_over, last = await ask(places, served, "b1", "c1", "d1")
        gone.cancel()
        await asyncio.sleep(0)
        # It has the place already when it is cancelled, and has not learned of it.
        places.give_back("a")
        handed_over.cancel()
        await last

        assert served == ["a1", "d1"]
        assert places.held == {"d": 1}

    run(test())


def test_a_place_that_is_given_back_before_a_cancelled_request_leaves_goes_to_the_next() -> None:
    async def test() -> None:
        places, served = Turns(1, 1), list[str]()
        await ask(places, served, "a1")
        gone, *_ = await ask(places, served, "b1", "b2", "c1")
        gone.cancel()
        await give_back(places, "a")

        await give_back(places, "b")
        await give_back(places, "c")
        assert served == ["a1", "b2", "c1"]
        assert (places.held, places.waiting) == ({}, {})

    run(test())


def test_a_place_given_back_as_a_wait_ends_is_free() -> None:
    async def test() -> None:
        places, served = Turns(1, 1, patience_s=0.01), list[str]()
        await ask(places, served, "a1")
        (late,) = await ask(places, served, "b1")
        (place,) = places.waiting["b"]
        # Called in the moment in which the time is over, before the request has learned of it.
        place.add_done_callback(lambda _: places.give_back("a"))

        with pytest.raises(ServerFull):
            await late
        assert (places.held, places.waiting) == ({}, {})

    run(test())


def test_requests_beyond_the_waiting_limit_are_refused_at_once() -> None:
    async def test() -> None:
        places, served = Turns(1, 1, most_waiting=2), list[str]()
        tasks = await ask(places, served, "a1", "a2", "a3", "a4")

        with pytest.raises(TooManyRequests):
            await tasks[3]
        for task in tasks[1:3]:
            task.cancel()

    run(test())

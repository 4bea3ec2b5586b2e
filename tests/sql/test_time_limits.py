"""The time limit of an answer, of one statement or of several."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from resourceserver.api import session
from resourceserver.api.errors import TookTooLong
from resourceserver.api.session import Credential, Question, Reader
from shared import pipeline, tokens
from shared.settings import Settings
from tests.conftest import Connect, Person

FRAME = pipeline.statement("select '{}' from (select pg_sleep(%(seconds)s)) as slept")
PART = pipeline.statement("select 'slept' from (select pg_sleep(%(seconds)s)) as slept")


def with_reader(deployment: Settings, use: Callable[[Reader], Awaitable[None]]) -> None:
    async def run() -> None:
        reader = Reader.of(replace(deployment, quick_connections=1, patient_connections=1))
        try:
            await use(reader)
        finally:
            reader.close()

    asyncio.run(run())


def credential(person: Person) -> Credential:
    token = tokens.parse(tokens.ACCESS, person.token("read:activity"))
    assert token is not None
    return Credential(token, ("read:activity",), ())


def asking(frame_s: float, part_s: float) -> Question:
    parts = {"part": (PART, {"seconds": part_s})}
    return Question((FRAME, {"seconds": frame_s}), (PART,), lambda _: parts)


def test_one_statement_and_several_have_the_same_limit_and_the_server_waits_longer(
    connect_as: Connect,
) -> None:
    (limit,) = connect_as("reader").execute("show statement_timeout").fetchone() or ("",)

    assert limit == f"{session.PARTS_MS // 1000}s"
    assert session.PATIENT_S * 1000 > session.PARTS_MS


def test_the_time_of_the_frame_counts_for_the_parts(deployment: Settings, alice: Person) -> None:
    limit = pipeline.statement(
        "select extract(epoch from current_setting('statement_timeout')::interval)::text"
    )
    question = Question((FRAME, {"seconds": 0.3}), (limit,), lambda _: {"limit": (limit, {})})

    async def use(reader: Reader) -> None:
        patient = replace(reader, parts_ms=10_000)

        answer = await patient.read_parts(credential(alice), question)

        assert 0 < float(answer["limit"]) <= 9.7

    with_reader(deployment, use)


def test_a_slow_part_ends_at_the_limit_of_the_whole_answer(
    deployment: Settings, alice: Person
) -> None:
    async def use(reader: Reader) -> None:
        hurried = replace(reader, parts_ms=1000)

        # The limit of a single statement is twenty seconds.
        async with asyncio.timeout(50):
            with pytest.raises(TookTooLong):
                await hurried.read_parts(credential(alice), asking(0.0, 60.0))

    with_reader(deployment, use)


def test_a_quick_read_has_a_short_limit(
    deployment: Settings, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "QUICK_MS", 200)

    async def use(reader: Reader) -> None:
        who = credential(alice)
        with pytest.raises(TookTooLong):
            await reader.read(who, PART, {"seconds": 30.0}, is_quick=True)
        # The limit has ended with the transaction: the next one on this connection has the role's own.
        (slept,) = await reader.quick.run(((PART, {"seconds": 0.5}),))
        assert slept.get_value(0, 0) == b"slept"

    with_reader(deployment, use)


def test_one_person_has_sixteen_quick_reads_at_once_and_others_do_not_wait_for_them(
    deployment: Settings, alice: Person, bob: Person
) -> None:
    quick = pipeline.statement("select 'slept' from (select pg_sleep(0.02)) as slept")

    async def use(reader: Reader) -> None:
        hers, his = credential(alice), credential(bob)
        for who in (hers, his):
            await reader.check(who)

        asked = [
            asyncio.create_task(reader.read(who, quick, {}, is_quick=True))
            for who in (*[hers] * 20, his)
        ]
        await asyncio.sleep(0)
        turns = reader.quick_turns
        waiting = {person: len(each) for person, each in turns.waiting.items()}
        held = dict(turns.held)

        assert (held, waiting) == ({hers.person: 16, his.person: 1}, {hers.person: 4})
        assert await asyncio.gather(*asked) == [b"slept"] * 21
        assert not turns.held

    with_reader(deployment, use)


def test_a_quick_read_that_waits_behind_others_fails_in_time(
    deployment: Settings, alice: Person, bob: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(reader: Reader) -> None:
        hers, his = credential(alice), credential(bob)
        for who in (hers, his):
            await reader.check(who)
        # The connection itself is good: each answer comes within its limit.
        before = [
            asyncio.create_task(reader.read(hers, PART, {"seconds": 0.4}, is_quick=True))
            for _ in range(3)
        ]
        await asyncio.sleep(0)
        monkeypatch.setattr(session, "QUICK_S", 0.6)

        with pytest.raises(TookTooLong):
            await reader.read(his, PART, {"seconds": 0.0}, is_quick=True)
        assert await asyncio.gather(*before) == [b"slept"] * 3

    with_reader(deployment, use)

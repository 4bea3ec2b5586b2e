"""The two statements of a read on one connection: nothing is left behind, and a refusal breaks nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from psycopg.errors import InvalidParameterValue

from resourceserver.api.errors import (
    DatabaseUnavailable,
    InsufficientScope,
    InvalidParameter,
    Unauthorized,
)
from resourceserver.api.session import Credential, Reader
from shared import database, pipeline, tokens
from shared.settings import Settings
from tests.conftest import Connect, Person
from tests.waiting import wait_for_async

USER = "select current_setting('svc.user_id', true)"
ANSWER = pipeline.statement(USER)
DEVICES = pipeline.statement("select count(*)::text from activity.device")
LOCAL = pipeline.statement("select (now() at time zone %(tz)s)::text")
LISTED = pipeline.statement("select to_json(%(listed)s::text[])::text")
STORED = pipeline.statement("select (now() at time zone concat('Moon/', %(crater)s::text))::text")


def credential(text: str, *scopes: str) -> Credential:
    token = tokens.parse(tokens.ACCESS, text)
    assert token is not None
    return Credential(token, scopes, ("http://testserver",))


def with_reader(chosen: Settings, use: Callable[[Reader], Awaitable[None]]) -> None:
    async def run() -> None:
        reader = Reader.of(chosen)
        await use(reader)
        reader.close()

    asyncio.run(run())


@pytest.mark.parametrize("prepare", [True, False])
def test_refusals_leave_the_connection_good(
    deployment: Settings, alice: Person, prepare: bool
) -> None:
    good = alice.token("read:activity")
    unknown = tokens.mint(tokens.ACCESS, alice.user_id).text

    async def use(reader: Reader) -> None:
        # More often than psycopg's default threshold for preparing a statement.
        for _ in range(8):
            with pytest.raises(Unauthorized):
                await reader.read(credential(unknown), ANSWER, {}, is_quick=True)
            with pytest.raises(InsufficientScope, match="read:health is required"):
                await reader.read(
                    credential(good, "read:activity", "read:health"), ANSWER, {}, is_quick=True
                )
            assert (
                await reader.read(credential(good), ANSWER, {}, is_quick=True)
                == str(alice.user_id).encode()
            )

    with_reader(replace(deployment, prepare=prepare), use)


def test_a_connection_that_nobody_uses_is_closed_and_made_again(deployment: Settings) -> None:
    connections = pipeline.Pipelines.to(
        database.login(deployment, "reader"), size=1, depth=1, patience_s=5, prepare=True
    )
    connections.pipelines[0].idle_s = 0.1
    backend = pipeline.statement("select pg_backend_pid()::text")
    slow = pipeline.statement("select pg_backend_pid()::text from pg_sleep(0.5)")

    async def pid(asked: pipeline.Statement) -> bytes | None:
        return (await connections.run(((asked, {}),)))[0].get_value(0, 0)

    async def use() -> None:
        # A connection is not closed while a request waits for its answer.
        first = await pid(slow)
        closed = asyncio.Event()
        while not closed.is_set():
            await asyncio.sleep(0.05)
            if connections.pipelines[0]._connection is None:
                closed.set()
        second = await pid(backend)
        assert first != second
        connections.close()

    asyncio.run(use())


@pytest.mark.parametrize(
    ("listed", "arrived"),
    [
        ([], "[]"),
        (["2026-03-29", "2026-03-30"], '["2026-03-29","2026-03-30"]'),
        (["", "null", "{,}", " x "], '["","null","{,}"," x "]'),
        (["a", None], '["a",null]'),
        (['say "no"', "b"], r'["say \"no\"","b"]'),
        (['"', '","'], r'["\"","\",\""]'),
        (["C:\\", "b"], r'["C:\\","b"]'),
    ],
)
def test_lists_arrive_as_they_are(
    deployment: Settings, alice: Person, listed: list[str | None], arrived: str
) -> None:
    async def use(reader: Reader) -> None:
        answer = await reader.read(
            credential(alice.token()), LISTED, {"listed": listed}, is_quick=True
        )

        assert answer.decode() == arrived

    with_reader(deployment, use)


def test_the_session_ends_with_its_request(deployment: Settings, alice: Person) -> None:
    async def use(reader: Reader) -> None:
        inside = await reader.read(credential(alice.token()), ANSWER, {}, is_quick=True)
        # Connections take turns, so that each is used.
        outside = [
            (await reader.quick.run(((ANSWER, {}),)))[0].get_value(0, 0)
            for _ in reader.quick.pipelines
        ]

        assert inside == str(alice.user_id).encode()
        assert {value or b"" for value in outside} == {b""}

    with_reader(deployment, use)


def test_a_quick_question_waits_for_one_of_another_person_at_most(
    deployment: Settings, alice: Person, bob: Person, owner: psycopg.Connection[Any]
) -> None:
    hers, his = credential(alice.token()), credential(bob.token())

    async def use(reader: Reader) -> None:
        for who in (hers, his):
            await reader.check(who)
        with owner.transaction():
            owner.execute("lock table activity.device in access exclusive mode")
            waiting = [
                asyncio.create_task(reader.read(hers, DEVICES, {}, is_quick=True)) for _ in range(8)
            ]
            asked = asyncio.create_task(reader.read(his, ANSWER, {}, is_quick=True))
            (taken,) = await wait_for_async(
                lambda: [each for each in reader.quick.pipelines if his.person in each.people],
                "the connection that has taken his question",
            )
            before_his = taken.requests - 1
        answer = await asked
        await asyncio.gather(*waiting, return_exceptions=True)

        assert answer == str(bob.user_id).encode()
        # Two connections that share all questions equally would have four of hers each.
        assert before_his == 1

    with_reader(deployment, use)


def test_an_expired_token_is_refused(deployment: Settings, alice: Person) -> None:
    expired = alice.token(expires="-1 second")
    living = alice.token(expires="1 minute")

    async def use(reader: Reader) -> None:
        with pytest.raises(Unauthorized):
            await reader.read(credential(expired), ANSWER, {}, is_quick=True)
        assert await reader.read(credential(living), ANSWER, {}, is_quick=True)

    with_reader(deployment, use)


def test_a_token_is_accepted_only_for_its_resource(deployment: Settings, alice: Person) -> None:
    async def use(reader: Reader) -> None:
        assert await reader.read(
            credential(alice.token(resource="http://testserver")), ANSWER, {}, is_quick=True
        )
        with pytest.raises(Unauthorized):
            await reader.read(
                credential(alice.token(resource="http://testserver/mcp")), ANSWER, {}, is_quick=True
            )

    with_reader(deployment, use)


def test_only_a_zone_of_the_request_is_an_error_of_the_request(
    deployment: Settings, alice: Person
) -> None:
    who = credential(alice.token())

    async def use(reader: Reader) -> None:
        with pytest.raises(InvalidParameter) as refused:
            await reader.read(who, LOCAL, {"tz": "Moon/Tycho"}, is_quick=True)
        assert refused.value.parameter == "tz"
        with pytest.raises(InvalidParameterValue, match="Moon/Tycho"):
            await reader.read(who, STORED, {"crater": "Tycho"}, is_quick=True)

    with_reader(deployment, use)


def test_dead_connections_are_replaced_without_an_error(
    deployment: Settings, alice: Person, ending_as: Connect
) -> None:
    who = credential(alice.token())
    bystander = ending_as("reader")

    async def use(reader: Reader) -> None:
        assert await reader.read(who, ANSWER, {}, is_quick=True)
        bystander.execute(
            """
            select pg_terminate_backend(pid)
              from pg_stat_activity
             where application_name = 'svc reader'
               and datname = current_database()
            """
        )
        assert await reader.read(who, ANSWER, {}, is_quick=True)

    with_reader(deployment, use)


@pytest.mark.usefixtures("short_wait")
def test_an_unreachable_database_is_reported(deployment: Settings, alice: Person) -> None:
    who = credential(alice.token())
    nowhere = replace(deployment, role_urls={"reader": "host=127.0.0.1 port=1 dbname=svc"})

    async def use(reader: Reader) -> None:
        with pytest.raises(DatabaseUnavailable):
            await reader.read(who, ANSWER, {}, is_quick=True)

    with_reader(nowhere, use)

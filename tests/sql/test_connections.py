"""Connections shared by many requests: each request gets its own answer."""

import asyncio
import math
import socket
import struct
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import errors

from resourceserver.api import session
from resourceserver.api.errors import DatabaseUnavailable, Unauthorized
from resourceserver.api.session import Credential, Reader
from shared import database, pipeline, tokens
from shared.pipeline import MissingObjectError, Pipelines, Results, Sequel, Step
from shared.settings import Settings
from tests.conftest import Connect, Person
from tests.waiting import wait_for_async

ECHO = pipeline.statement("select %(text)s::text")
WHO = pipeline.statement("select user_id || '/' || %(n)s::text from identity.user")


def to(chosen: Settings, *, size: int, depth: int, patience_s: float = 30) -> Pipelines:
    url = database.login(chosen, "reader")
    return Pipelines.to(url, size=size, depth=depth, patience_s=patience_s, prepare=True)


def with_pipelines(
    chosen: Settings, use: Callable[[Pipelines], Awaitable[None]], *, size: int = 1
) -> None:
    async def run() -> None:
        with closing(to(chosen, size=size, depth=1000)) as shared:
            await use(shared)

    asyncio.run(run())


async def echo(shared: Pipelines, text: str) -> bytes | None:
    (result,) = await shared.run(((ECHO, {"text": text}),))
    return result.get_value(0, 0)


def test_thousands_of_interleaved_reads_each_get_their_own_result(
    deployment: Settings, alice: Person, bob: Person
) -> None:
    async def ask(reader: Reader, n: int) -> None:
        person = (alice, bob)[n % 2]
        text = held[person.user_id]
        if n % 3 == 0:
            text = tokens.mint(tokens.ACCESS, person.user_id).text
        token = tokens.parse(tokens.ACCESS, text)
        assert token is not None
        who = Credential(token, ("read:profile",), ("http://testserver",))
        if n % 3 == 0:
            with pytest.raises(Unauthorized):
                await reader.read(who, WHO, {"n": n}, is_quick=True)
        else:
            answer = await reader.read(who, WHO, {"n": n}, is_quick=True)
            assert answer == f"{person.user_id}/{n}".encode()

    async def run() -> None:
        reader = Reader.of(deployment)
        # At most as many requests of one person as have a place or may wait, so that none is refused.
        for first in range(0, 6000, 200):
            await asyncio.gather(*(ask(reader, n) for n in range(first, first + 200)))
        reader.close()

    held: dict[UUID, str] = {person.user_id: person.token() for person in (alice, bob)}
    asyncio.run(run())


def test_results_are_in_the_order_of_the_steps(deployment: Settings) -> None:
    steps = [(ECHO, {"text": text}) for text in ("first", "second", "third")]

    async def use(shared: Pipelines) -> None:
        results = await shared.run(steps)

        assert [result.get_value(0, 0) for result in results] == [b"first", b"second", b"third"]

    with_pipelines(deployment, use)


def test_a_statement_longer_than_every_buffer_passes_in_both_directions(
    deployment: Settings,
) -> None:
    long = "ä" * 8_000_000

    async def use(shared: Pipelines) -> None:
        answers = await asyncio.gather(
            echo(shared, long), echo(shared, "short"), echo(shared, long)
        )

        assert [len(answer or b"") for answer in answers] == [16_000_000, 5, 16_000_000]

    with_pipelines(deployment, use)


def test_a_canceled_request_does_not_affect_others(deployment: Settings) -> None:
    async def use(shared: Pipelines) -> None:
        await echo(shared, "connected")
        impatient = asyncio.create_task(echo(shared, "first"))
        patient = asyncio.create_task(echo(shared, "second"))
        await asyncio.sleep(0)
        impatient.cancel()

        assert await patient == b"second"
        assert await echo(shared, "third") == b"third"

    with_pipelines(deployment, use)


def test_an_error_fails_only_its_own_request(deployment: Settings) -> None:
    broken = pipeline.statement("select 1 / %(n)s::integer")

    async def use(shared: Pipelines) -> None:
        answers = await asyncio.gather(
            echo(shared, "before"),
            shared.run(((broken, {"n": 0}),)),
            echo(shared, "after"),
            return_exceptions=True,
        )

        assert answers[0] == b"before"
        assert isinstance(answers[1], psycopg.errors.DivisionByZero)
        assert answers[2] == b"after"

    with_pipelines(deployment, use)


def test_a_statement_that_cannot_be_prepared_fails_only_its_own_requests(
    deployment: Settings,
) -> None:
    nonsense = pipeline.statement("select nothing from nowhere")

    async def use(shared: Pipelines) -> None:
        for _ in range(3):
            with pytest.raises(MissingObjectError, match="nowhere"):
                await shared.run(((nonsense, {}),))
            assert await echo(shared, "fine") == b"fine"

    with_pipelines(deployment, use)


def test_values_have_the_text_form_of_postgres(deployment: Settings) -> None:
    lists = pipeline.statement("select array_to_json(%(values)s::text[])::text")

    async def use(shared: Pipelines) -> None:
        values = ["plain", 'quote "', "back\\slash", "comma, {brace}", "", "NULL", "ü"]

        (answer,) = await shared.run(((lists, {"values": values}),))

        assert answer.get_value(0, 0) == (
            '["plain","quote \\"","back\\\\slash","comma, {brace}","","NULL","ü"]'.encode()
        )

    with_pipelines(deployment, use)


@pytest.mark.parametrize(
    "number",
    [
        *(0.0, -0.0, 0.1, -1.5, 1 / 3, 1e22, 123456789.123456789),
        *(sys.float_info.max, sys.float_info.min, 5e-324, sys.float_info.epsilon),
        *(math.nan, math.inf, -math.inf),
    ],
)
def test_a_float_arrives_bit_for_bit(deployment: Settings, number: float) -> None:
    bits = pipeline.statement("select float8send(%(number)s::float8)::text, %(number)s::float8")

    async def use(shared: Pipelines) -> None:
        (answer,) = await shared.run(((bits, {"number": number}),))

        assert answer.get_value(0, 0) == b"\\x" + struct.pack(">d", number).hex().encode()
        back = float(answer.get_value(0, 1) or b"")
        assert struct.pack(">d", back) == struct.pack(">d", number)

    with_pipelines(deployment, use)


def test_without_a_free_place_the_database_is_reported_as_busy(
    deployment: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleep = pipeline.statement("select pg_sleep(60)::text")

    async def run() -> None:
        alone = to(deployment, size=1, depth=1)
        await echo(alone, "connected")
        connection = alone.pipelines[0]._connection
        assert connection is not None
        sleeping = asyncio.create_task(alone.run(((sleep, {}),)))
        await wait_for_async(alone.places.locked, "the only place to be taken")
        monkeypatch.setattr(database, "WAIT_S", 0.05)
        with pytest.raises(psycopg.OperationalError, match="busy"):
            await alone.run(((ECHO, {"text": "x"}),))
        # Closing the connection would leave the query running at the server.
        await connection.cancel_safe()
        with pytest.raises(errors.QueryCanceled):
            await sleeping
        alone.close()

    asyncio.run(run())


def test_the_session_is_opened_before_the_query_in_one_transaction(
    deployment: Settings, alice: Person
) -> None:
    inside = pipeline.statement("select current_setting('svc.user_id', true) || ' ' || now()::text")
    token = tokens.parse(tokens.ACCESS, alice.token())
    assert token is not None
    who = Credential(token, (), ())

    async def use(shared: Pipelines) -> None:
        opened = (session.OPEN_SESSION, who.parameters())
        _, result = await shared.run((opened, (inside, {})))
        assert (result.get_value(0, 0) or b"").startswith(str(alice.user_id).encode())

        (later,) = await shared.run(((inside, {}),))
        assert str(alice.user_id).encode() not in (later.get_value(0, 0) or b"")

    with_pipelines(deployment, use)


def test_long_reads_run_in_parallel_from_the_first(deployment: Settings) -> None:
    meet = pipeline.statement(
        """
        select pg_sleep(0.3)::text,
               count(*)::text
          from pg_stat_activity
         where application_name = 'svc reader'
           and datname = current_database()
        """
    )

    async def run() -> None:
        patient = to(deployment, size=4, depth=1)
        await asyncio.gather(*(patient.run(((meet, {}),)) for _ in range(4)))

        assert [pipeline.requests for pipeline in patient.pipelines] == [0, 0, 0, 0]
        assert all(pipeline._connection is not None for pipeline in patient.pipelines)
        patient.close()

    asyncio.run(run())


def test_a_missing_answer_fails_the_request_in_time(
    deployment: Settings, ending_as: Connect
) -> None:
    sleep = pipeline.statement("select pg_sleep(60)::text")
    bystander = ending_as("reader")

    async def run() -> None:
        hasty = to(deployment, size=1, depth=8, patience_s=0.5)
        answers = await asyncio.gather(
            hasty.run(((sleep, {}),)), echo(hasty, "behind"), return_exceptions=True
        )
        hasty.pipelines[0].patience_s = 30
        assert [type(answer) for answer in answers] == [psycopg.OperationalError] * 2
        assert await echo(hasty, "later") == b"later"
        hasty.close()

    asyncio.run(run())
    # The connection was closed here, but the server goes on with the query until it is ended.
    bystander.execute(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
        " where datname = current_database() and query = %s",
        [sleep.text.decode()],
    )


def test_answers_behind_slow_ones_do_not_count_as_late(
    deployment: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleep = pipeline.statement("select pg_sleep(0.1)::text || %(number)s")
    passed_s = 0.0

    async def run() -> None:
        nonlocal passed_s
        loop = asyncio.get_running_loop()
        clock = loop.time
        monkeypatch.setattr(loop, "time", lambda: clock() + passed_s)
        hasty = to(deployment, size=1, depth=8, patience_s=100)
        before = await echo(hasty, "connected")
        connection = hasty.pipelines[0]._connection
        asked = [
            asyncio.ensure_future(hasty.run(((sleep, {"number": str(number)}),)))
            for number in range(4)
        ]
        answers = []
        for each in asked:
            # The last answer comes after more than twice the time that an answer may take.
            passed_s += 60
            answers.append(await each)

        assert before == b"connected"
        assert [answer[0].get_value(0, 0) for answer in answers] == [b"0", b"1", b"2", b"3"]
        assert hasty.pipelines[0]._connection is connection
        hasty.close()

    asyncio.run(run())


@pytest.mark.usefixtures("short_wait")
def test_a_server_that_accepts_without_a_reply_is_given_up(deployment: Settings) -> None:
    async def run(port: int) -> None:
        nobody = replace(deployment, role_urls={"reader": f"host=127.0.0.1 port={port} dbname=svc"})
        reader = Reader.of(nobody)
        token = tokens.mint(tokens.ACCESS, UUID(int=1))

        # Without the limit of connecting, that of the read would raise TookTooLong.
        async with asyncio.timeout(30):
            with pytest.raises(DatabaseUnavailable) as raised:
                await reader.check(Credential(token, (), ()))
        assert type(raised.value) is DatabaseUnavailable
        reader.close()

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        # The system accepts connections for this socket; no process reads from them.
        silent.listen()
        asyncio.run(run(silent.getsockname()[1]))


def test_an_invalid_value_fails_only_its_own_request(deployment: Settings) -> None:
    async def use(shared: Pipelines) -> None:
        unknown = tokens.mint(tokens.ACCESS, UUID(int=1))
        opening = (session.OPEN_SESSION, Credential(unknown, (), ()).parameters())
        with pytest.raises(UnicodeEncodeError):
            await shared.run((opening, (ECHO, {"text": "\ud800"})))

        assert await echo(shared, "fine") == b"fine"

    with_pipelines(deployment, use)


def test_a_deallocated_statement_is_prepared_again(deployment: Settings) -> None:
    forget = pipeline.statement("deallocate all")

    async def use(shared: Pipelines) -> None:
        assert await echo(shared, "first") == b"first"
        await shared.run(((forget, {}),))

        assert await echo(shared, "second") == b"second"

    with_pipelines(deployment, use)


def test_concurrent_requests_all_get_the_error_of_preparing_their_statement(
    deployment: Settings,
) -> None:
    nonsense = pipeline.statement("select nothing from nowhere")

    async def use(shared: Pipelines) -> None:
        await echo(shared, "connected")
        *refusals, answer = await asyncio.gather(
            *(shared.run(((nonsense, {}),)) for _ in range(5)),
            echo(shared, "beside them"),
            return_exceptions=True,
        )

        assert [type(refusal) for refusal in refusals] == [MissingObjectError] * 5
        assert answer == b"beside them"

    with_pipelines(deployment, use)


def test_requests_in_flight_are_answered_after_statements_were_deallocated(
    deployment: Settings,
) -> None:
    forget = pipeline.statement("deallocate all")
    other = pipeline.statement("select %(text)s::text || '!'")

    async def use(shared: Pipelines) -> None:
        await asyncio.gather(echo(shared, "first"), shared.run(((other, {"text": "first"}),)))
        for _ in range(3):
            await shared.run(((forget, {}),))
            answers = await asyncio.gather(
                shared.run(((ECHO, {"text": "two"}), (other, {"text": "steps"}))),
                *(shared.run(((ECHO, {"text": str(n)}),)) for n in range(5)),
                *(shared.run(((other, {"text": str(n)}),)) for n in range(5)),
            )
            assert [results[-1].get_value(0, 0) for results in answers] == [
                b"steps!",
                *(b"0", b"1", b"2", b"3", b"4"),
                *(b"0!", b"1!", b"2!", b"3!", b"4!"),
            ]

    with_pipelines(deployment, use)


@pytest.mark.direct
def test_a_statement_that_is_prepared_already_is_replaced(deployment: Settings) -> None:
    async def use(shared: Pipelines) -> None:
        await echo(shared, "first")
        # Like a pooler that changes the server connection and changes it back.
        shared.pipelines[0]._prepared.clear()

        assert await echo(shared, "second") == b"second"
        assert ECHO.name in shared.pipelines[0]._prepared

    with_pipelines(deployment, use)


# Sequels in the same transaction

JOIN = pipeline.statement("insert into identity.user (email) values (%(email)s) returning email")
RENAME = pipeline.statement(
    "update identity.user set display_name = %(name)s where email = %(email)s"
)


def name_by(results: Results) -> dict[str, Any]:
    email = (results[0].get_value(0, 0) or b"").decode()
    return {"email": email, "name": email.partition("@")[0]}


def renaming(values: Callable[[Results], dict[str, Any]]) -> Sequel:
    return Sequel((RENAME,), lambda results: [(RENAME, values(results))])


def people(owner: psycopg.Connection[Any]) -> list[Any]:
    return owner.execute("select email, display_name from identity.user order by email").fetchall()


def with_owners_lines(
    chosen: Settings,
    use: Callable[[Pipelines], Awaitable[None]],
    *,
    size: int = 1,
    depth: int = 1,
    prepare: bool = True,
) -> None:
    async def run() -> None:
        url = chosen.database_url or ""
        with closing(
            Pipelines.to(url, size=size, depth=depth, patience_s=30, prepare=prepare)
        ) as shared:
            await use(shared)

    asyncio.run(run())


def test_a_sequel_gets_values_from_the_answer(
    deployment: Settings, owner: psycopg.Connection[Any]
) -> None:
    async def use(shared: Pipelines) -> None:
        for name in ("alice", "bob"):
            step = (JOIN, {"email": f"{name}@example.org"})
            answer, _ = await shared.run((step,), sequel=renaming(name_by))
            assert answer.get_value(0, 0) == f"{name}@example.org".encode()

    with_owners_lines(deployment, use)

    assert people(owner) == [("alice@example.org", "alice"), ("bob@example.org", "bob")]


def test_a_failed_sequel_rolls_back_the_whole_transaction(
    deployment: Settings, owner: psycopg.Connection[Any]
) -> None:
    async def use(shared: Pipelines) -> None:
        sequel = renaming(lambda results: name_by(results) | {"name": ""})
        with pytest.raises(errors.CheckViolation):
            await shared.run(((JOIN, {"email": "alice@example.org"}),), sequel=sequel)
        assert await echo(shared, "fine") == b"fine"

    with_owners_lines(deployment, use)

    assert people(owner) == []


def test_nothing_follows_a_step_that_failed(
    deployment: Settings, owner: psycopg.Connection[Any]
) -> None:
    broken = pipeline.statement("select 1 / %(n)s::integer")
    called = []

    def take_note(results: Results) -> dict[str, Any]:
        called.append(results)
        return name_by(results)

    async def use(shared: Pipelines) -> None:
        steps = ((JOIN, {"email": "alice@example.org"}), (broken, {"n": 0}), (ECHO, {"text": "x"}))
        with pytest.raises(psycopg.errors.DivisionByZero):
            await shared.run(steps, sequel=renaming(take_note))
        assert await echo(shared, "fine") == b"fine"

    with_owners_lines(deployment, use)

    assert called == []
    assert people(owner) == []


@pytest.mark.parametrize("has_begun", [False, True], ids=["implicit", "explicit"])
def test_an_error_in_the_code_of_a_sequel_rolls_back_and_keeps_the_connection(
    deployment: Settings, owner: psycopg.Connection[Any], has_begun: bool
) -> None:
    pid = pipeline.statement("select pg_backend_pid()::text")
    join: Step = (JOIN, {"email": "alice@example.org"})
    steps: Sequence[Step] = [(pipeline.BEGIN, {}), join] if has_begun else [join]

    def fails_later(results: Results) -> pipeline.Unfinished:
        if len(results) > len(steps):
            raise KeyError("later")
        return pipeline.Unfinished([(ECHO, {"text": "first"})])

    async def use(shared: Pipelines) -> None:
        (before,) = await shared.run(((pid, {}),))
        with pytest.raises(KeyError, match="name"):
            await shared.run(steps, sequel=renaming(lambda _: dict[str, Any]()["name"]))
        with pytest.raises(psycopg.DataError, match="NUL"):
            await shared.run(steps, sequel=renaming(lambda _: {"email": "", "name": "\0"}))
        with pytest.raises(KeyError, match="later"):
            await shared.run(steps, sequel=Sequel((ECHO,), fails_later))
        (after,) = await shared.run(((pid, {}),))
        assert after.get_value(0, 0) == before.get_value(0, 0)

    with_owners_lines(deployment, use)

    assert people(owner) == []


def test_a_canceled_request_leaves_no_transaction_open(
    deployment: Settings, owner: psycopg.Connection[Any]
) -> None:
    async def use(shared: Pipelines) -> None:
        await echo(shared, "connected")
        step = (JOIN, {"email": "alice@example.org"})
        impatient = asyncio.create_task(shared.run((step,), sequel=renaming(name_by)))
        await asyncio.sleep(0)
        impatient.cancel()

        assert await echo(shared, "next") == b"next"

    with_owners_lines(deployment, use)

    assert people(owner) == []


def test_no_request_is_sent_into_an_open_transaction(
    deployment: Settings, owner: psycopg.Connection[Any]
) -> None:
    async def use(shared: Pipelines) -> None:
        await echo(shared, "connected")
        step = (JOIN, {"email": "alice@example.org"})
        answers = await asyncio.gather(
            shared.run((step,), sequel=renaming(name_by)),
            echo(shared, "beside it"),
            return_exceptions=True,
        )

        assert isinstance(answers[1], psycopg.InterfaceError)
        assert await echo(shared, "after it") == b"after it"

    with_owners_lines(deployment, use, depth=8)

    assert people(owner) == [("alice@example.org", "alice")]


def test_a_deallocated_sequel_is_prepared_again_and_runs_once(
    deployment: Settings, owner: psycopg.Connection[Any]
) -> None:
    forget = pipeline.statement("deallocate all")

    async def use(shared: Pipelines) -> None:
        for name in ("alice", "bob"):
            step = (JOIN, {"email": f"{name}@example.org"})
            await shared.run((step,), sequel=renaming(name_by))
            await shared.run(((forget, {}),))
            # The first statement is prepared again, the sequel is not.
            await shared.run(((JOIN, {"email": f"{name}2@example.org"}),))

    with_owners_lines(deployment, use)

    assert people(owner) == [
        ("alice2@example.org", None),
        ("alice@example.org", "alice"),
        ("bob2@example.org", None),
        ("bob@example.org", "bob"),
    ]


# When the schema changes between two requests

COUNT = pipeline.statement("select nextval('trial.attempt')")
THING = pipeline.statement("select * from trial.thing")
ADD_COLUMN = "alter table trial.thing add column added text default 'new'"


@pytest.fixture
def trial(owner: psycopg.Connection[Any]) -> Iterator[psycopg.Connection[Any]]:
    """The owner's connection, and a schema whose tables tests may change.

    ``trial.attempt`` counts the attempts of a request: a rollback does not reset a sequence.
    """
    owner.execute("create schema trial")
    owner.execute("create sequence trial.attempt")
    owner.execute("create table trial.thing as select 1 as n, 'a' as letter")
    owner.execute("create table trial.note (text text)")
    yield owner
    owner.execute("drop schema trial cascade")


def attempts(owner: psycopg.Connection[Any]) -> Any:
    """Return how often requests were sent since the last call."""
    (count,) = owner.execute(
        "select last_value - (not is_called)::integer from trial.attempt"
    ).fetchone() or (None,)
    owner.execute("alter sequence trial.attempt restart")
    return count


async def ask(shared: Pipelines, question: pipeline.Statement) -> list[bytes | None]:
    """Return the columns of the only row. The request counts itself first."""
    _, result = await shared.run(((COUNT, {}), (question, {})), may_repeat=False)
    return [result.get_value(0, column) for column in range(result.nfields)]


@pytest.mark.parametrize(
    ("prepare", "text", "change", "before", "after"),
    [
        (
            "",
            "select * from trial.thing",
            ADD_COLUMN,
            [b"1", b"a"],
            [b"1", b"a", b"new"],
        ),
        (
            "",
            "select n from trial.thing",
            "alter table trial.thing alter column n type text using n || '!'",
            [b"1"],
            [b"1!"],
        ),
        (
            "create view trial.seen as select n from trial.thing",
            "select * from trial.seen",
            "create or replace view trial.seen as select n, letter from trial.thing",
            [b"1"],
            [b"1", b"a"],
        ),
        (
            "create function trial.answer() returns table (n integer) return 1",
            "select * from trial.answer()",
            "drop function trial.answer;"
            "create function trial.answer() returns table (n integer, m integer) return (1, 2)",
            [b"1"],
            [b"1", b"2"],
        ),
    ],
    ids=["column added", "type changed", "view replaced", "function replaced"],
)
def test_a_request_whose_result_has_new_columns_is_sent_once_more(
    deployment: Settings,
    trial: psycopg.Connection[Any],
    prepare: str,
    text: str,
    change: str,
    before: list[bytes],
    after: list[bytes],
) -> None:
    question = pipeline.statement(text)

    async def use(shared: Pipelines) -> None:
        assert await ask(shared, question) == before
        trial.execute(change)
        attempts(trial)

        assert await ask(shared, question) == after
        assert attempts(trial) == 2
        # It is prepared again now.
        assert await ask(shared, question) == after
        assert attempts(trial) == 1
        assert question.name in shared.pipelines[0]._prepared

    if prepare:
        trial.execute(prepare)
    with_owners_lines(deployment, use)


def test_each_connection_prepares_again_after_a_schema_change(
    deployment: Settings, trial: psycopg.Connection[Any]
) -> None:
    async def use(shared: Pipelines) -> None:
        async def on_all() -> list[list[bytes | None]]:
            return await asyncio.gather(*(ask(shared, THING) for _ in shared.pipelines))

        assert await on_all() == [[b"1", b"a"]] * 4
        trial.execute(ADD_COLUMN)
        attempts(trial)

        assert await on_all() == [[b"1", b"a", b"new"]] * 4
        assert attempts(trial) == 8
        assert await on_all() == [[b"1", b"a", b"new"]] * 4
        assert attempts(trial) == 4

    with_owners_lines(deployment, use, size=4)


def test_requests_in_flight_on_one_connection_are_each_sent_once_more_after_a_schema_change(
    deployment: Settings, trial: psycopg.Connection[Any]
) -> None:
    async def use(shared: Pipelines) -> None:
        await asyncio.gather(ask(shared, THING), echo(shared, "prepared"))
        trial.execute(ADD_COLUMN)
        attempts(trial)

        first, beside, *others = await asyncio.gather(
            ask(shared, THING), echo(shared, "beside"), ask(shared, THING), ask(shared, THING)
        )

        assert [first, *others] == [[b"1", b"a", b"new"]] * 3
        assert beside == b"beside"
        assert attempts(trial) == 6
        await asyncio.gather(ask(shared, THING), ask(shared, THING))
        assert attempts(trial) == 2

    with_owners_lines(deployment, use, depth=8)


def test_a_write_before_an_outdated_statement_runs_once(
    deployment: Settings, trial: psycopg.Connection[Any]
) -> None:
    note = pipeline.statement("insert into trial.note values (%(text)s)")

    async def use(shared: Pipelines) -> None:
        await shared.run(((note, {"text": "before"}), (THING, {})), may_repeat=False)
        trial.execute(ADD_COLUMN)
        await shared.run(((note, {"text": "after"}), (THING, {})), may_repeat=False)

    with_owners_lines(deployment, use)

    notes = trial.execute("select text from trial.note").fetchall()
    assert notes == [("before",), ("after",)]


@pytest.mark.parametrize("first_is_outdated", [True, False], ids=["first part", "sequel"])
def test_a_transaction_with_an_outdated_statement_runs_once(
    deployment: Settings, trial: psycopg.Connection[Any], first_is_outdated: bool
) -> None:
    note = pipeline.statement("insert into trial.note values (%(text)s) returning text")
    first, then = (THING, note) if first_is_outdated else (note, THING)

    async def columns(shared: Pipelines, text: str) -> list[int]:
        values = {"text": text}
        steps = ((COUNT, values), (first, values))
        sequel = Sequel((then,), lambda _: [(then, values)])
        _, *results = await shared.run(steps, sequel=sequel, may_repeat=False)
        return sorted(result.nfields for result in results)

    async def use(shared: Pipelines) -> None:
        assert await columns(shared, "before") == [1, 2]
        trial.execute(ADD_COLUMN)
        attempts(trial)

        assert await columns(shared, "after") == [1, 3]
        assert attempts(trial) == 2
        assert await echo(shared, "next") == b"next"

    with_owners_lines(deployment, use)

    notes = trial.execute("select text from trial.note").fetchall()
    assert notes == [("before",), ("after",)]


def test_a_request_that_outdates_its_own_prepared_statement_is_answered(
    deployment: Settings, trial: psycopg.Connection[Any]
) -> None:
    # Each attempt adds a column, after everything that it needs has been prepared.
    trial.execute(
        """
        create function trial.change() returns void language plpgsql as $$
        begin
            execute format('alter table trial.thing add column %I text default 1',
                           'column_' || nextval('trial.attempt'));
        end
        $$
        """
    )
    change = pipeline.statement("select trial.change()")

    async def use(shared: Pipelines) -> None:
        for columns in (3, 4):
            _, result = await shared.run(((change, {}), (THING, {})), may_repeat=False)
            assert result.nfields == columns

    with_owners_lines(deployment, use)

    assert attempts(trial) == 4


def test_unprepared_statements_need_no_second_attempt_after_a_schema_change(
    deployment: Settings, trial: psycopg.Connection[Any]
) -> None:
    async def use(shared: Pipelines) -> None:
        assert await ask(shared, THING) == [b"1", b"a"]
        trial.execute(ADD_COLUMN)

        assert await ask(shared, THING) == [b"1", b"a", b"new"]
        assert attempts(trial) == 2

    with_owners_lines(deployment, use, prepare=False)


@pytest.mark.parametrize("prepare", [True, False], ids=["prepared", "not prepared"])
def test_other_errors_with_the_same_sqlstate_are_raised_without_a_second_attempt(
    deployment: Settings, trial: psycopg.Connection[Any], prepare: bool
) -> None:
    trial.execute(
        """
        create function trial.refuse() returns text language plpgsql as $$
        begin
            raise feature_not_supported using message = 'cached plan must not change result type';
        end
        $$
        """
    )
    refused = pipeline.statement("select trial.refuse()")

    async def use(shared: Pipelines) -> None:
        for _ in range(3):
            with pytest.raises(errors.FeatureNotSupported):
                await ask(shared, refused)
            assert attempts(trial) == 1
        assert (refused.name in shared.pipelines[0]._prepared) == prepare

    with_owners_lines(deployment, use, prepare=prepare)

"""Answers of several statements: one snapshot, one time limit, one error for all of them."""

import asyncio
import gc
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from resourceserver.api.errors import InsufficientScope, TookTooLong, Unauthorized
from resourceserver.api.session import Credential, Question, Reader
from shared import pipeline, tokens
from shared.pipeline import Statement, Step
from shared.settings import Settings
from tests.conftest import Person
from tests.waiting import wait_for_async

FRAME = pipeline.statement("select json_build_object('zone', 'UTC')::text")
DEVICES = pipeline.statement(
    "select json_agg(name order by name)::text from activity.device where user_id = %(user_id)s"
)
MEETING = pipeline.statement("select 'met' from (select svc.meet()) as met")
SLEEP = pipeline.statement("select %(n)s::integer::text from (select pg_sleep(0.4)) as slept")
ECHO = pipeline.statement("select %(text)s::text")
BROKEN = pipeline.statement("select (1 / %(n)s::integer)::text")
LOCK = 4711
"""An advisory lock for which a part waits, so that a test can do something between two parts."""


def credential(person: Person, *scopes: str) -> Credential:
    token = tokens.parse(tokens.ACCESS, person.token("read:activity"))
    assert token is not None
    return Credential(token, scopes or ("read:activity",), ())


Parts = dict[str, Step]


@pytest.fixture
def meeting_place(owner: psycopg.Connection[Any]) -> Iterator[None]:
    """A function in which a part waits for a lock that the reader may not take by itself."""
    owner.execute(
        """
        create function svc.meet() returns void language sql volatile security definer
        as 'select pg_advisory_xact_lock_shared(4711)';
        grant execute on function svc.meet to svc_reader
        """
    )
    yield
    owner.execute("drop function svc.meet")


def asking(parts: Parts, frame: Statement = FRAME) -> Question:
    statements = tuple(statement for statement, _ in parts.values())
    return Question((frame, {}), statements, lambda _: parts)


def with_reader(deployment: Settings, use: Callable[[Reader], Awaitable[None]]) -> None:
    async def run() -> None:
        reader = Reader.of(deployment)
        # One connection, so that leftovers of one answer would affect the next.
        reader = replace(
            reader, patient=replace(reader.patient, pipelines=reader.patient.pipelines[:1])
        )
        try:
            await use(reader)
        finally:
            reader.close()

    asyncio.run(run())


def device(person: Person, name: str) -> None:
    person.connection.execute(
        "insert into activity.device (user_id, name) values (%s, %s)", [person.user_id, name]
    )


def test_parts_get_the_columns_of_the_frame_and_answer_by_name(
    deployment: Settings, alice: Person
) -> None:
    device(alice, "laptop")
    question = Question(
        (FRAME, {}),
        (ECHO, DEVICES),
        lambda frame: {"zone": (ECHO, {"text": frame["zone"]}), "devices": (DEVICES, {})},
    )

    async def use(reader: Reader) -> None:
        answer = await reader.read_parts(credential(alice), question)

        assert json.loads(answer.pop("frame")) == {"zone": "UTC"}
        assert answer == {"zone": b"UTC", "devices": b'["laptop"]'}

    with_reader(deployment, use)


def test_answers_decide_about_further_statements_until_there_are_none(
    deployment: Settings, alice: Person
) -> None:
    device(alice, "laptop")

    def more(answers: Mapping[str, bytes]) -> Parts:
        if "third" in answers:
            return {}
        newest = "third" if "second" in answers else "second"
        before = answers["second" if "second" in answers else "first"].decode()
        return {newest: (ECHO, {"text": f"{before} {newest}"}), f"{newest}_devices": (DEVICES, {})}

    question = Question(
        (FRAME, {}), (ECHO, DEVICES), lambda _: {"first": (ECHO, {"text": "first"})}, more
    )

    async def use(reader: Reader) -> None:
        answer = await reader.read_parts(credential(alice), question)

        del answer["frame"]
        assert answer == {
            "first": b"first",
            "second": b"first second",
            "second_devices": b'["laptop"]',
            "third": b"first second third",
            "third_devices": b'["laptop"]',
        }

    with_reader(deployment, use)


def test_parts_with_the_same_statement_and_parameters_run_once(
    deployment: Settings, alice: Person
) -> None:
    drawn = pipeline.statement("select %(n)s::text || ' ' || random()::text")

    def more(answers: Mapping[str, bytes]) -> Parts:
        return {} if "later" in answers else {"later": (drawn, {"n": "1", "unused": True})}

    question = Question(
        (FRAME, {}),
        (drawn,),
        lambda _: {
            "first": (drawn, {"n": "1"}),
            "again": (drawn, {"n": "1"}),
            "other": (drawn, {"n": "2"}),
        },
        more,
    )

    async def use(reader: Reader) -> None:
        answer = await reader.read_parts(credential(alice), question)
        next_answer = await reader.read_parts(credential(alice), question)

        assert answer["first"] == answer["again"] == answer["later"]
        assert answer["other"].startswith(b"2 ")
        assert next_answer["first"] == next_answer["later"] != answer["first"]

    with_reader(deployment, use)


def test_an_error_in_a_later_part_fails_the_answer_and_not_the_next_one(
    deployment: Settings, alice: Person
) -> None:
    question = Question(
        (FRAME, {}),
        (PID, BROKEN),
        lambda _: {"pid": (PID, {})},
        lambda _: {"n": (BROKEN, {"n": 0})},
    )

    async def use(reader: Reader) -> None:
        for _ in range(2):
            with pytest.raises(psycopg.errors.DivisionByZero):
                await reader.read_parts(credential(alice), question)
            answer = await reader.read_parts(credential(alice), asking({"pid": (PID, {})}))
            assert answer["pid"].isdigit()

    with_reader(deployment, use)


@pytest.mark.usefixtures("meeting_place")
def test_all_parts_share_one_snapshot(
    deployment: Settings, alice: Person, owner: psycopg.Connection[Any]
) -> None:
    device(alice, "laptop")
    again = pipeline.statement(DEVICES.text.decode().replace("$1", "%(user_id)s") + " -- again")
    question = asking({"before": (DEVICES, {}), "meeting": (MEETING, {}), "after": (again, {})})

    async def use(reader: Reader) -> None:
        who = credential(alice)
        with owner.transaction():
            owner.execute("select pg_advisory_xact_lock(%s)", [LOCK])
            answering = asyncio.create_task(reader.read_parts(who, question))
            await wait_for_async(lambda: is_waited_for(owner), "a part that waits")
            with psycopg.connect(deployment.database_url or "", autocommit=True) as writer:
                writer.execute(
                    "insert into activity.device (user_id, name) values (%s, 'phone')",
                    [alice.user_id],
                )
        between = await answering
        afterwards = await reader.read_parts(credential(alice), question)

        assert between["before"] == between["after"] == b'["laptop"]'
        assert json.loads(afterwards["after"]) == ["laptop", "phone"]

    with_reader(deployment, use)


def is_waited_for(owner: psycopg.Connection[Any]) -> bool:
    found = owner.execute(
        "select count(*) from pg_locks where locktype = 'advisory' and objid = %s and not granted",
        [LOCK],
    ).fetchone()
    return found == (1,)


def end_waiting(owner: psycopg.Connection[Any]) -> None:
    """End the connection of the part that waits."""
    owner.execute(
        "select pg_terminate_backend(pid) from pg_locks "
        "where locktype = 'advisory' and objid = %s and not granted",
        [LOCK],
    )


@pytest.mark.usefixtures("meeting_place")
def test_an_answer_whose_connection_is_lost_is_repeated_with_all_its_parts(
    deployment: Settings, alice: Person, owner: psycopg.Connection[Any]
) -> None:
    device(alice, "laptop")
    parts: Parts = {"first": (DEVICES, {}), "again": (DEVICES, {}), "meeting": (MEETING, {})}

    async def use(reader: Reader) -> None:
        who = credential(alice)
        with owner.transaction():
            owner.execute("select pg_advisory_xact_lock(%s)", [LOCK])
            answering = asyncio.create_task(reader.read_parts(who, asking(parts)))
            await wait_for_async(lambda: is_waited_for(owner), "a part that waits")
            end_waiting(owner)

        answer = await answering
        assert answer["first"] == answer["again"] == b'["laptop"]'
        assert answer["meeting"] == b"met"

    with_reader(deployment, use)


def test_parts_that_are_too_slow_only_together_are_503(deployment: Settings, alice: Person) -> None:
    slow: Parts = {f"part_{n}": (SLEEP, {"n": n}) for n in range(4)}

    async def use(reader: Reader) -> None:
        hurried = replace(reader, parts_ms=1000)
        (connection,) = reader.patient.pipelines
        pid = await reader.read_parts(credential(alice), asking({"pid": (PID, {})}))

        with pytest.raises(TookTooLong):
            await hurried.read_parts(credential(alice), asking(slow))
        # It has no limit of a second, which a busy machine may need.
        assert await reader.read_parts(credential(alice), asking({"pid": (PID, {})})) == pid
        assert connection.requests == 0

    with_reader(deployment, use)


PID = pipeline.statement("select pg_backend_pid()::text")


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_error_in_any_part_fails_the_answer_and_not_the_next_one(
    deployment: Settings, alice: Person, place: int
) -> None:
    parts: Parts = {f"part_{n}": (ECHO, {"text": str(n)}) for n in range(3)}
    parts[f"part_{place}"] = (BROKEN, {"n": 0})

    async def use(reader: Reader) -> None:
        for _ in range(2):
            with pytest.raises(psycopg.errors.DivisionByZero):
                await reader.read_parts(credential(alice), asking(parts))
            answer = await reader.read_parts(credential(alice), asking({"n": (BROKEN, {"n": 1})}))
            assert answer["n"] == b"1"

    device(alice, "laptop")
    with_reader(deployment, use)


def test_a_frame_that_fails_or_has_no_row_has_no_parts(deployment: Settings, alice: Person) -> None:
    nothing = pipeline.statement("select '{}' where false")

    async def use(reader: Reader) -> None:
        with pytest.raises(psycopg.errors.DivisionByZero):
            await reader.read_parts(
                credential(alice),
                Question((BROKEN, {"n": 0}), (PID,), lambda _: {"pid": (PID, {})}),
            )
        with pytest.raises(Unauthorized):
            await reader.read_parts(credential(alice), asking({"pid": (PID, {})}, nothing))
        assert "pid" in await reader.read_parts(credential(alice), asking({"pid": (PID, {})}))

    with_reader(deployment, use)


@pytest.mark.usefixtures("meeting_place")
def test_a_repeated_answer_whose_account_is_gone_is_401(
    deployment: Settings, alice: Person, owner: psycopg.Connection[Any]
) -> None:
    device(alice, "laptop")
    frame = pipeline.statement("select '{}' from activity.device where user_id = %(user_id)s")

    async def use(reader: Reader) -> None:
        who = credential(alice)
        question = asking({"meeting": (MEETING, {})}, frame)
        with owner.transaction():
            owner.execute("select pg_advisory_xact_lock(%s)", [LOCK])
            answering = asyncio.create_task(reader.read_parts(who, question))
            await wait_for_async(lambda: is_waited_for(owner), "a part that waits")
            with psycopg.connect(deployment.database_url or "", autocommit=True) as other:
                other.execute("delete from activity.device where user_id = %s", [alice.user_id])
                end_waiting(other)
            with pytest.raises(Unauthorized):
                await answering

    with_reader(deployment, use)


def test_a_connection_lost_before_its_rollback_reports_no_further_error(
    deployment: Settings, alice: Person
) -> None:
    reported: list[dict[str, Any]] = []

    async def use(reader: Reader) -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: reported.append(context)
        )
        with pytest.raises(psycopg.errors.DivisionByZero):
            await reader.read_parts(credential(alice), asking({"n": (BROKEN, {"n": 0})}))
        reader.close()
        gc.collect()

    with_reader(deployment, use)

    assert reported == []


def test_a_refused_token_leaves_the_connection_unchanged(
    deployment: Settings, alice: Person
) -> None:
    async def use(reader: Reader) -> None:
        for _ in range(2):
            with pytest.raises(InsufficientScope):
                await reader.read_parts(
                    credential(alice, "read:health"), asking({"devices": (DEVICES, {})})
                )
        answer = await reader.read_parts(credential(alice), asking({"pid": (PID, {})}))
        assert answer["pid"].isdigit()

    with_reader(deployment, use)


def test_a_session_ends_with_its_answer(deployment: Settings, alice: Person) -> None:
    device(alice, "laptop")
    left = pipeline.statement(
        "select concat_ws(',', current_setting('svc.user_id', true), current_setting('statement_timeout'))"
    )

    async def use(reader: Reader) -> None:
        await reader.read_parts(credential(alice), asking({"devices": (DEVICES, {})}))

        settings, devices = await reader.patient.run(
            ((left, {}), (DEVICES, {"user_id": alice.user_id}))
        )
        assert settings.get_value(0, 0) == b",20s"
        assert devices.get_value(0, 0) is None

    with_reader(deployment, use)

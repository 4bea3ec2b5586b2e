"""Batches of beats that are written at once, and those that a thread writes after all."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

import psycopg
import pytest

from resourceserver.api.errors import DatabaseUnavailable
from resourceserver.integrations.beats import Beat
from resourceserver.integrations.receivers import beat_delivery
from resourceserver.integrations.receivers.beat_delivery import KIND, SMALL, Given
from resourceserver.integrations.receivers.beat_sessions import Heartbeat
from resourceserver.integrations.receivers.receiving import Opened, Receiving, WrongKey
from resourceserver.integrations.records import Refused
from shared import keys
from shared.settings import Settings
from shared.storage import Storage
from tests.conftest import Person
from tests.connecting import Connected, connect

MINUTE: Final = 60_000
HOUR: Final = 60 * MINUTE
NOW: Final = time.time_ns() // 1_000_000
START: Final = NOW - 72 * HOUR


class Editor(NamedTuple):
    """A connection of alice, and the server that takes its beats."""

    receiving: Receiving
    connected: Connected
    owner: psycopg.Connection[Any]

    async def open(self) -> Opened:
        """Look the key up, as a request does before its body is read."""
        key_hash = keys.hash_of(self.connected.key or "")
        assert key_hash is not None
        return await self.receiving._look_up(KIND, key_hash)

    async def send(self, *at_ms: int, opened: Opened | None = None, device: str = "laptop") -> bool:
        return await self.deliver(opened, device, *map(beat, at_ms))

    async def deliver(
        self, opened: Opened | None, device: str, *taken: Heartbeat | Refused
    ) -> bool:
        chosen = await self.open() if opened is None else opened
        given = Given(device, taken, NOW)
        return await beat_delivery.deliver(self.receiving, chosen, given) == given

    def sessions(self) -> list[tuple[int, int]]:
        """Return the first and the last beat of each session, in hours since ``START``."""
        rows = self.owner.execute(
            "select extract(epoch from started_at) * 1000, extract(epoch from ended_at) * 1000"
            "  from activity.coding_session order by 1"
        )
        return [(round((a - START) / HOUR), round((b - START) / HOUR)) for a, b in rows]

    def receipt(self) -> list[Any]:
        """Return records, added and refused ones of the receipt, and the records of the connection."""
        return self.owner.execute(
            "select part.records, part.added, part.refused, connection.record_count"
            "  from profile.import_part as part join profile.connection using (user_id, import_id)"
        ).fetchall()


Deliver = Callable[[Callable[[Editor], Awaitable[None]]], None]


def beat(at_ms: int) -> Heartbeat:
    return Heartbeat(
        Beat(at_ms=at_ms, device="laptop", project="svc", language="Python", kind="file"),
        "svc/app.py",
        {},
    )


@pytest.fixture
def deliver(deployment: Settings, owner: psycopg.Connection[Any], alice: Person) -> Deliver:
    """What runs beside a server, whose machine ``laptop`` has sent beats before."""
    connected = connect(owner, alice, KIND, gap_minutes=60)
    owner.execute(
        "insert into activity.device (user_id, name) values (%s, 'laptop')", [alice.user_id]
    )

    def run(work: Callable[[Editor], Awaitable[None]]) -> None:
        async def working() -> None:
            receiving = Receiving.to(deployment, Storage())
            try:
                await work(Editor(receiving, connected, owner))
            finally:
                await receiving.close()

        asyncio.run(working())

    return run


def test_a_usual_batch_needs_no_thread(deliver: Deliver) -> None:
    async def work(editor: Editor) -> None:
        editor.receiving.threads.halt()
        await editor.send(START, START + HOUR - 1)
        await editor.send(START, START + 2 * HOUR - 2)

        assert editor.sessions() == [(0, 2)]
        assert editor.receipt() == [(4, 3, 0, 3)]

    deliver(work)


@pytest.mark.parametrize(
    ("device", "taken"),
    [
        ("desktop", [beat(START)]),
        ("laptop", [beat(START), Refused("missing_time", "{}")]),
        ("laptop", [beat(START + number) for number in range(SMALL + 1)]),
    ],
    ids=["another machine", "a bad one", "many"],
)
def test_a_batch_that_takes_longer_is_written_in_a_thread(
    deliver: Deliver, device: str, taken: list[Heartbeat | Refused]
) -> None:
    async def work(editor: Editor) -> None:
        is_taken = await editor.deliver(None, device, *taken)
        editor.receiving.threads.halt()
        with pytest.raises(DatabaseUnavailable):
            await editor.deliver(None, f"{device}-2", *taken)

        bad = sum(isinstance(each, Refused) for each in taken)
        assert (is_taken, editor.sessions()) == (True, [(0, 0)])
        assert editor.receipt() == [(len(taken), len(taken) - bad, bad, len(taken) - bad)]

    deliver(work)


def test_a_session_that_would_be_longer_than_a_day_is_divided_all_the_same(
    deliver: Deliver,
) -> None:
    async def work(editor: Editor) -> None:
        await editor.send(*(START + hour * (HOUR - 1) for hour in range(23)))
        await editor.send(*(START - hour * (HOUR - 1) for hour in range(1, 4)))

        assert editor.sessions() == [(-3, 21), (22, 22)]
        assert editor.receipt() == [(26, 26, 0, 26)]

    deliver(work)


def test_what_a_person_changes_after_the_look_up_holds_for_the_batch(deliver: Deliver) -> None:
    async def work(editor: Editor) -> None:
        earlier = await editor.open()
        editor.owner.execute("""update profile.connection set settings = '{"gap_minutes": 15}'""")
        await editor.send(START, START + HOUR - 1, opened=earlier)
        divided = editor.sessions()
        earlier = await editor.open()
        editor.owner.execute("update profile.connection set paused_at = now()")
        is_taken = await editor.send(START + 10 * HOUR, opened=earlier)

        assert (divided, is_taken) == ([(0, 0), (1, 1)], True)
        assert editor.sessions() == divided
        assert editor.receipt() == [(2, 2, 0, 2)]

    deliver(work)


def test_a_key_that_is_replaced_after_the_look_up_writes_nothing(deliver: Deliver) -> None:
    async def work(editor: Editor) -> None:
        earlier = await editor.open()
        editor.owner.execute("update profile.import set key_hash = sha256('another')")
        with pytest.raises(WrongKey):
            await editor.send(START, opened=earlier)

        assert (editor.sessions(), editor.receipt()) == ([], [])

    deliver(work)

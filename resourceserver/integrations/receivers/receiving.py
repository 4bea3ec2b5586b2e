"""The way of a delivery into the database: key, body, and one transaction that writes what is in it.

    key ──► body ──► records, read in a thread ──► place ──► transaction ──► the application's own answer
    401     408, 413                               429, 503  401, 503

The key is looked up before the body is read, and again in the transaction that writes, as with ingest. All
look-ups share a connection, since none of them waits for a lock. The drivers of the writers of imports are
synchronous, so a delivery is written in a thread (``threads``); only beats need none (``beat_delivery``).
Places go round by person, those for keys too; keys that were never right go round by address.

After any failure nothing of the delivery is written, and the application may send it again. Success is
answered only after the commit, which waits for the disk.
"""

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import psycopg
from psycopg import errors
from psycopg.pq.abc import PGresult
from starlette.requests import Request

from resourceserver.api import session
from resourceserver.api.errors import Problem, StorageFull
from resourceserver.api.turns import Turns
from resourceserver.ingest import route as ingest
from resourceserver.integrations.imports import batches, deliveries
from resourceserver.integrations.imports.deliveries import Counts
from resourceserver.integrations.imports.writing import Target
from resourceserver.integrations.receivers.threads import Threads
from resourceserver.integrations.records import Record, Refused, Sourced
from shared import connections, database, keys, pipeline, queries, schema
from shared.hang import Watched
from shared.metrics import RECEIVED
from shared.pipeline import Pipelines, Results, Sequel, Statement, Step
from shared.settings import Settings
from shared.storage import Storage

SQL: Final = queries.load(Path(__file__).with_name("receiving.sql"))
_LOOK_KEY_UP: Final = pipeline.statement(SQL["look_key_up"])
_OPEN_RECEIVER: Final = pipeline.statement(SQL["open_receiver"])

LOOK_UPS: Final = 256
"""The most keys that are looked up or wait for it, all on one connection."""
MOST_AT_ONCE: Final = 2
"""The most deliveries of one person that are written at once."""
MOST_WAITING: Final = 16
"""The most deliveries of one person that wait; each waits in memory."""
WRONG_KEYS: Final = 60
"""The wrong keys of one address within ``WINDOW_S`` after which its unknown keys are not looked up."""
WINDOW_S: Final = 60.0
_ADDRESSES_IN_48: Final = 16
"""As how many addresses a /48 network counts."""
_MOST_NETWORKS: Final = 10_000
_MOST_KEYS: Final = 10_000
_ATTEMPTS: Final = 3
"""How often a transaction is tried whose rows refer to some that another one has removed meanwhile."""

T = TypeVar("T")
Item = Record | Sourced | Refused


class WrongKey(Problem):
    """the key is missing, unknown or was replaced"""

    status = 401
    code = "unauthorized"


class TooManyWrongKeys(Problem):
    """too many wrong keys from this address; wait a minute"""

    status = 429
    code = "rate_limited"
    headers = {"Retry-After": "60"}  # noqa: RUF012 -- as in Problem, whose attribute is no class variable


class Opened(NamedTuple):
    """A connection whose key a request has."""

    key_hash: bytes
    kind: str
    user_id: UUID
    connection_id: UUID
    import_id: UUID
    zone: ZoneInfo
    """That of the person's profile."""
    settings: dict[str, Any]
    is_paused: bool
    """Whether what is sent is not to be kept."""
    scopes: frozenset[str]
    """What the application may read."""


def opened_by(kind: str, key_hash: bytes, result: PGresult) -> Opened:
    """Return the connection that has a key, from the result of a look-up or of its session's opening."""
    user_id, connection_id, import_id, zone, settings, is_paused, scopes = (
        (result.get_value(0, column) or b"").decode() for column in range(7)
    )
    return Opened(
        key_hash,
        kind,
        UUID(user_id),
        UUID(connection_id),
        UUID(import_id),
        ZoneInfo(zone),
        json.loads(settings),
        is_paused == "t",
        # Postgres quotes no element that is a scope.
        frozenset(filter(None, scopes.strip("{}").split(","))),
    )


def _key_values(kind: str, key_hash: bytes) -> dict[str, Any]:
    return {"key_hash": key_hash, "kind": kind, **schema.VERSION}


Work = Callable[[Target, Opened], T]
"""Writes in the transaction of a connection's session."""


Following = Callable[[Opened, Results], Sequence[Step]]
"""Returns the last steps of a transaction from the connection as it is in it, and from the results so far."""


@dataclass(eq=False)
class WrongKeys:
    """The wrong keys of each network within about a minute, and the keys that were right lately."""

    counts: OrderedDict[str, tuple[float, int]] = field(default_factory=OrderedDict)
    """Since when keys of a network are counted, and how many were wrong; the newest wrong one is last."""
    right: OrderedDict[bytes, UUID] = field(default_factory=OrderedDict)
    """The people of hashes of keys; an application with one of them never waits for what others do from its
    address."""

    def are_too_many(self, address: str | None, key_hash: bytes | None) -> bool:
        """Tell whether a key is not even looked up, because its address has sent too many wrong ones."""
        if key_hash in self.right:
            return False
        return any(self._current(name)[1] >= most for name, most in _networks(address).items())

    def note(self, address: str | None, key_hash: bytes | None = None) -> None:
        """Count a wrong key, which may have been right before."""
        if key_hash is not None:
            self.right.pop(key_hash, None)
        for name in _networks(address):
            since, count = self._current(name)
            self.counts[name] = since, count + 1
            self.counts.move_to_end(name)
        while len(self.counts) > _MOST_NETWORKS:
            self.counts.popitem(last=False)

    def accept(self, key_hash: bytes, user_id: UUID) -> None:
        """Keep in mind that a key was right, and whose it is."""
        self.right.pop(key_hash, None)
        self.right[key_hash] = user_id
        if len(self.right) > _MOST_KEYS:
            self.right.popitem(last=False)

    def _current(self, name: str) -> tuple[float, int]:
        now = time.monotonic()
        since, count = self.counts.get(name, (now, 0))
        return (since, count) if now - since < WINDOW_S else (now, 0)


def _networks(address: str | None) -> dict[str, int]:
    """Return the networks that count as one address, the smallest first, with the most wrong keys of each.

    Of an IPv6 address these are the /64 and the /48, since some providers assign these.
    """
    try:
        found = ip_address(address or "")
    except ValueError:
        return {address or "": WRONG_KEYS}
    if isinstance(found, IPv6Address) and found.ipv4_mapped is None:
        return {
            found.packed[:8].hex(): WRONG_KEYS,
            found.packed[:6].hex(): WRONG_KEYS * _ADDRESSES_IN_48,
        }
    return {str(found): WRONG_KEYS}


@dataclass(eq=False)
class Receiving:
    """The connections and places of this process for deliveries."""

    chosen: Settings
    threads: Threads
    pipelines: Pipelines
    """The connections for deliveries that are written without a thread."""
    look_ups: Pipelines
    """The connection for looking up keys."""
    opening: Turns
    """The places for looking up keys: by person where a key was right lately, else by address."""
    writing: Turns
    large: Turns
    storage: Storage
    wrong: WrongKeys = field(default_factory=WrongKeys)

    @classmethod
    def to(cls, chosen: Settings, storage: Storage) -> "Receiving":
        """Return one for ``chosen``. Raises SettingsError without a login of the importer."""
        login = database.login(chosen, "importer")
        # One connection is for keys: a look-up never waits for deliveries that are written.
        size = max(chosen.receiver_connections - 1, 1)
        return cls(
            chosen,
            Threads(login, size, chosen.prepare),
            Pipelines.to(
                login,
                size=size,
                depth=1,
                patience_s=session.PATIENT_S,
                prepare=chosen.prepare,
            ),
            Pipelines.to(
                login, size=1, depth=LOOK_UPS, patience_s=session.QUICK_S, prepare=chosen.prepare
            ),
            Turns(LOOK_UPS, 1, name="receiver_keys"),
            Turns(size, MOST_AT_ONCE, name="deliveries", most_waiting=MOST_WAITING),
            Turns(
                ingest.LARGE_BODIES,
                1,
                full=ingest.Busy,
                name="large_deliveries",
                most_waiting=MOST_WAITING,
            ),
            storage,
        )

    @property
    def watched(self) -> tuple[Watched, ...]:
        """The connections whose statements fail while the database hangs."""
        return self.threads, self.pipelines, self.look_ups

    async def close(self) -> None:
        """Close all connections."""
        await self.threads.close()
        self.pipelines.close()
        self.look_ups.close()

    async def open(self, request: Request, kind: str, key: str) -> Opened:
        """Return the connection that has a key.

        Raises WrongKey, TooManyWrongKeys, TooManyRequests and DatabaseUnavailable.
        """
        address = None if request.client is None else request.client.host
        key_hash = keys.hash_of(key)
        if self.wrong.are_too_many(address, key_hash):
            raise TooManyWrongKeys
        if key_hash is None:
            self.wrong.note(address)
            raise WrongKey
        async with self.opening.place(
            self.wrong.right.get(key_hash, next(iter(_networks(address))))
        ):
            # Others of this address may have been wrong meanwhile.
            if self.wrong.are_too_many(address, key_hash):
                raise TooManyWrongKeys
            try:
                opened = await self._look_up(kind, key_hash)
            except WrongKey:
                self.wrong.note(address, key_hash)
                raise
        self.wrong.accept(key_hash, opened.user_id)
        return opened

    @asynccontextmanager
    async def body(
        self,
        request: Request,
        opened: Opened,
        *,
        most_bytes: int = ingest.MAX_BODY,
        media_types: tuple[str, ...] | None = None,
    ) -> AsyncIterator[bytearray]:
        """Read the body of a request, inflated; within the block, a large one keeps its place.

        Raises StorageFull, PayloadTooLarge, UnsupportedMediaType, TooSlow, Busy and TooManyRequests, and
        InvalidJSON for damaged gzip.
        """
        self._check_storage()
        async with AsyncExitStack() as held:
            place = self.large.place(opened.user_id)
            yield await ingest.read_body(
                request,
                lambda: held.enter_async_context(place),
                media_types=media_types,
                most_bytes=most_bytes,
            )

    async def take(
        self, opened: Opened, items: Iterable[Item], *, problem: str | None = None
    ) -> Counts:
        """Write records in one transaction; ``items`` is iterated in a thread, where reading may take time.

        ``problem`` is the code of a problem that the connection has from now on. Nothing is written for a
        connection that is paused. Raises WrongKey, DatabaseUnavailable and TooManyRequests.
        """
        kind = connections.KINDS[opened.kind]
        in_halves = False
        prepared: list[batches.Batch] = []

        def prepare() -> None:
            prepared.extend(deliveries.batches_of(items))
            if not prepared:
                prepared.append(batches.Batch())

        def work(target: Target, fresh: Opened) -> Counts:
            counts = Counts()
            if fresh.is_paused:
                return counts
            for batch in prepared:
                written = deliveries.write(
                    target, kind, batch, in_halves=in_halves, problem=problem
                )
                counts = counts.plus(written)
            return counts

        await asyncio.to_thread(prepare)
        try:
            counts = await self.transact(opened, work)
        except batches.OF_A_VALUE:
            in_halves = True
            counts = await self.transact(opened, work)
        for outcome in ("added", "changed", "known", "refused"):
            RECEIVED.add(opened.kind, outcome, amount=getattr(counts, outcome))
        return counts

    async def transact(self, opened: Opened, work: Work[T]) -> T:
        """Return the result of ``work``, done in one transaction of the connection's session, in a thread.

        ``work`` may be done again in a new transaction. Raises WrongKey, DatabaseUnavailable,
        TooManyRequests, what ``work`` does, and the errors of values in ``batches.OF_A_VALUE``.
        """
        self._check_storage()
        async with self.writing.place(opened.user_id):
            return await self._in_thread(lambda: self._transact(opened, work))

    async def transact_at_once(
        self,
        opened: Opened,
        steps: Sequence[Step],
        statements: tuple[Statement, ...],
        following: Following,
    ) -> None:
        """Run ``steps``, and those that follow, in one transaction of the connection's session; no thread.

        ``statements`` are all that ``following`` may return. What it raises rolls the transaction back. It
        may be called again in a new one. Raises WrongKey, DatabaseUnavailable, TooManyRequests, what
        ``following`` does, and the errors of values in ``batches.OF_A_VALUE``.
        """

        def proceed(results: Results) -> Sequence[Step]:
            return following(opened_by(opened.kind, opened.key_hash, results[0]), results[1:])

        self._check_storage()
        opening = (_OPEN_RECEIVER, _key_values(opened.kind, opened.key_hash))
        sequel = Sequel(statements, proceed)
        async with self.writing.place(opened.user_id):
            for attempt in range(1, _ATTEMPTS + 1):
                try:
                    # Only the application knows whether it has got an answer, so nothing is repeated here.
                    await self.pipelines.run((opening, *steps), sequel=sequel, may_repeat=False)
                except errors.ForeignKeyViolation:
                    if attempt == _ATTEMPTS:
                        raise
                except psycopg.Error as error:
                    self._judge(error)
                else:
                    return

    def _check_storage(self) -> None:
        if self.storage.is_full():
            raise StorageFull

    async def _look_up(self, kind: str, key_hash: bytes) -> Opened:
        values = _key_values(kind, key_hash)
        try:
            (found,) = await self.look_ups.run(((_LOOK_KEY_UP, values),))
        except psycopg.Error as error:
            self._judge(error)
            raise
        return opened_by(kind, key_hash, found)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            return await self.threads.run(work)
        except psycopg.OperationalError as error:
            raise session.unavailable(error) from error

    def _transact(self, opened: Opened, work: Work[T]) -> T:
        values = _key_values(opened.kind, opened.key_hash)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                connection = self.threads.connection()
                with connection.transaction():
                    found = connection.execute(SQL["open_receiver"], values).pgresult
                    assert found is not None  # noqa: S101 -- a statement that was executed has a result
                    fresh = opened_by(opened.kind, opened.key_hash, found)
                    return work(self._target(connection, fresh), fresh)
            except errors.ForeignKeyViolation:
                if attempt == _ATTEMPTS:
                    raise
            except psycopg.Error as error:
                self._judge(error)
        raise AssertionError

    def _target(self, connection: psycopg.Connection[Any], opened: Opened) -> Target:
        return Target(
            connection, opened.user_id, opened.import_id, opened.zone, self.chosen.full_urls
        )

    def _judge(self, error: psycopg.Error) -> None:
        """Raise what an error means to the application; return where it is one of a value."""
        if error.sqlstate == "SV401":
            raise WrongKey from error
        if isinstance(error, batches.OF_A_VALUE):
            raise error
        if isinstance(error, errors.InsufficientPrivilege):
            # The connection ended in the middle of the transaction: the account was deleted.
            raise WrongKey from error
        raise session.unavailable(error) from error

"""One import: each member is read by its format, and its records are checked and written in batches.

    member ──format.read──► records ──checks──► batch ──one transaction──► rows and counts of the receipt

While the database writes a batch, the next one is read and prepared. Each transaction opens the import's
session and is whole in itself, so nothing is lost and nothing is doubled wherever a run ends. Where the
database is away for a moment, the batch is written again, unless the receipt says that it was written.
Where it refuses a record that the checks let pass, it refuses all of the batch: this is written again in
halves, down to that record, which is counted as refused.
"""

import gc
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, Final, Protocol
from zoneinfo import ZoneInfo

import psycopg
from psycopg import errors

from resourceserver.integrations.format import Format, Person, Unreadable
from resourceserver.integrations.imports import batches, receipts, recognition
from resourceserver.integrations.imports.arrays import Array, ArrayDumper
from resourceserver.integrations.imports.batches import Batch
from resourceserver.integrations.imports.files import Brought, Member, Refusal
from resourceserver.integrations.imports.receipts import EXAMPLES, Import, Receipt
from resourceserver.integrations.imports.recognition import Recognised
from resourceserver.integrations.imports.writing import Target
from shared import SCHEMA_VERSION, database
from shared.storage import Storage

BATCH: Final = 4000
"""Records and refused ones of a transaction."""
HEAVIEST: Final = 4_000_000
"""Characters of texts with which a batch is full."""
PATIENCE_S: Final = 60.0
"""How long a batch waits for a database that is away."""
GRACE_S: Final = 0.5
"""How long a run that is to end waits for the batch that is being written, and for its end by force."""
_PAUSES_S: Final = (0.1, 0.5, 1.0, 2.0, 5.0)
_SWITCH_INTERVAL_S: Final = 0.000_2
_NEW_OBJECTS: Final = 50_000
"""How many new objects start a collection of garbage."""
_MOST_NAMES: Final = 20
"""How many names of members that no format recognises a receipt has."""


class Interrupted(Exception):
    """The import cannot go on now, and can later; the message is one line."""


class _BatchRefused(Interrupted):
    """The database refuses a value of a batch."""


class Over(Exception):
    """another run has taken this import over, or the account is deleted"""


class _Behind(Exception):
    """The receipt is not where this run left it: the server lost its last transactions, or has one more."""


@dataclass(frozen=True)
class Part:
    """One member that is read."""

    member: Member
    format: Format
    position: int

    @property
    def name(self) -> str:
        """Its path in what was brought."""
        return self.member.name


@dataclass(frozen=True)
class Plan:
    """What is to become of all members."""

    parts: tuple[Part, ...]
    refused: tuple[Refusal, ...]
    """Members that cannot be read, or whose format the person has to choose."""
    ignored: tuple[str, ...]
    """Names of members that no format recognises."""
    likeness: str | None
    """What the largest of these looks like."""

    @property
    def size(self) -> int:
        """The bytes that will be read."""
        return sum(part.member.size for part in self.parts)


def plan(brought: Brought, formats: Sequence[Format], chosen: Format | None = None) -> Plan:
    """Return which members are read, and by which format; ``chosen`` is the person's word."""
    parts: list[Part] = []
    refused = list(brought.refused)
    ignored: list[Member] = []
    for member in brought.files:
        try:
            head = member.head()
        except Unreadable as error:
            refused.append(Refusal(member.name, str(error)))
            continue
        if chosen is not None:
            is_chosen = len(brought.files) == 1 or chosen.recognise(head) > 0
            found = Recognised(chosen if is_chosen else None)
        else:
            found = recognition.recognise(head, formats)
        if found.format is not None:
            parts.append(Part(member, found.format, len(parts)))
        elif found.ties:
            problem = f"it may be {' or '.join(found.ties)}: choose one with --as"
            refused.append(Refusal(member.name, problem))
        else:
            ignored.append(member)
    largest = max(ignored, key=lambda member: member.size, default=None)
    return Plan(
        tuple(parts),
        tuple(refused),
        tuple(member.name for member in ignored),
        None if largest is None else recognition.likeness(largest.head()),
    )


class Ledger(Protocol):
    """Where batches go."""

    def begin_part(self, part: Part) -> int | None:
        """Return how many records of a member are done, None if all are."""

    def write(self, part: Part, batch: Batch, before: int) -> None:
        """Take a batch, which comes after ``before`` records."""

    def end_part(self, part: Part, problem: str | None) -> None:
        """Take note that a member is done."""

    def note_others(self, planned: Plan) -> None:
        """Take note of the members that are not read."""

    def stop(self) -> None:
        """Give up a batch that another thread is writing."""


class _Writing(threading.Thread):
    """A thread that writes one batch while the next one is read.

    The process may end without it: a transaction that is not committed is written again by the next run.
    """

    def __init__(self, write: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._write = write
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        """Write the batch."""
        try:
            self._write()
        except BaseException as error:
            self._error = error

    def result(self) -> None:
        """Wait until the batch is written. Raises what the writing raised."""
        self.join()
        if self._error is not None:
            raise self._error


def run(planned: Plan, person: Person, ledger: Ledger) -> None:
    """Import all members. Raises Interrupted, Over and what ``ledger`` does."""
    ledger.note_others(planned)
    with _interpreter_settings():
        for part in planned.parts:
            done = ledger.begin_part(part)
            while done is not None:
                try:
                    problem = _import(part, person, ledger, done)
                    ledger.end_part(part, problem)
                    break
                except _Behind:
                    done = ledger.begin_part(part)


@contextmanager
def _interpreter_settings() -> Iterator[None]:
    """Change two settings of the interpreter for the time of an import.

    The thread that writes is often ready to send a statement. It then waits until the thread that reads
    gives way, by default for 5 ms, and the database waits with it. Records have no cycles, so the collector
    only costs time.
    """
    interval_s, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    gc.set_threshold(_NEW_OBJECTS, *thresholds[1:])
    try:
        yield
    finally:
        sys.setswitchinterval(interval_s)
        gc.set_threshold(*thresholds)


def _import(part: Part, person: Person, ledger: Ledger, done: int) -> str | None:
    """Import one member from its record ``done`` on; return why it was not read to its end, if so."""
    pending: _Writing | None = None
    problem: list[str] = []
    try:
        for batch in _batches(part.format, part.member, person, done, problem):
            batch.prepare()
            if pending is not None:
                pending.result()
            pending = _Writing(partial(ledger.write, part, batch, done))
            done += batch.count
        if pending is not None:
            pending.result()
    except KeyboardInterrupt:
        if pending is not None:
            # A batch that is being written is soon done, unless the database is away.
            pending.join(GRACE_S)
            if pending.is_alive():
                ledger.stop()
                pending.join(GRACE_S)
        raise
    return problem[0] if problem else None


def _batches(
    form: Format, member: Member, person: Person, done: int, problem: list[str]
) -> Iterator[Batch]:
    """Yield the records of a member in batches; ``problem`` gets why it cannot be read to its end."""
    batch, count = Batch(), 0
    ways: dict[type, tuple[Callable[[Any], bool], list[Any]] | None] = {}
    """The check of each frequent type, and the rows of the batch that pass it."""
    try:
        for item in islice(form.read(member, person), done, None):
            count += 1
            kind = type(item)
            try:
                way = ways[kind]
            except KeyError:
                way = ways[kind] = batch.quick_way(kind)
            # A short way for the types of which files have millions.
            if way is not None and way[0](item):
                way[1].append(item)
                is_full = count >= BATCH
            else:
                batch.take(item)
                is_full = count >= BATCH or batch.weight >= HEAVIEST
            if is_full:
                batch.count = count
                yield batch.check_columns().finished()
                batch, count = Batch(), 0
                ways.clear()
    except Unreadable as error:
        problem.append(str(error))
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except Exception as error:
        # A reader may meet anything. What it yielded before stays.
        problem.append(f"the reader of {form.name} failed: {type(error).__name__}: {error}"[:500])
    if count:
        batch.count = count
        yield batch.check_columns().finished()


@dataclass
class Database:
    """Writes batches with the login of the importer."""

    login: str
    running: Import
    zone: ZoneInfo
    full_urls: bool
    say: Callable[[str], None]
    prepare: bool = True
    storage: Storage = field(default_factory=Storage)
    """The disk of the database; while it is full, no batch is written."""
    _connection: psycopg.Connection[Any] | None = None
    _target: Target | None = None
    _stopping: threading.Event = field(default_factory=threading.Event)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None and not self._stopping.is_set():
            self._connection.close()
        # After ``stop``, another thread may still use it, until the process ends.
        self._connection = self._target = None

    def stop(self) -> None:
        """Make the thread that writes end: it waits for no database, and its statement is cancelled."""
        self._stopping.set()
        connection = self._connection
        if connection is not None:
            with suppress(psycopg.Error):
                connection.cancel_safe(timeout=GRACE_S)

    def begin_part(self, part: Part) -> int | None:
        """Return how many records of a member are done, None if all are. Raises Interrupted and Over."""

        def begin(target: Target) -> int | None:
            self._execute(
                target,
                "begin_part",
                name=part.name,
                position=part.position,
                format=part.format.name,
                source=part.format.source,
                kind=part.format.kind,
                size=part.member.size,
                problem=None,
                is_finished=False,
            )
            row = self._execute(target, "part", name=part.name).fetchone()
            if row is None:
                raise Over
            return None if row[1] else int(row[0])

        done: int | None = self._transact(begin)
        return done

    def write(self, part: Part, batch: Batch, before: int) -> None:
        """Write a batch and count it. Raises Interrupted, Over and _Behind."""
        if self.storage.is_full():
            raise Interrupted(_FULL)
        try:
            self._write(part, batch, before)
        except _BatchRefused:
            self._write(part, batch, before, in_halves=True)

    def _write(self, part: Part, batch: Batch, before: int, *, in_halves: bool = False) -> None:
        def write(target: Target) -> None:
            target.adds_at_once = not in_halves
            outcome = batches.write(batch, target, part.format.source, in_halves=in_halves)
            added, changed, count = outcome.added, outcome.changed, outcome.refused_count
            counted = self._execute(
                target,
                "add_counts",
                name=part.name,
                before=before,
                added=added,
                changed=changed,
                refused=count,
                known=batch.count - added - changed - count,
                first_at=batch.first_at,
                last_at=batch.last_at,
            )
            if counted.rowcount != 1:
                raise _Behind
            for reason, (n, examples) in outcome.refused.items():
                self._execute(
                    target,
                    "add_refusals",
                    name=part.name,
                    reason=reason,
                    count=n,
                    examples=examples,
                )

        self._transact(write)

    def end_part(self, part: Part, problem: str | None) -> None:
        """Note that a member is done. Raises Interrupted and Over."""
        said = None if problem is None else storable_line(problem)
        self._transact(
            lambda target: self._execute(target, "end_part", name=part.name, problem=said)
        )

    def note_others(self, planned: Plan) -> None:
        """Note the members that are not read. Raises Interrupted and Over."""

        def note(target: Target) -> None:
            for place, (name, problem) in enumerate(planned.refused, len(planned.parts)):
                self._execute(
                    target,
                    "begin_part",
                    name=name,
                    position=place,
                    format=None,
                    source=None,
                    kind=None,
                    size=0,
                    problem=storable_line(problem),
                    is_finished=True,
                )
            names = list(planned.ignored[:_MOST_NAMES])
            self._execute(target, "note_ignored", count=len(planned.ignored), names=names)

        self._transact(note)

    def _execute(self, target: Target, statement: str, /, **values: Any) -> psycopg.Cursor[Any]:
        common = {"user_id": self.running.user_id, "import_id": self.running.import_id}
        return target.connection.execute(receipts.SQL[statement], common | values)

    def _transact(self, work: Callable[[Target], Any]) -> Any:
        """Do ``work`` in a session of the import, again where the database was away for a moment."""
        waited, attempt = 0.0, 0
        while True:
            try:
                target = self._connected()
                with target.connection.transaction():
                    self._execute(
                        target,
                        "open_import",
                        key_hash=self.running.key_hash,
                        version=SCHEMA_VERSION,
                    )
                    return work(target)
            except psycopg.Error as error:
                self._forget()
                self._judge(error)
                if waited >= PATIENCE_S or self._stopping.is_set():
                    raise Interrupted(_problem(error)) from error
                if attempt == len(_PAUSES_S):
                    self.say(f"{_problem(error)}; trying again")
                pause_s = _PAUSES_S[min(attempt, len(_PAUSES_S) - 1)]
                # This thread only writes batches, so it may sleep until the database answers again.
                self._stopping.wait(pause_s)
                waited, attempt = waited + pause_s, attempt + 1

    def _judge(self, error: psycopg.Error) -> None:
        """Raise what ends the run; return where another attempt may succeed."""
        if error.sqlstate == "SV401":
            raise Over from error
        if error.sqlstate in ("57SV1", "57SV2"):
            raise Interrupted(f"this version does not fit the schema: {_line(error)}") from error
        if isinstance(error, errors.InsufficientPrivilege):
            # The session ended in the middle of the transaction: the account was deleted.
            raise Over from error
        is_of_a_value = isinstance(error, batches.OF_A_VALUE)
        is_for_a_moment = isinstance(error, psycopg.OperationalError | psycopg.InternalError)
        if isinstance(error, errors.ForeignKeyViolation) or (is_for_a_moment and not is_of_a_value):
            return
        kind = _BatchRefused if is_of_a_value else Interrupted
        raise kind(f"the database refuses a batch: {_line(error)}") from error

    def _connected(self) -> Target:
        if self._target is None:
            connection = psycopg.connect(
                self.login,
                autocommit=True,
                connect_timeout=10,
                prepare_threshold=0 if self.prepare else None,
            )
            database.prepare_nothing_if_pooled(connection)
            connection.adapters.register_dumper(Array, ArrayDumper)
            self._connection = connection
            self._target = Target(
                connection,
                self.running.user_id,
                self.running.import_id,
                self.zone,
                self.full_urls,
            )
        return self._target

    def _forget(self) -> None:
        """Forget what was written in a transaction that is no more, and a connection that is broken."""
        if self._target is not None:
            self._target.forget()
        if self._connection is not None and self._connection.broken:
            self.close()


def _line(error: psycopg.Error) -> str:
    return " ".join((error.diag.message_primary or str(error)).split())[:300]


_FULL: Final = "the disk of the database is full"


def _problem(error: psycopg.Error) -> str:
    if isinstance(error, errors.DiskFull):
        return _FULL
    return f"the database does not answer: {_line(error)}"


def storable_line(text: str) -> str:
    """Return a problem as it can be stored and printed."""
    return "".join(
        each if each.isprintable() and not "\ud800" <= each <= "\udfff" else "\ufffd"
        for each in text
    )[:1000]


@dataclass
class DryRun:
    """Counts what an import would write, and writes nothing."""

    parts: list[dict[str, Any]] = field(default_factory=list)
    refused: dict[str, tuple[int, list[str]]] = field(default_factory=dict)
    ignored: Sequence[str] = ()

    def begin_part(self, part: Part) -> int | None:
        """Return 0."""
        self._add(part.name, part.format.name, None)
        return 0

    def _add(self, name: str, form: str | None, problem: str | None) -> None:
        self.parts.append(
            {
                "name": name,
                "format": form,
                "read": 0,
                "new": None,
                "known": None,
                "changed": None,
                "refused": 0,
                "first_at": None,
                "last_at": None,
                "finished": problem is not None,
                "problem": problem,
            }
        )

    def write(self, part: Part, batch: Batch, before: int) -> None:
        """Count a batch."""
        counts = next(each for each in reversed(self.parts) if each["name"] == part.name)
        counts["read"] = before + batch.count
        for reason, (n, examples) in batch.refused.items():
            counts["refused"] += n
            count, kept = self.refused.setdefault(reason, (0, []))
            self.refused[reason] = (count + n, (kept + examples)[:EXAMPLES])
        for name, choose, at in (
            ("first_at", min, batch.first_at),
            ("last_at", max, batch.last_at),
        ):
            if at is not None:
                counts[name] = at if counts[name] is None else choose(counts[name], at)

    def end_part(self, part: Part, problem: str | None) -> None:
        """Note that a member was read."""
        counts = next(each for each in reversed(self.parts) if each["name"] == part.name)
        counts |= {"finished": True, "problem": problem}

    def stop(self) -> None:
        """Do nothing: nothing waits."""

    def note_others(self, planned: Plan) -> None:
        """Note the members that are not read."""
        for name, problem in planned.refused:
            self._add(name, None, problem)
        self.ignored = planned.ignored

    def receipt(self, file_name: str, size: int, digest: bytes) -> Receipt:
        """Return a receipt as that of an import; what was new or known is null."""

        def instant(at: datetime | None) -> str | None:
            return None if at is None else f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"

        firsts = [each["first_at"] for each in self.parts if each["first_at"] is not None]
        lasts = [each["last_at"] for each in self.parts if each["last_at"] is not None]
        return {
            "import_id": None,
            "file": file_name,
            "size": size,
            "digest": f"sha256:{digest.hex()}",
            "status": "dry_run",
            "problem": None,
            "formats": sorted({each["format"] for each in self.parts if each["format"]}),
            "records": {
                "read": sum(each["read"] for each in self.parts),
                "new": None,
                "known": None,
                "changed": None,
                "refused": sum(each["refused"] for each in self.parts),
            },
            "refused": [
                {"reason": reason, "count": count, "examples": examples}
                for reason, (count, examples) in sorted(
                    self.refused.items(), key=lambda each: (-each[1][0], each[0])
                )
            ],
            "first_at": instant(min(firsts, default=None)),
            "last_at": instant(max(lasts, default=None)),
            "ignored": {"count": len(self.ignored), "names": list(self.ignored[:_MOST_NAMES])},
            "started_at": None,
            "finished_at": None,
            "parts": [
                each | {"first_at": instant(each["first_at"]), "last_at": instant(each["last_at"])}
                for each in self.parts
            ],
        }


def usable(receipt: Receipt) -> int:
    """Return how many records of a receipt were taken, or known."""
    return int(receipt["records"]["read"] - receipt["records"]["refused"])


def failure(receipt: Receipt, planned: Plan) -> str | None:
    """Return why nothing usable was in a file, or None."""
    if usable(receipt):
        return None
    problems = [each["problem"] for each in receipt["parts"] if each["problem"] is not None]
    if receipt["records"]["read"]:
        first = receipt["refused"][0]
        return (
            f"none of its {receipt['records']['read']} records can be used"
            f" ({first['reason']}: {first['examples'][0] if first['examples'] else ''})"
        )
    if problems:
        return f"nothing in it can be read: {problems[0]}"
    if receipt["formats"]:
        return f"it is {' and '.join(receipt['formats'])}, and has no records"
    if planned.likeness is not None:
        return f"no format recognises it; it looks like {planned.likeness}"
    return "there is no file in it"

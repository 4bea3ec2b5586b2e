"""A batch of records: checked, prepared, and written in the transaction of its caller.

Where the database refuses a record that the checks let pass, it refuses all of the batch. The batch is then
written again in halves, down to that record, which is counted as refused.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from operator import itemgetter
from typing import Any, Final, NamedTuple, Self

import psycopg
from psycopg import errors

from resourceserver.integrations.imports import checks, writing
from resourceserver.integrations.imports.receipts import EXAMPLES
from resourceserver.integrations.imports.writing import PLACES, WRITERS, Target
from resourceserver.integrations.records import Refused, Sample, Sourced

ROWS: Final = 1000
"""Most rows of a statement of a type of which files do not have millions."""
OF_A_VALUE: Final = (psycopg.DataError, psycopg.IntegrityError, errors.ProgramLimitExceeded)
"""The errors of a value that the database refuses; the last one if a key is too long for an index."""
_REFUSED: Final = "refused_by_database"
"""The reason of a record that the checks let pass and the database refuses."""


class Statement(NamedTuple):
    """Records of one type that are written together."""

    kind: type
    source: str | None
    """Where it is not the format's."""
    rows: Sequence[Any]
    prepared: Any
    """The same as the writer takes them."""


@dataclass
class Batch:
    """What is written in one transaction."""

    rows: dict[tuple[type, str | None], list[Any]] = field(default_factory=dict)
    """By type, and by source where that is not the format's."""
    refused: dict[str, tuple[int, list[str]]] = field(default_factory=dict)
    """How many were refused by reason, with the first examples."""
    count: int = 0
    """Records and refused ones."""
    weight: int = 0
    """Characters of texts."""
    first_at: datetime | None = None
    last_at: datetime | None = None
    statements: list[Statement] = field(default_factory=list)
    """What its statements write, in the order of ``rows``; ``prepare`` makes them."""

    def prepare(self) -> None:
        """Make what is possible without the database."""
        for (kind, source), rows in self.rows.items():
            most = len(rows) if kind in writing.FREQUENT else ROWS
            for start in range(0, len(rows), most):
                part = rows[start : start + most]
                self.statements.append(Statement(kind, source, part, writing.prepare(kind, part)))

    def finished(self) -> Self:
        """Return the batch with its first and last instant."""
        starts = [
            list(map(itemgetter(PLACES[kind]), rows)) for (kind, _), rows in self.rows.items()
        ]
        self.first_at = min((_instant(min(each)) for each in starts), default=None)
        self.last_at = max((_instant(max(each)) for each in starts), default=None)
        return self

    def quick_way(self, kind: type) -> tuple[Callable[[Any], bool], list[Any]] | None:
        """Return what checks the texts of a record of a frequent type, and where it then goes."""
        if kind not in checks.COLUMNS:
            return None
        return checks.COLUMNS[kind][0], self.rows.setdefault((kind, None), [])

    def check_columns(self) -> Self:
        """Check the records of which only texts were checked; return the batch."""
        for kind, (_, are_usual) in checks.COLUMNS.items():
            rows = self.rows.get((kind, None))
            if rows is None or (rows and are_usual(rows)):
                continue
            del self.rows[kind, None]
            for row in rows:
                if checks.QUICK[kind](row):
                    self.rows.setdefault((kind, None), []).append(row)
                else:
                    self.take(row)
        return self

    def take(self, item: Any) -> None:
        """Check an item, and add it or count it as refused; ``count`` is the caller's."""
        if isinstance(item, Refused):
            self.refuse(_reason(item.reason), item.example)
            return
        reason = checks.refusal(item)
        source, record = None, item
        if isinstance(item, Sourced):
            source, record = item.source or writing.UNNAMED, item.record
        if reason is not None:
            self.refuse(reason, writing.example(record))
            return
        self.rows.setdefault((type(record), source), []).append(record)
        self.weight += _length(record)

    def refuse(self, reason: str, example: str) -> None:
        """Count one that was refused."""
        count, examples = self.refused.setdefault(reason, (0, []))
        if len(examples) < EXAMPLES:
            examples.append(_storable(example))
        self.refused[reason] = (count + 1, examples)


def _instant(start: date) -> datetime:
    """Return an instant as it is, and the first one of a day."""
    return start if isinstance(start, datetime) else datetime.combine(start, time(), UTC)


def _storable(text: str) -> str:
    """Return an example as it can be stored and printed."""
    return "".join(
        each if each.isprintable() and not "\ud800" <= each <= "\udfff" else "\ufffd"
        for each in text[: writing.EXAMPLE]
    )


def _length(value: Any) -> int:
    """Return how many characters are in a value."""
    if isinstance(value, str):
        return len(value)
    return sum(map(_length, value)) if isinstance(value, tuple) else 0


def _reason(text: str) -> str:
    """Return a reason as a code, whatever a reader has written."""
    code = "".join(each if each.isascii() and each.isalnum() else "_" for each in text.lower())
    return code[:64] if code[:1].isalpha() else "unreadable"


def _in_order(batch: Batch, source: str) -> list[tuple[str, Statement]]:
    """Return the statements with their sources, in the order that all imports keep (``writing``)."""
    places = {kind: place for place, kind in enumerate(WRITERS)}

    def place(named: tuple[str, Statement]) -> tuple[int, str, bool]:
        of_rows, statement = named
        return places[statement.kind], of_rows, statement.source is None

    named = ((source if each.source is None else each.source, each) for each in batch.statements)
    return sorted(named, key=place)


class Outcome(NamedTuple):
    """What became of a batch."""

    added: int
    changed: int
    refused: dict[str, tuple[int, list[str]]]
    """By reason, as in a batch; with those that the database refused."""

    @property
    def refused_count(self) -> int:
        """How many were refused."""
        return sum(count for count, _ in self.refused.values())


def write(batch: Batch, target: Target, source: str, *, in_halves: bool) -> Outcome:
    """Write a prepared batch in the transaction of ``target``; ``source`` is that of its format.

    Raises psycopg.Error. With ``in_halves``, a value that the database refuses is counted instead.
    """
    target.begin()
    target.touched.clear()
    added, changed = 0, 0
    late = Batch(refused={reason: (n, list(them)) for reason, (n, them) in batch.refused.items()})
    # Those of all sources in one order, since others write the same rows.
    metrics = [each.prepared.metrics for each in batch.statements if each.kind is Sample]
    writing.add_metrics(target, source, frozenset[str]().union(*metrics))
    for of_rows, each in _in_order(batch, source):
        if in_halves:
            written = _in_halves(each.kind, target, of_rows, each.rows)
        else:
            written = WRITERS[each.kind](target, of_rows, each.prepared)
        added += written.added
        changed += written.changed
        for reason, example in written.refused:
            late.refuse(reason, example)
    target.mark_days()
    return Outcome(added, changed, late.refused)


def _in_halves(kind: type, target: Target, source: str, rows: Sequence[Any]) -> writing.Written:
    """Write rows of which the database refuses some, and refuse these alone.

    All in one transaction, since a receipt counts how many records in the order of the file are done, and
    these rows are in that of their types.
    """
    try:
        with target.connection.transaction():
            return WRITERS[kind](target, source, writing.prepare(kind, rows))
    except errors.ForeignKeyViolation:
        # What rows refer to is gone: they are good, and the whole transaction is tried again.
        raise
    except OF_A_VALUE:
        # These may be ids of rows that went with the savepoint.
        target.forget()
        if len(rows) == 1:
            return writing.Written(0, refused=((_REFUSED, writing.example(rows[0])),))
    middle = len(rows) // 2
    first = _in_halves(kind, target, source, rows[:middle])
    second = _in_halves(kind, target, source, rows[middle:])
    return writing.Written(
        first.added + second.added,
        first.changed + second.changed,
        first.refused + second.refused,
    )

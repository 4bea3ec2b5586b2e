"""Records that come through a connection: written and counted in the transaction of the caller.

A delivery is what an application sends in one request, or what one pull finds. The receipt of a connection
has a part for each day of UTC, which grows with each delivery of the day.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from resourceserver.integrations.imports import batches, receipts
from resourceserver.integrations.imports.batches import Batch, Outcome
from resourceserver.integrations.imports.writing import Target
from shared import queries
from shared.connections import Kind

SQL: Final = queries.load(Path(__file__).with_name("deliveries.sql"))

MOST: Final = 4000
"""Records and refused ones of a batch."""


class Counts(NamedTuple):
    """What became of the records of a delivery; ``read`` is the sum of the others."""

    read: int = 0
    added: int = 0
    changed: int = 0
    known: int = 0
    refused: int = 0

    def plus(self, other: "Counts") -> "Counts":
        """Return the sums."""
        return Counts(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


def batches_of(items: Iterable[Any]) -> Iterator[Batch]:
    """Yield checked and prepared batches of ``items``: records, sourced ones and refused ones."""
    each = iter(items)
    while some := list(islice(each, MOST)):
        batch = Batch(count=len(some))
        for item in some:
            batch.take(item)
        batch.finished().prepare()
        yield batch


def write(
    target: Target,
    kind: Kind,
    batch: Batch,
    *,
    in_halves: bool = False,
    problem: str | None = None,
) -> Counts:
    """Write a batch, and count it for the connection; ``problem`` is a code that the connection then has.

    Raises psycopg.Error. With ``in_halves``, a value that the database refuses is counted instead.
    """
    outcome = batches.write(batch, target, kind.source, in_halves=in_halves)
    return count(target, kind, batch, outcome, problem=problem)


def count(
    target: Target, kind: Kind, batch: Batch, outcome: Outcome, *, problem: str | None = None
) -> Counts:
    """Count what became of a batch for the connection whose session is open."""
    counts = counts_of(batch, outcome)
    common = {"user_id": target.user_id, "import_id": target.import_id}
    if batch.count:
        # Its result is waited for only if it is needed: the caller may have begun a pipeline.
        part = target.connection.execute(
            SQL["add_delivery"], common | part_values(kind, batch, counts)
        )
        (name,) = (part.fetchone() if outcome.refused else None) or ("",)
        for reason, (number, examples) in outcome.refused.items():
            target.connection.execute(
                receipts.SQL["add_refusals"],
                common | {"name": name, "reason": reason, "count": number, "examples": examples},
            )
    target.connection.execute(SQL["note_delivery"], note_values(counts, problem))
    return counts


def counts_of(batch: Batch, outcome: Outcome) -> Counts:
    """Return the counts of a batch that was written."""
    refused = outcome.refused_count
    return Counts(
        batch.count,
        outcome.added,
        outcome.changed,
        batch.count - outcome.added - outcome.changed - refused,
        refused,
    )


def part_values(kind: Kind, batch: Batch, counts: Counts) -> dict[str, Any]:
    """Return the parameters of ``add_delivery``, without the import and its person."""
    return {
        "format": kind.name,
        "source": kind.source,
        "kind": kind.data,
        "added": counts.added,
        "changed": counts.changed,
        "known": counts.known,
        "refused": counts.refused,
        "first_at": batch.first_at,
        "last_at": batch.last_at,
    }


def note_values(counts: Counts, problem: str | None = None) -> dict[str, Any]:
    """Return the parameters of ``note_delivery``."""
    return {
        "count": counts.added + counts.changed,
        "is_usable": counts.read > counts.refused,
        "problem": problem,
    }

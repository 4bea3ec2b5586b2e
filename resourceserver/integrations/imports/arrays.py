"""Columns of many records as parameters: arrays of Postgres.

Numbers, instants and ids are sent in the binary format, which costs both sides a fraction of what text costs;
the type of a parameter follows from the statement. Texts are sent as text, which is as fast for them. A
column without any value is an empty array: a function with fewer rows than the others of its ``rows from``
has null in the remaining ones.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from struct import Struct, calcsize, error
from typing import Final

from psycopg.adapt import Dumper
from psycopg.pq import Format

_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""From here Postgres counts microseconds."""
_MS: Final = timedelta(milliseconds=1)
_HEAD: Final = Struct(">iiIii")
"""Number of dimensions, whether there are nulls, type of the elements, their number, index of the first."""
_NULL: Final = b"\xff\xff\xff\xff"
"""The length of a null."""
_EMPTY: Final = "{}"


class Array(bytes):
    """An array in the binary format."""


class ArrayDumper(Dumper):
    """Sends an ``Array`` as it is."""

    format = Format.BINARY

    def dump(self, obj: Array) -> bytes:
        """Return the array."""
        return obj


def integers(column: Sequence[int | None]) -> Array | str:
    """Return an ``integer[]``."""
    return _numbers(23, "i", column)


def doubles(column: Sequence[float | None]) -> Array | str:
    """Return a ``double precision[]``."""
    return _numbers(701, "d", column)


def instants(column: Sequence[datetime]) -> Array | str:
    """Return a ``timestamptz[]`` of instants, which are cut off to milliseconds."""
    return _numbers(1184, "q", [(at - _EPOCH) // _MS * 1000 for at in column])


def ids(column: Sequence[bytes]) -> Array:
    """Return a ``uuid[]``."""
    length = b"\x00\x00\x00\x10"
    return Array(_HEAD.pack(1, 0, 2950, len(column), 1) + length + length.join(column))


def texts(column: Sequence[str | None]) -> str:
    """Return a ``text[]``."""
    nulls = column.count(None)
    if nulls == len(column):
        return _EMPTY
    if nulls:
        # Such columns have few different texts, such as activities.
        quoted = {each: "null" if each is None else _quoted(each) for each in set(column)}
        return "{" + ",".join([quoted[each] for each in column]) + "}"
    joined = '","'.join(column)  # type: ignore[arg-type] # there is no None
    if "\\" in joined or joined.count('"') > 2 * (len(column) - 1):
        return "{" + ",".join(map(_quoted, column)) + "}"  # type: ignore[arg-type] # as above
    return '{"' + joined + '"}'


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@lru_cache(maxsize=16)
def _pairs(code: str, count: int) -> Struct:
    """Return the format of so many numbers, each after its length. Most batches have the same number."""
    return Struct(f">{f'i{code}' * count}")


def _numbers(element: int, code: str, column: Sequence[float | None]) -> Array | str:
    """Return an array of numbers: the id of their type, and how ``struct`` names it."""
    size = calcsize(f">{code}")
    nulls = column.count(None)
    if nulls == len(column):
        return _EMPTY
    head = _HEAD.pack(1, bool(nulls), element, len(column), 1)
    try:
        if nulls:
            one = Struct(f">i{code}").pack
            return Array(head + b"".join([_NULL if n is None else one(size, n) for n in column]))
        # Each number after its length.
        values: list[float | None] = [size] * (2 * len(column))
        values[1::2] = column
        return Array(head + _pairs(code, len(column)).pack(*values))
    except (error, OverflowError):
        # The database says which number it cannot have (``running``).
        return texts([None if n is None else str(n) for n in column])

"""The formats of an export: JSON, NDJSON, CSV, and CSV in a zip file.

Rows come as the JSON that Postgres wrote. JSON and NDJSON contain them unchanged. A CSV file has the same
columns for every resource, and its last column has the other members as JSON; in a zip file each resource has
a file and columns of its own.
"""

import csv
import io
import json
import zipfile
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final

from resourceserver.export.reading import Export
from resourceserver.export.resources import COLUMNS, Resource
from resourceserver.ingest.fields import compact

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""First characters of text that a spreadsheet might run as a formula."""


async def as_json(export: Export) -> AsyncIterator[bytes]:
    """Yield one object, with an array for each resource."""
    yield f'{compact(export.about)[:-1]},"resources":{{'.encode()
    before_resource = "\n"
    for resource in export.resources:
        yield f'{before_resource}"{resource.name}":['.encode()
        before_resource, before_row = ",\n", "\n"
        async for rows in export.batches(resource):
            yield (before_row + ",\n".join(rows)).encode()
            before_row = ",\n"
        yield b"]"
    end = {
        "pending_days": export.pending_days,
        "removed_before": export.removed_before,
        "omitted": export.omitted,
    }
    yield f"}},\n{compact(end)[1:]}\n".encode()


async def as_ndjson(export: Export) -> AsyncIterator[bytes]:
    """Yield one row a line, each an object that begins with its resource."""
    # The first piece carries the head of the answer; after it, an error breaks the answer off.
    yield b""
    for resource in export.resources:
        opening = f'{{"resource":"{resource.name}",'
        async for rows in export.batches(resource):
            # Stored JSON may have line breaks between values; those in strings are escaped.
            flat = (row[1:].replace("\r", " ").replace("\n", " ") for row in rows)
            yield "".join(f"{opening}{row}\n" for row in flat).encode()


async def as_csv(export: Export) -> AsyncIterator[bytes]:
    """Yield one file for all resources (RFC 4180)."""
    yield _lines([COLUMNS])
    for resource in export.resources:
        async for rows in export.batches(resource):
            yield _lines(_line(resource, json.loads(row)) for row in rows)


async def as_zip(export: Export) -> AsyncIterator[bytes]:
    """Yield an archive with a CSV file for each resource, and ``about.json`` about the whole export."""
    created_at = datetime.now(UTC)
    outlet = _Outlet()
    with zipfile.ZipFile(outlet, "w") as archive:
        for resource in export.resources:
            # The archive may become larger than 4 GiB, and the header of a file must allow for that.
            with archive.open(
                _entry(f"{resource.name}.csv", created_at), "w", force_zip64=True
            ) as file:
                file.write(_lines([resource.members]))
                yield outlet.take()
                async for rows in export.batches(resource):
                    file.write(_lines(_cells(resource, json.loads(row)) for row in rows))
                    yield outlet.take()
        about = {
            **export.about,
            "pending_days": export.pending_days,
            "removed_before": export.removed_before,
            "omitted": export.omitted,
        }
        text = json.dumps(about, ensure_ascii=False, indent=2) + "\n"
        archive.writestr(_entry("about.json", created_at), text)
    yield outlet.take()


FORMATS: Final[dict[str, tuple[str, Callable[[Export], AsyncIterator[bytes]]]]] = {
    "json": ("application/json", as_json),
    "csv": ("text/csv; charset=utf-8", as_csv),
    "ndjson": ("application/x-ndjson", as_ndjson),
    "zip": ("application/zip", as_zip),
}
"""The media type and the writer of each format."""


def _entry(name: str, created_at: datetime) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, created_at.timetuple()[:6])
    entry.compress_type = zipfile.ZIP_DEFLATED
    # Readable only by its owner after unpacking.
    entry.external_attr = 0o600 << 16
    return entry


class _Outlet(io.RawIOBase):
    """A stream that an archive is written to and taken from piece by piece; it cannot seek."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, piece: Any, /) -> int:
        self._pieces.append(bytes(piece))
        return len(piece)

    def take(self) -> bytes:
        """Return the bytes that were written since the last call."""
        taken = b"".join(self._pieces)
        self._pieces.clear()
        return taken


def _line(resource: Resource, row: dict[str, Any]) -> list[str]:
    """Return the cells of ``row`` in the one CSV file."""
    cells = [resource.name]
    for member, inner in resource.sources:
        value = row.get(member)
        if inner and isinstance(value, dict):
            value = value.get(inner)
        cells.append(_cell(value))
    columns = resource.column_names
    rest = {name: value for name, value in row.items() if value is not None and name not in columns}
    cells.append(compact(rest) if rest else "")
    return cells


def _cells(resource: Resource, row: dict[str, Any]) -> list[str]:
    """Return the cells of ``row`` in a file of its own."""
    return [_cell(row[member]) for member in resource.members]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA) else value
    if isinstance(value, bool):
        return "true" if value else "false"
    return compact(value) if isinstance(value, dict | list) else str(value)


def _lines(lines: Iterable[Iterable[str]]) -> bytes:
    written = io.StringIO()
    csv.writer(written, lineterminator="\r\n").writerows(lines)
    return written.getvalue().encode()

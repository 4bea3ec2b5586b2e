"""The download of an export: to a file that appears once it is complete, or to standard output.

The server breaks an export off if something fails. So the data go to a file beside the wanted one, which gets
its name at the end.
"""

import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import click
import httpx2

from deploy.person import requests
from deploy.person.access import API
from shared.screen import plain

_PATH: Final = "/api/v1/export"
_NAME: Final = re.compile(r'filename="([\w-][\w.-]{0,100})"', re.ASCII)
_PROGRESS_EVERY_S: Final = 0.5
_MIB: Final = 1024 * 1024


class Saved(NamedTuple):
    """A complete download."""

    name: str
    size: int
    omitted: str
    """Resources that the token may not read, in formats that do not name them."""


def save(api: API, parameters: Mapping[str, str], out: Path | None, *, force: bool) -> Saved:
    """Download an export to ``out``, or under the name that the server gives. Raises ClickException."""
    if out is not None and not force:
        _refuse_existing(out)
    answer = api.open(_PATH, parameters, stream=True)
    try:
        file = out or Path(_own_name(answer, parameters["format"]))
        if str(file) == "-":
            size = _copy(answer, sys.stdout.buffer)
        else:
            with _completed(file, force=force) as written:
                size = _copy(answer, written)
    finally:
        answer.close()
    return Saved(str(file), size, plain(answer.headers.get("export-omitted", "")))


def _refuse_existing(file: Path) -> None:
    if str(file) != "-" and file.exists():
        raise click.ClickException(f"{file} exists: choose another name with --out, or add --force")


def _own_name(answer: httpx2.Response, file_format: str) -> str:
    """Return the name that the server gives the file, if it is one without a path."""
    match = _NAME.search(answer.headers.get("content-disposition", ""))
    return match[1] if match else f"export.{file_format}"


@contextmanager
def _completed(file: Path, *, force: bool) -> Iterator[BinaryIO]:
    """Yield a new file for this person alone, which gets the name ``file`` if the block ends well."""
    if not force:
        _refuse_existing(file)
    part = None
    try:
        # mkstemp lets nobody else read what it makes, and two exports at once share nothing.
        descriptor, part = tempfile.mkstemp(".part", f"{file.name}.", file.parent)
        with open(descriptor, "wb") as written:
            yield written
            written.flush()
            os.fsync(written.fileno())
        os.replace(part, file)
    except OSError as error:
        _remove(part)
        raise click.ClickException(f"{file}: {error.strerror}") from error
    except BaseException:
        _remove(part)
        raise


def _remove(part: str | None) -> None:
    if part is not None:
        with suppress(OSError):
            os.unlink(part)


def _copy(answer: httpx2.Response, written: BinaryIO) -> int:
    """Write an answer while it arrives, and return its size. Raises ClickException if it is broken off."""
    size, last = 0, time.monotonic()
    is_progress = sys.stderr.isatty()
    try:
        for chunk in answer.iter_bytes():
            written.write(chunk)
            size += len(chunk)
            if is_progress and time.monotonic() - last > _PROGRESS_EVERY_S:
                last = time.monotonic()
                click.echo(f"\r{size / _MIB:.1f} MiB", nl=False, err=True)
    except (httpx2.TransportError, httpx2.DecodingError) as error:
        raise click.ClickException(
            f"{requests.host_of(answer.url)} has broken the export off: {error or type(error).__name__}"
        ) from error
    finally:
        if is_progress:
            click.echo("\r", nl=False, err=True)
    return size

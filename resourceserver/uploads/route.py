"""The routes of uploads: a file in pieces that can be continued (tus 1.0), or whole in a form.

    POST  with a ticket ──► Location              the upload exists, nothing of it is here
    HEAD  ──► Upload-Offset                       how much of it is here
    PATCH from this offset, at most 8 MiB ──►     … the last one makes the import of the person due
    POST  of a form: ticket, file ──► Settings    the same without scripts, in one body, from the start

A ticket opens these routes and nothing else, and no other token opens them. It travels in the Authorization
header or in the first field of the form, never in an address.

What was received is written to the disk before the database notes it, so the noted offset is true after any
interruption: of the client, of this process, or of the machine.
"""

import asyncio
import base64
import binascii
import errno
import logging
import re
import unicodedata
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID

from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from resourceserver.api import session
from resourceserver.api.arrival import TooSlow, in_time
from resourceserver.api.errors import (
    PRIVATE,
    InvalidParameter,
    MissingParameter,
    NotFound,
    Problem,
    StorageFull,
)
from resourceserver.api.turns import Turns
from resourceserver.uploads import form, tickets
from resourceserver.uploads.directory import Directory, Locked, UploadFile
from resourceserver.uploads.form import Malformed
from resourceserver.uploads.tickets import TicketNeeded, Tickets, Upload
from shared.cors import OpenToOneOrigin
from shared.pipeline import Pipelines
from shared.settings import Settings
from shared.sources import PROFILED
from shared.storage import Storage
from shared.tokens import Token

log = logging.getLogger("svc.uploads")

PATH: Final = "/api/v1/imports/"
VERSION: Final = "1.0.0"
"""The version of the tus protocol."""
MEDIA_TYPE: Final = "application/offset+octet-stream"
LARGEST_PIECE: Final = 8 * 2**20
"""Most bytes of one PATCH."""
PAGE: Final = "/settings/bring"
"""The page of the authorization server from which people upload files."""

_MOST_PIECES: Final = 64
"""The most pieces that are received at once, one of each person."""
_MOST_FORMS: Final = 16
"""The same for whole files in forms."""
_PAUSE_S: Final = 20.0
"""The longest time without any data: a client that is gone must not keep its upload locked."""
_LONGEST_FORM_S: Final = 24 * 3600.0
"""The time limit of a form: as long as its ticket is valid."""
_CHUNK: Final = 256 * 1024
"""The bytes that are collected before they are written."""
_KEEP_EVERY: Final = 64 * 2**20
"""The bytes of a form after which they are brought to the disk."""
_LONGEST_NAME: Final = 255
_LONGEST_METADATA: Final = 4096
_MOST_DIGITS: Final = 18
_NUMBER: Final = re.compile(rf"0|[1-9][0-9]{{0,{_MOST_DIGITS - 1}}}")
_FORMAT: Final = re.compile(r"[a-z][a-z0-9_]{0,63}(?::.{1,100})?")
"""The name of a format, and after a colon that of a profile."""
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

T = TypeVar("T")


class UploadsOff(Problem):
    """this deployment accepts no uploads: it has no directory for them"""

    status = 503
    code = "storage_unavailable"


class StorageFailed(Problem):
    """the directory of uploads cannot be used now; try again later"""

    status = 503
    code = "storage_unavailable"
    headers: Mapping[str, str] = {"Retry-After": "60"}


class Gone(Problem):
    """the ticket is not valid any more: the upload is complete, canceled or expired"""

    status = 410
    code = "not_found"


class InvalidUpload(Problem):
    """A request that is no request of an upload."""

    status = 400
    code = "invalid_request"


class Conflict(Problem):
    """A request that does not fit the state of the upload."""

    status = 409
    code = "invalid_request"


class Busy(Conflict):
    """another request is writing to this upload; try again in a while"""

    status = 423
    headers: Mapping[str, str] = {"Retry-After": "5"}


class TooManyFiles(Conflict):
    """100 files of this account are not imported yet; wait until some of them are"""


class LengthRequired(Problem):
    """Content-Length: is missing"""

    status = 411
    code = "missing_parameter"
    parameter = "Content-Length"


class WrongVersion(Problem):
    """Tus-Resumable: must be 1.0.0"""

    status = 412
    code = "invalid_request"
    headers: Mapping[str, str] = {"Tus-Version": VERSION}


class TooLarge(Problem):
    """A file or a piece that is too large."""

    status = 413
    code = "payload_too_large"


class WrongType(Problem):
    """A body of a type that is not accepted."""

    status = 415
    code = "unsupported_media_type"


@dataclass(frozen=True)
class Receiver:
    """What receives uploads in this process."""

    directory: Directory
    tickets: Tickets
    page: str
    """The address of the page from which people upload files."""
    storage: Storage
    """The disk of the database, which needs room for what is in the files."""
    pieces: Turns = field(default_factory=lambda: Turns(_MOST_PIECES, 1, name="upload_pieces"))
    forms: Turns = field(default_factory=lambda: Turns(_MOST_FORMS, 1, name="upload_forms"))
    # Threads of their own: a slow disk must not delay other work.
    disk: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(4, thread_name_prefix="uploads")
    )

    async def create(self, request: Request) -> Response:
        """Begin an upload, or receive a whole one in a form."""
        limit = form.boundary(request.headers.get("content-type", ""))
        if limit is not None:
            return await self._receive_form(request, limit)
        ticket = tickets.parse(session.bearer(request))
        upload = await self.tickets.find(ticket)
        _check_version(request)
        if not upload.is_valid:
            raise _gone(upload)
        self._check_storage()
        length = self._length(_number(request, "Upload-Length"), "Upload-Length")
        file_name, chosen = _metadata(request.headers.get("upload-metadata", ""))
        await self._in_thread(partial(self.directory.check_space, length))
        await self._begin(ticket, upload, file_name, chosen, length)
        headers = {"Location": self._address(upload.upload_id)}
        return Response(status_code=201, headers=PRIVATE | headers)

    async def look(self, request: Request) -> Response:
        """Say how much of an upload is here."""
        _, upload = await self._open(request)
        offset = await self._offset(upload)
        headers = {"Upload-Offset": str(offset), "Upload-Length": str(upload.length)}
        return Response(headers=PRIVATE | headers)

    async def append(self, request: Request) -> Response:
        """Receive a piece of an upload."""
        ticket, upload = await self._open(request)
        if request.headers.get("content-type", "").strip().lower() != MEDIA_TYPE:
            raise WrongType(f"Content-Type: must be {MEDIA_TYPE}")
        start = _number(request, "Upload-Offset")
        self._check_storage()
        announced = _announced(request)
        if announced is not None and announced > LARGEST_PIECE:
            raise TooLarge(f"a piece has at most {LARGEST_PIECE} bytes")
        async with self.pieces.place(ticket.user_id.int), self._locked(upload.upload_id) as file:
            # Another request may have written something while this one waited.
            upload = await self.tickets.find(ticket)
            if not upload.is_valid:
                raise _gone(upload)
            offset = min(upload.received, file.size)
            if start != offset:
                raise _wrong_offset(offset)
            most = min(LARGEST_PIECE, upload.length - offset)
            if announced is not None and announced > most:
                raise TooLarge("Upload-Offset: the piece is longer than the rest of the upload")
            received, problem = await self._receive_piece(request, file, offset, most)
            if received:
                offset += received
                await self._advance(ticket, upload.received, offset, upload.length)
            if problem is not None:
                raise problem
        return Response(status_code=204, headers=PRIVATE | {"Upload-Offset": str(offset)})

    async def _receive_piece(
        self, request: Request, file: UploadFile, start: int, most: int
    ) -> tuple[int, Exception | None]:
        """Write a piece; return how many of its bytes are on the disk, and why not all, if so.

        What was written before a failure is kept, so that the client need not send it again.
        """
        written, pending = 0, bytearray()
        problem: Exception | None = None
        try:
            await self._in_thread(partial(file.cut, start))
            async for piece in in_time(request.stream(), pause_s=_PAUSE_S):
                if written + len(pending) + len(piece) > most:
                    raise TooLarge("the piece is longer than it may be")
                pending += piece
                if len(pending) >= _CHUNK:
                    data, pending = bytes(pending), bytearray()
                    await self._in_thread(partial(file.write, data, start + written))
                    written += len(data)
        except (TooSlow, StorageFull, StorageFailed) as error:
            problem = error
        except ClientDisconnect:
            # The client is gone. The problem keeps this from being logged as an error of the server.
            problem = InvalidUpload("the piece ended early")
        if not isinstance(problem, StorageFull | StorageFailed):
            try:
                await self._in_thread(partial(file.write, bytes(pending), start + written))
                written += len(pending)
            except (StorageFull, StorageFailed) as error:
                problem = error
        await self._in_thread(file.keep)
        return written, problem

    async def _receive_form(self, request: Request, limit: bytes) -> Response:
        """Receive a whole file in a form, and send the browser back to the page."""
        try:
            await self._receive_whole(request, limit)
        except Problem as problem:
            # A browser would show the JSON to a person.
            if not _is_of_a_browser(request):
                raise
            return RedirectResponse(f"{self.page}?problem={problem.code}", 303, headers=PRIVATE)
        return RedirectResponse(self.page, 303, headers=PRIVATE)

    async def _receive_whole(self, request: Request, limit: bytes) -> None:
        announced = _announced(request)
        if announced is None:
            raise LengthRequired
        pieces = in_time(request.stream(), longest_s=_LONGEST_FORM_S, pause_s=_PAUSE_S)
        events = form.read(pieces, limit)
        ticket: Token | None = None
        chosen: str | None = None
        try:
            async for event in events:
                if ticket is None:
                    if not isinstance(event, form.Field) or event.name != "ticket":
                        raise TicketNeeded
                    ticket = tickets.parse(event.value)
                    upload = await self.tickets.find(ticket)
                    if not upload.is_valid:
                        raise _gone(upload)
                    self._check_storage()
                    # More than the file has, by the other fields.
                    self._length(announced, "Content-Length")
                elif isinstance(event, form.Field) and event.name in ("format", "profile"):
                    chosen = _with_field(chosen, event)
                elif isinstance(event, form.FileBegin) and event.name == "file":
                    file_name = _file_name(event.file_name, "file")
                    async with self.forms.place(ticket.user_id.int):
                        await self._receive_file(
                            events, ticket, upload, (file_name, chosen, announced)
                        )
                elif not isinstance(event, form.FileEnd):
                    raise InvalidUpload("the form has a field that is not known here")
        except Malformed as error:
            if ticket is None:
                raise TicketNeeded from error
            raise InvalidUpload(str(error)) from error
        except ClientDisconnect as error:
            raise InvalidUpload("the form ended early") from error

    async def _receive_file(
        self,
        events: AsyncIterator[form.Event],
        ticket: Token,
        upload: Upload,
        about: tuple[str, str | None, int],
    ) -> None:
        """Receive the file of a form. If it breaks off, the ticket may be used again."""
        file_name, chosen, announced = about
        async with self._locked(upload.upload_id) as file:
            await self._in_thread(partial(self.directory.check_space, announced))
            await self._begin(ticket, upload, file_name, chosen, announced, may_restart=True)
            try:
                await self._in_thread(partial(file.cut, 0))
                length = await self._write_all(events, file)
                if not length:
                    raise InvalidParameter("file", "is empty")
                await self._advance(ticket, 0, length, length)
            except BaseException:
                await asyncio.shield(self._give_up(ticket, upload.upload_id))
                raise

    async def _write_all(self, events: AsyncIterator[form.Event], file: UploadFile) -> int:
        """Write the bytes of the file of a form; return their number."""
        written, kept, pending = 0, 0, bytearray()
        async for event in events:
            if not isinstance(event, bytes):
                break
            pending += event
            if len(pending) >= _CHUNK:
                data, pending = bytes(pending), bytearray()
                await self._in_thread(partial(file.write, data, written))
                written += len(data)
            if written - kept >= _KEEP_EVERY:
                # Otherwise the system would collect gigabytes in memory.
                await self._in_thread(file.keep)
                kept = written
        await self._in_thread(partial(file.write, bytes(pending), written))
        await self._in_thread(file.keep)
        return written + len(pending)

    async def _give_up(self, ticket: Token, upload_id: UUID) -> None:
        await self.tickets.release(ticket)
        # The last statement may have completed the upload although its answer was lost: then the file stays.
        if (await self.tickets.find(ticket)).status == "ticket":
            await self._in_thread(partial(self.directory.remove, upload_id))

    async def _begin(
        self,
        ticket: Token,
        upload: Upload,
        file_name: str,
        chosen: str | None,
        length: int,
        *,
        may_restart: bool = False,
    ) -> None:
        outcome = await self.tickets.begin(
            ticket, file_name=file_name, form=chosen, length=length, may_restart=may_restart
        )
        match outcome:
            case "not_valid":
                raise _gone(upload)
            case "exists":
                problem = Conflict("the upload of this ticket exists already")
                problem.headers = {"Location": self._address(upload.upload_id)}
                raise problem
            case "too_many":
                raise TooManyFiles
            case "too_much":
                raise TooLarge(
                    "with the files of this account that are not imported yet, it is larger than "
                    f"{self.tickets.most_bytes} bytes"
                )

    async def _advance(self, ticket: Token, before: int, received: int, length: int) -> None:
        if await self.tickets.advance(ticket, before=before, received=received, length=length):
            return
        # It was canceled or has expired meanwhile, or its account is deleted.
        raise _gone(await self.tickets.find(ticket))

    def _check_storage(self) -> None:
        if self.storage.is_full():
            raise StorageFull

    async def _open(self, request: Request) -> tuple[Token, Upload]:
        """Return ticket and upload of a request that names the upload."""
        ticket = tickets.parse(session.bearer(request))
        upload = await self.tickets.find(ticket)
        _check_version(request)
        if request.path_params["upload_id"] != str(upload.upload_id) or upload.status == "ticket":
            raise NotFound
        if not upload.is_valid:
            raise _gone(upload)
        return ticket, upload

    async def _offset(self, upload: Upload) -> int:
        """Return how much of an upload is here: what was noted, unless its file was lost since."""
        size: int = await self._in_thread(partial(self.directory.size, upload.upload_id))
        return min(upload.received, size)

    def _length(self, length: int, name: str) -> int:
        if length == 0:
            raise InvalidParameter(name, "must not be 0, because an empty file has no records")
        if length > self.tickets.most_bytes:
            raise TooLarge(f"{name}: a file has at most {self.tickets.most_bytes} bytes")
        return length

    def _address(self, upload_id: UUID) -> str:
        # Relative to the address of the request, so that it is right behind every proxy (RFC 9110, 10.2.2).
        return f"{PATH}{upload_id}"

    @asynccontextmanager
    async def _locked(self, upload_id: UUID) -> AsyncIterator[UploadFile]:
        """The file of an upload, to which no other request writes. Raises Busy and StorageFailed."""
        try:
            file: UploadFile = await self._in_thread(partial(self.directory.open, upload_id))
        except Locked as error:
            raise Busy from error
        try:
            yield file
        finally:
            self.directory.close(file)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Do work with the disk. Raises StorageFull and StorageFailed, and what ``work`` does.

        It is waited for even if the request is canceled: its file must not be closed while it is written.
        """
        running = asyncio.get_running_loop().run_in_executor(self.disk, work)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait([running])
            raise
        except OSError as error:
            if error.errno in _FULL:
                raise StorageFull("the disk for uploads is full; try again later") from error
            log.error("the directory of uploads cannot be used: %s", error)
            raise StorageFailed from error


def _check_version(request: Request) -> None:
    if request.headers.get("tus-resumable") != VERSION:
        raise WrongVersion


def _gone(upload: Upload) -> Gone:
    problem = Gone()
    if upload.status in ("complete", "taken"):
        # So a client whose last answer was lost knows that everything arrived.
        problem.headers = {
            "Upload-Offset": str(upload.received),
            "Upload-Length": str(upload.length),
        }
    return problem


def _wrong_offset(offset: int) -> Conflict:
    problem = Conflict(f"Upload-Offset: {offset} bytes of the upload are here")
    problem.parameter = "Upload-Offset"
    problem.headers = {"Upload-Offset": str(offset)}
    return problem


def _number(request: Request, name: str) -> int:
    given = request.headers.get(name)
    if given is None:
        raise MissingParameter(name, "is missing")
    if not _NUMBER.fullmatch(given):
        raise InvalidParameter(name, f"must be a number of at most {_MOST_DIGITS} digits")
    return int(given)


def _announced(request: Request) -> int | None:
    """Return the length of the body, if it is known. The web server has checked that it is a number."""
    given = request.headers.get("content-length", "").lstrip("0")
    if not given:
        return 0 if "content-length" in request.headers else None
    if len(given) > _MOST_DIGITS:
        raise TooLarge("Content-Length: is too large")
    return int(given)


def _metadata(text: str) -> tuple[str, str | None]:
    """Return file name and format in an Upload-Metadata header: keys with values in base64."""
    if len(text) > _LONGEST_METADATA:
        raise InvalidParameter("Upload-Metadata", f"is longer than {_LONGEST_METADATA} characters")
    values: dict[str, str] = {}
    for pair in filter(None, text.split(",")):
        key, _, value = pair.strip(" ").partition(" ")
        if key in values:
            raise InvalidParameter("Upload-Metadata", "has a key twice")
        try:
            values[key] = base64.b64decode(value, validate=True).decode()
        except (binascii.Error, ValueError) as error:
            raise InvalidParameter("Upload-Metadata", "is not UTF-8 in base64") from error
    if "filename" not in values:
        raise MissingParameter("Upload-Metadata", "filename is missing")
    chosen = values.get("format")
    return _file_name(values["filename"], "Upload-Metadata"), chosen and _format(chosen)


def _file_name(name: str, parameter: str) -> str:
    """Return the name of a file as receipts have it. No path is ever made of it."""
    name = unicodedata.normalize("NFC", name).strip()
    if not 1 <= len(name) <= _LONGEST_NAME:
        raise InvalidParameter(
            parameter, f"the name of the file must have 1 to {_LONGEST_NAME} characters"
        )
    if name in (".", "..") or any(
        each in "/\\" or unicodedata.category(each) in ("Cc", "Cs") for each in name
    ):
        raise InvalidParameter(
            parameter, "the name of the file must have no directory and no control characters"
        )
    return name


def _format(name: str) -> str | None:
    if name and not (_FORMAT.fullmatch(name) and name.isprintable()):
        raise InvalidParameter("format", "is not a name of a format")
    form, colon, _ = name.partition(":")
    if colon and form != PROFILED:
        raise InvalidParameter("format", f"only {PROFILED} may have a profile")
    return name or None


def _with_field(chosen: str | None, field: form.Field) -> str | None:
    """Return the chosen format with one more field of a form, in which the profile follows the format."""
    if field.name == "format":
        return _format(field.value)
    profile = field.value.strip()
    return _format(f"{chosen or PROFILED}:{profile}") if profile else chosen


def _is_of_a_browser(request: Request) -> bool:
    """Whether a browser sends a form for a person, and so shows the answer."""
    return "text/html" in request.headers.get("accept", "")


@dataclass(frozen=True)
class Versioned:
    """Middleware that names the version of the protocol in every answer, as the protocol says."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        if scope["type"] != "http" or not covers(scope["path"]):
            await self.app(scope, receive, send)
            return

        async def send_versioned(message: Message) -> None:
            if message["type"] == "http.response.start":
                named = (b"tus-resumable", VERSION.encode())
                message["headers"] = [*message["headers"], named]
            await send(message)

        await self.app(scope, receive, send_versioned)


def covers(path: str) -> bool:
    """Whether a path is one of uploads."""
    return path.startswith(PATH)


def middleware(chosen: Settings) -> list[Middleware]:
    """Return the layers of the application that requests of uploads pass."""
    return [
        Middleware(
            OpenToOneOrigin,
            covers=covers,
            origin=chosen.auth_url,
            methods=("POST", "PATCH", "HEAD"),
            request_headers=(
                *("Authorization", "Content-Type", "Tus-Resumable"),
                *("Upload-Length", "Upload-Metadata", "Upload-Offset"),
            ),
            response_headers=(
                *("Location", "Retry-After", "Tus-Resumable", "Tus-Version"),
                *("Upload-Length", "Upload-Offset", "X-Request-Id"),
            ),
        ),
        Middleware(Versioned),
    ]


def routes(receiver: Receiver | None) -> list[Route]:
    """Return the routes of uploads. Without ``receiver`` they are off, and say so."""

    async def off(request: Request) -> Response:
        if form.boundary(request.headers.get("content-type", "")) is None:
            tickets.parse(session.bearer(request))
        raise UploadsOff

    handlers: dict[str, Any] = {
        name: off if receiver is None else getattr(receiver, name)
        for name in ("create", "append", "look")
    }
    one = f"{PATH}{{upload_id}}"
    return [
        Route(PATH, handlers["create"], methods=["POST"], name="create_upload"),
        Route(one, handlers["append"], methods=["PATCH"], name="append_upload"),
        Route(one, handlers["look"], methods=["HEAD"], name="look_at_upload"),
    ]


def receiver(chosen: Settings, writers: Pipelines, storage: Storage) -> Receiver | None:
    """Return what receives uploads; None if they are off. ``writers`` are of the ``ingester`` role."""
    if chosen.upload_dir is None:
        return None
    directory = Directory(chosen.upload_dir, chosen.upload_free_mib * 2**20)
    return Receiver(
        directory, Tickets(writers, chosen.upload_mib * 2**20), f"{chosen.auth_url}{PAGE}", storage
    )

"""Uploads that break off: a client that is gone or slow, a disk that is full, a server that is killed."""

import os
import resource
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import httpx2
import psycopg
import pytest
import uvicorn

import resourceserver.app
from resourceserver.api import arrival
from resourceserver.uploads import route
from shared.settings import Settings
from tests import processes
from tests.client import NO_TLS
from tests.conftest import Person
from tests.uploads.conftest import MIB, PATH, Sender, sender
from tests.waiting import wait_for

Rows = psycopg.Connection[Any]
CHUNK: Final = 256 * 1024


@dataclass
class Connection:
    """A connection on which a request is sent by hand."""

    socket: socket.socket

    def begin(self, head: str, headers: dict[str, str], length: int, some: bytes) -> None:
        """Send the head of a request with a body of ``length`` bytes, and some of these."""
        lines = [head, "Host: localhost", "Connection: close", f"Content-Length: {length}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode() + some)

    def answer(self) -> bytes:
        """Return the answer up to the end of the connection."""
        pieces = []
        while piece := self.socket.recv(65536):
            pieces.append(piece)
        return b"".join(pieces)


@contextmanager
def connection(address: str) -> Iterator[Connection]:
    host, _, port = address.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as opened:
        yield Connection(opened)


def begin_piece(on: Connection, one: Sender, offset: int, length: int, some: bytes) -> None:
    """Begin to send a piece."""
    headers = one.headers(Upload_Offset=str(offset), Content_Type="application/offset+octet-stream")
    on.begin(f"PATCH {one.path} HTTP/1.1", headers, length, some)


def offset_of(one: Sender) -> int:
    return int(one.look().headers["upload-offset"])


@pytest.fixture(scope="module")
def served(uploading: Settings, upload_dir: Path) -> Iterator[str]:
    """The address of a resource server that listens on the loopback interface."""
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    app = resourceserver.app.create(replace(uploading, base_url=address))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    wait_for(lambda: server.started and upload_dir.exists(), "the server to listen")
    yield address
    server.should_exit = True
    thread.join()
    listener.close()


@pytest.fixture
def one(served: str, alice: Person) -> Iterator[Sender]:
    """A sender of alice's."""
    with httpx2.Client(base_url=served, verify=NO_TLS, timeout=60) as client:
        yield sender(client, alice)


def size_of(upload_dir: Path, one: Sender) -> int:
    file = upload_dir / str(one.upload_id)
    return file.stat().st_size if file.exists() else 0


def test_what_a_client_sent_before_it_was_gone_is_kept(
    served: str, one: Sender, upload_dir: Path
) -> None:
    content = os.urandom(MIB)
    one.create(MIB)

    with connection(served) as broken:
        begin_piece(broken, one, 0, MIB, content[: MIB // 2])
        wait_for(lambda: size_of(upload_dir, one) >= CHUNK, "bytes on the disk")
    wait_for(lambda: offset_of(one) == MIB // 2, "all that was sent")

    assert one.send(MIB // 2, content[MIB // 2 :]).status_code == 204
    assert (upload_dir / str(one.upload_id)).read_bytes() == content


def test_a_client_that_stops_sending_does_not_keep_its_upload(
    served: str, one: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route, "_PAUSE_S", 0.3)
    one.create(10)

    with connection(served) as slow:
        begin_piece(slow, one, 0, 10, b"0123")
        answer = slow.answer()

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert offset_of(one) == 4
    assert one.send(4, b"456789").status_code == 204


def test_a_form_that_comes_too_slowly_ends_and_gives_its_ticket_back(
    served: str, one: Sender, owner: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each byte comes within the longest pause, but together they come more slowly than the lowest rate.
    monkeypatch.setattr(arrival, "GRACE_S", 0.3)
    limit = {"Content-Type": "multipart/form-data; boundary=limit"}
    body = (
        "--limit\r\nContent-Disposition: form-data; name=ticket\r\n\r\n"
        f"{one.ticket.text}\r\n"
        "--limit\r\nContent-Disposition: form-data; name=file; filename=a\r\n\r\n"
    ).encode()

    with connection(served) as slow:
        slow.begin(f"POST {PATH} HTTP/1.1", limit, MIB, body)
        slow.socket.settimeout(0.05)
        answer = b""
        # The server closes the connection after its answer. Bytes that arrive then reset the connection, so
        # that sending fails, but the answer can still be read.
        with suppress(ConnectionError):
            while not answer:
                slow.socket.sendall(b"x")
                with suppress(TimeoutError):
                    answer = slow.socket.recv(65536)
        answer = answer or slow.socket.recv(65536)

    assert answer.startswith(b"HTTP/1.1 408 ")
    wait_for(
        lambda: owner.execute("select status from profile.upload").fetchone() == ("ticket",),
        "the ticket",
    )


def test_of_two_pieces_at_once_one_is_written(served: str, one: Sender, upload_dir: Path) -> None:
    one.create(MIB)

    with connection(served) as first, connection(served) as second:
        begin_piece(first, one, 0, MIB, b"x" * CHUNK)
        wait_for(lambda: size_of(upload_dir, one) >= CHUNK, "the first one to be written")
        begin_piece(second, one, 0, MIB, b"y" * MIB)
        first.socket.sendall(b"x" * (MIB - CHUNK))
        answers = [each.answer().split(b"\r\n")[0] for each in (first, second)]

    assert answers[0] == b"HTTP/1.1 204 No Content"
    # The last byte has ended the ticket before the second piece has its turn.
    assert answers[1] == b"HTTP/1.1 410 Gone"
    assert (upload_dir / str(one.upload_id)).read_bytes() == b"x" * MIB


def test_a_form_that_breaks_off_gives_its_ticket_back(
    served: str, one: Sender, upload_dir: Path, owner: Rows
) -> None:
    limit = {"Content-Type": "multipart/form-data; boundary=limit"}
    body = (
        "--limit\r\nContent-Disposition: form-data; name=ticket\r\n\r\n"
        f"{one.ticket.text}\r\n"
        "--limit\r\nContent-Disposition: form-data; name=file; filename=a\r\n\r\n"
    ).encode()

    with connection(served) as broken:
        broken.begin(f"POST {PATH} HTTP/1.1", limit, MIB, body + b"x" * (MIB // 2))
        wait_for(lambda: size_of(upload_dir, one) >= CHUNK, "bytes on the disk")

    def is_given_back() -> bool:
        return owner.execute("select status from profile.upload").fetchone() == ("ticket",)

    wait_for(is_given_back, "the ticket")
    # The server removes the file after it has given the ticket back.
    wait_for(lambda: size_of(upload_dir, one) == 0, "the end of the file")
    again = one.client.post(PATH, data={"ticket": one.ticket.text}, files={"file": ("a", b"x")})
    assert again.status_code == 303


@pytest.fixture
def process(uploading: Settings, tmp_path: Path) -> Any:
    """Starts a server process, and yields its id and a client."""
    (port,) = processes.free_ports(1)
    chosen = replace(uploading, base_url=f"http://localhost:{port}")

    @contextmanager
    def started() -> Iterator[tuple[int, httpx2.Client]]:
        with (
            processes.running(
                ["resource", "serve"],
                chosen,
                processes.role_urls(chosen, processes.RESOURCE_ROLES),
                f"{chosen.base_url}/healthz",
                tmp_path / "resource.log",
            ) as pid,
            httpx2.Client(base_url=chosen.base_url, verify=NO_TLS, timeout=60) as client,
        ):
            yield pid, client

    return started


def test_an_upload_goes_on_after_its_server_was_killed(
    process: Any, alice: Person, upload_dir: Path
) -> None:
    content = os.urandom(3 * MIB)
    with process() as (pid, client):
        begun = sender(client, alice)
        begun.create(3 * MIB)
        begun.send(0, content[:MIB])
        with connection(str(client.base_url).rstrip("/")) as cut:
            begin_piece(cut, begun, MIB, 2 * MIB, content[MIB : 2 * MIB])
            wait_for(lambda: size_of(upload_dir, begun) > MIB, "bytes that are not noted yet")
            os.kill(pid, signal.SIGKILL)

    with process() as (_, client):
        again = replace(begun, client=client)
        offset = offset_of(again)
        sent = again.send(offset, content[offset:])

    assert offset == MIB
    assert sent.status_code == 204
    assert (upload_dir / str(begun.upload_id)).read_bytes() == content


def test_a_disk_that_fills_up_keeps_what_is_there(
    process: Any, alice: Person, upload_dir: Path
) -> None:
    content = os.urandom(4 * MIB)
    with process() as (pid, client):
        begun = sender(client, alice)
        begun.create(4 * MIB)
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        # Longer files than this are refused by the system, as a full disk would.
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (2 * MIB, hard))
        refused = begun.send(0, content)
        offset = offset_of(begun)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
        sent = begun.send(offset, content[offset:])

    assert (refused.status_code, refused.json()["error"]) == (503, "storage_full")
    assert 0 < offset <= 2 * MIB
    assert sent.status_code == 204
    assert (upload_dir / str(begun.upload_id)).read_bytes() == content

"""Whole files in a form, without scripts."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx2
import psycopg
import pytest
from starlette.testclient import TestClient

from resourceserver.api.errors import DatabaseUnavailable
from resourceserver.uploads.directory import UploadFile
from resourceserver.uploads.tickets import Tickets
from tests.conftest import Person
from tests.uploads.conftest import MIB, MOST_MIB, PATH, MakeSender, Sender

Rows = psycopg.Connection[Any]
PAGE: Final = "http://localhost:8400/settings/bring"
BOUNDARY: Final = "limit"


def submit(one: Sender, content: bytes, name: str = "a b.json", **fields: str) -> httpx2.Response:
    """Submit a form as a browser does."""
    return one.client.post(
        PATH, data={"ticket": one.ticket.text} | fields, files={"file": (name, content)}
    )


def part(name: str, value: bytes, file_name: str | None = None) -> bytes:
    """Return one part of a form."""
    more = "" if file_name is None else f'; filename="{file_name}"'
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'
    return head.encode() + value + b"\r\n"


def post(client: TestClient, body: Any, **headers: str) -> httpx2.Response:
    """Post a body as a form."""
    kind = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
    return client.post(PATH, content=body, headers=kind | headers)


def uploads_of(owner: Rows) -> list[Any]:
    return owner.execute(
        "select status, file_name, format, length, received from profile.upload"
    ).fetchall()


@pytest.mark.parametrize(
    ("fields", "chosen"),
    [
        ({"format": "", "profile": ""}, None),
        ({"format": "gpx", "profile": " "}, "gpx"),
        ({"format": "", "profile": " Zoë & Ben "}, "netflix:Zoë & Ben"),
        ({"format": "netflix", "profile": "Alice"}, "netflix:Alice"),
    ],
)
def test_a_form_may_name_a_profile_of_the_file(
    sends: MakeSender, alice: Person, owner: Rows, fields: dict[str, str], chosen: str | None
) -> None:
    assert submit(sends(alice), b"x", **fields).status_code == 303

    assert uploads_of(owner) == [("complete", "a b.json", chosen, 1, 1)]


@pytest.mark.parametrize("size", [1, 256 * 1024, 5 * MIB + 1])
def test_a_form_brings_a_whole_file_and_leads_back_to_the_page(
    sends: MakeSender, alice: Person, owner: Rows, upload_dir: Path, size: int
) -> None:
    one = sends(alice)
    # The boundary of the form lies in it, but for its end.
    content = os.urandom(size - 1) + b"\r" if size > 1 else b"x"

    answer = submit(one, content, "Zeitachse ä.json", format="google_records")

    assert (answer.status_code, answer.headers["location"]) == (303, PAGE)
    assert uploads_of(owner) == [("complete", "Zeitachse ä.json", "google_records", size, size)]
    file = upload_dir / str(one.upload_id)
    assert file.read_bytes() == content
    assert file.stat().st_mode & 0o777 == 0o600
    assert submit(one, b"again").status_code == 410
    assert owner.execute("select kind from svc.turn").fetchall() == [("import",)]


@pytest.mark.parametrize(
    "body",
    [
        part("file", b"x", "a.json") + part("ticket", b"%s"),
        part("format", b"gpx") + part("ticket", b"%s") + part("file", b"x", "a.json"),
        part("ticket", b"x") + part("file", b"x", "a.json"),
    ],
    ids=["file first", "format first", "wrong"],
)
def test_the_ticket_comes_first(
    sends: MakeSender, alice: Person, owner: Rows, body: bytes, uploads: TestClient
) -> None:
    one = sends(alice)
    given = body.replace(b"%s", one.ticket.text.encode()) + f"--{BOUNDARY}--\r\n".encode()

    refused = post(uploads, given)

    assert (refused.status_code, refused.json()["error"]) == (401, "unauthorized")
    assert uploads_of(owner) == [("ticket", None, None, None, 0)]


END: Final = f"--{BOUNDARY}--\r\n".encode()
FILE: Final = part("file", b"x", "a.json")


@pytest.mark.parametrize(
    ("rest", "code"),
    [
        (END[:9], 400),
        (END, 400),
        (FILE, 400),
        (FILE[:-3], 400),
        (FILE + FILE + END, 400),
        (FILE + part("format", b"gpx") + END, 400),
        (part("other", b"x") + FILE + END, 400),
        (part("other", b"x", "a.json") + END, 400),
        (part("format", b"../x") + FILE + END, 400),
        (part("profile", b"x" * 101) + FILE + END, 400),
        (part("profile", b"a\0b") + FILE + END, 400),
        (part("format", b"gpx") + part("profile", b"Ben") + FILE + END, 400),
        (part("format", b"x" * 2000) + FILE + END, 400),
        (part("format", b"x") * 9 + FILE + END, 400),
        (part("file", b"", "a.json") + END, 400),
        (part("file", b"x", "") + END, 400),
        (part("file", b"x", "../a.json") + END, 400),
        (part("file", b"x", "a\0.json") + END, 400),
        (part("file", b"x", "x" * 5000) + END, 400),
        (part("file", b"x", "x" * 20_000) + END, 400),
        (END[:7] + b"\r\nno form at all\r\n\r\n", 400),
        (part("file", b"x" * (MOST_MIB * MIB), "a.json") + END, 413),
    ],
    ids=range(22),
)
def test_a_form_that_is_not_right_gives_its_ticket_back(
    sends: MakeSender, alice: Person, owner: Rows, uploads: TestClient, rest: bytes, code: int
) -> None:
    one = sends(alice)

    refused = post(uploads, part("ticket", one.ticket.text.encode()) + rest)

    assert refused.status_code == code
    assert uploads_of(owner) == [("ticket", None, None, None, 0)]
    assert submit(one, b"right").status_code == 303


def test_a_browser_is_led_back_to_the_page_with_the_reason(
    sends: MakeSender, alice: Person, uploads: TestClient
) -> None:
    body = part("ticket", sends(alice).ticket.text.encode()) + part("file", b"", "a.json") + END

    answer = post(uploads, body, Accept="text/html,application/xhtml+xml,*/*;q=0.8")

    assert (answer.status_code, answer.headers["location"]) == (
        303,
        f"{PAGE}?problem=invalid_parameter",
    )


def test_a_form_without_a_length_is_refused(
    sends: MakeSender, alice: Person, uploads: TestClient
) -> None:
    body = part("ticket", sends(alice).ticket.text.encode()) + FILE + END

    def pieces() -> Iterator[bytes]:
        yield body

    refused = post(uploads, pieces())

    assert (refused.status_code, refused.json()["parameter"]) == (411, "Content-Length")


def test_a_disk_that_fills_up_refuses_a_form_and_keeps_nothing_of_it(
    sends: MakeSender,
    alice: Person,
    owner: Rows,
    upload_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = sends(alice)

    def full(file: UploadFile, data: bytes, start: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(UploadFile, "write", full)
        refused = submit(one, b"x" * MIB)

    assert (refused.status_code, refused.json()["error"]) == (503, "storage_full")
    assert not (upload_dir / str(one.upload_id)).exists()
    assert uploads_of(owner) == [("ticket", None, None, None, 0)]
    assert submit(one, b"x" * MIB).status_code == 303


def test_a_form_whose_last_answer_of_the_database_is_lost_keeps_its_file(
    sends: MakeSender,
    alice: Person,
    owner: Rows,
    upload_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = sends(alice)
    advance = Tickets.advance

    async def lost(self: Tickets, *arguments: Any, **values: Any) -> None:
        await advance(self, *arguments, **values)
        raise DatabaseUnavailable

    with monkeypatch.context() as patched:
        patched.setattr(Tickets, "advance", lost)
        answer = submit(one, b"x" * MIB)

    assert answer.status_code == 503
    assert [row[0] for row in uploads_of(owner)] == ["complete"]
    assert (upload_dir / str(one.upload_id)).stat().st_size == MIB

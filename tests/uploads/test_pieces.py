"""Uploads in pieces: the protocol, and what refuses a request."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.conftest import Person
from tests.uploads.conftest import MIB, MOST_MIB, PATH, MakeSender, Sender, metadata

Rows = psycopg.Connection[Any]


def status(owner: Rows) -> list[Any]:
    return owner.execute(
        "select status, file_name, format, length, received from profile.upload order by created_at"
    ).fetchall()


def test_a_file_in_pieces_is_complete_with_its_last_byte(
    sends: MakeSender, alice: Person, owner: Rows, upload_dir: Path
) -> None:
    one = sends(alice)

    created = one.create(10, Upload_Metadata=metadata("Zeitachse ä.json", format="google_records"))
    begun = status(owner)
    first = one.send(0, b"0123")
    looked = one.look()
    last = one.send(4, b"456789")

    assert (created.status_code, created.headers["location"]) == (201, one.path)
    assert begun == [("receiving", "Zeitachse ä.json", "google_records", 10, 0)]
    assert (first.status_code, first.headers["upload-offset"]) == (204, "4")
    assert (looked.headers["upload-offset"], looked.headers["upload-length"]) == ("4", "10")
    assert looked.headers["cache-control"] == "private, no-store"
    assert (last.status_code, last.headers["upload-offset"]) == (204, "10")
    assert {each.headers["tus-resumable"] for each in (created, first, looked, last)} == {"1.0.0"}
    file = upload_dir / str(one.upload_id)
    assert file.read_bytes() == b"0123456789"
    assert file.stat().st_mode & 0o777 == 0o600
    assert status(owner) == [("complete", "Zeitachse ä.json", "google_records", 10, 10)]
    assert owner.execute("select user_id, kind from svc.turn").fetchall() == [
        (alice.user_id, "import")
    ]


def test_a_complete_upload_ends_its_ticket_and_says_that_everything_is_here(
    sends: MakeSender, alice: Person
) -> None:
    one = sends(alice)
    one.create(4)
    one.send(0, b"0123")

    looked, again, created = one.look(), one.send(4, b""), one.create(4)

    assert [each.status_code for each in (looked, again, created)] == [410, 410, 410]
    assert (looked.headers["upload-offset"], looked.headers["upload-length"]) == ("4", "4")
    assert again.json()["error"] == "not_found"


def test_a_ticket_is_for_one_upload(sends: MakeSender, alice: Person) -> None:
    one = sends(alice)
    one.create(4)

    again = one.create(5)

    assert again.status_code == 409
    assert again.headers["location"] == one.path
    assert one.look().headers["upload-length"] == "4"


@pytest.mark.parametrize(
    ("change", "code", "parameter"),
    [
        ({"Upload_Length": ""}, 400, "Upload-Length"),
        ({"Upload_Length": "-1"}, 400, "Upload-Length"),
        ({"Upload_Length": "1.5"}, 400, "Upload-Length"),
        ({"Upload_Length": "²"}, 400, "Upload-Length"),
        ({"Upload_Length": "9" * 5000}, 400, "Upload-Length"),
        ({"Upload_Length": "0"}, 400, "Upload-Length"),
        ({"Upload_Length": str(MOST_MIB * MIB + 1)}, 413, None),
        ({"Upload_Metadata": ""}, 400, "Upload-Metadata"),
        ({"Upload_Metadata": "filename ä"}, 400, "Upload-Metadata"),
        ({"Upload_Metadata": "filename /w=="}, 400, "Upload-Metadata"),
        ({"Upload_Metadata": "filename eA==,filename eQ=="}, 400, "Upload-Metadata"),
        ({"Upload_Metadata": metadata("../../etc/passwd")}, 400, "Upload-Metadata"),
        ({"Upload_Metadata": metadata("..")}, 400, "Upload-Metadata"),
        ({"Upload_Metadata": metadata("C:\\x")}, 400, "Upload-Metadata"),
        ({"Upload_Metadata": metadata("a\0b")}, 400, "Upload-Metadata"),
        ({"Upload_Metadata": metadata(" ")}, 400, "Upload-Metadata"),
        ({"Upload_Metadata": metadata("x" * 256)}, 400, "Upload-Metadata"),
        ({"Upload_Metadata": metadata("x" * 5000)}, 400, "Upload-Metadata"),
        ({"Upload_Metadata": metadata("x", format="../x")}, 400, "format"),
        ({"Upload_Metadata": metadata("x", format="netflix:")}, 400, "format"),
        ({"Upload_Metadata": metadata("x", format="netflix:a\nb")}, 400, "format"),
        ({"Upload_Metadata": metadata("x", format="gpx:Ben")}, 400, "format"),
        ({"Tus_Resumable": "0.2.2"}, 412, None),
    ],
)
def test_an_upload_that_cannot_be_begun_is_refused_with_the_reason(
    sends: MakeSender,
    alice: Person,
    owner: Rows,
    change: dict[str, str],
    code: int,
    parameter: str | None,
) -> None:
    raw: Any = {name: value.encode() for name, value in change.items()}

    refused = sends(alice).create(10, **raw)

    assert (refused.status_code, refused.json().get("parameter")) == (code, parameter)
    assert refused.headers["tus-resumable"] == "1.0.0"
    assert status(owner) == [("ticket", None, None, None, 0)]


def test_missing_headers_are_named(sends: MakeSender, alice: Person) -> None:
    one = sends(alice)
    headers = one.headers(Upload_Length="10", Upload_Metadata=metadata())
    answers = []
    for missing in ("Tus-Resumable", "Upload-Length", "Upload-Metadata"):
        some = {name: value for name, value in headers.items() if name != missing}
        answers.append(one.client.post(PATH, headers=some))

    assert [answer.status_code for answer in answers] == [412, 400, 400]
    assert answers[0].headers["tus-version"] == "1.0.0"
    assert [answer.json()["error"] for answer in answers[1:]] == ["missing_parameter"] * 2


@pytest.mark.parametrize(
    ("piece", "change", "code"),
    [
        (b"x", {"Upload_Offset": "3"}, 409),
        (b"x", {"Upload_Offset": "5"}, 409),
        (b"x", {"Upload_Offset": "-4"}, 400),
        (b"x", {"Upload_Offset": ""}, 400),
        (b"x", {"Content_Type": "application/octet-stream"}, 415),
        (b"x", {"Tus_Resumable": "2.0.0"}, 412),
        (b"x" * (MIB - 3), {}, 413),
        (iter([b"x" * (MIB - 4), b"x"]), {}, 413),
        (b"x" * (8 * MIB + 1), {}, 413),
    ],
    ids=[
        *(
            "before the offset",
            "after it",
            "negative",
            "no offset",
            "another type",
            "another version",
        ),
        *("beyond the length", "beyond the length in parts", "too large"),
    ],
)
def test_a_piece_that_does_not_fit_changes_nothing(
    sends: MakeSender, alice: Person, piece: Any, change: dict[str, str], code: int
) -> None:
    one = sends(alice)
    one.create(MIB)
    one.send(0, b"0123")

    refused = one.send(4, piece, **change)

    assert refused.status_code == code
    assert one.look().headers["upload-offset"] == "4"
    assert one.send(4, b"x" * (MIB - 4)).status_code == 204


def test_the_files_of_a_person_together_are_limited(
    sends: MakeSender, alice: Person, bob: Person
) -> None:
    first, second = sends(alice), sends(alice)
    first.create(10 * MIB)

    too_much = second.create(7 * MIB)
    others = sends(bob).create(MOST_MIB * MIB)
    enough = second.create(6 * MIB)

    assert (too_much.status_code, too_much.json()["error"]) == (413, "payload_too_large")
    assert (others.status_code, enough.status_code) == (201, 201)


def test_a_canceled_upload_and_one_of_a_deleted_account_take_no_more(
    sends: MakeSender, alice: Person, bob: Person, owner: Rows
) -> None:
    one, other = sends(alice), sends(bob)
    for each in (one, other):
        each.create(10)
        each.send(0, b"0")
    owner.execute(
        "update profile.upload set status = 'ended', ended_at = now() where user_id = %s",
        [alice.user_id],
    )
    owner.execute("delete from identity.user where user_id = %s", [bob.user_id])

    answers = [
        answer.status_code for each in (one, other) for answer in (each.look(), each.send(1, b"1"))
    ]

    assert answers == [410, 410, 401, 401]


def test_an_upload_that_ends_while_a_piece_comes_is_gone(
    sends: MakeSender, alice: Person, owner: Rows
) -> None:
    one = sends(alice)
    one.create(10)

    def pieces() -> Iterator[bytes]:
        yield b"0"
        owner.execute("update profile.upload set status = 'ended', ended_at = now()")
        yield b"1"

    assert one.send(0, pieces()).status_code == 410


def test_a_file_that_is_lost_begins_again(
    sends: MakeSender, alice: Person, upload_dir: Path
) -> None:
    one = sends(alice)
    one.create(10)
    one.send(0, b"012345")
    (upload_dir / str(one.upload_id)).unlink()

    looked = one.look()
    wrong = one.send(6, b"6789")
    right = one.send(0, b"0123456789")

    assert looked.headers["upload-offset"] == "0"
    assert (wrong.status_code, wrong.headers["upload-offset"]) == (409, "0")
    assert right.status_code == 204
    assert (upload_dir / str(one.upload_id)).read_bytes() == b"0123456789"


def test_another_upload_has_no_address_for_the_ticket(
    sends: MakeSender, alice: Person, bob: Person
) -> None:
    one, others = sends(alice), sends(bob)
    one.create(10)
    others.create(10)
    wrong = [Sender(one.client, one.ticket, upload_id) for upload_id in (others.upload_id, uuid4())]

    answers = [answer for each in wrong for answer in (each.look(), each.send(0, b"x"))]

    assert [answer.status_code for answer in answers] == [404] * 4
    assert sends(alice).look().status_code == 404
    assert others.look().headers["upload-offset"] == "0"

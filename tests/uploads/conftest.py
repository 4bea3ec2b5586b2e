"""A resource server that accepts uploads, and a sender of files."""

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import httpx2
import psycopg
import pytest
from starlette.testclient import TestClient

import resourceserver.app
from shared import tokens
from shared.settings import Settings
from shared.tokens import Token
from tests.client import AppClient
from tests.conftest import Person

PATH: Final = "/api/v1/imports/"
TUS: Final = {"Tus-Resumable": "1.0.0"}
MIB: Final = 2**20
MOST_MIB: Final = 16
"""The most MiB of a person's files."""


def metadata(file_name: str | bytes = "history.json", **others: str) -> str:
    """Return an Upload-Metadata header."""
    values = {"filename": file_name, **others}
    return ",".join(
        f"{key} {base64.b64encode(value.encode() if isinstance(value, str) else value).decode()}"
        for key, value in values.items()
    )


@dataclass(frozen=True)
class Sender:
    """Sends one file with one ticket."""

    client: httpx2.Client
    ticket: Token
    upload_id: UUID

    @property
    def path(self) -> str:
        """The address of the upload."""
        return f"{PATH}{self.upload_id}"

    def headers(self, **others: str) -> dict[str, str]:
        """Return the headers of a request; underscores of names stand for hyphens."""
        own = {name.replace("_", "-"): value for name, value in others.items()}
        return {"Authorization": f"Bearer {self.ticket.text}"} | TUS | own

    def create(self, length: int, **others: str) -> httpx2.Response:
        """Begin the upload."""
        given = {"Upload_Length": str(length), "Upload_Metadata": metadata()} | others
        return self.client.post(PATH, headers=self.headers(**given))

    def send(self, offset: int, piece: Any, **others: str) -> httpx2.Response:
        """Send a piece."""
        given = {
            "Upload_Offset": str(offset),
            "Content_Type": "application/offset+octet-stream",
        } | others
        return self.client.patch(self.path, content=piece, headers=self.headers(**given))

    def look(self) -> httpx2.Response:
        """Ask how much is there."""
        return self.client.head(self.path, headers=self.headers())


def sender(client: httpx2.Client, person: Person) -> Sender:
    """Return a sender with a new ticket of a person."""
    ticket = tokens.mint(tokens.UPLOAD, person.user_id)
    row = person.connection.execute(
        "insert into profile.upload (user_id, ticket_hash) values (%s, %s) returning upload_id",
        [person.user_id, ticket.hash],
    ).fetchone()
    assert row is not None
    return Sender(client, ticket, row[0])


@pytest.fixture(scope="module")
def upload_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of uploads of a file of tests."""
    return tmp_path_factory.mktemp("uploads") / "files"


@pytest.fixture(scope="module")
def uploading(deployment: Settings, upload_dir: Path) -> Settings:
    """The settings of a server that accepts uploads."""
    return replace(
        deployment,
        base_url="http://testserver",
        upload_dir=upload_dir,
        upload_mib=MOST_MIB,
        upload_free_mib=1,
    )


@pytest.fixture(scope="module")
def upload_client(uploading: Settings, upload_dir: Path) -> Iterator[TestClient]:
    """A resource server that accepts uploads."""
    upload_dir.mkdir()
    app = resourceserver.app.create(uploading)
    with AppClient(app, raise_server_exceptions=False, follow_redirects=False) as client:
        yield client


@pytest.fixture
def uploads(upload_client: TestClient, owner: psycopg.Connection[Any]) -> TestClient:
    """The same on data that is gone after the test."""
    assert not owner.closed
    return upload_client


MakeSender = Callable[[Person], Sender]


@pytest.fixture
def sends(uploads: TestClient) -> MakeSender:
    """Makes senders."""
    return lambda person: sender(uploads, person)

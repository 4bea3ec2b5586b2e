"""Connections of our people's applications, and a server with their receivers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx2
import psycopg

from shared.settings import Settings
from tests import connecting, processes
from tests.client import NO_TLS
from tests.conftest import Person


@dataclass(frozen=True)
class Connected:
    """An application that is connected."""

    owner: psycopg.Connection[Any]
    connection_id: UUID
    key: str

    @property
    def bearer(self) -> dict[str, str]:
        """The header that most applications send."""
        return {"Authorization": f"Bearer {self.key}"}

    @property
    def state(self) -> tuple[int, str | None]:
        """How many records arrived, and the code of the problem."""
        row = self.owner.execute(
            "select record_count, problem from profile.connection where connection_id = %s",
            [self.connection_id],
        ).fetchone()
        assert row is not None
        return row[0], row[1]

    @property
    def refusals(self) -> dict[str, int]:
        """How many records were refused, by reason."""
        return dict(
            self.owner.execute(
                "select reason, sum(count)::integer from profile.import_refusal group by reason"
            ).fetchall()
        )

    def pause(self) -> None:
        """Pause the connection."""
        self.owner.execute("update profile.connection set paused_at = now()")


def connect(owner: psycopg.Connection[Any], person: Person, kind: str, *scopes: str) -> Connected:
    """Connect an application of a kind that sends."""
    connected = connecting.connect(owner, person, kind, scopes=scopes)
    assert connected.key is not None
    return Connected(owner, connected.connection_id, connected.key)


@dataclass(frozen=True)
class Served:
    """A running resource server with receivers."""

    client: httpx2.Client
    log: Path


@contextmanager
def serving(deployment: Settings, directory: Path, *receivers: str) -> Iterator[Served]:
    """Run a resource server with these receivers until the end of the block."""
    (port,) = processes.free_ports(1)
    chosen = replace(deployment, base_url=f"http://localhost:{port}", receivers=receivers)
    logins = processes.role_urls(chosen, (*processes.RESOURCE_ROLES, "importer"))
    log = directory / "resource.log"
    with (
        processes.running(["resource", "serve"], chosen, logins, f"{chosen.base_url}/healthz", log),
        httpx2.Client(base_url=chosen.base_url, verify=NO_TLS, timeout=30) as client,
    ):
        yield Served(client, log)

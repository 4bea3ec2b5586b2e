"""The description of the probes ``/healthz`` and ``/readyz`` (shared/probes.py)."""

from typing import Final, Literal

from resourceserver.api.bodies import Body, Count, Milliseconds, Timestamp
from resourceserver.api.operation import SERVICE, Operation
from shared import probes


class Database(Body):
    """The state of the database."""

    status: Literal["ok", "unreachable"]
    latency_ms: Milliseconds | None
    """Null if the database did not answer in time."""


class Storage(Body):
    """The disk of the database."""

    status: Literal["ok", "full", "unknown"]
    """`full`: events, imports and summaries are refused with `storage_full`, and everything else goes on."""
    free_mib: Count | None
    """The free MiB; null if the server does not know them."""


class Replica(Body):
    """The replica of the database that answers long reads, if there is one. Without it the database answers
    them, so nothing fails because of it."""

    status: Literal["ok", "behind", "away", "off"]
    """`behind`: it is too far behind, and not used; `away`: it does not answer, or is no replica of this
    database; `off`: there is none."""
    lag_ms: Milliseconds | None
    """How long it takes to have what the database has; null if that is not known."""


class Build(Body):
    """The build that runs."""

    version: str
    commit: str
    """The commit."""
    built_at: str | None
    """When it was built; null where the build does not know it."""


class Alive(Body):
    """The server and its database answer."""

    status: Literal["ok"]
    database: Database
    storage: Storage
    """The disk of the database: how much is free, and whether writes are refused."""
    replica: Replica
    """The replica that answers long reads: whether it is used, and how far it is behind."""
    build: Build
    uptime_ms: Milliseconds
    time: Timestamp


class Unavailable(Body):
    """The database does not answer; this is an error body too."""

    status: Literal["unavailable"]
    error: str
    message: str
    database: Database
    storage: Storage
    """The disk of the database: how much is free, and whether writes are refused."""
    replica: Replica
    """The replica that answers long reads: whether it is used, and how far it is behind."""
    build: Build
    uptime_ms: Milliseconds
    time: Timestamp


class Ready(Body):
    """The database answers, its schema fits the server, and the process is not about to stop."""

    status: Literal["ready"]
    replica: Literal["ok", "behind", "away", "off"]
    """The replica of the database; the server is ready in any state of it."""


class NotReady(Body):
    """The database does not answer, its schema does not fit the server, or this process is about to stop; an
    error body too."""

    status: Literal["unavailable"]
    error: Literal["database_unavailable", "outdated_server", "draining"]
    message: str


HEALTHZ: Final = Operation(
    name="healthz",
    path=probes.HEALTHZ,
    tag=SERVICE,
    summary="Whether the service is alive, whether its database answers, and which build runs.",
    answers={200: Alive, 503: Unavailable},
)
READYZ: Final = Operation(
    name="readyz",
    path=probes.READYZ,
    tag=SERVICE,
    summary="Whether to send requests here: the database answers, its schema fits the server, and the"
    " process is not about to stop.",
    answers={200: Ready, 503: NotReady},
)

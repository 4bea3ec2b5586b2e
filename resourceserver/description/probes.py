"""The probes (shared/probes.py) as they are described: whether the server lives, and whether it is ready."""

from typing import Final, Literal

from resourceserver.api.bodies import Body, Milliseconds, Timestamp
from resourceserver.api.operation import SERVICE, Operation
from shared import probes


class Database(Body):
    """How the database answered."""

    status: Literal["ok", "unreachable"]
    latency_ms: Milliseconds | None
    """Null where it did not answer in time."""


class Build(Body):
    """What is running."""

    version: str
    commit: str
    built_at: str | None


class Alive(Body):
    """All is well."""

    status: Literal["ok"]
    database: Database
    build: Build
    uptime_ms: Milliseconds
    time: Timestamp


class Unavailable(Body):
    """The database does not answer; this is an error body too."""

    status: Literal["unavailable"]
    error: str
    message: str
    database: Database
    build: Build
    uptime_ms: Milliseconds
    time: Timestamp


class Ready(Body):
    """The database answers, and its schema fits the server."""

    status: Literal["ready"]


class NotReady(Body):
    """The database does not answer, or its schema does not fit the server; this is an error body too."""

    status: Literal["unavailable"]
    error: Literal["database_unavailable", "outdated_server"]
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
    summary="Whether to send requests here: the database answers, and its schema fits the server.",
    answers={200: Ready, 503: NotReady},
)

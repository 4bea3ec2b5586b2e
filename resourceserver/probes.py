"""Whether the service is alive, for balancers and people; needs no credential."""

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import psycopg
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from resourceserver.bodies import Body, Milliseconds, Timestamp
from resourceserver.errors import DatabaseUnavailable
from resourceserver.operation import SERVICE, Operation
from resourceserver.session import Reader
from shared import VERSION, lines, queries
from shared.settings import Settings

ALIVE: Final = lines.statement(queries.load(Path(__file__).with_name("probes.sql"))["alive"])
_WAIT_S: Final = 1.0
"""How long the database may take to answer before it counts as unreachable."""


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


HEALTHZ: Final = Operation(
    name="healthz",
    path="/healthz",
    tag=SERVICE,
    summary="Whether the service is alive, whether its database answers, and which build runs.",
    answers={200: Alive, 503: Unavailable},
)


def routes(chosen: Settings, reader: Reader) -> list[Route]:
    """Return the probe's route."""
    started = time.monotonic()
    build = Build(version=VERSION, commit=chosen.commit, built_at=chosen.built_at)

    async def healthz(_: Request) -> Response:
        latency_ms = await _latency_ms(reader)
        uptime_ms = int((time.monotonic() - started) * 1000)
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        body: Alive | Unavailable
        if latency_ms is None:
            status, headers = 503, {"Retry-After": "1"}
            body = Unavailable(
                status="unavailable",
                error=DatabaseUnavailable.code,
                message=DatabaseUnavailable().message,
                database=Database(status="unreachable", latency_ms=None),
                build=build,
                uptime_ms=uptime_ms,
                time=now,
            )
        else:
            status, headers = 200, {}
            body = Alive(
                status="ok",
                database=Database(status="ok", latency_ms=latency_ms),
                build=build,
                uptime_ms=uptime_ms,
                time=now,
            )
        return Response(
            body.model_dump_json(),
            status,
            headers | {"Cache-Control": "no-store"},
            media_type="application/json",
        )

    return [Route(HEALTHZ.path, healthz, name=HEALTHZ.name)]


async def _latency_ms(reader: Reader) -> int | None:
    """Return how long the database took to answer, or None where it did not in time."""
    asked = time.monotonic()
    try:
        async with asyncio.timeout(_WAIT_S):
            await reader.quick.run(((ALIVE, {}),))
    except (TimeoutError, psycopg.Error):
        return None
    return round((time.monotonic() - asked) * 1000)

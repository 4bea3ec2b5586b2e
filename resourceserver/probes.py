"""Whether the service is alive, for balancers and people; needs no credential."""

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import psycopg
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from resourceserver.session import Reader
from shared import VERSION, lines, queries
from shared.settings import Settings

ALIVE: Final = lines.statement(queries.load(Path(__file__).with_name("probes.sql"))["alive"])
_WAIT_S: Final = 1.0
"""How long the database may take to answer before it counts as unreachable."""


def routes(chosen: Settings, reader: Reader) -> list[Route]:
    """Return the probe's route."""
    started = time.monotonic()
    build = {"version": VERSION, "commit": chosen.commit, "built_at": chosen.built_at}

    async def healthz(_: Request) -> Response:
        latency_ms = await _latency_ms(reader)
        rest: dict[str, Any] = {
            "build": build,
            "uptime_ms": int((time.monotonic() - started) * 1000),
            "time": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
        no_store = {"Cache-Control": "no-store"}
        if latency_ms is None:
            failure = {
                "status": "unavailable",
                "error": "database_unavailable",
                "message": "the database does not answer",
                "database": {"status": "unreachable", "latency_ms": None},
            }
            return JSONResponse(failure | rest, 503, no_store | {"Retry-After": "1"})
        database = {"status": "ok", "latency_ms": latency_ms}
        return JSONResponse({"status": "ok", "database": database} | rest, headers=no_store)

    return [Route("/healthz", healthz, name="healthz")]


async def _latency_ms(reader: Reader) -> int | None:
    """Return how long the database took to answer, or None where it did not in time."""
    asked = time.monotonic()
    try:
        async with asyncio.timeout(_WAIT_S):
            await reader.quick.run(((ALIVE, {}),))
    except (TimeoutError, psycopg.Error):
        return None
    return round((time.monotonic() - asked) * 1000)

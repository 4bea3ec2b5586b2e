"""The probes of a server for load balancers and people: whether it is alive, and whether it is ready.

``/healthz`` reports that the process is alive, whether the database answers and has space on its disk, the
state of its replica, and which build runs.
``/readyz`` is 200 only if the database answers, its schema fits this server, and the process is not about to
stop (``shared.draining``). Neither needs a credential, nor contains hosts or the database's version.
"""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import psycopg
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from shared import VERSION, draining, pipeline, queries, schema
from shared.pipeline import Pipelines, Step
from shared.replica import OFF, State
from shared.settings import Settings
from shared.storage import Storage

HEALTHZ: Final = "/healthz"
READYZ: Final = "/readyz"

ALIVE: Final[Step] = (
    pipeline.statement(queries.load(Path(__file__).with_name("probes.sql"))["alive"]),
    {},
)
ALIVE_WAIT_S = 1.0
READY_WAIT_S = 4.5
"""How long the database may take to answer a probe before it counts as unreachable.

The version check waits while a migration tries to get its locks, for up to 4 s (sql/migrate.sql). That must
not make a server unready: a balancer would stop sending requests to all servers at once.
"""
_UNREACHABLE: Final = {
    "error": "database_unavailable",
    "message": "the database does not answer",
}
_DRAINING: Final = {"error": "draining", "message": "this process is about to stop"}


@dataclass(frozen=True)
class Probes:
    """The probes of one process. No other request delays them, nor does one delay the other."""

    chosen: Settings
    alive: Pipelines
    """The connection for what is always answered at once."""
    version: Pipelines
    """The connection for the check of the version, which waits for a migration."""
    storage: Storage
    """The disk of the database. A full one leaves a server alive and ready, because it still reads."""
    replica: Callable[[], State]
    """Returns the state of the replica. The server is alive and ready in any state, because the primary
    answers what the replica cannot."""
    started: float = field(default_factory=time.monotonic)

    @classmethod
    def to(
        cls,
        chosen: Settings,
        url: str,
        storage: Storage,
        replica: Callable[[], State] = lambda: OFF,
    ) -> "Probes":
        """Return the probes of a server whose database is at ``url``; they connect when first needed."""
        alive, version = (
            Pipelines.to(url, size=1, depth=256, patience_s=patience_s, prepare=chosen.prepare)
            # A connection without an answer is given up a little later than the probe that waits for it.
            for patience_s in (ALIVE_WAIT_S + 0.5, READY_WAIT_S + 0.5)
        )
        return cls(chosen, alive, version, storage, replica)

    def close(self) -> None:
        """Close both connections."""
        self.alive.close()
        self.version.close()

    def routes(self) -> list[Route]:
        """Return the routes of both probes."""
        return [
            Route(HEALTHZ, self.healthz, name="healthz"),
            Route(READYZ, self.readyz, name="readyz"),
        ]

    async def healthz(self, _: Request) -> Response:
        """Answer 503 if the database does not answer in time."""
        latency_ms = await self._latency_ms()
        uptime_ms = int((time.monotonic() - self.started) * 1000)
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        space = self.storage.space()
        about = {
            "storage": {"status": space.status, "free_mib": space.free_mib},
            "replica": asdict(self.replica()),
            "build": {
                "version": VERSION,
                "commit": self.chosen.commit,
                "built_at": self.chosen.built_at,
            },
            "uptime_ms": uptime_ms,
            "time": now,
        }
        if latency_ms is None:
            unreachable = {"status": "unreachable", "latency_ms": None}
            return _answer(
                503, {"status": "unavailable", **_UNREACHABLE, "database": unreachable, **about}
            )
        reached = {"status": "ok", "latency_ms": latency_ms}
        return _answer(200, {"status": "ok", "database": reached, **about})

    async def readyz(self, request: Request) -> Response:
        """Answer 503 if the database does not answer, its schema does not fit, or this process stops."""
        if draining.is_draining(request.scope):
            return _answer(503, {"status": "unavailable", **_DRAINING})
        try:
            async with asyncio.timeout(READY_WAIT_S):
                await self.version.run((schema.STEP,))
        except TimeoutError:
            return _answer(503, {"status": "unavailable", **_UNREACHABLE})
        except psycopg.Error as error:
            mismatch = schema.log_mismatch(error)
            body = (
                _UNREACHABLE
                if mismatch is None
                else {"error": mismatch.code, "message": mismatch.message}
            )
            return _answer(503, {"status": "unavailable", **body})
        return _answer(200, {"status": "ready", "replica": self.replica().status})

    async def _latency_ms(self) -> int | None:
        """Return how long the database took to answer, or None if it did not in time."""
        started = time.monotonic()
        try:
            async with asyncio.timeout(ALIVE_WAIT_S):
                await self.alive.run((ALIVE,))
        except (TimeoutError, psycopg.Error):
            return None
        return round((time.monotonic() - started) * 1000)


def _answer(status: int, body: Mapping[str, Any]) -> Response:
    headers = {"Cache-Control": "no-store"} | ({"Retry-After": "1"} if status == 503 else {})
    content = json.dumps(body, separators=(",", ":"))
    return Response(content, status, headers, media_type="application/json")

"""The resource server: one person's data, for clients with a token of that person."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

from starlette.applications import Starlette
from starlette.middleware import Middleware

from resourceserver.api import endpoint, metadata, usage
from resourceserver.api.errors import (
    UNREADABLE,
    AddressTooLong,
    Answers,
    HeadersTooLarge,
    HostUnclear,
    InternalError,
)
from resourceserver.api.session import PATIENT_S, Reader
from resourceserver.dashboard.route import Dashboard
from resourceserver.dashboard.views import VIEWS
from resourceserver.derived import derivation
from resourceserver.description import capabilities, docs, guide, openapi, start
from resourceserver.endpoints import ENDPOINTS
from resourceserver.export import route as export
from resourceserver.ingest import route as ingest
from resourceserver.ingest import schema as ingest_schema
from resourceserver.integrations.receivers import routes as receivers
from resourceserver.integrations.receivers.receiving import Receiving
from resourceserver.mcp import route as mcp
from resourceserver.mcp.tool import Tool
from resourceserver.mcp.tools import TOOLS
from resourceserver.timeline import rollups, summaries
from resourceserver.uploads import route as uploads
from resourceserver.uploads import upkeep
from resourceserver.worker import overdue
from resourceserver.worker.waiting import Waiting
from shared import database, hang, jobs, metrics, settings
from shared.application import Application, Refusals
from shared.cors import OpenToAllOrigins
from shared.metrics import Pooled, Reading
from shared.pipeline import Pipelines
from shared.pool import Pool
from shared.probes import Probes
from shared.settings import Settings
from shared.storage import Storage, unless_full


def create(
    chosen: Settings | None = None,
    *,
    tools: Sequence[Tool] = TOOLS,
    note_uses_every: timedelta = usage.INTERVAL,
    sum_up_every: timedelta = summaries.INTERVAL,
    roll_up_every: timedelta = rollups.INTERVAL,
    derive_every: timedelta = derivation.INTERVAL,
    look_for_worker_every: timedelta = overdue.INTERVAL,
) -> Starlette:
    """Return the application for ``chosen``, by default the settings of the environment, with these
    ``tools``.

    While it runs, four background jobs record when tokens were last used, about ``note_uses_every``, sum
    days up, about ``sum_up_every``, write rollups, about ``roll_up_every``, and derive visits, about
    ``derive_every``. With a worker beside it only the first of them runs, and one that looks
    ``look_for_worker_every`` whether the worker runs; with ``chosen.jobs`` off none.
    When the server stops, it writes the last uses in any case. Raises SettingsError if a role has no login;
    a failing login breaks only the requests that use that role.
    """
    chosen = chosen or settings.read()
    reader = Reader.of(chosen)
    storage = Storage.of(chosen)
    probes = Probes.to(
        chosen, database.login(chosen, "reader"), storage, lambda: reader.replica_state
    )
    # Reads and writes have connections of their own, so that neither starves the other. Writers use no pool:
    # with one, a batch of ten events took 1.45 ms of the server's processor time instead of 0.95.
    writers = Pipelines.to(
        database.login(chosen, "ingester"),
        size=chosen.ingest_connections,
        depth=1,
        patience_s=PATIENT_S,
        prepare=chosen.prepare,
        # For large batches, unless there is one connection for all.
        giving_way=min(1, chosen.ingest_connections - 1),
    )
    exports = Pool.to(database.login(chosen, "reader"), size=chosen.export_connections)
    size = chosen.connections_of_jobs
    login = database.login(chosen, "worker")
    workers = Pool.to(login, size=size, is_patient=True, prepare=chosen.prepare)
    receiver = uploads.receiver(chosen, writers, storage)
    receiving = Receiving.to(chosen, storage) if chosen.receivers else None
    load = ingest.load_of(chosen, storage)
    export_turns = export.turns_of(chosen)
    pools: dict[str, Pooled] = {
        **reader.pools,
        "ingest": writers,
        "exports": exports,
        "jobs": workers,
    }
    queues = [reader.turns, reader.quick_turns, load.writing, load.large, export_turns]
    if receiver is not None:
        queues += [receiver.pieces, receiver.forms]
    if receiving is not None:
        pools |= {
            "receivers": receiving.threads,
            "beats": receiving.pipelines,
            "receiver_keys": receiving.look_ups,
        }
        queues += [receiving.opening, receiving.writing, receiving.large]

    def readings() -> Iterator[Reading]:
        yield from metrics.of_pools(pools)
        yield from metrics.of_disks(chosen)
        yield from reader.readings()
        yield from waiting.readings()
        for each in queues:
            yield from each.load()

    watched: list[hang.Watched] = [reader.quick, reader.patient, reader.first_uses, writers]
    if receiving is not None:
        watched += receiving.watched
    background = [usage.job(reader.usage, note_uses_every)]
    if receiver is not None:
        background.append(upkeep.job(receiver.directory))
    if chosen.worker:
        # A worker takes no turns while the disk is full.
        background.append(unless_full(overdue.job(look_for_worker_every), storage))
    else:
        writing = (
            summaries.job(sum_up_every),
            rollups.job(roll_up_every),
            derivation.job(derive_every),
        )
        background += [unless_full(job, storage) for job in writing]
    waiting = Waiting()
    if chosen.base_metrics_listen and not chosen.worker:
        # With a worker, the worker says it.
        background.append(waiting.job())
    dashboard = Dashboard(chosen, reader, VIEWS, start.start(chosen))
    answers = Answers(f"{chosen.base_url}{metadata.PATH}")

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with (
            exports,
            workers,
            reader.replica_watched(),
            hang.noticed(probes.alive, watched),
            usage.written_at_the_end(reader.usage, workers),
            upkeep.comparing_directories(
                None if receiver is None else receiver.directory, "server", workers
            ),
            jobs.running(chosen, workers, background),
            metrics.served(chosen, chosen.base_metrics, "resourceserver", (readings,)),
        ):
            yield
        if receiving is not None:
            await receiving.close()
        for connections in (reader, writers, probes):
            connections.close()

    return Application(
        routes=[
            # Routes are tried in this order, and every call of a tool uses the first one.
            *mcp.routes(chosen, reader, tools),
            *endpoint.routes(ENDPOINTS, reader, chosen.base_url),
            *ingest.routes(chosen, reader, writers, load),
            *export.routes(chosen, reader, exports, export_turns),
            *uploads.routes(receiver),
            *receivers.routes(receiving, reader),
            *metadata.routes(chosen),
            *probes.routes(),
            *capabilities.routes(chosen),
            *ingest_schema.routes(),
            *openapi.routes(chosen),
            *docs.routes(),
            *guide.routes(chosen),
            *dashboard.routes(),
        ],
        refusals=Refusals(
            internal_error=lambda _: answers.of(InternalError()),
            headers_too_large=lambda _: answers.of(HeadersTooLarge()),
            host_unclear=lambda _: answers.of(HostUnclear()),
            unreadable=lambda _, status: answers.of(UNREADABLE[status]()),
            address_too_long=lambda _: answers.of(AddressTooLong()),
        ),
        exception_handlers=answers.handlers(),
        lifespan=lifespan,
        error_middleware=[
            Middleware(OpenToAllOrigins, covers=_is_open),
            *uploads.middleware(chosen),
        ],
    )


def _is_open(path: str) -> bool:
    """Whether pages of any origin may call a path: all of REST and ingest but uploads, and their
    descriptions; and the paths of ListenBrainz, since players can be pages."""
    if uploads.covers(path):
        return False
    return path.startswith(("/api/", "/.well-known/", "/1/")) or path == openapi.PATH

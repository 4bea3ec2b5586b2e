"""``svc resource serve`` and ``svc resource work``: the resource server alone, and the worker beside it."""

from dataclasses import replace
from functools import partial
from typing import Final

import click

from shared import database, listening, serving
from shared.settings import Settings

_ROLES: Final = ("reader", "ingester", "worker")
_WITHOUT_WORKER: Final = (
    "no worker (SVC_WORKER is off): this server writes rollups, summaries and visits itself"
)


@click.group()
def resource() -> None:
    """The resource server, REST and ingest, and the worker beside it."""


@resource.command()
@click.option(
    "--listen",
    multiple=True,
    metavar="HOST:PORT",
    help="Address to listen on, several times if need be; default: SVC_BASE_LISTEN, else localhost with the"
    " port of SVC_BASE_URL.",
)
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True)
@click.pass_obj
def serve(chosen: Settings, listen: tuple[str, ...], workers: int) -> None:
    """Run the resource server alone."""
    if chosen.jobs and not chosen.worker:
        click.echo(_WITHOUT_WORKER, err=True)
    # It writes what applications send as the importer.
    roles = (*_ROLES, "importer") if chosen.receivers else _ROLES
    serving.serve(
        "resourceserver.app:create",
        chosen,
        {role: database.role_url(chosen, role) for role in roles},
        listening.of_option(listen) or chosen.base_listeners,
        metrics_listen=chosen.base_metrics,
        public=("SVC_BASE_URL", chosen.base_url),
        workers=workers,
    )


@resource.command()
@click.pass_obj
def work(chosen: Settings) -> None:
    """Run a worker: it imports uploaded files, and writes rollups and summaries for the resource servers
    that SVC_WORKER=on spares.

    Any number of workers may run. Each gives back what it has not done when it ends.
    """
    from resourceserver.worker import process  # noqa: PLC0415 - a server needs no formats of files
    from resourceserver.worker.kinds import kinds  # noqa: PLC0415 - nor their libraries

    role_urls = {role: database.role_url(chosen, role) for role in chosen.connections_of_worker}
    own = replace(chosen, database_url=None, role_urls=role_urls)
    process.work(own, role_urls, offered=partial(kinds, chosen=own))

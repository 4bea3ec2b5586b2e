"""``svc resource serve``: runs the resource server alone."""

from typing import Final

import click

from shared import database, listening, serving
from shared.settings import Settings

_ROLES: Final = ("reader", "ingester", "worker")


@click.group()
def resource() -> None:
    """The resource server: REST and ingest."""


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
    serving.serve(
        "resourceserver.app:create",
        chosen,
        {role: database.role_url(chosen, role) for role in _ROLES},
        listening.of_option(listen) or chosen.base_listeners,
        workers=workers,
    )

"""``svc resource serve``: runs the resource server alone."""

from typing import Final

import click

from shared import database, serving
from shared.settings import Settings

_ROLES: Final = ("reader", "ingester", "worker")


@click.group()
def resource() -> None:
    """The resource server: REST and ingest."""


@resource.command()
@click.option(
    "--host", "hosts", multiple=True, help="Address to listen on; default: both loopback ones."
)
@click.option("--port", type=click.IntRange(1, 65535), help="Default: the port of SVC_BASE_URL.")
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True)
@click.pass_obj
def serve(chosen: Settings, hosts: tuple[str, ...], port: int | None, workers: int) -> None:
    """Run the resource server alone."""
    serving.serve(
        "resourceserver.app:create",
        chosen,
        {role: database.role_url(chosen, role) for role in _ROLES},
        hosts=hosts or serving.LOOPBACK,
        port=port or serving.port_of(chosen.base_url),
        workers=workers,
    )

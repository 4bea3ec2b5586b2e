"""``svc auth serve``: runs the authorization server alone."""

import click

from shared import database, serving
from shared.settings import Settings


@click.group()
def auth() -> None:
    """The authorization server: sign-in, consent and tokens."""


@auth.command()
@click.option(
    "--host", "hosts", multiple=True, help="Address to listen on; default: both loopback ones."
)
@click.option("--port", type=click.IntRange(1, 65535), help="Default: the port of SVC_AUTH_URL.")
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True)
@click.pass_obj
def serve(chosen: Settings, hosts: tuple[str, ...], port: int | None, workers: int) -> None:
    """Run the authorization server alone."""
    serving.serve(
        "authserver.app:create",
        chosen,
        {"authserver": database.role_url(chosen, "authserver")},
        hosts=hosts or serving.LOOPBACK,
        port=port or serving.port_of(chosen.auth_url),
        workers=workers,
    )

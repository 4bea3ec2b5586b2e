"""``svc auth serve``: runs the authorization server alone."""

import click

from shared import database, listening, serving, settings
from shared.settings import Settings


@click.group()
def auth() -> None:
    """The authorization server: sign-in, consent and tokens."""


@auth.command()
@click.option(
    "--listen",
    multiple=True,
    metavar="HOST:PORT",
    help="Address to listen on; can be repeated; default: SVC_AUTH_LISTEN, else localhost with the"
    " port of SVC_AUTH_URL.",
)
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True)
@click.pass_obj
def serve(chosen: Settings, listen: tuple[str, ...], workers: int) -> None:
    """Run the authorization server alone."""
    role_urls = {"authserver": database.role_url(chosen, "authserver")}
    # Without its key each of its processes would end, with a traceback.
    settings.signing_key(chosen)
    serving.serve(
        "authserver.app:create",
        chosen,
        role_urls,
        listening.of_option(listen) or chosen.auth_listeners,
        metrics_listen=chosen.auth_metrics,
        public=("SVC_AUTH_URL", chosen.auth_url),
        workers=workers,
    )

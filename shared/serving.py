"""Runs one of the two applications in one or more worker processes (uvicorn)."""

import os

import uvicorn
from uvicorn.supervisors import Multiprocess

from shared import lifeline, listening, settings, web
from shared.listening import Listen
from shared.settings import Settings


def serve(
    application: str,
    chosen: Settings,
    role_urls: dict[str, str],
    listen: Listen,
    *,
    workers: int,
) -> None:
    """Run the application factory ``application`` ("module:function") until a signal ends it.

    Its processes find in their environment what ``chosen`` says and the URLs of their own roles, and
    never the owner's. Raises AddressError.
    """
    sockets = listening.bind(listen)
    os.environ.update(settings.environment(chosen, role_urls))
    for name in ("DATABASE_URL", "DATABASE_URL_FILE"):
        os.environ.pop(name, None)
    web.configure_logging()
    config = uvicorn.Config(
        application,
        factory=True,
        workers=workers,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(chosen.trusted_proxies),
        forwarded_allow_ips=list(chosen.trusted_proxies),
        timeout_graceful_shutdown=5,
    )
    server = uvicorn.Server(config)
    if chosen.lifeline is not None:
        lifeline.watch(chosen.lifeline)
    if workers > 1:
        Multiprocess(config, sockets=sockets).run()
    else:
        server.run(sockets=sockets)

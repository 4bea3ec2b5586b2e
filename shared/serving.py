"""Runs one of the two applications in one or more worker processes (uvicorn)."""

import logging
import os
import resource
from dataclasses import replace
from types import FrameType
from typing import Final

import uvicorn
from uvicorn.supervisors import Multiprocess

from shared import database, lifeline, listening, log_lines, metrics, readiness, settings, storage
from shared.heads import MAX_CONNECTIONS, BoundedHeads
from shared.listening import Listen
from shared.probes import READYZ
from shared.settings import Settings, SettingsError

_OPEN_FILES: Final = 4 * MAX_CONNECTIONS
"""Most open files of a process: room to accept connections beyond the bound and to answer them 503."""

log: Final = logging.getLogger("svc.serving")


class Config(uvicorn.Config):
    """The configuration of the web server, which each of its processes gets as a copy.

    A process of several is a new interpreter, and knows nothing else of what was configured here.
    """

    def __init__(self, application: str, chosen: Settings, *, workers: int) -> None:
        """Take the application factory and the settings."""
        self._log_format = chosen.log_format
        super().__init__(
            application,
            factory=True,
            http=BoundedHeads,
            ws="none",
            workers=workers,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=bool(chosen.trusted_proxies),
            forwarded_allow_ips=list(chosen.trusted_proxies),
            timeout_graceful_shutdown=5,
        )

    def configure_logging(self) -> None:
        """Configure the log of this process; the web server calls it in each."""
        super().configure_logging()
        log_lines.configure(self._log_format, str(self.app).partition(".")[0])


def serve(
    application: str,
    chosen: Settings,
    role_urls: dict[str, str],
    listen: Listen,
    *,
    metrics_listen: Listen,
    public: tuple[str, str],
    workers: int,
) -> None:
    """Run the application factory ``application`` ("module:function") until a signal ends it.

    They answer with their metrics at ``metrics_listen``, if it has an address.
    Its processes get the settings of ``chosen`` and the URLs of their own roles in their environment, but
    never the owner's. ``public`` is the setting of its public address, and the address. Raises
    AddressError, and SettingsError if they have the keys of the worker.
    """
    if chosen.sealing_private_keys:
        raise SettingsError(
            "SVC_SEALING_PRIVATE_KEYS is set: it is for the worker alone, so that no server can open the"
            " secrets of connections; start this one with SVC_SEALING_PUBLIC_KEY instead"
        )
    storage.check_setting(chosen)
    if not chosen.trusted_proxies:
        listening.check_served(*public, listen)
    sockets = listening.bind(listen)
    metrics.check(metrics_listen, workers)
    os.environ.update(settings.environment(replace(chosen, processes=workers), role_urls))
    for name in ("DATABASE_URL", "DATABASE_URL_FILE"):
        os.environ.pop(name, None)
    config = Config(application, chosen, workers=workers)
    _raise_file_limit()
    # This only prints a warning: a pooler may serve so many connections with fewer of its own.
    needed = {role: workers * chosen.connections[role] for role in role_urls}
    for line in database.connection_shortages(role_urls, needed):
        log.warning("%s", line)
    if chosen.lifeline is not None:
        lifeline.watch(chosen.lifeline)
    reachable = [
        (host, address.port) for address in listen.addresses for host in address.reachable_hosts
    ]
    readiness.send_ready_once_answered(chosen.notify_socket, reachable, READYZ)
    if workers > 1:
        several = _Servers(config, sockets=sockets)
        several.notify_socket = chosen.notify_socket
        several.run()
    else:
        server = _Server(config)
        server.notify_socket = chosen.notify_socket
        server.run(sockets=sockets)


class _Server(uvicorn.Server):
    """A server in this process, which says that it stops when a signal ends it."""

    notify_socket: str | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop."""
        readiness.send(self.notify_socket, readiness.STOPPING)
        super().handle_exit(sig, frame)


class _Servers(Multiprocess):
    """The parent of several servers, which says that they stop when a signal ends it."""

    notify_socket: str | None = None

    def terminate_all(self) -> None:
        """Begin to stop."""
        readiness.send(self.notify_socket, readiness.STOPPING)
        super().terminate_all()


def _raise_file_limit() -> None:
    """Allow this process and its workers more open files, as far as the system permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _OPEN_FILES:
        wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

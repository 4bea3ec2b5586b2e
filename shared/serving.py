"""Runs one of the two applications in one or more worker processes (uvicorn)."""

import asyncio
import logging
import os
import resource
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Any, Final

import uvicorn
from uvicorn.supervisors import Multiprocess

from shared import database, lifeline, listening, log_lines, metrics, readiness, settings, storage
from shared.draining import Drain
from shared.heads import MAX_CONNECTIONS, BoundedHeads
from shared.listening import Listen
from shared.probes import READYZ
from shared.settings import Settings, SettingsError

_OPEN_FILES: Final = 4 * MAX_CONNECTIONS
"""Most open files of a process: room to accept connections beyond the bound and to answer them 503."""
_LEAST_FINISH_S: Final = 5
"""How long a process without a drain waits for running requests: an operator waits at the terminal."""

log: Final = logging.getLogger("svc.serving")


class Config(uvicorn.Config):
    """The configuration of the web server, which each of its processes gets as a copy.

    A process of several is a new interpreter, and knows nothing else of what was configured here. Each loads
    the application by itself, in its main thread and with its event loop running, after the web server has
    installed its own handlers of signals.
    """

    def __init__(self, application: str, chosen: Settings, *, workers: int) -> None:
        """Take the application factory and the settings."""
        self._log_format = chosen.log_format
        self.drain_s = chosen.drain_s
        self.drain = Drain(waits=chosen.drain_s > 0)
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
            timeout_graceful_shutdown=max(_LEAST_FINISH_S, chosen.drain_s),
            # A new process must answer within this time, or the replacement of all is broken off.
            timeout_worker_healthcheck=30,
        )

    def configure_logging(self) -> None:
        """Configure the log of this process; the web server calls it in each."""
        super().configure_logging()
        log_lines.configure(self._log_format, str(self.app).partition(".")[0])

    def load(self) -> None:
        """Load the application, and put the drain before the web server's stop."""
        super().load()
        # uvicorn's own handler; without it, another program runs the server and ends it otherwise.
        stop = signal.getsignal(signal.SIGTERM)
        if callable(stop):
            begin = partial(self._begin, asyncio.get_running_loop(), stop)
            signal.signal(signal.SIGTERM, begin)

    def _begin(
        self,
        loop: asyncio.AbstractEventLoop,
        stop: Callable[[int, FrameType | None], Any],
        number: int,
        frame: FrameType | None,
    ) -> None:
        is_second, self.drain.is_on = self.drain.is_on, True
        if is_second or self.drain_s == 0:
            stop(number, frame)
            return
        log.info("process %d stops in %d s: /readyz answers 503", os.getpid(), self.drain_s)
        # A handler of a signal may interrupt the loop anywhere, so it may call nothing else of it.
        loop.call_soon_threadsafe(loop.call_later, self.drain_s, stop, number, None)


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
    sockets = listening.bind(listen)
    if not chosen.trusted_proxies:
        listening.check_served(*public, listen)
    metrics.check(metrics_listen, workers)
    os.environ.update(settings.environment(replace(chosen, processes=workers), role_urls))
    for name in ("DATABASE_URL", "DATABASE_URL_FILE"):
        os.environ.pop(name, None)
    config = Config(application, chosen, workers=workers)
    _raise_file_limit()
    # This only prints a warning: a pooler may serve so many connections with fewer of its own.
    needed = {role: workers * chosen.connections[role] for role in role_urls}
    urls = dict(role_urls)
    if "reader" in role_urls and (replica := database.replica_login(chosen)) is not None:
        urls["replica"], needed["replica"] = replica, workers * chosen.connections_of_replica
    for line in database.connection_shortages(urls, needed):
        log.warning("%s", line)
    if chosen.lifeline is not None:
        lifeline.watch(chosen.lifeline)
    reachable = [
        (host, address.port) for address in listen.addresses for host in address.reachable_hosts
    ]
    readiness.send_ready_once_answered(chosen.notify_socket, reachable, READYZ)
    if workers > 1:
        several = _Workers(config, sockets=sockets)
        several.notify_socket = chosen.notify_socket
        several.run()
    else:
        server = _Server(config)
        server.notify_socket = chosen.notify_socket
        server.run(sockets=sockets)


class _Server(uvicorn.Server):
    """The web server, which refuses no connection that the system has accepted for it.

    It tells a service manager that it stops when a signal ends it.
    """

    notify_socket: str | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop."""
        readiness.send(self.notify_socket, readiness.STOPPING)
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, finish what runs, and stop."""
        # Closing a socket resets the connections that wait at it, and a client that has sent its request by
        # then cannot know whether it was executed. Between the last look and the close, nothing else runs.
        for listener in sockets or ():
            # Other errors than that none waits, such as too many open files, must not keep the server from
            # stopping.
            with suppress(OSError):
                while True:
                    try:
                        accepted, _ = listener.accept()
                    except ConnectionAbortedError:
                        # The client has gone; behind it others may wait.
                        continue
                    accepted.setblocking(False)
                    await asyncio.get_running_loop().connect_accepted_socket(
                        self._protocol, accepted
                    )
        await super().shutdown(sockets)

    def _protocol(self) -> BoundedHeads:
        return BoundedHeads(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )


class _Workers(Multiprocess):
    """Several processes on the same sockets; SIGHUP replaces them one after the other.

    Their parent tells a service manager that they stop when a signal ends it.
    """

    notify_socket: str | None = None

    def terminate_all(self) -> None:
        """Have all processes drain and stop."""
        readiness.send(self.notify_socket, readiness.STOPPING)
        # While this process holds the sockets, connections still arrive that nobody accepts any more.
        for each in self.sockets:
            each.close()
        super().terminate_all()


def _raise_file_limit() -> None:
    """Allow this process and its workers more open files, as far as the system permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _OPEN_FILES:
        wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

"""Runs one of the two applications: sockets on every address its name stands for, one or more workers."""

import errno
import os
import signal
import socket
import threading
from contextlib import ExitStack
from typing import Final
from urllib.parse import urlsplit

import uvicorn
from uvicorn.supervisors import Multiprocess

from shared import settings, web
from shared.settings import Settings

LOOPBACK: Final = ("127.0.0.1", "::1")
"""``localhost`` may mean either, and browsers try both."""

_NO_SUCH_ADDRESS: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


class AddressError(Exception):
    """An address that cannot be listened on; the message is one line that names it."""


def port_of(url: str) -> int:
    """Return the port that an http(s) address stands for."""
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def bind(hosts: tuple[str, ...], port: int) -> list[socket.socket]:
    """Return a bound socket for ``port`` on each of ``hosts`` that this machine has.

    Raises AddressError where a port is taken or not ours to take, or no host is left.
    """
    with ExitStack() as unwind:
        sockets = []
        for host in hosts:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            try:
                listener = socket.socket(family, socket.SOCK_STREAM)
                unwind.callback(listener.close)
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listener.bind((host, port))
            except OSError as error:
                if error.errno in _NO_SUCH_ADDRESS and len(hosts) > 1:
                    continue
                raise AddressError(
                    f"cannot listen on {host} port {port}: {error.strerror}"
                ) from error
            sockets.append(listener)
        if not sockets:
            raise AddressError(f"cannot listen on port {port}: no such address on this machine")
        unwind.pop_all()
        return sockets


def serve(
    application: str,
    chosen: Settings,
    role_urls: dict[str, str],
    *,
    hosts: tuple[str, ...],
    port: int,
    workers: int,
) -> None:
    """Run the application factory ``application`` ("module:function") until a signal ends it.

    Its processes find in their environment what ``chosen`` says and the URLs of their own roles, and
    never the owner's. Raises AddressError.
    """
    sockets = bind(hosts, port)
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
        threading.Thread(target=_end_with_runner, args=(chosen.lifeline,), daemon=True).start()
    if workers > 1:
        Multiprocess(config, sockets=sockets).run()
    else:
        server.run(sockets=sockets)


def _end_with_runner(lifeline: int) -> None:
    """Wait until the runner's end of the pipe closes, however it died, and then stop."""
    while os.read(lifeline, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)

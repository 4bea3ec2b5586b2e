"""The way back from the browser: a port of this machine to which the authorization server sends it.

    browser ──► GET http://127.0.0.1:PORT/callback?code&state&iss ──► a small page; the code for the command

A browser on another machine cannot reach this port. The person may then paste the address on which that
browser ends. Everybody on this machine can send requests to the port, so only one with the right ``state``
counts.
"""

import os
import secrets
import select
import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, Self
from urllib.parse import parse_qsl, urlsplit

_PATH: Final = "/callback"
_LONGEST_ADDRESS: Final = 16 * 1024
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>svc</title>
<meta name="viewport" content="width=device-width"></head>
<body><h1>{title}</h1><p>{text}</p></body></html>
"""


@dataclass(frozen=True)
class Return:
    """What the browser brought: a code, or why there is none."""

    code: str | None
    error: str | None = None
    description: str | None = None


class Callback:
    """Listens from its creation on. It is a context, whose end closes the port."""

    def __init__(self, state: str, issuer: str, *, is_issuer_named: bool) -> None:
        """Bind a free port and answer on it. Raises OSError."""
        self.state = state
        self.issuer = issuer
        self.is_issuer_named = is_issuer_named
        self._returned: Return | None = None
        self._ours, self._theirs = socket.socketpair()
        callback = self

        class Handler(_Handler):
            owner = callback

        self._server = _Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        """The port."""
        return self._server.server_port

    @property
    def redirect_uri(self) -> str:
        """The address to which the browser is to return."""
        return f"http://127.0.0.1:{self.port}{_PATH}"

    def __enter__(self) -> Self:
        """Return this callback."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the port."""
        self._server.shutdown()
        self._server.server_close()
        self._ours.close()
        self._theirs.close()

    def take(self, query: str) -> Return | None:
        """Return what an address with this query brings, or None if it is not for this attempt."""
        given = parse_qsl(query, keep_blank_values=True)
        values = dict(given)
        is_ours = len(values) == len(given) and secrets.compare_digest(
            values.get("state", "").encode(), self.state.encode()
        )
        if not is_ours or self._returned is not None:
            return None
        # The answer of another authorization server must not be redeemed at this one (RFC 9207).
        issuer = values.get("iss")
        if issuer != self.issuer and (issuer is not None or self.is_issuer_named):
            return Return(None, "wrong_issuer", "the answer names another authorization server")
        if "error" in values:
            return Return(None, values["error"], values.get("error_description"))
        return Return(values["code"]) if values.get("code") else None

    def end(self, returned: Return) -> None:
        """Hand ``returned`` to the waiting command; only the first counts."""
        if self._returned is None:
            self._returned = returned
            self._theirs.send(b"!")

    def wait(self, limit_s: float) -> Return | None:
        """Return what the browser or the person brings, or None after ``limit_s``."""
        until = time.monotonic() + limit_s
        sources = [self._ours.fileno()]
        if sys.stdin.isatty():
            sources.append(sys.stdin.fileno())
        while self._returned is None:
            ready, _, _ = select.select(sources, [], [], max(0, until - time.monotonic()))
            if not ready:
                return None
            if self._ours.fileno() in ready:
                self._ours.recv(1)
            elif not self._read_line(sys.stdin.fileno()):
                sources.pop()
        return self._returned

    def _read_line(self, terminal: int) -> bool:
        """Take an address that the person has pasted; return whether more can come."""
        line = os.read(terminal, _LONGEST_ADDRESS)
        try:
            query = urlsplit(line.decode().strip()).query
        except ValueError:
            query = ""
        returned = self.take(query)
        if returned is not None:
            self.end(returned)
        elif line.strip():
            message = f"This is not it: the address begins with {self.redirect_uri}?\n"
            sys.stderr.write(message)
        return bool(line)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Print nothing about browsers that close their connections."""


class _Handler(BaseHTTPRequestHandler):
    owner: Callback
    timeout = 10
    """Browsers open connections that they do not use."""

    def do_GET(self) -> None:
        """Answer the browser with a page, then end the wait of the command."""
        parts = urlsplit(self.path)
        if parts.path != _PATH:
            self._answer(404, "Not found", "The command waits at another address.")
            return
        returned = self.owner.take(parts.query)
        if returned is None:
            self._answer(400, "Not signed in", "This answer belongs to another attempt.")
            return
        if returned.code is None:
            page = ("Not signed in", "The terminal says why. You may close this tab.")
        else:
            page = ("Back to the terminal", "The command goes on there. You may close this tab.")
        # A browser that is gone by now has still brought the code.
        with suppress(OSError):
            self._answer(200, *page)
        self.owner.end(returned)

    def _answer(self, status: int, title: str, text: str) -> None:
        page = _PAGE.format(title=title, text=text).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.send_header("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 -- the library's
        """Log nothing: the address has the code."""

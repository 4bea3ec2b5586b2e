"""Requests of the checks: one connection each, without redirects, and with what TLS says about the server."""

import http.client
import json
import ssl
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

TIMEOUT_S: Final = 10.0
_MOST_BYTES: Final = 4 * 2**20


@dataclass(frozen=True)
class Reply:
    """An answer, and what its connection says of both ends."""

    status: int
    headers: Mapping[str, str]
    """By name in lower case."""
    body: bytes
    own_address: str
    """The address from which this machine connected."""
    certificate: tuple[datetime, datetime] | None = None
    """The moments from which and until which it is valid."""
    tls_version: str | None = None

    def json(self) -> Any:
        """Return the body as JSON; None if it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


@dataclass(frozen=True)
class Site:
    """An origin: scheme, name and port."""

    url: str
    timeout_s: float = TIMEOUT_S

    @property
    def is_https(self) -> bool:
        """Whether connections are secured."""
        return self.url.startswith("https://")

    @property
    def host(self) -> str:
        """The name, without the port."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """The port."""
        return urlsplit(self.url).port or (443 if self.is_https else 80)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return self.host in ("localhost", "127.0.0.1", "::1")

    def ask(
        self,
        path: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Reply:
        """Send a request and return its answer. Raises OSError and HTTPException."""
        connection = (
            http.client.HTTPSConnection(
                self.host, self.port, timeout=self.timeout_s, context=ssl.create_default_context()
            )
            if self.is_https
            else http.client.HTTPConnection(self.host, self.port, timeout=self.timeout_s)
        )
        with closing(connection):
            connection.connect()
            channel = connection.sock
            own_address = channel.getsockname()[0]
            certificate, version = (
                _tls(channel) if isinstance(channel, ssl.SSLSocket) else (None, None)
            )
            # Written out, because a check announces more than it sends.
            connection.putrequest(method, path, skip_accept_encoding=True)
            for name, value in {"Connection": "close", **(headers or {})}.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            return Reply(
                answer.status,
                {name.lower(): value for name, value in answer.getheaders()},
                answer.read(_MOST_BYTES),
                own_address,
                certificate,
                version,
            )


def _tls(channel: ssl.SSLSocket) -> tuple[tuple[datetime, datetime], str | None]:
    certificate = channel.getpeercert() or {}
    begins_at, ends_at = (
        datetime.fromtimestamp(ssl.cert_time_to_seconds(str(certificate[name])), UTC)
        for name in ("notBefore", "notAfter")
    )
    return (begins_at, ends_at), channel.version()

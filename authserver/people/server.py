"""The part of a server that signing in needs, as a protocol.

``authserver.web.server.Server`` implements it. With the protocol, this package does not import that module
and its page renderer: commands about accounts start half a second faster without them.
"""

from typing import Protocol

from authserver.people.passwords import Hasher
from authserver.people.sessions import Signer
from authserver.people.throttle import Throttle
from authserver.rows import Database


class Server(Protocol):
    """The attributes of a server that functions about accounts and passkeys read."""

    @property
    def database(self) -> Database:
        """The database connections that requests share."""

    @property
    def hasher(self) -> Hasher:
        """Hashes and verifies passwords."""

    @property
    def signer(self) -> Signer:
        """Signs cookies and forms."""

    @property
    def throttle(self) -> Throttle:
        """Limits the rate of attempts."""

    @property
    def provider_issuer(self) -> str | None:
        """The issuer of the identity provider, if one is configured."""

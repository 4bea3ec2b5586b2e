"""The part of a server that signing in needs.

``authserver.web.server.Server`` has it. It is stated here so that this room need not know that one, which
renders pages: commands about accounts start half a second sooner without them.
"""

from typing import Protocol

from authserver.people.passwords import Hasher
from authserver.people.sessions import Signer
from authserver.people.throttle import Throttle
from authserver.rows import Database


class Server(Protocol):
    """What functions about accounts and passkeys read of a server."""

    @property
    def database(self) -> Database:
        """The connections that requests share."""

    @property
    def hasher(self) -> Hasher:
        """How passwords are hashed."""

    @property
    def signer(self) -> Signer:
        """How cookies and forms are signed."""

    @property
    def throttle(self) -> Throttle:
        """How often somebody may try."""

    @property
    def provider_issuer(self) -> str | None:
        """Whose identities people may sign in with, if there is a provider."""

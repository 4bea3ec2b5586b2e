"""What sign-ins at the provider consist of, apart from its client.

A deployment without a provider never imports ``authserver.people.provider``: an HTTP client and signed tokens
take 5 MiB of each process.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

from shared.settings import Settings

if TYPE_CHECKING:
    from authserver.people.provider import Provider

CALLBACK: Final = "/sign-in/provider/callback"


class ProviderFailed(Exception):
    """The provider's response cannot be used to sign in. The text is for the log."""


class ProviderDown(ProviderFailed):
    """The provider does not respond, or responds that it is unavailable."""


@dataclass(frozen=True)
class Attempt:
    """The parameters of one sign-in at the provider. ``nonce`` and ``code_verifier`` are secrets at first."""

    state: str = field(repr=False)
    nonce: str = field(repr=False)
    code_verifier: str = field(repr=False)
    code_challenge: str
    must_reauthenticate: bool = False
    """Whether the provider has to authenticate the person again."""


@dataclass(frozen=True)
class Proof:
    """The identity that the provider confirmed."""

    issuer: str
    subject: str
    email: str | None
    is_email_verified: bool
    authenticated_at: datetime | None
    """When the provider last authenticated the person, by its own clock; None if unknown."""
    session_hash: bytes | None = field(default=None, repr=False)
    """The hash of the session at the provider; None if the provider did not name it."""


@dataclass(frozen=True)
class Logout:
    """A logout that the provider announces, with a subject, a session, or both."""

    issuer: str
    subject: str | None
    session_hash: bytes | None = field(repr=False)
    logout_hash: bytes = field(repr=False)
    """The hash of the announcement's id."""


def provider(chosen: Settings) -> "Provider | None":
    """Return the client for the provider of a deployment, or None."""
    if chosen.provider is None:
        return None
    from authserver.people.provider import Provider  # noqa: PLC0415 -- see the docstring of the module

    return Provider(chosen.provider, f"{chosen.auth_url}{CALLBACK}")

"""The lineage of refresh tokens: each names its grant, under a signature.

    secret part of a token     8 bytes    16 bytes    8 bytes
                               grant id   random      signature of the user and both

The first token of a grant takes the first 8 bytes of the grant's id from the code, each further one from the
token that it replaces. So a replayed token of which the row was deleted still leads to its grant: it is
signed, and no current one. The signature gives access to nothing; a token is current only by its row.

Tokens from before this format are random, and their rows remain until they would have expired.
"""

import hmac
import secrets
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from shared import settings, tokens
from shared.settings import Settings
from shared.tokens import Token

_NAME_BYTES: Final = 8
_SIGNED_BYTES: Final = 24


@dataclass(frozen=True)
class GrantRange:
    """The ids that begin with the 8 bytes by which a token names its grant.

    At most one grant of a person is in this range.
    """

    first_grant_id: UUID
    last_grant_id: UUID

    @property
    def name(self) -> bytes:
        """The 8 bytes."""
        return self.first_grant_id.bytes[:_NAME_BYTES]


@dataclass(frozen=True)
class Lineage:
    """Mints refresh tokens that name their grant, and recognises them."""

    key: bytes = field(repr=False)

    def mint(self, user_id: UUID, grant: GrantRange) -> Token:
        """Return a new refresh token of a grant."""
        signed = grant.name + secrets.token_bytes(_SIGNED_BYTES - _NAME_BYTES)
        return tokens.mint(tokens.REFRESH, user_id, signed + self._signature(user_id, signed))

    def grant_of(self, token: Token) -> GrantRange | None:
        """Return the grant that a refresh token names, or None for a token that is not signed."""
        signed, signature = token.secret[:_SIGNED_BYTES], token.secret[_SIGNED_BYTES:]
        if not hmac.compare_digest(self._signature(token.user_id, signed), signature):
            return None
        return _range(signed)

    def _signature(self, user_id: UUID, signed: bytes) -> bytes:
        return hmac.digest(self.key, user_id.bytes + signed, "sha256")[: 32 - _SIGNED_BYTES]


def mint_code(user_id: UUID, grant_id: UUID) -> Token:
    """Return a new code, which names its grant too; it needs no signature, since its row is kept."""
    random = secrets.token_bytes(32 - _NAME_BYTES)
    return tokens.mint(tokens.CODE, user_id, grant_id.bytes[:_NAME_BYTES] + random)


def range_of_code(code: Token) -> GrantRange:
    """Return the grant that a code names."""
    return _range(code.secret)


def range_of_grant(grant_id: UUID) -> GrantRange:
    """Return the range in which a grant's id lies."""
    return _range(grant_id.bytes)


def lineage(chosen: Settings) -> Lineage:
    """Return the lineage of a deployment. Raises SettingsError if it has no signing key."""
    return Lineage(
        hmac.digest(settings.signing_key(chosen).encode(), b"svc refresh token", "sha256")
    )


def _range(name: bytes) -> GrantRange:
    rest = 16 - _NAME_BYTES
    return GrantRange(
        UUID(bytes=name[:_NAME_BYTES] + bytes(rest)),
        UUID(bytes=name[:_NAME_BYTES] + b"\xff" * rest),
    )

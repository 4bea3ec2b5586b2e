"""Answers to refreshes, sealed so that a client that has lost one can get it again by the same request.

A client whose connection breaks after a refresh was carried out has only the rotated refresh token, and
presenting it would revoke its grant. With SVC_REFRESH_RETRY_SECONDS it can repeat the refresh for a short
time:

    refresh ──► answer, and its sealed copy ──same refresh, by the same client──► the same answer
                       │
                       └── first use of a new token, revocation, end of the time ──► erased

The key is derived from the presented token, of which the database has only a hash, so nobody can open what
the database holds. The associated data are the other parameters of the request: another refresh opens
nothing.
"""

import json
import os
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from shared import tokens
from shared.tokens import Token

_PURPOSE: Final = b"refresh-retry"
_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12

Parameters = tuple[str, tuple[str, ...] | None, str | None]
"""Client id, scopes and resource of a refresh request."""


def seal(
    presented: Token, parameters: Parameters, access_token: Token, refresh_token: Token
) -> bytes:
    """Return the sealed pair of tokens that replaces the ``presented`` refresh token."""
    nonce = os.urandom(_NONCE_BYTES)
    pair = f"{access_token.text} {refresh_token.text}".encode()
    return nonce + _cipher(presented).encrypt(nonce, pair, _associated(parameters))


def unseal(presented: Token, parameters: Parameters, sealed: bytes) -> tuple[Token, Token] | None:
    """Return access and refresh token of a sealed answer, or None if this is not the same refresh."""
    nonce, encrypted = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
    try:
        pair = _cipher(presented).decrypt(nonce, encrypted, _associated(parameters)).decode()
    except InvalidTag:
        return None
    access_text, _, refresh_text = pair.partition(" ")
    access_token = tokens.parse(tokens.ACCESS, access_text)
    refresh_token = tokens.parse(tokens.REFRESH, refresh_text)
    if access_token is None or refresh_token is None:
        return None
    return access_token, refresh_token


def _cipher(presented: Token) -> AESGCM:
    derivation = HKDF(SHA256(), _KEY_BYTES, salt=None, info=_PURPOSE)
    return AESGCM(derivation.derive(presented.text.encode("ascii")))


def _associated(parameters: Parameters) -> bytes:
    return json.dumps(parameters).encode()

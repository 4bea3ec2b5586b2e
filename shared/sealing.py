"""Sealed secrets of connections: every process may seal one, and only the worker can open it.

    version   key encapsulation   ciphertext and tag
    1 byte    32 bytes            256 bytes or a multiple, and 16

Sealing is HPKE (RFC 9180, base mode) with DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and AES-256-GCM. Its
associated data, which RFC 9180 calls ``info``, are the user, the connection and the field: bytes that are
moved to another row do not open there. The text is padded, because the length of a secret says which kind
it is.

The text of a key has the prefix of its half and a checksum. A server would otherwise seal to a mistyped
public key without any error, and nobody could open what it sealed.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable
from typing import Final
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

PUBLIC: Final = "svc_sealing_public_"
PRIVATE: Final = "svc_sealing_private_"
"""Prefixes of the two halves of a key. Changing one makes every key that has it unusable."""

_VERSION: Final = b"\x01"
_SUITE: Final = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
_PURPOSE: Final = b"svc connection secret 1"
_KEY_BYTES: Final = 32
_CHECKSUM_BYTES: Final = 4
_BODY: Final = re.compile(r"[0-9A-Za-z_-]{48}")
_STEP: Final = 256
"""The length of a padded text is a multiple of this."""
_END_OF_TEXT: Final = b"\x80"


class SealingError(Exception):
    """A key or a sealed secret that cannot be used; the docstring is the message, which repeats nothing."""

    def __init__(self) -> None:
        """Use the docstring as the message."""
        super().__init__(self.__doc__)


class NotAKey(SealingError):
    """this is not a key of svc sealing, or it was not copied completely"""


class UnknownKey(SealingError):
    """the secret is sealed to a key that is not among the private keys of this process"""


class NotOpened(SealingError):
    """the sealed secret was changed, or belongs to another user, connection or field"""


def new_private_key() -> str:
    """Return the text of a new private key."""
    return _text(PRIVATE, X25519PrivateKey.generate().private_bytes_raw())


def public_key_of(private: str) -> str:
    """Return the text of the public half of a private key. Raises NotAKey."""
    return _text(PUBLIC, _private_key(private).public_key().public_bytes_raw())


def key_id_of(public: str) -> str:
    """Return the id of a key, which rows store beside what is sealed to it. Raises NotAKey."""
    return hashlib.sha256(_bytes(PUBLIC, public)).hexdigest()[:16]


def seal(
    public: str, text: str, *, user_id: UUID, connection_id: UUID, field: str
) -> tuple[str, bytes]:
    """Return the key's id and the sealed text. Raises NotAKey."""
    key = X25519PublicKey.from_public_bytes(_bytes(PUBLIC, public))
    sealed = _SUITE.encrypt(_padded(text), key, _info(user_id, connection_id, field))
    return key_id_of(public), _VERSION + sealed


class Opener:
    """Opens what is sealed to one of several keys, so that a new key can replace an older one by and by."""

    def __init__(self, private_keys: Iterable[str]) -> None:
        """Take the texts of private keys. Raises NotAKey."""
        self._keys = {key_id_of(public_key_of(each)): _private_key(each) for each in private_keys}

    def open(
        self, key_id: str, sealed: bytes, *, user_id: UUID, connection_id: UUID, field: str
    ) -> str:
        """Return the text. Raises UnknownKey, NotOpened."""
        key = self._keys.get(key_id)
        if key is None:
            raise UnknownKey
        if sealed[:1] != _VERSION:
            raise NotOpened
        try:
            padded = _SUITE.decrypt(sealed[1:], key, _info(user_id, connection_id, field))
            return _without_padding(padded)
        except (InvalidTag, ValueError):
            # The exception of the library could hold a part of the text.
            raise NotOpened from None


def _info(user_id: UUID, connection_id: UUID, field: str) -> bytes:
    # All parts before the last have a fixed length, so no two triples have the same bytes.
    return _PURPOSE + user_id.bytes + connection_id.bytes + field.encode()


def _padded(text: str) -> bytes:
    ended = text.encode() + _END_OF_TEXT
    return ended + bytes(-len(ended) % _STEP)


def _without_padding(padded: bytes) -> str:
    ended = padded.rstrip(b"\0")
    if not ended.endswith(_END_OF_TEXT):
        raise ValueError("no end of text")
    return ended.removesuffix(_END_OF_TEXT).decode()


def _private_key(private: str) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(_bytes(PRIVATE, private))


def _text(prefix: str, key: bytes) -> str:
    return prefix + base64.urlsafe_b64encode(key + _checksum(prefix, key)).decode("ascii")


def _bytes(prefix: str, text: str) -> bytes:
    """Return the bytes of a key from its text. Raises NotAKey."""
    body = text.removeprefix(prefix)
    if not text.startswith(prefix) or _BODY.fullmatch(body) is None:
        raise NotAKey
    try:
        decoded = base64.urlsafe_b64decode(body)
    except binascii.Error:
        raise NotAKey from None
    key, checksum = decoded[:_KEY_BYTES], decoded[_KEY_BYTES:]
    if checksum != _checksum(prefix, key):
        raise NotAKey
    return key


def _checksum(prefix: str, key: bytes) -> bytes:
    return hashlib.sha256(prefix.encode("ascii") + key).digest()[:_CHECKSUM_BYTES]

"""The tokens of both servers: their text, their checksum and their hash.

A token's text is

    prefix + base62(16 bytes of user id) + base62(32 secret bytes) + base62(CRC32 of all before)
    svc_dt_  22 characters                 43 characters             6 characters

The token contains the user id so that its row is found under ``(user_id, hash)`` in one look-up, wherever
that user's rows are stored. It proves nothing by itself: a forged id finds no row. With the checksum a
scanner can recognise a leaked token offline, and a mistyped one causes no query. Only the SHA-256 of the
whole text is stored.

The secret bytes are random, except that those of codes and refresh tokens contain half of their grant's id,
and those of refresh tokens a signature (authserver/lineage.py); at least 16 of them are always random.
"""

import hashlib
import re
import secrets
import zlib
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

ACCESS: Final = "svc_dt_"
"""Access tokens of applications and API tokens. Changing a prefix revokes every token that has it."""
REFRESH: Final = "svc_rt_"
CODE: Final = "svc_ac_"
SESSION: Final = "svc_ss_"
"""The sign-in session in a browser's cookie."""
LINK: Final = "svc_ln_"
"""One-time links, such as the one that creates the first account."""
REQUEST: Final = "svc_rq_"
"""An authorization request that is pending in a browser; useless without that browser's session."""
STATE: Final = "svc_st_"
"""A sign-in at a provider that is pending in a browser; useless without that browser's session."""
UPLOAD: Final = "svc_ut_"
"""Tickets, each for one upload of a file."""
DEVICE: Final = "svc_dc_"
"""What a device presents until its person has decided; it belongs to no account."""
INTEGRATION: Final = "svc_ik_"
"""Keys with which applications send to a connection (shared/keys.py)."""

CLIENT: Final = "svc_client_"
"""Client ids contain no user and no checksum; they are not secret (RFC 6749, section 2.2)."""

_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# Two digits at a time halve the work, and every request encodes or decodes a token.
_PAIRS: Final = tuple(left + right for left in _DIGITS for right in _DIGITS)
_VALUES: Final = {pair: value for value, pair in enumerate(_PAIRS)}
_USER_LENGTH: Final = 22
_SECRET_LENGTH: Final = 43
_CHECKSUM_LENGTH: Final = 6
_BODY_LENGTH: Final = _USER_LENGTH + _SECRET_LENGTH

SCANNER_PATTERN: Final = (
    rf"\bsvc_(?:dt|rt|ac|ss|ln|ut|dc|ik)_[0-9A-Za-z]{{{_BODY_LENGTH + _CHECKSUM_LENGTH}}}\b"
)
"""The pattern for secret scanners; ``parse`` then distinguishes real tokens from similar text."""

NOBODY: Final = UUID(int=0)
"""The user id in tokens that belong to no account yet."""


@dataclass(frozen=True, repr=False)
class Token:
    """A well-formed token. Its text is in no ``repr``, so that no log line can contain it."""

    text: str
    user_id: UUID
    hash: bytes = field(init=False)

    def __post_init__(self) -> None:
        """Derive the hash under which the token is stored."""
        object.__setattr__(self, "hash", hashlib.sha256(self.text.encode("ascii")).digest())

    def __repr__(self) -> str:
        """Name the kind and the owner, never the secret."""
        return f"<Token {self.text[:7]}… of {self.user_id}>"

    @property
    def secret(self) -> bytes:
        """The 32 bytes between the user id and the checksum."""
        digits = self.text[-_CHECKSUM_LENGTH - _SECRET_LENGTH : -_CHECKSUM_LENGTH]
        # Digits that no server made can stand for more than 256 bits.
        return (_number(f"0{digits}") % 2**256).to_bytes(32)

    @property
    def last_four(self) -> str:
        """The last four characters, by which people recognise their tokens."""
        return self.text[-4:]


def mint(prefix: str, user_id: UUID, secret: bytes | None = None) -> Token:
    """Return a new token of ``user_id``, with 256 random bits or with these 32 bytes."""
    number = secrets.randbits(256) if secret is None else int.from_bytes(secret)
    body = prefix + _base62(user_id.int, _USER_LENGTH) + _base62(number, _SECRET_LENGTH)
    return Token(body + _checksum(body), user_id)


def parse(prefix: str, text: str) -> Token | None:
    """Return the token in ``text``, or None if prefix, length, alphabet or checksum is wrong."""
    body = text[:-_CHECKSUM_LENGTH]
    if (
        len(body) != len(prefix) + _BODY_LENGTH
        or not body.startswith(prefix)
        or not (body.isascii() and body[len(prefix) :].isalnum())
        or text[-_CHECKSUM_LENGTH:] != _checksum(body)
    ):
        return None
    number = _number(body[len(prefix) : len(prefix) + _USER_LENGTH])
    # 22 digits can stand for numbers above 128 bits, which are no user ids.
    return Token(text, UUID(int=number)) if number < 2**128 else None


def mint_client_id() -> str:
    """Return a new random client id; 128 bits make it unique."""
    return CLIENT + _base62(secrets.randbits(128), _USER_LENGTH)


_CLIENT_ID = re.compile(rf"{CLIENT}[0-9A-Za-z]{{{_USER_LENGTH}}}")


def is_client_id(text: str) -> bool:
    """Tell whether ``text`` has the form of a client id of this service."""
    return _CLIENT_ID.fullmatch(text) is not None


def _checksum(body: str) -> str:
    return _base62(zlib.crc32(body.encode("ascii")), _CHECKSUM_LENGTH)


def _number(digits: str) -> int:
    """Return the number that an even number of digits stands for."""
    number = 0
    for start in range(0, len(digits), 2):
        number = number * len(_PAIRS) + _VALUES[digits[start : start + 2]]
    return number


def _base62(number: int, length: int) -> str:
    """Return ``number``, which must fit, in ``length`` digits."""
    pairs = []
    for _ in range(0, length, 2):
        number, pair = divmod(number, len(_PAIRS))
        pairs.append(_PAIRS[pair])
    return "".join(reversed(pairs))[-length:]

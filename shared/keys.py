"""The keys of connections: what an application sends to say whose records it brings.

A key belongs to one connection, is shown once and stored as its SHA-256. It has one of two shapes: that of
our tokens (``shared.tokens``), or a UUID of version 4, since WakaTime's applications send nothing before
they have checked that theirs is one. Its 122 random bits are enough, and the hash alone finds the row.
"""

import hashlib
import re
import uuid
from typing import Final
from uuid import UUID

from shared import tokens
from shared.connections import Kind

_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_WAKATIME_PREFIX: Final = "waka_"


def new(kind: Kind, user_id: UUID) -> str:
    """Return a new key for a connection of ``kind``, which must have one."""
    if kind.key == "uuid":
        return str(uuid.uuid4())
    return tokens.mint(tokens.INTEGRATION, user_id).text


def hash_of(text: str) -> bytes | None:
    """Return the hash under which a key is stored, or None if ``text`` has the shape of none.

    Letters of a UUID may be large, and it may have WakaTime's prefix.
    """
    token = tokens.parse(tokens.INTEGRATION, text)
    if token is not None:
        return token.hash
    lowered = text.lower().removeprefix(_WAKATIME_PREFIX)
    if _UUID.fullmatch(lowered) is None:
        return None
    return hashlib.sha256(lowered.encode("ascii")).digest()
